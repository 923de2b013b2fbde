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

// Shared memory. Elements of Q, K, V and P are 16 bits.
struct Room {
  int64_t *key_at, *value_at;  // [2][kKeyTile]; 0 = no row sees it
  float* parts;                // [kGroups][Matrix::kRows][kWave]: sums of weights by lane
  float* peaks;                // [kWaves][kMatrix]
  uint16_t *p, *q, *k, *v;     // [kMatrix][kPitchP], [rows][pitch_k], [kKeyTile][pitch_k], [kKeyTile][pitch_v]
  uint32_t pitch_k, pitch_v;
  uint32_t row_k, row_v;              // bytes of a row whose elements lie one behind the other, else 0
  bool direct_q, direct_k, direct_v;  // 16 bytes at a time
  bool bytes_k, bytes_v;              // 16 elements of 8 bits at a time
};

QUIRE_GPU_DEVICE bool sixteens(int64_t a, int64_t b, int64_t c) { return ((a | b | c) & 15) == 0; }

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
    return a.job.cache == real && s.stride_dim == 2 && s.head_dim % 8 == 0 && sixteens(s.unit, s.stride_token, s.stride_head) &&
           sixteens(reinterpret_cast<int64_t>(s.base), 0, 0);
  };
  const auto bytes = static_cast<uint32_t>(drivers::real_bytes(a.job.cache));
  m.row_k = key.stride_dim == bytes ? key.head_dim * bytes : 0;
  m.row_v = value.stride_dim == bytes ? value.head_dim * bytes : 0;
  m.direct_k = direct(key);
  m.direct_v = direct(value);
  const auto sixteen = [&](const quire_paged_side& s) {
    return bytes == 1 && s.stride_dim == 1 && s.head_dim % 16 == 0 && sixteens(s.unit, s.stride_token, s.stride_head) &&
           sixteens(reinterpret_cast<int64_t>(s.base), 0, 0);
  };
  m.bytes_k = sixteen(key);
  m.bytes_v = sixteen(value);
  m.direct_q =
      query.stride[2] == 2 && key.head_dim % 8 == 0 && sixteens(query.stride[0], query.stride[1], reinterpret_cast<int64_t>(query.data));
  return m;
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

// Rows of 8-bit elements into shared memory, 16 at a time; as many as a thread has on their way before the first is widened.
template <drivers::Real kReal, typename RowAt>
QUIRE_GPU_DEVICE void stage_bytes(uint16_t* to, uint32_t pitch, uint32_t rows, uint32_t dim, drivers::Real real, const RowAt& row_at) {
  struct alignas(16) Sixteen {
    uint32_t word[4];
  };
  constexpr uint32_t kLoads = 4;
  const uint32_t columns = dim / 16;
  const uint32_t all = rows * columns;
  for (uint32_t first = thread_index(); first < all; first += kLoads * kThreads) {
    Sixteen x[kLoads] = {};
    QUIRE_GPU_UNROLL
    for (uint32_t n = 0; n < kLoads; ++n) {
      const uint32_t i = first + n * kThreads;
      const int64_t at = i < all ? row_at(i / columns) : 0;
      if (at != 0) x[n] = *reinterpret_cast<const Sixteen*>(at + i % columns * 16);
    }
    QUIRE_GPU_UNROLL
    for (uint32_t n = 0; n < kLoads; ++n) {
      const uint32_t i = first + n * kThreads;
      if (i >= all) break;
      Sixteen wide[2];
      QUIRE_GPU_UNROLL
      for (uint32_t w = 0; w < 4; ++w) widen<kReal>(real, x[n].word[w], wide[w / 2].word + w % 2 * 2);
      auto* place = reinterpret_cast<Sixteen*>(to + i / columns * pitch + i % columns * 16);
      place[0] = wide[0];
      place[1] = wide[1];
    }
  }
}

enum class Cover : uint8_t { kNone, kSome, kAll };

// How much of a block the rows of the tile see, as far as a few comparisons tell.
QUIRE_GPU_DEVICE Cover cover_of(const Tile& w, int64_t block) {
  const drivers::AttentionOp& op = w.a.op;
  const int64_t end = block + kKeyTile;
  const int64_t first = w.position + query_of(w, 0);
  const int64_t last = w.position + query_of(w, w.rows - 1);
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

// Ids of a thread's key in blocks to come, so that neither their places nor their bytes are waited for: of `block` and the one behind it.
struct Ahead {
  int64_t block;  // -1: of none
  int32_t id, next;
};

QUIRE_GPU_DEVICE int32_t id_of(const Tile& w, int64_t key) {
  return key < w.record.kv_end ? w.a.op.table[w.record.row * w.a.op.table_pitch + static_cast<uint32_t>(key) / w.a.op.kv.block_tokens] : -1;
}

// Where a row of a key lies.
QUIRE_GPU_DEVICE int64_t row_at(const Tile& w, const quire_paged_side& side, int64_t key, int64_t id) {
  const auto within = static_cast<int64_t>(static_cast<uint32_t>(key) % w.a.op.kv.block_tokens);
  return reinterpret_cast<int64_t>(drivers::paged_row(side, id, within, w.kv_head));
}

QUIRE_GPU_DEVICE void prefetch_row(int64_t at, uint32_t bytes) {
  for (uint32_t b = 0; b < bytes; b += 128) prefetch(reinterpret_cast<const void*>(at + b));
}

// What comes behind the keys of `block` is asked for: their values, and the keys of the next block.
QUIRE_GPU_DEVICE void look_ahead(const Tile& w, const Room& m, int64_t block, int64_t value_at, Ahead* ahead) {
  const int64_t key = block + thread_index();
  if (ahead->block == block) {
    ahead->id = ahead->next;
  } else {
    ahead->id = id_of(w, key + kKeyTile);
  }
  ahead->block = block + kKeyTile;
  ahead->next = id_of(w, key + 2 * kKeyTile);
  if (m.row_v != 0 && value_at != 0) prefetch_row(value_at, m.row_v);
  if (m.row_k != 0 && ahead->id >= 0) prefetch_row(row_at(w, w.a.job.key, key + kKeyTile, ahead->id), m.row_k);
}

// The first block from `block` on of which any row sees anything, or one behind the record's keys; where its rows lie. A barrier, unless
// there is none.
QUIRE_GPU_DEVICE int64_t find_block(const Tile& w, const Room& m, uint32_t slot, int64_t block, bool* whole, Ahead* ahead) {
  const uint32_t t = thread_index();
  for (; block < w.record.kv_end; block += kKeyTile) {
    const Cover cover = cover_of(w, block);
    if (cover == Cover::kNone) continue;
    bool seen = false;
    if (t < kKeyTile) {
      seen = cover == Cover::kAll;
      const uint32_t first = query_of(w, 0);
      for (uint32_t q = query_of(w, w.rows - 1) + 1; !seen && q > first; --q) seen = sees(w, q - 1, block + t);
      int64_t key_at = 0;
      int64_t value_at = 0;
      if (seen) {
        const int64_t id = ahead->block == block ? ahead->id : id_of(w, block + t);
        key_at = row_at(w, w.a.job.key, block + t, id);
        value_at = row_at(w, w.a.job.value, block + t, id);
      }
      m.key_at[slot * kKeyTile + t] = key_at;
      m.value_at[slot * kKeyTile + t] = value_at;
      look_ahead(w, m, block, value_at, ahead);
    }
    if (sync_or(seen)) {
      *whole = cover == Cover::kAll;
      return block;
    }
  }
  return block;
}

template <Real kReal>
QUIRE_GPU_DEVICE void stage_keys(const Tile& w, const Room& m, uint32_t slot) {
  const quire_paged_side& side = w.a.job.key;
  const int64_t* at = m.key_at + slot * kKeyTile;
  if (m.bytes_k) {
    stage_bytes<kReal>(m.k, m.pitch_k, kKeyTile, side.head_dim, w.a.job.cache, [at](uint32_t r) { return at[r]; });
    return;
  }
  stage<kReal>(m.k, m.pitch_k, kKeyTile, side.head_dim, side.stride_dim, w.a.job.cache, m.direct_k, [at](uint32_t r) { return at[r]; });
}

template <Real kReal>
QUIRE_GPU_DEVICE void stage_values(const Tile& w, const Room& m, uint32_t slot) {
  const quire_paged_side& side = w.a.job.value;
  const int64_t* at = m.value_at + slot * kKeyTile;
  if (m.bytes_v) {
    stage_bytes<kReal>(m.v, m.pitch_v, kKeyTile, side.head_dim, w.a.job.cache, [at](uint32_t r) { return at[r]; });
    return;
  }
  stage<kReal>(m.v, m.pitch_v, kKeyTile, side.head_dim, side.stride_dim, w.a.job.cache, m.direct_v, [at](uint32_t r) { return at[r]; });
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
#endif
