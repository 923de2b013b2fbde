//! Declarations of quire's C ABI, generated from its headers; the headers document every call. Safe Rust is in the crate `quire`.
//!
//! `build.rs` finds the library by `QUIRE_LIB_DIR`, `QUIRE_DIR` or pkg-config. With the feature `dlopen` nothing is linked and [`load`]
//! brings the library when the program runs.
#![allow(non_camel_case_types, non_upper_case_globals)]

#[allow(clippy::all, missing_docs)]
#[rustfmt::skip]
mod types {
    include!("types.rs");
}
pub use types::*;

pub mod dlpack;

#[cfg(not(feature = "dlopen"))]
mod linked {
    use super::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
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
    pub fn load() -> Result<(), String> {
        Ok(())
    }
}
#[cfg(not(feature = "dlopen"))]
pub use linked::*;

#[cfg(feature = "dlopen")]
mod loaded;
#[cfg(feature = "dlopen")]
pub use loaded::*;
