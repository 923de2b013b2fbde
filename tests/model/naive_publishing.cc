// What the naive model publishes when a row is committed, and what it spares for who resumes there.
#include <algorithm>
#include <string>
#include <utility>

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

// A row went past the end of the prompt: whoever asks for it again resumes at the state that is kept there, if there is one. Not while an
// eighth of all pages is spared.
void Naive::set_resume_point(Sequence* s, uint64_t row_begin) {
  if (!by_cost_ || s->published == 0) return;
  if (!s->at_end && (row_begin >= s->prompt || s->text.size() < s->prompt)) return;
  const std::vector<int> states = states_at(s->text.substr(0, s->published));
  if (states.empty()) return;
  end_point(&s->resume_point);
  size_t spared = 0;
  for (const Sequence& other : sequences_) spared += other.resume_point.size();
  if (spared * 8 < pages_) spare(&s->resume_point, states);
}

// The same where a sequence resumed, with an eighth of its own: of what is spared beyond the ends of prompts.
void Naive::spare_hit(Sequence* s, const std::string& text) {
  const std::vector<int> states = states_at(text);
  if (!by_cost_ || states.empty()) return;
  end_point(&s->hit_point);
  size_t all = 0, ends = 0;
  for (const auto& [number, block] : blocks_) all += block.spares > 0 ? 1 : 0;
  for (const Sequence& other : sequences_) ends += other.resume_point.size();
  if ((all - std::min(ends, all)) * 8 < pages_) spare(&s->hit_point, states);
}

// None if the first group of states has none there.
std::vector<int> Naive::states_at(const std::string& text) const {
  std::vector<int> states;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].state) continue;
    const auto found = index_.find({text, g});
    if (found == index_.end() && states.empty()) return {};
    if (found != index_.end()) states.push_back(found->second);
  }
  return states;
}

void Naive::spare(std::vector<int>* point, const std::vector<int>& states) {
  for (int block : states) {
    const auto at = std::find(order_.begin(), order_.end(), block);
    if (blocks_[block].spares++ == 0 && at != order_.end()) std::rotate(at, at + 1, order_.end());
  }
  *point = states;
}

// The blocks age from now on.
void Naive::end_point(std::vector<int>* point) {
  for (int block : std::exchange(*point, {})) {
    const auto b = blocks_.find(block);
    if (b == blocks_.end() || --b->second.spares > 0 || b->second.refs > 0 || b->second.fenced) continue;
    order_.erase(std::find(order_.begin(), order_.end(), block));
    put_in_order(block);
  }
}

void Naive::end_resume_points(Sequence* s) {
  end_point(&s->hit_point);
  end_point(&s->resume_point);
}

}  // namespace quire::model
