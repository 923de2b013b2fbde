// Lists what the servers have, over connections of its own that block. SCAN may name a key twice,
// so a listing begins with all keys, which are kept until the last of them was listed.
#pragma once

#include <quire/connector.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugins/redis/link.h"
#include "plugins/redis/redis_config.h"
#include "plugins/redis/shards.h"

namespace quire::redis {

class Listing {
 public:
  explicit Listing(const Config& config) : config_(config), shards_(config.servers) {}

  // As `list` of quire_connector_api. UNAVAILABLE: a server cannot be asked.
  Outcome next(uint64_t* cursor, std::span<quire_object_entry> items, uint64_t* count,  //
               std::span<uint8_t> keys);

 private:
  Outcome collect();
  Outcome scan(uint32_t server);
  // Sizes of keys from `first` on; 0: it is gone.
  Outcome read_sizes(uint64_t first, uint64_t count, std::vector<uint64_t>* sizes);
  Outcome connect(uint32_t server, Wire* out) const;

  const Config& config_;
  const Shards shards_;
  std::vector<std::string> keys_;  // without the prefix; in order, each once
};

}  // namespace quire::redis
