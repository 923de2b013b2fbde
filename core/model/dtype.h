// Element types: which exist and how wide they are.
#pragma once

#include <quire/base.h>

#include <cstdint>

namespace quire {

inline constexpr quire_dtype kBFloat16{QUIRE_DTYPE_BFLOAT, 16, 1};
inline constexpr quire_dtype kFloat16{QUIRE_DTYPE_FLOAT, 16, 1};
inline constexpr quire_dtype kFloat32{QUIRE_DTYPE_FLOAT, 32, 1};

// True for types of whole bytes that a cache can hold: (u)int8..64, float16/32/64, bfloat16, float8.
bool is_known(quire_dtype dtype);
// Bytes of one element of a known type.
uint64_t element_bytes(quire_dtype dtype);
bool same_dtype(quire_dtype a, quire_dtype b);
bool is_unset(quire_dtype dtype);

}  // namespace quire
