#include "core/tier/coverage.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace quire {

uint64_t Coverage::add(const TierPart& part, const RecordRuns& runs) {
  // One block is as good as any other: block 0, its columns in places of their own.
  std::vector<int32_t> ids(part.columns);
  std::iota(ids.begin(), ids.end(), 1);
  std::vector<PayloadRun> list;
  if (part.is_state) {
    runs.state(ids, &list);
  } else {
    runs.tokens(0, part.block_tokens, ids, 0, 0, &list);
  }
  std::vector<Span> all = spans_, merged;
  for (const PayloadRun& run : list) {
    for (uint64_t i = 0; i < run.count; ++i) {
      const uint64_t begin = run.offset + i * static_cast<uint64_t>(run.stride);
      all.push_back({run.region, begin, begin + run.bytes});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Span& a, const Span& b) { return std::tie(a.region, a.begin, a.end) < std::tie(b.region, b.begin, b.end); });
  for (const Span& span : all) {
    if (!merged.empty() && merged.back().region == span.region && span.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, span.end);
    } else {
      merged.push_back(span);
    }
  }
  uint64_t bytes = 0;
  for (const Span& span : merged) bytes += span.end - span.begin;
  spans_ = std::move(merged);
  return bytes - std::exchange(bytes_, bytes);
}

}  // namespace quire
