// Tiles of recurrent states in registers. A team of 32 lanes owns some columns of a state from read
// to write; a column's elements are spread over kParts lanes, and a thread has 4 columns and runs
// of 4 elements. So 16 bytes a thread move at a time, whichever of the two neighbours in memory
// are, and the sums of a column stay within its team: no barrier is needed for them.
#pragma once

#include "drivers/gpu/gpu_kernels.h"

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide, addresses 64

// Half a wave where waves have 64 lanes: sums are the same on every machine.
inline constexpr uint32_t kTeam = 32;
inline constexpr uint32_t kTeams = kThreads / kTeam;

QUIRE_GPU_DEVICE uint32_t team_lane() { return thread_index() % kTeam; }
QUIRE_GPU_DEVICE uint32_t team_index() { return thread_index() / kTeam; }

// One rounding wherever the machine has it, whatever the compiler makes of the code around: a
// token's bits may not depend on its place.
QUIRE_GPU_DEVICE float multiply_add(float x, float y, float z) {
#if defined(QUIRE_GPU_EMULATION)
  return x * y + z;
#else
  return __builtin_fmaf(x, y, z);
#endif
}

template <typename T>
QUIRE_GPU_DEVICE T load_aligned(const void* from) {
  return *static_cast<const T*>(from);
}
template <typename T>
QUIRE_GPU_DEVICE void store_aligned(void* to, T x) {
  *static_cast<T*>(to) = x;
}

struct alignas(16) Quad {
  float x[4];
};

// Four elements as they are in memory.
template <uint32_t kBytes>
struct alignas(4 * kBytes) RawQuad {
  uint32_t word[kBytes];
};

// As drivers/common/real.h converts, but for the payload of NaN, by instructions where there are
// some.
QUIRE_GPU_DEVICE float float_of_half(uint16_t half) {
#if defined(QUIRE_GPU_CUDA)
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
  return x;
#elif defined(QUIRE_GPU_HIP)
  return static_cast<float>(__builtin_bit_cast(_Float16, half));
#else
  return drivers::float_of_fp16(half);
#endif
}

QUIRE_GPU_DEVICE uint16_t half_of_float(float x) {
#if defined(QUIRE_GPU_CUDA)
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
#elif defined(QUIRE_GPU_HIP)
  const auto half = __builtin_bit_cast(uint16_t, static_cast<_Float16>(x));
#else
  const uint16_t half = drivers::fp16_of_float(x);
#endif
  return x == x ? half : static_cast<uint16_t>((drivers::bits_of_float(x) >> 16 & 0x8000u) | 0x7e00u);
}

// An element of fp32, bf16 or fp16 from its bits.
QUIRE_GPU_DEVICE float value_of(Real real, uint32_t bits) {
  if (real == Real::kFloat32) return drivers::float_of_bits(bits);
  const auto half = static_cast<uint16_t>(bits);
  return real == Real::kBfloat16 ? drivers::float_of_bf16(half) : float_of_half(half);
}

QUIRE_GPU_DEVICE void store_value(Real real, char* to, float x) {
  if (real == Real::kFloat32) {
    store_aligned(to, x);
  } else {
    store_aligned(to, real == Real::kBfloat16 ? drivers::bf16_of_float(x) : half_of_float(x));
  }
}

// The bits of elements lane, lane + 32, ... of a row; zeros behind its end. They need not be there
// before they are used.
template <uint32_t kCount>
QUIRE_GPU_DEVICE void fetch(Real real, const char* row, int64_t stride, uint32_t size, uint32_t* bits) {
  const uint32_t lane = fresh(team_lane());
  if (real == Real::kFloat32) {
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kCount; ++i) {
      if (lane + i * kTeam < size) bits[i] = load_aligned<uint32_t>(row + (lane + i * kTeam) * stride);
    }
  } else {
    QUIRE_GPU_UNROLL
    for (uint32_t i = 0; i < kCount; ++i) {
      if (lane + i * kTeam < size) bits[i] = load_aligned<uint16_t>(row + (lane + i * kTeam) * stride);
    }
  }
}

QUIRE_GPU_DEVICE uint32_t fetch_one(Real real, const char* from) {
  return real == Real::kFloat32 ? load_aligned<uint32_t>(from) : load_aligned<uint16_t>(from);
}

QUIRE_GPU_DEVICE float team_sum(float v) {
  QUIRE_GPU_UNROLL
  for (uint32_t mask = kTeam / 2; mask != 0; mask /= 2) v += shuffle_xor(v, mask);
  return v;
}

// Sums over the lanes that differ in bits kMask down to kLast. A lane keeps half of its values at
// each step while it has two, the upper half where its bit is set; every value is summed in the
// same order, whichever lane keeps it.
template <uint32_t kValues, uint32_t kMask, uint32_t kLast>
QUIRE_GPU_DEVICE void fold(float* x) {
  if constexpr (kMask >= kLast) {
    constexpr uint32_t kHalf = kValues > 1 ? kValues / 2 : 1;
    if constexpr (kValues > 1) {
      const bool upper = (team_lane() & kMask) != 0;
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < kHalf; ++i) {
        const float keep = upper ? x[i + kHalf] : x[i];
        const float give = upper ? x[i] : x[i + kHalf];
        x[i] = keep + shuffle_xor(give, kMask);
      }
    } else {
      x[0] += shuffle_xor(x[0], kMask);
    }
    fold<kHalf, kMask / 2, kLast>(x);
  }
}

// Where a thread's part of a tile lies in memory.
struct TilePlace {
  Real real;
  bool along;               // neighbours in memory are elements of a column, not columns
  int64_t column, element;  // bytes from one to the next
  uint32_t columns;         // that there are of the thread's four; neighbours: all or none
  uint32_t elements;
};

template <uint32_t kParts, uint32_t kRuns>
struct StateTile {
  static constexpr uint32_t kGroups = kTeam / kParts;        // lanes that share a part
  static constexpr uint32_t kColumns = kGroups * 4;          // of a team
  static constexpr uint32_t kBlock = kTeams * kColumns;      // of a block
  static constexpr uint32_t kElements = kParts * kRuns * 4;  // at most
  float s[kRuns][4][4];                                      // [run][element][column]

  static QUIRE_GPU_DEVICE uint32_t part() { return team_lane() / kGroups; }
  static QUIRE_GPU_DEVICE uint32_t group() { return team_lane() % kGroups; }
  static QUIRE_GPU_DEVICE uint32_t first_element(uint32_t run) { return (run * kParts + part()) * 4; }
  // Of the thread's first column, in the block.
  static QUIRE_GPU_DEVICE uint32_t first_column() { return team_index() * kColumns + group() * 4; }

  // `at` is the thread's first column; nullptr: zeros.
  QUIRE_GPU_DEVICE void load(const TilePlace& w, const char* at) {
    if (at == nullptr) {
      clear();
    } else if (w.real == Real::kFloat32) {
      w.along ? load_as<Real::kFloat32, true>(w, at) : load_as<Real::kFloat32, false>(w, at);
    } else if (w.real == Real::kBfloat16) {
      w.along ? load_as<Real::kBfloat16, true>(w, at) : load_as<Real::kBfloat16, false>(w, at);
    } else {
      w.along ? load_as<Real::kFloat16, true>(w, at) : load_as<Real::kFloat16, false>(w, at);
    }
  }
  QUIRE_GPU_DEVICE void store(const TilePlace& place, char* at) const {
    TilePlace w = place;
    w.column = fresh(w.column);
    w.element = fresh(w.element);
    w.elements = fresh(w.elements);
    w.columns = fresh(w.columns);
    if (w.real == Real::kFloat32) {
      w.along ? store_as<Real::kFloat32, true>(w, at) : store_as<Real::kFloat32, false>(w, at);
    } else if (w.real == Real::kBfloat16) {
      w.along ? store_as<Real::kBfloat16, true>(w, at) : store_as<Real::kBfloat16, false>(w, at);
    } else {
      w.along ? store_as<Real::kFloat16, true>(w, at) : store_as<Real::kFloat16, false>(w, at);
    }
  }

 private:
  QUIRE_GPU_DEVICE void clear() {
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < kRuns; ++r) {
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < 16; ++i) s[r][i / 4][i % 4] = 0.0f;
    }
  }
  template <bool kAlong>
  static QUIRE_GPU_DEVICE bool there(const TilePlace& w, uint32_t run, uint32_t i) {
    return kAlong ? first_element(run) < w.elements && i < w.columns : first_element(run) + i < w.elements && w.columns != 0;
  }
  template <bool kAlong>
  static QUIRE_GPU_DEVICE int64_t offset(const TilePlace& w, uint32_t run, uint32_t i) {
    return kAlong ? first_element(run) * w.element + i * w.column : (first_element(run) + i) * w.element;
  }
  // All of it is on its way before the first is used.
  template <Real kReal, bool kAlong>
  QUIRE_GPU_DEVICE void load_as(const TilePlace& w, const char* at) {
    constexpr uint32_t kBytes = kReal == Real::kFloat32 ? 4 : 2;
    uint32_t raw[kRuns][4][kBytes];
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < kRuns; ++r) {
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        RawQuad<kBytes> x{};
        if (there<kAlong>(w, r, i)) x = load_aligned<RawQuad<kBytes>>(at + offset<kAlong>(w, r, i));
        QUIRE_GPU_UNROLL
        for (uint32_t n = 0; n < kBytes; ++n) raw[r][i][n] = x.word[n];
      }
    }
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < kRuns; ++r) {
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        QUIRE_GPU_UNROLL
        for (uint32_t n = 0; n < 4; ++n) {
          const uint32_t bits = kBytes == 4 ? raw[r][i][n % kBytes] : raw[r][i][n / 2] >> n % 2 * 16;
          (kAlong ? s[r][n][i] : s[r][i][n]) = value_of(kReal, bits);
        }
      }
    }
  }
  template <Real kReal, bool kAlong>
  QUIRE_GPU_DEVICE void store_as(const TilePlace& w, char* at) const {
    constexpr uint32_t kBytes = kReal == Real::kFloat32 ? 4 : 2;
    QUIRE_GPU_UNROLL
    for (uint32_t r = 0; r < kRuns; ++r) {
      QUIRE_GPU_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        RawQuad<kBytes> raw{};
        QUIRE_GPU_UNROLL
        for (uint32_t n = 0; n < 4; ++n) {
          const float x = fresh(kAlong ? s[r][n][i] : s[r][i][n]);
          if constexpr (kBytes == 4) {
            raw.word[n] = drivers::bits_of_float(x);
          } else {
            const uint32_t half = kReal == Real::kBfloat16 ? drivers::bf16_of_float(x) : half_of_float(x);
            raw.word[n / 2] |= half << n % 2 * 16;
          }
        }
        if (there<kAlong>(w, r, i)) store_aligned(at + offset<kAlong>(w, r, i), raw);
      }
    }
  }
};

// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
