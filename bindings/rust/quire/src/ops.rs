//! What ops can do beside the plain case: options of appending and of attention, plans made ahead, inputs of state updates.

use crate::batch::Batch;
use crate::error::{call, zeroed, Code, Error, Refused, Result};
use crate::memory::{DeviceTensor, PagedKv, Stream};
use crate::model::Layer;
use crate::view::{View, ViewMut};
use quire_sys as sys;

/// What [`crate::Queue::kv_append_with`] does beside writing rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct AppendOptions<'env> {
    /// Keys are rotated on their way; `None` = no rope.
    pub rope: Option<Rope<'env>>,
    /// Quantised caches store value / scale; 0 = 1.
    pub scale_k: f32,
    /// Quantised caches store value / scale; 0 = 1.
    pub scale_v: f32,
}

/// Rotary position embedding by tables.
#[derive(Debug, Clone, Copy)]
pub struct Rope<'env> {
    /// `[positions, dim / 2]`.
    pub cos: &'env [f32],
    /// `[positions, dim / 2]`.
    pub sin: &'env [f32],
    /// Elements of a head that are rotated, from the first on.
    pub dim: u32,
    /// Pairs are neighbours, instead of halves.
    pub interleaved: bool,
}

impl AppendOptions<'_> {
    /// Writes them into an op, where the tables reach the batch's positions.
    pub(crate) fn write(&self, batch: &Batch, op: &mut sys::quire_kv_append) -> Result<()> {
        op.scale_k = self.scale_k;
        op.scale_v = self.scale_v;
        let rope = match &self.rope {
            None => return Ok(()),
            Some(rope) => rope,
        };
        let group = batch.group(op.kv.group)?;
        if group.num_slots != u64::from(group.num_tokens) {
            return Err(Error::invalid("rope: keys of cross attention have no positions"));
        }
        let rows = batch.positions().iter().copied().max().map_or(0, |position| i64::from(position) + 1);
        let half = i64::from(rope.dim / 2);
        for (table, name) in [(rope.cos, "rope.cos"), (rope.sin, "rope.sin")] {
            if (table.len() as i64) < rows * half {
                let message = format!("{} has {} numbers, {} positions of {} are read", name, table.len(), rows, half);
                return Err(Error::new(Code::OutOfRange, message));
            }
        }
        op.rope_cos = rope.cos.as_ptr();
        op.rope_sin = rope.sin.as_ptr();
        op.rope_dim = rope.dim;
        op.rope_interleaved = u32::from(rope.interleaved);
        Ok(())
    }
}

/// Which keys each query token sees, bit by bit: for trees of drafts.
#[derive(Debug, Clone, Copy)]
pub struct TreeMask<'env> {
    /// Bit b is bit `b % 8` of byte `b / 8`; set = seen.
    pub bits: &'env [u8],
    /// `[rows + 1]`: the first bit of each row's `[query tokens, kv_len]`, and where the last row's end.
    pub indptr: &'env [i64],
}

impl TreeMask<'_> {
    fn write(&self, batch: &Batch, op: &mut sys::quire_attention) -> Result<()> {
        let wrong = |message: String| Err(Error::new(Code::OutOfRange, message));
        if self.indptr.len() <= batch.rows() {
            return wrong(format!("mask.indptr has {} numbers, {} rows need one more than they are", self.indptr.len(), batch.rows()));
        }
        let kv_len = batch.ints(batch.group(op.kv.group)?.kv_len, batch.rows());
        for (row, offsets) in batch.query_indptr().windows(2).enumerate() {
            let tokens = i64::from(offsets[1]) - i64::from(offsets[0]);
            let end = self.indptr[row].checked_add(tokens * i64::from(kv_len[row]));
            if self.indptr[row] < 0 || end.map_or(true, |end| (end as u64 + 7) / 8 > self.bits.len() as u64) {
                let bits = self.bits.len() as u128 * 8;
                return wrong(format!("mask.indptr[{}] is {}: the row's bits leave the mask's {}", row, self.indptr[row], bits));
            }
        }
        op.mask_bits = self.bits.as_ptr();
        op.mask_indptr = self.indptr.as_ptr();
        Ok(())
    }
}

/// The work of one step's attention, shared out ahead by [`Stream::plan_attention`] for every layer of the same head shape and options.
#[derive(Debug, Clone)]
pub struct AttentionPlan(Vec<u64>);

/// Memory for partial results of attention, which ops of one stream use one after another.
#[derive(Debug)]
pub struct Workspace {
    tensor: DeviceTensor,
    bytes: u64,
    stream: usize,
}

impl Workspace {
    /// Makes one of a dense tensor, for ops of `stream` alone.
    ///
    /// # Errors
    /// The tensor, and `InvalidArgument` (another device, not dense), `PermissionDenied`.
    #[allow(clippy::result_large_err)] // it holds the tensor
    pub fn new(stream: &Stream, tensor: DeviceTensor) -> std::result::Result<Workspace, Refused<DeviceTensor>> {
        let place = tensor.buffer().place().check("workspace", stream.place());
        match place.and_then(|()| tensor.check_writable()).and_then(|()| tensor.dense_bytes()) {
            Ok(bytes) => Ok(Workspace { tensor, bytes, stream: stream.raw() as usize }),
            Err(error) => Err(Refused { error, given: tensor }),
        }
    }

    /// The tensor again.
    #[must_use]
    pub fn into_tensor(self) -> DeviceTensor {
        self.tensor
    }
}

/// How attention looks at keys; the default is causal and everything else absent.
#[derive(Debug, Clone, Copy)]
pub struct AttentionOptions<'env> {
    /// Query i sees keys at positions up to its own.
    pub causal: bool,
    /// Results do not depend on what else is in the batch.
    pub batch_invariant: bool,
    /// Of the logits; 0 = 1 / sqrt(head_dim_k).
    pub scale: f32,
    /// 0 = none.
    pub softcap: f32,
    /// 0 = none; tokens seen, the own one included.
    pub window: u32,
    /// First tokens always seen (with window).
    pub sink_tokens: u32,
    /// 0 = none; only keys with the same position / chunk.
    pub chunk: u32,
    /// Quantised caches; 0 = 1.
    pub scale_k: f32,
    /// Quantised caches; 0 = 1.
    pub scale_v: f32,
    /// One-sided caches: width of V inside K's row.
    pub head_dim_v: u32,
    /// One extra logit per query head.
    pub sink_logits: Option<&'env [f32]>,
    /// One slope per query head.
    pub alibi_slopes: Option<&'env [f32]>,
    /// What is seen beside what `causal` says.
    pub mask: Option<TreeMask<'env>>,
    /// Made ahead for this step; `None` = planned inside the call.
    pub plan: Option<&'env AttentionPlan>,
    /// Memory for partial results; `None` = the driver's own (CPU only).
    pub workspace: Option<&'env Workspace>,
}

impl Default for AttentionOptions<'_> {
    fn default() -> Self {
        AttentionOptions {
            causal: true,
            batch_invariant: false,
            scale: 0.0,
            softcap: 0.0,
            window: 0,
            sink_tokens: 0,
            chunk: 0,
            scale_k: 0.0,
            scale_v: 0.0,
            head_dim_v: 0,
            sink_logits: None,
            alibi_slopes: None,
            mask: None,
            plan: None,
            workspace: None,
        }
    }
}

impl AttentionOptions<'_> {
    /// What a layer says of its attention: `causal`, `window`, `chunk`, `sink_tokens`, `softcap`, `head_dim_v`. The rest is the engine's.
    ///
    /// # Errors
    /// `InvalidArgument`: the layer is no attention.
    pub fn of_layer(layer: &Layer) -> Result<AttentionOptions<'static>> {
        let mut op = sys::quire_attention { struct_size: std::mem::size_of::<sys::quire_attention>() as u32, ..Default::default() };
        let layer = layer.raw()?;
        call(|err| unsafe { sys::quire_attention_from_layer(&layer, &mut op, err) })?;
        Ok(AttentionOptions {
            causal: op.flags & sys::QUIRE_ATTENTION_CAUSAL != 0,
            window: op.window,
            chunk: op.chunk,
            sink_tokens: op.sink_tokens,
            softcap: op.softcap,
            head_dim_v: op.head_dim_v,
            ..AttentionOptions::default()
        })
    }
}

/// Inputs of [`crate::Queue::gated_delta`].
#[derive(Debug, Clone, Copy)]
pub struct GatedDelta<'env> {
    /// `[tokens, heads_k, dim_k]`.
    pub query: View<'env>,
    /// `[tokens, heads_k, dim_k]`.
    pub key: View<'env>,
    /// `[tokens, heads_v, dim_v]`.
    pub value: View<'env>,
    /// `[tokens, heads_v]`: the logarithm of the decay.
    pub gate: View<'env>,
    /// `[tokens, heads_v]`.
    pub beta: View<'env>,
    /// `QUIRE_GATED_DELTA_*`.
    pub flags: u32,
    /// 0 = 1 / sqrt(dim_k).
    pub scale: f32,
}

/// Inputs of [`crate::Queue::selective_scan`].
#[derive(Debug, Clone, Copy)]
pub struct SelectiveScan<'env> {
    /// `[tokens, heads, head_dim]`.
    pub x: View<'env>,
    /// `[tokens, heads]`.
    pub dt: View<'env>,
    /// `[heads]` (Mamba2) or `[heads, state_dim]` (Mamba1), f32.
    pub a: View<'env>,
    /// `[tokens, groups, state_dim]`.
    pub b: View<'env>,
    /// `[tokens, groups, state_dim]`.
    pub c: View<'env>,
    /// `[heads]` or `[heads, head_dim]`.
    pub skip: Option<View<'env>>,
    /// `[heads]`.
    pub dt_bias: Option<View<'env>>,
    /// `[tokens, heads, head_dim]`: the gate.
    pub z: Option<View<'env>>,
    /// dt through softplus.
    pub softplus: bool,
    /// The least dt.
    pub dt_min: f32,
    /// The largest dt, 0 = no limit.
    pub dt_max: f32,
}

fn per_head(values: Option<&[f32]>, heads: i64, name: &str) -> Result<*const f32> {
    match values {
        None => Ok(std::ptr::null()),
        Some(values) if values.len() as i64 >= heads => Ok(values.as_ptr()),
        Some(values) => Err(Error::invalid(format!("{} has {} values, the query {} heads", name, values.len(), heads))),
    }
}

/// The op of a step, checked as far as Rust's slices go.
pub(crate) fn attention_op(
    stream: &Stream,
    kv: &PagedKv<'_>,
    batch: &Batch,
    query: View<'_>,
    out: &ViewMut<'_>,
    options: &AttentionOptions<'_>,
) -> Result<sys::quire_attention> {
    let heads = query.raw.shape[1];
    let mut op = sys::quire_attention {
        struct_size: std::mem::size_of::<sys::quire_attention>() as u32,
        flags: if options.causal { sys::QUIRE_ATTENTION_CAUSAL } else { 0 }
            | if options.batch_invariant { sys::QUIRE_ATTENTION_BATCH_INVARIANT } else { 0 },
        kv: kv.raw,
        batch: batch.group(kv.raw.group)?,
        query: query.raw,
        out: out.raw,
        sink_tokens: options.sink_tokens,
        scale: options.scale,
        softcap: options.softcap,
        window: options.window,
        chunk: options.chunk,
        sink_logits: per_head(options.sink_logits, heads, "sink_logits")?,
        alibi_slopes: per_head(options.alibi_slopes, heads, "alibi_slopes")?,
        scale_k: options.scale_k,
        scale_v: options.scale_v,
        head_dim_v: options.head_dim_v,
        ..Default::default()
    };
    if let Some(mask) = &options.mask {
        mask.write(batch, &mut op)?;
    }
    if let Some(AttentionPlan(words)) = options.plan {
        op.plan = words.as_ptr().cast();
        op.plan_bytes = words.len() as u64 * 8;
    }
    if let Some(workspace) = options.workspace {
        workspace.tensor.buffer().place().check("options.workspace", stream.place())?;
        if workspace.stream != stream.raw() as usize {
            return Err(Error::invalid("options.workspace was made for another stream"));
        }
        op.workspace = workspace.tensor.raw.data;
        op.workspace_bytes = workspace.bytes;
    }
    Ok(op)
}

/// Bytes that every attention of at most the counts asked for needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceBytes {
    /// Of a plan.
    pub plan: u64,
    /// Of a workspace.
    pub workspace: u64,
}

impl Stream {
    /// Bytes of plan and workspace that every attention with at most these counts needs.
    ///
    /// # Errors
    /// `InvalidArgument`, `Unimplemented`.
    pub fn attention_workspace(
        &self,
        max_rows: u32,
        max_query_tokens: u64,
        max_kv_len: u64,
        num_q_heads: u32,
        head_dim_v: u32,
    ) -> Result<WorkspaceBytes> {
        let (mut plan, mut workspace) = (0, 0);
        call(|err| unsafe {
            let (p, w): (*mut u64, *mut u64) = (&mut plan, &mut workspace);
            sys::quire_op_attention_workspace(self.raw(), max_rows, max_query_tokens, max_kv_len, num_q_heads, head_dim_v, p, w, err)
        })?;
        Ok(WorkspaceBytes { plan, workspace })
    }

    /// Shares the work of one step's attention out: what [`crate::Queue::attention`] is given, before it is queued. `plan` has room by
    /// [`AttentionPlan::new`] and allocates nothing. Where a plan does not fit a step, attention refuses it.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange` (room), `Unimplemented`.
    pub fn plan_attention(
        &self,
        kv: &PagedKv<'_>,
        batch: &Batch,
        query: View<'_>,
        out: &ViewMut<'_>,
        options: &AttentionOptions<'_>,
        plan: &mut AttentionPlan,
    ) -> Result<()> {
        self.check_batch(batch, kv.memory)?;
        let op = attention_op(self, kv, batch, query, out, options)?;
        let bytes = plan.0.len() as u64 * 8;
        call(|err| unsafe { sys::quire_op_attention_plan(self.raw(), &op, plan.0.as_mut_ptr().cast(), bytes, err) })
    }
}

impl AttentionPlan {
    /// Room for plans of so many bytes, as [`Stream::attention_workspace`] says.
    ///
    /// # Errors
    /// `OutOfRange` (more than there are addresses), `ResourceExhausted` (host memory).
    pub fn new(bytes: u64) -> Result<AttentionPlan> {
        let words = usize::try_from(bytes / 8 + u64::from(bytes % 8 != 0)).ok();
        unsafe { zeroed(words, "plan") }.map(AttentionPlan)
    }
}
