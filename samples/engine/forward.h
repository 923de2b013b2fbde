/* forward.h: one step of the model: inputs from hashes, then the kernels of every layer over the
 * step's arrays. */
#ifndef ENGINE_FORWARD_H_
#define ENGINE_FORWARD_H_

#include "geometry.h"
#include "rig.h"

/* Views and parameters of one layer, fetched once. */
typedef struct layer_views {
  quire_attention attention; /* what does not change from step to step */
  quire_paged_state delta;
  quire_paged_state conv;
  void* taps;         /* [channels][conv_width], dtype of the layer */
  float* sink_logits; /* [q_heads] */
  float* slopes;      /* [q_heads] */
} layer_views;

typedef struct forward {
  const rig* rig;
  const geometry* geo;
  layer_views* views; /* [geo->num_layers] */
  /* one step's tensors, reused by all layers; [max_tokens] rows each */
  unsigned char* query;
  unsigned char* key;
  unsigned char* value;
  unsigned char* conv_in;
  float* conv_out;
  float* gate;
  float* beta;
  float* out;
  uint64_t kernel_calls;
  double seconds; /* inside kernels */
} forward;

/* Receives the results of a layer: out [num_tokens][geo->layers[shape].row]. */
typedef void (*layer_done_fn)(void* user, uint32_t shape, const float* out);

int forward_open(forward* f, const rig* r, const geometry* geo, uint32_t max_tokens);
void forward_close(forward* f);
/* Runs all layers. batches: one per group. hashes: h of each token of the step. done may be NULL.
 */
int forward_run(forward* f, const quire_batch* batches, const uint64_t* hashes, layer_done_fn done,
                void* user);

#endif
