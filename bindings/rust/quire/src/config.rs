//! Model and limits -> groups, pages, blocks, capacity.

use crate::dtype::DType;
use crate::error::{borrow, call, list, list_text, text, Result};
use crate::model::Model;
use crate::runtime::{counted, made};
use quire_sys as sys;
use std::ptr::NonNull;

/// What a plan is made with; the default leaves everything to the model and the policy, but memory or pages must be told.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// Shards by heads; 0 = 1.
    pub tensor_parallel: u32,
    /// Shards by layers; 0 = 1.
    pub pipeline_parallel: u32,
    /// Shards by tokens; 0 = 1.
    pub context_parallel: u32,
    /// `auto`, `pack:N`, `vllm`; empty = `auto`.
    pub policy: String,
    /// Order of letters such as `BLPJKTHD`; empty = the policy's.
    pub layout: String,
    /// Bytes: one number for all shards, or one per shard.
    pub memory_bytes: Vec<u64>,
    /// 0 = as many as fit in `memory_bytes`.
    pub num_pages: u64,
    /// Tokens; 0 = the model's.
    pub max_model_len: u64,
    /// Tokens of one sequence between reserve and commit; 0 = 8192.
    pub max_tokens_in_flight: u64,
    /// Wanted block of attention groups; 0 = 16.
    pub block_tokens: u32,
    /// Blocks of kernels are a multiple of this; 0 = 16.
    pub kernel_block_tokens: u32,
    /// All zero = the model's.
    pub kv_dtype: DType,
    /// Of recurrent states, but not those of short convolutions. All zero = the model's.
    pub state_dtype: DType,
    /// `QUIRE_PLAN_*`.
    pub flags: u32,
    /// What the driver's kernels like, best first; at most 16.
    pub preferred_layouts: Vec<String>,
    /// Bytes that pages are a multiple of; 0 = the policy's.
    pub page_alignment: u64,
    /// Most encoder tokens of a request; 0 = the model's.
    pub encoder_tokens: u64,
    /// Layers of each pipeline stage; empty = evenly.
    pub stage_layers: Vec<u32>,
    /// `QUIRE_KV_SCALES_*`.
    pub kv_scales: i32,
    /// What only the policy `vllm` reads.
    pub vllm: VllmOptions,
}

/// Options of the policy `vllm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VllmOptions {
    /// `QUIRE_VLLM_*`.
    pub flags: u32,
    /// `QUIRE_STATE_MODE_*`.
    pub state_mode: i32,
    /// Tokens that a prefix name covers; 0 = the blocks' greatest common divisor.
    pub match_unit_tokens: u32,
    /// Tokens that windows keep before their range.
    pub retained_tokens: u32,
}

/// The whole plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigInfo {
    /// Groups.
    pub num_groups: u32,
    /// Shards.
    pub num_shards: u32,
    /// The prefix index matches in these.
    pub match_unit_tokens: u32,
    /// The null page included.
    pub num_pages: u64,
    /// Tokens.
    pub max_model_len: u64,
    /// 1 - payload / page bytes, worst group.
    pub padding_share: f64,
    /// Longest single sequence that always fits.
    pub capacity_tokens: u64,
    /// The policy that made it.
    pub policy: String,
    /// Order of the first group that has tokens.
    pub layout: String,
}

/// Declares a struct of plain numbers that mirrors an info struct of the headers, and how it is read.
macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident of $raw:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[allow(missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl $name {
            pub(crate) fn empty() -> sys::$raw {
                sys::$raw { struct_size: std::mem::size_of::<sys::$raw>() as u32, ..Default::default() }
            }

            pub(crate) fn of(raw: &sys::$raw) -> $name {
                $name { $($field: raw.$field,)* }
            }
        }
    };
}
pub(crate) use numbers;

numbers! {
    /// One group: `quire_group_info`, whose header describes each number.
    GroupInfo of quire_group_info {
        group: u32, is_state: u32, block_tokens: u32, kernel_block_tokens: u32, kernel_blocks_per_part: u32, parts_per_page: u32,
        ids_per_block: u32, num_lanes: u32, num_caches: u32, sink_tokens: u64, window: u64, chunk: u64, payload_bytes_per_block: u64,
        page_bytes_per_block: u64, look_ahead: u32, flags: u32, encoder_tokens: u64, table_pitch: u64, checkpoint_interval: u64,
    }
}
numbers! {
    /// Where one cached layer lives: `quire_layer_place`.
    LayerPlace of quire_layer_place { group: u32, column: u32, lane: u32, index_in_lane: u32, pipeline_stage: u32 }
}
numbers! {
    /// One allocation of a shard: `quire_region_info`.
    RegionInfo of quire_region_info { region: u32, bytes: u64, alignment: u64, page_stride: u64, num_planes: u64 }
}
numbers! {
    /// How ids become lowered ids: `quire_lowering`.
    Lowering of quire_lowering {
        parts_per_page: u32, kernel_blocks_per_part: u32, page_factor: u64, part_factor: u64, block_factor: u64, num_lowered_ids: u64,
    }
}
numbers! {
    /// What caches of a plan hold: `quire_capacity`.
    Capacity of quire_capacity {
        tokens: u64, concurrency: u64, guaranteed: u64, decoding: u64, resident: u64, longest: u64, pages_needed: u64, bytes_needed: u64,
        kv_cache_tokens: u64,
    }
}

/// Where a codec keeps a part of every row.
pub use sys::quire_kv_field as KvField;
/// The strided description of a layer's token cache, as a peer may send it: numbers without addresses.
pub use sys::quire_kv_view as KvView;
/// What one view reads and another writes.
pub use sys::quire_run as Run;
/// A dense run of payload bytes.
pub use sys::quire_segment as Segment;
/// The strided description of one state tensor.
pub use sys::quire_state_view as StateView;

/// Which segments [`Config::segments`] tells; the default is all of a page's group and column 0 of shard 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Select {
    /// Which shard.
    pub shard: u32,
    /// Which group, unless one layer is selected.
    pub group: u32,
    /// The column that the ids stand in, unless one layer is selected.
    pub column: u32,
    /// One cache alone: its layer and sub.
    pub one_layer: Option<(u32, u32)>,
    /// One of `num_head_shards` equal slices of the shard's heads.
    pub head_shard: u32,
    /// 0 = 1.
    pub num_head_shards: u32,
}

/// Runs that copy tokens of one cache from one view to another: other block size, head split, order, pool or process. Views and ids may come
/// from anywhere; each side is a view and the ids of its column from token 0 on.
///
/// # Errors
/// `InvalidArgument` (a view that cannot be, rows that differ), `OutOfRange` (ids, tokens without id), `NotRepresentable`.
pub fn kv_runs(from: (&KvView, &[i32]), to: (&KvView, &[i32]), tokens: std::ops::Range<u64>) -> Result<Vec<Run>> {
    // Views that are longer than this header's would be read behind their end.
    let ours = |view: &KvView| KvView { struct_size: std::mem::size_of::<KvView>() as u32, ..*view };
    let (from_view, to_view) = (ours(from.0), ours(to.0));
    let blocks = |view, ids: &[i32]| sys::quire_kv_blocks { view, ids: ids.as_ptr(), num_ids: ids.len() as u64 };
    let (from, to) = (blocks(&from_view, from.1), blocks(&to_view, to.1));
    list(Run::default(), |items, capacity, count, err| unsafe {
        sys::quire_kv_view_list_runs(&from, &to, tokens.start, tokens.end, items, capacity, count, err)
    })
}

/// The same for one tensor of one state: each side is a view and an id.
///
/// # Errors
/// `InvalidArgument`, `OutOfRange`.
pub fn state_runs(from: (&StateView, i32), to: (&StateView, i32)) -> Result<Vec<Run>> {
    let ours = |view: &StateView| StateView { struct_size: std::mem::size_of::<StateView>() as u32, ..*view };
    let (from_view, to_view) = (ours(from.0), ours(to.0));
    list(Run::default(), |items, capacity, count, err| unsafe {
        sys::quire_state_view_list_runs(&from_view, from.1, &to_view, to.1, items, capacity, count, err)
    })
}

/// A plan: groups, pages, blocks and where every byte lies. Immutable; keeps nothing of the model.
///
/// ```
/// use quire::{Config, Layer, LayerKind, Model, PlanOptions, DType};
/// # fn main() -> quire::Result<()> {
/// let layer = Layer { kind: LayerKind::Full, num_kv_heads: 1, num_q_heads: 1, head_dim_k: 64, head_dim_v: 64, dtype: DType::F32, ..Layer::default() };
/// let config = Config::new(&Model::new(&[layer], 256)?, &PlanOptions { num_pages: 17, ..PlanOptions::default() })?;
/// assert_eq!(config.info()?.num_pages, 17);
/// assert_eq!(config.group(0)?.block_tokens, 16);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Config(NonNull<sys::quire_config>);

// config.h: every function of a config is callable from any thread.
unsafe impl Send for Config {}
unsafe impl Sync for Config {}
counted!(Config, quire_config_retain, quire_config_release);

impl Config {
    /// Plans the cache of a model.
    ///
    /// # Errors
    /// `InvalidArgument`, `OutOfRange`, `ResourceExhausted` (memory too small), `NotRepresentable`, `Unimplemented` (policy).
    pub fn new(model: &Model, options: &PlanOptions) -> Result<Config> {
        let layouts: Vec<sys::quire_str> = options.preferred_layouts.iter().map(|text| borrow(text)).collect();
        let raw = sys::quire_plan_options {
            struct_size: std::mem::size_of::<sys::quire_plan_options>() as u32,
            tensor_parallel: options.tensor_parallel,
            pipeline_parallel: options.pipeline_parallel,
            context_parallel: options.context_parallel,
            policy: borrow(&options.policy),
            layout: borrow(&options.layout),
            memory_bytes: if options.memory_bytes.is_empty() { std::ptr::null() } else { options.memory_bytes.as_ptr() },
            num_memory_bytes: options.memory_bytes.len() as u64,
            num_pages: options.num_pages,
            max_model_len: options.max_model_len,
            max_tokens_in_flight: options.max_tokens_in_flight,
            block_tokens: options.block_tokens,
            kernel_block_tokens: options.kernel_block_tokens,
            kv_dtype: options.kv_dtype.raw(),
            state_dtype: options.state_dtype.raw(),
            flags: options.flags,
            preferred_layouts: if layouts.is_empty() { std::ptr::null() } else { layouts.as_ptr() },
            num_preferred_layouts: layouts.len() as u64,
            page_alignment: options.page_alignment,
            encoder_tokens: options.encoder_tokens,
            stage_layers: if options.stage_layers.is_empty() { std::ptr::null() } else { options.stage_layers.as_ptr() },
            num_stage_layers: options.stage_layers.len() as u64,
            kv_scales: options.kv_scales,
            vllm: sys::quire_vllm_options {
                flags: options.vllm.flags,
                state_mode: options.vllm.state_mode,
                match_unit_tokens: options.vllm.match_unit_tokens,
                retained_tokens: options.vllm.retained_tokens,
                ..Default::default()
            },
        };
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_config_create(model.raw(), &raw, &mut out, err) })?;
        made(out).map(Config)
    }

    /// Facts of the plan.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn info(&self) -> Result<ConfigInfo> {
        let mut raw = sys::quire_config_info { struct_size: std::mem::size_of::<sys::quire_config_info>() as u32, ..Default::default() };
        call(|err| unsafe { sys::quire_config_get_info(self.raw(), &mut raw, err) })?;
        Ok(ConfigInfo {
            num_groups: raw.num_groups,
            num_shards: raw.num_shards,
            match_unit_tokens: raw.match_unit_tokens,
            num_pages: raw.num_pages,
            max_model_len: raw.max_model_len,
            padding_share: raw.padding_share,
            capacity_tokens: raw.capacity_tokens,
            policy: text(&raw.policy),
            layout: text(&raw.layout),
        })
    }

    /// Facts of one group.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn group(&self, group: u32) -> Result<GroupInfo> {
        let mut raw = GroupInfo::empty();
        call(|err| unsafe { sys::quire_config_get_group(self.raw(), group, &mut raw, err) })?;
        Ok(GroupInfo::of(&raw))
    }

    /// Place of a layer's cache.
    ///
    /// # Errors
    /// `NotFound` (layer without cache).
    pub fn place(&self, layer: u32, sub: u32) -> Result<LayerPlace> {
        let mut raw = LayerPlace::empty();
        call(|err| unsafe { sys::quire_config_get_place(self.raw(), layer, sub, &mut raw, err) })?;
        Ok(LayerPlace::of(&raw))
    }

    /// View of a token cache.
    ///
    /// # Errors
    /// `NotFound` (no cache in this shard), `OutOfRange` (shard).
    pub fn kv_view(&self, shard: u32, layer: u32, sub: u32) -> Result<KvView> {
        let mut view = KvView { struct_size: std::mem::size_of::<KvView>() as u32, ..KvView::default() };
        call(|err| unsafe { sys::quire_config_get_kv_view(self.raw(), shard, layer, sub, &mut view, err) })?;
        Ok(view)
    }

    /// View of one tensor of a state.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`.
    pub fn state_view(&self, shard: u32, layer: u32, sub: u32, tensor: u32) -> Result<StateView> {
        let mut view = StateView { struct_size: std::mem::size_of::<StateView>() as u32, ..StateView::default() };
        call(|err| unsafe { sys::quire_config_get_state_view(self.raw(), shard, layer, sub, tensor, &mut view, err) })?;
        Ok(view)
    }

    /// Regions of a shard: what has to be allocated or bound.
    ///
    /// # Errors
    /// `OutOfRange` (shard).
    pub fn regions(&self, shard: u32) -> Result<Vec<RegionInfo>> {
        let empty = RegionInfo::empty();
        let stride = u64::from(empty.struct_size);
        let raw = list(empty, |items, capacity, count, err| unsafe {
            sys::quire_config_list_regions(self.raw(), shard, items, stride, capacity, count, err)
        })?;
        Ok(raw.iter().map(RegionInfo::of).collect())
    }

    /// Payload runs of ids of one column as `select` says, merged and in address order.
    ///
    /// # Errors
    /// `OutOfRange`, `NotFound` (layer), `NotRepresentable` (what cannot be cut by heads).
    pub fn segments(&self, select: &Select, ids: &[i32]) -> Result<Vec<Segment>> {
        let (layer, sub) = select.one_layer.unwrap_or_default();
        let raw = sys::quire_segment_query {
            struct_size: std::mem::size_of::<sys::quire_segment_query>() as u32,
            shard: select.shard,
            group: select.group,
            column: select.column,
            layer,
            sub,
            head_shard: select.head_shard,
            num_head_shards: select.num_head_shards,
            flags: if select.one_layer.is_some() { sys::QUIRE_SELECT_ONE_LAYER } else { 0 },
            ..Default::default()
        };
        list(Segment::default(), |items, capacity, count, err| unsafe {
            sys::quire_config_list_segments(self.raw(), &raw, ids.as_ptr(), ids.len() as u64, items, capacity, count, err)
        })
    }

    /// Where the codec of a token cache keeps elements, scales and tail.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`.
    pub fn fields(&self, shard: u32, layer: u32, sub: u32) -> Result<Vec<KvField>> {
        list(KvField::default(), |items, capacity, count, err| unsafe {
            sys::quire_config_list_fields(self.raw(), shard, layer, sub, items, capacity, count, err)
        })
    }

    /// Lowering of a group.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn lowering(&self, shard: u32, group: u32) -> Result<Lowering> {
        let mut raw = Lowering::empty();
        call(|err| unsafe { sys::quire_config_get_lowering(self.raw(), shard, group, &mut raw, err) })?;
        Ok(Lowering::of(&raw))
    }

    /// The plan explained as JSON.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn describe_json(&self) -> Result<String> {
        list_text(|text, capacity, count, err| unsafe { sys::quire_config_describe_json(self.raw(), text, capacity, count, err) })
    }

    /// How the bytes of this plan relate to another's: a level (`QUIRE_COMPAT_*`) and what keeps it from the level above.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn compare(&self, other: &Config) -> Result<(i32, String)> {
        let mut raw =
            sys::quire_compatibility { struct_size: std::mem::size_of::<sys::quire_compatibility>() as u32, ..Default::default() };
        call(|err| unsafe { sys::quire_config_compare(self.raw(), other.raw(), &mut raw, err) })?;
        Ok((raw.level, text(&raw.reason)))
    }

    pub(crate) fn raw(&self) -> *mut sys::quire_config {
        self.0.as_ptr()
    }
}
