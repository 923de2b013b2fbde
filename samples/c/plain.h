/* What step_loop computes on: numbers in place of a model, and attention over them as it is defined. */
#ifndef PLAIN_H_
#define PLAIN_H_

#include <math.h>

enum { HEADS = 4, KV_HEADS = 2, DIM = 8 };

/* The "model": element x of query (0), key (1) or value (2) of position p of sequence s, a multiple of 1/16. */
static inline float element(int which, int s, int p, int x) { return (float)((which * 5 + s * 3 + p * 7 + x * 11) % 23 - 11) / 16; }

/* softmax(q k / sqrt(DIM)) v over the positions up to p. */
static inline double plain(int s, int p, int x) {
  const int shared = x / DIM / (HEADS / KV_HEADS) * DIM; /* where the head's keys and values start */
  double total = 0, sum = 0;
  for (int t = 0; t <= p; ++t) {
    double dot = 0;
    for (int i = 0; i < DIM; ++i) dot += (double)element(0, s, p, x / DIM * DIM + i) * (double)element(1, s, t, shared + i);
    const double weight = exp(dot / sqrt(DIM));
    total += weight;
    sum += weight * (double)element(2, s, t, shared + x % DIM);
  }
  return sum / total;
}

#endif
