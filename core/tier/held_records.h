// Records of blocks that are held: what a record says, but for its checksums, and where its bytes
// lie.
#pragma once

#include <quire/hold.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/records/record_header.h"
#include "core/records/record_runs.h"
#include "core/tier/tier_plan.h"
#include "core/tier/tier_state.h"

namespace quire {

// Bytes whose checksums are computed in one call: a step waits for this.
inline constexpr uint64_t kSummedAtOnce = uint64_t{8} << 20;

// Tokens [first, end) of what a hold has; they lie in one unit.
struct HeldRange {
  quire_hold_id hold = 0;
  uint64_t hold_first = 0;  // token that the hold begins with
  uint64_t first = 0, end = 0;
};

// What becomes of blocks that such a record has, and the hold has not.
enum class Clipping : uint8_t {
  kRefuse,  // there is no record
  kHoles    // the record is without them: it has one or two stretches
};

// Ids of the blocks of a hold. They are asked for once: a long prompt has many records in one hold.
class HeldIds {
 public:
  // ids[column][block] of what the hold has of the family. Empty: nothing. Valid until the next
  // call.
  std::span<const int32_t> of(const TierState& state, quire_hold_id hold, uint32_t family);

 private:
  struct Family {
    quire_hold_id hold = 0;  // none has this number
    std::vector<int32_t> ids;
  };
  std::vector<Family> families_;
};

// False: there is no such record.
bool describe_record(const TierState& state, const HeldRange& range,                     //
                     const PrefixNames& names, const TierPart& part, Clipping clipping,  //
                     RecordHeader* header, std::vector<PayloadRun>* runs, HeldIds* ids);

// Checksums of a payload that lies in one piece.
void sum_payload(const uint8_t* payload, RecordHeader* header);

}  // namespace quire
