//! What is passed to a cache and what it answers: identities, entries of steps, outcomes.

use crate::error::{borrow, copy, Error};
use quire_sys as sys;

/// What prefix matching compares at a position: a token id (below 2^31), or a media symbol of [`crate::Cache::add_media`].
pub type Symbol = u32;

/// A sequence of a cache. A stale or foreign one is `NotFound`; the default is never one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct SequenceId(pub u64);

/// A step of a cache, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct StepId(pub u64);

/// Who may share with whom: sequences share prefixes only when salt, adapter and epoch are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Identity<'a> {
    /// At most 4096 bytes.
    pub salt: &'a str,
    /// At most 4096 bytes.
    pub adapter: &'a str,
    /// Of the weights, for example.
    pub epoch: u64,
    /// Told in events; not part of the identity.
    pub adapter_number: u64,
    /// The sequence never reads the prefix index.
    pub no_match: bool,
    /// The sequence publishes nothing.
    pub no_publish: bool,
}

impl Identity<'_> {
    pub(crate) fn raw(&self) -> sys::quire_identity {
        let flags =
            if self.no_match { sys::QUIRE_SEQUENCE_NO_MATCH } else { 0 } | if self.no_publish { sys::QUIRE_SEQUENCE_NO_PUBLISH } else { 0 };
        sys::quire_identity {
            struct_size: std::mem::size_of::<sys::quire_identity>() as u32,
            flags,
            salt: borrow(self.salt),
            adapter: borrow(self.adapter),
            epoch: self.epoch,
            adapter_number: self.adapter_number,
        }
    }
}

/// Wants of one sequence in a step; laid out as `quire_reserve_entry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Want {
    /// Which.
    pub sequence: SequenceId,
    /// Position of the first symbol given: `known` of [`crate::SequenceInfo`]. Not read where `num_symbols` is 0.
    pub symbols_position: u64,
    /// Of that symbol in the symbols.
    pub symbols_offset: u64,
    /// Symbols given; may be 0.
    pub num_symbols: u32,
    /// Most tokens to compute in this step.
    pub num_tokens: u32,
    /// Tokens beyond that must have memory too.
    pub num_look_ahead: u32,
    /// [`Want::MATCH`], [`Want::PROMPT_END`], [`Want::NO_STOP`], [`Want::KEEP_STATE`].
    pub flags: u32,
    /// 0, or length the whole sequence will reach: admit only if all of it fits now.
    pub full_tokens: u64,
    /// Cross attention, while the sequence is empty: tokens of its encoder; else 0.
    pub encoder_tokens: u64,
}

impl Want {
    /// The sequence is empty and all symbols of its prompt are given: reuse the longest prefix.
    pub const MATCH: u32 = sys::QUIRE_ENTRY_MATCH;
    /// `num_tokens` reaches the end of the prompt.
    pub const PROMPT_END: u32 = sys::QUIRE_ENTRY_PROMPT_END;
    /// `num_tokens` is not cut for a checkpoint.
    pub const NO_STOP: u32 = sys::QUIRE_ENTRY_NO_STOP;
    /// The state at the end of `num_tokens` is worth keeping.
    pub const KEEP_STATE: u32 = sys::QUIRE_ENTRY_KEEP_STATE;
}

/// Why a prefix was not (completely) found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Miss {
    /// Everything that may be reused was.
    None,
    /// Nobody computed these symbols under this identity.
    UnknownPrefix,
    /// It was there and was evicted.
    Evicted,
    /// Attention matches further, but no state was kept at a boundary there.
    NoState,
    /// Attention matches further, but a window's blocks are gone.
    WindowHole,
    /// The rest is shorter than one match unit.
    BelowUnit,
    /// Matching is off.
    Disabled,
    /// A reason that this crate does not know.
    Other(i32),
}

const MISSES: [(i32, Miss); 7] = [
    (sys::QUIRE_MISS_NONE, Miss::None),
    (sys::QUIRE_MISS_UNKNOWN_PREFIX, Miss::UnknownPrefix),
    (sys::QUIRE_MISS_EVICTED, Miss::Evicted),
    (sys::QUIRE_MISS_NO_STATE, Miss::NoState),
    (sys::QUIRE_MISS_WINDOW_HOLE, Miss::WindowHole),
    (sys::QUIRE_MISS_BELOW_UNIT, Miss::BelowUnit),
    (sys::QUIRE_MISS_DISABLED, Miss::Disabled),
];

impl Miss {
    /// The reason of a number.
    #[must_use]
    pub fn of(number: i32) -> Miss {
        MISSES.iter().find(|(value, _)| *value == number).map_or(Miss::Other(number), |(_, miss)| *miss)
    }

    /// The name as the headers write it, without `QUIRE_MISS_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Miss::None => "NONE",
            Miss::UnknownPrefix => "UNKNOWN_PREFIX",
            Miss::Evicted => "EVICTED",
            Miss::NoState => "NO_STATE",
            Miss::WindowHole => "WINDOW_HOLE",
            Miss::BelowUnit => "BELOW_UNIT",
            Miss::Disabled => "DISABLED",
            Miss::Other(_) => "OTHER",
        }
    }
}

/// Why a [`Want`] was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It was admitted.
    None,
    /// Finish or preempt a sequence, or wait.
    NoRoom,
    /// Give the sequence up.
    NeverFits,
    /// The step's tokens are used up; ask again in the next step.
    StepFull,
    /// The plan's `max_model_len`; end the sequence.
    TooLong,
    /// No such sequence.
    Stale,
    /// An earlier entry names the sequence.
    Twice,
    /// A load of the sequence is in progress.
    Loading,
    /// `num_tokens` is 0.
    NoTokens,
    /// [`Want::MATCH`] or `encoder_tokens` for a sequence that has tokens, or a match for one that knows symbols.
    NotEmpty,
    /// [`Want::MATCH`] without symbols.
    NoPrompt,
    /// `symbols_position` is not `known`.
    Position,
    /// `num_look_ahead` leaves no token of `max_tokens_per_step`.
    LookAhead,
    /// A reason that this crate does not know.
    Other(i32),
}

const REFUSALS: [(i32, Refusal); 13] = [
    (sys::QUIRE_REFUSAL_NONE, Refusal::None),
    (sys::QUIRE_REFUSAL_NO_ROOM, Refusal::NoRoom),
    (sys::QUIRE_REFUSAL_NEVER_FITS, Refusal::NeverFits),
    (sys::QUIRE_REFUSAL_STEP_FULL, Refusal::StepFull),
    (sys::QUIRE_REFUSAL_TOO_LONG, Refusal::TooLong),
    (sys::QUIRE_REFUSAL_STALE, Refusal::Stale),
    (sys::QUIRE_REFUSAL_TWICE, Refusal::Twice),
    (sys::QUIRE_REFUSAL_LOADING, Refusal::Loading),
    (sys::QUIRE_REFUSAL_NO_TOKENS, Refusal::NoTokens),
    (sys::QUIRE_REFUSAL_NOT_EMPTY, Refusal::NotEmpty),
    (sys::QUIRE_REFUSAL_NO_PROMPT, Refusal::NoPrompt),
    (sys::QUIRE_REFUSAL_POSITION, Refusal::Position),
    (sys::QUIRE_REFUSAL_LOOK_AHEAD, Refusal::LookAhead),
];

impl Refusal {
    /// The reason of a number.
    #[must_use]
    pub fn of(number: i32) -> Refusal {
        REFUSALS.iter().find(|(value, _)| *value == number).map_or(Refusal::Other(number), |(_, reason)| *reason)
    }

    /// One sentence for logs; empty where there is no library.
    #[must_use]
    pub fn text(self) -> String {
        let number = match self {
            Refusal::Other(number) => number,
            _ => REFUSALS.iter().find(|(_, reason)| *reason == self).map_or(0, |(value, _)| *value),
        };
        sys::load().map_or_else(|_| String::new(), |()| unsafe { copy(sys::quire_refusal_text(number)) })
    }
}

/// Answer to one [`Want`]; laid out as `quire_reserve_result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Got {
    /// Which.
    pub sequence: SequenceId,
    code: i32,
    reason: i32,
    /// How many pages more would admit it.
    pub missing_pages: u64,
    /// First token to compute.
    pub position: u64,
    /// Tokens to compute in this step.
    pub num_tokens: u32,
    /// Reused by this call's match.
    pub hit_tokens: u32,
    miss: i32,
    /// Row in the step's tables; `u32::MAX` when not admitted.
    pub row: u32,
    /// `QUIRE_RESULT_*`.
    pub flags: u32,
    /// Attention groups alone would have hit this far.
    pub full_hit_tokens: u32,
    /// Group that lacks parts, when there is no room.
    pub group: u32,
    reserved0: u32,
}

impl Got {
    /// In [`Got::flags`]: the chunk was cut where a state is worth keeping.
    pub const CHUNK_STOP: u32 = sys::QUIRE_RESULT_CHUNK_STOP;
    /// In [`Got::flags`] of a refusal: waiting does not help, a pool with nothing else in it would refuse the entry, too.
    pub const NEVER_FITS: u32 = sys::QUIRE_RESULT_NEVER_FITS;

    /// The position after the last token to compute: the length of the sequence if all are accepted.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.position + u64::from(self.num_tokens)
    }

    /// Why the entry was refused; `None` = admitted.
    #[must_use]
    pub fn refused(&self) -> Option<crate::Code> {
        crate::Code::from_number(self.code)
    }

    /// The same more exactly.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        Refusal::of(self.reason)
    }

    /// The refusal as an error, for engines that do not wait for room.
    #[must_use]
    pub fn error(&self) -> Error {
        let mut text = self.refusal().text();
        if self.missing_pages > 0 {
            text += &format!(" (group {}, {} pages are missing)", self.group, self.missing_pages);
        }
        Error::new(self.refused().unwrap_or(crate::Code::Internal), text)
    }

    /// Why no more of the prefix was found.
    #[must_use]
    pub fn miss(&self) -> Miss {
        Miss::of(self.miss)
    }
}

/// Outcome of one row of a step; laid out as `quire_commit_entry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Outcome {
    /// Which.
    pub sequence: SequenceId,
    /// Position of the first symbol given: the first one that is not known once rejected tokens are forgotten. Not read where `num_symbols`
    /// is 0.
    pub symbols_position: u64,
    /// Of that symbol in the symbols.
    pub symbols_offset: u64,
    /// Newly known symbols.
    pub num_symbols: u32,
    /// Tokens of this row whose result stands.
    pub num_accepted: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, size_of};

    macro_rules! same_layout {
        ($ours:ident, $theirs:ident, $($field:ident),*) => {
            assert_eq!(size_of::<$ours>(), size_of::<sys::$theirs>());
            assert_eq!(align_of::<$ours>(), align_of::<sys::$theirs>());
            let (ours, theirs) = ($ours::default(), sys::$theirs::default());
            $(assert_eq!(
                std::ptr::addr_of!(ours.$field) as usize - std::ptr::addr_of!(ours) as usize,
                std::ptr::addr_of!(theirs.$field) as usize - std::ptr::addr_of!(theirs) as usize
            );)*
        };
    }

    #[test]
    fn array_elements_are_laid_out_as_the_headers_say() {
        same_layout!(
            Want,
            quire_reserve_entry,
            sequence,
            symbols_position,
            symbols_offset,
            num_symbols,
            num_tokens,
            num_look_ahead,
            flags,
            full_tokens,
            encoder_tokens
        );
        same_layout!(
            Got,
            quire_reserve_result,
            sequence,
            code,
            reason,
            missing_pages,
            position,
            num_tokens,
            hit_tokens,
            miss,
            row,
            flags,
            full_hit_tokens,
            group,
            reserved0
        );
        same_layout!(Outcome, quire_commit_entry, sequence, symbols_position, symbols_offset, num_symbols, num_accepted);
    }
}
