// AMX tiles of bf16 in software, in the place of the processor's: put before drivers/cpu/kernels_amx.cc by the compiler's command line,
// which compiles the very kernels for machines without tiles. One unit per thread, as in the processor. A use that the processor would
// refuse (tiles that are not configured or larger than the configuration allows, shapes that do not go together) ends the program.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <immintrin.h>

namespace quire::tiles {

struct Counts {
  uint64_t products, loads, stores, configurations;
};

struct Unit {
  Counts counts = {};  // for tests, never reset here
  bool configured = false;
  uint8_t rows[8] = {};
  uint16_t column_bytes[8] = {};
  alignas(64) uint8_t data[8][16][64] = {};
};

inline Unit& unit() {
  static thread_local Unit own;
  return own;
}

[[noreturn]] inline void refuse(const char* what, int tile) {
  std::fprintf(stderr, "tiles: %s, tile %d\n", what, tile);
  std::abort();
}

inline void release() {
  const Counts counts = unit().counts;
  unit() = Unit{};
  unit().counts = counts;
}

// 64 bytes: palette, first row, 14 zeros, bytes of a row of 16 tiles, rows of 16 tiles. Palette 0 releases.
inline void configure(const void* shapes) {
  uint8_t bytes[64];
  memcpy(bytes, shapes, sizeof bytes);
  release();
  if (bytes[0] == 0) return;
  if (bytes[0] != 1) refuse("palette is neither 0 nor 1", -1);
  Unit& u = unit();
  for (int i = 1; i < 16; ++i) {
    if (bytes[i] != 0) refuse("first row or reserved bytes of the configuration are not 0", -1);
  }
  for (int tile = 0; tile < 16; ++tile) {
    uint16_t width = 0;
    memcpy(&width, bytes + 16 + 2 * tile, 2);
    const uint8_t rows = bytes[48 + tile];
    if (tile >= 8 && (width != 0 || rows != 0)) refuse("there are 8 tiles", tile);
    if (width > 64 || rows > 16 || (width == 0) != (rows == 0))
      refuse("a configuration of more than 16 rows of 64 bytes, or of half a shape", tile);
    if (tile >= 8) continue;
    u.column_bytes[tile] = width;
    u.rows[tile] = rows;
  }
  u.configured = true;
  ++u.counts.configurations;
}

inline Unit& ready(int tile) {
  Unit& u = unit();
  if (!u.configured) refuse("used without a configuration", tile);
  if (tile < 0 || tile >= 8 || u.rows[tile] == 0) refuse("not in the configuration", tile);
  return u;
}

inline void zero(int tile) { memset(ready(tile).data[tile], 0, sizeof Unit{}.data[0]); }

// What lies behind the configured rows and bytes is zero after a load.
inline void load(int tile, const void* from, int64_t stride) {
  Unit& u = ready(tile);
  zero(tile);
  ++u.counts.loads;
  const char* p = static_cast<const char*>(from);
  for (int r = 0; r < u.rows[tile]; ++r) memcpy(u.data[tile][r], p + r * stride, u.column_bytes[tile]);
}

inline void store(int tile, void* to, int64_t stride) {
  Unit& u = ready(tile);
  ++u.counts.stores;
  char* p = static_cast<char*>(to);
  for (int r = 0; r < u.rows[tile]; ++r) memcpy(p + r * stride, u.data[tile][r], u.column_bytes[tile]);
}

// TDPBF16PS: sums of even and of odd members of the pairs apart, from zero, by fused multiply-add in order of the pairs; then both
// together, then to the tile. To nearest even, denormal numbers and results are zeros, whatever MXCSR says.
__attribute__((target("avx512f,avx512dq"))) inline void product(int sum, int a, int b) {
  Unit& u = ready(sum);
  (void)ready(a);
  (void)ready(b);
  if (sum == a || sum == b || a == b) refuse("a product of one tile with itself", sum);
  if (u.rows[a] != u.rows[sum] || u.column_bytes[b] != u.column_bytes[sum] || u.column_bytes[a] != 4 * u.rows[b]) {
    refuse("shapes that do not go together", sum);
  }
  ++u.counts.products;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // exceptions masked, to nearest, denormal numbers are zeros, results flushed
  __asm__ volatile("" ::: "memory");
  for (int m = 0; m < u.rows[sum]; ++m) {
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (int k = 0; k < u.column_bytes[a] / 4; ++k) {
      uint32_t pair = 0;
      memcpy(&pair, u.data[a][m] + 4 * k, 4);
      const __m512i other = _mm512_load_si512(u.data[b][k]);
      const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
      even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(pair << 16))),
                             _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, other, 16)), even);
      odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(pair & 0xffff0000u))),
                            _mm512_castsi512_ps(_mm512_and_si512(other, high)), odd);
    }
    const __m512 both = _mm512_add_ps(even, odd);
    const auto mask = static_cast<__mmask16>((1u << (u.column_bytes[sum] / 4)) - 1);
    const __m512 sums = _mm512_add_ps(_mm512_load_ps(u.data[sum][m]), both);
    _mm512_store_ps(u.data[sum][m], _mm512_maskz_mov_ps(mask, sums));
  }
  // What was computed is in memory before rounding is as it was.
  __asm__ volatile("" ::: "memory");
  _mm_setcsr(before);
}

}  // namespace quire::tiles

#define QUIRE_TILE_KERNELS "amx_in_software"
#define QUIRE_TILE_CONFIGURE(shapes) quire::tiles::configure(shapes)
#define QUIRE_TILE_RELEASE() quire::tiles::release()
#define QUIRE_TILE_ZERO(tile) quire::tiles::zero(tile)
#define QUIRE_TILE_LOAD(tile, from, stride) quire::tiles::load(tile, from, stride)
#define QUIRE_TILE_STORE(tile, to, stride) quire::tiles::store(tile, to, stride)
#define QUIRE_TILE_PRODUCT(sum, a, b) quire::tiles::product(sum, a, b)
