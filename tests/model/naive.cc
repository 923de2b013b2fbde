#include "tests/model/naive.h"

#include <algorithm>
#include <utility>

namespace quire::model {

Naive::Naive(std::vector<NaiveGroup> groups, const NaiveLimits& limits)
    : groups_(std::move(groups)),
      pages_(limits.pages),
      free_(limits.pages - 1),
      unit_(limits.unit),
      grid_(limits.grid),
      budget_(limits.budget),
      by_cost_(limits.by_cost) {
  const bool states = std::any_of(groups_.begin(), groups_.end(), [](const NaiveGroup& g) { return g.state; });
  part_ = !by_cost_ ? 0 : states ? 8 : 3;
}

// Every position is tried, the longest first.
uint64_t Naive::hit(const std::string& prompt, uint64_t* full) const {
  *full = 0;
  for (uint64_t p = prompt.empty() ? 0 : (prompt.size() - 1) / grid_ * grid_; p > 0; p -= grid_) {
    bool attention = true, states = true;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].state) {
        states = states && index_.count({prompt.substr(0, p), g}) != 0;
        continue;
      }
      for (uint64_t end = groups_[g].block_tokens; end <= p; end += groups_[g].block_tokens) {
        attention = attention && index_.count({prompt.substr(0, end), g}) != 0;
      }
    }
    if (attention && *full == 0) {
      // Units that lead nowhere are known for as long as somebody stands on them; a group that needs everything says what there is.
      *full = p;
    }
    if (attention && states) return p;
  }
  return 0;
}

uint64_t Naive::states_kept() const {
  uint64_t n = 0;
  for (const auto& [key, block] : index_) n += groups_[key.second].state ? 1 : 0;
  return n;
}

std::string Naive::boundary_before(const std::string& name) const {
  std::string before = name;
  while (!before.empty()) {
    before.pop_back();
    if (boundaries_.count(before) != 0) break;
  }
  return before;
}

// The tokens that are lost with it, on top of what went last.
void Naive::value(const std::string& name, bool cold, int uses) {
  Boundary b{0, next_stamp_++, boundary_before(name), cold, uses};
  b.rank = by_cost_ ? level_ + b.worth(static_cast<double>(name.size() - b.before.size())) : ++clock_;
  boundaries_[name] = b;
}

void Naive::use(Sequence* s) {
  s->spared = 0;
  if (boundaries_.count(s->text) == 0) return;
  value(s->text, false, std::min(boundaries_[s->text].uses + (s->emptied ? 0 : 1), 255));
  s->spared = s->text.size() - boundaries_[s->text].before.size();
  spared_ += s->spared;
}

// The sixteen that are worth least; the first of all only after a second look at it, and who is first then.
std::vector<Naive::Boundaries::iterator> Naive::by_worth() {
  std::vector<Boundaries::iterator> all;
  for (auto i = boundaries_.begin(); i != boundaries_.end(); ++i) all.push_back(i);
  const auto less = [](auto a, auto b) { return std::pair(a->second.rank, a->second.stamp) < std::pair(b->second.rank, b->second.stamp); };
  for (int look = 0; look < 8; ++look) {
    std::sort(all.begin(), all.end(), less);
    if (all.empty() || all[0]->second.before.empty() || boundaries_.count(all[0]->second.before) != 0) break;
    Boundary& b = all[0]->second;
    const std::string before = boundary_before(all[0]->first);
    if (by_cost_) b.rank += b.worth(static_cast<double>(b.before.size()) - static_cast<double>(before.size()));
    b.before = before;
  }
  std::sort(all.begin(), all.end(), less);
  all.resize(std::min<size_t>(all.size(), 16));
  return all;
}

void Naive::give_up(const std::string& name) {
  level_ = std::max(level_, boundaries_[name].rank);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].state && index_.count({name, g}) != 0) forget(index_[{name, g}], true);
  }
}

// A state is next to go: of those that were kept for their place alone and never used the one that is worth least goes in its place.
bool Naive::give_up_for_a_page() {
  const uint32_t group = blocks_[oldest()].group;
  if (!by_cost_ || !groups_[group].state || blocks_[oldest()].spares > 0) return false;
  for (const auto& i : by_worth()) {
    const std::string name = i->first;
    bool idle = i->second.cold && index_.count({name, group}) != 0;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (!groups_[g].state || index_.count({name, g}) == 0) continue;
      const Block& b = blocks_[index_[{name, g}]];
      idle = idle && b.refs == 0 && !b.fenced && b.spares == 0;
    }
    if (!idle) continue;
    const int first = oldest(), worst = index_[{name, group}];
    if (first != worst) {
      order_.erase(std::find(order_.begin(), order_.end(), first));
      order_.insert(std::find(order_.begin(), order_.end(), worst), first);
      blocks_[first].hit = blocks_[worst].hit;
    }
    give_up(name);
    return true;
  }
  return false;
}

// The states of the present row, when its tokens are published.
void Naive::keep_states(Sequence* s) {
  if (s->text.size() % grid_ != 0) return;
  std::vector<int> kept;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].state || !blocks_[s->current[g]].name.empty() || index_.count({s->text, g}) != 0) continue;
    kept.push_back(s->current[g]);
  }
  while (!kept.empty() && states_kept() + kept.size() > budget_) {
    const auto all = by_worth();
    give_up(all[all[0]->first == s->text ? 1 : 0]->first);
    ++given_up_;
  }
  for (int block : kept) publish(block, s->text);
  if (!kept.empty() && boundaries_.count(s->text) == 0) value(s->text, !s->junction && !s->at_end);
}

int Naive::take(uint32_t group) {
  while (free_ == 0) evict_oldest();
  --free_;
  blocks_[next_block_] = Block{group, 1, false, {}, 0, false};
  return next_block_++;
}

void Naive::ref(int block, bool hit) {
  Block& b = blocks_[block];
  b.hit = b.hit || (hit && part_ > 0);
  if (b.refs++ == 0 && !b.fenced) order_.erase(std::find(order_.begin(), order_.end(), block));
}

void Naive::release(int block) {
  Block& b = blocks_[block];
  --b.refs;
  if (b.refs > 1 || b.fenced) return;
  if (!step_) return b.refs == 0 ? let_go(block) : void();
  b.fenced = true;
  fenced_.push_back(block);
}

void Naive::let_go(int block) {
  if (!blocks_[block].name.empty()) {
    put_in_order(block);
    return;
  }
  blocks_.erase(block);
  ++free_;
}

// At the end if it was hit, else before those that were. Where these are too many, the first ones count as if they had not been.
void Naive::put_in_order(int block) {
  const auto is_protected = [this](int b) { return blocks_.at(b).hit && blocks_.at(b).spares == 0; };
  const auto first = [&] { return std::find_if(order_.begin(), order_.end(), is_protected); };
  const auto num_protected = [&] { return static_cast<size_t>(std::count_if(order_.begin(), order_.end(), is_protected)); };
  if (blocks_[block].spares > 0) return order_.push_back(block);
  if (!blocks_[block].hit) {
    order_.insert(first(), block);
    return;
  }
  order_.push_back(block);
  while (num_protected() * part_ > order_.size() + free_) blocks_[*first()].hit = false;
}

void Naive::publish(int block, const std::string& name) {
  blocks_[block].name = name;
  index_[{name, blocks_[block].group}] = block;
}

// Out of the index, with all that hangs below where the group needs everything.
void Naive::forget(int block, bool evicted) {
  const std::string name = blocks_[block].name;
  std::vector<int> gone = {block};
  if (!groups_[blocks_[block].group].state) {
    for (const auto& [key, other] : index_) {
      if (key.first.size() > name.size() && key.first.compare(0, name.size(), name) == 0) gone.push_back(other);
    }
  }
  for (int b : gone) {
    const std::string lost = blocks_[b].name;
    index_.erase({lost, blocks_[b].group});
    bool any = false;
    for (uint32_t g = 0; g < groups_.size(); ++g) any = any || (groups_[g].state && index_.count({lost, g}) != 0);
    if (!any) boundaries_.erase(lost);
    blocks_[b].name.clear();
    if (evicted) ++evicted_;
    if (blocks_[b].refs > 0 || blocks_[b].fenced) continue;
    order_.erase(std::find(order_.begin(), order_.end(), b));
    blocks_.erase(b);
    ++free_;
  }
}

void Naive::evict_oldest() {
  if (!give_up_for_a_page()) forget(oldest(), true);
}

int Naive::oldest() const {
  const auto first = std::find_if(order_.begin(), order_.end(), [this](int block) { return blocks_.at(block).spares == 0; });
  return first != order_.end() ? *first : order_.front();
}

bool Naive::fits(int q, const std::string& prompt, uint64_t position, const std::string& tokens, bool match, bool load) const {
  const Sequence& s = sequences_[static_cast<size_t>(q)];
  uint64_t wanted = 0, kept = 0;
  const auto idle = [this](int block) { return blocks_.at(block).refs == 0 && !blocks_.at(block).fenced ? 1 : 0; };
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const uint64_t bt = groups_[g].block_tokens;
    if (groups_[g].state) {
      wanted += s.spare[g] < 0 ? 1 : 0;
    } else {
      const uint64_t have = match ? position / bt : s.tables[g].size();
      wanted += (position + tokens.size() + bt - 1) / bt - have;
      if (!match && tail_is_shared(s, g, position)) ++wanted;
      for (const int block : ahead(s, g, prompt, position, tokens, match, load)) {
        --wanted;
        kept += idle(block);
      }
    }
    if (!match) continue;
    for (uint64_t end = bt; end <= position; end += bt) {
      if (groups_[g].state && end != position) continue;
      kept += idle(index_.at({prompt.substr(0, end), g}));
    }
  }
  return wanted + kept <= free_ + order_.size();
}

bool Naive::nobody_has_tokens() const {
  for (const Sequence& s : sequences_) {
    if (s.live && (!s.text.empty() || (s.has_row && s.row_life == s.life))) return false;
  }
  return true;
}

void Naive::reserve(int q, const std::string& prompt, uint64_t position, const std::string& tokens, bool match) {
  admit(q, prompt, position, tokens, match, false);
  Sequence& s = sequences_[static_cast<size_t>(q)];
  s.at_end = position + tokens.size() == (match ? prompt.size() : s.prompt) / grid_ * grid_;
  rows_.push_back(q);
  step_ = true;
}

void Naive::admit(int q, const std::string& prompt, uint64_t position, const std::string& tokens, bool match, bool load) {
  Sequence& s = sequences_[static_cast<size_t>(q)];
  s.junction = s.at_end = false;
  s.spared = 0;
  if (match && s.prompt == 0) s.prompt = prompt.size();
  if (match) {
    s.full = beyond_hit(prompt);
    s.junction = s.full > 0 && s.full == position + tokens.size();
    s.text = prompt.substr(0, position);
    s.published = position;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      const uint64_t bt = groups_[g].block_tokens;
      if (groups_[g].state && position > 0) ref(s.current[g] = index_.at({s.text, g}), !s.emptied);
      for (uint64_t end = bt; !groups_[g].state && end <= position; end += bt) {
        s.tables[g].push_back(index_.at({prompt.substr(0, end), g}));
        ref(s.tables[g].back(), !s.emptied);
      }
    }
  }
  if (match) s.hit = position;
  if (match && position > 0) spare_hit(&s, s.text);
  if (match) use(&s);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].state) continue;
    for (const int block : ahead(s, g, prompt, position, tokens, match, load)) {
      s.adopted[g].push_back(block);
      ref(block);
    }
  }
  s.matched = match;
  s.in_flight = tokens;
  s.has_row = true;
  s.row_life = s.life;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    s.blocks_before[g] = s.tables[g].size();
    if (groups_[g].state) {
      s.written[g] = s.spare[g] >= 0 ? s.spare[g] : take(g);
      s.spare[g] = -1;
      continue;
    }
    if (!match && tail_is_shared(s, g, position)) {
      s.replaced.push_back({g, s.tables[g].back()});
      s.tables[g].back() = take(g);
    }
    for (const int block : std::exchange(s.adopted[g], {})) s.tables[g].push_back(block);
    while (s.tables[g].size() * groups_[g].block_tokens < position + tokens.size()) s.tables[g].push_back(take(g));
  }
}

void Naive::keep_spare(Sequence* s, uint32_t group, int block) {
  const Block& b = blocks_[block];
  if (s->spare[group] < 0 && b.refs == 1 && b.name.empty()) {
    s->spare[group] = block;
  } else {
    release_passed(block);
  }
}

void Naive::commit() {
  step_ = false;
  for (int block : std::exchange(fenced_, {})) {
    blocks_[block].fenced = false;
    if (blocks_[block].refs == 0) let_go(block);
  }
  std::vector<int> rows = std::exchange(rows_, {});
  for (int q : rows) {
    Sequence& s = sequences_[static_cast<size_t>(q)];
    s.has_row = false;
    if (!s.live || s.life != s.row_life) {
      for (uint32_t g = 0; g < groups_.size(); ++g) {
        if (groups_[g].state) release(s.written[g]);
      }
      continue;
    }
    const uint64_t begin = s.text.size();
    s.text += s.in_flight;
    std::vector<int> read = s.current;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].state) s.current[g] = s.written[g];
    }
    publish_units(&s);
    keep_states(&s);
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].state && read[g] >= 0) s.in_flight.size() > 1 ? release(read[g]) : keep_spare(&s, g, read[g]);
    }
    set_resume_point(&s, begin);
  }
  for (int q : rows) let_replaced_go(&sequences_[static_cast<size_t>(q)]);
}

void Naive::abort() {
  step_ = false;
  std::vector<int> rows = std::exchange(rows_, {});
  for (int q : rows) put_replaced_back(&sequences_[static_cast<size_t>(q)]);
  for (size_t i = rows.size(); i > 0; --i) {
    Sequence& s = sequences_[static_cast<size_t>(rows[i - 1])];
    s.has_row = false;
    const bool dropped = !s.live || s.life != s.row_life;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].state) {
        dropped ? release(s.written[g]) : keep_spare(&s, g, s.written[g]);
      } else if (!dropped) {
        while (s.tables[g].size() > s.blocks_before[g]) {
          release(s.tables[g].back());
          s.tables[g].pop_back();
        }
      }
    }
    if (!dropped && s.matched) {
      spared_ -= s.spared;
      empty(rows[i - 1]);
    }
  }
  for (int block : std::exchange(fenced_, {})) {
    blocks_[block].fenced = false;
    if (blocks_[block].refs == 0) let_go(block);
  }
}

void Naive::create(int q) {
  Sequence& s = sequences_[static_cast<size_t>(q)];
  s.live = true;
  s.emptied = false;
  s.text.clear();
  s.published = s.prompt = s.full = s.hit = 0;
  s.tables.assign(groups_.size(), {});
  s.adopted.assign(groups_.size(), {});
  s.may_share = false;
  s.current.assign(groups_.size(), -1);
  s.spare.assign(groups_.size(), -1);
  if (!s.has_row) s.written.assign(groups_.size(), -1);
  s.blocks_before.assign(groups_.size(), 0);
  ++s.life;
}

// The deepest blocks go first.
void Naive::empty(int q) {
  Sequence& s = sequences_[static_cast<size_t>(q)];
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (; !s.tables[g].empty(); s.tables[g].pop_back()) release(s.tables[g].back());
    if (s.current[g] >= 0) release(s.current[g]);
    if (s.spare[g] >= 0) release(s.spare[g]);
    s.current[g] = s.spare[g] = -1;
  }
  end_resume_points(&s);
  s.text.clear();
  s.published = s.prompt = s.full = s.hit = 0;
  s.may_share = false;
  s.emptied = true;
  ++s.life;
}

void Naive::finish(int q) {
  empty(q);
  sequences_[static_cast<size_t>(q)].live = false;
}

void Naive::reset() {
  while (!order_.empty()) forget(order_.front(), false);
}

std::string Naive::state() const {
  std::string out = std::to_string(free_) + (step_ ? "s" : "-");
  std::map<int, int> names;  // blocks by first sight
  const auto name = [&names](int block) {
    return block < 0 ? std::string("n") : std::to_string(names.emplace(block, names.size()).first->second);
  };
  for (int q : rows_) out += "r" + std::to_string(q);
  for (const Sequence& s : sequences_) {
    out += s.live ? "|L" : "|";
    out += s.loading ? "l" : "";
    out += s.emptied ? "e" : "";
    out += s.may_share ? "s" : "";
    for (const auto& [group, block] : s.replaced) out += "x" + std::to_string(group) + name(block);
    if (s.has_row) out += "[" + s.in_flight + (s.matched ? "m" : "") + (s.row_life == s.life ? "=" : "!") + "]";
    out += s.text + "," + std::to_string(s.published) + "," + std::to_string(s.prompt) + "," + std::to_string(s.full);
    for (int b : s.resume_point) out += "R" + (blocks_.count(b) != 0 ? name(b) : "-");
    for (int b : s.hit_point) out += "H" + (blocks_.count(b) != 0 ? name(b) : "-");
    out += s.hit > 0 ? "h" : "";
    for (uint32_t g = 0; s.live && g < groups_.size(); ++g) {
      for (int b : s.tables[g]) out += "." + name(b);
      out += "c" + name(s.current[g]) + "p" + name(s.spare[g]);
    }
    for (size_t g = 0; s.has_row && g < s.written.size(); ++g) out += "w" + name(s.written[g]);
  }
  std::vector<std::pair<std::pair<double, int>, std::string>> ranks;
  for (const auto& [text, b] : boundaries_)
    ranks.push_back({{b.rank, b.stamp}, text + (b.cold ? "~" : "^") + std::to_string(b.uses) + b.before});
  std::sort(ranks.begin(), ranks.end());
  for (const auto& [rank, text] : ranks) out += "b" + text + (by_cost_ ? std::to_string(rank.first - level_) : "");
  for (const Sequence& s : sequences_) out += std::string(s.has_row && s.junction ? "j" : "") + (s.has_row && s.at_end ? "e" : "");
  for (int b : order_) out += "o" + name(b);
  for (int b : fenced_) out += "f" + name(b);
  std::vector<std::string> hit;
  for (const auto& [number, b] : blocks_) {
    if (b.hit) hit.push_back(name(number));
  }
  std::sort(hit.begin(), hit.end());
  for (const std::string& b : hit) out += "!" + b;
  for (const auto& [key, block] : index_) out += ";" + key.first + std::to_string(key.second) + name(block);
  return out;
}

}  // namespace quire::model
