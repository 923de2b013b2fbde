//! quire for Rust: the KV cache of hybrid language models, safe and without a dependency. Plans, caches, steps, loads, events, memory, kernels,
//! tensors of others, ops of modules and connectors are here; addresses that cannot be checked are taken over by `quire-kv-sys`, in `unsafe`.
//!
//! The words of the headers become types. *Any thread*: the type is `Sync` and cloning it takes a reference. *Serialized on X*: X is `Send` and
//! not `Sync`, so one call runs at a time without a lock. *Owned*: dropping releases, in any order and from any thread; what is made from
//! something keeps it alive. *Borrowed until the op is done*: ops are queued in a [`Stream::scope`]. Every refusal is an [`Error`] with code and
//! message; nothing panics, and the step loop allocates nothing but the memory of a [`Batch`] that grows.
//!
//! ```
//! use quire::*;
//! # fn main() -> Result<()> {
//! let runtime = Runtime::new(&RuntimeOptions { driver: "cpu".into(), ..Default::default() })?;
//! let layer = Layer { kind: LayerKind::Full, num_kv_heads: 1, num_q_heads: 1, head_dim_k: 16, head_dim_v: 16, dtype: DType::F32, ..Layer::default() };
//! let config = Config::new(&Model::new(&[layer], 64)?, &PlanOptions { num_pages: 9, ..PlanOptions::default() })?;
//! let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default())?;
//! let device = Device::open(&runtime, 0)?;
//! let stream = Stream::new(&device)?;
//! let memory = Memory::new(&device, &config, 0)?;
//! let kv = memory.paged_kv(0, 0)?;
//! let mut batch = Batch::new(&config, 0)?;
//!
//! let sequence = cache.create_sequence(None)?;
//! let want = Want { sequence, num_symbols: 3, num_tokens: 3, flags: Want::MATCH | Want::PROMPT_END, ..Want::default() };
//! let mut got = [Got::default()];
//! let mut step = cache.reserve(&[want], &[11, 12, 13], &mut got)?.expect("there is room");
//! step.fill_batch(&mut batch)?;
//! let ones = [1.0_f32; 48]; // your model computes queries, keys and values
//! let mut out = [0.0_f32; 48];
//! stream.scope(|queue| {
//!     queue.prepare_step(&memory, &step)?;
//!     queue.kv_append(&kv, &batch, View::new(&ones, &[3, 1, 16])?, Some(View::new(&ones, &[3, 1, 16])?))?;
//!     queue.attention(&kv, &batch, View::new(&ones, &[3, 1, 16])?, ViewMut::new(&mut out, &[3, 1, 16])?, None, &AttentionOptions::default())
//! })?;
//! step.commit(&[Outcome { sequence, num_accepted: 3, symbols_position: 3, num_symbols: 1, ..Outcome::default() }], &[14])?;
//! assert!(out.iter().all(|value| (value - 1.0).abs() < 1e-5));
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]

mod batch;
mod cache;
mod config;
mod connector;
pub mod dlpack;
mod dtype;
mod entries;
mod error;
mod events;
mod extension;
pub mod flags;
mod follower;
mod hold;
mod memory;
mod metrics;
mod model;
mod ops;
mod place;
mod queue;
mod runtime;
mod sequence;
mod session;
mod shards;
mod step;
mod ticket;
mod tier;
mod tier_offer;
mod tier_reader;
mod view;

pub use batch::Batch;
pub use cache::{Cache, CacheOptions, CacheReader, CacheStats, GroupStats, PinId, PinInfo, PinOptions, ProbeResult, SequenceInfo};
pub use config::{
    kv_runs, state_runs, Capacity, Config, ConfigInfo, GroupInfo, KvField, KvView, LayerPlace, Lowering, PlanOptions, RegionInfo, Run,
    Segment, Select, StateView, VllmOptions,
};
pub use connector::{Connector, ConnectorHealth, ConnectorInfo, ConnectorStats, Listed};
pub use dlpack::{AlignedBytes, Export, ExportOf, FromDlpack, IntoDlpack, ManagedTensor, Shaped};
pub use dtype::{Bf16, DType, Element, F16};
pub use entries::{Got, Identity, Miss, Outcome, Refusal, SequenceId, StepId, Symbol, Want};
pub use error::{abi_version, version, Code, Error, Refused, Result};
pub use events::{hash_blocks, hash_blocks_with, Event, EventBatch, EventBuffer, EventEncoding, HashAlgorithm, HashMedia, HashOptions};
pub use extension::{Op, OpForm, OpInfo, Value};
pub use follower::Follower;
pub use hold::{Hold, HoldId, HoldInfo, PrefixDigest, Unit, UnitOptions};
pub use memory::{Buffer, Device, DeviceInfo, DeviceTensor, Memory, PagedKv, PagedState, Stream};
pub use metrics::{write_metrics, MetricsFormat, MetricsSource};
pub use model::{CodecParams, Layer, LayerKind, Model, ModelInfo, StateTensor};
pub use ops::{AppendOptions, AttentionOptions, AttentionPlan, GatedDelta, Rope, SelectiveScan, TreeMask, Workspace, WorkspaceBytes};
pub use queue::Queue;
#[cfg(feature = "vendored")]
pub use quire_sys::VENDORED_MODULES;
pub use runtime::{Candidate, ClockFn, HostMemory, LogFn, LogLevel, Runtime, RuntimeOptions};
pub use sequence::Sequence;
pub use session::{SessionError, SessionInfo, SessionOptions};
pub use step::{Copy, Fill, FillKind, InFlight, Load, LoadFailure, Step, StepInfo, Zero};
pub use ticket::{Completion, Payload, Pieces, Ticket, TicketKind};
pub use tier::{check_record, read_record, FetchId, FetchOutcome, Fetched, RecordInfo, Tier, Tiers, TiersOptions};
pub use tier_offer::{Offer, OfferField, OfferHandle, OfferInfo, OfferRefusal, Peer};
pub use tier_reader::{TierStats, TiersReader, TiersStats};
pub use view::{CopyRun, Source, Strided, View, ViewMut};
