//! Names of blocks as routers and other caches know them, and what becomes of the blocks of a cache.

use crate::cache::{Cache, CacheReader};
use crate::config::numbers;
use crate::entries::Symbol;
use crate::error::{borrow, call, list, Error, Result};
use quire_sys as sys;

/// What is hashed with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// SHA-256 over CBOR.
    Sha256Cbor,
    /// XXH3-128 over CBOR.
    XxhashCbor,
    /// SHA-256 over pickle.
    Sha256Pickle,
    /// XXH3-128 over pickle.
    XxhashPickle,
}

impl HashAlgorithm {
    fn number(self) -> i32 {
        (match self {
            HashAlgorithm::Sha256Cbor => sys::QUIRE_HASH_SHA256_CBOR,
            HashAlgorithm::XxhashCbor => sys::QUIRE_HASH_XXHASH_CBOR,
            HashAlgorithm::Sha256Pickle => sys::QUIRE_HASH_SHA256_PICKLE,
            HashAlgorithm::XxhashPickle => sys::QUIRE_HASH_XXHASH_PICKLE,
        }) as i32
    }

    /// Bytes of a digest.
    ///
    /// # Errors
    /// `Unavailable` where the library is loaded at run time and is absent.
    pub fn digest_bytes(self) -> Result<usize> {
        call(|_| 0)?;
        Ok(unsafe { sys::quire_hash_bytes(self.number()) } as usize)
    }
}

/// Digests of the complete blocks of `tokens`, back to back: a chain without media, embeddings or parent.
///
/// ```
/// # fn main() -> quire::Result<()> {
/// use quire::{hash_blocks, HashAlgorithm};
/// let digests = hash_blocks(HashAlgorithm::Sha256Cbor, "0", 16, "", "", &[7; 40])?;
/// assert_eq!(digests.len(), 2 * HashAlgorithm::Sha256Cbor.digest_bytes()?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `InvalidArgument`, `Unimplemented` (built without the function).
pub fn hash_blocks(algorithm: HashAlgorithm, seed: &str, block_tokens: u32, adapter: &str, salt: &str, tokens: &[i64]) -> Result<Vec<u8>> {
    let options = sys::quire_hash_options {
        struct_size: std::mem::size_of::<sys::quire_hash_options>() as u32,
        algorithm: algorithm.number(),
        seed: borrow(seed),
        block_tokens,
        adapter: borrow(adapter),
        salt: borrow(salt),
        ..Default::default()
    };
    let size = algorithm.digest_bytes()?;
    let blocks = tokens.len().checked_div(block_tokens as usize).unwrap_or(0);
    let mut digests = vec![0_u8; blocks * size];
    let mut count = 0;
    call(|err| unsafe {
        sys::quire_hash_blocks(&options, tokens.as_ptr(), tokens.len() as u64, digests.as_mut_ptr(), blocks as u64, &mut count, err)
    })?;
    digests.truncate(count as usize * size);
    Ok(digests)
}

/// One event; its offsets are bytes into the data that came with it. `quire_event`, whose header describes each number.
pub use sys::quire_event as Event;

numbers! {
    /// What a read returned: `quire_event_batch`.
    EventBatch of quire_event_batch { num_events: u64, num_bytes: u64, next: u64, oldest: u64 }
}

/// Room for events and their data, to be used again and again.
#[derive(Debug, Clone, Default)]
pub struct EventBuffer {
    events: Vec<Event>,
    data: Vec<u64>, // data is aligned to 8
    batch: Option<EventBatch>,
}

impl EventBuffer {
    /// Room for so many events and bytes.
    #[must_use]
    pub fn new(events: usize, bytes: usize) -> EventBuffer {
        EventBuffer { events: vec![Event::default(); events], data: vec![0; (bytes + 7) / 8], batch: None }
    }

    /// The events that the last read brought.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events[..self.batch.map_or(0, |batch| (batch.num_events as usize).min(self.events.len()))]
    }

    /// Their data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        let bytes = self.batch.map_or(0, |batch| (batch.num_bytes as usize).min(self.data.len() * 8));
        unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast::<u8>(), bytes) }
    }

    /// Digests of an event's blocks, one behind the other; empty where the event is none of this buffer's.
    #[must_use]
    pub fn hashes(&self, event: &Event) -> &[u8] {
        let bytes = event.num_hashes as usize * event.hash_bytes as usize;
        let start = event.hashes_offset as usize;
        start.checked_add(bytes).and_then(|end| self.data().get(start..end)).unwrap_or(&[])
    }

    /// The events as one batch of vLLM's wire format; `rank` -1 = none.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn encode(&self, time: f64, rank: i64, whole_hashes: bool) -> Result<Vec<u8>> {
        let flags = if whole_hashes { sys::QUIRE_EVENTS_WHOLE_HASHES } else { 0 };
        let (events, data) = (self.events(), self.data());
        list(0_u8, |bytes, capacity, count, err| unsafe {
            sys::quire_events_encode(
                events.as_ptr(),
                events.len() as u64,
                data.as_ptr(),
                data.len() as u64,
                time,
                rank,
                flags,
                bytes,
                capacity,
                count,
                err,
            )
        })
    }
}

impl Cache {
    /// From now on events are recorded. `ring_bytes` 0 = 16 MiB.
    ///
    /// # Errors
    /// `InvalidArgument` (ring too small), `AlreadyExists`, `FailedPrecondition` (content is published), `Unimplemented` (hash function).
    pub fn enable_events(&self, algorithm: HashAlgorithm, seed: &str, ring_bytes: u64) -> Result<()> {
        let options = sys::quire_event_options {
            struct_size: std::mem::size_of::<sys::quire_event_options>() as u32,
            algorithm: algorithm.number(),
            seed: borrow(seed),
            ring_bytes,
            ..Default::default()
        };
        call(|err| unsafe { sys::quire_cache_enable_events(self.raw(), &options, err) })
    }

    /// What stands for a media item in hashes and events.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound` (first), `FailedPrecondition` (no events).
    pub fn name_media(&self, first: Symbol, identifier: &str, placeholder: i64) -> Result<()> {
        call(|err| unsafe { sys::quire_cache_name_media(self.raw(), first, borrow(identifier), placeholder, err) })
    }
}

struct Room {
    events: *mut Event,
    capacity: u64,
    data: *mut u8,
    bytes: u64,
}

impl CacheReader {
    fn events(
        into: &mut EventBuffer,
        read: impl FnOnce(Room, *mut sys::quire_event_batch, *mut sys::quire_error) -> sys::quire_code,
    ) -> Result<EventBatch> {
        into.batch = None;
        let mut raw = EventBatch::empty();
        let room = Room {
            events: into.events.as_mut_ptr(),
            capacity: into.events.len() as u64,
            data: into.data.as_mut_ptr().cast(),
            bytes: into.data.len() as u64 * 8,
        };
        match call(|err| read(room, &mut raw, err)) {
            Ok(()) => {
                let batch = EventBatch::of(&raw);
                into.batch = Some(batch);
                Ok(batch)
            }
            Err(error) if error.code == crate::Code::OutOfRange => {
                Err(Error { message: format!("{}; needed: {} events, {} bytes", error.message, raw.num_events, raw.num_bytes), ..error })
            }
            Err(error) => Err(error),
        }
    }

    /// Events from number `from` on, as many as fit. Allocates nothing.
    ///
    /// # Errors
    /// `FailedPrecondition` (no events), `DataLoss` (overwritten: take a snapshot), `OutOfRange` (not one fits, or from lies ahead).
    pub fn read_events(&self, from: u64, into: &mut EventBuffer) -> Result<EventBatch> {
        CacheReader::events(into, |room, batch, err| unsafe {
            sys::quire_cache_read_events(self.raw(), from, room.events, room.capacity, room.data, room.bytes, batch, err)
        })
    }

    /// Everything that can be found now: all or nothing; reading goes on at the batch's `next`.
    ///
    /// # Errors
    /// As [`CacheReader::read_events`]; `OutOfRange` says what is needed.
    pub fn snapshot_events(&self, into: &mut EventBuffer) -> Result<EventBatch> {
        CacheReader::events(into, |room, batch, err| unsafe {
            sys::quire_cache_snapshot_events(self.raw(), room.events, room.capacity, room.data, room.bytes, batch, err)
        })
    }
}
