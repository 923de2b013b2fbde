//! What a process offers another: prefill in one, decode in the other.

use crate::config::numbers;
use crate::error::{borrow, text};
use quire_sys as sys;

/// Names an offer: random, and whoever has it can read the offer.
pub type OfferHandle = [u8; 16];

/// What one process offers another: `quire_offer`. Its handle and end go to the other process, as parts of a [`Peer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub handle: OfferHandle,
    /// The reader resumes here: it computes what follows.
    pub end_token: u64,
    /// Of all ranks, with headers.
    pub num_bytes: u64,
}

impl Offer {
    pub(crate) fn of(raw: &sys::quire_offer) -> Offer {
        Offer { handle: raw.handle, end_token: raw.end_token, num_bytes: raw.num_bytes }
    }
}

numbers! {
    /// How an offer stands: `quire_offer_info`. `is_ready` 1: pass the handle on now. `num_tokens`: that can be read now; the offer's `end_token`
    /// when it is complete.
    OfferInfo of quire_offer_info { is_ready: u32, num_records: u64, num_tokens: u64 }
}

/// Why nothing came of an offer: `quire_offer_refusal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferRefusal {
    /// The first field that differs.
    pub field: OfferField,
    /// Its name, for example `unit_tokens` or `layer 3.0`.
    pub name: String,
    /// Its value in this process; empty: it is not shown.
    pub here: String,
    /// In the peer's, who may say anything.
    pub there: String,
}

impl OfferRefusal {
    pub(crate) fn empty() -> sys::quire_offer_refusal {
        sys::quire_offer_refusal { struct_size: std::mem::size_of::<sys::quire_offer_refusal>() as u32, ..Default::default() }
    }

    pub(crate) fn of(raw: &sys::quire_offer_refusal) -> OfferRefusal {
        OfferRefusal { field: OfferField::of(raw.field), name: text(&raw.name), here: text(&raw.here), there: text(&raw.there) }
    }
}

/// What an offer says of itself, in the order in which its reader compares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferField {
    /// Of what it says, or of its records.
    Version,
    /// The name of the weights.
    Weights,
    /// What a layer caches: heads, sizes, types, codec, window, sinks.
    Layers,
    /// The length of a unit.
    UnitTokens,
    /// A tensor-parallel size that the options do not name, other pipeline stages or context-parallel ranks.
    Ranks,
    /// Its plan groups the layers otherwise.
    Groups,
    /// Tokens that drafts read ahead.
    LookAhead,
    /// Of the identity of its sequence.
    Salt,
    /// The same.
    Adapter,
    /// The same.
    Epoch,
    /// Not that of the [`Peer`], not beyond the prompt, or not where all groups can resume here.
    EndToken,
    /// Other tokens.
    Prompt,
    /// Windows under longer blocks than the writer's.
    BlockTokens,
    /// Not that of the [`Peer`].
    EncoderTokens,
    /// One of a later version.
    Unknown(i32),
}

impl OfferField {
    fn of(raw: i32) -> OfferField {
        match raw {
            sys::QUIRE_OFFER_VERSION => OfferField::Version,
            sys::QUIRE_OFFER_WEIGHTS => OfferField::Weights,
            sys::QUIRE_OFFER_LAYERS => OfferField::Layers,
            sys::QUIRE_OFFER_UNIT_TOKENS => OfferField::UnitTokens,
            sys::QUIRE_OFFER_RANKS => OfferField::Ranks,
            sys::QUIRE_OFFER_GROUPS => OfferField::Groups,
            sys::QUIRE_OFFER_LOOK_AHEAD => OfferField::LookAhead,
            sys::QUIRE_OFFER_SALT => OfferField::Salt,
            sys::QUIRE_OFFER_ADAPTER => OfferField::Adapter,
            sys::QUIRE_OFFER_EPOCH => OfferField::Epoch,
            sys::QUIRE_OFFER_END_TOKEN => OfferField::EndToken,
            sys::QUIRE_OFFER_PROMPT => OfferField::Prompt,
            sys::QUIRE_OFFER_BLOCK_TOKENS => OfferField::BlockTokens,
            sys::QUIRE_OFFER_ENCODER_TOKENS => OfferField::EncoderTokens,
            other => OfferField::Unknown(other),
        }
    }
}

/// Where a fetch finds what another process offers. A router passes it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer<'a> {
    /// Index of a tier with [`crate::Tier::peers`].
    pub tier: u32,
    /// Of the other process, as the connector wants it, 1 to 255 bytes.
    pub address: &'a str,
    /// That of the other process's [`Offer`].
    pub handle: OfferHandle,
    /// The same.
    pub end_token: u64,
    /// The offer may grow still: what is missing is waited for, until `end_token` is reached, the offer ends, or the deadline passes.
    pub grows: bool,
    /// Cross attention: those of the sequence that is offered. Otherwise 0.
    pub encoder_tokens: u32,
}

impl Peer<'_> {
    pub(crate) fn raw(&self) -> sys::quire_peer {
        sys::quire_peer {
            struct_size: std::mem::size_of::<sys::quire_peer>() as u32,
            tier: self.tier,
            address: borrow(self.address),
            handle: self.handle,
            end_token: self.end_token,
            flags: if self.grows { sys::QUIRE_PEER_GROWS } else { 0 },
            encoder_tokens: self.encoder_tokens,
        }
    }
}
