// Which boundaries have kept states, and how many bytes those may take together. Nothing is
// published or forgotten here.
#pragma once

#include <quire/cache.h>

#include "core/base/status.h"
#include "core/pool/pool.h"
#include "core/prefix/checkpoints.h"
#include "core/step/budget_share.h"
#include "core/step/facts.h"
#include "core/step/place_worth.h"
#include "core/step/superseded_worth.h"

namespace quire {

class CheckpointBudget {
 public:
  // All are borrowed.
  CheckpointBudget(const Facts& facts, const Pool& pool, const PrefixIndex& index)
      : facts_(facts), pool_(pool), index_(index), share_(index) {}
  // To be called once. 0: a share of the pool that is learned; UINT64_MAX: no limit.
  // INVALID_ARGUMENT where the states of one boundary take more.
  Status prepare(uint64_t bytes);

  bool has_room(uint64_t bytes) const;
  // How many boundaries go at most for one that is kept. A share that shrank is reached in steps.
  uint32_t most_to_give_up() const { return share_.learns() ? 2 : UINT32_MAX; }
  BudgetShare& share() { return share_; }
  // Whether the next boundary is kept that has its place alone as a reason.
  bool keeps_for_place() {  //
    return pool_.free_pages() > pool_.num_pages() / 16 || place_worth_.keeps_next();
  }
  // The boundary that is worth least of those that may go; kNone: what is left is pinned, or must
  // not go.
  template <typename May>
  NodeId least(May may) {
    return checkpoints_.least(may);
  }
  bool cold(NodeId node) const { return checkpoints_.cold(node); }

  // A state of the group is published at the node.
  void keep(NodeId node, uint32_t group, BoundaryKind kind);
  // It is not published any more.
  void lose(NodeId node, uint32_t group);
  // The boundary goes to make room; its states are lost one by one after this.
  void give_up(NodeId node) { checkpoints_.went(node); }
  // A sequence resumes at the node: the tokens that this spares. first: it has not been emptied, so
  // its request was not counted yet.
  uint64_t use(NodeId node, bool first);
  // Pins count for the boundary of a block of states; other blocks are none of it.
  void set_pinned(PartIndex head, bool pinned);
  // Between true and false nothing is learned from what is lost: a reset forgets it.
  void forgets(bool begins) { forgets_ = begins; }
  // Nothing that is kept now is found any more.
  void clear() {
    checkpoints_.clear();
    bytes_ = 0;
  }
  // Between these a row keeps what it computed.
  void begin_row() { checkpoints_.begin_row(); }
  void end_row() { checkpoints_.end_row(); }

  // What stats report.
  void count_given_up(NodeId node) {
    ++given_up_;
    share_.went(node, true);
  }
  void count_declined() { ++declined_; }
  void count_kept() { ++kept_; }
  void report(quire_cache_stats* stats) const;

  uint64_t host_bytes() const { return checkpoints_.host_bytes() + share_.host_bytes(); }
  // pins_of(head): how many pins hold the block.
  template <typename PinsOf>
  Status verify(PinsOf pins_of) const {
    if (!facts_.has_states || !facts_.reuse) return {};
    uint64_t states = 0;
    QUIRE_RETURN_IF_ERROR(verify_bytes(&states));
    const auto states_at = [this](NodeId node) {
      uint32_t n = 0;
      for (const uint32_t g : facts_.state_groups) n += index_.block_at(node, GroupId(g)).value != kNone ? 1 : 0;
      return n;
    };
    const auto pins_at = [&](NodeId node) {
      const PartIndex head = index_.block_at(node, GroupId(facts_.first_state));
      return head.value != kNone ? pins_of(head) : 0;
    };
    return checkpoints_.verify(states, states_at, pins_at);
  }

 private:
  void learn(BoundaryKind kind, uint64_t tokens);
  Status verify_bytes(uint64_t* states) const;

  const Facts& facts_;
  const Pool& pool_;
  const PrefixIndex& index_;
  Checkpoints checkpoints_;
  BudgetShare share_;
  PlaceWorth place_worth_;
  SupersededWorth superseded_worth_;
  uint64_t budget_ = 0;                              // bytes, where no share is learned
  uint64_t bytes_ = 0;                               // kept
  uint64_t kept_ = 0, given_up_ = 0, declined_ = 0;  // boundaries
  bool forgets_ = false;
};

}  // namespace quire
