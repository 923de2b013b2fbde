//! DLPack's structs, and owners of tensors that came as addresses. Whoever receives a `DLManagedTensorVersioned *` from elsewhere (a capsule of
//! Python, another library) makes an [`Owned`] of it here, once, in `unsafe`; from there on `quire` is safe.

use std::os::raw::c_void;
use std::ptr::NonNull;

/// Where the bytes are.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDevice {
    /// `kDLCPU` = 1, `kDLCUDA` = 2, ...
    pub device_type: i32,
    /// Ordinal.
    pub device_id: i32,
}

/// Type of an element.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDataType {
    /// `kDLInt` = 0, `kDLUInt` = 1, `kDLFloat` = 2, `kDLBfloat` = 4, ...
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Lanes of a vector type.
    pub lanes: u16,
}

/// A strided tensor; strides in elements.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLTensor {
    /// Address of the first byte of the allocation.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// Dimensions.
    pub ndim: i32,
    /// Type.
    pub dtype: DLDataType,
    /// `ndim` extents.
    pub shape: *mut i64,
    /// `ndim` strides in elements, or NULL: dense.
    pub strides: *mut i64,
    /// Bytes from `data` to element 0.
    pub byte_offset: u64,
}

/// Version of the layout.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLPackVersion {
    /// 1.
    pub major: u32,
    /// Fields may be added with it.
    pub minor: u32,
}

/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
pub const READ_ONLY: u64 = 1;

/// DLPack 1.x.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// Of this struct.
    pub version: DLPackVersion,
    /// The maker's.
    pub manager_ctx: *mut c_void,
    /// Frees tensor and struct.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`READ_ONLY`].
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// DLPack 0.x.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The maker's.
    pub manager_ctx: *mut c_void,
    /// Frees tensor and struct.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

macro_rules! owned {
    ($name:ident, $tensor:ident, $text:literal) => {
        #[doc = $text]
        #[derive(Debug)]
        pub struct $name(NonNull<$tensor>);

        // A managed tensor belongs to nobody's thread: DLPack's deleters may run on any.
        unsafe impl Send for $name {}

        impl $name {
            /// Takes a tensor over; `None` for NULL.
            ///
            /// # Safety
            /// The address is NULL or that of a tensor as DLPack describes it, which is the caller's to give away.
            pub unsafe fn new(tensor: *mut $tensor) -> Option<Self> {
                NonNull::new(tensor).map($name)
            }

            /// The address; it stays owned by this.
            #[must_use]
            pub fn as_ptr(&self) -> *mut $tensor {
                self.0.as_ptr()
            }

            /// Gives the tensor away: whoever has the address calls its deleter.
            #[must_use]
            pub fn into_raw(self) -> *mut $tensor {
                let address = self.0.as_ptr();
                std::mem::forget(self);
                address
            }

            /// The tensor's description.
            #[must_use]
            pub fn tensor(&self) -> &DLTensor {
                unsafe { &self.0.as_ref().dl_tensor }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                unsafe {
                    if let Some(deleter) = self.0.as_ref().deleter {
                        deleter(self.0.as_ptr());
                    }
                }
            }
        }
    };
}
owned!(Owned, DLManagedTensorVersioned, "Owns a tensor of DLPack 1.x: dropping it runs the deleter.");
owned!(OwnedLegacy, DLManagedTensor, "Owns a tensor of DLPack 0.x: dropping it runs the deleter.");

impl Owned {
    /// The tensor's flags.
    #[must_use]
    pub fn flags(&self) -> u64 {
        unsafe { self.0.as_ref().flags }
    }
}
