//! Connectors: tickets that keep objects elsewhere, or bring them.

use crate::config::numbers;
use crate::dlpack::{Export, ExportOf};
use crate::error::{borrow, borrow_name, call, Code, Error, Refused, Result};
use crate::memory::Memory;
use crate::runtime::{made, Runtime};
use crate::ticket::{Arrays, Completion, Lent, Payload, Pieces, Ticket};
use quire_sys as sys;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

numbers! {
    /// What a connector can do: `quire_connector_info`.
    ConnectorInfo of quire_connector_info {
        flags: u32, max_in_flight: u32, alignment: u32, max_key_bytes: u64, device_types: u64, max_object_bytes: u64,
        best_object_bytes: u64,
    }
}
numbers! {
    /// How a connector is: `quire_connector_health`. `state` is one of `QUIRE_CONNECTOR_UP` and the like.
    ConnectorHealth of quire_connector_health {
        state: i32, capacity_bytes: u64, used_bytes: u64, num_objects: u64, num_evicted: u64, num_damaged: u64,
    }
}
numbers! {
    /// Tickets since a connector was opened: `quire_connector_stats`. Element i of a latency counts tickets of less than 2^i microseconds.
    ConnectorStats of quire_connector_stats {
        num_regions: u32, num_submitted: u64, num_in_flight: u64, num_done: u64, num_missing: u64, num_failed: u64, num_cancelled: u64,
        num_strays: u64, bytes_stored: u64, bytes_loaded: u64, bytes_in_flight: u64, num_existed: u64, keys_looked_up: u64,
        keys_found: u64, store_latency: [u64; 32], load_latency: [u64; 32], lookup_latency: [u64; 32], store_ns: u64, load_ns: u64,
        lookup_ns: u64,
    }
}

/// An object that a connector lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// As it was stored.
    pub key: Vec<u8>,
    /// Of the object.
    pub object_bytes: u64,
}

/// A loaded connector with its tickets. Any thread may submit, cancel and ask, one at a time polls. Dropping it cancels what is in flight,
/// waits until nothing of it is touched any more, and drops the payloads.
///
/// ```
/// # fn main() -> quire::Result<()> {
/// use quire::{Code, Connector, Payload, Runtime, RuntimeOptions, Ticket};
/// let runtime = Runtime::new(&RuntimeOptions { driver: "none".into(), ..Default::default() })?;
/// let connector = Connector::open(&runtime, "null", "")?; // it keeps nothing
/// let load = Ticket::load(1, b"block", Payload::Bytes(vec![0; 64]), vec![]);
/// assert!(connector.submit(vec![load, Ticket::look_up(2, vec![b"one".to_vec(), b"two".to_vec()])])?.is_empty(), "all were taken");
/// let ended = connector.poll(None, 2)?;
/// assert_eq!(ended[0].code, Some(Code::NotFound));
/// assert!(matches!(&ended[0].payload, Payload::Bytes(bytes) if bytes.len() == 64));
/// assert_eq!(ended[1].sizes, [0, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Connector {
    raw: NonNull<sys::quire_connector>,
    in_flight: Mutex<HashMap<u64, Lent>>,
    registered: Mutex<Vec<(Memory, Vec<u64>)>>,
    listing: Mutex<()>,
}

// connector.h: any thread may call; one at a time polls (the library refuses others) and one lists (`listing`).
unsafe impl Send for Connector {}
unsafe impl Sync for Connector {}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Address and size of a region.
fn region_of(memory: &Memory, region: u32) -> Result<(u64, u64)> {
    let (mut address, mut bytes) = (std::ptr::null_mut(), 0);
    call(|err| unsafe { sys::quire_memory_get_region(memory.raw(), region, &mut address, &mut bytes, err) })?;
    Ok((address as u64, bytes))
}

fn device_of(memory: &Memory) -> Result<(i32, i32)> {
    let page = memory.export(&Export { of: ExportOf::Page { page: 0, region: 0 }, ..Export::default() })?;
    Ok(page.device())
}

/// Pieces of bytes that begin at this address.
fn run_of(pieces: &Pieces, region: u64, address: u64) -> sys::quire_ticket_run {
    sys::quire_ticket_run {
        region,
        address: address + pieces.offset,
        bytes: pieces.bytes,
        count: pieces.count,
        stride: pieces.stride,
        object_offset: pieces.object_offset,
        object_stride: pieces.object_stride,
    }
}

/// Takes back what was lent for tickets that are not in flight.
fn give_back(in_flight: &mut HashMap<u64, Lent>, tickets: &mut [Ticket]) {
    for ticket in tickets {
        if let Some(lent) = in_flight.remove(&ticket.number) {
            ticket.payload = lent.payload;
        }
    }
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
        let raw = made(out)?;
        Ok(Connector { raw, in_flight: Mutex::default(), registered: Mutex::default(), listing: Mutex::default() })
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

    /// How it is now.
    ///
    /// # Errors
    /// `Unimplemented`, and the connector's.
    pub fn health(&self) -> Result<ConnectorHealth> {
        let mut raw = ConnectorHealth::empty();
        call(|err| unsafe { sys::quire_connector_get_health(self.raw.as_ptr(), &mut raw, err) })?;
        Ok(ConnectorHealth::of(&raw))
    }

    /// A file descriptor for poll(2) or epoll(7), readable while completions wait. It is the connector's: neither read it nor close it.
    ///
    /// # Errors
    /// `Unimplemented`.
    pub fn fd(&self) -> Result<i32> {
        let mut fd = -1;
        call(|err| unsafe { sys::quire_connector_get_fd(self.raw.as_ptr(), &mut fd, err) })?;
        Ok(fd)
    }

    /// At most `limit` of the objects that it has, and where to go on: `cursor` is 0 at first, and 0 comes back after the last ones. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` (cursor, a limit of 0), `Unimplemented`, and the connector's.
    pub fn list(&self, cursor: u64, limit: usize) -> Result<(Vec<Listed>, u64)> {
        let _alone = locked(&self.listing);
        let mut items = vec![sys::quire_object_entry::default(); limit.min(4096)];
        let mut keys = vec![0_u8; 1 << 16];
        loop {
            let (mut next, mut count) = (cursor, 0);
            let answer = call(|err| unsafe {
                let (capacity, room) = (items.len() as u64, keys.len() as u64);
                let raw = self.raw.as_ptr();
                sys::quire_connector_list(raw, &mut next, items.as_mut_ptr(), capacity, &mut count, keys.as_mut_ptr(), room, err)
            });
            match answer {
                Err(error) if error.code == Code::OutOfRange && keys.len() < 1 << 30 => keys.resize(2 * keys.len(), 0),
                Err(error) => return Err(error),
                Ok(()) => {
                    let one = |item: &sys::quire_object_entry| Listed {
                        key: keys[item.key_offset as usize..][..item.key_bytes as usize].to_vec(),
                        object_bytes: item.object_bytes,
                    };
                    return Ok((items[..count as usize].iter().map(one).collect(), next));
                }
            }
        }
    }

    /// Registers all regions of a memory: for connectors with `QUIRE_CONNECTOR_REGISTERS`, and for devices. It is kept until [`Self::unregister`].
    ///
    /// # Errors
    /// `Unimplemented`, `OutOfRange`, and the connector's; none of the regions is registered then.
    pub fn register(&self, memory: &Memory) -> Result<()> {
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
        locked(&self.registered).push((memory.clone(), regions));
        Ok(())
    }

    fn unregister_region(&self, region: u64) -> Result<()> {
        call(|err| unsafe { sys::quire_connector_unregister_region(self.raw.as_ptr(), region, err) })
    }

    /// Ends the registration of a memory.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition` (a ticket in flight uses it).
    pub fn unregister(&self, memory: &Memory) -> Result<()> {
        let mut registered = locked(&self.registered);
        let at = registered.iter().position(|(each, _)| each.raw() == memory.raw());
        let at = at.ok_or_else(|| Error::new(Code::NotFound, "memory: it is not registered"))?;
        while let Some(region) = registered[at].1.last().copied() {
            self.unregister_region(region)?;
            registered[at].1.pop();
        }
        registered.remove(at);
        Ok(())
    }

    fn add_runs(&self, ticket: &mut Ticket, runs: &mut Vec<sys::quire_ticket_run>) -> Result<()> {
        match &mut ticket.payload {
            Payload::None if ticket.pieces.is_empty() => {}
            Payload::None => return Err(Error::invalid("pieces: there is no payload")),
            Payload::Bytes(bytes) => {
                let (address, room) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
                let whole = [Pieces::one(0, room, 0)];
                for pieces in if ticket.pieces.is_empty() { &whole } else { &ticket.pieces[..] } {
                    pieces.check(room)?;
                    runs.push(run_of(pieces, 0, address));
                }
            }
            Payload::Memory(memory) => {
                let registered = locked(&self.registered);
                let known = registered.iter().find(|(each, _)| each.raw() == memory.raw()).map(|(_, regions)| regions);
                if known.is_none() && device_of(memory)?.0 != sys::QUIRE_DEVICE_CPU {
                    return Err(Error::invalid("payload: memory of a device that is not the host has to be registered first"));
                }
                for pieces in &ticket.pieces {
                    let (address, room) = region_of(memory, pieces.region)?;
                    pieces.check(room)?;
                    let region = match known {
                        None => 0,
                        Some(regions) => *regions.get(pieces.region as usize).ok_or_else(|| {
                            Error::new(Code::FailedPrecondition, format!("pieces: region {} is registered no more", pieces.region))
                        })?,
                    };
                    runs.push(run_of(pieces, region, address));
                }
            }
        }
        Ok(())
    }

    fn build(&self, tickets: &mut [Ticket]) -> Result<Arrays> {
        let mut arrays = Arrays::default();
        for ticket in tickets {
            let first = arrays.runs.len();
            self.add_runs(ticket, &mut arrays.runs)?;
            arrays.add(ticket, first)?;
        }
        Ok(arrays)
    }

    /// Payloads are lent before the connector hears of them: another thread may poll their ends before `submit` returns.
    fn lend(&self, tickets: &mut [Ticket], sizes: Vec<Vec<u64>>) -> Result<()> {
        let mut in_flight = locked(&self.in_flight);
        for (i, sizes) in sizes.into_iter().enumerate() {
            let number = tickets[i].number;
            if in_flight.contains_key(&number) {
                give_back(&mut in_flight, &mut tickets[..i]);
                return Err(Error::invalid(format!("tickets[{}].ticket {} is in flight already", i, number)));
            }
            let payload = std::mem::replace(&mut tickets[i].payload, Payload::None);
            in_flight.insert(number, Lent { payload, sizes });
        }
        Ok(())
    }

    /// Submits tickets: those that were not taken come back; poll, then submit them.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`: nothing was submitted, and all come back. The connector's: those that it had not taken come back.
    pub fn submit(&self, mut tickets: Vec<Ticket>) -> std::result::Result<Vec<Ticket>, Refused<Vec<Ticket>>> {
        let (mut accepted, mut lent) = (0_u64, false);
        let answer = self.build(&mut tickets).and_then(|mut arrays| {
            self.lend(&mut tickets, std::mem::take(&mut arrays.sizes))?;
            lent = true;
            call(|err| unsafe {
                let (n, num_runs, num_keys) = (arrays.tickets.len() as u64, arrays.runs.len() as u64, arrays.keys.len() as u64);
                let (raw, runs, keys) = (arrays.tickets.as_ptr(), arrays.runs.as_ptr(), arrays.keys.as_ptr());
                sys::quire_connector_submit(self.raw.as_ptr(), raw, n, runs, num_runs, keys, num_keys, &mut accepted, err)
            })
        });
        let mut rest = tickets.split_off((accepted as usize).min(tickets.len()));
        if lent {
            give_back(&mut locked(&self.in_flight), &mut rest);
        }
        match answer {
            Ok(()) => Ok(rest),
            Err(error) => Err(Refused { error, given: rest }),
        }
    }

    /// At most `limit` completions; waits up to `timeout` for the first, `None` = as long as it takes.
    ///
    /// # Errors
    /// `FailedPrecondition` (waits for ever with nothing in flight, or another thread polls), and the connector's.
    pub fn poll(&self, timeout: Option<std::time::Duration>, limit: usize) -> Result<Vec<Completion>> {
        let nanoseconds = timeout.map_or(-1, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
        // No more can end than are in flight.
        let most = locked(&self.in_flight).len().max(1);
        let mut raw = vec![sys::quire_completion::default(); limit.min(most)];
        let mut count = 0;
        call(|err| unsafe {
            sys::quire_connector_poll(self.raw.as_ptr(), nanoseconds, raw.as_mut_ptr(), raw.len() as u64, &mut count, err)
        })?;
        let mut in_flight = locked(&self.in_flight);
        let end = |one: &sys::quire_completion| {
            let lent = in_flight.remove(&one.ticket).unwrap_or(Lent { payload: Payload::None, sizes: Vec::new() });
            lent.end(one)
        };
        Ok(raw[..count as usize].iter().map(end).collect())
    }

    pub(crate) fn raw(&self) -> *mut sys::quire_connector {
        self.raw.as_ptr()
    }

    /// Asks for an early end of a ticket; its completion still comes.
    ///
    /// # Errors
    /// `NotFound` (not in flight), `Unimplemented`.
    pub fn cancel(&self, number: u64) -> Result<()> {
        call(|err| unsafe { sys::quire_connector_cancel(self.raw.as_ptr(), number, err) })
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        unsafe { sys::quire_connector_release(self.raw.as_ptr()) } // returns when no payload is touched any more: they go now
    }
}
