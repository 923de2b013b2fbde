#include "router.h"

#include <tuple>

namespace fleet {
namespace {

std::optional<size_t> any_of(const std::vector<size_t>& engines, std::mt19937_64* random) {
  if (engines.empty()) return std::nullopt;
  return engines[(*random)() % engines.size()];
}

}  // namespace

std::optional<size_t> choose_random(const std::vector<Candidate>& engines,
                                    std::mt19937_64* random) {
  std::vector<size_t> free;
  for (size_t e = 0; e < engines.size(); ++e) {
    if (engines[e].is_free) free.push_back(e);
  }
  return any_of(free, random);
}

std::optional<size_t> choose_by_prefix(const std::vector<Candidate>& engines,
                                       uint64_t prompt_tokens, std::mt19937_64* random) {
  using Cost = std::tuple<uint64_t, uint64_t>;
  std::vector<size_t> best;
  Cost least;
  for (size_t e = 0; e < engines.size(); ++e) {
    const Candidate& c = engines[e];
    if (!c.is_free) continue;
    const uint64_t rest = prompt_tokens - c.hit;
    const Cost cost(c.work + rest, rest);
    if (!best.empty() && cost > least) continue;
    if (best.empty() || cost < least) best.clear();
    least = cost;
    best.push_back(e);
  }
  return any_of(best, random);
}

}  // namespace fleet
