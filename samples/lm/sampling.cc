#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace lm {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// In [0, 1).
double draw(uint64_t seed, uint64_t sample, uint64_t position) {
  return static_cast<double>(mix(mix(mix(seed) ^ sample) ^ position) >> 11) * 0x1p-53;
}

}  // namespace

int32_t sample_token(std::span<const float> logits, const Sampling& sampling, uint64_t sample,
                     uint64_t position) {
  if (sampling.temperature <= 0)
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float left = logits[static_cast<size_t>(a)];
    const float right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  size_t count = order.size();
  if (sampling.top_k > 0) count = std::min(count, static_cast<size_t>(sampling.top_k));
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(count), order.end(),
                    likelier);
  std::vector<double> shares(count);
  const double largest = logits[static_cast<size_t>(order[0])];
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += shares[i] = std::exp((double{logits[static_cast<size_t>(order[i])]} - largest) /
                                double{sampling.temperature});
  }
  double kept = 0;
  size_t last = 0;
  for (; last < count && kept < double{sampling.top_p} * sum; ++last) kept += shares[last];
  double at = draw(sampling.seed, sample, position) * kept;
  for (size_t i = 0; i + 1 < last; ++i) {
    if ((at -= shares[i]) < 0) return order[i];
  }
  return order[last == 0 ? 0 : last - 1];
}

}  // namespace lm
