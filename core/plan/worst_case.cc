#include "core/plan/worst_case.h"

#include <algorithm>
#include <numeric>

#include "core/base/checked.h"

namespace quire {
namespace {

// Beyond these the groups of a sequence are looked at one by one, each at its own worst.
constexpr uint64_t kMostLooks = uint64_t{1} << 18;
constexpr uint64_t kMostSteps = uint64_t{1} << 18;  // of tokens in flight; where there are more, some are looked at together

uint64_t common_multiple(uint64_t a, uint64_t b) { return capped_sum(0, a, b / std::gcd(a, b)); }
uint64_t common_parts(const GroupPlan& g) { return std::gcd(uint64_t{g.ids_per_block}, uint64_t{g.parts_per_page}); }

// Parts of the blocks that tokens [0, n) are in.
uint64_t parts_until(const GroupPlan& g, uint64_t n) { return ceil_div(n, g.block_tokens) * g.ids_per_block; }

// What a live range holds: the parts from block `first_block` to part `end`, and the sinks before them.
Held held_range(const GroupPlan& g, uint64_t committed, uint64_t first_block, uint64_t end) {
  const uint64_t per_page = g.parts_per_page;
  const uint64_t first = std::min(first_block * g.ids_per_block, end);
  const uint64_t sinks = g.live.sink == 0 ? 0 : std::min(parts_until(g, g.live.sink_end(committed)), first);
  if (per_page == 1) return {end - first + sinks, end - first + sinks};
  const uint64_t tail_pages = ceil_div(end, per_page) - first / per_page;
  return {end - first + sinks, tail_pages + std::min(ceil_div(sinks, per_page), first / per_page)};
}

// Whether the page that is filled never has a part that left the live range.
bool keeps_place(const GroupPlan& g) {
  const uint64_t shortest = g.live.chunk != 0 ? g.live.retained : g.live.longest_tail();
  return shortest / g.block_tokens * g.ids_per_block >= g.parts_per_page;
}

// Tokens after which the live range lies in blocks, and where it matters in pages, as before.
uint64_t period_of(const GroupPlan& g) {
  const uint64_t step = common_multiple(g.block_tokens, std::max<uint64_t>(g.live.chunk, 1));
  return keeps_place(g) ? common_multiple(step, capped_sum(0, g.block_tokens, g.parts_per_page / common_parts(g))) : step;
}

// The pages of `times` groups with the same live range while the committed tokens move on to a given end.
class FallingPages {
 public:
  FallingPages(const GroupPlan& group, uint64_t times, uint64_t committed, uint64_t end)
      : group_(group), times_(times), end_(parts_until(group, end)), common_(common_parts(group)), keeps_place_(keeps_place(group)) {
    stand_at(committed);
  }

  uint64_t pages() const { return pages_; }
  // The most committed tokens with which the group still holds the same blocks. Sinks do not change in between either: parts of them count
  // only where they lie before the first block of the tail, and the committed tokens are behind those.
  uint64_t last() const { return last_; }
  void pass_last() { stand_at(last_ + 1); }

 private:
  void stand_at(uint64_t committed) {
    const uint64_t first_block = group_.live.kept_begin(committed) / group_.block_tokens;
    last_ = group_.live.kept_from((first_block + 1) * group_.block_tokens) - 1;
    const Held held = held_range(group_, committed, first_block, end_);
    pages_ = times_ * (keeps_place_ ? held.pages : anywhere(held.parts));
  }

  // Of parts that enter and leave pages in multiples of common_, wherever in a page the first one lies.
  uint64_t anywhere(uint64_t parts) const {
    const uint64_t after = ceil_div(parts - std::min(parts, common_), group_.parts_per_page);
    return std::min(parts, after + (group_.live.sink > 0 ? 2 : 1));
  }

  const GroupPlan& group_;
  uint64_t times_, end_, common_;  // end_: parts
  bool keeps_place_;
  uint64_t last_ = 0, pages_ = 0;
};

}  // namespace

Held held_states(const GroupPlan& g, uint64_t slots) {
  const uint64_t parts = slots * g.ids_per_block;
  return {parts, ceil_div(parts, g.parts_per_page)};
}

Held held_tokens(const GroupPlan& g, uint64_t committed, uint64_t reserved) {
  const uint64_t end = parts_until(g, g.live.fixed ? g.encoder_tokens : reserved);
  if (g.live.fixed || g.live.everything()) return {end, ceil_div(end, g.parts_per_page)};
  return held_range(g, committed, g.live.kept_begin(committed) / g.block_tokens, end);
}

uint64_t slots_decoding(const CacheUse& use) {
  return use.in_place ? 1 + use.step_depth * use.branches + (use.publishes && use.step_depth > 1 ? 1 : 0)
                      : use.step_depth * (1 + use.branches) + 1;
}

// All sequences have `tokens` tokens.
//
// Claim: between any two calls the pages that are in use are at most pages_of_all(sequences). So every row finds the pages it opens, and
// nothing is refused. Let a sequence have c tokens committed and slots up to r: r - c is at most the tokens of its rows in flight and the
// slots ahead that the plan's draft layers write. It keeps these until it computes those tokens.
//
// 1. While there are free or evictable pages a sequence opens pages of its own. It leaves the page that it fills only when that is full,
//    and comes back to it when the end of its table is given up. So its pages are disjoint from all others', and in each group all but
//    the oldest and the one that it fills hold nothing but its parts.
// 2. Pages of one group at (c, r): held_tokens() for groups that keep everything, FallingPages for live ranges. The former fill page after
//    page from the beginning. A live range keeps blocks [kept_begin(c) / block, ceil(r / block)). Where the tail alone is longer than a
//    page, the page that is filled has no part that left the range, so page i holds parts [i * parts_per_page, (i + 1) * parts_per_page) as
//    in a group that keeps everything. Elsewhere such holes may be filled again, and the range may begin anywhere in a page. Parts enter
//    and leave pages in multiples of gcd(parts of a block, parts of a page), so n parts lie in at most ceil((n - gcd) / parts_per_page) + 1
//    pages.
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
WorstCase::WorstCase(const Config& config, const CacheUse& use, uint64_t tokens) : config_(config), use_(use), tokens_(tokens) {
  const uint64_t in_flight = std::min(use_.step_depth * use_.step_tokens, tokens_);
  unit_ = in_flight / kMostSteps + 1;
  steps_ = in_flight / unit_ + 1;
  find_alike();
  std::vector<size_t> falling, growing;
  uint64_t settled = 0, period = 1;  // settled: pages at the end
  for (const GroupPlan& g : config_.groups) ahead_ = std::max<uint64_t>(ahead_, g.look_ahead);
  for (size_t i = 0; i < config_.groups.size(); ++i) {
    const GroupPlan& g = config_.groups[i];
    if (g.is_state() || times_[i] == 0) continue;
    const bool grows = g.live.fixed || g.live.everything();
    (grows ? growing : falling).push_back(i);
    if (grows) settled += times_[i] * held_tokens(g, tokens_, tokens_).pages;
    if (!grows) period = common_multiple(period, period_of(g));
  }
  if (!falling.empty() && looks(falling, period) <= kMostLooks) {
    most_ = most_of(falling, growing, period);
  } else {
    const bool alike = falling.empty() && slots(in_flight) == slots(0);  // for all tokens in flight
    most_.assign(alike ? 1 : steps_, settled);
    for (const size_t i : falling) add_worst_of_one(i);
  }
  add_states();
  draw_hull();
}

uint64_t WorstCase::pages_of_all(uint64_t sequences) const {
  uint64_t pages = capped_sum(1 + use_.spare_pages, most_[0], sequences), left = use_.step_depth * use_.step_tokens;
  uint64_t part = 0, of = 1;  // of a segment
  for (const Segment& segment : hull_) {
    const uint64_t times = std::min(sequences, left / segment.tokens);
    pages = capped_sum(pages, segment.pages, times);
    left -= times * segment.tokens;
    if (times == sequences) continue;
    part = capped_sum(0, left, segment.pages);
    of = segment.tokens;
    break;
  }
  return capped_sum(pages, part / of, 1);
}

// Groups of which a sequence always holds the same are looked at once.
void WorstCase::find_alike() {
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

// About how many pairs most_of() looks at, times the groups. Beyond kMostLooks groups are counted one by one, so another estimate may
// change results.
uint64_t WorstCase::looks(Groups falling, uint64_t period) const {
  uint64_t begins = 1, ends = 0;
  for (const size_t i : falling) {
    const GroupPlan& g = config_.groups[i];
    begins += steps_ * unit_ / std::max<uint64_t>(g.block_tokens, g.live.chunk) + 2;
  }
  for (size_t i = 0; i < times_.size(); ++i) {
    const GroupPlan& g = config_.groups[i];
    ends += g.is_state() || times_[i] == 0 ? 0 : std::min(period, tokens_) / g.block_tokens + 1;
  }
  return capped_sum(0, begins, capped_sum(0, ends, config_.groups.size()));
}

// The first tokens of blocks of these groups in the last period, the tokens before one and that token counted.
std::vector<uint64_t> WorstCase::ends(Groups groups, uint64_t period) const {
  std::vector<uint64_t> out;
  for (const size_t i : groups) {
    const uint64_t block = config_.groups[i].block_tokens;
    if (config_.groups[i].live.fixed) continue;
    for (uint64_t end = (tokens_ - 1) / block * block + 1; end + period > tokens_; end -= block) {
      out.push_back(end);
      if (end <= block) break;
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// As most_, of these groups alone: the largest sum of their pages.
std::vector<uint64_t> WorstCase::most_of(Groups falling, Groups growing, uint64_t period) const {
  std::vector<uint64_t> found(steps_, 0);
  std::vector<size_t> all(falling.begin(), falling.end());
  all.insert(all.end(), growing.begin(), growing.end());
  for (const uint64_t end : ends(all, period)) {
    uint64_t grown = 0;
    for (const size_t i : growing) grown += times_[i] * held_tokens(config_.groups[i], end, end).pages;
    std::vector<FallingPages> ranges;
    ranges.reserve(falling.size());
    const uint64_t least = end - std::min(end, steps_ * unit_ - 1 + ahead_);
    for (const size_t i : falling) ranges.emplace_back(config_.groups[i], times_[i], least, end);
    for (bool more = true; more;) {
      uint64_t pages = grown, committed = end;
      for (const FallingPages& range : ranges) {
        pages += range.pages();
        committed = std::min(committed, range.last());
      }
      const uint64_t in_flight = end - committed - std::min(end - committed, ahead_);
      uint64_t& most = found[unit_ == 1 ? in_flight : in_flight / unit_];  // mostly 1, and a division is slow
      most = std::max(most, pages);
      for (FallingPages& range : ranges) {
        if (range.last() == committed) range.pass_last();
      }
      more = committed < end;
    }
  }
  uint64_t pages = 0;
  for (uint64_t& most : found) most = pages = std::max(pages, most);
  return found;
}

void WorstCase::add_worst_of_one(size_t i) {
  const GroupPlan& g = config_.groups[i];
  const uint64_t period = period_of(g);
  if (looks(std::span(&i, 1), period) <= kMostLooks) {
    const std::vector<uint64_t> more = most_of(std::span(&i, 1), {}, period);
    for (size_t k = 0; k < more.size(); ++k) most_[k] += more[k];
    return;
  }
  for (size_t k = 0; k < most_.size(); ++k)
    most_[k] += times_[i] * pages_needed(g, blocks_needed(g, (k + 1) * unit_ - 1 + ahead_, tokens_));
}

// The current state, those at the ends of rows and branches, and those of boundaries that rows of so many tokens cross on their way:
// kernels write all of them, or rows with branches do. Rows of branches follow each other, or a chunk is between them.
uint64_t WorstCase::slots(uint64_t in_flight) const {
  const uint64_t grid = config_.hit_alignment_tokens, crossed = in_flight < 2 ? 0 : ceil_div(in_flight - 1, grid);
  const uint64_t written = use_.spacing == 0 ? 0 : ceil_div(in_flight, use_.spacing) + use_.step_depth * use_.kept_on_the_way;
  const uint64_t rows = use_.step_depth, in_rows = ceil_div(rows * (use_.branches + 1) - 1, grid);
  const uint64_t branched = use_.branches == 0 ? 0 : std::max(in_rows, (rows - 1) * ceil_div(use_.branches, grid));
  return slots_decoding(use_) + std::min(crossed, std::max(written, branched));
}

void WorstCase::add_states() {
  uint64_t last = 0, each = 0;  // pages of all groups: of the last slot, and of one before it
  for (const GroupPlan& g : config_.groups) {
    if (!g.is_state()) continue;
    const uint64_t ids = g.ids_per_block;
    last += ceil_div(ids, g.parts_per_page);
    each += std::min(ids, ceil_div(ids - common_parts(g), g.parts_per_page) + 1);
  }
  if (each == 0) return;
  const bool alike = slots(0) == slots(most_.size() * unit_ - 1);  // more tokens never take fewer
  uint64_t pages = capped_sum(last, each, slots(0) - 1);
  for (size_t k = 0; k < most_.size(); ++k) {
    if (!alike) pages = capped_sum(last, each, slots((k + 1) * unit_ - 1) - 1);
    most_[k] = capped_sum(most_[k], pages, 1);
  }
}

void WorstCase::draw_hull() {
  uint64_t from = 0;
  for (uint64_t k = 1; k < most_.size(); ++k) {
    if (most_[k] == most_[k - 1]) continue;
    Segment next{(k - from) * unit_, most_[k] - most_[from]};
    while (!hull_.empty() &&
           capped_sum(0, next.pages, hull_.back().tokens) >= capped_sum(0, hull_.back().pages, next.tokens)) {  // not less steep
      next = Segment{next.tokens + hull_.back().tokens, next.pages + hull_.back().pages};
      hull_.pop_back();
    }
    hull_.push_back(next);
    from = k;
  }
}

}  // namespace quire
