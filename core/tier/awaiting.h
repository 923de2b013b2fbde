// Records of an offer that grows, which its owner does not have yet. A fetch has begun its load,
// and asks the owner again until it has them. What describes the offer is looked up with them:
// while that is there, they will come.
#pragma once

#include "core/tier/arrivals.h"
#include "core/tier/fetch.h"
#include "core/tier/tier_state.h"

namespace quire {

class Awaiting {
 public:
  // state, arrivals: borrowed.
  Awaiting(TierState& state, const Arrivals& arrivals) : state_(state), arrivals_(arrivals) {}

  // The boundary that is waited for; 0: none, what is there is chosen from.
  uint64_t boundary(const Fetch& f) const;
  // Before its load begins: whoever may be the writer is asked.
  void begin(uint64_t boundary, Fetch* f) const;
  // Asks if that is due; when all was announced, whether the peer is still there. index: of the
  // fetch.
  void ask(uint32_t index, Fetch* f);
  // The end of what was asked; its slot is closed. What came is pending now. False: the peer says
  // nothing, neither answers nor bytes.
  bool ended(uint32_t slot, const quire_completion& end, Fetch* f);
  // They will not come.
  void lose(Fetch* f) const;
  // Nobody waits for the answer any more.
  void stop(Fetch* f) noexcept;

 private:
  // Visits what a look-up asks for: visit(source, end).
  template <typename Visit>
  void each(const Fetch& f, Visit visit) const;
  // False: nothing is there that was not.
  bool take(Fetch* f) const;

  TierState& state_;
  const Arrivals& arrivals_;
};

}  // namespace quire
