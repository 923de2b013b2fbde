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

// One side of the rows that come, and where it goes.
struct Incoming {
  const quire_tensor& from;
  const quire_paged_side& side;
  Real real, cache;
  float inverse;

  // Eight elements are read as 16 bytes, and written at once.
  QUIRE_GPU_DEVICE bool eights() const {
    const int64_t bytes = drivers::real_bytes(cache);
    return drivers::real_bytes(real) == 2 && bytes <= 2 && from.stride[2] == 2 && side.stride_dim == bytes && side.head_dim % 8 == 0 &&
           drivers::multiples_of(16, from.stride[0], from.stride[1], 0, from.data) &&
           drivers::multiples_of(static_cast<uint64_t>(8 * bytes), side.unit, side.stride_token, side.stride_head, side.base);
  }
  QUIRE_GPU_DEVICE bool unchanged() const { return real == cache && inverse == 1.0f; }
  QUIRE_GPU_DEVICE uint32_t pieces(uint32_t heads) const { return heads * (side.head_dim / 8); }
  QUIRE_GPU_DEVICE Sixteen read(int64_t token, uint32_t piece) const {
    const uint32_t each = side.head_dim / 8;
    return *reinterpret_cast<const Sixteen*>(drivers::element3(from, token, piece / each, piece % each * 8));
  }
  QUIRE_GPU_DEVICE void write(const drivers::SlotPlace& place, uint32_t piece, Sixteen x) const {
    const uint32_t each = side.head_dim / 8;
    const int64_t bytes = drivers::real_bytes(cache);
    char* to = drivers::paged_row(side, place.id, place.token, piece / each) + piece % each * 8 * bytes;
    if (!unchanged()) {
      Sixteen y{};
      QUIRE_GPU_UNROLL
      for (uint32_t e = 0; e < 8; ++e) {
        const uint32_t in = x.word[e / 2] >> e % 2 * 16;  // its lower half
        uint32_t out = 0;
        store_real(cache, &out, load_real(real, &in) * inverse);
        if (bytes == 2) {
          y.word[e / 2] |= out << e % 2 * 16;
        } else {
          y.word[e / 4] |= out << e % 4 * 8;
        }
      }
      x = y;
    }
    if (bytes == 2) {
      *reinterpret_cast<Sixteen*>(to) = x;
    } else {
      *reinterpret_cast<uint64_t*>(to) = x.word[0] | uint64_t{x.word[1]} << 32;
    }
  }
};

// Any formats and strides, rope included, an element at a time.
QUIRE_GPU_DEVICE void append_elements(const AppendArgs& a, const Incoming& in, bool rope, int64_t token, const drivers::SlotPlace& place) {
  const uint32_t dim = in.side.head_dim;
  for (uint32_t i = thread_index(); i < a.op.kv.num_heads * dim; i += kThreads) {
    const uint32_t head = i / dim;
    const uint32_t d = i % dim;
    const float x = rope ? rotated(a, token, head, d) : load_real(in.real, drivers::element3(in.from, token, head, d));
    store_real(in.cache, drivers::paged_row(in.side, place.id, place.token, head) + int64_t{d} * in.side.stride_dim, x * in.inverse);
  }
}

}  // namespace

// A block takes a token; both sides are on their way before either is written, and the next slot before both.
QUIRE_GPU_KERNEL(append, AppendArgs) {
  const drivers::AppendOp& op = a.op;
  const Incoming key{op.key, op.kv.side[0], a.key, a.cache, a.inverse_k};
  const Incoming value{op.value, op.kv.side[1], a.value, a.cache, a.inverse_v};
  const bool rope = op.rope_cos != nullptr;
  const bool two = op.kv.num_sides == 2;
  const bool key_eights = !rope && key.eights();
  const bool value_eights = two && value.eights();
  const uint32_t keys = key_eights ? key.pieces(op.kv.num_heads) : 0;
  const uint32_t values = value_eights ? value.pieces(op.kv.num_heads) : 0;
  int64_t slot = block_index() < op.num_slots ? op.slots[block_index()] : -1;
  for (uint64_t t = block_index(); t < op.num_slots; t += grid_size()) {
    const int64_t next = t + grid_size() < op.num_slots ? op.slots[t + grid_size()] : -1;
    if (slot >= 0) {
      const auto token = static_cast<int64_t>(t);
      const drivers::SlotPlace place = drivers::place_of_slot(slot, op.kv.block_tokens);
      for (uint32_t i = thread_index(); i < keys || i < values; i += kThreads) {
        Sixteen x{};
        Sixteen y{};
        if (i < keys) x = key.read(token, i);
        if (i < values) y = value.read(token, i);
        if (i < keys) key.write(place, i, x);
        if (i < values) value.write(place, i, y);
      }
      if (!key_eights) append_elements(a, key, rope, token, place);
      if (two && !value_eights) append_elements(a, value, false, token, place);
    }
    slot = next;
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

namespace {

// A wave copies a piece of a run: 16 bytes a lane where both ends allow it, all of them on their way before the first is written.
template <typename Args>
QUIRE_GPU_DEVICE void copy_runs(const Args& a) {
  constexpr uint32_t kLoads = kCopyPiece / (kWave * sizeof(Sixteen));
  const uint32_t lane = thread_index() % kWave;
  const uint32_t waves = kThreads / kWave;
  for (uint32_t piece = block_index() * waves + thread_index() / kWave; piece < a.first[a.num_runs]; piece += grid_size() * waves) {
    uint32_t r = 0;
    for (uint32_t end = a.num_runs; end - r > 1;) {
      const uint32_t middle = r + (end - r) / 2;
      if (a.first[middle] <= piece) {
        r = middle;
      } else {
        end = middle;
      }
    }
    const quire_copy_run& run = a.run[r];
    const uint64_t at = uint64_t{piece - a.first[r]} * kCopyPiece;
    const uint64_t bytes = run.bytes - at < kCopyPiece ? run.bytes - at : kCopyPiece;
    const auto* from = reinterpret_cast<const char*>(run.source + at);
    auto* to = reinterpret_cast<char*>(run.destination + at);
    const uint64_t ends = run.source | run.destination;
    if (ends % 16 == 0 && bytes == kCopyPiece) {
      Sixteen x[kLoads];
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < kLoads; ++i) x[i] = reinterpret_cast<const Sixteen*>(from)[i * kWave + lane];
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < kLoads; ++i) reinterpret_cast<Sixteen*>(to)[i * kWave + lane] = x[i];
      continue;
    }
    const uint64_t each = ends % 16 == 0 ? 16 : ends % 4 == 0 ? 4 : 1;
    for (uint64_t i = lane; i < bytes / each; i += kWave) {
      if (each == 16) {
        reinterpret_cast<Sixteen*>(to)[i] = reinterpret_cast<const Sixteen*>(from)[i];
      } else if (each == 4) {
        reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(from)[i];
      } else {
        to[i] = from[i];
      }
    }
    for (uint64_t i = bytes / each * each + lane; i < bytes; i += kWave) to[i] = from[i];
  }
}

}  // namespace

QUIRE_GPU_KERNEL(copy, CopyArgs) { copy_runs(a); }
#if defined(QUIRE_GPU_HIP) || (defined(QUIRE_GPU_CUDA) && __CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ < 1)  // not launched there
QUIRE_GPU_KERNEL(copy_many, CopyArgs) { trap(); }
#else
QUIRE_GPU_KERNEL(copy_many, CopyManyArgs) { copy_runs(a); }
#endif

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
