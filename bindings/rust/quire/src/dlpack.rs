//! Tensors of others, in and out: DLPack as two traits.

use crate::dtype::{DType, Element};
use crate::error::{contained, Error, Refused, Result};
use quire_sys as sys;
use std::any::Any;
use std::os::raw::c_void;
use sys::dlpack::{DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, Owned, OwnedLegacy};

/// A tensor on its way from one library to another; dropping it runs its deleter.
#[derive(Debug)]
pub enum ManagedTensor {
    /// DLPack 1.x.
    Current(Owned),
    /// DLPack 0.x.
    Legacy(OwnedLegacy),
}

impl From<Owned> for ManagedTensor {
    fn from(owned: Owned) -> ManagedTensor {
        ManagedTensor::Current(owned)
    }
}

impl From<OwnedLegacy> for ManagedTensor {
    fn from(owned: OwnedLegacy) -> ManagedTensor {
        ManagedTensor::Legacy(owned)
    }
}

impl ManagedTensor {
    /// What a call made, which is the caller's now.
    pub(crate) fn made(raw: &sys::quire_dlpack) -> Result<ManagedTensor> {
        let legacy = || unsafe { OwnedLegacy::new(raw.legacy) }.map(ManagedTensor::Legacy);
        let made = unsafe { Owned::new(raw.versioned) }.map(ManagedTensor::Current).or_else(legacy);
        made.ok_or_else(|| Error::new(crate::Code::Internal, "the library answered OK and NULL"))
    }

    pub(crate) fn raw(&self) -> sys::quire_dlpack {
        match self {
            ManagedTensor::Current(owned) => sys::quire_dlpack { versioned: owned.as_ptr(), ..Default::default() },
            ManagedTensor::Legacy(owned) => sys::quire_dlpack { legacy: owned.as_ptr(), ..Default::default() },
        }
    }

    pub(crate) fn given_away(self) {
        match self {
            ManagedTensor::Current(owned) => drop_address(owned.into_raw()),
            ManagedTensor::Legacy(owned) => drop_address(owned.into_raw()),
        }
    }

    pub(crate) fn tensor(&self) -> &DLTensor {
        match self {
            ManagedTensor::Current(owned) => owned.tensor(),
            ManagedTensor::Legacy(owned) => owned.tensor(),
        }
    }

    fn extents(&self, address: *const i64) -> Option<&[i64]> {
        let ndim = usize::try_from(self.tensor().ndim).unwrap_or(0);
        if address.is_null() {
            return None;
        }
        Some(unsafe { std::slice::from_raw_parts(address, ndim) })
    }

    /// Elements.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        self.extents(self.tensor().shape).unwrap_or(&[])
    }

    /// Elements; `None` = dense.
    #[must_use]
    pub fn strides(&self) -> Option<&[i64]> {
        self.extents(self.tensor().strides)
    }

    /// Type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        let dtype = self.tensor().dtype;
        DType { code: dtype.code, bits: dtype.bits, lanes: dtype.lanes }
    }

    /// Kind of device, in DLPack's numbers, and ordinal.
    #[must_use]
    pub fn device(&self) -> (i32, i32) {
        let device = self.tensor().device;
        (device.device_type, device.device_id)
    }

    /// Consumers must not write.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self {
            ManagedTensor::Current(owned) => owned.flags() & sys::dlpack::READ_ONLY != 0,
            ManagedTensor::Legacy(_) => false,
        }
    }

    /// Address of element 0.
    #[must_use]
    pub fn address(&self) -> usize {
        (self.tensor().data as usize).wrapping_add(self.tensor().byte_offset as usize)
    }
}

fn drop_address<T>(_: *mut T) {}

/// What becomes a tensor for others; ownership goes with it.
pub trait IntoDlpack {
    /// The tensor.
    ///
    /// # Errors
    /// `InvalidArgument` where a shape does not fit its elements.
    fn into_dlpack(self) -> Result<ManagedTensor>;
}

/// What is made of a tensor of others at a place: a [`crate::Device`] for tensors that are used as they lie, a
/// [`crate::Stream`] for copies.
pub trait FromDlpack: Sized {
    /// Who takes it.
    type Place;
    /// Takes the tensor; its deleter runs when it is needed no more.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `PermissionDenied` naming what does not fit.
    fn from_dlpack(tensor: ManagedTensor, place: &Self::Place) -> Result<Self>;
}

impl IntoDlpack for ManagedTensor {
    fn into_dlpack(self) -> Result<ManagedTensor> {
        Ok(self)
    }
}

struct Holder {
    managed: DLManagedTensorVersioned,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _owner: Box<dyn Any + Send>,
}

unsafe extern "C" fn drop_holder(managed: *mut DLManagedTensorVersioned) {
    if !managed.is_null() {
        let owner = (*managed).manager_ctx.cast::<Holder>();
        let _ = contained(|| drop(Box::from_raw(owner))); // the owner's Drop may panic
    }
}

/// Elements that a strided tensor spans, from element 0 on. `None` = an extent or a stride that cannot be, also where another extent is 0.
fn span(shape: &[u64], strides: &[i64]) -> Option<u64> {
    let mut last = 0_u64;
    for (extent, stride) in shape.iter().zip(strides) {
        let (extent, stride) = (i64::try_from(*extent).ok()? as u64, u64::try_from(*stride).ok()?);
        last = last.checked_add(stride.checked_mul(extent.saturating_sub(1))?)?;
    }
    if shape.contains(&0) {
        return Some(0);
    }
    last.checked_add(1)
}

fn dense(shape: &[u64]) -> Option<Vec<i64>> {
    let mut strides = vec![1_i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].checked_mul(i64::try_from(shape[i]).ok()?.max(1))?;
    }
    Some(strides)
}

impl ManagedTensor {
    /// Gives a buffer of the engine's away as a tensor: `shape` and `strides` in elements, `None` = row-major. The buffer is dropped when its
    /// last user is gone, on whichever thread that is.
    ///
    /// ```
    /// # fn main() -> quire::Result<()> {
    /// let tensor = quire::ManagedTensor::lend::<f32, _>(vec![0.0; 60], &[3, 2, 8], Some(&[20, 8, 1]), true)?;
    /// assert_eq!(tensor.strides(), Some(&[20, 8, 1][..]));
    /// assert!(quire::ManagedTensor::lend::<f32, _>(vec![0.0; 55], &[3, 2, 8], Some(&[20, 8, 1]), true).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The buffer, and `InvalidArgument`: an extent of more than 63 bits, strides of another length or negative, or the buffer is shorter than
    /// they span.
    pub fn lend<T: Element, B: AsMut<[T]> + Send + 'static>(
        buffer: B,
        shape: &[u64],
        strides: Option<&[i64]>,
        read_only: bool,
    ) -> std::result::Result<ManagedTensor, Refused<B>> {
        let mut owner = Box::new(buffer);
        let strides = strides.map_or_else(|| dense(shape), |strides| Some(strides.to_vec())).unwrap_or_default();
        let elements = owner.as_mut().as_mut();
        let spanned = if strides.len() == shape.len() { span(shape, &strides) } else { None };
        if spanned.map_or(true, |spanned| spanned > elements.len() as u64) {
            let message =
                format!("shape {:?} with strides {:?} does not fit the {} elements of the buffer", shape, strides, elements.len());
            return Err(Refused { error: Error::invalid(message), given: *owner });
        }
        let data = elements.as_mut_ptr().cast::<c_void>();
        let mut holder = Box::new(Holder {
            managed: DLManagedTensorVersioned {
                version: DLPackVersion { major: 1, minor: 0 },
                manager_ctx: std::ptr::null_mut(),
                deleter: Some(drop_holder),
                flags: if read_only { sys::dlpack::READ_ONLY } else { 0 },
                dl_tensor: DLTensor {
                    data,
                    device: DLDevice { device_type: sys::QUIRE_DEVICE_CPU, device_id: 0 },
                    ndim: shape.len() as i32,
                    dtype: DLDataType { code: T::DTYPE.code, bits: T::DTYPE.bits, lanes: 1 },
                    shape: std::ptr::null_mut(),
                    strides: std::ptr::null_mut(),
                    byte_offset: 0,
                },
            },
            shape: shape.iter().map(|extent| *extent as i64).collect(),
            strides,
            _owner: owner,
        });
        holder.managed.dl_tensor.shape = holder.shape.as_mut_ptr();
        holder.managed.dl_tensor.strides = holder.strides.as_mut_ptr();
        let holder = Box::into_raw(holder);
        let lent = unsafe {
            (*holder).managed.manager_ctx = holder.cast();
            Owned::new(std::ptr::addr_of_mut!((*holder).managed))
        };
        Ok(ManagedTensor::Current(lent.expect("a box has an address")))
    }
}

/// Elements with a shape, row-major: what an engine hands out.
#[derive(Debug, Clone)]
pub struct Shaped<T> {
    /// As many as the shape says.
    pub data: Vec<T>,
    /// Elements.
    pub shape: Vec<u64>,
}

impl<T: Element> IntoDlpack for Shaped<T> {
    fn into_dlpack(self) -> Result<ManagedTensor> {
        let wanted = self.shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
        if wanted != Some(self.data.len() as u64) {
            return Err(Error::invalid(format!("shape {:?} does not hold the {} elements of data", self.shape, self.data.len())));
        }
        Ok(ManagedTensor::lend(self.data, &self.shape, None, false)?)
    }
}

impl<T: Element> IntoDlpack for Vec<T> {
    fn into_dlpack(self) -> Result<ManagedTensor> {
        let shape = [self.len() as u64];
        Ok(ManagedTensor::lend(self, &shape, None, false)?)
    }
}

/// Zeroed bytes at an alignment: what a region wants to be bound to.
#[derive(Debug)]
pub struct AlignedBytes {
    address: std::ptr::NonNull<u8>,
    layout: std::alloc::Layout,
}

// Owned bytes and nothing else.
unsafe impl Send for AlignedBytes {}
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `bytes` bytes, at a multiple of `alignment`, a power of two.
    ///
    /// # Errors
    /// `InvalidArgument` (alignment), `ResourceExhausted`.
    pub fn new(bytes: u64, alignment: u64) -> Result<AlignedBytes> {
        let size = usize::try_from(bytes.max(1)).map_err(|_| Error::invalid(format!("bytes is {}", bytes)))?;
        let layout = std::alloc::Layout::from_size_align(size, alignment.max(1) as usize)
            .map_err(|_| Error::invalid(format!("alignment is {}, want a power of two that {} bytes can have", alignment, bytes)))?;
        let address = std::ptr::NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let address = address.ok_or_else(|| Error::new(crate::Code::ResourceExhausted, format!("no memory for {} bytes", bytes)))?;
        Ok(AlignedBytes { address, layout })
    }

    /// How many.
    #[must_use]
    pub fn size(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        unsafe { std::alloc::dealloc(self.address.as_ptr(), self.layout) }
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.size()) }
    }
}

impl AsMut<[u8]> for AlignedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.size()) }
    }
}

impl IntoDlpack for AlignedBytes {
    fn into_dlpack(self) -> Result<ManagedTensor> {
        let shape = [self.size() as u64];
        Ok(ManagedTensor::lend::<u8, _>(self, &shape, None, false)?)
    }
}

/// What [`crate::Memory::export`] makes a tensor of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExportOf {
    /// A field or state tensor of a layer on all pages.
    #[default]
    Layer,
    /// The same by lowered id, as tables and slots name it.
    Lowered,
    /// The same of one id.
    Id(i32),
    /// The bytes of one page in one region.
    Page {
        /// Which page.
        page: u64,
        /// Which region.
        region: u32,
    },
}

/// A wish for [`crate::Memory::export`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Export {
    /// How much.
    pub of: ExportOf,
    /// Which layer.
    pub layer: u32,
    /// Which of its caches.
    pub sub: u32,
    /// Token caches: number of the field (K, V without a codec); states: number of the tensor.
    pub item: u32,
    /// Consumers must not write.
    pub read_only: bool,
    /// Items become a last axis of bytes.
    pub as_bytes: bool,
    /// For consumers of DLPack 0.x.
    pub legacy: bool,
}

impl Export {
    /// A field or state tensor of a layer on all pages.
    #[must_use]
    pub fn layer(layer: u32, sub: u32, item: u32) -> Export {
        Export { layer, sub, item, ..Export::default() }
    }

    pub(crate) fn raw(&self) -> sys::quire_export {
        let mut raw = sys::quire_export {
            struct_size: std::mem::size_of::<sys::quire_export>() as u32,
            layer: self.layer,
            sub: self.sub,
            item: self.item,
            flags: if self.read_only { sys::QUIRE_EXPORT_READ_ONLY } else { 0 }
                | if self.as_bytes { sys::QUIRE_EXPORT_AS_BYTES } else { 0 }
                | if self.legacy { sys::QUIRE_EXPORT_LEGACY } else { 0 },
            ..Default::default()
        };
        match self.of {
            ExportOf::Layer => raw.kind = sys::QUIRE_EXPORT_LAYER,
            ExportOf::Lowered => raw.kind = sys::QUIRE_EXPORT_LOWERED,
            ExportOf::Id(id) => {
                raw.kind = sys::QUIRE_EXPORT_ID;
                raw.id = id;
            }
            ExportOf::Page { page, region } => {
                raw.kind = sys::QUIRE_EXPORT_PAGE;
                raw.page = page;
                raw.region = region;
            }
        }
        raw
    }
}
