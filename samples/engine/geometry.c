#include "geometry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "values.h"

enum { DELTA_NDIM = 3, CONV_NDIM = 2, MOST_CONFIG_BYTES = 16 << 20 };

static int find_tensor(const quire_layer* l, uint32_t ndim) {
  for (uint32_t i = 0; i < l->num_state_tensors; ++i) {
    if (l->state[i].ndim == ndim) return (int)i;
  }
  return -1;
}

/* Axis of a convolution's state that counts taps; the other counts channels. */
static uint32_t taps_axis(const quire_state_tensor* t) {
  return t->shape[0] <= t->shape[1] ? 0 : 1;
}

static void scale_state(quire_layer* l, const engine_options* o) {
  int delta = find_tensor(l, DELTA_NDIM);
  int conv = find_tensor(l, CONV_NDIM);
  if (delta < 0) return;
  uint64_t* shape = l->state[delta].shape; /* [value heads, dim, dim] */
  uint64_t heads_v = shape[0];
  uint64_t heads_k = heads_v;
  uint64_t axis = conv < 0 ? 0 : 1 - taps_axis(&l->state[conv]);
  if (conv >= 0) heads_k = (l->state[conv].shape[axis] - heads_v * shape[1]) / (2 * shape[2]);
  uint64_t ratio = heads_k == 0 || heads_v % heads_k != 0 ? 1 : heads_v / heads_k;
  if (o->state_heads != 0) shape[0] = o->state_heads;
  if (o->state_dim != 0) shape[1] = shape[2] = o->state_dim;
  heads_k = shape[0] % ratio == 0 ? shape[0] / ratio : shape[0];
  if (l->num_q_heads != 0) l->num_q_heads = (uint32_t)shape[0];
  if (l->num_kv_heads != 0) l->num_kv_heads = (uint32_t)heads_k;
  if (conv < 0) return;
  l->state[conv].shape[axis] = 2 * heads_k * shape[2] + shape[0] * shape[1];
  if (l->state_parts[0] == 0) return;
  l->state_parts[0] = l->state_parts[1] = (uint32_t)(heads_k * shape[2]); /* q and k, then v */
  l->state_parts[2] = (uint32_t)(shape[0] * shape[1]);
}

int geometry_scale(quire_layer* l, const engine_options* o) {
  if (l->kind == QUIRE_LAYER_STATE) {
    scale_state(l, o);
    return ENGINE_OK;
  }
  if (l->kind == QUIRE_LAYER_MLA || l->kind == QUIRE_LAYER_INDEXER || l->kind == QUIRE_LAYER_NONE)
    return ENGINE_OK;
  if (o->kv_heads != 0 && l->num_kv_heads != 0) {
    uint64_t ratio = l->num_q_heads > l->num_kv_heads ? l->num_q_heads / l->num_kv_heads : 1;
    l->num_kv_heads = (uint32_t)o->kv_heads;
    l->num_q_heads = (uint32_t)(ratio * o->kv_heads);
  }
  if (o->head_dim != 0 && l->head_dim_k != 0) {
    l->head_dim_v = (uint32_t)((uint64_t)l->head_dim_v * o->head_dim / l->head_dim_k);
    l->head_dim_k = (uint32_t)o->head_dim;
  }
  if (l->num_q_heads == 0) l->num_q_heads = l->num_kv_heads;
  return ENGINE_OK;
}

static int shape_of_state(const quire_layer* l, layer_shape* s) {
  s->delta_tensor = find_tensor(l, DELTA_NDIM);
  s->conv_tensor = find_tensor(l, CONV_NDIM);
  if (s->delta_tensor < 0 ||
      (l->state_kind != QUIRE_STATE_GDN && l->state_kind != QUIRE_STATE_GENERIC)) {
    return complain(
        "layer %u: state kind %d has no kernel here; --memory none serves it without kernels",
        l->layer, l->state_kind);
  }
  const quire_state_tensor* delta = &l->state[s->delta_tensor];
  if (delta->dtype.code != QUIRE_DTYPE_FLOAT || delta->dtype.bits != 32) {
    return complain(
        "layer %u: the recurrent state is not fp32; rounding it at every step is outside what "
        "--verify can follow",
        l->layer);
  }
  s->is_state = 1;
  s->heads_v = (uint32_t)delta->shape[0];
  s->dim_v = (uint32_t)delta->shape[1];
  s->dim_k = (uint32_t)delta->shape[2];
  s->heads_k = s->heads_v;
  s->dtype = delta->dtype;
  if (s->conv_tensor >= 0) {
    const quire_state_tensor* conv = &l->state[s->conv_tensor];
    uint32_t axis = taps_axis(conv);
    uint64_t values = (uint64_t)s->heads_v * s->dim_v;
    s->conv_width = (uint32_t)conv->shape[axis] + 1;
    s->channels = (uint32_t)conv->shape[1 - axis];
    if (s->channels <= values || (s->channels - values) % (2 * (uint64_t)s->dim_k) != 0) {
      return complain(
          "layer %u: %u convolution channels do not split into keys, queries and %u x %u values",
          l->layer, s->channels, s->heads_v, s->dim_v);
    }
    s->heads_k = (uint32_t)((s->channels - values) / (2 * (uint64_t)s->dim_k));
    s->dtype = conv->dtype;
  }
  if (dtype_bytes(s->dtype) == 0)
    return complain("layer %u: dtype of the convolution's state is not bf16, fp16 or fp32",
                    l->layer);
  if (s->heads_k == 0 || s->heads_v % s->heads_k != 0) {
    return complain("layer %u: %u value heads are no multiple of %u key heads", l->layer,
                    s->heads_v, s->heads_k);
  }
  s->row = s->heads_v * s->dim_v;
  (void)snprintf(s->name, sizeof s->name, "gated-delta");
  return ENGINE_OK;
}

static int shape_of_attention(const quire_layer* l, layer_shape* s) {
  static const char* const names[] = {"", "full", "window", "chunked"};
  if (l->kind > QUIRE_LAYER_CHUNKED) {
    return complain(
        "layer %u: cache kind %d has no kernel here; --memory none serves it without kernels",
        l->layer, l->kind);
  }
  if (dtype_bytes(l->dtype) == 0 || l->codec != 0)
    return complain("layer %u: cached dtype is not bf16, fp16 or fp32", l->layer);
  s->kv_heads = l->num_kv_heads;
  s->q_heads = l->num_q_heads;
  s->dim_k = l->head_dim_k;
  s->dim_v = l->head_dim_v;
  s->dtype = l->dtype;
  s->softcap = l->softcap;
  s->sink_logits = (l->flags & QUIRE_LAYER_SINK_LOGITS) != 0;
  s->sink_tokens = l->sink_tokens;
  if (l->kind == QUIRE_LAYER_SLIDING_WINDOW) s->window = (uint32_t)l->window;
  if (l->kind == QUIRE_LAYER_CHUNKED) s->chunk = (uint32_t)l->window;
  s->alibi = s->softcap == 0 ? 1.0F / 128 : 0;
  s->row = s->q_heads * s->dim_v;
  (void)snprintf(s->name, sizeof s->name, "%s", names[l->kind]);
  return ENGINE_OK;
}

static int shape_layers(geometry* g) {
  g->layers = claim_memory(g->num_caches, sizeof *g->layers, "layers");
  if (g->layers == NULL) return ENGINE_FAILED;
  for (uint32_t i = 0; i < g->num_caches; ++i) {
    const quire_layer* l = &g->caches[i];
    layer_shape* s = &g->layers[g->num_layers];
    if (l->kind == QUIRE_LAYER_NONE) continue;
    s->layer_of_model = l;
    s->layer = s->source = l->layer;
    s->sub = s->source_sub = l->sub;
    if (l->shares_with != 0) {
      s->source = l->shares_with - 1;
      s->source_sub = 0;
    }
    int rc = l->kind == QUIRE_LAYER_STATE ? shape_of_state(l, s) : shape_of_attention(l, s);
    if (rc != ENGINE_OK) return rc;
    if (s->row > g->max_row) g->max_row = s->row;
    g->num_state += s->is_state ? 1 : 0;
    g->num_attention += s->is_state ? 0 : 1;
    ++g->num_layers;
  }
  return ENGINE_OK;
}

/* Three recurrent layers and a full one, twice: the shape of Qwen3-Next, small. */
static int built_in(quire_model** model) {
  quire_layer layers[8];
  memset(layers, 0, sizeof layers);
  for (uint32_t i = 0; i < 8; ++i) {
    quire_layer* l = &layers[i];
    l->struct_size = sizeof *l;
    l->layer = i;
    if (i % 4 == 3) {
      l->kind = QUIRE_LAYER_FULL;
      l->num_kv_heads = 1;
      l->num_q_heads = 4;
      l->head_dim_k = l->head_dim_v = 32;
      l->dtype = (quire_dtype){QUIRE_DTYPE_BFLOAT, 16, 1};
      continue;
    }
    l->kind = QUIRE_LAYER_STATE;
    l->state_kind = QUIRE_STATE_GDN;
    l->num_state_tensors = 2;
    l->state[0] = (quire_state_tensor){{QUIRE_DTYPE_BFLOAT, 16, 1}, 2, {3, 128, 0, 0}};
    l->state[1] = (quire_state_tensor){{QUIRE_DTYPE_FLOAT, 32, 1}, 3, {2, 32, 32, 0}};
  }
  quire_error err = {.struct_size = sizeof err};
  if (quire_model_create(layers, sizeof layers[0], 8, 1u << 20, model, &err) != QUIRE_OK)
    return complain_quire("model", &err);
  return ENGINE_OK;
}

static int read_model(const char* path, quire_model** model) {
  char* text = NULL;
  uint64_t len = 0;
  quire_error err = {.struct_size = sizeof err};
  if (read_whole_file(path, MOST_CONFIG_BYTES, &text, &len) != ENGINE_OK) return ENGINE_USAGE;
  quire_code code = quire_model_from_json((quire_str){text, len}, model, &err);
  free(text);
  if (code == QUIRE_OK) return ENGINE_OK;
  (void)complain_quire(path, &err);
  return ENGINE_USAGE;
}

/* Copies the descriptors of the first `layers` layers, scaled. */
static int scale_model(geometry* g, quire_model* model, const engine_options* o) {
  quire_error err = {.struct_size = sizeof err};
  quire_model_info info = {.struct_size = sizeof info};
  if (quire_model_get_info(model, &info, &err) != QUIRE_OK) return complain_quire("model", &err);
  g->caches = claim_memory(info.num_caches, sizeof *g->caches, "layer descriptors");
  if (g->caches == NULL) return ENGINE_FAILED;
  for (uint32_t i = 0; i < info.num_caches; ++i) {
    quire_layer* l = &g->caches[g->num_caches];
    l->struct_size = sizeof *l;
    if (quire_model_get_layer(model, i, l, &err) != QUIRE_OK) return complain_quire("model", &err);
    l->struct_size = sizeof *l;
    if ((o->layers != 0 && l->layer >= o->layers) || (l->flags & QUIRE_LAYER_DRAFT) != 0)
      continue; /* no drafts: nothing is speculated */
    int rc = geometry_scale(l, o);
    if (rc != ENGINE_OK) return rc;
    ++g->num_caches;
  }
  uint64_t most =
      info.max_model_len != 0 && info.max_model_len < o->max_len ? info.max_model_len : o->max_len;
  g->max_len = (uint32_t)most;
  (void)snprintf(g->architecture, sizeof g->architecture, "%s",
                 info.architecture[0] != '\0' ? info.architecture : "built-in hybrid");
  if (quire_model_create(g->caches, sizeof *g->caches, g->num_caches, most, &g->model, &err) ==
      QUIRE_OK)
    return ENGINE_OK;
  (void)complain_quire("scaled model", &err);
  return ENGINE_USAGE;
}

int geometry_open(geometry* g, const engine_options* options) {
  quire_model* model = NULL;
  memset(g, 0, sizeof *g);
  int rc = options->model == NULL ? built_in(&model) : read_model(options->model, &model);
  if (rc == ENGINE_OK) rc = scale_model(g, model, options);
  if (rc == ENGINE_OK && options->memory != MEMORY_NONE) rc = shape_layers(g);
  quire_model_release(model);
  if (rc != ENGINE_OK) geometry_close(g);
  return rc;
}

void geometry_close(geometry* g) {
  quire_model_release(g->model);
  free(g->caches);
  free(g->layers);
  memset(g, 0, sizeof *g);
}
