// Prefixes on their way from tiers into the cache. A fetch asks who has which records, chooses the
// boundary that is worth most, begins a load to it, brings what the load lacks, and ends the load
// with what came. Where one load may not be as long as the prompt, it then looks for what follows.
// It ends by its deadline whatever the transfers do: what may still be written then
// is held apart from the pool (the quarantine) until the last transfer has ended.
//
// Where memory of the host is short a fetch ends as a failed one: only begin() throws. A slot is
// either in flight and known to somebody, or closed.
#pragma once

#include <array>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "core/tier/arrivals.h"
#include "core/tier/awaiting.h"
#include "core/tier/fetch.h"
#include "core/tier/quarantine.h"
#include "core/tier/questions.h"
#include "core/tier/tier_state.h"
#include "core/tier/worth.h"

namespace quire {

// The process that a fetch asks. tier: kNone: none.
struct FetchPeer {
  uint32_t tier = kNone;
  std::array<uint8_t, 16> handle{};
  std::string_view address;
  uint64_t end_token = 0;
  uint64_t encoder_tokens = 0;
  bool is_growing = false;
};

class Fetches {
 public:
  // state, questions: borrowed. ns_per_token: of computing a prompt; 0: unknown.
  Fetches(TierState& state, Questions& questions, double ns_per_token, uint32_t most);

  Result<quire_fetch_id> begin(SequenceId sequence, std::span<const quire_symbol> symbols,  //
                               int64_t deadline_ns, const FetchPeer& peer);
  Status cancel(quire_fetch_id fetch);
  void ended(uint32_t slot, const quire_completion& end) noexcept;
  // A load of which no copy to a device is on its way any more.
  void landed(uint32_t slot, const LoadEnd& end) noexcept;
  // Moves on what waits for streams or for time.
  void advance() noexcept;
  // Those that have ended, each once.
  uint64_t take_results(std::span<quire_fetch_result> out);
  bool has_results() const { return !results_.empty(); }
  // The streams have failed: what waits for them is given up.
  void lose_streams() noexcept;
  uint64_t num_in_progress() const { return num_in_progress_; }
  // When the next one is given up; INT64_MAX: none is in progress.
  int64_t next_deadline() const;
  // Asks all transfers to end and starts no further ones; forget_all ends the loads when none is in
  // flight any more, or when nobody waits for them any longer.
  void stop() noexcept;
  void forget_all() noexcept;

 private:
  using Phase = FetchPhase;

  // Finding.
  void look_up(uint32_t index);
  void look_up_tails(uint32_t index);
  // All have answered, or those have that matter.
  void looked_up(uint32_t index);
  bool ask_others(uint32_t index);
  void choose_without_the_rest(uint32_t index);
  void ask(uint32_t index, size_t first);
  void ask_rest(uint32_t index);
  void choose(uint32_t index);
  // A load to this boundary.
  void start(uint32_t index, uint64_t boundary);

  // Asks the peer what it says of an offer that grows; then either waits or chooses from what is
  // there.
  void meet(uint32_t index);
  void met(uint32_t index);

  // Bringing.
  // *committed: tokens of the sequence where no load began.
  quire_fetch_outcome begin_load(uint32_t index, uint64_t boundary, uint64_t* committed);
  void start_loads(uint32_t index);
  void submit_pending(uint32_t index);
  // False: no slot is free, or the tier takes no more now.
  bool submit_load(uint32_t index, const PendingLoad& load);
  bool fill_load(uint32_t index, uint32_t slot, LoadWay way);
  void lookup_ended(uint32_t slot, const quire_completion& end);
  void load_ended(uint32_t slot, const quire_completion& end);

  // Ending.
  void end_load(uint32_t index, quire_fetch_outcome outcome);
  // With another load.
  void go_on(uint32_t index, uint64_t committed);
  void finish(uint32_t index, quire_fetch_outcome outcome, uint64_t committed);
  void give_up(uint32_t index, quire_fetch_outcome outcome);
  void orphan_lookups(uint32_t index, bool is_late);
  void lookup_is_late(const Transfer& t);
  // The fetch is given up if memory is short meanwhile.
  template <typename Body>
  void guarded(uint32_t index, Body body) noexcept;

  TierState& state_;
  Questions& questions_;
  Worth worth_;
  std::vector<Fetch> fetches_;
  std::vector<quire_fetch_result> results_;
  Quarantine quarantine_;
  Arrivals arrivals_;
  Awaiting awaiting_;
  quire_fetch_id next_id_ = 1;
  uint64_t num_in_progress_ = 0;
  bool is_stopping_ = false;
};

template <typename Body>
void Fetches::guarded(uint32_t index, Body body) noexcept {
  try {
    body();
  } catch (const std::bad_alloc&) {
    fetches_[index].is_doomed = true;
  }
}

}  // namespace quire
