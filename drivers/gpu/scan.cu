// The selective scan (Mamba1, Mamba2). A block owns some lines of a group's state from read to write: lines share b and c, a line's
// elements are spread over a few threads, which add up what it gives.
#include "drivers/gpu/gpu_kernels.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64
namespace {

using drivers::load_real;
using drivers::store_real;

constexpr uint32_t kParts = kThreads / kScanTile;  // threads that share a line

struct Line {
  const ScanArgs& a;
  uint32_t row, group, head, at;  // at: its place in the head
  uint32_t column, part;          // of this thread
  bool live;                      // the line exists
  float *s, *b, *c, *sums;
};

QUIRE_GPU_DEVICE float softplus(float x) {
  // log(1 + u) by the series in u / (2 + u) <= 1/3: small results keep their relative accuracy.
  const float u = exp_of(x < 0.0f ? x : -x);
  const float t = u / (2.0f + u);
  const float y = t * t;
  float p = 2.0f / 13.0f;
  p = p * y + 2.0f / 11.0f;
  p = p * y + 2.0f / 9.0f;
  p = p * y + 2.0f / 7.0f;
  p = p * y + 2.0f / 5.0f;
  p = p * y + 2.0f / 3.0f;
  p = p * y + 2.0f;
  return (x < 0.0f ? 0.0f : x) + p * t;
}

QUIRE_GPU_DEVICE float step_of_time(const Line& w, int64_t token) {
  const drivers::SelectiveScanOp& op = w.a.op;
  float d = load_real(drivers::real_of(op.dt.dtype), drivers::element2(op.dt, token, w.head));
  if (op.dt_bias.data != nullptr) {
    d += load_real(drivers::real_of(op.dt_bias.dtype), static_cast<const char*>(op.dt_bias.data) + w.head * op.dt_bias.stride[0]);
  }
  if ((op.flags & QUIRE_SELECTIVE_SCAN_SOFTPLUS) != 0) d = softplus(d);
  d = d < op.dt_min ? op.dt_min : d;
  return op.dt_max != 0.0f && d > op.dt_max ? op.dt_max : d;
}

QUIRE_GPU_DEVICE float gated(const Line& w, int64_t token, float x, float out) {
  const drivers::SelectiveScanOp& op = w.a.op;
  if (op.skip.data != nullptr) {
    const int64_t at = op.skip.ndim == 2 ? w.at * op.skip.stride[1] : 0;
    out += x * load_real(drivers::real_of(op.skip.dtype), static_cast<const char*>(op.skip.data) + w.head * op.skip.stride[0] + at);
  }
  if (op.z.data == nullptr) return out;
  const float z = load_real(drivers::real_of(op.z.dtype), drivers::element3(op.z, token, w.head, w.at));
  return out * (z / (1.0f + exp_of(-z)));
}

// S <- exp(d a) S + d x b; o = S c.
QUIRE_GPU_DEVICE void step(const Line& w, int64_t token) {
  const drivers::ScanJob& j = w.a.job;
  const drivers::SelectiveScanOp& op = w.a.op;
  const Real real_b = drivers::real_of(op.b.dtype);
  const Real real_c = drivers::real_of(op.c.dtype);
  for (uint32_t i = thread_index(); i < j.state_dim; i += kThreads) {
    w.b[i] = load_real(real_b, drivers::element3(op.b, token, w.group, i));
    w.c[i] = load_real(real_c, drivers::element3(op.c, token, w.group, i));
  }
  sync();
  float x = 0.0f;
  float sum = 0.0f;
  if (w.live) {
    const char* a = static_cast<const char*>(op.a.data) + w.head * op.a.stride[0];
    const float d = step_of_time(w, token);
    float keep = j.per_element ? 0.0f : exp_of(d * load_real(Real::kFloat32, a));
    x = load_real(drivers::real_of(op.x.dtype), drivers::element3(op.x, token, w.head, w.at));
    for (uint32_t i = w.part; i < j.state_dim; i += kParts) {
      if (j.per_element) keep = exp_of(d * load_real(Real::kFloat32, a + i * op.a.stride[1]));
      const float next = keep * w.s[i * kScanTile + w.column] + d * x * w.b[i];
      w.s[i * kScanTile + w.column] = next;
      sum += next * w.c[i];
    }
  }
  w.sums[w.part * kScanTile + w.column] = sum;
  sync();
  if (w.live && w.part == 0) {
    float out = 0.0f;
    for (uint32_t p = 0; p < kParts; ++p) out += w.sums[p * kScanTile + w.column];
    store_real(drivers::real_of(op.out.dtype), drivers::element3(op.out, token, w.head, w.at), gated(w, token, x, out));
  }
  sync();
}

QUIRE_GPU_DEVICE void run_lines(const Line& w) {
  const drivers::ScanJob& j = w.a.job;
  const drivers::SelectiveScanOp& op = w.a.op;
  const int64_t at = w.head * j.stride_head + w.at * j.stride_line;
  const int32_t read = op.state_read[w.row];
  const char* from = read >= 0 ? drivers::state_tensor(op.state, read) + at : nullptr;
  for (uint32_t i = w.part; i < j.state_dim; i += kParts) {
    w.s[i * kScanTile + w.column] = w.live && from != nullptr ? load_real(j.state, from + i * j.stride_element) : 0.0f;
  }
  drivers::StateWrites writes(op, w.row);
  int32_t slot = -1;
  for (int64_t token = op.query_indptr[w.row];; ++token) {
    while (writes.take(token, &slot)) {
      char* to = slot >= 0 ? drivers::state_tensor(op.state, slot) + at : nullptr;
      for (uint32_t i = w.part; i < j.state_dim && w.live && to != nullptr; i += kParts) {
        store_real(j.state, to + i * j.stride_element, w.s[i * kScanTile + w.column]);
      }
    }
    if (token >= op.query_indptr[w.row + 1]) break;
    step(w, token);
  }
  sync();
}

}  // namespace

QUIRE_GPU_KERNEL(scan, ScanArgs) {
  const drivers::ScanJob& j = a.job;
  const uint32_t group_lines = j.heads / j.groups * j.head_dim;
  const uint32_t tiles = (group_lines + kScanTile - 1) / kScanTile;
  const uint64_t all = uint64_t{a.op.num_rows} * j.groups * tiles;
  auto* s = reinterpret_cast<float*>(shared());
  float* b = s + uint64_t{j.state_dim} * kScanTile;
  for (uint64_t i = block_index(); i < all; i += grid_size()) {
    const uint32_t column = thread_index() % kScanTile;
    const uint32_t group = static_cast<uint32_t>(i / tiles % j.groups);
    const uint32_t place = static_cast<uint32_t>(i % tiles) * kScanTile + column;
    const bool live = place < group_lines;
    const uint32_t line = group * group_lines + (live ? place : 0);
    const Line w{a,
                 static_cast<uint32_t>(i / tiles / j.groups),
                 group,
                 line / j.head_dim,
                 line % j.head_dim,
                 column,
                 thread_index() / kScanTile,
                 live,
                 s,
                 b,
                 b + j.state_dim,
                 b + 2 * j.state_dim};
    run_lines(w);
  }
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
