// The naive cache's loads: what is cached behind a hit is shared, and who is cut inside a block of others copies it before it writes.
#include <utility>

#include "tests/model/naive.h"

namespace quire::model {

// Of somebody none of whose rows uses it any more.
void Naive::release_passed(int block) {
  Block& b = blocks_[block];
  if (b.refs != 1) return release(block);
  b.refs = 0;
  if (!b.fenced) let_go(block);
}

std::vector<int> Naive::adopted(uint32_t g, const std::string& prompt, uint64_t position, const std::string& tokens) const {
  std::vector<int> blocks;
  for (uint64_t end = position + groups_[g].block_tokens; end <= position + tokens.size(); end += groups_[g].block_tokens) {
    const auto block = index_.find({prompt.substr(0, end), g});
    if (block == index_.end()) break;
    blocks.push_back(block->second);
  }
  return blocks;
}

// Where attention alone would resume, if that is behind the hit.
uint64_t Naive::beyond_hit(const std::string& prompt) const {
  uint64_t full = 0;
  const uint64_t found = hit(prompt, &full);
  return full > found ? full : 0;
}

std::vector<int> Naive::ahead(const Sequence& s, uint32_t g, const std::string& prompt, uint64_t position, const std::string& tokens,
                              bool match, bool load) const {
  if (load) return match ? adopted(g, prompt, position, tokens) : std::vector<int>{};
  const uint64_t full = match ? beyond_hit(prompt) : s.full;
  if (!by_cost_ || full <= position) return {};
  const std::string text = (match ? prompt.substr(0, position) : s.text) + tokens;
  const uint64_t bt = groups_[g].block_tokens, first = (position + bt - 1) / bt * bt;
  return first > text.size() ? std::vector<int>{} : adopted(g, text, first, text.substr(first));
}

bool Naive::tail_is_shared(const Sequence& s, uint32_t g, uint64_t position) const {
  const uint64_t bt = groups_[g].block_tokens;
  if (!s.may_share || position % bt == 0 || s.tables[g].size() <= position / bt) return false;
  const Block& b = blocks_.at(s.tables[g][position / bt]);
  return b.refs > 1 || b.fenced || b.name.size() > position;
}

void Naive::let_replaced_go(Sequence* s) {
  for (const auto& [group, block] : std::exchange(s->replaced, {})) release(block);
}

// The row that copied them is undone.
void Naive::put_replaced_back(Sequence* s) {
  if (!s->live || s->life != s->row_life) return let_replaced_go(s);
  for (const auto& [group, block] : std::exchange(s->replaced, {})) {
    // Behind it are those that the row took.
    int& copy = s->tables[group][s->blocks_before[group] - 1];
    const int own = std::exchange(copy, block);
    release(own);
  }
}

void Naive::load(int q, const std::string& prompt, uint64_t position, const std::string& tokens, bool match) {
  admit(q, prompt, position, tokens, match, true);
  sequences_[static_cast<size_t>(q)].loading = true;
}

void Naive::arrive(int q, uint64_t tokens) {
  Sequence& s = sequences_[static_cast<size_t>(q)];
  const uint64_t begin = s.text.size();
  s.has_row = s.loading = false;
  s.junction = s.junction && tokens == s.in_flight.size();
  s.may_share = s.may_share || tokens < s.in_flight.size();
  s.text += s.in_flight.substr(0, tokens);
  const std::vector<int> read = s.current;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    while (s.tables[g].size() * groups_[g].block_tokens >= s.text.size() + groups_[g].block_tokens) {
      release_passed(s.tables[g].back());
      s.tables[g].pop_back();
    }
    if (groups_[g].state && tokens > 0) s.current[g] = s.written[g];
  }
  publish_units(&s);
  if (!s.text.empty()) keep_states(&s);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const int left = tokens > 0 ? read[g] : s.written[g];
    if (groups_[g].state && left >= 0) tokens > 0 && s.in_flight.size() > 1 ? release_passed(left) : keep_spare(&s, g, left);
    if (groups_[g].state && s.text.empty()) release(std::exchange(s.spare[g], -1));
  }
  set_resume_point(&s, begin);
  if (s.hit == 0 && s.published > begin) spare_hit(&s, s.text.substr(0, s.published));
  let_replaced_go(&s);
}

}  // namespace quire::model
