/* quire/model.h: what the layers of a model cache, given by calls or read from a Hugging Face
 * config.json. */
#ifndef QUIRE_MODEL_H_
#define QUIRE_MODEL_H_

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_model quire_model;

/* Kind of one layer cache. It determines which tokens are live and which are stored. */
typedef int32_t quire_layer_kind;
enum quire_layer_kind_e {
  QUIRE_LAYER_NONE = 0,           /* the layer caches nothing */
  QUIRE_LAYER_FULL = 1,
  /* The last `window` tokens, including the current one. The first sink_tokens tokens stay. */
  QUIRE_LAYER_SLIDING_WINDOW = 2,
  QUIRE_LAYER_CHUNKED = 3,        /* attention inside chunks of `window` tokens */
  /* One latent row per token: head_dim_k wide, no V side. It may have a window. */
  QUIRE_LAYER_MLA = 4,
  QUIRE_LAYER_STATE = 5,          /* recurrent: the state tensors, whatever the recurrence is */
  QUIRE_LAYER_CROSS = 6,          /* keys and values of the encoder, constant per request */
  QUIRE_LAYER_ENCODER_ONLY = 7,   /* attends but caches nothing */
  /* Keys, in addition to another cache, that choose what attention reads. One side, like MLA. */
  QUIRE_LAYER_INDEXER = 8,
  QUIRE_LAYER_KIND_FORCE32 = -0x7fffffff
};

/* How the rows of a token cache are encoded. All codecs except STRIDED take a quire_codec_params. A
 * "cell" is what one row of one head keeps on one side. A "block" is a kernel block of R rows and H
 * heads. New codecs get new numbers. */
typedef int32_t quire_codec;
enum quire_codec_e {
  QUIRE_CODEC_STRIDED = 0,     /* plain elements at strides */
  /* A cell is a record of data, scales and tail, in this order. Rows and heads can be sliced.
   * Examples: 656-byte MLA rows, inline scales. */
  QUIRE_CODEC_RECORD = 1,
  /* A side of a block is the data and tail of all cells, in the order of T and H, then the scales
   * of all cells. R is part of the encoding: a block cannot be divided. Examples: indexer keys,
   * 584-byte MLA rows, NVFP4 with scales per side. */
  QUIRE_CODEC_BLOCK_SPLIT = 2,
  /* K of a block is [H][head_dim / tile][R][tile]. V is [H][head_dim][R]. */
  QUIRE_CODEC_TILED = 3,
  /* K as in TILED. V is [H][R / tile][head_dim][tile]. */
  QUIRE_CODEC_SHUFFLED = 4,
  /* K of a block is [H][head_dim][R]. V is [H][R][head_dim]. */
  QUIRE_CODEC_COLUMN_K = 5,
  /* Tiles of 16 for AMX with W = 4 / bytes of an element.
   * K is [H][R / 16][head_dim / W][16][W].
   * V is [H][head_dim / 16][R / W][16][W]. */
  QUIRE_CODEC_AMX = 6,
  QUIRE_CODEC_FORCE32 = -0x7fffffff
};

/* Parameters of a codec, in addition to heads, widths and dtype. Index 0 is K (or the only side), 1
 * is V. RECORD and BLOCK_SPLIT need data_bytes; head_dim and dtype are then those of the decoded
 * elements. Frozen, 48 bytes. */
typedef struct quire_codec_params {
  /* Of a cell: the encoded elements. RECORD and BLOCK_SPLIT only. */
  uint32_t data_bytes[2];
  /* Of a cell: its scales. RECORD and BLOCK_SPLIT only. 0 = none inside the cache. */
  uint32_t scale_bytes[2];
  /* Of a cell: elements kept in tail_dtype, such as rope. RECORD and BLOCK_SPLIT only. */
  uint32_t tail_bytes[2];
  quire_dtype data_dtype;    /* encoded elements, including fp4; all zero = dtype of the layer */
  quire_dtype scale_dtype;   /* all zero = none */
  quire_dtype tail_dtype;    /* all zero = none */
  uint32_t scale_elements;   /* elements that share a scale; 0 = all of a cell */
  /* Elements. TILED and SHUFFLED: 0 = 16 / bytes of an element. */
  uint32_t tile;
  uint32_t block_alignment;  /* bytes of a block are rounded up to this; 0 = 1 */
} quire_codec_params;

/* The recurrence of a state layer. quire only sizes and moves its tensors. The driver's ops
 * implement the recurrence. */
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

/* The layer is a draft (speculative) layer. It gets a separate group, which looks ahead. */
#define QUIRE_LAYER_DRAFT 0x1u
/* The attention op takes one learned sink logit per query head (gpt-oss). Does not affect sizes. */
#define QUIRE_LAYER_SINK_LOGITS 0x2u

/* One cache of one layer. A layer with several caches (attention and state, MLA and indexer)
 * appears several times with the same `layer` and sub = 0, 1, ... Descriptor. */
typedef struct quire_layer {
  uint32_t struct_size;
  uint32_t flags;            /* QUIRE_LAYER_DRAFT, QUIRE_LAYER_SINK_LOGITS */
  quire_layer_kind kind;
  uint32_t layer;            /* index in the model, 0.. */
  uint32_t sub;
  /* Of the whole model, before tensor parallelism. MLA, indexer: 1. States: key heads (groups),
   * 0 = unknown. */
  uint32_t num_kv_heads;
  uint32_t num_q_heads;
  uint32_t head_dim_k;       /* elements; MLA: latent + rope width */
  uint32_t head_dim_v;       /* elements; 0 for MLA and indexer */
  quire_dtype dtype;         /* of the cached elements */
  quire_codec codec;
  uint32_t sink_tokens;      /* first tokens that stay; only with a window */
  /* Tokens, for windows and chunks, and for MLA or indexer that keep only the last tokens. */
  uint64_t window;
  quire_str name;            /* empty = "layers.<layer>" (+ ".<sub>") */
  /* 0, or 1 + the index of the earlier layer whose cache this layer reads. */
  uint32_t shares_with;
  uint32_t compress_ratio;   /* tokens per stored row; 0 = 1 */
  uint32_t block_tokens;     /* requested block, tokens; 0 = the planner's */
  /* Tokens that a draft layer writes after the committed ones. 0 = 1. Draft layers only. */
  uint32_t look_ahead;
  uint64_t encoder_tokens;   /* cross attention: maximum encoder tokens of a request */
  quire_state_kind state_kind;
  uint32_t num_state_tensors;
  /* Of the whole model. Tensor i is split along dimension state_shard[i] - 1. */
  quire_state_tensor state[4];
  /* 0 = replicated, otherwise 1 + the dimension that tensor parallelism splits. */
  uint8_t state_shard[4];
  float softcap;             /* 0 = none; does not affect sizes */
  /* Extents, along the split dimension of state[0], of the parts that are split one by one (q|k|v,
   * x|B|C). All 0 = one part. */
  uint32_t state_parts[4];
  quire_codec_params codec_params;
  /* MLA: elements at the end of a row that carry rope. V is what comes before them. Does not affect
   * sizes. 0 = unknown, as in models from layer files. */
  uint32_t rope_dim;
  uint32_t reserved0;        /* 0 */
} quire_layer;

/* Facts of a model. Info. */
typedef struct quire_model_info {
  uint32_t struct_size;
  uint32_t num_layers;     /* of the model, including layers without a cache */
  uint32_t num_caches;     /* entries that quire_model_get_layer can return */
  uint32_t num_q_heads;    /* 0 = differs between layers, or unknown */
  uint64_t max_model_len;  /* tokens; 0 = unknown */
  char architecture[64];   /* NUL terminated */
} quire_model_info;

/* Makes a model from layers. layers: borrowed, ordered by (layer, sub). stride = bytes from one to
 * the next. *out: owned.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT naming layer, field, value and
 * limit. */
QUIRE_API quire_code quire_model_create(const quire_layer *layers, uint64_t stride, uint64_t count,
                                        uint64_t max_model_len, quire_model **out,
                                        quire_error *err);
/* Reads the text of a Hugging Face config.json. A nested text_config is followed. json: borrowed,
 * untrusted, at most 16 MiB. *out: owned.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT naming the field; UNIMPLEMENTED for an unknown architecture. */
QUIRE_API quire_code quire_model_from_json(quire_str json, quire_model **out, quire_error *err);
/* Reads a layer file:
 *   {"specs": [...], "layers": [[name, index of a spec], ...],
 *    "kv_sharing": [[name, earlier layer], ...], "options": {"max_model_len": n}}
 * The kinds of specs are full, mla, sliding_window, chunked, mamba, cross and their variants. Heads
 * and states are those of one rank, so all ranks are alike. Policy vllm uses the given blocks and
 * pages unchanged. Unknown fields are refused. json: borrowed, untrusted, at most 16 MiB. *out:
 * owned.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT naming the field; UNIMPLEMENTED for an unknown kind, record or field
 * value. */
QUIRE_API quire_code quire_model_from_layers(quire_str json, quire_model **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_model *quire_model_retain(quire_model *model);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: no. */
QUIRE_API void quire_model_release(quire_model *model);
/* Reads the facts of the model.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_model_get_info(quire_model *model, quire_model_info *info,
                                          quire_error *err);
/* Reads the index-th cache (0 .. num_caches - 1) as a descriptor. Its strings live as long as the
 * model.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
QUIRE_API quire_code quire_model_get_layer(quire_model *model, uint32_t index, quire_layer *layer,
                                           quire_error *err);
/* Describes the model as a table of text, one row per kind of cache. Two-call array without NUL.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (capacity). */
QUIRE_API quire_code quire_model_describe(quire_model *model, char *text, uint64_t capacity,
                                          uint64_t *count, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_MODEL_H_ */
