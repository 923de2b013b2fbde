//! The functions by dlopen: a table of addresses that `load` fills once.

use super::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use super::types::*;
use std::ffi::{CStr, CString, OsStr};
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Mutex;

#[link(name = "dl")]
extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *mut c_char;
}
const RTLD_NOW: c_int = 2;

static API: AtomicPtr<Api> = AtomicPtr::new(std::ptr::null_mut());
static LOADING: Mutex<()> = Mutex::new(());

fn last_error() -> String {
    let text = unsafe { dlerror() };
    if text.is_null() {
        return "the dynamic loader says nothing".to_string();
    }
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe fn address(library: *mut c_void, name: &str) -> Result<*mut c_void, String> {
    let name = CString::new(name).map_err(|error| error.to_string())?;
    let found = dlsym(library, name.as_ptr());
    if found.is_null() {
        return Err(last_error());
    }
    Ok(found)
}

macro_rules! functions {
    ($(pub fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        struct Api {
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        unsafe fn resolve(library: *mut c_void) -> Result<Api, String> {
            Ok(Api {
                $($name: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?>(
                    address(library, stringify!($name))?,
                ),)*
            })
        }

        $(
            /// Documented in quire's headers.
            ///
            /// # Safety
            /// As the header says; [`load`] succeeded.
            #[inline]
            #[allow(clippy::too_many_arguments)]
            pub unsafe fn $name($($arg: $type),*) $(-> $result)? {
                let api = API.load(Ordering::Acquire);
                assert!(!api.is_null(), "quire_sys::load was not called or failed");
                ((*api).$name)($($arg),*)
            }
        )*
    };
}
include!("functions.rs");

/// Loads `libquire.so.0` (or what the environment variable `QUIRE_LIBRARY` names) once; later calls return at once.
///
/// # Errors
/// What the dynamic loader says: the file or a symbol is absent.
#[inline]
pub fn load() -> Result<(), String> {
    if !API.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    load_from(&std::env::var_os("QUIRE_LIBRARY").unwrap_or_else(|| "libquire.so.0".into()))
}

/// The same from a file or a name that the loader searches. Where a library is loaded already nothing happens.
///
/// # Errors
/// What the dynamic loader says: the file or a symbol is absent.
pub fn load_from(path: &OsStr) -> Result<(), String> {
    let _one = LOADING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !API.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let path = CString::new(path.as_bytes()).map_err(|error| error.to_string())?;
    let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
    if library.is_null() {
        return Err(last_error());
    }
    let api = Box::new(unsafe { resolve(library) }?);
    API.store(Box::into_raw(api), Ordering::Release);
    Ok(())
}
