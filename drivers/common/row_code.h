// Rows whose elements are codes with scales of their own (codec RECORD and BLOCK_SPLIT): which
// formats ops know, and where scales lie.
#pragma once

#include "drivers/common/real.h"

#include <quire/ops.h>

namespace quire::drivers {

enum class Code : uint8_t { kNone, kInt8, kInt4, kE4m3, kE5m2, kE2m1 };
enum class ScaleCode : uint8_t { kNone, kOne, kFloat32, kE4m3, kE8m0 };

struct RowCode {
  Code data;  // kNone: plain elements, or a format that nothing here knows
  ScaleCode scale;
  Real tail;
  bool whole;    // one scale for all data of a row
  uint32_t run;  // elements that share a scale
};

inline bool is_unset(quire_dtype t) { return t.code == 0 && t.bits == 0 && t.lanes == 0; }

inline Code code_of(quire_dtype t) {
  if (t.lanes > 1) return Code::kNone;
  if (t.code == QUIRE_DTYPE_INT && t.bits == 4) return Code::kInt4;
  if (t.code == QUIRE_DTYPE_FLOAT4_E2M1FN && t.bits == 4) return Code::kE2m1;
  const Real real = real_of(t);
  return real == Real::kInt8 ? Code::kInt8 : real == Real::kFp8E4m3 ? Code::kE4m3 : real == Real::kFp8E5m2 ? Code::kE5m2 : Code::kNone;
}

inline ScaleCode scale_code_of(quire_dtype t) {
  if (is_unset(t)) return ScaleCode::kOne;
  if (t.lanes <= 1 && t.code == QUIRE_DTYPE_FLOAT8_E8M0FNU && t.bits == 8) return ScaleCode::kE8m0;
  const Real real = real_of(t);
  return real == Real::kFloat32 ? ScaleCode::kFloat32 : real == Real::kFp8E4m3 ? ScaleCode::kE4m3 : ScaleCode::kNone;
}

inline RowCode row_code_of(const quire_paged_kv& kv) {
  constexpr uint32_t kAll = 1u << 30;
  if (kv.codec == QUIRE_CODEC_STRIDED) return {Code::kNone, ScaleCode::kOne, Real::kNone, true, kAll};
  const bool whole = kv.scale_elements == 0;
  return {code_of(kv.data_dtype), scale_code_of(kv.scale_dtype), real_of(kv.tail_dtype), whole, whole ? kAll : kv.scale_elements};
}

inline uint32_t code_bits(Code code) { return code == Code::kInt4 || code == Code::kE2m1 ? 4 : 8; }
// Elements of a row that are codes.
inline uint32_t data_dim(const quire_paged_side& side) { return side.head_dim - side.tail_dim; }

// The scales of row (lowered id, token in the block, head).
inline char* paged_scales(const quire_paged_side& side, int64_t id, int64_t token, int64_t head) {
  return static_cast<char*>(side.base) + id * side.unit + side.scales_offset + token * side.scales_stride_token +
         head * side.scales_stride_head;
}

}  // namespace quire::drivers
