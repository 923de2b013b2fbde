// An op together with what it reads of its batch: the arrays of the column that its cache names.
// Kernels get these by value or by reference; no kernel follows a pointer to a batch.
#pragma once

#include <quire/ops.h>

namespace quire::drivers {

// The names are those of quire_batch. Arrays begin at the column.
struct BatchColumn {
  const int32_t* query_indptr;
  const int32_t* kv_len;
  const int32_t* positions;
  const int32_t* table;
  uint64_t table_pitch;
  const int64_t* slots;
  uint64_t num_slots;
  const int32_t* state_read;
  const int32_t* state_write;
  const int32_t* state_write_indptr;
  const int32_t* state_write_ends;
  uint32_t num_rows;
  uint32_t num_tokens;
};

struct AppendOp : quire_kv_append, BatchColumn {};
struct AttentionOp : quire_attention, BatchColumn {};
struct GatedDeltaOp : quire_gated_delta, BatchColumn {};
struct Conv1dOp : quire_conv1d, BatchColumn {};
struct SelectiveScanOp : quire_selective_scan, BatchColumn {};

}  // namespace quire::drivers
