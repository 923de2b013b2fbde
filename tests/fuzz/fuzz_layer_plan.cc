// What a layer file says of its plan: stages, ranks, memory and options. Whatever the text, options that plan as they say, or a sentence.
#include "client/layer_plan.h"

#include <quire/quire.h>

#include <stdexcept>
#include <string>

#include "client/client.h"
#include "tests/fuzz/fuzz.h"

namespace quire::fuzz {
namespace {

void plan_as_told(quire_model* model, client::LayerPlan& plan, const char* policy) {
  plan.options.policy = client::to_str(policy);
  if (plan.options.num_pages == 0 && plan.memory.empty()) plan.memory = {uint64_t{1} << 32};
  plan.point();
  client::Error error;
  quire_config* made = nullptr;
  if (quire_config_create(model, &plan.options, &made, &error) != QUIRE_OK) {
    require(made == nullptr && error.message[0] != '\0', "a refusal has a sentence");
    return;
  }
  const client::Config config(made);
  auto info = client::sized<quire_config_info>();
  require(quire_config_get_info(made, &info, &error) == QUIRE_OK, "a plan tells its facts");
  require(plan.options.num_pages == 0 || info.num_pages == plan.options.num_pages, "a number of pages that is told is taken");
  const uint64_t shards = uint64_t{plan.options.tensor_parallel} * plan.options.pipeline_parallel * plan.options.context_parallel;
  require(info.num_shards == shards, "every worker is a shard");
  for (uint32_t shard = 0; shard < info.num_shards && shard < plan.memory.size(); ++shard) {
    uint64_t count = 0;
    require(quire_config_list_regions(made, shard, nullptr, sizeof(quire_region_info), 0, &count, &error) == QUIRE_OK,
            "regions are counted");
    std::vector<quire_region_info> regions(count, client::sized<quire_region_info>());
    require(quire_config_list_regions(made, shard, regions.data(), sizeof(quire_region_info), count, &count, &error) == QUIRE_OK,
            "regions are listed");
    uint64_t bytes = 0;
    for (const quire_region_info& region : regions) bytes += region.bytes;
    require(bytes <= plan.memory[plan.memory.size() == 1 ? 0 : shard], "a shard fits its memory");
  }
}

int read(const std::string& text) {
  client::Error error;
  quire_model* made = nullptr;
  if (quire_model_from_layers(client::to_str(text), &made, &error) != QUIRE_OK) {
    require(made == nullptr && error.message[0] != '\0', "a refusal has a sentence");
    return 0;
  }
  const client::Model model(made);
  client::LayerPlan plan;
  try {
    plan = client::read_layer_plan(text, made);
  } catch (const std::invalid_argument& refused) {
    require(refused.what()[0] != '\0', "a refusal has a sentence");
    return 0;
  }
  auto facts = client::sized<quire_model_info>();
  require(quire_model_get_info(made, &facts, &error) == QUIRE_OK, "a model tells its facts");
  uint64_t layers = 0;
  for (const uint32_t stage : plan.stage_layers) layers += stage;
  require(plan.stage_layers.empty() || layers == facts.num_layers, "stages hold every layer once");
  if (facts.num_layers > 64 || plan.options.tensor_parallel > 8 || plan.options.context_parallel > 8)
    return 0;  // larger ones only cost time
  plan_as_told(made, plan, "vllm");
  if ((plan.options.flags & QUIRE_PLAN_ONE_TABLE) != 0 || plan.options.vllm.flags != 0) return 0;
  if (plan.options.vllm.match_unit_tokens == 0 && plan.options.vllm.retained_tokens == 0) plan_as_told(made, plan, "pack:2");
  return 0;
}

}  // namespace
}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return quire::fuzz::read({reinterpret_cast<const char*>(data), size});
}
