/* quire/ops.h: kernels. They know pointers, byte strides and lowered tables. They know nothing of
 * caches or groups.
 *
 * All ops are queued on a stream. Argument errors are returned at once, before any byte is written.
 * Pointers must refer to memory that the stream's device can read (CPU: host). The arrays of a
 * batch are borrowed until the op is done, the struct itself only during the call. An op works on
 * the column of the batch that its cache names. The batch must be that of the cache's group. An
 * unsupported combination is UNIMPLEMENTED and is named.
 *
 * A tensor that an op only reads may have a stride of 0: all elements along that dimension are then
 * one (a broadcast). Elements that an op writes must lie apart: outputs, rows of kv_append, states.
 * A stride of 0 there is INVALID_ARGUMENT if the dimension has more than one element. Other
 * overlaps are not checked.
 *
 * Rows of a cache: all drivers with kernels know the codec STRIDED, the CPU driver RECORD and
 * BLOCK_SPLIT as well. Kernels for other codecs are the engine's. The notes of
 * quire_config_describe_json name layers whose rows some driver does not know. */
#ifndef QUIRE_OPS_H_
#define QUIRE_OPS_H_

#include <quire/base.h>
#include <quire/memory.h>
#include <quire/step.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One side of a paged token cache, ready for kernels. Frozen, 80 bytes.
 * Rows of codec RECORD and BLOCK_SPLIT are dense data, from element 0 on, with scales and a tail:
 * - Data: the first head_dim - tail_dim elements in data_dtype, the first in the lowest bits.
 *   stride_dim is 0.
 * - Scales: one per scale_elements of them, dense, those of (lowered id i, token t, head h) at
 *   base + i * unit + scales_offset + t * scales_stride_token + h * scales_stride_head.
 * - Tail: the last tail_dim elements, dense, in tail_dtype, tail_offset bytes behind element 0.
 * An element is its code times its scale; elements of the tail have none. Bytes of the record
 * that hold more scales than these are neither read nor written. tail_dim and the last four fields
 * are 0 with other codecs. */
typedef struct quire_paged_side {
  void *base;              /* address of (lowered id 0, token 0, head 0, element 0) */
  int64_t unit;            /* bytes between lowered ids */
  int64_t stride_token;    /* bytes */
  int64_t stride_head;
  int64_t stride_dim;
  uint32_t head_dim;       /* elements, those of the tail included */
  uint32_t tail_dim;
  int64_t tail_offset;     /* bytes */
  int64_t scales_offset;
  int64_t scales_stride_token;
  int64_t scales_stride_head;
} quire_paged_side;

/* A paged token cache of one layer. Frozen, 216 bytes.
 * - Side 0 is K, side 1 is V.
 * - MLA has one side. V is then the first head_dim_v elements of K's row. */
typedef struct quire_paged_kv {
  quire_paged_side side[2];
  quire_dtype dtype;       /* of plain elements; with a codec, of decoded ones */
  quire_codec codec;
  uint32_t num_heads;      /* KV heads */
  uint32_t block_tokens;   /* rows that one lowered id covers */
  uint32_t num_sides;
  uint32_t group;          /* of the plan; that of the batches it goes with */
  uint32_t column;         /* of these batches */
  /* Elements of data that share a scale. 0 = all of a row. */
  uint32_t scale_elements;
  /* RECORD and BLOCK_SPLIT; all zero with other codecs, and if only one side has scales, which is
   * not described here. */
  quire_dtype data_dtype;
  quire_dtype scale_dtype; /* all zero = no scales */
  quire_dtype tail_dtype;  /* all zero = no tail */
  uint32_t reserved0;      /* 0 */
  /* Lowered ids are below this. Checked if the host can read the ids. */
  uint64_t num_ids;
} quire_paged_kv;

/* One tensor of a paged state. Frozen, 104 bytes. */
typedef struct quire_paged_state {
  void *base;              /* address of lowered id 0 */
  int64_t unit;            /* bytes between lowered ids */
  quire_dtype dtype;
  uint32_t ndim;
  uint64_t shape[4];       /* elements */
  int64_t stride[4];       /* bytes */
  /* Lowered ids are below this. Checked if the host can read the ids. 0 = unknown, not checked. */
  uint64_t num_ids;
  uint32_t group;          /* as in quire_paged_kv */
  uint32_t column;
} quire_paged_state;

/* Binds the view of a layer to a memory.
 * Thread: any thread. Blocking: no. Errors: NOT_FOUND. */
QUIRE_API quire_code quire_memory_get_paged_kv(quire_memory *memory, uint32_t layer, uint32_t sub,
                                               quire_paged_kv *out, quire_error *err);
/* Binds the view of a state tensor to a memory.
 * Thread: any thread. Blocking: no. Errors: NOT_FOUND, OUT_OF_RANGE. */
QUIRE_API quire_code quire_memory_get_paged_state(quire_memory *memory, uint32_t layer,
                                                  uint32_t sub, uint32_t tensor,
                                                  quire_paged_state *out, quire_error *err);

/* Arguments of quire_op_kv_append, which writes new K and V rows into their slots. Descriptor. */
typedef struct quire_kv_append {
  uint32_t struct_size;
  uint32_t flags;                  /* 0 */
  quire_paged_kv kv;
  /* Its slots say where the rows go; its positions are read with rope. */
  const quire_batch *batch;
  quire_tensor key;                /* [num_slots, kv heads, head_dim_k] */
  quire_tensor value;              /* [num_slots, kv heads, head_dim_v]; absent with one side */
  const float *rope_cos;           /* [positions, rope_dim / 2]; NULL = no rope */
  const float *rope_sin;
  uint32_t rope_dim;
  uint32_t rope_interleaved;
  /* Quantised caches store value / scale; 0 = 1. Rows with scales of their own are quantised after
   * that. */
  float scale_k;
  float scale_v;
} quire_kv_append;

/* Query i sees keys at positions <= its own. Without this flag it sees every key (cross
 * attention). */
#define QUIRE_ATTENTION_CAUSAL 0x1u
/* Results do not depend on the other rows of the batch. */
#define QUIRE_ATTENTION_BATCH_INVARIANT 0x2u

/* Arguments of quire_op_attention: variable-length attention over a paged cache, for prefill,
 * chunked prefill, decode, speculative decoding and cross attention. Query token i of a row with
 * n query tokens has position kv_len - n + i. Rows without keys produce 0 and lse -inf.
 * Descriptor. */
typedef struct quire_attention {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_ATTENTION_* */
  quire_paged_kv kv;
  const quire_batch *batch;        /* table, query_indptr, kv_len */
  quire_tensor query;              /* [tokens, q heads, head_dim_k] */
  quire_tensor out;                /* [tokens, q heads, head_dim_v] */
  /* fp32 [tokens, q heads], natural logarithm. Absent = not wanted. */
  quire_tensor lse;
  uint32_t sink_tokens;            /* first tokens that are always seen (with window) */
  float scale;                     /* of the logits; 0 = 1 / sqrt(head_dim_k) */
  float softcap;                   /* 0 = none: cap * tanh(logit / cap) */
  uint32_t window;                 /* tokens seen, including the own one; 0 = none */
  uint32_t chunk;                  /* only keys with the same position / chunk; 0 = none */
  /* Caches with one side (MLA): width of V inside K's row. 0 = the side's. */
  uint32_t head_dim_v;
  const float *sink_logits;        /* [q heads], one extra logit without a value; NULL = none */
  const float *alibi_slopes;       /* [q heads]; NULL = none */
  const uint8_t *mask_bits;        /* tree mask; a set bit = seen; NULL = none */
  /* [rows + 1]: first bit of each row's [query tokens, kv_len] mask. */
  const int64_t *mask_indptr;
  float scale_k;                   /* quantised caches: value = stored * scale; 0 = 1 */
  float scale_v;
  /* Attention schedule from quire_op_attention_plan. NULL = made inside the call. */
  const void *plan;
  uint64_t plan_bytes;
  /* Memory of the size that quire_op_attention_workspace returns. NULL = the driver's own. */
  void *workspace;
  uint64_t workspace_bytes;
} quire_attention;

/* Sets what a layer says of its attention: QUIRE_ATTENTION_CAUSAL, window, chunk, sink_tokens,
 * softcap and head_dim_v (MLA: if the layer has a rope_dim). All other fields stay. `scale` and the
 * pointers are the engine's, also sink_logits of a layer with QUIRE_LAYER_SINK_LOGITS. layer:
 * borrowed, for example from quire_model_get_layer.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT (a layer that is not attention), UNIMPLEMENTED (compress_ratio). */
QUIRE_API quire_code quire_attention_from_layer(const quire_layer *layer, quire_attention *op,
                                                quire_error *err);

/* Arguments of quire_op_attention_merge, which merges partial results over disjoint key sets.
 * Descriptor. */
typedef struct quire_attention_merge {
  uint32_t struct_size;
  uint32_t num_parts;
  const quire_tensor *partial_out; /* [num_parts] tensors [tokens, q heads, head_dim_v] */
  const quire_tensor *partial_lse; /* [num_parts] fp32 [tokens, q heads] */
  quire_tensor out;
  quire_tensor lse;                /* absent = not wanted */
} quire_attention_merge;

/* Arguments of quire_op_gated_delta: the gated delta rule, token by token:
 *   S <- exp(g) * S;  S <- S + beta * k (v - S^T k)^T;  o = scale * S^T q
 * The state tensor is [heads_v, dim_k, dim_v] or [heads_v, dim_v, dim_k] (see flags). A row reads
 * its state_read of the batch and writes its state_write. Both may be equal.
 * Layers of kind QUIRE_STATE_GDN that quire reads from a config have two state tensors: 0 is the
 * convolution, for quire_conv1d, and 1 the matrices, [heads_v, dim_v, dim_k]. These need
 * QUIRE_GATED_DELTA_V_MAJOR.
 * Query head = v head / (heads_v / heads_k). Descriptor. */
typedef struct quire_gated_delta {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_GATED_DELTA_* */
  quire_paged_state state;
  const quire_batch *batch;        /* query_indptr and the states */
  quire_tensor query;              /* [tokens, heads_k, dim_k] */
  quire_tensor key;                /* [tokens, heads_k, dim_k] */
  quire_tensor value;              /* [tokens, heads_v, dim_v] */
  /* fp32 [tokens, heads_v]: g, the logarithm of the decay. KDA: [tokens, heads_v, dim_k]. */
  quire_tensor gate;
  quire_tensor beta;               /* fp32 [tokens, heads_v] */
  quire_tensor out;                /* [tokens, heads_v, dim_v] */
  float scale;                     /* 0 = 1 / sqrt(dim_k) */
  uint32_t reserved0;              /* 0 */
} quire_gated_delta;

/* The state is [heads_v, dim_v, dim_k]. */
#define QUIRE_GATED_DELTA_V_MAJOR 0x1u
/* query and key are first normalised to unit length (epsilon 1e-6). */
#define QUIRE_GATED_DELTA_L2NORM 0x2u

/* Arguments of quire_op_conv1d: a short causal convolution. Its state is its last width - 1 inputs,
 * [channels, width - 1] or [width - 1, channels] by stride. Descriptor. */
typedef struct quire_conv1d {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_CONV1D_* */
  quire_paged_state state;         /* shape [width - 1, channels]; the strides give the order */
  const quire_batch *batch;        /* query_indptr and the states */
  quire_tensor input;              /* [tokens, channels] */
  quire_tensor weight;             /* [channels, width] */
  quire_tensor bias;               /* [channels]; absent = none */
  quire_tensor out;                /* [tokens, channels] */
} quire_conv1d;

/* Apply SiLU. */
#define QUIRE_CONV1D_SILU 0x1u

/* Arguments of quire_op_selective_scan: selective state spaces, token by token, for each head:
 *   d = dt + dt_bias, after softplus if the flag is set, limited to [dt_min, dt_max];
 *   S <- exp(d * a) * S + d * x b^T;  o = S c + skip * x;  out = o * SiLU(z).
 * - Mamba2: one a per head.
 * - Mamba1: a head is a channel (head_dim 1) with one a per element of the state.
 * Head h has the b and c of group h / (heads / groups). The state tensor is [heads, head_dim,
 * state_dim], or [heads, state_dim] with head_dim 1. Descriptor. */
typedef struct quire_selective_scan {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_SELECTIVE_SCAN_* */
  quire_paged_state state;
  const quire_batch *batch;        /* query_indptr and the states */
  quire_tensor x;                  /* [tokens, heads, head_dim] */
  quire_tensor dt;                 /* [tokens, heads] */
  /* fp32 [heads] or [heads, state_dim]. Negative in models that forget. */
  quire_tensor a;
  quire_tensor b;                  /* [tokens, groups, state_dim] */
  quire_tensor c;                  /* [tokens, groups, state_dim] */
  quire_tensor skip;               /* [heads] or [heads, head_dim] (often called D);
                                    * absent = none */
  quire_tensor dt_bias;            /* [heads]; absent = none */
  quire_tensor z;                  /* [tokens, heads, head_dim]; absent = no gate */
  quire_tensor out;                /* [tokens, heads, head_dim] */
  float dt_min;
  float dt_max;                    /* 0 = no upper limit */
} quire_selective_scan;

/* Softplus: d = log(1 + exp(dt + dt_bias)). */
#define QUIRE_SELECTIVE_SCAN_SOFTPLUS 0x1u

/* One run of bytes to copy. Its addresses are in memory of the device, or in host memory of its
 * driver (QUIRE_MEM_HOST). Frozen, 24 bytes. */
typedef struct quire_copy_run {
  uint64_t source;                 /* address */
  uint64_t destination;            /* address */
  uint64_t bytes;
} quire_copy_run;

/* Queues an append of K and V rows. Rows with scales are quantised: the scale of some elements is
 * their largest magnitude divided by the largest number of data_dtype (127, 7, 448, 57344 or 6).
 * Thread: serialized on stream. Blocking: no (CPU: may run inline).
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED. */
QUIRE_API quire_code quire_op_kv_append(quire_stream *stream, const quire_kv_append *op,
                                        quire_error *err);
/* Computes the bytes of attention schedule and workspace that are enough for every call with at
 * most these counts.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, UNIMPLEMENTED. */
QUIRE_API quire_code quire_op_attention_workspace(quire_stream *stream, uint32_t max_rows,
                                                  uint64_t max_query_tokens, uint64_t max_kv_len,
                                                  uint32_t num_q_heads, uint32_t head_dim_v,
                                                  uint64_t *plan_bytes, uint64_t *workspace_bytes,
                                                  quire_error *err);
/* Makes the attention schedule of one step. All drivers share the record format. Every layer with
 * the same head shape can use the schedule. plan: [plan_bytes], written.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED. */
QUIRE_API quire_code quire_op_attention_plan(quire_stream *stream, const quire_attention *op,
                                             void *plan, uint64_t plan_bytes, quire_error *err);
/* Queues attention over a paged cache.
 * Thread: serialized on stream. Blocking: no (CPU: may run inline).
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED. */
QUIRE_API quire_code quire_op_attention(quire_stream *stream, const quire_attention *op,
                                        quire_error *err);
/* Queues a merge of partial attention results.
 * Thread: serialized on stream. Blocking: no. Errors: INVALID_ARGUMENT, UNIMPLEMENTED. */
QUIRE_API quire_code quire_op_attention_merge(quire_stream *stream, const quire_attention_merge *op,
                                              quire_error *err);
/* Queues the gated delta rule.
 * Thread: serialized on stream. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED. */
QUIRE_API quire_code quire_op_gated_delta(quire_stream *stream, const quire_gated_delta *op,
                                          quire_error *err);
/* Queues a short causal convolution.
 * Thread: serialized on stream. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED. */
QUIRE_API quire_code quire_op_conv1d(quire_stream *stream, const quire_conv1d *op,
                                     quire_error *err);
/* Queues a selective scan.
 * Thread: serialized on stream. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED. */
QUIRE_API quire_code quire_op_selective_scan(quire_stream *stream, const quire_selective_scan *op,
                                             quire_error *err);
/* Queues n byte copies. runs: borrowed until done. Runs must not overlap each other.
 * Thread: serialized on stream. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_op_copy(quire_stream *stream, const quire_copy_run *runs, uint64_t n,
                                   quire_error *err);
/* Queues a fill. It sets `bytes` bytes at destination to value.
 * Thread: serialized on stream. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_op_fill(quire_stream *stream, void *destination, uint8_t value,
                                   uint64_t bytes, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_OPS_H_ */
