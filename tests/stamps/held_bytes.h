// What somebody holds of the cache's bytes: blocks by id, and what stood in them.
#pragma once

#include <quire/load.h>

#include <vector>

#include "tests/stamps/taken_step.h"

namespace quire::stamps {

// Of one group: ids of the blocks from `first` on, [column][block].
struct HeldBlocks {
  uint64_t first = 0;
  uint64_t blocks = 0;
  std::vector<int32_t> ids;

  int32_t id(uint64_t column, uint64_t block) const { return ids[column * blocks + block - first]; }
};

struct HeldBytes {
  quire_hold_id hold = 0;
  uint64_t first = 0;   // token
  uint64_t end = 0;     // token
  uint64_t tokens = 0;  // before this one nothing changes
  std::vector<HeldBlocks> groups;
  std::vector<uint64_t> values;  // of all rows and states, as they were
};

// A load that was given up: whoever was to bring it may still write what failed.
struct LateLoad {
  HeldBytes held;
  TakenStep load;
  std::vector<quire_load_failure> failures;
};

}  // namespace quire::stamps
