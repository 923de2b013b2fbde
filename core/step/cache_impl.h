// The inside of Cache: its parts, in the order in which they build on each other, and what reserve,
// commit, abort, load and fork do with them. A part knows those before it, and what it is given.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <new>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/events/event_recorder.h"
#include "core/plan/cache_config.h"
#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/admission.h"
#include "core/step/blocks.h"
#include "core/step/checkpointing.h"
#include "core/step/entry_plan.h"
#include "core/step/facts.h"
#include "core/step/hits.h"
#include "core/step/holds.h"
#include "core/step/kv_cache.h"
#include "core/step/live_step.h"
#include "core/step/media.h"
#include "core/step/prompt_ends.h"
#include "core/step/published_blocks.h"
#include "core/step/publishing.h"
#include "core/step/resume_points.h"
#include "core/step/states.h"
#include "core/step/steps.h"
#include "core/step/unit_reports.h"

namespace quire {

struct Cache::Impl {
  PrefixIndex index;  // first: it asks for lines of its own
  Facts facts;
  Pool pool;
  Sequences sequences;
  Steps steps;
  CheckpointBudget budget;
  Pins pins;
  Media media;
  quire_cache_stats counters{};
  EventRecorder events;
  PublishedBlocks published;
  Eviction eviction;
  Blocks blocks;
  States states;
  Publishing publishing;
  PromptEnds prompt_ends;
  Checkpointing checkpointing;
  ResumePoints resume_points;
  Holds holds;
  UnitReports units;
  Admission admission;
  mutable std::shared_mutex mutex;  // readers: probe, stats

  Impl(Facts f, Pool p, PrefixIndex i, Sequences s, const quire_cache_options& options)
      : index(std::move(i)),
        facts(std::move(f)),
        pool(std::move(p)),
        sequences(std::move(s)),
        steps(facts, pool.num_part_slots()),
        budget(facts, pool, index),
        pins(facts, pool, index, steps, budget, options.max_pins != 0 ? options.max_pins : 64, options.pin_quota_tokens),
        media(options.max_media != 0 ? options.max_media : 4096),
        events(*facts.config, index, pool),
        published(facts, pool, index, sequences, events, budget, pins),
        eviction(facts, pool, index, events, budget, published),
        blocks(facts, pool, index, sequences, steps, events, eviction),
        states(facts, pool, sequences, steps, published, blocks),
        publishing(facts, pool, index, sequences, blocks, eviction, published),
        prompt_ends(facts, index),
        checkpointing(facts, pool, index, sequences, blocks, budget, published, publishing),
        resume_points(facts, pool, index, sequences.capacity()),
        holds(facts, pool, steps),
        units(facts, index, pool, sequences, blocks, media, holds),
        admission(facts, pool, index, sequences, steps, blocks, states, pins, prompt_ends, units) {}

  // reserve.cc
  Status check_entry(const quire_reserve_entry& e, std::span<const quire_symbol> symbols, size_t i) const;
  Status check_reserve(std::span<const quire_reserve_entry> entries, std::span<const quire_symbol> symbols) const;
  void apply(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const EntryPlan& plan, Step* step);
  void take(const EntryPlan& plan, uint32_t group, RowGroup* rg, Step* step);
  void take_next(const EntryPlan& plan, Step* step);
  Row& add_row(const quire_reserve_entry& entry, const EntryPlan& plan, Step* step);
  uint64_t begin(const quire_reserve_entry& entry, const EntryPlan& plan);
  bool keep_symbols(std::span<const quire_symbol> symbols, const EntryPlan& plan);
  void report_admitted(const quire_reserve_entry& entry, const EntryPlan& plan, quire_reserve_result* result);
  uint64_t adopt_hit(const EntryPlan& plan);  // tokens that its state spared

  // Before room is sought: pins whose time is over end, and pages age.
  void look_at_clock() {
    const int64_t time = pins.now();
    pool.residency.set_time(time);
    pins.end_overdue(time);
  }

  // load.cc
  Status check_load(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols) const;
  uint64_t resumable(const Row& row, uint32_t group, uint64_t most, std::span<const quire_load_failure> failures) const;
  void drop_incomplete(const Row& row, uint64_t end, std::span<const quire_load_failure> failures);
  // Tokens that the end of the load commits.
  uint64_t load_ends(const Step& load, std::span<const quire_load_failure> failures) const;
  Status check_failures(std::span<const quire_load_failure> failures) const;
  // 0: nothing.
  Result<quire_hold_id> hold_failed(const Step& load, std::span<const quire_load_failure> failures);

  // commit.cc
  void pass_branch_point(const Row& row);
  void end_prompt(const Row& row, bool ends);  // ends: it is the whole prompt now
  Status check_commit(const Step& step, std::span<const quire_commit_entry> entries, std::span<const quire_symbol> symbols) const;
  void commit_row(Step* step, size_t r, const quire_commit_entry& entry, std::span<const quire_symbol> symbols);
  void undo_row(Step* step, size_t r, bool not_launched);
  void drop_row(Step* step, size_t r);
  void reset_sequence(uint32_t sequence);  // empty again, id kept
  bool nothing_is_held() const;            // no block, and no place in the index except its roots
  void retire_all();
  void empty_lost(uint32_t first, uint32_t end);  // of the aborted steps [first, end)

  // branch.cc
  Status check_truncate(uint32_t sequence, uint64_t tokens) const;

  LiveStep live_step(uint32_t number, const Step& step) const { return {facts, steps, sequences, pool, number, step}; }

  // verify.cc
  Status count_references(std::vector<uint32_t>* refs, std::vector<uint32_t>* holds_of) const;
  Status verify_sequence(uint32_t sequence) const;
};

inline Status not_live(SequenceId id) {
  const auto value = static_cast<unsigned long long>(id.value);
  if (value != 0) {
    return fail(QUIRE_NOT_FOUND,  //
                "sequence: 0x%llx is not live: it was finished, or is of another cache", value);
  }
  return fail(QUIRE_NOT_FOUND,  //
              "sequence: 0 is no sequence: none was created, or it was finished already");
}

}  // namespace quire
