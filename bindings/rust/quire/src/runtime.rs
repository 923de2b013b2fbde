//! The runtime: the environment, and the modules it leads to.

use crate::error::{borrow_name, call, contained, list, lossy, text, Code, Error, Result};
use quire_sys as sys;
use std::alloc::{GlobalAlloc, Layout};
use std::os::raw::c_void;
use std::ptr::NonNull;

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Trace = sys::QUIRE_LOG_TRACE as isize,
    /// For those who change quire.
    Debug = sys::QUIRE_LOG_DEBUG as isize,
    /// What was chosen.
    Info = sys::QUIRE_LOG_INFO as isize,
    /// What is odd.
    Warn = sys::QUIRE_LOG_WARN as isize,
    /// What failed.
    Error = sys::QUIRE_LOG_ERROR as isize,
}

impl LogLevel {
    fn of(level: i32) -> LogLevel {
        match level {
            sys::QUIRE_LOG_TRACE => LogLevel::Trace,
            sys::QUIRE_LOG_DEBUG => LogLevel::Debug,
            sys::QUIRE_LOG_INFO => LogLevel::Info,
            sys::QUIRE_LOG_WARN => LogLevel::Warn,
            _ => LogLevel::Error, // QUIRE_LOG_ERROR
        }
    }
}

/// Receives a log line: level, component, message. Called from any thread; must not call quire. A function and not a closure, because the
/// library does not say when it has let go of it.
#[derive(Clone, Copy)]
pub struct LogFn(pub fn(LogLevel, &str, &str));

impl std::fmt::Debug for LogFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogFn({:p})", self.0 as *const c_void)
    }
}

/// Monotonic time in nanoseconds. Called from any thread; must not call quire. Where it panics, time stands at 0.
#[derive(Clone, Copy)]
pub struct ClockFn(pub fn() -> i64);

impl std::fmt::Debug for ClockFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClockFn({:p})", self.0 as *const c_void)
    }
}

/// Gives modules their host memory. Called from any thread, as long as anything of the runtime lives; must not call quire.
#[derive(Clone, Copy)]
pub struct HostMemory(pub &'static &'static (dyn GlobalAlloc + Sync));

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostMemory({:p})", self.0)
    }
}

/// What a runtime is made with; the default reads the environment.
#[derive(Debug, Clone, Default)]
pub struct RuntimeOptions {
    /// `QUIRE_DRIVER` grammar: `cpu`, `cuda`, a list, `auto`, `none`; empty = the environment's, then `auto`.
    pub driver: String,
    /// Colon separated absolute folders that are searched first; empty = `QUIRE_DRIVER_PATH`.
    pub driver_path: String,
    /// The same for connectors; empty = `QUIRE_CONNECTOR_PATH`.
    pub connector_path: String,
    /// Receives log lines.
    pub log: Option<LogFn>,
    /// Lowest level that `log` receives.
    pub log_level: Option<LogLevel>,
    /// Host memory of modules; `None` = the C library's.
    pub memory: Option<HostMemory>,
    /// Time, such as that of pins; `None` = `CLOCK_MONOTONIC`.
    pub clock: Option<ClockFn>,
    /// Threads of the CPU driver; 0 = as many as `cpus` names, else all cores.
    pub num_threads: u32,
    /// Where the CPU driver's threads run, such as `0-3,8`; empty = the system decides.
    pub cpus: String,
    /// The environment is not read at all.
    pub ignore_environment: bool,
    /// Modules owned by others or in writable folders are accepted.
    pub trust_paths: bool,
}

unsafe extern "C" fn forward_log(user: *mut c_void, level: i32, component: sys::quire_str, message: sys::quire_str) {
    let log = std::mem::transmute::<*mut c_void, fn(LogLevel, &str, &str)>(user);
    // A line that makes the receiver panic is lost.
    let _ = contained(|| log(LogLevel::of(level), &lossy(component), &lossy(message)));
}

unsafe extern "C" fn forward_clock(user: *mut c_void) -> i64 {
    let clock = std::mem::transmute::<*mut c_void, fn() -> i64>(user);
    contained(clock).unwrap_or(0)
}

fn layout_of(bytes: u64, alignment: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(bytes).ok()?.max(1), usize::try_from(alignment).ok()?.max(1)).ok()
}

/// The allocator that `user` points to.
unsafe fn allocator<'a>(user: *mut c_void) -> &'a (dyn GlobalAlloc + Sync) {
    *user.cast::<&'a (dyn GlobalAlloc + Sync)>()
}

unsafe extern "C" fn forward_alloc(user: *mut c_void, bytes: u64, alignment: u64) -> *mut c_void {
    let layout = match layout_of(bytes, alignment) {
        Some(layout) => layout,
        None => return std::ptr::null_mut(),
    };
    contained(|| allocator(user).alloc(layout)).map_or(std::ptr::null_mut(), |address| address.cast())
}

unsafe extern "C" fn forward_free(user: *mut c_void, address: *mut c_void, bytes: u64, alignment: u64) {
    if let (Some(layout), false) = (layout_of(bytes, alignment), address.is_null()) {
        let _ = contained(|| allocator(user).dealloc(address.cast(), layout));
    }
}

/// One candidate of the module search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Why it was refused; `None` = usable.
    pub code: Option<Code>,
    /// A driver, otherwise a connector.
    pub is_driver: bool,
    /// The step of negotiation reached, 0..9.
    pub step: i32,
    /// How long that took.
    pub duration: std::time::Duration,
    /// The module's name.
    pub name: String,
    /// Its file.
    pub path: String,
    /// Why it was refused, in words.
    pub reason: String,
}

/// The environment, read once, and the modules it leads to. Everything made from it keeps it alive.
///
/// ```
/// # fn main() -> quire::Result<()> {
/// let runtime = quire::Runtime::new(&quire::RuntimeOptions::default())?;
/// for candidate in runtime.probe()? {
///     println!("{}: {}", candidate.name, if candidate.code.is_none() { "usable" } else { &candidate.reason });
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Runtime(NonNull<sys::quire_runtime>);

// base.h: every function of a runtime is callable from any thread.
unsafe impl Send for Runtime {}
unsafe impl Sync for Runtime {}

impl Runtime {
    /// Reads the environment; loads no module yet.
    ///
    /// # Errors
    /// `InvalidArgument`, `IncompatibleAbi`, `ResourceExhausted`; `Unavailable` with the feature `dlopen` and no library.
    pub fn new(options: &RuntimeOptions) -> Result<Runtime> {
        let flags = if options.ignore_environment { sys::QUIRE_RUNTIME_NO_ENV } else { 0 }
            | if options.trust_paths { sys::QUIRE_RUNTIME_TRUST_PATHS } else { 0 };
        let mut raw = sys::quire_runtime_options {
            struct_size: std::mem::size_of::<sys::quire_runtime_options>() as u32,
            header_abi: sys::QUIRE_ABI_VERSION,
            driver: borrow_name(&options.driver, "options.driver")?,
            driver_path: borrow_name(&options.driver_path, "options.driver_path")?,
            connector_path: borrow_name(&options.connector_path, "options.connector_path")?,
            cpus: borrow_name(&options.cpus, "options.cpus")?,
            num_threads: options.num_threads,
            log_level: options.log_level.map_or(0, |level| level as i32),
            flags,
            ..Default::default()
        };
        if let Some(log) = options.log {
            raw.log = Some(forward_log);
            raw.log_user = log.0 as *mut c_void;
        }
        if let Some(HostMemory(memory)) = options.memory {
            raw.alloc = Some(forward_alloc);
            raw.release_memory = Some(forward_free);
            raw.alloc_user = (memory as *const &'static (dyn GlobalAlloc + Sync)) as *mut c_void;
        }
        if let Some(clock) = options.clock {
            raw.clock = Some(forward_clock);
            raw.clock_user = clock.0 as *mut c_void;
        }
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_runtime_create(&raw, &mut out, err) })?;
        made(out).map(Runtime)
    }

    /// Tries every module that can be found and reports each; drivers are opened and closed again.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn probe(&self) -> Result<Vec<Candidate>> {
        let size = std::mem::size_of::<sys::quire_probe_info>();
        let empty = sys::quire_probe_info { struct_size: size as u32, ..Default::default() };
        let found = list(empty, |items, capacity, count, err| unsafe {
            sys::quire_runtime_probe(self.raw(), items, size as u64, capacity, count, err)
        })?;
        Ok(found
            .iter()
            .map(|each| Candidate {
                code: Code::from_number(each.code),
                is_driver: each.kind == sys::QUIRE_MODULE_DRIVER,
                step: each.step,
                duration: std::time::Duration::from_nanos(each.duration_ns.max(0) as u64),
                name: text(&each.name),
                path: text(&each.path),
                reason: text(&each.reason),
            })
            .collect())
    }

    pub(crate) fn raw(&self) -> *mut sys::quire_runtime {
        self.0.as_ptr()
    }
}

/// What a call that succeeded made.
pub(crate) fn made<T>(out: *mut T) -> Result<NonNull<T>> {
    NonNull::new(out).ok_or_else(|| Error::new(Code::Internal, "the library answered OK and NULL"))
}

/// Clone and Drop of a counted handle, and its address.
macro_rules! counted {
    ($name:ident, $retain:ident, $release:ident) => {
        impl Clone for $name {
            fn clone(&self) -> $name {
                unsafe { quire_sys::$retain(self.0.as_ptr()) };
                $name(self.0)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                unsafe { quire_sys::$release(self.0.as_ptr()) }
            }
        }
    };
}
pub(crate) use counted;

counted!(Runtime, quire_runtime_retain, quire_runtime_release);
