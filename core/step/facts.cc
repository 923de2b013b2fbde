#include "core/step/facts.h"

#include <numeric>

#include "core/base/checked.h"
#include "core/step/kv_cache.h"
#include "core/step/step_bytes.h"

namespace quire {
namespace {

constexpr uint32_t kKeepAll = QUIRE_KEEP_EVERY | QUIRE_KEEP_CHUNK_END | QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION | QUIRE_KEEP_ASKED;

uint32_t or_default(uint32_t value, uint32_t fallback) { return value == 0 ? fallback : value; }

// Whole blocks between the sinks and a token that comes after them.
Stretch blocks_before(const GroupFacts& group, uint64_t sink_end, uint64_t token) {
  Stretch blocks{static_cast<uint32_t>(group.block.ceil(sink_end)), static_cast<uint32_t>(group.block.quotient(token))};
  blocks.end = std::max(blocks.first, blocks.end);
  return blocks;
}

}  // namespace

bool KeptBoundaries::has(uint64_t end) const { return end > 0 && (end == prompt_end || end == asked || end == branch_point); }

Result<Limits> read_limits(const quire_cache_options& o) {
  Limits l;
  l.max_sequences = or_default(o.max_sequences, 256);
  l.max_entries = or_default(o.max_entries_per_step, l.max_sequences);
  l.max_tokens = or_default(o.max_tokens_per_step, 8192);
  l.depth = or_default(o.step_depth, 2);
  l.watermark_pages = o.watermark_pages;
  l.checkpoint_interval = o.checkpoint_interval;
  l.branches = o.num_state_branches;
  l.in_place = (o.flags & QUIRE_CACHE_STATES_IN_PLACE) != 0;
  l.at_blocks = (o.flags & QUIRE_CACHE_STATES_AT_BLOCKS) != 0;
  if (l.branches > 64) return invalid("num_state_branches: %u, at most 64", l.branches);
  const bool strict_lru = (o.flags & QUIRE_CACHE_STRICT_LRU) != 0;
  l.keep = or_default(o.keep_states, strict_lru ? kKeepAll : kKeepAll & ~QUIRE_KEEP_CHUNK_END);
  if ((l.keep & ~kKeepAll) != 0) return invalid("keep_states: unknown bits in 0x%x", o.keep_states);
  if (l.depth > 8) return invalid("step_depth: %u, at most 8", l.depth);
  if (l.max_sequences > 1u << 20) return invalid("max_sequences: %u, at most 1048576", l.max_sequences);
  if (l.max_entries > l.max_sequences)
    return invalid("max_entries_per_step: %u, at most max_sequences (%u)", l.max_entries, l.max_sequences);
  if (l.max_tokens > 1u << 24) return invalid("max_tokens_per_step: %u, at most 16777216", l.max_tokens);
  if (o.max_media > 1u << 24) return invalid("max_media: %llu, at most 16777216", static_cast<unsigned long long>(o.max_media));
  if (o.max_pins > 4096) return invalid("max_pins: %u, at most 4096", o.max_pins);
  if (o.max_loads > QUIRE_MAX_LOADS) return invalid("max_loads: %u, at most %u", o.max_loads, QUIRE_MAX_LOADS);
  if (o.max_load_tokens > 1u << 24) {
    return invalid("max_load_tokens: %llu, at most 16777216", static_cast<unsigned long long>(o.max_load_tokens));
  }
  l.max_loads = std::min(or_default(o.max_loads, 16), l.max_sequences);
  l.max_load_tokens = o.max_load_tokens != 0 ? o.max_load_tokens : l.max_tokens;
  if (l.checkpoint_interval > uint64_t{1} << 40) {
    return invalid("checkpoint_interval: %llu, at most 2^40 tokens", static_cast<unsigned long long>(l.checkpoint_interval));
  }
  return l;
}

Result<Facts> Facts::make(std::shared_ptr<const Config> plan, const quire_cache_options& options) {
  auto limits = read_limits(options);
  if (!limits.ok()) return limits.take_status();
  const Config& config = *plan;
  const bool every = limits->checkpoint_interval > 0;
  if (!every) limits->checkpoint_interval = config.checkpoint_tokens;
  if ((options.flags & ~kCacheFlags) != 0) return invalid("flags: unknown bits in 0x%x", options.flags);
  if (limits->watermark_pages >= config.num_pages) {
    return invalid("watermark_pages: %u, below the %llu pages of the plan", limits->watermark_pages,
                   static_cast<unsigned long long>(config.num_pages));
  }
  Facts f;
  f.limits = *limits;
  f.limits.max_load_tokens = std::min(f.limits.max_load_tokens, config.max_model_len);
  f.every = every;
  f.chosen = every || (f.limits.keep & QUIRE_KEEP_EVERY) == 0;
  f.learns_places = !every && options.keep_states == 0 && (options.flags & QUIRE_CACHE_STRICT_LRU) == 0;
  f.config = std::move(plan);
  f.plan_digest = quire::plan_digest(config);
  f.num_groups = static_cast<uint32_t>(config.groups.size());
  for (const ShardPlan& shard : config.shards) f.page_bytes = std::max(f.page_bytes, shard.page_bytes);
  f.strict_lru = (options.flags & QUIRE_CACHE_STRICT_LRU) != 0;
  f.spacing = config.hit_alignment_tokens;
  f.joint = Grid(config.hit_alignment_tokens);
  for (const GroupPlan& g : config.groups) {
    if (g.live.fixed) f.most_encoder = f.most_encoder == 0 ? g.encoder_tokens : std::min(f.most_encoder, g.encoder_tokens);
    f.spacing = g.is_state() ? std::lcm(f.spacing, uint64_t{g.block_tokens}) : f.spacing;
    f.has_states = f.has_states || g.is_state();
    f.fine = f.fine || (!g.live.fixed && config.hit_alignment_tokens % g.block_tokens != 0);
  }
  if (f.limits.checkpoint_interval > 0) f.spacing = round_up(f.limits.checkpoint_interval, config.hit_alignment_tokens);
  // A hit leaves one token to compute: where the first boundary is as far as the longest sequence there is none.
  f.reuse = config.prefix_reuse && (options.flags & QUIRE_CACHE_NO_PREFIX_REUSE) == 0 && f.most_encoder == 0 &&
            config.hit_alignment_tokens < config.max_model_len;
  f.swaps_states = f.has_states && f.limits.branches == 0 && !f.limits.in_place && !f.limits.at_blocks;
  uint64_t blocks = 1, sizes = 0;  // of groups that need everything
  for (const GroupPlan& g : config.groups) {
    const GroupFacts facts = f.facts_of(g);
    if (g.is_state()) f.state_groups.push_back(static_cast<uint32_t>(f.groups.size()));
    f.groups.push_back(facts);
    f.has_drafts = f.has_drafts || facts.look_ahead > 0;
    f.has_falling = f.has_falling || facts.falls;
    if (!facts.whole || !facts.grows || (sizes > 0 && blocks == facts.block_tokens)) continue;
    blocks = std::lcm(blocks, uint64_t{facts.block_tokens});
    ++sizes;
  }
  if (f.has_states && f.reuse) f.first_state = f.state_groups[0];
  f.learns_ends = f.has_states || (f.has_falling && !f.strict_lru && !f.chosen);
  f.pin_grid = f.fine && sizes > 1 ? blocks : 1;
  f.block_grid = blocks;
  return f;
}

GroupFacts Facts::facts_of(const GroupPlan& g) const {
  GroupFacts f;
  f.live = g.live;
  f.block = Grid(g.block_tokens);
  f.columns = g.ids_per_block;
  f.state = g.is_state();
  if (f.state && has_states && reuse) f.state_bytes = ceil_div(page_bytes * g.ids_per_block, g.parts_per_page);
  f.grows = !g.is_state() && !g.live.fixed;
  f.whole = g.live.everything();
  f.falls = f.grows && !f.whole;
  f.block_tokens = g.block_tokens;
  f.look_ahead = drafts_into(g) ? g.look_ahead : 0;
  // A hit that drops a block needs one behind the boundary, which is not written yet when its state is kept.
  f.with_states = f.falls && has_states && f.look_ahead == 0 && !strict_lru;
  f.sparse = f.with_states;
  if (!f.grows || g.live.window == 0 || f.sparse) return f;
  f.chosen = chosen && (!has_states || strict_lru);
  const uint64_t interval = f.chosen && every ? spacing : config->hit_alignment_tokens;
  f.kept = static_cast<uint32_t>(std::max<uint64_t>(ceil_div(g.live.window - 1, g.block_tokens), 1) + (f.look_ahead > 0 ? 1 : 0));
  const bool multiples = !f.chosen || (limits.keep & QUIRE_KEEP_EVERY) != 0;
  f.period = multiples ? static_cast<uint32_t>(std::clamp<uint64_t>(interval / g.block_tokens, 1, kNone)) : 0;
  f.sparse = f.period == 0 || f.kept < f.period;
  return f;
}

Stretch GroupFacts::dead_blocks(uint64_t end) const {
  return falls ? blocks_before(*this, live.sink_end(end), live.kept_begin(end)) : Stretch{};
}

Stretch GroupFacts::passed_blocks(uint64_t end) const {
  return falls ? blocks_before(*this, live.sink_end(end), live.tail_begin(end)) : Stretch{};
}

uint64_t Facts::boundary_bytes() const {
  uint64_t bytes = 0;
  for (const uint32_t g : state_groups) bytes += groups[g].state_bytes;
  return bytes;
}

double Facts::token_bytes() const {
  double bytes = 0;
  for (uint32_t g = 0; g < num_groups; ++g) {
    if (!groups[g].whole || !groups[g].grows) continue;
    bytes += static_cast<double>(page_bytes) * plan(g).ids_per_block / plan(g).parts_per_page / groups[g].block_tokens;
  }
  return bytes;
}

uint64_t Facts::writes_per_step() const {
  return uint64_t{limits.max_entries} * (limits.branches + 2 + kept_on_the_way()) + (limits.at_blocks ? limits.max_tokens / spacing : 0);
}

uint32_t Facts::kept_on_the_way() const {
  if (!limits.at_blocks || spacing == config->hit_alignment_tokens) return 0;
  return static_cast<uint32_t>(std::popcount(limits.keep & (QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_ASKED | QUIRE_KEEP_JUNCTION)));
}

uint64_t Facts::num_writes(uint64_t position, uint32_t num_tokens, const KeptBoundaries& kept) const {
  if (writes_each_token(num_tokens)) return num_tokens;
  if (!limits.at_blocks) return 1;
  const uint64_t end = position + num_tokens;
  uint64_t n = ceil_div(end, spacing) - position / spacing;
  std::array<uint64_t, 3> others = kept.all();
  std::sort(others.begin(), others.end());
  uint64_t last = position;
  for (const uint64_t at : others) {
    if (at <= last || at >= end) continue;
    last = at;
    if (at % spacing != 0) ++n;
  }
  return n;
}

uint64_t Facts::next_write(uint64_t at, uint64_t begin, uint32_t tokens, const KeptBoundaries& k) const {
  const uint64_t end = begin + tokens;
  if (writes_each_token(tokens)) return at + 1;
  if (!limits.at_blocks) return end;
  uint64_t next = std::min((at / spacing + 1) * spacing, end);
  for (const uint64_t other : k.all()) {
    if (other > at) next = std::min(next, other);
  }
  return next;
}

CacheUse Facts::use() const {
  CacheUse use;
  use.step_depth = limits.depth;
  use.step_tokens = limits.max_tokens;
  use.spare_pages = limits.watermark_pages;
  use.branches = limits.branches;
  use.spacing = limits.at_blocks && has_states ? spacing : 0;
  use.kept_on_the_way = has_states ? kept_on_the_way() : 0;
  use.in_place = limits.in_place;
  use.publishes = reuse;
  return use;
}

// In place that is what it owns: a checkpoint is given up where there is no room.
uint64_t Facts::states_of_whole(uint64_t end) const {
  const uint64_t rows = limits.in_place ? 1 : limits.depth;
  const uint64_t kept = limits.in_place ? 0 : 1;
  const uint64_t most = std::min<uint64_t>(end, limits.max_tokens);
  const uint64_t crossed = limits.at_blocks ? ceil_div(most, spacing) + kept_on_the_way() : 0;
  return rows * (limits.branches + std::max<uint64_t>(1, crossed)) + kept;
}

}  // namespace quire
