// Holds: references to blocks whose bytes somebody copies elsewhere, or may still write although
// nobody waits for them any more. A hold reads and writes nothing itself, so it comes and goes
// without fences of its own.
#pragma once

#include <quire/hold.h>

#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/pool/pool.h"
#include "core/step/facts.h"
#include "core/step/steps.h"

namespace quire {

class Holds {
 public:
  static constexpr uint32_t kMostHolds = 65536;

  // All are borrowed.
  Holds(const Facts& facts, Pool& pool, const Steps& steps) : facts_(facts), pool_(pool), steps_(steps) {}

  // So many holds of units of so many tokens each can be made without memory, whatever other holds
  // there are. Where memory is short nothing has changed.
  void reserve(uint32_t holds, uint64_t tokens);
  // References what there is of tokens [first, end): head_of(group, block), block of the
  // sequence; of a group of states once, with block 0; kNone: nothing. 0: no hold is left.
  // of_unit: one of those that were reserved. first: a multiple of no block in particular.
  // encoder: tokens of cross attention, of which all are asked for. is_cold(head): it is evicted
  // next again when nobody holds it any more. Where memory is short nothing has changed.
  template <typename HeadOf, typename IsCold>
  quire_hold_id make(uint64_t first, uint64_t end, bool of_unit, HeadOf head_of, uint64_t encoder, IsCold is_cold);
  template <typename HeadOf>
  quire_hold_id make(uint64_t first, uint64_t end, bool of_unit, HeadOf head_of, uint64_t encoder = 0) {
    return make(first, end, of_unit, head_of, encoder, [](PartIndex) { return false; });
  }
  Status end(quire_hold_id id);
  Status info(quire_hold_id id, quire_hold_info* info) const;
  // [column][block]. Errors: NOT_FOUND, OUT_OF_RANGE.
  Status ids(quire_hold_id id, uint32_t group, std::span<int32_t> out, uint64_t* count) const;
  // Of each of its blocks the first part, kNone where it has none. Empty: there is no such hold.
  std::span<const PartIndex> heads(quire_hold_id id, uint32_t group) const;

  // Adds the references that holds have.
  void count_references(std::vector<uint32_t>* refs) const;
  void report(quire_cache_stats* stats) const;

 private:
  struct Hold {
    uint64_t id = 0;  // 0: free
    uint64_t first = 0, end = 0;
    uint64_t encoder = 0;
    uint64_t num_parts = 0;
    bool of_unit = false;
    std::vector<PartIndex> heads;  // of each group those of its blocks, kNone where there is none
  };

  // Blocks of the group with a token in [first, end); a group of states has one.
  Stretch blocks_of(uint32_t group, uint64_t first, uint64_t end, uint64_t encoder) const;
  Stretch blocks_of(uint32_t group, const Hold& hold) const { return blocks_of(group, hold.first, hold.end, hold.encoder); }
  uint64_t num_blocks(uint64_t first, uint64_t end, uint64_t encoder) const;  // in all groups
  std::span<const PartIndex> heads_of(const Hold& hold, uint32_t group) const;
  Hold* open(uint64_t heads, bool of_unit);
  // So many holds, each with room for so many heads. Where memory is short nothing has changed.
  void grow(size_t slots, uint64_t heads);
  const Hold* find(quire_hold_id id) const;
  void let_go(Hold* hold);
  void drop(PartIndex head, EvictionClass eviction_class);

  const Facts& facts_;
  Pool& pool_;
  const Steps& steps_;
  std::vector<Hold> holds_;
  std::vector<uint32_t> free_;  // slots
  uint32_t reserved_ = 0;       // holds of units at once, of which there are now:
  uint32_t num_of_units_ = 0;
  uint64_t unit_heads_ = 0;  // every slot has room for so many
  uint64_t next_id_ = 1;
  uint64_t num_ = 0, num_parts_ = 0;
};

template <typename HeadOf, typename IsCold>
quire_hold_id Holds::make(uint64_t first, uint64_t end, bool of_unit, HeadOf head_of, uint64_t encoder, IsCold is_cold) {
  Hold* const hold = open(num_blocks(first, end, encoder), of_unit);
  if (hold == nullptr) return 0;
  hold->first = first;
  hold->end = end;
  hold->encoder = encoder;
  hold->num_parts = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const Stretch blocks = blocks_of(g, *hold);
    for (uint32_t b = blocks.first; b < blocks.end; ++b) {
      const PartIndex head = head_of(g, b);
      hold->heads.push_back(head);
      if (head.value == kNone) continue;
      pool_.ref(head, is_cold(head) ? User::kCopier : User::kOther);
      hold->num_parts += facts_.groups[g].columns;
    }
  }
  num_parts_ += hold->num_parts;
  return hold->id;
}

}  // namespace quire
