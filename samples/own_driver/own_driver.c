/* A driver of one's own: one device whose memory is the host's, without kernels, and one extension
 * op. Everything else of the table is absent, which callers see as UNIMPLEMENTED. */
#include <stdlib.h>
#include <string.h>

#include <quire/sdk/note.h>

QUIRE_DRIVER_NOTE("own");

struct quire_driver_instance {
  int unused;
};
struct quire_driver_device {
  int unused;
};
struct quire_driver_stream {
  int unused;
};

static quire_code no_memory(quire_error* err) {
  if (err != NULL) {
    err->code = QUIRE_RESOURCE_EXHAUSTED;
    strcpy(err->source, "driver:own");
    strcpy(err->message, "no host memory");
  }
  return QUIRE_RESOURCE_EXHAUSTED;
}

static quire_code own_create(const quire_driver_options* options, quire_driver_instance** out,
                             quire_error* err) {
  (void)options;
  *out = calloc(1, sizeof **out);
  return *out == NULL ? no_memory(err) : QUIRE_OK;
}

static void own_destroy(quire_driver_instance* instance) { free(instance); }

static quire_code own_device_count(quire_driver_instance* instance, uint32_t* count,
                                   quire_error* err) {
  (void)instance;
  (void)err;
  *count = 1;
  return QUIRE_OK;
}

static quire_code own_device_open(quire_driver_instance* instance, uint32_t ordinal,
                                  quire_driver_device** out, quire_error* err) {
  (void)instance;
  (void)ordinal;
  *out = calloc(1, sizeof **out);
  return *out == NULL ? no_memory(err) : QUIRE_OK;
}

static void own_device_close(quire_driver_device* device) { free(device); }

static quire_code own_device_info(quire_driver_device* device, quire_device_info* info,
                                  quire_error* err) {
  (void)device;
  (void)err;
  info->device_type = QUIRE_DEVICE_CPU;
  info->alignment = 64;
  strcpy(info->driver, "own");
  strcpy(info->name, "a device of one's own");
  return QUIRE_OK;
}

static quire_code own_mem_alloc(quire_driver_device* device, uint64_t bytes, uint64_t alignment,
                                uint32_t kind, void** address, quire_error* err) {
  const uint64_t align = alignment < 64 ? 64 : alignment;
  (void)device;
  (void)kind;
  *address = NULL;
  if (bytes == 0) return QUIRE_OK;
  if (bytes > (uint64_t)1 << 47) return no_memory(err);
  *address = aligned_alloc((size_t)align, (size_t)((bytes + align - 1) / align * align));
  return *address == NULL ? no_memory(err) : QUIRE_OK;
}

static void own_mem_free(quire_driver_device* device, void* address, uint64_t bytes,
                         uint32_t kind) {
  (void)device;
  (void)bytes;
  (void)kind;
  free(address);
}

static quire_code own_stream_create(quire_driver_device* device, uint64_t native,
                                    quire_driver_stream** out, quire_error* err) {
  (void)device;
  (void)native;
  *out = calloc(1, sizeof **out);
  return *out == NULL ? no_memory(err) : QUIRE_OK;
}

static void own_stream_destroy(quire_driver_stream* stream) { free(stream); }

static quire_code own_stream_synchronize(quire_driver_stream* stream, int64_t timeout_ns,
                                         quire_error* err) {
  (void)stream;
  (void)timeout_ns;
  (void)err;
  return QUIRE_OK;
}

static quire_code own_fill(quire_driver_stream* stream, void* destination, uint8_t value,
                           uint64_t bytes, quire_error* err) {
  (void)stream;
  (void)err;
  if (bytes != 0) memset(destination, value, (size_t)bytes);
  return QUIRE_OK;
}

/* A function that existed before quire: its signature in the table below is all that is needed to
 * call it by name. */
static double blend(double a, double b, float share) { return a + (b - a) * (double)share; }

static const quire_extension_entry own_op_entries[] = {
    {sizeof(quire_extension_entry),
     1,
     {"own.blend", 9},
     {"f64(f64,f64,f32)", 16},
     {"a + (b - a) * share", 19},
     (quire_native_fn)blend,
     NULL},
};
static const quire_extension_table own_ops = {sizeof own_ops, sizeof own_op_entries[0], 1,
                                              own_op_entries};

static const quire_driver_api own_api = {
    .struct_size = sizeof own_api,
    .create = own_create,
    .destroy = own_destroy,
    .device_count = own_device_count,
    .device_open = own_device_open,
    .device_close = own_device_close,
    .device_info = own_device_info,
    .mem_alloc = own_mem_alloc,
    .mem_free = own_mem_free,
    .stream_create = own_stream_create,
    .stream_destroy = own_stream_destroy,
    .stream_synchronize = own_stream_synchronize,
    .fill = own_fill,
};

static const quire_manifest own_manifest = {
    .magic = QUIRE_MODULE_MAGIC,
    .struct_size = sizeof own_manifest,
    .kind = QUIRE_MODULE_DRIVER,
    .abi_version = QUIRE_DRIVER_ABI_VERSION,
    .name = "own",
    .version = "1.0",
    .sanitizers = QUIRE_MODULE_SANITIZERS,
    .api = &own_api,
    .ops = &own_ops,
};

quire_code quire_driver_query(const quire_query* query, const quire_manifest** out,
                              quire_error* err) {
  if (query->abi_min > QUIRE_DRIVER_ABI_VERSION || query->abi_max < QUIRE_DRIVER_ABI_VERSION) {
    if (err != NULL) strcpy(err->message, "this driver implements driver ABI 0.2 only");
    return QUIRE_INCOMPATIBLE_ABI;
  }
  *out = &own_manifest;
  return QUIRE_OK;
}
