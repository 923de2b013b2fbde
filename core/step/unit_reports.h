// Which parts of sequences became complete, for whoever stores them elsewhere. A commit notes them
// with a hold each; naming them by digests is left to the one who takes them.
#pragma once

#include <quire/hold.h>

#include <span>
#include <string_view>
#include <vector>

#include "core/events/prefix_digest.h"
#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/blocks.h"
#include "core/step/facts.h"
#include "core/step/holds.h"
#include "core/step/media.h"
#include "core/step/near_eviction.h"
#include "core/step/steps.h"

namespace quire {

class UnitReports {
 public:
  // All are borrowed.
  UnitReports(const Facts& facts, PrefixIndex& index, const Pool& pool, const Sequences& sequences, Blocks& blocks, const Media& media,
              Holds& holds)
      : facts_(facts),
        index_(index),
        pool_(pool),
        sequences_(sequences),
        blocks_(blocks),
        media_(media),
        holds_(holds),
        near_eviction_(facts, index, pool) {}

  bool enabled() const { return options_.reasons != 0; }
  // Forgets what waits. options.reasons 0: nothing is reported any more.
  Status watch(const quire_unit_options& options);
  // The row was committed; `published` tokens were before it. To be called before blocks leave the
  // live ranges.
  void note_commit(const Row& row, uint64_t published);
  // The sequence ends, and has its blocks still.
  void note_end(uint32_t sequence);
  bool any_waiting() const { return first_ != end_; }
  // Lets go of all that waits. False: nothing does.
  bool give_up_waiting();
  // With those that are evicted soon.
  uint64_t take(std::span<quire_unit> out);
  // Names of prefixes of these lengths, which increase.
  void digests(std::string_view identity, std::span<const quire_symbol> symbols, std::span<const uint64_t> ends, uint8_t* out) const;
  // The sequence is new, or its tokens are others from somewhere on.
  void begin_text(uint32_t sequence) {
    if (texts_.empty()) return;
    texts_[sequence].number = ++num_texts_;
    texts_[sequence].tokens = 0;
  }

  void count_holds(std::vector<uint32_t>* holds) const;  // by node of the index
  void report(quire_cache_stats* stats) const { stats->units_given_up = num_given_up_; }

 private:
  struct Waiting {
    quire_hold_id hold = 0;
    SequenceId sequence;  // 0, and no text, where it is evicted soon
    uint64_t text = 0;
    NodeId node{kNone};  // held like its root, at `end`
    uint64_t first = 0, end = 0;
    quire_unit_reason reason = 0;
    bool has_state = false;
    bool is_named = false;  // before it was taken
    PrefixName name{};
  };
  // What a sequence has computed, and how far its prefix is named. Never the same number twice.
  struct Text {
    uint64_t number = 0;
    uint64_t tokens = 0;
    PrefixDigest digest;
  };
  enum class Readiness { kReady, kLater, kNever };

  void note_path(uint32_t sequence, uint64_t from, uint64_t to, quire_unit_reason reason);
  void note(uint32_t sequence, NodeId node, uint64_t end, quire_unit_reason reason);
  bool note_cold(NodeId node);
  void add(const Waiting& unit);
  PartIndex cached_head(uint32_t group, uint32_t block, uint64_t first, NodeId node) const;
  bool is_whole(uint64_t first, NodeId node) const;
  bool has_states(NodeId node) const;
  void let_go(const Waiting& unit);
  void leave(NodeId node);
  Waiting& slot(uint64_t position) { return waiting_[position % waiting_.size()]; }
  void give_up_oldest();
  Readiness readiness(const Waiting& unit) const;
  void name(const Waiting& waiting, quire_unit* unit);
  void name_cold(uint64_t position);
  void add(std::span<const quire_symbol> symbols, PrefixDigest* digest) const;
  void add_path(NodeId node, uint64_t from, uint64_t to, PrefixDigest* digest);

  const Facts& facts_;
  PrefixIndex& index_;
  const Pool& pool_;
  const Sequences& sequences_;
  Blocks& blocks_;
  const Media& media_;
  Holds& holds_;
  NearEviction near_eviction_;
  quire_unit_options options_{};
  uint64_t look_ahead_ = 0;       // tokens, the most of all groups
  std::vector<Waiting> waiting_;  // a ring
  uint64_t first_ = 0, end_ = 0;  // positions in it count up for ever
  uint64_t num_cold_ = 0;         // of those that wait
  std::vector<NodeId> path_;
  std::vector<std::pair<uint64_t, uint64_t>> ends_;  // of units on one path: tokens, position
  std::vector<Text> texts_;                          // by sequence
  uint64_t num_texts_ = 0;
  uint64_t num_given_up_ = 0;
};

}  // namespace quire
