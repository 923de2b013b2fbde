//! Bookkeeping without bytes: sequences, prefix reuse, steps.

use crate::config::{numbers, Capacity, Config};
use crate::entries::{Got, Identity, Miss, SequenceId, StepId, Symbol, Want};
use crate::error::{call, Error, Result};
use crate::hold::{Hold, HoldId, PrefixDigest, Unit, UnitOptions};
use crate::runtime::{counted, made, Runtime};
use crate::step::{InFlight, Load, Step};
use quire_sys as sys;
use std::ptr::NonNull;

/// Limits of a cache; 0 = the header's default of each.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct CacheOptions {
    pub max_sequences: u32,
    pub max_entries_per_step: u32,
    pub max_tokens_per_step: u32,
    pub step_depth: u32,
    pub max_roots: u32,
    pub max_index_units: u64,
    pub max_media: u64,
    pub hash_seed: u64,
    pub watermark_pages: u32,
    pub flags: u32,
    pub checkpoint_interval: u64,
    pub num_state_branches: u32,
    pub keep_states: u32,
    pub max_pins: u32,
    pub pin_quota_tokens: u64,
    pub checkpoint_bytes: u64,
    pub max_loads: u32,
    pub max_load_tokens: u64,
}

impl CacheOptions {
    pub(crate) fn raw(&self) -> sys::quire_cache_options {
        sys::quire_cache_options {
            struct_size: std::mem::size_of::<sys::quire_cache_options>() as u32,
            max_sequences: self.max_sequences,
            max_entries_per_step: self.max_entries_per_step,
            max_tokens_per_step: self.max_tokens_per_step,
            step_depth: self.step_depth,
            max_roots: self.max_roots,
            max_index_units: self.max_index_units,
            max_media: self.max_media,
            hash_seed: self.hash_seed,
            watermark_pages: self.watermark_pages,
            flags: self.flags,
            checkpoint_interval: self.checkpoint_interval,
            num_state_branches: self.num_state_branches,
            keep_states: self.keep_states,
            max_pins: self.max_pins,
            pin_quota_tokens: self.pin_quota_tokens,
            checkpoint_bytes: self.checkpoint_bytes,
            max_loads: self.max_loads,
            max_load_tokens: self.max_load_tokens,
            ..Default::default()
        }
    }
}

impl Config {
    /// What a cache with these options holds: sequences of `tokens` (0 = `max_model_len`) tokens, the longest of `concurrency`
    /// (0 = 1) sequences.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn capacity(&self, options: &CacheOptions, tokens: u64, concurrency: u64) -> Result<Capacity> {
        let options = options.raw();
        let mut raw = Capacity::empty();
        call(|err| unsafe { sys::quire_config_get_capacity(self.raw(), &options, tokens, concurrency, &mut raw, err) })?;
        Ok(Capacity::of(&raw))
    }
}

numbers! {
    /// State of a sequence: `quire_sequence_info`.
    SequenceInfo of quire_sequence_info {
        steps_in_flight: u32, committed: u64, reserved: u64, known: u64, hit_tokens: u64, num_parts: u64,
        encoder_tokens: u64,
    }
}
numbers! {
    /// Counters since creation, and the present state: `quire_cache_stats`.
    CacheStats of quire_cache_stats {
        num_sequences: u32, pages_total: u64, pages_free: u64, pages_evictable: u64, pages_used: u64, parts_used: u64, parts_cached: u64,
        part_holes: u64, index_units: u64, matches: u64, matched_prompt_tokens: u64, hit_tokens: u64, miss_reasons: [u64; 8],
        evicted_pages: u64, evicted_blocks: u64, hand_overs: u64, steps: u64, aborted_steps: u64, refused_entries: u64, preemptions: u64,
        forks: u64, copies: u64, checkpoints: u64, pins: u64, pinned_tokens: u64, pins_given_up: u64, checkpoint_bytes: u64,
        checkpoints_given_up: u64, checkpoints_declined: u64, recompute_avoided: u64, host_bytes: u64, holds: u64, held_parts: u64,
        units_given_up: u64, loads: u64, aborted_prompt_tokens: u64,
        aborted_hit_tokens: u64, aborted_recompute_avoided: u64, aborted_miss_reasons: [u64; 8],
        page_sample: u64, page_lifetime: [u64; 32], page_lifetime_ns: u64, page_idle: [u64; 32], page_idle_ns: u64,
        page_reuse_gap: [u64; 32], page_reuse_gap_ns: u64,
    }
}

numbers! {
    /// The pages of one group; free pages belong to no group: `quire_group_stats`.
    GroupStats of quire_group_stats {
        group: u32, pages_used: u64, pages_cached: u64, page_lifetime: [u64; 32], page_lifetime_ns: u64, page_idle: [u64; 32],
        page_idle_ns: u64, page_reuse_gap: [u64; 32], page_reuse_gap_ns: u64,
    }
}

numbers! {
    /// What a pin holds: `quire_pin_info`.
    PinInfo of quire_pin_info { priority: u32, tokens: u64, num_parts: u64, deadline_ns: i64 }
}

/// A pin of a cache: a prefix that eviction passes by. Ends with [`Cache::unpin`], not when it is dropped. A stale one is `NotFound`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct PinId(pub u64);

/// How long and how firmly a prefix is pinned. The default: softest, until it is unpinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PinOptions {
    /// 0 (given up first) to 254, or [`PinOptions::HARD`].
    pub priority: u32,
    /// By the runtime's clock; 0 = until it is unpinned.
    pub duration_ns: u64,
}

impl PinOptions {
    /// The priority of pins that are never given up.
    pub const HARD: u32 = sys::QUIRE_PIN_HARD;
}

/// What a prompt would hit now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeResult {
    /// Why not more.
    pub miss: Miss,
    /// Tokens.
    pub hit_tokens: u64,
    /// Attention groups alone.
    pub full_hit_tokens: u64,
}

/// What may be asked of a cache from any thread, while another one runs its steps. Keeps the cache alive.
#[derive(Debug)]
pub struct CacheReader(NonNull<sys::quire_cache>);

// cache.h: quire_probe, quire_cache_get_stats, retain and release are callable from any thread; a reader has no others.
unsafe impl Send for CacheReader {}
unsafe impl Sync for CacheReader {}
counted!(CacheReader, quire_cache_retain, quire_cache_release);

impl CacheReader {
    /// What a prompt would hit now. No call waits for it, and it waits for none.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn probe(&self, identity: &Identity<'_>, symbols: &[Symbol]) -> Result<ProbeResult> {
        let mut raw = sys::quire_probe_result { struct_size: std::mem::size_of::<sys::quire_probe_result>() as u32, ..Default::default() };
        let identity = identity.raw();
        call(|err| unsafe { sys::quire_probe(self.raw(), &identity, symbols.as_ptr(), symbols.len() as u64, &mut raw, err) })?;
        Ok(ProbeResult { miss: Miss::of(raw.miss), hit_tokens: raw.hit_tokens, full_hit_tokens: raw.full_hit_tokens })
    }

    /// Counters since creation, and the present state. Waits for a mutating call in progress.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn stats(&self) -> Result<CacheStats> {
        let mut raw = CacheStats::empty();
        call(|err| unsafe { sys::quire_cache_get_stats(self.raw(), &mut raw, err) })?;
        Ok(CacheStats::of(&raw))
    }

    /// The pages of one group. Waits for a mutating call in progress.
    ///
    /// # Errors
    /// `OutOfRange` (`group`).
    pub fn group_stats(&self, group: u32) -> Result<GroupStats> {
        let mut raw = GroupStats::empty();
        call(|err| unsafe { sys::quire_cache_get_group_stats(self.raw(), group, &mut raw, err) })?;
        Ok(GroupStats::of(&raw))
    }

    /// Names of prefixes of `symbols`, of these lengths, which increase. Waits for a mutating call in progress.
    ///
    /// # Errors
    /// `InvalidArgument` (media symbols that the cache never gave out), `OutOfRange` (`ends`), `Unimplemented` (built without SHA-256).
    pub fn prefix_digests(&self, identity: &Identity<'_>, symbols: &[Symbol], ends: &[u64]) -> Result<Vec<PrefixDigest>> {
        let (identity, n) = (identity.raw(), count(ends.len()));
        let mut digests = vec![[0; 32]; ends.len()];
        call(|err| unsafe {
            let (text, num_symbols) = (symbols.as_ptr(), count(symbols.len()));
            sys::quire_prefix_digests(self.raw(), &identity, text, num_symbols, ends.as_ptr(), n, digests.as_mut_ptr().cast(), err)
        })?;
        Ok(digests)
    }

    /// The C handle, for calls of `quire-kv-sys`, which are `unsafe` and have to keep the header's rules themselves.
    #[must_use]
    pub fn as_raw(&self) -> *mut sys::quire_cache {
        self.0.as_ptr()
    }

    pub(crate) fn raw(&self) -> *mut sys::quire_cache {
        self.0.as_ptr()
    }
}

/// The bookkeeping of a plan. The header says *serialized on cache*: a `Cache` may move to another thread and is not `Sync`, so one call runs at
/// a time and steps in flight may share it. What is free from any thread is in a [`CacheReader`].
///
/// ```
/// use quire::{Cache, CacheOptions, Config, DType, Got, Layer, LayerKind, Model, Outcome, PlanOptions, Want};
/// # fn main() -> quire::Result<()> {
/// let layer = Layer { kind: LayerKind::Full, num_kv_heads: 1, num_q_heads: 1, head_dim_k: 64, head_dim_v: 64, dtype: DType::F32, ..Layer::default() };
/// let config = Config::new(&Model::new(&[layer], 256)?, &PlanOptions { num_pages: 17, ..PlanOptions::default() })?;
/// let cache = Cache::new(None, &config, &CacheOptions::default())?;
///
/// let prompt: Vec<u32> = (0..40).collect();
/// let sequence = cache.create_sequence(None)?;
/// let want = Want { sequence, num_symbols: 40, num_tokens: 40, flags: Want::MATCH | Want::PROMPT_END, ..Want::default() };
/// let mut got = [Got::default()];
/// let mut step = cache.reserve(&[want], &prompt, &mut got)?.expect("there is room");
/// // ... the model's layers run here ...
/// step.commit(&[Outcome { sequence, num_accepted: got[0].num_tokens, symbols_position: 40, num_symbols: 1, ..Outcome::default() }], &[7])?;
/// assert_eq!(cache.sequence_info(sequence)?.committed, 40);
/// assert_eq!(cache.reader().probe(&Default::default(), &prompt)?.hit_tokens, 32);
/// # Ok(())
/// # }
/// ```
///
/// A step borrows its cache:
///
/// ```compile_fail,E0505
/// # fn f(cache: quire::Cache, want: quire::Want) -> quire::Result<()> {
/// let step = cache.reserve(&[want], &[], &mut [quire::Got::default()])?;
/// drop(cache);
/// drop(step);
/// # Ok(())
/// # }
/// ```
///
/// and no second thread calls it meanwhile:
///
/// ```compile_fail,E0277
/// # fn f(cache: quire::Cache) {
/// std::thread::scope(|scope| {
///     scope.spawn(|| cache.verify());
/// });
/// # }
/// ```
#[derive(Debug)]
pub struct Cache {
    reader: CacheReader,
    config: Config,
    not_sync: std::marker::PhantomData<std::cell::Cell<()>>,
}

fn count(items: usize) -> u64 {
    items as u64
}

impl Cache {
    /// Creates the bookkeeping of a plan; all its memory is allocated here.
    ///
    /// # Errors
    /// `InvalidArgument`, `ResourceExhausted` (host memory).
    pub fn new(runtime: Option<&Runtime>, config: &Config, options: &CacheOptions) -> Result<Cache> {
        let raw = options.raw();
        let runtime = runtime.map_or(std::ptr::null_mut(), Runtime::raw);
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_cache_create(runtime, config.raw(), &raw, &mut out, err) })?;
        Ok(Cache { reader: CacheReader(made(out)?), config: config.clone(), not_sync: std::marker::PhantomData })
    }

    /// What may be asked from any thread.
    #[must_use]
    pub fn reader(&self) -> &CacheReader {
        &self.reader
    }

    /// The plan.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens an empty sequence; `None` = no salt, no adapter, epoch 0.
    ///
    /// # Errors
    /// `InvalidArgument`, `ResourceExhausted` (`max_sequences`, `max_roots`).
    pub fn create_sequence(&self, identity: Option<&Identity<'_>>) -> Result<SequenceId> {
        let raw = identity.map(Identity::raw);
        let address = raw.as_ref().map_or(std::ptr::null(), |raw| raw as *const _);
        let mut out = 0;
        call(|err| unsafe { sys::quire_sequence_create(self.raw(), address, &mut out, err) })?;
        Ok(SequenceId(out))
    }

    /// Ends a sequence; published blocks stay findable.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn finish_sequence(&self, sequence: SequenceId) -> Result<()> {
        call(|err| unsafe { sys::quire_sequence_finish(self.raw(), sequence.0, err) })
    }

    /// Gives all blocks of a sequence back and empties it; the id stays valid.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn preempt_sequence(&self, sequence: SequenceId) -> Result<()> {
        call(|err| unsafe { sys::quire_sequence_preempt(self.raw(), sequence.0, err) })
    }

    /// Shortens a sequence to `tokens` committed tokens.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`, `FailedPrecondition` (in flight, or a group cannot resume there).
    pub fn truncate_sequence(&self, sequence: SequenceId, tokens: u64) -> Result<()> {
        call(|err| unsafe { sys::quire_sequence_truncate(self.raw(), sequence.0, tokens, err) })
    }

    /// A new sequence with the same committed tokens; blocks are shared and copied on write.
    ///
    /// # Errors
    /// `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn fork_sequence(&self, parent: SequenceId) -> Result<SequenceId> {
        let mut out = 0;
        call(|err| unsafe { sys::quire_sequence_fork(self.raw(), parent.0, &mut out, err) })?;
        Ok(SequenceId(out))
    }

    /// State of a sequence.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn sequence_info(&self, sequence: SequenceId) -> Result<SequenceInfo> {
        let mut raw = SequenceInfo::empty();
        call(|err| unsafe { sys::quire_sequence_get_info(self.raw(), sequence.0, &mut raw, err) })?;
        Ok(SequenceInfo::of(&raw))
    }

    /// The same digest always gets the same symbols: the first of `length`.
    ///
    /// # Errors
    /// `InvalidArgument` (length 0 or different from before), `ResourceExhausted`.
    pub fn add_media(&self, digest: &[u8; 32], length: u32) -> Result<Symbol> {
        let mut first = 0;
        call(|err| unsafe { sys::quire_cache_add_media(self.raw(), digest.as_ptr(), length, &mut first, err) })?;
        Ok(first)
    }

    /// Reserves memory for one step over all entries; `results` receives one answer per entry. `None`: no entry was admitted.
    ///
    /// # Errors
    /// `InvalidArgument` (`results` shorter than `entries` included), `OutOfRange`, `ResourceExhausted`, `FailedPrecondition` (`step_depth`
    /// steps are in flight). What a single entry is refused for is in its [`Got::refused`].
    pub fn reserve(&self, entries: &[Want], symbols: &[Symbol], results: &mut [Got]) -> Result<Option<Step<'_>>> {
        if results.len() < entries.len() {
            return Err(Error::invalid(format!("results has {} elements, entries {}", results.len(), entries.len())));
        }
        let (mut step, n) = (sys::quire_step::default(), count(entries.len()));
        let (wants, answers) = (entries.as_ptr().cast(), results.as_mut_ptr().cast());
        call(|err| unsafe { sys::quire_reserve(self.raw(), wants, n, symbols.as_ptr(), count(symbols.len()), answers, &mut step, err) })?;
        Ok(if step.id == 0 { None } else { Some(Step::new(InFlight::new(step, &self.config))) })
    }

    /// A step that was [detached](Step::detach).
    ///
    /// # Errors
    /// `NotFound`: it is not in flight.
    pub fn step(&self, id: StepId) -> Result<Step<'_>> {
        InFlight::of(self.raw(), id, &self.config).map(Step::new)
    }

    /// Admits tokens that a connector will bring; `symbols` are those of all of them. `None`: there is no room.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `NotFound`, `ResourceExhausted` (loads in progress), `FailedPrecondition`.
    pub fn begin_load(&self, entry: &Want, symbols: &[Symbol], result: &mut Got) -> Result<Option<Load<'_>>> {
        let (mut step, raw) = (sys::quire_step::default(), (result as *mut Got).cast());
        let entry = (entry as *const Want).cast();
        call(|err| unsafe { sys::quire_load_begin(self.raw(), entry, symbols.as_ptr(), count(symbols.len()), raw, &mut step, err) })?;
        Ok(if step.id == 0 { None } else { Some(Load::new(InFlight::new(step, &self.config), result)) })
    }

    /// Holds what a sequence has of the committed tokens `[first, end)`: nobody evicts it or writes to it.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`, `FailedPrecondition` (a load is in progress, or a step in flight writes the state in place),
    /// `ResourceExhausted`.
    pub fn hold(&self, sequence: SequenceId, first: u64, end: u64) -> Result<Hold<'_>> {
        let mut id = 0;
        call(|err| unsafe { sys::quire_hold_begin(self.raw(), sequence.0, first, end, &mut id, err) })?;
        Ok(Hold::new(self.raw(), id, &self.config))
    }

    /// A hold that was [detached](Hold::detach).
    ///
    /// # Errors
    /// `NotFound`: it ended.
    pub fn held(&self, id: HoldId) -> Result<Hold<'_>> {
        let hold = Hold::new(self.raw(), id.0, &self.config);
        match hold.info() {
            Ok(_) => Ok(hold),
            Err(error) => {
                let _ = hold.detach(); // nobody's to end
                Err(error)
            }
        }
    }

    /// Starts to report units, or changes what is reported; `None`: nothing any more. Units that wait are given up.
    ///
    /// # Errors
    /// `InvalidArgument`, `FailedPrecondition` (no prefix reuse; the cache has tiers, which take its units), `Unimplemented` (built without
    /// SHA-256), `ResourceExhausted`.
    pub fn watch_units(&self, options: Option<&UnitOptions>) -> Result<()> {
        let raw = options.map(UnitOptions::raw);
        let address = raw.as_ref().map_or(std::ptr::null(), |raw| raw as *const _);
        call(|err| unsafe { sys::quire_cache_watch_units(self.raw(), address, err) })
    }

    /// Takes up to `most` units, the oldest first.
    ///
    /// # Errors
    /// `FailedPrecondition`: the cache has tiers, which take its units.
    pub fn take_units(&self, most: usize) -> Result<Vec<Unit<'_>>> {
        let (mut raw, mut units, mut taken) = (vec![sys::quire_unit::default(); most], Vec::with_capacity(most), 0);
        call(|err| unsafe { sys::quire_cache_take_units(self.raw(), raw.as_mut_ptr(), count(most), &mut taken, err) })?;
        units.extend(raw.iter().take(usize::try_from(taken).unwrap_or(most)).map(|unit| Unit::new(self.raw(), unit, &self.config)));
        Ok(units)
    }

    /// Holds the longest prefix of `symbols` that is cached and can be resumed behind, and tells its tokens; it may be all of them.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound` (nothing of it is cached), `ResourceExhausted` (`max_pins`, `pin_quota_tokens`), `FailedPrecondition`
    /// (the cache has no prefix reuse).
    pub fn pin(&self, identity: &Identity<'_>, symbols: &[Symbol], options: &PinOptions) -> Result<(PinId, u64)> {
        let identity = identity.raw();
        let raw = sys::quire_pin_options {
            struct_size: std::mem::size_of::<sys::quire_pin_options>() as u32,
            priority: options.priority,
            duration_ns: options.duration_ns,
        };
        let (mut tokens, mut pin) = (0, 0);
        call(|err| unsafe {
            sys::quire_pin(self.raw(), &identity, symbols.as_ptr(), count(symbols.len()), &raw, &mut tokens, &mut pin, err)
        })?;
        Ok((PinId(pin), tokens))
    }

    /// Ends a pin.
    ///
    /// # Errors
    /// `NotFound` (never was, given up, or its time is over).
    pub fn unpin(&self, pin: PinId) -> Result<()> {
        call(|err| unsafe { sys::quire_unpin(self.raw(), pin.0, err) })
    }

    /// What a pin holds.
    ///
    /// # Errors
    /// `NotFound`, as [`Cache::unpin`].
    pub fn pin_info(&self, pin: PinId) -> Result<PinInfo> {
        let mut raw = PinInfo::empty();
        call(|err| unsafe { sys::quire_pin_get_info(self.raw(), pin.0, &mut raw, err) })?;
        Ok(PinInfo::of(&raw))
    }

    /// Forgets all published content that no sequence references; all pins end.
    ///
    /// # Errors
    /// `FailedPrecondition` (steps in flight).
    pub fn reset(&self) -> Result<()> {
        call(|err| unsafe { sys::quire_cache_reset(self.raw(), err) })
    }

    /// Forgets published blocks by id, and what hangs below them: blocks of all groups that went.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`.
    pub fn forget_blocks(&self, group: u32, ids: &[i32]) -> Result<u64> {
        let mut forgotten = 0;
        call(|err| unsafe { sys::quire_cache_forget_blocks(self.raw(), group, ids.as_ptr(), count(ids.len()), &mut forgotten, err) })?;
        Ok(forgotten)
    }

    /// Re-derives every invariant.
    ///
    /// # Errors
    /// `Internal` naming the invariant that is broken.
    pub fn verify(&self) -> Result<()> {
        call(|err| unsafe { sys::quire_cache_verify(self.raw(), err) })
    }

    pub(crate) fn raw(&self) -> *mut sys::quire_cache {
        self.reader.raw()
    }
}
