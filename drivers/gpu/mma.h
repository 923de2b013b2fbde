// Products of 16 x 16 tiles of bf16 or fp16 by matrix instructions, summed in fp32:  C[row][column] += A[row][k] * B[k][column].
//
// A tile is spread over the registers of a wave. Which lane's which element holds which row and column is said once, by the constexpr maps
// of a back end; kernels take masks and rows from the maps, the emulation computes with them, tests hold them against the makers'
// documents:
//   Sm80  NVIDIA from sm_80 on, waves of 32: two mma.m16n8k16 side by side; fragments come from shared memory by ldmatrix.
//   Cdna  AMD gfx90a, gfx94x, gfx950, waves of 64: v_mfma_f32_16x16x16. The instruction is given B and A for A and B and so writes the
//   tile's
//         transpose in its own terms: a lane then has elements of one row of C.
//   Rdna  AMD gfx11, waves of 32: v_wmma_f32_16x16x16, likewise; both halves of a wave hold all of A and of B. gfx12 spreads them in
//         another way, for which there is no map: it has dot products only.
//
// Maps:   a(lane, i) -> {row, k};  b(lane, i) -> {k, column};  c(lane, i) -> {row, column}.
// Loads:  load_a: memory [row][k];  load_b: memory [k][column];  load_b_transposed: memory [column][k]. Rows of 16-bit elements begin at
//         multiples of 16 bytes in shared memory, `pitch` elements apart. All lanes of a wave call together.
// as_a:   rounds a C to 16 bits as the A of a next product, which needs no exchange where the maps of C and A agree (Sm80, Cdna).
#pragma once

#include "drivers/gpu/simt.h"

#if defined(QUIRE_GPU_EMULATION)
#include <array>
#endif

namespace quire::gpu {

inline constexpr uint32_t kMatrix = 16;  // rows, columns and depth of a product

struct Place {
  uint32_t row;
  uint32_t column;
};

struct Sm80 {
  static constexpr uint32_t kLanes = 32;
  static constexpr uint32_t kA = 8, kB = 8, kC = 8;       // elements of a lane
  static constexpr uint32_t kRows = 2;                    // rows of C that a lane has elements of
  static constexpr uint32_t kRowLane = 1, kRowSteps = 2;  // lane ^ (kRowLane << 0..kRowSteps-1) reaches all lanes of a row of C
  static constexpr bool kCopies = false;                  // whether several lanes hold the same element of A and B
  QUIRE_HD static constexpr Place a(uint32_t lane, uint32_t i) { return {lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8}; }
  QUIRE_HD static constexpr Place b(uint32_t lane, uint32_t i) { return {lane % 4 * 2 + i % 2 + i / 2 % 2 * 8, lane / 4 + i / 4 * 8}; }
  QUIRE_HD static constexpr Place c(uint32_t lane, uint32_t i) { return {lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8}; }
  // Which of the lane's rows element i of C is in.
  QUIRE_HD static constexpr uint32_t slot(uint32_t i) { return i / 2 % 2; }
  // What a lane tells ldmatrix.x4: the begin of a row of eight, for A and B as they lie and for B from its transpose.
  QUIRE_HD static constexpr Place seat(uint32_t lane) { return {lane % 16, lane / 16 * 8}; }
  QUIRE_HD static constexpr Place seat_transposed(uint32_t lane) { return {lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8}; }
};

struct Cdna {
  static constexpr uint32_t kLanes = 64;
  static constexpr uint32_t kA = 4, kB = 4, kC = 4;
  static constexpr uint32_t kRows = 1;
  static constexpr uint32_t kRowLane = 16, kRowSteps = 2;
  static constexpr bool kCopies = false;
  QUIRE_HD static constexpr Place a(uint32_t lane, uint32_t i) { return {lane % 16, lane / 16 * 4 + i}; }
  QUIRE_HD static constexpr Place b(uint32_t lane, uint32_t i) { return {lane / 16 * 4 + i, lane % 16}; }
  QUIRE_HD static constexpr Place c(uint32_t lane, uint32_t i) { return {lane % 16, lane / 16 * 4 + i}; }
  QUIRE_HD static constexpr uint32_t slot(uint32_t) { return 0; }
};

struct Rdna {
  static constexpr uint32_t kLanes = 32;
  static constexpr uint32_t kA = 16, kB = 16, kC = 8;
  static constexpr uint32_t kRows = 1;
  static constexpr uint32_t kRowLane = 16, kRowSteps = 1;
  static constexpr bool kCopies = true;
  QUIRE_HD static constexpr Place a(uint32_t lane, uint32_t i) { return {lane % 16, i}; }
  QUIRE_HD static constexpr Place b(uint32_t lane, uint32_t i) { return {i, lane % 16}; }
  QUIRE_HD static constexpr Place c(uint32_t lane, uint32_t i) { return {lane % 16, i * 2 + lane / 16}; }
  QUIRE_HD static constexpr uint32_t slot(uint32_t) { return 0; }
};

// Elements i and i + 1 (i even) are the halves of register i / 2.
template <typename Back>
struct FragmentA {
  uint32_t x[Back::kA / 2];
};
template <typename Back>
struct FragmentB {
  uint32_t x[Back::kB / 2];
};
template <typename Back>
struct FragmentC {
  float x[Back::kC];
};

// The back end of this compilation. QUIRE_GPU_MATRIX is 0 where the machine has no matrix instructions that this layer speaks.
#if defined(QUIRE_GPU_EMULATION)
#define QUIRE_GPU_MATRIX 1
QUIRE_GPU_BEGIN
template <uint32_t kLanes>
struct BackOf {
  using Type = Sm80;
};
template <>
struct BackOf<64> {
  using Type = Cdna;
};
#if defined(QUIRE_GPU_RDNA)
using Matrix = Rdna;
#else
using Matrix = BackOf<kWave>::Type;
#endif
QUIRE_GPU_END
#elif defined(QUIRE_GPU_CUDA)
#define QUIRE_GPU_MATRIX 1
using Matrix = Sm80;
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#define QUIRE_GPU_MATRIX 1
#define QUIRE_GPU_CDNA 1
using Matrix = Cdna;
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__)
#define QUIRE_GPU_MATRIX 1
using Matrix = Rdna;
#else
#define QUIRE_GPU_MATRIX 0
#endif

QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide

template <drivers::Real kReal>
QUIRE_GPU_DEVICE uint32_t round_to(float x) {
  return kReal == drivers::Real::kFloat16 ? drivers::fp16_of_float(x) : drivers::bf16_of_float(x);
}

// Two numbers as a register of 16-bit elements, the first in the lower half.
template <drivers::Real kReal>
QUIRE_GPU_DEVICE uint32_t pair(float x, float y) {
#if defined(QUIRE_GPU_CUDA)
  uint32_t both;
  if (kReal == drivers::Real::kFloat16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
  }
  return both;
#else
  return round_to<kReal>(x) | round_to<kReal>(y) << 16;
#endif
}

#if defined(QUIRE_GPU_EMULATION)
// A multiplication as the maps say it: every lane gathers rows of A and columns of B from the registers of all lanes, and sums its own
// elements of C. Nothing is known of what the fragments mean to the kernel.
template <typename Back>
struct Owners {
  struct Owner {
    uint8_t lane;
    uint8_t element;
  };
  std::array<std::array<Owner, kMatrix>, kMatrix> a{}, b{};  // [row][k], [column][k]
  constexpr Owners() {
    for (uint32_t lane = 0; lane < Back::kLanes; ++lane) {
      for (uint32_t i = 0; i < Back::kA; ++i) {
        a[Back::a(lane, i).row][Back::a(lane, i).column] = {static_cast<uint8_t>(lane), static_cast<uint8_t>(i)};
      }
      for (uint32_t i = 0; i < Back::kB; ++i) {
        b[Back::b(lane, i).column][Back::b(lane, i).row] = {static_cast<uint8_t>(lane), static_cast<uint8_t>(i)};
      }
    }
  }
};

template <drivers::Real kReal>
inline float widened(const uint32_t* registers, uint32_t element) {
  const auto half = static_cast<uint16_t>(registers[element / 2] >> (element % 2 * 16));
  return kReal == drivers::Real::kFloat16 ? drivers::float_of_fp16(half) : drivers::float_of_bf16(half);
}

template <drivers::Real kReal, typename Back>
inline void multiply(FragmentC<Back>* c, const FragmentA<Back>& a, const FragmentB<Back>& b) {
  static constexpr Owners<Back> kOwners;
  uint32_t mine[emulation::kPublished] = {};
  constexpr uint32_t kWordsA = Back::kA / 2;
  for (uint32_t i = 0; i < kWordsA; ++i) mine[i] = a.x[i];
  for (uint32_t i = 0; i < Back::kB / 2; ++i) mine[kWordsA + i] = b.x[i];
  const uint32_t* all = emulation::publish(Back::kLanes, mine);
  const uint32_t lane = thread_index() % Back::kLanes;
  for (uint32_t i = 0; i < Back::kC; ++i) {
    const Place at = Back::c(lane, i);
    float sum = c->x[i];
    for (uint32_t k = 0; k < kMatrix; ++k) {
      const auto x = kOwners.a[at.row][k];
      const auto y = kOwners.b[at.column][k];
      sum += widened<kReal>(all + x.lane * emulation::kPublished, x.element) *
             widened<kReal>(all + y.lane * emulation::kPublished + kWordsA, y.element);
    }
    c->x[i] = sum;
  }
}

// ldmatrix.x4: lane l's row goes to matrix l / 8; lane l receives elements 2 * (l % 4) and the next of row l / 4 of every matrix, or, with
// kTurned, of column l / 4.
template <bool kTurned>
inline void load_matrices(uint32_t* x, const uint16_t* row) {
  uint32_t mine[emulation::kPublished] = {};
  __builtin_memcpy(mine, &row, sizeof row);
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) emulation::fault("a row that ldmatrix reads is not at a multiple of 16 bytes");
  const uint32_t* all = emulation::publish(32, mine);
  const uint32_t lane = thread_index() % 32;
  for (uint32_t m = 0; m < 4; ++m) {
    uint16_t halves[2];
    for (uint32_t e = 0; e < 2; ++e) {
      const uint32_t from = m * 8 + (kTurned ? lane % 4 * 2 + e : lane / 4);
      const uint16_t* address = nullptr;
      __builtin_memcpy(&address, all + from * emulation::kPublished, sizeof address);
      halves[e] = address[kTurned ? lane / 4 : lane % 4 * 2 + e];
    }
    x[m] = halves[0] | static_cast<uint32_t>(halves[1]) << 16;
  }
}
#elif defined(QUIRE_GPU_CUDA)
template <drivers::Real kReal, typename Back>
QUIRE_GPU_DEVICE void multiply(FragmentC<Back>* c, const FragmentA<Back>& a, const FragmentB<Back>& b) {
  float* x = c->x;
  QUIRE_GPU_UNROLL
  for (uint32_t n = 0; n < 2; ++n) {
    if (kReal == drivers::Real::kFloat16) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(x[n * 4]), "+f"(x[n * 4 + 1]), "+f"(x[n * 4 + 2]), "+f"(x[n * 4 + 3])
          : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[n * 2]), "r"(b.x[n * 2 + 1]));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(x[n * 4]), "+f"(x[n * 4 + 1]), "+f"(x[n * 4 + 2]), "+f"(x[n * 4 + 3])
          : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[n * 2]), "r"(b.x[n * 2 + 1]));
    }
  }
}

template <bool kTurned>
QUIRE_GPU_DEVICE void load_matrices(uint32_t* x, const uint16_t* row) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if (kTurned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(at)
                 : "memory");
  }
}
#elif QUIRE_GPU_MATRIX
typedef float Four __attribute__((ext_vector_type(4)));
typedef float Eight __attribute__((ext_vector_type(8)));
typedef short Shorts4 __attribute__((ext_vector_type(4)));
typedef short Shorts16 __attribute__((ext_vector_type(16)));
typedef _Float16 Halves4 __attribute__((ext_vector_type(4)));
typedef _Float16 Halves16 __attribute__((ext_vector_type(16)));

template <typename To, typename From>
QUIRE_GPU_DEVICE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

template <drivers::Real kReal, typename Back>
QUIRE_GPU_DEVICE void multiply(FragmentC<Back>* c, const FragmentA<Back>& a, const FragmentB<Back>& b) {
#if defined(QUIRE_GPU_CDNA)
  Four sum = bits_as<Four>(*c);
  if constexpr (kReal == drivers::Real::kFloat16) {
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(bits_as<Halves4>(b), bits_as<Halves4>(a), sum, 0, 0, 0);
  } else {
    sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bits_as<Shorts4>(b), bits_as<Shorts4>(a), sum, 0, 0, 0);
  }
#else
  Eight sum = bits_as<Eight>(*c);
  if constexpr (kReal == drivers::Real::kFloat16) {
    sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bits_as<Halves16>(b), bits_as<Halves16>(a), sum);
  } else {
    sum = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bits_as<Shorts16>(b), bits_as<Shorts16>(a), sum);
  }
#endif
  *c = bits_as<FragmentC<Back> >(sum);
}
#endif

// A lane's own elements, one by one, by the map.
template <typename Back>
QUIRE_GPU_DEVICE void load_a(FragmentA<Back>* a, const uint16_t* tile, uint32_t pitch) {
  const uint32_t lane = thread_index() % Back::kLanes;
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < Back::kA; i += 2) {
    const Place x = Back::a(lane, i);
    const Place y = Back::a(lane, i + 1);
    a->x[i / 2] = tile[x.row * pitch + x.column] | static_cast<uint32_t>(tile[y.row * pitch + y.column]) << 16;
  }
}

template <typename Back>
QUIRE_GPU_DEVICE void load_b(FragmentB<Back>* b, const uint16_t* tile, uint32_t pitch) {
  const uint32_t lane = thread_index() % Back::kLanes;
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < Back::kB; i += 2) {
    const Place x = Back::b(lane, i);
    const Place y = Back::b(lane, i + 1);
    b->x[i / 2] = tile[x.row * pitch + x.column] | static_cast<uint32_t>(tile[y.row * pitch + y.column]) << 16;
  }
}

template <typename Back>
QUIRE_GPU_DEVICE void load_b_transposed(FragmentB<Back>* b, const uint16_t* tile, uint32_t pitch) {
  const uint32_t lane = thread_index() % Back::kLanes;
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < Back::kB; i += 2) {
    const Place x = Back::b(lane, i);
    const Place y = Back::b(lane, i + 1);
    b->x[i / 2] = tile[x.column * pitch + x.row] | static_cast<uint32_t>(tile[y.column * pitch + y.row]) << 16;
  }
}

#if defined(QUIRE_GPU_EMULATION) || defined(QUIRE_GPU_CUDA)
QUIRE_GPU_DEVICE void load_a(FragmentA<Sm80>* a, const uint16_t* tile, uint32_t pitch) {
  const Place at = Sm80::seat(thread_index() % 32);
  load_matrices<false>(a->x, tile + at.row * pitch + at.column);
}

QUIRE_GPU_DEVICE void load_b(FragmentB<Sm80>* b, const uint16_t* tile, uint32_t pitch) {
  const Place at = Sm80::seat(thread_index() % 32);
  load_matrices<true>(b->x, tile + at.row * pitch + at.column);
}

QUIRE_GPU_DEVICE void load_b_transposed(FragmentB<Sm80>* b, const uint16_t* tile, uint32_t pitch) {
  const Place at = Sm80::seat_transposed(thread_index() % 32);
  load_matrices<false>(b->x, tile + at.row * pitch + at.column);
}
#endif

template <drivers::Real kReal, typename Back>
QUIRE_GPU_DEVICE FragmentA<Back> as_a(const FragmentC<Back>& c) {
  FragmentA<Back> a;
  if constexpr (Back::kCopies) {
    // Rdna: the other half of the wave has the odd columns, or the even ones.
    const bool upper = thread_index() % Back::kLanes >= kMatrix;
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < Back::kC; ++i) {
      const float other = shuffle_xor(c.x[i], kMatrix);
      a.x[i] = pair<kReal>(upper ? other : c.x[i], upper ? c.x[i] : other);
    }
  } else {
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < Back::kC; i += 2) a.x[i / 2] = pair<kReal>(c.x[i], c.x[i + 1]);
  }
  return a;
}

// The largest or the sum of v over the lanes that share a row of C, in each of them.
template <typename Back>
QUIRE_GPU_DEVICE float row_max(float v) {
  QUIRE_GPU_UNROLL
  for (uint32_t step = 0; step < Back::kRowSteps; ++step) {
    v = larger(shuffle_xor(v, Back::kRowLane << step), v);
  }
  return v;
}

template <typename Back>
QUIRE_GPU_DEVICE float row_sum(float v) {
  QUIRE_GPU_UNROLL
  for (uint32_t step = 0; step < Back::kRowSteps; ++step) v += shuffle_xor(v, Back::kRowLane << step);
  return v;
}

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
