#include "core/plan/capacity.h"

#include <algorithm>

#include "core/base/checked.h"

namespace quire {
namespace {

// Kept for a state: two steps in flight, the one being computed, one checkpoint.
constexpr uint64_t kStateSlots = 4;
constexpr uint64_t kMostSpacing = uint64_t{1} << 24;
constexpr double kSpacingWithoutTokens = 4096;  // models of states alone

// The largest x in [0, limit] with pages_at(x) <= pages; pages_at grows with x.
template <typename PagesAt>
uint64_t largest(uint64_t limit, uint64_t pages, PagesAt&& pages_at) {
  uint64_t low = 0;
  uint64_t high = limit;
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (pages_at(middle) <= pages) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

uint64_t blocks_needed(const GroupPlan& group, uint64_t max_tokens_in_flight, uint64_t tokens) {
  const uint64_t block = group.block_tokens;
  const LiveRange& live = group.live;
  if (live.state) return kStateSlots;
  if (live.fixed) return ceil_div(group.encoder_tokens, block);
  const uint64_t all = ceil_div(tokens, block);
  if (live.everything()) return all;
  // A live range that starts anywhere in a block touches one block more; the sinks stay beside it.
  const uint64_t most = ceil_div(live.longest_tail() + max_tokens_in_flight, block) + 1 + ceil_div(live.sink, block);
  return std::min(all, most);
}

uint64_t pages_needed(const GroupPlan& group, uint64_t blocks) {
  const uint64_t ids = group.ids_per_block;
  const uint64_t per_page = group.parts_per_page;
  const uint64_t parts = blocks * ids;  // tokens and caches are both bounded
  if (per_page == 1) return parts;
  // Blocks are laid down one behind the other. States come and go one by one, a range moves on: either touches one page more at an end.
  if (group.is_state()) return std::min(parts, blocks * (ceil_div(ids, per_page) + 1));
  return std::min(parts, ceil_div(parts, per_page) + (group.live.everything() || group.live.fixed ? 0 : 1));
}

uint64_t pages_of(const Config& config, uint64_t sequences, uint64_t tokens, bool packed) {
  uint64_t pages = 1;  // the null page
  for (const GroupPlan& group : config.groups) {
    const uint64_t blocks = blocks_needed(group, config.max_tokens_in_flight, tokens);
    const uint64_t one = packed ? blocks * group.ids_per_block : pages_needed(group, blocks);
    const auto all = checked_mul(one, sequences);
    const auto sum = all ? checked_add(pages, packed ? ceil_div(*all, group.parts_per_page) : *all) : std::nullopt;
    if (!sum) return kMaxSize;
    pages = *sum;
  }
  return pages;
}

Capacity capacity_of(const Config& config, uint64_t tokens, uint64_t concurrency) {
  Capacity out;
  out.tokens = tokens;
  out.concurrency = concurrency;
  const auto sequences = [&](bool packed) {
    return largest(config.num_pages, config.num_pages, [&](uint64_t n) { return pages_of(config, n, tokens, packed); });
  };
  const auto longest = [&](bool packed) {
    return largest(config.max_model_len, config.num_pages, [&](uint64_t n) { return pages_of(config, concurrency, n, packed); });
  };
  out.sequences = sequences(false);
  out.sequences_packed = sequences(true);
  out.longest = longest(false);
  out.longest_packed = longest(true);
  out.pages_needed = pages_of(config, concurrency, tokens, false);
  out.pages_needed_packed = pages_of(config, concurrency, tokens, true);
  uint64_t widest = 0;
  for (const ShardPlan& shard : config.shards) widest = std::max(widest, shard.page_bytes);
  out.bytes_needed = checked_mul(out.pages_needed, widest).value_or(kMaxSize);
  return out;
}

uint64_t checkpoint_spacing(double state_bytes, double token_bytes, uint64_t unit_tokens) {
  if (state_bytes == 0) return 0;
  const double equal = token_bytes > 0 ? state_bytes / token_bytes : kSpacingWithoutTokens;
  uint64_t tokens = unit_tokens;
  while (static_cast<double>(tokens) < equal && tokens < kMostSpacing) tokens *= 2;
  return tokens;
}

}  // namespace quire
