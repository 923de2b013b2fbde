// Number formats of caches and tensors, converted bit for bit alike on host and device: bf16, fp16, fp8 e4m3fn and e5m2. Rounding is to
// nearest even; fp8 saturates to the largest finite number, fp16 and bf16 overflow to infinity as IEEE does. No header of a vendor is
// needed.
#pragma once

#include <quire/base.h>

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define QUIRE_HD __host__ __device__ __forceinline__
#elif defined(__HIPCC__)
#define QUIRE_HD __host__ __device__ inline __attribute__((always_inline))
#else
#define QUIRE_HD [[gnu::always_inline]] inline
#endif

namespace quire::drivers {

// What a kernel is compiled for; every quire_dtype that a kernel knows maps to one.
enum class Real : uint8_t { kNone, kFloat32, kFloat16, kBfloat16, kFp8E4m3, kFp8E5m2, kInt8 };

QUIRE_HD Real real_of(quire_dtype t) {
  if (t.lanes > 1) return Real::kNone;
  if (t.code == QUIRE_DTYPE_FLOAT && t.bits == 32) return Real::kFloat32;
  if (t.code == QUIRE_DTYPE_FLOAT && t.bits == 16) return Real::kFloat16;
  if (t.code == QUIRE_DTYPE_BFLOAT && t.bits == 16) return Real::kBfloat16;
  if (t.code == QUIRE_DTYPE_FLOAT8_E4M3FN && t.bits == 8) return Real::kFp8E4m3;
  if (t.code == QUIRE_DTYPE_FLOAT8_E5M2 && t.bits == 8) return Real::kFp8E5m2;
  if (t.code == QUIRE_DTYPE_INT && t.bits == 8) return Real::kInt8;
  return Real::kNone;
}

QUIRE_HD int64_t real_bytes(Real r) { return r == Real::kFloat32 ? 4 : r == Real::kFloat16 || r == Real::kBfloat16 ? 2 : 1; }

QUIRE_HD float float_of_bits(uint32_t bits) {
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}

QUIRE_HD uint32_t bits_of_float(float f) {
  uint32_t bits;
  __builtin_memcpy(&bits, &f, sizeof bits);
  return bits;
}

QUIRE_HD float float_of_bf16(uint16_t h) { return float_of_bits(static_cast<uint32_t>(h) << 16); }

QUIRE_HD uint16_t bf16_of_float(float f) {
  const uint32_t u = bits_of_float(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);  // NaN stays NaN, quiet
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// An IEEE-like format of 1 + E + M bits widens: the shifted bits read as fp32 are too small by a power of two, subnormals included.
template <int kExponent, int kMantissa>
QUIRE_HD float float_of_small(uint32_t magnitude, uint32_t sign) {
  constexpr uint32_t kScale = static_cast<uint32_t>(127 + 127 - ((1 << (kExponent - 1)) - 1)) << 23;
  const float f = float_of_bits(magnitude << (23 - kMantissa)) * float_of_bits(kScale);
  return float_of_bits(bits_of_float(f) | sign << 31);
}

QUIRE_HD float float_of_fp16(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu;
  const uint32_t sign = h >> 15;
  if (magnitude >= 0x7c00u) return float_of_bits(sign << 31 | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  return float_of_small<5, 10>(magnitude, sign);
}

QUIRE_HD float float_of_e4m3(uint8_t h) {
  const uint32_t magnitude = h & 0x7fu;
  if (magnitude == 0x7fu) return float_of_bits(static_cast<uint32_t>(h >> 7) << 31 | 0x7fc00000u);
  return float_of_small<4, 3>(magnitude, h >> 7);
}

QUIRE_HD float float_of_e5m2(uint8_t h) { return float_of_fp16(static_cast<uint16_t>(h << 8)); }

// The magnitude of a finite |f| in a format of E exponent and M mantissa bits, rounded to nearest even; the result may exceed the largest
// finite number.
template <int kExponent, int kMantissa>
QUIRE_HD uint32_t small_of_float(uint32_t magnitude) {
  constexpr uint32_t kBias = (1u << (kExponent - 1)) - 1;
  constexpr uint32_t kSmallestNormal = (127u - kBias + 1) << 23;
  if (magnitude < kSmallestNormal) {
    // The sum with a number whose last place is the subnormal step rounds exactly there.
    constexpr uint32_t kStep = (127u - kBias + 1 + 23 - kMantissa) << 23;
    return bits_of_float(float_of_bits(magnitude) + float_of_bits(kStep)) - kStep;
  }
  constexpr int kShift = 23 - kMantissa;
  const uint32_t odd = (magnitude >> kShift) & 1u;
  return (magnitude + (1u << (kShift - 1)) - 1 + odd - ((127u - kBias) << 23)) >> kShift;
}

QUIRE_HD uint16_t fp16_of_float(float f) {
  const uint32_t u = bits_of_float(f);
  const uint32_t magnitude = u & 0x7fffffffu;
  const uint32_t sign = (u >> 16) & 0x8000u;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  return static_cast<uint16_t>(sign | small_of_float<5, 10>(magnitude));
}

QUIRE_HD uint8_t e4m3_of_float(float f) {
  const uint32_t u = bits_of_float(f);
  const uint32_t magnitude = u & 0x7fffffffu;
  const uint32_t sign = (u >> 24) & 0x80u;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  const uint32_t rounded = magnitude >= 0x44000000u ? 0x7eu : small_of_float<4, 3>(magnitude);  // 512 and more saturate
  return static_cast<uint8_t>(sign | (rounded > 0x7eu ? 0x7eu : rounded));
}

QUIRE_HD uint8_t e5m2_of_float(float f) {
  const uint32_t u = bits_of_float(f);
  const uint32_t magnitude = u & 0x7fffffffu;
  const uint32_t sign = (u >> 24) & 0x80u;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  const uint32_t rounded = magnitude >= 0x47800000u ? 0x7bu : small_of_float<5, 2>(magnitude);
  return static_cast<uint8_t>(sign | (rounded > 0x7bu ? 0x7bu : rounded));
}

// Symmetric, to nearest even; NaN becomes 0.
QUIRE_HD int8_t int8_of_float(float f) {
  const float limited = f >= 127.0f ? 127.0f : f <= -127.0f ? -127.0f : f == f ? f : 0.0f;
  const float rounded = (limited + 12582912.0f) - 12582912.0f;
  return static_cast<int8_t>(rounded);
}

QUIRE_HD float load_real(Real r, const void* address) {
  uint32_t w = 0;
  uint16_t h = 0;
  uint8_t b = 0;
  switch (r) {
    case Real::kFloat32:
      __builtin_memcpy(&w, address, 4);
      return float_of_bits(w);
    case Real::kFloat16:
      __builtin_memcpy(&h, address, 2);
      return float_of_fp16(h);
    case Real::kBfloat16:
      __builtin_memcpy(&h, address, 2);
      return float_of_bf16(h);
    case Real::kFp8E4m3:
      __builtin_memcpy(&b, address, 1);
      return float_of_e4m3(b);
    case Real::kFp8E5m2:
      __builtin_memcpy(&b, address, 1);
      return float_of_e5m2(b);
    case Real::kInt8:
      __builtin_memcpy(&b, address, 1);
      return static_cast<float>(static_cast<int8_t>(b));
    case Real::kNone:
      break;
  }
  return 0.0f;
}

QUIRE_HD void store_real(Real r, void* address, float f) {
  uint32_t w = 0;
  uint16_t h = 0;
  uint8_t b = 0;
  switch (r) {
    case Real::kFloat32:
      w = bits_of_float(f);
      __builtin_memcpy(address, &w, 4);
      return;
    case Real::kFloat16:
      h = fp16_of_float(f);
      __builtin_memcpy(address, &h, 2);
      return;
    case Real::kBfloat16:
      h = bf16_of_float(f);
      __builtin_memcpy(address, &h, 2);
      return;
    case Real::kFp8E4m3:
      b = e4m3_of_float(f);
      __builtin_memcpy(address, &b, 1);
      return;
    case Real::kFp8E5m2:
      b = e5m2_of_float(f);
      __builtin_memcpy(address, &b, 1);
      return;
    case Real::kInt8:
      b = static_cast<uint8_t>(int8_of_float(f));
      __builtin_memcpy(address, &b, 1);
      return;
    case Real::kNone:
      return;
  }
}

}  // namespace quire::drivers
