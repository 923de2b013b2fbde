/* A driver that is wrong in one way: each FAKE_* definition breaks one rule of driver.h. Without any it is a good driver. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/note.h"

#ifndef FAKE_NOTE_ABI
#define FAKE_NOTE_ABI QUIRE_DRIVER_ABI_VERSION
#endif
#ifndef FAKE_NOTE_KIND
#define FAKE_NOTE_KIND QUIRE_MODULE_DRIVER
#endif
#ifndef FAKE_NOTE_NAME
#define FAKE_NOTE_NAME "fake"
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
#define FAKE_MANIFEST_NAME "fake"
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

#ifndef FAKE_NO_NOTE
QUIRE_NOTE(FAKE_NOTE_KIND, FAKE_NOTE_ABI, FAKE_NOTE_NAME);
#endif

#ifndef FAKE_NO_SYMBOL

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
#else
  *out = calloc(1, sizeof **out);
  return QUIRE_OK;
#endif
}

static void fake_destroy(quire_driver_instance* instance) { free(instance); }

static quire_code fake_device_count(quire_driver_instance* instance, uint32_t* count, quire_error* err) {
  (void)instance;
  (void)err;
#ifdef FAKE_NO_DEVICES
  *count = 0;
#else
  *count = 2;
#endif
  return QUIRE_OK;
}

static quire_code fake_device_open(quire_driver_instance* instance, uint32_t ordinal, quire_driver_device** out, quire_error* err) {
  (void)instance;
  (void)ordinal;
  (void)err;
  *out = calloc(1, sizeof **out);
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
  strcpy(own.driver, "fake");
  memcpy(info, &own, sizeof own);
  return QUIRE_OK;
}
#endif

#ifndef FAKE_ONLY_LIFECYCLE
static quire_code fake_fill(quire_driver_stream* stream, void* destination, uint8_t value, uint64_t bytes, quire_error* err) {
  (void)stream;
  (void)err;
  memset(destination, value, (size_t)bytes);
  return QUIRE_OK;
}
#endif

static const quire_driver_api fake_api = {
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
    .fill = fake_fill,
#endif
};

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
};

quire_code quire_driver_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  (void)query;
  (void)out;
  (void)err;
  (void)&fake_api;
  (void)&fake_manifest;
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
