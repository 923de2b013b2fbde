//! Blocks that leave a cache: holds, and units that became complete.

use crate::config::{numbers, Config};
use crate::entries::SequenceId;
use crate::error::{call, list, Result};
use quire_sys as sys;

numbers! {
    /// Facts of a hold: `quire_hold_info`.
    HoldInfo of quire_hold_info { first_token: u64, end_token: u64, num_parts: u64 }
}

/// A hold by number. A stale one is `NotFound`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct HoldId(pub u64);

/// Blocks of a cache that are neither evicted nor written to, until this is dropped. It borrows its cache; [`Hold::detach`] goes without.
#[derive(Debug)]
#[must_use = "a hold that is dropped holds nothing"]
pub struct Hold<'c> {
    cache: *mut sys::quire_cache,
    id: u64, // 0: it ended
    config: std::marker::PhantomData<&'c Config>,
}

impl<'c> Hold<'c> {
    pub(crate) fn new(cache: *mut sys::quire_cache, id: u64, _config: &'c Config) -> Hold<'c> {
        Hold { cache, id, config: std::marker::PhantomData }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> HoldId {
        HoldId(self.id)
    }

    /// Which tokens, and how many parts.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn info(&self) -> Result<HoldInfo> {
        let mut raw = HoldInfo::empty();
        call(|err| unsafe { sys::quire_hold_get_info(self.cache, self.id, &mut raw, err) })?;
        Ok(HoldInfo::of(&raw))
    }

    /// What it has of a group: `[column][block]`, 0 where nothing is held.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange` (group).
    pub fn ids(&self, group: u32) -> Result<Vec<i32>> {
        list(0, |ids, capacity, count, err| unsafe { sys::quire_hold_list_ids(self.cache, self.id, group, ids, capacity, count, err) })
    }

    /// Ends it: nobody reads the bytes any more.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn end(mut self) -> Result<()> {
        let id = std::mem::take(&mut self.id);
        call(|err| unsafe { sys::quire_hold_end(self.cache, id, err) })
    }

    /// Leaves the hold without borrowing the cache; [`crate::Cache::held`] takes it up again.
    #[must_use = "the number is the only way back to the hold"]
    pub fn detach(mut self) -> HoldId {
        HoldId(std::mem::take(&mut self.id))
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if self.id != 0 {
            let _ = call(|err| unsafe { sys::quire_hold_end(self.cache, self.id, err) });
        }
    }
}

/// What is reported of complete units; the default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnitOptions {
    /// [`UnitOptions::COMMITTED`], [`UnitOptions::HIT`] and so on: at least one.
    pub reasons: u32,
    /// Tokens of a unit, a multiple of the block size of every group with a token table.
    pub unit_tokens: u64,
    /// Units between report and take; 0 = 1024.
    pub max_waiting: u32,
}

impl UnitOptions {
    /// Its tokens are complete and published now.
    pub const COMMITTED: u32 = sys::QUIRE_UNIT_COMMITTED as u32;
    /// A sequence resumed after it: its tokens were seen again.
    pub const HIT: u32 = sys::QUIRE_UNIT_HIT as u32;
    /// A sequence that has it ends.
    pub const FINISHED: u32 = sys::QUIRE_UNIT_FINISHED as u32;
    /// Its last block is in a page that will be evicted soon.
    pub const EVICTING: u32 = sys::QUIRE_UNIT_EVICTING as u32;

    pub(crate) fn raw(&self) -> sys::quire_unit_options {
        sys::quire_unit_options {
            struct_size: std::mem::size_of::<sys::quire_unit_options>() as u32,
            reasons: self.reasons,
            unit_tokens: self.unit_tokens,
            max_waiting: self.max_waiting,
            reserved0: 0,
        }
    }
}

/// SHA-256 over identity and symbols: equal prefixes have equal digests, in every process.
pub type PrefixDigest = [u8; 32];

/// A part of a sequence that became complete, with its hold.
#[derive(Debug)]
pub struct Unit<'c> {
    /// What it has; ended when the unit is dropped.
    pub hold: Hold<'c>,
    /// It may have ended; 0 where the reason is [`UnitOptions::EVICTING`].
    pub sequence: SequenceId,
    /// A multiple of `unit_tokens`.
    pub first_token: u64,
    /// The position after its last token.
    pub end_token: u64,
    /// One of [`UnitOptions::COMMITTED`], [`UnitOptions::HIT`] and so on.
    pub reason: u32,
    /// It ends where a state is kept, which the hold has.
    pub has_state: bool,
    /// Of the tokens before `end_token`.
    pub digest: PrefixDigest,
    /// The same with the tokens that drafts read beyond.
    pub ahead_digest: PrefixDigest,
}

impl<'c> Unit<'c> {
    pub(crate) fn new(cache: *mut sys::quire_cache, raw: &sys::quire_unit, config: &'c Config) -> Unit<'c> {
        Unit {
            hold: Hold::new(cache, raw.hold, config),
            sequence: SequenceId(raw.sequence),
            first_token: raw.first_token,
            end_token: raw.end_token,
            reason: raw.reason as u32,
            has_state: raw.flags & sys::QUIRE_UNIT_HAS_STATE != 0,
            digest: raw.digest,
            ahead_digest: raw.ahead_digest,
        }
    }
}
