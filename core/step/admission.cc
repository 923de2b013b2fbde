#include "core/step/admission.h"

#include <algorithm>
#include <array>

#include "core/base/checked.h"
#include "core/plan/capacity.h"
#include "core/step/hits.h"
#include "core/step/refusal.h"

namespace quire {

// Pages of a lone sequence: what the plan counts, for the steps that this cache can have in flight.
Admission::Admission(const Facts& facts, const Pool& pool, PrefixIndex& index, const Sequences& sequences, const Steps& steps,
                     const Blocks& blocks, const States& states, Pins& pins, const PromptEnds& prompt_ends, UnitReports& units)
    : facts_(facts),
      pool_(pool),
      index_(index),
      sequences_(sequences),
      steps_(steps),
      blocks_(blocks),
      states_(states),
      pins_(pins),
      prompt_ends_(prompt_ends),
      units_(units),
      ahead_(facts, index, sequences),
      pages_alone_(facts.num_groups),
      idle_by_hit_(facts.num_groups),
      opened_by_hit_(facts.num_groups),
      pages_by_hit_(facts.num_groups),
      page_marks_(facts.config->num_pages) {
  bool scatters = false;
  uint64_t pages = 0, in_flight = uint64_t{facts.limits.max_tokens} * facts.limits.depth;
  if (facts.config->max_tokens_in_flight > 0) in_flight = std::min(in_flight, facts.config->max_tokens_in_flight);
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const uint64_t most_blocks = facts.groups[g].state
                                     ? std::max(facts.states_of_whole(facts.config->max_model_len), blocks_needed(facts.plan(g), 0, 0))
                                     : blocks_needed(facts.plan(g), in_flight, facts.config->max_model_len);
    pages_alone_[g] = pages_needed(facts.plan(g), most_blocks);
    pages += pages_alone_[g];
    scatters = scatters || facts.plan(g).parts_per_page > 1;
  }
  if (!scatters || pages >= facts.config->num_pages) return;  // a part is a page, or nothing was promised
  all_alone_ = pages;
  uses_by_hit_.assign(facts.config->num_pages, 0);
}

// Not counted so far is what a step holds twice: the block that the hit ends inside and its copy, the hit's state and those that the row
// writes. Where nobody has tokens and nothing is in flight nobody makes room for both, so the same call would be refused for ever: then the
// hit is shorter, at last none.
quire_code Admission::admit_with_retry(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const Step& step,
                                       EntryPlan* plan, quire_reserve_result* result) {
  quire_refusal reason = plan_entry(entry, symbols, step, plan);
  quire_code code = reason == QUIRE_REFUSAL_NONE ? admit(entry, plan, result) : code_of(reason);
  NodeId hit{kNone};  // where nothing is needed to resume, nothing but a unit may keep the place
  if (code == QUIRE_RESOURCE_EXHAUSTED && units_.any_waiting()) {
    if (plan->match) index_.hold(hit = plan->found.node);
    units_.give_up_waiting();
    EntryPlan same;
    same.load = plan->load;
    *plan = same;
    reason = plan_entry(entry, symbols, step, plan);
    code = reason == QUIRE_REFUSAL_NONE ? admit(entry, plan, result) : code_of(reason);
  }
  bool again = false;
  while (code == QUIRE_RESOURCE_EXHAUSTED && sequences_.num_begun() == 0 && steps_.num_in_flight() == 0 && plan->position > 0) {
    EntryPlan shorter;
    shorter.load = plan->load;
    shorter.most = std::min((plan->position - 1) / facts_.block_grid * facts_.block_grid, again ? plan->position / 2 : plan->position);
    *plan = shorter;
    again = true;
    reason = plan_entry(entry, symbols, step, plan);
    code = reason == QUIRE_REFUSAL_NONE ? admit(entry, plan, result) : code_of(reason);
  }
  if (code == QUIRE_OK && hit.value != kNone && !plan->held) {
    index_.hold(plan->found.node);
    plan->held = true;
  }
  if (code == QUIRE_OK) result->missing_pages = result->group = 0;
  if (code == QUIRE_RESOURCE_EXHAUSTED) explain_refusal(entry, step, *plan, result);
  const bool never = (result->flags & QUIRE_RESULT_NEVER_FITS) != 0;
  result->reason = code != QUIRE_RESOURCE_EXHAUSTED ? reason : never ? QUIRE_REFUSAL_NEVER_FITS : QUIRE_REFUSAL_NO_ROOM;
  if (hit.value != kNone) index_.drop(hit);
  return code;
}

// Parts that tables lack to reach `end`; how far the blocks go that a row to there shows.
uint64_t Admission::count_next(uint32_t q, uint64_t end, uint64_t* parts) const {
  uint64_t shown = UINT64_MAX;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& f = facts_.groups[g];
    if (!f.grows) continue;
    const uint64_t wanted = f.block.ceil(end), have = sequences_.holding(q, g).num_blocks;
    *parts += wanted > have ? (wanted - have) * f.columns : 0;
    shown = std::min(shown, wanted * f.block_tokens);
  }
  return shown;
}

quire_refusal Admission::plan_entry(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const Step& step,
                                    EntryPlan* plan) {
  uint32_t index_of = sequences_.find(SequenceId(entry.sequence));
  if (index_of == kNone) return QUIRE_REFUSAL_STALE;
  const Sequence& s = sequences_.at(index_of);
  if (s.mark == step.id) return QUIRE_REFUSAL_TWICE;
  if (s.loading) return QUIRE_REFUSAL_LOADING;
  if (entry.num_tokens == 0) return QUIRE_REFUSAL_NO_TOKENS;
  const bool match = (entry.flags & QUIRE_ENTRY_MATCH) != 0;
  if (s.reserved != 0 && (match || entry.encoder_tokens != 0)) return QUIRE_REFUSAL_NOT_EMPTY;
  if (match && s.known != 0) return QUIRE_REFUSAL_NOT_EMPTY;
  if (match && entry.num_symbols == 0) return QUIRE_REFUSAL_NO_PROMPT;
  if (entry.num_symbols != 0 && entry.symbols_position != s.known) return QUIRE_REFUSAL_POSITION;
  plan->sequence = index_of;
  plan->encoder = static_cast<uint32_t>(entry.encoder_tokens);
  plan->position = s.reserved;
  uint64_t most = entry.num_tokens;
  if (match) {
    plan->match = true;
    plan->found.node = index_.root_node(s.root);
    if (!facts_.reuse || (s.flags & QUIRE_SEQUENCE_NO_MATCH) != 0) {
      plan->found.miss = QUIRE_MISS_DISABLED;
    } else {
      find_hit(symbols, plan);
    }
    plan->position = plan->found.hit_tokens;
    most = std::min<uint64_t>(most, entry.num_symbols - plan->position);
  }
  // Look-ahead slots count as tokens of the step: so everything a step can take is bounded.
  const uint64_t room = tokens_left(step, *plan);
  if (entry.num_look_ahead >= facts_.limits.max_tokens) return QUIRE_REFUSAL_LOOK_AHEAD;
  if (entry.num_look_ahead >= room) return QUIRE_REFUSAL_STEP_FULL;
  most = std::min(most, room - entry.num_look_ahead);
  const uint64_t longest = facts_.config->max_model_len;
  if (plan->position >= longest || most > longest - plan->position) return QUIRE_REFUSAL_TOO_LONG;
  plan->num_tokens = static_cast<uint32_t>(most);
  choose_chunk(entry, plan);
  uint64_t ahead = plan->chunk_stop ? 0 : entry.num_look_ahead;
  plan->end = std::min<uint64_t>(plan->position + plan->num_tokens + ahead, facts_.config->max_model_len);
  find_adopted(symbols, plan);
  return QUIRE_REFUSAL_NONE;
}

// A sequence that is alone counts on pages that scattered blocks could take.
void Admission::find_adopted(std::span<const quire_symbol> symbols, EntryPlan* plan) {
  plan->adopted = ahead_.find(symbols, *plan);
  if (plan->adopted.empty() || all_alone_ == 0 || !is_alone(plan->sequence)) return;
  if (!plan->match || parts_of_hit(*plan) + all_alone_ > facts_.config->num_pages - 1) plan->adopted = {};
}

// The longest hit; of a sequence that is alone, as far as there is room. From the second look on half of it goes,
// so that all looks together cost what the first one does. What is cut off will be evicted; that it was there stays true.
void Admission::find_hit(std::span<const quire_symbol> symbols, EntryPlan* plan) {
  const uint32_t root = sequences_.at(plan->sequence).root;
  const Match longest = index_.match(root, symbols);
  plan->found = longest;
  plan->branch_point = longest.full_hit_tokens > longest.hit_tokens ? longest.full_hit_tokens : 0;
  plan->position = longest.hit_tokens;
  const auto cut = [&](uint64_t most) {
    const Match shorter = index_.match(root, symbols.first(most + 1));
    plan->found.node = shorter.node;
    plan->found.hit_tokens = plan->position = shorter.hit_tokens;
    plan->found.miss = QUIRE_MISS_EVICTED;
  };
  if (plan->most < plan->position) cut(plan->most);
  for (bool first = true; all_alone_ > 0 && sequences_.num_begun() == 0 && plan->position > 0; first = false) {
    const uint64_t room = end_of_room(*plan);
    if (room == plan->position) break;
    cut(first ? room : std::min(room, plan->position / 2));
  }
}

// Boundaries of the row whose states are kept for a reason of their own. Where the state at its end is asked for, the last boundary that
// can be hit is the next best. The end of a prompt and the point where others left its way may lie in any chunk.
KeptBoundaries Admission::boundaries(const quire_reserve_entry& entry, const EntryPlan& plan) const {
  const Sequence& s = sequences_.at(plan.sequence);
  const uint64_t end = plan.position + plan.num_tokens;
  const bool ends = (entry.flags & QUIRE_ENTRY_PROMPT_END) != 0;
  const uint64_t matched = plan.match ? entry.num_symbols : s.prompt;
  KeptBoundaries b;
  if (ends && end != matched) {
    b.prompt_end = prompt_ends_.kept_at(end);
  } else if (matched > plan.position) {
    b.prompt_end = plan.match ? prompt_ends_.kept_at(matched) : s.prompt_end;  // as its first row saw it, whatever was learned since
  }
  if ((entry.flags & QUIRE_ENTRY_KEEP_STATE) != 0) b.asked = facts_.joint.quotient(end) * facts_.config->hit_alignment_tokens;
  b.branch_point = plan.match ? plan.branch_point : s.branch_point;
  const auto in_row = [&](uint64_t at, uint32_t reason) {
    return (facts_.limits.keep & reason) != 0 && at > plan.position && at <= end ? at : 0;
  };
  return {in_row(b.prompt_end, QUIRE_KEEP_PROMPT_END), in_row(b.asked, QUIRE_KEEP_ASKED), in_row(b.branch_point, QUIRE_KEEP_JUNCTION)};
}

// Of them those where the row ends; what the engine says of its end is true whether or not others could find it.
KeptBoundaries Admission::boundaries_at_end(const quire_reserve_entry& entry, const EntryPlan& plan) const {
  const uint64_t end = plan.position + plan.num_tokens, branch_point = boundaries(entry, plan).branch_point;
  KeptBoundaries b;
  if ((entry.flags & QUIRE_ENTRY_PROMPT_END) != 0 && (facts_.limits.keep & QUIRE_KEEP_PROMPT_END) != 0) b.prompt_end = end;
  const bool asked = (entry.flags & QUIRE_ENTRY_KEEP_STATE) != 0 || plan.load;  // somebody kept what a load brings
  if (asked && (facts_.limits.keep & QUIRE_KEEP_ASKED) != 0) b.asked = end;
  if (branch_point == end) b.branch_point = end;
  return b;
}

// Where the chunk ends: a state can be kept at its end only on the grid, so a longer chunk stops there. Not where kernels write the states
// on its way.
void Admission::choose_chunk(const quire_reserve_entry& entry, EntryPlan* plan) const {
  plan->kept = {};
  if (!sequences_.at(plan->sequence).publishing) return;
  const bool on_the_way = facts_.limits.at_blocks || facts_.writes_each_token(plan->num_tokens);
  const bool may_stop = (entry.flags & QUIRE_ENTRY_NO_STOP) == 0;
  if (!facts_.has_states || plan->load || (!may_stop && !on_the_way)) {
    plan->kept = boundaries_at_end(entry, *plan);
    return;
  }
  const KeptBoundaries kept = boundaries(entry, *plan);
  plan->kept = kept;
  if (on_the_way) return;
  const uint64_t end = plan->position + plan->num_tokens, spacing = facts_.spacing;
  uint64_t stop = (facts_.limits.keep & (QUIRE_KEEP_EVERY | QUIRE_KEEP_CHUNK_END)) != 0 ? end / spacing * spacing : 0;
  stop = std::max({stop, kept.prompt_end, kept.asked});
  // Where attention alone would have resumed somebody was before, and somebody will be again: this time the state is kept, too.
  if (kept.branch_point > 0) stop = kept.branch_point;
  if (facts_.every && (facts_.limits.keep & QUIRE_KEEP_EVERY) != 0) {
    const uint64_t next = (plan->position / spacing + 1) * spacing;
    if (next <= end) stop = stop > plan->position ? std::min(stop, next) : next;
  }
  if (stop > plan->position && stop < end) {
    plan->num_tokens = static_cast<uint32_t>(stop - plan->position);
    plan->chunk_stop = true;
  }
  const uint64_t at = plan->position + plan->num_tokens;
  plan->kept = {kept.prompt_end == at ? at : 0, kept.asked == at ? at : 0, kept.branch_point == at ? at : 0};
}

quire_code Admission::admit(const quire_reserve_entry& entry, EntryPlan* plan, quire_reserve_result* result) {
  quire_code code = admit_unpinned(entry, plan, result);
  if (code == QUIRE_OK || !pins_.any() || units_.any_waiting()) return code;
  while (code != QUIRE_OK && pins_.loosen_softest()) {
    plan->give_up = false;
    code = admit_unpinned(entry, plan, result);
  }
  plan->held = code == QUIRE_OK && plan->match;
  if (plan->held) index_.hold(plan->found.node);
  pins_.settle_loose(code == QUIRE_OK);
  return code;
}

quire_code Admission::admit_unpinned(const quire_reserve_entry& entry, EntryPlan* plan, quire_reserve_result* result) {
  quire_code code = admit_keeping(entry, plan, result);
  // Cached blocks may lie scattered over more pages than new ones take.
  if (code != QUIRE_OK && !plan->load && !plan->adopted.empty() && !pool_.plain()) {
    plan->adopted = {};
    code = admit_keeping(entry, plan, result);
  }
  if (code == QUIRE_OK || !facts_.limits.in_place || !facts_.has_states || plan->match) return code;
  plan->give_up = true;
  return admit_keeping(entry, plan, result);
}

quire_code Admission::admit_keeping(const quire_reserve_entry& entry, EntryPlan* plan, quire_reserve_result* result) {
  bool whole = entry.full_tokens > plan->end;
  if (!plan->match && !whole && wants_nothing(*plan)) return QUIRE_OK;
  const Sequence& s = sequences_.at(plan->sequence);
  // What is kept free for running sequences; where nothing is in use there are none, and a lone request that fits always completes.
  const bool begins = s.reserved == 0 && pool_.used_pages() > 0;
  uint64_t spared = begins ? facts_.limits.watermark_pages : 0;
  // One more request at once is not worth what the others resume from when their next turns come.
  if (begins && whole) spared += pool_.counts().spared_pages;
  const uint64_t want_end = whole ? std::min<uint64_t>(entry.full_tokens, facts_.config->max_model_len) : plan->end;
  Demand d = count(*plan, want_end, whole);
  uint64_t available = pool_.available_pages();
  const uint64_t rest = is_alone(plan->sequence) ? all_alone_ : 0;
  // Where there is plenty, what the hit takes out of the evictable pages need not be known exactly.
  if (d.pages + spared + rest + (plan->takes_cached() ? parts_of_hit(*plan) : 0) <= available) return QUIRE_OK;
  const EvictableHits taken = plan->takes_cached() ? evictable_hits(*plan) : EvictableHits{};
  if (begins && whole) spared -= taken.spared;
  if (plan->takes_cached()) d = count(*plan, want_end, whole);
  available = available > taken.pages + spared ? available - taken.pages - spared : 0;
  plan->room = d.pages <= available ? AllocFrom::kPages : d.pages_using_holes <= available ? AllocFrom::kHoles : AllocFrom::kCached;
  if (plan->room != AllocFrom::kCached || d.pages_using_all <= available) {
    if (rest > 0) plan->room = room_alone(*plan, plan->room);
    return QUIRE_OK;
  }
  result->group = d.worst_group;
  result->missing_pages = d.pages_using_all - available;
  return QUIRE_RESOURCE_EXHAUSTED;
}

// Blocks the group lacks to have slots up to `end`.
uint64_t Admission::blocks_wanted(const EntryPlan& plan, uint32_t group, uint64_t end, bool whole_sequence) const {
  const GroupFacts& g = facts_.groups[group];
  const Holding& h = sequences_.holding(plan.sequence, group);
  // A row that keeps boundaries on its way to drafts takes more than stay resident.
  if (g.state) return std::max(states_.states_wanted(plan, group), whole_sequence ? facts_.states_of_whole(end) : 0);
  if (!g.grows) return g.block.ceil(plan.encoder);
  uint64_t have = plan.match ? g.block.quotient(plan.position) : h.num_blocks;
  uint64_t want = g.block.ceil(end);
  if (plan.load && !whole_sequence) {
    const Stretch dead = g.dead_blocks(end);
    want -=
        std::min<uint64_t>(dead.end, want) - std::min<uint64_t>(std::max<uint64_t>(dead.first, have), std::min<uint64_t>(dead.end, want));
  }
  for (const Adopted& adopted : plan.adopted) want -= adopted.group == group ? 1 : 0;
  if (whole_sequence && g.falls) {
    // Only the live tail and what is in flight are ever resident together.
    const uint64_t span = g.live.longest_tail() + g.live.sink + facts_.limits.max_tokens;
    want = std::min(want, have + g.block.ceil(span) + 1);
  }
  return (want > have ? want - have : 0) + (!plan.match && blocks_.tail_is_shared(plan.sequence, group, plan.position) ? 1 : 0);
}

// Most rows of a decode step: every slot and state that they write is theirs already.
bool Admission::wants_nothing(const EntryPlan& plan) const {
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (blocks_wanted(plan, g, plan.end, false) > 0) return false;
  }
  return true;
}

Admission::Demand Admission::count(const EntryPlan& plan, uint64_t end, bool whole_sequence) const {
  Demand d;
  uint64_t most = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    uint64_t parts = blocks_wanted(plan, g, end, whole_sequence) * facts_.plan(g).ids_per_block;
    uint32_t claimed = pool_.claimed_holes(sequences_.holding(plan.sequence, g).fill_page, GroupId(g), blocks_.owner(plan.sequence));
    uint64_t rest = parts > claimed ? parts - claimed : 0;
    uint64_t pages = ceil_div(rest, facts_.plan(g).parts_per_page);
    uint64_t other = pool_.open_parts(GroupId(g)).holes - claimed;
    uint64_t all = other + pool_.open_parts(GroupId(g)).cached + static_cast<uint64_t>(plan.takes_cached() ? idle_by_hit_[g] : 0);
    d.pages += pages;
    d.pages_using_holes += ceil_div(rest > other ? rest - other : 0, facts_.plan(g).parts_per_page);
    d.pages_using_all += ceil_div(rest > all ? rest - all : 0, facts_.plan(g).parts_per_page);
    if (pages > most) {
      most = pages;
      d.worst_group = g;
    }
  }
  return d;
}

uint64_t Admission::parts_of_hit(const EntryPlan& plan) const {
  uint64_t parts = 0;
  for (const GroupFacts& g : facts_.groups) parts += !plan.match ? 0 : g.grows ? g.block.ceil(plan.position) * g.columns : g.columns;
  for (const Adopted& adopted : plan.adopted) parts += facts_.groups[adopted.group].columns;
  return parts;
}

// Pages that stop being evictable once the hit's blocks are referenced; notes what else they hold.
Admission::EvictableHits Admission::evictable_hits(const EntryPlan& plan) {
  ++mark_;
  EvictableHits hits;
  std::fill(idle_by_hit_.begin(), idle_by_hit_.end(), 0);
  std::fill(opened_by_hit_.begin(), opened_by_hit_.end(), 0);
  const auto open = [&](uint32_t g, uint64_t, PartIndex head) {
    if (pool_.held(head)) return;
    for (PartIndex p = head; p.value != kNone; p = pool_.next_in_block(p)) {
      PageId page = pool_.page_of(p);
      --idle_by_hit_[g];
      if (!pool_.evictable(page) || page_marks_[page.value] == mark_) continue;
      page_marks_[page.value] = mark_;
      idle_by_hit_[g] += pool_.idle_parts(page);
      ++opened_by_hit_[g];
      ++hits.pages;
      hits.spared += pool_.spares().has(page.value) ? 1 : 0;
    }
  };
  if (plan.match) visit_hit(facts_, index_, plan.found.node, plan.position, open);
  for (const Adopted& adopted : plan.adopted) open(adopted.group, 0, adopted.head);
  return hits;
}

// The last token at which a hit may end so that what the sequence still lacks, to the longest that it may get, can be placed beside it.
// Blocks are given up from the end; those of groups that do not need everything may be others at a shorter hit.
uint64_t Admission::end_of_room(const EntryPlan& plan) {
  const uint64_t most = facts_.config->num_pages - 1;
  uint64_t pages = all_alone_, end_of_room = plan.position;
  if (parts_of_hit(plan) + pages <= most) return end_of_room;
  std::fill(pages_by_hit_.begin(), pages_by_hit_.end(), 0);
  visit_hit(facts_, index_, plan.found.node, plan.position, [&](uint32_t g, uint64_t, PartIndex head) {
    for (PartIndex p = head; p.value != kNone; p = pool_.next_in_block(p)) {
      if (uses_by_hit_[pool_.page_of(p).value]++ == 0 && ++pages_by_hit_[g] > pages_alone_[g]) ++pages;
    }
  });
  visit_hit(facts_, index_, plan.found.node, plan.position, [&](uint32_t g, uint64_t end, PartIndex head) {
    if (pages > most) end_of_room = end - 1;
    for (PartIndex p = head; p.value != kNone; p = pool_.next_in_block(p)) {
      if (--uses_by_hit_[pool_.page_of(p).value] == 0 && pages_by_hit_[g]-- > pages_alone_[g]) --pages;
    }
  });
  return end_of_room;
}

// Where a sequence that is alone takes its parts: opening pages beside holes must leave the others what they need.
AllocFrom Admission::room_alone(const EntryPlan& plan, AllocFrom room) const {
  uint64_t opening = 0, filling = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupId group(g);
    const uint64_t parts = blocks_wanted(plan, g, plan.end, false) * facts_.plan(g).ids_per_block;
    const uint64_t claimed = pool_.claimed_holes(sequences_.holding(plan.sequence, g).fill_page, group, blocks_.owner(plan.sequence));
    const uint64_t used = pool_.pages_of(group).used + (plan.takes_cached() ? opened_by_hit_[g] : 0);
    const auto pages = [&](uint64_t holes) {
      return std::max(used + ceil_div(parts - std::min(parts, holes), facts_.plan(g).parts_per_page), pages_alone_[g]);
    };
    opening += pages(claimed);
    filling += pages(pool_.open_parts(group).holes);
  }
  const uint64_t most = facts_.config->num_pages - 1;
  return opening <= most ? room : filling <= most ? std::max(room, AllocFrom::kHoles) : AllocFrom::kCached;
}

// Says so where the entry would be refused even if nobody else had anything, with nothing to hit. What lies scattered over
// more pages than it fills, or is another's to be copied, is not when the sequence starts anew; admission of a whole one counts what it has
// as it is.
void Admission::explain_refusal(const quire_reserve_entry& entry, const Step& step, const EntryPlan& plan, quire_reserve_result* result) {
  if (sequences_.at(plan.sequence).in_flight > 0) return;  // what its steps hold may be given back
  EntryPlan alone = plan;
  alone.adopted = {};
  if (plan.match) {
    const uint64_t room = tokens_left(step, plan) - entry.num_look_ahead;
    alone.position = alone.branch_point = 0;
    alone.chunk_stop = false;
    alone.num_tokens =
        static_cast<uint32_t>(std::min({uint64_t{entry.num_tokens}, uint64_t{entry.num_symbols}, room, facts_.config->max_model_len}));
    choose_chunk(entry, &alone);
    alone.end = std::min<uint64_t>(alone.num_tokens + (alone.chunk_stop ? 0 : entry.num_look_ahead), facts_.config->max_model_len);
  }
  const bool whole = entry.full_tokens > alone.end;
  const uint64_t end = whole ? std::min<uint64_t>(entry.full_tokens, facts_.config->max_model_len) : alone.end;
  std::array<uint64_t, kMaxGroups> own_pages{}, own_parts{};
  own_of(plan.sequence, own_pages, own_parts);
  uint64_t wanted = 0, most = 0;
  uint32_t group = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const uint32_t each = facts_.plan(g).parts_per_page;
    const bool copies = !whole && !alone.match && blocks_.tail_is_shared(alone.sequence, g, alone.position);
    const uint64_t parts = (blocks_wanted(alone, g, end, whole) - (copies ? 1 : 0)) * facts_.plan(g).ids_per_block;
    const uint64_t holes = own_pages[g] * each - own_parts[g];
    const uint64_t pages = whole ? own_pages[g] + ceil_div(parts - std::min(parts, holes), each) : ceil_div(own_parts[g] + parts, each);
    wanted += pages;
    if (pages <= own_pages[g] + most) continue;
    most = pages - own_pages[g];
    group = g;
  }
  if (wanted <= facts_.config->num_pages - 1) return;
  result->flags = QUIRE_RESULT_NEVER_FITS;
  result->group = group;
  result->missing_pages = wanted - (facts_.config->num_pages - 1);
}

// Pages and parts, by group, that a sequence without rows in flight has.
void Admission::own_of(uint32_t q, std::span<uint64_t> pages, std::span<uint64_t> parts) {
  ++mark_;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const auto add = [&](PartIndex p) {
      for (; p.value != kNone; p = pool_.next_in_block(p), ++parts[g]) {
        uint64_t& stamp = page_marks_[pool_.page_of(p).value];
        pages[g] += stamp != mark_ ? 1 : 0;
        stamp = mark_;
      }
    };
    const Holding& h = sequences_.holding(q, g);
    add(h.current);
    for (uint32_t i = 0; i < h.num_spares; ++i) add(sequences_.spares(q, g)[i]);
    if (h.num_blocks == 0) continue;
    for (const int32_t id : sequences_.table(q, g, 0).first(h.num_blocks)) {
      if (id != 0) add(pool_.index_of(GroupId(g), PartId(id)));
    }
  }
}

}  // namespace quire
