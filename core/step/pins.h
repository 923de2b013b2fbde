// Pins: prefixes that eviction passes by. A pin is a set of references without a sequence; no step
// ever reads or writes through it, so it comes and goes without fences. Soft pins are given up
// where an admission would be refused otherwise: their references go one pin after the other until
// there is room, and come back where there is none even so, because a refused entry changes
// nothing.
#pragma once

#include <quire/pin.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/step/checkpoint_budget.h"
#include "core/step/facts.h"
#include "core/step/steps.h"

namespace quire {

class Pins {
 public:
  // All are borrowed. quota: tokens of the pins of one salt; 0: no limit.
  Pins(const Facts& facts, Pool& pool, PrefixIndex& index, const Steps& steps, CheckpointBudget& budget, uint32_t max_pins,
       uint64_t quota_tokens)
      : facts_(facts), pool_(pool), index_(index), steps_(steps), budget_(budget), pins_(max_pins), quota_(quota_tokens) {}

  // Null: CLOCK_MONOTONIC.
  void set_clock(quire_clock_fn clock, void* user) {
    clock_ = clock;
    clock_user_ = user;
  }
  bool any() const { return num_ > 0; }
  int64_t now() const;
  void end_overdue() {
    if (next_deadline_ != INT64_MAX) end_overdue(now());
  }
  void end_overdue(int64_t time) {
    if (time >= next_deadline_) end_those_before(time);
  }
  void end_all();
  // Pins the longest prefix of the prompt that can be resumed. prompt: one symbol more than the
  // most that is pinned.
  Result<quire_pin_id> make(std::string_view identity, std::string_view salt, std::span<const quire_symbol> prompt,
                            const quire_pin_options& options, uint64_t* tokens);
  Status end(quire_pin_id id);
  Status info(quire_pin_id id, quire_pin_info* info) const;

  // Ends the pins of a root that nobody else has, the one whose pins are softest. False: no root is
  // held by soft pins alone, and nothing has changed.
  bool give_up_root();
  // Within an admission: the softest pin lets its references go, and keeps what they were. False:
  // none is left that may.
  bool loosen_softest();
  // The end of the admission: loose pins get their references back, and those of an admitted entry
  // end then.
  void settle_loose(bool admitted);

  // The block is published now. What drafts wrote after a pin's hit hangs below it, and would go
  // with it.
  void hold_above_pinned(NodeId node, uint32_t group, PartIndex head);
  // Blocks that the index has forgotten are let go: nobody finds them any more.
  void drop_forgotten();

  // Adds the references and holds that pins have.
  void count_references(std::vector<uint32_t>* refs, std::vector<uint32_t>* holds) const;
  uint32_t holding(PartIndex head) const;  // how many pins hold it
  void report(quire_cache_stats* stats) const;
  uint64_t host_bytes() const { return pins_.capacity() * sizeof(Pin); }

 private:
  // One reference to each block that resuming after the prefix takes, the deepest first.
  struct Pin {
    uint64_t id = 0;  // 0: free
    uint32_t priority = 0;
    uint32_t root = kNone;
    int64_t deadline = INT64_MAX;
    uint64_t tokens = 0;
    std::string salt;
    std::vector<PartIndex> heads;
    NodeId node{kNone};      // held: where nothing is needed to resume, nothing else keeps it
    uint32_t num_after = 0;  // of the heads, the first ones: after the hit, see hold_above_pinned
    bool loose = false;      // within an admission: without its references
  };

  Pin* find(quire_pin_id id);
  const Pin* find(quire_pin_id id) const { return const_cast<Pins*>(this)->find(id); }
  void end_those_before(int64_t time);
  void end(Pin* pin);
  Pin* softest();
  void drop_forgotten(Pin* pin);
  Status check_quota(std::string_view salt, uint64_t tokens) const;
  void collect(const Match& found, std::span<const quire_symbol> symbols, Pin* pin) const;
  void hold(PartIndex head);
  void let_go(PartIndex head);

  const Facts& facts_;
  Pool& pool_;
  PrefixIndex& index_;
  const Steps& steps_;
  CheckpointBudget& budget_;
  std::vector<Pin> pins_;
  uint64_t next_id_ = 1;
  uint64_t quota_ = 0;
  int64_t next_deadline_ = INT64_MAX;
  quire_clock_fn clock_ = nullptr;
  void* clock_user_ = nullptr;
  uint64_t num_ = 0, tokens_ = 0, num_given_up_ = 0;
};

}  // namespace quire
