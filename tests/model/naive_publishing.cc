// What the naive model publishes when a row is committed.
#include <algorithm>
#include <string>

#include "tests/model/naive.h"

namespace quire::model {

// Publishes complete units, and before them what an eviction took off the path.
void Naive::publish_units(Sequence* s) {
  if (s->published + unit_ > s->text.size()) return;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const uint64_t bt = groups_[g].block_tokens;
    if (groups_[g].state) continue;
    for (uint64_t end = s->published / grid_ * grid_ / bt * bt; end > 0; end -= bt) {
      const std::string name = s->text.substr(0, end);
      const int block = s->tables[g][end / bt - 1];
      if (index_.count({name, g}) != 0 || !blocks_[block].name.empty()) break;
      publish(block, name);
    }
  }
  // Behind the last joint boundary nothing can be hit yet.
  const uint64_t told = s->published / grid_ * grid_;
  s->published = s->text.size() / unit_ * unit_;
  for (uint64_t end = told + unit_; end <= s->published / grid_ * grid_; end += unit_) {
    const std::string name = s->text.substr(0, end);
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      const uint64_t bt = groups_[g].block_tokens;
      if (groups_[g].state || end % bt != 0) continue;
      const int block = s->tables[g][end / bt - 1];
      if (!blocks_[block].name.empty()) continue;
      if (index_.count({name, g}) == 0 || give_up_older(name, g)) publish(block, name);
    }
  }
}

// A block that is computed again takes the place of the older copy, unless somebody has that.
bool Naive::give_up_older(const std::string& name, uint32_t group) {
  const int older = index_[{name, group}];
  const Block& b = blocks_[older];
  if (!by_cost_ || b.refs > 0 || b.fenced) return false;
  order_.erase(std::find(order_.begin(), order_.end(), older));
  blocks_.erase(older);
  ++free_;
  return true;
}

}  // namespace quire::model
