#include "core/step/live_step.h"

#include <algorithm>

namespace quire {

void LiveStep::read_ids(size_t r, uint32_t g, uint32_t c, uint64_t first, std::span<int32_t> ids) const {
  const Row& row = step.rows[r];
  if (Steps::dropped(sequences, row)) {
    std::fill(ids.begin(), ids.end(), 0);
    return;
  }
  const auto table = sequences.table(row.sequence, g, c);
  std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(first), ids.size(), ids.begin());
  // The oldest of the later steps last: what it replaced is what this one sees.
  for (uint32_t later = steps.num_in_flight(); later-- > step_number + 1;) {
    const auto& all = steps.at(later).replaced;
    for (size_t n = all.size(); n-- > 0;) {
      const Replaced& replaced = all[n];
      if (replaced.group != g || replaced.block < first || replaced.block - first >= ids.size()) continue;
      if (steps.at(later).rows[replaced.row].sequence != row.sequence) continue;
      PartIndex part = replaced.old_head;
      for (uint32_t i = 0; i < c; ++i) part = pool.next_in_block(part);
      ids[replaced.block - first] = pool.id_of(GroupId(g), part).value;
    }
  }
}

}  // namespace quire
