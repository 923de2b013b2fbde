#include "core/step/gone_boundaries.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace quire {

void GoneBoundaries::prepare(uint64_t count) {
  slots_.assign(std::clamp<uint64_t>(count, 1, kForgotten - 1), Slot{});
  buckets_.assign(std::bit_ceil(slots_.size()), kNone);
}

void GoneBoundaries::remember(const Boundary& boundary) {
  if (const uint32_t earlier = slot_of(boundary.hash); earlier != kNone) unlink(earlier);
  uint32_t slot = oldest_;
  if (used_ < slots_.size()) {
    slot = used_++;
  } else {
    if (slots_[slot].next != kForgotten) unlink(slot);
    oldest_ = oldest_ + 1 == slots_.size() ? 0 : oldest_ + 1;
  }
  uint32_t& first = bucket_of(boundary.hash);
  slots_[slot] = {boundary.hash, boundary.when << 1 | (boundary.for_the_share ? 1 : 0), first};
  first = slot;
}

std::optional<GoneBoundaries::Boundary> GoneBoundaries::find(uint64_t hash) const {
  const uint32_t slot = slot_of(hash);
  if (slot == kNone) return std::nullopt;
  return Boundary{hash, slots_[slot].note >> 1, (slots_[slot].note & 1) != 0};
}

uint64_t GoneBoundaries::host_bytes() const { return slots_.capacity() * sizeof(Slot) + buckets_.capacity() * sizeof(uint32_t); }

uint32_t GoneBoundaries::slot_of(uint64_t hash) const {
  uint32_t slot = buckets_[hash & (buckets_.size() - 1)];
  while (slot != kNone && slots_[slot].hash != hash) slot = slots_[slot].next;
  return slot;
}

void GoneBoundaries::unlink(uint32_t slot) {
  uint32_t* at = &bucket_of(slots_[slot].hash);
  while (*at != slot) at = &slots_[*at].next;
  *at = std::exchange(slots_[slot].next, kForgotten);
}

}  // namespace quire
