// The options that plan and replay share, and the plan they ask for. What a layer file says of its plan holds where no option says
// otherwise.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/client.h"
#include "client/layer_plan.h"
#include "quire/commands.h"
#include "quire/plan_of.h"

namespace quire::tools {
namespace {

constexpr uint64_t kDefaultMemory = 80ull << 30;

const std::map<std::string, int32_t>& state_modes() {
  static const std::map<std::string, int32_t> modes{
      {"none", QUIRE_STATE_MODE_NONE}, {"align", QUIRE_STATE_MODE_ALIGN}, {"all", QUIRE_STATE_MODE_ALL}};
  return modes;
}

void take_parallel(const PlanArguments& arguments, client::LayerPlan* plan) {
  quire_plan_options& options = plan->options;
  if (arguments.tensor_parallel != 0) options.tensor_parallel = arguments.tensor_parallel;
  if (arguments.pipeline_parallel != 0) {
    options.pipeline_parallel = arguments.pipeline_parallel;
    plan->stage_layers.clear();
  }
  if (!arguments.stage_layers.empty()) {
    plan->stage_layers = arguments.stage_layers;
    options.pipeline_parallel = static_cast<uint32_t>(arguments.stage_layers.size());
  }
  if (arguments.context_parallel != 0) options.context_parallel = arguments.context_parallel;
  const uint64_t shards =
      uint64_t{std::max(options.tensor_parallel, 1u)} * std::max(options.pipeline_parallel, 1u) * std::max(options.context_parallel, 1u);
  if (!arguments.memory.empty()) {
    plan->memory = arguments.memory;
    options.num_pages = 0;
  } else if (plan->memory.size() > 1 && plan->memory.size() != shards) {
    throw std::invalid_argument("the layer file names memory for other shards; give --memory");
  }
  if (arguments.pages != 0) options.num_pages = arguments.pages;
  if (plan->memory.empty() && options.num_pages == 0) plan->memory = {kDefaultMemory};
}

}  // namespace

void add_plan_arguments(CLI::App* command, PlanArguments* arguments) {
  command->add_option("config", arguments->config, "Hugging Face config.json of the model, or a layer file")->required();
  command->add_option("--memory", arguments->memory, "bytes per shard, e.g. 80GiB, or of every shard, e.g. 80GiB,64GiB; 80GiB when absent")
      ->transform(CLI::AsSizeValue(true))
      ->delimiter(',');
  command->add_option("--pages", arguments->pages, "exactly this many pages instead");
  const CLI::Range positive(uint64_t{1}, uint64_t{1} << 31);  // 0 would mean the library's default
  command->add_option("--tp", arguments->tensor_parallel, "tensor parallel ranks")->check(positive);
  command->add_option("--pp", arguments->pipeline_parallel, "pipeline parallel ranks")->check(positive);
  command->add_option("--stage-layers", arguments->stage_layers, "layers of every pipeline stage, e.g. 8,7")->delimiter(',');
  command->add_option("--cp", arguments->context_parallel, "context parallel ranks")->check(positive);
  command->add_flag("--contiguous", arguments->contiguous, "all layers of a block in one dense run");
  command->add_option("--kv-dtype", arguments->kv_dtype,
                      "bf16, fp16, fp32, fp8 (= fp8_e4m3), fp8_e5m2, int8, fp4 (a scale for 16 elements), or fp8, int8 or int4 with "
                      "_per_token_head (a scale for a row of a head); the model's when absent");
  command->add_option("--policy", arguments->policy, "vllm, pack:N or auto");
  command->add_option("--compat", arguments->compat, "upstream: policy vllm also with what looks accidental in the published algorithm")
      ->check(CLI::IsMember({"upstream"}));
  command->add_option("--layout", arguments->layout, "order of letters, outermost first, e.g. BPJKTHD");
  command->add_option("--prefer-layout", arguments->preferred, "orders that kernels like, best first; the first that the plan can take")
      ->delimiter(',');
  command->add_option("--block", arguments->block, "wanted tokens of an attention block")->check(positive);
  command->add_option("--kernel-block", arguments->kernel_block, "tokens that kernel blocks are a multiple of")->check(positive);
  command->add_option("--state-mode", arguments->state_mode, "none, align or all: where states are kept for prefixes")
      ->check(CLI::IsMember({"none", "align", "all"}));
  command->add_flag("--no-prefix-reuse", arguments->no_prefix_reuse, "plan without prefix reuse");
  command->add_flag("--fit-length", arguments->fit_length, "lower the longest sequence to what fits");
  command->add_option("--in-flight", arguments->in_flight, "tokens of one sequence between reserve and commit")->check(positive);
  command->add_option("--max-len", arguments->max_len, "tokens of the longest sequence; the model's when absent")->check(positive);
}

client::Config plan_of(quire_model* model, const PlanArguments& arguments) {
  client::LayerPlan plan{client::sized<quire_plan_options>(), {}, {}};
  const std::string text = client::read_file(arguments.config);
  if (client::is_layer_file(text)) plan = client::read_layer_plan(text, model);
  quire_plan_options& options = plan.options;
  take_parallel(arguments, &plan);
  if (arguments.contiguous) options.flags |= QUIRE_PLAN_CONTIGUOUS;
  if (!arguments.compat.empty()) options.flags |= QUIRE_PLAN_UPSTREAM;
  if (arguments.no_prefix_reuse) options.flags |= QUIRE_PLAN_NO_PREFIX_REUSE;
  if (arguments.fit_length) options.flags |= QUIRE_PLAN_FIT_LENGTH;
  options.policy = client::to_str(arguments.policy);
  options.layout = client::to_str(arguments.layout);
  std::vector<quire_str> preferred;
  for (const std::string& order : arguments.preferred) preferred.push_back(client::to_str(order));
  options.preferred_layouts = preferred.empty() ? nullptr : preferred.data();
  options.num_preferred_layouts = preferred.size();
  if (arguments.max_len != 0) options.max_model_len = arguments.max_len;
  if (arguments.in_flight != 0) options.max_tokens_in_flight = arguments.in_flight;
  if (arguments.block != 0) options.block_tokens = arguments.block;
  if (arguments.kernel_block != 0) options.kernel_block_tokens = arguments.kernel_block;
  if (!arguments.state_mode.empty()) options.state_mode = state_modes().at(arguments.state_mode);
  const client::KvType type = client::kv_type_of(arguments.kv_dtype);
  options.kv_dtype = type.dtype;
  options.kv_scales = type.scales;
  if (!arguments.policy.empty() && arguments.policy != "vllm") {  // these have no part in other policies
    options.flags &= ~uint64_t{QUIRE_PLAN_TRANSFERS | QUIRE_PLAN_ROWS};
    if (arguments.policy == "auto") options.flags &= ~uint64_t{QUIRE_PLAN_ONE_TABLE};
    options.match_unit_tokens = options.retained_tokens = 0;
    if (arguments.policy == "auto" && arguments.block == 0) options.block_tokens = options.kernel_block_tokens = 0;
  }
  plan.point();
  return client::plan(model, options);
}

}  // namespace quire::tools
