//! What may be asked of tiers while another thread runs them.

use crate::config::numbers;
use crate::error::{call, text, Code, Error, Result};
use crate::events::{EventBatch, EventBuffer};
use quire_sys as sys;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

numbers! {
    /// What happened in one tier: `quire_tier_stats`. Its name is what [`TiersReader::tier_name`] says.
    TierStats of quire_tier_stats {
        is_open: u32, units_stored: u64, units_dropped: u64, objects_stored: u64, objects_existed: u64, objects_loaded: u64,
        objects_missing: u64, objects_damaged: u64, objects_failed: u64, bytes_stored: u64, bytes_loaded: u64, bytes_in_flight: u64,
        keys_looked_up: u64, keys_found: u64, tokens_fetched: u64, times_closed: u64, ns_per_mib: u64, latency_ns: u64,
        offers_refused: u64,
    }
}
numbers! {
    /// What happened in all tiers: `quire_tiers_stats`. Element i of `outcomes` counts fetches of the i-th outcome, from `Done` = 1 on.
    TiersStats of quire_tiers_stats {
        unit_tokens: u64, fetches: u64, fetches_in_progress: u64, outcomes: [u64; 8], tokens_fetched: u64, tokens_hit: u64,
        units_taken: u64, units_in_flight: u64, quarantined: u64, quarantined_ever: u64, tokens_asked: u64, fetch_ns: u64,
        fetch_latency: [u64; 32], offers: u64, offers_in_progress: u64,
    }
}

#[derive(Debug)]
struct Address(NonNull<sys::quire_tiers>);

// What readers call is for any thread (tier.h, metrics.h); they hold no reference, so they never release.
unsafe impl Send for Address {}

#[derive(Debug)]
struct Shared {
    /// `None` once the tiers are gone; and how many readers are in a call.
    open: Mutex<(Option<Address>, usize)>,
    left: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, (Option<Address>, usize)> {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A call of a reader: the tiers wait for its end before they go.
#[derive(Debug)]
pub(crate) struct Entered<'r>(&'r Shared, *mut sys::quire_tiers);

impl Entered<'_> {
    pub(crate) fn as_ptr(&self) -> *mut sys::quire_tiers {
        self.1
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.lock().1 -= 1;
        self.0.left.notify_all();
    }
}

/// What may be asked of [`crate::Tiers`] from any thread while another one runs them, such as a server of metrics. It keeps nothing alive: once the
/// tiers are dropped every call answers `FailedPrecondition`.
#[derive(Debug, Clone)]
pub struct TiersReader(Arc<Shared>);

impl TiersReader {
    pub(crate) fn new(raw: NonNull<sys::quire_tiers>) -> TiersReader {
        TiersReader(Arc::new(Shared { open: Mutex::new((Some(Address(raw)), 0)), left: Condvar::new() }))
    }

    pub(crate) fn enter(&self) -> Result<Entered<'_>> {
        let mut open = self.0.lock();
        match open.0 {
            Some(Address(raw)) => {
                open.1 += 1;
                Ok(Entered(&self.0, raw.as_ptr()))
            }
            None => Err(Error::new(Code::FailedPrecondition, "tiers: they are gone, and this is a reader of them")),
        }
    }

    /// No call begins any more, and none goes on.
    pub(crate) fn close(&self) {
        let mut open = self.0.lock();
        open.0 = None;
        while open.1 != 0 {
            open = self.0.left.wait(open).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Counters of one tier.
    ///
    /// # Errors
    /// `OutOfRange`; `FailedPrecondition`: the tiers are gone.
    pub fn tier_stats(&self, tier: u32) -> Result<TierStats> {
        Ok(TierStats::of(&self.raw_stats(tier)?))
    }

    /// What a tier is called.
    ///
    /// # Errors
    /// As [`TiersReader::tier_stats`].
    pub fn tier_name(&self, tier: u32) -> Result<String> {
        let raw: sys::quire_tier_stats = self.raw_stats(tier)?;
        Ok(text(&raw.name))
    }

    /// Counters of all tiers.
    ///
    /// # Errors
    /// `FailedPrecondition`: the tiers are gone.
    pub fn stats(&self) -> Result<TiersStats> {
        let (entered, mut raw) = (self.enter()?, TiersStats::empty());
        call(|err| unsafe { sys::quire_tiers_get_stats(entered.as_ptr(), &mut raw, err) })?;
        Ok(TiersStats::of(&raw))
    }

    /// Events of what a tier keeps, from number `from` on, as [`crate::CacheReader::read_events`] those of the cache. There are no
    /// snapshots: after `DataLoss` read on at the batch's `oldest`. Allocates nothing.
    ///
    /// # Errors
    /// `FailedPrecondition` (no `event_ring_bytes`, the tier is only read, or the tiers are gone), `DataLoss` (overwritten), `OutOfRange`
    /// (tier, not one fits, or from lies ahead).
    pub fn read_events(&self, tier: u32, from: u64, into: &mut EventBuffer) -> Result<EventBatch> {
        let entered = self.enter()?;
        into.read(|room, batch, err| unsafe {
            sys::quire_tiers_read_events(entered.as_ptr(), tier, from, room.events, room.capacity, room.data, room.bytes, batch, err)
        })
    }

    fn raw_stats(&self, tier: u32) -> Result<sys::quire_tier_stats> {
        let (entered, mut raw) = (self.enter()?, TierStats::empty());
        call(|err| unsafe { sys::quire_tiers_get_tier_stats(entered.as_ptr(), tier, &mut raw, err) })?;
        Ok(raw)
    }
}
