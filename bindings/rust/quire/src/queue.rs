//! Work on a stream. What ops borrow must live until they are done, so they are queued inside a scope that waits at its end.

use crate::batch::Batch;
use crate::error::{call, Code, Error, Result};
use crate::memory::{Memory, PagedKv, PagedState, Stream};
use crate::step::Step;
use crate::view::{View, ViewMut};
use quire_sys as sys;
use std::marker::PhantomData;

/// Where ops are queued; see [`Stream::scope`].
#[derive(Debug)]
pub struct Queue<'s, 'env> {
    stream: &'s Stream,
    environment: PhantomData<&'env mut &'env ()>,
}

/// Waits also where the closure panics.
struct Waits<'s>(&'s Stream);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let _ = self.0.synchronize(None);
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
        }
    }
}

/// Inputs of [`Queue::gated_delta`].
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

fn per_head(values: Option<&[f32]>, heads: i64, name: &str) -> Result<*const f32> {
    match values {
        None => Ok(std::ptr::null()),
        Some(values) if values.len() as i64 >= heads => Ok(values.as_ptr()),
        Some(values) => Err(Error::invalid(format!("{} has {} values, the query {} heads", name, values.len(), heads))),
    }
}

impl Stream {
    /// Runs `body`, which queues work, and waits until the work is done, so that slices it borrowed are free again.
    ///
    /// ```
    /// # fn main() -> quire::Result<()> {
    /// use quire::{DType, Device, Runtime, RuntimeOptions, Stream};
    /// let device = Device::open(&Runtime::new(&RuntimeOptions { driver: "cpu".into(), ..Default::default() })?, 0)?;
    /// let stream = Stream::new(&device)?;
    /// let tensor = device.create_tensor(DType::U8, &[4])?;
    /// stream.scope(|queue| queue.fill(&tensor, 7))?;
    /// assert_eq!(stream.read::<u8>(&tensor)?, [7, 7, 7, 7]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// What is made inside does not live long enough:
    ///
    /// ```compile_fail,E0597
    /// # fn f(stream: quire::Stream, device: quire::Device) -> quire::Result<()> {
    /// stream.scope(|queue| {
    ///     let tensor = device.create_tensor(quire::DType::U8, &[4])?;
    ///     queue.fill(&tensor, 7)
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// The body's, otherwise the first failure of queued work.
    pub fn scope<'env, T, F>(&self, body: F) -> Result<T>
    where
        F: FnOnce(&Queue<'_, 'env>) -> Result<T>,
    {
        let waits = Waits(self);
        let answer = body(&Queue { stream: self, environment: PhantomData })?;
        std::mem::forget(waits);
        self.synchronize(None)?;
        Ok(answer)
    }
}

impl<'env> Queue<'_, 'env> {
    fn raw(&self) -> *mut sys::quire_stream {
        self.stream.raw()
    }

    /// Arrays of a batch are in host memory.
    fn check_batch(&self, batch: &Batch, memory: &Memory) -> Result<()> {
        if self.stream.device().0 != sys::QUIRE_DEVICE_CPU as i32 {
            return Err(Error::new(
                Code::Unimplemented,
                format!("a Batch is in host memory, a device of kind {} cannot read it", self.stream.device().0),
            ));
        }
        memory.check_plan(batch.config(), batch.shard())
    }

    /// Queues the zeroes and copies of a step: before its kernels.
    ///
    /// # Errors
    /// `NotFound` (step), `InvalidArgument` (other plan).
    pub fn prepare_step(&self, memory: &'env Memory, step: &Step<'_>) -> Result<()> {
        call(|err| unsafe { sys::quire_memory_prepare_step(memory.raw(), step.cache().raw(), step.id().0, self.raw(), err) })
    }

    /// Fills every byte of a memory but the null page.
    ///
    /// # Errors
    /// The driver's.
    pub fn poison(&self, memory: &'env Memory, byte: u8) -> Result<()> {
        call(|err| unsafe { sys::quire_memory_poison(memory.raw(), self.raw(), byte, err) })
    }

    /// Fills a tensor that is dense.
    ///
    /// # Errors
    /// `InvalidArgument` (not dense), `PermissionDenied`, and the driver's.
    pub fn fill(&self, tensor: &'env crate::DeviceTensor, byte: u8) -> Result<()> {
        let raw = tensor.view_mut()?.raw;
        let mut dense = tensor.dtype().bytes() as i64;
        for i in (0..tensor.shape().len()).rev() {
            if tensor.strides()[i] != dense && tensor.shape()[i] > 1 {
                return Err(Error::invalid(format!("tensor: stride {} of axis {}, dense is {}", tensor.strides()[i], i, dense)));
            }
            dense *= tensor.shape()[i];
        }
        call(|err| unsafe { sys::quire_op_fill(self.raw(), raw.data, byte, dense as u64, err) })
    }

    /// Writes the keys and values of the batch's tokens: `key` `[tokens, kv heads, head_dim_k]`, `value` likewise, absent where the cache has
    /// one side.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `Unimplemented`.
    pub fn kv_append(&self, kv: &PagedKv<'env>, batch: &'env Batch, key: View<'env>, value: Option<View<'env>>) -> Result<()> {
        self.check_batch(batch, kv.memory)?;
        let op = sys::quire_kv_append {
            struct_size: std::mem::size_of::<sys::quire_kv_append>() as u32,
            kv: kv.raw,
            key: key.raw,
            value: value.map_or_else(sys::quire_tensor::default, |view| view.raw),
            slots: batch.slots(kv.group, kv.column)?.as_ptr(),
            num_tokens: batch.tokens() as u64,
            ..Default::default()
        };
        call(|err| unsafe { sys::quire_op_kv_append(self.raw(), &op, err) })
    }

    /// Attention of the batch's tokens over what the sequences have: `query` `[tokens, q heads, head_dim_k]`, `out` likewise with `head_dim_v`.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `Unimplemented`.
    pub fn attention(
        &self,
        kv: &PagedKv<'env>,
        batch: &'env Batch,
        query: View<'env>,
        out: ViewMut<'env>,
        lse: Option<ViewMut<'env>>,
        options: &AttentionOptions<'env>,
    ) -> Result<()> {
        self.check_batch(batch, kv.memory)?;
        let (table, pitch) = batch.table(kv.group, kv.column)?;
        let heads = query.raw.shape[1];
        let op = sys::quire_attention {
            struct_size: std::mem::size_of::<sys::quire_attention>() as u32,
            flags: if options.causal { sys::QUIRE_ATTENTION_CAUSAL } else { 0 }
                | if options.batch_invariant { sys::QUIRE_ATTENTION_BATCH_INVARIANT } else { 0 },
            kv: kv.raw,
            query: query.raw,
            out: out.raw,
            lse: lse.map_or_else(sys::quire_tensor::default, |view| view.raw),
            table: table.as_ptr(),
            table_pitch: pitch as u64,
            query_indptr: batch.query_indptr.as_ptr(),
            kv_len: batch.kv_len.as_ptr(),
            num_rows: batch.rows() as u32,
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
        call(|err| unsafe { sys::quire_op_attention(self.raw(), &op, err) })
    }

    /// Merges partial results over disjoint sets of keys: `partial_out` tensors `[tokens, q heads, head_dim_v]`, `partial_lse` `[tokens, q heads]`.
    ///
    /// # Errors
    /// `InvalidArgument`, `Unimplemented`.
    pub fn attention_merge(
        &self,
        partial_out: &'env [View<'env>],
        partial_lse: &'env [View<'env>],
        out: ViewMut<'env>,
        lse: Option<ViewMut<'env>>,
    ) -> Result<()> {
        if partial_out.len() != partial_lse.len() {
            return Err(Error::invalid(format!("partial_out has {} tensors, partial_lse {}", partial_out.len(), partial_lse.len())));
        }
        let op = sys::quire_attention_merge {
            struct_size: std::mem::size_of::<sys::quire_attention_merge>() as u32,
            num_parts: partial_out.len() as u32,
            partial_out: partial_out.as_ptr().cast(), // View is a quire_tensor, transparently
            partial_lse: partial_lse.as_ptr().cast(),
            out: out.raw,
            lse: lse.map_or_else(sys::quire_tensor::default, |view| view.raw),
            ..Default::default()
        };
        call(|err| unsafe { sys::quire_op_attention_merge(self.raw(), &op, err) })
    }

    /// The gated delta rule over a layer's state, `out` `[tokens, heads_v, dim_v]`.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `Unimplemented`.
    pub fn gated_delta(&self, state: &PagedState<'env>, batch: &'env Batch, inputs: &GatedDelta<'env>, out: ViewMut<'env>) -> Result<()> {
        self.check_batch(batch, state.memory)?;
        let (read, write) = batch.states(state.group, state.column)?;
        let op = sys::quire_gated_delta {
            struct_size: std::mem::size_of::<sys::quire_gated_delta>() as u32,
            flags: inputs.flags,
            state: state.raw,
            query: inputs.query.raw,
            key: inputs.key.raw,
            value: inputs.value.raw,
            gate: inputs.gate.raw,
            beta: inputs.beta.raw,
            out: out.raw,
            query_indptr: batch.query_indptr.as_ptr(),
            state_read: read.as_ptr(),
            state_write: write.as_ptr(),
            num_rows: batch.rows() as u32,
            scale: inputs.scale,
            ..Default::default()
        };
        call(|err| unsafe { sys::quire_op_gated_delta(self.raw(), &op, err) })
    }

    /// A short causal convolution over a layer's state `[width - 1, channels]`: `input` and `out` `[tokens, channels]`, `weight`
    /// `[channels, width]`, `bias` `[channels]`.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `Unimplemented`.
    #[allow(clippy::too_many_arguments)]
    pub fn conv1d(
        &self,
        state: &PagedState<'env>,
        batch: &'env Batch,
        input: View<'env>,
        weight: View<'env>,
        bias: Option<View<'env>>,
        out: ViewMut<'env>,
        silu: bool,
    ) -> Result<()> {
        self.check_batch(batch, state.memory)?;
        let (read, write) = batch.states(state.group, state.column)?;
        let op = sys::quire_conv1d {
            struct_size: std::mem::size_of::<sys::quire_conv1d>() as u32,
            flags: if silu { sys::QUIRE_CONV1D_SILU } else { 0 },
            state: state.raw,
            input: input.raw,
            weight: weight.raw,
            bias: bias.map_or_else(sys::quire_tensor::default, |view| view.raw),
            out: out.raw,
            query_indptr: batch.query_indptr.as_ptr(),
            state_read: read.as_ptr(),
            state_write: write.as_ptr(),
            num_rows: batch.rows() as u32,
            ..Default::default()
        };
        call(|err| unsafe { sys::quire_op_conv1d(self.raw(), &op, err) })
    }
}
