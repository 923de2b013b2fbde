// What step_loop computes on: numbers in place of a model, and attention as it is defined.
#pragma once

#include <quire/quire.h>

#include <cmath>

enum { HEADS = 4, KV_HEADS = 2, DIM = 8 };
enum { QUERY = 0, KEY = 1, VALUE = 2 };

// The "model": element x of a query, key or value at a position of a sequence. A multiple of 1/16.
inline float element(int which, int sequence, int position, int x) {
  return static_cast<float>((which * 5 + sequence * 3 + position * 7 + x * 11) % 23 - 11) / 16;
}

// Element x of softmax(q k / sqrt(DIM)) v over all positions up to `position`.
inline double plain(int sequence, int position, int x) {
  const int head = x / DIM;
  const int kv_head = head / (HEADS / KV_HEADS);  // several query heads share one of these
  double total = 0;
  double sum = 0;
  for (int past = 0; past <= position; ++past) {
    double dot = 0;
    for (int i = 0; i < DIM; ++i) {
      const float q = element(QUERY, sequence, position, head * DIM + i);
      const float k = element(KEY, sequence, past, kv_head * DIM + i);
      dot += double{q} * double{k};
    }
    const double weight = std::exp(dot / std::sqrt(double{DIM}));
    total += weight;
    sum += weight * double{element(VALUE, sequence, past, kv_head * DIM + x % DIM)};
  }
  return sum / total;
}

// A dense fp32 tensor [tokens, heads, DIM] over floats of the engine.
inline quire_tensor rows_of(float* data, int64_t tokens, int64_t heads) {
  quire_tensor rows{};
  rows.data = data;
  rows.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
  rows.device_type = QUIRE_DEVICE_CPU;
  rows.ndim = 3;
  rows.shape[0] = tokens;
  rows.shape[1] = heads;
  rows.shape[2] = DIM;
  rows.stride[2] = sizeof(float);
  rows.stride[1] = rows.stride[2] * DIM;
  rows.stride[0] = rows.stride[1] * heads;
  return rows;
}
