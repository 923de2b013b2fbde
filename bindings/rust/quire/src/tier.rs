//! Tiers offload the blocks of a cache, and fetch them back for all layers together.

use crate::cache::Cache;
use crate::config::numbers;
use crate::connector::{Connector, ConnectorHealth};
use crate::entries::{SequenceId, Symbol};
use crate::error::{borrow, call, Code, Error, Refused, Result};
use crate::events::{EventBatch, EventBuffer};
use crate::hold::UnitOptions;
use crate::memory::{Memory, Stream};
use crate::runtime::made;
use crate::shards::Shards;
use crate::tier_offer::{Offer, OfferHandle, OfferInfo, OfferRefusal, Peer};
use crate::tier_reader::{TierStats, TiersReader, TiersStats};
use quire_sys as sys;
use std::ptr::NonNull;
use std::time::Duration;

/// One tier: a connector that it owns, and what is written to it.
#[derive(Debug)]
pub struct Tier {
    /// It must have no tickets in flight.
    pub connector: Connector,
    /// For statistics, at most 31 bytes; empty = the connector's name.
    pub name: String,
    /// Which units are written: [`UnitOptions::COMMITTED`], [`UnitOptions::HIT`] and so on. 0 = the tier is only read.
    pub reasons: u32,
    /// Bytes of stores in flight, which a unit that is alone may exceed; 0 = 64 MiB, or its part of an eighth of
    /// the pool, which the tiers that write share equally, if that is less. Of peers: bytes of all offers; 0 = a quarter of the pool.
    pub max_store_bytes: u64,
    /// The connector leads to other processes: [`Tiers::begin_offer`] and [`Tiers::begin_fetch_from`] use the tier, and nothing else does. `reasons`
    /// is 0. Failures do not suspend it, because they may be those of one peer.
    pub peers: bool,
}

impl Tier {
    /// A tier to which all units are written as soon as they are complete.
    #[must_use]
    pub fn new(connector: Connector) -> Tier {
        Tier { connector, name: String::new(), reasons: UnitOptions::COMMITTED, max_store_bytes: 0, peers: false }
    }

    /// A tier that leads to other processes, for offers and fetches from them.
    #[must_use]
    pub fn of_peers(connector: Connector) -> Tier {
        Tier { reasons: 0, peers: true, ..Tier::new(connector) }
    }
}

/// Options of [`Tiers::new`]. `weights` must be given; 0 = the header's default of the others.
#[derive(Debug, Clone, Copy, Default)]
pub struct TiersOptions<'a> {
    /// Name of the weights, 1 to 4096 bytes, for example `org/model@revision`. Anything else that changes cached values needs another name, too: rope
    /// scaling, quantization, tokenizer.
    pub weights: &'a str,
    /// Tokens of a unit, a multiple of the block size of every group, at most 65536; 0 = chosen, 64 to 4096.
    pub unit_tokens: u64,
    /// Prefill time per token, in nanoseconds; measure it. A fetch that is expected to take more than 0.8 of computing is not begun.
    /// 0 = unknown: everything that is found is fetched.
    pub ns_per_token: f64,
    /// Fetches at the same time, at most 4096; 0 = `max_loads` of the cache.
    pub max_fetches: u32,
    /// Other tensor-parallel sizes whose records are read, too: at most 8, each 1 to 1024.
    pub tensor_parallel: &'a [u32],
    /// Memory of the ring of events of each tier that writes; see [`Tiers::read_events`]. 0 = no events.
    pub event_ring_bytes: u64,
}

/// A fetch by number. [`Tiers::cancel_fetch`] returns `NotFound` once it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct FetchId(pub u64);

/// How a fetch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchOutcome {
    /// Everything that was asked for arrived.
    Done,
    /// No tier has more than the cache.
    Nothing,
    /// Not begun: computing is expected to be faster.
    Slower,
    /// No room for a load now, or too many late transfers.
    NoRoom,
    /// Given up: the deadline passed, or progress was too slow.
    Late,
    /// Records were missing or damaged, or a tier failed.
    Failed,
    /// [`Tiers::cancel_fetch`].
    Cancelled,
    /// One of a later version.
    Unknown(i32),
}

impl FetchOutcome {
    fn of(raw: i32) -> FetchOutcome {
        match raw {
            sys::QUIRE_FETCH_DONE => FetchOutcome::Done,
            sys::QUIRE_FETCH_NOTHING => FetchOutcome::Nothing,
            sys::QUIRE_FETCH_SLOWER => FetchOutcome::Slower,
            sys::QUIRE_FETCH_NO_ROOM => FetchOutcome::NoRoom,
            sys::QUIRE_FETCH_LATE => FetchOutcome::Late,
            sys::QUIRE_FETCH_FAILED => FetchOutcome::Failed,
            sys::QUIRE_FETCH_CANCELLED => FetchOutcome::Cancelled,
            other => FetchOutcome::Unknown(other),
        }
    }
}

/// The end of a fetch: `quire_fetch_result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// The number of the fetch.
    pub fetch: FetchId,
    /// Its sequence, which may be used again.
    pub sequence: SequenceId,
    /// How it ended.
    pub outcome: FetchOutcome,
    /// Index of the tier that gave most bytes.
    pub tier: Option<u32>,
    /// Tokens that the sequence has now, whatever the outcome. 0: reserve with [`crate::Want::MATCH`]. Otherwise reserve the rest without
    /// it, from `known` of its [`crate::SequenceInfo`] on.
    pub committed: u64,
    /// Of these, found in the cache.
    pub hit_tokens: u64,
    /// Bytes that were brought.
    pub bytes: u64,
    /// From begin to end.
    pub elapsed_ns: i64,
}

impl Fetched {
    fn of(raw: &sys::quire_fetch_result) -> Fetched {
        Fetched {
            fetch: FetchId(raw.fetch),
            sequence: SequenceId(raw.sequence),
            outcome: FetchOutcome::of(raw.outcome),
            tier: Some(raw.tier).filter(|tier| *tier != u32::MAX),
            committed: raw.committed,
            hit_tokens: raw.hit_tokens,
            bytes: raw.bytes,
            elapsed_ns: raw.elapsed_ns,
        }
    }
}

numbers! {
    /// What the header of a record says: `quire_record_info`.
    RecordInfo of quire_record_info {
        version: u32, key: [u8; 32], fingerprint: [u8; 32], prefix: [u8; 32], caches: u64, first_token: u64, end_token: u64,
        header_bytes: u64, block_bytes: u64, num_blocks: u64, first_block: [u64; 2], end_block: [u64; 2], written_at_ns: i64,
        block_tokens: u32, is_state: u32, num_caches: u32, first_layer: u32, last_layer: u32, first_head: u32, num_heads: u32,
        rank: u32, num_ranks: u32,
    }
}

/// What a record says of itself, for tools that look at what a connector keeps. `bytes`: from its first one on; untrusted.
///
/// # Errors
/// `NotFound` (no record), `Unimplemented` (another version), `OutOfRange` (the header is longer), `DataLoss`.
pub fn read_record(bytes: &[u8]) -> Result<RecordInfo> {
    let mut raw = RecordInfo::empty();
    call(|err| unsafe { sys::quire_record_read(bytes.as_ptr().cast(), bytes.len() as u64, &mut raw, err) })?;
    Ok(RecordInfo::of(&raw))
}

/// How many blocks are damaged, of whole blocks of a record's payload from `first_block` on. `header`: the record from its first byte on.
///
/// # Errors
/// As [`read_record`]; `OutOfRange` (no whole blocks, or more than it has).
pub fn check_record(header: &[u8], first_block: u64, blocks: &[u8]) -> Result<u64> {
    let (mut damaged, size, n) = (0, header.len() as u64, blocks.len() as u64);
    let (header, blocks) = (header.as_ptr().cast(), blocks.as_ptr().cast());
    call(|err| unsafe { sys::quire_record_check(header, size, first_block, blocks, n, &mut damaged, err) })?;
    Ok(damaged)
}

/// The tiers of a cache. They borrow the cache and its streams. All work is done in [`Tiers::run`]. Dropping them cancels all fetches,
/// and waits until no connector touches memory.
///
/// ```
/// use quire::*;
/// # fn main() -> Result<()> {
/// # let runtime = Runtime::new(&RuntimeOptions { driver: "cpu".into(), ..Default::default() })?;
/// # let layer = Layer { kind: LayerKind::Full, num_kv_heads: 1, num_q_heads: 1, head_dim_k: 16, head_dim_v: 16, dtype: DType::F32, ..Layer::default() };
/// # let config = Config::new(&Model::new(&[layer], 64)?, &PlanOptions { num_pages: 9, ..PlanOptions::default() })?;
/// # let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default())?;
/// # let device = Device::open(&runtime, 0)?;
/// # let (stream, memory) = (Stream::new(&device)?, Memory::new(&device, &config, 0)?);
/// let tier = Tier::new(Connector::open(&runtime, "null", "")?); // "host" with {"bytes": "8GiB"} keeps something
/// let options = TiersOptions { weights: "org/model@revision", unit_tokens: 16, ..TiersOptions::default() };
/// let tiers = Tiers::new(&cache, &[memory], &[&stream], vec![tier], &options)?;
///
/// let sequence = cache.create_sequence(None)?;
/// let prompt: Vec<Symbol> = (0..40).collect();
/// tiers.begin_fetch(sequence, &prompt, None)?;
/// let ended = loop {
///     match tiers.run(std::time::Duration::from_millis(1))?.first() {
///         Some(ended) => break *ended,
///         None => continue,
///     }
/// };
/// assert_eq!((ended.outcome, ended.committed), (FetchOutcome::Nothing, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Tiers<'e> {
    raw: NonNull<sys::quire_tiers>,
    reader: TiersReader,
    shards: Shards<'e>,
    connectors: Vec<Connector>, // released after the tiers
    cache: std::marker::PhantomData<&'e Cache>,
}

impl<'e> Tiers<'e> {
    /// Creates the tiers of a cache, one object per cache: `memories` and `streams` by shard, `tiers` the nearest first, 1 to 8. They take
    /// the cache's units from now on: its `watch_units` and `take_units` are `FailedPrecondition` while they exist.
    ///
    /// # Errors
    /// Returned with the tiers: `InvalidArgument` (an option; a memory of another plan; records that are larger than a connector takes),
    /// `FailedPrecondition` (a tier writes but the cache has no prefix reuse; the cache has tiers already; a connector has tickets in
    /// flight), `NotRepresentable`, `Unimplemented` (cross attention, unless all tiers are peers; a connector that cannot keep records;
    /// built without SHA-256), and the connectors'.
    pub fn new(
        cache: &'e Cache,
        memories: &[Memory],
        streams: &[&'e Stream],
        tiers: Vec<Tier>,
        options: &TiersOptions<'_>,
    ) -> std::result::Result<Tiers<'e>, Refused<Vec<Tier>>> {
        let create = |tiers: &[Tier]| {
            let shards = Shards::new(cache.config(), memories, streams)?;
            let raw_tiers: Vec<sys::quire_tier> = tiers.iter().map(Tier::raw).collect();
            let raw = sys::quire_tiers_options {
                struct_size: std::mem::size_of::<sys::quire_tiers_options>() as u32,
                flags: 0,
                weights: borrow(options.weights),
                memories: shards.memories(),
                streams: shards.streams(),
                tiers: raw_tiers.as_ptr(),
                num_tiers: raw_tiers.len() as u64,
                unit_tokens: options.unit_tokens,
                ns_per_token: options.ns_per_token,
                max_fetches: options.max_fetches,
                reserved0: 0,
                tensor_parallel: options.tensor_parallel.as_ptr(),
                num_tensor_parallel: options.tensor_parallel.len() as u64,
                event_ring_bytes: options.event_ring_bytes,
            };
            let mut out = std::ptr::null_mut();
            call(|err| unsafe { sys::quire_tiers_create(cache.raw(), &raw, &mut out, err) })?;
            Ok((made(out)?, shards))
        };
        match create(&tiers) {
            Ok((raw, shards)) => {
                let connectors = tiers.into_iter().map(|tier| tier.connector).collect();
                Ok(Tiers { raw, reader: TiersReader::new(raw), shards, connectors, cache: std::marker::PhantomData })
            }
            Err(error) => Err(Refused { error, given: tiers }),
        }
    }

    /// Asks for a prefix of `symbols` beyond what the cache has, in loads of at most `max_load_tokens` of the cache; at least the last symbol is left to
    /// compute. `sequence` is empty, and is not used until the fetch has ended; to drop it, cancel first. `deadline`: from now, at least a
    /// nanosecond; `None` = derived from `ns_per_token` and the speed of the tiers. The fetch may have ended already; [`Tiers::run`] reports
    /// it in any case.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `FailedPrecondition` (the sequence is not empty, or is being fetched), `ResourceExhausted`
    /// (`max_fetches`).
    pub fn begin_fetch(&self, sequence: SequenceId, symbols: &[Symbol], deadline: Option<Duration>) -> Result<FetchId> {
        let deadline = deadline.map_or(0, |time| nanoseconds(time).max(1));
        let (mut out, n) = (0, symbols.len() as u64);
        call(|err| unsafe { sys::quire_fetch_begin(self.raw.as_ptr(), sequence.0, symbols.as_ptr(), n, deadline, &mut out, err) })?;
        Ok(FetchId(out))
    }

    /// As [`Tiers::begin_fetch`], and asks a peer for what it offers: only for what cache and tiers lack. When the fetch ends, the peer learns
    /// that the offer is not needed any more.
    ///
    /// # Errors
    /// Those of [`Tiers::begin_fetch`], `OutOfRange` (`peer.tier`), `FailedPrecondition` (no [`Tier::peers`]).
    pub fn begin_fetch_from(
        &self,
        peer: &Peer<'_>,
        sequence: SequenceId,
        symbols: &[Symbol],
        deadline: Option<Duration>,
    ) -> Result<FetchId> {
        let deadline = deadline.map_or(0, |time| nanoseconds(time).max(1));
        let (mut out, n, peer) = (0, symbols.len() as u64, peer.raw());
        call(|err| unsafe {
            sys::quire_fetch_begin_peer(self.raw.as_ptr(), sequence.0, symbols.as_ptr(), n, deadline, &peer, &mut out, err)
        })?;
        Ok(FetchId(out))
    }

    /// Offers the first tokens of a sequence to one reader, through a tier with [`Tier::peers`]. `symbols` are the sequence's, at least those up to
    /// the end and those that drafts read ahead of it. The connector sends from the pool, so the offer holds its blocks until its reader is
    /// done, its lease is over (a setting of the connector), or [`Tiers::end_offer`]. Of a pool on a device it sends from copies in host memory:
    /// blocks are held until they were copied, if all shards are on devices.
    ///
    /// `end_token` is a multiple of the tokens at which all groups can resume; with recurrent layers commit up to exactly there. `None`: the last
    /// one that is committed. An offer of more than what is committed *grows*: each [`Tiers::run`] adds what was committed since. Call it after
    /// every commit, and keep the sequence, and compute nothing beyond `end_token`, until `num_tokens` of [`Tiers::offer_info`] is `end_token`.
    /// Otherwise the sequence may go on, or finish, at once.
    ///
    /// # Errors
    /// `InvalidArgument` (`end_token`), `NotFound` (stale id), `OutOfRange` (`tier`, too few symbols), `FailedPrecondition` (no [`Tier::peers`]; a load of the sequence is in
    /// progress; nothing is committed that far, or the state there is not kept), `ResourceExhausted` (`max_store_bytes`, holds, 4,096 offers),
    /// `Unimplemented` (one that grows, through a connector whose objects are too short to describe it).
    pub fn begin_offer(&self, sequence: SequenceId, symbols: &[Symbol], end_token: Option<u64>, tier: u32) -> Result<Offer> {
        let (mut out, n, end) = (sys::quire_offer::default(), symbols.len() as u64, end_token.unwrap_or(0));
        call(|err| unsafe { sys::quire_offer_begin(self.raw.as_ptr(), sequence.0, symbols.as_ptr(), n, end, tier, &mut out, err) })?;
        Ok(Offer::of(&out))
    }

    /// How an offer stands.
    ///
    /// # Errors
    /// `NotFound` (unknown, or it has ended: its reader is done, its lease is over, or the connector or a device failed).
    pub fn offer_info(&self, handle: &OfferHandle) -> Result<OfferInfo> {
        let mut raw = OfferInfo::empty();
        call(|err| unsafe { sys::quire_offer_get_info(self.raw.as_ptr(), handle.as_ptr(), &mut raw, err) })?;
        Ok(OfferInfo::of(&raw))
    }

    /// Withdraws an offer. Its blocks stay held until the connector has proved that it reads them no more.
    ///
    /// # Errors
    /// `NotFound` (unknown, or it has ended).
    pub fn end_offer(&self, handle: &OfferHandle) -> Result<()> {
        call(|err| unsafe { sys::quire_offer_end(self.raw.as_ptr(), handle.as_ptr(), err) })
    }

    /// Why a fetch from a peer brought nothing of an offer that was there, or not all of it: the first field in which it differs from what
    /// this process could read. The latest 64 fetches that were refused so are remembered.
    ///
    /// # Errors
    /// `NotFound` (no offer was refused in it, as far as is known).
    pub fn refusal(&self, fetch: FetchId) -> Result<OfferRefusal> {
        let mut raw = OfferRefusal::empty();
        call(|err| unsafe { sys::quire_fetch_get_refusal(self.raw.as_ptr(), fetch.0, &mut raw, err) })?;
        Ok(OfferRefusal::of(&raw))
    }

    /// Ends a fetch early; [`Tiers::run`] reports it at its next call.
    ///
    /// # Errors
    /// `NotFound` (unknown, or it has ended).
    pub fn cancel_fetch(&self, fetch: FetchId) -> Result<()> {
        call(|err| unsafe { sys::quire_fetch_cancel(self.raw.as_ptr(), fetch.0, err) })
    }

    /// Stores, follows transfers and ends fetches; returns those that ended, each once, at most 16: the rest come with the next call. No
    /// progress is made without it. Before it, prepare every reserved step and queue the kernels of committed ones. Waits up to `timeout`
    /// while transfers are in flight and none ends; outside of a scope also for what it queued on the streams itself. It allocates in Rust
    /// only when it returns results. Failures of connectors are counted, not returned.
    ///
    /// # Errors
    /// `FailedPrecondition` (another stream's scope uses a memory), `ResourceExhausted` (host memory; nothing is lost, call again).
    pub fn run(&self, timeout: Duration) -> Result<Vec<Fetched>> {
        let (mut raw, mut count) = ([sys::quire_fetch_result::default(); 16], 0);
        let n = raw.len() as u64;
        self.shards.alone(|| {
            call(|err| unsafe { sys::quire_tiers_run(self.raw.as_ptr(), nanoseconds(timeout), raw.as_mut_ptr(), n, &mut count, err) })
        })?;
        Ok(raw.iter().take(count as usize).map(Fetched::of).collect())
    }

    /// What may be asked of the tiers from any thread; clone it for a thread of its own.
    #[must_use]
    pub fn reader(&self) -> &TiersReader {
        &self.reader
    }

    /// As [`TiersReader::tier_stats`].
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn tier_stats(&self, tier: u32) -> Result<TierStats> {
        self.reader.tier_stats(tier)
    }

    /// As [`TiersReader::tier_name`].
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn tier_name(&self, tier: u32) -> Result<String> {
        self.reader.tier_name(tier)
    }

    /// As [`TiersReader::read_events`].
    ///
    /// # Errors
    /// As there.
    pub fn read_events(&self, tier: u32, from: u64, into: &mut EventBuffer) -> Result<EventBatch> {
        self.reader.read_events(tier, from, into)
    }

    /// How the connector of a tier is now.
    ///
    /// # Errors
    /// `OutOfRange` (tier), `Unimplemented`, and the connector's.
    pub fn tier_health(&self, tier: u32) -> Result<ConnectorHealth> {
        match self.connectors.get(tier as usize) {
            Some(connector) => connector.health(),
            None => Err(Error::new(Code::OutOfRange, format!("tier: {} of {}", tier, self.connectors.len()))),
        }
    }

    /// As [`TiersReader::stats`].
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn stats(&self) -> Result<TiersStats> {
        self.reader.stats()
    }
}

impl Drop for Tiers<'_> {
    fn drop(&mut self) {
        self.reader.close(); // the last reference ends here and not where a reader is
        unsafe { sys::quire_tiers_release(self.raw.as_ptr()) }
    }
}

impl Tier {
    fn raw(&self) -> sys::quire_tier {
        sys::quire_tier {
            connector: self.connector.raw(),
            name: borrow(&self.name),
            reasons: self.reasons,
            flags: if self.peers { sys::QUIRE_TIER_PEERS } else { 0 },
            max_store_bytes: self.max_store_bytes,
            reserved0: 0,
        }
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
