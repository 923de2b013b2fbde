#include "core/step/gone_boundaries.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace quire {

void GoneBoundaries::prepare(uint64_t count) {
  slots_.assign(std::clamp<uint64_t>(count, 1, kMost), Slot{});
  buckets_.assign(std::bit_ceil(slots_.size()), kNone);
  hints_.assign(buckets_.size(), 0);
}

void GoneBoundaries::remember(const Boundary& boundary) {
  if (const uint16_t earlier = slot_of(boundary.hash); earlier != kNone) unlink(earlier);
  uint16_t slot = oldest_;
  if (used_ < slots_.size()) {
    slot = used_++;
  } else {
    if (slots_[slot].next != kForgotten) unlink(slot);
    oldest_ = static_cast<uint16_t>(oldest_ + 1u == slots_.size() ? 0 : oldest_ + 1u);
  }
  const uint64_t bucket = bucket_of(boundary.hash);
  slots_[slot] = {boundary.hash, boundary.when << 1 | (boundary.for_the_share ? 1 : 0), buckets_[bucket]};
  buckets_[bucket] = slot;
  hints_[bucket] |= hint_of(boundary.hash);
}

std::optional<GoneBoundaries::Boundary> GoneBoundaries::find(uint64_t hash) const {
  const uint16_t slot = slot_of(hash);
  if (slot == kNone) return std::nullopt;
  return Boundary{hash, slots_[slot].note >> 1, (slots_[slot].note & 1) != 0};
}

uint64_t GoneBoundaries::host_bytes() const {
  return slots_.capacity() * sizeof(Slot) + (buckets_.capacity() + hints_.capacity()) * sizeof(uint16_t);
}

uint16_t GoneBoundaries::slot_of(uint64_t hash) const {
  uint16_t slot = buckets_[bucket_of(hash)];
  while (slot != kNone && slots_[slot].hash != hash) slot = slots_[slot].next;
  return slot;
}

void GoneBoundaries::unlink(uint16_t slot) {
  const uint64_t bucket = bucket_of(slots_[slot].hash);
  uint16_t* at = &buckets_[bucket];
  while (*at != slot) at = &slots_[*at].next;
  *at = std::exchange(slots_[slot].next, kForgotten);
  hints_[bucket] = 0;
  for (uint16_t left = buckets_[bucket]; left != kNone; left = slots_[left].next) hints_[bucket] |= hint_of(slots_[left].hash);
}

}  // namespace quire
