#include "forward.h"

#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "values.h"

static const quire_dtype fp32 = {QUIRE_DTYPE_FLOAT, 32, 1};

static int open_state(const rig* r, const layer_shape* s, layer_views* v) {
  quire_error err = {.struct_size = sizeof err};
  if (quire_memory_get_paged_state(r->memory, s->layer, s->sub, (uint32_t)s->delta_tensor,
                                   &v->delta, &err) != QUIRE_OK) {
    return complain_quire("state view", &err);
  }
  if (s->conv_tensor < 0) return ENGINE_OK;
  if (quire_memory_get_paged_state(r->memory, s->layer, s->sub, (uint32_t)s->conv_tensor, &v->conv,
                                   &err) != QUIRE_OK) {
    return complain_quire("state view", &err);
  }
  if (v->conv.shape[0] > v->conv.shape[1]) { /* kept as [channels, taps]: the kernel wants [taps,
                                                channels]; strides say the order */
    uint64_t channels = v->conv.shape[0];
    int64_t stride = v->conv.stride[0];
    v->conv.shape[0] = v->conv.shape[1];
    v->conv.stride[0] = v->conv.stride[1];
    v->conv.shape[1] = channels;
    v->conv.stride[1] = stride;
  }
  uint64_t row = (uint64_t)s->conv_width * dtype_bytes(s->dtype);
  unsigned char* taps = claim_memory(s->channels, row, "convolution weights");
  v->taps = taps;
  if (taps == NULL) return ENGINE_FAILED;
  for (uint32_t c = 0; c < s->channels; ++c)
    values_store(value_weight_seed(s->layer, c), s->dtype, taps + c * row, s->conv_width);
  return ENGINE_OK;
}

static int open_attention(const rig* r, const layer_shape* s, layer_views* v) {
  quire_error err = {.struct_size = sizeof err};
  v->attention.struct_size = sizeof v->attention;
  if (quire_attention_from_layer(s->layer_of_model, &v->attention, &err) != QUIRE_OK) {
    return complain_quire("attention", &err);
  }
  if (quire_memory_get_paged_kv(r->memory, s->source, s->source_sub, &v->attention.kv, &err) !=
      QUIRE_OK) {
    return complain_quire("kv view", &err);
  }
  v->sink_logits = claim_memory(s->q_heads, sizeof *v->sink_logits, "sink logits");
  v->slopes = claim_memory(s->q_heads, sizeof *v->slopes, "slopes");
  if (v->sink_logits == NULL || v->slopes == NULL) return ENGINE_FAILED;
  for (uint32_t h = 0; h < s->q_heads; ++h) {
    v->sink_logits[h] = value_sink(s->layer, h);
    v->slopes[h] = s->alibi * (float)(h + 1) / (float)s->q_heads;
  }
  v->attention.sink_logits = s->sink_logits ? v->sink_logits : NULL;
  v->attention.alibi_slopes = s->alibi > 0 ? v->slopes : NULL;
  return ENGINE_OK;
}

/* Widest row of each of the step's tensors, in bytes. */
typedef struct row_widths {
  uint64_t query, key, value, conv, heads;
} row_widths;

static void widen(uint64_t* width, uint64_t bytes) {
  if (bytes > *width) *width = bytes;
}

static row_widths widths_of(const geometry* geo) {
  row_widths w = {1, 1, 1, 1, 1};
  for (uint32_t i = 0; i < geo->num_layers; ++i) {
    const layer_shape* s = &geo->layers[i];
    uint64_t bytes = dtype_bytes(s->dtype);
    uint64_t q_heads = s->is_state ? s->heads_k : s->q_heads;
    uint64_t k_heads = s->is_state ? s->heads_k : s->kv_heads;
    uint64_t v_heads = s->is_state ? s->heads_v : s->kv_heads;
    widen(&w.query, q_heads * s->dim_k * bytes);
    widen(&w.key, k_heads * s->dim_k * bytes);
    widen(&w.value, v_heads * s->dim_v * bytes);
    widen(&w.conv, s->channels);
    widen(&w.heads, s->heads_v);
  }
  return w;
}

int forward_open(forward* f, const rig* r, const geometry* geo, uint32_t max_tokens) {
  row_widths w = widths_of(geo);
  memset(f, 0, sizeof *f);
  f->rig = r;
  f->geo = geo;
  f->views = claim_memory(geo->num_layers, sizeof *f->views, "layer views");
  f->query = claim_memory(max_tokens, w.query, "queries");
  f->key = claim_memory(max_tokens, w.key, "keys");
  f->value = claim_memory(max_tokens, w.value, "values");
  f->conv_in = claim_memory(max_tokens, w.conv * 4, "convolution inputs");
  f->conv_out = claim_memory(max_tokens, w.conv * 4, "convolution results");
  f->gate = claim_memory(max_tokens, w.heads * 4, "gates");
  f->beta = claim_memory(max_tokens, w.heads * 4, "betas");
  f->out = claim_memory(max_tokens, (uint64_t)geo->max_row * 4, "results");
  int ok = f->views != NULL && f->query != NULL && f->key != NULL && f->value != NULL &&
           f->conv_in != NULL && f->conv_out != NULL;
  if (!ok || f->gate == NULL || f->beta == NULL || f->out == NULL) return ENGINE_FAILED;
  for (uint32_t i = 0; i < geo->num_layers; ++i) {
    const layer_shape* s = &geo->layers[i];
    layer_views* v = &f->views[i];
    int rc = s->is_state ? open_state(r, s, v) : open_attention(r, s, v);
    if (rc != ENGINE_OK) return rc;
  }
  return ENGINE_OK;
}

void forward_close(forward* f) {
  for (uint32_t i = 0; f->views != NULL && i < f->geo->num_layers; ++i) {
    free(f->views[i].taps);
    free(f->views[i].sink_logits);
    free(f->views[i].slopes);
  }
  free(f->views);
  free(f->query);
  free(f->key);
  free(f->value);
  free(f->conv_in);
  free(f->conv_out);
  free(f->gate);
  free(f->beta);
  free(f->out);
  memset(f, 0, sizeof *f);
}

/* A dense tensor [tokens, heads, dim] whose rows may lie `row` elements apart (0 = dense). */
static quire_tensor dense(void* data, quire_dtype dtype, uint64_t tokens, uint64_t heads,
                          uint64_t dim, uint64_t row) {
  int64_t bytes = dtype.bits / 8;
  quire_tensor t = {
      .data = data, .dtype = dtype, .device_type = QUIRE_DEVICE_CPU, .ndim = dim == 0 ? 2 : 3};
  t.shape[0] = (int64_t)tokens;
  t.shape[1] = (int64_t)heads;
  t.shape[2] = (int64_t)dim;
  t.stride[2] = dim == 0 ? 0 : bytes;
  t.stride[1] = dim == 0 ? bytes : (int64_t)dim * bytes;
  t.stride[0] = (row != 0 ? (int64_t)row : t.shape[1] * (dim == 0 ? 1 : t.shape[2])) * bytes;
  return t;
}

static void fill_heads(const layer_shape* s, unsigned char* to, uint32_t layer,
                       enum value_role role, uint32_t heads, uint32_t dim, uint32_t tokens,
                       const uint64_t* hashes) {
  uint64_t bytes = (uint64_t)dim * dtype_bytes(s->dtype);
  for (uint32_t t = 0; t < tokens; ++t) {
    for (uint32_t h = 0; h < heads; ++h, to += bytes)
      values_store(value_seed(hashes[t], layer, role, h), s->dtype, to, dim);
  }
}

static int append_keys(forward* f, uint32_t shape, const quire_batch* batch,
                       const uint64_t* hashes) {
  const layer_shape* s = &f->geo->layers[shape];
  uint32_t tokens = batch->num_tokens;
  quire_error err = {.struct_size = sizeof err};
  fill_heads(s, f->key, s->layer, VALUE_KEY, s->kv_heads, s->dim_k, tokens, hashes);
  fill_heads(s, f->value, s->layer, VALUE_VALUE, s->kv_heads, s->dim_v, tokens, hashes);
  quire_kv_append op = {
      .struct_size = sizeof op, .kv = f->views[shape].attention.kv, .batch = batch};
  op.key = dense(f->key, s->dtype, tokens, s->kv_heads, s->dim_k, 0);
  op.value = dense(f->value, s->dtype, tokens, s->kv_heads, s->dim_v, 0);
  if (quire_op_kv_append(f->rig->stream, &op, &err) != QUIRE_OK)
    return complain_quire("kv append", &err);
  return ENGINE_OK;
}

static int run_attention(forward* f, uint32_t shape, const quire_batch* batches,
                         const uint64_t* hashes) {
  const layer_shape* s = &f->geo->layers[shape];
  quire_attention op = f->views[shape].attention;
  const quire_batch* batch = &batches[op.kv.group];
  quire_error err = {.struct_size = sizeof err};
  int has_own_cache = s->source == s->layer && s->source_sub == s->sub;
  if (has_own_cache && append_keys(f, shape, batch, hashes) != ENGINE_OK) return ENGINE_FAILED;
  fill_heads(s, f->query, s->layer, VALUE_QUERY, s->q_heads, s->dim_k, batch->num_tokens, hashes);
  op.batch = batch;
  op.query = dense(f->query, s->dtype, batch->num_tokens, s->q_heads, s->dim_k, 0);
  op.out = dense(f->out, fp32, batch->num_tokens, s->q_heads, s->dim_v, 0);
  if (quire_op_attention(f->rig->stream, &op, &err) != QUIRE_OK)
    return complain_quire("attention", &err);
  return ENGINE_OK;
}

static int run_convolution(forward* f, uint32_t shape, const quire_batch* batch,
                           const uint64_t* hashes) {
  const layer_shape* s = &f->geo->layers[shape];
  const layer_views* v = &f->views[shape];
  uint32_t tokens = batch->num_tokens;
  quire_error err = {.struct_size = sizeof err};
  fill_heads(s, f->conv_in, s->layer, VALUE_CONV, 1, s->channels, tokens, hashes);
  quire_conv1d op = {
      .struct_size = sizeof op, .flags = QUIRE_CONV1D_SILU, .state = v->conv, .batch = batch};
  op.input = dense(f->conv_in, s->dtype, tokens, s->channels, 0, 0);
  op.weight = dense(v->taps, s->dtype, s->channels, s->conv_width, 0, 0);
  op.out = dense(f->conv_out, fp32, tokens, s->channels, 0, 0);
  if (quire_op_conv1d(f->rig->stream, &op, &err) != QUIRE_OK) return complain_quire("conv1d", &err);
  return ENGINE_OK;
}

/* Query, key and value of the recurrence: slices of the convolution's result, or rows of their own
 * without one. */
static void recurrent_inputs(forward* f, const layer_shape* s, uint32_t tokens,
                             const uint64_t* hashes, quire_gated_delta* op) {
  uint64_t keys = (uint64_t)s->heads_k * s->dim_k;
  if (s->conv_width != 0) {
    op->query = dense(f->conv_out, fp32, tokens, s->heads_k, s->dim_k, s->channels);
    op->key = dense(f->conv_out + keys, fp32, tokens, s->heads_k, s->dim_k, s->channels);
    op->value = dense(f->conv_out + 2 * keys, fp32, tokens, s->heads_v, s->dim_v, s->channels);
    return;
  }
  fill_heads(s, f->query, s->layer, VALUE_QUERY, s->heads_k, s->dim_k, tokens, hashes);
  fill_heads(s, f->key, s->layer, VALUE_KEY, s->heads_k, s->dim_k, tokens, hashes);
  fill_heads(s, f->value, s->layer, VALUE_VALUE, s->heads_v, s->dim_v, tokens, hashes);
  op->query = dense(f->query, s->dtype, tokens, s->heads_k, s->dim_k, 0);
  op->key = dense(f->key, s->dtype, tokens, s->heads_k, s->dim_k, 0);
  op->value = dense(f->value, s->dtype, tokens, s->heads_v, s->dim_v, 0);
}

static int run_recurrence(forward* f, uint32_t shape, const quire_batch* batches,
                          const uint64_t* hashes) {
  const layer_shape* s = &f->geo->layers[shape];
  const layer_views* v = &f->views[shape];
  const quire_batch* batch = &batches[v->delta.group];
  uint32_t tokens = batch->num_tokens;
  quire_error err = {.struct_size = sizeof err};
  int rc = s->conv_width != 0 ? run_convolution(f, shape, batch, hashes) : ENGINE_OK;
  if (rc != ENGINE_OK) return rc;
  for (uint32_t t = 0; t < tokens; ++t) {
    for (uint32_t h = 0; h < s->heads_v; ++h) {
      f->gate[(uint64_t)t * s->heads_v + h] = value_gate(hashes[t], s->layer, h);
      f->beta[(uint64_t)t * s->heads_v + h] = value_beta(hashes[t], s->layer, h);
    }
  }
  quire_gated_delta op = {.struct_size = sizeof op, .state = v->delta, .batch = batch};
  op.flags = QUIRE_GATED_DELTA_V_MAJOR | QUIRE_GATED_DELTA_L2NORM;
  recurrent_inputs(f, s, tokens, hashes, &op);
  op.gate = dense(f->gate, fp32, tokens, s->heads_v, 0, 0);
  op.beta = dense(f->beta, fp32, tokens, s->heads_v, 0, 0);
  op.out = dense(f->out, fp32, tokens, s->heads_v, s->dim_v, 0);
  if (quire_op_gated_delta(f->rig->stream, &op, &err) != QUIRE_OK)
    return complain_quire("gated delta", &err);
  return ENGINE_OK;
}

int forward_run(forward* f, const quire_batch* batches, const uint64_t* hashes, layer_done_fn done,
                void* user) {
  quire_error err = {.struct_size = sizeof err};
  double begin = seconds_now();
  for (uint32_t i = 0; i < f->geo->num_layers; ++i) {
    int is_state = f->geo->layers[i].is_state;
    int rc =
        is_state ? run_recurrence(f, i, batches, hashes) : run_attention(f, i, batches, hashes);
    if (rc != ENGINE_OK) return rc;
    if (quire_stream_synchronize(f->rig->stream, -1, &err) != QUIRE_OK)
      return complain_quire("kernels", &err);
    ++f->kernel_calls;
    if (done != NULL) done(user, i, f->out);
  }
  f->seconds += seconds_now() - begin;
  return ENGINE_OK;
}
