/* quire/driver.h: the interface of a driver module. A driver knows devices, memory, streams and
 * kernels. It knows nothing of caches.
 *
 * A module is libquire_driver_<name>.so. It exports exactly one symbol, quire_driver_query, and
 * carries an ELF note of owner "QUIRE". It never links libquire: it reaches the
 * host through quire_host_api. It is never unloaded.
 *
 * Obligations:
 *   D-1 query is pure: no allocation, no device access, callable from any thread and repeatedly. It
 *       returns static constant data.
 *   D-2 an entry that is absent (NULL or beyond struct_size) is UNIMPLEMENTED to callers. Required
 *       entries are marked.
 *   D-3 no exception, longjmp or exit leaves an entry.
 *   D-4 argument errors are returned before any byte is written.
 *   D-5 nothing is printed; messages go to host->log.
 *   D-6 no entry allocates after device_open except *_create and mem_alloc. */
#ifndef QUIRE_DRIVER_H_
#define QUIRE_DRIVER_H_

#include <quire/base.h>
#include <quire/extension.h>
#include <quire/memory.h>
#include <quire/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIRE_DRIVER_ABI_VERSION 0x00000002u
#define QUIRE_MODULE_MAGIC 0x45524951u  /* "QIRE" little endian */
#define QUIRE_NOTE_TYPE 0x100u

/* Kind of a module. */
typedef int32_t quire_module_kind;
enum quire_module_kind_e {
  QUIRE_MODULE_DRIVER = 1,
  QUIRE_MODULE_CONNECTOR = 2,
  QUIRE_MODULE_KIND_FORCE32 = -0x7fffffff
};

/* Services of the host for modules. Table: entries beyond struct_size are absent. All entries may
 * be called from any thread. */
typedef struct quire_host_api {
  uint32_t struct_size;
  uint32_t abi_version;
  void *user; /* first argument of the entries */
  void (*log)(void *user, quire_log_level level, quire_str component, quire_str message);
  void *(*alloc)(void *user, uint64_t bytes, uint64_t alignment);
  void (*release_memory)(void *user, void *address, uint64_t bytes, uint64_t alignment);
  int64_t (*now)(void *user); /* monotonic nanoseconds */
} quire_host_api;

/* Argument of a module's query function. Descriptor. */
typedef struct quire_query {
  uint32_t struct_size;
  uint32_t abi_min;       /* lowest module ABI the host accepts */
  uint32_t abi_max;
  uint32_t reserved0;
} quire_query;

/* Description of a module, as static constant data. Info. */
typedef struct quire_manifest {
  uint32_t magic;         /* QUIRE_MODULE_MAGIC */
  uint32_t struct_size;
  quire_module_kind kind;
  uint32_t abi_version;   /* the version chosen within [abi_min, abi_max] */
  char name[32];          /* as in the file name */
  char version[32];
  /* Bits of the sanitizers that the module was built with. The address and thread bits must equal
   * the host's.
   * - 1: address
   * - 2: thread
   * - 4: undefined behaviour */
  uint64_t sanitizers;
  const void *api;        /* quire_driver_api or quire_connector_api */
  const quire_extension_table *ops; /* extension ops; NULL = none */
} quire_manifest;

/* Content of the ELF note, little endian. Frozen, 48 bytes. */
typedef struct quire_note {
  quire_module_kind kind;
  uint32_t abi_version;
  uint32_t min_host_abi;
  uint32_t flags;         /* 0 */
  char name[32];
} quire_note;

/* The exported function of a module. */
typedef quire_code (*quire_module_query_fn)(const quire_query *query, const quire_manifest **out,
                                            quire_error *err);

typedef struct quire_driver_instance quire_driver_instance;
typedef struct quire_driver_device quire_driver_device;
typedef struct quire_driver_stream quire_driver_stream;
typedef struct quire_driver_event quire_driver_event;

/* Flags of quire_driver_options. Bits 0 to 7 choose the kernels. Other bits: 0.
 * CPU driver: the names below; 0 = the best kernels that this machine supports. create returns
 * UNAVAILABLE if the machine does not support the chosen kernels.
 * CUDA and ROCm drivers: how attention multiplies.
 * - 0: 2 for CUDA, 1 for ROCm.
 * - 1: dot products.
 * - 2: matrix instructions if there is a kernel for the widths and formats. */
#define QUIRE_DRIVER_KERNELS_MASK 0xffu
/* CPU driver: kernels for any processor. */
#define QUIRE_DRIVER_KERNELS_PORTABLE 1u
/* CPU driver: kernels for AVX2. */
#define QUIRE_DRIVER_KERNELS_AVX2 2u
/* CPU driver: kernels for AVX-512. */
#define QUIRE_DRIVER_KERNELS_AVX512 3u
/* CPU driver: kernels for AVX-512 with BF16. */
#define QUIRE_DRIVER_KERNELS_AVX512_BF16 4u
/* CPU driver: kernels for AMX. */
#define QUIRE_DRIVER_KERNELS_AMX 5u

/* Options of an instance. Descriptor. */
typedef struct quire_driver_options {
  uint32_t struct_size;
  uint32_t flags;         /* QUIRE_DRIVER_KERNELS_* */
  const quire_host_api *host; /* lives as long as the instance */
  /* Thread i is bound to cpus[i % num_cpus]. Thread 0 is the caller's and is not moved. NULL = not
   * bound. Borrowed. */
  const uint32_t *cpus;
  uint32_t num_cpus;
  uint32_t num_threads;   /* CPU threads; 0 = all that the process may use */
} quire_driver_options;

/* Memory kinds of mem_alloc. */
#define QUIRE_MEM_DEVICE 0x1u
/* Host memory that copy can read and write; pinned if the device supports it. Tiers of a pool in
 * device memory move their bytes through it. */
#define QUIRE_MEM_HOST 0x2u

/* The table of a driver. Entries return QUIRE_OK, or another code with *err filled. Entries marked
 * "required" must be present. */
typedef struct quire_driver_api {
  uint32_t struct_size;
  uint32_t reserved0;
  /* Lifecycle, required. create returns UNAVAILABLE if there is no device. */
  quire_code (*create)(const quire_driver_options *options, quire_driver_instance **out,
                       quire_error *err);
  void (*destroy)(quire_driver_instance *instance);
  quire_code (*device_count)(quire_driver_instance *instance, uint32_t *count, quire_error *err);
  quire_code (*device_open)(quire_driver_instance *instance, uint32_t ordinal,
                            quire_driver_device **out, quire_error *err);
  void (*device_close)(quire_driver_device *device);
  quire_code (*device_info)(quire_driver_device *device, quire_device_info *info, quire_error *err);
  /* Memory. Zero bytes give a NULL address. Contents are undefined. */
  quire_code (*mem_alloc)(quire_driver_device *device, uint64_t bytes, uint64_t alignment,
                          uint32_t kind, void **address, quire_error *err);
  void (*mem_free)(quire_driver_device *device, void *address, uint64_t bytes, uint32_t kind);
  quire_code (*tensor_create)(quire_driver_device *device, quire_tensor *tensor, uint32_t kind,
                              void **allocation, uint64_t *bytes, quire_error *err);
  /* Streams and events. */
  quire_code (*stream_create)(quire_driver_device *device, uint64_t native,
                              quire_driver_stream **out, quire_error *err);
  void (*stream_destroy)(quire_driver_stream *stream);
  quire_code (*stream_synchronize)(quire_driver_stream *stream, int64_t timeout_ns,
                                   quire_error *err);
  quire_code (*event_create)(quire_driver_device *device, quire_driver_event **out,
                             quire_error *err);
  void (*event_destroy)(quire_driver_event *event);
  quire_code (*event_record)(quire_driver_event *event, quire_driver_stream *stream,
                             quire_error *err);
  quire_code (*event_wait)(quire_driver_event *event, quire_driver_stream *stream,
                           quire_error *err);
  quire_code (*event_synchronize)(quire_driver_event *event, int64_t timeout_ns, quire_error *err);
  /* Bytes. */
  quire_code (*copy)(quire_driver_stream *stream, const quire_copy_run *runs, uint64_t n,
                     quire_error *err);
  quire_code (*fill)(quire_driver_stream *stream, void *destination, uint8_t value, uint64_t bytes,
                     quire_error *err);
  /* Kernels. */
  quire_code (*kv_append)(quire_driver_stream *stream, const quire_kv_append *op, quire_error *err);
  quire_code (*attention_workspace)(quire_driver_device *device, uint32_t max_rows,
                                    uint64_t max_query_tokens, uint64_t max_kv_len,
                                    uint32_t num_q_heads, uint32_t head_dim_v, uint64_t *plan_bytes,
                                    uint64_t *workspace_bytes, quire_error *err);
  quire_code (*attention_plan)(quire_driver_device *device, const quire_attention *op, void *plan,
                               uint64_t plan_bytes, quire_error *err);
  quire_code (*attention)(quire_driver_stream *stream, const quire_attention *op, quire_error *err);
  quire_code (*attention_merge)(quire_driver_stream *stream, const quire_attention_merge *op,
                                quire_error *err);
  quire_code (*gated_delta)(quire_driver_stream *stream, const quire_gated_delta *op,
                            quire_error *err);
  quire_code (*conv1d)(quire_driver_stream *stream, const quire_conv1d *op, quire_error *err);
  quire_code (*selective_scan)(quire_driver_stream *stream, const quire_selective_scan *op,
                               quire_error *err);
} quire_driver_api;

/* The one exported symbol of a driver module. *out: owned by the module, valid forever.
 * Thread: any thread. Blocking: no. Errors: INCOMPATIBLE_ABI. */
QUIRE_API quire_code quire_driver_query(const quire_query *query, const quire_manifest **out,
                                        quire_error *err);
/* Registers a driver without a file. It takes precedence over any file of its name. Call this
 * before creating the runtime that uses the driver. The library implements this function, not
 * drivers.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, ALREADY_EXISTS, INCOMPATIBLE_ABI. */
QUIRE_API quire_code quire_register_driver(quire_module_query_fn query, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_DRIVER_H_ */
