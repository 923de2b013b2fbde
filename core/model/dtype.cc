#include "core/model/dtype.h"

#include <algorithm>

namespace quire {

bool is_known(quire_dtype dtype) {
  if (dtype.lanes > 1) return false;
  switch (dtype.code) {
    case QUIRE_DTYPE_INT:
    case QUIRE_DTYPE_UINT:
      return dtype.bits == 8 || dtype.bits == 16 || dtype.bits == 32 || dtype.bits == 64;
    case QUIRE_DTYPE_FLOAT:
      return dtype.bits == 16 || dtype.bits == 32 || dtype.bits == 64;
    case QUIRE_DTYPE_BFLOAT:
      return dtype.bits == 16;
    case QUIRE_DTYPE_FLOAT8_E4M3FN:
    case QUIRE_DTYPE_FLOAT8_E5M2:
      return dtype.bits == 8;
    default:
      return false;
  }
}

uint64_t element_bytes(quire_dtype dtype) { return dtype.bits / 8; }

bool same_dtype(quire_dtype a, quire_dtype b) {
  return a.code == b.code && a.bits == b.bits && std::max<uint16_t>(a.lanes, 1) == std::max<uint16_t>(b.lanes, 1);
}

bool is_unset(quire_dtype dtype) { return dtype.code == 0 && dtype.bits == 0 && dtype.lanes == 0; }

}  // namespace quire
