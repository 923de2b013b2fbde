/* geometry.h: the model as this program runs it: layers from a config.json, scaled by options. */
#ifndef ENGINE_GEOMETRY_H_
#define ENGINE_GEOMETRY_H_

#include <quire/quire.h>

#include "options.h"

/* What kernels and verification need to know of one layer that computes something. */
typedef struct layer_shape {
  uint32_t layer; /* index in the model */
  uint32_t sub;
  uint32_t source; /* layer whose cache it reads: its own, or the one it shares with */
  uint32_t source_sub;
  const quire_layer* layer_of_model; /* its descriptor */
  int is_state;
  /* attention */
  uint32_t q_heads;
  uint32_t kv_heads;
  uint32_t window; /* tokens; 0 = everything */
  uint32_t chunk;
  uint32_t sink_tokens;
  int sink_logits;
  float softcap;
  float alibi; /* slope of query head i is alibi * (i + 1) / q_heads: makes the order of keys matter
                */
  /* attention: head dims; recurrent: key and value dims */
  uint32_t dim_k;
  uint32_t dim_v;
  /* gated delta net */
  uint32_t heads_k;
  uint32_t heads_v;
  uint32_t conv_width; /* taps; 0 = no convolution */
  uint32_t channels;
  int conv_tensor; /* index of the state tensor, -1 = none */
  int delta_tensor;
  quire_dtype dtype; /* of cached K and V, or of the convolution's state */
  uint32_t row;      /* elements of one token's result */
  char name[32];
} layer_shape;

typedef struct geometry {
  quire_model* model;  /* scaled */
  quire_layer* caches; /* its descriptors, [num_caches] */
  uint32_t num_caches;
  layer_shape* layers; /* [num_layers] */
  uint32_t num_layers;
  uint32_t num_attention;
  uint32_t num_state;
  uint32_t max_row;
  uint32_t max_len; /* tokens */
  char architecture[64];
} geometry;

/* Reads and scales the model. Complains and returns an exit code. */
int geometry_open(geometry* g, const engine_options* options);
void geometry_close(geometry* g);
/* One scaled descriptor. Exposed for the test. */
int geometry_scale(quire_layer* layer, const engine_options* options);

#endif
