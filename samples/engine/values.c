#include "values.h"

#include <string.h>

uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t prefix_root(uint32_t salt) { return mix64(0x5157495245u + ((uint64_t)salt << 40)); }

uint64_t prefix_step(uint64_t h, uint32_t symbol) {
  return mix64(h + 0x9e3779b97f4a7c15u * ((uint64_t)symbol + 1));
}

uint32_t next_symbol(uint64_t h, uint32_t sample) {
  return (uint32_t)(mix64(h ^ (0xa0761d6478bd642fu * (sample + 1u))) % VOCABULARY);
}

uint64_t value_seed(uint64_t h, uint32_t layer, enum value_role role, uint32_t head) {
  return mix64(h ^ (((uint64_t)layer << 40) + ((uint64_t)role << 32) + head) * 0xd6e8feb86659fd93u);
}

/* The byte b stands for (b - 128) / 64, -2 being left out. */
static int element_byte(uint64_t word, uint32_t i) {
  int b = (int)((word >> (8 * (i & 7u))) & 255u) - 128;
  return b == -128 ? 127 : b;
}

void values_float(uint64_t seed, float* out, uint32_t n) {
  uint64_t word = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if ((i & 7u) == 0) word = mix64(seed + 0x9e3779b97f4a7c15u * (i / 8 + 1u));
    out[i] = (float)element_byte(word, i) * (1.0F / 64);
  }
}

static uint16_t half_of(float x) { /* exact for multiples of 1/64 below 2 */
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffu) == 0) return (uint16_t)(bits >> 16);
  uint32_t exponent = ((bits >> 23) & 255u) - 127u + 15u;
  return (uint16_t)(((bits >> 16) & 0x8000u) | (exponent << 10) | ((bits >> 13) & 0x3ffu));
}

static uint16_t bfloat_of(float x) {
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)(bits >> 16);
}

void values_store(uint64_t seed, quire_dtype dtype, void* out, uint32_t n) {
  float piece[8];
  unsigned char* to = out;
  for (uint32_t i = 0; i < n; i += 8) {
    uint32_t count = n - i < 8 ? n - i : 8;
    uint64_t word = mix64(seed + 0x9e3779b97f4a7c15u * (i / 8 + 1u));
    for (uint32_t k = 0; k < count; ++k) piece[k] = (float)element_byte(word, k) * (1.0F / 64);
    if (dtype.bits == 32) {
      memcpy(to + (uint64_t)i * 4, piece, (uint64_t)count * 4);
      continue;
    }
    for (uint32_t k = 0; k < count; ++k) {
      uint16_t stored = dtype.code == QUIRE_DTYPE_BFLOAT ? bfloat_of(piece[k]) : half_of(piece[k]);
      memcpy(to + (uint64_t)(i + k) * 2, &stored, 2);
    }
  }
}

float value_unit(uint64_t seed) { return (float)(mix64(seed) >> 40) * (1.0F / 16777216); }

float value_gate(uint64_t h, uint32_t layer, uint32_t head) {
  return -0.03F * value_unit(value_seed(h, layer, VALUE_GATE, head));
}

float value_beta(uint64_t h, uint32_t layer, uint32_t head) {
  return 0.2F + 0.6F * value_unit(value_seed(h, layer, VALUE_BETA, head));
}

uint64_t value_weight_seed(uint32_t layer, uint32_t channel) {
  return value_seed(channel, layer, VALUE_WEIGHT, 0);
}

float value_sink(uint32_t layer, uint32_t head) {
  return value_unit(value_seed(0, layer, VALUE_SINK, head)) * 4;
}

uint32_t dtype_bytes(quire_dtype dtype) {
  if (dtype.lanes > 1) return 0;
  if (dtype.code == QUIRE_DTYPE_FLOAT && (dtype.bits == 32 || dtype.bits == 16))
    return dtype.bits / 8u;
  return dtype.code == QUIRE_DTYPE_BFLOAT && dtype.bits == 16 ? 2 : 0;
}

float load_element(const void* at, quire_dtype dtype) {
  float value = 0;
  uint16_t half = 0;
  uint32_t bits = 0;
  if (dtype.bits == 32) {
    memcpy(&value, at, 4);
    return value;
  }
  memcpy(&half, at, 2);
  if (dtype.code == QUIRE_DTYPE_BFLOAT) {
    bits = (uint32_t)half << 16;
  } else {
    uint32_t exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 0)
      return ((half & 0x8000u) != 0 ? -1.0F : 1.0F) * (float)fraction * (1.0F / 16777216);
    bits = ((uint32_t)(half & 0x8000u) << 16) | ((exponent == 31 ? 255u : exponent + 112u) << 23) |
           (fraction << 13);
  }
  memcpy(&value, &bits, 4);
  return value;
}
