/* quire/base.h: what every other header uses: status codes, errors, strings, data types, the runtime.
 *
 * Rules of all quire headers
 *   Structs       start with struct_size, set by the caller; zero every field that you do not use.
 *     Descriptor  read by the library; zero is the default of each field; grows at its end.
 *     Info        written by the library: at most struct_size bytes; struct_size becomes what was.
 *     Frozen      never grows: elements of arrays, values.
 *   Ownership     "borrowed" = valid during the call only; "owned" = release it; "kept alive" = the
 *                 callee holds a reference.
 *   Threads       "any thread" = may be called concurrently; "serialized on X" = one call at a time
 *                 per object X.
 *   Errors        every function that returns a quire_code writes *err when err is not NULL. On an
 *                 error nothing has changed, unless the text says so.
 *   Arrays        are returned by two-call functions: *count receives the total; items may be NULL
 *                 when capacity is 0.
 *   Signals       no function may be called from a signal handler; quire installs none.
 *   fork()        the CPU driver's threads stay with the parent. A child may release the objects
 *                 that it inherited and make new ones; it must not use inherited ones otherwise. Do
 *                 not fork while another thread is inside a call.
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

/* ABI version: major << 16 | minor. While major is 0, caller and library must agree on both
 * numbers. */
#define QUIRE_ABI_VERSION 0x00000002u
#define QUIRE_ABI_MAJOR 0
#define QUIRE_ABI_MINOR 2

/* Initialises a struct that begins with struct_size; everything else is zero:
 *   quire_plan_options options = QUIRE_INIT(quire_plan_options);
 * The other structs are frozen and are initialised with {0}. In C++ it is an expression, otherwise
 * an initialiser. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define QUIRE_INIT(type) ([] { type q_v = {}; q_v.struct_size = sizeof(type); return q_v; }())
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L
#define QUIRE_INIT(type) {.struct_size = sizeof(type)}
#else
#define QUIRE_INIT(type) {sizeof(type)}
#endif

/* Result of a call; one of enum quire_code_e. 0 is success. */
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
  QUIRE_RESOURCE_EXHAUSTED = 8,   /* memory or a declared limit is used up: free something or
                                   * raise the limit */
  QUIRE_FAILED_PRECONDITION = 9,  /* the call is legal but not in this state */
  QUIRE_ABORTED = 10,
  QUIRE_OUT_OF_RANGE = 11,        /* a position, index or capacity lies outside what exists */
  QUIRE_UNIMPLEMENTED = 12,       /* this library or driver cannot do that; the message names
                                   * what is missing */
  QUIRE_INTERNAL = 13,            /* a bug in quire */
  QUIRE_UNAVAILABLE = 14,         /* the device or service is absent here */
  QUIRE_DATA_LOSS = 15,           /* bytes are corrupt */
  QUIRE_INCOMPATIBLE_ABI = 64,    /* header, library and module versions do not fit */
  QUIRE_NOT_READY = 65,           /* not yet: work is still running, or the next step is the
                                   * place */
  QUIRE_NOT_REPRESENTABLE = 66,   /* the layout cannot be expressed; the message names the layers */
  QUIRE_CODE_FORCE32 = -0x7fffffff
};

/* UTF-8 text or bytes, not NUL terminated; {NULL, 0} means absent. Frozen, 16 bytes. */
typedef struct quire_str {
  const char *data;
  uint64_t len;
} quire_str;

/* Where a failure came from. Caller allocated, owns nothing, may be reused; set struct_size once.
 * Frozen, 512 bytes. */
typedef struct quire_error {
  uint32_t struct_size;
  quire_code code;
  int32_t native_code;   /* errno, CUresult, ...; 0 = none */
  int32_t native_domain; /* 0 none, 1 errno, 2 CUDA driver, 4 HIP, 5 UCX, 6 dlerror */
  char source[32];       /* "library", "driver:cpu", "connector:file", ... NUL terminated */
  char message[464];     /* one line, NUL terminated, names argument, value and limit */
} quire_error;

/* Element type; the numbers are DLPack's (code 0 int, 1 uint, 2 float, 4 bfloat, 10 float8_e4m3fn,
 * 12 float8_e5m2, 14 float8_e8m0fnu, 17 float4_e2m1fn). Frozen, 4 bytes. */
typedef struct quire_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes; /* 0 is read as 1 */
} quire_dtype;

/* Values of quire_dtype.code. */
enum quire_dtype_code_e {
  QUIRE_DTYPE_INT = 0,
  QUIRE_DTYPE_UINT = 1,
  QUIRE_DTYPE_FLOAT = 2,
  QUIRE_DTYPE_BFLOAT = 4,
  QUIRE_DTYPE_FLOAT8_E4M3FN = 10,
  QUIRE_DTYPE_FLOAT8_E5M2 = 12,
  QUIRE_DTYPE_FLOAT8_E8M0FNU = 14, /* scales inside codecs only */
  QUIRE_DTYPE_FLOAT4_E2M1FN = 17,  /* elements inside codecs only */
  QUIRE_DTYPE_CODE_FORCE32 = -0x7fffffff
};

/* Device kinds, DLPack's numbers. */
typedef int32_t quire_device_type;
enum quire_device_type_e {
  QUIRE_DEVICE_CPU = 1,
  QUIRE_DEVICE_CUDA = 2,
  QUIRE_DEVICE_CUDA_HOST = 3,
  QUIRE_DEVICE_ROCM = 10,
  QUIRE_DEVICE_ROCM_HOST = 11,
  QUIRE_DEVICE_TYPE_FORCE32 = -0x7fffffff
};

/* A strided tensor. Strides are in bytes. data NULL = absent. Entries at ndim and above are
 * ignored. Frozen, 112 bytes. */
typedef struct quire_tensor {
  void *data;            /* address of element [0, 0, ...] */
  quire_dtype dtype;
  quire_device_type device_type; /* 0 is read as QUIRE_DEVICE_CPU */
  int32_t device_id;
  int32_t ndim;          /* 0..5 */
  int64_t shape[5];      /* elements */
  int64_t stride[5];     /* bytes */
  uint64_t reserved0;    /* 0 */
} quire_tensor;

typedef struct quire_runtime quire_runtime;

/* Log levels. */
typedef int32_t quire_log_level;
enum quire_log_level_e {
  QUIRE_LOG_TRACE = 0,
  QUIRE_LOG_DEBUG = 1,
  QUIRE_LOG_INFO = 2,
  QUIRE_LOG_WARN = 3,
  QUIRE_LOG_ERROR = 4,
  QUIRE_LOG_OFF = 5,
  QUIRE_LOG_LEVEL_FORCE32 = -0x7fffffff
};

/* Receives one log line. Called from any thread, never while a quire lock is held; must not call
 * quire. */
typedef void (*quire_log_fn)(void *user, quire_log_level level, quire_str component,
                             quire_str message);
/* Allocates bytes aligned to alignment (a power of two), NULL when out of memory. Any thread. */
typedef void *(*quire_alloc_fn)(void *user, uint64_t bytes, uint64_t alignment);
/* Frees what the alloc function returned, with the same bytes and alignment. Any thread. */
typedef void (*quire_free_fn)(void *user, void *address, uint64_t bytes, uint64_t alignment);
/* Monotonic time in nanoseconds. Any thread. */
typedef int64_t (*quire_clock_fn)(void *user);

/* The environment is not read at all. */
#define QUIRE_RUNTIME_NO_ENV 0x1u
/* Modules owned by others or in writable directories are accepted (containers with odd user ids);
 * ignored in elevated processes. */
#define QUIRE_RUNTIME_TRUST_PATHS 0x2u

/* Descriptor. */
typedef struct quire_runtime_options {
  uint32_t struct_size;
  uint32_t flags;              /* QUIRE_RUNTIME_* */
  uint32_t header_abi;         /* QUIRE_ABI_VERSION the caller was compiled with; required */
  uint32_t num_threads;        /* threads of the CPU driver; 0 = as many as `cpus` names,
                                * otherwise one per core that the process may use */
  quire_str driver;            /* syntax of QUIRE_DRIVER; empty = the environment's, then "auto" */
  quire_str driver_path;       /* absolute directories, separated by colons, searched first; empty =
                                * QUIRE_DRIVER_PATH */
  quire_str connector_path;    /* the same for connectors; empty = QUIRE_CONNECTOR_PATH */
  quire_str cpus;              /* where the CPU driver's threads run, as Linux writes lists of
                                * CPUs, e.g. "0-3,8": thread i is bound to the i-th of them,
                                * modulo their number. Thread 0 is the caller's own and is never
                                * moved. Empty = not bound */
  quire_log_fn log;            /* NULL = no output unless QUIRE_LOG asks for it on standard error */
  void *log_user;
  quire_alloc_fn alloc;        /* host memory of modules, through quire_host_api; NULL = the C
                                * library; set both or neither */
  quire_free_fn release_memory;
  void *alloc_user;
  quire_clock_fn clock;        /* NULL = CLOCK_MONOTONIC */
  void *clock_user;
  quire_log_level log_level;   /* used when log is set; 0 = everything */
  uint32_t reserved0;          /* 0 */
} quire_runtime_options;

/* Version of the library at run time, major << 16 | minor. Thread: any thread. Blocking: no. */
QUIRE_API uint32_t quire_abi_version(void);
/* Package version as text, e.g. "0.2.0"; lives forever. Thread: any thread. Blocking: no. */
QUIRE_API quire_str quire_version(void);
/* Name of a status code, e.g. "INVALID_ARGUMENT"; "UNKNOWN" for others; lives forever. Thread: any
 * thread. Blocking: no. */
QUIRE_API quire_str quire_code_name(quire_code code);

/* Creates a runtime: reads the environment once, loads no module yet (devices load theirs on open).
 * options: borrowed, may be NULL only when every default is wanted. *out: owned, release with
 * quire_runtime_release.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, INCOMPATIBLE_ABI, RESOURCE_EXHAUSTED.
 */
QUIRE_API quire_code quire_runtime_create(const quire_runtime_options *options, quire_runtime **out,
                                          quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_runtime *quire_runtime_retain(quire_runtime *runtime);
/* Drops a reference; NULL is allowed; children keep the runtime alive. Thread: any thread.
 * Blocking: no. */
QUIRE_API void quire_runtime_release(quire_runtime *runtime);

/* One candidate of the module search. Info. */
typedef struct quire_probe_info {
  uint32_t struct_size;
  quire_code code;      /* QUIRE_OK = usable */
  int32_t kind;         /* quire_module_kind of driver.h */
  int32_t step;         /* the step of negotiation reached, 0..9 */
  int64_t duration_ns;
  char name[32];
  char path[256];       /* truncated, NUL terminated */
  char reason[256];     /* why it was refused, empty when usable */
} quire_probe_info;

/* Tries every module that can be found and what the selection names beside (drivers before
 * connectors), and reports each; drivers are opened and closed again. Two-call array with stride =
 * bytes per item.
 * Thread: any thread. Blocking: yes, loads modules. Errors: INVALID_ARGUMENT, OUT_OF_RANGE
 * (capacity too small). */
QUIRE_API quire_code quire_runtime_probe(quire_runtime *runtime, quire_probe_info *items,
                                         uint64_t stride, uint64_t capacity, uint64_t *count,
                                         quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_BASE_H_ */
