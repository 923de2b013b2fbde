// Offers and what is fetched from peers.
#include <cstring>

#include "tests/tier/tier_rig.h"

namespace quire::test {

FakeStoreOptions peers() {
  FakeStoreOptions options;
  options.offers = true;
  return options;
}

FakeStoreOptions failing_store(uint64_t seed, uint64_t capacity_bytes) {
  FakeStoreOptions o;
  o.seed = seed;
  o.reorders = seed % 3 != 0;
  o.latency_ns = seed % 4 == 0 ? 50'000 : 0;
  o.bytes_per_second = seed % 5 == 0 ? 20'000'000 : 0;
  o.capacity_bytes = seed % 7 == 0 ? capacity_bytes : 0;
  o.evicts = seed % 2 == 0;
  if (seed % 6 < 2) o.flags |= QUIRE_CONNECTOR_REGISTERS;
  if (seed % 3 == 0) return o;
  o.odds = {static_cast<uint32_t>(seed % 400), 30, 50, 60, 20, 6, 2'000'000};
  return o;
}

Text first(const Text& text, uint64_t tokens) { return Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(tokens)); }

quire_code Engine::try_offer(quire_sequence_id sequence, const Text& text, quire_offer* out, std::string* message, uint32_t tier,
                             uint64_t end_token) {
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_offer_begin(tiers_.get(), sequence, text.data(), text.size(), end_token, tier, out, &err);
  if (message != nullptr) *message = err.message;
  return code;
}

bool Engine::is_ready(const quire_offer& offer) const {
  quire_offer_info info = QUIRE_INIT(quire_offer_info);
  return quire_offer_get_info(tiers_.get(), offer.handle, &info, nullptr) == QUIRE_OK && info.is_ready != 0;
}

quire_offer Engine::offer(quire_sequence_id sequence, const Text& text) {
  quire_offer offer{};
  std::string message;
  const quire_code code = try_offer(sequence, text, &offer, &message);
  EXPECT_EQ(code, QUIRE_OK) << message;
  for (int turns = 0; turns < 1000 && code == QUIRE_OK && !is_ready(offer); ++turns) EXPECT_TRUE(run().empty());
  EXPECT_TRUE(is_ready(offer));
  return offer;
}

uint64_t Engine::offered(const quire_offer& offer) const {
  quire_offer_info info = QUIRE_INIT(quire_offer_info);
  return quire_offer_get_info(tiers_.get(), offer.handle, &info, nullptr) == QUIRE_OK ? info.num_tokens : UINT64_MAX;
}

quire_offer Engine::grow(quire_sequence_id sequence, const Text& text, uint64_t end_token) {
  quire_offer offer{};
  std::string message;
  EXPECT_EQ(try_offer(sequence, text, &offer, &message, 0, end_token), QUIRE_OK) << message;
  for (int turns = 0; turns < 100 && !is_ready(offer); ++turns) EXPECT_TRUE(run().empty());
  EXPECT_TRUE(is_ready(offer));
  return offer;
}

quire_code Engine::withdraw(const quire_offer& offer) { return quire_offer_end(tiers_.get(), offer.handle, nullptr); }

quire_code Engine::try_from(const quire_offer& offer, quire_sequence_id sequence, const Text& text, quire_fetch_id* fetch,
                            int64_t deadline_ns, quire_error* err) {
  quire_peer peer = QUIRE_INIT(quire_peer);
  peer.tier = options_.first_peer;
  peer.address = {options_.peer.data(), options_.peer.size()};
  std::memcpy(peer.handle, offer.handle, sizeof peer.handle);
  peer.end_token = offer.end_token;
  peer.encoder_tokens = static_cast<uint32_t>(encoder_of(sequence).tokens);
  peer.flags = options_.waits_for_offers ? QUIRE_PEER_GROWS : 0;
  return quire_fetch_begin_peer(tiers_.get(), sequence, text.data(), text.size(), deadline_ns, &peer, fetch, err);
}

quire_fetch_id Engine::begin_from(const quire_offer& offer, quire_sequence_id sequence, const Text& text, int64_t deadline_ns) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_fetch_id fetch = 0;
  const quire_code code = try_from(offer, sequence, text, &fetch, deadline_ns, &err);
  EXPECT_EQ(code, QUIRE_OK) << err.message;
  return fetch;
}

quire_fetch_result Engine::fetch_from(const quire_offer& offer, quire_sequence_id sequence, const Text& text, int64_t deadline_ns) {
  return wait_for(begin_from(offer, sequence, text, deadline_ns), sequence, text);
}

}  // namespace quire::test
