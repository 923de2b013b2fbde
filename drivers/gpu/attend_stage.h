// Attention by matrix instructions, its shared memory: which blocks of keys a tile needs, and the way of Q, K and V into it.
#pragma once

#include "drivers/gpu/attend.h"
#include "drivers/gpu/mma.h"

#if QUIRE_GPU_MATRIX
namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64

inline constexpr uint32_t kWaves = kThreads / kWave;
inline constexpr uint32_t kGroups = kKeyTile / kMatrix;
inline constexpr uint32_t kPitchP = kKeyTile + kPadding;

// How K and V come: any, or both as wide as the kernel allows and 16 bytes at a time, of the format
// of Q or of 8 bits.
enum class Way : uint8_t { kAny, kHalves, kBytes };

// Shared memory. Elements of Q, K, V and P are 16 bits.
struct Room {
  int64_t *key_at, *value_at;  // [2][kKeyTile]; 0 = no row sees it
  float* parts;                // [kGroups][Matrix::kRows][kWave]: sums of weights by lane
  float* peaks;                // [kWaves][kMatrix]
  uint16_t *p, *q, *k, *v;     // [kMatrix][kPitchP], [rows][pitch_k], [kKeyTile][pitch_k], [kKeyTile][pitch_v]
  uint32_t pitch_k, pitch_v;
  bool direct_q, direct_k, direct_v;  // 16 bytes at a time
};

// Whether rows lie so that 16 bytes of them move at a time.
QUIRE_GPU_DEVICE bool comes_by_sixteens(const quire_paged_side& s, int64_t bytes) {
  if (s.stride_dim != bytes) return false;
  return drivers::multiples_of(16, s.unit, s.stride_token, s.stride_head, s.base);
}
QUIRE_GPU_DEVICE bool comes_by_sixteens(const quire_tensor& t, uint32_t dim) {
  const bool dense = t.stride[2] == 2 && dim % 8 == 0;
  return dense && drivers::multiples_of(16, t.stride[0], t.stride[1], 0, t.data);
}

QUIRE_GPU_DEVICE Room make_room(const AttentionArgs& a, drivers::Real real, uint32_t rows) {
  const quire_paged_side& key = a.job.key;
  const quire_paged_side& value = a.job.value;
  const quire_tensor& query = a.op.query;
  Room m;
  m.key_at = reinterpret_cast<int64_t*>(shared());
  m.value_at = m.key_at + 2 * kKeyTile;
  m.parts = reinterpret_cast<float*>(m.value_at + 2 * kKeyTile);
  m.peaks = m.parts + 256;
  static_assert(kGroups * Matrix::kRows * kWave <= 256, "room for parts");
  m.p = reinterpret_cast<uint16_t*>(m.peaks + 64);
  m.q = m.p + kMatrix * kPitchP;
  m.pitch_k = (key.head_dim + kMatrix - 1) / kMatrix * kMatrix + kPadding;
  m.pitch_v = (value.head_dim + kMatrix - 1) / kMatrix * kMatrix + kPadding;
  m.k = m.q + rows * m.pitch_k;
  m.v = m.k + kKeyTile * m.pitch_k;
  const auto direct = [&](const quire_paged_side& s) {
    if (a.job.cache != real || s.head_dim % 8 != 0) return false;
    return comes_by_sixteens(s, 2);
  };
  m.direct_k = direct(key);
  m.direct_v = direct(value);
  m.direct_q = comes_by_sixteens(query, key.head_dim);
  return m;
}

// The way for a kernel of V up to `wide`.
QUIRE_GPU_DEVICE Way way_of(const AttentionArgs& a, drivers::Real real, uint32_t wide) {
  const int64_t bytes = drivers::real_bytes(a.job.cache);
  for (const quire_paged_side* side : {&a.job.key, &a.job.value}) {
    if (side->head_dim != wide || !comes_by_sixteens(*side, bytes)) return Way::kAny;
  }
  return a.job.cache == real ? Way::kHalves : bytes == 1 ? Way::kBytes : Way::kAny;
}

// Rows into shared memory, `pitch` apart; row_at(j) is where row j lies, 0 = zeros. Columns behind `dim` become zeros.
template <drivers::Real kReal, typename RowAt>
QUIRE_GPU_DEVICE void stage(uint16_t* to, uint32_t pitch, uint32_t rows, uint32_t dim, int64_t stride, drivers::Real real, bool direct,
                            const RowAt& row_at) {
  const uint32_t each = direct ? 8 : 1;
  const uint32_t columns = (pitch - kPadding) / each;
  uint32_t row = thread_index() / columns;
  uint32_t column = thread_index() % columns;
  const uint32_t rows_on = kThreads / columns;
  const uint32_t columns_on = kThreads % columns;
  while (row < rows) {
    const int64_t at = row_at(row);
    const uint32_t d = column * each;
    const bool wanted = at != 0 && d < dim;
    const void* from = reinterpret_cast<const void*>(at + static_cast<int64_t>(d) * stride);
    uint16_t* place = to + row * pitch + d;
    if (direct) {
      copy_async(place, from, wanted);
    } else if (!wanted) {
      *place = 0;
    } else if (real == kReal) {
      __builtin_memcpy(place, from, 2);
    } else {
      *place = static_cast<uint16_t>(round_to<kReal>(drivers::load_real(real, from)));  // 8 bits to 16: exact
    }
    row += rows_on;
    column += columns_on;
    if (column >= columns) {
      column -= columns;
      ++row;
    }
  }
}

// Four elements of 8 bits as two registers of 16-bit ones: exact.
template <drivers::Real kReal>
QUIRE_GPU_DEVICE void widen(drivers::Real real, uint32_t four, uint32_t* out) {
  if (real == drivers::Real::kInt8) {
    float x[4];
    QUIRE_GPU_UNROLL
    for (uint32_t e = 0; e < 4; ++e) x[e] = static_cast<float>(static_cast<int8_t>(four >> e * 8));
    out[0] = pair<kReal>(x[0], x[1]);
    out[1] = pair<kReal>(x[2], x[3]);
    return;
  }
#if defined(QUIRE_GPU_CUDA) && __CUDA_ARCH__ >= 890
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < 2; ++i) {
    const auto two = static_cast<uint16_t>(four >> i * 16);
    if (real == drivers::Real::kFp8E4m3) {
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out[i]) : "h"(two));
    } else {
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(out[i]) : "h"(two));
    }
    if (kReal == drivers::Real::kFloat16) continue;
    float x;
    float y;
    asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}" : "=f"(x), "=f"(y) : "r"(out[i]));
    out[i] = pair<kReal>(x, y);
  }
#else
  float x[4];
  QUIRE_GPU_UNROLL
  for (uint32_t e = 0; e < 4; ++e) {
    const uint32_t byte = four >> e * 8;  // its lowest 8 bits are read
    x[e] = drivers::load_real(real, &byte);
  }
  out[0] = pair<kReal>(x[0], x[1]);
  out[1] = pair<kReal>(x[2], x[3]);
#endif
}

// The same of kRows rows of kWide elements, 16 bytes at a time, all known where this is compiled: a
// thread stays in its column.
template <uint32_t kWide, uint32_t kRows, typename RowAt>
QUIRE_GPU_DEVICE void stage_halves(uint16_t* to, const RowAt& row_at) {
  constexpr uint32_t kColumns = kWide / 8;
  constexpr uint32_t kRowsOn = kThreads / kColumns;
  static_assert(kThreads % kColumns == 0 && kRows % kRowsOn == 0);
  const uint32_t row = thread_index() / kColumns;
  const uint32_t column = thread_index() % kColumns;
  uint16_t* place = to + row * (kWide + kPadding) + column * 8;
  QUIRE_GPU_UNROLL
  for (uint32_t n = 0; n < kRows; n += kRowsOn) {
    const int64_t at = row_at(row + n);
    const auto* from = reinterpret_cast<const void*>(at + column * 16);
    copy_async(place + n * (kWide + kPadding), from, at != 0);
  }
}

// And of 8-bit elements, 16 at a time, widened; all that a thread brings is on its way before the
// first is.
template <drivers::Real kReal, uint32_t kWide, uint32_t kRows, typename RowAt>
QUIRE_GPU_DEVICE void stage_bytes(uint16_t* to, drivers::Real real, const RowAt& row_at) {
  constexpr uint32_t kColumns = kWide / 16;
  constexpr uint32_t kRowsOn = kThreads / kColumns;
  constexpr uint32_t kLoads = kRows / kRowsOn;
  static_assert(kThreads % kColumns == 0 && kRows % kRowsOn == 0);
  const uint32_t row = thread_index() / kColumns;
  const uint32_t column = thread_index() % kColumns;
  Sixteen x[kLoads];
  QUIRE_GPU_UNROLL
  for (uint32_t n = 0; n < kLoads; ++n) {
    const int64_t at = row_at(row + n * kRowsOn);
    x[n] = {};
    if (at != 0) x[n] = *reinterpret_cast<const Sixteen*>(at + column * 16);
  }
  auto* place = to + row * (kWide + kPadding) + column * 16;
  QUIRE_GPU_UNROLL
  for (uint32_t n = 0; n < kLoads; ++n) {
    Sixteen wide[2];
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < 4; ++i) widen<kReal>(real, x[n].word[i], wide[i / 2].word + i % 2 * 2);
    // Every other four lanes begin with their second half, so that eight lanes meet all banks.
    const uint32_t turn = column / 4 % 2;
    auto* at = reinterpret_cast<Sixteen*>(place + n * kRowsOn * (kWide + kPadding));
    at[turn] = turn != 0 ? wide[1] : wide[0];
    at[turn ^ 1] = turn != 0 ? wide[0] : wide[1];
  }
}

enum class Cover : uint8_t { kNone, kSome, kAll };

// How much of a block the rows of the tile see, as far as a few comparisons tell.
QUIRE_GPU_DEVICE Cover cover_of(const Tile& w, int64_t block) {
  const drivers::AttentionOp& op = w.a.op;
  const int64_t end = block + kKeyTile;
  const int64_t first = w.position + w.query_begin;
  const int64_t last = w.position + w.query_end - 1;
  if (end <= w.record.kv_begin) return Cover::kNone;
  bool all = block >= w.record.kv_begin && end <= w.record.kv_end && op.mask_bits == nullptr;
  if ((op.flags & QUIRE_ATTENTION_CAUSAL) != 0) {
    if (block > last) return Cover::kNone;
    all = all && end - 1 <= first;
  }
  if (op.window != 0) {
    const auto window = static_cast<int64_t>(op.window);
    const auto sinks = static_cast<int64_t>(op.sink_tokens);
    if (end - 1 <= first - window && block >= sinks) return Cover::kNone;
    all = all && (block > last - window || end <= sinks);
  }
  if (op.chunk != 0) {
    if (first > 0 && end <= static_cast<uint32_t>(first) / op.chunk * op.chunk) return Cover::kNone;
    all = all && (last <= 0 || block >= static_cast<uint32_t>(last) / op.chunk * op.chunk);
  }
  return all ? Cover::kAll : Cover::kSome;
}

// The first block from `block` on of which any row sees anything, or one behind the record's keys; where its rows lie. A barrier, unless
// there is none.
QUIRE_GPU_DEVICE int64_t find_block(const Tile& w, const Room& m, uint32_t slot, int64_t block, bool* whole) {
  const uint32_t t = thread_index();
  for (; block < w.record.kv_end; block += kKeyTile) {
    const Cover cover = cover_of(w, block);
    if (cover == Cover::kNone) continue;
    bool seen = false;
    if (t < kKeyTile) {
      seen = cover == Cover::kAll;
      for (uint32_t q = w.query_end; !seen && q > w.query_begin; --q) {
        seen = sees(w, q - 1, block + t);
      }
      int64_t* key_at = m.key_at + slot * kKeyTile + t;
      int64_t* value_at = m.value_at + slot * kKeyTile + t;
      *key_at = *value_at = 0;
      if (seen) locate(w, block + t, key_at, value_at);
    }
    if (sync_or(seen)) {
      *whole = cover == Cover::kAll;
      return block;
    }
  }
  return block;
}

template <Real kReal, Way kWay, uint32_t kWide>
QUIRE_GPU_DEVICE void stage_side(const Tile& w, const quire_paged_side& side, bool direct, const int64_t* at, uint32_t pitch,
                                 uint16_t* to) {
  const auto row_at = [at](uint32_t r) { return at[r]; };
  if constexpr (kWay == Way::kHalves) {
    stage_halves<kWide, kKeyTile>(to, row_at);
  } else if constexpr (kWay == Way::kBytes) {
    stage_bytes<kReal, kWide, kKeyTile>(to, w.a.job.cache, row_at);
  } else {
    stage<kReal>(to, pitch, kKeyTile, side.head_dim, side.stride_dim, w.a.job.cache, direct, row_at);
  }
}

template <Real kReal, Way kWay, uint32_t kWide>
QUIRE_GPU_DEVICE void stage_keys(const Tile& w, const Room& m, uint32_t slot) {
  const int64_t* at = m.key_at + slot * kKeyTile;
  stage_side<kReal, kWay, kWide>(w, w.a.job.key, m.direct_k, at, m.pitch_k, m.k);
}

template <Real kReal, Way kWay, uint32_t kWide>
QUIRE_GPU_DEVICE void stage_values(const Tile& w, const Room& m, uint32_t slot) {
  const int64_t* at = m.value_at + slot * kKeyTile;
  stage_side<kReal, kWay, kWide>(w, w.a.job.value, m.direct_v, at, m.pitch_v, m.v);
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
#endif
