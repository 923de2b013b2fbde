// Makes the records of drivers/common/plan.h from the lengths of a step. Host code, allocates nothing; equal inputs give equal plans.
#pragma once

#include "drivers/common/plan.h"

#include <quire/ops.h>

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace quire::drivers {

// What a plan depends on.
struct PlanShape {
  const int32_t* query_indptr = nullptr;
  const int32_t* kv_len = nullptr;
  uint32_t num_rows = 0;
  uint32_t flags = 0;
  uint32_t window = 0;
  uint32_t chunk = 0;
  uint32_t sink_tokens = 0;
  uint32_t num_q_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t workers = 1;
  bool sweep = false;  // one record takes all heads: what lies together is read together, whatever the order of heads and tokens
};

inline PlanShape plan_shape_of(const quire_attention& op, uint32_t workers) {
  PlanShape s;
  s.query_indptr = op.query_indptr;
  s.kv_len = op.kv_len;
  s.num_rows = op.num_rows;
  s.flags = op.flags;
  s.window = op.window;
  s.chunk = op.chunk;
  s.sink_tokens = op.window != 0 ? op.sink_tokens : 0;
  s.num_q_heads = static_cast<uint32_t>(op.query.shape[1]);
  s.num_kv_heads = op.kv.num_heads;
  s.workers = workers;
  s.sweep = op.kv.num_heads > 1;
  return s;
}

// Keys that queries [query, query + queries) of a row can see: [begin, end) and, before it, [0, sinks).
struct LiveKeys {
  int64_t begin;
  int64_t end;
  int64_t sinks;
};

inline LiveKeys live_keys(const PlanShape& s, uint32_t row, int64_t query, int64_t queries) {
  const int64_t length = s.kv_len[row];
  const int64_t first = length - (s.query_indptr[row + 1] - s.query_indptr[row]) + query;  // position
  LiveKeys live{0, length, 0};
  if ((s.flags & QUIRE_ATTENTION_CAUSAL) != 0) live.end = std::clamp<int64_t>(first + queries, 0, length);
  if (s.window != 0) live.begin = std::max<int64_t>(live.begin, first - static_cast<int64_t>(s.window) + 1);
  if (s.chunk != 0 && first > 0) live.begin = std::max<int64_t>(live.begin, first / s.chunk * s.chunk);
  live.begin = std::min(live.begin, live.end);
  live.sinks = std::min<int64_t>(s.sink_tokens, live.begin);
  return live;
}

inline uint64_t plan_fingerprint(const PlanShape& s) {
  uint64_t h = 1469598103934665603ull;
  auto mix = [&h](uint64_t v) { h = (h ^ v) * 1099511628211ull; };
  for (uint64_t v : {s.num_rows, s.flags, s.window, s.chunk, s.sink_tokens, s.num_q_heads, s.num_kv_heads}) mix(v);
  for (uint32_t r = 0; r < s.num_rows; ++r) {
    mix(static_cast<uint32_t>(s.query_indptr[r + 1]));
    mix(static_cast<uint32_t>(s.kv_len[r]));
  }
  return h;
}

inline uint64_t plan_target(uint32_t workers) { return 4ull * workers; }

// Upper bounds for any step with at most these counts. The products stay far below 2^63: counts are checked by the caller against 2^31 and
// 65535 heads.
struct PlanBounds {
  uint64_t records;
  uint64_t merges;
  uint64_t partial_rows;
};

inline PlanBounds plan_bounds(uint64_t rows, uint64_t query_tokens, uint32_t num_q_heads, uint32_t workers) {
  const uint64_t target = plan_target(workers);
  PlanBounds b;
  b.records = (rows + query_tokens / (kPlanRows / 2) + 1) * num_q_heads + target + 1;
  b.merges = std::min(rows * num_q_heads, target);
  b.partial_rows = 2 * target * std::min<uint64_t>({kPlanRows, kPlanSplitQueries * uint64_t{num_q_heads}, query_tokens * num_q_heads});
  return b;
}

inline uint64_t plan_size(uint64_t records, uint64_t merges) {
  return sizeof(PlanHeader) + records * sizeof(PlanRecord) + merges * sizeof(PlanMerge);
}

// Hands out records in order of rows. A step may be planned at once or in batches that fit a fixed buffer.
class Planner {
 public:
  Planner(const PlanShape& shape, uint64_t max_partial_rows)
      : s_(shape), group_(shape.num_q_heads / shape.num_kv_heads), max_partial_rows_(max_partial_rows), share_(share()) {}

  bool done() const { return row_ >= s_.num_rows; }

  // Writes as many records and merges as fit and returns their numbers; both sorted longest first. At least num_q_heads + 4 * workers of
  // each must fit.
  struct Batch {
    uint32_t records = 0;
    uint32_t merges = 0;
    uint32_t partial_rows = 0;
  };
  Batch next(PlanRecord* records, uint64_t max_records, PlanMerge* merges, uint64_t max_merges) {
    Batch batch;
    while (!done()) {
      const int64_t tokens = s_.query_indptr[row_ + 1] - s_.query_indptr[row_];
      if (query_ >= tokens) {
        ++row_;
        query_ = 0;
        continue;
      }
      const Tile tile = tile_at(row_, query_, tokens);
      if (batch.records + uint64_t{tile.groups} * tile.pieces > max_records || batch.merges + tile.groups > max_merges) break;
      emit(tile, &batch, records, merges);
      query_ += tile.queries;
    }
    std::sort(records, records + batch.records, [](const PlanRecord& a, const PlanRecord& b) {
      return std::make_tuple(b.cost, a.row, a.head, a.query, a.kv_begin) < std::make_tuple(a.cost, b.row, b.head, b.query, b.kv_begin);
    });
    return batch;
  }

 private:
  struct Tile {
    int64_t queries;  // tokens
    uint32_t heads;   // query heads of a record
    uint32_t groups;  // records beside each other
    uint32_t pieces;  // records along the keys
    int64_t piece;    // keys
    int64_t begin, end;
    uint64_t cost;  // of all keys, one record
  };

  Tile tile_at(uint32_t row, int64_t query, int64_t tokens) const {
    Tile t{};
    const bool invariant = (s_.flags & QUIRE_ATTENTION_BATCH_INVARIANT) != 0;
    const bool narrow = tokens <= kPlanSplitQueries;
    const bool sweep = s_.sweep && narrow && !invariant && static_cast<uint64_t>(tokens) * s_.num_q_heads <= kPlanRows;
    t.heads = sweep ? s_.num_q_heads : std::min(group_, kPlanRows);
    t.groups = sweep ? 1 : s_.num_kv_heads * ((group_ + t.heads - 1) / t.heads);
    t.queries = std::min<int64_t>(tokens - query, std::max<uint32_t>(1, kPlanRows / t.heads));
    const LiveKeys live = live_keys(s_, row, query, t.queries);
    t.begin = live.sinks > 0 ? 0 : live.begin / kPlanBlock * kPlanBlock;
    t.end = live.end;
    const uint64_t weight = 8ull * (sweep ? s_.num_kv_heads : 1) + static_cast<uint64_t>(t.queries) * t.heads;
    t.cost = static_cast<uint64_t>(live.end - live.begin + live.sinks) * weight;
    t.pieces = 1;
    t.piece = std::max<int64_t>(t.end - t.begin, 1);
    if (share_ != 0 && narrow && !invariant && live.sinks == 0) {
      const int64_t wanted = static_cast<int64_t>((share_ / weight + kPlanBlock - 1) / kPlanBlock * kPlanBlock);
      const int64_t piece = std::max<int64_t>(wanted, kPlanSplitTokens);
      if (piece < t.piece) {
        t.pieces = static_cast<uint32_t>((t.end - t.begin + piece - 1) / piece);
        t.piece = piece;
      }
    }
    return t;
  }

  // Cost that one record should have; 0 = never split.
  uint64_t share() const {
    if (s_.workers <= 1) return 0;
    uint64_t total = 0;
    for (uint32_t r = 0; r < s_.num_rows; ++r) {
      const int64_t tokens = s_.query_indptr[r + 1] - s_.query_indptr[r];
      for (int64_t q = 0; q < tokens;) {
        const Tile t = tile_at(r, q, tokens);
        total += t.cost * t.groups;
        q += t.queries;
      }
    }
    return std::max<uint64_t>(total / plan_target(s_.workers), 1);
  }

  void emit(const Tile& t, Batch* batch, PlanRecord* records, PlanMerge* merges) const {
    for (uint32_t g = 0; g < t.groups; ++g) {
      const uint32_t per_kv = (group_ + t.heads - 1) / t.heads;
      const uint32_t head = t.groups == 1 ? 0 : g / per_kv * group_ + g % per_kv * t.heads;
      const uint32_t heads = t.groups == 1 ? t.heads : std::min(t.heads, group_ - g % per_kv * t.heads);
      const uint64_t rows = static_cast<uint64_t>(t.queries) * heads;
      const bool split = t.pieces > 1 && batch->partial_rows + rows * t.pieces <= max_partial_rows_;
      const uint32_t pieces = split ? t.pieces : 1;
      if (split) {
        merges[batch->merges++] = {row_,
                                   static_cast<uint16_t>(head),
                                   static_cast<uint16_t>(heads),
                                   static_cast<uint32_t>(query_),
                                   static_cast<uint32_t>(t.queries),
                                   batch->partial_rows,
                                   pieces};
      }
      for (uint32_t p = 0; p < pieces; ++p) {
        PlanRecord& r = records[batch->records++];
        r.row = row_;
        r.head = static_cast<uint16_t>(head);
        r.heads = static_cast<uint16_t>(heads);
        r.query = static_cast<uint32_t>(query_);
        r.queries = static_cast<uint32_t>(t.queries);
        const int64_t begin = t.begin + (split ? p * t.piece : 0);
        r.kv_begin = static_cast<uint32_t>(begin);
        r.kv_end = static_cast<uint32_t>(split ? std::min(t.end, begin + t.piece) : t.end);
        r.partial = split ? static_cast<int32_t>(batch->partial_rows + p * rows) : -1;
        r.cost = static_cast<uint32_t>(std::min<uint64_t>((t.cost / pieces) >> 4, 0xffffffffu));
      }
      if (split) batch->partial_rows += static_cast<uint32_t>(rows * pieces);
    }
  }

  PlanShape s_;
  uint32_t group_;
  uint64_t max_partial_rows_;
  uint64_t share_;
  uint32_t row_ = 0;
  int64_t query_ = 0;
};

}  // namespace quire::drivers
