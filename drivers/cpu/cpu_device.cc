// The module: manifest, instances, devices, streams, events.
#include "drivers/cpu/cpu_device.h"

#include "drivers/common/note.h"
#include "drivers/cpu/container.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <new>

QUIRE_DRIVER_NOTE("cpu");

namespace quire::drivers {

const char* const kDriverName = "cpu";
const bool kDecodesRows = true;

bool reads_device_type(int32_t device_type) {
  return device_type == 0 || device_type == QUIRE_DEVICE_CPU || device_type == QUIRE_DEVICE_CUDA_HOST ||
         device_type == QUIRE_DEVICE_ROCM_HOST;
}

bool host_reads(const void*) { return true; }

}  // namespace quire::drivers

namespace quire::cpu {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxCpus = 4096;

void* take(const quire_driver_instance& instance, uint64_t bytes) {
  if (instance.host.alloc != nullptr) return instance.host.alloc(instance.host.user, bytes, 64);
  void* p = nullptr;
  return posix_memalign(&p, 64, bytes) == 0 ? p : nullptr;
}

void give(const quire_driver_instance& instance, void* p, uint64_t bytes) {
  if (p == nullptr) return;
  if (instance.host.alloc != nullptr && instance.host.release_memory != nullptr) {
    instance.host.release_memory(instance.host.user, p, bytes, 64);
  } else {
    std::free(p);
  }
}

// More threads than the container grants CPUs would be stopped together, in the middle of a job.
uint32_t usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const uint32_t granted = container_limits("").cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return std::min(granted, static_cast<uint32_t>(CPU_COUNT(&set)));
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? std::min(granted, static_cast<uint32_t>(online)) : 1;
}

// What the options say into an instance that has no memory yet; `given` are all fields that the host knows, the others zero.
quire_code read_options(const quire_driver_options* options, quire_driver_options* given, quire_driver_instance* made, quire_error* err) {
  constexpr uint32_t kFirstBytes = 32;  // of the first version
  uint32_t size = 0;
  memcpy(&size, options, sizeof size);
  if (size < kFirstBytes) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "driver_options.struct_size is %u, at least %u is needed", size, kFirstBytes);
  }
  if (size > sizeof *given) QUIRE_TRY(check_descriptor(options, sizeof *given, "driver_options", err));
  memcpy(given, options, size < sizeof *given ? size : sizeof *given);
  if ((given->flags & ~QUIRE_DRIVER_KERNELS_MASK) != 0) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "driver_options.flags 0x%x", given->flags);
  }
  if (given->num_threads > kMaxThreads) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "num_threads is %u, above %u", given->num_threads, kMaxThreads);
  }
  if ((given->cpus == nullptr) != (given->num_cpus == 0) || given->num_cpus > kMaxCpus) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "num_cpus is %u with cpus %s; the limit is %u", given->num_cpus,
                      given->cpus == nullptr ? "NULL" : "given", kMaxCpus);
  }
  if (given->host != nullptr) {
    const uint64_t known = given->host->struct_size < sizeof made->host ? given->host->struct_size : sizeof made->host;
    memcpy(&made->host, given->host, known);
  }
  if ((made->host.alloc == nullptr) != (made->host.release_memory == nullptr)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "host.alloc and host.release_memory go together");
  }
  return QUIRE_OK;
}

quire_code create(const quire_driver_options* options, quire_driver_instance** out, quire_error* err) {
  if (out == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "out is NULL");
  quire_driver_instance made{};
  quire_driver_options given{};
  if (options != nullptr) QUIRE_TRY(read_options(options, &given, &made, err));
  const auto wanted = static_cast<uint32_t>(given.flags & QUIRE_DRIVER_KERNELS_MASK);
  made.num_threads = given.num_threads != 0 ? given.num_threads : given.num_cpus != 0 ? given.num_cpus : usable_threads();
  if (made.num_threads > kMaxThreads) made.num_threads = kMaxThreads;
  made.kernels = find_kernels(wanted);
  if (made.kernels == nullptr) return QUIRE_FAIL(err, QUIRE_UNAVAILABLE, "kernels %u: this machine does not have them", wanted);
  made.num_cpus = given.num_cpus;
  const uint64_t cpu_bytes = uint64_t{given.num_cpus} * sizeof(uint32_t);
  void* p = take(made, sizeof made);
  made.cpus = p != nullptr && cpu_bytes != 0 ? static_cast<uint32_t*>(take(made, cpu_bytes)) : nullptr;
  if (p == nullptr || (cpu_bytes != 0 && made.cpus == nullptr)) {
    give(made, p, sizeof made);
    return QUIRE_FAIL(err, QUIRE_RESOURCE_EXHAUSTED, "no memory for %" PRIu64 " bytes", sizeof made + cpu_bytes);
  }
  if (cpu_bytes != 0) memcpy(made.cpus, given.cpus, cpu_bytes);
  *out = new (p) quire_driver_instance(made);
  return QUIRE_OK;
}

void destroy(quire_driver_instance* instance) {
  if (instance == nullptr) return;
  const quire_driver_instance copy = *instance;
  give(copy, copy.cpus, uint64_t{copy.num_cpus} * sizeof(uint32_t));
  give(copy, instance, sizeof *instance);
}

quire_code device_count(quire_driver_instance* instance, uint32_t* count, quire_error* err) {
  if (instance == nullptr || count == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "instance or count is NULL");
  *count = 1;
  return QUIRE_OK;
}

void device_close(quire_driver_device* device) {
  if (device == nullptr) return;
  const quire_driver_instance& instance = *device->instance;
  give(instance, device->scratch, device->instance->num_threads * kScratchFloats * sizeof(float));
  give(instance, device->records, kMaxRecords * sizeof(PlanRecord));
  give(instance, device->merges, kMaxMerges * sizeof(PlanMerge));
  give(instance, device->partials, kInternalPartialFloats * sizeof(float));
  device->~quire_driver_device();
  give(instance, device, sizeof *device);
}

quire_code device_open(quire_driver_instance* instance, uint32_t ordinal, quire_driver_device** out, quire_error* err) {
  if (instance == nullptr || out == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "instance or out is NULL");
  if (ordinal != 0) return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "ordinal is %u, there is 1 device", ordinal);
  void* p = take(*instance, sizeof(quire_driver_device));
  if (p == nullptr) return QUIRE_FAIL(err, QUIRE_RESOURCE_EXHAUSTED, "no memory for %zu bytes", sizeof(quire_driver_device));
  auto* device = new (p) quire_driver_device{};
  const uint64_t scratch = instance->num_threads * kScratchFloats * sizeof(float);
  device->instance = instance;
  device->kernels = instance->kernels;
  device->scratch = static_cast<float*>(take(*instance, scratch));
  device->records = static_cast<PlanRecord*>(take(*instance, kMaxRecords * sizeof(PlanRecord)));
  device->merges = static_cast<PlanMerge*>(take(*instance, kMaxMerges * sizeof(PlanMerge)));
  device->partials = static_cast<float*>(take(*instance, kInternalPartialFloats * sizeof(float)));
  device->partial_floats = kInternalPartialFloats;
  const bool complete =
      device->scratch != nullptr && device->records != nullptr && device->merges != nullptr && device->partials != nullptr;
  if (!complete || !device->threads.start(instance->num_threads, instance->cpus, instance->num_cpus)) {
    const int64_t refused = device->threads.refused_cpu();
    device_close(device);
    if (refused >= 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "cpus: this process may not run on CPU %" PRId64, refused);
    return QUIRE_FAIL(err, QUIRE_RESOURCE_EXHAUSTED, "no memory or threads: %u threads, %" PRIu64 " bytes of scratch",
                      instance->num_threads, scratch);
  }
  *out = device;
  return QUIRE_OK;
}

quire_code device_info(quire_driver_device* device, quire_device_info* info, quire_error* err) {
  if (device == nullptr || info == nullptr || info->struct_size < sizeof(uint32_t)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device or info is NULL, or info.struct_size is below 4");
  }
  quire_device_info made{};
  made.struct_size = info->struct_size < sizeof made ? info->struct_size : static_cast<uint32_t>(sizeof made);
  made.device_type = QUIRE_DEVICE_CPU;
  const long page = sysconf(_SC_PAGESIZE);
  const long total = sysconf(_SC_PHYS_PAGES);
  const long available = sysconf(_SC_AVPHYS_PAGES);
  if (page > 0 && total > 0) made.total_bytes = static_cast<uint64_t>(page) * static_cast<uint64_t>(total);
  if (page > 0 && available > 0) made.free_bytes = static_cast<uint64_t>(page) * static_cast<uint64_t>(available);
  const ContainerLimits limits = container_limits("");
  made.total_bytes = std::min(made.total_bytes, limits.memory_bytes);
  made.free_bytes = std::min(made.free_bytes, limits.memory_left);
  made.alignment = 64;
  std::snprintf(made.driver, sizeof made.driver, "cpu");
  std::snprintf(made.name, sizeof made.name, "CPU, %u threads, %s", device->threads.count(), device->kernels->name);
  memcpy(info, &made, made.struct_size);
  return QUIRE_OK;
}

template <typename T>
quire_code make(quire_driver_device* device, T** out, quire_error* err) {
  if (device == nullptr || out == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device or out is NULL");
  void* p = take(*device->instance, sizeof(T));
  if (p == nullptr) return QUIRE_FAIL(err, QUIRE_RESOURCE_EXHAUSTED, "no memory for %zu bytes", sizeof(T));
  *out = new (p) T{device};
  return QUIRE_OK;
}

quire_code stream_create(quire_driver_device* device, uint64_t native, quire_driver_stream** out, quire_error* err) {
  if (native != 0) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "native stream 0x%" PRIx64 ": the CPU has none", native);
  return make(device, out, err);
}

void stream_destroy(quire_driver_stream* stream) {
  if (stream != nullptr) give(*stream->device->instance, stream, sizeof *stream);
}

quire_code event_create(quire_driver_device* device, quire_driver_event** out, quire_error* err) { return make(device, out, err); }

void event_destroy(quire_driver_event* event) {
  if (event != nullptr) give(*event->device->instance, event, sizeof *event);
}

// Streams run inline, so whatever was queued is done.
quire_code stream_synchronize(quire_driver_stream* stream, int64_t, quire_error* err) {
  return stream != nullptr ? QUIRE_OK : QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
}

quire_code event_on_stream(quire_driver_event* event, quire_driver_stream* stream, quire_error* err) {
  return event != nullptr && stream != nullptr ? QUIRE_OK : QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "event or stream is NULL");
}

quire_code event_synchronize(quire_driver_event* event, int64_t, quire_error* err) {
  return event != nullptr ? QUIRE_OK : QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "event is NULL");
}

constexpr quire_driver_api kApi = {
    sizeof(quire_driver_api),
    0,
    create,
    destroy,
    device_count,
    device_open,
    device_close,
    device_info,
    mem_alloc,
    mem_free,
    tensor_create,
    stream_create,
    stream_destroy,
    stream_synchronize,
    event_create,
    event_destroy,
    event_on_stream,
    event_on_stream,
    event_synchronize,
    copy,
    fill,
    kv_append,
    attention_workspace,
    attention_plan,
    attention,
    attention_merge,
    gated_delta,
    conv1d,
    selective_scan,
};

constexpr quire_manifest kManifest = {
    QUIRE_MODULE_MAGIC,
    sizeof(quire_manifest),
    QUIRE_MODULE_DRIVER,
    QUIRE_DRIVER_ABI_VERSION,
    "cpu",
    "0.2.0",
    QUIRE_MODULE_SANITIZERS,
    &kApi,
    nullptr,
};

}  // namespace
}  // namespace quire::cpu

extern "C" quire_code quire_driver_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  using quire::cpu::kManifest;
  if (query == nullptr || out == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "query or out is NULL");
  if (query->abi_min > QUIRE_DRIVER_ABI_VERSION || query->abi_max < QUIRE_DRIVER_ABI_VERSION) {
    return QUIRE_FAIL(err, QUIRE_INCOMPATIBLE_ABI, "this driver speaks ABI 0x%x, the host 0x%x to 0x%x", QUIRE_DRIVER_ABI_VERSION,
                      query->abi_min, query->abi_max);
  }
  *out = &kManifest;
  return QUIRE_OK;
}
