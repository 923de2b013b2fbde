//! Sessions: a sequence as a stream of bytes that outlives its process.

use crate::cache::Cache;
use crate::config::numbers;
use crate::entries::{SequenceId, Symbol};
use crate::error::{borrow, call, contained, zeroed, Code, Error, Result};
use crate::memory::{Memory, Stream};
use crate::shards::Shards;
use quire_sys as sys;
use std::fmt;
use std::io::{Read, Write};
use std::os::raw::c_void;

/// What saving and restoring a session need: fields of `quire_session_options`.
#[derive(Debug, Clone, Copy)]
pub struct SessionOptions<'a> {
    /// Name of the weights, for example `org/model@revision`; see [`crate::TiersOptions`].
    pub weights: &'a str,
    /// By shard.
    pub memories: &'a [Memory],
    /// By shard: those on which the engine prepares and runs steps.
    pub streams: &'a [&'a Stream],
}

numbers! {
    /// What was saved or restored: `quire_session_info`.
    SessionInfo of quire_session_info { num_tokens: u64, committed: u64, hit_tokens: u64, num_records: u64, num_damaged: u64, bytes: u64 }
}

/// Why a session was not saved or restored.
#[derive(Debug)]
pub enum SessionError {
    /// The library refused it.
    Quire(Error),
    /// The writer or the reader failed. A stream that ends too early is `UnexpectedEof`.
    Io(std::io::Error),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Quire(error) => error.fmt(f),
            SessionError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SessionError::Quire(error) => Some(error),
            SessionError::Io(error) => Some(error),
        }
    }
}

impl From<Error> for SessionError {
    fn from(error: Error) -> SessionError {
        SessionError::Quire(error)
    }
}

/// The caller's writer or reader, and how it failed.
struct Piped<'a, T: ?Sized> {
    io: &'a mut T,
    failed: Option<std::io::Error>,
}

impl<T: ?Sized> Piped<'_, T> {
    fn moves(&mut self, body: impl FnOnce(&mut T) -> std::io::Result<()>) -> sys::quire_code {
        match contained(|| body(self.io)) {
            Some(Ok(())) => return sys::QUIRE_OK,
            Some(Err(error)) => self.failed = Some(error),
            None => self.failed = Some(std::io::Error::new(std::io::ErrorKind::Other, "it panicked")),
        }
        sys::QUIRE_ABORTED
    }

    fn ended<I>(self, answer: Result<I>) -> std::result::Result<I, SessionError> {
        match (answer, self.failed) {
            (Err(error), Some(failed)) if error.code == Code::Aborted => Err(SessionError::Io(failed)),
            (answer, _) => answer.map_err(SessionError::Quire),
        }
    }
}

unsafe extern "C" fn write_on(user: *mut c_void, bytes: *const c_void, num_bytes: u64, _err: *mut sys::quire_error) -> sys::quire_code {
    let to = &mut *user.cast::<Piped<'_, dyn Write>>();
    let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), num_bytes as usize);
    to.moves(|io| io.write_all(bytes))
}

unsafe extern "C" fn read_on(user: *mut c_void, bytes: *mut c_void, num_bytes: u64, _err: *mut sys::quire_error) -> sys::quire_code {
    let from = &mut *user.cast::<Piped<'_, dyn Read>>();
    std::ptr::write_bytes(bytes.cast::<u8>(), 0, num_bytes as usize); // a reader may look at what it is given
    let bytes = std::slice::from_raw_parts_mut(bytes.cast::<u8>(), num_bytes as usize);
    from.moves(|io| io.read_exact(bytes))
}

impl SessionOptions<'_> {
    fn raw(&self, shards: &Shards<'_>) -> sys::quire_session_options {
        sys::quire_session_options {
            struct_size: std::mem::size_of::<sys::quire_session_options>() as u32,
            flags: 0,
            weights: borrow(self.weights),
            memories: shards.memories(),
            streams: shards.streams(),
        }
    }
}

impl Cache {
    /// Writes a session of a sequence, which has no step in flight and can go on afterwards. `symbols`: at least those of its committed
    /// tokens; they are not compared with the sequence's. Blocks until all is written, in pieces of at most 4 MiB. The writer must not use
    /// the cache, not even to read its counters: that would be a deadlock.
    ///
    /// # Errors
    /// [`SessionError::Io`]: the writer's error, unchanged; a panic of it is of kind `Other`. `InvalidArgument`, `NotFound`, `FailedPrecondition` (steps in flight, a load, or another stream's
    /// scope uses a memory), `NotRepresentable`, `Unimplemented`, `ResourceExhausted`, and the driver's.
    pub fn save_session(
        &self,
        sequence: SequenceId,
        options: &SessionOptions<'_>,
        symbols: &[Symbol],
        writer: &mut dyn Write,
    ) -> std::result::Result<SessionInfo, SessionError> {
        let shards = Shards::new(self.config(), options.memories, options.streams)?;
        let (raw, mut info) = (options.raw(&shards), SessionInfo::empty());
        let mut to = Piped { io: writer, failed: None };
        let user = (&mut to as *mut Piped<'_, dyn Write>).cast();
        let (text, n) = (symbols.as_ptr(), symbols.len() as u64);
        let answer = shards.alone(|| {
            call(|err| unsafe { sys::quire_session_save(self.raw(), sequence.0, &raw, text, n, Some(write_on), user, &mut info, err) })
        });
        to.ended(answer.map(|()| SessionInfo::of(&info)))
    }

    /// Reads a session into an empty sequence, opened under the identity that the saved one had. The sequence then has `committed` tokens;
    /// if there are any, reserve the rest of the symbols, which come back, from `known` of its [`crate::SequenceInfo`] on. What follows the session is not read. Blocks until all is in place. The
    /// reader must not use the cache, as in [`Cache::save_session`].
    ///
    /// # Errors
    /// [`SessionError::Io`]: the reader's error; `UnexpectedEof` where the session is cut. Those of [`Cache::save_session`]; `FailedPrecondition` (another model, other weights, another
    /// identity), `OutOfRange` (more tokens than `max_load_tokens`), `DataLoss`, `Unimplemented` (another version), `ResourceExhausted`.
    /// After an error an empty sequence is still empty.
    pub fn restore_session(
        &self,
        sequence: SequenceId,
        options: &SessionOptions<'_>,
        reader: &mut dyn Read,
    ) -> std::result::Result<(Vec<Symbol>, SessionInfo), SessionError> {
        let shards = Shards::new(self.config(), options.memories, options.streams)?;
        let most = self.config().info()?.max_model_len;
        let mut symbols = unsafe { zeroed::<Symbol>(usize::try_from(most).ok(), "symbols of a session") }?;
        let (raw, mut info) = (options.raw(&shards), SessionInfo::empty());
        let mut from = Piped { io: reader, failed: None };
        let user = (&mut from as *mut Piped<'_, dyn Read>).cast();
        let (text, n) = (symbols.as_mut_ptr(), symbols.len() as u64);
        let answer = shards.alone(|| {
            call(|err| unsafe { sys::quire_session_restore(self.raw(), sequence.0, &raw, Some(read_on), user, text, n, &mut info, err) })
        });
        let info = from.ended(answer.map(|()| SessionInfo::of(&info)))?;
        symbols.truncate(usize::try_from(info.num_tokens).unwrap_or(usize::MAX));
        Ok((symbols, info))
    }
}
