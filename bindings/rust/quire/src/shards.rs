//! Memories and streams of all shards of a plan, for calls that move bytes between a pool and somewhere else.

use crate::config::Config;
use crate::error::{Code, Error, Result};
use crate::memory::{Memory, Stream};
use quire_sys as sys;
use std::cell::Cell;

/// One memory and one stream for each shard.
#[derive(Debug)]
pub(crate) struct Shards<'e> {
    memories: Vec<Memory>,
    streams: Vec<&'e Stream>,
    raw_memories: Vec<*mut sys::quire_memory>,
    raw_streams: Vec<*mut sys::quire_stream>,
    taken: Vec<Cell<bool>>, // turns of memories, within a call
}

/// Ends the turns of a call, also where it panics.
struct Ends<'s, 'e>(&'s Shards<'e>);

impl Drop for Ends<'_, '_> {
    fn drop(&mut self) {
        for ((memory, stream), taken) in self.0.memories.iter().zip(&self.0.streams).zip(&self.0.taken) {
            if let (true, Some(turn)) = (taken.replace(false), &memory.turn) {
                let _ = stream.synchronize(None); // what the call queued; the library saw its failures
                turn.end();
            }
        }
    }
}

impl<'e> Shards<'e> {
    pub(crate) fn new(config: &Config, memories: &[Memory], streams: &[&'e Stream]) -> Result<Shards<'e>> {
        let num_shards = config.info()?.num_shards as usize;
        if memories.len() != num_shards || streams.len() != num_shards {
            let message = format!("{} memories and {} streams for {} shards", memories.len(), streams.len(), num_shards);
            return Err(Error::invalid(message));
        }
        for (shard, (memory, stream)) in memories.iter().zip(streams).enumerate() {
            memory.check_plan(config, shard as u32)?;
            memory.place().check("a memory", stream.place())?;
        }
        Ok(Shards {
            memories: memories.to_vec(),
            streams: streams.to_vec(),
            raw_memories: memories.iter().map(Memory::raw).collect(),
            raw_streams: streams.iter().map(|stream| stream.raw()).collect(),
            taken: vec![Cell::new(false); num_shards],
        })
    }

    pub(crate) fn memories(&self) -> *const *mut sys::quire_memory {
        self.raw_memories.as_ptr()
    }

    pub(crate) fn streams(&self) -> *const *mut sys::quire_stream {
        self.raw_streams.as_ptr()
    }

    /// Makes a call that touches the bytes of all shards: no scope of another stream may do so meanwhile.
    pub(crate) fn alone<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let _ends = Ends(self);
        for ((memory, stream), taken) in self.memories.iter().zip(&self.streams).zip(&self.taken) {
            match memory.turn.as_ref().map(|turn| turn.take(stream.raw() as usize)) {
                Some(Ok(is_new)) => taken.set(is_new),
                None => {}
                Some(Err(())) => {
                    return Err(Error::new(Code::FailedPrecondition, "memory: another stream's scope uses it; wait for its end"))
                }
            }
        }
        call()
    }
}
