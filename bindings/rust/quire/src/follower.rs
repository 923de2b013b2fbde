//! Steps of a cache in another process.

use crate::cache::CacheOptions;
use crate::config::Config;
use crate::entries::StepId;
use crate::error::{call, Result};
use crate::runtime::made;
use crate::step::InFlight;
use quire_sys as sys;
use std::ptr::NonNull;

/// A rank of the same plan that makes no steps of its own: it takes those of its leader over as bytes and answers what [`InFlight`] can be
/// asked as the leader would. The header says *serialized on follower*: it may move to another thread and is not `Sync`.
#[derive(Debug)]
pub struct Follower {
    raw: NonNull<sys::quire_follower>,
    config: Config,
}

// step.h: serialized on follower; the release is callable from any thread. NonNull keeps it from being Sync.
unsafe impl Send for Follower {}

impl Follower {
    /// Creates a follower; all its memory is allocated here. `options` are those of the leader's cache.
    ///
    /// # Errors
    /// `InvalidArgument`, `ResourceExhausted` (host memory).
    pub fn new(config: &Config, options: &CacheOptions) -> Result<Follower> {
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_follower_create(config.raw(), &options.raw(), &mut out, err) })?;
        Ok(Follower { raw: made(out)?, config: config.clone() })
    }

    /// Takes a step over that [`InFlight::export`] wrote. The last `step_depth` ones can be asked; a further one replaces the oldest.
    ///
    /// # Errors
    /// `DataLoss`, `IncompatibleAbi`, `InvalidArgument` (another plan), `ResourceExhausted`.
    pub fn import(&self, bytes: &[u8]) -> Result<InFlight<'_>> {
        let (mut step, size) = (sys::quire_step::default(), bytes.len() as u64);
        call(|err| unsafe { sys::quire_follower_import(self.raw.as_ptr(), bytes.as_ptr().cast(), size, &mut step, err) })?;
        Ok(InFlight::new(step, &self.config))
    }

    /// A step that was imported, by its number.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn step(&self, id: StepId) -> Result<InFlight<'_>> {
        InFlight::of(self.raw.as_ptr(), id, &self.config)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        unsafe { sys::quire_follower_release(self.raw.as_ptr()) }
    }
}
