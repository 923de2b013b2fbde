#include "core/plan/capacity.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <numeric>
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
// Beyond these the groups of a sequence are looked at one by one, each at its own worst.
constexpr uint64_t kMostLooks = uint64_t{1} << 18;
constexpr uint64_t kMostSteps = uint64_t{1} << 18;  // of tokens in flight; where there are more, some are looked at together

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

// What `sequences` sequences of `tokens` tokens hold at most, whatever they do and in whatever order: the guaranteed number.
//
// Claim: between any two calls the pages that are in use are at most pages_of_all(sequences). So every row finds the pages it opens, and
// nothing is refused. Let a sequence have c tokens committed and slots up to r: r - c is at most the tokens of its rows in flight and the
// slots ahead that the plan's draft layers write. It keeps these until it computes those tokens.
//
// 1. While there are free or evictable pages a sequence opens pages of its own. It leaves the page that it fills only when that is full,
//    and comes back to it when the end of its table is given up. So its pages are disjoint from all others', and in each group all but
//    the oldest and the one that it fills hold nothing but its parts.
// 2. Pages of one group at (c, r), page_count(): groups that keep everything fill page after page from the beginning. A live range keeps
//    blocks [kept_begin(c) / block, ceil(r / block)). Where the tail alone is longer than a page, the page that is filled has no part that
//    left the range, so page i holds parts [i * parts_per_page, (i + 1) * parts_per_page) as in a group that keeps everything. Elsewhere
//    such holes may be filled again, and the range may begin anywhere in a page. Parts enter and leave pages in multiples of
//    gcd(parts of a block, parts of a page), so n parts lie in at most ceil((n - gcd) / parts_per_page) + 1 pages.
// 3. States: the current one, those that rows in flight write, and spares; take_states() takes no more than slots() in all, and what is
//    too many at a commit is given up there. By 2 each lies in at most ceil((parts - gcd) / parts_per_page) + 1 pages. If a sequence has
//    all of its slots, the others were there when the last one was taken. The page that was filled then had a part of one of them, or it
//    was no longer the sequence's. So the last one adds at most ceil(parts / parts_per_page) pages.
// 4. All groups of a sequence are at the same (c, r). most_[k] is the largest sum of their pages over all (c, r) with r - c <= k and
//    r <= tokens. Only some (c, r) need be looked at: raising c to the last token before a group loses a block, and lowering r to the
//    first token of a block, loses no page. Moving both by a multiple of the period after which all live ranges lie in blocks and pages
//    as before loses none either, because what keeps everything, and sinks, only grow. So r runs over one period before `tokens`.
// 5. A step computes at most step_tokens tokens, so all sequences together have at most step_depth * step_tokens in flight. However these
//    are shared out, the sum of most_[k] is at most that of the concave hull of most_, whose steepest segments are taken first by all
//    sequences.
//
// A sequence that ended counts, and its tokens in flight, until the steps that were in flight then are done.
class Counting {
  struct Segment {
    uint64_t tokens = 0, pages = 0;
  };

 public:
  Counting(const Config& config, const CacheUse& use, uint64_t tokens) : config_(config), use_(use), tokens_(tokens) {}

  // Reads most_ off the plan; only pages_of_all() needs it.
  void look_for_worst() {
    const uint64_t in_flight = std::min(use_.step_depth * use_.step_tokens, tokens_);
    unit_ = in_flight / kMostSteps + 1;
    most_.assign(in_flight / unit_ + 1, 0);
    find_alike();
    std::vector<size_t> falling;
    uint64_t settled = 0, period = 1;
    for (const GroupPlan& g : config_.groups) ahead_ = std::max<uint64_t>(ahead_, g.look_ahead);
    for (size_t i = 0; i < config_.groups.size(); ++i) {
      const GroupPlan& g = config_.groups[i];
      if (g.is_state()) continue;
      if (g.live.fixed || g.live.everything()) {
        settled += held_tokens(g, tokens_, tokens_).pages;
        continue;
      }
      if (times_[i] == 0) continue;
      falling.push_back(i);
      period = common_multiple(period, period_of(g));
    }
    if (falling.size() > 0 && looks(falling, period) <= kMostLooks) {
      add_worst(falling, period, true);
    } else {
      for (const size_t i : falling) add_worst_of_one(i);
      for (uint64_t& pages : most_) pages += settled;
    }
    if (falling.empty() && slots(in_flight) == slots(0)) most_.resize(1);  // the same for all tokens in flight
    add_states();
    draw_hull();
  }

  // The null page included.
  uint64_t pages_of_all(uint64_t sequences) const {
    uint64_t pages = plus(1 + use_.spare_pages, most_[0], sequences), left = use_.step_depth * use_.step_tokens;
    uint64_t part = 0, of = 1;  // of a segment
    for (const Segment& segment : hull_) {
      const uint64_t times = std::min(sequences, left / segment.tokens);
      pages = plus(pages, segment.pages, times);
      left -= times * segment.tokens;
      if (times == sequences) continue;
      part = plus(0, left, segment.pages);
      of = segment.tokens;
      break;
    }
    return plus(pages, part / of, 1);
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

  static uint64_t common_multiple(uint64_t a, uint64_t b) { return plus(0, a, b / std::gcd(a, b)); }

  // Tokens after which the live range lies in blocks, and where it matters in pages, as before.
  static uint64_t period_of(const GroupPlan& g) {
    const uint64_t step = common_multiple(g.block_tokens, std::max<uint64_t>(g.live.chunk, 1));
    return keeps_place(g) ? common_multiple(step, plus(0, g.block_tokens, g.parts_per_page / common_parts(g))) : step;
  }

  static uint64_t common_parts(const GroupPlan& g) { return std::gcd(uint64_t{g.ids_per_block}, uint64_t{g.parts_per_page}); }

  // Whether the page that is filled never has a part that left the live range.
  static bool keeps_place(const GroupPlan& g) {
    const uint64_t shortest = g.live.chunk != 0 ? g.live.retained : g.live.longest_tail();
    return shortest / g.block_tokens * g.ids_per_block >= g.parts_per_page;
  }

  static uint64_t page_count(const GroupPlan& g, uint64_t committed, uint64_t reserved) {
    const Held held = held_tokens(g, committed, reserved);
    if (g.live.fixed || g.live.everything() || keeps_place(g)) return held.pages;
    return std::min(held.parts, ceil_div(held.parts - std::min(held.parts, common_parts(g)), g.parts_per_page) + (g.live.sink > 0 ? 2 : 1));
  }

  // Groups of which a sequence always holds the same are looked at once.
  void find_alike() {
    times_.assign(config_.groups.size(), 1);
    for (size_t i = 0; i < times_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const GroupPlan &a = config_.groups[i], &b = config_.groups[j];
        const bool alike = a.live == b.live && a.block_tokens == b.block_tokens && a.ids_per_block == b.ids_per_block &&
                           a.parts_per_page == b.parts_per_page && a.encoder_tokens == b.encoder_tokens;
        if (!alike || times_[j] == 0) continue;
        ++times_[j];
        times_[i] = 0;
        break;
      }
    }
  }

  // How many pairs add_worst() looks at, about.
  uint64_t looks(std::span<const size_t> groups, uint64_t period) const {
    uint64_t begins = 1, ends = 0;
    for (const size_t i : groups) {
      const GroupPlan& g = config_.groups[i];
      begins += most_.size() * unit_ / std::max<uint64_t>(g.block_tokens, g.live.chunk) + 2;
    }
    for (size_t i = 0; i < times_.size(); ++i) {
      const GroupPlan& g = config_.groups[i];
      ends += g.is_state() || times_[i] == 0 ? 0 : std::min(period, tokens_) / g.block_tokens + 1;
    }
    return plus(0, begins, plus(0, ends, config_.groups.size()));
  }

  // Adds the largest sum of the pages of such groups to most_, in all that grows if `all`.
  void add_worst(std::span<const size_t> falling, uint64_t period, bool all) {
    std::vector<uint64_t> ends, found(most_.size(), 0);
    for (size_t i = 0; i < config_.groups.size(); ++i) {
      const GroupPlan& g = config_.groups[i];
      if (g.is_state() || g.live.fixed || times_[i] == 0 || (!all && i != falling[0])) continue;
      const uint64_t last = (tokens_ - 1) / g.block_tokens * g.block_tokens + 1;
      for (uint64_t end = last; end + period > tokens_; end -= g.block_tokens) {
        ends.push_back(end);
        if (end <= g.block_tokens) break;
      }
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    for (const uint64_t end : ends) {
      const auto look = [&](uint64_t begin) {
        uint64_t pages = 0;
        for (size_t i = 0; i < config_.groups.size(); ++i) {
          const GroupPlan& g = config_.groups[i];
          if (!g.is_state() && times_[i] > 0 && (all || i == falling[0])) pages += times_[i] * page_count(g, begin, end);
        }
        uint64_t& most = found[(end - begin - std::min(end - begin, ahead_)) / unit_];
        most = std::max(most, pages);
      };
      const uint64_t least = end - std::min(end, most_.size() * unit_ - 1 + ahead_);
      look(end);
      for (const size_t i : falling) {
        const GroupPlan& g = config_.groups[i];
        for (uint64_t begin = least; begin <= end; ++begin) {
          begin = g.live.kept_from((g.live.kept_begin(begin) / g.block_tokens + 1) * g.block_tokens) - 1;
          if (begin <= end) look(begin);
        }
      }
    }
    uint64_t pages = 0;
    for (size_t k = 0; k < most_.size(); ++k) {
      pages = std::max(pages, found[k]);
      most_[k] += pages;
    }
  }

  void add_worst_of_one(size_t i) {
    const GroupPlan& g = config_.groups[i];
    const uint64_t period = period_of(g);
    if (looks(std::span(&i, 1), period) <= kMostLooks) return add_worst(std::span(&i, 1), period, false);
    for (size_t k = 0; k < most_.size(); ++k)
      most_[k] += times_[i] * pages_needed(g, blocks_needed(g, (k + 1) * unit_ - 1 + ahead_, tokens_));
  }

  // The current state, those at the ends of rows and branches, and those of boundaries that rows of k tokens cross on their way: kernels
  // write all of them, or rows with branches do. Rows of branches follow each other, or a chunk is between them.
  uint64_t slots(uint64_t k) const {
    const uint64_t grid = config_.hit_alignment_tokens, crossed = k < 2 ? 0 : ceil_div(k - 1, grid);
    const uint64_t written = use_.spacing == 0 ? 0 : ceil_div(k, use_.spacing) + use_.step_depth * use_.kept_on_the_way;
    const uint64_t rows = use_.step_depth, in_rows = ceil_div(rows * (use_.branches + 1) - 1, grid);
    const uint64_t branched = use_.branches == 0 ? 0 : std::max(in_rows, (rows - 1) * ceil_div(use_.branches, grid));
    return slots_decoding() + std::min(crossed, std::max(written, branched));
  }

  void add_states() {
    uint64_t last = 0, each = 0;  // pages of all groups: of the last slot, and of one before it
    for (const GroupPlan& g : config_.groups) {
      if (!g.is_state()) continue;
      const uint64_t ids = g.ids_per_block;
      last += ceil_div(ids, g.parts_per_page);
      each += std::min(ids, ceil_div(ids - common_parts(g), g.parts_per_page) + 1);
    }
    if (each == 0) return;
    for (size_t k = 0; k < most_.size(); ++k) most_[k] = plus(most_[k] + last, each, slots((k + 1) * unit_ - 1) - 1);
  }

  // The steepest segment first.
  void draw_hull() {
    uint64_t from = 0;
    for (uint64_t k = 1; k < most_.size(); ++k) {
      if (most_[k] == most_[k - 1]) continue;
      Segment next{(k - from) * unit_, most_[k] - most_[from]};
      while (!hull_.empty() && plus(0, next.pages, hull_.back().tokens) >= plus(0, hull_.back().pages, next.tokens)) {  // not less steep
        next = Segment{next.tokens + hull_.back().tokens, next.pages + hull_.back().pages};
        hull_.pop_back();
      }
      hull_.push_back(next);
      from = k;
    }
  }

  const Config& config_;
  const CacheUse& use_;
  uint64_t tokens_;
  uint64_t unit_ = 1;           // tokens
  uint64_t ahead_ = 0;          // slots after its tokens that a sequence keeps for drafts
  std::vector<uint64_t> most_;  // pages of one sequence, by units of tokens in flight, rounded down
  std::vector<Segment> hull_;
  std::vector<uint64_t> times_;  // by group: groups like it, it among them; 0: like one before it
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
  Counting counting(config, use, tokens);
  counting.look_for_worst();
  const auto alone = [&](uint64_t n) { return n > 0 && pages_of_one(config, n) <= config.num_pages ? uint64_t{1} : uint64_t{0}; };
  out.guaranteed = largest(config.num_pages, [&](uint64_t n) { return counting.pages_of_all(n) <= config.num_pages; });
  out.guaranteed = std::max(out.guaranteed, alone(tokens));  // it may wait for steps of its own
  out.decoding = counting.decoding();
  out.resident = counting.resident();
  const auto fits = [&](uint64_t n) {
    if (n == 0 || (concurrency == 1 && alone(n) == 1)) return true;
    Counting each(config, use, n);
    each.look_for_worst();
    return each.pages_of_all(concurrency) <= config.num_pages;
  };
  out.longest = fits(config.max_model_len) ? config.max_model_len : largest(config.max_model_len, fits);
  out.pages_needed = counting.pages_of_all(concurrency);
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
