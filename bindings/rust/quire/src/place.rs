//! Where bytes lie and whose turn it is: device and driver, compared wherever an op brings memory and a stream together, and the stream that
//! uses a memory.

use crate::error::{text, Error, Result};
use quire_sys as sys;
use std::os::raw::c_char;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A device of a driver: what memory and a stream must have in common. Handles of one device that were opened apart are equal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) device_type: i32,
    pub(crate) device_id: i32,
    driver: [c_char; 32],
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {}) of driver {}", self.device_type, self.device_id, text(&self.driver))
    }
}

impl Place {
    pub(crate) fn of(info: &sys::quire_device_info) -> Place {
        Place { device_type: info.device_type, device_id: info.device_id, driver: info.driver }
    }

    /// Fails unless `what`, which lies here, may be touched by work of a stream there.
    pub(crate) fn check(&self, what: &str, stream: &Place) -> Result<()> {
        if self == stream {
            return Ok(());
        }
        Err(Error::invalid(format!("{} belongs to device {:?}, the stream to {:?}", what, self, stream)))
    }
}

/// Which stream's scope uses a memory; one at a time, so that no two streams write the same bytes.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicUsize);

impl Turn {
    /// Takes the turn for a stream, by its address: whether it is new; `Err` = another stream has it.
    pub(crate) fn take(&self, stream: usize) -> std::result::Result<bool, ()> {
        match self.0.compare_exchange(0, stream, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(true),
            Err(user) if user == stream => Ok(false),
            Err(_) => Err(()),
        }
    }

    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Release);
    }
}
