#include "core/tier/shard_bytes.h"

#include <algorithm>
#include <cstring>

namespace quire {

Status check_shards(const Config& config, std::span<const std::shared_ptr<Memory>> memories,
                    std::span<const std::shared_ptr<Stream>> streams) {
  if (memories.size() != config.shards.size() || streams.size() != config.shards.size()) {
    return invalid("options.memories: %zu memories and %zu streams, the plan has %zu shards", memories.size(), streams.size(),
                   config.shards.size());
  }
  for (size_t s = 0; s < memories.size(); ++s) {
    if (memories[s]->config() != &config) return invalid("options.memories[%zu]: it is of another config", s);
    if (memories[s]->shard() != s) return invalid("options.memories[%zu]: it is shard %u", s, memories[s]->shard());
  }
  return {};
}

Result<std::vector<ShardBytes>> bytes_of_shards(std::span<const std::shared_ptr<Memory>> memories) {
  std::vector<ShardBytes> shards;
  for (const auto& memory : memories) {
    ShardBytes& shard = shards.emplace_back();
    const size_t regions = memory->config()->shards[memory->shard()].regions.size();
    for (uint32_t r = 0; r < regions; ++r) {
      void* address = nullptr;
      uint64_t bytes = 0;
      QUIRE_RETURN_IF_ERROR(memory->region(r, &address, &bytes));
      shard.regions.push_back(static_cast<std::byte*>(address));
    }
    if (memory->device().info().device_type == QUIRE_DEVICE_CPU) continue;
    auto staging = DeviceStaging::make(memory);
    if (!staging.ok()) return staging.take_status();
    shard.staging = std::move(*staging);
  }
  return shards;
}

Status move_runs(const ShardBytes& bytes, std::span<const PayloadRun> runs, bool to_shard, std::span<uint8_t> payload) {
  if (runs.empty()) return {};
  if (bytes.staging == nullptr) {
    internal::copy_runs(bytes, runs, 0, to_shard, payload);
    return {};
  }
  auto staged = bytes.staging->take(payload.size(), false);
  if (!staged.ok()) return staged.take_status();
  if (*staged == nullptr) return fail(QUIRE_RESOURCE_EXHAUSTED, "no room to copy %zu bytes between host and device", payload.size());
  if (to_shard) std::memcpy((*staged)->bytes().data(), payload.data(), payload.size());
  auto copy = bytes.staging->copy(runs, to_shard, 0, staged->get());
  if (!copy.ok()) return copy.take_status();
  QUIRE_RETURN_IF_ERROR(bytes.staging->wait(*copy));
  if (!to_shard) std::memcpy(payload.data(), (*staged)->bytes().data(), payload.size());
  return {};
}

namespace internal {

bool is_in_order(std::span<const PayloadRun> runs) {
  uint64_t end = 0;
  for (const PayloadRun& run : runs) {
    if (run.count != 1 || run.payload_offset < end) return false;
    end = run.payload_offset + run.bytes;
  }
  return true;
}

bool lies_within(const PayloadRun& run, uint64_t payload_bytes) {
  if (run.count == 0 || run.bytes == 0) return true;
  const auto last = static_cast<__int128>(run.count - 1) * run.payload_stride + static_cast<__int128>(run.payload_offset);
  const auto least = std::min(last, static_cast<__int128>(run.payload_offset)),
             most = std::max(last, static_cast<__int128>(run.payload_offset));
  return least >= 0 && most + static_cast<__int128>(run.bytes) <= static_cast<__int128>(payload_bytes);
}

void copy_runs(const ShardBytes& bytes, std::span<const PayloadRun> runs, uint64_t first, bool to_shard, std::span<uint8_t> payload) {
  for (const PayloadRun& run : runs) {
    for (uint64_t i = 0; i < run.count; ++i) {
      std::byte* const own = bytes.regions[run.region] + run.offset + i * static_cast<uint64_t>(run.stride);
      uint8_t* const record = payload.data() + run.payload_offset - first + i * static_cast<uint64_t>(run.payload_stride);
      std::memcpy(to_shard ? static_cast<void*>(own) : record, to_shard ? record : static_cast<const void*>(own), run.bytes);
    }
  }
}

}  // namespace internal
}  // namespace quire
