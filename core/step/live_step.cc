#include "core/step/live_step.h"

namespace quire {

int32_t LiveStep::id_before(const Row& row, std::span<const int32_t> table, uint32_t group, uint32_t column, uint64_t block) const {
  for (uint32_t i = step_number + 1; i < steps.num_in_flight(); ++i) {
    for (const Replaced& r : steps.at(i).replaced) {
      if (r.block != block || r.group != group || steps.at(i).rows[r.row].sequence != row.sequence) continue;
      PartIndex part = r.old_head;
      for (uint32_t c = 0; c < column; ++c) part = pool.next_in_block(part);
      return pool.id_of(GroupId(group), part).value;
    }
  }
  return table[block];
}

}  // namespace quire
