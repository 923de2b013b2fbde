// Attention of planned records with plain dot products, and the folding of split ones. A block takes a record; eight query rows of one KV
// head share a pass over its keys, 64 at a time, with an online softmax in fp32. What no row of the pass sees is not read, so whatever lies
// there (NaN included) cannot reach a result. The order of arithmetic depends on the record and on logical positions only.
#include "drivers/gpu/attend.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64
namespace {

using drivers::load_real;
using drivers::store_real;

struct Pass : Tile {
  float *q, *o, *k, *s, *top, *total, *keep;
  int64_t *key_at, *value_at;
  uint32_t* any;
};

// Which rows see which keys, and where each key's rows lie. True where any row sees any key.
QUIRE_GPU_DEVICE bool find_keys(const Pass& w, int64_t block) {
  const uint32_t t = thread_index();
  bool mine = false;
  if (t < kKeyTile) {
    uint32_t seen = 0;
    for (uint32_t r = 0; r < w.rows; ++r) seen |= sees(w, query_of(w, r), block + t) ? 1u << r : 0u;
    w.any[t] = seen;
    mine = seen != 0;
    if (mine) locate(w, block + t, w.key_at + t, w.value_at + t);
  }
  return sync_or(mine);
}

// s[row][key] = q[row] . k[key], K staged in shared memory by kDimTile elements; a thread has one key and four rows.
QUIRE_GPU_DEVICE void score(const Pass& w) {
  constexpr uint32_t kMine = kRowTile / (kThreads / kKeyTile);
  const quire_paged_side& side = w.a.job.key;
  const uint32_t key = thread_index() % kKeyTile;
  const uint32_t row = thread_index() / kKeyTile * kMine;
  float sums[kMine] = {};
  for (uint32_t d0 = 0; d0 < side.head_dim; d0 += kDimTile) {
    const uint32_t n = side.head_dim - d0 < kDimTile ? side.head_dim - d0 : kDimTile;
    for (uint32_t i = thread_index(); i < kKeyTile * kDimTile; i += kThreads) {
      const uint32_t j = i / kDimTile;
      const uint32_t d = i % kDimTile;
      const bool wanted = w.any[j] != 0 && d < n;
      const int64_t dim = static_cast<int64_t>(d0 + d) * side.stride_dim;
      w.k[j * (kDimTile + 1) + d] = wanted ? load_real(w.a.job.cache, reinterpret_cast<const char*>(w.key_at[j]) + dim) : 0.0f;
    }
    sync();
    for (uint32_t d = 0; d < n; ++d) {
      const float x = w.k[key * (kDimTile + 1) + d];
      for (uint32_t r = 0; r < kMine; ++r) sums[r] += w.q[(row + r) * side.head_dim + d0 + d] * x;
    }
    sync();
  }
  for (uint32_t r = 0; r < kMine; ++r) w.s[(row + r) * kKeyTile + key] = sums[r];
  sync();
}

// Logits to weights; a wave has every (kThreads / kWave)th row. keep[row]: what remains of earlier sums.
QUIRE_GPU_DEVICE void weigh(const Pass& w, int64_t block) {
  const drivers::AttentionOp& op = w.a.op;
  const uint32_t lane = thread_index() % kWave;
  for (uint32_t r = thread_index() / kWave; r < kRowTile; r += kThreads / kWave) {
    if (r >= w.rows) {
      for (uint32_t t = lane; t < kKeyTile; t += kWave) w.s[r * kKeyTile + t] = 0.0f;
      if (lane == 0) w.keep[r] = 1.0f;
      continue;
    }
    const float slope = op.alibi_slopes != nullptr ? op.alibi_slopes[head_of(w, r)] : 0.0f;
    const int64_t at = w.position + query_of(w, r);
    float peak = -infinity();
    for (uint32_t t = lane; t < kKeyTile; t += kWave) {
      float x = w.s[r * kKeyTile + t];
      if (op.softcap != 0.0f) x = tanh_of(quotient(x, op.softcap)) * op.softcap;
      if (op.alibi_slopes != nullptr) x += slope * static_cast<float>(block + t - at);
      x = (w.any[t] >> r & 1) != 0 ? x : -infinity();
      w.s[r * kKeyTile + t] = x;
      peak = x > peak ? x : peak;
    }
    peak = wave_max(peak);
    const float before = w.top[r];
    const float top = peak > before ? peak : before;
    float sum = 0.0f;
    for (uint32_t t = lane; t < kKeyTile; t += kWave) {
      const float x = w.s[r * kKeyTile + t];
      const float p = x == -infinity() ? 0.0f : exp_of(x - top);
      w.s[r * kKeyTile + t] = p;
      sum += p;
    }
    sum = wave_sum(sum);
    sync_wave();  // all lanes have read `before`
    if (lane == 0) {
      const float keep = before == top ? 1.0f : exp_of(before - top);
      w.keep[r] = keep;
      w.top[r] = top;
      w.total[r] = w.total[r] * keep + sum;
    }
  }
  sync();
}

// o[row] = keep * o[row] + weights * V; a thread has every 128th element and reads it once for all rows.
QUIRE_GPU_DEVICE void gather(const Pass& w) {
  const quire_paged_side& side = w.a.job.value;
  for (uint32_t d = thread_index(); d < side.head_dim; d += kThreads) {
    float sums[kRowTile];
    for (uint32_t r = 0; r < kRowTile; ++r) sums[r] = w.o[r * side.head_dim + d] * w.keep[r];
    for (uint32_t t = 0; t < kKeyTile; ++t) {
      if (w.any[t] == 0) continue;
      const char* from = reinterpret_cast<const char*>(w.value_at[t]) + static_cast<int64_t>(d) * side.stride_dim;
      const float x = load_real(w.a.job.cache, from);
      for (uint32_t r = 0; r < kRowTile; ++r) sums[r] += w.s[r * kKeyTile + t] * x;
    }
    for (uint32_t r = 0; r < kRowTile; ++r) w.o[r * side.head_dim + d] = sums[r];
  }
  sync();
}

QUIRE_GPU_DEVICE void load_queries(const Pass& w) {
  const drivers::AttentionOp& op = w.a.op;
  const uint32_t dim_k = w.a.job.key.head_dim;
  const uint32_t dim_v = w.a.job.value.head_dim;
  for (uint32_t i = thread_index(); i < kRowTile * dim_k; i += kThreads) {
    const uint32_t r = i / dim_k;
    const char* from = r < w.rows ? drivers::element3(op.query, w.token + query_of(w, r), head_of(w, r), i % dim_k) : nullptr;
    w.q[i] = r < w.rows ? load_real(w.a.job.query, from) * w.a.job.scale : 0.0f;
  }
  for (uint32_t i = thread_index(); i < kRowTile * dim_v; i += kThreads) w.o[i] = 0.0f;
  for (uint32_t r = thread_index(); r < kRowTile; r += kThreads) {
    w.top[r] = -infinity();
    w.total[r] = 0.0f;
  }
  sync();
}

QUIRE_GPU_DEVICE void finish(const Pass& w) {
  const drivers::AttentionOp& op = w.a.op;
  const uint32_t dim_v = w.a.job.value.head_dim;
  const uint64_t width = drivers::partial_width(dim_v);
  for (uint32_t r = 0; r < w.rows; ++r) {
    const bool empty = w.total[r] == 0.0f;
    const float factor = empty ? 0.0f : quotient(w.a.job.scale_v, w.total[r]);
    const float lse = empty ? -infinity() : w.top[r] + log_of(w.total[r]);
    const uint32_t head = head_of(w, r);
    const int64_t token = w.token + query_of(w, r);
    if (w.record.partial >= 0) {
      const uint64_t row = static_cast<uint64_t>(w.record.partial) + uint64_t{query_of(w, r)} * w.record.heads + (head - w.record.head);
      float* out = w.a.job.partials + row * width;
      for (uint32_t d = thread_index(); d < dim_v; d += kThreads) out[d] = empty ? 0.0f : w.o[r * dim_v + d] * factor;
      if (thread_index() == 0) out[dim_v] = lse;
      continue;
    }
    const Ending end = with_sink(op, head, lse);
    for (uint32_t d = thread_index(); d < dim_v; d += kThreads) {
      const float x = empty ? 0.0f : w.o[r * dim_v + d] * factor * end.factor;
      store_real(w.a.job.out, drivers::element3(op.out, token, head, d), x);
    }
    if (thread_index() == 0 && op.lse.data != nullptr) store_real(Real::kFloat32, drivers::element2(op.lse, token, head), end.lse);
  }
  sync();
}

QUIRE_GPU_DEVICE void attend_record(const AttentionArgs& a, const PlanRecord& record) {
  const uint32_t dim_k = a.job.key.head_dim;
  const uint32_t dim_v = a.job.value.head_dim;
  const uint32_t heads = record.heads <= a.job.group ? record.heads : a.job.group;
  auto* key_at = reinterpret_cast<int64_t*>(shared());
  auto* any = reinterpret_cast<uint32_t*>(key_at + 2 * kKeyTile);
  auto* q = reinterpret_cast<float*>(any + kKeyTile);
  float* o = q + kRowTile * dim_k;
  float* k = o + kRowTile * dim_v;
  float* s = k + kKeyTile * (kDimTile + 1);
  float* top = s + kRowTile * kKeyTile;
  for (uint32_t h = 0; h < record.heads; h += heads) {
    for (uint32_t first = 0; first < heads * record.queries; first += kRowTile) {
      const Pass w{tile_of(a, record, heads, record.head + h, first, kRowTile),
                   q,
                   o,
                   k,
                   s,
                   top,
                   top + kRowTile,
                   top + 2 * kRowTile,
                   key_at,
                   key_at + kKeyTile,
                   any};
      load_queries(w);
      for (int64_t block = record.kv_begin / kKeyTile * kKeyTile; block < record.kv_end; block += kKeyTile) {
        if (find_keys(w, block)) {
          score(w);
          weigh(w, block);
          gather(w);
        }
      }
      finish(w);
    }
  }
}

}  // namespace

QUIRE_GPU_KERNEL(attend, AttentionArgs) {
  const auto* header = static_cast<const PlanHeader*>(a.plan);
  const auto* records = reinterpret_cast<const PlanRecord*>(header + 1);
  for (uint32_t i = block_index(); i < header->num_records; i += grid_size()) attend_record(a, records[i]);
}

namespace {

struct Weights {
  float top;     // of all parts; NaN where one of them is
  float* waves;  // [kThreads / kWave]
  float* each;   // [kThreads]: weights of as many parts
};

// The largest lse of the parts, `apart` elements from each other, in every thread.
QUIRE_GPU_DEVICE float top_of(const float* lse, uint64_t apart, uint32_t parts, float* waves) {
  float top = -infinity();
  bool broken = false;
  for (uint32_t p = thread_index(); p < parts; p += kThreads) {
    const float x = lse[p * apart];
    broken = broken || x != x;
    top = x > top ? x : top;
  }
  top = wave_max(top);
  if (thread_index() % kWave == 0) waves[thread_index() / kWave] = top;
  broken = sync_or(broken);
  for (uint32_t i = 0; i < kThreads / kWave; ++i) top = waves[i] > top ? waves[i] : top;
  return broken ? drivers::float_of_bits(0x7fc00000u) : top;
}

// Element d of a row, not yet divided; *total: the weights' sum. All threads, also those without an element: parts come kThreads at a time,
// each thread weighs one.
QUIRE_GPU_DEVICE float fold(const float* part, uint64_t apart, uint32_t parts, uint32_t dim_v, uint32_t d, const Weights& w, float* total) {
  float sum = 0.0f;
  *total = 0.0f;
  for (uint32_t first = 0; first < parts; first += kThreads) {
    const uint32_t n = parts - first < kThreads ? parts - first : kThreads;
    sync();
    if (thread_index() < n) w.each[thread_index()] = exp_of(part[(first + thread_index()) * apart + dim_v] - w.top);
    sync();
    const float* from = part + first * apart + (d < dim_v ? d : 0);
    QUIRE_GPU_UNROLL_BY(8)
    for (uint32_t p = 0; p < n; ++p) {
      *total += w.each[p];
      sum += w.each[p] * from[p * apart];
    }
  }
  return sum;
}

// Row r of a merge.
QUIRE_GPU_DEVICE void combine_row(const AttentionArgs& a, const PlanMerge& merge, uint32_t r) {
  const uint32_t dim_v = a.job.value.head_dim;
  const uint64_t width = drivers::partial_width(dim_v);
  const uint64_t piece = uint64_t{merge.queries} * merge.heads * width;
  auto* waves = reinterpret_cast<float*>(shared());
  const float* part = a.job.partials + (merge.partial + uint64_t{r}) * width;
  const uint32_t head = merge.head + r % merge.heads;
  const int64_t at = a.op.query_indptr[merge.row] + static_cast<int64_t>(merge.query) + r / merge.heads;
  const Weights w{top_of(part + dim_v, piece, merge.parts, waves), waves, waves + kThreads / kWave};
  for (uint32_t d = thread_index(); d - thread_index() < dim_v; d += kThreads) {
    float total = 0.0f;
    float sum = 0.0f;
    if (w.top != -infinity()) sum = fold(part, piece, merge.parts, dim_v, d, w, &total);
    const Ending end = with_sink(a.op, head, total == 0.0f ? -infinity() : w.top + log_of(total));
    if (d < dim_v)
      store_real(a.job.out, drivers::element3(a.op.out, at, head, d), total == 0.0f ? 0.0f : quotient(sum, total) * end.factor);
    if (d == 0 && a.op.lse.data != nullptr) store_real(Real::kFloat32, drivers::element2(a.op.lse, at, head), end.lse);
  }
  sync();
}

}  // namespace

// Folds the parts of split records, in order; a block takes a row of a merge.
QUIRE_GPU_KERNEL(combine, AttentionArgs) {
  const auto* header = static_cast<const PlanHeader*>(a.plan);
  const auto* records = reinterpret_cast<const PlanRecord*>(header + 1);
  const auto* merges = reinterpret_cast<const PlanMerge*>(records + header->num_records);
  const uint32_t num_merges = header->num_merges;
  const uint32_t apart = rows_of_merge(a.job.group);  // rows of a merge as this driver plans; plans of other drivers may have more
  const uint64_t all = uint64_t{num_merges} * apart;
  for (uint64_t i = block_index(); i < all; i += grid_size()) {
    const PlanMerge merge = merges[i % num_merges];
    const uint32_t rows = merge.queries * merge.heads;
    for (auto r = static_cast<uint32_t>(i / num_merges); r < rows; r += apart) combine_row(a, merge, r);
  }
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
