// Attention by matrix instructions, what a lane does with the sums of its rows: logits and their masks, weights, the end of a row. Rows are
// spread over lanes as the maps of mma.h say.
#pragma once

#include "drivers/gpu/attend.h"
#include "drivers/gpu/mma.h"

#if QUIRE_GPU_MATRIX
namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): addresses are computed in 64 bits
inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.693147180559945309417f;

// What a lane knows of its rows.
struct Rows {
  uint32_t row[Matrix::kRows];  // of the tile; may be behind its last
  uint32_t query[Matrix::kRows];
};

// Before the first key: row_of(i) is the row of the tile that element i of a C is in; o[0..kMine) are the sums.
template <uint32_t kMine, typename RowOf>
QUIRE_GPU_DEVICE void begin_rows(const Tile& w, Rows* mine, float* top, float* total, FragmentC<Matrix>* o, const RowOf& row_of) {
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < Matrix::kC; ++i) mine->row[Matrix::slot(i)] = row_of(i);
  QUIRE_GPU_UNROLL
  for (uint32_t r = 0; r < Matrix::kRows; ++r) {
    const bool real = mine->row[r] < w.rows;
    mine->query[r] = real ? query_of(w, mine->row[r]) : 0;
    top[r] = -infinity();
    total[r] = 0.0f;
  }
  QUIRE_GPU_UNROLL
  for (uint32_t n = 0; n < kMine; ++n) o[n] = {};
}

// Nothing happens to logits but that some are hidden; they are scaled where they are weighed.
QUIRE_GPU_DEVICE bool plain_logits(const Tile& w) {
  const drivers::AttentionOp& op = w.a.op;
  const bool bent = op.softcap != 0.0f || op.alibi_slopes != nullptr;
  return !bent && op.mask_bits == nullptr && w.a.job.scale > 0.0f;
}

// By which logits come to base 2 where they are weighed.
QUIRE_GPU_DEVICE float scale_of_logits(const Tile& w, bool plain) {
  const float scale = w.a.job.scale * kLog2E;
  return plain ? scale : 1.0f;
}

// Softcap, positions and the scale, in base 2.
QUIRE_GPU_DEVICE void bend(const Tile& w, const Rows& mine, int32_t keys, FragmentC<Matrix>* s) {
  const drivers::AttentionOp& op = w.a.op;
  const uint32_t lane = thread_index() % kWave;
  const float scale = op.softcap != 0.0f ? w.a.job.scale : w.a.job.scale * kLog2E;
  float slope[Matrix::kRows] = {};  // of positions
  QUIRE_GPU_UNROLL
  for (uint32_t r = 0; r < Matrix::kRows; ++r) {
    if (op.alibi_slopes == nullptr || mine.row[r] >= w.rows) continue;
    slope[r] = op.alibi_slopes[head_of(w, mine.row[r])] * kLog2E;
  }
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < Matrix::kC; ++i) {
    const uint32_t r = Matrix::slot(i);
    float x = s->x[i] * scale;
    if (op.softcap != 0.0f) x = tanh_of(quotient(x, op.softcap)) * (op.softcap * kLog2E);
    if (op.alibi_slopes != nullptr) {
      const auto at = static_cast<int32_t>(w.position + mine.query[r]);
      const int32_t key = keys + static_cast<int32_t>(Matrix::c(lane, i).column);
      x += slope[r] * static_cast<float>(key - at);
    }
    s->x[i] = x;
  }
}

// Logits of keys [keys, keys + 16), hidden where a row does not see the key, and the largest of
// each row. They are yet to be scaled by scale_of_logits.
QUIRE_GPU_DEVICE void mask(const Tile& w, const Rows& mine, int32_t keys, bool plain, bool whole, FragmentC<Matrix>* s, float* peak) {
  const drivers::AttentionOp& op = w.a.op;
  const uint32_t lane = thread_index() % kWave;
  if (!plain) bend(w, mine, keys, s);
  if (!whole) {
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < Matrix::kRows; ++r) {
      Sight sight = sight_of(w, mine.query[r]);
      if (mine.row[r] >= w.rows) sight.end = 0;
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < Matrix::kC; ++i) {
        const int32_t key = keys + static_cast<int32_t>(Matrix::c(lane, i).column);
        if (Matrix::slot(i) == r && !sees(sight, key)) s->x[i] = -infinity();
      }
    }
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < Matrix::kC; ++i) {
      if (op.mask_bits == nullptr) break;
      const uint32_t r = Matrix::slot(i);
      const int32_t key = keys + static_cast<int32_t>(Matrix::c(lane, i).column);
      if (s->x[i] != -infinity() && !allowed(w, mine.query[r], key)) s->x[i] = -infinity();
    }
  }
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < Matrix::kC; ++i) {
    float& largest = peak[Matrix::slot(i)];
    largest = larger(s->x[i], largest);
  }
}

// The rows' largest logits so far, scaled: what remains of earlier sums, and what weights are taken
// against.
QUIRE_GPU_DEVICE void raise(const float* peak, float scale, float* top, float* keep, float* base) {
  QUIRE_GPU_UNROLL
  for (uint32_t r = 0; r < Matrix::kRows; ++r) {
    const float before = top[r];
    top[r] = larger(peak[r] * scale, before);
    keep[r] = before == top[r] ? 1.0f : exp2_of(before - top[r]);
    base[r] = top[r] == -infinity() ? 0.0f : top[r];  // so that what is hidden has weight zero
  }
}

// Logits to weights, and the lane's sums of them by row.
QUIRE_GPU_DEVICE void weigh(FragmentC<Matrix>* s, float scale, const float* base, float* sum) {
  QUIRE_GPU_UNROLL
  for (uint32_t r = 0; r < Matrix::kRows; ++r) sum[r] = 0.0f;
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < Matrix::kC; ++i) {
    const uint32_t r = Matrix::slot(i);
    s->x[i] = exp2_of(s->x[i] * scale - base[r]);
    sum[r] += s->x[i];
  }
}

// Bits of a result: the format of Q, or bf16 for fp16.
template <Real kReal>
QUIRE_GPU_DEVICE void store_half(Real out, void* to, float x) {
  const uint32_t both = kReal == Real::kBfloat16 || out == Real::kBfloat16 ? pair<Real::kBfloat16>(x, 0.0f) : pair<Real::kFloat16>(x, 0.0f);
  const auto bits = static_cast<uint16_t>(both);
  __builtin_memcpy(to, &bits, sizeof bits);
}

// totals: the lane's.
template <Real kReal, uint32_t kMine>
QUIRE_GPU_DEVICE void finish(const Tile& w, const Rows& mine, const FragmentC<Matrix>* o, const float* top, const float* totals,
                             uint32_t first_column, uint32_t columns_on) {
  const drivers::AttentionOp& op = w.a.op;
  const uint32_t lane = thread_index() % kWave;
  const uint32_t dim_v = w.a.job.value.head_dim;
  float total[Matrix::kRows];
  QUIRE_GPU_UNROLL
  for (uint32_t r = 0; r < Matrix::kRows; ++r) total[r] = row_sum<Matrix>(totals[r]);
  QUIRE_GPU_UNROLL
  for (uint32_t r = 0; r < Matrix::kRows; ++r) {
    if (mine.row[r] >= w.rows) continue;
    const bool empty = total[r] == 0.0f;
    const float lse = empty ? -infinity() : (top[r] + log2_of(total[r])) * kLn2;
    const float factor = empty ? 0.0f : quotient(w.a.job.scale_v, total[r]);
    const uint32_t head = head_of(w, mine.row[r]);
    const bool split = w.record.partial >= 0;
    const uint64_t row = static_cast<uint64_t>(w.record.partial) + uint64_t{mine.query[r]} * w.record.heads + (head - w.record.head);
    float* part = w.a.job.partials + (split ? row * drivers::partial_width(dim_v) : 0);
    const Ending end = split ? Ending{1.0f, lse} : with_sink(op, head, lse);
    const int64_t token = w.token + mine.query[r];
    QUIRE_GPU_UNROLL
    for (uint32_t n = 0; n < kMine; ++n) {
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < Matrix::kC; ++i) {
        const uint32_t d = first_column + n * columns_on + Matrix::c(lane, i).column;
        if (Matrix::slot(i) != r || d >= dim_v) continue;
        const float x = empty ? 0.0f : o[n].x[i] * factor * end.factor;
        if (split) {
          part[d] = x;
        } else {
          store_half<kReal>(w.a.job.out, drivers::element3(op.out, token, head, d), x);
        }
      }
    }
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < Matrix::kC; ++i) {
      if (Matrix::slot(i) != r || first_column + Matrix::c(lane, i).column != 0) continue;  // one lane of a row
      if (split) {
        part[dim_v] = lse;
      } else if (op.lse.data != nullptr) {
        drivers::store_real(Real::kFloat32, drivers::element2(op.lse, token, head), end.lse);
      }
    }
  }
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
#endif
