// Ops that work token by token: append, the merge of partial results, copies of runs.
#include "drivers/gpu/gpu_kernels.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64
namespace {

using drivers::load_real;
using drivers::store_real;

// Element d of a K row after rope: pairs (i, i + half), or (2i, 2i + 1) when interleaved.
QUIRE_GPU_DEVICE float rotated(const AppendArgs& a, int64_t token, int64_t head, uint32_t d) {
  const drivers::AppendOp& op = a.op;
  const float x = load_real(a.key, drivers::element3(op.key, token, head, d));
  if (d >= op.rope_dim) return x;
  const uint32_t half = op.rope_dim / 2;
  const bool together = op.rope_interleaved != 0;
  const uint32_t pair = together ? d / 2 : d % half;
  const bool second = together ? d % 2 != 0 : d >= half;
  const uint32_t partner = together ? (second ? d - 1 : d + 1) : second ? d - half : d + half;
  const float y = load_real(a.key, drivers::element3(op.key, token, head, partner));
  const float cosine = op.rope_cos[int64_t{op.positions[token]} * half + pair];
  const float sine = op.rope_sin[int64_t{op.positions[token]} * half + pair];
  return second ? x * cosine + y * sine : x * cosine - y * sine;
}

}  // namespace

QUIRE_GPU_KERNEL(append, AppendArgs) {
  const drivers::AppendOp& op = a.op;
  const uint32_t dim_k = op.kv.side[0].head_dim;
  const uint32_t dim_v = op.kv.num_sides == 2 ? op.kv.side[1].head_dim : 0;
  for (uint64_t token = block_index(); token < op.num_slots; token += grid_size()) {
    if (op.slots[token] < 0) continue;
    const auto at = static_cast<int64_t>(token);
    const drivers::SlotPlace place = drivers::place_of_slot(op.slots[token], op.kv.block_tokens);
    for (uint32_t head = 0; head < op.kv.num_heads; ++head) {
      char* key = drivers::paged_row(op.kv.side[0], place.id, place.token, head);
      for (uint32_t d = thread_index(); d < dim_k; d += kThreads) {
        const float x = op.rope_cos != nullptr ? rotated(a, at, head, d) : load_real(a.key, drivers::element3(op.key, at, head, d));
        store_real(a.cache, key + int64_t{d} * op.kv.side[0].stride_dim, x * a.inverse_k);
      }
      if (dim_v == 0) continue;
      char* value = drivers::paged_row(op.kv.side[1], place.id, place.token, head);
      for (uint32_t d = thread_index(); d < dim_v; d += kThreads) {
        const float x = load_real(a.value, drivers::element3(op.value, at, head, d));
        store_real(a.cache, value + int64_t{d} * op.kv.side[1].stride_dim, x * a.inverse_v);
      }
    }
  }
}

// out = sum of weight * part, weight = exp(lse - top) / total; a part with lse -inf counts nothing, whatever it holds.
QUIRE_GPU_KERNEL(merge, MergeArgs) {
  const int64_t heads = a.out.shape[1];
  const auto dim = static_cast<uint32_t>(a.out.shape[2]);
  const int64_t rows = a.out.shape[0] * heads;
  const Real out = drivers::real_of(a.out.dtype);
  for (int64_t row = block_index(); row < rows; row += grid_size()) {
    const int64_t token = row / heads;
    const int64_t head = row % heads;
    float top = -infinity();
    for (uint32_t p = 0; p < a.num_parts; ++p) {
      const MergePart& m = a.part[p];
      const float lse = load_real(Real::kFloat32, m.lse + token * m.lse_stride[0] + head * m.lse_stride[1]);
      top = drivers::top_of_parts(lse, top);
    }
    float total = 0.0f;
    for (uint32_t p = 0; p < a.num_parts && top != -infinity(); ++p) {
      const MergePart& m = a.part[p];
      total += exp_of(load_real(Real::kFloat32, m.lse + token * m.lse_stride[0] + head * m.lse_stride[1]) - top);
    }
    for (uint32_t d = thread_index(); d < dim; d += kThreads) {
      float sum = 0.0f;
      for (uint32_t p = 0; p < a.num_parts && total != 0.0f; ++p) {
        const MergePart& m = a.part[p];
        const float lse = load_real(Real::kFloat32, m.lse + token * m.lse_stride[0] + head * m.lse_stride[1]);
        if (lse == -infinity()) continue;
        sum += exp_of(lse - top) * load_real(m.real, m.out + token * m.out_stride[0] + head * m.out_stride[1] + d * m.out_stride[2]);
      }
      store_real(out, drivers::element3(a.out, token, head, d), total == 0.0f ? 0.0f : sum / total);
    }
    if (thread_index() == 0 && a.lse.data != nullptr) {
      store_real(Real::kFloat32, drivers::element2(a.lse, token, head), total == 0.0f ? -infinity() : top + log_of(total));
    }
  }
}

// A block copies a piece of a run: 16 bytes a thread where both ends allow it.
QUIRE_GPU_KERNEL(copy, CopyArgs) {
  struct alignas(16) Sixteen {
    uint64_t half[2];
  };
  constexpr uint64_t kPiece = uint64_t{32} << 10;
  uint64_t piece = 0;  // of all runs
  for (uint32_t r = 0; r < a.num_runs; ++r) {
    const quire_copy_run& run = a.run[r];
    const uint64_t pieces = (run.bytes + kPiece - 1) / kPiece;
    const uint64_t mine = (block_index() + grid_size() - piece % grid_size()) % grid_size();
    for (uint64_t p = mine; p < pieces; p += grid_size()) {
      const uint64_t at = p * kPiece;
      const uint64_t bytes = run.bytes - at < kPiece ? run.bytes - at : kPiece;
      const auto* from = reinterpret_cast<const char*>(run.source + at);
      auto* to = reinterpret_cast<char*>(run.destination + at);
      const bool wide = (run.source | run.destination) % 16 == 0;
      const uint64_t wides = wide ? bytes / 16 : 0;
      for (uint64_t i = thread_index(); i < wides; i += kThreads)
        reinterpret_cast<Sixteen*>(to)[i] = reinterpret_cast<const Sixteen*>(from)[i];
      for (uint64_t i = wides * 16 + thread_index(); i < bytes; i += kThreads) to[i] = from[i];
    }
    piece += pieces;
  }
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
