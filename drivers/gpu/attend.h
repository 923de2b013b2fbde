// What the kernels of attention share: the rows of a record that a block works on, which keys they see and where those lie, and the end of
// a row.
#pragma once

#include "drivers/gpu/gpu_kernels.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN

// Rows are pairs of query token and query head of one KV head, heads first.
struct Tile {
  const AttentionArgs& a;
  PlanRecord record;
  uint32_t heads;  // query heads of one KV head in the record
  uint32_t kv_head;
  uint32_t head;   // first query head of it
  uint32_t first;  // row of the tile's first
  uint32_t rows;
  int64_t length;
  int64_t position;                 // of the record's first query token
  int64_t token;                    // of the record's first query, in the tensors
  uint32_t query_begin, query_end;  // queries of the record that the tile's rows are of
};

QUIRE_GPU_DEVICE uint32_t query_of(const Tile& w, uint32_t r) { return (w.first + r) / w.heads; }
QUIRE_GPU_DEVICE uint32_t head_of(const Tile& w, uint32_t r) { return w.head + (w.first + r) % w.heads; }

// The record's tile from row `first` on, of `most` rows at most, for query heads from `head` on.
QUIRE_GPU_DEVICE Tile tile_of(const AttentionArgs& a, const PlanRecord& record, uint32_t heads, uint32_t head, uint32_t first,
                              uint32_t most) {
  const uint32_t rest = heads * record.queries - first;
  const uint32_t rows = rest < most ? rest : most;
  const int64_t length = a.op.kv_len[record.row];
  const int64_t begin = a.op.query_indptr[record.row];
  const int64_t position = length - (a.op.query_indptr[record.row + 1] - begin) + record.query;
  return {a,    record, heads,    head / a.job.group,   head,          first,
          rows, length, position, begin + record.query, first / heads, (first + rows - 1) / heads + 1};
}

// The keys that a query token of the record sees: [begin, end) without what lies between the sinks and the recent ones, and without what
// its mask forbids. Positions are below 2^31.
struct Sight {
  int32_t begin, end, sinks, recent;
};

QUIRE_GPU_DEVICE Sight sight_of(const Tile& w, uint32_t query) {
  const drivers::AttentionOp& op = w.a.op;
  const int64_t at = w.position + query;
  Sight s{static_cast<int32_t>(w.record.kv_begin), static_cast<int32_t>(w.record.kv_end), 0, 0};
  if ((op.flags & QUIRE_ATTENTION_CAUSAL) != 0 && at + 1 < s.end) s.end = static_cast<int32_t>(at + 1);
  if (op.chunk != 0 && at > 0) {
    const auto from = static_cast<int32_t>(static_cast<uint32_t>(at) / op.chunk * op.chunk);
    s.begin = from > s.begin ? from : s.begin;
  }
  s.recent = s.begin;
  const int64_t from = at + 1 - static_cast<int64_t>(op.window);
  if (op.window != 0 && from > s.begin) {
    s.recent = static_cast<int32_t>(from);
    s.sinks = op.sink_tokens < 0x7fffffffu ? static_cast<int32_t>(op.sink_tokens) : 0x7fffffff;
  }
  return s;
}

QUIRE_GPU_DEVICE bool sees(const Sight& s, int32_t key) { return key >= s.begin && key < s.end && (key >= s.recent || key < s.sinks); }

// Whether the mask, which there is, lets a query token of the record see a key of the row.
QUIRE_GPU_DEVICE bool allowed(const Tile& w, uint32_t query, int32_t key) {
  const drivers::AttentionOp& op = w.a.op;
  const uint64_t bit = static_cast<uint64_t>(op.mask_indptr[w.record.row] + static_cast<int64_t>(w.record.query + query) * w.length + key);
  return (op.mask_bits[bit / 8] >> (bit % 8) & 1) != 0;
}

QUIRE_GPU_DEVICE bool sees(const Tile& w, uint32_t query, int64_t key) {
  const auto k = static_cast<int32_t>(key);
  return sees(sight_of(w, query), k) && (w.a.op.mask_bits == nullptr || allowed(w, query, k));
}

// Where a key's rows lie.
QUIRE_GPU_DEVICE void locate(const Tile& w, int64_t key, int64_t* key_at, int64_t* value_at) {
  const drivers::AttentionOp& op = w.a.op;
  const uint32_t column = static_cast<uint32_t>(key) / op.kv.block_tokens;
  const int64_t within = key - static_cast<int64_t>(column) * op.kv.block_tokens;
  const int64_t id = op.table[w.record.row * op.table_pitch + column];
  *key_at = reinterpret_cast<int64_t>(drivers::paged_row(w.a.job.key, id, within, w.kv_head));
  *value_at = reinterpret_cast<int64_t>(drivers::paged_row(w.a.job.value, id, within, w.kv_head));
}

struct Ending {
  float factor;  // of the value
  float lse;
};

// A finished row's lse without the sink logit: what the sink does to both.
QUIRE_GPU_DEVICE Ending with_sink(const drivers::AttentionOp& op, uint32_t head, float lse) {
  if (op.sink_logits == nullptr || lse == -infinity()) return {1.0f, lse};
  const float sink = op.sink_logits[head];
  const float m = sink > lse ? sink : lse;
  const float both = m + log_of(exp_of(lse - m) + exp_of(sink - m));
  return {exp_of(lse - both), both};
}

QUIRE_GPU_END
}  // namespace quire::gpu
