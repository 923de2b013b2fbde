// Argument checks that all drivers share, and what they make of a checked op. Each message names
// the argument, its value and the limit; nothing has been written when one of them fails. The
// sources are compiled into each module, which defines the three names below.
#pragma once

#include "drivers/common/fail.h"
#include "drivers/common/jobs.h"
#include "drivers/common/planner.h"

#include <quire/driver.h>

namespace quire::drivers {

// What the driver says of itself, defined by each module: its name, whether its kernels know rows
// that are codes with scales (row_code.h), which quire_tensor.device_type they read, and whether the
// host may read an address now. Integer arrays that it may not
// read are not checked; kernels then trust them as the ABI allows.
extern const char* const kDriverName;
extern const bool kDecodesRows;
bool reads_device_type(int32_t device_type);
bool host_reads(const void* address);

#define QUIRE_FAIL(err, code, ...) ::quire::drivers::fail(err, ::quire::drivers::kDriverName, code, __VA_ARGS__)
#define QUIRE_TRY(expr)                              \
  do {                                               \
    const quire_code quire_code_ = (expr);           \
    if (quire_code_ != QUIRE_OK) return quire_code_; \
  } while (false)

inline constexpr uint32_t kMaxHeadDim = 1024;
inline constexpr uint32_t kMaxHeads = 4096;
inline constexpr uint32_t kScaleStep = 16;  // elements that share a scale are a multiple of this
inline constexpr uint32_t kMaxConvWidth = 16;
inline constexpr uint32_t kMaxStateDim = 1024;  // elements of a line of a selective scan's state
inline constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

inline constexpr uint32_t format_bit(Real r) { return 1u << static_cast<uint32_t>(r); }
inline constexpr uint32_t kPlainFormats = format_bit(Real::kFloat32) | format_bit(Real::kFloat16) | format_bit(Real::kBfloat16);
inline constexpr uint32_t kFloat32Only = format_bit(Real::kFloat32);

// struct_size and next of a descriptor: bytes beyond what this driver knows must be zero.
quire_code check_descriptor(const void* op, uint64_t known, const char* name, quire_error* err);
// The same for a descriptor that grew: every caller has its first `first` bytes, what it lacks of
// the `known` ones is zero in *own.
quire_code read_descriptor(const void* op, uint64_t first, uint64_t known, void* own, const char* name, quire_error* err);
// The op's column of its batch, from the caller's structs. Errors: no batch, one of another group
// or without that column.
quire_code read_batch(const quire_batch* batch, uint32_t group, uint32_t column, BatchColumn* own, quire_error* err);
inline quire_code read_batch(const quire_paged_kv& kv, const quire_batch* batch, BatchColumn* own, quire_error* err) {
  return read_batch(batch, kv.group, kv.column, own, err);
}
inline quire_code read_batch(const quire_paged_state& state, const quire_batch* batch, BatchColumn* own, quire_error* err) {
  return read_batch(batch, state.group, state.column, own, err);
}
inline const quire_paged_kv& cache_of(const quire_kv_append& op) { return op.kv; }
inline const quire_paged_kv& cache_of(const quire_attention& op) { return op.kv; }
template <typename Op>
const quire_paged_state& cache_of(const Op& op) {
  return op.state;
}
// The whole op.
template <typename Op, typename Own>
quire_code read_op(const Op* op, Own* own, const char* name, quire_error* err) {
  QUIRE_TRY(read_descriptor(op, sizeof(Op), sizeof(Op), static_cast<Op*>(own), name, err));
  return read_batch(cache_of(static_cast<const Op&>(*own)), own->batch, own, err);
}
// A tensor of the wanted shape (-1 = any) with one of the number formats in `formats` (bits 1 <<
// Real), in memory that the driver reads.
struct TensorRule {
  const char* name;
  int32_t ndim;
  int64_t shape[3];
  uint32_t formats;
  // Its elements must lie apart; a tensor that is only read may repeat some by a stride of 0.
  bool written = false;
};
quire_code check_tensor(const quire_tensor& tensor, const TensorRule& rule, quire_error* err);
quire_code check_paged_kv(const quire_paged_kv& kv, quire_error* err);
quire_code check_paged_state(const quire_paged_state& state, uint32_t ndim, quire_error* err);
// Offsets [rows + 1] start at 0 or above, do not fall and end at or below `limit` of `what`.
struct OffsetRule {
  const char* name;
  int64_t limit;
  const char* what;
};
quire_code check_offsets(const int32_t* offsets, uint32_t rows, const OffsetRule& rule, quire_error* err);
// query_indptr over tensors of so many tokens.
quire_code check_indptr(const int32_t* indptr, uint32_t rows, int64_t tokens, quire_error* err);
// Slots of states: below num_ids where that is stated; negative is allowed.
quire_code check_state_slots(const quire_paged_state& state, const int32_t* slots, uint32_t n, const char* name, quire_error* err);

// A tensor to be created: fills in dense strides where none are given. *extent: bytes from the
// first to past the last element.
quire_code check_new_tensor(quire_tensor* tensor, int64_t* extent, quire_error* err);
quire_code check_allocation(uint64_t alignment, uint32_t kind, quire_error* err);
// *total: bytes of all runs.
quire_code check_copy(const quire_copy_run* runs, uint64_t n, uint64_t* total, quire_error* err);

quire_code check_attention(const AttentionOp& op, quire_error* err);
AttentionJob describe_attention(const AttentionOp& op, uint32_t workers);
// A plan is bytes from outside: nothing in it is believed. internal_floats: partial results that
// fit where the op has no workspace.
struct PlanView {
  PlanHeader header;
  const PlanRecord* records;
  const PlanMerge* merges;
};
quire_code check_plan(const AttentionOp& op, const AttentionJob& job, uint64_t internal_floats, PlanView* view, quire_error* err);
// The driver's entries of the same names.
quire_code size_attention(uint32_t workers, uint32_t max_rows, uint64_t max_query_tokens, uint64_t max_kv_len, uint32_t num_q_heads,
                          uint32_t head_dim_v, uint64_t* plan_bytes, uint64_t* workspace_bytes, quire_error* err);
quire_code make_plan(const AttentionOp& op, const AttentionJob& job, void* plan, uint64_t plan_bytes, quire_error* err);

quire_code check_append(const AppendOp& op, quire_error* err);
quire_code check_merge(const quire_attention_merge& op, quire_error* err);
quire_code describe_delta(const GatedDeltaOp& op, GatedDeltaJob* job, quire_error* err);
quire_code describe_conv(const Conv1dOp& op, Conv1dJob* job, quire_error* err);
quire_code describe_scan(const SelectiveScanOp& op, ScanJob* job, quire_error* err);

}  // namespace quire::drivers
