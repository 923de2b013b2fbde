/* quire/base.h: the basis of every other header: status codes, errors, strings, data types, the
 * runtime.
 *
 * Rules of all quire headers
 *   Structs       A struct that can grow begins with struct_size, set by the caller. Zero every
 *                 field that you do not use.
 *     Descriptor  Read by the library. Zero is the default of each field. Grows at its end.
 *     Info        Written by the library, at most struct_size bytes. struct_size is then set to the
 *                 number of bytes written.
 *     Frozen      Never grows: elements of arrays, and values.
 *   Ownership     "borrowed": valid during the call only. "owned": the caller releases it.
 *                 "kept alive": the callee holds a reference.
 *   Threads       "any thread": may be called concurrently.
 *                 "serialized on X": one call at a time per object X.
 *   Errors        Every function that returns a quire_code writes *err if err is not NULL. After an
 *                 error nothing has changed, unless the comment says otherwise.
 *   Arrays        Two-call functions return arrays. *count receives the total. items may be NULL if
 *                 capacity is 0.
 *   Signals       No function may be called from a signal handler. quire installs none.
 *   fork()        The CPU driver's threads stay with the parent. A child may release inherited
 *                 objects and create new ones. It must not use inherited objects otherwise. Do not
 *                 fork while another thread is inside a call. */
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

/* Initialises a struct that begins with struct_size. All other fields are zero:
 *   quire_plan_options options = QUIRE_INIT(quire_plan_options);
 * The other structs are frozen; initialise them with {0}. In C++ the macro is an expression,
 * otherwise an initialiser. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define QUIRE_INIT(type) ([] { type q_v = {}; q_v.struct_size = sizeof(type); return q_v; }())
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L
#define QUIRE_INIT(type) {.struct_size = sizeof(type)}
#else
#define QUIRE_INIT(type) {sizeof(type)}
#endif

/* The result of a call, one of enum quire_code_e. 0 is success. */
typedef int32_t quire_code;

enum quire_code_e {
  QUIRE_OK = 0,
  QUIRE_CANCELLED = 1,            /* the operation was cancelled by its owner */
  /* A plugin returned a code that this library does not know. */
  QUIRE_UNKNOWN = 2,
  /* An argument is wrong in any state: fix the call. */
  QUIRE_INVALID_ARGUMENT = 3,
  QUIRE_DEADLINE_EXCEEDED = 4,    /* a timeout passed */
  QUIRE_NOT_FOUND = 5,            /* no such object, id or name (including stale ids) */
  QUIRE_ALREADY_EXISTS = 6,
  QUIRE_PERMISSION_DENIED = 7,
  /* Memory or a declared limit is used up: free something or raise the limit. */
  QUIRE_RESOURCE_EXHAUSTED = 8,
  QUIRE_FAILED_PRECONDITION = 9,  /* the call is legal but not in this state */
  QUIRE_ABORTED = 10,
  QUIRE_OUT_OF_RANGE = 11,        /* a position, index or capacity is outside the valid range */
  /* This library or driver does not support it. The message names what is missing. */
  QUIRE_UNIMPLEMENTED = 12,
  QUIRE_INTERNAL = 13,            /* a bug in quire */
  QUIRE_UNAVAILABLE = 14,         /* the device or service is absent */
  QUIRE_DATA_LOSS = 15,           /* bytes are corrupt */
  QUIRE_INCOMPATIBLE_ABI = 64,    /* versions of header, library and module do not match */
  /* Not yet: work is still running, or the request belongs in the next step. */
  QUIRE_NOT_READY = 65,
  /* The layout cannot be expressed. The message names the layers. */
  QUIRE_NOT_REPRESENTABLE = 66,
  QUIRE_CODE_FORCE32 = -0x7fffffff
};

/* UTF-8 text or bytes, not NUL terminated. {NULL, 0} means absent. Frozen, 16 bytes. */
typedef struct quire_str {
  const char *data;
  uint64_t len;
} quire_str;

/* Describes a failure. The caller allocates it. It owns nothing and may be reused. Set struct_size
 * once. Frozen, 512 bytes. */
typedef struct quire_error {
  uint32_t struct_size;
  quire_code code;
  int32_t native_code;   /* errno, CUresult, ...; 0 = none */
  /* Domain of native_code.
   * - 0: none
   * - 1: errno
   * - 2: CUDA driver
   * - 4: HIP
   * - 5: UCX
   * - 6: dlerror */
  int32_t native_domain;
  char source[32];       /* "library", "driver:cpu", "connector:file", ... NUL terminated */
  char message[464];     /* one line, NUL terminated; names argument, value and limit */
} quire_error;

/* An element type. The numbers are those of DLPack. Frozen, 4 bytes. */
typedef struct quire_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes; /* 0 means 1 */
} quire_dtype;

/* Values of quire_dtype.code: DLPack's numbers. */
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

/* Kinds of devices: DLPack's numbers. */
typedef int32_t quire_device_type;
enum quire_device_type_e {
  QUIRE_DEVICE_CPU = 1,
  QUIRE_DEVICE_CUDA = 2,
  QUIRE_DEVICE_CUDA_HOST = 3,
  QUIRE_DEVICE_ROCM = 10,
  QUIRE_DEVICE_ROCM_HOST = 11,
  QUIRE_DEVICE_TYPE_FORCE32 = -0x7fffffff
};

/* A strided tensor. Strides are in bytes. data NULL = absent. Array entries from index ndim on are
 * ignored. Frozen, 112 bytes. */
typedef struct quire_tensor {
  void *data;            /* address of element [0, 0, ...] */
  quire_dtype dtype;
  quire_device_type device_type; /* 0 means QUIRE_DEVICE_CPU */
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

/* Receives one log line. It is called from any thread, and never while a quire lock is held. It
 * must not call quire. */
typedef void (*quire_log_fn)(void *user, quire_log_level level, quire_str component,
                             quire_str message);
/* Allocates bytes aligned to alignment (a power of two). Returns NULL if out of memory. Any
 * thread. */
typedef void *(*quire_alloc_fn)(void *user, uint64_t bytes, uint64_t alignment);
/* Frees memory of the alloc function, with the same bytes and alignment. Any thread. */
typedef void (*quire_free_fn)(void *user, void *address, uint64_t bytes, uint64_t alignment);
/* Monotonic time in nanoseconds. Any thread. */
typedef int64_t (*quire_clock_fn)(void *user);

/* Do not read the environment. */
#define QUIRE_RUNTIME_NO_ENV 0x1u
/* Accept modules that are owned by other users or in writable directories (containers with unusual
 * user ids). Ignored in elevated processes. */
#define QUIRE_RUNTIME_TRUST_PATHS 0x2u

/* Options of quire_runtime_create. Descriptor. */
typedef struct quire_runtime_options {
  uint32_t struct_size;
  uint32_t flags;              /* QUIRE_RUNTIME_* */
  /* The QUIRE_ABI_VERSION that the caller was compiled with. Required. */
  uint32_t header_abi;
  /* Threads of the CPU driver. 0 = the number of CPUs in `cpus`; without `cpus` one per core that
   * the process may use. */
  uint32_t num_threads;
  /* Syntax of QUIRE_DRIVER. Empty = the environment's, then "auto". */
  quire_str driver;
  /* Absolute directories, separated by colons, that are searched first.
   * Empty = QUIRE_DRIVER_PATH. */
  quire_str driver_path;
  quire_str connector_path;    /* the same for connectors; empty = QUIRE_CONNECTOR_PATH */
  /* CPUs for the threads of the CPU driver, in the list format of Linux, e.g. "0-3,8". Thread i is
   * bound to the i-th CPU, modulo their number. Thread 0 is the caller's own and is never moved.
   * Empty = not bound. */
  quire_str cpus;
  /* NULL = no output, unless QUIRE_LOG requests it on standard error. */
  quire_log_fn log;
  void *log_user;
  /* Host memory of modules, through quire_host_api. NULL = the C library. Set alloc and
   * release_memory both or neither. */
  quire_alloc_fn alloc;
  quire_free_fn release_memory;
  void *alloc_user;
  quire_clock_fn clock;        /* NULL = CLOCK_MONOTONIC */
  void *clock_user;
  quire_log_level log_level;   /* used when log is set; 0 = everything */
  uint32_t reserved0;          /* 0 */
} quire_runtime_options;

/* Returns the version of the library at run time, major << 16 | minor.
 * Thread: any thread. Blocking: no. */
QUIRE_API uint32_t quire_abi_version(void);
/* Returns the package version as text, e.g. "0.2.0". The text is valid forever.
 * Thread: any thread. Blocking: no. */
QUIRE_API quire_str quire_version(void);
/* Returns the name of a status code, e.g. "INVALID_ARGUMENT", or "UNKNOWN" for other numbers. The
 * text is valid forever.
 * Thread: any thread. Blocking: no. */
QUIRE_API quire_str quire_code_name(quire_code code);

/* Creates a runtime: reads the environment once. No module is loaded yet; devices load theirs when
 * they are opened. options: borrowed; may be NULL only if every default is wanted. *out: owned,
 * release it with quire_runtime_release.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, INCOMPATIBLE_ABI, RESOURCE_EXHAUSTED. */
QUIRE_API quire_code quire_runtime_create(const quire_runtime_options *options, quire_runtime **out,
                                          quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_runtime *quire_runtime_retain(quire_runtime *runtime);
/* Drops a reference; NULL is allowed. Objects made from the runtime keep it alive.
 * Thread: any thread. Blocking: no. */
QUIRE_API void quire_runtime_release(quire_runtime *runtime);

/* One candidate of the module search. Info. */
typedef struct quire_probe_info {
  uint32_t struct_size;
  quire_code code;      /* QUIRE_OK = usable */
  int32_t kind;         /* quire_module_kind of driver.h */
  int32_t step;         /* last step of the negotiation, 0..9 */
  int64_t duration_ns;
  char name[32];
  char path[256];       /* truncated, NUL terminated */
  char reason[256];     /* why the candidate was refused; empty if usable */
} quire_probe_info;

/* Tries every module that can be found, and those that the selection names, drivers before
 * connectors. Reports each one. Drivers are opened and closed again. Two-call array with
 * stride = bytes per item.
 * Thread: any thread. Blocking: yes, loads modules.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE (capacity too small). */
QUIRE_API quire_code quire_runtime_probe(quire_runtime *runtime, quire_probe_info *items,
                                         uint64_t stride, uint64_t capacity, uint64_t *count,
                                         quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_BASE_H_ */
