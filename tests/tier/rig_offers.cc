// Offers and what is fetched from peers.
#include <cstring>

#include "tests/tier/tier_rig.h"

namespace quire::test {

quire_code Engine::try_offer(quire_sequence_id sequence, const Text& text, quire_offer* out, std::string* message, uint32_t tier) {
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_offer_begin(tiers_.get(), sequence, text.data(), text.size(), tier, out, &err);
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

quire_code Engine::withdraw(const quire_offer& offer) { return quire_offer_end(tiers_.get(), offer.handle, nullptr); }

quire_fetch_id Engine::begin_from(const quire_offer& offer, quire_sequence_id sequence, const Text& text, int64_t deadline_ns) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_fetch_id fetch = 0;
  quire_peer peer = QUIRE_INIT(quire_peer);
  peer.tier = options_.first_peer;
  peer.address = {options_.peer.data(), options_.peer.size()};
  std::memcpy(peer.handle, offer.handle, sizeof peer.handle);
  peer.end_token = offer.end_token;
  const quire_code code = quire_fetch_begin_peer(tiers_.get(), sequence, text.data(), text.size(), deadline_ns, &peer, &fetch, &err);
  EXPECT_EQ(code, QUIRE_OK) << err.message;
  return fetch;
}

quire_fetch_result Engine::fetch_from(const quire_offer& offer, quire_sequence_id sequence, const Text& text, int64_t deadline_ns) {
  return wait_for(begin_from(offer, sequence, text, deadline_ns), sequence, text);
}

}  // namespace quire::test
