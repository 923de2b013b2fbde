// fleet_index.h: which blocks one engine has cached, as its events say.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "fleet_layout.h"

namespace fleet {

class Index {
 public:
  explicit Index(const Layout& layout) : layout_(layout), blocks_(layout.groups.size()) {}

  // A batch as vLLM encodes it: [time, events, rank]. Throws what nlohmann::json throws if it is
  // none, and std::out_of_range for a group that the layout lacks.
  void apply(const nlohmann::json& batch);
  void clear();
  // How many tokens of a prompt need not be computed, given the names of its units. The last token
  // is always computed.
  uint64_t hit(const std::vector<uint64_t>& names, uint64_t prompt_tokens) const;
  uint64_t size() const;

 private:
  bool has(size_t group, const std::vector<uint64_t>& names, uint64_t end) const;
  bool resumes_at(size_t group, const std::vector<uint64_t>& names, uint64_t p) const;

  const Layout layout_;
  std::vector<std::unordered_set<uint64_t>> blocks_;  // by group
};

// Whether all before this batch has lost its meaning.
bool begins_anew(const nlohmann::json& batch);

}  // namespace fleet
