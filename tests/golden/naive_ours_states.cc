// Recurrent states as quire keeps them: a sequence owns one, and as many more as drafts may need; what is in the index is never overwritten
// while there is room for another.
#include <algorithm>

#include "core/base/checked.h"
#include "tests/golden/naive_cache.h"

namespace quire::golden {

// How many states a row writes: of few tokens one behind each, else those of the boundaries that it crosses, or the last one alone.
uint64_t Naive::num_writes(uint64_t position, uint64_t tokens) const {
  if (tokens <= shape_.branches + 1) return tokens;
  return shape_.at_blocks ? ceil_div(position + tokens, shape_.step_spacing) - position / shape_.step_spacing : 1;
}

uint64_t Naive::write_end(uint64_t position, uint64_t tokens, uint64_t i) const {
  if (tokens <= shape_.branches + 1) return position + 1 + i;
  if (!shape_.at_blocks) return position + tokens;
  return std::min((position / shape_.step_spacing + 1 + i) * shape_.step_spacing, position + tokens);
}

bool Naive::may_overwrite(const NaiveRequest& r, size_t g, bool give_up) const {
  const int current = r.states.empty() ? 0 : r.states[g].current;
  if (current == 0 || pool_.at(current).refs != 1) return false;
  return pool_.at(current).keys.empty() || give_up;
}

uint64_t Naive::states_wanted(const NaiveRequest& r, size_t g, uint64_t position, uint64_t target, bool give_up) const {
  const uint64_t tokens = target - position;
  uint64_t want = num_writes(position, tokens) + shape_.branches;
  if (tokens <= shape_.branches + 1) {
    const uint64_t kept = (target - 1) / shape_.step_spacing - position / shape_.step_spacing;
    want = shape_.branches + 1 + (shape_.branches > 0 ? kept : 0);
  }
  const uint64_t have = (r.states.empty() ? 0 : r.states[g].spares.size()) + (may_overwrite(r, g, give_up) ? 1 : 0);
  return want > have ? want - have : 0;
}

void Naive::take_states(NaiveRequest* r, size_t g, uint64_t position, uint64_t target) {
  OurStates& s = r->states[g];
  uint64_t fresh = states_wanted(*r, g, position, target, give_up_);
  const uint64_t n = num_writes(position, target - position);
  s.read = s.current;
  s.writes.clear();
  met.insert(15);
  for (uint64_t i = 0; i < n; ++i) {
    int id = 0;
    if (!s.spares.empty()) {
      id = s.spares.back();
      s.spares.pop_back();
    } else if (fresh > 0) {
      id = take_one();
      --fresh;
    } else {
      id = s.read;
      pool_.touch(id);
      for (const NaivePool::Key& key : std::vector<NaivePool::Key>(pool_.at(id).keys)) drop(key);
    }
    s.writes.emplace_back(id, write_end(position, target - position, i));
  }
  for (; fresh > 0; --fresh) s.spares.push_back(take_one());
}

void Naive::keep_spare(OurStates* states, int id) {
  if (states->spares.size() < shape_.branches && pool_.at(id).refs == 1 && pool_.at(id).keys.empty()) {
    states->spares.push_back(id);
  } else {
    pool_.give_back({id});
  }
}

bool Naive::worth_keeping(uint64_t end, uint64_t last, bool asked) const {
  if (end % shape_.joint != 0) return false;
  return (shape_.spacing != 0 && end % shape_.spacing == 0) || (end == last && asked);
}

// The states that stand, then what groups that need everything have of their unfinished blocks.
void Naive::publish_states(NaiveRequest* r, const NaiveWant& want) {
  const bool silent = !shape_.caching || r->silent.has_value();
  const bool last = !silent && worth_keeping(r->committed, want.target, want.keep);
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    if (!shape_.groups[g].state()) continue;
    OurStates& s = r->states[g];
    const auto name = [&](uint64_t end) { return NaivePool::Key{r->names[end / shape_.hash_unit - 1], g}; };
    const auto publish_one = [&](int id, uint64_t end) {
      if (pool_.at(id).keys.empty() && pool_.find(name(end)) < 0) put(name(end), id, end);
    };
    for (size_t i = s.writes.size(); i-- > 0;) {
      if (s.writes[i].second != r->committed) continue;
      s.current = s.writes[i].first;
      s.writes.erase(s.writes.begin() + static_cast<long>(i));
    }
    if (last) publish_one(s.current, r->committed);
    for (size_t i = s.writes.size(); i-- > 0 && !silent;) {
      const auto& [id, end] = s.writes[i];
      if (end < r->committed && worth_keeping(end, want.target, want.keep)) publish_one(id, end);
    }
  }
  for (size_t g = 0; last && shape_.fine && g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (!group.full() || r->committed % group.block == 0) continue;
    const int id = r->table[g][r->committed / group.block];
    const NaivePool::Key key{r->names[r->committed / shape_.hash_unit - 1], g};
    if (id != 0 && pool_.at(id).keys.empty() && pool_.find(key) < 0) put(key, id, r->committed);
  }
}

void Naive::retire_states(NaiveRequest* r) {
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    if (!shape_.groups[g].state()) continue;
    OurStates& s = r->states[g];
    for (size_t i = s.writes.size(); i-- > 0;) keep_spare(&s, s.writes[i].first);
    if (s.read != 0) keep_spare(&s, s.read);
    s.writes.clear();
    s.read = 0;
  }
}

}  // namespace quire::golden
