// Makes the records of drivers/common/plan.h from the lengths of a step. Host code, allocates nothing; equal inputs give equal plans.
#pragma once

#include "drivers/common/tiles.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace quire::drivers {

// Upper bounds for any step with at most these counts. The products stay far below 2^63: counts are checked by the caller against 2^31 and
// kMaxHeads heads.
struct PlanBounds {
  uint64_t records;
  uint64_t merges;
  uint64_t partial_rows;
};

inline PlanBounds plan_bounds(uint64_t rows, uint64_t query_tokens, uint32_t num_q_heads, uint32_t workers) {
  const uint64_t target = plan_target(workers);
  PlanBounds b;
  // What is split costs three quarters of a share at least, for pieces begin at multiples of kPlanBlock: fewer than 2 * target are.
  b.records = (rows + query_tokens / (kPlanRows / 2) + 1) * num_q_heads + 2 * target + 1;
  b.merges = std::min(rows * num_q_heads, 2 * target);
  b.partial_rows = 2 * target * std::min<uint64_t>({kPlanRows, kPlanSplitQueries * uint64_t{num_q_heads}, query_tokens * num_q_heads});
  return b;
}

inline uint64_t plan_size(uint64_t records, uint64_t merges) {
  return sizeof(PlanHeader) + records * sizeof(PlanRecord) + merges * sizeof(PlanMerge);
}

// Hands out records in order of rows. A step may be planned at once or in batches that fit a fixed buffer.
class Planner {
 public:
  Planner(const PlanShape& shape, uint64_t max_partial_rows) : s_(shape), max_partial_rows_(max_partial_rows), share_(share()) {}

  bool done() const { return row_ >= s_.num_rows; }

  // Writes as many records and merges as fit and returns their numbers; both sorted longest first. At least num_q_heads + 4 * workers of
  // each must fit.
  struct Batch {
    uint32_t records = 0;
    uint32_t merges = 0;
    uint32_t partial_rows = 0;
  };
  Batch next(PlanRecord* records, uint64_t max_records, PlanMerge* merges, uint64_t max_merges) {
    Out out{{}, records, merges, max_partial_rows_};
    while (!done()) {
      const int64_t tokens = s_.query_indptr[row_ + 1] - s_.query_indptr[row_];
      if (query_ >= tokens) {
        ++row_;
        query_ = 0;
        continue;
      }
      const PlanTile tile = plan_tile(s_, share_, row_, query_, tokens);
      const uint64_t merged = tile.pieces > 1 ? tile.groups : 0;
      if (out.batch.records + uint64_t{tile.groups} * tile.pieces > max_records || out.batch.merges + merged > max_merges) break;
      plan_emit(s_, tile, row_, query_, out);
      query_ += tile.queries;
    }
    std::sort(records, records + out.batch.records, [](const PlanRecord& a, const PlanRecord& b) {
      return std::make_tuple(b.cost, a.row, a.head, a.query, a.kv_begin) < std::make_tuple(a.cost, b.row, b.head, b.query, b.kv_begin);
    });
    return out.batch;
  }

 private:
  struct Out {
    Batch batch;
    PlanRecord* records;
    PlanMerge* merges;
    uint64_t max_partial_rows;
    int64_t take(uint64_t rows) {
      if (batch.partial_rows + rows > max_partial_rows) return -1;
      batch.partial_rows += static_cast<uint32_t>(rows);
      return int64_t{batch.partial_rows} - static_cast<int64_t>(rows);
    }
    void record(const PlanRecord& r) { records[batch.records++] = r; }
    void merge(const PlanMerge& m) { merges[batch.merges++] = m; }
  };

  uint64_t share() const {
    if (s_.workers <= 1) return 0;
    uint64_t total = 0;
    for (uint32_t r = 0; r < s_.num_rows; ++r) total += plan_row_cost(s_, r);
    return std::max<uint64_t>(total / plan_target(s_.workers), 1);
  }

  PlanShape s_;
  uint64_t max_partial_rows_;
  uint64_t share_;
  uint32_t row_ = 0;
  int64_t query_ = 0;
};

}  // namespace quire::drivers
