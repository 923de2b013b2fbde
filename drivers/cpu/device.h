// The objects behind the driver's handles and the checks that its entries share.
//
// Streams run inline: when an entry returns OK its work is done. Work of any stream is spread over the instance's threads, one op at a
// time. All memory an op needs is allocated when the device is opened: scratch per thread, records of a plan, partial results of split
// rows.
#pragma once

#include "drivers/common/fail.h"
#include "drivers/cpu/kernels.h"
#include "drivers/cpu/threads.h"

#include <quire/driver.h>

#include <atomic>
#include <mutex>

struct quire_driver_instance {
  quire_host_api host;  // entries may be null
  uint32_t num_threads;
  uint32_t num_cpus;  // 0 = threads run anywhere
  uint32_t* cpus;
  const quire::cpu::Kernels* kernels;
};

struct quire_driver_device {
  quire_driver_instance* instance;
  const quire::cpu::Kernels* kernels;
  quire::cpu::Threads threads;
  float* scratch;                       // [threads][kScratchFloats]
  quire::drivers::PlanRecord* records;  // for attention without a plan; under planning
  quire::drivers::PlanMerge* merges;
  float* partials;
  uint64_t partial_floats;
  std::mutex planning;
};

struct quire_driver_stream {
  quire_driver_device* device;
};

struct quire_driver_event {
  quire_driver_device* device;
};

namespace quire::cpu {

inline constexpr uint32_t kMaxRecords = 32768;
inline constexpr uint32_t kMaxMerges = 16384;
inline constexpr uint32_t kMaxHeads = 4096;
inline constexpr uint64_t kInternalPartialFloats = uint64_t{1} << 20;

#define QUIRE_CPU_FAIL(err, code, ...) ::quire::drivers::fail(err, "cpu", code, __VA_ARGS__)
#define QUIRE_CPU_TRY(expr)                          \
  do {                                               \
    const quire_code quire_code_ = (expr);           \
    if (quire_code_ != QUIRE_OK) return quire_code_; \
  } while (false)

// struct_size and next of a descriptor: bytes beyond what this driver knows must be zero.
quire_code check_descriptor(const void* op, uint64_t known, const char* name, quire_error* err);
// A tensor of the wanted shape (-1 = any) with one of the number formats in `formats` (bits 1 << Real), strides not negative, in host
// memory.
struct TensorRule {
  const char* name;
  int32_t ndim;
  int64_t shape[3];
  uint32_t formats;
};
quire_code check_tensor(const quire_tensor& tensor, const TensorRule& rule, quire_error* err);
quire_code check_paged_kv(const quire_paged_kv& kv, quire_error* err);
quire_code check_paged_state(const quire_paged_state& state, uint32_t ndim, quire_error* err);
// query_indptr[rows + 1] starts at 0 or above, does not fall and ends at or below `tokens`.
quire_code check_indptr(const int32_t* indptr, uint32_t rows, int64_t tokens, quire_error* err);
// Slots of states: below num_ids where that is stated; negative is allowed.
quire_code check_state_slots(const quire_paged_state& state, const int32_t* slots, uint32_t rows, const char* name, quire_error* err);

inline constexpr uint32_t format_bit(Real r) { return 1u << static_cast<uint32_t>(r); }
inline constexpr uint32_t kPlainFormats = format_bit(Real::kFloat32) | format_bit(Real::kFloat16) | format_bit(Real::kBfloat16);
inline constexpr uint32_t kFloat32Only = format_bit(Real::kFloat32);

// Entries of the table, by file: device.cc, bytes.cc, append.cc, attention.cc, merge in append.cc, state.cc.
quire_code copy(quire_driver_stream* stream, const quire_copy_run* runs, uint64_t n, quire_error* err);
quire_code fill(quire_driver_stream* stream, void* destination, uint8_t value, uint64_t bytes, quire_error* err);
quire_code tensor_create(quire_driver_device* device, quire_tensor* tensor, uint32_t kind, void** allocation, uint64_t* bytes,
                         quire_error* err);
quire_code mem_alloc(quire_driver_device* device, uint64_t bytes, uint64_t alignment, uint32_t kind, void** address, quire_error* err);
void mem_free(quire_driver_device* device, void* address, uint64_t bytes, uint32_t kind);
quire_code kv_append(quire_driver_stream* stream, const quire_kv_append* op, quire_error* err);
quire_code attention_merge(quire_driver_stream* stream, const quire_attention_merge* op, quire_error* err);
quire_code attention_workspace(quire_driver_device* device, uint32_t max_rows, uint64_t max_query_tokens, uint64_t max_kv_len,
                               uint32_t num_q_heads, uint32_t head_dim_v, uint64_t* plan_bytes, uint64_t* workspace_bytes,
                               quire_error* err);
quire_code attention_plan(quire_driver_device* device, const quire_attention* op, void* plan, uint64_t plan_bytes, quire_error* err);
quire_code attention(quire_driver_stream* stream, const quire_attention* op, quire_error* err);
quire_code gated_delta(quire_driver_stream* stream, const quire_gated_delta* op, quire_error* err);
quire_code conv1d(quire_driver_stream* stream, const quire_conv1d* op, quire_error* err);

}  // namespace quire::cpu
