#include "few_rows.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bf16.h"
#include "lm_error.h"

namespace lm {
namespace {

constexpr int64_t kMostRows = 4;

#if defined(__x86_64__)

constexpr int64_t kPairBytes = Panels::kOutputs * 2 * 2;
constexpr int64_t kAhead = 16 * kPairBytes;
constexpr int64_t kLine = 64;

// One activation, of kParts rows, with a panel.
template <int kParts>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void multiply_rows(
    const char* weights, const uint32_t* x, int64_t width, int64_t chunk, float* y,
    int64_t outputs) {
  __m512 all[kParts][4];
  for (int64_t begin = 0; begin < width; begin += chunk) {
    __m512 sum[kParts][4];
    for (auto& part : sum) {
      for (__m512& s : part) s = _mm512_setzero_ps();
    }
    const int64_t end = std::min(begin + chunk, width);
    for (int64_t k = begin; k < end; ++k, weights += kPairBytes) {
      __m512bh w[4];
      for (int i = 0; i < 4; ++i) {
        _mm_prefetch(weights + kAhead + i * kLine, _MM_HINT_T0);
        w[i] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(weights + i * kLine));
      }
      for (int p = 0; p < kParts; ++p) {
        const auto pair =
            reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(x[p * width + k])));
        for (int i = 0; i < 4; ++i) sum[p][i] = _mm512_dpbf16_ps(sum[p][i], pair, w[i]);
      }
    }
    for (int p = 0; p < kParts; ++p) {
      for (int i = 0; i < 4; ++i)
        all[p][i] = begin == 0 ? sum[p][i] : _mm512_add_ps(all[p][i], sum[p][i]);
    }
  }
  for (int64_t i = 0; i < 4 && 16 * i < outputs; ++i) {
    const int64_t left = outputs - 16 * i;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffffU : (1U << left) - 1U);
    const __m512 sum = kParts == 2 ? _mm512_add_ps(all[0][i], all[kParts - 1][i]) : all[0][i];
    _mm512_mask_storeu_ps(y + 16 * i, mask, sum);
  }
}

#endif

}  // namespace

PairedRows pair_rows(std::span<const float> x, int64_t inputs, bool is_split) {
  PairedRows made;
  made.parts = is_split ? 2 : 1;
  made.rows = static_cast<int64_t>(x.size()) / inputs;
  made.width = inputs / 2;
  made.pairs.resize(static_cast<size_t>(made.rows * made.parts * made.width));
  for (int64_t r = 0; r < made.rows; ++r) {
    const float* from = x.data() + r * inputs;
    uint32_t* to = made.pairs.data() + r * made.parts * made.width;
    for (int64_t k = 0; k < made.width; ++k) {
      const uint16_t low = rounded(from[2 * k]);
      const uint16_t high = rounded(from[2 * k + 1]);
      to[k] = low | uint32_t{high} << 16;
      if (!is_split) continue;
      to[made.width + k] = rounded(from[2 * k] - widened(low)) |
                           uint32_t{rounded(from[2 * k + 1] - widened(high))} << 16;
    }
  }
  return made;
}

bool is_few_rows(int64_t rows) { return rows <= kMostRows; }

void multiply_panel(const Panels& panels, int64_t panel, const PairedRows& x, float* y,
                    int64_t pitch, int64_t outputs) {
#if defined(__x86_64__)
  const auto* weights =
      reinterpret_cast<const char*>(panels.weights) + panel * x.width * kPairBytes;
  for (int64_t r = 0; r < x.rows; ++r) {
    const uint32_t* row = x.pairs.data() + r * x.parts * x.width;
    const auto multiply = x.parts == 2 ? multiply_rows<2> : multiply_rows<1>;
    multiply(weights, row, x.width, panels.chunk / 2, y + r * pitch, outputs);
  }
#else
  (void)panels, (void)panel, (void)x, (void)y, (void)pitch, (void)outputs;
  throw Error("this processor has no products of bf16");
#endif
}

}  // namespace lm
