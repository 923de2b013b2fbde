//! Work on a stream. What ops borrow must live until they are done, so they are queued inside a scope that waits at its end.

use crate::batch::Batch;
use crate::error::{call, room, Code, Error, Result};
use crate::extension::{Op, Value};
use crate::memory::{Memory, PagedKv, PagedState, Stream};
use crate::ops::{attention_op, AppendOptions, AttentionOptions, GatedDelta, SelectiveScan};
use crate::step::InFlight;
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
        let _ = self.0.settle();
    }
}

impl Stream {
    /// Arrays of a batch are in host memory, and kernels reach what lies on their own device.
    pub(crate) fn check_batch(&self, batch: &Batch, memory: &Memory) -> Result<()> {
        let kind = self.place().device_type;
        if kind != sys::QUIRE_DEVICE_CPU {
            let message = format!("a Batch is in host memory, a device of kind {} cannot read it", kind);
            return Err(Error::new(Code::Unimplemented, message));
        }
        memory.place().check("the layer's memory", self.place())?;
        memory.check_plan(batch.config(), batch.shard())
    }

    /// Runs `body`, which queues work, and waits until the work is done, so that slices it borrowed are free again.
    ///
    /// ```
    /// # fn main() -> quire::Result<()> {
    /// use quire::{DType, Device, Runtime, RuntimeOptions, Stream};
    /// let device = Device::open(&Runtime::new(&RuntimeOptions { driver: "cpu".into(), ..Default::default() })?, 0)?;
    /// let stream = Stream::new(&device)?;
    /// let mut tensor = device.create_tensor(DType::U8, &[4])?;
    /// stream.scope(|queue| queue.fill(&mut tensor, 7))?;
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
    ///     let mut tensor = device.create_tensor(quire::DType::U8, &[4])?;
    ///     queue.fill(&mut tensor, 7)
    /// })
    /// # }
    /// ```
    ///
    /// What is written is nobody else's until the scope ends, on no thread and no stream:
    ///
    /// ```compile_fail,E0499
    /// # fn f(one: quire::Stream, other: quire::Stream, mut tensor: quire::DeviceTensor) -> quire::Result<()> {
    /// one.scope(|a| {
    ///     a.fill(&mut tensor, 7)?;
    ///     other.scope(|b| b.fill(&mut tensor, 8))
    /// })
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0502
    /// # fn f(one: quire::Stream, other: quire::Stream, mut tensor: quire::DeviceTensor) {
    /// let (written, read) = (&mut tensor, &tensor);
    /// std::thread::scope(|threads| {
    ///     threads.spawn(move || one.write(&[1_u8; 4], written));
    ///     threads.spawn(move || other.read::<u8>(read));
    /// });
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
        self.settle()?;
        Ok(answer)
    }

    /// Waits for all queued work, and lets go of the memories that it used.
    fn settle(&self) -> Result<()> {
        let answer = self.synchronize(None);
        self.turns.borrow_mut().drain(..).for_each(|turn| turn.end());
        answer
    }

    /// Fails unless a scope of this stream may touch the bytes of a memory; until it ends other streams may not.
    fn touch(&self, memory: &Memory) -> Result<()> {
        let turn = match &memory.turn {
            Some(turn) => turn,
            None => return Ok(()),
        };
        let mut turns = self.turns.borrow_mut();
        room(&mut turns, 1, "memories of a scope")?;
        match turn.take(self.raw() as usize) {
            Ok(true) => turns.push(turn.clone()),
            Ok(false) => {}
            Err(()) => {
                return Err(Error::new(Code::FailedPrecondition, "memory: another stream's scope uses it; queue on that stream, or wait"))
            }
        }
        Ok(())
    }
}

impl<'env> Queue<'_, 'env> {
    fn raw(&self) -> *mut sys::quire_stream {
        self.stream.raw()
    }

    fn use_layer(&self, batch: &Batch, memory: &Memory) -> Result<()> {
        self.stream.check_batch(batch, memory)?;
        self.stream.touch(memory)
    }

    fn use_whole(&self, memory: &Memory) -> Result<()> {
        memory.place().check("memory", self.stream.place())?;
        self.stream.touch(memory)
    }

    /// Queues the zeroes and copies of a step or load: before its kernels, or before its connector writes.
    ///
    /// # Errors
    /// `NotFound` (step), `InvalidArgument` (other plan, another device), `FailedPrecondition` (another stream's scope uses the memory).
    pub fn prepare_step(&self, memory: &'env Memory, step: &InFlight<'_>) -> Result<()> {
        self.use_whole(memory)?;
        call(|err| unsafe { sys::quire_memory_prepare_step(memory.raw(), step.raw(), self.raw(), err) })
    }

    /// Fills every byte of a memory but the null page.
    ///
    /// # Errors
    /// `InvalidArgument` (another device), `FailedPrecondition` (another stream's scope uses it), and the driver's.
    pub fn poison(&self, memory: &'env Memory, byte: u8) -> Result<()> {
        self.use_whole(memory)?;
        call(|err| unsafe { sys::quire_memory_poison(memory.raw(), self.raw(), byte, err) })
    }

    /// Fills a tensor that is dense.
    ///
    /// # Errors
    /// `InvalidArgument` (not dense, another device), `PermissionDenied`, and the driver's.
    pub fn fill(&self, tensor: &'env mut crate::DeviceTensor, byte: u8) -> Result<()> {
        tensor.buffer().place().check("tensor", self.stream.place())?;
        let (raw, bytes) = (tensor.view_mut()?.raw, tensor.dense_bytes()?);
        call(|err| unsafe { sys::quire_op_fill(self.raw(), raw.data, byte, bytes, err) })
    }

    /// Writes the keys and values of the batch's tokens: `key` `[tokens, kv heads, head_dim_k]`, `value` likewise, absent where the cache has
    /// one side.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `Unimplemented`, `FailedPrecondition` (another stream's scope uses the memory).
    pub fn kv_append(&self, kv: &PagedKv<'env>, batch: &'env Batch, key: View<'env>, value: Option<View<'env>>) -> Result<()> {
        self.kv_append_with(kv, batch, key, value, &AppendOptions::default())
    }

    /// The same with rope and scales.
    ///
    /// # Errors
    /// As [`Queue::kv_append`]; `OutOfRange` where the tables of rope end before the batch's positions.
    pub fn kv_append_with(
        &self,
        kv: &PagedKv<'env>,
        batch: &'env Batch,
        key: View<'env>,
        value: Option<View<'env>>,
        options: &AppendOptions<'env>,
    ) -> Result<()> {
        self.use_layer(batch, kv.memory)?;
        let mut op = sys::quire_kv_append {
            struct_size: std::mem::size_of::<sys::quire_kv_append>() as u32,
            kv: kv.raw,
            batch: batch.group(kv.raw.group)?,
            key: key.raw,
            value: value.map_or_else(sys::quire_tensor::default, |view| view.raw),
            ..Default::default()
        };
        options.write(batch, &mut op)?;
        call(|err| unsafe { sys::quire_op_kv_append(self.raw(), &op, err) })
    }

    /// Attention of the batch's tokens over what the sequences have: `query` `[tokens, q heads, head_dim_k]`, `out` likewise with `head_dim_v`.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `Unimplemented`, `FailedPrecondition` (another stream's scope uses the memory).
    pub fn attention(
        &self,
        kv: &PagedKv<'env>,
        batch: &'env Batch,
        query: View<'env>,
        out: ViewMut<'env>,
        lse: Option<ViewMut<'env>>,
        options: &AttentionOptions<'env>,
    ) -> Result<()> {
        self.use_layer(batch, kv.memory)?;
        let mut op: sys::quire_attention = attention_op(self.stream, kv, batch, query, &out, options)?;
        if let Some(lse) = lse {
            op.lse = lse.raw;
        }
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
        };
        call(|err| unsafe { sys::quire_op_attention_merge(self.raw(), &op, err) })
    }

    /// The gated delta rule over a layer's state, `out` `[tokens, heads_v, dim_v]`.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `Unimplemented`, `FailedPrecondition` (another stream's scope uses the memory).
    pub fn gated_delta(&self, state: &PagedState<'env>, batch: &'env Batch, inputs: &GatedDelta<'env>, out: ViewMut<'env>) -> Result<()> {
        self.use_layer(batch, state.memory)?;
        let op = sys::quire_gated_delta {
            struct_size: std::mem::size_of::<sys::quire_gated_delta>() as u32,
            flags: inputs.flags,
            state: state.raw,
            batch: batch.group(state.raw.group)?,
            query: inputs.query.raw,
            key: inputs.key.raw,
            value: inputs.value.raw,
            gate: inputs.gate.raw,
            beta: inputs.beta.raw,
            out: out.raw,
            scale: inputs.scale,
            ..Default::default()
        };
        call(|err| unsafe { sys::quire_op_gated_delta(self.raw(), &op, err) })
    }

    /// Calls an op that a module publishes, which may queue work on this queue's stream: that is what [`Value::Stream`] says. What the
    /// arguments borrow lives until the work is done.
    ///
    /// # Errors
    /// `InvalidArgument` (arity, a type), and the op's own.
    pub fn invoke(&self, op: &Op, args: &'env [Value<'env>]) -> Result<Value<'static>> {
        op.invoke_on(args, Some(self.stream))
    }

    /// The selective scan (Mamba1, Mamba2) over a layer's state, `out` `[tokens, heads, head_dim]`.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `Unimplemented`, `FailedPrecondition` (another stream's scope uses the memory).
    pub fn selective_scan(
        &self,
        state: &PagedState<'env>,
        batch: &'env Batch,
        inputs: &SelectiveScan<'env>,
        out: ViewMut<'env>,
    ) -> Result<()> {
        self.use_layer(batch, state.memory)?;
        let optional = |view: Option<View<'env>>| view.map_or_else(sys::quire_tensor::default, |view| view.raw);
        let op = sys::quire_selective_scan {
            struct_size: std::mem::size_of::<sys::quire_selective_scan>() as u32,
            flags: if inputs.softplus { sys::QUIRE_SELECTIVE_SCAN_SOFTPLUS } else { 0 },
            state: state.raw,
            batch: batch.group(state.raw.group)?,
            x: inputs.x.raw,
            dt: inputs.dt.raw,
            a: inputs.a.raw,
            b: inputs.b.raw,
            c: inputs.c.raw,
            skip: optional(inputs.skip),
            dt_bias: optional(inputs.dt_bias),
            z: optional(inputs.z),
            out: out.raw,
            dt_min: inputs.dt_min,
            dt_max: inputs.dt_max,
        };
        call(|err| unsafe { sys::quire_op_selective_scan(self.raw(), &op, err) })
    }

    /// A short causal convolution over a layer's state `[width - 1, channels]`: `input` and `out` `[tokens, channels]`, `weight`
    /// `[channels, width]`, `bias` `[channels]`.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `Unimplemented`, `FailedPrecondition` (another stream's scope uses the memory).
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
        self.use_layer(batch, state.memory)?;
        let op = sys::quire_conv1d {
            struct_size: std::mem::size_of::<sys::quire_conv1d>() as u32,
            flags: if silu { sys::QUIRE_CONV1D_SILU } else { 0 },
            state: state.raw,
            batch: batch.group(state.raw.group)?,
            input: input.raw,
            weight: weight.raw,
            bias: bias.map_or_else(sys::quire_tensor::default, |view| view.raw),
            out: out.raw,
        };
        call(|err| unsafe { sys::quire_op_conv1d(self.raw(), &op, err) })
    }
}
