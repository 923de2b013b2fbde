/* quire/config.h: plans. A plan turns a model and limits into groups, pages, blocks and a capacity.
 * It also answers every question about where bytes are. Pure functions, no device. */
#ifndef QUIRE_CONFIG_H_
#define QUIRE_CONFIG_H_

#include <quire/base.h>
#include <quire/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_config quire_config;

/* How states of recurrent layers take part in prefix reuse (policy vllm). */
typedef int32_t quire_state_mode;
enum quire_state_mode_e {
  QUIRE_STATE_MODE_DEFAULT = 0, /* ALIGN with prefix reuse, otherwise NONE */
  QUIRE_STATE_MODE_NONE = 1,    /* no checkpoints */
  QUIRE_STATE_MODE_ALIGN = 2,   /* checkpoints at block boundaries where a chunk ends */
  QUIRE_STATE_MODE_ALL = 3,     /* as ALIGN, and memory is counted for a state at every block */
  QUIRE_STATE_MODE_FORCE32 = -0x7fffffff
};

/* Where the scales of kv_dtype are. */
typedef int32_t quire_kv_scales;
enum quire_kv_scales_e {
  QUIRE_KV_SCALES_OUTSIDE = 0, /* not in the cache: elements only */
  /* One fp32 after each row of a head and side (two after a latent row; ops use the first). Codec
   * RECORD. 8 or 4 bits. */
  QUIRE_KV_SCALES_ROW = 1,
  /* One float8 per 16 elements after each row of a head and side. Codec RECORD. 4 bits, K and V. */
  QUIRE_KV_SCALES_16 = 2,
  QUIRE_KV_SCALES_FORCE32 = -0x7fffffff
};

/* No prefix reuse is planned. */
#define QUIRE_PLAN_NO_PREFIX_REUSE 0x1u
/* All layers of a block must form one dense run. */
#define QUIRE_PLAN_CONTIGUOUS 0x2u
/* Policies vllm and pack:N: windows and chunks keep everything, so that all layers share one table.
 * Refused if they cannot share one. */
#define QUIRE_PLAN_ONE_TABLE 0x4u
/* max_model_len is an upper limit. It is lowered to what fits. */
#define QUIRE_PLAN_FIT_LENGTH 0x8u

/* Policy vllm reproduces known quirks of upstream:
 * - The check whether max_model_len fits omits the null page and quire's own reserve.
 *   capacity_tokens may then be below max_model_len.
 * - Different windows in a layer file are refused. Without the flag they form separate groups.
 * - Padded pages cannot be scaled.
 * - Sinks are lost where layers with sinks meet full layers. */
#define QUIRE_VLLM_UPSTREAM 0x1u
/* Blocks leave the pool. Prefixes are therefore named even if they are not reused. */
#define QUIRE_VLLM_TRANSFERS 0x2u
/* Tensors are described as rows: all layers of a block, one after another. */
#define QUIRE_VLLM_ROWS 0x4u

/* Options that only policy vllm reads. Frozen, 24 bytes. */
typedef struct quire_vllm_options {
  uint32_t flags;                  /* QUIRE_VLLM_* */
  quire_state_mode state_mode;
  /* Tokens that a prefix name covers, a divisor of every block. 0 = the greatest common divisor of
   * the blocks. */
  uint32_t match_unit_tokens;
  /* Tokens that windows keep before their live range, for draft modules in series. */
  uint32_t retained_tokens;
  uint64_t reserved0;              /* 0 */
} quire_vllm_options;

/* Options of quire_config_create. Descriptor. */
typedef struct quire_plan_options {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_PLAN_* */
  uint32_t tensor_parallel;        /* shards by heads; 0 = 1 */
  uint32_t pipeline_parallel;      /* shards by layers; 0 = 1 */
  /* Shards by tokens, in turns: rank r of c ranks writes row s / c for slot s if s % c = r.
   * 0 = 1. */
  uint32_t context_parallel;
  uint32_t block_tokens;           /* requested block of attention groups; 0 = 16 */
  uint32_t kernel_block_tokens;    /* the kernels' block must be a multiple of this; 0 = 16 */
  /* Replaces the dtype of every token cache. All zero = the model's.
   * float8_e4m3fn turns latent rows that an indexer chooses from into 656-byte records, and those
   * of DeepSeek-V4 into 584-byte records. */
  quire_dtype kv_dtype;
  quire_kv_scales kv_scales;       /* types of 4 bits need scales */
  /* Replaces the dtype of every recurrent state, but not that of short convolutions (the first
   * tensor of all kinds except GENERIC and LIGHTNING). All zero = the model's. */
  quire_dtype state_dtype;
  quire_str policy;                /* "auto", "pack:N", "vllm"; empty = "auto" */
  quire_str layout;                /* layout letters, e.g. "BLPJKTHD"; empty = the policy's */
  const uint64_t *memory_bytes;    /* [num_memory_bytes]: one for all shards, or one per shard */
  uint64_t num_memory_bytes;       /* 1, or tensor * pipeline * context parallel */
  /* Exact number of pages. 0 = as many pages as fit in memory_bytes. */
  uint64_t num_pages;
  uint64_t max_model_len;          /* tokens; 0 = the model's */
  uint64_t max_tokens_in_flight;   /* tokens of one sequence between reserve and commit; 0 = 8192 */
  uint64_t page_alignment;         /* page size is a multiple of this, in bytes; 0 = the policy's */
  uint64_t encoder_tokens;         /* maximum of one request; 0 = the model's */
  /* [num_preferred_layouts]: orders that the driver's kernels prefer, best first. The first order
   * that the plan can use is chosen. Ignored if `layout` is given. */
  const quire_str *preferred_layouts;
  uint64_t num_preferred_layouts;  /* at most 16 */
  /* [num_stage_layers]: number of layers of each pipeline stage, in order. The sum is the number of
   * layers of the model. NULL = evenly. */
  const uint32_t *stage_layers;
  uint64_t num_stage_layers;       /* 0, or pipeline_parallel */
  quire_vllm_options vllm;
} quire_plan_options;

/* The whole plan. Info. */
typedef struct quire_config_info {
  uint32_t struct_size;
  uint32_t num_groups;
  uint32_t num_shards;
  /* The unit of the prefix index. Hits are multiples of the least common multiple of the blocks. */
  uint32_t match_unit_tokens;
  uint64_t num_pages;              /* the null page included */
  uint64_t max_model_len;
  double padding_share;            /* 1 - payload / page bytes, of the worst group */
  /* Longest single sequence that always fits in a cache with default options, at most
   * max_model_len. quire_config_get_capacity answers for other options. */
  uint64_t capacity_tokens;
  char policy[32];
  char layout[32];                 /* order of the first group that has tokens */
} quire_config_info;

/* One group. Info. */
typedef struct quire_group_info {
  uint32_t struct_size;
  uint32_t group;
  uint32_t is_state;               /* 1 = recurrent states: slots instead of a token table */
  uint32_t block_tokens;           /* tokens of a block; states: distance between boundaries */
  uint32_t kernel_block_tokens;    /* tokens that one lowered id covers */
  uint32_t kernel_blocks_per_part; /* lowered ids per id; 1 for states */
  uint32_t parts_per_page;
  uint32_t ids_per_block;          /* columns of the table */
  uint32_t num_lanes;
  uint32_t num_caches;             /* layers and subs in the group */
  uint64_t sink_tokens;            /* tokens at the start that stay live */
  uint64_t window;                 /* live tail; 0 = everything */
  uint64_t chunk;                  /* live since the last multiple of it; 0 = none */
  /* All lanes. Of the shard with the most padding among those with layers of the group. */
  uint64_t payload_bytes_per_block;
  /* Share of the page bytes that one block takes, including padding. Of the same shard. */
  uint64_t page_bytes_per_block;
  uint32_t look_ahead;             /* tokens */
  uint32_t flags;
  /* Cross attention: maximum encoder tokens of a sequence. 0 = another kind of group. */
  uint64_t encoder_tokens;
  /* Lowered ids in the table row of the longest sequence, look-ahead included. States: 0. */
  uint64_t table_pitch;
  /* States: tokens between the checkpoints of a cache that chooses no interval of its own. 0 = the
   * plan has none; checkpoint_interval of quire_cache_options says what follows. */
  uint64_t checkpoint_interval;
} quire_group_info;

/* Where one cached layer is placed. Info. */
typedef struct quire_layer_place {
  uint32_t struct_size;
  uint32_t group;
  uint32_t column;                 /* index of the id of a block that addresses the layer */
  uint32_t lane;
  uint32_t index_in_lane;
  uint32_t pipeline_stage;
} quire_layer_place;

/* Strided description of the token cache of one layer in one shard. Index 0 is K (or the only
 * side), 1 is V. Address of (lowered id i, token t, head h, element d) on side s:
 *   region base + offset[s] + i * unit[s] + t * stride_token[s] + h * stride_head[s] + d *
 *   stride_dim[s]      (all bytes)
 * Address by (page b, kernel block j of the page): ... + b * stride_page[s] + j * stride_block[s]
 * instead of i * unit[s]. Info. */
typedef struct quire_kv_view {
  uint32_t struct_size;
  uint32_t group;
  uint32_t column;
  uint32_t region;
  uint32_t num_sides;              /* 1 or 2 */
  uint32_t num_heads;              /* KV heads of this shard */
  uint32_t head_dim[2];            /* elements */
  uint32_t block_tokens;           /* rows that one lowered id covers */
  uint32_t blocks_per_page;        /* kernel blocks of a page */
  quire_dtype dtype;
  quire_codec codec;
  uint64_t num_pages;
  int64_t offset[2];
  int64_t stride_page[2];
  int64_t stride_block[2];
  int64_t unit[2];                 /* bytes between lowered ids */
  int64_t stride_token[2];
  int64_t stride_head[2];
  int64_t stride_dim[2];
  quire_codec_params codec_params;
  uint32_t first_head;             /* number of the view's head 0 among the model's KV heads */
  uint32_t model_heads;            /* KV heads of the whole model */
  uint32_t kernel_blocks_per_part; /* kernel blocks of a page that an id names */
  /* Tokens that share a row in a compressed cache. 1 otherwise. */
  uint32_t tokens_per_row;
  /* Row x of the view, in order, is row x * context_ranks + context_rank of the rows of all
   * ranks. */
  uint32_t context_rank;
  uint32_t context_ranks;          /* ranks that take turns row by row; 0 = 1 */
} quire_kv_view;

/* The content of a field. */
typedef int32_t quire_field_role;
enum quire_field_role_e {
  QUIRE_FIELD_ELEMENTS = 0,
  QUIRE_FIELD_SCALES = 1,
  QUIRE_FIELD_TAIL = 2, /* elements that the codec keeps in a separate type, such as rope */
  QUIRE_FIELD_ROLE_FORCE32 = -0x7fffffff
};

/* Where a codec stores a part of every row. Address of item i of (lowered id u, token t, head h):
 *   region base + offset + u * unit[side] + h * stride_head + (t / tile_tokens) * stride_token_tile
 *   + (t % tile_tokens) * stride_token
 *   + (i / tile_items) * stride_item_tile + (i % tile_items) * stride_item
 *   (all bytes)
 * Plain elements are one field per side. Its tiles are the whole block. Frozen, 80 bytes. */
typedef struct quire_kv_field {
  uint32_t side;
  quire_field_role role;
  /* Of an item. Types below 8 bits are packed, `lanes` at a time, the first in the lowest bits. */
  quire_dtype dtype;
  uint32_t num_items;              /* of one token and head */
  uint32_t tile_tokens;
  uint32_t tile_items;
  int64_t offset;
  int64_t stride_head;
  int64_t stride_token_tile;
  int64_t stride_token;
  int64_t stride_item_tile;
  int64_t stride_item;
  uint64_t reserved0;
} quire_kv_field;

/* One state tensor of one layer in one shard. Address of element x:
 *   region base + offset + lowered id * unit + sum(x[k] * stride[k])
 * Info. */
typedef struct quire_state_view {
  uint32_t struct_size;
  uint32_t group;
  uint32_t column;
  uint32_t region;
  quire_dtype dtype;
  uint32_t ndim;
  int64_t offset;
  int64_t unit;
  int64_t stride_page;
  int64_t stride_part;
  uint64_t shape[4];
  int64_t stride[4];               /* bytes */
  uint32_t parts_per_page;
  /* 1 + the dimension that is split over ranks. 0 = every rank has the whole tensor. */
  uint32_t shard_dim;
  uint32_t num_ranks;              /* ranks that the dimension is split over; 1 if shard_dim is 0 */
  uint32_t rank;
  /* Extents over all ranks, along the split dimension, of the parts that are split one by one. All
   * 0 = one part. */
  uint32_t shard_parts[4];
  uint64_t num_pages;
  /* Number of adjacent ranks that hold the same slice of each part. 0 = 1. The model's extent is
   * part / repeats. */
  uint32_t shard_repeats[4];
} quire_state_view;

/* One allocation of a shard. Info. */
typedef struct quire_region_info {
  uint32_t struct_size;
  uint32_t region;
  uint64_t bytes;
  uint64_t alignment;
  uint64_t page_stride;            /* bytes from page b to b + 1 in each plane */
  uint64_t num_planes;
} quire_region_info;

/* A dense run of payload bytes. Frozen, 32 bytes. */
typedef struct quire_segment {
  uint32_t region;
  uint32_t layer;                  /* first layer of the run */
  uint64_t offset;                 /* bytes from the region's base */
  uint64_t bytes;
  uint64_t reserved0;
} quire_segment;

#define QUIRE_SELECT_ONE_LAYER 0x1u /* read `layer` and `sub`; group and column follow */
/* Selects segments. Zero = all of a page's group and column. Descriptor. */
typedef struct quire_segment_query {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_SELECT_* */
  uint32_t shard;
  uint32_t group;
  uint32_t column;                 /* the column of the ids */
  uint32_t layer;
  uint32_t sub;
  /* Index among num_head_shards equal slices of the shard's heads. Caches with one head belong to
   * every slice. */
  uint32_t head_shard;
  uint32_t num_head_shards;        /* 0 = 1 */
  uint32_t reserved0;              /* 0 */
} quire_segment_query;

/* `count` dense pieces of `bytes` bytes that one view reads and another writes. They are
 * from_stride and to_stride bytes apart. Frozen, 64 bytes. */
typedef struct quire_run {
  uint32_t from_region;
  uint32_t to_region;
  uint64_t from_offset;            /* bytes from the region's base */
  uint64_t to_offset;
  uint64_t bytes;
  uint64_t count;
  int64_t from_stride;
  int64_t to_stride;
  uint64_t reserved0;
} quire_run;

/* Blocks of one token cache, starting with token 0. One side of quire_kv_view_list_runs.
 * Frozen, 24 bytes. */
typedef struct quire_kv_blocks {
  const quire_kv_view *view;
  /* [num_ids]: one per block, of the column that the view names. */
  const int32_t *ids;
  uint64_t num_ids;
} quire_kv_blocks;

/* How the bytes of one config relate to those of another config. */
typedef int32_t quire_compat_level;
enum quire_compat_level_e {
  QUIRE_COMPAT_IDENTICAL = 0,    /* pages are equal byte for byte: copy whole pages */
  QUIRE_COMPAT_REARRANGED = 1,   /* same content in another arrangement: copy runs */
  /* The same rows in another type or codec. A kernel has to convert them. */
  QUIRE_COMPAT_CONVERTIBLE = 2,
  QUIRE_COMPAT_INCOMPATIBLE = 3, /* not the same rows */
  QUIRE_COMPAT_LEVEL_FORCE32 = -0x7fffffff
};

/* The result of quire_config_compare. Info. */
typedef struct quire_compatibility {
  uint32_t struct_size;
  quire_compat_level level;
  /* Layer, field and both values that prevent a better level. Empty if identical. */
  char reason[248];
} quire_compatibility;

/* How ids become lowered ids for one group and shard. For k in [0, kernel_blocks_per_part):
 *   lowered(id, k) = (id / parts_per_page) * page_factor + (id % parts_per_page) * part_factor
 *                    + k * block_factor
 * Info. */
typedef struct quire_lowering {
  uint32_t struct_size;
  uint32_t parts_per_page;
  uint32_t kernel_blocks_per_part;
  uint32_t reserved0;
  uint64_t page_factor;
  uint64_t part_factor;
  uint64_t block_factor;
  uint64_t num_lowered_ids;        /* all lowered ids are below this */
} quire_lowering;

/* Plans the cache of a model. options: borrowed. The model is not kept. *out: owned, immutable.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE (products beyond 63 bits), RESOURCE_EXHAUSTED (memory too
 * small for the null page and one more page, or for one sequence), NOT_REPRESENTABLE, UNIMPLEMENTED
 * (policy). */
QUIRE_API quire_code quire_config_create(quire_model *model, const quire_plan_options *options,
                                         quire_config **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_config *quire_config_retain(quire_config *config);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: no. */
QUIRE_API void quire_config_release(quire_config *config);
/* Reads the facts of the plan.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_config_get_info(quire_config *config, quire_config_info *info,
                                           quire_error *err);
/* Reads the facts of one group.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
QUIRE_API quire_code quire_config_get_group(quire_config *config, uint32_t group,
                                            quire_group_info *info, quire_error *err);
/* Finds the place of a layer's cache.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND (layer without cache). */
QUIRE_API quire_code quire_config_get_place(quire_config *config, uint32_t layer, uint32_t sub,
                                            quire_layer_place *place, quire_error *err);
/* Describes a token cache.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (no cache in this shard), OUT_OF_RANGE (shard). */
QUIRE_API quire_code quire_config_get_kv_view(quire_config *config, uint32_t shard, uint32_t layer,
                                              uint32_t sub, quire_kv_view *view, quire_error *err);
/* Describes one tensor (0 .. num_state_tensors - 1) of a state.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE. */
QUIRE_API quire_code quire_config_get_state_view(quire_config *config, uint32_t shard,
                                                 uint32_t layer, uint32_t sub, uint32_t tensor,
                                                 quire_state_view *view, quire_error *err);
/* Lists the regions of a shard. Two-call array with stride = bytes per item.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
QUIRE_API quire_code quire_config_list_regions(quire_config *config, uint32_t shard,
                                               quire_region_info *items, uint64_t stride,
                                               uint64_t capacity, uint64_t *count,
                                               quire_error *err);
/* Lists the dense runs of payload bytes that `query` selects for `ids` of one column: of a whole
 * page, one layer, or one head shard. The runs are merged and in address order. Two-call array.
 * query, ids: borrowed.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE, NOT_FOUND (layer), NOT_REPRESENTABLE (heads that do not
 * divide, or a state or codec that cannot be cut by heads; names the layer). */
QUIRE_API quire_code quire_config_list_segments(quire_config *config,
                                                const quire_segment_query *query,
                                                const int32_t *ids, uint64_t num_ids,
                                                quire_segment *items, uint64_t capacity,
                                                uint64_t *count, quire_error *err);
/* Lists the fields of a token cache: where its codec stores elements, scales and tail. The fields
 * of side 0 come first. Two-call array.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE. */
QUIRE_API quire_code quire_config_list_fields(quire_config *config, uint32_t shard, uint32_t layer,
                                              uint32_t sub, quire_kv_field *items,
                                              uint64_t capacity, uint64_t *count, quire_error *err);
/* Lists the runs that copy tokens [begin, end) of one cache from one view to another. Block size,
 * head split, order, pool and process may differ. A view is all that a peer has to send. Tokens are
 * those of the sequence.
 * - ids: one per block of kernel_blocks_per_part * block_tokens * tokens_per_row * context_ranks
 *   tokens, from token 0, of the column that the view names.
 * - Negative ids and ids of the null page hold nothing and are skipped.
 * - Heads and rows (under context parallel) that only one view has are skipped.
 * - Where rows cannot be cut, the last block moves as a whole.
 * Two-call array, in order of from_offset. All arguments: borrowed, untrusted.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT (an impossible view; dtype, codec, width or rows that differ; tokens
 * inside a row), OUT_OF_RANGE (ids, tokens without id), NOT_REPRESENTABLE (the codec cannot be cut
 * there). */
QUIRE_API quire_code quire_kv_view_list_runs(const quire_kv_blocks *from, const quire_kv_blocks *to,
                                             uint64_t begin, uint64_t end, quire_run *items,
                                             uint64_t capacity, uint64_t *count, quire_error *err);
/* The same for one tensor of one state, from id to id. Copies only what both ranks hold, one
 * sub-projection after another.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
QUIRE_API quire_code quire_state_view_list_runs(const quire_state_view *from, int32_t from_id,
                                                const quire_state_view *to, int32_t to_id,
                                                quire_run *items, uint64_t capacity,
                                                uint64_t *count, quire_error *err);
/* Compares two plans of one model: what can be copied, and how. The numbers of pages may differ.
 * Different context_parallel is INCOMPATIBLE.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_config_compare(quire_config *a, quire_config *b,
                                          quire_compatibility *out, quire_error *err);
/* Reads the lowering of a group.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
QUIRE_API quire_code quire_config_get_lowering(quire_config *config, uint32_t shard, uint32_t group,
                                               quire_lowering *lowering, quire_error *err);
/* Explains the plan as JSON text. Two-call array: *count receives the bytes (no NUL).
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
QUIRE_API quire_code quire_config_describe_json(quire_config *config, char *text, uint64_t capacity,
                                                uint64_t *count, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_CONFIG_H_ */
