//! What tickets of a connector say, own, and how they end.

use crate::config::Segment;
use crate::error::{Code, Error, Result};
use crate::memory::Memory;
use quire_sys as sys;
use std::time::Duration;

/// What a ticket asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketKind {
    /// Keep the bytes that the pieces name as an object under the key.
    Store,
    /// Write parts of the object under the key into the pieces.
    Load,
    /// Which of several objects there are, and how large.
    LookUp,
    /// Forget the object.
    Remove,
}

/// The bytes of a ticket. They are the connector's until the ticket's completion, which gives them back.
#[derive(Debug)]
pub enum Payload {
    /// None: for questions.
    None,
    /// Bytes of the engine.
    Bytes(Vec<u8>),
    /// The regions of a memory. Neither kernels nor steps may use the blocks that the pieces name meanwhile.
    Memory(Memory),
}

/// Pieces of equal size at equal distances, in the payload and in the object: `quire_ticket_run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// Of a memory. 0 for [`Payload::Bytes`].
    pub region: u32,
    /// Of the first piece, in the region or the bytes.
    pub offset: u64,
    /// Of a piece.
    pub bytes: u64,
    /// How many.
    pub count: u64,
    /// From one piece to the next; at least `bytes` or at most `-bytes`, anything if there is one.
    pub stride: i64,
    /// Of the first piece, in the object.
    pub object_offset: u64,
    /// From one piece to the next in the object, as `stride`.
    pub object_stride: i64,
}

impl Pieces {
    /// One piece.
    pub fn one(offset: u64, bytes: u64, object_offset: u64) -> Pieces {
        Pieces { region: 0, offset, bytes, count: 1, stride: 0, object_offset, object_stride: 0 }
    }

    /// Segments of a memory, as [`crate::Config::segments`] lists them, one behind the other in the object.
    pub fn of(segments: &[Segment]) -> Vec<Pieces> {
        let mut object_offset = 0;
        let piece = |segment: &Segment| {
            let piece = Pieces { region: segment.region, ..Pieces::one(segment.offset, segment.bytes, object_offset) };
            object_offset += segment.bytes;
            piece
        };
        segments.iter().map(piece).collect()
    }

    /// Whether all of them lie within so many bytes: nothing else may be reached.
    pub(crate) fn check(&self, room: u64) -> Result<()> {
        let distance = i128::from(self.stride) * (i128::from(self.count) - 1);
        let last = i128::from(self.offset) + if self.count == 1 { 0 } else { distance };
        let (begin, end) = (last.min(self.offset.into()), last.max(self.offset.into()) + i128::from(self.bytes));
        if self.count == 0 || begin < 0 || end > i128::from(room) {
            let what =
                format!("pieces: {} x {} bytes from byte {} on, stride {}, of {}", self.count, self.bytes, self.offset, self.stride, room);
            return Err(Error::new(Code::OutOfRange, what));
        }
        Ok(())
    }
}

/// One transfer or question.
///
/// ```
/// use quire::{Payload, Pieces, Ticket};
/// let ticket = Ticket { priority: 1, ..Ticket::load(7, b"key", Payload::Bytes(vec![0; 64]), vec![Pieces::one(0, 64, 4096)]) };
/// # drop(ticket);
/// ```
#[derive(Debug)]
pub struct Ticket {
    /// The caller's; none of the same number may be in flight.
    pub number: u64,
    /// What is asked for.
    pub kind: TicketKind,
    /// Of tickets that wait, those of higher priority start first.
    pub priority: i32,
    /// Opaque to the connector. One; a look-up has any number, all of one length.
    pub keys: Vec<Vec<u8>>,
    /// What is moved.
    pub payload: Payload,
    /// Where it lies. None: all of [`Payload::Bytes`], from the object's first byte on.
    pub pieces: Vec<Pieces>,
    /// Look-ups: what is found stays at least so long, if the connector can promise it.
    pub lease: Duration,
    /// Clock of the runtime, nanoseconds; `None` = none.
    pub deadline: Option<u64>,
}

impl Ticket {
    fn new(number: u64, kind: TicketKind, keys: Vec<Vec<u8>>, payload: Payload, pieces: Vec<Pieces>) -> Ticket {
        Ticket { number, kind, priority: 0, keys, payload, pieces, lease: Duration::from_secs(0), deadline: None }
    }

    /// Keeps the pieces as an object, whose size is the sum of theirs: together they name each of its bytes once.
    pub fn store(number: u64, key: &[u8], payload: Payload, pieces: Vec<Pieces>) -> Ticket {
        Ticket::new(number, TicketKind::Store, vec![key.to_vec()], payload, pieces)
    }

    /// Reads parts of an object into the pieces.
    pub fn load(number: u64, key: &[u8], payload: Payload, pieces: Vec<Pieces>) -> Ticket {
        Ticket::new(number, TicketKind::Load, vec![key.to_vec()], payload, pieces)
    }

    /// Asks for several objects at once.
    pub fn look_up(number: u64, keys: Vec<Vec<u8>>) -> Ticket {
        Ticket::new(number, TicketKind::LookUp, keys, Payload::None, Vec::new())
    }

    /// Forgets an object.
    pub fn remove(number: u64, key: &[u8]) -> Ticket {
        Ticket::new(number, TicketKind::Remove, vec![key.to_vec()], Payload::None, Vec::new())
    }
}

/// The end of a ticket.
#[derive(Debug)]
pub struct Completion {
    /// Of the ticket.
    pub number: u64,
    /// `None` = it was done; `NotFound` = nothing is kept under the key.
    pub code: Option<Code>,
    /// `QUIRE_COMPLETION_*`.
    pub flags: u32,
    /// Moved.
    pub bytes: u64,
    /// Look-ups: how many objects there are.
    pub num_found: u64,
    /// Look-ups that are done: the size of each object, 0 = there is none.
    pub sizes: Vec<u64>,
    /// The caller's again.
    pub payload: Payload,
}

/// What a connector writes to until the ticket ends.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) payload: Payload,
    pub(crate) sizes: Vec<u64>,
}

impl Lent {
    pub(crate) fn end(self, raw: &sys::quire_completion) -> Completion {
        Completion {
            number: raw.ticket,
            code: Code::from_number(raw.code),
            flags: raw.flags,
            bytes: raw.bytes,
            num_found: raw.num_found,
            sizes: self.sizes,
            payload: self.payload,
        }
    }
}

/// The arrays of one submission.
#[derive(Default)]
pub(crate) struct Arrays {
    pub(crate) tickets: Vec<sys::quire_ticket>,
    pub(crate) runs: Vec<sys::quire_ticket_run>,
    pub(crate) keys: Vec<u8>,
    /// Of each ticket: where a look-up writes.
    pub(crate) sizes: Vec<Vec<u64>>,
}

impl Arrays {
    /// The ticket behind those before; its runs were added behind `first_run`.
    pub(crate) fn add(&mut self, ticket: &Ticket, first_run: usize) -> Result<()> {
        let key_bytes = ticket.keys.first().map_or(0, Vec::len);
        if let Some(other) = ticket.keys.iter().find(|key| key.len() != key_bytes) {
            return Err(Error::invalid(format!("keys: of {} and of {} bytes, all are of one length", key_bytes, other.len())));
        }
        let runs = &self.runs[first_run..];
        let moved = runs.iter().try_fold(0_u64, |sum, run| run.bytes.checked_mul(run.count).and_then(|bytes| sum.checked_add(bytes)));
        let moved = moved.ok_or_else(|| Error::new(Code::OutOfRange, "pieces: more bytes than a number holds"))?;
        let look_up = ticket.kind == TicketKind::LookUp;
        let mut sizes = vec![0_u64; if look_up { ticket.keys.len() } else { 0 }];
        self.tickets.push(sys::quire_ticket {
            ticket: ticket.number,
            kind: match ticket.kind {
                TicketKind::Store => sys::QUIRE_TICKET_STORE,
                TicketKind::Load => sys::QUIRE_TICKET_LOAD,
                TicketKind::LookUp => sys::QUIRE_TICKET_LOOKUP,
                TicketKind::Remove => sys::QUIRE_TICKET_REMOVE,
            },
            priority: ticket.priority,
            first_run: first_run as u64,
            num_runs: runs.len() as u32,
            num_keys: ticket.keys.len() as u32,
            key_offset: self.keys.len() as u64,
            key_bytes: key_bytes as u64,
            object_bytes: if ticket.kind == TicketKind::Store { moved } else { 0 },
            sizes: if look_up { sizes.as_mut_ptr() } else { std::ptr::null_mut() },
            lease_ns: i64::try_from(ticket.lease.as_nanos()).unwrap_or(i64::MAX),
            deadline_ns: ticket.deadline.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)),
        });
        self.keys.extend(ticket.keys.iter().flatten());
        self.sizes.push(sizes);
        Ok(())
    }
}
