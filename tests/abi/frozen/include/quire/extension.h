/* quire/extension.h: extension ops, which modules publish by name in addition to the fixed table of
 * ops.h. A driver or connector lists them in its manifest. An engine finds an op, reads its
 * signature and calls it. Extension ops are for additions of a vendor. They are not for hot paths:
 * a call costs tens of nanoseconds more.
 *
 * A signature is text of the form  result(parameter,...)  without blanks, with at most 16
 * parameters.
 *
 * Results:
 * - void i32 i64 u32 u64 f32 f64 ptr
 * - code: a quire_code, which becomes the result of the call itself
 *
 * Parameters:
 * - i32 i64 u32 u64 f32 f64
 * - ptr: const void *
 * - str: const quire_str *
 * - tensor: const quire_tensor *
 * - stream: the driver's own, quire_driver_stream *
 * - self: first parameter; quire_driver_instance *, NULL for connectors
 * - error: last parameter; quire_error *, never NULL
 * The library supplies self and error. Callers do not pass them. */
#ifndef QUIRE_EXTENSION_H_
#define QUIRE_EXTENSION_H_

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of values. */
typedef int32_t quire_value_type;
enum quire_value_type_e {
  QUIRE_VALUE_VOID = 0,
  QUIRE_VALUE_I32 = 1,
  QUIRE_VALUE_I64 = 2,
  QUIRE_VALUE_U32 = 3,
  QUIRE_VALUE_U64 = 4,
  QUIRE_VALUE_F32 = 5,
  QUIRE_VALUE_F64 = 6,
  QUIRE_VALUE_POINTER = 7,
  QUIRE_VALUE_STR = 8,    /* bits = address of a quire_str */
  QUIRE_VALUE_TENSOR = 9, /* bits = address of a quire_tensor */
  /* bits = a quire_stream handle. A packed function receives the driver's own stream. */
  QUIRE_VALUE_STREAM = 10,
  QUIRE_VALUE_TYPE_FORCE32 = -0x7fffffff
};

/* One argument or result. The object at an address is borrowed during the call.
 * Frozen, 16 bytes. */
typedef struct quire_value {
  quire_value_type type;
  uint32_t reserved0;     /* 0 */
  /* Integers and addresses unchanged, floats as IEEE 754. i32, u32 and f32 are in the low 32
   * bits. */
  uint64_t bits;
} quire_value;

/* A C function of the signature's type, cast to this type. */
typedef void (*quire_native_fn)(void);
/* The same op with its arguments in an array. args: [n], already checked against the signature.
 * *result is zeroed before the call. self as above. */
typedef quire_code (*quire_packed_fn)(void *self, const quire_value *args, uint64_t n,
                                      quire_value *result, quire_error *err);

/* One op of a module, as static constant data. At least one of native and packed must be set.
 * packed is preferred. Info. */
typedef struct quire_extension_entry {
  uint32_t struct_size;
  uint32_t version;       /* 1 and up; increased when the op is extended */
  quire_str name;         /* [a-z0-9_.-], 1 to 63 bytes, unique in the module */
  quire_str signature;
  quire_str doc;          /* one line: what it does, and units */
  quire_native_fn native;
  quire_packed_fn packed;
} quire_extension_entry;

/* The ops of a module. Info. */
typedef struct quire_extension_table {
  uint32_t struct_size;
  uint32_t stride;        /* bytes from one entry to the next: sizeof(quire_extension_entry) */
  uint64_t count;         /* at most 1024 */
  const quire_extension_entry *items;
} quire_extension_table;

typedef struct quire_extension quire_extension;

#define QUIRE_EXTENSION_NATIVE 0x1u      /* called through libffi */
#define QUIRE_EXTENSION_PACKED 0x2u

/* Description of an op. The strings live as long as the process. Info. */
typedef struct quire_extension_info {
  uint32_t struct_size;
  uint32_t version;
  quire_str name;
  quire_str signature;
  quire_str doc;
  uint32_t flags;         /* QUIRE_EXTENSION_*: the forms that the module publishes */
  uint32_t num_args;      /* parameters that callers pass */
} quire_extension_info;

/* Lists the ops of the runtime's driver, or of a connector by name. connector: empty = the driver
 * that the runtime selects. Two-call array with stride = bytes per item.
 * Thread: any thread. Blocking: yes, loads the module.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE (capacity too small), and those of opening a device. */
QUIRE_API quire_code quire_extension_list(quire_runtime *runtime, quire_str connector,
                                          quire_extension_info *items, uint64_t stride,
                                          uint64_t capacity, uint64_t *count, quire_error *err);
/* Finds an op by name in the runtime's driver, or in a connector. Keeps the driver alive. *out:
 * owned.
 * - min_version: lowest acceptable version; 0 = any.
 * - form: QUIRE_EXTENSION_NATIVE or QUIRE_EXTENSION_PACKED to require that form; 0 = packed if
 *   there is one.
 * Thread: any thread. Blocking: yes, loads the module.
 * Errors: NOT_FOUND (no op of that name, or older than min_version), UNIMPLEMENTED (no such form),
 * UNAVAILABLE (a native op in a library built without libffi), and those of opening a device. */
QUIRE_API quire_code quire_extension_find(quire_runtime *runtime, quire_str connector,
                                          quire_str name, uint32_t min_version, uint32_t form,
                                          quire_extension **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_extension *quire_extension_retain(quire_extension *op);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: no. */
QUIRE_API void quire_extension_release(quire_extension *op);
/* Reads the name, version and signature.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_extension_get_info(quire_extension *op, quire_extension_info *info,
                                              quire_error *err);
/* Calls the op. args: [n], borrowed, one per parameter that callers pass. A type must be the
 * parameter's, or one that widens to it without loss (i32 to i64, u32 to u64 and i64, f32 to f64).
 * *result: written on success; result may be NULL. Allocates nothing.
 * Thread: as the op says. Blocking: as the op says.
 * Errors: INVALID_ARGUMENT (number of arguments, or a type: position, given and expected type are
 * named), and the op's own. */
QUIRE_API quire_code quire_extension_call(quire_extension *op, const quire_value *args, uint64_t n,
                                          quire_value *result, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_EXTENSION_H_ */
