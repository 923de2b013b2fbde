// Blocks that are cached behind the hit of a prompt: another group's hit ends earlier, so nobody
// can resume there. The tokens are computed, or brought by a load, all the same, but they are
// cached already: the sequence shares these blocks, nothing is written to them, and they are not
// kept twice. Typical: the state of a prompt is gone while its keys and values are there.
#pragma once

#include <quire/step.h>

#include <span>
#include <vector>

#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/entry_plan.h"
#include "core/step/facts.h"

namespace quire {

class CachedAhead {
 public:
  // All are borrowed.
  CachedAhead(const Facts& facts, PrefixIndex& index, const Sequences& sequences);

  // In each group the first blocks of those that the row needs, without a gap; by group and block,
  // valid until the next call. symbols: the whole prompt of a match; of later chunks those that
  // are not known yet. What drafts wrote depends on what follows, so their blocks are not taken.
  //
  // Rows of steps take blocks of groups that need everything: those of windows are too few. Strict
  // LRU takes none.
  std::span<const Adopted> find(std::span<const quire_symbol> symbols, const EntryPlan& plan);

  uint64_t host_bytes() const {  //
    return adopted_.capacity() * sizeof(Adopted) + text_.capacity() * sizeof(quire_symbol);
  }

 private:
  // What follows the prefix of a node, in two pieces; the first one ends at a unit's end.
  struct Text {
    NodeId node{kNone};
    uint64_t begin = 0;  // tokens
    std::span<const quire_symbol> kept, given;
  };
  bool may_find(const EntryPlan& plan) const;
  Text text_of(std::span<const quire_symbol> symbols, const EntryPlan& plan, uint64_t end);
  // The first block that may be taken; kNone: none.
  uint32_t first_block(const EntryPlan& plan, uint32_t group) const;

  const Facts& facts_;
  PrefixIndex& index_;
  const Sequences& sequences_;
  std::vector<Adopted> adopted_;
  std::vector<quire_symbol> text_;  // what a sequence keeps, to the end of a unit
};

}  // namespace quire
