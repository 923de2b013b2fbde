#include "core/tier/tier_set.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <new>
#include <thread>

namespace quire {
namespace {

constexpr uint64_t kStoreBytes = uint64_t{64} << 20;  // in flight, and of all tiers no more than this share of the pool
constexpr uint64_t kStoreShare = 8;
constexpr uint64_t kOfferShare = 4;
constexpr double kMostNsPerToken = 1e12;
constexpr uint32_t kMostFetches = 4096;
constexpr int64_t kTick = 1'000'000;  // ns: how often is looked where no descriptor says so

Status check_options(const Config& config, const TierSetOptions& o) {
  if (o.tiers.empty() || o.tiers.size() > kMostTiers) return invalid("options.num_tiers: %zu, 1 to %zu", o.tiers.size(), kMostTiers);
  QUIRE_RETURN_IF_ERROR(check_shards(config, o.memories, o.streams));
  for (size_t t = 0; t < o.tiers.size(); ++t) {
    if ((o.tiers[t].connector->info().device_types & (uint64_t{1} << QUIRE_DEVICE_CPU)) == 0) {
      return fail(QUIRE_UNIMPLEMENTED, "options.tiers[%zu]: connector %s cannot address host memory", t,
                  o.tiers[t].connector->name().c_str());
    }
  }
  for (size_t t = 0; t < o.tiers.size(); ++t) {
    const uint64_t most = o.tiers[t].connector->info().max_key_bytes;
    if (most != 0 && most < sizeof(RecordKey)) {
      return fail(QUIRE_UNIMPLEMENTED, "options.tiers[%zu]: keys of connector %s have at most %llu bytes, records need %zu", t,
                  o.tiers[t].connector->name().c_str(), static_cast<unsigned long long>(most), sizeof(RecordKey));
    }
    if (!o.tiers[t].is_peers) continue;
    if (o.tiers[t].reasons != 0) return invalid("options.tiers[%zu].reasons: 0x%x, and peers are stored nothing", t, o.tiers[t].reasons);
    if (most != 0 && most < kPeerKeyBytes) {
      return fail(QUIRE_UNIMPLEMENTED, "options.tiers[%zu]: keys of connector %s have at most %llu bytes, those of peers have up to %zu", t,
                  o.tiers[t].connector->name().c_str(), static_cast<unsigned long long>(most), kPeerKeyBytes);
    }
    if ((o.tiers[t].connector->info().flags & QUIRE_CONNECTOR_REGISTERS) != 0) {
      return fail(QUIRE_UNIMPLEMENTED, "options.tiers[%zu]: connector %s registers regions; those of peers cannot", t,
                  o.tiers[t].connector->name().c_str());
    }
  }
  if (!(o.ns_per_token >= 0) || o.ns_per_token > kMostNsPerToken) return invalid("options.ns_per_token: %g", o.ns_per_token);
  if (o.max_fetches > kMostFetches) return invalid("options.max_fetches: %u, at most %u", o.max_fetches, kMostFetches);
  return {};
}

// A ring for each tier that is written. What is only read is somebody else's to report.
Status make_rings(TierState* state, uint64_t wanted) {
  if (wanted == 0) return {};
  quire_event_batch batch{};
  if (state->cache->read_events(0, {}, {}, &batch).code() == QUIRE_FAILED_PRECONDITION) {
    return fail(QUIRE_FAILED_PRECONDITION, "options.event_ring_bytes: the cache records no events; enable them first");
  }
  uint64_t longest = 0;
  for (const GroupPlan& g : state->plan->config().groups) longest = std::max<uint64_t>(longest, g.block_tokens);
  auto bytes = EventRing::size_of(wanted, longest, "options.event_ring_bytes");
  if (!bytes.ok()) return bytes.take_status();
  for (const auto& tier : state->tiers) {
    if (tier->reasons() != 0) tier->events = std::make_unique<EventRing>(*bytes);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TierSet>> TierSet::create(std::shared_ptr<Cache> cache, TierSetOptions o) {
  const std::shared_ptr<const Config> config = cache->shared_config();
  QUIRE_RETURN_IF_ERROR(check_options(*config, o));
  uint64_t max_object_bytes = 0;
  for (const TierSetOptions::Each& tier : o.tiers) {
    const uint64_t most = tier.connector->info().max_object_bytes;
    if (most != 0) max_object_bytes = max_object_bytes == 0 ? most : std::min(max_object_bytes, most);
  }
  auto plan = TierPlan::make(config, o.weights, o.unit_tokens, max_object_bytes);
  if (!plan.ok()) return plan.take_status();
  const bool are_peers = std::all_of(o.tiers.begin(), o.tiers.end(), [](const TierSetOptions::Each& tier) { return tier.is_peers; });
  if (!are_peers) QUIRE_RETURN_IF_ERROR((*plan)->check_no_cross_attention("options.tiers: all must have QUIRE_TIER_PEERS"));
  TierState state;
  state.cache = std::move(cache);
  state.plan = std::move(*plan);
  auto sources = Sources::make(*state.plan, o.tensor_parallel);
  if (!sources.ok()) return sources.take_status();
  state.sources = std::move(*sources);
  state.arranged.resize(state.sources->all().size());
  state.clock = o.clock;
  state.clock_user = o.clock_user;
  uint64_t longest_header = kHeaderGrain, pool = 0;
  for (const TierPart& part : state.plan->parts()) {
    const uint64_t blocks = part.is_state ? 1 : state.plan->unit_tokens() / part.block_tokens;
    longest_header = std::max(longest_header, header_bytes(part.shape, blocks));
  }
  auto transfers = Transfers::make(longest_header);
  if (!transfers.ok()) return transfers.take_status();
  state.transfers = std::move(*transfers);
  for (const ShardPlan& shard : config->shards) pool += shard.page_bytes * config->num_pages;
  const auto writes = [](const TierSetOptions::Each& tier) { return tier.reasons != 0; };
  const auto writers = static_cast<uint64_t>(std::max<int64_t>(std::count_if(o.tiers.begin(), o.tiers.end(), writes), 1));
  uint32_t reasons = 0;
  for (TierSetOptions::Each& tier : o.tiers) {
    const uint64_t most = tier.max_store_bytes != 0 ? tier.max_store_bytes
                          : tier.is_peers           ? pool / kOfferShare
                                                    : std::min(kStoreBytes, pool / kStoreShare / writers);
    reasons |= tier.reasons;
    state.tiers.push_back(std::make_unique<Tier>(std::move(tier.connector), std::move(tier.name), tier.reasons, most, tier.is_peers));
  }
  QUIRE_RETURN_IF_ERROR(make_rings(&state, o.event_ring_bytes));
  for (const auto& stream : o.streams) {
    auto event = Event::create(stream);
    if (!event.ok()) return event.take_status();
    state.events.push_back(std::move(*event));
  }
  state.memories = std::move(o.memories);
  state.streams = std::move(o.streams);
  std::unique_ptr<TierSet> set(new TierSet(std::make_unique<TierState>(std::move(state))));
  set->fetches_ = std::make_unique<Fetches>(set->state_, set->questions_, o.ns_per_token,
                                            o.max_fetches != 0 ? o.max_fetches : set->state_.cache->load_limits().loads);
  QUIRE_RETURN_IF_ERROR(set->register_bytes());
  if (reasons == 0) return set;
  quire_unit_options watched{};
  watched.struct_size = sizeof watched;
  watched.reasons = reasons;
  watched.unit_tokens = set->state_.plan->unit_tokens();
  QUIRE_RETURN_IF_ERROR(set->state_.cache->watch_units(&watched));
  set->watches_ = true;
  return set;
}

// Where a connector wants it: headers and all regions.
Status TierSet::register_bytes() {
  auto shards = bytes_of_shards(state_.memories);
  if (!shards.ok()) return shards.take_status();
  state_.shards = std::move(*shards);
  for (const auto& tier : state_.tiers) {
    Connector& connector = tier->connector();
    auto descriptor = connector.descriptor();
    descriptors_.push_back(descriptor.ok() ? *descriptor : -1);
    const bool registers = (connector.info().flags & QUIRE_CONNECTOR_REGISTERS) != 0;
    uint64_t& headers = state_.header_regions.emplace_back(0);
    if (registers) {
      const std::span<std::byte> arena = state_.transfers->arena();
      auto region = connector.register_region(arena.data(), arena.size(), QUIRE_DEVICE_CPU, 0);
      if (!region.ok()) return region.take_status();
      headers = *region;
    }
    for (size_t s = 0; s < state_.shards.size(); ++s) {
      ShardBytes& shard = state_.shards[s];
      std::vector<uint64_t>& ids = shard.ids.emplace_back(shard.regions.size(), 0);
      for (uint32_t r = 0; registers && shard.staging == nullptr && r < shard.regions.size(); ++r) {
        void* address = nullptr;
        uint64_t bytes = 0;
        QUIRE_RETURN_IF_ERROR(state_.memories[s]->region(r, &address, &bytes));
        auto region = connector.register_region(address, bytes, QUIRE_DEVICE_CPU, 0);
        if (!region.ok()) return region.take_status();
        ids[r] = *region;
      }
    }
  }
  return {};
}

TierSet::~TierSet() {
  const std::lock_guard guard(lock_);
  if (fetches_ == nullptr) return;
  if (watches_) (void)state_.cache->watch_units(nullptr);
  fetches_->stop();
  stores_.stop();
  offers_.stop();
  const bool has_ended = drain();
  fetches_->forget_all();
  if (!has_ended) {
    leave_behind();
    return;
  }
  for (size_t t = 0; t < state_.header_regions.size(); ++t) {
    state_.delist(t, state_.header_regions[t]);
    for (const ShardBytes& shard : state_.shards) {
      for (size_t r = 0; t < shard.ids.size() && r < shard.ids[t].size(); ++r) state_.delist(t, shard.ids[t][r]);
    }
  }
}

bool TierSet::drain() noexcept {
  for (uint32_t slot = 0; slot < Transfers::kMost; ++slot) {
    if (!state_.transfers->is_open(slot)) continue;
    state_.cancel(slot);
  }
  const auto begun = std::chrono::steady_clock::now();
  while (state_.transfers->num_in_use() > 0 || offers_.num_offers() > 0) {
    if (std::chrono::steady_clock::now() - begun > std::chrono::nanoseconds(kLongestDrain)) return false;
    if (!poll()) wait(kTick, false);
    offers_.stop();  // copies of some may have ended
  }
  return true;
}

// Nothing is destroyed when the process ends either: a connector may be at work.
void TierSet::leave_behind() noexcept {
  static std::mutex mutex;
  static TierState* last = nullptr;
  std::array<uint64_t, kMostTiers> tickets{};
  for (uint32_t slot = 0; slot < Transfers::kMost; ++slot) {
    if (state_.transfers->is_open(slot)) ++tickets[state_.transfers->at(slot).tier];
  }
  for (uint32_t t = 0; t < state_.tiers.size(); ++t) tickets[t] += offers_.num_under_way(t);
  offers_.leave_behind(&state_.left_offers);
  for (size_t t = 0; t < state_.tiers.size(); ++t) {
    if (tickets[t] == 0) continue;
    const Connector& connector = state_.tiers[t]->connector();
    std::array<char, 256> text{};
    (void)std::snprintf(text.data(), text.size(), "%llu transfers have not ended in 5 s: their memory stays until the process ends",
                        static_cast<unsigned long long>(tickets[t]));
    try {
      connector.runtime()->log().write(QUIRE_LOG_ERROR, "connector:" + connector.name(), text.data());
    } catch (const std::bad_alloc&) {  // for the name
    }
  }
  const std::lock_guard guard(mutex);
  own_->left_behind = last;
  last = own_.release();
}

bool TierSet::poll_tier(uint32_t t) {
  Tier& tier = *state_.tiers[t];
  std::array<quire_completion, 64> ends;
  uint64_t n = 0;
  bool any = false;
  do {
    if (!tier.connector().poll(0, ends, &n).ok()) break;
    for (uint64_t i = 0; i < n; ++i) {
      const uint32_t slot = state_.transfers->find(ends[i].ticket);
      if (slot == kNone) {
        (void)offers_.ended(t, ends[i]);
        continue;
      }
      const TransferKind kind = state_.transfers->at(slot).kind;
      if (kind == TransferKind::kStore) stores_.ended(slot, ends[i]);
      if (kind == TransferKind::kLookup || kind == TransferKind::kLoad || kind == TransferKind::kDescription ||
          kind == TransferKind::kComing)
        fetches_->ended(slot, ends[i]);
      if (kind == TransferKind::kRemove) state_.close(slot);
    }
    any = any || n > 0;
  } while (n == ends.size());
  return any;
}

bool TierSet::poll() noexcept {
  bool any = false;
  for (uint32_t t = 0; t < state_.tiers.size(); ++t) {
    try {
      any = poll_tier(t) || any;
    } catch (const std::bad_alloc&) {  // for the text of an error
    }
  }
  uint32_t slot = 0;
  for (LoadEnd end; state_.landings.take(*state_.transfers, state_.shards, &slot, &end); any = true) fetches_->landed(slot, end);
  return any;
}

// For a completion, where descriptors say that there is one. has_news: something else may happen that nothing tells: streams are done, a
// full connector has room. Reads nothing that changes.
void TierSet::wait(int64_t timeout_ns, bool has_news) const {
  std::array<pollfd, kMostTiers> waits{};
  nfds_t n = 0;
  bool all = !has_news;
  for (const int descriptor : descriptors_) {
    if (descriptor >= 0) waits[n++] = {descriptor, POLLIN, 0};
    all = all && descriptor >= 0;
  }
  if (!all) timeout_ns = std::min(timeout_ns, kTick);
  const timespec time{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  ::ppoll(waits.data(), n, &time, nullptr);
}

uint64_t TierSet::run(int64_t timeout_ns, std::span<quire_fetch_result> results) {
  std::unique_lock guard(lock_);
  const int64_t begun = state_.now(), until = begun + std::min(timeout_ns, INT64_MAX - std::max<int64_t>(begun, 0));
  for (;;) {
    bool any = poll();
    move_on();
    any = any || fetches_->has_results();
    const int64_t now = state_.now();
    const bool waits =
        state_.transfers->num_in_use() > 0 || fetches_->num_in_progress() > 0 || stores_.any_waits() || offers_.num_offers() > 0;
    if (any || timeout_ns == 0 || now >= until || !waits) break;
    const int64_t longest = std::clamp<int64_t>(std::min(until, fetches_->next_deadline()) - now, 0, until - now);
    const bool has_news = state_.follows_streams() || stores_.any_waits() || offers_.any_waits() || !state_.landings.empty();
    guard.unlock();  // others read statistics meanwhile
    wait(longest, has_news);
    guard.lock();
  }
  return fetches_->take_results(results);
}

// Nothing throws here: deadlines are kept also where memory is short. What was ready starts before anything new is asked for.
void TierSet::move_on() noexcept {
  for (int turns = 0; turns < 2; ++turns) {
    bool lost = false;
    try {
      lost = !state_.follow_streams().ok();
    } catch (const std::bad_alloc&) {  // for the text of an error
      lost = true;
    }
    if (lost) {
      stores_.stop();
      offers_.stop();
      fetches_->lose_streams();
    }
    stores_.start_ready();
    offers_.start_ready();
    fetches_->advance();
    if (turns == 0) stores_.take_units();
  }
}

Result<quire_fetch_id> TierSet::fetch_begin(SequenceId sequence, std::span<const quire_symbol> symbols, int64_t deadline_ns,
                                            const FetchPeer& peer) {
  const std::lock_guard guard(lock_);
  if (peer.tier != kNone) {
    if (peer.tier >= state_.tiers.size()) return fail(QUIRE_OUT_OF_RANGE, "peer.tier: %u of %zu", peer.tier, state_.tiers.size());
    if (!state_.tiers[peer.tier]->is_peers()) {
      return fail(QUIRE_FAILED_PRECONDITION, "peer.tier: tier %u has no QUIRE_TIER_PEERS", peer.tier);
    }
  }
  return fetches_->begin(sequence, symbols, deadline_ns, peer);
}

Result<quire_offer> TierSet::offer_begin(SequenceId sequence, std::span<const quire_symbol> symbols, uint64_t end_token, uint32_t tier) {
  const std::lock_guard guard(lock_);
  return offers_.begin(sequence, symbols, end_token, tier);
}

Status TierSet::offer_info(const OfferHandle& handle, quire_offer_info* info) const {
  const std::lock_guard guard(lock_);
  return offers_.info(handle, info);
}

Status TierSet::offer_end(const OfferHandle& handle) {
  const std::lock_guard guard(lock_);
  return offers_.end(handle);
}

Status TierSet::fetch_cancel(quire_fetch_id fetch) {
  const std::lock_guard guard(lock_);
  return fetches_->cancel(fetch);
}

Status TierSet::fetch_refusal(quire_fetch_id fetch, quire_offer_refusal* refusal) const {
  const std::lock_guard guard(lock_);
  return questions_.refusal(fetch, refusal);
}

// The ring has a lock of its own, so that a reader waits for no call of the tiers.
Status TierSet::read_events(uint32_t tier, uint64_t from, std::span<quire_event> out, std::span<uint8_t> data,
                            quire_event_batch* batch) const {
  if (tier >= state_.tiers.size()) return fail(QUIRE_OUT_OF_RANGE, "tier: %u of %zu", tier, state_.tiers.size());
  const EventRing* const ring = state_.tiers[tier]->events.get();
  if (ring == nullptr) return fail(QUIRE_FAILED_PRECONDITION, "tier: no events of tier %u are recorded", tier);
  return ring->read(from, out, data, batch);
}

Status TierSet::tier_stats(uint32_t index, quire_tier_stats* stats) const {
  const std::lock_guard guard(lock_);
  if (index >= state_.tiers.size()) return fail(QUIRE_OUT_OF_RANGE, "tier: %u of %zu", index, state_.tiers.size());
  const Tier& tier = *state_.tiers[index];
  const uint32_t size = stats->struct_size;
  *stats = tier.stats;
  stats->struct_size = size;
  stats->is_open = tier.is_open(state_.now()) ? 1 : 0;
  tier.name().copy(stats->name, sizeof stats->name - 1);
  stats->bytes_in_flight = tier.bytes_in_stores;
  stats->ns_per_mib = static_cast<uint64_t>(tier.ns_per_byte() * 1048576.0);
  stats->latency_ns = static_cast<uint64_t>(tier.latency_ns());
  return {};
}

void TierSet::stats(quire_tiers_stats* stats) const {
  const std::lock_guard guard(lock_);
  const uint32_t size = stats->struct_size;
  *stats = state_.stats;
  stats->struct_size = size;
  stats->unit_tokens = state_.plan->unit_tokens();
  stats->fetches_in_progress = fetches_->num_in_progress();
  stats->units_in_flight = stores_.num_units();
  stats->offers_in_progress = offers_.num_offers();
}

}  // namespace quire
