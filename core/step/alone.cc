// What a plan promises: a sequence that is alone runs to its end. Pages decide that, not parts: one part in use keeps a page from every
// other group, and the blocks of a hit lie wherever others have left them.
//
//   for a sequence that is alone:   sum over groups of max(pages that the group uses, pages that it needs) <= pages of the pool
//
// From there on every part it will ask for can be had: where a group uses fewer pages than it needs there is a page for it, and otherwise
// the pages it uses have parts that nobody else holds. A hit is taken as far as this stays true, and pages are opened beside holes as long
// as it does.
#include <algorithm>
#include <array>

#include "core/plan/capacity.h"
#include "core/step/hits.h"
#include "core/step/state.h"

namespace quire {

// What the plan counts, for the steps that this cache can have in flight.
void Cache::Impl::prepare_alone() {
  pages_alone.assign(facts.num_groups, 0);
  pages_by_hit.assign(facts.num_groups, 0);
  bool scatters = false;
  uint64_t pages = 0, in_flight = uint64_t{facts.limits.max_tokens} * facts.limits.depth;
  if (facts.config->max_tokens_in_flight > 0) in_flight = std::min(in_flight, facts.config->max_tokens_in_flight);
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const uint64_t most_blocks = facts.groups[g].state
                                     ? std::max(facts.states_of_whole(facts.config->max_model_len), blocks_needed(facts.plan(g), 0, 0))
                                     : blocks_needed(facts.plan(g), in_flight, facts.config->max_model_len);
    pages_alone[g] = pages_needed(facts.plan(g), most_blocks);
    pages += pages_alone[g];
    scatters = scatters || facts.plan(g).parts_per_page > 1;
  }
  if (!scatters || pages >= facts.config->num_pages) return;  // a part is a page, or nothing was promised
  all_alone = pages;
  uses_by_hit.assign(facts.config->num_pages, 0);
}

// The last token at which a hit may end so that what the sequence still lacks, to the longest that it may get, can be placed beside it.
// Blocks are given up from the end; those of groups that do not need everything may be others at a shorter hit.
uint64_t Cache::Impl::end_of_room(const EntryPlan& intent) {
  const uint64_t most = facts.config->num_pages - 1;
  uint64_t pages = all_alone, end_of_room = intent.position;
  if (parts_of_hit(intent) + pages <= most) return end_of_room;
  std::fill(pages_by_hit.begin(), pages_by_hit.end(), 0);
  visit_hit(facts, index, intent.found.node, intent.position, [&](uint32_t g, uint64_t, PartIndex head) {
    for (PartIndex p = head; p.value != kNone; p = pool.next_in_block(p)) {
      if (uses_by_hit[pool.page_of(p).value]++ == 0 && ++pages_by_hit[g] > pages_alone[g]) ++pages;
    }
  });
  visit_hit(facts, index, intent.found.node, intent.position, [&](uint32_t g, uint64_t end, PartIndex head) {
    if (pages > most) end_of_room = end - 1;
    for (PartIndex p = head; p.value != kNone; p = pool.next_in_block(p)) {
      if (--uses_by_hit[pool.page_of(p).value] == 0 && pages_by_hit[g]-- > pages_alone[g]) --pages;
    }
  });
  return end_of_room;
}

// The longest hit; of a sequence that is alone, as far as there is room. From the second look on half of it goes,
// so that all looks together cost what the first one does. What is cut off will be evicted; that it was there stays true.
void Cache::Impl::find_hit(std::span<const quire_symbol> symbols, EntryPlan* intent) {
  const uint32_t root = sequences.at(intent->sequence).root;
  const Match longest = index.match(root, symbols);
  intent->found = longest;
  intent->junction = longest.full_hit_tokens > longest.hit_tokens ? longest.full_hit_tokens : 0;
  intent->position = longest.hit_tokens;
  const auto cut = [&](uint64_t most) {
    intent->found = index.match(root, symbols.first(most + 1));
    intent->found.full_hit_tokens = longest.full_hit_tokens;
    intent->found.miss = QUIRE_MISS_EVICTED;
    intent->position = intent->found.hit_tokens;
  };
  if (intent->most < intent->position) cut(intent->most);
  for (bool first = true; all_alone > 0 && sequences.num_begun() == 0 && intent->position > 0; first = false) {
    const uint64_t room = end_of_room(*intent);
    if (room == intent->position) break;
    cut(first ? room : std::min(room, intent->position / 2));
  }
}

// Not counted so far is what a step holds twice: the block that the hit ends inside and its copy, the hit's state and those that the row
// writes. Where nobody has tokens and nothing is in flight nobody makes room for both, so the same call would be refused for ever: then the
// hit is shorter, at last none.
quire_code Cache::Impl::decide(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const Step& step, EntryPlan* intent,
                               quire_reserve_result* result) {
  quire_code code = intend(entry, symbols, step, intent);
  if (code == QUIRE_OK) code = admit(entry, intent, result);
  bool again = false;
  while (code == QUIRE_RESOURCE_EXHAUSTED && sequences.num_begun() == 0 && steps.num_in_flight() == 0 && intent->position > 0) {
    EntryPlan shorter;
    shorter.load = intent->load;
    shorter.most = std::min((intent->position - 1) / facts.block_grid * facts.block_grid, again ? intent->position / 2 : intent->position);
    *intent = shorter;
    again = true;
    code = intend(entry, symbols, step, intent);
    if (code == QUIRE_OK) code = admit(entry, intent, result);
  }
  if (code == QUIRE_OK) result->missing_pages = result->group = 0;
  if (code == QUIRE_RESOURCE_EXHAUSTED) judge(entry, step, *intent, result);
  return code;
}

// Pages and parts, by group, that a sequence without rows in flight has.
void Cache::Impl::own_of(uint32_t q, std::span<uint64_t> pages, std::span<uint64_t> parts) {
  ++mark;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const auto add = [&](PartIndex p) {
      for (; p.value != kNone; p = pool.next_in_block(p), ++parts[g]) {
        uint64_t& stamp = page_marks[pool.page_of(p).value];
        pages[g] += stamp != mark ? 1 : 0;
        stamp = mark;
      }
    };
    const Holding& h = sequences.holding(q, g);
    add(h.current);
    for (uint32_t i = 0; i < h.num_spares; ++i) add(sequences.spares(q, g)[i]);
    for (uint32_t b = 0; b < h.num_blocks; ++b) add(blocks.block_head(q, g, b));
  }
}

// A refused entry is told apart from one that would be refused if nobody else had anything, with nothing to hit. What lies scattered over
// more pages than it fills, or is another's to be copied, is not when the sequence starts anew; admission of a whole one counts what it has
// as it is.
void Cache::Impl::judge(const quire_reserve_entry& entry, const Step& step, const EntryPlan& intent, quire_reserve_result* result) {
  if (sequences.at(intent.sequence).in_flight > 0) return;  // what its steps hold may be given back
  EntryPlan alone = intent;
  if (intent.match) {
    const uint64_t room = facts.limits.max_tokens - step.num_slots - entry.num_look_ahead;
    alone.position = alone.junction = 0;
    alone.chunk_stop = alone.last_boundary = false;
    alone.num_tokens =
        static_cast<uint32_t>(std::min({uint64_t{entry.num_tokens}, uint64_t{entry.num_symbols}, room, facts.config->max_model_len}));
    choose_chunk(entry, &alone);
    alone.end = std::min<uint64_t>(alone.num_tokens + (alone.chunk_stop ? 0 : entry.num_look_ahead), facts.config->max_model_len);
  }
  const bool whole = entry.full_tokens > alone.end;
  const uint64_t end = whole ? std::min<uint64_t>(entry.full_tokens, facts.config->max_model_len) : alone.end;
  std::array<uint64_t, kMaxGroups> own_pages{}, own_parts{};
  own_of(intent.sequence, own_pages, own_parts);
  uint64_t wanted = 0, most = 0;
  uint32_t group = 0;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const uint32_t each = facts.plan(g).parts_per_page;
    const bool copies = !whole && !alone.match && blocks.tail_is_shared(alone.sequence, g, alone.position);
    const uint64_t parts = (blocks_wanted(alone, g, end, whole) - (copies ? 1 : 0)) * facts.plan(g).ids_per_block;
    const uint64_t holes = own_pages[g] * each - own_parts[g];
    const uint64_t pages = whole ? own_pages[g] + ceil_div(parts - std::min(parts, holes), each) : ceil_div(own_parts[g] + parts, each);
    wanted += pages;
    if (pages <= own_pages[g] + most) continue;
    most = pages - own_pages[g];
    group = g;
  }
  if (wanted <= facts.config->num_pages - 1) return;
  result->flags = QUIRE_RESULT_NEVER_FITS;
  result->group = group;
  result->missing_pages = wanted - (facts.config->num_pages - 1);
}

// Where a sequence that is alone takes its parts: opening pages beside holes must leave the others what they need.
AllocFrom Cache::Impl::room_alone(const EntryPlan& intent, AllocFrom room) const {
  uint64_t opening = 0, filling = 0;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const GroupId group(g);
    const uint64_t parts = blocks_wanted(intent, g, intent.end, false) * facts.plan(g).ids_per_block;
    const uint64_t claimed = pool.claimed_holes(sequences.holding(intent.sequence, g).claim, group, blocks.owner(intent.sequence));
    const uint64_t used = pool.used_pages(group) + (intent.match ? opened_by_hit[g] : 0);
    const auto pages = [&](uint64_t holes) {
      return std::max(used + ceil_div(parts - std::min(parts, holes), facts.plan(g).parts_per_page), pages_alone[g]);
    };
    opening += pages(claimed);
    filling += pages(pool.open_holes(group));
  }
  const uint64_t most = facts.config->num_pages - 1;
  return opening <= most ? room : filling <= most ? std::max(room, AllocFrom::kHoles) : AllocFrom::kCached;
}

}  // namespace quire
