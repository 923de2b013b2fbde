/* The null driver: one device whose memory is the host's and which computes nothing. A template to copy: every required entry is here,
 * every op is absent and therefore UNIMPLEMENTED to callers. Bytes are copied and filled at once, so streams have nothing to wait for. Its
 * extension ops (echo.c) give their arguments back. */
#include <quire/sdk/note.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"

QUIRE_DRIVER_NOTE("null");

#define NULL_ALIGNMENT 256u
#define NULL_MAX_BYTES ((uint64_t)1 << 47) /* user addresses of 64-bit machines */

struct quire_driver_instance {
  const quire_host_api* host;
};

struct quire_driver_device {
  quire_driver_instance* instance;
};

struct quire_driver_stream {
  quire_driver_device* device;
};

static quire_code null_fail(quire_error* err, quire_code code, const char* message) {
  if (err != NULL && err->struct_size >= sizeof *err) {
    err->code = code;
    err->native_code = 0;
    err->native_domain = 0;
    strncpy(err->source, "driver:null", sizeof err->source - 1);
    err->source[sizeof err->source - 1] = '\0';
    strncpy(err->message, message, sizeof err->message - 1);
    err->message[sizeof err->message - 1] = '\0';
  }
  return code;
}

static quire_code null_create(const quire_driver_options* options, quire_driver_instance** out, quire_error* err) {
  quire_driver_instance* instance = calloc(1, sizeof *instance);
  if (instance == NULL) return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "no host memory for the driver instance");
  instance->host = options->host;
  *out = instance;
  return QUIRE_OK;
}

static void null_destroy(quire_driver_instance* instance) { free(instance); }

static quire_code null_device_count(quire_driver_instance* instance, uint32_t* count, quire_error* err) {
  (void)instance;
  (void)err;
  *count = 1;
  return QUIRE_OK;
}

static quire_code null_device_open(quire_driver_instance* instance, uint32_t ordinal, quire_driver_device** out, quire_error* err) {
  quire_driver_device* device;
  if (ordinal != 0) return null_fail(err, QUIRE_OUT_OF_RANGE, "ordinal is out of range: there is 1 device, ordinal 0");
  device = calloc(1, sizeof *device);
  if (device == NULL) return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "no host memory for the device");
  device->instance = instance;
  *out = device;
  return QUIRE_OK;
}

static void null_device_close(quire_driver_device* device) { free(device); }

/* Info structs are filled up to the size that the caller knows. */
static quire_code null_device_info(quire_driver_device* device, quire_device_info* info, quire_error* err) {
  quire_device_info own;
  uint32_t bytes = info->struct_size < sizeof own ? info->struct_size : (uint32_t)sizeof own;
  (void)device;
  (void)err;
  memset(&own, 0, sizeof own);
  own.struct_size = bytes;
  own.device_type = QUIRE_DEVICE_CPU;
  own.alignment = NULL_ALIGNMENT;
  strcpy(own.driver, "null");
  strcpy(own.name, "host memory without kernels");
  memcpy(info, &own, bytes);
  return QUIRE_OK;
}

static quire_code null_mem_alloc(quire_driver_device* device, uint64_t bytes, uint64_t alignment, uint32_t kind, void** address,
                                 quire_error* err) {
  uint64_t align = alignment < NULL_ALIGNMENT ? NULL_ALIGNMENT : alignment;
  (void)device;
  (void)kind;
  *address = NULL;
  if ((align & (align - 1)) != 0) return null_fail(err, QUIRE_INVALID_ARGUMENT, "alignment is not a power of two");
  if (bytes == 0) return QUIRE_OK;
  if (bytes > NULL_MAX_BYTES || align > NULL_MAX_BYTES)
    return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "bytes is beyond what a process can address");
  *address = aligned_alloc((size_t)align, (size_t)((bytes + align - 1) / align * align));
  if (*address == NULL) return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "malloc found no memory of that size");
  return QUIRE_OK;
}

static void null_mem_free(quire_driver_device* device, void* address, uint64_t bytes, uint32_t kind) {
  (void)device;
  (void)bytes;
  (void)kind;
  free(address);
}

static quire_code null_stream_create(quire_driver_device* device, uint64_t native, quire_driver_stream** out, quire_error* err) {
  quire_driver_stream* stream;
  if (native != 0) return null_fail(err, QUIRE_UNIMPLEMENTED, "the null driver has no native streams to import");
  stream = calloc(1, sizeof *stream);
  if (stream == NULL) return null_fail(err, QUIRE_RESOURCE_EXHAUSTED, "no host memory for the stream");
  stream->device = device;
  *out = stream;
  return QUIRE_OK;
}

static void null_stream_destroy(quire_driver_stream* stream) { free(stream); }

static quire_code null_stream_synchronize(quire_driver_stream* stream, int64_t timeout_ns, quire_error* err) {
  (void)stream;
  (void)timeout_ns;
  (void)err;
  return QUIRE_OK;
}

/* All runs are looked at before a byte is written. */
static quire_code null_check_runs(const quire_copy_run* runs, uint64_t n, quire_error* err) {
  uint64_t i;
  for (i = 0; i < n; ++i) {
    const quire_copy_run* run = &runs[i];
    const char* fault = NULL;
    char message[96];
    if (run->bytes == 0) continue;
    if (run->source == 0 || run->destination == 0) fault = "an address is NULL";
    if (run->source < run->destination + run->bytes && run->destination < run->source + run->bytes)
      fault = "source and destination overlap";
    if (fault == NULL) continue;
    snprintf(message, sizeof message, "runs[%llu]: %s", (unsigned long long)i, fault);
    return null_fail(err, QUIRE_INVALID_ARGUMENT, message);
  }
  return QUIRE_OK;
}

static quire_code null_copy(quire_driver_stream* stream, const quire_copy_run* runs, uint64_t n, quire_error* err) {
  const quire_code code = null_check_runs(runs, n, err);
  uint64_t i;
  (void)stream;
  for (i = 0; code == QUIRE_OK && i < n; ++i) {
    if (runs[i].bytes == 0) continue;
    memcpy((void*)(uintptr_t)runs[i].destination, (const void*)(uintptr_t)runs[i].source, (size_t)runs[i].bytes);
  }
  return code;
}

static quire_code null_fill(quire_driver_stream* stream, void* destination, uint8_t value, uint64_t bytes, quire_error* err) {
  (void)stream;
  (void)err;
  if (bytes != 0) memset(destination, value, (size_t)bytes);
  return QUIRE_OK;
}

static const quire_driver_api null_api = {
    .struct_size = sizeof(quire_driver_api),
    .create = null_create,
    .destroy = null_destroy,
    .device_count = null_device_count,
    .device_open = null_device_open,
    .device_close = null_device_close,
    .device_info = null_device_info,
    .mem_alloc = null_mem_alloc,
    .mem_free = null_mem_free,
    .stream_create = null_stream_create,
    .stream_destroy = null_stream_destroy,
    .stream_synchronize = null_stream_synchronize,
    .copy = null_copy,
    .fill = null_fill,
};

static const quire_manifest null_manifest = {
    .magic = QUIRE_MODULE_MAGIC,
    .struct_size = sizeof(quire_manifest),
    .kind = QUIRE_MODULE_DRIVER,
    .abi_version = QUIRE_DRIVER_ABI_VERSION,
    .name = "null",
    .version = "0.2.0",
    .sanitizers = QUIRE_MODULE_SANITIZERS,
    .api = &null_api,
    .ops = &null_ops,
};

quire_code quire_driver_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  if (query->abi_min > QUIRE_DRIVER_ABI_VERSION || query->abi_max < QUIRE_DRIVER_ABI_VERSION) {
    return null_fail(err, QUIRE_INCOMPATIBLE_ABI, "the null driver implements driver ABI 0.2 only");
  }
  *out = &null_manifest;
  return QUIRE_OK;
}
