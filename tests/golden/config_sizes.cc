// configs.jsonl, second half: bytes, tensors, blocks, units and concurrency of grouped layers.
#include <algorithm>
#include <numeric>

#include "tests/golden/configs.h"

namespace quire::golden {
namespace {

json tensors_json(const ConfigCase& one, const std::vector<TensorRow>& tensors) {
  json out = json::array();
  for (const TensorRow& tensor : tensors) {
    json row = {{"size", tensor.bytes}, {"shared_by", one.file_layers(tensor.shared_by)}};
    if (tensor.offset != 0 || tensor.block_stride != 0) row["offset"] = tensor.offset;
    if (tensor.block_stride != 0) row["block_stride"] = tensor.block_stride;
    out.push_back(std::move(row));
  }
  return out;
}

// Absent fields of a tensor are zero.
json plain(json tensors) {
  for (json& tensor : tensors) {
    for (const char* field : {"offset", "block_stride"}) {
      if (tensor.contains(field) && tensor[field] == 0) tensor.erase(field);
    }
  }
  return tensors;
}

std::string check_worker(const ConfigCase& one, const json& expect, size_t w, const PoolSize& pool) {
  const WorkerSize& size = pool.workers[w];
  const std::string name = "worker " + std::to_string(w) + " ";
  std::string difference;
  const auto compare = [&](const char* field, const json& is) {
    if (difference.empty() && expect.contains(field) && !expect.at(field).is_string()) {
      difference = differ(name + field, expect.at(field), is);
    }
  };
  compare("needed_bytes", size.needed_bytes);
  compare("needed_bytes_per_layer_sum", size.needed_bytes_by_layer);
  compare("pool_bytes_per_block", size.pool_bytes_per_block);
  compare("effective_memory", size.memory_bytes);
  compare("estimated_max_model_len", size.fitting_len);
  if (!difference.empty() || !expect.contains("groups")) return difference;
  json groups = json::array();
  json drafted = json::array();
  const std::vector<bool> drafts = drafted_groups(one.specs, one.grouping);
  for (size_t g = 0; g < one.grouping.groups.size(); ++g) {
    std::vector<uint32_t> mine;
    for (const uint32_t i : one.grouping.groups[g]) {
      if (one.workers[w].holds[i]) mine.push_back(i);
    }
    if (drafts[g] && !mine.empty() && one.test->at("options").contains("spec_decode") &&
        one.test->at("options").at("spec_decode").value("eagle", false)) {
      drafted.push_back(g);
    }
    groups.push_back(one.file_layers(mine));
  }
  compare("groups", groups);
  compare("eagle_groups", drafted);
  if (difference.empty()) difference = differ(name + "tensors", plain(expect.at("tensors")), plain(tensors_json(one, size.tensors)));
  return difference;
}

// The scheduler sees worker 0's groups, and of a uniform type its first layer.
std::string check_scheduler(const ConfigCase& one, const json& expect, const PoolSize& pool) {
  json groups = json::array();
  json widths = json::array();
  bool has_state = false;
  for (size_t g = 0; g < one.grouping.groups.size(); ++g) {
    CacheSpec spec = one.grouping.merged[g];
    auto width = table_width(spec, one.input, pool.max_model_len);
    if (!width.ok()) return width.status().message();
    widths.push_back(*width);
    if (one.grouping.uniform_type[g]) {
      for (const uint32_t i : one.grouping.groups[g]) {
        if (!one.workers[0].holds[i]) continue;
        spec = one.specs[i];
        break;
      }
    }
    has_state |= !spec.keeps_tokens();
    groups.push_back({{"block_size", spec.block_tokens}, {"page_size_bytes", spec.page_bytes()}});
  }
  const bool mixed = mixes_precision(one.specs, one.grouping, one.workers[0].holds, true);
  json zeroing = json::array();
  for (const Worker& worker : one.workers) zeroing.push_back(has_state || mixes_precision(one.specs, one.grouping, worker.holds, false));
  std::string difference = differ("scheduler_groups", expect.at("scheduler_groups"), groups);
  if (difference.empty()) difference = differ("has_mamba", expect.at("has_mamba"), has_state);
  if (difference.empty()) difference = differ("mixed_precision", expect.at("mixed_precision"), mixed);
  if (difference.empty()) difference = differ("needs_zeroing", expect.at("needs_zeroing"), has_state || mixed);
  if (difference.empty()) difference = differ("worker_needs_zeroing", expect.at("worker_needs_zeroing"), zeroing);
  if (difference.empty()) difference = differ("table_width", expect.at("table_width"), widths);
  return difference;
}

std::string check_units(const ConfigCase& one, const json& expect) {
  auto units = block_units(one.grouping, one.input);
  if (expect.contains("block_size_error")) return units.ok() ? "block units accepted, expected a refusal" : "";
  if (!units.ok()) return units.status().message();
  std::string difference = differ("scheduler_block_size", expect.at("scheduler_block_size"), units->schedule_tokens);
  if (difference.empty()) difference = differ("hash_block_size", expect.at("hash_block_size"), units->match_tokens);
  return difference;
}

std::string check_concurrency(const json& expect, const PoolSize& pool) {
  if (!expect.contains("max_concurrency")) return {};
  const uint64_t common = std::gcd(pool.num_blocks, pool.blocks_per_request);
  const json ratio = {pool.num_blocks / common, pool.blocks_per_request / common};
  std::string difference = differ("max_concurrency", expect.at("max_concurrency"), ratio);
  if (difference.empty()) difference = differ("blocks_per_request", expect.at("blocks_per_request"), pool.blocks_per_request);
  const double concurrency = static_cast<double>(pool.num_blocks) / static_cast<double>(pool.blocks_per_request);
  const auto tokens = static_cast<uint64_t>(concurrency * static_cast<double>(pool.max_model_len));
  if (difference.empty()) difference = differ("capacity_tokens", expect.at("capacity_tokens"), tokens);
  return difference;
}

// Layers that read another's cache join its group, by name; a target that no worker holds is an error.
std::string check_sharing(const ConfigCase& one, const json& expect) {
  if (!one.test->contains("kv_sharing") || !expect.contains("runner_group_names")) return {};
  json names = json::array();
  for (const auto& group : one.grouping.groups) {
    json list = json::array();
    for (const uint32_t layer : one.file_layers(group)) list.push_back(one.test->at("layers")[layer][0]);
    names.push_back(std::move(list));
  }
  bool missing = false;
  for (const json& pair : one.test->at("kv_sharing")) {
    const auto group = std::find_if(names.begin(), names.end(),
                                    [&](const json& list) { return std::find(list.begin(), list.end(), pair[1]) != list.end(); });
    missing |= group == names.end();
    if (group != names.end()) group->push_back(pair[0]);
  }
  return differ("runner_group_names", expect.at("runner_group_names"), missing ? json("KeyError") : names);
}

}  // namespace

std::string check_sizes(const ConfigCase& one) {
  const json& expect = one.test->at("expect");
  PoolSize pool;
  auto sized = size_pool(one.specs, one.grouping, one.workers, one.input, Rules::kUpstream, &pool);
  if (expect.contains("workers")) {
    for (size_t w = 0; w < expect.at("workers").size(); ++w) {
      std::string difference = check_worker(one, expect.at("workers")[w], w, pool);
      if (!difference.empty()) return difference;
    }
  }
  if (expect.contains("error")) {
    const std::string reason = expect.at("error").at("reason");
    if (sized.ok()) return "accepted, expected " + reason;
    const bool of_memory = reason == "does_not_fit_one_request" || reason == "no_memory" || reason == "auto_fit_zero";
    return of_memory == (sized.status().code() == QUIRE_RESOURCE_EXHAUSTED) ? "" : reason + ": " + sized.status().message();
  }
  if (!sized.ok()) return sized.status().message();
  std::string difference = differ("max_model_len", expect.value("max_model_len", pool.max_model_len), pool.max_model_len);
  if (difference.empty()) difference = differ("num_blocks", expect.at("num_blocks"), pool.num_blocks);
  if (difference.empty() && expect.contains("scheduler_groups")) difference = check_scheduler(one, expect, pool);
  if (difference.empty() && (expect.contains("hash_block_size") || expect.contains("block_size_error")))
    difference = check_units(one, expect);
  if (difference.empty()) difference = check_concurrency(expect, pool);
  return difference.empty() ? check_sharing(one, expect) : difference;
}

}  // namespace quire::golden
