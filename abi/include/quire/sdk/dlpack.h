/* quire/sdk/dlpack.h: the tensor of DLPack 1.x that quire/memory.h names, for engines in C that have no dlpack/dlpack.h of version 1 (some
 * distributions ship 0.x). Engines that have it include it first, or instead: this header then defines nothing. The bytes are
 * the same, some names are not. */
#ifndef QUIRE_SDK_DLPACK_H_
#define QUIRE_SDK_DLPACK_H_

#include <quire/base.h>

#if !defined(DLPACK_MAJOR_VERSION)

#ifdef __cplusplus
extern "C" {
#endif

/* The consumer must not write. */
#define QUIRE_DLPACK_READ_ONLY 0x1u

/* DLTensor: where the elements are. Frozen, 48 bytes. */
typedef struct quire_dl_view {
  void *data;            /* the first element is byte_offset behind it */
  int32_t device_type;   /* QUIRE_DEVICE_* */
  int32_t device_id;
  int32_t ndim;
  quire_dtype dtype;
  int64_t *shape;        /* [ndim] elements */
  int64_t *strides;      /* [ndim] elements; NULL = dense, row-major (before version 1.2) */
  uint64_t byte_offset;
} quire_dl_view;

/* Whoever has it calls deleter(self) once, on any thread, when nobody needs the bytes any more. Frozen, 80 bytes. */
struct DLManagedTensorVersioned {
  uint32_t major;        /* 1 */
  uint32_t minor;
  void *owner;           /* the maker's own */
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;        /* QUIRE_DLPACK_READ_ONLY */
  quire_dl_view dl_tensor;
};

#ifdef __cplusplus
}
#endif

#endif /* DLPACK_MAJOR_VERSION */
#endif /* QUIRE_SDK_DLPACK_H_ */
