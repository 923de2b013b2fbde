#include "ceilings_x86.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace quire::bench {
namespace {

using Words = uint64_t __attribute__((vector_size(32)));
using Floats = float __attribute__((vector_size(16)));

uint64_t read_portable(const char* p, uint64_t bytes) {
  Words sums[4] = {};
  for (uint64_t i = 0; i + 128 <= bytes; i += 128) {
    for (uint64_t k = 0; k < 4; ++k) {
      Words w;
      memcpy(&w, p + i + 32 * k, sizeof w);
      sums[k] ^= w;
    }
  }
  const Words all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  return all[0] ^ all[1] ^ all[2] ^ all[3];
}

uint64_t fma_portable(uint64_t rounds) {
  Floats acc[8] = {};
  const Floats factor = Floats{} + 0.999f;
  for (uint64_t r = 0; r < rounds; ++r) {
    for (Floats& a : acc) a = a * factor + 0.5f;
  }
  Floats sum = {};
  for (Floats a : acc) sum += a;
  return static_cast<uint64_t>(sum[0] + sum[3]);
}

#if defined(__x86_64__)

enum class Level { kPortable, kAvx2, kAvx512, kBf16, kAmx };

bool amx_permitted() {
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTiles = 18;
  return syscall(SYS_arch_prctl, kRequest, kTiles) == 0;
}

bool amx_present() {
  uint32_t a = 7, b = 0, c = 0, d = 0;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0;
}

bool bf16_present() {
  uint32_t a = 7, b = 0, c = 1, d = 0;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (a >> 5 & 1) != 0;
}

Level find_level() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
    if (amx_present() && amx_permitted()) return Level::kAmx;
    return bf16_present() ? Level::kBf16 : Level::kAvx512;
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? Level::kAvx2 : Level::kPortable;
}

Level level() {
  static const Level found = find_level();
  return found;
}

__attribute__((target("avx512f"))) uint64_t read_avx512(const char* p, uint64_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (uint64_t i = 0; i < bytes; i += 256) {
    a = _mm512_xor_si512(a, _mm512_load_si512(p + i));
    b = _mm512_xor_si512(b, _mm512_load_si512(p + i + 64));
    c = _mm512_xor_si512(c, _mm512_load_si512(p + i + 128));
    d = _mm512_xor_si512(d, _mm512_load_si512(p + i + 192));
  }
  const __m512i all = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
  uint64_t words[8];
  memcpy(words, &all, sizeof words);
  return words[0] ^ words[7];
}

__attribute__((target("avx512f"))) void copy_avx512(char* to, const char* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 256) {
    for (uint64_t k = 0; k < 256; k += 64) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + k), _mm512_load_si512(from + i + k));
    }
  }
  _mm_sfence();
}

// Twenty independent chains; the loop is assembly so that no compiler folds it.
#define QUIRE_20(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19)
#define QUIRE_CLOBBERS                                                                                                                  \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", \
      "cc", "memory"

#define QUIRE_FMA(n) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #n "\n"
__attribute__((target("avx512f"))) uint64_t fma_avx512(uint64_t rounds) {
  __asm__ volatile("vpxord %%zmm30, %%zmm30, %%zmm30\nvpxord %%zmm31, %%zmm31, %%zmm31\n1:\n" QUIRE_20(QUIRE_FMA) "dec %0\njnz 1b\n"
                   : "+r"(rounds)
                   :
                   : QUIRE_CLOBBERS, "xmm16", "xmm17", "xmm18", "xmm19", "xmm30", "xmm31");
  return rounds;
}

#define QUIRE_FMA12(n) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #n "\n"
#define QUIRE_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
__attribute__((target("avx2,fma"))) uint64_t fma_avx2(uint64_t rounds) {
  __asm__ volatile("vpxor %%ymm14, %%ymm14, %%ymm14\nvpxor %%ymm15, %%ymm15, %%ymm15\n1:\n" QUIRE_12(QUIRE_FMA12) "dec %0\njnz 1b\n"
                   : "+r"(rounds)
                   :
                   : QUIRE_CLOBBERS);
  return rounds;
}

// 4 KiB of ordinary bf16 numbers, between 0.25 and 4 of either sign: products of zeros would be quicker than any kernel's.
const char* ordinary_numbers() {
  struct alignas(64) Numbers {
    uint16_t n[2048];
    Numbers() {
      uint32_t random = 1;
      for (uint16_t& x : n) {
        random = random * 1664525u + 1013904223u;
        x = static_cast<uint16_t>((random >> 16 & 0x8000) | (0x3e80 + (random >> 8 & 0x1ff)));
      }
    }
  };
  static const Numbers numbers;
  return reinterpret_cast<const char*>(numbers.n);
}

// Six rows by four vectors: what a product of rows with a packed block does per pair of its inner dimension, loads included.
#define QUIRE_DOT(row, a, b, c, d)       \
  "vpbroadcastd " #row                   \
  "*4(%1), %%zmm28\n"                    \
  "vdpbf16ps %%zmm24, %%zmm28, %%zmm" #a \
  "\n"                                   \
  "vdpbf16ps %%zmm25, %%zmm28, %%zmm" #b \
  "\n"                                   \
  "vdpbf16ps %%zmm26, %%zmm28, %%zmm" #c \
  "\n"                                   \
  "vdpbf16ps %%zmm27, %%zmm28, %%zmm" #d "\n"
__attribute__((target("avx512f"))) uint64_t dot_avx512(uint64_t rounds) {
  const char* line = ordinary_numbers();
  __asm__ volatile("1:\nvmovups (%1), %%zmm24\nvmovups 64(%1), %%zmm25\nvmovups 128(%1), %%zmm26\nvmovups 192(%1), %%zmm27\n"  //
                   QUIRE_DOT(0, 0, 1, 2, 3) QUIRE_DOT(1, 4, 5, 6, 7) QUIRE_DOT(2, 8, 9, 10, 11) QUIRE_DOT(3, 12, 13, 14, 15)
                       QUIRE_DOT(4, 16, 17, 18, 19) QUIRE_DOT(5, 20, 21, 22, 23) "dec %0\njnz 1b\n"
                   : "+r"(rounds)
                   : "r"(line)
                   : QUIRE_CLOBBERS, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26",
                     "xmm27", "xmm28");
  return rounds;
}

// Two by two tiles of 16 x 16 sums; four tile loads from the first-level cache for four products. The shapes are a constant: g++ 12 takes
// _tile_loadconfig to read 8 of the 64 bytes, so it drops stores to the others.
struct TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);
alignas(64) constexpr TileShapes kTileShapes;

__attribute__((target("amx-tile,amx-bf16"))) uint64_t dot_amx(uint64_t rounds) {
  const char* tiles = ordinary_numbers();
  _tile_loadconfig(&kTileShapes);
  for (uint64_t r = 0; r < rounds; ++r) {
    _tile_loadd(4, tiles, 64);
    _tile_loadd(5, tiles + 1024, 64);
    _tile_loadd(6, tiles + 2048, 64);
    _tile_loadd(7, tiles + 3072, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return rounds;
}
#endif

}  // namespace

#if defined(__x86_64__)
uint64_t read_all(const char* p, uint64_t bytes) { return level() >= Level::kAvx512 ? read_avx512(p, bytes) : read_portable(p, bytes); }
void copy_streamed(char* to, const char* from, uint64_t bytes) {
  if (level() >= Level::kAvx512) {
    copy_avx512(to, from, bytes);
  } else {
    memcpy(to, from, bytes);
  }
}
const char* float_loop() {
  return level() >= Level::kAvx512 ? "AVX-512 FMA" : level() == Level::kAvx2 ? "AVX2 FMA" : "portable multiply-add";
}
uint64_t float_operations(uint64_t rounds) {
  return rounds * (level() >= Level::kAvx512 ? 20 * 32 : level() == Level::kAvx2 ? 12 * 16 : 8 * 8);
}
uint64_t run_float(uint64_t rounds) {
  return level() >= Level::kAvx512 ? fma_avx512(rounds) : level() == Level::kAvx2 ? fma_avx2(rounds) : fma_portable(rounds);
}
const char* matrix_loop() {
  return level() == Level::kAmx ? "AMX bf16 with tile loads" : level() == Level::kBf16 ? "AVX-512 BF16 with loads" : float_loop();
}
uint64_t matrix_operations(uint64_t rounds) {
  return level() == Level::kAmx ? rounds * 4 * 16384 : level() == Level::kBf16 ? rounds * 24 * 64 : float_operations(rounds);
}
uint64_t run_matrix(uint64_t rounds) {
  return level() == Level::kAmx ? dot_amx(rounds) : level() == Level::kBf16 ? dot_avx512(rounds) : run_float(rounds);
}
#else
uint64_t read_all(const char* p, uint64_t bytes) { return read_portable(p, bytes); }
void copy_streamed(char* to, const char* from, uint64_t bytes) { memcpy(to, from, bytes); }
const char* float_loop() { return "portable multiply-add"; }
uint64_t float_operations(uint64_t rounds) { return rounds * 8 * 8; }
uint64_t run_float(uint64_t rounds) { return fma_portable(rounds); }
const char* matrix_loop() { return float_loop(); }
uint64_t matrix_operations(uint64_t rounds) { return float_operations(rounds); }
uint64_t run_matrix(uint64_t rounds) { return fma_portable(rounds); }
#endif

}  // namespace quire::bench
