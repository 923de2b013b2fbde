#include "core/step/live_step.h"

#include <algorithm>

namespace quire {

void LiveStep::read_ids(size_t r, uint32_t group, uint32_t column, uint64_t first, std::span<int32_t> ids) const {
  const Row& row = step.rows[r];
  if (Steps::dropped(sequences, row)) {
    std::fill(ids.begin(), ids.end(), 0);
    return;
  }
  const auto table = sequences.table(row.sequence, group, column);
  std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(first), ids.size(), ids.begin());
  // The oldest of the later steps last: what it replaced is what this one sees.
  for (uint32_t i = steps.num_in_flight(); i-- > step_number + 1;) {
    const auto& all = steps.at(i).replaced;
    for (size_t n = all.size(); n-- > 0;) {
      const Replaced& replaced = all[n];
      if (replaced.group != group || replaced.block < first || replaced.block - first >= ids.size()) continue;
      if (steps.at(i).rows[replaced.row].sequence != row.sequence) continue;
      PartIndex part = replaced.old_head;
      for (uint32_t c = 0; c < column; ++c) part = pool.next_in_block(part);
      ids[replaced.block - first] = pool.id_of(GroupId(group), part).value;
    }
  }
}

}  // namespace quire
