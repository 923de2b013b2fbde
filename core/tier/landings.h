// Loads whose bytes are on their way from host memory to a device.
#pragma once

#include <quire/base.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/tier/shard_bytes.h"
#include "core/tier/transfer.h"

namespace quire {

// What became of a record that came, or did not.
struct LoadEnd {
  quire_code code = QUIRE_OK;
  bool otherwise = false;  // it is arranged in another way than was thought
  bool is_ours = false;    // what failed was memory of ours or a device, not the tier
};

class Landings {
 public:
  Landings() { landings_.reserve(Transfers::kMost); }

  bool empty() const { return landings_.empty(); }
  void begin(uint32_t slot, const LoadEnd& end) { landings_.push_back({slot, end}); }
  // Of one no copy is on its way any more: it is not in the list then. False: of none.
  bool take(Transfers& transfers, std::span<const ShardBytes> shards,  //
            uint32_t* slot, LoadEnd* end) noexcept;

 private:
  struct Landing {
    uint32_t slot = 0;
    LoadEnd end;
  };
  std::vector<Landing> landings_;  // there is room for all slots
};

}  // namespace quire
