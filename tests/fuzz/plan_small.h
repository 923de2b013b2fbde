// A model that an input became is planned by two policies: a plan holds what it says, or refuses with a sentence.
#pragma once

#include "core/model/model_layers.h"
#include "core/plan/cache_config.h"
#include "tests/fuzz/fuzz.h"

namespace quire::fuzz {

inline void plan_small(const Model& model, const char* policy) {
  quire_plan_options options{};
  options.struct_size = sizeof options;
  options.policy = {policy, std::strlen(policy)};
  const uint64_t memory = uint64_t{1} << 36;
  options.memory_bytes = &memory;
  options.num_memory_bytes = 1;
  options.max_model_len = 4096;
  const auto config = plan(model, options);
  if (!config.ok()) return require(!config.status().message().empty(), "a refusal has a sentence");
  const Config& made = *config.value();
  require(made.num_pages >= 2, "a plan has the null page and one more");
  require(made.shards[0].page_bytes * made.num_pages <= memory, "a plan fits its memory");
  require(made.capacity_tokens == options.max_model_len, "a plan that fits admits the lone request");
}

inline int plan_or_sentence(const Result<Model>& model) {
  if (!model.ok()) {
    require(!model.status().message().empty(), "a refusal has a sentence");
    return 0;
  }
  if (model.value().num_layers() > 64) return 0;  // larger ones only cost time
  plan_small(model.value(), "vllm");
  plan_small(model.value(), "auto");
  return 0;
}

}  // namespace quire::fuzz
