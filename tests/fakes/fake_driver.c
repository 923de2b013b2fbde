/* A driver that is wrong in one way: each FAKE_* definition breaks one rule of driver.h. Without any it is a good driver. The expected
 * outcome of each stands in fakes_test.cc. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/note.h"

#ifndef FAKE_NOTE_ABI
#define FAKE_NOTE_ABI QUIRE_DRIVER_ABI_VERSION
#endif
#ifndef FAKE_NOTE_HOST
#define FAKE_NOTE_HOST FAKE_NOTE_ABI
#endif
#ifndef FAKE_NOTE_FLAGS
#define FAKE_NOTE_FLAGS 0
#endif
#ifndef FAKE_NOTE_KIND
#define FAKE_NOTE_KIND QUIRE_MODULE_DRIVER
#endif
#ifndef FAKE_NOTE_NAME
#define FAKE_NOTE_NAME FAKE_NAME
#endif
#ifndef FAKE_MAGIC
#define FAKE_MAGIC QUIRE_MODULE_MAGIC
#endif
#ifndef FAKE_MANIFEST_SIZE
#define FAKE_MANIFEST_SIZE sizeof(quire_manifest)
#endif
#ifndef FAKE_MANIFEST_ABI
#define FAKE_MANIFEST_ABI QUIRE_DRIVER_ABI_VERSION
#endif
#ifndef FAKE_MANIFEST_KIND
#define FAKE_MANIFEST_KIND QUIRE_MODULE_DRIVER
#endif
#ifndef FAKE_MANIFEST_NAME
#define FAKE_MANIFEST_NAME FAKE_NAME
#endif
#ifdef FAKE_SANITIZERS
#define FAKE_SANITIZER_BITS (3 & ~(uint64_t)QUIRE_MODULE_SANITIZERS)
#else
#define FAKE_SANITIZER_BITS QUIRE_MODULE_SANITIZERS
#endif
#ifndef FAKE_TABLE_SIZE
#define FAKE_TABLE_SIZE sizeof(quire_driver_api)
#endif
#ifndef FAKE_ALIGNMENT
#define FAKE_ALIGNMENT 64
#endif

#ifndef FAKE_NAME
#define FAKE_NAME "fake"
#endif

#ifndef FAKE_NO_NOTE
static const quire_note_record fake_note QUIRE_NOTE_ATTRIBUTES = {
    6,
    (uint32_t)sizeof(quire_note),
    QUIRE_NOTE_TYPE,
    "QUIRE",
    {FAKE_NOTE_KIND, FAKE_NOTE_ABI, FAKE_NOTE_HOST, FAKE_NOTE_FLAGS, FAKE_NOTE_NAME}};
#endif

#ifndef FAKE_NO_SYMBOL

#ifdef FAKE_THROWS
void fake_throw(void);
#endif

struct quire_driver_instance {
  int unused;
};
struct quire_driver_device {
  int unused;
};

static quire_code fake_create(const quire_driver_options* options, quire_driver_instance** out, quire_error* err) {
  (void)options;
  (void)out;
  (void)err;
#if defined(FAKE_UNAVAILABLE)
  strcpy(err->message, "there is no such device in this machine");
  return QUIRE_UNAVAILABLE;
#elif defined(FAKE_UNKNOWN_CODE)
  return 4711;
#elif defined(FAKE_NULL_INSTANCE)
  return QUIRE_OK;
#elif defined(FAKE_EXITS)
  exit(3);
#elif defined(FAKE_CRASHES)
  raise(SIGSEGV);
  return QUIRE_INTERNAL;
#elif defined(FAKE_HANGS)
  while (1 == 1) pause();
  return QUIRE_INTERNAL;
#elif defined(FAKE_THROWS)
  fake_throw();
  return QUIRE_OK;
#elif defined(FAKE_ENDLESS_MESSAGE)
  memset(err->message, 'x', sizeof err->message);
  memset(err->source, 'y', sizeof err->source);
  return QUIRE_UNAVAILABLE;
#else
  *out = calloc(1, sizeof **out);
  return QUIRE_OK;
#endif
}

static void fake_destroy(quire_driver_instance* instance) { free(instance); }

static quire_code fake_device_count(quire_driver_instance* instance, uint32_t* count, quire_error* err) {
  (void)instance;
  (void)err;
#if defined(FAKE_NO_DEVICES)
  *count = 0;
#elif defined(FAKE_COUNT_FAILS)
  (void)count;
  strcpy(err->message, "the bus did not answer");
  return QUIRE_ABORTED;
#else
  *count = 2;
#endif
  return QUIRE_OK;
}

static quire_code fake_device_open(quire_driver_instance* instance, uint32_t ordinal, quire_driver_device** out, quire_error* err) {
  (void)instance;
  (void)ordinal;
  (void)err;
#ifdef FAKE_NULL_DEVICE
  (void)out;
#else
  *out = calloc(1, sizeof **out);
#endif
  return QUIRE_OK;
}

static void fake_device_close(quire_driver_device* device) { free(device); }

#ifndef FAKE_NO_DEVICE_INFO
static quire_code fake_device_info(quire_driver_device* device, quire_device_info* info, quire_error* err) {
  quire_device_info own;
  (void)device;
  (void)err;
  memset(&own, 0, sizeof own);
  own.struct_size = sizeof own;
  own.device_type = QUIRE_DEVICE_CPU;
  own.alignment = FAKE_ALIGNMENT;
#ifdef FAKE_LYING_INFO
  own.struct_size = 4000000000u;
  memset(own.driver, 'z', sizeof own.driver);
  memset(own.name, 'z', sizeof own.name);
#else
  strcpy(own.driver, FAKE_NAME);
#endif
  memcpy(info, &own, sizeof own);
  return QUIRE_OK;
}
#endif

#ifndef FAKE_ONLY_LIFECYCLE
struct quire_driver_stream {
  int unused;
};

static quire_code fake_mem_alloc(quire_driver_device* device, uint64_t bytes, uint64_t alignment, uint32_t kind, void** address,
                                 quire_error* err) {
  const size_t align = alignment < 64 ? 64 : (size_t)alignment;
  (void)device;
  (void)kind;
  (void)err;
#if defined(FAKE_NULL_MEMORY)
  *address = NULL;
  (void)bytes;
  (void)align;
#elif defined(FAKE_ODD_MEMORY)
  *address = (char*)aligned_alloc(align, ((size_t)bytes + 2 * align) / align * align) + 1;
#else
  *address = bytes == 0 ? NULL : aligned_alloc(align, ((size_t)bytes + align - 1) / align * align);
#endif
  return QUIRE_OK;
}

static void fake_mem_free(quire_driver_device* device, void* address, uint64_t bytes, uint32_t kind) {
  (void)device;
  (void)bytes;
  (void)kind;
#ifdef FAKE_ODD_MEMORY
  free((char*)address - 1);
#else
  free(address);
#endif
}

static quire_code fake_stream_create(quire_driver_device* device, uint64_t native, quire_driver_stream** out, quire_error* err) {
  (void)device;
  (void)native;
  (void)err;
#ifdef FAKE_NULL_STREAM
  (void)out;
#else
  *out = calloc(1, sizeof **out);
#endif
  return QUIRE_OK;
}

static void fake_stream_destroy(quire_driver_stream* stream) { free(stream); }

static quire_code fake_stream_synchronize(quire_driver_stream* stream, int64_t timeout_ns, quire_error* err) {
  (void)stream;
  (void)timeout_ns;
  (void)err;
#ifdef FAKE_LATE_FAILURE
  strcpy(err->message, "work queued before was lost");
  return QUIRE_DATA_LOSS;
#else
  return QUIRE_OK;
#endif
}

static quire_code fake_fill(quire_driver_stream* stream, void* destination, uint8_t value, uint64_t bytes, quire_error* err) {
  (void)stream;
  (void)err;
#ifdef FAKE_FILL_UNKNOWN
  (void)destination;
  (void)value;
  (void)bytes;
  strcpy(err->message, "no words for this");
  return -5;
#else
  memset(destination, value, (size_t)bytes);
  return QUIRE_OK;
#endif
}
#endif

#ifdef FAKE_LONGER_TABLE
/* A table of a later header: what stands behind ours is not looked at. */
static const struct {
  quire_driver_api known;
  void* later[8];
} fake_longer = {.known =
#else
static const quire_driver_api fake_api =
#endif
                     {
                         .struct_size = FAKE_TABLE_SIZE,
                         .create = fake_create,
                         .destroy = fake_destroy,
                         .device_count = fake_device_count,
                         .device_open = fake_device_open,
                         .device_close = fake_device_close,
#ifndef FAKE_NO_DEVICE_INFO
                         .device_info = fake_device_info,
#endif
#ifndef FAKE_ONLY_LIFECYCLE
                         .mem_alloc = fake_mem_alloc,
                         .mem_free = fake_mem_free,
                         .stream_create = fake_stream_create,
                         .stream_destroy = fake_stream_destroy,
                         .stream_synchronize = fake_stream_synchronize,
                         .fill = fake_fill,
#endif
                     }
#ifdef FAKE_LONGER_TABLE
};
#define fake_api fake_longer.known
#else
;
#endif

#ifdef FAKE_OP_SIGNATURE
static void fake_op(void) {}
static const quire_extension_entry fake_op_entry = {
    sizeof(quire_extension_entry), 1, {"fake.op", 7}, {FAKE_OP_SIGNATURE, sizeof(FAKE_OP_SIGNATURE) - 1}, {NULL, 0}, fake_op, NULL};
#ifndef FAKE_OP_STRIDE
#define FAKE_OP_STRIDE sizeof(quire_extension_entry)
#endif
static const quire_extension_table fake_ops = {sizeof fake_ops, FAKE_OP_STRIDE, 1, &fake_op_entry};
#endif

static const quire_manifest fake_manifest = {
    .magic = FAKE_MAGIC,
    .struct_size = FAKE_MANIFEST_SIZE,
    .kind = FAKE_MANIFEST_KIND,
    .abi_version = FAKE_MANIFEST_ABI,
    .name = FAKE_MANIFEST_NAME,
    .version = "1",
    .sanitizers = FAKE_SANITIZER_BITS,
#ifndef FAKE_NO_TABLE
    .api = &fake_api,
#endif
#ifdef FAKE_OP_SIGNATURE
    .ops = &fake_ops,
#endif
};

#ifdef FAKE_CONSTRUCTOR_EXITS
/* Must never run: what its note says already refuses the file. */
__attribute__((constructor)) static void fake_constructor(void) { _exit(9); }
#endif

quire_code quire_driver_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  (void)query;
  (void)out;
  (void)err;
  (void)&fake_api;
  (void)&fake_manifest;
#ifdef FAKE_SLOW
  {
    const struct timespec wait = {0, 60000000};
    nanosleep(&wait, NULL);
  }
#endif
#if defined(FAKE_REFUSES)
  strcpy(err->message, "this driver wants a host of version 9");
  return QUIRE_INCOMPATIBLE_ABI;
#elif defined(FAKE_NO_MANIFEST)
  return QUIRE_OK;
#else
  *out = &fake_manifest;
  return QUIRE_OK;
#endif
}

#endif /* FAKE_NO_SYMBOL */
