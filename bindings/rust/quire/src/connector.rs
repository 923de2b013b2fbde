//! Connectors: tickets that keep blocks elsewhere, or bring them.

use crate::config::{numbers, Segment};
use crate::dlpack::{Export, ExportOf};
use crate::error::{borrow, borrow_name, call, Code, Error, Refused, Result};
use crate::memory::Memory;
use crate::runtime::{made, Runtime};
use quire_sys as sys;
use std::collections::HashMap;
use std::ptr::NonNull;

numbers! {
    /// What a connector can do: `quire_connector_info`.
    ConnectorInfo of quire_connector_info { max_in_flight: u32, flags: u32, max_key_bytes: u64, device_types: u64 }
}
numbers! {
    /// Tickets since a connector was opened: `quire_connector_stats`.
    ConnectorStats of quire_connector_stats {
        num_submitted: u64, num_in_flight: u64, num_done: u64, num_missing: u64, num_failed: u64, num_cancelled: u64, num_strays: u64,
        num_bytes: u64,
    }
}

/// What a ticket asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketKind {
    /// Keep the payload under the key.
    Store,
    /// Write what is kept under the key into the payload.
    Load,
    /// Whether something is kept under the key.
    Exists,
    /// Forget the key.
    Remove,
}

/// The bytes of a ticket. They are the connector's until the ticket's completion, which gives them back.
#[derive(Debug)]
pub enum Payload {
    /// None: for questions.
    None,
    /// Bytes of the engine.
    Bytes(Vec<u8>),
    /// Payload runs of a memory, as [`crate::Config::segments`] lists them. Neither kernels nor steps may use those blocks meanwhile.
    Memory(Memory, Vec<Segment>),
}

/// One transfer.
#[derive(Debug)]
pub struct Ticket {
    /// The caller's; none of the same number may be in flight.
    pub number: u64,
    /// What is asked for.
    pub kind: TicketKind,
    /// Opaque to the connector.
    pub key: Vec<u8>,
    /// What is moved.
    pub payload: Payload,
    /// Clock of the runtime, nanoseconds; `None` = none.
    pub deadline: Option<u64>,
    /// Stores: of the payload; loads: expected, 0 = unknown.
    pub checksum: u64,
}

/// The end of a ticket.
#[derive(Debug)]
pub struct Completion {
    /// Of the ticket.
    pub number: u64,
    /// `None` = it was done; `NotFound` = nothing is kept under the key.
    pub code: Option<Code>,
    /// The connector's own.
    pub flags: u32,
    /// Moved.
    pub bytes: u64,
    /// As the connector told.
    pub checksum: u64,
    /// The caller's again.
    pub payload: Payload,
}

/// A loaded connector with its tickets. The header says *serialized on connector*: it may move to another thread and is not `Sync`. Dropping it
/// cancels what is in flight, waits until nothing of it is touched any more, and drops the payloads.
///
/// ```
/// # fn main() -> quire::Result<()> {
/// use quire::{Code, Connector, Payload, Runtime, RuntimeOptions, Ticket, TicketKind};
/// let runtime = Runtime::new(&RuntimeOptions { driver: "none".into(), ..Default::default() })?;
/// let mut connector = Connector::open(&runtime, "null", "")?; // it keeps nothing
/// let payload = Payload::Bytes(vec![0; 64]);
/// let load = Ticket { number: 1, kind: TicketKind::Load, key: b"block".to_vec(), payload, deadline: None, checksum: 0 };
/// assert!(connector.submit(vec![load])?.is_empty(), "all were taken");
/// let ended = connector.poll(None, 1)?;
/// assert_eq!(ended[0].code, Some(Code::NotFound));
/// assert!(matches!(&ended[0].payload, Payload::Bytes(bytes) if bytes.len() == 64));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Connector {
    raw: NonNull<sys::quire_connector>,
    in_flight: HashMap<u64, Payload>,
    registered: Vec<(Memory, Vec<u64>)>,
}

// connector.h: calls are serialized on the connector, the last release is callable from any thread. NonNull keeps it from being Sync.
unsafe impl Send for Connector {}

/// Address and size of a region.
fn region_of(memory: &Memory, region: u32) -> Result<(u64, u64)> {
    let (mut address, mut bytes) = (std::ptr::null_mut(), 0);
    call(|err| unsafe { sys::quire_memory_get_region(memory.raw(), region, &mut address, &mut bytes, err) })?;
    Ok((address as u64, bytes))
}

/// The runs of one ticket behind those of the ones before.
struct Runs<'a> {
    connector: &'a Connector,
    all: Vec<sys::quire_ticket_run>,
}

impl Runs<'_> {
    fn add(&mut self, payload: &mut Payload) -> Result<()> {
        match payload {
            Payload::None => {}
            Payload::Bytes(bytes) => {
                self.all.push(sys::quire_ticket_run { region: 0, address: bytes.as_mut_ptr() as u64, bytes: bytes.len() as u64 })
            }
            Payload::Memory(memory, segments) => {
                let known = self.connector.registered.iter().find(|(each, _)| each.raw() == memory.raw()).map(|(_, regions)| regions);
                if known.is_none() && device_of(memory)?.0 != sys::QUIRE_DEVICE_CPU {
                    return Err(Error::invalid("payload: memory of a device that is not the host has to be registered first"));
                }
                for segment in segments.iter() {
                    let (address, bytes) = region_of(memory, segment.region)?;
                    if segment.offset > bytes || segment.bytes > bytes - segment.offset {
                        let what = format!("payload: bytes [{}, +{}) of a region of {}", segment.offset, segment.bytes, bytes);
                        return Err(Error::new(Code::OutOfRange, what));
                    }
                    let region = match known {
                        None => 0,
                        Some(regions) => *regions.get(segment.region as usize).ok_or_else(|| {
                            Error::new(Code::FailedPrecondition, format!("payload: region {} is registered no more", segment.region))
                        })?,
                    };
                    self.all.push(sys::quire_ticket_run { region, address: address + segment.offset, bytes: segment.bytes });
                }
            }
        }
        Ok(())
    }
}

fn device_of(memory: &Memory) -> Result<(i32, i32)> {
    let page = memory.export(&Export { of: ExportOf::Page { page: 0, region: 0 }, ..Export::default() })?;
    Ok(page.device())
}

impl Connector {
    /// Loads the connector of a name (or an absolute path) and opens an instance. `config`: its own settings as JSON text.
    ///
    /// # Errors
    /// `NotFound` (name), `InvalidArgument`, `IncompatibleAbi`, and the connector's.
    pub fn open(runtime: &Runtime, name: &str, config: &str) -> Result<Connector> {
        let name = borrow_name(name, "name")?;
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_connector_open(runtime.raw(), name, borrow(config), &mut out, err) })?;
        Ok(Connector { raw: made(out)?, in_flight: HashMap::new(), registered: Vec::new() })
    }

    /// What it can do.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn info(&self) -> Result<ConnectorInfo> {
        let mut raw = ConnectorInfo::empty();
        call(|err| unsafe { sys::quire_connector_get_info(self.raw.as_ptr(), &mut raw, err) })?;
        Ok(ConnectorInfo::of(&raw))
    }

    /// Its tickets since it was opened.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn stats(&self) -> Result<ConnectorStats> {
        let mut raw = ConnectorStats::empty();
        call(|err| unsafe { sys::quire_connector_get_stats(self.raw.as_ptr(), &mut raw, err) })?;
        Ok(ConnectorStats::of(&raw))
    }

    /// Registers all regions of a memory: for connectors with `QUIRE_CONNECTOR_REGISTERS`, and for devices. It is kept until [`Self::unregister`].
    ///
    /// # Errors
    /// `Unimplemented`, `OutOfRange`, and the connector's; none of the regions is registered then.
    pub fn register(&mut self, memory: &Memory) -> Result<()> {
        let (device_type, device_id) = device_of(memory)?;
        let mut regions = Vec::new();
        while let Ok((address, bytes)) = region_of(memory, regions.len() as u32) {
            let mut region = 0;
            let answer = call(|err| unsafe {
                let raw = self.raw.as_ptr();
                sys::quire_connector_register_region(raw, address as *mut _, bytes, device_type, device_id, &mut region, err)
            });
            if let Err(error) = answer {
                regions.iter().for_each(|region| drop(self.unregister_region(*region)));
                return Err(error);
            }
            regions.push(region);
        }
        self.registered.push((memory.clone(), regions));
        Ok(())
    }

    fn unregister_region(&self, region: u64) -> Result<()> {
        call(|err| unsafe { sys::quire_connector_unregister_region(self.raw.as_ptr(), region, err) })
    }

    /// Ends the registration of a memory.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition` (a ticket in flight uses it).
    pub fn unregister(&mut self, memory: &Memory) -> Result<()> {
        let at = self.registered.iter().position(|(each, _)| each.raw() == memory.raw());
        let at = at.ok_or_else(|| Error::new(Code::NotFound, "memory: it is not registered"))?;
        while let Some(region) = self.registered[at].1.last().copied() {
            self.unregister_region(region)?;
            self.registered[at].1.pop();
        }
        self.registered.remove(at);
        Ok(())
    }

    fn build(&self, tickets: &mut [Ticket]) -> Result<(Vec<sys::quire_ticket>, Vec<sys::quire_ticket_run>, Vec<u8>)> {
        let mut runs = Runs { connector: self, all: Vec::new() };
        let (mut raw, mut keys) = (Vec::new(), Vec::new());
        for ticket in tickets {
            let first = runs.all.len();
            runs.add(&mut ticket.payload)?;
            let kind = match ticket.kind {
                TicketKind::Store => sys::QUIRE_TICKET_STORE,
                TicketKind::Load => sys::QUIRE_TICKET_LOAD,
                TicketKind::Exists => sys::QUIRE_TICKET_EXISTS,
                TicketKind::Remove => sys::QUIRE_TICKET_REMOVE,
            };
            raw.push(sys::quire_ticket {
                ticket: ticket.number,
                kind,
                num_runs: (runs.all.len() - first) as u32,
                first_run: first as u64,
                key_offset: keys.len() as u64,
                key_bytes: ticket.key.len() as u64,
                deadline_ns: ticket.deadline.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)),
                checksum: ticket.checksum,
            });
            keys.extend_from_slice(&ticket.key);
        }
        Ok((raw, runs.all, keys))
    }

    /// Submits tickets: those that were not taken come back; poll, then submit them.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`: nothing was submitted, and all come back.
    pub fn submit(&mut self, mut tickets: Vec<Ticket>) -> std::result::Result<Vec<Ticket>, Refused<Vec<Ticket>>> {
        let mut accepted = 0_u64;
        let answer = self.build(&mut tickets).and_then(|(raw, runs, keys)| {
            call(|err| unsafe {
                let (n, num_runs, num_keys) = (raw.len() as u64, runs.len() as u64, keys.len() as u64);
                let connector = self.raw.as_ptr();
                sys::quire_connector_submit(
                    connector,
                    raw.as_ptr(),
                    n,
                    runs.as_ptr(),
                    num_runs,
                    keys.as_ptr(),
                    num_keys,
                    &mut accepted,
                    err,
                )
            })
        });
        let rest = tickets.split_off((accepted as usize).min(tickets.len()));
        self.in_flight.extend(tickets.into_iter().map(|ticket| (ticket.number, ticket.payload)));
        match answer {
            Ok(()) => Ok(rest),
            Err(error) => Err(Refused { error, given: rest }),
        }
    }

    /// At most `limit` completions; waits up to `timeout` for the first, `None` = as long as it takes.
    ///
    /// # Errors
    /// `FailedPrecondition` (waits for ever with nothing in flight), and the connector's.
    pub fn poll(&mut self, timeout: Option<std::time::Duration>, limit: usize) -> Result<Vec<Completion>> {
        let nanoseconds = timeout.map_or(-1, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
        // No more can end than are in flight.
        let mut raw = vec![sys::quire_completion::default(); limit.min(self.in_flight.len().max(1))];
        let mut count = 0;
        call(|err| unsafe {
            sys::quire_connector_poll(self.raw.as_ptr(), nanoseconds, raw.as_mut_ptr(), raw.len() as u64, &mut count, err)
        })?;
        let end = |one: &sys::quire_completion| Completion {
            number: one.ticket,
            code: Code::from_number(one.code),
            flags: one.flags,
            bytes: one.bytes,
            checksum: one.checksum,
            payload: self.in_flight.remove(&one.ticket).unwrap_or(Payload::None),
        };
        Ok(raw[..count as usize].iter().map(end).collect())
    }

    /// Asks for an early end of a ticket; its completion still comes.
    ///
    /// # Errors
    /// `NotFound` (not in flight), `Unimplemented`.
    pub fn cancel(&mut self, number: u64) -> Result<()> {
        call(|err| unsafe { sys::quire_connector_cancel(self.raw.as_ptr(), number, err) })
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        unsafe { sys::quire_connector_release(self.raw.as_ptr()) } // returns when no payload is touched any more: they go now
    }
}
