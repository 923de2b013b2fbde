// The objects behind the handles of a GPU driver. Everything that an op needs is allocated with its stream: room for a plan and for the
// partial results of split rows, so that ops allocate nothing and may be captured.
#pragma once

#include "drivers/gpu/gpu_runtime.h"

#include <atomic>

struct quire_driver_instance {
  const quire::gpu::Runtime* runtime;
  quire_host_api host;  // entries may be null
  quire_driver_options options;
};

struct quire_driver_device {
  quire_driver_instance* instance;
  const quire::gpu::Runtime* runtime;
  void* native;
  uint32_t ordinal;
  quire::gpu::Facts facts;
  std::atomic<int> lost;  // the first terminal error
};

struct quire_driver_stream {
  quire_driver_device* device;
  void* native;
  bool owned;
  void* plan;                   // kStreamRecords, kStreamMerges
  float* partials;              // kStreamFloats
  quire::gpu::Kernel attended;  // by which the last attention went; Kernel::plan: there was none
  int refused;                  // why not by products of warpgroups, where all but the copy engine's driver would have it
};

struct quire_driver_event {
  quire_driver_device* device;
  void* native;
};

namespace quire::gpu {

inline constexpr uint64_t kStreamRecords = uint64_t{1} << 16;
inline constexpr uint64_t kStreamMerges = uint64_t{1} << 13;
inline constexpr uint64_t kStreamFloats = uint64_t{1} << 22;

// 0 is OK. Otherwise a message with what failed and the native text; a terminal error stays with the device.
quire_code native(quire_driver_device* device, int code, const char* what, quire_error* err);
// The device works, and the handle is not NULL.
quire_code check_stream(quire_driver_stream* stream, quire_error* err);

quire_code mem_alloc(quire_driver_device* device, uint64_t bytes, uint64_t alignment, uint32_t kind, void** address, quire_error* err);
void mem_free(quire_driver_device* device, void* address, uint64_t bytes, uint32_t kind);
quire_code tensor_create(quire_driver_device* device, quire_tensor* tensor, uint32_t kind, void** allocation, uint64_t* bytes,
                         quire_error* err);
quire_code copy(quire_driver_stream* stream, const quire_copy_run* runs, uint64_t n, quire_error* err);
quire_code fill(quire_driver_stream* stream, void* destination, uint8_t value, uint64_t bytes, quire_error* err);
quire_code kv_append(quire_driver_stream* stream, const quire_kv_append* op, quire_error* err);
quire_code attention_workspace(quire_driver_device* device, uint32_t max_rows, uint64_t max_query_tokens, uint64_t max_kv_len,
                               uint32_t num_q_heads, uint32_t head_dim_v, uint64_t* plan_bytes, uint64_t* workspace_bytes,
                               quire_error* err);
quire_code attention_plan(quire_driver_device* device, const quire_attention* op, void* plan, uint64_t plan_bytes, quire_error* err);
quire_code attention(quire_driver_stream* stream, const quire_attention* op, quire_error* err);
quire_code attention_merge(quire_driver_stream* stream, const quire_attention_merge* op, quire_error* err);
quire_code gated_delta(quire_driver_stream* stream, const quire_gated_delta* op, quire_error* err);
quire_code conv1d(quire_driver_stream* stream, const quire_conv1d* op, quire_error* err);
quire_code selective_scan(quire_driver_stream* stream, const quire_selective_scan* op, quire_error* err);

}  // namespace quire::gpu
