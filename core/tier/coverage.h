// What records of several arrangements bring of a part's blocks together. Ranks can share heads of
// one layer and not of another: then their records overlap, and bytes that come twice must not
// stand for bytes that are missing.
#pragma once

#include <cstdint>
#include <vector>

#include "core/records/record_runs.h"
#include "core/tier/tier_plan.h"

namespace quire {

class Coverage {
 public:
  // Bytes of a block of the part that these runs bring and those that were added before do not.
  uint64_t add(const TierPart& part, const RecordRuns& runs);

 private:
  struct Span {
    uint32_t region = 0;
    uint64_t begin = 0, end = 0;
  };
  std::vector<Span> spans_;  // in order, none touches the next
  uint64_t bytes_ = 0;       // of all
};

}  // namespace quire
