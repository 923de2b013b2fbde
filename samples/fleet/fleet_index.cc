#include "fleet_index.h"

#include <string>

namespace fleet {

using nlohmann::json;

void Index::apply(const json& batch) {
  for (const json& event : batch.at(1)) {
    const std::string type = event.at("type");
    if (type == "AllBlocksCleared") {
      clear();
      continue;
    }
    std::unordered_set<uint64_t>& blocks = blocks_.at(event.at("group_idx").get<size_t>());
    for (const json& hash : event.at("block_hashes")) {
      if (type == "BlockStored") blocks.insert(hash.get<uint64_t>());
      if (type == "BlockRemoved") blocks.erase(hash.get<uint64_t>());
    }
  }
}

void Index::clear() {
  for (auto& blocks : blocks_) blocks.clear();
}

uint64_t Index::size() const {
  uint64_t n = 0;
  for (const auto& blocks : blocks_) n += blocks.size();
  return n;
}

// The name of a block is that of its last unit.
bool Index::has(size_t group, const std::vector<uint64_t>& names, uint64_t end) const {
  const uint64_t unit = end / layout_.unit;
  return unit <= names.size() && blocks_[group].contains(names[unit - 1]);
}

bool Index::resumes_at(size_t group, const std::vector<uint64_t>& names, uint64_t p) const {
  const Group& g = layout_.groups[group];
  if (g.is_state) return has(group, names, p);
  for (uint64_t end = g.block_tokens; end <= p; end += g.block_tokens) {
    const bool is_needed = end > g.tail_begin(p) || end - g.block_tokens < g.sink_tokens;
    if (is_needed && !has(group, names, end)) return false;
  }
  return true;
}

uint64_t Index::hit(const std::vector<uint64_t>& names, uint64_t prompt_tokens) const {
  const uint64_t step = layout_.hit_alignment();
  if (prompt_tokens == 0) return 0;
  uint64_t longest = prompt_tokens - 1;
  // Where everything is needed, nothing after the first gap helps.
  for (size_t g = 0; g < blocks_.size(); ++g) {
    const Group& group = layout_.groups[g];
    uint64_t end = 0;
    while (group.needs_everything() && end < longest && has(g, names, end + group.block_tokens))
      end += group.block_tokens;
    if (group.needs_everything() && end < longest) longest = end;
  }
  for (uint64_t p = longest / step * step; p > 0; p -= step) {
    bool all = true;
    for (size_t g = 0; g < blocks_.size() && all; ++g)
      all = layout_.groups[g].needs_everything() || resumes_at(g, names, p);
    if (all) return p;
  }
  return 0;
}

bool begins_anew(const json& batch) {
  const json& events = batch.at(1);
  return !events.empty() && events.at(0).at("type") == "AllBlocksCleared";
}

}  // namespace fleet
