// Who may have written what a family needs of a unit: engines of our own tensor-parallel size,
// whose records are those of our parts, and engines of the other sizes that are looked for.
// Immutable.
//
// A set is all records of a unit in one family, of one size. It has all heads and slices of all
// layers, whatever the ranks. Own sets are read part by part, straight into the pool. Of other
// sets each record is read once, for all parts that have something of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tier/tier_plan.h"

namespace quire {

// Of records that are read beside the pool, at the same time.
inline constexpr uint64_t kMostBytesBeside = uint64_t{1} << 28;

struct RecordSource {
  uint32_t part = 0;  // ours: itself; of others: one with the same layers
  uint32_t twin = 0;  // the source whose records are looked up for it
  bool is_own = true;
  PartName name{};
  RecordShape shape;              // as it would be arranged here
  uint64_t token_bytes = 0;       // of its records; states: 0
  std::vector<uint32_t> readers;  // parts that may have something of it
};

class Sources {
 public:
  // Those of the plan's parts, with the same numbers, and those of other tensor-parallel sizes.
  // Errors: INVALID_ARGUMENT.
  static Result<std::unique_ptr<Sources>> make(const TierPlan& plan,  // borrowed
                                               std::span<const uint32_t> sizes);

  const TierPlan& plan() const { return plan_; }
  std::span<const RecordSource> all() const { return all_; }
  const TierPart& part_of(uint32_t source) const { return plan_.parts()[all_[source].part]; }
  // [0]: our own. A set whose names are those of an earlier one is left out. None: no shard has the
  // family.
  std::span<const std::vector<uint32_t>> sets(uint32_t family) const { return sets_[family]; }
  // Tensor-parallel sizes that were asked for.
  std::span<const uint32_t> sizes() const { return sizes_; }
  bool has_others() const { return all_.size() > plan_.parts().size(); }

  RecordKey key(uint32_t source, uint64_t end, const PrefixNames& names) const;
  // Bytes of a record with blocks of so many tokens.
  uint64_t record_bytes(uint32_t source, uint64_t end, uint32_t block_tokens) const;
  // How long blocks of a record of this size can be: `first`, or else ours times powers of two. A
  // guess, to be compared with the header.
  std::vector<uint32_t> guess_blocks(uint32_t source, uint64_t end, uint64_t size,  // bytes
                                     uint32_t first) const;

 private:
  explicit Sources(const TierPlan& plan) : plan_(plan), sets_(plan.families().size()) {}

  void add_own();
  void add_others(uint32_t family, uint32_t size);

  const TierPlan& plan_;
  std::vector<uint32_t> sizes_;
  std::vector<RecordSource> all_;
  std::vector<std::vector<std::vector<uint32_t>>> sets_;  // by family
};

}  // namespace quire
