//! Codes, errors, and the one place where a C call's answer becomes a `Result`.

use quire_sys as sys;
use std::fmt;
use std::os::raw::c_char;

/// Why a call failed; the numbers are those of `quire_code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The operation was cancelled by its owner.
    Cancelled,
    /// A plugin answered with a code that the library does not know, or the library with one that this crate does not know.
    Unknown(i32),
    /// An argument is wrong whatever the state: fix the call.
    InvalidArgument,
    /// A timeout passed.
    DeadlineExceeded,
    /// No such object, id or name (stale ids included).
    NotFound,
    /// It is there already.
    AlreadyExists,
    /// Not allowed.
    PermissionDenied,
    /// Memory or a declared limit is used up: free something or raise the limit.
    ResourceExhausted,
    /// The call is legal but not in this state.
    FailedPrecondition,
    /// The operation was given up.
    Aborted,
    /// A position, index or capacity lies outside what exists.
    OutOfRange,
    /// This library or driver cannot do that; the message names what is missing.
    Unimplemented,
    /// A bug in quire.
    Internal,
    /// The device, service or library is absent here.
    Unavailable,
    /// Bytes are corrupt, or were overwritten before they were read.
    DataLoss,
    /// Header, library and module versions do not fit.
    IncompatibleAbi,
    /// Asynchronous work is still running.
    NotReady,
    /// The layout cannot be expressed; the message names the layers.
    NotRepresentable,
}

const CODES: [(i32, Code); 17] = [
    (sys::QUIRE_CANCELLED, Code::Cancelled),
    (sys::QUIRE_INVALID_ARGUMENT, Code::InvalidArgument),
    (sys::QUIRE_DEADLINE_EXCEEDED, Code::DeadlineExceeded),
    (sys::QUIRE_NOT_FOUND, Code::NotFound),
    (sys::QUIRE_ALREADY_EXISTS, Code::AlreadyExists),
    (sys::QUIRE_PERMISSION_DENIED, Code::PermissionDenied),
    (sys::QUIRE_RESOURCE_EXHAUSTED, Code::ResourceExhausted),
    (sys::QUIRE_FAILED_PRECONDITION, Code::FailedPrecondition),
    (sys::QUIRE_ABORTED, Code::Aborted),
    (sys::QUIRE_OUT_OF_RANGE, Code::OutOfRange),
    (sys::QUIRE_UNIMPLEMENTED, Code::Unimplemented),
    (sys::QUIRE_INTERNAL, Code::Internal),
    (sys::QUIRE_UNAVAILABLE, Code::Unavailable),
    (sys::QUIRE_DATA_LOSS, Code::DataLoss),
    (sys::QUIRE_INCOMPATIBLE_ABI, Code::IncompatibleAbi),
    (sys::QUIRE_NOT_READY, Code::NotReady),
    (sys::QUIRE_NOT_REPRESENTABLE, Code::NotRepresentable),
];

impl Code {
    /// The code of a number; `None` for 0, success.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Code> {
        if number == sys::QUIRE_OK {
            return None;
        }
        let known = CODES.iter().find(|(value, _)| *value == number);
        Some(known.map_or(Code::Unknown(number), |(_, code)| *code))
    }

    /// The number of the code.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Code::Unknown(number) => number,
            _ => CODES.iter().find(|(_, code)| *code == self).map_or(sys::QUIRE_UNKNOWN, |(value, _)| *value),
        }
    }

    /// The name as the headers write it, without `QUIRE_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Code::Cancelled => "CANCELLED",
            Code::Unknown(_) => "UNKNOWN",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::NotFound => "NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::Aborted => "ABORTED",
            Code::OutOfRange => "OUT_OF_RANGE",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Internal => "INTERNAL",
            Code::Unavailable => "UNAVAILABLE",
            Code::DataLoss => "DATA_LOSS",
            Code::IncompatibleAbi => "INCOMPATIBLE_ABI",
            Code::NotReady => "NOT_READY",
            Code::NotRepresentable => "NOT_REPRESENTABLE",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a call says when it refuses; nothing has changed then unless its documentation says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Why.
    pub code: Code,
    /// `errno`, `CUresult`, ...; 0 = none.
    pub native_code: i32,
    /// Whose number that is: 0 none, 1 errno, 2 CUDA driver, 4 HIP, 5 UCX, 6 dlerror.
    pub native_domain: i32,
    /// `library`, `driver:cpu`, `connector:file`, or `rust` where this crate refuses before the library is asked.
    pub source: String,
    /// One line; names argument, value and limit.
    pub message: String,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, native_code: 0, native_domain: 0, source: "rust".to_string(), message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(Code::InvalidArgument, message)
    }

    #[cold]
    fn from_raw(code: sys::quire_code, raw: &sys::quire_error) -> Error {
        Error {
            code: Code::from_number(code).unwrap_or(Code::Unknown(code)),
            native_code: raw.native_code,
            native_domain: raw.native_domain,
            source: text(&raw.source),
            message: text(&raw.message),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.source, self.code, self.message)
    }
}

impl std::error::Error for Error {}

/// A call that was to take something over refused it: here it is, still the caller's. `?` makes an [`Error`] of it and drops what was given.
#[derive(Debug)]
pub struct Refused<T> {
    /// Why.
    pub error: Error,
    /// What was given.
    pub given: T,
}

impl<T> From<Refused<T>> for Error {
    fn from(refused: Refused<T>) -> Error {
        refused.error
    }
}

/// The result of every call.
pub type Result<T> = std::result::Result<T, Error>;

/// NUL-terminated text of a fixed field.
pub(crate) fn text(field: &[c_char]) -> String {
    let end = field.iter().position(|c| *c == 0).unwrap_or(field.len());
    let bytes: Vec<u8> = field[..end].iter().map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Borrows text for one call.
pub(crate) fn borrow(text: &str) -> sys::quire_str {
    let data = if text.is_empty() { std::ptr::null() } else { text.as_ptr().cast::<c_char>() };
    sys::quire_str { data, len: text.len() as u64 }
}

/// Borrows a name or a path, which ends at no NUL inside of it.
pub(crate) fn borrow_name(text: &str, what: &str) -> Result<sys::quire_str> {
    match text.bytes().position(|byte| byte == 0) {
        None => Ok(borrow(text)),
        Some(at) => Err(Error::invalid(format!("{}: byte {} of {:?} is NUL, which no name or path has", what, at, text))),
    }
}

/// Copies text that the library lends.
pub(crate) unsafe fn copy(text: sys::quire_str) -> String {
    if text.data.is_null() {
        return String::new();
    }
    String::from_utf8_lossy(std::slice::from_raw_parts(text.data.cast::<u8>(), text.len as usize)).into_owned()
}

#[cold]
fn not_loaded(reason: sys::LoadError) -> Error {
    match reason {
        sys::LoadError::Absent(message) => Error { native_domain: 6, ..Error::new(Code::Unavailable, message) },
        sys::LoadError::Incompatible(message) => Error::new(Code::IncompatibleAbi, message),
    }
}

/// Makes one call.
#[inline]
pub(crate) fn call(body: impl FnOnce(*mut sys::quire_error) -> sys::quire_code) -> Result<()> {
    if let Err(reason) = sys::load() {
        return Err(not_loaded(reason));
    }
    let mut raw = sys::quire_error { struct_size: std::mem::size_of::<sys::quire_error>() as u32, ..Default::default() };
    let code = body(&mut raw);
    if code == 0 {
        return Ok(());
    }
    Err(Error::from_raw(code, &raw))
}

/// `count` items of zero bytes, where there is room for them; `None` = the count left the machine's numbers.
///
/// # Safety
/// Zero bytes are a `T`.
pub(crate) unsafe fn zeroed<T: std::marker::Copy>(count: Option<usize>, what: &str) -> Result<Vec<T>> {
    let layout = count.and_then(|count| Some((count, std::alloc::Layout::array::<T>(count).ok()?)));
    let (count, layout) = layout.ok_or_else(|| Error::new(Code::OutOfRange, format!("{}: more bytes than there are addresses", what)))?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    let address = std::alloc::alloc_zeroed(layout).cast::<T>();
    if address.is_null() {
        return Err(Error::new(Code::ResourceExhausted, format!("{}: no host memory for {} bytes", what, layout.size())));
    }
    Ok(Vec::from_raw_parts(address, count, count))
}

/// Room for `more` items, or an error.
pub(crate) fn room<T>(items: &mut Vec<T>, more: usize, what: &str) -> Result<()> {
    items.try_reserve_exact(more).map_err(|_| Error::new(Code::ResourceExhausted, format!("{}: no host memory for {} items", what, more)))
}

/// Runs what C called. A panic must not enter C, and what it carries may panic once more when it is dropped.
pub(crate) fn contained<T>(body: impl FnOnce() -> T) -> Option<T> {
    let caught = |body: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    let (mut body, mut answer) = (Some(body), None);
    let carried = caught(&mut || answer = body.take().map(|body| body()));
    if let Err(carried) = carried {
        let mut carried = Some(carried);
        if let Err(again) = caught(&mut || drop(carried.take())) {
            std::mem::forget(again);
        }
        return None;
    }
    answer
}

/// A two-call array: asks for the number, then for the items, again where there are more by then.
pub(crate) fn list<T: Clone>(
    empty: T,
    mut body: impl FnMut(*mut T, u64, *mut u64, *mut sys::quire_error) -> sys::quire_code,
) -> Result<Vec<T>> {
    let mut items: Vec<T> = Vec::new();
    loop {
        let mut count = 0_u64;
        let address = if items.is_empty() { std::ptr::null_mut() } else { items.as_mut_ptr() };
        let capacity = items.len() as u64;
        let answer = call(|err| body(address, capacity, &mut count, err));
        match answer {
            Err(error) if error.code != Code::OutOfRange || count <= capacity => return Err(error),
            _ if count > capacity => {
                let more = usize::try_from(count - capacity).unwrap_or(usize::MAX);
                room(&mut items, more, "an array of the library's")?;
                items.resize(items.len() + more, empty.clone());
            }
            _ => {
                items.truncate(count as usize);
                return Ok(items);
            }
        }
    }
}

/// A two-call array of text.
pub(crate) fn list_text(body: impl FnMut(*mut c_char, u64, *mut u64, *mut sys::quire_error) -> sys::quire_code) -> Result<String> {
    let bytes: Vec<u8> = list(0, body)?.into_iter().map(|c| c as u8).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The library's version, such as `0.2.0`.
///
/// # Errors
/// `Unavailable` where the library is loaded at run time (feature `dlopen`) and is absent.
pub fn version() -> Result<String> {
    call(|_| 0)?;
    Ok(unsafe { copy(sys::quire_version()) })
}

/// The library's ABI version: major and minor.
///
/// # Errors
/// As [`version`].
pub fn abi_version() -> Result<(u16, u16)> {
    call(|_| 0)?;
    let both = unsafe { sys::quire_abi_version() };
    Ok(((both >> 16) as u16, (both & 0xffff) as u16))
}

/// The bytes of a log line as text, for the length of one call.
pub(crate) unsafe fn lossy<'a>(text: sys::quire_str) -> std::borrow::Cow<'a, str> {
    if text.data.is_null() {
        return "".into();
    }
    String::from_utf8_lossy(std::slice::from_raw_parts(text.data.cast::<u8>(), text.len as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_headers_numbers_and_names() {
        assert_eq!(abi_version().unwrap(), (0, 2));
        assert!(version().unwrap().starts_with("0.2."));
        for (number, code) in CODES {
            assert_eq!(Code::from_number(number), Some(code));
            assert_eq!(code.number(), number);
            let name = unsafe { copy(sys::quire_code_name(number)) };
            assert_eq!(name, code.name());
        }
        assert_eq!(Code::from_number(0), None);
        assert_eq!(Code::from_number(999), Some(Code::Unknown(999)));
        assert_eq!(Code::Unknown(999).number(), 999);
    }

    #[test]
    fn memory_that_there_is_not_is_an_error() {
        let of = |count: Option<usize>| unsafe { zeroed::<u64>(count, "numbers") };
        assert_eq!(of(Some(5)).unwrap(), [0; 5]);
        assert!(of(Some(0)).unwrap().is_empty());
        assert_eq!(of(None).unwrap_err().code, Code::OutOfRange);
        assert_eq!(of(Some(usize::MAX)).unwrap_err().code, Code::OutOfRange);
        let error = of(Some(1 << 58)).unwrap_err();
        assert!(error.code == Code::ResourceExhausted && error.message.contains("2305843009213693952"), "{}", error);
        assert_eq!(room(&mut vec![0_u8; 3], usize::MAX - 1, "bytes").unwrap_err().code, Code::ResourceExhausted);
        let told = list(0_u8, |_, _, count, _| {
            unsafe { *count = u64::MAX };
            sys::QUIRE_OUT_OF_RANGE
        });
        assert_eq!(told.unwrap_err().code, Code::ResourceExhausted);
    }

    #[test]
    fn a_panic_is_contained_even_where_what_it_carries_panics_when_it_is_dropped() {
        struct Twice;
        impl Drop for Twice {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new(7));
            }
        }
        assert_eq!(contained(|| 3), Some(3));
        assert_eq!(contained(|| std::panic::resume_unwind(Box::new(5))), None::<()>);
        assert_eq!(contained(|| std::panic::resume_unwind(Box::new(Twice))), None::<()>);
    }

    #[test]
    fn text_ends_at_nul_or_at_the_end() {
        assert_eq!(text(&[b'a' as c_char, 0, b'b' as c_char]), "a");
        assert_eq!(text(&[b'a' as c_char, b'b' as c_char]), "ab");
    }
}
