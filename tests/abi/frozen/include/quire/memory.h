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

/* Opens device `ordinal` of the driver that the runtime selects. Keeps the runtime alive. *out:
 * owned.
 * Thread: any thread. Blocking: yes, loads modules.
 * Errors: UNAVAILABLE (no driver: "none", or all candidates failed; the message lists each),
 * NOT_FOUND (unknown driver name), INCOMPATIBLE_ABI, OUT_OF_RANGE (ordinal). */
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

/* Reads the facts of a device.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_device_get_info(quire_device *device, quire_device_info *info,
                                           quire_error *err);

/* Creates an in-order queue. If native is not 0, imports that native stream (CUstream, hipStream_t)
 * instead; imported streams are not owned. Keeps the device alive. *out: owned.
 * Thread: any thread. Blocking: no. Errors: UNIMPLEMENTED (import), RESOURCE_EXHAUSTED. */
QUIRE_API quire_code quire_stream_create(quire_device *device, uint64_t native, quire_stream **out,
                                         quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_stream *quire_stream_retain(quire_stream *stream);
/* Drops a reference; NULL is allowed. Dropping the last one waits for queued work.
 * Thread: any thread. Blocking: yes, last one. */
QUIRE_API void quire_stream_release(quire_stream *stream);
/* Waits until all queued work is done. timeout_ns: -1 = forever, 0 = poll.
 * Thread: serialized on stream. Blocking: yes.
 * Errors: DEADLINE_EXCEEDED, NOT_READY (poll), and the first failure of queued work. */
QUIRE_API quire_code quire_stream_synchronize(quire_stream *stream, int64_t timeout_ns,
                                              quire_error *err);

/* Bytes of one region that the engine owns. Frozen, 40 bytes; struct_size must be exactly 40. */
typedef struct quire_memory_binding {
  uint32_t struct_size;
  uint32_t region;          /* of the shard */
  void *address;            /* aligned to quire_region_info.alignment */
  uint64_t bytes;           /* at least quire_region_info.bytes */
  quire_device_type device_type;      /* must match the device */
  int32_t device_id;
  uint64_t reserved0;
} quire_memory_binding;

/* Allocates the regions of one shard on the device and zeroes the null page. Keeps device and
 * config alive. *out: owned.
 * Thread: any thread. Blocking: yes.
 * Errors: OUT_OF_RANGE (shard), RESOURCE_EXHAUSTED (names requested and free bytes). */
QUIRE_API quire_code quire_memory_create(quire_device *device, quire_config *config, uint32_t shard,
                                         quire_memory **out, quire_error *err);
/* Binds bytes of the engine instead of allocating them. bindings[n]: one per region of the shard,
 * borrowed. The bytes must outlive the memory. They are never freed. Only the null page is written.
 * *out: owned.
 * Thread: any thread. Blocking: yes.
 * Errors: OUT_OF_RANGE (shard), INVALID_ARGUMENT (region missing, given twice, too small,
 * misaligned, or on the wrong device: value and limit named). */
QUIRE_API quire_code quire_memory_bind(quire_device *device, quire_config *config, uint32_t shard,
                                       const quire_memory_binding *bindings, uint64_t n,
                                       quire_memory **out, quire_error *err);
/* A DLPack tensor in one of two forms. Exactly one is not NULL. Frozen, 16 bytes. */
typedef struct quire_dlpack {
  struct DLManagedTensorVersioned *versioned; /* DLPack 1.x */
  /* DLPack 0.x. It cannot express that a tensor is read-only. */
  struct DLManagedTensor *legacy;
} quire_dlpack;

/* Binds one DLPack tensor per region, uint8 or any dense dtype. tensors[n]: borrowed. On success
 * quire owns the tensors and runs their deleters on release. On failure they stay the caller's.
 * Thread: any thread. Blocking: yes.
 * Errors: as quire_memory_bind, and INVALID_ARGUMENT (not dense, read-only, version). */
QUIRE_API quire_code quire_memory_bind_dlpack(quire_device *device, quire_config *config,
                                              uint32_t shard, const quire_dlpack *tensors,
                                              uint64_t n, quire_memory **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_memory *quire_memory_retain(quire_memory *memory);
/* Drops a reference; NULL is allowed. Work that uses the bytes must be done.
 * Thread: any thread. Blocking: yes, last one. */
QUIRE_API void quire_memory_release(quire_memory *memory);

/* Reads the base address and size of a region.
 * Thread: any thread. Blocking: no. Errors: OUT_OF_RANGE. */
QUIRE_API quire_code quire_memory_get_region(quire_memory *memory, uint32_t region, void **address,
                                             uint64_t *bytes, quire_error *err);
/* What an exported tensor covers. */
typedef int32_t quire_export_kind;
enum quire_export_kind_e {
  /* A field of a layer on all pages: [pages, blocks per page, tokens, heads, items]. A state
   * tensor: [pages, parts, its shape]. Each tile of a codec adds an axis, outer first, in place of
   * tokens or items. */
  QUIRE_EXPORT_LAYER = 0,
  /* The same for one id: [blocks per part, tokens, heads, items]. A state tensor: [its shape]. */
  QUIRE_EXPORT_ID = 1,
  /* The bytes of one page in one region, including padding: uint8 [planes, bytes of a strip]. */
  QUIRE_EXPORT_PAGE = 2,
  /* A field of a layer by lowered id, as in tables and slots: [lowered ids, tokens, heads, items].
   * A state tensor: [lowered ids, its shape]. */
  QUIRE_EXPORT_LOWERED = 3,
  QUIRE_EXPORT_KIND_FORCE32 = -0x7fffffff
};

/* Consumers must not write: the blocks are shared or cached. */
#define QUIRE_EXPORT_READ_ONLY 0x1u
/* Items become a last axis of uint8, for consumers that do not know the type. */
#define QUIRE_EXPORT_AS_BYTES 0x2u
/* The tensor is for consumers of DLPack 0.x. */
#define QUIRE_EXPORT_LEGACY 0x4u

/* Selects the bytes of a tensor. Descriptor. */
typedef struct quire_export {
  uint32_t struct_size;
  uint32_t flags;         /* QUIRE_EXPORT_READ_ONLY, QUIRE_EXPORT_AS_BYTES, QUIRE_EXPORT_LEGACY */
  quire_export_kind kind;
  uint32_t layer;
  uint32_t sub;
  /* Token caches: index of the field in quire_config_list_fields. States: index of the tensor. */
  uint32_t item;
  int32_t id;             /* QUIRE_EXPORT_ID */
  uint32_t region;        /* QUIRE_EXPORT_PAGE */
  uint64_t page;          /* QUIRE_EXPORT_PAGE */
} quire_export;

/* Describes a layer, one id of it, or a page as a strided tensor on the memory's device. what:
 * borrowed; of its flags only QUIRE_EXPORT_AS_BYTES is legal.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (layer), OUT_OF_RANGE (item, id, page, region),
 * NOT_REPRESENTABLE (tiles would make more than 5 dimensions). */
QUIRE_API quire_code quire_memory_get_tensor(quire_memory *memory, const quire_export *what,
                                             quire_tensor *out, quire_error *err);
/* The same as a DLPack tensor that keeps the memory alive. *out: one tensor, owned by the caller.
 * Its deleter may run on any thread.
 * Thread: any thread. Blocking: no.
 * Errors: as quire_memory_get_tensor, RESOURCE_EXHAUSTED; with QUIRE_EXPORT_LEGACY also
 * UNIMPLEMENTED (a type that 0.x does not know: use QUIRE_EXPORT_AS_BYTES) and FAILED_PRECONDITION
 * (0.x cannot express read-only). */
QUIRE_API quire_code quire_memory_export(quire_memory *memory, const quire_export *what,
                                         quire_dlpack *out, quire_error *err);
/* Queues the zeroes and copies of a step on the stream. Call it after the reserve and before the
 * step's kernels.
 * Thread: serialized on the step's owner and on stream. Blocking: only if the copies of eight
 * earlier calls are still queued.
 * Errors: NOT_FOUND (step), INVALID_ARGUMENT (other config). */
QUIRE_API quire_code quire_memory_prepare_step(quire_memory *memory, quire_step step,
                                               quire_stream *stream, quire_error *err);
/* Sets every byte of all regions, except the null page, to `byte`. Tests use it to poison memory.
 * Thread: serialized on stream. Blocking: no.
 * Errors: INVALID_ARGUMENT, and the driver's. */
QUIRE_API quire_code quire_memory_poison(quire_memory *memory, quire_stream *stream, uint8_t byte,
                                         quire_error *err);

/* The bytes of one tensor. */
typedef struct quire_buffer quire_buffer;

/* Allocates a strided tensor on the device, with shape and byte strides from *tensor (all strides
 * 0 = dense row-major). Writes tensor->data, device_type and device_id. *out: owned, keeps the
 * bytes.
 * Thread: any thread. Blocking: yes.
 * Errors: INVALID_ARGUMENT (negative or overlapping strides), OUT_OF_RANGE (products beyond 63
 * bits), RESOURCE_EXHAUSTED. */
QUIRE_API quire_code quire_buffer_create(quire_device *device, quire_tensor *tensor,
                                         quire_buffer **out, quire_error *err);

/* The caller only reads. Read-only tensors and broadcast axes (stride 0) are accepted. */
#define QUIRE_IMPORT_READ_ONLY 0x1u
/* Dtypes that quire has no name for are accepted as opaque elements of the same size. */
#define QUIRE_IMPORT_ANY_DTYPE 0x2u

/* Imports an engine's DLPack tensor as a tensor for the ops, without a copy. It may have up to 5
 * dimensions and any strides. dlpack: borrowed. flags: QUIRE_IMPORT_*. Writes *tensor. *out: owned,
 * keeps the DLPack tensor and runs its deleter on release. On failure the DLPack tensor stays the
 * caller's.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT (version, NULL shape or data, negative shape or stride, stride 0, dtype,
 * another device, byte_offset: the field is named), OUT_OF_RANGE (dimensions, products),
 * PERMISSION_DENIED (read-only), RESOURCE_EXHAUSTED. */
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
