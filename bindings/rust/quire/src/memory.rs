//! Devices, streams, and the bytes of one shard.

use crate::config::Config;
use crate::dlpack::{Export, ManagedTensor};
use crate::dtype::DType;
use crate::error::{call, text, Error, Refused, Result};
use crate::place::{Place, Turn};
use crate::runtime::{made, Runtime};
use quire_sys as sys;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

/// Facts of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `QUIRE_DEVICE_*`.
    pub device_type: i32,
    /// Ordinal.
    pub device_id: i32,
    /// Lanes of a wave; 0 on CPUs.
    pub wave_width: u32,
    /// 0 = unknown.
    pub total_bytes: u64,
    /// 0 = unknown.
    pub free_bytes: u64,
    /// Of allocations, bytes.
    pub alignment: u64,
    /// The driver's name.
    pub driver: String,
    /// The device's, with the instruction set in use.
    pub name: String,
}

/// A device of the driver that the runtime's selection gives; keeps the runtime alive.
///
/// ```
/// # fn main() -> quire::Result<()> {
/// let runtime = quire::Runtime::new(&quire::RuntimeOptions { driver: "cpu".into(), ..Default::default() })?;
/// let device = quire::Device::open(&runtime, 0)?;
/// assert_eq!(device.info()?.driver, "cpu");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Device {
    raw: NonNull<sys::quire_device>,
    place: Place,
}

// memory.h: every function of a device is callable from any thread.
unsafe impl Send for Device {}
unsafe impl Sync for Device {}

impl Clone for Device {
    fn clone(&self) -> Device {
        unsafe { sys::quire_device_retain(self.raw()) };
        Device { raw: self.raw, place: self.place }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        unsafe { sys::quire_device_release(self.raw()) }
    }
}

impl Device {
    /// Opens device `ordinal`; loads modules.
    ///
    /// # Errors
    /// `Unavailable` (no driver; the message lists each candidate), `NotFound` (unknown driver name), `IncompatibleAbi`, `OutOfRange`.
    pub fn open(runtime: &Runtime, ordinal: u32) -> Result<Device> {
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_device_open(runtime.raw(), ordinal, &mut out, err) })?;
        let raw = made(out)?;
        let mut device = Device { raw, place: Place::of(&Default::default()) };
        device.place = Place::of(&device.raw_info()?);
        Ok(device)
    }

    fn raw_info(&self) -> Result<sys::quire_device_info> {
        let mut raw = sys::quire_device_info { struct_size: std::mem::size_of::<sys::quire_device_info>() as u32, ..Default::default() };
        call(|err| unsafe { sys::quire_device_get_info(self.raw(), &mut raw, err) })?;
        Ok(raw)
    }

    /// Facts of the device.
    ///
    /// # Errors
    /// The driver's.
    pub fn info(&self) -> Result<DeviceInfo> {
        let raw: sys::quire_device_info = self.raw_info()?;
        Ok(DeviceInfo {
            device_type: raw.device_type,
            device_id: raw.device_id,
            wave_width: raw.wave_width,
            total_bytes: raw.total_bytes,
            free_bytes: raw.free_bytes,
            alignment: raw.alignment,
            driver: text(&raw.driver),
            name: text(&raw.name),
        })
    }

    /// Takes a tensor of somebody else as it lies, without a copy; its deleter runs when the last user is gone. `read_only`: the caller only
    /// reads, so tensors that say so and axes of stride 0 are taken.
    ///
    /// # Errors
    /// The tensor, and `InvalidArgument`, `OutOfRange`, `PermissionDenied` (read-only): each names the field.
    pub fn import(&self, tensor: ManagedTensor, read_only: bool) -> std::result::Result<DeviceTensor, Refused<ManagedTensor>> {
        self.import_with(tensor, read_only, false)
    }

    /// The same; `any_dtype`: types that quire has no name for are taken as opaque elements of as many bytes.
    ///
    /// # Errors
    /// As [`Device::import`].
    pub fn import_with(
        &self,
        tensor: ManagedTensor,
        read_only: bool,
        any_dtype: bool,
    ) -> std::result::Result<DeviceTensor, Refused<ManagedTensor>> {
        let flags = if read_only { sys::QUIRE_IMPORT_READ_ONLY } else { 0 } | if any_dtype { sys::QUIRE_IMPORT_ANY_DTYPE } else { 0 };
        let mut raw = sys::quire_tensor::default();
        let mut out = std::ptr::null_mut();
        let answer = call(|err| unsafe { sys::quire_buffer_import(self.raw(), &tensor.raw(), flags, &mut raw, &mut out, err) });
        match answer.and_then(|()| made(out)) {
            Ok(buffer) => {
                tensor.given_away();
                Ok(DeviceTensor { raw, read_only, buffer: Buffer { raw: buffer, place: self.place } })
            }
            Err(error) => Err(Refused { error, given: tensor }),
        }
    }

    /// A dense tensor in memory of the device.
    ///
    /// # Errors
    /// `InvalidArgument`, `ResourceExhausted`.
    pub fn create_tensor(&self, dtype: DType, shape: &[u64]) -> Result<DeviceTensor> {
        let mut raw = sys::quire_tensor { dtype: dtype.raw(), ndim: shape.len() as i32, ..Default::default() };
        if shape.len() > raw.shape.len() {
            return Err(Error::invalid(format!("shape has {} dimensions, the limit is {}", shape.len(), raw.shape.len())));
        }
        for (to, from) in raw.shape.iter_mut().zip(shape) {
            *to = i64::try_from(*from).map_err(|_| Error::invalid(format!("shape: {} leaves 63 bits", from)))?;
        }
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_buffer_create(self.raw(), &mut raw, &mut out, err) })?;
        Ok(DeviceTensor { raw, read_only: false, buffer: Buffer { raw: made(out)?, place: self.place } })
    }

    pub(crate) fn raw(&self) -> *mut sys::quire_device {
        self.raw.as_ptr()
    }
}

/// The bytes of one tensor; a clone keeps them, too.
#[derive(Debug)]
pub struct Buffer {
    raw: NonNull<sys::quire_buffer>,
    place: Place,
}

// memory.h: every function of a buffer is callable from any thread.
unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        unsafe { sys::quire_buffer_retain(self.raw.as_ptr()) };
        Buffer { raw: self.raw, place: self.place }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        unsafe { sys::quire_buffer_release(self.raw.as_ptr()) }
    }
}

/// A tensor in memory of a device: quire's own or somebody else's, kept until it is dropped. Rust never looks at its bytes; ops and copies of
/// a stream do. It is borrowed like a slice: who writes it has it alone until the scope ends.
#[derive(Debug)]
pub struct DeviceTensor {
    pub(crate) raw: sys::quire_tensor,
    pub(crate) read_only: bool,
    buffer: Buffer,
}

// Queued work writes the bytes where somebody has &mut, until its scope has waited; its buffer may go on any thread.
unsafe impl Send for DeviceTensor {}
unsafe impl Sync for DeviceTensor {}

impl DeviceTensor {
    /// Elements.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.raw.shape[..self.raw.ndim as usize]
    }

    /// Bytes.
    #[must_use]
    pub fn strides(&self) -> &[i64] {
        &self.raw.stride[..self.raw.ndim as usize]
    }

    /// Type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        DType::of(self.raw.dtype)
    }

    /// Kind of device, `QUIRE_DEVICE_*`, and ordinal: fields of `quire_tensor`.
    #[must_use]
    pub fn device(&self) -> (i32, i32) {
        let raw: &sys::quire_tensor = &self.raw;
        (raw.device_type, raw.device_id)
    }

    /// What keeps its bytes.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// An in-order queue of a device; keeps the device alive. The header says *serialized on stream*: it may move to another thread and is not
/// `Sync`. Work is queued by [`Stream::scope`]. Dropping it waits.
#[derive(Debug)]
pub struct Stream {
    raw: NonNull<sys::quire_stream>,
    place: Place,
    pub(crate) turns: RefCell<Vec<Arc<Turn>>>, // of memories that its scope uses
}

// memory.h: serialized on stream; the last release is callable from any thread. NonNull keeps it from being Sync.
unsafe impl Send for Stream {}

impl Stream {
    /// Creates a queue.
    ///
    /// # Errors
    /// `ResourceExhausted`, and the driver's.
    pub fn new(device: &Device) -> Result<Stream> {
        Stream::create(device, 0)
    }

    /// A queue of the engine's own, which stays the engine's.
    ///
    /// # Errors
    /// `Unimplemented` (the driver imports none), and the driver's.
    pub fn import(device: &Device, native: sys::NativeStream) -> Result<Stream> {
        Stream::create(device, native.handle())
    }

    fn create(device: &Device, native: u64) -> Result<Stream> {
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_stream_create(device.raw(), native, &mut out, err) })?;
        Ok(Stream { raw: made(out)?, place: device.place, turns: RefCell::default() })
    }

    /// Waits until everything queued is done; `None` = as long as it takes, zero = asks only.
    ///
    /// # Errors
    /// `DeadlineExceeded`, `NotReady`, and the first failure of queued work.
    pub fn synchronize(&self, timeout: Option<std::time::Duration>) -> Result<()> {
        let nanoseconds = timeout.map_or(-1, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
        call(|err| unsafe { sys::quire_stream_synchronize(self.raw(), nanoseconds, err) })
    }

    pub(crate) fn raw(&self) -> *mut sys::quire_stream {
        self.raw.as_ptr()
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        unsafe { sys::quire_stream_release(self.raw()) }
    }
}

/// The bytes of one shard; keeps device and config alive. Kernels write them, so the scope of one stream uses them at a time: ops of another
/// are refused until it ends, and so are those of a scope inside of it. See [`Memory::shared_by_streams`].
#[derive(Debug)]
pub struct Memory {
    raw: NonNull<sys::quire_memory>,
    place: Place,
    pub(crate) turn: Option<Arc<Turn>>, // None: Memory::shared_by_streams
    config: Config,
    shard: u32,
}

// memory.h: every function of a memory that has no stream is callable from any thread; those with a stream take turns.
unsafe impl Send for Memory {}
unsafe impl Sync for Memory {}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        unsafe { sys::quire_memory_retain(self.raw()) };
        Memory { raw: self.raw, place: self.place, turn: self.turn.clone(), config: self.config.clone(), shard: self.shard }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        unsafe { sys::quire_memory_release(self.raw()) }
    }
}

/// The token cache of one layer, ready for ops.
#[derive(Debug, Clone, Copy)]
pub struct PagedKv<'m> {
    pub(crate) raw: sys::quire_paged_kv,
    pub(crate) memory: &'m Memory,
}

impl PagedKv<'_> {
    /// KV heads of the shard.
    #[must_use]
    pub fn num_heads(&self) -> u32 {
        self.raw.num_heads
    }

    /// Elements of a row of side 0 (K) or 1 (V); 0 for other sides.
    #[must_use]
    pub fn head_dim(&self, side: usize) -> u32 {
        self.raw.side.get(side).map_or(0, |side| side.head_dim)
    }

    /// Type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        DType::of(self.raw.dtype)
    }
}

/// One tensor of a layer's state, ready for ops.
#[derive(Debug, Clone, Copy)]
pub struct PagedState<'m> {
    pub(crate) raw: sys::quire_paged_state,
    pub(crate) memory: &'m Memory,
}

impl PagedState<'_> {
    /// Elements.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.raw.shape[..(self.raw.ndim as usize).min(4)]
    }

    /// Type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        DType::of(self.raw.dtype)
    }

    /// The same tensor with its first two axes swapped, as [`crate::Queue::conv1d`] wants `[width - 1, channels]`.
    #[must_use]
    pub fn transposed(mut self) -> Self {
        self.raw.shape.swap(0, 1);
        self.raw.stride.swap(0, 1);
        self
    }
}

impl Memory {
    fn of(raw: *mut sys::quire_memory, device: &Device, config: &Config, shard: u32) -> Result<Memory> {
        Ok(Memory { raw: made(raw)?, place: device.place, turn: Some(Arc::default()), config: config.clone(), shard })
    }

    /// Allocates the regions of one shard on the device.
    ///
    /// # Errors
    /// `OutOfRange` (shard), `ResourceExhausted` (bytes wanted and free).
    pub fn new(device: &Device, config: &Config, shard: u32) -> Result<Memory> {
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_memory_create(device.raw(), config.raw(), shard, &mut out, err) })?;
        Memory::of(out, device, config, shard)
    }

    /// Binds the engine's own bytes, one tensor per region in the order of [`Config::regions`]. The deleters run when the last user is gone.
    ///
    /// # Errors
    /// The tensors, and `InvalidArgument`: region missing, too small, misaligned, wrong device, not dense, read-only.
    pub fn bind(
        device: &Device,
        config: &Config,
        shard: u32,
        tensors: Vec<ManagedTensor>,
    ) -> std::result::Result<Memory, Refused<Vec<ManagedTensor>>> {
        let raw: Vec<_> = tensors.iter().map(ManagedTensor::raw).collect();
        let (n, mut out) = (raw.len() as u64, std::ptr::null_mut());
        let answer =
            call(|err| unsafe { sys::quire_memory_bind_dlpack(device.raw(), config.raw(), shard, raw.as_ptr(), n, &mut out, err) });
        match answer.and_then(|()| Memory::of(out, device, config, shard)) {
            Ok(memory) => {
                tensors.into_iter().for_each(ManagedTensor::given_away);
                Ok(memory)
            }
            Err(error) => Err(Refused { error, given: tensors }),
        }
    }

    /// Address and bytes of a region.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn region(&self, region: u32) -> Result<(usize, u64)> {
        let mut address = std::ptr::null_mut();
        let mut bytes = 0;
        call(|err| unsafe { sys::quire_memory_get_region(self.raw(), region, &mut address, &mut bytes, err) })?;
        Ok((address as usize, bytes))
    }

    /// The token cache of a layer.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn paged_kv(&self, layer: u32, sub: u32) -> Result<PagedKv<'_>> {
        let mut raw = sys::quire_paged_kv::default();
        call(|err| unsafe { sys::quire_memory_get_paged_kv(self.raw(), layer, sub, &mut raw, err) })?;
        Ok(PagedKv { raw, memory: self })
    }

    /// One tensor of a layer's state.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`.
    pub fn paged_state(&self, layer: u32, sub: u32, tensor: u32) -> Result<PagedState<'_>> {
        let mut raw = sys::quire_paged_state::default();
        call(|err| unsafe { sys::quire_memory_get_paged_state(self.raw(), layer, sub, tensor, &mut raw, err) })?;
        Ok(PagedState { raw, memory: self })
    }

    /// A layer, one id of it or a page as a tensor that keeps this memory alive. It is the same bytes: as with every consumer of DLPack, who
    /// reads or writes through it takes care that no step does so at the same time.
    ///
    /// # Errors
    /// `NotFound` (layer), `OutOfRange` (item, id, page, region), `NotRepresentable` (more than 5 dimensions), `ResourceExhausted`; for DLPack
    /// 0.x also `Unimplemented` (a type that it does not know) and `FailedPrecondition` (it cannot say read-only).
    pub fn export(&self, what: &Export) -> Result<ManagedTensor> {
        let mut out = sys::quire_dlpack::default();
        call(|err| unsafe { sys::quire_memory_export(self.raw(), &what.raw(), &mut out, err) })?;
        ManagedTensor::made(&out)
    }

    /// The same memory for work of several streams at once, such as two halves of a batch that overlap. Other handles of a memory are used by
    /// the scope of one stream at a time, and refuse the others.
    ///
    /// # Safety
    /// What is queued through it reads or writes no block that work of another stream writes at the same time.
    #[must_use]
    pub unsafe fn shared_by_streams(&self) -> Memory {
        let mut shared = self.clone();
        shared.turn = None;
        shared
    }

    /// Fails unless ops may use this memory with arrays of that plan and shard.
    pub(crate) fn check_plan(&self, config: &Config, shard: u32) -> Result<()> {
        if self.config.raw() == config.raw() && self.shard == shard {
            return Ok(());
        }
        Err(Error::invalid("batch was made for another plan or shard than the layer's memory"))
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn raw(&self) -> *mut sys::quire_memory {
        self.raw.as_ptr()
    }
}
