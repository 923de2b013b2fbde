#include "core/plan/capacity.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <span>

#include "core/base/checked.h"
#include "core/plan/limits.h"
#include "core/plan/worst_case.h"

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

Held most_of(const Held& a, const Held& b) { return {std::max(a.parts, b.parts), std::max(a.pages, b.pages)}; }

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

// How many sequences of `tokens` tokens one cache holds if they start one after the other. What they do then is said at each number of
// Capacity.
class InOrder {
 public:
  InOrder(const Config& config, const CacheUse& use, uint64_t tokens) : config_(config), use_(use), tokens_(tokens) {}

  uint64_t decoding() const {
    std::array<Held, kMaxGroups> steady{}, peak{};
    for (size_t g = 0; g < config_.groups.size(); ++g) {
      const GroupPlan& group = config_.groups[g];
      steady[g] = group.is_state() ? held_states(group, slots_decoding(use_)) : held_decoding(group);
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

  // Once a prompt is computed: the last state, and the one before where it is no checkpoint.
  uint64_t slots_resident() const { return 1 + use_.branches + (use_.publishes || use_.in_place || tokens_ <= use_.step_tokens ? 0 : 1); }
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

  const Config& config_;
  const CacheUse& use_;
  uint64_t tokens_;
};

}  // namespace

uint64_t pages_of_one(const Config& config, uint64_t tokens) {
  uint64_t pages = 1;  // the null page
  for (const GroupPlan& group : config.groups) {
    pages = capped_sum(pages, pages_needed(group, blocks_needed(group, config.max_tokens_in_flight, tokens)), 1);
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
  const WorstCase worst(config, use, tokens);
  const auto alone = [&](uint64_t n) { return n > 0 && pages_of_one(config, n) <= config.num_pages ? uint64_t{1} : uint64_t{0}; };
  out.guaranteed = largest(config.num_pages, [&](uint64_t n) { return worst.pages_of_all(n) <= config.num_pages; });
  out.guaranteed = std::max(out.guaranteed, alone(tokens));  // it may wait for steps of its own
  const InOrder in_order(config, use, tokens);
  out.decoding = in_order.decoding();
  out.resident = in_order.resident();
  const auto fits = [&](uint64_t n) {
    if (n == 0 || (concurrency == 1 && alone(n) == 1)) return true;
    return WorstCase(config, use, n).pages_of_all(concurrency) <= config.num_pages;
  };
  out.longest = fits(config.max_model_len) ? config.max_model_len : largest(config.max_model_len, fits);
  out.pages_needed = worst.pages_of_all(concurrency);
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
