// Whether an entry of reserve fits: plans it, counts its pages before anything is taken, and says
// what is missing. Nothing is taken here, but soft pins may be given up.
//
// The progress guarantee: a sequence that is alone runs to its end. Pages decide that, not parts:
// one part in use keeps a page from every other group, and the blocks of a hit lie wherever others
// have left them.
//
//   for a sequence that is alone:
//     sum over groups of max(pages that the group uses, pages that it needs) <= pages of the pool
//
// From there on every part it will ask for can be had: where a group uses fewer pages than it needs
// there is a page for it, and otherwise the pages it uses have parts that nobody else holds. A hit
// is taken as far as this stays true, and pages are opened instead of filling holes as long as it
// does.
#pragma once

#include <quire/step.h>

#include <span>
#include <vector>

#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/blocks.h"
#include "core/step/cached_ahead.h"
#include "core/step/entry_plan.h"
#include "core/step/facts.h"
#include "core/step/pins.h"
#include "core/step/prompt_ends.h"
#include "core/step/states.h"
#include "core/step/steps.h"
#include "core/step/unit_reports.h"

namespace quire {

class Admission {
 public:
  // All are borrowed.
  Admission(const Facts& facts, const Pool& pool, PrefixIndex& index, const Sequences& sequences, const Steps& steps, const Blocks& blocks,
            const States& states, Pins& pins, const PromptEnds& prompt_ends, UnitReports& units);

  // Most rows of most steps, without counting: a sequence goes on by tokens whose slots are its own
  // or can be had at once, with states by one token for which there is a spare, and nothing else is
  // asked for. False: not so simple. plan: from here for every entry; the fields that are not set
  // here have their defaults.
  bool plan_next(const quire_reserve_entry& entry, const Step& step, EntryPlan* plan) const;
  // Plans any entry and counts its pages; while nothing else is in use, with shorter and shorter
  // hits. plan: load and sequence are set. Anything but OK: the entry is refused and nothing has
  // changed; result says why.
  quire_code admit_with_retry(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const Step& step, EntryPlan* plan,
                              quire_reserve_result* result);
  uint64_t host_bytes() const {  //
    return page_marks_.capacity() * 8 + uses_by_hit_.capacity() * 4 + ahead_.host_bytes();
  }

 private:
  // Pages an entry needs, counted before anything is taken.
  struct Demand {
    uint64_t pages = 0;              // beyond claimed holes
    uint64_t pages_using_holes = 0;  // when holes of other pages of the group are used too
    uint64_t pages_using_all = 0;    // when cached parts between held ones are evicted, too
    uint32_t worst_group = 0;        // asks for most pages
  };

  uint64_t count_next(uint32_t sequence, uint64_t end, uint64_t* parts) const;
  // Pages that such a row leaves free: a sequence that is alone may need them all itself.
  uint64_t pages_to_leave() const { return sequences_.num_begun() == 1 ? all_alone_ : 0; }

  uint64_t tokens_left(const Step& step, const EntryPlan& plan) const {
    return plan.load ? facts_.limits.max_load_tokens : facts_.limits.max_tokens - step.num_slots;
  }
  // What the entry asks for.
  quire_refusal plan_entry(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const Step& step, EntryPlan* plan);
  void find_hit(std::span<const quire_symbol> symbols, EntryPlan* plan);
  void find_adopted(std::span<const quire_symbol> symbols, EntryPlan* plan);
  KeptBoundaries boundaries(const quire_reserve_entry& entry, const EntryPlan& plan) const;
  KeptBoundaries boundaries_at_end(const quire_reserve_entry& entry, const EntryPlan& plan) const;
  void choose_chunk(const quire_reserve_entry& entry, EntryPlan* plan) const;

  // Whether there is room for it: giving up soft pins; giving up the checkpoint that the row
  // overwrites; giving up nothing.
  quire_code admit(const quire_reserve_entry& entry, EntryPlan* plan, quire_reserve_result* result);
  quire_code admit_unpinned(const quire_reserve_entry& entry, EntryPlan* plan, quire_reserve_result* result);
  quire_code admit_keeping(const quire_reserve_entry& entry, EntryPlan* plan, quire_reserve_result* result);
  uint64_t blocks_wanted(const EntryPlan& plan, uint32_t group, uint64_t end, bool whole_sequence) const;
  bool wants_nothing(const EntryPlan& plan) const;
  Demand count(const EntryPlan& plan, uint64_t end, bool whole_sequence) const;
  uint64_t parts_of_hit(const EntryPlan& plan) const;  // at most; with what is adopted
  struct EvictableHits {
    uint64_t pages = 0;
    uint64_t spared = 0;  // of them
  };
  EvictableHits evictable_hits(const EntryPlan& plan);

  // A sequence that is alone.
  bool is_alone(uint32_t sequence) const { return sequences_.num_begun() == (sequences_.at(sequence).reserved > 0 ? 1 : 0); }
  uint64_t end_of_room(const EntryPlan& plan);
  AllocFrom room_alone(const EntryPlan& plan, AllocFrom room) const;

  // Whether a refused entry could ever fit, and if not, by how many pages.
  void explain_refusal(const quire_reserve_entry& entry, const Step& step, const EntryPlan& plan, quire_reserve_result* result);
  void own_of(uint32_t sequence, std::span<uint64_t> pages, std::span<uint64_t> parts);

  const Facts& facts_;
  const Pool& pool_;
  PrefixIndex& index_;
  const Sequences& sequences_;
  const Steps& steps_;
  const Blocks& blocks_;
  const States& states_;
  Pins& pins_;
  const PromptEnds& prompt_ends_;
  UnitReports& units_;
  CachedAhead ahead_;
  // Pages of the longest sequence. 0: any number of pages is enough, or it does not fit.
  uint64_t all_alone_ = 0;
  std::vector<uint64_t> pages_alone_;  // the same by group
  // By group: parts that nobody else needs in pages that the hit keeps, less cached parts it takes.
  std::vector<int64_t> idle_by_hit_;
  std::vector<uint64_t> opened_by_hit_;  // by group: pages that stop being evictable with it
  std::vector<uint64_t> pages_by_hit_;   // by group
  std::vector<uint32_t> uses_by_hit_;    // by page: parts; zero between calls
  std::vector<uint64_t> page_marks_;     // stamps of mark_, by page
  uint64_t mark_ = 0;
};

inline bool Admission::plan_next(const quire_reserve_entry& entry, const Step& step, EntryPlan* plan) const {
  constexpr uint32_t kAsks = QUIRE_ENTRY_PROMPT_END | QUIRE_ENTRY_KEEP_STATE;
  if (facts_.has_states && !(facts_.swaps_states && entry.num_tokens == 1)) return false;
  if ((entry.flags & QUIRE_ENTRY_MATCH) != 0 || (entry.num_symbols | entry.num_look_ahead | entry.encoder_tokens) != 0) return false;
  const uint32_t q = sequences_.find(SequenceId(entry.sequence));
  if (q == kNone) return false;
  const Sequence& s = sequences_.at(q);
  const uint64_t end = s.reserved + entry.num_tokens;
  if (facts_.has_states && (s.reserved < s.prompt || (entry.flags & kAsks) != 0)) return false;
  if (s.mark == step.id || s.loading || s.may_share || entry.num_tokens == 0 ||
      entry.num_tokens > facts_.limits.max_tokens - step.num_slots || end > facts_.config->max_model_len || entry.full_tokens > end) {
    return false;
  }
  for (const uint32_t g : facts_.state_groups) {
    if (sequences_.holding(q, g).num_spares == 0) return false;
  }
  const bool stays = end <= s.shown;
  uint64_t parts = 0;
  const uint64_t shown = stays ? s.shown : count_next(q, end, &parts);
  // A page for each part is enough; a sequence that begins leaves some to others.
  if (parts > 0 && (s.reserved == 0 || parts + pages_to_leave() > pool_.available_pages())) return false;
  plan->sequence = q;
  plan->encoder = s.encoder;
  plan->position = s.reserved;
  plan->num_tokens = entry.num_tokens;
  plan->end = end;
  plan->kept.prompt_end = (entry.flags & QUIRE_ENTRY_PROMPT_END) != 0 ? end : 0;
  plan->stays = stays;
  plan->shown = shown;
  return true;
}

}  // namespace quire
