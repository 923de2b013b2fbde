// What step_loop computes on: numbers in place of a model, and attention over them as it is defined.
#pragma once

#include <quire/quire.h>

#include <cmath>

enum { HEADS = 4, KV_HEADS = 2, DIM = 8 };

// The "model": element x of query (0), key (1) or value (2) of position p of sequence s, a multiple of 1/16.
inline float element(int which, int s, int p, int x) { return static_cast<float>((which * 5 + s * 3 + p * 7 + x * 11) % 23 - 11) / 16; }

// softmax(q k / sqrt(DIM)) v over the positions up to p.
inline double plain(int s, int p, int x) {
  const int shared = x / DIM / (HEADS / KV_HEADS) * DIM;  // where the head's keys and values start
  double total = 0, sum = 0;
  for (int t = 0; t <= p; ++t) {
    double dot = 0;
    for (int i = 0; i < DIM; ++i) dot += double{element(0, s, p, x / DIM * DIM + i)} * double{element(1, s, t, shared + i)};
    const double weight = std::exp(dot / std::sqrt(double{DIM}));
    total += weight;
    sum += weight * double{element(2, s, t, shared + x % DIM)};
  }
  return sum / total;
}

// A dense fp32 tensor [tokens, heads, DIM] over floats of the engine.
inline quire_tensor rows_of(float* data, int64_t tokens, int64_t heads) {
  return {data, {QUIRE_DTYPE_FLOAT, 32, 1}, QUIRE_DEVICE_CPU, 0, 3, {tokens, heads, DIM}, {heads * DIM * 4, int64_t{DIM} * 4, 4}, 0};
}
