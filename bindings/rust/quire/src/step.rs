//! A step between reserve and commit, and a load that a connector serves.

use crate::batch::Batch;
use crate::config::{numbers, Config};
use crate::entries::{Got, Outcome, StepId, Symbol};
use crate::error::{call, list, room, Result};
use crate::hold::Hold;
use quire_sys as sys;

numbers! {
    /// Facts of a step in flight: `quire_step_info`.
    StepInfo of quire_step_info { num_rows: u32, num_tokens: u64, num_copies: u64, num_zeroes: u64 }
}

/// Copy the payload of one id to another before the step's kernels run.
pub use sys::quire_copy as Copy;
/// Zero a page, or the payload of one id, before the step's kernels run.
pub use sys::quire_zero as Zero;

/// Which array [`InFlight::fill`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FillKind {
    Table,
    TableIndptr,
    TableIndices,
    StateRead,
    StateWrite,
    KvLen,
    QueryIndptr,
    Positions,
    RawTable,
    StateWriteIndptr,
    StateWrites,
    StateWriteEnds,
    UpdateIndptr,
    UpdateFirst,
    UpdateIndices,
    SlotsIndptr,
}

impl FillKind {
    fn number(self) -> i32 {
        match self {
            FillKind::Table => sys::QUIRE_FILL_TABLE,
            FillKind::TableIndptr => sys::QUIRE_FILL_TABLE_INDPTR,
            FillKind::TableIndices => sys::QUIRE_FILL_TABLE_INDICES,
            FillKind::StateRead => sys::QUIRE_FILL_STATE_READ,
            FillKind::StateWrite => sys::QUIRE_FILL_STATE_WRITE,
            FillKind::KvLen => sys::QUIRE_FILL_KV_LEN,
            FillKind::QueryIndptr => sys::QUIRE_FILL_QUERY_INDPTR,
            FillKind::Positions => sys::QUIRE_FILL_POSITIONS,
            FillKind::RawTable => sys::QUIRE_FILL_RAW_TABLE,
            FillKind::StateWriteIndptr => sys::QUIRE_FILL_STATE_WRITE_INDPTR,
            FillKind::StateWrites => sys::QUIRE_FILL_STATE_WRITES,
            FillKind::StateWriteEnds => sys::QUIRE_FILL_STATE_WRITE_ENDS,
            FillKind::UpdateIndptr => sys::QUIRE_FILL_UPDATE_INDPTR,
            FillKind::UpdateFirst => sys::QUIRE_FILL_UPDATE_FIRST,
            FillKind::UpdateIndices => sys::QUIRE_FILL_UPDATE_INDICES,
            FillKind::SlotsIndptr => sys::QUIRE_FILL_SLOTS_INDPTR,
        }
    }
}

/// Which part of a step is written, and how the array is laid out; see `quire_fill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fill {
    /// Which group, for arrays of a group.
    pub group: u32,
    /// Whose lowering.
    pub shard: u32,
    /// First column.
    pub first_column: u32,
    /// 0 = all from the first on.
    pub num_columns: u32,
    /// Elements from row to row.
    pub pitch: u64,
    /// Elements from column to column; 0 = dense.
    pub column_pitch: u64,
    /// Tables: behind the end of a row.
    pub fill_value: i64,
    /// Rows of an array of a fixed shape; 0 = those of the step.
    pub num_rows: u32,
    /// Tokens of an array of a fixed shape; 0 = those of the step.
    pub num_tokens: u32,
}

/// A step or load in flight, or a follower's: what can be asked of it. After its end the calls answer `NotFound`.
#[derive(Debug)]
pub struct InFlight<'c> {
    raw: sys::quire_step,
    config: &'c Config,
}

impl<'c> InFlight<'c> {
    pub(crate) fn new(raw: sys::quire_step, config: &'c Config) -> InFlight<'c> {
        InFlight { raw, config }
    }

    /// One that goes on, by its number.
    pub(crate) fn of<T>(owner: *mut T, id: StepId, config: &'c Config) -> Result<InFlight<'c>> {
        let step = InFlight::new(sys::quire_step { owner: owner.cast(), id: id.0 }, config);
        step.info().map(|_| step)
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> StepId {
        StepId(self.raw.id)
    }

    /// Facts of the step.
    ///
    /// # Errors
    /// `NotFound`: it was committed, or an earlier step was aborted.
    pub fn info(&self) -> Result<StepInfo> {
        let mut raw = StepInfo::empty();
        call(|err| unsafe { sys::quire_step_get_info(self.raw, &mut raw, err) })?;
        Ok(StepInfo::of(&raw))
    }

    /// Writes one array for kernels of the engine's own: the elements needed. Nothing is written where `to` is shorter.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `OutOfRange`.
    pub fn fill(&self, kind: FillKind, fill: &Fill, to: &mut [i32]) -> Result<u64> {
        unsafe { self.fill_raw(kind.number(), fill, to.as_mut_ptr().cast(), to.len()) }
    }

    /// Writes the slots: lowered id * kernel block + t per computed token, -1 = not stored.
    ///
    /// # Errors
    /// As [`InFlight::fill`].
    pub fn fill_slots(&self, fill: &Fill, to: &mut [i64]) -> Result<u64> {
        unsafe { self.fill_raw(sys::QUIRE_FILL_SLOTS, fill, to.as_mut_ptr().cast(), to.len()) }
    }

    unsafe fn fill_raw(&self, kind: i32, fill: &Fill, to: *mut std::os::raw::c_void, capacity: usize) -> Result<u64> {
        let raw = sys::quire_fill {
            struct_size: std::mem::size_of::<sys::quire_fill>() as u32,
            kind,
            group: fill.group,
            shard: fill.shard,
            first_column: fill.first_column,
            num_columns: fill.num_columns,
            destination: to,
            capacity: capacity as u64,
            pitch: fill.pitch,
            column_pitch: fill.column_pitch,
            fill_value: fill.fill_value,
            num_rows: fill.num_rows,
            num_tokens: fill.num_tokens,
        };
        let mut written = 0;
        call(|err| sys::quire_step_fill(self.raw, &raw, u64::from(raw.struct_size), 1, &mut written, err))?;
        Ok(written)
    }

    /// Fills everything that the driver's ops read. Allocates only where the batch has too little room.
    ///
    /// # Errors
    /// `InvalidArgument` (the batch belongs to another plan), `NotFound`, `OutOfRange` (a fixed shape), `ResourceExhausted` (host memory).
    pub fn fill_batch(&self, batch: &mut Batch) -> Result<()> {
        batch.fill(self.raw, self.config)
    }

    /// Copies to make before the kernels run; [`crate::Queue::prepare_step`] makes them.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn copies(&self) -> Result<Vec<Copy>> {
        list(Copy::default(), |items, capacity, count, err| unsafe { sys::quire_step_list_copies(self.raw, items, capacity, count, err) })
    }

    /// Bytes to zero before the kernels run; [`crate::Queue::prepare_step`] does it.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn zeroes(&self) -> Result<Vec<Zero>> {
        list(Zero::default(), |items, capacity, count, err| unsafe { sys::quire_step_list_zeroes(self.raw, items, capacity, count, err) })
    }

    /// Writes it as bytes for a [`crate::Follower`] in another process. Allocates only where `bytes` has too little room.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition`: it is a follower's.
    pub fn export(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut size = 0;
        bytes.clear();
        call(|err| unsafe { sys::quire_step_export(self.raw, std::ptr::null_mut(), 0, &mut size, err) })?;
        let needed = usize::try_from(size).unwrap_or(usize::MAX);
        room(bytes, needed, "bytes")?;
        bytes.resize(needed, 0);
        call(|err| unsafe { sys::quire_step_export(self.raw, bytes.as_mut_ptr().cast(), size, &mut size, err) })
    }

    pub(crate) fn raw(&self) -> sys::quire_step {
        self.raw
    }
}

/// A step between reserve and commit. It borrows its cache; several may be in flight. Dropped without commit it is aborted, and with it every
/// later one; [`Step::detach`] leaves it in flight.
#[derive(Debug)]
#[must_use = "a step that is dropped is aborted"]
pub struct Step<'c> {
    step: InFlight<'c>,
    in_flight: bool,
}

impl<'c> std::ops::Deref for Step<'c> {
    type Target = InFlight<'c>;
    fn deref(&self) -> &InFlight<'c> {
        &self.step
    }
}

impl<'c> Step<'c> {
    pub(crate) fn new(step: InFlight<'c>) -> Step<'c> {
        Step { step, in_flight: true }
    }

    /// Says what stands: `rows` are the admitted entries in row order. After an error the step is in flight as before; after success it is over
    /// and its other calls answer `NotFound`.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `NotFound`, `FailedPrecondition` (not the oldest).
    pub fn commit(&mut self, rows: &[Outcome], symbols: &[Symbol]) -> Result<()> {
        let (entries, n, num_symbols) = (rows.as_ptr().cast(), rows.len() as u64, symbols.len() as u64);
        call(|err| unsafe { sys::quire_commit(self.raw, entries, n, symbols.as_ptr(), num_symbols, err) })?;
        self.in_flight = false;
        Ok(())
    }

    /// Undoes this step and all later ones; kernels may have run.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn abort(mut self) -> Result<()> {
        self.undo(0)
    }

    /// The same for steps of which no kernel has run or will run.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn abort_not_launched(mut self) -> Result<()> {
        self.undo(sys::QUIRE_ABORT_NOT_LAUNCHED)
    }

    fn undo(&mut self, flags: u32) -> Result<()> {
        self.in_flight = false;
        call(|err| unsafe { sys::quire_abort(self.raw, flags, err) })
    }

    /// Leaves the step in flight without borrowing the cache; [`crate::Cache::step`] takes it up again.
    #[must_use = "the number is the only way back to the step"]
    pub fn detach(mut self) -> StepId {
        self.in_flight = false;
        self.id()
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if self.in_flight {
            let _ = self.undo(0);
        }
    }
}

/// Tokens of one group that did not arrive.
pub use sys::quire_load_failure as LoadFailure;

/// Tokens that somebody else brings: a step of one row. Dropped before its end, nothing arrived: the sequence has what it had.
#[derive(Debug)]
#[must_use = "a load that is dropped brought nothing"]
pub struct Load<'c> {
    step: InFlight<'c>,
    all: LoadFailure,
    in_progress: bool,
}

impl<'c> std::ops::Deref for Load<'c> {
    type Target = InFlight<'c>;
    fn deref(&self) -> &InFlight<'c> {
        &self.step
    }
}

impl<'c> Load<'c> {
    pub(crate) fn new(step: InFlight<'c>, got: &Got) -> Load<'c> {
        let all = LoadFailure { first_token: got.position, num_tokens: u64::from(got.num_tokens), ..LoadFailure::default() };
        Load { step, all, in_progress: true }
    }

    /// For each group the position before which all is cached that the load needs. Those tokens have no slots.
    ///
    /// # Errors
    /// `NotFound`: it ended.
    pub fn have(&self) -> Result<Vec<u64>> {
        list(0, |tokens, capacity, count, err| unsafe { sys::quire_load_get_have(self.raw, tokens, capacity, count, err) })
    }

    /// [`Load::end`] where a transfer that was given up may still write what `failures` names: the hold has it, if there is anything. End the
    /// hold when it is proved that nothing is written any more.
    ///
    /// # Errors
    /// As [`Load::end`], `ResourceExhausted` (holds).
    pub fn end_late(&mut self, failures: &[LoadFailure]) -> Result<(u64, Option<Hold<'c>>)> {
        let (mut committed, mut late, n) = (0, 0, failures.len() as u64);
        call(|err| unsafe { sys::quire_load_end(self.raw, failures.as_ptr(), n, &mut committed, &mut late, err) })?;
        self.in_progress = false;
        let cache = self.raw.owner as *mut sys::quire_cache; // a load's owner is its cache
        Ok((committed, (late != 0).then(|| Hold::new(cache, late, self.step.config))))
    }

    /// Says what did not arrive, nothing where `failures` is empty: the tokens that the sequence has now. After an error the load goes on.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `NotFound`.
    pub fn end(&mut self, failures: &[LoadFailure]) -> Result<u64> {
        let (mut committed, n) = (0, failures.len() as u64);
        call(|err| unsafe { sys::quire_load_end(self.raw, failures.as_ptr(), n, &mut committed, std::ptr::null_mut(), err) })?;
        self.in_progress = false;
        Ok(committed)
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if self.in_progress {
            let all = self.all;
            let _ = self.end(&[all]);
        }
    }
}
