// configs.jsonl: which layers share a group, block and page of each group, and (config_sizes.cc) what workers allocate.
#include "tests/golden/configs.h"

#include <algorithm>

namespace quire::golden {
namespace {

std::string check_facts(const json& facts, const CacheSpec& spec, const SizingInput& input) {
  std::string difference = differ("page_size_bytes of a spec", facts.at("page_size_bytes"), spec.page_bytes());
  if (!difference.empty()) return difference;
  const uint64_t rows = spec.keeps_tokens() ? spec.block_tokens / spec.tokens_per_row : spec.block_tokens;
  difference = differ("storage_block_size", facts.value("storage_block_size", rows), rows);
  if (!difference.empty() || !facts.contains("max_blocks_per_request")) return difference;
  auto blocks = worst_blocks(spec, input, input.max_model_len);
  const json& expected = facts.at("max_blocks_per_request");
  if (expected.is_string()) return blocks.ok() ? "max_blocks_per_request: accepted, expected " + expected.get<std::string>() : "";
  return blocks.ok() ? differ("max_blocks_per_request", expected, *blocks) : blocks.status().message();
}

SizingInput input_of(const json& options) {
  SizingInput input;
  input.max_model_len = options.value("max_model_len", uint64_t{131072});
  input.in_flight_tokens = options.value("max_num_batched_tokens", uint64_t{8192}) * options.value("concurrent_batches", uint64_t{1});
  input.block_tokens = options.value("block_size", uint64_t{16});
  input.encoder_tokens = options.value("max_encoder_tokens", uint64_t{0});
  input.context_parallel = options.value("dcp", uint64_t{1});
  input.override_blocks = options.value("num_gpu_blocks_override", uint64_t{0});
  input.match_unit = options.value("prefix_match_unit", uint64_t{0});
  input.state_mode = state_mode_of(options.value("mamba_cache_mode", std::string("none")));
  input.prefix_reuse = options.value("prefix_caching", false);
  input.transfers = options.contains("connector") && !options.at("connector").is_null();
  input.rows_of_all_layers = input.transfers && options.at("connector").value("cross_layers", false);
  input.fits_length = options.value("auto_fit", false);
  return input;
}

// Windows keep a few tokens more when several draft modules read behind each other.
uint64_t extra_retained(const json& options) {
  if (!options.contains("spec_decode") || options.at("spec_decode").is_null()) return 0;
  const json& drafts = options.at("spec_decode");
  return drafts.value("multi_module_mtp", false) ? drafts.value("num_tokens", uint64_t{1}) - 1 : 0;
}

// A group's kind and window in events; a uniform type has its layers' when they agree.
std::pair<std::string, json> event_of(const ConfigCase& one, size_t g) {
  std::vector<CacheSpec> specs{one.grouping.merged[g]};
  if (one.grouping.uniform_type[g]) {
    specs.clear();
    for (const uint32_t i : one.grouping.groups[g]) specs.push_back(one.specs[i]);
  }
  std::string kind = event_kind(specs[0].family);
  const uint64_t window = is_window(specs[0].family) ? specs[0].range : 0;
  bool one_window = true;
  for (const CacheSpec& spec : specs) {
    if (kind != event_kind(spec.family))
      kind = keeps_every_token(spec.family) && keeps_every_token(specs[0].family) ? "full_attention" : "unknown";
    one_window &= is_window(spec.family) && spec.range == window;
  }
  return {kind, window != 0 && one_window ? json(window) : json()};
}

std::string check_group(const ConfigCase& one, const json& expect, size_t g, bool drafted) {
  const std::string name = "group " + std::to_string(g) + " ";
  uint64_t bytes = 0;
  json pages = json::array();
  for (const uint32_t i : one.grouping.groups[g]) {
    bytes += one.specs[i].page_bytes();
    pages.push_back(one.specs[i].page_bytes());
  }
  const CacheSpec& merged = one.grouping.merged[g];
  const bool uniform = one.grouping.uniform_type[g];
  const auto [kind, window] = event_of(one, g);
  std::string difference = differ(name + "layers", expect.at("layers"), one.file_layers(one.grouping.groups[g]));
  const auto compare = [&](const char* field, const json& is) {
    if (difference.empty() && expect.contains(field)) difference = differ(name + field, expect.at(field), is);
  };
  compare("block_size", merged.block_tokens);
  compare("page_size_bytes", uniform ? bytes : merged.page_bytes());
  compare("event_kind", kind);
  compare("event_window", window);
  compare("uniform_type", uniform);
  compare("layer_page_size_bytes", pages);
  if (difference.empty()) difference = differ(name + "is_eagle", expect.value("is_eagle", false), drafted);
  if (!difference.empty() || !expect.contains("spec")) return difference;
  const json& spec = expect.at("spec");
  const auto read = spec_of(spec);
  if (!read.ok()) return name + "spec: " + read.status().message();
  const CacheSpec& told = read.value();
  if (told.family != merged.family) return name + "spec: another kind than " + spec.at("kind").get<std::string>();
  difference = differ(name + "window", told.told_window + told.range, merged.told_window + merged.range);
  if (difference.empty()) difference = differ(name + "chunk", told.told_chunk, merged.told_chunk);
  return difference.empty() ? differ(name + "sink_len", told.sink_tokens, merged.sink_tokens) : difference;
}

std::string check_groups(const ConfigCase& one) {
  const json& expect = one.test->at("expect").at("groups");
  const json& options = one.test->at("options");
  const bool drafts = options.contains("spec_decode") && options.at("spec_decode").value("eagle", false);
  const std::vector<bool> drafted = drafted_groups(one.specs, one.grouping);
  std::string difference = differ("number of groups", expect.size(), one.grouping.groups.size());
  for (size_t g = 0; g < expect.size() && difference.empty(); ++g) difference = check_group(one, expect[g], g, drafts && drafted[g]);
  return difference;
}

// Layers of all workers, and who holds which. Not ok when workers disagree.
Status merge(const json& test, const std::vector<CacheSpec>& layers, ConfigCase* one) {
  std::vector<std::string> names;
  for (const json& layer : test.at("layers")) names.push_back(layer[0]);
  const std::vector<std::vector<uint32_t>> workers = test.at("workers");
  auto merged = merge_workers(names, layers, workers);
  if (!merged.ok()) return merged.take_status();
  one->order = merged->order;
  for (size_t w = 0; w < workers.size(); ++w) {
    Worker worker{{}, test.at("available_memory")[w]};
    for (const uint32_t layer : one->order) {
      worker.holds.push_back(std::any_of(workers[w].begin(), workers[w].end(), [&](uint32_t i) { return names[i] == names[layer]; }));
    }
    one->workers.push_back(std::move(worker));
  }
  for (const uint32_t layer : one->order) {
    one->specs.push_back(layers[layer]);
    one->specs.back().layer = layer;
  }
  return {};
}

Status group(const json& options, ConfigCase* one) {
  for (CacheSpec& spec : one->specs) {
    if (is_window(spec.family)) spec.extra_retained = extra_retained(options);
  }
  if (!options.value("hybrid_manager", true)) QUIRE_RETURN_IF_ERROR(keep_everything(&one->specs, Rules::kUpstream));
  auto grouping = group_layers(&one->specs, Rules::kUpstream);
  if (!grouping.ok()) return grouping.take_status();
  one->grouping = std::move(*grouping);
  return {};
}

}  // namespace

std::string differ(const std::string& name, const json& expected, const json& is) {
  if (expected == is) return {};
  return name + ": expected " + expected.dump() + ", is " + is.dump();
}

Outcome check_config(const json& test) {
  ConfigCase one;
  one.test = &test;
  one.input = input_of(test.at("options"));
  std::vector<CacheSpec> layers;
  for (const json& layer : test.at("layers")) {
    const size_t index = layer[1];
    auto read = spec_of(test.at("specs")[index]);
    if (!read.ok()) return {read.status().message(), {}};
    layers.push_back(std::move(*read));
    std::string difference = check_facts(test.at("spec_facts")[index], layers.back(), one.input);
    if (!difference.empty()) return {difference, {}};
  }
  const json& expect = test.at("expect");
  Status grouped = merge(test, layers, &one);
  if (grouped.ok()) grouped = group(test.at("options"), &one);
  const bool refused = expect.contains("error") && expect.at("error").value("stage", std::string()) == "groups";
  if (refused) return {grouped.ok() ? "accepted, expected " + expect.at("error").at("reason").get<std::string>() : "", {}};
  if (!grouped.ok()) return {grouped.message(), {}};
  std::string difference = check_groups(one);
  const bool sized = expect.contains("num_blocks") || expect.contains("workers");
  return {difference.empty() && sized ? check_sizes(one) : difference, {}};
}

}  // namespace quire::golden
