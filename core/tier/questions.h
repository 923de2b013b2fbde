// Why nothing came of an offer. When the fetch has ended otherwise, it asks for what the offer says
// of itself: first its size, then its bytes. What it differs in is remembered for a while.
#pragma once

#include <quire/tier.h>

#include <span>
#include <vector>

#include "core/tier/fetch.h"
#include "core/tier/tier_state.h"

namespace quire {

class Questions {
 public:
  explicit Questions(TierState& state) : state_(state) {}  // borrowed

  // Nothing came, and that may be because of the offer.
  bool is_due(const Fetch& f, quire_fetch_outcome outcome, uint64_t committed) const;
  // Asks what is to be asked next; what cannot be asked now is asked in a later call. False: there
  // is nothing to wait for. index: of the fetch.
  bool move_on(uint32_t index, Fetch* f) noexcept;
  // The end of a question that somebody waits for; its slot is closed. Returns what move_on does.
  bool ended(uint32_t slot, const quire_completion& end, Fetch* f) noexcept;
  // Nobody waits for the answer any more.
  void give_up(Fetch* f) noexcept;
  // Errors: NOT_FOUND.
  Status refusal(quire_fetch_id fetch, quire_offer_refusal* out) const;

 private:
  static constexpr size_t kMostRefused = 64;  // that are remembered
  struct Refused {
    quire_fetch_id fetch = 0;
    quire_offer_refusal refusal{};
  };

  Submitted submit(uint32_t index, Fetch* f);
  void compare(Fetch* fetch, std::span<const uint8_t> description);

  TierState& state_;
  std::vector<Refused> refused_;  // a ring
  size_t next_refused_ = 0;
};

}  // namespace quire
