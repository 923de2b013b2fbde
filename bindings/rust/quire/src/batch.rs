//! The arrays of one step that the driver's ops read. They can only be filled by a step, so ops that take them cannot be led astray.

use crate::cache::{Cache, StepId};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::step::{fill_raw, Fill, StepInfo};
use quire_sys as sys;

/// One group's arrays.
#[derive(Debug, Clone)]
pub(crate) struct GroupArrays {
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
}

impl Batch {
    /// Room for steps of at most `max_rows` sequences and `max_tokens` tokens in one shard of a plan.
    ///
    /// # Errors
    /// `OutOfRange` (shard).
    pub fn new(config: &Config, shard: u32, max_rows: usize, max_tokens: usize) -> Result<Batch> {
        let info = config.info()?;
        if shard >= info.num_shards {
            return Err(Error::new(crate::Code::OutOfRange, format!("shard is {}, the plan has {}", shard, info.num_shards)));
        }
        let mut groups = Vec::new();
        for number in 0..info.num_groups {
            let group = config.group(number)?;
            let columns = group.ids_per_block as usize;
            let longest = info.max_model_len + u64::from(group.look_ahead);
            let blocks = (longest + u64::from(group.block_tokens) - 1) / u64::from(group.block_tokens).max(1);
            let is_state = group.is_state != 0;
            let kernel_blocks = (group.block_tokens / group.kernel_block_tokens.max(1)).max(1);
            let pitch = if is_state { max_rows } else { blocks as usize * kernel_blocks as usize };
            let (tables, states) = if is_state { (0, columns * max_rows) } else { (columns * max_rows * pitch, 0) };
            groups.push(GroupArrays {
                columns,
                pitch,
                table: vec![0; tables],
                slots: vec![0; if is_state { 0 } else { columns * max_tokens }],
                state_read: vec![0; states],
                state_write: vec![0; states],
            });
        }
        Ok(Batch {
            config: config.clone(),
            shard,
            max_rows,
            max_tokens,
            rows: 0,
            tokens: 0,
            kv_len: vec![0; max_rows],
            query_indptr: vec![0; max_rows + 1],
            positions: vec![0; max_tokens],
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

    pub(crate) fn fill(&mut self, cache: &Cache, id: StepId, info: StepInfo) -> Result<()> {
        if cache.config().raw() != self.config.raw() {
            return Err(Error::invalid("batch was made for another plan than the step's cache"));
        }
        let (rows, tokens) = (info.num_rows as usize, info.num_tokens as usize);
        if rows > self.max_rows || tokens > self.max_tokens {
            return Err(Error::new(
                crate::Code::OutOfRange,
                format!("the step has {} rows and {} tokens, batch has room for {} and {}", rows, tokens, self.max_rows, self.max_tokens),
            ));
        }
        self.rows = 0; // an error below leaves an empty batch
        self.tokens = 0;
        let shard = self.shard;
        let flat = Fill { shard, pitch: 1, ..Fill::default() };
        let ints =
            |kind: u32, fill: &Fill, to: &mut [i32]| unsafe { fill_raw(cache, id, kind as i32, fill, to.as_mut_ptr().cast(), to.len()) };
        ints(sys::QUIRE_FILL_KV_LEN, &flat, &mut self.kv_len)?;
        ints(sys::QUIRE_FILL_QUERY_INDPTR, &flat, &mut self.query_indptr)?;
        ints(sys::QUIRE_FILL_POSITIONS, &flat, &mut self.positions)?;
        for (number, arrays) in self.groups.iter_mut().enumerate() {
            let group = number as u32;
            let pitch = arrays.pitch as u64;
            if arrays.table.is_empty() {
                let fill = Fill { group, shard, pitch, ..Fill::default() };
                ints(sys::QUIRE_FILL_STATE_READ, &fill, &mut arrays.state_read)?;
                ints(sys::QUIRE_FILL_STATE_WRITE, &fill, &mut arrays.state_write)?;
                continue;
            }
            let fill = Fill { group, shard, pitch, column_pitch: pitch * self.max_rows as u64, ..Fill::default() };
            ints(sys::QUIRE_FILL_TABLE, &fill, &mut arrays.table)?;
            let pitch = self.max_tokens as u64;
            let fill = Fill { group, shard, pitch, column_pitch: pitch, ..Fill::default() };
            unsafe { fill_raw(cache, id, sys::QUIRE_FILL_SLOTS as i32, &fill, arrays.slots.as_mut_ptr().cast(), arrays.slots.len()) }?;
        }
        self.rows = rows;
        self.tokens = tokens;
        Ok(())
    }
}
