/* quire/base.h: the words every other header uses: status codes, errors, strings, data types, the runtime.
 *
 * Rules of all quire headers. Structs start with struct_size, set by whoever allocates them; zero every other field you do not use.
 *   Descriptor (in):  zero means the default of each field; fields are only ever appended.
 *   Info (out):       the caller sets struct_size, the callee fills at most that many bytes and stores how many it filled.
 *   Frozen:           never grows (array elements, values); the size is part of the promise.
 * Ownership words: "borrowed" = valid during the call only; "owned" = release it; "kept alive" = the callee holds a reference.
 * Thread words: "any thread" = callable concurrently; "serialized on X" = one call at a time per object X.
 * Signals: no function may be called from a signal handler; quire installs none.
 * fork(): threads of the CPU driver stay with the parent. A child may release the objects it inherited and make new
 *   ones; it must not use inherited ones otherwise. Do not fork while another thread is inside a call.
 * Every function returning quire_code writes *err when err is not NULL; on any error nothing has changed unless the text says so.
 * Arrays are returned by two-call functions: *count receives the total; items may be NULL when capacity is 0.
 */
#ifndef QUIRE_BASE_H_
#define QUIRE_BASE_H_

#include <stdint.h>

#if defined(__GNUC__)
#define QUIRE_API __attribute__((visibility("default")))
#else
#define QUIRE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ABI version: major << 16 | minor. While major is 0, caller and library must agree on both numbers. Since: 0.1 */
#define QUIRE_ABI_VERSION 0x00000001u
#define QUIRE_ABI_MAJOR 0
#define QUIRE_ABI_MINOR 1

/* Result of a call; one of enum quire_code_e. 0 is success. Since: 0.1 */
typedef int32_t quire_code;

enum quire_code_e {
  QUIRE_OK = 0,
  QUIRE_CANCELLED = 1,            /* the operation was cancelled by its owner */
  QUIRE_UNKNOWN = 2,              /* a plugin answered with a code this library does not know */
  QUIRE_INVALID_ARGUMENT = 3,     /* an argument is wrong whatever the state: fix the call */
  QUIRE_DEADLINE_EXCEEDED = 4,    /* a timeout passed */
  QUIRE_NOT_FOUND = 5,            /* no such object, id or name (stale ids included) */
  QUIRE_ALREADY_EXISTS = 6,
  QUIRE_PERMISSION_DENIED = 7,
  QUIRE_RESOURCE_EXHAUSTED = 8,   /* memory or a declared limit is used up: free something or raise the limit */
  QUIRE_FAILED_PRECONDITION = 9,  /* the call is legal but not in this state */
  QUIRE_ABORTED = 10,
  QUIRE_OUT_OF_RANGE = 11,        /* a position, index or capacity lies outside what exists */
  QUIRE_UNIMPLEMENTED = 12,       /* this library or driver cannot do that; the message names what is missing */
  QUIRE_INTERNAL = 13,            /* a bug in quire */
  QUIRE_UNAVAILABLE = 14,         /* the device or service is absent here */
  QUIRE_DATA_LOSS = 15,           /* bytes are corrupt */
  QUIRE_INCOMPATIBLE_ABI = 64,    /* header, library and module versions do not fit */
  QUIRE_NOT_READY = 65,           /* asynchronous work is still running */
  QUIRE_NOT_REPRESENTABLE = 66,   /* the layout cannot be expressed; the message names the layers */
  QUIRE_CODE_FORCE32 = 0x7fffffff
};

/* UTF-8 text or bytes, not NUL terminated; {NULL, 0} means absent. Frozen, 16 bytes. Since: 0.1 */
typedef struct quire_str {
  const char *data;
  uint64_t len;
} quire_str;

/* Where a failure came from. Caller allocated, owns nothing, may be reused; set struct_size once. Frozen, 512 bytes. Since: 0.1 */
typedef struct quire_error {
  uint32_t struct_size;
  quire_code code;
  int32_t native_code;   /* errno, CUresult, ...; 0 = none */
  int32_t native_domain; /* 0 none, 1 errno, 2 CUDA driver, 4 HIP, 5 UCX, 6 dlerror */
  char source[32];       /* "library", "driver:cpu", "connector:file", ... NUL terminated */
  char message[464];     /* one line, NUL terminated, names argument, value and limit */
} quire_error;

/* Element type; the numbers are DLPack's (code 0 int, 1 uint, 2 float, 4 bfloat, 10 float8_e4m3fn, 12 float8_e5m2,
 * 14 float8_e8m0fnu, 17 float4_e2m1fn). Frozen, 4 bytes.
 * Since: 0.1 */
typedef struct quire_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes; /* 0 is read as 1 */
} quire_dtype;

#define QUIRE_DTYPE_INT 0
#define QUIRE_DTYPE_UINT 1
#define QUIRE_DTYPE_FLOAT 2
#define QUIRE_DTYPE_BFLOAT 4
#define QUIRE_DTYPE_FLOAT8_E4M3FN 10
#define QUIRE_DTYPE_FLOAT8_E5M2 12
#define QUIRE_DTYPE_FLOAT8_E8M0FNU 14 /* scales inside codecs only */
#define QUIRE_DTYPE_FLOAT4_E2M1FN 17  /* elements inside codecs only */

/* Device kinds, DLPack's numbers. Since: 0.1 */
#define QUIRE_DEVICE_CPU 1
#define QUIRE_DEVICE_CUDA 2
#define QUIRE_DEVICE_CUDA_HOST 3
#define QUIRE_DEVICE_ROCM 10
#define QUIRE_DEVICE_ROCM_HOST 11

/* A strided tensor. Strides are in bytes. data NULL = absent. Entries at ndim and above are ignored. Frozen, 112 bytes. Since: 0.1 */
typedef struct quire_tensor {
  void *data;            /* address of element [0, 0, ...] */
  quire_dtype dtype;
  int32_t device_type;   /* 0 is read as QUIRE_DEVICE_CPU */
  int32_t device_id;
  int32_t ndim;          /* 0..5 */
  int64_t shape[5];      /* elements */
  int64_t stride[5];     /* bytes */
  uint64_t reserved0;    /* 0 */
} quire_tensor;

typedef struct quire_runtime quire_runtime;

/* Log levels. Since: 0.1 */
#define QUIRE_LOG_TRACE 0
#define QUIRE_LOG_DEBUG 1
#define QUIRE_LOG_INFO 2
#define QUIRE_LOG_WARN 3
#define QUIRE_LOG_ERROR 4
#define QUIRE_LOG_OFF 5

/* Receives one log line. Called from any thread, never while a quire lock is held; must not call quire. Since: 0.1 */
typedef void (*quire_log_fn)(void *user, int32_t level, quire_str component, quire_str message);
/* Allocates bytes aligned to alignment (a power of two), NULL when out of memory. Any thread. Since: 0.1 */
typedef void *(*quire_alloc_fn)(void *user, uint64_t bytes, uint64_t alignment);
/* Frees what the alloc function returned, with the same bytes and alignment. Any thread. Since: 0.1 */
typedef void (*quire_free_fn)(void *user, void *address, uint64_t bytes, uint64_t alignment);
/* Monotonic time in nanoseconds. Any thread. Since: 0.1 */
typedef int64_t (*quire_clock_fn)(void *user);

/* The environment is not read at all. */
#define QUIRE_RUNTIME_NO_ENV 0x1u
/* Modules owned by others or in writable directories are accepted (containers with odd user ids); ignored in elevated processes. */
#define QUIRE_RUNTIME_TRUST_PATHS 0x2u

/* Descriptor. Since: 0.1 */
typedef struct quire_runtime_options {
  uint32_t struct_size;
  uint32_t header_abi;         /* QUIRE_ABI_VERSION the caller was compiled with; required */
  quire_str driver;            /* QUIRE_DRIVER grammar; empty = environment QUIRE_DRIVER, then "auto" */
  quire_str driver_path;       /* colon separated absolute directories searched first; empty = QUIRE_DRIVER_PATH */
  quire_str connector_path;    /* the same for connectors; empty = QUIRE_CONNECTOR_PATH */
  quire_log_fn log;            /* NULL = no output unless QUIRE_LOG asks for it on standard error */
  void *log_user;
  quire_alloc_fn alloc;        /* host memory of modules, through quire_host_api; NULL = the C library; set both or none */
  quire_free_fn release_memory;
  void *alloc_user;
  quire_clock_fn clock;        /* NULL = CLOCK_MONOTONIC */
  void *clock_user;
  uint64_t flags;              /* QUIRE_RUNTIME_* */
  int32_t log_level;           /* QUIRE_LOG_*, used when log is set; 0 = everything */
  uint32_t num_threads;        /* CPU driver threads; 0 = as many as `cpus` names, else all cores the process may use */
  const void *next;            /* NULL */
  quire_str cpus;              /* CPU driver: where its threads run, as Linux writes lists, e.g. "0-3,8"; thread i gets the i-th of them, in
                                * turn. Thread 0 is the caller's own and is never moved. Empty = the system decides */
} quire_runtime_options;

/* Version of the library at run time, major << 16 | minor. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API uint32_t quire_abi_version(void);
/* Package version as text, e.g. "0.1.0"; lives forever. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API quire_str quire_version(void);
/* Name of a status code, e.g. "INVALID_ARGUMENT"; "UNKNOWN" for others; lives forever. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API quire_str quire_code_name(quire_code code);

/* Creates a runtime: reads the environment once, loads no module yet (devices load theirs on open).
 * options: borrowed, may be NULL only when every default is wanted. *out: owned, release with quire_runtime_release.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, INCOMPATIBLE_ABI, RESOURCE_EXHAUSTED. Since: 0.1 */
QUIRE_API quire_code quire_runtime_create(const quire_runtime_options *options, quire_runtime **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API quire_runtime *quire_runtime_retain(quire_runtime *runtime);
/* Drops a reference; NULL is allowed; children keep the runtime alive. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API void quire_runtime_release(quire_runtime *runtime);

/* One candidate of the module search. Info. Since: 0.1 */
typedef struct quire_probe_info {
  uint32_t struct_size;
  quire_code code;      /* QUIRE_OK = usable */
  int32_t kind;         /* 1 driver, 2 connector */
  int32_t step;         /* the step of negotiation reached, 0..9 */
  int64_t duration_ns;
  char name[32];
  char path[256];       /* truncated, NUL terminated */
  char reason[256];     /* why it was refused, empty when usable */
} quire_probe_info;

/* Tries every module that can be found and what the selection names beside (drivers before connectors), and reports each; drivers are
 * opened and closed again. Two-call array with stride = bytes per item.
 * Thread: any thread. Blocking: yes, loads modules. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (capacity too small). Since: 0.1 */
QUIRE_API quire_code quire_runtime_probe(quire_runtime *runtime, quire_probe_info *items, uint64_t stride, uint64_t capacity,
                                         uint64_t *count, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_BASE_H_ */
