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
#include <stdexcept>
#include <vector>

#include "client/client.h"
#include "client/layer_plan.h"
#include "quire/commands.h"
#include "quire/drafts.h"
#include "quire/option_values.h"
#include "quire/plan_of.h"

namespace quire::tools {
namespace {

// Limits of the library.
constexpr uint32_t kMaxInt = (uint32_t{1} << 31) - 1;
constexpr uint32_t kMaxRanks = 1024;
constexpr uint32_t kMaxLayers = 65536;
constexpr uint32_t kMaxBlock = 1 << 24;
constexpr uint32_t kMaxDrafts = 1023;

const std::map<std::string, int32_t>& state_modes() {
  static const std::map<std::string, int32_t> modes{
      {"none", QUIRE_STATE_MODE_NONE}, {"align", QUIRE_STATE_MODE_ALIGN}, {"all", QUIRE_STATE_MODE_ALL}};
  return modes;
}

[[noreturn]] void refuse(const std::string& what) { throw Usage(what); }

bool cuts_told_blocks(const PlanArguments& arguments) { return arguments.policy == "vllm"; }

// Options that say different things of one plan, whatever the file.
void check_together(const PlanArguments& arguments) {
  const size_t stages = arguments.stage_layers.size();
  if (stages != 0 && arguments.pipeline_parallel != 0 && arguments.pipeline_parallel != stages) {
    refuse("--pp " + std::to_string(arguments.pipeline_parallel) + ": --stage-layers names " + std::to_string(stages) +
           " stages; must be equal");
  }
  const bool keeps = arguments.state_mode == "align" || arguments.state_mode == "all";
  if (keeps && arguments.no_prefix_reuse) {
    refuse("--state-mode " + arguments.state_mode + ": with --no-prefix-reuse no state is kept for prefixes; must be none");
  }
  if (arguments.state_mode == "all" && arguments.policy == "auto") {
    refuse("--state-mode all: policy auto spaces kept states by their weight; must be none or align, or policy vllm or pack:N");
  }
}

// Options against what the layer file tells and no plan could change.
void check_against_file(const PlanArguments& arguments, const client::LayerPlan& plan) {
  const uint32_t ranks = plan.options.tensor_parallel;
  if (ranks > 1 && arguments.tensor_parallel != 0 && arguments.tensor_parallel != ranks) {
    refuse("--tp " + std::to_string(arguments.tensor_parallel) + ": the heads of the layer file are those of one of the " +
           std::to_string(ranks) + " ranks that its workers tell; must be equal");
  }
  const bool keeps = arguments.state_mode == "align" || arguments.state_mode == "all";
  if (keeps && (plan.options.flags & QUIRE_PLAN_NO_PREFIX_REUSE) != 0) {
    refuse("--state-mode " + arguments.state_mode + ": options.prefix_caching = false of the layer file keeps no state; must be none");
  }
  if (!cuts_told_blocks(arguments)) return;
  for (const client::ToldSpec& spec : plan.specs) {
    const std::string where = "specs[" + std::to_string(spec.index) + "]";
    if (!spec.state && arguments.block != 0 && arguments.kv_dtype.empty() && spec.block != 0 && spec.block != arguments.block) {
      refuse("--block " + std::to_string(arguments.block) + ": the layer file tells " + where +
             ".block_size = " + std::to_string(spec.block) + ", which policy vllm takes; must be equal");
    }
    if (spec.state && !arguments.state_mode.empty() && !spec.mode.empty() && spec.mode != arguments.state_mode) {
      refuse("--state-mode " + arguments.state_mode + ": the layer file tells " + where + ".mode = " + spec.mode +
             ", which policy vllm takes; must be equal");
    }
  }
}

void take_parallel(const PlanArguments& arguments, client::LayerPlan* plan) {
  quire_plan_options& options = plan->options;
  if (arguments.tensor_parallel != 0) options.tensor_parallel = arguments.tensor_parallel;
  if (arguments.pipeline_parallel != 0 && arguments.pipeline_parallel != options.pipeline_parallel) {
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
  } else if (plan->memory.size() > 1 && plan->memory.size() != shards) {
    refuse("available_memory of the layer file is that of " + std::to_string(plan->memory.size()) + " shards; the options ask for " +
           std::to_string(shards) + ", give --memory");
  }
  if (arguments.pages != 0) options.num_pages = arguments.pages;  // the file's number otherwise; with memory, what must fit there
  if (plan->memory.empty() && options.num_pages == 0) plan->memory = {kDefaultMemory};
}

// What only policy vllm knows of a layer file's options has no part in others; told in the plan's notes.
void leave_to_vllm(const PlanArguments& arguments, quire_plan_options* options, std::vector<std::string>* notes) {
  if (cuts_told_blocks(arguments)) return;
  const bool searches = arguments.policy == "auto";
  std::string left;
  const auto leave = [&left](bool any, const char* field) {
    if (any) left += (left.empty() ? "" : ", ") + std::string(field);
  };
  leave((options->vllm.flags & (QUIRE_VLLM_TRANSFERS | QUIRE_VLLM_ROWS)) != 0, "connector");
  leave(searches && (options->flags & QUIRE_PLAN_ONE_TABLE) != 0, "hybrid_manager");
  leave(options->vllm.match_unit_tokens != 0, "prefix_match_unit");
  leave(options->vllm.retained_tokens != 0, "spec_decode.multi_module_mtp");
  leave(searches && arguments.block == 0 && options->block_tokens != 0, "block_size");
  options->vllm.flags &= ~(QUIRE_VLLM_TRANSFERS | QUIRE_VLLM_ROWS);
  if (searches) options->flags &= ~QUIRE_PLAN_ONE_TABLE;
  options->vllm.match_unit_tokens = options->vllm.retained_tokens = 0;
  if (searches && arguments.block == 0) options->block_tokens = options->kernel_block_tokens = 0;
  if (left.empty() || notes == nullptr) return;
  notes->push_back("options of the layer file that policy " + arguments.policy + " does not know: " + left);
}

void add_sizes(CLI::App* command, PlanArguments* arguments) {
  command->add_option_function<std::string>(
      "--memory", [arguments](const std::string& text) { arguments->memory = sizes_of("--memory", text); },
      "bytes for the cache, without weights, per shard, e.g. 80GiB, or of every shard, e.g. 80GiB,64GiB; a layer file's available_memory, "
      "else 80GiB, when absent");
  command
      ->add_option("--pages", arguments->pages,
                   "exactly this many pages, the null page included, and they must fit --memory where it is given; a layer file's "
                   "num_gpu_blocks_override when absent")
      ->check(whole(1, kMaxInt));
  command->add_option("--tp", arguments->tensor_parallel, "tensor parallel ranks")->check(whole(1, kMaxRanks));
  command->add_option("--max-len", arguments->max_len, "tokens of the longest sequence; the model's when absent")->check(whole(1, kMaxInt));
}

void add_parallel(CLI::App* command, PlanArguments* arguments) {
  command->add_option("--pp", arguments->pipeline_parallel, "pipeline parallel ranks, layers shared evenly")->check(whole(1, kMaxLayers));
  command->add_option_function<std::string>(
      "--stage-layers",
      [arguments](const std::string& text) { arguments->stage_layers = numbers_of("--stage-layers", text, 1, kMaxLayers); },
      "layers of every pipeline stage, all of the model, e.g. 8,7; says --pp too");
  command->add_option("--cp", arguments->context_parallel, "context parallel ranks")->check(whole(1, kMaxRanks));
}

}  // namespace

void add_plan_arguments(CLI::App* command, PlanArguments* arguments, PlanOptions which) {
  const auto kv_type = [](const std::string& text) {
    try {
      client::kv_type_of(text);
    } catch (const std::invalid_argument& failure) {
      return std::string(failure.what());
    }
    return text.empty() ? std::string("''; must be at least one character") : std::string();
  };
  command->add_option("config", arguments->config, "Hugging Face config.json of the model, the folder of the model, or a layer file")
      ->required();
  command->add_option("--as", arguments->as, "read the config as one of this architecture, e.g. LlamaForCausalLM")->check(not_empty());
  command
      ->add_option("--speculative", arguments->speculative,
                   "count drafts, too: mtp for the draft layers that the config describes beside the others, or the config.json or folder "
                   "of a draft model; mtp when no value is given")
      ->expected(0, 1)
      ->default_str("mtp");
  command
      ->add_option("--draft-tokens", arguments->draft_tokens,
                   "tokens that drafts write ahead; as many as draft layers, else 1, when absent")
      ->check(whole(1, kMaxDrafts));
  if (which == PlanOptions::kAll) add_sizes(command, arguments);
  add_parallel(command, arguments);
  command->add_flag("--contiguous", arguments->contiguous, "all layers of a block in one dense run; policy auto: states are a run each");
  command
      ->add_option("--kv-dtype", arguments->kv_dtype,
                   "bf16, fp16, fp32, fp8 (= fp8_e4m3), fp8_e5m2, int8, fp4 (a scale for 16 elements), or fp8, int8 or int4 with "
                   "_per_token_head (a scale for a row of a head); the model's when absent")
      ->check(kv_type);
  command->add_option("--policy", arguments->policy, "auto, pack:N, or vllm to compare with")->check(not_empty())->capture_default_str();
  command->add_option("--compat", arguments->compat, "upstream: policy vllm also with what looks accidental in the published algorithm")
      ->check(CLI::IsMember({"upstream"}));
  CLI::Option* layout =
      command->add_option("--layout", arguments->layout, "order of letters, outermost first, e.g. BPJKTHD; the policy's when absent")
          ->check(not_empty());
  command
      ->add_option_function<std::string>(
          "--prefer-layout", [arguments](const std::string& text) { arguments->preferred = list_of("--prefer-layout", text); },
          "orders that kernels like, best first, with commas; the first that the plan can take")
      ->excludes(layout);
  command->add_option("--block", arguments->block, "wanted tokens of an attention block, a multiple of the kernel block; 16 when absent")
      ->check(whole(1, kMaxBlock));
  command->add_option("--kernel-block", arguments->kernel_block, "tokens that blocks are a multiple of; 16 when absent")
      ->check(whole(1, kMaxBlock));
  command
      ->add_option("--state-mode", arguments->state_mode,
                   "none, align or all: where states are kept for prefixes; a layer file's, else align with prefix reuse, when absent")
      ->check(CLI::IsMember({"none", "align", "all"}));
  command->add_flag("--no-prefix-reuse", arguments->no_prefix_reuse, "plan without prefix reuse");
  command->add_option("--in-flight", arguments->in_flight, "tokens of one sequence between reserve and commit; 8192 when absent")
      ->check(whole(1, kMaxInt));
}

namespace {

struct PlainRows {
  bool latent = false;  // of more than 8 bits
  bool wide = false;    // 32 bits
};

PlainRows plain_rows(quire_model* model, const quire_model_info& facts) {
  PlainRows rows;
  for (uint32_t i = 0; i < facts.num_caches; ++i) {
    client::Error error;
    auto layer = client::sized<quire_layer>();
    client::check(quire_model_get_layer(model, i, &layer, &error), error);
    if (layer.kind == QUIRE_LAYER_STATE || layer.kind == QUIRE_LAYER_INDEXER || layer.num_kv_heads == 0) continue;
    rows.wide |= layer.dtype.code == QUIRE_DTYPE_FLOAT && layer.dtype.bits == 32;
    rows.latent |= layer.kind == QUIRE_LAYER_MLA && layer.dtype.bits > 8;
  }
  return rows;
}

// The name of the rows' type. Under policy vllm those of DeepSeek-V4 have the one that vLLM takes by itself; where a checkpoint has 32
// bits, the config's type stays, and a note says what vLLM does.
std::string kv_type_name(quire_model* model, const PlanArguments& arguments, std::vector<std::string>* notes) {
  if (arguments.policy != "vllm" || !arguments.kv_dtype.empty()) return arguments.kv_dtype;
  client::Error error;
  auto facts = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model, &facts, &error), error);
  const PlainRows rows = plain_rows(model, facts);
  if (std::string(facts.architecture).starts_with("DeepseekV4") && rows.latent) {
    if (notes != nullptr) {
      notes->push_back(
          "the rows of DeepSeek-V4 are in 8 bits (fp8_ds_mla), as vLLM keeps them by itself; --kv-dtype bf16 plans the type of the config");
    }
    return "fp8";
  }
  if (rows.wide && notes != nullptr) {
    notes->push_back("vLLM computes checkpoints of 32 bits in bfloat16 unless asked otherwise; --kv-dtype bf16 plans that");
  }
  return "";
}

}  // namespace

bool keeps_types(quire_model* model, const PlanArguments& arguments) { return kv_type_name(model, arguments, nullptr).empty(); }

client::Model model_of(const PlanArguments& arguments) { return client::model_of_text(text_of(arguments), arguments.config); }

client::Config plan_of(quire_model* model, const PlanArguments& arguments, std::vector<std::string>* notes) {
  check_together(arguments);
  client::LayerPlan plan{client::sized<quire_plan_options>(), {}, {}, {}};
  const std::string text = client::read_model_text(arguments.config, arguments.as);
  if (client::is_layer_file(text)) plan = client::read_layer_plan(text, model);
  if (arguments.policy == "vllm" && plan.options.vllm.retained_tokens == 0) {
    plan.options.vllm.retained_tokens = retained_for(model, arguments);
  }
  const client::KvType type = client::kv_type_of(kv_type_name(model, arguments, notes));
  if (const std::string note = drafts_note(model, arguments); notes != nullptr && !note.empty()) notes->push_back(note);
  check_against_file(arguments, plan);
  client::Error error;
  auto facts = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model, &facts, &error), error);
  if (facts.max_model_len == 0 && arguments.max_len == 0) {
    throw std::runtime_error("'" + arguments.config + "' does not state its longest sequence; give it with --max-len");
  }
  quire_plan_options& options = plan.options;
  leave_to_vllm(arguments, &options, notes);
  if (notes != nullptr && !arguments.as.empty()) notes->push_back("the config is read as one of " + arguments.as + ", as --as asks");
  take_parallel(arguments, &plan);
  if (!arguments.speculative.empty() && plan.stage_layers.empty() && options.pipeline_parallel > 1) {
    plan.stage_layers = stages_with_drafts(model, options.pipeline_parallel);
  }
  if (arguments.contiguous) options.flags |= QUIRE_PLAN_CONTIGUOUS;
  if (!arguments.compat.empty()) options.vllm.flags |= QUIRE_VLLM_UPSTREAM;
  if (arguments.no_prefix_reuse) options.flags |= QUIRE_PLAN_NO_PREFIX_REUSE;
  if (arguments.fit == "length") options.flags |= QUIRE_PLAN_FIT_LENGTH;
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
  if (!arguments.state_mode.empty()) options.vllm.state_mode = state_modes().at(arguments.state_mode);
  options.kv_dtype = type.dtype;
  options.kv_scales = type.scales;
  plan.point();
  return client::plan(model, options);
}

quire_config_info info_of(quire_config* config) {
  client::Error error;
  auto info = client::sized<quire_config_info>();
  client::check(quire_config_get_info(config, &info, &error), error);
  return info;
}

}  // namespace quire::tools
