// Plans a step where its lengths are, so that a captured graph plans again at every replay. One block: rows are dealt to threads in runs,
// three walks over them count cost, count records by bucket of cost, and write each record at its place.
#include "drivers/gpu/gpu_kernels.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64
namespace {

QUIRE_HD uint32_t bucket_of(uint32_t cost) {  // costliest first
  uint32_t bits = 0;
  while (cost >> bits != 0 && bits < 32) ++bits;
  return kCostBuckets - (bits < kCostBuckets ? bits : kCostBuckets - 1) - 1;
}

// One walk: counts, and where there is a place to write to, writes.
struct Walk {
  uint32_t* counts;  // by bucket, stride kThreads; when writing, the next place of each
  PlanRecord* records;
  PlanMerge* merges;
  uint32_t next_merge;
  uint64_t partial;  // rows asked for so far, granted or not
  uint64_t max_partial;
  QUIRE_HD int64_t take(uint64_t rows) {
    const uint64_t from = partial;
    partial += rows;
    return partial <= max_partial ? static_cast<int64_t>(from) : -1;
  }
  QUIRE_HD void record(const PlanRecord& r) {
    uint32_t& count = counts[bucket_of(r.cost) * kThreads];
    if (records != nullptr) records[count] = r;
    ++count;
  }
  QUIRE_HD void merge(const PlanMerge& m) {
    if (merges != nullptr) merges[next_merge] = m;
    ++next_merge;
  }
};

QUIRE_GPU_DEVICE void walk_rows(const PlanShape& s, uint64_t share, uint32_t first, uint32_t last, Walk& walk) {
  for (uint32_t row = first; row < last; ++row) {
    const int64_t tokens = s.query_indptr[row + 1] - s.query_indptr[row];
    for (int64_t q = 0; q < tokens;) {
      const drivers::PlanTile tile = drivers::plan_tile(s, share, row, q, tokens);
      drivers::plan_emit(s, tile, row, q, walk);
      q += tile.queries;
    }
  }
}

// Counts become first places, and the header is written. sums[0]: records; sums[1]: whether they fit.
QUIRE_GPU_DEVICE void settle(const PlanArgs& a, uint64_t asked, uint64_t* sums, uint32_t* merges, uint32_t* counts) {
  uint32_t records = 0;
  for (uint32_t i = 0; i < kCostBuckets * kThreads; ++i) {
    const uint32_t n = counts[i];
    counts[i] = records;
    records += n;
  }
  uint32_t merged = 0;
  for (uint32_t i = 0; i < kThreads; ++i) {
    const uint32_t n = merges[i];
    merges[i] = merged;
    merged += n;
  }
  PlanHeader h{};
  h.magic = drivers::kPlanMagic;
  h.version = drivers::kPlanVersion;
  h.fingerprint = drivers::plan_fingerprint(a.shape);
  const bool fits = records <= a.max_records && merged <= a.max_merges;  // the host asked for enough
  h.num_records = fits ? records : 0;
  h.num_merges = fits ? merged : 0;
  h.bytes = sizeof h + h.num_records * sizeof(PlanRecord) + h.num_merges * sizeof(PlanMerge);
  h.partial_rows = static_cast<uint32_t>(asked < a.max_partial_rows ? asked : a.max_partial_rows);
  h.num_rows = a.shape.num_rows;
  h.num_q_heads = a.shape.num_q_heads;
  h.num_kv_heads = a.shape.num_kv_heads;
  h.head_dim_v = a.head_dim_v;
  *static_cast<PlanHeader*>(a.plan) = h;
  sums[0] = h.num_records;
  sums[1] = fits ? 1 : 0;
}

}  // namespace

QUIRE_GPU_KERNEL(plan, PlanArgs) {
  const PlanShape& s = a.shape;
  const uint32_t t = thread_index();
  auto* sums = reinterpret_cast<uint64_t*>(shared());               // [kThreads + 1]
  auto* merges = reinterpret_cast<uint32_t*>(sums + 2 * kThreads);  // [kThreads + 1]
  auto* counts = reinterpret_cast<uint32_t*>(sums + 4 * kThreads);  // [kCostBuckets][kThreads]
  const uint32_t per_thread = (s.num_rows + kThreads - 1) / kThreads;
  const uint32_t first = t * per_thread < s.num_rows ? t * per_thread : s.num_rows;
  const uint32_t last = first + per_thread < s.num_rows ? first + per_thread : s.num_rows;
  uint64_t cost = 0;
  for (uint32_t row = first; row < last && s.workers > 1; ++row) cost += drivers::plan_row_cost(s, row);
  sums[t] = cost;
  sync();
  uint64_t total = 0;
  for (uint32_t i = 0; i < kThreads; ++i) total += sums[i];
  const uint64_t fair = total / drivers::plan_target(s.workers);
  const uint64_t share = s.workers <= 1 ? 0 : fair > 1 ? fair : 1;
  sync();
  // Rows of workspace first: what a thread may split depends on what those before it take.
  for (uint32_t b = 0; b < kCostBuckets; ++b) counts[b * kThreads + t] = 0;
  Walk ask{counts + t, nullptr, nullptr, 0, 0, ~uint64_t{0}};
  walk_rows(s, share, first, last, ask);
  sums[t] = ask.partial;
  sync();
  uint64_t before = 0;
  uint64_t asked = 0;
  for (uint32_t i = 0; i < kThreads; ++i) {
    before += i < t ? sums[i] : 0;
    asked += sums[i];
  }
  for (uint32_t b = 0; b < kCostBuckets; ++b) counts[b * kThreads + t] = 0;
  Walk count{counts + t, nullptr, nullptr, 0, before, a.max_partial_rows};
  walk_rows(s, share, first, last, count);
  merges[t] = count.next_merge;
  sync();
  if (t == 0) settle(a, asked, sums, merges, counts);
  sync();
  if (sums[1] == 0) return;
  auto* out = reinterpret_cast<PlanRecord*>(static_cast<PlanHeader*>(a.plan) + 1);
  auto* out_merges = reinterpret_cast<PlanMerge*>(out + sums[0]);
  Walk write{counts + t, out, out_merges, merges[t], before, a.max_partial_rows};
  walk_rows(s, share, first, last, write);
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
