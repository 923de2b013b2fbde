//! What a process offers another: prefill in one, decode in the other.

use crate::config::numbers;
use crate::error::borrow;
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
    /// How an offer stands: `quire_offer_info`. `is_ready` 1: all of it can be read; pass the handle on now.
    OfferInfo of quire_offer_info { is_ready: u32, num_records: u64 }
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
}

impl Peer<'_> {
    pub(crate) fn raw(&self) -> sys::quire_peer {
        sys::quire_peer {
            struct_size: std::mem::size_of::<sys::quire_peer>() as u32,
            tier: self.tier,
            address: borrow(self.address),
            handle: self.handle,
            end_token: self.end_token,
        }
    }
}
