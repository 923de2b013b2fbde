// Which server has which key: consistent hashing. Each server has many points on a ring of 64 bits;
// a key belongs to the next point. When a server is added or taken away, only about its own share
// of the keys moves. Every process that lists the same servers, in any order, finds the same
// answer.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/redis/redis_config.h"

namespace quire::redis {

class Shards {
 public:
  explicit Shards(const std::vector<Address>& servers);
  // The number of a server.
  uint32_t of(std::string_view key) const;

 private:
  std::vector<std::pair<uint64_t, uint32_t>> points_;  // in order
};

}  // namespace quire::redis
