// The tiers of one cache: quire/tier.h, call by call. Its calls lock the cache for moments, never
// while bytes are moved or summed.
#pragma once

#include <quire/tier.h>

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/tier/fetches.h"
#include "core/tier/offers.h"
#include "core/tier/questions.h"
#include "core/tier/stores.h"
#include "core/tier/tier_state.h"

namespace quire {

struct TierSetOptions {
  std::string_view weights;
  std::vector<std::shared_ptr<Memory>> memories;  // by shard
  std::vector<std::shared_ptr<Stream>> streams;
  struct Each {
    std::shared_ptr<Connector> connector;
    std::string name;
    uint32_t reasons = 0;
    uint64_t max_store_bytes = 0;  // 0 = the default
    bool is_peers = false;
  };
  std::vector<Each> tiers;
  uint64_t unit_tokens = 0;
  std::vector<uint32_t> tensor_parallel;  // of others whose records are read
  double ns_per_token = 0;
  uint32_t max_fetches = 0;
  uint64_t event_ring_bytes = 0;  // of each tier that is written; 0 = no events
  quire_clock_fn clock = nullptr;
  void* clock_user = nullptr;
};

class TierSet {
 public:
  static Result<std::unique_ptr<TierSet>> create(std::shared_ptr<Cache> cache,  // kept
                                                 TierSetOptions options);
  // Gives up what is in progress and waits until no connector touches a byte, or so long.
  static constexpr int64_t kLongestDrain = 5'000'000'000;  // ns of real time
  ~TierSet();
  TierSet(const TierSet&) = delete;
  TierSet& operator=(const TierSet&) = delete;

  Result<quire_fetch_id> fetch_begin(SequenceId sequence,                    //
                                     std::span<const quire_symbol> symbols,  //
                                     int64_t deadline_ns, const FetchPeer& peer = {});
  Status fetch_cancel(quire_fetch_id fetch);
  // Any thread.
  Status fetch_refusal(quire_fetch_id fetch, quire_offer_refusal* refusal) const;
  Result<quire_offer> offer_begin(SequenceId sequence, std::span<const quire_symbol> symbols,  //
                                  uint64_t end_token, uint32_t tier);
  Status offer_info(const OfferHandle& handle, quire_offer_info* info) const;
  Status offer_end(const OfferHandle& handle);
  uint64_t run(int64_t timeout_ns, std::span<quire_fetch_result> results);
  Status tier_stats(uint32_t tier, quire_tier_stats* stats) const;
  void stats(quire_tiers_stats* stats) const;
  // Any thread.
  Status read_events(uint32_t tier, uint64_t from, std::span<quire_event> out,  //
                     std::span<uint8_t> data, quire_event_batch* batch) const;
  // These do not change.
  size_t num_tiers() const { return state_.tiers.size(); }
  const std::string& tier_name(size_t tier) const { return state_.tiers[tier]->name(); }
  Connector& connector(size_t tier) const { return state_.tiers[tier]->connector(); }

 private:
  explicit TierSet(std::unique_ptr<TierState> state)  //
      : own_(std::move(state)),                       //
        state_(*own_),
        stores_(state_),
        offers_(state_),
        questions_(state_) {}

  Status register_bytes();
  void move_on() noexcept;
  bool poll() noexcept;
  bool poll_tier(uint32_t tier);
  void wait(int64_t timeout_ns, bool has_news) const;
  // False: a connector has not ended what it has.
  bool drain() noexcept;
  // What it may still read and write stays for ever.
  void leave_behind() noexcept;

  mutable std::mutex lock_;
  std::unique_ptr<TierState> own_;
  TierState& state_;
  Stores stores_;
  Offers offers_;
  Questions questions_;
  std::unique_ptr<Fetches> fetches_;
  bool watches_ = false;          // units of the cache
  std::vector<int> descriptors_;  // of connectors; -1: it has none
};

}  // namespace quire
