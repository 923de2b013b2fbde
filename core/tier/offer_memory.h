// Host memory of devices' drivers for what is offered of their shards. What offers have, and what
// is kept for later ones because pinning is slow, is together no more than offers may have; one
// that is alone and larger has what it needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/tier/shard_bytes.h"

namespace quire {

struct HostPlace {
  uint32_t shard = 0;  // whose device can address it
  std::span<uint8_t> bytes;
};

class OfferMemory {
 public:
  // shards: borrowed. most: bytes, of all of them together.
  OfferMemory(const std::vector<ShardBytes>& shards, uint64_t most)  //
      : shards_(shards), most_(most) {}
  ~OfferMemory() { shrink(UINT64_MAX); }  // of what nobody has
  OfferMemory(const OfferMemory&) = delete;
  OfferMemory& operator=(const OfferMemory&) = delete;

  // As long as the bytes, but for its end: a whole number of pages of memory. The shard is on a
  // device. Errors: RESOURCE_EXHAUSTED, and the driver's.
  Result<HostPlace> take(uint32_t shard, uint64_t bytes);
  // No copy of it is on its way.
  void give_back(const HostPlace& place) noexcept;

 private:
  // Until so many bytes more are allowed, or nothing is kept.
  void shrink(uint64_t wanted) noexcept;

  const std::vector<ShardBytes>& shards_;
  uint64_t most_;
  uint64_t held_ = 0;            // bytes that are pinned
  size_t num_taken_ = 0;         // places that offers have
  std::vector<HostPlace> kept_;  // the others, the latest last
};

}  // namespace quire
