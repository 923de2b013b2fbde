//! Names of blocks as routers and other caches know them, and what becomes of the blocks of a cache.

use crate::cache::{Cache, CacheReader};
use crate::config::numbers;
use crate::entries::Symbol;
use crate::error::{borrow, call, list, zeroed, Error, Result};
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
        match self {
            HashAlgorithm::Sha256Cbor => sys::QUIRE_HASH_SHA256_CBOR,
            HashAlgorithm::XxhashCbor => sys::QUIRE_HASH_XXHASH_CBOR,
            HashAlgorithm::Sha256Pickle => sys::QUIRE_HASH_SHA256_PICKLE,
            HashAlgorithm::XxhashPickle => sys::QUIRE_HASH_XXHASH_PICKLE,
        }
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
    hash_blocks_with(&HashOptions { seed, block_tokens, adapter, salt, ..HashOptions::new(algorithm) }, tokens)
}

/// How a batch of events is encoded: see [`EventBuffer::encode`].
#[derive(Debug, Clone, Copy, Default)]
pub struct EventEncoding<'a> {
    /// Digests whole, not as numbers.
    pub whole_hashes: bool,
    /// Of the batch, in seconds since 1970.
    pub time: f64,
    /// Data parallel.
    pub rank: Option<u32>,
    /// Where the blocks of all events are; empty = "GPU".
    pub medium: &'a str,
    /// The same, "LOCAL" or "REMOTE"; empty = left out.
    pub locality: &'a str,
}

/// A media item at tokens `[position, position + length)`, and where its identifier lies in [`HashOptions::identifiers`].
pub use sys::quire_hash_media as HashMedia;

/// How blocks are hashed; see `quire_hash_options`.
#[derive(Debug, Clone, Copy)]
pub struct HashOptions<'a> {
    /// Which function.
    pub algorithm: HashAlgorithm,
    /// Text whose hash precedes first blocks.
    pub seed: &'a str,
    /// At least 1.
    pub block_tokens: u32,
    /// Only the last media item is looked at.
    pub last_media_only: bool,
    /// An extra key of every block; empty = none.
    pub adapter: &'a str,
    /// An extra key of the first block; empty = none.
    pub salt: &'a str,
    /// By position, not overlapping.
    pub media: &'a [HashMedia],
    /// Text that media point into.
    pub identifiers: &'a str,
    /// Prompt embeddings: `embed_rows` rows of equal size.
    pub embeds: &'a [u8],
    /// 0 = none.
    pub embed_rows: u64,
    /// Digest of the block before the first; empty = the tokens start the sequence.
    pub parent: &'a [u8],
    /// Position of the first token, above 0 exactly when a parent is given.
    pub first_token: u64,
}

impl HashOptions<'_> {
    /// Blocks of 16 without keys, media or parent.
    #[must_use]
    pub fn new(algorithm: HashAlgorithm) -> Self {
        HashOptions {
            algorithm,
            seed: "",
            block_tokens: 16,
            last_media_only: false,
            adapter: "",
            salt: "",
            media: &[],
            identifiers: "",
            embeds: &[],
            embed_rows: 0,
            parent: &[],
            first_token: 0,
        }
    }
}

/// Digests of the complete blocks of `tokens`, back to back.
///
/// # Errors
/// `InvalidArgument`, `Unimplemented` (built without the function).
pub fn hash_blocks_with(options: &HashOptions<'_>, tokens: &[i64]) -> Result<Vec<u8>> {
    let size = options.algorithm.digest_bytes()?;
    if !options.parent.is_empty() && options.parent.len() != size {
        return Err(Error::invalid(format!("parent has {} bytes, a digest of the algorithm {}", options.parent.len(), size)));
    }
    let embeds = options.embeds.len() as u64;
    let row = embeds.checked_div(options.embed_rows).unwrap_or(0);
    if row * options.embed_rows != embeds {
        return Err(Error::invalid(format!("embeds has {} bytes, no multiple of embed_rows {}", embeds, options.embed_rows)));
    }
    let raw = sys::quire_hash_options {
        struct_size: std::mem::size_of::<sys::quire_hash_options>() as u32,
        algorithm: options.algorithm.number(),
        seed: borrow(options.seed),
        block_tokens: options.block_tokens,
        flags: if options.last_media_only { sys::QUIRE_HASH_LAST_MEDIA_ONLY } else { 0 },
        adapter: borrow(options.adapter),
        salt: borrow(options.salt),
        media: address(options.media),
        num_media: options.media.len() as u64,
        identifiers: borrow(options.identifiers),
        embeds: address(options.embeds).cast(),
        embed_rows: options.embed_rows,
        embed_row_bytes: row,
        parent: address(options.parent),
        first_token: options.first_token,
    };
    let blocks = tokens.len().checked_div(options.block_tokens as usize).unwrap_or(0);
    let mut digests = unsafe { zeroed::<u8>(blocks.checked_mul(size), "digests") }?;
    let mut count = 0;
    call(|err| unsafe {
        sys::quire_hash_blocks(&raw, tokens.as_ptr(), tokens.len() as u64, digests.as_mut_ptr(), blocks as u64, &mut count, err)
    })?;
    digests.truncate(count as usize * size);
    Ok(digests)
}

/// NULL where there is nothing.
fn address<T>(items: &[T]) -> *const T {
    if items.is_empty() {
        std::ptr::null()
    } else {
        items.as_ptr()
    }
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
    ///
    /// # Errors
    /// `OutOfRange` (more than there are addresses), `ResourceExhausted` (host memory).
    pub fn new(events: usize, bytes: usize) -> Result<EventBuffer> {
        let words = bytes / 8 + usize::from(bytes % 8 != 0);
        let events = unsafe { zeroed(Some(events), "events") }?;
        Ok(EventBuffer { events, data: unsafe { zeroed(Some(words), "bytes") }?, batch: None })
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
        self.part(event.hashes_offset, u64::from(event.num_hashes) * u64::from(event.hash_bytes))
    }

    fn part(&self, offset: u64, bytes: u64) -> &[u8] {
        let end = offset.checked_add(bytes).and_then(|end| usize::try_from(end).ok());
        end.and_then(|end| self.data().get(offset as usize..end)).unwrap_or(&[])
    }

    /// Digest of the block before an event's first; empty where the event starts a sequence or is none of this buffer's, like the next ones.
    #[must_use]
    pub fn parent(&self, event: &Event) -> &[u8] {
        self.part(event.parent_offset, u64::from(event.parent_bytes))
    }

    /// Tokens of an event's blocks.
    #[must_use]
    pub fn tokens(&self, event: &Event) -> &[i64] {
        let bytes = event.num_tokens.checked_mul(8).map_or(&[][..], |bytes| self.part(event.tokens_offset, bytes));
        if event.tokens_offset % 8 != 0 || bytes.is_empty() {
            return &[];
        }
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 8) }
        // data is aligned to 8
    }

    /// Extra keys of an event's blocks, msgpack.
    #[must_use]
    pub fn keys(&self, event: &Event) -> &[u8] {
        self.part(event.keys_offset, event.keys_bytes)
    }

    /// Name of an event's adapter.
    #[must_use]
    pub fn adapter(&self, event: &Event) -> String {
        String::from_utf8_lossy(self.part(event.adapter_offset, u64::from(event.adapter_bytes))).into_owned()
    }

    /// Name of the kind of an event's group, such as `full_attention`.
    #[must_use]
    pub fn kind(&self, event: &Event) -> String {
        String::from_utf8_lossy(self.part(event.kind_offset, u64::from(event.kind_bytes))).into_owned()
    }

    /// The events as one batch of vLLM's wire format.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn encode(&self, encoding: &EventEncoding<'_>) -> Result<Vec<u8>> {
        let options = sys::quire_event_encoding {
            struct_size: std::mem::size_of::<sys::quire_event_encoding>() as u32,
            flags: if encoding.whole_hashes { sys::QUIRE_EVENTS_WHOLE_HASHES } else { 0 },
            time: encoding.time,
            rank: encoding.rank.map_or(-1, i64::from),
            medium: borrow(encoding.medium),
            locality: borrow(encoding.locality),
        };
        let (events, data) = (self.events(), self.data());
        list(0_u8, |bytes, capacity, count, err| unsafe {
            sys::quire_events_encode(
                events.as_ptr(),
                events.len() as u64,
                data.as_ptr(),
                data.len() as u64,
                &options,
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

pub(crate) struct Room {
    pub(crate) events: *mut Event,
    pub(crate) capacity: u64,
    pub(crate) data: *mut u8,
    pub(crate) bytes: u64,
}

impl EventBuffer {
    pub(crate) fn read(
        &mut self,
        read: impl FnOnce(Room, *mut sys::quire_event_batch, *mut sys::quire_error) -> sys::quire_code,
    ) -> Result<EventBatch> {
        self.batch = None;
        let mut raw = EventBatch::empty();
        let room = Room {
            events: self.events.as_mut_ptr(),
            capacity: self.events.len() as u64,
            data: self.data.as_mut_ptr().cast(),
            bytes: self.data.len() as u64 * 8,
        };
        match call(|err| read(room, &mut raw, err)) {
            Ok(()) => {
                let batch = EventBatch::of(&raw);
                self.batch = Some(batch);
                Ok(batch)
            }
            Err(error) if error.code == crate::Code::OutOfRange => {
                Err(Error { message: format!("{}; needed: {} events, {} bytes", error.message, raw.num_events, raw.num_bytes), ..error })
            }
            Err(error) => Err(error),
        }
    }
}

impl CacheReader {
    /// Events from number `from` on, as many as fit. Allocates nothing.
    ///
    /// # Errors
    /// `FailedPrecondition` (no events), `DataLoss` (overwritten: take a snapshot), `OutOfRange` (not one fits, or from lies ahead).
    pub fn read_events(&self, from: u64, into: &mut EventBuffer) -> Result<EventBatch> {
        into.read(|room, batch, err| unsafe {
            sys::quire_cache_read_events(self.raw(), from, room.events, room.capacity, room.data, room.bytes, batch, err)
        })
    }

    /// Everything that can be found now: all or nothing; reading goes on at the batch's `next`.
    ///
    /// # Errors
    /// As [`CacheReader::read_events`]; `OutOfRange` says what is needed.
    pub fn snapshot_events(&self, into: &mut EventBuffer) -> Result<EventBatch> {
        into.read(|room, batch, err| unsafe {
            sys::quire_cache_snapshot_events(self.raw(), room.events, room.capacity, room.data, room.bytes, batch, err)
        })
    }
}
