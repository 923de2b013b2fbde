// Policy vllm: the published sizes of a plan's pipeline stages, and their words.
#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "core/plan/vllm/published_plan.h"

namespace quire {
namespace {

std::string field(const char* name, uint64_t value) { return std::string("\"") + name + "\": " + std::to_string(value); }
std::string flag(const char* name, bool value) { return std::string("\"") + name + "\": " + (value ? "true" : "false"); }

template <typename List, typename Text>
std::string list(const char* name, const List& items, Text&& text) {
  std::string out = std::string("\"") + name + "\": [";
  for (size_t i = 0; i < items.size(); ++i) out += (i != 0 ? ", " : "") + text(items[i]);
  return out + "]";
}

class Words {
 public:
  explicit Words(const Sizing& sizing) : s_(sizing) {}

  std::string text() const {
    const PoolSize& pool = s_.pool;
    std::string out = "{" + field("max_model_len", pool.max_model_len) + ", " + field("num_blocks", pool.num_blocks) + ", " +
                      field("blocks_per_request", pool.blocks_per_request);
    if (pool.blocks_per_request != 0) {
      const uint64_t common = std::max<uint64_t>(std::gcd(pool.num_blocks, pool.blocks_per_request), 1);
      out += ", \"max_concurrency\": [" + std::to_string(pool.num_blocks / common) + ", " +
             std::to_string(pool.blocks_per_request / common) + "]";
      out += ", " + field("capacity_tokens", printed_tokens(pool));
    }
    if (const auto units = block_units(s_.grouping, s_.input); units.ok()) {
      out += ", " + field("schedule_tokens", units.value().schedule_tokens) + ", " + field("match_tokens", units.value().match_tokens);
    }
    if (!s_.refused.ok()) out += ", \"refused\": " + quoted(s_.refused.message());
    out += ", " + flag("has_states", has_states(s_.workers[0])) + ", " + flag("mixed_precision", mixed(s_.workers[0], true));
    out += ",\n    " + groups();
    out += ",\n    \"workers\": [";
    for (size_t w = 0; w < s_.workers.size(); ++w) out += (w != 0 ? ",\n      " : "\n      ") + worker(w);
    return out + "]}";
  }

 private:
  std::string cache(uint32_t spec) const { return std::to_string(s_.caches[spec]); }

  std::string groups() const {
    std::vector<uint32_t> all(s_.grouping.groups.size());
    std::iota(all.begin(), all.end(), 0u);
    return list("groups", all, [&](uint32_t g) {
      const CacheSpec& merged = s_.grouping.merged[g];
      const bool uniform = s_.grouping.uniform_type[g];
      uint64_t bytes = 0;
      for (const uint32_t i : s_.grouping.groups[g]) bytes += s_.specs[i].page_bytes();
      const auto width = table_width(merged, s_.input, s_.pool.max_model_len);
      return "{" + field("block_tokens", merged.block_tokens) + ", " + flag("uniform_type", uniform) + ", " +
             field("page_bytes", uniform ? bytes : merged.page_bytes()) + ", " + field("table_width", width.ok() ? width.value() : 0) +
             ", " + list("caches", s_.grouping.groups[g], [&](uint32_t i) { return cache(i); }) + ", " +
             list("layer_page_bytes", s_.grouping.groups[g], [&](uint32_t i) { return std::to_string(s_.specs[i].page_bytes()); }) + "}";
    });
  }

  std::string worker(size_t w) const {
    const WorkerSize& size = s_.pool.workers[w];
    const Worker& worker = s_.workers[w];
    return "{" + field("stage", w) + ", " + field("ranks", s_.ranks_per_stage) + ", " + field("needed_bytes", size.needed_bytes) + ", " +
           field("needed_bytes_by_layer", size.needed_bytes_by_layer) + ", " + field("bytes_per_block", size.pool_bytes_per_block) + ", " +
           "\"memory_bytes\": " + std::to_string(size.memory_bytes) + ", " + field("fitting_len", size.fitting_len) + ", " +
           flag("zeroes", has_states(worker) || mixed(worker, false)) + ", " +
           list("tensors", size.tensors,
                [&](const TensorRow& tensor) {
                  return "{" + field("bytes", tensor.bytes) + ", " + field("offset", tensor.offset) + ", " +
                         field("block_stride", tensor.block_stride) + ", " +
                         list("caches", tensor.shared_by, [&](uint32_t i) { return cache(i); }) + "}";
                }) +
           "}";
  }

  bool has_states(const Worker& worker) const {
    for (size_t g = 0; g < s_.grouping.groups.size(); ++g) {
      const CacheSpec* told = &s_.grouping.merged[g];
      for (const uint32_t i : s_.grouping.groups[g]) {
        if (!s_.grouping.uniform_type[g] || !worker.holds[i]) continue;
        told = &s_.specs[i];
        break;
      }
      if (!told->keeps_tokens()) return true;
    }
    return false;
  }

  bool mixed(const Worker& worker, bool first_of_group) const {
    return mixes_precision(s_.specs, s_.grouping, worker.holds, first_of_group);
  }

  const Sizing& s_;
};

}  // namespace

uint64_t printed_tokens(const PoolSize& pool) {
  if (pool.blocks_per_request == 0) return 0;
  const double concurrency = static_cast<double>(pool.num_blocks) / static_cast<double>(pool.blocks_per_request);
  return static_cast<uint64_t>(concurrency * static_cast<double>(pool.max_model_len));
}

std::shared_ptr<Sizing> size_stages(const PlanInput& input, std::vector<CacheSpec> specs, Grouping grouping, std::vector<uint32_t> caches,
                                    const std::vector<uint32_t>& stages) {
  auto out = std::make_shared<Sizing>();
  out->caches = std::move(caches);
  out->ranks_per_stage = input.ranks_per_stage();
  SizingInput& rule = out->input;
  rule.max_model_len = input.max_model_len;
  rule.in_flight_tokens = input.max_tokens_in_flight;
  rule.block_tokens = input.block_tokens;
  rule.encoder_tokens = input.encoder_tokens;
  for (const uint32_t cache : out->caches) {
    if (input.encoder_tokens == 0) rule.encoder_tokens = std::max(rule.encoder_tokens, input.model->caches()[cache].desc.encoder_tokens);
  }
  rule.context_parallel = input.context_parallel;
  rule.override_blocks = input.num_pages;
  rule.match_unit = input.match_unit;
  rule.state_mode = input.state_mode;
  rule.prefix_reuse = input.prefix_reuse;
  rule.transfers = input.transfers;
  rule.rows_of_all_layers = input.rows_of_all_layers;
  rule.fits_length = input.fits_length;
  rule.ranges_take_turns = input.rules == Rules::kRight;
  const auto of_one_rank = [&](CacheSpec* spec) {  // the published blocks are those of one context-parallel rank
    if (!spec->keeps_tokens() || spec->family == CacheFamily::kCross) return;
    spec->block_tokens /= input.context_parallel;
    spec->tokens_per_row /= input.context_parallel;
  };
  for (CacheSpec& spec : specs) of_one_rank(&spec);
  for (CacheSpec& spec : grouping.merged) of_one_rank(&spec);
  out->specs = std::move(specs);
  out->grouping = std::move(grouping);
  for (uint32_t stage = 0; stage < input.pipeline_parallel; ++stage) {
    Worker worker;
    uint64_t least = std::numeric_limits<int64_t>::max();
    for (uint32_t s = 0; s < input.memory_bytes.size(); ++s) {
      if (s / input.ranks_per_stage() == stage) least = std::min(least, input.memory_bytes[s]);
    }
    worker.memory_bytes = static_cast<int64_t>(least);
    for (const uint32_t mine : stages) worker.holds.push_back(mine == stage);
    out->workers.push_back(std::move(worker));
  }
  auto sized = size_pool(out->specs, out->grouping, out->workers, rule, input.rules, &out->pool);
  if (!sized.ok()) out->refused = sized.take_status();
  return out;
}

void size_again(uint64_t max_model_len, Rules rules, Sizing* sizing) {
  sizing->input.max_model_len = max_model_len;
  sizing->input.fits_length = false;
  sizing->refused = size_pool(sizing->specs, sizing->grouping, sizing->workers, sizing->input, rules, &sizing->pool).take_status();
}

std::string describe_sizing(const Sizing& sizing) { return Words(sizing).text(); }

}  // namespace quire
