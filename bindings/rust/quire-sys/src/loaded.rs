//! The functions by dlopen: a table of addresses that `load` fills once.

use super::types::*;
use super::LoadError;
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
    fn dlclose(library: *mut c_void) -> c_int;
}
const RTLD_NOW: c_int = 2;

static API: AtomicPtr<Api> = AtomicPtr::new(std::ptr::null_mut());
static LOADING: Mutex<()> = Mutex::new(());

fn last_error() -> LoadError {
    let text = unsafe { dlerror() };
    if text.is_null() {
        return LoadError::Absent("the dynamic loader says nothing".to_string());
    }
    LoadError::Absent(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

unsafe fn address(library: *mut c_void, name: &str) -> Result<*mut c_void, LoadError> {
    let name = CString::new(name).map_err(|error| LoadError::Absent(error.to_string()))?;
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

        unsafe fn resolve(library: *mut c_void) -> Result<Api, LoadError> {
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

/// What these declarations were made from must be what the library was made from: while the major version is 0, both numbers.
fn check_version(library: u32) -> Result<(), LoadError> {
    if library == QUIRE_ABI_VERSION {
        return Ok(());
    }
    let (ours, theirs) = ((QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR), (library >> 16, library & 0xffff));
    Err(LoadError::Incompatible(format!(
        "quire_abi_version is {}.{}, this program was compiled for {}.{}",
        theirs.0, theirs.1, ours.0, ours.1
    )))
}

/// The version first: another one may lack functions.
unsafe fn checked(library: *mut c_void) -> Result<Box<Api>, LoadError> {
    let version = address(library, "quire_abi_version")?;
    check_version(std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(version)())?;
    resolve(library).map(Box::new)
}

/// Loads `libquire.so.0` (or what the environment variable `QUIRE_LIBRARY` names) once; later calls return at once.
///
/// # Errors
/// What the dynamic loader says: the file or a symbol is absent; or the library's version and the one that is wanted.
#[inline]
pub fn load() -> Result<(), LoadError> {
    if !API.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    // What the environment or the loader's own paths name is trusted, as with a library that is linked.
    unsafe { load_from(&std::env::var_os("QUIRE_LIBRARY").unwrap_or_else(|| "libquire.so.0".into())) }
}

/// The same from a file or a name that the loader searches. Where a library is loaded already nothing happens.
///
/// # Errors
/// As [`load`].
///
/// # Safety
/// The file is a build of quire, or the loader finds none: its code runs inside the process, and its functions are called by the types that
/// this crate declares, which their names and the version alone do not prove.
pub unsafe fn load_from(path: &OsStr) -> Result<(), LoadError> {
    let _one = LOADING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !API.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let path = CString::new(path.as_bytes()).map_err(|error| LoadError::Absent(error.to_string()))?;
    let library = dlopen(path.as_ptr(), RTLD_NOW);
    if library.is_null() {
        return Err(last_error());
    }
    let api = checked(library).map_err(|reason| {
        dlclose(library);
        reason
    })?;
    API.store(Box::into_raw(api), Ordering::Release);
    Ok(())
}
