#include "core/tier/device_staging.h"

#include <algorithm>
#include <bit>
#include <new>

#include "core/memory/allocate.h"

namespace quire {

StagedBytes::~StagedBytes() { staging_.give_back(place_, copy_, for_store_); }

Result<std::unique_ptr<DeviceStaging>> DeviceStaging::make(std::shared_ptr<Memory> memory) {
  auto stream = Stream::create(memory->shared_device(), 0);
  if (!stream.ok()) return stream.take_status();
  const size_t regions = memory->config()->shards[memory->shard()].regions.size();
  std::unique_ptr<DeviceStaging> made(new DeviceStaging(std::move(memory), std::move(*stream)));
  for (uint32_t r = 0; r < regions; ++r) {
    void* address = nullptr;
    uint64_t bytes = 0;
    QUIRE_RETURN_IF_ERROR(made->memory_->region(r, &address, &bytes));
    made->regions_.push_back(static_cast<unsigned char*>(address));
  }
  return made;
}

DeviceStaging::~DeviceStaging() {
  (void)stream_->synchronize(-1);
  for (const Place& place : places_) release(place.bytes);
}

Result<std::span<uint8_t>> DeviceStaging::pin(uint64_t bytes) {
  void* address = nullptr;
  uint64_t held = 0;
  Status allocated = allocate_on(memory_->device(), bytes, 4096, QUIRE_MEM_HOST, &address, &held);
  const std::span<uint8_t> pinned(static_cast<uint8_t*>(address), held);
  if (allocated.ok()) return pinned;
  if (held > 0) unpin(pinned);
  return allocated;
}

void DeviceStaging::unpin(std::span<uint8_t> bytes) noexcept {
  const Device& device = memory_->device();
  device.api().mem_free(device.get(), bytes.data(), bytes.size(), QUIRE_MEM_HOST);
}

void DeviceStaging::release(std::span<uint8_t> bytes) noexcept {
  unpin(bytes);
  held_ -= bytes.size();
}

void DeviceStaging::give_back(std::span<uint8_t> place, uint64_t copy, bool for_store) noexcept {
  if (for_store) held_by_stores_ -= place.size();
  places_.push_back({place, copy});  // take() has made room for it
  --num_taken_;
}

std::span<uint8_t> DeviceStaging::reuse(uint64_t bytes) {
  const auto fits = [&](const Place& place) { return place.copy <= done_ && place.bytes.size() == bytes; };
  const auto at = std::find_if(places_.begin(), places_.end(), fits);
  if (at == places_.end()) return {};
  const std::span<uint8_t> found = at->bytes;
  *at = places_.back();
  places_.pop_back();
  return found;
}

Result<std::shared_ptr<StagedBytes>> DeviceStaging::take(uint64_t bytes, bool for_store) {
  auto looked = is_done(queued_);  // what is done is free
  if (!looked.ok()) return looked.take_status();
  const uint64_t wanted = std::bit_ceil(std::max<uint64_t>(bytes, 4096));  // few sizes, so that places fit again
  // Requests wait for loads: stores, which may wait for a tier that hangs, leave them a part.
  if (for_store && held_by_stores_ > 0 && held_by_stores_ + wanted > kMostBytes / 4 * 3) return std::shared_ptr<StagedBytes>();
  std::span<uint8_t> place = reuse(wanted);
  // Places of other sizes go before there is too much.
  for (size_t i = 0; place.empty() && held_ + wanted > kMostBytes && i < places_.size();) {
    if (places_[i].copy > done_) {
      ++i;
      continue;
    }
    release(places_[i].bytes);
    places_[i] = places_.back();
    places_.pop_back();
  }
  if (place.empty() && held_ > 0 && held_ + wanted > kMostBytes) return std::shared_ptr<StagedBytes>();
  places_.reserve(places_.size() + num_taken_ + 1);
  if (place.empty()) {
    auto pinned = pin(wanted);
    if (!pinned.ok()) return pinned.take_status();
    place = *pinned;
    held_ += place.size();
  }
  ++num_taken_;
  if (for_store) held_by_stores_ += place.size();
  try {
    return std::make_shared<StagedBytes>(*this, place, bytes, for_store);
  } catch (const std::bad_alloc&) {
    give_back(place, 0, for_store);
    throw;
  }
}

Result<uint64_t> DeviceStaging::copy(std::span<const PayloadRun> runs, bool to_shard, uint64_t first, StagedBytes* staged) {
  auto queued = copy(runs, to_shard, staged->bytes().data() + first);
  if (queued.ok()) staged->copy_ = *queued;
  return queued;
}

Result<uint64_t> DeviceStaging::copy(std::span<const PayloadRun> runs, bool to_shard, uint8_t* payload) {
  if (is_lost_) return lost();
  Copy copy;
  if (!spare_.empty()) {
    copy = std::move(spare_.back());
    spare_.pop_back();
  } else {
    auto event = Event::create(stream_);
    if (!event.ok()) return event.take_status();
    copy.event = std::move(*event);
  }
  copy.runs.clear();
  for (const PayloadRun& run : runs) {
    for (uint64_t i = 0; i < run.count; ++i) {
      const auto own = reinterpret_cast<uint64_t>(regions_[run.region] + run.offset + i * static_cast<uint64_t>(run.stride));
      const auto host = reinterpret_cast<uint64_t>(payload + run.payload_offset + i * static_cast<uint64_t>(run.payload_stride));
      copy.runs.push_back({to_shard ? host : own, to_shard ? own : host, run.bytes});
    }
  }
  spare_.reserve(spare_.size() + under_way_.size() + 1);
  under_way_.push_back(std::move(copy));
  const Copy& queued = under_way_.back();
  ++queued_;
  try {
    Status status = stream_->copy(queued.runs.data(), queued.runs.size());
    if (status.ok()) status = queued.event->record();
    if (!status.ok()) {
      finish();
      return status;
    }
  } catch (...) {  // no memory for the text of an error
    finish();
    throw;
  }
  return queued_;
}

// A driver that refuses may have queued a part. Nothing is on its way any more after this: all is done, or the device is lost.
void DeviceStaging::finish() noexcept {
  try {
    is_lost_ = !stream_->synchronize(-1).ok();
  } catch (const std::bad_alloc&) {
    is_lost_ = true;
  }
  for (Copy& copy : under_way_) spare_.push_back(std::move(copy));  // there is room
  under_way_.clear();
  done_ = queued_;
}

Status DeviceStaging::lost() const {
  return fail(QUIRE_UNAVAILABLE, "device %s: an earlier copy for tiers failed", memory_->device().info().name);
}

Result<bool> DeviceStaging::is_done(uint64_t copy) {
  if (is_lost_) return lost();
  if (copy <= done_) return true;  // without asking the driver
  while (!under_way_.empty()) {
    auto done = under_way_.front().event->is_done();
    if (!done.ok()) {
      finish();
      return done.take_status();
    }
    if (!*done) break;
    spare_.push_back(std::move(under_way_.front()));
    under_way_.pop_front();
    ++done_;
  }
  return copy <= done_;
}

Status DeviceStaging::wait(uint64_t copy) {
  auto done = is_done(copy);
  if (!done.ok()) return done.take_status();
  if (*done) return {};
  QUIRE_RETURN_IF_ERROR(stream_->synchronize(-1));
  done = is_done(copy);
  return done.ok() ? Status() : done.take_status();
}

}  // namespace quire
