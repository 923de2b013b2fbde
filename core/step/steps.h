// Steps in flight and loads in progress. Each is a record of everything that was done for it, so
// that abort is its reversal.
#pragma once

#include <quire/step.h>

#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/sequence/sequence.h"
#include "core/step/facts.h"

namespace quire {

// What a row did to one group.
struct RowGroup {
  uint32_t blocks_before = 0;
  uint32_t settled = 0;                      // blocks before it: unchanged since the previous row
  uint32_t here = 0;                         // blocks before it are cached, see cached_ahead.h
  PartIndex read{kNone};                     // states: kNone = the zero state
  PartIndex write{kNone};                    // states: the last of the writes
  uint32_t first_write = 0, num_writes = 0;  // in the step's writes
};

// A state that a row writes: with one reference, handed to the sequence or given back when the step
// is done.
struct StateWrite {
  PartIndex part{kNone};
  NodeId node{kNone};  // of its boundary in the index, while a commit keeps it
  uint64_t end = 0;    // tokens of the sequence after which it is the state
};

// A shared or published block that a row replaced by its own copy; the reference to the old one is
// kept until the step is done.
struct Replaced {
  uint32_t row = 0;
  uint32_t group = 0;
  uint32_t block = 0;
  PartIndex old_head{kNone};
};

struct Row {
  // Writes each field once. A row that is zeroed first costs more than all that is written then.
  Row(SequenceId of, uint32_t index, uint32_t life, uint64_t begin, uint32_t tokens)
      : id(of), sequence(index), incarnation(life), position(begin), num_tokens(tokens) {}

  SequenceId id;
  uint32_t sequence = kNone;
  uint32_t incarnation = 0;
  uint64_t position = 0;
  uint32_t num_tokens = 0;
  uint32_t encoder = 0;       // tokens; a row at position 0 writes them, too
  uint64_t known_before = 0;  // symbols of the sequence before this row's reserve
  bool gave_symbols = false;
  // The row stays in blocks that the previous row showed. Only groups of states have a RowGroup.
  bool stays = false;
  bool matched = false;  // the sequence was empty before
  KeptBoundaries kept;
  quire_miss miss = QUIRE_MISS_NONE;
  uint32_t matched_tokens = 0;  // symbols given with the match
  // Tokens between the state that the match resumed from and the state before it.
  uint32_t spared = 0;
};

struct Step {
  uint64_t id = 0;
  uint32_t num_tokens = 0;
  uint32_t num_slots = 0;  // tokens and look-ahead
  uint32_t num_groups = 0;
  std::vector<Row> rows;
  std::vector<RowGroup> groups;  // [row][group]
  std::vector<StateWrite> writes;
  std::vector<Replaced> replaced;
  std::vector<quire_copy> copies;
  std::vector<quire_zero> zeroes;

  void clear(uint64_t new_id);
  RowGroup& group(size_t row, uint32_t g) { return groups[row * num_groups + g]; }
  const RowGroup& group(size_t row, uint32_t g) const { return groups[row * num_groups + g]; }
  std::span<StateWrite> writes_of(const RowGroup& rg) { return std::span(writes).subspan(rg.first_write, rg.num_writes); }
};

class Steps {
 public:
  // Allocates all that steps will ever write into. zeroes: the most of one step.
  Steps(const Facts& facts, uint64_t most_zeroes);

  uint32_t num_in_flight() const { return num_; }
  bool is_full() const { return num_ == ring_.size(); }
  // The i-th step in flight, oldest first; i == num_in_flight() is the one being made.
  Step& at(uint32_t i) { return ring_[(first_ + i) % ring_.size()]; }
  const Step& at(uint32_t i) const { return ring_[(first_ + i) % ring_.size()]; }
  uint32_t find(StepId id) const;                           // kNone: not in flight
  const Step* find_any(StepId id, uint32_t* number) const;  // a load, too; null: neither
  // Released blocks are fenced by it; 0: nothing is in flight.
  uint64_t newest_id() const { return num_ == 0 ? 0 : at(num_ - 1).id; }
  uint64_t next_id() const { return next_id_; }

  // The step that is being made, empty. push() puts it in flight.
  Step& make() {
    Step& step = at(num_);
    step.clear(next_id_);
    return step;
  }
  StepId push() {
    ++num_;
    return StepId(next_id_++);
  }
  // The oldest is done; its record stays until the next make().
  void pop_oldest() {
    first_ = (first_ + 1) % static_cast<uint32_t>(ring_.size());
    --num_;
  }
  // Only the first `num` steps stay in flight; the records of the others stay until the next
  // make().
  void cut(uint32_t num) { num_ = num; }

  // Loads: one without a row is not in progress.
  std::span<const Step> loads() const { return loads_; }
  uint64_t num_loads() const;  // in progress
  Step* make_load();           // empty; null: all are in progress
  Step* find_load(StepId id);  // null: not in progress
  // Begins the load from make_load(), which has a row now.
  StepId begin_load() { return StepId(next_id_++); }

  // Whether the row's sequence is gone or was emptied since.
  static bool dropped(const Sequences& sequences, const Row& row) {
    const uint32_t s = sequences.find(row.id);
    return s == kNone || sequences.at(s).incarnation != row.incarnation;
  }
  // Adds the references that steps have, by part.
  void count_references(std::vector<uint32_t>* refs) const;
  uint64_t host_bytes() const;

 private:
  std::vector<Step> ring_;   // of step_depth
  std::vector<Step> loads_;  // in progress, not in the ring
  uint32_t first_ = 0, num_ = 0;
  uint64_t next_id_ = 1;
};

}  // namespace quire
