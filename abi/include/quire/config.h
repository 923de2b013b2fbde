/* quire/config.h: model and limits -> groups, pages, blocks, capacity; and every question about where bytes lie. Pure, no device. */
#ifndef QUIRE_CONFIG_H_
#define QUIRE_CONFIG_H_

#include <quire/base.h>
#include <quire/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_config quire_config;

/* How states of recurrent layers take part in prefix reuse (policy vllm). Since: 0.1 */
#define QUIRE_STATE_MODE_DEFAULT 0 /* align when prefix reuse is on, none otherwise */
#define QUIRE_STATE_MODE_NONE 1    /* no checkpoints */
#define QUIRE_STATE_MODE_ALIGN 2   /* checkpoints at block boundaries where a chunk ends */

/* No prefix reuse is planned. */
#define QUIRE_PLAN_NO_PREFIX_REUSE 0x1u
/* All layers of a block must form one dense run. */
#define QUIRE_PLAN_CONTIGUOUS 0x2u

/* Descriptor. Since: 0.1 */
typedef struct quire_plan_options {
  uint32_t struct_size;
  uint32_t tensor_parallel;        /* shards by heads; 0 = 1 */
  uint32_t pipeline_parallel;      /* shards by layers; 0 = 1 */
  uint32_t context_parallel;       /* shards by tokens; 0 = 1 */
  quire_str policy;                /* "vllm", "pack:N", "auto"; empty = "vllm" (in 0.1) */
  quire_str layout;                /* order of letters, e.g. "BLPJKTHD"; empty = the policy's */
  const uint64_t *memory_bytes;    /* [num_memory_bytes]: one for all shards, or one per shard */
  uint64_t num_memory_bytes;       /* 1, or tensor * pipeline * context parallel */
  uint64_t num_pages;              /* 0 = as many as fit in memory_bytes; otherwise exactly this many */
  uint64_t max_model_len;          /* tokens; 0 = the model's */
  uint64_t max_tokens_in_flight;   /* tokens of one sequence between reserve and commit; 0 = 8192 */
  uint32_t block_tokens;           /* wanted block of attention groups; 0 = 16 */
  uint32_t kernel_block_tokens;    /* block of kernels must be a multiple of this; 0 = 16 */
  quire_dtype kv_dtype;            /* all zero = the model's; replaces the dtype of every token cache */
  int32_t state_mode;              /* QUIRE_STATE_MODE_* */
  uint64_t flags;                  /* QUIRE_PLAN_* */
  const void *next;                /* NULL */
  const quire_str *preferred_layouts; /* [num_preferred_layouts]: what the driver's kernels like, best first; the first order that the
                                       * plan can take is used. With `layout` given they are not read */
  uint64_t num_preferred_layouts;  /* at most 16 */
  uint64_t page_alignment;         /* bytes that pages are a multiple of; 0 = the policy's */
  uint64_t encoder_tokens;         /* most encoder tokens of a request; 0 = the model's */
} quire_plan_options;

/* The whole plan. Info. Since: 0.1 */
typedef struct quire_config_info {
  uint32_t struct_size;
  uint32_t num_groups;
  uint32_t num_shards;
  uint32_t match_unit_tokens;      /* a prefix hit is a multiple of this */
  uint64_t num_pages;              /* the null page included */
  uint64_t max_model_len;
  double padding_share;            /* 1 - payload / page bytes, worst group */
  uint64_t capacity_tokens;        /* longest single sequence that always fits, at most max_model_len */
  char policy[32];
  char layout[32];                 /* order of the first group that has tokens */
} quire_config_info;

/* One group. Info. Since: 0.1 */
typedef struct quire_group_info {
  uint32_t struct_size;
  uint32_t group;
  uint32_t is_state;               /* 1 = recurrent states: slots instead of a token table */
  uint32_t block_tokens;           /* tokens of a block; states: spacing of boundaries */
  uint32_t kernel_block_tokens;    /* tokens behind one lowered id */
  uint32_t kernel_blocks_per_part; /* lowered ids per id; 1 for states */
  uint32_t parts_per_page;
  uint32_t ids_per_block;          /* columns of the table */
  uint32_t num_lanes;
  uint32_t num_caches;             /* layers and subs in the group */
  uint64_t sink_tokens;            /* tokens that stay live from the start */
  uint64_t window;                 /* live tail; 0 = everything */
  uint64_t chunk;                  /* live since the last multiple; 0 = none */
  uint64_t payload_bytes_per_block;/* of shard 0, all lanes */
  uint64_t page_bytes_per_block;   /* share of page bytes of one block, padding included, shard 0 */
  uint32_t look_ahead;             /* tokens */
  uint32_t flags;
} quire_group_info;

/* Where one cached layer lives. Info. Since: 0.1 */
typedef struct quire_layer_place {
  uint32_t struct_size;
  uint32_t group;
  uint32_t column;                 /* which id of the block addresses it */
  uint32_t lane;
  uint32_t index_in_lane;
  uint32_t pipeline_stage;
} quire_layer_place;

/* Strided description of the token cache of one layer in one shard. Index 0 is K (or the only side), 1 is V.
 * Address of (lowered id i, token t, head h, element d) on side s:
 *   region base + offset[s] + i * unit[s] + t * stride_token[s] + h * stride_head[s] + d * stride_dim[s]      (all bytes)
 * Address by (page b, kernel block j of the page): ... + b * stride_page[s] + j * stride_block[s] instead of i * unit[s].
 * Info. Since: 0.1 */
typedef struct quire_kv_view {
  uint32_t struct_size;
  uint32_t group;
  uint32_t column;
  uint32_t region;
  uint32_t num_sides;              /* 1 or 2 */
  uint32_t num_heads;              /* KV heads of this shard */
  uint32_t head_dim[2];            /* elements */
  uint32_t block_tokens;           /* rows behind one lowered id */
  uint32_t blocks_per_page;        /* kernel blocks of a page */
  quire_dtype dtype;
  uint32_t codec;
  uint64_t num_pages;
  int64_t offset[2];
  int64_t stride_page[2];
  int64_t stride_block[2];
  int64_t unit[2];                 /* bytes between lowered ids */
  int64_t stride_token[2];
  int64_t stride_head[2];
  int64_t stride_dim[2];
  quire_codec_params codec_params;
} quire_kv_view;

/* One state tensor of one layer in one shard. Address of element x: region base + offset + lowered id * unit + sum(x[k] * stride[k]).
 * Info. Since: 0.1 */
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
} quire_state_view;

/* One allocation of a shard. Info. Since: 0.1 */
typedef struct quire_region_info {
  uint32_t struct_size;
  uint32_t region;
  uint64_t bytes;
  uint64_t alignment;
  uint64_t page_stride;            /* bytes from page b to b + 1 in each plane */
  uint64_t num_planes;
} quire_region_info;

/* A dense run of payload bytes. Frozen, 32 bytes. Since: 0.1 */
typedef struct quire_segment {
  uint32_t region;
  uint32_t layer;                  /* first layer of the run */
  uint64_t offset;                 /* bytes from the region's base */
  uint64_t bytes;
  uint64_t reserved0;
} quire_segment;

/* How ids become lowered ids for one group and shard: lowered(id, k) = (id / parts_per_page) * page_factor + (id % parts_per_page) *
 * part_factor + k * block_factor, k in [0, kernel_blocks_per_part). Info. Since: 0.1 */
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
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (products beyond 63 bits), RESOURCE_EXHAUSTED (memory too
 * small for one page beside the null page or for one sequence), NOT_REPRESENTABLE, UNIMPLEMENTED (policy). Since: 0.1 */
QUIRE_API quire_code quire_config_create(quire_model *model, const quire_plan_options *options, quire_config **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API quire_config *quire_config_retain(quire_config *config);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API void quire_config_release(quire_config *config);
/* Facts of the plan. Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. Since: 0.1 */
QUIRE_API quire_code quire_config_get_info(quire_config *config, quire_config_info *info, quire_error *err);
/* Facts of one group. Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. Since: 0.1 */
QUIRE_API quire_code quire_config_get_group(quire_config *config, uint32_t group, quire_group_info *info, quire_error *err);
/* Place of a layer's cache. Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND (layer without cache). Since: 0.1 */
QUIRE_API quire_code quire_config_get_place(quire_config *config, uint32_t layer, uint32_t sub, quire_layer_place *place, quire_error *err);
/* View of a token cache. Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND (no cache in this shard),
 * OUT_OF_RANGE (shard). Since: 0.1 */
QUIRE_API quire_code quire_config_get_kv_view(quire_config *config, uint32_t shard, uint32_t layer, uint32_t sub, quire_kv_view *view,
                                              quire_error *err);
/* View of one tensor (0 .. num_state_tensors - 1) of a state. Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND,
 * OUT_OF_RANGE. Since: 0.1 */
QUIRE_API quire_code quire_config_get_state_view(quire_config *config, uint32_t shard, uint32_t layer, uint32_t sub, uint32_t tensor,
                                                 quire_state_view *view, quire_error *err);
/* Regions of a shard, two-call array with stride = bytes per item.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. Since: 0.1 */
QUIRE_API quire_code quire_config_list_regions(quire_config *config, uint32_t shard, quire_region_info *items, uint64_t stride,
                                               uint64_t capacity, uint64_t *count, quire_error *err);
/* Payload runs of one id of (group, column), merged and in address order; two-call array.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. Since: 0.1 */
QUIRE_API quire_code quire_config_list_segments(quire_config *config, uint32_t shard, uint32_t group, uint32_t column, int32_t id,
                                                quire_segment *items, uint64_t capacity, uint64_t *count, quire_error *err);
/* Lowering of a group. Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. Since: 0.1 */
QUIRE_API quire_code quire_config_get_lowering(quire_config *config, uint32_t shard, uint32_t group, quire_lowering *lowering,
                                               quire_error *err);
/* Explanation as JSON text, two-call: *count receives the bytes (no NUL).
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. Since: 0.1 */
QUIRE_API quire_code quire_config_describe_json(quire_config *config, char *text, uint64_t capacity, uint64_t *count, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_CONFIG_H_ */
