// What gives way where a model does not fit the memory: its longest sequence, or the memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/plan_of.h"

namespace quire::tools {

struct Fitted {
  client::Config config;
  std::string chose;   // "length", "memory", or "nothing"
  uint64_t asked = 0;  // tokens or bytes per shard, by what was chosen; 0 = nothing was
  uint64_t taken = 0;
  uint64_t sequences = 0;  // that fit, guaranteed
};

// --fit length: the longest sequence, at most what was asked for, of which `concurrency` fit. --fit
// memory: the least memory per shard, in steps of 1 MiB, that holds `concurrency` sequences. --fit
// none: what was asked for. Without --fit what was not asked for gives way, and only where not all
// fits: the length first, then the memory. A layer file asks for its length, and for the memory
// that it states. Throws Usage, client::Failure, or std::runtime_error where nothing may give way.
Fitted fit(quire_model* model, const PlanArguments& arguments, std::vector<std::string>* notes);

// A sentence on what was chosen; empty where all was taken as asked.
std::string fit_text(const Fitted& fitted);

// With the state slots that the model's draft tokens take.
quire_capacity capacity_of(quire_model* model, quire_config* config, uint64_t tokens, uint64_t concurrency);

}  // namespace quire::tools
