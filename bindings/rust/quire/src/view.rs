//! Tensors that ops borrow, and copies between them and slices.

use crate::dlpack::{FromDlpack, ManagedTensor};
use crate::dtype::{DType, Element};
use crate::error::{call, room, zeroed, Error, Result};
use crate::memory::{Device, DeviceTensor, Stream};
use crate::place::Place;
use quire_sys as sys;
use std::marker::PhantomData;

/// A tensor that an op reads.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct View<'a> {
    pub(crate) raw: sys::quire_tensor,
    borrowed: PhantomData<&'a ()>,
}

/// A tensor that an op writes.
#[derive(Debug)]
pub struct ViewMut<'a> {
    pub(crate) raw: sys::quire_tensor,
    borrowed: PhantomData<&'a mut ()>,
}

fn dense(data: *mut std::os::raw::c_void, elements: usize, dtype: DType, shape: &[usize]) -> Result<sys::quire_tensor> {
    let mut raw = sys::quire_tensor { data, dtype: dtype.raw(), device_type: sys::QUIRE_DEVICE_CPU, ..Default::default() };
    if shape.len() > raw.shape.len() {
        return Err(Error::invalid(format!("shape has {} dimensions, the limit is {}", shape.len(), raw.shape.len())));
    }
    raw.ndim = shape.len() as i32;
    let mut count = 1_usize;
    let overflow = || Error::new(crate::Code::OutOfRange, format!("shape {:?} leaves 63 bits", shape));
    for i in (0..shape.len()).rev() {
        raw.shape[i] = i64::try_from(shape[i]).map_err(|_| overflow())?;
        raw.stride[i] = count.checked_mul(dtype.bytes()).and_then(|bytes| i64::try_from(bytes).ok()).ok_or_else(overflow)?;
        count = count.checked_mul(shape[i]).ok_or_else(overflow)?;
    }
    if count > elements {
        return Err(Error::new(crate::Code::OutOfRange, format!("shape {:?} has {} elements, the slice {}", shape, count, elements)));
    }
    Ok(raw)
}

impl<'a> View<'a> {
    /// A slice, row-major; it may be longer than the shape needs.
    ///
    /// # Errors
    /// `InvalidArgument` (dimensions), `OutOfRange` (the slice is shorter).
    pub fn new<T: Element>(data: &'a [T], shape: &[usize]) -> Result<View<'a>> {
        let raw = dense(data.as_ptr() as *mut std::os::raw::c_void, data.len(), T::DTYPE, shape)?;
        Ok(View { raw, borrowed: PhantomData })
    }
}

impl<'a> ViewMut<'a> {
    /// A slice, row-major; it may be longer than the shape needs.
    ///
    /// # Errors
    /// `InvalidArgument` (dimensions), `OutOfRange` (the slice is shorter).
    pub fn new<T: Element>(data: &'a mut [T], shape: &[usize]) -> Result<ViewMut<'a>> {
        let raw = dense(data.as_mut_ptr().cast(), data.len(), T::DTYPE, shape)?;
        Ok(ViewMut { raw, borrowed: PhantomData })
    }
}

impl DeviceTensor {
    /// For ops that read it.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View { raw: self.raw, borrowed: PhantomData }
    }

    /// For ops that write it; what reads it then is queued in the next scope.
    ///
    /// # Errors
    /// `PermissionDenied`: it was imported to be read only.
    pub fn view_mut(&mut self) -> Result<ViewMut<'_>> {
        self.check_writable()?;
        Ok(ViewMut { raw: self.raw, borrowed: PhantomData })
    }
}

impl FromDlpack for DeviceTensor {
    type Place = Device;
    fn from_dlpack(tensor: ManagedTensor, place: &Device) -> Result<DeviceTensor> {
        Ok(place.import(tensor, false)?)
    }
}

impl<T: Element> FromDlpack for Vec<T> {
    type Place = Stream;
    fn from_dlpack(tensor: ManagedTensor, place: &Stream) -> Result<Vec<T>> {
        place.read(&tensor)
    }
}

impl DeviceTensor {
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::new(crate::Code::PermissionDenied, "the tensor was imported to be read only"));
        }
        Ok(())
    }

    /// Its bytes, all of them its own.
    pub(crate) fn dense_bytes(&self) -> Result<u64> {
        let mut dense = self.dtype().bytes() as i64;
        for i in (0..self.shape().len()).rev() {
            if self.strides()[i] != dense && self.shape()[i] > 1 {
                return Err(Error::invalid(format!("tensor: stride {} of axis {}, dense is {}", self.strides()[i], i, dense)));
            }
            dense = dense.checked_mul(self.shape()[i]).ok_or_else(|| Error::invalid("tensor: its shape leaves 63 bits"))?;
        }
        Ok(dense as u64)
    }
}

/// One run of [`Stream::copy_runs`], in bytes of dense tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRun {
    /// First byte that is read.
    pub from_at: u64,
    /// First byte that is written.
    pub to_at: u64,
    /// How many.
    pub bytes: u64,
}

fn inside(tensor: &DeviceTensor, at: u64, bytes: u64, name: &str) -> Result<u64> {
    let size = tensor.dense_bytes()?;
    if at > size || bytes > size - at {
        return Err(Error::new(crate::Code::OutOfRange, format!("{}: bytes [{}, +{}) of a tensor of {}", name, at, bytes, size)));
    }
    Ok((tensor.raw.data as u64).wrapping_add(at))
}

/// What [`Stream::read`] copies from: strides in bytes.
pub trait Strided {
    /// The tensor.
    #[doc(hidden)]
    fn strided(&self) -> Result<Source<'_>>;
}

/// A tensor as [`Strided`] tells it.
#[derive(Debug)]
pub struct Source<'a> {
    address: u64,
    dtype: DType,
    place: Option<Place>,
    device: (i32, i32),
    extents: Vec<(i64, i64)>, // elements, bytes
    borrowed: PhantomData<&'a ()>,
}

impl Strided for DeviceTensor {
    fn strided(&self) -> Result<Source<'_>> {
        let extents = self.shape().iter().copied().zip(self.strides().iter().copied()).collect();
        let place = Some(*self.buffer().place());
        let (address, device) = (self.raw.data as u64, self.device());
        Ok(Source { address, dtype: self.dtype(), place, device, extents, borrowed: PhantomData })
    }
}

impl Strided for ManagedTensor {
    fn strided(&self) -> Result<Source<'_>> {
        let size = self.dtype().bytes() as i64;
        let mut extents: Vec<(i64, i64)> = self.shape().iter().map(|extent| (*extent, size)).collect();
        match self.strides() {
            Some(strides) => {
                for (extent, stride) in extents.iter_mut().zip(strides) {
                    extent.1 = stride.checked_mul(size).ok_or_else(|| Error::invalid("strides leave 63 bits"))?;
                }
            }
            None => {
                for i in (1..extents.len()).rev() {
                    let dense = extents[i].1.checked_mul(extents[i].0);
                    extents[i - 1].1 = dense.ok_or_else(|| Error::invalid("shape leaves 63 bits"))?;
                }
            }
        }
        let (address, device) = (self.address() as u64, self.device());
        Ok(Source { address, dtype: self.dtype(), place: None, device, extents, borrowed: PhantomData })
    }
}

/// Runs that copy what is strided from or to what is dense at `base`; `reading`: to it.
fn runs_of(source: &Source<'_>, size: usize, base: u64, reading: bool) -> Result<Vec<sys::quire_copy_run>> {
    let mut runs = Vec::new();
    if source.extents.iter().any(|(extent, _)| *extent == 0) {
        return Ok(runs);
    }
    let overflow = || Error::new(crate::Code::OutOfRange, "the tensor spans more than 63 bits of bytes");
    let (mut dense, mut outer) = (size as i64, source.extents.len());
    while outer > 0 && source.extents[outer - 1].1 == dense {
        outer -= 1;
        dense = dense.checked_mul(source.extents[outer].0).ok_or_else(overflow)?;
    }
    let outer = &source.extents[..outer];
    let count = outer.iter().try_fold(1_u64, |count, (extent, _)| count.checked_mul(*extent as u64)).ok_or_else(overflow)?;
    room(&mut runs, usize::try_from(count).map_err(|_| overflow())?, "a copy piece by piece")?;
    for piece in 0..count {
        let (mut rest, mut offset) = (piece, 0_i64);
        for (extent, stride) in outer.iter().rev() {
            let step = stride.checked_mul((rest % *extent as u64) as i64).ok_or_else(overflow)?;
            offset = offset.checked_add(step).ok_or_else(overflow)?;
            rest /= *extent as u64;
        }
        let strided = source.address.wrapping_add(offset as u64);
        let dense_at = base + piece * dense as u64;
        let (from, to) = if reading { (strided, dense_at) } else { (dense_at, strided) };
        runs.push(sys::quire_copy_run { source: from, destination: to, bytes: dense as u64 });
    }
    Ok(runs)
}

impl Stream {
    fn check_copy<T: Element>(&self, source: &Source<'_>) -> Result<usize> {
        let scalar = DType { lanes: source.dtype.lanes.max(1), ..source.dtype };
        if scalar != T::DTYPE {
            return Err(Error::invalid(format!("the tensor has elements {:?}, the copy {:?}", source.dtype, T::DTYPE)));
        }
        let own = self.place();
        match &source.place {
            Some(place) => place.check("the tensor", own)?,
            None if source.device != (own.device_type, own.device_id) => {
                return Err(Error::invalid(format!("the tensor belongs to device {:?}, the stream to {:?}", source.device, own)));
            }
            None => {} // another library's: DLPack tells no driver
        }
        if let Some((extent, _)) = source.extents.iter().find(|(extent, _)| *extent < 0) {
            return Err(Error::invalid(format!("the tensor's shape has {}, below 0", extent)));
        }
        let elements = source.extents.iter().try_fold(1_i64, |product, (extent, _)| product.checked_mul(*extent));
        elements.and_then(|count| usize::try_from(count).ok()).ok_or_else(|| Error::invalid("the tensor's shape leaves 63 bits"))
    }

    /// Copies bytes from one tensor of this stream's device to another, behind what is queued, and waits for it.
    ///
    /// # Errors
    /// `InvalidArgument` (a tensor that is not dense, or of another device; two runs write one byte), `OutOfRange`, `PermissionDenied`, `ResourceExhausted`, and the driver's.
    pub fn copy_runs(&self, from: &DeviceTensor, to: &mut DeviceTensor, runs: &[CopyRun]) -> Result<()> {
        from.buffer().place().check("from", self.place())?;
        to.buffer().place().check("to", self.place())?;
        to.check_writable()?;
        let mut raw = Vec::new();
        room(&mut raw, runs.len(), "runs")?;
        for run in runs {
            raw.push(sys::quire_copy_run {
                source: inside(from, run.from_at, run.bytes, "from")?,
                destination: inside(to, run.to_at, run.bytes, "to")?,
                bytes: run.bytes,
            });
        }
        raw.sort_unstable_by_key(|run| run.destination);
        let written = raw.iter().filter(|run| run.bytes > 0);
        if let Some((_, twice)) = written.clone().zip(written.skip(1)).find(|(run, next)| next.destination - run.destination < run.bytes) {
            let at = twice.destination.wrapping_sub(to.raw.data as u64);
            return Err(Error::invalid(format!("runs: byte {} of to is written by two of them", at)));
        }
        self.copy(&raw)
    }

    fn copy(&self, runs: &[sys::quire_copy_run]) -> Result<()> {
        call(|err| unsafe { sys::quire_op_copy(self.raw(), runs.as_ptr(), runs.len() as u64, err) })?;
        self.synchronize(None)
    }

    /// Copies a tensor into a row-major vector, behind what is queued, and waits for it.
    ///
    /// # Errors
    /// `InvalidArgument` (elements, device), `OutOfRange`, `ResourceExhausted` (host memory), and the driver's.
    pub fn read<T: Element>(&self, tensor: &impl Strided) -> Result<Vec<T>> {
        let source = tensor.strided()?;
        let elements = self.check_copy::<T>(&source)?;
        let mut to = unsafe { zeroed::<T>(Some(elements), "the tensor's elements") }?; // all bits are a value of an Element
        self.copy(&runs_of(&source, std::mem::size_of::<T>(), to.as_mut_ptr() as u64, true)?)?;
        Ok(to)
    }

    /// Copies a row-major slice into a tensor, behind what is queued, and waits for it.
    ///
    /// # Errors
    /// `InvalidArgument` (elements, device, length), `PermissionDenied`, and the driver's.
    pub fn write<T: Element>(&self, from: &[T], tensor: &mut DeviceTensor) -> Result<()> {
        tensor.check_writable()?;
        let to = tensor.strided()?;
        let elements = self.check_copy::<T>(&to)?;
        if from.len() != elements {
            return Err(Error::invalid(format!("the slice has {} elements, the tensor {}", from.len(), elements)));
        }
        self.copy(&runs_of(&to, std::mem::size_of::<T>(), from.as_ptr() as u64, false)?)
    }
}
