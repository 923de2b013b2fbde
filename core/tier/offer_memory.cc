#include "core/tier/offer_memory.h"

#include <algorithm>
#include <iterator>

#include "core/base/checked.h"

namespace quire {
namespace {

constexpr uint64_t kGrain = 4096;  // no more than the header that is counted with every payload

}  // namespace

Result<HostPlace> OfferMemory::take(uint32_t shard, uint64_t bytes) {
  const uint64_t wanted = round_up(bytes, kGrain);
  const auto fits = [&](const HostPlace& place) { return place.shard == shard && place.bytes.size() == wanted; };
  const auto kept = std::find_if(kept_.rbegin(), kept_.rend(), fits);
  if (kept != kept_.rend()) {
    const HostPlace place = *kept;
    kept_.erase(std::next(kept).base());
    ++num_taken_;
    return place;
  }
  kept_.reserve(kept_.size() + num_taken_ + 1);
  shrink(wanted);
  auto pinned = shards_[shard].staging->pin(wanted);
  if (pinned.status().code() == QUIRE_RESOURCE_EXHAUSTED && !kept_.empty()) {
    shrink(UINT64_MAX);  // the system allows less than offers may have
    pinned = shards_[shard].staging->pin(wanted);
  }
  if (!pinned.ok()) return pinned.take_status();
  held_ += pinned->size();
  ++num_taken_;
  return HostPlace{shard, *pinned};
}

void OfferMemory::give_back(const HostPlace& place) noexcept {
  kept_.push_back(place);  // take() has made room for it
  --num_taken_;
  shrink(0);
}

// The oldest first.
void OfferMemory::shrink(uint64_t wanted) noexcept {
  size_t n = 0;
  for (; n < kept_.size() && (held_ > most_ || wanted > most_ - held_); ++n) {
    shards_[kept_[n].shard].staging->unpin(kept_[n].bytes);
    held_ -= kept_[n].bytes.size();
  }
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(n));
}

}  // namespace quire
