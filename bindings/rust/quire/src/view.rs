//! Tensors that ops borrow, and copies between them and slices.

use crate::dlpack::ManagedTensor;
use crate::dtype::{DType, Element};
use crate::error::{call, Error, Result};
use crate::memory::{DeviceTensor, Stream};
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
    let mut raw = sys::quire_tensor { data, dtype: dtype.raw(), device_type: sys::QUIRE_DEVICE_CPU as i32, ..Default::default() };
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

    /// For ops that write it: in the order of the stream, so a tensor may be written by one op and read by the next.
    ///
    /// # Errors
    /// `PermissionDenied`: it was imported to be read only.
    pub fn view_mut(&self) -> Result<ViewMut<'_>> {
        if self.read_only {
            return Err(Error::new(crate::Code::PermissionDenied, "the tensor was imported to be read only"));
        }
        Ok(ViewMut { raw: self.raw, borrowed: PhantomData })
    }
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
    device_type: i32,
    extents: Vec<(i64, i64)>, // elements, bytes
    borrowed: PhantomData<&'a ()>,
}

impl Strided for DeviceTensor {
    fn strided(&self) -> Result<Source<'_>> {
        let extents = self.shape().iter().copied().zip(self.strides().iter().copied()).collect();
        Ok(Source { address: self.raw.data as u64, dtype: self.dtype(), device_type: self.raw.device_type, extents, borrowed: PhantomData })
    }
}

impl Strided for ManagedTensor {
    fn strided(&self) -> Result<Source<'_>> {
        let size = self.dtype().bytes() as i64;
        let mut extents: Vec<(i64, i64)> = self.shape().iter().map(|extent| (*extent, size)).collect();
        let mut stride = size;
        for i in (0..extents.len()).rev() {
            extents[i].1 = match self.strides() {
                Some(strides) => strides[i].checked_mul(size).ok_or_else(|| Error::invalid("strides leave 63 bits"))?,
                None => stride,
            };
            stride = stride.checked_mul(extents[i].0).ok_or_else(|| Error::invalid("shape leaves 63 bits"))?;
        }
        let device_type = self.device().0;
        Ok(Source { address: self.address() as u64, dtype: self.dtype(), device_type, extents, borrowed: PhantomData })
    }
}

/// Pieces that are dense in both, (offset in the tensor, offset in the dense copy, bytes).
fn pieces(source: &Source<'_>, size: usize) -> Vec<(i64, u64, u64)> {
    let mut dense = size as i64;
    let mut outer = source.extents.len();
    while outer > 0 && source.extents[outer - 1].1 == dense {
        outer -= 1;
        dense *= source.extents[outer].0;
    }
    let mut offsets = vec![0_i64];
    for (extent, stride) in &source.extents[..outer] {
        offsets = offsets.iter().flat_map(|offset| (0..*extent).map(move |i| offset + i * stride)).collect();
    }
    let piece = |(i, offset): (usize, &i64)| (*offset, i as u64 * dense as u64, dense as u64);
    offsets.iter().enumerate().map(piece).filter(|(_, _, bytes)| *bytes != 0).collect()
}

impl Stream {
    fn check_copy<T: Element>(&self, source: &Source<'_>) -> Result<usize> {
        let scalar = DType { lanes: source.dtype.lanes.max(1), ..source.dtype };
        if scalar != T::DTYPE {
            return Err(Error::invalid(format!("the tensor has elements {:?}, the copy {:?}", source.dtype, T::DTYPE)));
        }
        if source.device_type != self.device().0 {
            return Err(Error::invalid(format!(
                "the tensor is on a device of kind {}, the stream's is {}",
                source.device_type,
                self.device().0
            )));
        }
        let elements = source.extents.iter().try_fold(1_i64, |product, (extent, _)| product.checked_mul(*extent));
        elements.and_then(|count| usize::try_from(count).ok()).ok_or_else(|| Error::invalid("the tensor's shape leaves 63 bits"))
    }

    fn copy(&self, runs: &[sys::quire_copy_run]) -> Result<()> {
        call(|err| unsafe { sys::quire_op_copy(self.raw(), runs.as_ptr(), runs.len() as u64, err) })?;
        self.synchronize(None)
    }

    /// Copies a tensor into a row-major vector, behind what is queued, and waits for it.
    ///
    /// # Errors
    /// `InvalidArgument` (elements, device), and the driver's.
    pub fn read<T: Element>(&self, tensor: &impl Strided) -> Result<Vec<T>> {
        let source = tensor.strided()?;
        let mut to = vec![T::default(); self.check_copy::<T>(&source)?];
        let base = to.as_mut_ptr() as u64;
        let runs: Vec<sys::quire_copy_run> = pieces(&source, std::mem::size_of::<T>())
            .iter()
            .map(|(offset, at, bytes)| sys::quire_copy_run {
                source: source.address.wrapping_add(*offset as u64),
                destination: base + at,
                bytes: *bytes,
            })
            .collect();
        self.copy(&runs)?;
        Ok(to)
    }

    /// Copies a row-major slice into a tensor, behind what is queued, and waits for it.
    ///
    /// # Errors
    /// `InvalidArgument` (elements, device, length), `PermissionDenied`, and the driver's.
    pub fn write<T: Element>(&self, from: &[T], tensor: &DeviceTensor) -> Result<()> {
        let _ = tensor.view_mut()?;
        let to = tensor.strided()?;
        let elements = self.check_copy::<T>(&to)?;
        if from.len() != elements {
            return Err(Error::invalid(format!("the slice has {} elements, the tensor {}", from.len(), elements)));
        }
        let base = from.as_ptr() as u64;
        let runs: Vec<sys::quire_copy_run> = pieces(&to, std::mem::size_of::<T>())
            .iter()
            .map(|(offset, at, bytes)| sys::quire_copy_run {
                source: base + at,
                destination: to.address.wrapping_add(*offset as u64),
                bytes: *bytes,
            })
            .collect();
        self.copy(&runs)
    }
}
