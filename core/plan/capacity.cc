#include "core/plan/capacity.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <span>
#include <vector>

#include "core/base/checked.h"
#include "core/plan/limits.h"

namespace quire {
namespace {

// Kept for a state: two steps in flight, the one being computed, one checkpoint.
constexpr uint64_t kStateSlots = 4;
constexpr uint64_t kMostSpacing = uint64_t{1} << 24;
constexpr double kSpacingWithoutTokens = 4096;  // models of states alone

// The largest x in [0, limit] that `fits`; what fits x fits less.
template <typename Fits>
uint64_t largest(uint64_t limit, Fits&& fits) {
  uint64_t low = 0;
  uint64_t high = limit;
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// What one sequence holds of a group: parts, and the pages of its own that they lie in.
struct Held {
  uint64_t parts = 0;
  uint64_t pages = 0;
};

Held most_of(const Held& a, const Held& b) { return {std::max(a.parts, b.parts), std::max(a.pages, b.pages)}; }

Held held_states(const GroupPlan& g, uint64_t slots) {
  const uint64_t parts = slots * g.ids_per_block;
  return {parts, ceil_div(parts, g.parts_per_page)};
}

// Blocks from the first live one after `committed` tokens to the one that token `reserved` - 1 is in, and those of the sinks. The first
// block of a sequence lies at the beginning of a page.
Held held_tokens(const GroupPlan& g, uint64_t committed, uint64_t reserved) {
  const uint64_t block = g.block_tokens, ids = g.ids_per_block, per_page = g.parts_per_page;
  if (g.live.fixed) return {ceil_div(g.encoder_tokens, block) * ids, ceil_div(ceil_div(g.encoder_tokens, block) * ids, per_page)};
  const uint64_t end = ceil_div(reserved, block) * ids;
  if (g.live.everything()) return {end, ceil_div(end, per_page)};
  const uint64_t first = std::min(g.live.kept_begin(committed) / block * ids, end);
  const uint64_t sinks = std::min(ceil_div(g.live.sink_end(committed), block) * ids, first);
  const uint64_t tail_pages = ceil_div(end, per_page) - first / per_page;
  return {end - first + sinks, tail_pages + std::min(ceil_div(sinks, per_page), first / per_page)};
}

// The largest number of sequences of which all but one hold `steady` and one holds `peak`. They open pages of their own while there are
// free ones, and fill holes then.
uint64_t served(const Config& config, uint64_t spare_pages, std::span<const Held> steady, std::span<const Held> peak) {
  uint64_t own = 0, own_peak = spare_pages;
  for (size_t g = 0; g < steady.size(); ++g) {
    own += steady[g].pages;
    own_peak += std::max(peak[g].pages, steady[g].pages);
  }
  const uint64_t pages = config.num_pages - 1;
  const uint64_t spread = own_peak > pages ? 0 : own == 0 ? pages : (pages - own_peak) / own + 1;
  const uint64_t left = pages - spread * own;
  const auto fits = [&](uint64_t more) {
    uint64_t wanted = more > 0 ? spare_pages : 0;
    for (size_t g = 0; g < steady.size() && more > 0; ++g) {
      const uint64_t per_page = config.groups[g].parts_per_page;
      const uint64_t holes = spread * (steady[g].pages * per_page - steady[g].parts);
      const uint64_t parts = (more - 1) * steady[g].parts + std::max(peak[g].parts, steady[g].parts);
      wanted += ceil_div(parts - std::min(parts, holes), per_page);
    }
    return wanted <= left;
  };
  return spread + largest(pages, fits);
}

}  // namespace

uint64_t blocks_needed(const GroupPlan& group, uint64_t max_tokens_in_flight, uint64_t tokens) {
  const uint64_t block = group.block_tokens;
  const LiveRange& live = group.live;
  if (live.state) return kStateSlots;
  if (live.fixed) return ceil_div(group.encoder_tokens, block);
  const uint64_t all = ceil_div(tokens, block);
  if (live.everything()) return all;
  // n tokens that start anywhere in a block touch ceil((n - 1) / block) + 1 blocks; the sinks stay besides.
  const uint64_t live_tokens = live.longest_tail() + max_tokens_in_flight;
  const uint64_t most = ceil_div(live_tokens == 0 ? 0 : live_tokens - 1, block) + 1 + ceil_div(live.sink, block);
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

namespace {

// A sum that sticks at kMaxSize.
uint64_t plus(uint64_t a, uint64_t b, uint64_t times) {
  const auto product = checked_mul(b, times);
  const auto sum = product ? checked_add(a, *product) : std::nullopt;
  return sum.value_or(kMaxSize);
}

class Counting {
  struct Segment {
    uint64_t tokens = 0, pages = 0;
  };

 public:
  Counting(const Config& config, const CacheUse& use, uint64_t tokens) : config_(config), use_(use), tokens_(tokens) {
    for (const GroupPlan& g : config.groups) hulls_.push_back(hull_of(g));
  }

  // Pages that so many sequences never exceed, the null page included. Between reserve and commit a step's tokens are those of all rows
  // together: every sequence is counted with a token of each step in flight, and what else is in flight where it costs most.
  uint64_t guaranteed(uint64_t sequences) const {
    uint64_t pages = 1 + use_.spare_pages;
    for (size_t i = 0; i < config_.groups.size(); ++i) {
      const GroupPlan& g = config_.groups[i];
      if (g.is_state()) {
        pages = plus(pages, pages_needed(g, slots_at_worst()), sequences);
        pages = plus(pages, states_on_the_way() * g.ids_per_block, 1);
        continue;
      }
      pages = plus(pages, pages_in_flight(g, use_.step_depth), sequences);
      pages = plus(pages, pages_of_chunks(i, sequences), 1);
    }
    return pages;
  }

  uint64_t decoding() const {
    std::array<Held, kMaxGroups> steady{}, peak{};
    for (size_t g = 0; g < config_.groups.size(); ++g) {
      const GroupPlan& group = config_.groups[g];
      steady[g] = group.is_state() ? held_states(group, slots_decoding()) : held_decoding(group);
      peak[g] = held_prefilling(group);
    }
    return served(config_, use_.spare_pages, first(steady), first(peak));
  }

  uint64_t resident() const {
    std::array<Held, kMaxGroups> steady{}, peak{};
    for (size_t g = 0; g < config_.groups.size(); ++g) {
      const GroupPlan& group = config_.groups[g];
      steady[g] = group.is_state() ? held_states(group, slots_resident()) : held_tokens(group, tokens_, tokens_);
      peak[g] = held_prefilling(group);
    }
    return served(config_, use_.spare_pages, first(steady), first(peak));
  }

 private:
  std::span<const Held> first(const std::array<Held, kMaxGroups>& all) const { return {all.data(), config_.groups.size()}; }

  // State slots. Written in place a sequence owns one, the branches of its rows in flight, and where an earlier step may still make a
  // checkpoint of it, one that is written instead; otherwise it owns also what its rows in flight write.
  uint64_t slots_decoding() const {
    return use_.in_place ? 1 + use_.step_depth * use_.branches + (use_.publishes && use_.step_depth > 1 ? 1 : 0)
                         : use_.step_depth * (1 + use_.branches) + 1;
  }
  // Once a prompt is computed: the last state, and the one before where it is no checkpoint.
  uint64_t slots_resident() const { return 1 + use_.branches + (use_.publishes || use_.in_place || tokens_ <= use_.step_tokens ? 0 : 1); }
  // A checkpoint that was the current state stays until the later steps in flight are done.
  uint64_t slots_at_worst() const { return slots_decoding() + (use_.publishes && !use_.in_place && use_.step_depth > 1 ? 1 : 0); }
  // Slots of boundaries that the kernels of all steps in flight write on the way.
  uint64_t states_on_the_way() const {
    if (use_.spacing == 0) return 0;
    return use_.step_depth * (ceil_div(std::min(tokens_, use_.step_tokens), use_.spacing) + use_.kept_on_the_way);
  }

  // While the last block of tokens is decoded, all sequences at once.
  Held held_decoding(const GroupPlan& g) const {
    Held most;
    const uint64_t flying = std::min(use_.step_depth, tokens_), last = tokens_ - flying;
    const uint64_t span = g.live.everything() || g.live.fixed ? 0 : std::min<uint64_t>(last, g.block_tokens);
    for (uint64_t committed = last - span; committed <= last; ++committed) {
      most = most_of(most, held_tokens(g, committed, committed + flying));
    }
    return most;
  }

  // While a prompt is computed, one chunk in flight: where there is no room for the next one, it waits for the commit.
  Held held_prefilling(const GroupPlan& g) const {
    const uint64_t rows = ceil_div(tokens_, use_.step_tokens);
    if (g.is_state()) return held_states(g, 1 + use_.branches + (rows > 1 ? 1 : 0) + states_on_the_way());
    Held most;
    for (const uint64_t row : {uint64_t{1}, rows - 1, rows}) {
      const uint64_t committed = row > 1 ? (row - 1) * use_.step_tokens : 0;
      most = most_of(most, held_tokens(g, committed, std::min(row * use_.step_tokens, tokens_)));
    }
    return most;
  }

  uint64_t pages_in_flight(const GroupPlan& g, uint64_t in_flight) const { return pages_needed(g, blocks_needed(g, in_flight, tokens_)); }

  // Pages beyond those of decoding that the chunks in flight add, however they are spread over sequences: the steepest parts of the hulls
  // of all sequences first.
  uint64_t pages_of_chunks(size_t g, uint64_t sequences) const {
    const uint64_t decoding = use_.step_depth * sequences, all = use_.step_depth * use_.step_tokens;
    double left = all > decoding ? static_cast<double>(all - decoding) : 0, pages = 0;
    for (const Segment& segment : hulls_[g]) {
      const double tokens = std::min(left, static_cast<double>(segment.tokens) * static_cast<double>(sequences));
      pages += tokens * static_cast<double>(segment.pages) / static_cast<double>(segment.tokens);
      left -= tokens;
    }
    return static_cast<uint64_t>(pages + 1e-6);
  }

  // The concave hull of the pages that one sequence gets by more tokens in flight than those of decoding; the steepest segment first.
  std::vector<Segment> hull_of(const GroupPlan& g) const {
    std::vector<Segment> hull;
    if (g.is_state() || g.live.fixed || g.live.everything()) return hull;
    const uint64_t most = std::min(use_.step_depth * use_.step_tokens, std::max(config_.max_tokens_in_flight, use_.step_depth));
    const uint64_t blocks = blocks_needed(g, use_.step_depth, tokens_), last = blocks_needed(g, most, tokens_);
    uint64_t before = pages_needed(g, blocks), from = use_.step_depth;
    const uint64_t tail = g.live.longest_tail(), touched = ceil_div(tail + use_.step_depth - 1, g.block_tokens);
    for (uint64_t more = 1; blocks + more <= last; ++more) {
      const uint64_t pages = pages_needed(g, blocks + more), tokens = (touched + more - 1) * g.block_tokens + 2 - tail;
      if (pages == before) continue;
      Segment next{tokens - from, pages - before};
      while (!hull.empty() && next.pages * hull.back().tokens >= hull.back().pages * next.tokens) {  // not less steep
        next = Segment{next.tokens + hull.back().tokens, next.pages + hull.back().pages};
        hull.pop_back();
      }
      hull.push_back(next);
      before = pages;
      from = tokens;
    }
    return hull;
  }

  const Config& config_;
  const CacheUse& use_;
  uint64_t tokens_;
  std::vector<std::vector<Segment>> hulls_;  // by group
};

}  // namespace

uint64_t pages_of_one(const Config& config, uint64_t tokens) {
  uint64_t pages = 1;  // the null page
  for (const GroupPlan& group : config.groups) {
    pages = plus(pages, pages_needed(group, blocks_needed(group, config.max_tokens_in_flight, tokens)), 1);
  }
  return pages;
}

namespace {

// What a sequence holds before its first token.
const char* fixed_part(const Config& config) {
  const auto any = [&](auto is) { return std::any_of(config.groups.begin(), config.groups.end(), is); };
  const bool states = any([](const GroupPlan& g) { return g.is_state(); });
  const bool encoder = any([](const GroupPlan& g) { return g.live.fixed; });
  return states && encoder ? "the null page, the states and the encoder tokens of one sequence"
         : states          ? "the null page and the states of one sequence"
         : encoder         ? "the null page and the encoder tokens of one sequence"
                           : "the null page";
}

}  // namespace

Status refuse_length(const Config& config, uint64_t fits, uint32_t shard, uint64_t page_bytes) {
  const auto bytes = [page_bytes](uint64_t pages) { return checked_mul(pages, page_bytes).value_or(kMaxSize); };
  const uint64_t given = config.num_pages;
  if (fits == 0) {
    const uint64_t fixed = pages_of_one(config, 0), one = pages_of_one(config, 1);
    return fail(QUIRE_RESOURCE_EXHAUSTED,
                "not one token fits: %s need %" PRIu64 " pages = %" PRIu64 " bytes on shard %u, with one token %" PRIu64 " pages = %" PRIu64
                " bytes; given are %" PRIu64 " pages = %" PRIu64 " bytes",
                fixed_part(config), fixed, bytes(fixed), shard, one, bytes(one), given, bytes(given));
  }
  const uint64_t wanted = pages_of_one(config, config.max_model_len);
  return fail(QUIRE_RESOURCE_EXHAUSTED,
              "one sequence of max_model_len = %" PRIu64 " needs %" PRIu64 " pages = %" PRIu64 " bytes on shard %u, given are %" PRIu64
              " pages = %" PRIu64 " bytes; %" PRIu64 " tokens would fit: lower max_model_len or set QUIRE_PLAN_FIT_LENGTH",
              config.max_model_len, wanted, bytes(wanted), shard, given, bytes(given), fits);
}

uint64_t size_in_tokens(const Config& config) {
  const uint64_t each = std::max<uint64_t>(pages_of_one(config, config.max_model_len) - 1, 1);
  return static_cast<uint64_t>(static_cast<double>(config.num_pages) / static_cast<double>(each) *
                               static_cast<double>(config.max_model_len));
}

Capacity capacity_of(const Config& config, const CacheUse& use, uint64_t tokens, uint64_t concurrency) {
  Capacity out;
  out.tokens = tokens;
  out.concurrency = concurrency;
  const Counting counting(config, use, tokens);
  out.guaranteed = largest(config.num_pages, [&](uint64_t n) { return counting.guaranteed(n) <= config.num_pages; });
  out.decoding = counting.decoding();
  out.resident = counting.resident();
  out.longest =
      largest(config.max_model_len, [&](uint64_t n) { return Counting(config, use, n).guaranteed(concurrency) <= config.num_pages; });
  out.pages_needed = counting.guaranteed(concurrency);
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
