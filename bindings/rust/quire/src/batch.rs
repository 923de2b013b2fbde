//! The arrays of one step that the driver's ops read. They can only be filled by a step, so ops that take them cannot be led astray.

use crate::config::Config;
use crate::error::{call, zeroed, Code, Error, Result};
use quire_sys as sys;

/// A piece of the memory of a batch, aligned as the header wants it.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(16))]
struct Line([u8; 16]);

/// Tables, slots, states and lengths of one step for all groups of one shard, in host memory. It grows until the largest step fits.
#[derive(Debug)]
pub struct Batch {
    config: Config,
    options: sys::quire_batch_options,
    memory: Vec<Line>,
    groups: Vec<sys::quire_batch>,
    lengths: usize, // the group whose lengths are those of the sequences
}

// The pointers lead into the memory that it owns, and only a fill, which has it alone, writes there.
unsafe impl Send for Batch {}
unsafe impl Sync for Batch {}

impl Batch {
    /// A batch for steps of a plan in one shard.
    ///
    /// # Errors
    /// `OutOfRange` (shard).
    pub fn new(config: &Config, shard: u32) -> Result<Batch> {
        let info = config.info()?;
        if shard >= info.num_shards {
            return Err(Error::new(Code::OutOfRange, format!("shard is {}, the plan has {}", shard, info.num_shards)));
        }
        let struct_size = std::mem::size_of::<sys::quire_batch_options>() as u32;
        let options = sys::quire_batch_options { struct_size, shard, ..Default::default() };
        let mut batch = Batch { config: config.clone(), options, memory: Vec::new(), groups: Vec::new(), lengths: 0 };
        batch.groups.resize(info.num_groups as usize, sys::quire_batch::default());
        batch.clear();
        while batch.lengths + 1 < batch.groups.len() && config.group(batch.lengths as u32)?.encoder_tokens != 0 {
            batch.lengths += 1;
        }
        Ok(batch)
    }

    /// A batch of a fixed shape: rows and tokens behind those of the step are padding, for which ops do nothing, and every step takes the
    /// same memory. Steps with more of them are `OutOfRange`.
    ///
    /// # Errors
    /// As [`Batch::new`].
    pub fn fixed(config: &Config, shard: u32, num_rows: u32, num_tokens: u32) -> Result<Batch> {
        let mut batch = Batch::new(config, shard)?;
        batch.options = sys::quire_batch_options { flags: sys::QUIRE_BATCH_MAX_PITCH, num_rows, num_tokens, ..batch.options };
        Ok(batch)
    }

    /// Takes memory for steps whose arrays are at most so many bytes; the batch is empty then. Fills take it by themselves and at least
    /// double it.
    ///
    /// # Errors
    /// `OutOfRange` (more than there are addresses), `ResourceExhausted` (host memory).
    pub fn reserve(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.bytes() {
            self.clear();
            self.memory = unsafe { zeroed(usize::try_from(bytes / 16 + 1).ok(), "bytes") }?;
        }
        Ok(())
    }

    /// Bytes that it has taken.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.memory.len() as u64 * 16
    }

    /// Sequences of the step it was filled from; 0 = of none.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.lengths().num_rows as usize
    }

    /// Tokens that the step computes.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.lengths().num_tokens as usize
    }

    /// Tokens of each row after the step.
    #[must_use]
    pub fn kv_len(&self) -> &[i32] {
        self.ints(self.lengths().kv_len, self.rows())
    }

    /// Where each row's tokens begin, and where the last row's end.
    #[must_use]
    pub fn query_indptr(&self) -> &[i32] {
        self.ints(self.lengths().query_indptr, self.rows() + 1)
    }

    /// Position of each token in its sequence.
    #[must_use]
    pub fn positions(&self) -> &[i32] {
        self.ints(self.lengths().positions, self.tokens())
    }

    /// Rows of keys that [`crate::Queue::kv_append`] writes in a group: the step's tokens. Cross attention: the encoder tokens of sequences
    /// that begin in this step.
    #[must_use]
    pub fn num_slots(&self, group: u32) -> usize {
        self.groups.get(group as usize).map_or(0, |group| group.num_slots as usize)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn shard(&self) -> u32 {
        self.options.shard
    }

    /// What ops over a group's caches are given.
    pub(crate) fn group(&self, number: u32) -> Result<&sys::quire_batch> {
        let found = self.groups.get(number as usize).filter(|group| group.num_rows != 0);
        found.ok_or_else(|| Error::invalid("batch is empty: no step has filled it"))
    }

    /// An array of as many numbers, empty where no step has filled it.
    pub(crate) fn ints(&self, address: *const i32, count: usize) -> &[i32] {
        if address.is_null() {
            return &[];
        }
        unsafe { std::slice::from_raw_parts(address, count) }
    }

    fn lengths(&self) -> sys::quire_batch {
        self.groups.get(self.lengths).copied().unwrap_or_default()
    }

    fn clear(&mut self) {
        self.groups.fill(sys::quire_batch { struct_size: std::mem::size_of::<sys::quire_batch>() as u32, ..Default::default() });
    }

    pub(crate) fn fill(&mut self, step: sys::quire_step, config: &Config) -> Result<()> {
        if config.raw() != self.config.raw() {
            return Err(Error::invalid("batch was made for another plan than the step's cache"));
        }
        let (n, stride) = (self.groups.len() as u64, std::mem::size_of::<sys::quire_batch>() as u64);
        loop {
            self.clear(); // an error below leaves an empty batch
            let (room, mut needed) = (self.bytes(), 0);
            let options = sys::quire_batch_options { memory: self.memory.as_mut_ptr().cast(), bytes: room, ..self.options };
            let groups = self.groups.as_mut_ptr();
            match call(|err| unsafe { sys::quire_step_get_batch(step, &options, groups, stride, n, &mut needed, err) }) {
                Err(error) if error.code == Code::OutOfRange && needed > room => self.reserve(needed.max(room.saturating_mul(2)))?,
                answer => return answer,
            }
        }
    }
}
