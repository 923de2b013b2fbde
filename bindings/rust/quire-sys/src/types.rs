// Made by abi/generate.py from abi/include/quire: change the headers, not this file.
macro_rules! zeroed {
    ($name:ident) => {
        impl Default for $name {
            fn default() -> Self {
                // All fields are integers, floats, nullable pointers or arrays and structs of these.
                unsafe { ::std::mem::zeroed() }
            }
        }
    };
}
pub const QUIRE_CONNECTOR_ABI_VERSION: u32 = 3;
pub const QUIRE_CONNECTOR_PERSISTENT: u32 = 1;
pub const QUIRE_CONNECTOR_SHARED: u32 = 2;
pub const QUIRE_CONNECTOR_REGISTERS: u32 = 4;
pub const QUIRE_CONNECTOR_RANGES: u32 = 8;
pub const QUIRE_CONNECTOR_STAGES: u32 = 16;
pub const QUIRE_COMPLETION_EXISTED: u32 = 1;
pub const QUIRE_COMPLETION_LEASED: u32 = 2;
pub const QUIRE_ABI_VERSION: u32 = 2;
pub const QUIRE_ABI_MAJOR: u32 = 0;
pub const QUIRE_ABI_MINOR: u32 = 2;
pub const QUIRE_RUNTIME_NO_ENV: u32 = 1;
pub const QUIRE_RUNTIME_TRUST_PATHS: u32 = 2;
pub const QUIRE_DRIVER_ABI_VERSION: u32 = 2;
pub const QUIRE_MODULE_MAGIC: u32 = 1163020625;
pub const QUIRE_NOTE_TYPE: u32 = 256;
pub const QUIRE_DRIVER_KERNELS_MASK: u32 = 255;
pub const QUIRE_DRIVER_KERNELS_PORTABLE: u32 = 1;
pub const QUIRE_DRIVER_KERNELS_AVX2: u32 = 2;
pub const QUIRE_DRIVER_KERNELS_AVX512: u32 = 3;
pub const QUIRE_DRIVER_KERNELS_AVX512_BF16: u32 = 4;
pub const QUIRE_DRIVER_KERNELS_AMX: u32 = 5;
pub const QUIRE_MEM_DEVICE: u32 = 1;
pub const QUIRE_MEM_HOST: u32 = 2;
pub const QUIRE_EXTENSION_NATIVE: u32 = 1;
pub const QUIRE_EXTENSION_PACKED: u32 = 2;
pub const QUIRE_EXPORT_READ_ONLY: u32 = 1;
pub const QUIRE_EXPORT_AS_BYTES: u32 = 2;
pub const QUIRE_EXPORT_LEGACY: u32 = 4;
pub const QUIRE_IMPORT_READ_ONLY: u32 = 1;
pub const QUIRE_IMPORT_ANY_DTYPE: u32 = 2;
pub const QUIRE_PLAN_NO_PREFIX_REUSE: u32 = 1;
pub const QUIRE_PLAN_CONTIGUOUS: u32 = 2;
pub const QUIRE_PLAN_ONE_TABLE: u32 = 4;
pub const QUIRE_PLAN_FIT_LENGTH: u32 = 8;
pub const QUIRE_VLLM_UPSTREAM: u32 = 1;
pub const QUIRE_VLLM_TRANSFERS: u32 = 2;
pub const QUIRE_VLLM_ROWS: u32 = 4;
pub const QUIRE_SELECT_ONE_LAYER: u32 = 1;
pub const QUIRE_LAYER_DRAFT: u32 = 1;
pub const QUIRE_LAYER_SINK_LOGITS: u32 = 2;
pub const QUIRE_ENTRY_MATCH: u32 = 1;
pub const QUIRE_ENTRY_PROMPT_END: u32 = 2;
pub const QUIRE_ENTRY_NO_STOP: u32 = 4;
pub const QUIRE_ENTRY_KEEP_STATE: u32 = 8;
pub const QUIRE_RESULT_CHUNK_STOP: u32 = 1;
pub const QUIRE_RESULT_NEVER_FITS: u32 = 2;
pub const QUIRE_ABORT_NOT_LAUNCHED: u32 = 1;
pub const QUIRE_BATCH_MAX_PITCH: u32 = 1;
pub const QUIRE_MAX_FILLS: u32 = 256;
pub const QUIRE_MAX_LOADS: u32 = 4096;
pub const QUIRE_CACHE_NO_PREFIX_REUSE: u32 = 1;
pub const QUIRE_CACHE_STATES_IN_PLACE: u32 = 2;
pub const QUIRE_CACHE_STATES_AT_BLOCKS: u32 = 4;
pub const QUIRE_CACHE_STRICT_LRU: u32 = 16;
pub const QUIRE_KEEP_EVERY: u32 = 1;
pub const QUIRE_KEEP_CHUNK_END: u32 = 2;
pub const QUIRE_KEEP_PROMPT_END: u32 = 4;
pub const QUIRE_KEEP_JUNCTION: u32 = 8;
pub const QUIRE_KEEP_ASKED: u32 = 16;
pub const QUIRE_SEQUENCE_NO_MATCH: u32 = 1;
pub const QUIRE_SEQUENCE_NO_PUBLISH: u32 = 2;
pub const QUIRE_ATTENTION_CAUSAL: u32 = 1;
pub const QUIRE_ATTENTION_BATCH_INVARIANT: u32 = 2;
pub const QUIRE_GATED_DELTA_V_MAJOR: u32 = 1;
pub const QUIRE_GATED_DELTA_L2NORM: u32 = 2;
pub const QUIRE_CONV1D_SILU: u32 = 1;
pub const QUIRE_SELECTIVE_SCAN_SOFTPLUS: u32 = 1;
pub const QUIRE_TIER_PEERS: u32 = 1;
pub const QUIRE_PEER_GROWS: u32 = 1;
pub const QUIRE_HASH_LAST_MEDIA_ONLY: u32 = 1;
pub const QUIRE_EVENTS_WHOLE_HASHES: u32 = 1;
pub const QUIRE_UNIT_HAS_STATE: u32 = 1;
pub const QUIRE_PIN_HARD: u32 = 255;
pub type quire_code = i32;
pub const QUIRE_OK: quire_code_e = 0;
pub const QUIRE_CANCELLED: quire_code_e = 1;
pub const QUIRE_UNKNOWN: quire_code_e = 2;
pub const QUIRE_INVALID_ARGUMENT: quire_code_e = 3;
pub const QUIRE_DEADLINE_EXCEEDED: quire_code_e = 4;
pub const QUIRE_NOT_FOUND: quire_code_e = 5;
pub const QUIRE_ALREADY_EXISTS: quire_code_e = 6;
pub const QUIRE_PERMISSION_DENIED: quire_code_e = 7;
pub const QUIRE_RESOURCE_EXHAUSTED: quire_code_e = 8;
pub const QUIRE_FAILED_PRECONDITION: quire_code_e = 9;
pub const QUIRE_ABORTED: quire_code_e = 10;
pub const QUIRE_OUT_OF_RANGE: quire_code_e = 11;
pub const QUIRE_UNIMPLEMENTED: quire_code_e = 12;
pub const QUIRE_INTERNAL: quire_code_e = 13;
pub const QUIRE_UNAVAILABLE: quire_code_e = 14;
pub const QUIRE_DATA_LOSS: quire_code_e = 15;
pub const QUIRE_INCOMPATIBLE_ABI: quire_code_e = 64;
pub const QUIRE_NOT_READY: quire_code_e = 65;
pub const QUIRE_NOT_REPRESENTABLE: quire_code_e = 66;
pub const QUIRE_CODE_FORCE32: quire_code_e = -2147483647;
pub type quire_code_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_str {
    pub data: *const ::std::os::raw::c_char,
    pub len: u64,
}
zeroed!(quire_str);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_error {
    pub struct_size: u32,
    pub code: quire_code,
    pub native_code: i32,
    pub native_domain: i32,
    pub source: [::std::os::raw::c_char; 32usize],
    pub message: [::std::os::raw::c_char; 464usize],
}
zeroed!(quire_error);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_dtype {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}
zeroed!(quire_dtype);
pub const QUIRE_DTYPE_INT: quire_dtype_code_e = 0;
pub const QUIRE_DTYPE_UINT: quire_dtype_code_e = 1;
pub const QUIRE_DTYPE_FLOAT: quire_dtype_code_e = 2;
pub const QUIRE_DTYPE_BFLOAT: quire_dtype_code_e = 4;
pub const QUIRE_DTYPE_FLOAT8_E4M3FN: quire_dtype_code_e = 10;
pub const QUIRE_DTYPE_FLOAT8_E5M2: quire_dtype_code_e = 12;
pub const QUIRE_DTYPE_FLOAT8_E8M0FNU: quire_dtype_code_e = 14;
pub const QUIRE_DTYPE_FLOAT4_E2M1FN: quire_dtype_code_e = 17;
pub const QUIRE_DTYPE_CODE_FORCE32: quire_dtype_code_e = -2147483647;
pub type quire_dtype_code_e = ::std::os::raw::c_int;
pub type quire_device_type = i32;
pub const QUIRE_DEVICE_CPU: quire_device_type_e = 1;
pub const QUIRE_DEVICE_CUDA: quire_device_type_e = 2;
pub const QUIRE_DEVICE_CUDA_HOST: quire_device_type_e = 3;
pub const QUIRE_DEVICE_ROCM: quire_device_type_e = 10;
pub const QUIRE_DEVICE_ROCM_HOST: quire_device_type_e = 11;
pub const QUIRE_DEVICE_TYPE_FORCE32: quire_device_type_e = -2147483647;
pub type quire_device_type_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_tensor {
    pub data: *mut ::std::os::raw::c_void,
    pub dtype: quire_dtype,
    pub device_type: quire_device_type,
    pub device_id: i32,
    pub ndim: i32,
    pub shape: [i64; 5usize],
    pub stride: [i64; 5usize],
    pub reserved0: u64,
}
zeroed!(quire_tensor);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_runtime {
    _unused: [u8; 0],
}
pub type quire_log_level = i32;
pub const QUIRE_LOG_TRACE: quire_log_level_e = 0;
pub const QUIRE_LOG_DEBUG: quire_log_level_e = 1;
pub const QUIRE_LOG_INFO: quire_log_level_e = 2;
pub const QUIRE_LOG_WARN: quire_log_level_e = 3;
pub const QUIRE_LOG_ERROR: quire_log_level_e = 4;
pub const QUIRE_LOG_OFF: quire_log_level_e = 5;
pub const QUIRE_LOG_LEVEL_FORCE32: quire_log_level_e = -2147483647;
pub type quire_log_level_e = ::std::os::raw::c_int;
pub type quire_log_fn = ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void, level: quire_log_level, component: quire_str, message: quire_str)>;
pub type quire_alloc_fn = ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void, bytes: u64, alignment: u64) -> *mut ::std::os::raw::c_void>;
pub type quire_free_fn = ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void, address: *mut ::std::os::raw::c_void, bytes: u64, alignment: u64)>;
pub type quire_clock_fn = ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void) -> i64>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_runtime_options {
    pub struct_size: u32,
    pub flags: u32,
    pub header_abi: u32,
    pub num_threads: u32,
    pub driver: quire_str,
    pub driver_path: quire_str,
    pub connector_path: quire_str,
    pub cpus: quire_str,
    pub log: quire_log_fn,
    pub log_user: *mut ::std::os::raw::c_void,
    pub alloc: quire_alloc_fn,
    pub release_memory: quire_free_fn,
    pub alloc_user: *mut ::std::os::raw::c_void,
    pub clock: quire_clock_fn,
    pub clock_user: *mut ::std::os::raw::c_void,
    pub log_level: quire_log_level,
    pub reserved0: u32,
}
zeroed!(quire_runtime_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_probe_info {
    pub struct_size: u32,
    pub code: quire_code,
    pub kind: i32,
    pub step: i32,
    pub duration_ns: i64,
    pub name: [::std::os::raw::c_char; 32usize],
    pub path: [::std::os::raw::c_char; 256usize],
    pub reason: [::std::os::raw::c_char; 256usize],
}
zeroed!(quire_probe_info);
pub type quire_value_type = i32;
pub const QUIRE_VALUE_VOID: quire_value_type_e = 0;
pub const QUIRE_VALUE_I32: quire_value_type_e = 1;
pub const QUIRE_VALUE_I64: quire_value_type_e = 2;
pub const QUIRE_VALUE_U32: quire_value_type_e = 3;
pub const QUIRE_VALUE_U64: quire_value_type_e = 4;
pub const QUIRE_VALUE_F32: quire_value_type_e = 5;
pub const QUIRE_VALUE_F64: quire_value_type_e = 6;
pub const QUIRE_VALUE_POINTER: quire_value_type_e = 7;
pub const QUIRE_VALUE_STR: quire_value_type_e = 8;
pub const QUIRE_VALUE_TENSOR: quire_value_type_e = 9;
pub const QUIRE_VALUE_STREAM: quire_value_type_e = 10;
pub const QUIRE_VALUE_TYPE_FORCE32: quire_value_type_e = -2147483647;
pub type quire_value_type_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_value {
    pub type_: quire_value_type,
    pub reserved0: u32,
    pub bits: u64,
}
zeroed!(quire_value);
pub type quire_native_fn = ::std::option::Option<unsafe extern "C" fn()>;
pub type quire_packed_fn = ::std::option::Option<unsafe extern "C" fn(self_: *mut ::std::os::raw::c_void, args: *const quire_value, n: u64, result: *mut quire_value, err: *mut quire_error) -> quire_code>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_extension_entry {
    pub struct_size: u32,
    pub version: u32,
    pub name: quire_str,
    pub signature: quire_str,
    pub doc: quire_str,
    pub native: quire_native_fn,
    pub packed: quire_packed_fn,
}
zeroed!(quire_extension_entry);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_extension_table {
    pub struct_size: u32,
    pub stride: u32,
    pub count: u64,
    pub items: *const quire_extension_entry,
}
zeroed!(quire_extension_table);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_extension {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_extension_info {
    pub struct_size: u32,
    pub version: u32,
    pub name: quire_str,
    pub signature: quire_str,
    pub doc: quire_str,
    pub flags: u32,
    pub num_args: u32,
}
zeroed!(quire_extension_info);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_model {
    _unused: [u8; 0],
}
pub type quire_layer_kind = i32;
pub const QUIRE_LAYER_NONE: quire_layer_kind_e = 0;
pub const QUIRE_LAYER_FULL: quire_layer_kind_e = 1;
pub const QUIRE_LAYER_SLIDING_WINDOW: quire_layer_kind_e = 2;
pub const QUIRE_LAYER_CHUNKED: quire_layer_kind_e = 3;
pub const QUIRE_LAYER_MLA: quire_layer_kind_e = 4;
pub const QUIRE_LAYER_STATE: quire_layer_kind_e = 5;
pub const QUIRE_LAYER_CROSS: quire_layer_kind_e = 6;
pub const QUIRE_LAYER_ENCODER_ONLY: quire_layer_kind_e = 7;
pub const QUIRE_LAYER_INDEXER: quire_layer_kind_e = 8;
pub const QUIRE_LAYER_KIND_FORCE32: quire_layer_kind_e = -2147483647;
pub type quire_layer_kind_e = ::std::os::raw::c_int;
pub type quire_codec = i32;
pub const QUIRE_CODEC_STRIDED: quire_codec_e = 0;
pub const QUIRE_CODEC_RECORD: quire_codec_e = 1;
pub const QUIRE_CODEC_BLOCK_SPLIT: quire_codec_e = 2;
pub const QUIRE_CODEC_TILED: quire_codec_e = 3;
pub const QUIRE_CODEC_SHUFFLED: quire_codec_e = 4;
pub const QUIRE_CODEC_COLUMN_K: quire_codec_e = 5;
pub const QUIRE_CODEC_AMX: quire_codec_e = 6;
pub const QUIRE_CODEC_FORCE32: quire_codec_e = -2147483647;
pub type quire_codec_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_codec_params {
    pub data_bytes: [u32; 2usize],
    pub scale_bytes: [u32; 2usize],
    pub tail_bytes: [u32; 2usize],
    pub data_dtype: quire_dtype,
    pub scale_dtype: quire_dtype,
    pub tail_dtype: quire_dtype,
    pub scale_elements: u32,
    pub tile: u32,
    pub block_alignment: u32,
}
zeroed!(quire_codec_params);
pub type quire_state_kind = i32;
pub const QUIRE_STATE_GENERIC: quire_state_kind_e = 0;
pub const QUIRE_STATE_MAMBA1: quire_state_kind_e = 1;
pub const QUIRE_STATE_MAMBA2: quire_state_kind_e = 2;
pub const QUIRE_STATE_GDN: quire_state_kind_e = 3;
pub const QUIRE_STATE_KDA: quire_state_kind_e = 4;
pub const QUIRE_STATE_LIGHTNING: quire_state_kind_e = 5;
pub const QUIRE_STATE_SHORT_CONV: quire_state_kind_e = 6;
pub const QUIRE_STATE_KIND_FORCE32: quire_state_kind_e = -2147483647;
pub type quire_state_kind_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_state_tensor {
    pub dtype: quire_dtype,
    pub ndim: u32,
    pub shape: [u64; 4usize],
}
zeroed!(quire_state_tensor);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_layer {
    pub struct_size: u32,
    pub flags: u32,
    pub kind: quire_layer_kind,
    pub layer: u32,
    pub sub: u32,
    pub num_kv_heads: u32,
    pub num_q_heads: u32,
    pub head_dim_k: u32,
    pub head_dim_v: u32,
    pub dtype: quire_dtype,
    pub codec: quire_codec,
    pub sink_tokens: u32,
    pub window: u64,
    pub name: quire_str,
    pub shares_with: u32,
    pub compress_ratio: u32,
    pub block_tokens: u32,
    pub look_ahead: u32,
    pub encoder_tokens: u64,
    pub state_kind: quire_state_kind,
    pub num_state_tensors: u32,
    pub state: [quire_state_tensor; 4usize],
    pub state_shard: [u8; 4usize],
    pub softcap: f32,
    pub state_parts: [u32; 4usize],
    pub codec_params: quire_codec_params,
    pub rope_dim: u32,
    pub reserved0: u32,
}
zeroed!(quire_layer);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_model_info {
    pub struct_size: u32,
    pub num_layers: u32,
    pub num_caches: u32,
    pub num_q_heads: u32,
    pub max_model_len: u64,
    pub architecture: [::std::os::raw::c_char; 64usize],
}
zeroed!(quire_model_info);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_config {
    _unused: [u8; 0],
}
pub type quire_state_mode = i32;
pub const QUIRE_STATE_MODE_DEFAULT: quire_state_mode_e = 0;
pub const QUIRE_STATE_MODE_NONE: quire_state_mode_e = 1;
pub const QUIRE_STATE_MODE_ALIGN: quire_state_mode_e = 2;
pub const QUIRE_STATE_MODE_ALL: quire_state_mode_e = 3;
pub const QUIRE_STATE_MODE_FORCE32: quire_state_mode_e = -2147483647;
pub type quire_state_mode_e = ::std::os::raw::c_int;
pub type quire_kv_scales = i32;
pub const QUIRE_KV_SCALES_OUTSIDE: quire_kv_scales_e = 0;
pub const QUIRE_KV_SCALES_ROW: quire_kv_scales_e = 1;
pub const QUIRE_KV_SCALES_16: quire_kv_scales_e = 2;
pub const QUIRE_KV_SCALES_FORCE32: quire_kv_scales_e = -2147483647;
pub type quire_kv_scales_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_vllm_options {
    pub flags: u32,
    pub state_mode: quire_state_mode,
    pub match_unit_tokens: u32,
    pub retained_tokens: u32,
    pub reserved0: u64,
}
zeroed!(quire_vllm_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_plan_options {
    pub struct_size: u32,
    pub flags: u32,
    pub tensor_parallel: u32,
    pub pipeline_parallel: u32,
    pub context_parallel: u32,
    pub block_tokens: u32,
    pub kernel_block_tokens: u32,
    pub kv_dtype: quire_dtype,
    pub kv_scales: quire_kv_scales,
    pub state_dtype: quire_dtype,
    pub policy: quire_str,
    pub layout: quire_str,
    pub memory_bytes: *const u64,
    pub num_memory_bytes: u64,
    pub num_pages: u64,
    pub max_model_len: u64,
    pub max_tokens_in_flight: u64,
    pub page_alignment: u64,
    pub encoder_tokens: u64,
    pub preferred_layouts: *const quire_str,
    pub num_preferred_layouts: u64,
    pub stage_layers: *const u32,
    pub num_stage_layers: u64,
    pub vllm: quire_vllm_options,
}
zeroed!(quire_plan_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_config_info {
    pub struct_size: u32,
    pub num_groups: u32,
    pub num_shards: u32,
    pub match_unit_tokens: u32,
    pub num_pages: u64,
    pub max_model_len: u64,
    pub padding_share: f64,
    pub capacity_tokens: u64,
    pub policy: [::std::os::raw::c_char; 32usize],
    pub layout: [::std::os::raw::c_char; 32usize],
}
zeroed!(quire_config_info);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_group_info {
    pub struct_size: u32,
    pub group: u32,
    pub is_state: u32,
    pub block_tokens: u32,
    pub kernel_block_tokens: u32,
    pub kernel_blocks_per_part: u32,
    pub parts_per_page: u32,
    pub ids_per_block: u32,
    pub num_lanes: u32,
    pub num_caches: u32,
    pub sink_tokens: u64,
    pub window: u64,
    pub chunk: u64,
    pub payload_bytes_per_block: u64,
    pub page_bytes_per_block: u64,
    pub look_ahead: u32,
    pub flags: u32,
    pub encoder_tokens: u64,
    pub table_pitch: u64,
    pub checkpoint_interval: u64,
}
zeroed!(quire_group_info);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_layer_place {
    pub struct_size: u32,
    pub group: u32,
    pub column: u32,
    pub lane: u32,
    pub index_in_lane: u32,
    pub pipeline_stage: u32,
}
zeroed!(quire_layer_place);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_kv_view {
    pub struct_size: u32,
    pub group: u32,
    pub column: u32,
    pub region: u32,
    pub num_sides: u32,
    pub num_heads: u32,
    pub head_dim: [u32; 2usize],
    pub block_tokens: u32,
    pub blocks_per_page: u32,
    pub dtype: quire_dtype,
    pub codec: quire_codec,
    pub num_pages: u64,
    pub offset: [i64; 2usize],
    pub stride_page: [i64; 2usize],
    pub stride_block: [i64; 2usize],
    pub unit: [i64; 2usize],
    pub stride_token: [i64; 2usize],
    pub stride_head: [i64; 2usize],
    pub stride_dim: [i64; 2usize],
    pub codec_params: quire_codec_params,
    pub first_head: u32,
    pub model_heads: u32,
    pub kernel_blocks_per_part: u32,
    pub tokens_per_row: u32,
    pub context_rank: u32,
    pub context_ranks: u32,
}
zeroed!(quire_kv_view);
pub type quire_field_role = i32;
pub const QUIRE_FIELD_ELEMENTS: quire_field_role_e = 0;
pub const QUIRE_FIELD_SCALES: quire_field_role_e = 1;
pub const QUIRE_FIELD_TAIL: quire_field_role_e = 2;
pub const QUIRE_FIELD_ROLE_FORCE32: quire_field_role_e = -2147483647;
pub type quire_field_role_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_kv_field {
    pub side: u32,
    pub role: quire_field_role,
    pub dtype: quire_dtype,
    pub num_items: u32,
    pub tile_tokens: u32,
    pub tile_items: u32,
    pub offset: i64,
    pub stride_head: i64,
    pub stride_token_tile: i64,
    pub stride_token: i64,
    pub stride_item_tile: i64,
    pub stride_item: i64,
    pub reserved0: u64,
}
zeroed!(quire_kv_field);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_state_view {
    pub struct_size: u32,
    pub group: u32,
    pub column: u32,
    pub region: u32,
    pub dtype: quire_dtype,
    pub ndim: u32,
    pub offset: i64,
    pub unit: i64,
    pub stride_page: i64,
    pub stride_part: i64,
    pub shape: [u64; 4usize],
    pub stride: [i64; 4usize],
    pub parts_per_page: u32,
    pub shard_dim: u32,
    pub num_ranks: u32,
    pub rank: u32,
    pub shard_parts: [u32; 4usize],
    pub num_pages: u64,
    pub shard_repeats: [u32; 4usize],
}
zeroed!(quire_state_view);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_region_info {
    pub struct_size: u32,
    pub region: u32,
    pub bytes: u64,
    pub alignment: u64,
    pub page_stride: u64,
    pub num_planes: u64,
}
zeroed!(quire_region_info);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_segment {
    pub region: u32,
    pub layer: u32,
    pub offset: u64,
    pub bytes: u64,
    pub reserved0: u64,
}
zeroed!(quire_segment);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_segment_query {
    pub struct_size: u32,
    pub flags: u32,
    pub shard: u32,
    pub group: u32,
    pub column: u32,
    pub layer: u32,
    pub sub: u32,
    pub head_shard: u32,
    pub num_head_shards: u32,
    pub reserved0: u32,
}
zeroed!(quire_segment_query);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_run {
    pub from_region: u32,
    pub to_region: u32,
    pub from_offset: u64,
    pub to_offset: u64,
    pub bytes: u64,
    pub count: u64,
    pub from_stride: i64,
    pub to_stride: i64,
    pub reserved0: u64,
}
zeroed!(quire_run);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_kv_blocks {
    pub view: *const quire_kv_view,
    pub ids: *const i32,
    pub num_ids: u64,
}
zeroed!(quire_kv_blocks);
pub type quire_compat_level = i32;
pub const QUIRE_COMPAT_IDENTICAL: quire_compat_level_e = 0;
pub const QUIRE_COMPAT_REARRANGED: quire_compat_level_e = 1;
pub const QUIRE_COMPAT_CONVERTIBLE: quire_compat_level_e = 2;
pub const QUIRE_COMPAT_INCOMPATIBLE: quire_compat_level_e = 3;
pub const QUIRE_COMPAT_LEVEL_FORCE32: quire_compat_level_e = -2147483647;
pub type quire_compat_level_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_compatibility {
    pub struct_size: u32,
    pub level: quire_compat_level,
    pub reason: [::std::os::raw::c_char; 248usize],
}
zeroed!(quire_compatibility);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_lowering {
    pub struct_size: u32,
    pub parts_per_page: u32,
    pub kernel_blocks_per_part: u32,
    pub reserved0: u32,
    pub page_factor: u64,
    pub part_factor: u64,
    pub block_factor: u64,
    pub num_lowered_ids: u64,
}
zeroed!(quire_lowering);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_cache {
    _unused: [u8; 0],
}
pub type quire_symbol = u32;
pub type quire_sequence_id = u64;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_cache_options {
    pub struct_size: u32,
    pub flags: u32,
    pub max_sequences: u32,
    pub max_entries_per_step: u32,
    pub max_tokens_per_step: u32,
    pub step_depth: u32,
    pub max_roots: u32,
    pub watermark_pages: u32,
    pub num_state_branches: u32,
    pub keep_states: u32,
    pub max_pins: u32,
    pub reserved0: u32,
    pub max_index_units: u64,
    pub max_media: u64,
    pub hash_seed: u64,
    pub checkpoint_interval: u64,
    pub pin_quota_tokens: u64,
    pub checkpoint_bytes: u64,
    pub max_loads: u32,
    pub reserved1: u32,
    pub max_load_tokens: u64,
}
zeroed!(quire_cache_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_identity {
    pub struct_size: u32,
    pub flags: u32,
    pub salt: quire_str,
    pub adapter: quire_str,
    pub epoch: u64,
    pub adapter_number: u64,
}
zeroed!(quire_identity);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_capacity {
    pub struct_size: u32,
    pub reserved0: u32,
    pub tokens: u64,
    pub concurrency: u64,
    pub guaranteed: u64,
    pub decoding: u64,
    pub resident: u64,
    pub longest: u64,
    pub pages_needed: u64,
    pub bytes_needed: u64,
    pub kv_cache_tokens: u64,
}
zeroed!(quire_capacity);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_sequence_info {
    pub struct_size: u32,
    pub steps_in_flight: u32,
    pub committed: u64,
    pub reserved: u64,
    pub known: u64,
    pub hit_tokens: u64,
    pub num_parts: u64,
    pub encoder_tokens: u64,
}
zeroed!(quire_sequence_info);
pub type quire_miss = i32;
pub const QUIRE_MISS_NONE: quire_miss_e = 0;
pub const QUIRE_MISS_UNKNOWN_PREFIX: quire_miss_e = 1;
pub const QUIRE_MISS_EVICTED: quire_miss_e = 2;
pub const QUIRE_MISS_NO_STATE: quire_miss_e = 3;
pub const QUIRE_MISS_WINDOW_HOLE: quire_miss_e = 4;
pub const QUIRE_MISS_BELOW_UNIT: quire_miss_e = 5;
pub const QUIRE_MISS_DISABLED: quire_miss_e = 6;
pub const QUIRE_MISS_FORCE32: quire_miss_e = -2147483647;
pub type quire_miss_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_probe_result {
    pub struct_size: u32,
    pub miss: quire_miss,
    pub hit_tokens: u64,
    pub full_hit_tokens: u64,
}
zeroed!(quire_probe_result);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_cache_stats {
    pub struct_size: u32,
    pub num_sequences: u32,
    pub pages_total: u64,
    pub pages_free: u64,
    pub pages_evictable: u64,
    pub pages_used: u64,
    pub parts_used: u64,
    pub parts_cached: u64,
    pub part_holes: u64,
    pub index_units: u64,
    pub matches: u64,
    pub matched_prompt_tokens: u64,
    pub hit_tokens: u64,
    pub miss_reasons: [u64; 8usize],
    pub evicted_pages: u64,
    pub evicted_blocks: u64,
    pub hand_overs: u64,
    pub steps: u64,
    pub aborted_steps: u64,
    pub refused_entries: u64,
    pub preemptions: u64,
    pub forks: u64,
    pub copies: u64,
    pub checkpoints: u64,
    pub pins: u64,
    pub pinned_tokens: u64,
    pub pins_given_up: u64,
    pub checkpoint_bytes: u64,
    pub checkpoints_given_up: u64,
    pub checkpoints_declined: u64,
    pub recompute_avoided: u64,
    pub host_bytes: u64,
    pub holds: u64,
    pub held_parts: u64,
    pub units_given_up: u64,
    pub loads: u64,
    pub aborted_prompt_tokens: u64,
    pub aborted_hit_tokens: u64,
    pub aborted_recompute_avoided: u64,
    pub aborted_miss_reasons: [u64; 8usize],
    pub page_sample: u64,
    pub page_lifetime: [u64; 32usize],
    pub page_lifetime_ns: u64,
    pub page_idle: [u64; 32usize],
    pub page_idle_ns: u64,
    pub page_reuse_gap: [u64; 32usize],
    pub page_reuse_gap_ns: u64,
}
zeroed!(quire_cache_stats);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_group_stats {
    pub struct_size: u32,
    pub group: u32,
    pub pages_used: u64,
    pub pages_cached: u64,
    pub page_lifetime: [u64; 32usize],
    pub page_lifetime_ns: u64,
    pub page_idle: [u64; 32usize],
    pub page_idle_ns: u64,
    pub page_reuse_gap: [u64; 32usize],
    pub page_reuse_gap_ns: u64,
}
zeroed!(quire_group_stats);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_step {
    pub owner: *const ::std::os::raw::c_void,
    pub id: u64,
}
zeroed!(quire_step);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_reserve_entry {
    pub sequence: quire_sequence_id,
    pub symbols_position: u64,
    pub symbols_offset: u64,
    pub num_symbols: u32,
    pub num_tokens: u32,
    pub num_look_ahead: u32,
    pub flags: u32,
    pub full_tokens: u64,
    pub encoder_tokens: u64,
}
zeroed!(quire_reserve_entry);
pub type quire_refusal = i32;
pub const QUIRE_REFUSAL_NONE: quire_refusal_e = 0;
pub const QUIRE_REFUSAL_NO_ROOM: quire_refusal_e = 1;
pub const QUIRE_REFUSAL_NEVER_FITS: quire_refusal_e = 2;
pub const QUIRE_REFUSAL_STEP_FULL: quire_refusal_e = 3;
pub const QUIRE_REFUSAL_TOO_LONG: quire_refusal_e = 4;
pub const QUIRE_REFUSAL_STALE: quire_refusal_e = 5;
pub const QUIRE_REFUSAL_TWICE: quire_refusal_e = 6;
pub const QUIRE_REFUSAL_LOADING: quire_refusal_e = 7;
pub const QUIRE_REFUSAL_NO_TOKENS: quire_refusal_e = 8;
pub const QUIRE_REFUSAL_NOT_EMPTY: quire_refusal_e = 9;
pub const QUIRE_REFUSAL_NO_PROMPT: quire_refusal_e = 10;
pub const QUIRE_REFUSAL_POSITION: quire_refusal_e = 11;
pub const QUIRE_REFUSAL_LOOK_AHEAD: quire_refusal_e = 12;
pub const QUIRE_REFUSAL_FORCE32: quire_refusal_e = -2147483647;
pub type quire_refusal_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_reserve_result {
    pub sequence: quire_sequence_id,
    pub code: quire_code,
    pub reason: quire_refusal,
    pub missing_pages: u64,
    pub position: u64,
    pub num_tokens: u32,
    pub hit_tokens: u32,
    pub miss: quire_miss,
    pub row: u32,
    pub flags: u32,
    pub full_hit_tokens: u32,
    pub group: u32,
    pub reserved0: u32,
}
zeroed!(quire_reserve_result);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_commit_entry {
    pub sequence: quire_sequence_id,
    pub symbols_position: u64,
    pub symbols_offset: u64,
    pub num_symbols: u32,
    pub num_accepted: u32,
}
zeroed!(quire_commit_entry);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_step_info {
    pub struct_size: u32,
    pub num_rows: u32,
    pub num_tokens: u64,
    pub num_copies: u64,
    pub num_zeroes: u64,
}
zeroed!(quire_step_info);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_batch {
    pub struct_size: u32,
    pub flags: u32,
    pub group: u32,
    pub num_columns: u32,
    pub num_rows: u32,
    pub num_tokens: u32,
    pub query_indptr: *const i32,
    pub kv_len: *const i32,
    pub positions: *const i32,
    pub table: *const i32,
    pub table_pitch: u64,
    pub table_column_pitch: u64,
    pub slots: *const i64,
    pub num_slots: u64,
    pub slots_column_pitch: u64,
    pub state_read: *const i32,
    pub state_write: *const i32,
    pub state_read_column_pitch: u64,
    pub state_write_column_pitch: u64,
    pub state_write_indptr: *const i32,
    pub state_write_ends: *const i32,
}
zeroed!(quire_batch);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_batch_options {
    pub struct_size: u32,
    pub flags: u32,
    pub shard: u32,
    pub num_rows: u32,
    pub num_tokens: u32,
    pub reserved0: u32,
    pub memory: *mut ::std::os::raw::c_void,
    pub bytes: u64,
    pub address: *const ::std::os::raw::c_void,
}
zeroed!(quire_batch_options);
pub type quire_fill_kind = i32;
pub const QUIRE_FILL_TABLE: quire_fill_kind_e = 1;
pub const QUIRE_FILL_TABLE_INDPTR: quire_fill_kind_e = 2;
pub const QUIRE_FILL_TABLE_INDICES: quire_fill_kind_e = 3;
pub const QUIRE_FILL_SLOTS: quire_fill_kind_e = 4;
pub const QUIRE_FILL_STATE_READ: quire_fill_kind_e = 5;
pub const QUIRE_FILL_STATE_WRITE: quire_fill_kind_e = 6;
pub const QUIRE_FILL_KV_LEN: quire_fill_kind_e = 7;
pub const QUIRE_FILL_QUERY_INDPTR: quire_fill_kind_e = 8;
pub const QUIRE_FILL_POSITIONS: quire_fill_kind_e = 9;
pub const QUIRE_FILL_RAW_TABLE: quire_fill_kind_e = 10;
pub const QUIRE_FILL_STATE_WRITE_INDPTR: quire_fill_kind_e = 11;
pub const QUIRE_FILL_STATE_WRITES: quire_fill_kind_e = 12;
pub const QUIRE_FILL_STATE_WRITE_ENDS: quire_fill_kind_e = 13;
pub const QUIRE_FILL_UPDATE_INDPTR: quire_fill_kind_e = 14;
pub const QUIRE_FILL_UPDATE_FIRST: quire_fill_kind_e = 15;
pub const QUIRE_FILL_UPDATE_INDICES: quire_fill_kind_e = 16;
pub const QUIRE_FILL_SLOTS_INDPTR: quire_fill_kind_e = 17;
pub const QUIRE_FILL_KIND_FORCE32: quire_fill_kind_e = -2147483647;
pub type quire_fill_kind_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_fill {
    pub struct_size: u32,
    pub kind: quire_fill_kind,
    pub group: u32,
    pub shard: u32,
    pub first_column: u32,
    pub num_columns: u32,
    pub destination: *mut ::std::os::raw::c_void,
    pub capacity: u64,
    pub pitch: u64,
    pub column_pitch: u64,
    pub fill_value: i64,
    pub num_rows: u32,
    pub num_tokens: u32,
}
zeroed!(quire_fill);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_copy {
    pub group: u32,
    pub column: u32,
    pub source: i32,
    pub destination: i32,
    pub first_token: u32,
    pub num_tokens: u32,
}
zeroed!(quire_copy);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_zero {
    pub group: u32,
    pub column: u32,
    pub id: i32,
    pub reserved0: u32,
}
zeroed!(quire_zero);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_follower {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_device {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_stream {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_memory {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_device_info {
    pub struct_size: u32,
    pub device_type: quire_device_type,
    pub device_id: i32,
    pub wave_width: u32,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub alignment: u64,
    pub driver: [::std::os::raw::c_char; 32usize],
    pub name: [::std::os::raw::c_char; 128usize],
}
zeroed!(quire_device_info);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_memory_binding {
    pub struct_size: u32,
    pub region: u32,
    pub address: *mut ::std::os::raw::c_void,
    pub bytes: u64,
    pub device_type: quire_device_type,
    pub device_id: i32,
    pub reserved0: u64,
}
zeroed!(quire_memory_binding);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_dlpack {
    pub versioned: *mut DLManagedTensorVersioned,
    pub legacy: *mut DLManagedTensor,
}
zeroed!(quire_dlpack);
pub type quire_export_kind = i32;
pub const QUIRE_EXPORT_LAYER: quire_export_kind_e = 0;
pub const QUIRE_EXPORT_ID: quire_export_kind_e = 1;
pub const QUIRE_EXPORT_PAGE: quire_export_kind_e = 2;
pub const QUIRE_EXPORT_LOWERED: quire_export_kind_e = 3;
pub const QUIRE_EXPORT_KIND_FORCE32: quire_export_kind_e = -2147483647;
pub type quire_export_kind_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_export {
    pub struct_size: u32,
    pub flags: u32,
    pub kind: quire_export_kind,
    pub layer: u32,
    pub sub: u32,
    pub item: u32,
    pub id: i32,
    pub region: u32,
    pub page: u64,
}
zeroed!(quire_export);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_buffer {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_paged_side {
    pub base: *mut ::std::os::raw::c_void,
    pub unit: i64,
    pub stride_token: i64,
    pub stride_head: i64,
    pub stride_dim: i64,
    pub head_dim: u32,
    pub tail_dim: u32,
    pub tail_offset: i64,
    pub scales_offset: i64,
    pub scales_stride_token: i64,
    pub scales_stride_head: i64,
}
zeroed!(quire_paged_side);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_paged_kv {
    pub side: [quire_paged_side; 2usize],
    pub dtype: quire_dtype,
    pub codec: quire_codec,
    pub num_heads: u32,
    pub block_tokens: u32,
    pub num_sides: u32,
    pub group: u32,
    pub column: u32,
    pub scale_elements: u32,
    pub data_dtype: quire_dtype,
    pub scale_dtype: quire_dtype,
    pub tail_dtype: quire_dtype,
    pub reserved0: u32,
    pub num_ids: u64,
}
zeroed!(quire_paged_kv);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_paged_state {
    pub base: *mut ::std::os::raw::c_void,
    pub unit: i64,
    pub dtype: quire_dtype,
    pub ndim: u32,
    pub shape: [u64; 4usize],
    pub stride: [i64; 4usize],
    pub num_ids: u64,
    pub group: u32,
    pub column: u32,
}
zeroed!(quire_paged_state);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_kv_append {
    pub struct_size: u32,
    pub flags: u32,
    pub kv: quire_paged_kv,
    pub batch: *const quire_batch,
    pub key: quire_tensor,
    pub value: quire_tensor,
    pub rope_cos: *const f32,
    pub rope_sin: *const f32,
    pub rope_dim: u32,
    pub rope_interleaved: u32,
    pub scale_k: f32,
    pub scale_v: f32,
}
zeroed!(quire_kv_append);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_attention {
    pub struct_size: u32,
    pub flags: u32,
    pub kv: quire_paged_kv,
    pub batch: *const quire_batch,
    pub query: quire_tensor,
    pub out: quire_tensor,
    pub lse: quire_tensor,
    pub sink_tokens: u32,
    pub scale: f32,
    pub softcap: f32,
    pub window: u32,
    pub chunk: u32,
    pub head_dim_v: u32,
    pub sink_logits: *const f32,
    pub alibi_slopes: *const f32,
    pub mask_bits: *const u8,
    pub mask_indptr: *const i64,
    pub scale_k: f32,
    pub scale_v: f32,
    pub plan: *const ::std::os::raw::c_void,
    pub plan_bytes: u64,
    pub workspace: *mut ::std::os::raw::c_void,
    pub workspace_bytes: u64,
}
zeroed!(quire_attention);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_attention_merge {
    pub struct_size: u32,
    pub num_parts: u32,
    pub partial_out: *const quire_tensor,
    pub partial_lse: *const quire_tensor,
    pub out: quire_tensor,
    pub lse: quire_tensor,
}
zeroed!(quire_attention_merge);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_gated_delta {
    pub struct_size: u32,
    pub flags: u32,
    pub state: quire_paged_state,
    pub batch: *const quire_batch,
    pub query: quire_tensor,
    pub key: quire_tensor,
    pub value: quire_tensor,
    pub gate: quire_tensor,
    pub beta: quire_tensor,
    pub out: quire_tensor,
    pub scale: f32,
    pub reserved0: u32,
}
zeroed!(quire_gated_delta);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_conv1d {
    pub struct_size: u32,
    pub flags: u32,
    pub state: quire_paged_state,
    pub batch: *const quire_batch,
    pub input: quire_tensor,
    pub weight: quire_tensor,
    pub bias: quire_tensor,
    pub out: quire_tensor,
}
zeroed!(quire_conv1d);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_selective_scan {
    pub struct_size: u32,
    pub flags: u32,
    pub state: quire_paged_state,
    pub batch: *const quire_batch,
    pub x: quire_tensor,
    pub dt: quire_tensor,
    pub a: quire_tensor,
    pub b: quire_tensor,
    pub c: quire_tensor,
    pub skip: quire_tensor,
    pub dt_bias: quire_tensor,
    pub z: quire_tensor,
    pub out: quire_tensor,
    pub dt_min: f32,
    pub dt_max: f32,
}
zeroed!(quire_selective_scan);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_copy_run {
    pub source: u64,
    pub destination: u64,
    pub bytes: u64,
}
zeroed!(quire_copy_run);
pub type quire_module_kind = i32;
pub const QUIRE_MODULE_DRIVER: quire_module_kind_e = 1;
pub const QUIRE_MODULE_CONNECTOR: quire_module_kind_e = 2;
pub const QUIRE_MODULE_KIND_FORCE32: quire_module_kind_e = -2147483647;
pub type quire_module_kind_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_host_api {
    pub struct_size: u32,
    pub abi_version: u32,
    pub user: *mut ::std::os::raw::c_void,
    pub log: ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void, level: quire_log_level, component: quire_str, message: quire_str)>,
    pub alloc: ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void, bytes: u64, alignment: u64) -> *mut ::std::os::raw::c_void>,
    pub release_memory: ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void, address: *mut ::std::os::raw::c_void, bytes: u64, alignment: u64)>,
    pub now: ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void) -> i64>,
}
zeroed!(quire_host_api);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_query {
    pub struct_size: u32,
    pub abi_min: u32,
    pub abi_max: u32,
    pub reserved0: u32,
}
zeroed!(quire_query);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_manifest {
    pub magic: u32,
    pub struct_size: u32,
    pub kind: quire_module_kind,
    pub abi_version: u32,
    pub name: [::std::os::raw::c_char; 32usize],
    pub version: [::std::os::raw::c_char; 32usize],
    pub sanitizers: u64,
    pub api: *const ::std::os::raw::c_void,
    pub ops: *const quire_extension_table,
}
zeroed!(quire_manifest);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_note {
    pub kind: quire_module_kind,
    pub abi_version: u32,
    pub min_host_abi: u32,
    pub flags: u32,
    pub name: [::std::os::raw::c_char; 32usize],
}
zeroed!(quire_note);
pub type quire_module_query_fn = ::std::option::Option<unsafe extern "C" fn(query: *const quire_query, out: *mut *const quire_manifest, err: *mut quire_error) -> quire_code>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_driver_instance {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_driver_device {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_driver_stream {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_driver_event {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_driver_options {
    pub struct_size: u32,
    pub flags: u32,
    pub host: *const quire_host_api,
    pub cpus: *const u32,
    pub num_cpus: u32,
    pub num_threads: u32,
}
zeroed!(quire_driver_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_driver_api {
    pub struct_size: u32,
    pub reserved0: u32,
    pub create: ::std::option::Option<unsafe extern "C" fn(options: *const quire_driver_options, out: *mut *mut quire_driver_instance, err: *mut quire_error) -> quire_code>,
    pub destroy: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_driver_instance)>,
    pub device_count: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_driver_instance, count: *mut u32, err: *mut quire_error) -> quire_code>,
    pub device_open: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_driver_instance, ordinal: u32, out: *mut *mut quire_driver_device, err: *mut quire_error) -> quire_code>,
    pub device_close: ::std::option::Option<unsafe extern "C" fn(device: *mut quire_driver_device)>,
    pub device_info: ::std::option::Option<unsafe extern "C" fn(device: *mut quire_driver_device, info: *mut quire_device_info, err: *mut quire_error) -> quire_code>,
    pub mem_alloc: ::std::option::Option<unsafe extern "C" fn(device: *mut quire_driver_device, bytes: u64, alignment: u64, kind: u32, address: *mut *mut ::std::os::raw::c_void, err: *mut quire_error) -> quire_code>,
    pub mem_free: ::std::option::Option<unsafe extern "C" fn(device: *mut quire_driver_device, address: *mut ::std::os::raw::c_void, bytes: u64, kind: u32)>,
    pub tensor_create: ::std::option::Option<unsafe extern "C" fn(device: *mut quire_driver_device, tensor: *mut quire_tensor, kind: u32, allocation: *mut *mut ::std::os::raw::c_void, bytes: *mut u64, err: *mut quire_error) -> quire_code>,
    pub stream_create: ::std::option::Option<unsafe extern "C" fn(device: *mut quire_driver_device, native: u64, out: *mut *mut quire_driver_stream, err: *mut quire_error) -> quire_code>,
    pub stream_destroy: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream)>,
    pub stream_synchronize: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream, timeout_ns: i64, err: *mut quire_error) -> quire_code>,
    pub event_create: ::std::option::Option<unsafe extern "C" fn(device: *mut quire_driver_device, out: *mut *mut quire_driver_event, err: *mut quire_error) -> quire_code>,
    pub event_destroy: ::std::option::Option<unsafe extern "C" fn(event: *mut quire_driver_event)>,
    pub event_record: ::std::option::Option<unsafe extern "C" fn(event: *mut quire_driver_event, stream: *mut quire_driver_stream, err: *mut quire_error) -> quire_code>,
    pub event_wait: ::std::option::Option<unsafe extern "C" fn(event: *mut quire_driver_event, stream: *mut quire_driver_stream, err: *mut quire_error) -> quire_code>,
    pub event_synchronize: ::std::option::Option<unsafe extern "C" fn(event: *mut quire_driver_event, timeout_ns: i64, err: *mut quire_error) -> quire_code>,
    pub copy: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream, runs: *const quire_copy_run, n: u64, err: *mut quire_error) -> quire_code>,
    pub fill: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream, destination: *mut ::std::os::raw::c_void, value: u8, bytes: u64, err: *mut quire_error) -> quire_code>,
    pub kv_append: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream, op: *const quire_kv_append, err: *mut quire_error) -> quire_code>,
    pub attention_workspace: ::std::option::Option<unsafe extern "C" fn(device: *mut quire_driver_device, max_rows: u32, max_query_tokens: u64, max_kv_len: u64, num_q_heads: u32, head_dim_v: u32, plan_bytes: *mut u64, workspace_bytes: *mut u64, err: *mut quire_error) -> quire_code>,
    pub attention_plan: ::std::option::Option<unsafe extern "C" fn(device: *mut quire_driver_device, op: *const quire_attention, plan: *mut ::std::os::raw::c_void, plan_bytes: u64, err: *mut quire_error) -> quire_code>,
    pub attention: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream, op: *const quire_attention, err: *mut quire_error) -> quire_code>,
    pub attention_merge: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream, op: *const quire_attention_merge, err: *mut quire_error) -> quire_code>,
    pub gated_delta: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream, op: *const quire_gated_delta, err: *mut quire_error) -> quire_code>,
    pub conv1d: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream, op: *const quire_conv1d, err: *mut quire_error) -> quire_code>,
    pub selective_scan: ::std::option::Option<unsafe extern "C" fn(stream: *mut quire_driver_stream, op: *const quire_selective_scan, err: *mut quire_error) -> quire_code>,
}
zeroed!(quire_driver_api);
pub type quire_ticket_kind = i32;
pub const QUIRE_TICKET_STORE: quire_ticket_kind_e = 1;
pub const QUIRE_TICKET_LOAD: quire_ticket_kind_e = 2;
pub const QUIRE_TICKET_LOOKUP: quire_ticket_kind_e = 3;
pub const QUIRE_TICKET_REMOVE: quire_ticket_kind_e = 4;
pub const QUIRE_TICKET_KIND_FORCE32: quire_ticket_kind_e = -2147483647;
pub type quire_ticket_kind_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_connector_instance {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_connector_options {
    pub struct_size: u32,
    pub reserved0: u32,
    pub host: *const quire_host_api,
    pub config: quire_str,
}
zeroed!(quire_connector_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_connector_info {
    pub struct_size: u32,
    pub flags: u32,
    pub max_in_flight: u32,
    pub alignment: u32,
    pub max_key_bytes: u64,
    pub device_types: u64,
    pub max_object_bytes: u64,
    pub best_object_bytes: u64,
}
zeroed!(quire_connector_info);
pub type quire_connector_state = i32;
pub const QUIRE_CONNECTOR_UP: quire_connector_state_e = 0;
pub const QUIRE_CONNECTOR_FULL: quire_connector_state_e = 1;
pub const QUIRE_CONNECTOR_READ_ONLY: quire_connector_state_e = 2;
pub const QUIRE_CONNECTOR_DOWN: quire_connector_state_e = 3;
pub const QUIRE_CONNECTOR_STATE_FORCE32: quire_connector_state_e = -2147483647;
pub type quire_connector_state_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_connector_health {
    pub struct_size: u32,
    pub state: quire_connector_state,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    pub num_objects: u64,
    pub num_evicted: u64,
    pub num_damaged: u64,
}
zeroed!(quire_connector_health);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_ticket_run {
    pub region: u64,
    pub address: u64,
    pub bytes: u64,
    pub count: u64,
    pub stride: i64,
    pub object_offset: u64,
    pub object_stride: i64,
}
zeroed!(quire_ticket_run);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_ticket {
    pub ticket: u64,
    pub kind: quire_ticket_kind,
    pub priority: i32,
    pub first_run: u64,
    pub num_runs: u32,
    pub num_keys: u32,
    pub key_offset: u64,
    pub key_bytes: u64,
    pub object_bytes: u64,
    pub sizes: *mut u64,
    pub lease_ns: i64,
    pub deadline_ns: i64,
}
zeroed!(quire_ticket);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_completion {
    pub ticket: u64,
    pub code: quire_code,
    pub flags: u32,
    pub bytes: u64,
    pub num_found: u64,
}
zeroed!(quire_completion);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_object_entry {
    pub key_offset: u64,
    pub key_bytes: u64,
    pub object_bytes: u64,
    pub reserved0: u64,
}
zeroed!(quire_object_entry);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_connector_api {
    pub struct_size: u32,
    pub reserved0: u32,
    pub open: ::std::option::Option<unsafe extern "C" fn(options: *const quire_connector_options, out: *mut *mut quire_connector_instance, err: *mut quire_error) -> quire_code>,
    pub close: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance)>,
    pub info: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance, info: *mut quire_connector_info, err: *mut quire_error) -> quire_code>,
    pub region_register: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance, address: *mut ::std::os::raw::c_void, bytes: u64, device_type: quire_device_type, device_id: i32, region: *mut u64, err: *mut quire_error) -> quire_code>,
    pub region_unregister: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance, region: u64, err: *mut quire_error) -> quire_code>,
    pub submit: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance, tickets: *const quire_ticket, n: u64, runs: *const quire_ticket_run, num_runs: u64, keys: *const u8, num_key_bytes: u64, accepted: *mut u64, err: *mut quire_error) -> quire_code>,
    pub poll: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance, timeout_ns: i64, items: *mut quire_completion, capacity: u64, count: *mut u64, err: *mut quire_error) -> quire_code>,
    pub cancel: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance, ticket: u64, err: *mut quire_error) -> quire_code>,
    pub get_fd: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance, fd: *mut i32, err: *mut quire_error) -> quire_code>,
    pub health: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance, health: *mut quire_connector_health, err: *mut quire_error) -> quire_code>,
    pub list: ::std::option::Option<unsafe extern "C" fn(instance: *mut quire_connector_instance, cursor: *mut u64, items: *mut quire_object_entry, capacity: u64, count: *mut u64, keys: *mut u8, num_key_bytes: u64, err: *mut quire_error) -> quire_code>,
}
zeroed!(quire_connector_api);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_connector {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_connector_stats {
    pub struct_size: u32,
    pub num_regions: u32,
    pub num_submitted: u64,
    pub num_in_flight: u64,
    pub num_done: u64,
    pub num_missing: u64,
    pub num_failed: u64,
    pub num_cancelled: u64,
    pub num_strays: u64,
    pub bytes_stored: u64,
    pub bytes_loaded: u64,
    pub bytes_in_flight: u64,
    pub num_existed: u64,
    pub keys_looked_up: u64,
    pub keys_found: u64,
    pub store_latency: [u64; 32usize],
    pub load_latency: [u64; 32usize],
    pub lookup_latency: [u64; 32usize],
    pub store_ns: u64,
    pub load_ns: u64,
    pub lookup_ns: u64,
}
zeroed!(quire_connector_stats);
pub type quire_hash_algorithm = i32;
pub const QUIRE_HASH_SHA256_CBOR: quire_hash_algorithm_e = 1;
pub const QUIRE_HASH_XXHASH_CBOR: quire_hash_algorithm_e = 2;
pub const QUIRE_HASH_SHA256_PICKLE: quire_hash_algorithm_e = 3;
pub const QUIRE_HASH_XXHASH_PICKLE: quire_hash_algorithm_e = 4;
pub const QUIRE_HASH_ALGORITHM_FORCE32: quire_hash_algorithm_e = -2147483647;
pub type quire_hash_algorithm_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_hash_media {
    pub position: u64,
    pub length: u64,
    pub identifier_offset: u64,
    pub identifier_bytes: u64,
}
zeroed!(quire_hash_media);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_hash_options {
    pub struct_size: u32,
    pub algorithm: quire_hash_algorithm,
    pub seed: quire_str,
    pub block_tokens: u32,
    pub flags: u32,
    pub adapter: quire_str,
    pub salt: quire_str,
    pub media: *const quire_hash_media,
    pub num_media: u64,
    pub identifiers: quire_str,
    pub embeds: *const ::std::os::raw::c_void,
    pub embed_rows: u64,
    pub embed_row_bytes: u64,
    pub parent: *const u8,
    pub first_token: u64,
}
zeroed!(quire_hash_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_event_options {
    pub struct_size: u32,
    pub algorithm: quire_hash_algorithm,
    pub seed: quire_str,
    pub ring_bytes: u64,
}
zeroed!(quire_event_options);
pub type quire_event_type = i32;
pub const QUIRE_EVENT_STORED: quire_event_type_e = 1;
pub const QUIRE_EVENT_REMOVED: quire_event_type_e = 2;
pub const QUIRE_EVENT_CLEARED: quire_event_type_e = 3;
pub const QUIRE_EVENT_TYPE_FORCE32: quire_event_type_e = -2147483647;
pub type quire_event_type_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_event {
    pub number: u64,
    pub type_: quire_event_type,
    pub group: u32,
    pub hash_bytes: u32,
    pub num_hashes: u32,
    pub hashes_offset: u64,
    pub parent_offset: u64,
    pub parent_bytes: u32,
    pub block_tokens: u32,
    pub tokens_offset: u64,
    pub num_tokens: u64,
    pub keys_offset: u64,
    pub keys_bytes: u64,
    pub adapter_offset: u64,
    pub adapter_number: u64,
    pub adapter_bytes: u32,
    pub kind_bytes: u32,
    pub kind_offset: u64,
    pub window: u64,
}
zeroed!(quire_event);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_event_batch {
    pub struct_size: u32,
    pub reserved0: u32,
    pub num_events: u64,
    pub num_bytes: u64,
    pub next: u64,
    pub oldest: u64,
}
zeroed!(quire_event_batch);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_event_encoding {
    pub struct_size: u32,
    pub flags: u32,
    pub time: f64,
    pub rank: i64,
    pub medium: quire_str,
    pub locality: quire_str,
}
zeroed!(quire_event_encoding);
pub type quire_hold_id = u64;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_hold_info {
    pub struct_size: u32,
    pub reserved0: u32,
    pub first_token: u64,
    pub end_token: u64,
    pub num_parts: u64,
}
zeroed!(quire_hold_info);
pub type quire_unit_reason = i32;
pub const QUIRE_UNIT_COMMITTED: quire_unit_reason_e = 1;
pub const QUIRE_UNIT_HIT: quire_unit_reason_e = 2;
pub const QUIRE_UNIT_FINISHED: quire_unit_reason_e = 4;
pub const QUIRE_UNIT_EVICTING: quire_unit_reason_e = 8;
pub const QUIRE_UNIT_REASON_FORCE32: quire_unit_reason_e = -2147483647;
pub type quire_unit_reason_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_unit {
    pub hold: quire_hold_id,
    pub sequence: quire_sequence_id,
    pub first_token: u64,
    pub end_token: u64,
    pub reason: quire_unit_reason,
    pub flags: u32,
    pub digest: [u8; 32usize],
    pub ahead_digest: [u8; 32usize],
}
zeroed!(quire_unit);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_unit_options {
    pub struct_size: u32,
    pub reasons: u32,
    pub unit_tokens: u64,
    pub max_waiting: u32,
    pub reserved0: u32,
}
zeroed!(quire_unit_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_tiers {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_tier {
    pub connector: *mut quire_connector,
    pub name: quire_str,
    pub reasons: u32,
    pub flags: u32,
    pub max_store_bytes: u64,
    pub reserved0: u64,
}
zeroed!(quire_tier);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_tiers_options {
    pub struct_size: u32,
    pub flags: u32,
    pub weights: quire_str,
    pub memories: *const *mut quire_memory,
    pub streams: *const *mut quire_stream,
    pub tiers: *const quire_tier,
    pub num_tiers: u64,
    pub unit_tokens: u64,
    pub ns_per_token: f64,
    pub max_fetches: u32,
    pub reserved0: u32,
    pub tensor_parallel: *const u32,
    pub num_tensor_parallel: u64,
    pub event_ring_bytes: u64,
}
zeroed!(quire_tiers_options);
pub type quire_fetch_id = u64;
pub type quire_fetch_outcome = i32;
pub const QUIRE_FETCH_DONE: quire_fetch_outcome_e = 1;
pub const QUIRE_FETCH_NOTHING: quire_fetch_outcome_e = 2;
pub const QUIRE_FETCH_SLOWER: quire_fetch_outcome_e = 3;
pub const QUIRE_FETCH_NO_ROOM: quire_fetch_outcome_e = 4;
pub const QUIRE_FETCH_LATE: quire_fetch_outcome_e = 5;
pub const QUIRE_FETCH_FAILED: quire_fetch_outcome_e = 6;
pub const QUIRE_FETCH_CANCELLED: quire_fetch_outcome_e = 7;
pub const QUIRE_FETCH_OUTCOME_FORCE32: quire_fetch_outcome_e = -2147483647;
pub type quire_fetch_outcome_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_fetch_result {
    pub fetch: quire_fetch_id,
    pub sequence: quire_sequence_id,
    pub outcome: quire_fetch_outcome,
    pub tier: u32,
    pub committed: u64,
    pub hit_tokens: u64,
    pub bytes: u64,
    pub elapsed_ns: i64,
    pub reserved0: u64,
}
zeroed!(quire_fetch_result);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_offer {
    pub handle: [u8; 16usize],
    pub end_token: u64,
    pub num_bytes: u64,
}
zeroed!(quire_offer);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_offer_info {
    pub struct_size: u32,
    pub is_ready: u32,
    pub num_records: u64,
    pub num_tokens: u64,
}
zeroed!(quire_offer_info);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_peer {
    pub struct_size: u32,
    pub tier: u32,
    pub address: quire_str,
    pub handle: [u8; 16usize],
    pub end_token: u64,
    pub flags: u32,
    pub encoder_tokens: u32,
}
zeroed!(quire_peer);
pub type quire_offer_field = i32;
pub const QUIRE_OFFER_VERSION: quire_offer_field_e = 1;
pub const QUIRE_OFFER_WEIGHTS: quire_offer_field_e = 2;
pub const QUIRE_OFFER_LAYERS: quire_offer_field_e = 3;
pub const QUIRE_OFFER_UNIT_TOKENS: quire_offer_field_e = 4;
pub const QUIRE_OFFER_RANKS: quire_offer_field_e = 5;
pub const QUIRE_OFFER_GROUPS: quire_offer_field_e = 6;
pub const QUIRE_OFFER_LOOK_AHEAD: quire_offer_field_e = 7;
pub const QUIRE_OFFER_SALT: quire_offer_field_e = 8;
pub const QUIRE_OFFER_ADAPTER: quire_offer_field_e = 9;
pub const QUIRE_OFFER_EPOCH: quire_offer_field_e = 10;
pub const QUIRE_OFFER_END_TOKEN: quire_offer_field_e = 11;
pub const QUIRE_OFFER_PROMPT: quire_offer_field_e = 12;
pub const QUIRE_OFFER_BLOCK_TOKENS: quire_offer_field_e = 13;
pub const QUIRE_OFFER_ENCODER_TOKENS: quire_offer_field_e = 14;
pub const QUIRE_OFFER_FIELD_FORCE32: quire_offer_field_e = -2147483647;
pub type quire_offer_field_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_offer_refusal {
    pub struct_size: u32,
    pub field: quire_offer_field,
    pub name: [::std::os::raw::c_char; 64usize],
    pub here: [::std::os::raw::c_char; 128usize],
    pub there: [::std::os::raw::c_char; 128usize],
}
zeroed!(quire_offer_refusal);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_tier_stats {
    pub struct_size: u32,
    pub is_open: u32,
    pub name: [::std::os::raw::c_char; 32usize],
    pub units_stored: u64,
    pub units_dropped: u64,
    pub objects_stored: u64,
    pub objects_existed: u64,
    pub objects_loaded: u64,
    pub objects_missing: u64,
    pub objects_damaged: u64,
    pub objects_failed: u64,
    pub bytes_stored: u64,
    pub bytes_loaded: u64,
    pub bytes_in_flight: u64,
    pub keys_looked_up: u64,
    pub keys_found: u64,
    pub tokens_fetched: u64,
    pub times_closed: u64,
    pub ns_per_mib: u64,
    pub latency_ns: u64,
    pub offers_refused: u64,
}
zeroed!(quire_tier_stats);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_tiers_stats {
    pub struct_size: u32,
    pub reserved0: u32,
    pub unit_tokens: u64,
    pub fetches: u64,
    pub fetches_in_progress: u64,
    pub outcomes: [u64; 8usize],
    pub tokens_fetched: u64,
    pub tokens_hit: u64,
    pub units_taken: u64,
    pub units_in_flight: u64,
    pub quarantined: u64,
    pub quarantined_ever: u64,
    pub tokens_asked: u64,
    pub fetch_ns: u64,
    pub fetch_latency: [u64; 32usize],
    pub offers: u64,
    pub offers_in_progress: u64,
}
zeroed!(quire_tiers_stats);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_record_info {
    pub struct_size: u32,
    pub version: u32,
    pub key: [u8; 32usize],
    pub fingerprint: [u8; 32usize],
    pub prefix: [u8; 32usize],
    pub caches: u64,
    pub first_token: u64,
    pub end_token: u64,
    pub header_bytes: u64,
    pub block_bytes: u64,
    pub num_blocks: u64,
    pub first_block: [u64; 2usize],
    pub end_block: [u64; 2usize],
    pub written_at_ns: i64,
    pub block_tokens: u32,
    pub is_state: u32,
    pub num_caches: u32,
    pub first_layer: u32,
    pub last_layer: u32,
    pub first_head: u32,
    pub num_heads: u32,
    pub rank: u32,
    pub num_ranks: u32,
    pub reserved0: u32,
}
zeroed!(quire_record_info);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_metrics_source {
    pub cache: *mut quire_cache,
    pub tiers: *mut quire_tiers,
    pub memory: *mut quire_memory,
    pub labels: quire_str,
    pub reserved0: *mut ::std::os::raw::c_void,
}
zeroed!(quire_metrics_source);
pub type quire_metrics_format = i32;
pub const QUIRE_METRICS_OPENMETRICS: quire_metrics_format_e = 1;
pub const QUIRE_METRICS_PROMETHEUS: quire_metrics_format_e = 2;
pub const QUIRE_METRICS_FORMAT_FORCE32: quire_metrics_format_e = -2147483647;
pub type quire_metrics_format_e = ::std::os::raw::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_load_failure {
    pub group: u32,
    pub reserved0: u32,
    pub first_token: u64,
    pub num_tokens: u64,
}
zeroed!(quire_load_failure);
pub type quire_pin_id = u64;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_pin_options {
    pub struct_size: u32,
    pub priority: u32,
    pub duration_ns: u64,
}
zeroed!(quire_pin_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_pin_info {
    pub struct_size: u32,
    pub priority: u32,
    pub tokens: u64,
    pub num_parts: u64,
    pub deadline_ns: i64,
}
zeroed!(quire_pin_info);
pub type quire_session_write_fn = ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void, bytes: *const ::std::os::raw::c_void, num_bytes: u64, err: *mut quire_error) -> quire_code>;
pub type quire_session_read_fn = ::std::option::Option<unsafe extern "C" fn(user: *mut ::std::os::raw::c_void, bytes: *mut ::std::os::raw::c_void, num_bytes: u64, err: *mut quire_error) -> quire_code>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_session_options {
    pub struct_size: u32,
    pub flags: u32,
    pub weights: quire_str,
    pub memories: *const *mut quire_memory,
    pub streams: *const *mut quire_stream,
}
zeroed!(quire_session_options);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct quire_session_info {
    pub struct_size: u32,
    pub reserved0: u32,
    pub num_tokens: u64,
    pub committed: u64,
    pub hit_tokens: u64,
    pub num_records: u64,
    pub num_damaged: u64,
    pub bytes: u64,
}
zeroed!(quire_session_info);
