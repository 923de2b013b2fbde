// Recurrent states: gated delta (GDN, KDA) and the short convolution. A block owns its columns of a state from read to write, so reading
// and writing the same slot is safe; the state is widened to fp32 once, runs through all tokens of the row, and is written once.
#include "drivers/gpu/gpu_kernels.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64
namespace {

using drivers::load_real;
using drivers::store_real;

constexpr uint32_t kParts = kThreads / kDeltaTile;  // threads that share a column

struct Columns {
  const DeltaArgs& a;
  uint32_t row, head, first;  // first column
  uint32_t column, part;      // of this thread
  bool live;                  // the column exists
  float *s, *q, *k, *decay, *sums, *waves;
};

// Over the parts of a column, in every thread of it.
QUIRE_GPU_DEVICE float column_sum(const Columns& w, float mine) {
  w.sums[w.part * kDeltaTile + w.column] = mine;
  sync();
  float sum = 0.0f;
  for (uint32_t p = 0; p < kParts; ++p) sum += w.sums[p * kDeltaTile + w.column];
  sync();
  return sum;
}

QUIRE_GPU_DEVICE float block_sum(const Columns& w, float mine) {
  mine = wave_sum(mine);
  if (thread_index() % kWave == 0) w.waves[thread_index() / kWave] = mine;
  sync();
  float sum = 0.0f;
  for (uint32_t i = 0; i < kThreads / kWave; ++i) sum += w.waves[i];
  sync();
  return sum;
}

// A query or key row to shared memory, times factor, normalised where asked.
QUIRE_GPU_DEVICE void load_vector(const Columns& w, const quire_tensor& t, int64_t token, int64_t head, float factor, float* out) {
  const drivers::GatedDeltaJob& j = w.a.job;
  const Real real = drivers::real_of(t.dtype);
  float squares = 0.0f;
  for (uint32_t i = thread_index(); i < j.dim_k; i += kThreads) {
    out[i] = load_real(real, drivers::element3(t, token, head, i));
    squares += out[i] * out[i];
  }
  if ((w.a.op.flags & QUIRE_GATED_DELTA_L2NORM) != 0) factor *= inverse_root(block_sum(w, squares) + 1e-6f);
  for (uint32_t i = thread_index(); i < j.dim_k; i += kThreads) out[i] *= factor;
}

QUIRE_GPU_DEVICE void load_token(const Columns& w, int64_t token) {
  const drivers::GatedDeltaJob& j = w.a.job;
  const drivers::GatedDeltaOp& op = w.a.op;
  const int64_t head_k = w.head / (j.heads_v / j.heads_k);
  load_vector(w, op.query, token, head_k, j.scale, w.q);
  load_vector(w, op.key, token, head_k, 1.0f, w.k);
  for (uint32_t i = thread_index(); i < j.dim_k; i += kThreads) {
    const char* gate = j.per_channel ? drivers::element3(op.gate, token, w.head, i) : drivers::element2(op.gate, token, w.head);
    w.decay[i] = exp_of(load_real(Real::kFloat32, gate));
  }
  sync();
}

// S <- decay S; S += k (beta (v - S^T k))^T; o = S^T q.
QUIRE_GPU_DEVICE void step(const Columns& w, int64_t token) {
  const drivers::GatedDeltaJob& j = w.a.job;
  const drivers::GatedDeltaOp& op = w.a.op;
  float recalled = 0.0f;
  for (uint32_t i = w.part; i < j.dim_k; i += kParts) recalled += w.k[i] * w.decay[i] * w.s[i * kDeltaTile + w.column];
  recalled = column_sum(w, recalled);
  float delta = 0.0f;
  if (w.live) {
    const float v = load_real(drivers::real_of(op.value.dtype), drivers::element3(op.value, token, w.head, w.first + w.column));
    delta = (v - recalled) * load_real(Real::kFloat32, drivers::element2(op.beta, token, w.head));
  }
  float out = 0.0f;
  for (uint32_t i = w.part; i < j.dim_k; i += kParts) {
    const float next = w.decay[i] * w.s[i * kDeltaTile + w.column] + w.k[i] * delta;
    w.s[i * kDeltaTile + w.column] = next;
    out += w.q[i] * next;
  }
  out = column_sum(w, out);
  if (w.live && w.part == 0) {
    store_real(drivers::real_of(op.out.dtype), drivers::element3(op.out, token, w.head, w.first + w.column), out);
  }
}

QUIRE_GPU_DEVICE void run_columns(const Columns& w) {
  const drivers::GatedDeltaJob& j = w.a.job;
  const drivers::GatedDeltaOp& op = w.a.op;
  const int64_t at = w.head * j.stride_head + static_cast<int64_t>(w.first + w.column) * j.stride_v;
  const int32_t read = op.state_read[w.row];
  const char* from = read >= 0 ? drivers::state_tensor(op.state, read) + at : nullptr;
  for (uint32_t i = w.part; i < j.dim_k; i += kParts) {
    w.s[i * kDeltaTile + w.column] = w.live && from != nullptr ? load_real(j.state, from + i * j.stride_k) : 0.0f;
  }
  drivers::StateWrites writes(op, w.row);
  int32_t slot = -1;
  for (int64_t token = op.query_indptr[w.row];; ++token) {
    while (writes.take(token, &slot)) {
      char* to = slot >= 0 ? drivers::state_tensor(op.state, slot) + at : nullptr;
      for (uint32_t i = w.part; i < j.dim_k && w.live && to != nullptr; i += kParts) {
        store_real(j.state, to + i * j.stride_k, w.s[i * kDeltaTile + w.column]);
      }
    }
    if (token >= op.query_indptr[w.row + 1]) break;
    load_token(w, token);
    step(w, token);
  }
  sync();
}

}  // namespace

QUIRE_GPU_KERNEL(delta, DeltaArgs) {
  const drivers::GatedDeltaJob& j = a.job;
  const uint32_t tiles = (j.dim_v + kDeltaTile - 1) / kDeltaTile;
  const uint64_t all = uint64_t{a.op.num_rows} * j.heads_v * tiles;
  auto* s = reinterpret_cast<float*>(shared());
  float* q = s + uint64_t{j.dim_k} * kDeltaTile;
  for (uint64_t i = block_index(); i < all; i += grid_size()) {
    const uint32_t first = static_cast<uint32_t>(i % tiles) * kDeltaTile;
    const uint32_t column = thread_index() % kDeltaTile;
    const Columns w{a,
                    static_cast<uint32_t>(i / tiles / j.heads_v),
                    static_cast<uint32_t>(i / tiles % j.heads_v),
                    first,
                    column,
                    thread_index() / kDeltaTile,
                    first + column < j.dim_v,
                    s,
                    q,
                    q + j.dim_k,
                    q + 2 * j.dim_k,
                    q + 3 * j.dim_k,
                    q + 3 * j.dim_k + kThreads};
    run_columns(w);
  }
}

// A thread has a channel and its newest inputs.
QUIRE_GPU_KERNEL(conv1d, Conv1dArgs) {
  const drivers::Conv1dOp& op = a.op;
  const uint32_t width = a.job.width;
  const uint32_t tiles = (a.job.channels + kThreads - 1) / kThreads;
  const Real state = drivers::real_of(op.state.dtype);
  const Real input = drivers::real_of(op.input.dtype);
  const Real weight = drivers::real_of(op.weight.dtype);
  const Real out = drivers::real_of(op.out.dtype);
  for (uint64_t i = block_index(); i < uint64_t{op.num_rows} * tiles; i += grid_size()) {
    const uint32_t row = static_cast<uint32_t>(i / tiles);
    const int64_t channel = static_cast<int64_t>(i % tiles * kThreads + thread_index());
    if (channel >= a.job.channels) continue;
    float x[kMaxConvTaps] = {};  // the oldest first
    const int32_t read = op.state_read[row];
    for (uint32_t j = 0; j + 1 < width && read >= 0; ++j) {
      x[j] = load_real(state, drivers::state_tensor(op.state, read) + j * op.state.stride[0] + channel * op.state.stride[1]);
    }
    float bias = 0.0f;
    if (op.bias.data != nullptr) {
      bias = load_real(drivers::real_of(op.bias.dtype), static_cast<const char*>(op.bias.data) + channel * op.bias.stride[0]);
    }
    drivers::StateWrites writes(op, row);
    int32_t slot = -1;
    for (int64_t token = op.query_indptr[row];; ++token) {
      while (writes.take(token, &slot)) {
        for (uint32_t j = 0; j + 1 < width && slot >= 0; ++j) {
          store_real(state, drivers::state_tensor(op.state, slot) + j * op.state.stride[0] + channel * op.state.stride[1], x[j]);
        }
      }
      if (token >= op.query_indptr[row + 1]) break;
      x[width - 1] = load_real(input, drivers::element2(op.input, token, channel));
      float sum = bias;
      for (uint32_t j = 0; j < width; ++j) sum += load_real(weight, drivers::element2(op.weight, channel, j)) * x[j];
      if ((op.flags & QUIRE_CONV1D_SILU) != 0) sum = sum / (1.0f + exp_of(-sum));
      store_real(out, drivers::element2(op.out, token, channel), sum);
      for (uint32_t j = 0; j + 1 < width; ++j) x[j] = x[j + 1];
    }
  }
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
