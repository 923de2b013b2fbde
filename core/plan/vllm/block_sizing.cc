#include "core/plan/vllm/block_sizing.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <numeric>
#include <set>
#include <string>

namespace quire {
namespace {

uint64_t product(uint64_t a, uint64_t b) { return checked_mul(a, b).value_or(kMaxSize); }
uint64_t sum(uint64_t a, uint64_t b) { return checked_add(a, b).value_or(kMaxSize); }

enum class Shape { kNothing, kOneUniformType, kRows, kShared };

Shape shape_of(const Grouping& grouping, bool rows_of_all_layers) {
  if (grouping.groups.empty()) return Shape::kNothing;
  if (grouping.one_uniform_type()) return Shape::kOneUniformType;
  if (grouping.all_uniform_type() || (rows_of_all_layers && grouping.groups.size() > 1)) return Shape::kRows;
  return Shape::kShared;
}

class Sizer {
 public:
  Sizer(const std::vector<CacheSpec>& specs, const Grouping& grouping, const SizingInput& input)
      : specs_(specs), grouping_(grouping), in_(input), shape_(shape_of(grouping, input.rows_of_all_layers)) {}

  Shape shape() const { return shape_; }

  std::vector<uint32_t> layers_of(size_t group, const Worker& worker) const {
    std::vector<uint32_t> out;
    for (const uint32_t i : grouping_.groups[group]) {
      if (worker.holds[i]) out.push_back(i);
    }
    return out;
  }

  Result<uint64_t> needed(const Worker& worker, uint64_t length) const {
    switch (shape_) {
      case Shape::kNothing:
        return uint64_t{0};
      case Shape::kOneUniformType:
        return needed_by_layer(worker, length);
      case Shape::kRows:
        if (grouping_.all_uniform_type()) return needed_in_tuples(worker, length);
        break;
      case Shape::kShared:
        break;
    }
    uint64_t longest = 0;
    uint64_t blocks = 0;
    for (size_t g = 0; g < grouping_.groups.size(); ++g) {
      longest = std::max<uint64_t>(longest, layers_of(g, worker).size());
      auto most = worst_pages(g, layers_of(g, worker), length);
      if (!most.ok()) return most.take_status();
      blocks = sum(blocks, *most);
    }
    return product(product(longest, grouping_.merged[0].page_bytes()), blocks);
  }

  // Layers of the worker one by one, padding not counted.
  Result<uint64_t> needed_by_layer(const Worker& worker, uint64_t length) const {
    uint64_t bytes = 0;
    for (size_t g = 0; g < grouping_.groups.size(); ++g) {
      for (const uint32_t i : layers_of(g, worker)) {
        const CacheSpec& spec = grouping_.uniform_type[g] ? specs_[i] : grouping_.merged[g];
        auto blocks = worst_blocks(spec, in_, length);
        if (!blocks.ok()) return blocks.take_status();
        bytes = sum(bytes, product(*blocks, spec.page_bytes()));
      }
    }
    return bytes;
  }

  // Whole pages of a group, in units of one page of each of its layers.
  Result<uint64_t> worst_pages(size_t group, const std::vector<uint32_t>& layers, uint64_t length) const {
    if (!grouping_.uniform_type[group]) return worst_blocks(grouping_.merged[group], in_, length);
    uint64_t most = 0;
    for (const uint32_t i : layers) {
      auto blocks = worst_blocks(specs_[i], in_, length);
      if (!blocks.ok()) return blocks.take_status();
      most = std::max(most, *blocks);
    }
    return most;
  }

  // Tuples of the longest group, each as wide as one layer of every page size of the latent caches that keep everything.
  Result<uint64_t> needed_in_tuples(const Worker& worker, uint64_t length) const {
    uint64_t tuples = 0;
    uint64_t blocks = 0;
    for (size_t g = 0; g < grouping_.groups.size(); ++g) {
      const std::vector<uint32_t> layers = layers_of(g, worker);
      tuples = std::max(tuples, most_common_page(specs_, layers));
      auto most = worst_pages(g, layers, length);
      if (!most.ok()) return most.take_status();
      blocks = sum(blocks, *most);
    }
    std::set<uint64_t> sizes;
    for (const uint32_t i : layers_of(0, worker)) sizes.insert(specs_[i].page_bytes());
    uint64_t width = 0;
    for (const uint64_t size : sizes) width = sum(width, size);
    return product(product(tuples, blocks), width);
  }

  uint64_t bytes_per_block(const Worker& worker) const {
    uint64_t most = 0;
    for (size_t g = 0; g < grouping_.groups.size(); ++g) {
      uint64_t bytes = 0;
      for (const uint32_t i : layers_of(g, worker)) {
        bytes = sum(bytes, grouping_.uniform_type[g] ? specs_[i].page_bytes() : grouping_.merged[g].page_bytes());
      }
      most = std::max(most, bytes);
    }
    return most;
  }

  // Longest request whose needed bytes are in `memory`, by bisection.
  uint64_t fitting_len(const Worker& worker, int64_t memory, uint64_t limit) const {
    const auto fits = [&](uint64_t length) {
      auto bytes = needed(worker, length);
      return bytes.ok() && memory >= 0 && *bytes <= static_cast<uint64_t>(memory);
    };
    if (!fits(1)) return 0;
    uint64_t low = 1;
    uint64_t high = std::max<uint64_t>(limit, 1);
    while (low < high) {
      const uint64_t middle = low + (high - low + 1) / 2;
      fits(middle) ? low = middle : high = middle - 1;
    }
    return low;
  }

  std::vector<TensorRow> tensors(const Worker& worker, uint64_t num_blocks) const {
    std::vector<TensorRow> out;
    if (shape_ == Shape::kOneUniformType) {
      for (const uint32_t i : layers_of(0, worker)) out.push_back({product(specs_[i].page_bytes(), num_blocks), 0, 0, {i}});
    } else if (shape_ == Shape::kRows) {
      const uint64_t stride = bytes_per_block(worker);
      std::map<uint64_t, std::vector<uint32_t>> at;  // by offset in the row
      for (size_t g = 0; g < grouping_.groups.size(); ++g) {
        uint64_t offset = 0;
        for (const uint32_t i : layers_of(g, worker)) {
          at[offset].push_back(i);
          offset = sum(offset, grouping_.uniform_type[g] ? specs_[i].page_bytes() : grouping_.merged[g].page_bytes());
        }
      }
      for (auto& [offset, layers] : at) out.push_back({product(stride, num_blocks), offset, stride, std::move(layers)});
    } else if (shape_ == Shape::kShared) {
      for (size_t g = 0; g < grouping_.groups.size(); ++g) {
        const std::vector<uint32_t> layers = layers_of(g, worker);
        if (layers.size() > out.size()) out.resize(layers.size());
        for (size_t i = 0; i < layers.size(); ++i) out[i].shared_by.push_back(layers[i]);
      }
      for (TensorRow& tensor : out) tensor.bytes = product(grouping_.merged[0].page_bytes(), num_blocks);
    }
    return out;
  }

 private:
  const std::vector<CacheSpec>& specs_;
  const Grouping& grouping_;
  const SizingInput& in_;
  Shape shape_;
};

// shortest: bytes of a request of one token. No max_model_len helps.
Status not_one_token(const WorkerSize& size, size_t worker, uint64_t null_bytes, uint64_t shortest) {
  return fail(QUIRE_RESOURCE_EXHAUSTED,
              "worker %zu: not one token fits: a request of one token, with its states, needs %" PRIu64 " bytes, the null page %" PRIu64
              "; memory_bytes is %" PRId64,
              worker, shortest, null_bytes, size.memory_bytes);
}

Status check_memory(const WorkerSize& size, size_t worker, uint64_t max_model_len, uint64_t null_bytes, uint64_t shortest) {
  if (size.memory_bytes <= 0) {
    return fail(QUIRE_RESOURCE_EXHAUSTED, "memory_bytes of worker %zu is %" PRId64 "; no memory is left for blocks", worker,
                size.memory_bytes);
  }
  const uint64_t needed = sum(size.needed_bytes, null_bytes);
  const bool fits = max_model_len == 0 ? size.fitting_len != 0 : needed <= static_cast<uint64_t>(size.memory_bytes);
  if (fits) return {};
  if (size.fitting_len == 0) return not_one_token(size, worker, null_bytes, shortest);
  return fail(QUIRE_RESOURCE_EXHAUSTED,
              "worker %zu: one request of max_model_len = %" PRIu64 " needs %" PRIu64 " bytes, memory_bytes is %" PRId64 "; %" PRIu64
              " tokens would fit: lower max_model_len or set QUIRE_PLAN_FIT_LENGTH",
              worker, max_model_len, needed, size.memory_bytes, size.fitting_len);
}

Status check_holders(const PoolSize& pool) {
  for (size_t w = 0; w < pool.workers.size(); ++w) {
    if (pool.workers[w].pool_bytes_per_block == 0) return invalid("worker %zu holds no layer of any group", w);
  }
  return {};
}

}  // namespace

Result<uint64_t> worst_blocks(const CacheSpec& spec, const SizingInput& input, uint64_t max_model_len) {
  const uint64_t block = std::max<uint64_t>(spec.block_tokens, 1);
  const uint64_t ranks = std::max<uint64_t>(input.context_parallel, 1);
  switch (spec.family) {
    case CacheFamily::kWindow:
    case CacheFamily::kLatentWindow:
      if (ranks != 1 && !input.ranges_take_turns) {
        return invalid("layer %u: context_parallel = %" PRIu64 "; windows are sized for 1 rank only", spec.layer, ranks);
      }
      return ceil_div(std::min(spec.range - 1 + spec.extra_retained + input.in_flight_tokens, max_model_len), product(block, ranks)) + 1;
    case CacheFamily::kChunk:
      return ceil_div(std::min(spec.range + input.in_flight_tokens, max_model_len), product(block, input.ranges_take_turns ? ranks : 1));
    case CacheFamily::kState:
      if (input.state_mode == StateMode::kAll) return ceil_div(max_model_len, block) + spec.extra_blocks;
      return (input.state_mode == StateMode::kAlign ? 2 : 1) + spec.extra_blocks;
    case CacheFamily::kCross:
      return ceil_div(input.encoder_tokens, block);
    case CacheFamily::kEncoder:
      return uint64_t{0};
    default:
      return ceil_div(ceil_div(max_model_len, ranks), block);
  }
}

Result<PoolSize> size_pool(const std::vector<CacheSpec>& specs, const Grouping& grouping, const std::vector<Worker>& workers,
                           const SizingInput& input, Rules rules, PoolSize* so_far) {
  PoolSize own;
  PoolSize& out = so_far != nullptr ? *so_far : own;
  out = {};
  out.max_model_len = input.max_model_len;
  const Sizer sizer(specs, grouping, input);
  Status refused;
  for (const Worker& worker : workers) {
    WorkerSize size;
    size.pool_bytes_per_block = sizer.bytes_per_block(worker);
    size.memory_bytes = worker.memory_bytes;
    if (input.override_blocks != 0 && !grouping.groups.empty()) {
      size.memory_bytes = static_cast<int64_t>(product(input.override_blocks, size.pool_bytes_per_block));
    }
    const uint64_t null_block = rules == Rules::kUpstream ? 0 : std::min(size.pool_bytes_per_block, kMaxSize / 2);
    size.fitting_len = sizer.fitting_len(worker, size.memory_bytes - static_cast<int64_t>(null_block), input.max_model_len);
    out.workers.push_back(std::move(size));
  }
  if (input.fits_length && !grouping.groups.empty()) {
    for (const WorkerSize& size : out.workers) out.max_model_len = std::min(out.max_model_len, size.fitting_len);
  }
  const uint64_t counted = std::max<uint64_t>(out.max_model_len, out.max_model_len == 0 ? input.max_model_len : 1);
  for (size_t w = 0; w < workers.size(); ++w) {
    auto needed = sizer.needed(workers[w], counted);
    auto by_layer = sizer.needed_by_layer(workers[w], counted);
    if (!needed.ok() && refused.ok()) refused = Status(needed.status().code(), needed.status().message());
    if (needed.ok()) out.workers[w].needed_bytes = *needed;
    if (by_layer.ok()) out.workers[w].needed_bytes_by_layer = *by_layer;
  }
  QUIRE_RETURN_IF_ERROR(std::move(refused));
  if (input.override_blocks != 0) QUIRE_RETURN_IF_ERROR(check_holders(out));
  const bool any = !grouping.groups.empty();
  Status too_small;
  for (size_t w = 0; w < workers.size() && any; ++w) {
    const uint64_t null_block = rules == Rules::kUpstream ? 0 : out.workers[w].pool_bytes_per_block;
    auto shortest = sizer.needed(workers[w], 1);
    if (too_small.ok()) too_small = check_memory(out.workers[w], w, out.max_model_len, null_block, shortest.ok() ? *shortest : 0);
    if (out.workers[w].memory_bytes <= 0) return too_small;
  }
  if (out.max_model_len == 0 && too_small.ok()) too_small = fail(QUIRE_RESOURCE_EXHAUSTED, "max_model_len: not one token fits");
  if (out.max_model_len == 0) return too_small;
  if (any && !check_holders(out).ok()) return too_small.ok() ? check_holders(out) : std::move(too_small);
  out.num_blocks = any ? kMaxSize : 1;
  for (size_t w = 0; w < workers.size() && any; ++w) {
    const WorkerSize& size = out.workers[w];
    const uint64_t fits = static_cast<uint64_t>(size.memory_bytes) / size.pool_bytes_per_block;
    out.num_blocks = std::min(out.num_blocks, input.override_blocks != 0 ? input.override_blocks : fits);
  }
  for (size_t w = 0; w < workers.size(); ++w) out.workers[w].tensors = sizer.tensors(workers[w], out.num_blocks);
  for (size_t g = 0; g < grouping.groups.size(); ++g) {
    auto pages = sizer.worst_pages(g, grouping.groups[g], out.max_model_len);
    if (!pages.ok()) return pages.take_status();
    out.blocks_per_request = sum(out.blocks_per_request, *pages);
  }
  QUIRE_RETURN_IF_ERROR(std::move(too_small));
  return out;
}

uint64_t pool_bytes_per_block(const std::vector<CacheSpec>& specs, const Grouping& grouping, const std::vector<bool>& mine,
                              bool rows_of_all_layers) {
  SizingInput input;
  input.rows_of_all_layers = rows_of_all_layers;
  return Sizer(specs, grouping, input).bytes_per_block({mine, 0});
}

bool mixes_precision(const std::vector<CacheSpec>& specs, const Grouping& grouping, const std::vector<bool>& holds, bool first_of_group) {
  std::set<uint64_t> seen;
  for (size_t g = 0; g < grouping.groups.size(); ++g) {
    if (!grouping.uniform_type[g]) {  // told by the group, whether or not the worker has a layer of it
      if (grouping.merged[g].precision != 0) seen.insert(grouping.merged[g].precision);
      continue;
    }
    for (const uint32_t i : grouping.groups[g]) {
      if (!holds[i] || specs[i].precision == 0) continue;
      seen.insert(specs[i].precision);
      if (first_of_group) break;
    }
  }
  return seen.size() > 1;
}

Result<BlockUnits> block_units(const Grouping& grouping, const SizingInput& input) {
  const uint64_t ranks = std::max<uint64_t>(input.context_parallel, 1);
  BlockUnits out;
  const uint64_t block = grouping.groups.empty() ? input.block_tokens : grouping.merged[0].block_tokens;
  out.schedule_tokens = out.match_tokens = product(block, ranks);
  if (grouping.groups.size() <= 1) return out;
  out.schedule_tokens = 1;
  uint64_t unit = 0;
  bool every_boundary = true;  // states kept elsewhere than at block boundaries cannot be matched below the schedule's step
  for (const CacheSpec& spec : grouping.merged) {
    const uint64_t tokens = spec.keeps_tokens() ? product(spec.block_tokens, ranks) : spec.block_tokens;
    out.schedule_tokens = product(out.schedule_tokens / std::gcd(out.schedule_tokens, tokens), tokens);
    unit = std::gcd(unit, tokens);
    every_boundary &= spec.keeps_tokens() || spec.state_mode == StateMode::kAlign;
  }
  out.match_tokens = out.schedule_tokens;
  if ((!input.prefix_reuse && !input.transfers) || !every_boundary) return out;
  out.match_tokens = input.match_unit != 0 ? input.match_unit : unit;
  for (const CacheSpec& spec : grouping.merged) {
    const uint64_t tokens = spec.keeps_tokens() ? product(spec.block_tokens, ranks) : spec.block_tokens;
    if (tokens % out.match_tokens == 0) continue;
    return invalid("match_unit = %" PRIu64 "; must divide the block of %" PRIu64 " tokens of layer %u", out.match_tokens, tokens,
                   spec.layer);
  }
  return out;
}

Result<uint64_t> table_width(const CacheSpec& spec, const SizingInput& input, uint64_t max_model_len) {
  const uint64_t block = std::max<uint64_t>(spec.block_tokens, 1);
  if (spec.family == CacheFamily::kState) {
    if (spec.state_mode == StateMode::kAlign) return ceil_div(max_model_len, block) + spec.extra_blocks;
    return worst_blocks(spec, input, max_model_len);
  }
  return ceil_div(max_model_len, product(block, std::max<uint64_t>(input.context_parallel, 1)));
}

Result<MergedLayers> merge_workers(const std::vector<std::string>& names, const std::vector<CacheSpec>& specs,
                                   const std::vector<std::vector<uint32_t>>& workers) {
  MergedLayers out;
  std::map<std::string, uint32_t> seen;
  for (const std::vector<uint32_t>& worker : workers) {
    for (const uint32_t i : worker) {
      const auto [it, fresh] = seen.emplace(names[i], i);
      if (fresh) {
        out.order.push_back(i);
      } else if (!same_spec(specs[it->second], specs[i])) {
        return invalid("layer %s: two workers give it different specs", names[i].c_str());
      }
    }
  }
  return out;
}

}  // namespace quire
