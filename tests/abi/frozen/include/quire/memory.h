/* quire/memory.h: devices, streams, and the bytes of one shard. */
#ifndef QUIRE_MEMORY_H_
#define QUIRE_MEMORY_H_

#include <quire/base.h>
#include <quire/config.h>
#include <quire/step.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;
struct DLManagedTensorVersioned;

typedef struct quire_device quire_device;
typedef struct quire_stream quire_stream;
typedef struct quire_memory quire_memory;

/* Opens device `ordinal` of the driver that the runtime's selection gives. Keeps the runtime alive.
 * *out: owned.
 * Thread: any thread. Blocking: yes, loads modules. Errors: UNAVAILABLE (no driver: "none", or all
 * candidates failed; the message lists each), NOT_FOUND (unknown driver name), INCOMPATIBLE_ABI,
 * OUT_OF_RANGE (ordinal). */
QUIRE_API quire_code quire_device_open(quire_runtime *runtime, uint32_t ordinal, quire_device **out,
                                       quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_device *quire_device_retain(quire_device *device);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: yes, last one. */
QUIRE_API void quire_device_release(quire_device *device);

/* Facts of a device. Info. */
typedef struct quire_device_info {
  uint32_t struct_size;
  quire_device_type device_type;      /* QUIRE_DEVICE_* */
  int32_t device_id;
  uint32_t wave_width;      /* lanes of a wave; 0 on CPUs */
  uint64_t total_bytes;     /* 0 = unknown */
  uint64_t free_bytes;
  uint64_t alignment;       /* of allocations, bytes */
  char driver[32];
  char name[128];           /* of the device, with the instruction set in use */
} quire_device_info;

/* Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_device_get_info(quire_device *device, quire_device_info *info,
                                           quire_error *err);

/* Creates an in-order queue, or imports the native one (CUstream, hipStream_t) when native is not
 * 0; imports are not owned. Keeps the device alive. *out: owned. Thread: any thread. Blocking: no.
 * Errors: UNIMPLEMENTED (import), RESOURCE_EXHAUSTED. */
QUIRE_API quire_code quire_stream_create(quire_device *device, uint64_t native, quire_stream **out,
                                         quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_stream *quire_stream_retain(quire_stream *stream);
/* Drops a reference; NULL is allowed; the last one waits for queued work. Thread: any thread.
 * Blocking: yes, last one. */
QUIRE_API void quire_stream_release(quire_stream *stream);
/* Waits until everything queued is done. timeout_ns: -1 = forever, 0 = poll. Thread: serialized on
 * stream. Blocking: yes.
 * Errors: DEADLINE_EXCEEDED, NOT_READY (poll), and the first failure of queued work. */
QUIRE_API quire_code quire_stream_synchronize(quire_stream *stream, int64_t timeout_ns,
                                              quire_error *err);

/* Engine-owned bytes of one region. Frozen, 40 bytes; struct_size must be exactly that. */
typedef struct quire_memory_binding {
  uint32_t struct_size;
  uint32_t region;          /* of the shard */
  void *address;            /* aligned as quire_region_info.alignment says */
  uint64_t bytes;           /* at least quire_region_info.bytes */
  quire_device_type device_type;      /* must be the device's */
  int32_t device_id;
  uint64_t reserved0;
} quire_memory_binding;

/* Allocates the regions of one shard on the device and zeroes the null page. Keeps device and
 * config alive. *out: owned.
 * Thread: any thread. Blocking: yes. Errors: OUT_OF_RANGE (shard), RESOURCE_EXHAUSTED (bytes wanted
 * and free). */
QUIRE_API quire_code quire_memory_create(quire_device *device, quire_config *config, uint32_t shard,
                                         quire_memory **out, quire_error *err);
/* Binds the engine's own bytes instead: bindings[n], one per region of the shard, borrowed; the
 * bytes must outlive the memory and are never freed. Only the null page is written. *out: owned.
 * Thread: any thread. Blocking: yes.
 * Errors: INVALID_ARGUMENT (region missing, twice, too small, misaligned, wrong device: value and
 * limit named). */
QUIRE_API quire_code quire_memory_bind(quire_device *device, quire_config *config, uint32_t shard,
                                       const quire_memory_binding *bindings, uint64_t n,
                                       quire_memory **out, quire_error *err);
/* A DLPack tensor of either form; exactly one is not NULL. Frozen, 16 bytes. */
typedef struct quire_dlpack {
  struct DLManagedTensorVersioned *versioned; /* DLPack 1.x */
  struct DLManagedTensor *legacy;             /* DLPack 0.x, which cannot say that a tensor is
                                               * read-only */
} quire_dlpack;

/* Binds one DLPack tensor per region, uint8 or any dense dtype. On success the tensors are quire's
 * and their deleters run on release; on failure they stay the caller's. tensors[n]: borrowed.
 * Thread: any thread. Blocking: yes.
 * Errors: as quire_memory_bind, and INVALID_ARGUMENT (not dense, read-only, version). */
QUIRE_API quire_code quire_memory_bind_dlpack(quire_device *device, quire_config *config,
                                              uint32_t shard, const quire_dlpack *tensors,
                                              uint64_t n, quire_memory **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_memory *quire_memory_retain(quire_memory *memory);
/* Drops a reference; NULL is allowed. Work that uses the bytes must be done. Thread: any thread.
 * Blocking: yes, last one. */
QUIRE_API void quire_memory_release(quire_memory *memory);

/* Base address and size of a region. Thread: any thread. Blocking: no. Errors: OUT_OF_RANGE. */
QUIRE_API quire_code quire_memory_get_region(quire_memory *memory, uint32_t region, void **address,
                                             uint64_t *bytes, quire_error *err);
/* What a tensor over the cache covers. */
typedef int32_t quire_export_kind;
enum quire_export_kind_e {
  QUIRE_EXPORT_LAYER = 0, /* a field of a layer on all pages: [pages, blocks per page, tokens,
                           * heads, items]; a state tensor: [pages, parts, its shape]. Tiles of a
                           * codec add an axis each, outer first, in place of tokens or items */
  QUIRE_EXPORT_ID = 1,    /* the same of one id: [blocks per part, tokens, heads, items]; a state
                           * tensor: [its shape] */
  QUIRE_EXPORT_PAGE = 2,  /* the bytes of one page in one region, padding included: uint8
                           * [planes, bytes of a strip] */
  QUIRE_EXPORT_LOWERED = 3, /* a field of a layer by lowered id, as tables and slots name it:
                             * [lowered ids, tokens, heads, items]; a state tensor: [lowered ids,
                             * its shape] */
  QUIRE_EXPORT_KIND_FORCE32 = -0x7fffffff
};

/* Consumers must not write: shared or cached blocks. */
#define QUIRE_EXPORT_READ_ONLY 0x1u
/* Items become a last axis of uint8: for consumers that do not know the type. */
#define QUIRE_EXPORT_AS_BYTES 0x2u
/* For consumers of DLPack 0.x. */
#define QUIRE_EXPORT_LEGACY 0x4u

/* Descriptor. */
typedef struct quire_export {
  uint32_t struct_size;
  uint32_t flags;         /* QUIRE_EXPORT_READ_ONLY, _AS_BYTES, _LEGACY */
  quire_export_kind kind;
  uint32_t layer;
  uint32_t sub;
  uint32_t item;          /* token caches: number of the field in quire_config_list_fields;
                           * states: number of the tensor */
  int32_t id;             /* QUIRE_EXPORT_ID */
  uint32_t region;        /* QUIRE_EXPORT_PAGE */
  uint64_t page;          /* QUIRE_EXPORT_PAGE */
} quire_export;

/* A layer, one id of it or a page as a strided tensor on the memory's device. what: borrowed; of
 * its flags only AS_BYTES is legal. Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT,
 * NOT_FOUND (layer), OUT_OF_RANGE (item, id, page, region), NOT_REPRESENTABLE (tiles make more than
 * 5 dimensions). */
QUIRE_API quire_code quire_memory_get_tensor(quire_memory *memory, const quire_export *what,
                                             quire_tensor *out, quire_error *err);
/* The same as a DLPack tensor that keeps the memory alive. *out: one tensor, owned by the caller,
 * released by its deleter on any thread.
 * Thread: any thread. Blocking: no. Errors: as quire_memory_get_tensor, RESOURCE_EXHAUSTED; with
 * QUIRE_EXPORT_LEGACY also UNIMPLEMENTED (a type that 0.x does not know: use AS_BYTES) and
 * FAILED_PRECONDITION (0.x cannot say read-only). */
QUIRE_API quire_code quire_memory_export(quire_memory *memory, const quire_export *what,
                                         quire_dlpack *out, quire_error *err);
/* Queues the zeroes and copies of a step on the stream: call after reserve, before the step's
 * kernels.
 * Thread: serialized on cache and stream. Blocking: only when the copies of eight earlier calls are
 * still queued.
 * Errors: NOT_FOUND (step), INVALID_ARGUMENT (other config). */
QUIRE_API quire_code quire_memory_prepare_step(quire_memory *memory, quire_cache *cache,
                                               quire_step_id step, quire_stream *stream,
                                               quire_error *err);
/* Fills every byte of all regions but the null page with `byte` (tests: poison). Thread: serialized
 * on stream. Blocking: no.
 * Errors: INVALID_ARGUMENT, and the driver's. */
QUIRE_API quire_code quire_memory_poison(quire_memory *memory, quire_stream *stream, uint8_t byte,
                                         quire_error *err);

/* The bytes of one tensor. */
typedef struct quire_buffer quire_buffer;

/* Allocates a strided tensor on the device: shape and byte strides as given in *tensor (all strides
 * 0 = dense row-major). Writes tensor->data, device_type and device_id. *out: owned, keeps the
 * bytes.
 * Thread: any thread. Blocking: yes.
 * Errors: INVALID_ARGUMENT (negative or overlapping strides, overflow), RESOURCE_EXHAUSTED. */
QUIRE_API quire_code quire_buffer_create(quire_device *device, quire_tensor *tensor,
                                         quire_buffer **out, quire_error *err);

/* The caller only reads: read-only tensors and broadcast axes (stride 0) are accepted. */
#define QUIRE_IMPORT_READ_ONLY 0x1u
/* Dtypes that quire has no name for are taken as opaque elements of the same size. */
#define QUIRE_IMPORT_ANY_DTYPE 0x2u

/* An engine's DLPack tensor as a tensor for the ops, without a copy: any shape of up to 5
 * dimensions and any strides. dlpack: borrowed. flags: QUIRE_IMPORT_*. Writes *tensor. *out: owned,
 * keeps the DLPack tensor, whose deleter runs on release. On failure the DLPack tensor stays the
 * caller's.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT (version, NULL shape or data, negative
 * shape or stride, stride 0, dtype, device other than this one, byte_offset: the field is named),
 * OUT_OF_RANGE (dimensions, products), PERMISSION_DENIED (read-only), RESOURCE_EXHAUSTED. */
QUIRE_API quire_code quire_buffer_import(quire_device *device, const quire_dlpack *dlpack,
                                         uint32_t flags, quire_tensor *tensor, quire_buffer **out,
                                         quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_buffer *quire_buffer_retain(quire_buffer *buffer);
/* Drops a reference; NULL is allowed. Work that uses the bytes must be done.
 * Thread: any thread. Blocking: yes, last one. */
QUIRE_API void quire_buffer_release(quire_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_MEMORY_H_ */
