// hybrid_blocks.json: the block of attention layers beside recurrent states.
#include <algorithm>

#include "core/plan/vllm/hybrid_block.h"
#include "tests/golden/golden.h"

namespace quire::golden {
namespace {

uint64_t smallest_kernel_block(const json& sizes) {
  uint64_t smallest = ~uint64_t{0};
  for (const json& size : sizes)
    smallest = std::min(smallest, size.is_object() ? size.at("multiple_of").get<uint64_t>() : size.get<uint64_t>());
  return smallest;
}

const char* mode_name(StateMode mode) { return mode == StateMode::kOff ? "none" : mode == StateMode::kAlign ? "align" : "all"; }

// What the engine does before the rule: without reuse no checkpoints, and `all` only where the model supports it.
StateMode mode_of(const json& input) {
  if (!input.value("prefix_caching", false)) return StateMode::kOff;
  const std::string asked = input.value("mamba_cache_mode", std::string("none"));
  return asked == "all" && input.value("supports_all", false) ? StateMode::kAll : StateMode::kAlign;
}

uint64_t number_or_zero(const json& value) { return value.is_null() ? 0 : value.get<uint64_t>(); }

Outcome check_mixed_precision(const json& test) {
  const json& input = test.at("input");
  MixedPrecisionInput rule;
  rule.token_bytes = input.at("primary_token_bytes");
  rule.wide_token_bytes = input.at("padded_token_bytes");
  rule.block_tokens = input.at("block_size");
  rule.min_kernel_block = smallest_kernel_block(input.at("kernel_block_sizes"));
  rule.state_page = number_or_zero(input.value("mamba_page_size_padded", json()));
  auto aligned = align_precisions(rule);
  if (!aligned.ok()) return {aligned.status().message(), {}};
  const json& expect = test.at("expect");
  std::string difference = differs("block_size", expect.at("block_size"), aligned->block_tokens);
  if (difference.empty()) difference = differs("page", number_or_zero(expect.at("skip_page_size_padded")), aligned->page_bytes);
  const uint64_t state_page = aligned->page_bytes != 0 && rule.state_page != 0 ? aligned->page_bytes : rule.state_page;
  if (difference.empty()) difference = differs("state page", number_or_zero(expect.at("mamba_page_size_padded")), state_page);
  return {difference, {}};
}

}  // namespace

Outcome check_hybrid_block(const json& test) {
  if (test.at("rule") == "mixed_precision") return check_mixed_precision(test);
  if (test.at("rule") != "hybrid") return {"rule " + test.at("rule").get<std::string>() + " is not known", {}};
  const json& input = test.at("input");
  HybridBlockInput rule;
  rule.latent = input.value("use_mla", false);
  const std::string cache = input.at("cache_dtype");
  const uint64_t element = dtype_bytes(cache == "auto" ? input.at("model_dtype").get<std::string>() : cache);
  rule.token_bytes = (rule.latent ? 1 : 2) * input.at("num_kv_heads").get<uint64_t>() * input.at("head_size").get<uint64_t>() * element;
  const json& state = input.at("state");
  for (size_t i = 0; i < state.at("shapes").size(); ++i) {
    uint64_t bytes = dtype_bytes(state.at("dtypes")[i]);
    for (const json& extent : state.at("shapes")[i]) bytes *= extent.get<uint64_t>();
    rule.state_bytes += bytes;
  }
  rule.block_tokens = input.at("block_size");
  rule.min_kernel_block = smallest_kernel_block(input.at("kernel_block_sizes"));
  rule.max_model_len = input.at("max_model_len");
  rule.chunk_tokens = input.at("mamba_chunk_size");
  rule.mode = mode_of(input);
  if (rule.mode == StateMode::kAll) rule.state_block_tokens = input.value("mamba_block_size", uint64_t{0});
  const auto grown = grow_block(rule);
  if (!grown.ok()) return {grown.status().message(), {}};
  const json& expect = test.at("expect");
  std::string difference = differs("block_size", expect.at("block_size"), grown.value().block_tokens);
  if (difference.empty()) difference = differs("mamba_block_size", expect.at("mamba_block_size"), grown.value().state_block_tokens);
  if (difference.empty()) {
    const json& padded = expect.at("mamba_page_size_padded");
    difference = differs("page", padded.is_null() ? rule.state_bytes : padded.get<uint64_t>(), grown.value().page_bytes);
  }
  if (difference.empty() && expect.at("mamba_cache_mode") != mode_name(rule.mode))
    difference = std::string("mode is ") + mode_name(rule.mode);
  if (difference.empty() && test.contains("state_bytes")) difference = differs("state_bytes", test.at("state_bytes"), rule.state_bytes);
  return {difference, {}};
}

}  // namespace quire::golden
