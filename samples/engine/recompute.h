/* recompute.h: one layer of one request, from token 0, in double precision. Knows the rules of
 * attention and of the gated delta net, nothing of pages, blocks or quire's kernels.
 */
#ifndef ENGINE_RECOMPUTE_H_
#define ENGINE_RECOMPUTE_H_

#include "geometry.h"

typedef struct recompute {
  const layer_shape* shape;
  uint32_t* symbols; /* [longest] space for a prompt */
  uint64_t* hashes;  /* [longest] h(p), set by the caller */
  double* row;       /* the result: [shape.row] */
  float* keys;       /* attention: [len][kv heads][dim_k] */
  float* values;     /* attention: [len][kv heads][dim_v] */
  double* logits;    /* [longest] */
  double* state;     /* recurrent: [heads_v][dim_v][dim_k] */
  float* inputs;     /* recurrent: [conv_width][channels], a ring over positions */
  float* taps;       /* [channels][conv_width] */
  double* mixed;     /* [channels] after the convolution, or q | k | v without one */
  float* piece;      /* [one head] */
  uint32_t next;     /* recurrent: first token not yet absorbed */
} recompute;

int recompute_open(recompute* r, const geometry* geo, uint32_t longest);
void recompute_close(recompute* r);
/* Starts a layer; hashes[0 .. len) are set. */
void recompute_begin(recompute* r, const layer_shape* shape, uint32_t len);
/* Computes the row of a token; positions must not go back. */
void recompute_row(recompute* r, uint32_t position);

#endif
