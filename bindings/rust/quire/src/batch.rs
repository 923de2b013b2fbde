//! The arrays of one step that the driver's ops read. They can only be filled by a step, so ops that take them cannot be led astray.

use crate::cache::Cache;
use crate::config::{Config, GroupInfo};
use crate::entries::StepId;
use crate::error::{call, zeroed, Error, Result};
use quire_sys as sys;
use std::os::raw::c_void;

/// One group's arrays.
#[derive(Debug, Clone)]
pub(crate) struct GroupArrays {
    is_state: bool,
    pub(crate) columns: usize,
    pub(crate) pitch: usize,
    pub(crate) table: Vec<i32>,
    pub(crate) slots: Vec<i64>,
    pub(crate) state_read: Vec<i32>,
    pub(crate) state_write: Vec<i32>,
}

/// Tables, slots, states and lengths of one step in host memory, allocated once for the largest step.
#[derive(Debug, Clone)]
pub struct Batch {
    config: Config,
    shard: u32,
    max_rows: usize,
    max_tokens: usize,
    rows: usize,
    tokens: usize,
    pub(crate) kv_len: Vec<i32>,
    pub(crate) query_indptr: Vec<i32>,
    pub(crate) positions: Vec<i32>,
    pub(crate) groups: Vec<GroupArrays>,
    fills: Fills,
    written: Vec<u64>,
}

/// What one call of `quire_step_fill` is given: lengths, offsets, positions, and two arrays per group. Destinations are set by every
/// fill from the arrays that the batch owns.
#[derive(Debug, Clone)]
struct Fills(Vec<sys::quire_fill>);

// No destination is read but by the fill that has set it.
unsafe impl Send for Fills {}
unsafe impl Sync for Fills {}

impl Fills {
    fn new(shard: u32, max_rows: usize, max_tokens: usize, groups: &[GroupArrays]) -> Fills {
        let one = |kind: i32, group: usize, capacity: usize, pitch: usize, column_pitch: usize| sys::quire_fill {
            struct_size: std::mem::size_of::<sys::quire_fill>() as u32,
            kind,
            group: group as u32,
            shard,
            capacity: capacity as u64,
            pitch: pitch as u64,
            column_pitch: column_pitch as u64,
            ..Default::default()
        };
        let mut all = vec![
            one(sys::QUIRE_FILL_KV_LEN, 0, max_rows, 1, 0),
            one(sys::QUIRE_FILL_QUERY_INDPTR, 0, max_rows + 1, 1, 0),
            one(sys::QUIRE_FILL_POSITIONS, 0, max_tokens, 1, 0),
        ];
        for (g, arrays) in groups.iter().enumerate() {
            if arrays.is_state {
                all.push(one(sys::QUIRE_FILL_STATE_READ, g, arrays.state_read.len(), arrays.pitch, 0));
                all.push(one(sys::QUIRE_FILL_STATE_WRITE, g, arrays.state_write.len(), arrays.pitch, 0));
            } else {
                all.push(one(sys::QUIRE_FILL_TABLE, g, arrays.table.len(), arrays.pitch, arrays.pitch * max_rows));
                all.push(one(sys::QUIRE_FILL_SLOTS, g, arrays.slots.len(), max_tokens, max_tokens));
            }
        }
        Fills(all)
    }
}

impl GroupArrays {
    fn new(group: &GroupInfo, max_model_len: u64, max_rows: usize, max_tokens: usize) -> Result<GroupArrays> {
        let columns = group.ids_per_block as usize;
        let is_state = group.is_state != 0;
        let block = u64::from(group.block_tokens).max(1);
        let kernel_blocks = block / u64::from(group.kernel_block_tokens).max(1);
        let longest = max_model_len.checked_add(u64::from(group.look_ahead));
        let ids = longest.and_then(|longest| (longest / block + u64::from(longest % block != 0)).checked_mul(kernel_blocks.max(1)));
        let per_row = ids.and_then(|ids| usize::try_from(ids).ok());
        let pitch = if is_state { Some(max_rows) } else { per_row };
        let too_many = || Error::new(crate::Code::OutOfRange, format!("max_model_len is {}, more than tables can have", max_model_len));
        let pitch = pitch.ok_or_else(too_many)?;
        let rows = columns.checked_mul(max_rows);
        let table = if is_state { Some(0) } else { rows.and_then(|rows| rows.checked_mul(pitch)) };
        let slots = if is_state { Some(0) } else { columns.checked_mul(max_tokens) };
        let states = if is_state { rows } else { Some(0) };
        Ok(GroupArrays {
            is_state,
            columns,
            pitch,
            table: unsafe { zeroed(table, "max_rows, max_model_len") }?,
            slots: unsafe { zeroed(slots, "max_tokens") }?,
            state_read: unsafe { zeroed(states, "max_rows") }?,
            state_write: unsafe { zeroed(states, "max_rows") }?,
        })
    }
}

impl Batch {
    /// Room for steps of at most `max_rows` sequences and `max_tokens` tokens in one shard of a plan.
    ///
    /// # Errors
    /// `OutOfRange` (shard, more bytes than there are addresses), `ResourceExhausted` (host memory), `Unimplemented` (cross attention).
    pub fn new(config: &Config, shard: u32, max_rows: usize, max_tokens: usize) -> Result<Batch> {
        let info = config.info()?;
        if shard >= info.num_shards {
            return Err(Error::new(crate::Code::OutOfRange, format!("shard is {}, the plan has {}", shard, info.num_shards)));
        }
        let mut groups = Vec::new();
        for number in 0..info.num_groups {
            let group = config.group(number)?;
            if group.encoder_tokens != 0 {
                let text = format!("group {} is of cross attention, with lengths and slots of its own: use Step::fill", number);
                return Err(Error::new(crate::Code::Unimplemented, text));
            }
            groups.push(GroupArrays::new(&group, info.max_model_len, max_rows, max_tokens)?);
        }
        let ints = |count: Option<usize>, what: &str| unsafe { zeroed::<i32>(count, what) };
        let (kv_len, positions) = (ints(Some(max_rows), "max_rows")?, ints(Some(max_tokens), "max_tokens")?);
        let query_indptr = ints(max_rows.checked_add(1), "max_rows")?;
        let fills = Fills::new(shard, max_rows, max_tokens, &groups);
        Ok(Batch {
            written: vec![0; fills.0.len()],
            fills,
            config: config.clone(),
            shard,
            max_rows,
            max_tokens,
            rows: 0,
            tokens: 0,
            kv_len,
            query_indptr,
            positions,
            groups,
        })
    }

    /// Sequences of the step it was filled from.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Tokens that the step computes.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Tokens of each row after the step.
    #[must_use]
    pub fn kv_len(&self) -> &[i32] {
        &self.kv_len[..self.rows]
    }

    /// Where each row's tokens begin, and where the last row's end.
    #[must_use]
    pub fn query_indptr(&self) -> &[i32] {
        &self.query_indptr[..self.rows + 1]
    }

    /// Position of each token in its sequence.
    #[must_use]
    pub fn positions(&self) -> &[i32] {
        &self.positions[..self.tokens]
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn shard(&self) -> u32 {
        self.shard
    }

    /// The table of a column, at its first row.
    pub(crate) fn table(&self, group: u32, column: u32) -> Result<(&[i32], usize)> {
        let arrays = self.group(group, column)?;
        let size = self.max_rows * arrays.pitch;
        Ok((&arrays.table[column as usize * size..][..size], arrays.pitch))
    }

    pub(crate) fn slots(&self, group: u32, column: u32) -> Result<&[i64]> {
        Ok(&self.group(group, column)?.slots[column as usize * self.max_tokens..][..self.tokens])
    }

    pub(crate) fn states(&self, group: u32, column: u32) -> Result<(&[i32], &[i32])> {
        let arrays = self.group(group, column)?;
        let first = column as usize * self.max_rows;
        Ok((&arrays.state_read[first..][..self.rows], &arrays.state_write[first..][..self.rows]))
    }

    fn group(&self, group: u32, column: u32) -> Result<&GroupArrays> {
        let found = self.groups.get(group as usize).filter(|arrays| (column as usize) < arrays.columns);
        found.ok_or_else(|| Error::new(crate::Code::OutOfRange, format!("group {} has no column {} in this plan", group, column)))
    }

    pub(crate) fn fill(&mut self, cache: &Cache, id: StepId) -> Result<()> {
        if cache.config().raw() != self.config.raw() {
            return Err(Error::invalid("batch was made for another plan than the step's cache"));
        }
        self.rows = 0; // an error below leaves an empty batch
        self.tokens = 0;
        let mut fills = self.fills.0.iter_mut();
        let mut goes_to = |array: *mut c_void| fills.next().expect("one descriptor per array").destination = array;
        goes_to(self.kv_len.as_mut_ptr().cast());
        goes_to(self.query_indptr.as_mut_ptr().cast());
        goes_to(self.positions.as_mut_ptr().cast());
        for arrays in &mut self.groups {
            if arrays.is_state {
                goes_to(arrays.state_read.as_mut_ptr().cast());
                goes_to(arrays.state_write.as_mut_ptr().cast());
            } else {
                goes_to(arrays.table.as_mut_ptr().cast());
                goes_to(arrays.slots.as_mut_ptr().cast());
            }
        }
        let (n, stride) = (self.fills.0.len() as u64, std::mem::size_of::<sys::quire_fill>() as u64);
        let written = self.written.as_mut_ptr();
        call(|err| unsafe { sys::quire_step_fill(cache.raw(), id.0, self.fills.0.as_ptr(), stride, n, written, err) })?;
        self.rows = self.written[0] as usize;
        self.tokens = self.written[2] as usize;
        Ok(())
    }
}
