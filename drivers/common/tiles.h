// How a row of a step becomes records: shared by the planner of the host and that of devices.
#pragma once

#include "drivers/common/batch_ops.h"
#include "drivers/common/plan.h"

#include <quire/ops.h>

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

inline PlanShape plan_shape_of(const AttentionOp& op, uint32_t workers) {
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

QUIRE_HD LiveKeys live_keys(const PlanShape& s, uint32_t row, int64_t query, int64_t queries) {
  const int64_t length = s.kv_len[row];
  const int64_t first = length - (s.query_indptr[row + 1] - s.query_indptr[row]) + query;  // position
  LiveKeys live{0, length, 0};
  if ((s.flags & QUIRE_ATTENTION_CAUSAL) != 0 && first + queries < length) live.end = first + queries > 0 ? first + queries : 0;
  const int64_t seen_from = first - static_cast<int64_t>(s.window) + 1;
  if (s.window != 0 && seen_from > live.begin) live.begin = seen_from;
  const int64_t chunk_from = s.chunk != 0 && first > 0 ? first / s.chunk * s.chunk : 0;
  if (chunk_from > live.begin) live.begin = chunk_from;
  live.begin = live.begin < live.end ? live.begin : live.end;
  live.sinks = s.sink_tokens < live.begin ? static_cast<int64_t>(s.sink_tokens) : live.begin;
  return live;
}

QUIRE_HD uint64_t plan_mix(uint64_t h, uint64_t v) { return (h ^ v) * 1099511628211ull; }

QUIRE_HD uint64_t plan_fingerprint(const PlanShape& s) {
  uint64_t h = plan_mix(plan_mix(plan_mix(1469598103934665603ull, s.num_rows), s.flags), s.window);
  h = plan_mix(plan_mix(plan_mix(plan_mix(h, s.chunk), s.sink_tokens), s.num_q_heads), s.num_kv_heads);
  for (uint32_t r = 0; r < s.num_rows; ++r) {
    h = plan_mix(h, static_cast<uint32_t>(s.query_indptr[r + 1]));
    h = plan_mix(h, static_cast<uint32_t>(s.kv_len[r]));
  }
  return h;
}

// A tile: query tokens [query, query + queries) of a row, and the records that it becomes.
struct PlanTile {
  int64_t queries;  // tokens
  uint32_t heads;   // query heads of a record
  uint32_t groups;  // records beside each other
  uint32_t pieces;  // records along the keys
  int64_t piece;    // keys
  int64_t begin, end;
  uint64_t cost;  // of all keys, one record
};

// share: the cost that one record should have; 0 = never split.
QUIRE_HD PlanTile plan_tile(const PlanShape& s, uint64_t share, uint32_t row, int64_t query, int64_t tokens) {
  PlanTile t{};
  const uint32_t group = s.num_q_heads / s.num_kv_heads;
  const bool invariant = (s.flags & QUIRE_ATTENTION_BATCH_INVARIANT) != 0;
  const bool narrow = tokens <= kPlanSplitQueries;
  const bool sweep = s.sweep && narrow && !invariant && static_cast<uint64_t>(tokens) * s.num_q_heads <= kPlanRows;
  t.heads = sweep ? s.num_q_heads : group < kPlanRows ? group : kPlanRows;
  t.groups = sweep ? 1 : s.num_kv_heads * ((group + t.heads - 1) / t.heads);
  const int64_t most = kPlanRows / t.heads > 1 ? kPlanRows / t.heads : 1;
  t.queries = tokens - query < most ? tokens - query : most;
  const LiveKeys live = live_keys(s, row, query, t.queries);
  t.begin = live.sinks > 0 ? 0 : live.begin / kPlanBlock * kPlanBlock;
  t.end = live.end;
  const uint64_t weight = 8ull * (sweep ? s.num_kv_heads : 1) + static_cast<uint64_t>(t.queries) * t.heads;
  t.cost = static_cast<uint64_t>(live.end - live.begin + live.sinks) * weight;
  t.pieces = 1;
  t.piece = t.end - t.begin > 1 ? t.end - t.begin : 1;
  if (share != 0 && narrow && !invariant && live.sinks == 0) {
    const int64_t wanted = static_cast<int64_t>((share / weight + kPlanBlock - 1) / kPlanBlock * kPlanBlock);
    const int64_t piece = wanted > int64_t{kPlanSplitTokens} ? wanted : int64_t{kPlanSplitTokens};
    if (piece < t.piece) {
      t.pieces = static_cast<uint32_t>((t.end - t.begin + piece - 1) / piece);
      t.piece = piece;
    }
  }
  return t;
}

// Writes what a tile becomes. out.take(rows): the first of so many workspace rows, or -1; out.record(r), out.merge(m).
template <typename Out>
QUIRE_HD void plan_emit(const PlanShape& s, const PlanTile& t, uint32_t row, int64_t query, Out& out) {
  const uint32_t group = s.num_q_heads / s.num_kv_heads;
  const uint32_t per_kv = (group + t.heads - 1) / t.heads;
  for (uint32_t g = 0; g < t.groups; ++g) {
    const uint32_t head = t.groups == 1 ? 0 : g / per_kv * group + g % per_kv * t.heads;
    const uint32_t rest = group - g % per_kv * t.heads;
    const uint32_t heads = t.groups == 1 || t.heads < rest ? t.heads : rest;
    const uint32_t rows = static_cast<uint32_t>(t.queries) * heads;
    const int64_t partial = t.pieces > 1 ? out.take(uint64_t{rows} * t.pieces) : -1;
    const bool split = partial >= 0;
    const uint32_t pieces = split ? t.pieces : 1;
    if (split) {
      out.merge(PlanMerge{row, static_cast<uint16_t>(head), static_cast<uint16_t>(heads), static_cast<uint32_t>(query),
                          static_cast<uint32_t>(t.queries), static_cast<uint32_t>(partial), pieces});
    }
    for (uint32_t p = 0; p < pieces; ++p) {
      const int64_t begin = t.begin + (split ? p * t.piece : 0);
      const int64_t end = split && begin + t.piece < t.end ? begin + t.piece : t.end;
      const uint64_t cost = (t.cost / pieces) >> 4;
      out.record(PlanRecord{row, static_cast<uint16_t>(head), static_cast<uint16_t>(heads), static_cast<uint32_t>(query),
                            static_cast<uint32_t>(t.queries), static_cast<uint32_t>(begin), static_cast<uint32_t>(end),
                            split ? static_cast<int32_t>(partial + int64_t{p} * rows) : -1,
                            cost < 0xffffffffu ? static_cast<uint32_t>(cost) : 0xffffffffu});
    }
  }
}

// Cost of the tiles of one row; all rows' costs over plan_target is the share.
QUIRE_HD uint64_t plan_row_cost(const PlanShape& s, uint32_t row) {
  const int64_t tokens = s.query_indptr[row + 1] - s.query_indptr[row];
  uint64_t total = 0;
  for (int64_t q = 0; q < tokens;) {
    const PlanTile t = plan_tile(s, 0, row, q, tokens);
    total += t.cost * t.groups;
    q += t.queries;
  }
  return total;
}

QUIRE_HD uint64_t plan_target(uint32_t workers) { return 4ull * workers; }

}  // namespace quire::drivers
