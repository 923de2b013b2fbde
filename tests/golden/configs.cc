// configs.jsonl: which layers share a group, block and page of each group, and the number of blocks.
#include <algorithm>
#include <optional>
#include <set>

#include "core/plan/grouping.h"
#include "tests/golden/golden.h"

namespace quire::golden {
namespace {

std::optional<CacheFamily> family_of(const std::string& kind) {
  if (kind == "full") return CacheFamily::kFull;
  if (kind == "mla") return CacheFamily::kLatent;
  if (kind == "sliding_window") return CacheFamily::kWindow;
  if (kind == "chunked") return CacheFamily::kChunk;
  if (kind == "mamba") return CacheFamily::kState;
  if (kind == "cross") return CacheFamily::kCross;
  return std::nullopt;
}

// Everything that must be equal inside a group and has no field of its own.
std::vector<uint64_t> identity_of(json spec) {
  for (const char* own : {"kind", "block_size", "page_size_padded", "window", "chunk", "spec_blocks", "block_stride"}) spec.erase(own);
  const std::string text = spec.dump();
  return {text.begin(), text.end()};
}

uint64_t attention_page(const json& spec) {
  const uint64_t head = spec.at("head_size");
  const uint64_t value = spec.value("head_size_v", spec.at("kind") == "mla" ? uint64_t{0} : head);
  const uint64_t heads = spec.value("num_head_slots", spec.at("num_kv_heads").get<uint64_t>());
  const uint64_t cell = spec.value("state_content_bytes", (head + value) * dtype_bytes(spec.at("dtype")));
  return heads * cell * (spec.at("block_size").get<uint64_t>() / spec.value("compress_ratio", uint64_t{1}));
}

Outcome spec_of(const json& spec, const json& facts, CacheSpec* out) {
  const auto family = family_of(spec.at("kind"));
  if (!family) return {{}, "kind " + spec.at("kind").get<std::string>() + " is not built in"};
  if (spec.contains("alignment")) return {{}, "page alignment inside a spec is not built in"};
  out->family = *family;
  out->block_tokens = spec.at("block_size");
  out->padded_page = spec.value("page_size_padded", uint64_t{0});
  out->extra_blocks = spec.value("spec_blocks", uint64_t{0});
  out->strided_blocks = spec.value("block_stride", false);
  out->identity = identity_of(spec);
  if (*family == CacheFamily::kState) {
    for (size_t i = 0; i < spec.at("shapes").size(); ++i) {
      uint64_t bytes = dtype_bytes(spec.at("dtypes")[i]);
      for (const json& extent : spec.at("shapes")[i]) bytes *= extent.get<uint64_t>();
      out->state_bytes += bytes;
    }
  } else {
    const uint64_t page = attention_page(spec);
    if (page % out->block_tokens != 0) return {{}, "rows of a fraction of a token are not built in"};
    out->token_bytes = page / out->block_tokens;
    const uint64_t window = spec.value("window", uint64_t{0});
    const uint64_t chunk = spec.value("chunk", uint64_t{0});
    if (*family == CacheFamily::kFull || *family == CacheFamily::kLatent) {
      out->told_window = window;
      out->told_chunk = chunk;
    } else {
      out->range = *family == CacheFamily::kChunk ? chunk : window;
    }
  }
  return {differs("page_size_bytes of a spec", facts.at("page_size_bytes"), out->page_bytes()), {}};
}

// Layers in the order in which the workers' tables are merged.
std::vector<uint32_t> merged_order(const json& workers) {
  std::vector<uint32_t> order;
  std::set<uint32_t> seen;
  for (const json& worker : workers) {
    for (const json& layer : worker) {
      if (seen.insert(layer.get<uint32_t>()).second) order.push_back(layer);
    }
  }
  return order;
}

Outcome check_groups(const json& expect, const std::vector<CacheSpec>& specs, const Grouping& grouping,
                     const std::vector<uint32_t>& order) {
  std::string difference = differs("number of groups", expect.size(), grouping.groups.size());
  for (size_t g = 0; g < expect.size() && difference.empty(); ++g) {
    const std::string name = "group " + std::to_string(g);
    const std::vector<uint32_t> layers = expect[g].at("layers");
    std::vector<uint32_t> mine;
    uint64_t bytes = 0;
    for (const uint32_t i : grouping.groups[g]) {
      mine.push_back(order[i]);
      bytes += specs[i].page_bytes();
    }
    const CacheSpec& first = specs[grouping.groups[g][0]];
    if (mine != layers) difference = name + ": layers are " + json(mine).dump() + ", expected " + json(layers).dump();
    if (difference.empty()) difference = differs(name + " block_size", expect[g].at("block_size"), first.block_tokens);
    const uint64_t page = grouping.uniform_type ? bytes : first.page_bytes();
    if (difference.empty()) difference = differs(name + " page_size_bytes", expect[g].at("page_size_bytes"), page);
  }
  return {difference, {}};
}

Outcome check_blocks(const json& test, const std::vector<CacheSpec>& specs, const Grouping& grouping, const std::vector<uint32_t>& order) {
  const uint64_t override_blocks = test.at("options").value("num_gpu_blocks_override", uint64_t{0});
  uint64_t blocks = ~uint64_t{0};
  for (size_t w = 0; w < test.at("workers").size(); ++w) {
    std::vector<bool> mine(order.size());
    for (const json& layer : test.at("workers")[w]) {
      mine[static_cast<size_t>(std::find(order.begin(), order.end(), layer.get<uint32_t>()) - order.begin())] = true;
    }
    const uint64_t bytes = pool_bytes_per_block(specs, grouping, mine);
    std::string difference = differs("pool_bytes_per_block of worker " + std::to_string(w),
                                     test.at("expect").at("workers")[w].value("pool_bytes_per_block", bytes), bytes);
    if (!difference.empty()) return {difference, {}};
    const uint64_t available = test.at("available_memory")[w];
    blocks = std::min(blocks, bytes == 0 ? 1 : override_blocks != 0 ? override_blocks : available / bytes);
  }
  return {differs("num_blocks", test.at("expect").at("num_blocks"), blocks), {}};
}

}  // namespace

Outcome check_config(const json& test) {
  const std::vector<uint32_t> order = merged_order(test.at("workers"));
  std::vector<CacheSpec> specs;
  for (const uint32_t layer : order) {
    const size_t index = test.at("layers")[layer][1];
    CacheSpec spec;
    Outcome outcome = spec_of(test.at("specs")[index], test.at("spec_facts")[index], &spec);
    if (!outcome.skip.empty() || !outcome.difference.empty()) return outcome;
    spec.layer = layer;
    specs.push_back(std::move(spec));
  }
  const json& expect = test.at("expect");
  const std::string stage = expect.contains("error") ? expect.at("error").value("stage", std::string()) : "";
  const std::string reason = expect.contains("error") ? expect.at("error").value("reason", std::string()) : "";
  if (reason == "layer_spec_conflict") return {{}, "workers that disagree on a layer cannot be described to quire"};
  if (!test.at("options").value("hybrid_manager", true)) {
    const Status promoted = keep_everything(&specs);
    if (!promoted.ok()) return {stage == "groups" ? std::string() : promoted.message(), {}};
  }
  const auto grouping = group_layers(&specs);
  if (stage == "groups") return {grouping.ok() ? "accepted, expected " + reason : std::string(), {}};
  if (!grouping.ok()) return {grouping.status().message(), {}};
  Outcome outcome = check_groups(expect.at("groups"), specs, grouping.value(), order);
  if (!outcome.difference.empty() || !expect.contains("num_blocks")) return outcome;
  return check_blocks(test, specs, grouping.value(), order);
}

}  // namespace quire::golden
