#include "tests/kernels/conformance/coded_oracle.h"

#include "tests/kernels/conformance/oracle.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

namespace quire::oracle {
namespace {

constexpr double kE2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

double fp32(double value) { return static_cast<float>(value); }

bool is_float8(quire_dtype t) { return t.bits == 8 && t.code != QUIRE_DTYPE_INT; }

char* row_of(const quire_paged_side& s, int64_t id, int64_t token, int64_t head) {
  return static_cast<char*>(s.base) + id * s.unit + token * s.stride_token + head * s.stride_head;
}

char* scales_of(const quire_paged_side& s, int64_t id, int64_t token, int64_t head) {
  return static_cast<char*>(s.base) + id * s.unit + s.scales_offset + token * s.scales_stride_token + head * s.scales_stride_head;
}

int64_t scale_index(const quire_paged_kv& kv, int64_t dim) { return kv.scale_elements == 0 ? 0 : dim / kv.scale_elements; }

double scale_of(const quire_paged_kv& kv, const char* scales, int64_t i) {
  if (kv.scale_dtype.bits == 0) return 1;
  if (kv.scale_dtype.code == QUIRE_DTYPE_FLOAT8_E8M0FNU) return std::ldexp(1.0, static_cast<uint8_t>(scales[i]) - 127);
  return decode(kv.scale_dtype, scales + i * bytes_of(kv.scale_dtype));
}

uint32_t bits_at(const char* row, int64_t first, uint32_t bits) {
  uint32_t code = 0;
  for (uint32_t b = 0; b < bits; ++b) {
    const int64_t at = first + b;
    code |= static_cast<uint32_t>(static_cast<uint8_t>(row[at / 8]) >> (at % 8) & 1) << b;
  }
  return code;
}

void put_bits(char* row, int64_t first, uint32_t bits, uint32_t code) {
  for (uint32_t b = 0; b < bits; ++b) {
    const int64_t at = first + b;
    const auto one = static_cast<uint8_t>(1u << (at % 8));
    auto byte = static_cast<uint8_t>(row[at / 8]);
    byte = static_cast<uint8_t>((code >> b & 1) != 0 ? byte | one : byte & ~one);
    row[at / 8] = static_cast<char>(byte);
  }
}

double number_of(quire_dtype t, uint32_t code) {
  if (t.code == QUIRE_DTYPE_INT) return static_cast<double>(code) - (code >> (t.bits - 1) != 0 ? std::ldexp(1.0, t.bits) : 0.0);
  if (t.code == QUIRE_DTYPE_FLOAT4_E2M1FN) return (code & 8) != 0 ? -kE2m1[code & 7] : kE2m1[code & 7];
  const auto byte = static_cast<uint8_t>(code);
  return decode(t, &byte);
}

// Whole numbers: halves away from 0, and the sum with a half is fp32. The others: ties to even.
uint32_t code_of(quire_dtype t, double q) {
  if (t.code == QUIRE_DTYPE_INT) {
    const double whole = std::trunc(fp32(q >= 0 ? q + 0.5 : q - 0.5));
    const double most = std::ldexp(1.0, t.bits - 1);
    return static_cast<uint32_t>(static_cast<int32_t>(std::min(std::max(whole, -most), most - 1))) & ((1u << t.bits) - 1);
  }
  if (t.code == QUIRE_DTYPE_FLOAT4_E2M1FN) {
    uint32_t nearest = 0;
    for (uint32_t code = 1; code < 8; ++code) {
      const double gain = std::fabs(std::fabs(q) - kE2m1[nearest]) - std::fabs(std::fabs(q) - kE2m1[code]);
      if (gain > 0 || (gain == 0 && code % 2 == 0)) nearest = code;
    }
    return nearest | (std::signbit(q) ? 8 : 0);
  }
  uint8_t byte = 0;
  encode(t, &byte, q);
  return byte;
}

double largest_of(quire_dtype t) {
  if (t.code == QUIRE_DTYPE_INT) return t.bits == 8 ? 127 : 7;
  return t.code == QUIRE_DTYPE_FLOAT8_E4M3FN ? 448 : t.code == QUIRE_DTYPE_FLOAT8_E5M2 ? 57344 : 6;
}

// Writes the scale of elements with this largest magnitude. *reciprocal: elements are multiplied by its fp32 reciprocal.
double put_scale(const quire_paged_kv& kv, char* scales, int64_t i, double peak, bool* reciprocal) {
  *reciprocal = false;
  if (kv.scale_dtype.bits == 0) return 1;
  if (kv.scale_dtype.bits == 32) {
    *reciprocal = kv.scale_elements == 0;
    const auto scale = static_cast<float>(std::max(fp32(peak / largest_of(kv.data_dtype)), kv.scale_elements == 0 ? fp32(1e-6) : FLT_MIN));
    memcpy(scales + 4 * i, &scale, sizeof scale);
    return scale;
  }
  if (kv.scale_dtype.code == QUIRE_DTYPE_FLOAT8_E8M0FNU) {
    const double least = fp32(std::max(peak, fp32(1e-4)) * fp32(1 / largest_of(kv.data_dtype)));
    int exponent = -127;
    while (std::ldexp(1.0, exponent) < least) ++exponent;
    scales[i] = static_cast<char>(exponent + 127);
    return std::ldexp(1.0, exponent);
  }
  *reciprocal = true;
  encode(kv.scale_dtype, scales + i, fp32(peak * fp32(1.0 / 6)));
  return decode(kv.scale_dtype, scales + i);
}

}  // namespace

double coded_element(const quire_paged_kv& kv, uint32_t side, int64_t id, int64_t token, int64_t head, int64_t dim) {
  const quire_paged_side& s = kv.side[side];
  const char* row = row_of(s, id, token, head);
  const int64_t data = int64_t{s.head_dim} - s.tail_dim;
  if (dim >= data) return decode(kv.tail_dtype, row + s.tail_offset + (dim - data) * bytes_of(kv.tail_dtype));
  const uint32_t code = bits_at(row, dim * kv.data_dtype.bits, kv.data_dtype.bits);
  return number_of(kv.data_dtype, code) * scale_of(kv, scales_of(s, id, token, head), scale_index(kv, dim));
}

void append_coded(const quire_paged_kv& kv, uint32_t side, int64_t id, int64_t token, int64_t head, const std::vector<double>& x) {
  const quire_paged_side& s = kv.side[side];
  char* row = row_of(s, id, token, head);
  char* scales = scales_of(s, id, token, head);
  const int64_t data = int64_t{s.head_dim} - s.tail_dim;
  const int64_t run = kv.scale_elements == 0 ? data : kv.scale_elements;
  for (int64_t first = 0; first < data; first += run) {
    const int64_t last = std::min(first + run, data);
    double peak = 0;
    for (int64_t d = first; d < last; ++d) peak = std::max(peak, std::fabs(x[static_cast<size_t>(d)]));
    bool reciprocal = false;
    const double scale = put_scale(kv, scales, first / run, peak, &reciprocal);
    const double inverse = scale == 0 ? 0 : fp32(1 / scale);
    for (int64_t d = first; d < last; ++d) {
      const double q = fp32(reciprocal ? x[static_cast<size_t>(d)] * inverse : x[static_cast<size_t>(d)] / scale);
      put_bits(row, d * kv.data_dtype.bits, kv.data_dtype.bits, code_of(kv.data_dtype, q));
    }
  }
  for (int64_t d = data; d < s.head_dim; ++d) {
    encode(kv.tail_dtype, row + s.tail_offset + (d - data) * bytes_of(kv.tail_dtype), x[static_cast<size_t>(d)]);
  }
}

double coded_step(const quire_paged_kv& kv, uint32_t side, int64_t id, int64_t token, int64_t head, int64_t dim, double was) {
  const quire_paged_side& s = kv.side[side];
  if (dim >= int64_t{s.head_dim} - s.tail_dim) return std::max(std::fabs(was) * std::ldexp(1.0, -8), std::ldexp(1.0, -25));  // bf16 or fp16
  const double scale = scale_of(kv, scales_of(s, id, token, head), scale_index(kv, dim));
  if (kv.data_dtype.code == QUIRE_DTYPE_INT) return scale / 2;
  // 4 and 6 are the farthest apart. A small scale may be rounded down by half of fp8's smallest number, and then 6 is not reached.
  if (!is_float8(kv.data_dtype)) return scale + (scale < std::ldexp(1.0, -6) ? 6 * std::ldexp(1.0, -10) : 0);
  const int mantissa = kv.data_dtype.code == QUIRE_DTYPE_FLOAT8_E4M3FN ? 3 : 2;
  const int smallest = kv.data_dtype.code == QUIRE_DTYPE_FLOAT8_E4M3FN ? -9 : -16;
  return std::max(std::fabs(was) * std::ldexp(1.0, -mantissa - 1), std::ldexp(scale, smallest - 1));
}

}  // namespace quire::oracle
