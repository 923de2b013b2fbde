// What the checks of configs.jsonl share.
#pragma once

#include <string>

#include "core/plan/vllm/block_sizing.h"
#include "tests/golden/golden.h"

namespace quire::golden {

StateMode state_mode_of(const std::string& name);
Result<CacheSpec> spec_of(const json& spec);
// Kind of a group in events.
const char* event_kind(CacheFamily family);

// One case, read: layers in the order in which the workers' tables are merged.
struct ConfigCase {
  const json* test = nullptr;
  std::vector<uint32_t> order;   // the file's layer of each spec
  std::vector<CacheSpec> specs;  // rewritten by grouping
  Grouping grouping;
  std::vector<Worker> workers;
  SizingInput input;
  bool transfers = false;

  std::vector<uint32_t> file_layers(const std::vector<uint32_t>& specs_of) const {
    std::vector<uint32_t> out;
    for (const uint32_t i : specs_of) out.push_back(order[i]);
    return out;
  }
};

// First difference between the sizes of a grouped case and what is recorded; empty = none.
std::string check_sizes(const ConfigCase& one);

// "name: expected A, is B" for any two JSON values, or empty.
std::string differ(const std::string& name, const json& expected, const json& is);

}  // namespace quire::golden
