// Instances, devices, streams, events: the same for every vendor.
#include "drivers/gpu/gpu_device.h"

#include <time.h>

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <new>

namespace quire::gpu {
namespace {

using drivers::check_descriptor;

void* take(const quire_driver_instance& instance, uint64_t bytes) {
  if (instance.host.alloc != nullptr) return instance.host.alloc(instance.host.user, bytes, 64);
  void* p = nullptr;
  return posix_memalign(&p, 64, bytes) == 0 ? p : nullptr;
}

void give(const quire_driver_instance& instance, void* p, uint64_t bytes) {
  if (p == nullptr) return;
  if (instance.host.release_memory != nullptr) {
    instance.host.release_memory(instance.host.user, p, bytes, 64);
  } else {
    std::free(p);
  }
}

template <typename T>
quire_code make(const quire_driver_instance& instance, T** out, quire_error* err) {
  void* p = take(instance, sizeof(T));
  if (p == nullptr) {
    QUIRE_FAIL(err, QUIRE_RESOURCE_EXHAUSTED, "no memory for %zu bytes", sizeof(T));
    return QUIRE_RESOURCE_EXHAUSTED;
  }
  *out = new (p) T{};
  return QUIRE_OK;
}

quire_code read_options(const quire_driver_options* options, quire_driver_instance* made, quire_error* err) {
  constexpr uint32_t kFirstBytes = 32;  // of the first version: up to `next`
  uint32_t size = 0;
  memcpy(&size, options, sizeof size);
  if (size < kFirstBytes) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "driver_options.struct_size is %u, at least %u is needed", size, kFirstBytes);
  }
  if (size > sizeof made->options) QUIRE_TRY(check_descriptor(options, sizeof made->options, "driver_options", err));
  memcpy(&made->options, options, size < sizeof made->options ? size : sizeof made->options);
  if (made->options.host != nullptr) {
    const uint32_t known = made->options.host->struct_size;
    memcpy(&made->host, made->options.host, known < sizeof made->host ? known : sizeof made->host);
  }
  if ((made->host.alloc == nullptr) != (made->host.release_memory == nullptr)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "host.alloc and host.release_memory go together");
  }
  return QUIRE_OK;
}

quire_code create(const quire_driver_options* options, quire_driver_instance** out, quire_error* err) {
  if (out == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "out is NULL");
  quire_driver_instance made{};
  if (options != nullptr) QUIRE_TRY(read_options(options, &made, err));
  QUIRE_TRY(load_runtime(made.options, &made.runtime, err));
  quire_driver_instance* instance = nullptr;
  QUIRE_TRY(make(made, &instance, err));
  *instance = made;
  *out = instance;
  return QUIRE_OK;
}

void destroy(quire_driver_instance* instance) {
  if (instance == nullptr) return;
  const quire_driver_instance copy = *instance;
  give(copy, instance, sizeof *instance);
}

quire_code device_count(quire_driver_instance* instance, uint32_t* count, quire_error* err) {
  if (instance == nullptr || count == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "instance or count is NULL");
  const int code = instance->runtime->device_count(count);
  return code == 0 ? QUIRE_OK : QUIRE_FAIL(err, QUIRE_UNAVAILABLE, "device_count: %s", instance->runtime->error_text(code));
}

void device_close(quire_driver_device* device) {
  if (device == nullptr) return;
  if (device->native != nullptr) device->runtime->device_close(device->native);
  const quire_driver_instance& instance = *device->instance;
  device->~quire_driver_device();
  give(instance, device, sizeof *device);
}

// Matrix instructions were asked for, and the code that this device runs has none.
void warn_of_dots(const quire_driver_device& device) {
  const quire_host_api& host = device.instance->host;
  if (host.log == nullptr) return;
  char message[192];
  const int n = std::snprintf(message, sizeof message,
                              "device %u (%s) has no matrix instructions that this driver uses: attention multiplies by dot products",
                              device.ordinal, device.facts.name);
  host.log(host.user, QUIRE_LOG_WARN, {drivers::kDriverName, strlen(drivers::kDriverName)}, {message, static_cast<uint64_t>(n)});
}

quire_code device_open(quire_driver_instance* instance, uint32_t ordinal, quire_driver_device** out, quire_error* err) {
  if (instance == nullptr || out == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "instance or out is NULL");
  uint32_t count = 0;
  QUIRE_TRY(device_count(instance, &count, err));
  if (ordinal >= count) return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "ordinal is %u, there are %u devices", ordinal, count);
  quire_driver_device* device = nullptr;
  QUIRE_TRY(make(*instance, &device, err));
  device->instance = instance;
  device->runtime = instance->runtime;
  device->ordinal = ordinal;
  int code = device->runtime->device_open(ordinal, instance->options, &device->native);
  if (code == 0) code = device->runtime->device_facts(device->native, &device->facts);
  if (code != 0) {
    const quire_code failed = native(device, code, "opening the device", err);
    device_close(device);
    return failed;
  }
  if (instance->options.flags == kFlagsMatrix && !device->facts.matrix) warn_of_dots(*device);
  *out = device;
  return QUIRE_OK;
}

quire_code device_info(quire_driver_device* device, quire_device_info* info, quire_error* err) {
  if (device == nullptr || info == nullptr || info->struct_size < sizeof(uint32_t)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device or info is NULL, or info.struct_size is below 4");
  }
  Facts facts{};
  QUIRE_TRY(native(device, device->runtime->device_facts(device->native, &facts), "device_info", err));
  quire_device_info made{};
  made.struct_size = info->struct_size < sizeof made ? info->struct_size : static_cast<uint32_t>(sizeof made);
  made.device_type = device->runtime->device_type;
  made.device_id = static_cast<int32_t>(device->ordinal);
  made.wave_width = facts.wave;
  made.total_bytes = facts.total_bytes;
  made.free_bytes = facts.free_bytes;
  made.alignment = 256;
  std::snprintf(made.driver, sizeof made.driver, "%s", drivers::kDriverName);
  std::snprintf(made.name, sizeof made.name, "%s, %u multiprocessors", facts.name, facts.multiprocessors);
  memcpy(info, &made, made.struct_size);
  return QUIRE_OK;
}

void stream_destroy(quire_driver_stream* stream) {
  if (stream == nullptr) return;
  quire_driver_device* device = stream->device;
  if (stream->native != nullptr) {
    native(device, device->runtime->stream_synchronize(device->native, stream->native), "stream_destroy", nullptr);  // may say: lost
  }
  if (stream->plan != nullptr) device->runtime->release(device->native, stream->plan, false);
  if (stream->partials != nullptr) device->runtime->release(device->native, stream->partials, false);
  if (stream->owned && stream->native != nullptr) device->runtime->stream_destroy(device->native, stream->native);
  give(*device->instance, stream, sizeof *stream);
}

quire_code stream_create(quire_driver_device* device, uint64_t imported, quire_driver_stream** out, quire_error* err) {
  if (device == nullptr || out == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device or out is NULL");
  QUIRE_TRY(native(device, 0, "stream_create", err));
  quire_driver_stream* stream = nullptr;
  QUIRE_TRY(make(*device->instance, &stream, err));
  stream->device = device;
  stream->owned = imported == 0;
  stream->native = reinterpret_cast<void*>(imported);  // NOLINT(performance-no-int-to-ptr): the ABI carries native handles as integers
  const Runtime& r = *device->runtime;
  int code = stream->owned ? r.stream_create(device->native, &stream->native) : 0;
  void* partials = nullptr;
  if (code == 0) code = r.alloc(device->native, drivers::plan_size(kStreamRecords, kStreamMerges), 256, false, &stream->plan);
  if (code == 0) code = r.alloc(device->native, kStreamFloats * sizeof(float), 256, false, &partials);
  stream->partials = static_cast<float*>(partials);
  if (code != 0) {
    stream_destroy(stream);
    return native(device, code, "stream_create", err);
  }
  *out = stream;
  return QUIRE_OK;
}

// Waits for `query` to stop answering not_ready: forever, not at all, or up to a deadline.
quire_code wait(quire_driver_device* device, void* object, int (*query)(void*, void*), int (*finish)(void*, void*), int64_t timeout_ns,
                const char* what, quire_error* err) {
  if (timeout_ns < 0) return native(device, finish(device->native, object), what, err);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t start = now.tv_sec * 1000000000 + now.tv_nsec;
  for (;;) {
    const int code = query(device->native, object);
    if (code != device->runtime->not_ready || code == 0) return native(device, code, what, err);
    if (timeout_ns == 0) return QUIRE_FAIL(err, QUIRE_NOT_READY, "%s: work is still queued", what);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec * 1000000000 + now.tv_nsec - start >= timeout_ns) {
      return QUIRE_FAIL(err, QUIRE_DEADLINE_EXCEEDED, "%s: work is still queued after %" PRId64 " ns", what, timeout_ns);
    }
    const timespec pause{0, 20000};
    nanosleep(&pause, nullptr);
  }
}

quire_code stream_synchronize(quire_driver_stream* stream, int64_t timeout_ns, quire_error* err) {
  QUIRE_TRY(check_stream(stream, err));
  const Runtime& r = *stream->device->runtime;
  return wait(stream->device, stream->native, r.stream_query, r.stream_synchronize, timeout_ns, "stream_synchronize", err);
}

void event_destroy(quire_driver_event* event) {
  if (event == nullptr) return;
  quire_driver_device* device = event->device;
  if (event->native != nullptr) device->runtime->event_destroy(device->native, event->native);
  give(*device->instance, event, sizeof *event);
}

quire_code event_create(quire_driver_device* device, quire_driver_event** out, quire_error* err) {
  if (device == nullptr || out == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device or out is NULL");
  QUIRE_TRY(native(device, 0, "event_create", err));
  quire_driver_event* event = nullptr;
  QUIRE_TRY(make(*device->instance, &event, err));
  event->device = device;
  const int code = device->runtime->event_create(device->native, &event->native);
  if (code != 0) {
    event_destroy(event);
    return native(device, code, "event_create", err);
  }
  *out = event;
  return QUIRE_OK;
}

quire_code event_record(quire_driver_event* event, quire_driver_stream* stream, quire_error* err) {
  if (event == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "event is NULL");
  QUIRE_TRY(check_stream(stream, err));
  quire_driver_device* device = stream->device;
  return native(device, device->runtime->event_record(device->native, event->native, stream->native), "event_record", err);
}

quire_code event_wait(quire_driver_event* event, quire_driver_stream* stream, quire_error* err) {
  if (event == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "event is NULL");
  QUIRE_TRY(check_stream(stream, err));
  quire_driver_device* device = stream->device;
  return native(device, device->runtime->event_wait(device->native, event->native, stream->native), "event_wait", err);
}

quire_code event_synchronize(quire_driver_event* event, int64_t timeout_ns, quire_error* err) {
  if (event == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "event is NULL");
  QUIRE_TRY(native(event->device, 0, "event_synchronize", err));
  const Runtime& r = *event->device->runtime;
  return wait(event->device, event->native, r.event_query, r.event_synchronize, timeout_ns, "event_synchronize", err);
}

}  // namespace

quire_code native(quire_driver_device* device, int code, const char* what, quire_error* err) {
  const int lost = device->lost.load(std::memory_order_relaxed);
  const Runtime& r = *device->runtime;
  if (lost != 0 && (code == 0 || r.terminal(code))) {
    QUIRE_FAIL(err, QUIRE_ABORTED, "%s: the device is lost: %s (%d)", what, r.error_text(lost), lost);
    code = lost;
  } else if (code == 0) {
    return QUIRE_OK;
  } else if (r.terminal(code)) {
    int none = 0;
    device->lost.compare_exchange_strong(none, code);
    QUIRE_FAIL(err, QUIRE_ABORTED, "%s: the device is lost from now on: %s (%d)", what, r.error_text(code), code);
  } else {
    const quire_code kind = r.exhausted(code) ? QUIRE_RESOURCE_EXHAUSTED : r.unsupported(code) ? QUIRE_UNIMPLEMENTED : QUIRE_INTERNAL;
    QUIRE_FAIL(err, kind, "%s: %s (%d)", what, r.error_text(code), code);
    if (err != nullptr) err->native_code = code, err->native_domain = r.error_domain;
    return kind;
  }
  if (err != nullptr) err->native_code = code, err->native_domain = r.error_domain;
  return QUIRE_ABORTED;
}

quire_code check_stream(quire_driver_stream* stream, quire_error* err) {
  if (stream == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  return stream->device->lost.load(std::memory_order_relaxed) == 0 ? QUIRE_OK : native(stream->device, 0, "stream", err);
}

const quire_driver_api kApi = {
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
    event_record,
    event_wait,
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

}  // namespace quire::gpu
