/* quire/model.h: what the layers of a model cache, given by API or read from a Hugging Face
 * config.json. */
#ifndef QUIRE_MODEL_H_
#define QUIRE_MODEL_H_

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_model quire_model;

/* Kind of one layer cache; a row of the table live(p) / stored(p, n). */
typedef int32_t quire_layer_kind;
enum quire_layer_kind_e {
  QUIRE_LAYER_NONE = 0,           /* the layer caches nothing */
  QUIRE_LAYER_FULL = 1,
  QUIRE_LAYER_SLIDING_WINDOW = 2, /* window tokens, the current one included; sink_tokens first
                                   * tokens stay */
  QUIRE_LAYER_CHUNKED = 3,        /* attention inside chunks of `window` tokens */
  QUIRE_LAYER_MLA = 4,            /* one latent row per token: head_dim_k wide, no V side; may
                                   * have a window */
  QUIRE_LAYER_STATE = 5,          /* recurrent: the state tensors, whatever the recurrence */
  QUIRE_LAYER_CROSS = 6,          /* keys of the encoder, constant per request */
  QUIRE_LAYER_ENCODER_ONLY = 7,   /* attends but keeps nothing */
  QUIRE_LAYER_INDEXER = 8,        /* keys beside another cache that choose what attention reads:
                                   * one side, like MLA */
  QUIRE_LAYER_KIND_FORCE32 = -0x7fffffff
};

/* How the rows of a token cache are encoded. All but STRIDED take a quire_codec_params. A "cell" is
 * what one row of one head keeps on one side; a "block" is a kernel block of R rows and H heads.
 * More are added by number. */
typedef int32_t quire_codec;
enum quire_codec_e {
  QUIRE_CODEC_STRIDED = 0,     /* plain elements at strides */
  QUIRE_CODEC_RECORD = 1,      /* a cell is a record of data, scales and tail, in this order.
                                * Rows and heads can be sliced (656-byte MLA rows, inline scales) */
  QUIRE_CODEC_BLOCK_SPLIT = 2, /* a side of a block is the data and tail of all cells, in the
                                * order of T and H, then the scales of all cells. R is part of
                                * the encoding: a block cannot be divided (indexer keys, 584-byte
                                * MLA rows, NVFP4 with scales per side) */
  QUIRE_CODEC_TILED = 3,       /* K of a block is [H][head_dim / tile][R][tile], V is
                                * [H][head_dim][R] */
  QUIRE_CODEC_SHUFFLED = 4,    /* K as TILED, V is [H][R / tile][head_dim][tile] */
  QUIRE_CODEC_COLUMN_K = 5,    /* K of a block is [H][head_dim][R], V is [H][R][head_dim] */
  QUIRE_CODEC_AMX = 6,         /* tiles of 16 for AMX with W = 4 / bytes of an element: K is
                                * [H][R / 16][head_dim / W][16][W], V is [H][head_dim / 16][R /
                                * W][16][W] */
  QUIRE_CODEC_FORCE32 = -0x7fffffff
};

/* What a codec adds to heads, widths and dtype. Index 0 is K (or the only side), 1 is V. RECORD and
 * BLOCK_SPLIT: data_bytes must be given, head_dim and dtype say what they decode to. Frozen, 48
 * bytes. */
typedef struct quire_codec_params {
  uint32_t data_bytes[2];    /* of a cell: the encoded elements; RECORD and BLOCK_SPLIT only */
  uint32_t scale_bytes[2];   /* of a cell: its scales; RECORD and BLOCK_SPLIT only, 0 = none
                              * inside the cache */
  uint32_t tail_bytes[2];    /* of a cell: elements kept in tail_dtype, such as rope; RECORD and
                              * BLOCK_SPLIT only */
  quire_dtype data_dtype;    /* encoded elements, fp4 included; all zero = dtype of the layer */
  quire_dtype scale_dtype;   /* all zero = none */
  quire_dtype tail_dtype;    /* all zero = none */
  uint32_t scale_elements;   /* elements that share a scale; 0 = all of a cell */
  uint32_t tile;             /* elements; TILED and SHUFFLED: 16 / bytes of an element when 0 */
  uint32_t block_alignment;  /* bytes a block is rounded up to; 0 = 1 */
} quire_codec_params;

/* Which recurrence a state layer runs; quire only sizes and moves its tensors, the driver's ops
 * know the rule. */
typedef int32_t quire_state_kind;
enum quire_state_kind_e {
  QUIRE_STATE_GENERIC = 0,
  QUIRE_STATE_MAMBA1 = 1,
  QUIRE_STATE_MAMBA2 = 2,
  QUIRE_STATE_GDN = 3,
  QUIRE_STATE_KDA = 4,
  QUIRE_STATE_LIGHTNING = 5,
  QUIRE_STATE_SHORT_CONV = 6,
  QUIRE_STATE_KIND_FORCE32 = -0x7fffffff
};

/* One tensor of a recurrent state, per sequence. Frozen, 40 bytes. */
typedef struct quire_state_tensor {
  quire_dtype dtype;
  uint32_t ndim;      /* 1..4 */
  uint64_t shape[4];  /* elements, row-major in memory */
} quire_state_tensor;

/* The layer is a draft (speculative) layer: its group is kept apart and looks ahead. */
#define QUIRE_LAYER_DRAFT 0x1u
/* The attention op takes one learned sink logit per query head (gpt-oss). Sizes nothing. */
#define QUIRE_LAYER_SINK_LOGITS 0x2u

/* One cache of one layer. A layer with several caches (attention and state, MLA and indexer)
 * appears several times with the same `layer` and sub = 0, 1, ... Descriptor. */
typedef struct quire_layer {
  uint32_t struct_size;
  uint32_t flags;            /* QUIRE_LAYER_DRAFT, QUIRE_LAYER_SINK_LOGITS */
  quire_layer_kind kind;
  uint32_t layer;            /* index in the model, 0.. */
  uint32_t sub;
  uint32_t num_kv_heads;     /* of the whole model, before tensor parallelism; MLA, indexer: 1;
                              * states: key heads (groups), 0 = unknown */
  uint32_t num_q_heads;
  uint32_t head_dim_k;       /* elements; MLA: latent + rope width */
  uint32_t head_dim_v;       /* elements; 0 for MLA and indexer */
  quire_dtype dtype;         /* of the cached elements */
  quire_codec codec;
  uint32_t sink_tokens;      /* first tokens that stay; with a window only */
  uint64_t window;           /* tokens; windows and chunks, and MLA or indexer that keep the last
                              * tokens only */
  quire_str name;            /* empty = "layers.<layer>" (+ ".<sub>") */
  uint32_t shares_with;      /* 0, or 1 + index of the earlier layer whose cache this one reads */
  uint32_t compress_ratio;   /* tokens per stored row; 0 = 1 */
  uint32_t block_tokens;     /* wanted block, tokens; 0 = planner's */
  uint32_t look_ahead;       /* tokens that a draft layer writes ahead of what is committed; 0 =
                              * 1; draft layers only */
  uint64_t encoder_tokens;   /* cross attention: most encoder tokens of a request */
  quire_state_kind state_kind;
  uint32_t num_state_tensors;
  quire_state_tensor state[4]; /* of the whole model; split along dimension state_shard[i] - 1 */
  uint8_t state_shard[4];    /* 0 = replicated, otherwise 1 + dimension split by tensor
                              * parallelism */
  float softcap;             /* 0 = none; sizes nothing */
  uint32_t state_parts[4];   /* extents along the split dimension of state[0] that are split one
                              * by one (q|k|v, x|B|C); all 0 = one */
  quire_codec_params codec_params;
} quire_layer;

/* Facts of a model. Info. */
typedef struct quire_model_info {
  uint32_t struct_size;
  uint32_t num_layers;     /* of the model, layers without cache included */
  uint32_t num_caches;     /* entries that quire_model_layer can return */
  uint32_t num_q_heads;    /* 0 = differs or unknown */
  uint64_t max_model_len;  /* tokens; 0 = unknown */
  char architecture[64];   /* NUL terminated */
} quire_model_info;

/* Makes a model from layers, stride = bytes from one to the next, ordered by (layer, sub).
 * Borrowed. *out: owned.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT naming layer, field, value and limit.
 */
QUIRE_API quire_code quire_model_create(const quire_layer *layers, uint64_t stride, uint64_t count,
                                        uint64_t max_model_len, quire_model **out,
                                        quire_error *err);
/* Reads the text of a Hugging Face config.json (a nested text_config is followed). json: borrowed,
 * untrusted, at most 16 MiB. *out: owned.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT naming the field; UNIMPLEMENTED for an
 * unknown architecture. */
QUIRE_API quire_code quire_model_from_json(quire_str json, quire_model **out, quire_error *err);
/* Reads a layer file: {"specs": [...], "layers": [[name, index of a spec], ...], "kv_sharing":
 * [[name, earlier layer], ...], "options": {"max_model_len": n}}, kinds full, mla, sliding_window,
 * chunked, mamba, cross and their variants; heads and states are those of one rank, so ranks are
 * alike; policy vllm takes blocks and pages as told; unknown fields are refused. json: borrowed,
 * untrusted, 16 MiB. *out: owned. Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT naming the field; UNIMPLEMENTED for an unknown kind, record or field
 * value. */
QUIRE_API quire_code quire_model_from_layers(quire_str json, quire_model **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_model *quire_model_retain(quire_model *model);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: no. */
QUIRE_API void quire_model_release(quire_model *model);
/* Facts of the model. Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_model_get_info(quire_model *model, quire_model_info *info,
                                          quire_error *err);
/* The index-th cache (0 .. num_caches - 1) as a descriptor; strings live as long as the model.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
QUIRE_API quire_code quire_model_get_layer(quire_model *model, uint32_t index, quire_layer *layer,
                                           quire_error *err);
/* The model as a table of text, one row per kind of cache; two-call array without NUL. Thread: any
 * thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE (capacity). */
QUIRE_API quire_code quire_model_describe(quire_model *model, char *text, uint64_t capacity,
                                          uint64_t *count, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_MODEL_H_ */
