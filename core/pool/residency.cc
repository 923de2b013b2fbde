#include "core/pool/residency.h"

namespace quire {

void Residency::add(int64_t since, Spans* spans) const {
  const auto span = static_cast<uint64_t>(std::max<int64_t>(now_ - since, 0));  // the caller's clock may go back
  constexpr uint64_t kMillisecond = 1'000'000;
  ++spans->counts[std::min(static_cast<size_t>(std::bit_width(span / kMillisecond)), kSpans - 1)];
  spans->sum_ns += span;
}

Residency::Counts Residency::counts() const {
  Counts all;
  const auto add_spans = [](const Spans& from, Spans* to) {
    for (size_t i = 0; i < kSpans; ++i) to->counts[i] += from.counts[i];
    to->sum_ns += from.sum_ns;
  };
  for (const Counts& group : counts_) {
    add_spans(group.lifetime, &all.lifetime);
    add_spans(group.idle, &all.idle);
    add_spans(group.reuse_gap, &all.reuse_gap);
  }
  return all;
}

void Residency::count_resumed(Life* life) {
  if (life->epoch == epoch_ && life->idle_since != kInUse) add(life->idle_since, &counts_[life->group].reuse_gap);
  life->idle_since = kInUse;
}

void Residency::count_evicted(Life* life) {
  if (life->epoch == epoch_ && life->idle_since != kInUse && !forgets_) {
    add(life->taken, &counts_[life->group].lifetime);
    add(life->idle_since, &counts_[life->group].idle);
  }
  life->epoch = UINT64_MAX;
}

}  // namespace quire
