//! Declarations of quire's C ABI, generated from its headers; the headers document every call. Safe Rust is in the crate `quire-kv`.
//!
//! `build.rs` finds the library by `QUIRE_LIB_DIR`, `QUIRE_DIR` or pkg-config. With the feature `vendored` it builds the library of its source
//! instead, as an archive. With the feature `dlopen` nothing is linked and [`load`] brings the library when the program runs.
#![allow(non_camel_case_types, non_upper_case_globals)]

#[allow(clippy::all, missing_docs)]
#[rustfmt::skip]
mod types {
    use super::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
    include!("types.rs");
}
pub use types::*;

pub mod dlpack;

/// A `CUstream` or `hipStream_t` of the engine's, for `quire::Stream::import`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeStream(u64);

impl NativeStream {
    /// Names a stream by its handle.
    ///
    /// # Safety
    /// It is a stream of the device that it will be imported for, and lives until the last `quire::Stream` made of it is gone.
    #[must_use]
    pub unsafe fn new(handle: u64) -> NativeStream {
        NativeStream(handle)
    }

    /// The handle.
    #[must_use]
    pub fn handle(self) -> u64 {
        self.0
    }
}

/// The folder of the drivers and connectors that the feature `vendored` built, on the machine that built them; empty in documentation.
#[cfg(feature = "vendored")]
pub const VENDORED_MODULES: &str = match option_env!("QUIRE_VENDORED_MODULES") {
    Some(folder) => folder,
    None => "",
};

/// Why there is no library to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// What the dynamic loader says: the file or a symbol is absent.
    Absent(String),
    /// The library's ABI is another one than these declarations were made from; both are named.
    Incompatible(String),
}

#[cfg(not(feature = "dlopen"))]
mod linked {
    use super::types::*;

    macro_rules! functions {
        ($($tokens:tt)*) => {
            extern "C" {
                $($tokens)*
            }
        };
    }
    include!("functions.rs");

    /// Does nothing: the library is linked.
    ///
    /// # Errors
    /// None.
    #[inline]
    pub fn load() -> Result<(), super::LoadError> {
        Ok(())
    }
}
#[cfg(not(feature = "dlopen"))]
pub use linked::*;

#[cfg(feature = "dlopen")]
mod loaded;
#[cfg(feature = "dlopen")]
pub use loaded::*;
