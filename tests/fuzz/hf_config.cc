// config.json: whatever the text, a model whose plan holds what it says, or a sentence.
#include <string_view>

#include "core/model/model.h"
#include "core/plan/config.h"
#include "tests/fuzz/fuzz.h"

namespace {

void plan_small(const quire::Model& model, const char* policy) {
  quire_plan_options options{};
  options.struct_size = sizeof options;
  options.policy = {policy, std::strlen(policy)};
  const uint64_t memory = uint64_t{1} << 36;
  options.memory_bytes = &memory;
  options.num_memory_bytes = 1;
  options.max_model_len = 4096;
  const auto config = quire::plan(model, options);
  if (!config.ok()) {
    quire::fuzz::require(!config.status().message().empty(), "a refusal has a sentence");
    return;
  }
  const quire::Config& plan = *config.value();
  quire::fuzz::require(plan.num_pages >= 2, "a plan has the null page and one more");
  quire::fuzz::require(plan.shards[0].page_bytes * plan.num_pages <= memory, "a plan fits its memory");
  quire::fuzz::require(plan.capacity_tokens == options.max_model_len, "a plan that fits admits the lone request");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model = quire::read_hf_config({reinterpret_cast<const char*>(data), size});
  if (!model.ok()) {
    quire::fuzz::require(!model.status().message().empty(), "a refusal has a sentence");
    return 0;
  }
  if (model.value().num_layers() > 64) return 0;  // larger ones only cost time
  plan_small(model.value(), "vllm");
  plan_small(model.value(), "auto");
  return 0;
}
