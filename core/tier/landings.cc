#include "core/tier/landings.h"

#include <cstddef>
#include <new>

namespace quire {
namespace {

// *failed: set where a copy has failed.
bool has_landed(const Transfer& t, std::span<const ShardBytes> shards, bool* failed) {
  for (const DeviceCopy& copy : t.copies) {
    try {
      auto done = shards[copy.shard].staging->is_done(copy.number);
      if (done.ok() && !*done) return false;
      *failed = *failed || !done.ok();
    } catch (const std::bad_alloc&) {  // for the text of an error
      *failed = true;
    }
  }
  return true;
}

}  // namespace

bool Landings::take(Transfers& transfers, std::span<const ShardBytes> shards, uint32_t* slot, LoadEnd* end) noexcept {
  for (size_t i = 0; i < landings_.size(); ++i) {
    Landing& landing = landings_[i];
    if (!has_landed(transfers.at(landing.slot), shards, &landing.end.is_ours)) continue;
    *slot = landing.slot;
    *end = landing.end;
    landings_.erase(landings_.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

}  // namespace quire
