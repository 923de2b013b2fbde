// The objects behind the driver's handles and the checks that its entries share.
//
// Streams run inline: when an entry returns OK its work is done. Work of any stream is spread over the instance's threads, one op at a
// time. All memory an op needs is allocated when the device is opened: scratch per thread, records of a plan, partial results of split
// rows.
#pragma once

#include "drivers/cpu/cpu_kernels.h"
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
inline constexpr uint64_t kInternalPartialFloats = uint64_t{1} << 20;

using drivers::check_descriptor;
using drivers::kMaxBytes;

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
quire_code selective_scan(quire_driver_stream* stream, const quire_selective_scan* op, quire_error* err);

}  // namespace quire::cpu
