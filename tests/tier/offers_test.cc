// Prefill in one engine, decode in another: what is offered is read from the pool of the one into the pool of the other, whatever their
// ranks, blocks and orders, and whatever the first one does meanwhile.
#include <algorithm>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr uint64_t kUnit = 64;

EngineOptions of(std::vector<quire_layer> layers) {
  EngineOptions o;
  o.layers = std::move(layers);
  o.is_peers = true;
  return o;
}

// An engine that prefills, and what it offers.
struct Prefill {
  Engine engine;
  quire_sequence_id sequence;

  Prefill(Clock& clock, const EngineOptions& options, FakeStore& store) : engine(clock, options, {&store}), sequence(engine.open()) {}

  quire_offer offer(const Text& text, uint64_t tokens) {
    engine.go_on(sequence, Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(tokens)));
    return engine.offer(sequence, text);
  }
};

TEST(Offers, ComeWholeWhateverBothAre) {
  const std::vector<std::string> orders = {"", "BPJKHTD", "BJPKTHD"};
  // Without a GPU, devices are slow.
  const std::vector<uint64_t> lengths = is_on_device() ? std::vector<uint64_t>{64, 416} : std::vector<uint64_t>{32, 64, 320, 416, 640};
  size_t turn = 0;
  for (const std::vector<quire_layer>& layers : offered_kinds()) {
    for (const uint32_t from : {1U, 2U, 4U}) {
      for (const uint32_t to : {1U, 2U, 4U}) {
        for (const uint64_t tokens : lengths) {
          SCOPED_TRACE("kind " + std::to_string(turn) + ", " + std::to_string(from) + " to " + std::to_string(to) + " ranks, " +
                       std::to_string(tokens) + " tokens");
          Clock clock;
          FakeStore store(peers());
          EngineOptions o = of(layers);
          o.unit = kUnit;
          o.ranks = from;
          o.layout = orders[turn % 3];
          o.block = turn % 2 == 0 ? 16 : 32;
          o.pages = 700;
          Prefill p(clock, o, store);
          o.ranks = to;
          o.layout = orders[turn++ / 3 % 3];
          o.block = 16;
          o.others = {1, 2, 4};
          Engine decode(clock, o, {&store});
          const Text text = count_text(1, tokens + 1);
          const quire_offer offer = p.offer(text, tokens);
          EXPECT_EQ(offer.end_token, tokens);
          const quire_sequence_id sequence = decode.open();
          const quire_fetch_result got = decode.fetch_from(offer, sequence, text);
          EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
          EXPECT_EQ(got.committed, tokens);
          EXPECT_EQ(store.last_address(), "peer:1");
          decode.go_on(sequence, text);
          p.engine.settle();
          EXPECT_EQ(p.engine.stats().offers_in_progress, 0U);
          p.engine.expect_nothing_left();
          EXPECT_TRUE(store.violations().empty());
          if (HasFailure()) return;
        }
      }
    }
  }
}

// What was offered stays as it was: the store compares it when it ends.
TEST(Offers, AreReadAfterTheSequenceHasGone) {
  for (const std::vector<quire_layer>& layers : offered_kinds()) {
    for (const bool goes_on : {false, true}) {
      Clock clock;
      FakeStore store(peers());
      EngineOptions o = of(layers);
      o.pages = 160;
      o.max_len = 700;
      Prefill p(clock, o, store);
      Engine decode(clock, o, {&store});
      const Text text = count_text(1, 321);
      const quire_offer offer = p.offer(text, 320);
      if (goes_on) p.engine.go_on(p.sequence, count_text(1, 400));
      p.engine.finish(p.sequence);
      p.engine.forget_all();
      for (quire_symbol first = 1000; first < 5000; first += 1000) p.engine.compute(count_text(first, 200));
      EXPECT_EQ(p.engine.cache_stats().holds > 0, !is_on_device());  // where it was copied it is read there
      EXPECT_EQ(decode.fetch_from(offer, decode.open(), text).committed, 320U);
      p.engine.settle();
      p.engine.expect_nothing_left();
      EXPECT_TRUE(store.violations().empty());
    }
  }
}

TEST(Offers, AreFoundByTheirHandleOnce) {
  Clock clock;
  FakeStore store(peers());
  Prefill p(clock, of({full_layer(), state_layer()}), store);
  Engine decode(clock, of({full_layer(), state_layer()}), {&store});
  const Text text = count_text(1, 321);
  const quire_offer offer = p.offer(text, 320);
  const auto nothing = [&](const quire_offer& wanted, const Text& prompt) {
    const quire_sequence_id sequence = decode.open();
    EXPECT_EQ(decode.fetch_from(wanted, sequence, prompt).outcome, QUIRE_FETCH_NOTHING);
    decode.finish(sequence);
  };
  for (size_t byte = 0; byte < sizeof offer.handle; ++byte) {
    quire_offer forged = offer;
    forged.handle[byte] ^= 1;
    nothing(forged, text);
  }
  {  // a fetch that names no peer does not ask one
    const quire_sequence_id sequence = decode.open();
    EXPECT_EQ(decode.fetch(sequence, text).outcome, QUIRE_FETCH_NOTHING);
    decode.finish(sequence);
  }
  EXPECT_EQ(decode.fetch_from(offer, decode.open(), text).outcome, QUIRE_FETCH_DONE);
  p.engine.settle();
  decode.forget_all();
  nothing(offer, text);  // it was read
  p.engine.expect_nothing_left();

  const quire_sequence_id next = p.engine.open();
  p.engine.go_on(next, count_text(500, 160));
  const quire_offer other = p.engine.offer(next, count_text(500, 161));
  nothing(other, text);  // of another prompt: and now it is over
  p.engine.settle();
  EXPECT_EQ(p.engine.withdraw(other), QUIRE_NOT_FOUND);
  const quire_offer third = p.engine.offer(next, count_text(500, 161));
  EXPECT_EQ(p.engine.withdraw(third), QUIRE_OK);
  p.engine.settle();
  nothing(third, count_text(500, 161));
  p.engine.expect_nothing_left();
}

TEST(Offers, AreRefusedWhereTheyCannotBe) {
  Clock clock;
  FakeStore store(peers());
  EngineOptions o = of({full_layer(), state_layer()});
  o.keep = QUIRE_KEEP_ASKED;
  Prefill p(clock, o, store);
  const Text text = count_text(1, 321);
  quire_offer offer{};
  std::string message;
  EXPECT_EQ(p.engine.try_offer(p.sequence, text, &offer, &message), QUIRE_FAILED_PRECONDITION);
  EXPECT_NE(message.find("0 tokens are committed"), std::string::npos) << message;
  p.engine.go_on(p.sequence, count_text(1, 300));
  p.engine.go_on(p.sequence, count_text(1, 330));  // the state is that of token 330
  EXPECT_EQ(p.engine.try_offer(p.sequence, text, &offer, &message), QUIRE_FAILED_PRECONDITION);
  EXPECT_NE(message.find("the state at token 320"), std::string::npos) << message;
  EXPECT_EQ(p.engine.try_offer(p.sequence, count_text(1, 319), &offer, &message), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(p.engine.try_offer(p.sequence, text, &offer, &message, 1), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(p.engine.try_offer(p.sequence + 1000, text, &offer, &message), QUIRE_NOT_FOUND);
  o.is_peers = false;
  Prefill plain(clock, o, store);
  plain.engine.go_on(plain.sequence, count_text(1, 320));
  EXPECT_EQ(plain.engine.try_offer(plain.sequence, text, &offer, &message), QUIRE_FAILED_PRECONDITION);
  EXPECT_NE(message.find("QUIRE_TIER_PEERS"), std::string::npos) << message;
  o.is_peers = true;
  o.max_store_bytes = 4096;
  Prefill small(clock, o, store);
  small.engine.go_on(small.sequence, count_text(1, 320));
  const quire_offer alone = small.engine.offer(small.sequence, text);
  EXPECT_EQ(small.engine.try_offer(small.sequence, text, &offer, &message), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_NE(message.find("max_store_bytes is 4096"), std::string::npos) << message;
  EXPECT_EQ(small.engine.withdraw(alone), QUIRE_OK);
  small.engine.settle();
  small.engine.expect_nothing_left();
}

// A peer that dies, lies or hangs costs a recompute; other peers are asked as before.
TEST(Offers, OfBadPeersHarmNobody) {
  const std::vector<quire_layer> layers = {full_layer(), window_layer(40), state_layer()};
  const Text text = count_text(1, 321);
  for (const Damage damage : {Damage::kNone, Damage::kFlip, Damage::kShort, Damage::kLost}) {
    Clock clock;
    FakeStore store(peers());
    Prefill p(clock, of(layers), store);
    Engine decode(clock, of(layers), {&store});
    for (int tries = 0; tries < 8; ++tries) {
      const bool is_bad = tries < 7;
      store.set_script([&](const SeenTicket& seen, Fate* fate) {
        if (seen.ticket.kind != QUIRE_TICKET_LOAD || !is_bad) return;
        if (damage == Damage::kNone) fate->code = QUIRE_UNAVAILABLE;
        fate->damage = damage;
      });
      if (tries == 0) p.engine.go_on(p.sequence, count_text(1, 320));
      const quire_offer offer = p.engine.offer(p.sequence, text);
      const quire_sequence_id sequence = decode.open();
      const quire_fetch_result got = decode.fetch_from(offer, sequence, text);
      EXPECT_EQ(got.outcome, is_bad ? QUIRE_FETCH_FAILED : QUIRE_FETCH_DONE) << tries;
      EXPECT_EQ(got.committed, is_bad ? 0U : 320U);
      decode.go_on(sequence, text);
      decode.finish(sequence);
      decode.forget_all();
      p.engine.settle();
      EXPECT_EQ(decode.tier().times_closed, 0U);
      decode.expect_nothing_left();
      p.engine.expect_nothing_left();
    }
    EXPECT_TRUE(store.violations().empty());
  }
}

// The request goes on by its deadline; what the peer may still write is held until it has ended.
TEST(Offers, OfStoppedPeersAreQuarantined) {
  Clock clock;
  FakeStore store(peers());
  const std::vector<quire_layer> layers = {full_layer(), state_layer()};
  Prefill p(clock, of(layers), store);
  Engine decode(clock, of(layers), {&store});
  const Text text = count_text(1, 321);
  store.set_script([](const SeenTicket& seen, Fate* fate) {
    if (seen.ticket.kind == QUIRE_TICKET_LOAD) fate->held = fate->deaf = true;
  });
  const quire_offer offer = p.offer(text, 320);
  const quire_sequence_id sequence = decode.open();
  const quire_fetch_result got = decode.fetch_from(offer, sequence, text, 10'000'000);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_LATE);
  EXPECT_GT(decode.stats().quarantined, 0U);
  EXPECT_GT(decode.cache_stats().holds, 0U);
  decode.go_on(sequence, text);  // it was computed here
  store.set_script(nullptr);
  store.release_all();
  decode.settle();
  p.engine.settle();
  Text longer = text;
  longer.push_back(7);
  decode.check(sequence, longer);
  decode.expect_nothing_left();
  p.engine.expect_nothing_left();
}

// A part of an offer is of no use: the others are not sent any more, and nothing is held.
TEST(Offers, EndWithOneOfTheirRecords) {
  Clock clock;
  FakeStore store(peers());
  int stores = 0;
  store.set_script([&](const SeenTicket& seen, Fate* fate) {
    if (seen.ticket.kind == QUIRE_TICKET_STORE && ++stores == 2) fate->held = false, fate->code = QUIRE_UNAVAILABLE;
  });
  Prefill p(clock, of({full_layer(), window_layer(40)}), store);
  const Text text = count_text(1, 321);
  p.engine.go_on(p.sequence, count_text(1, 320));
  quire_offer offer{};
  EXPECT_EQ(p.engine.try_offer(p.sequence, text, &offer, nullptr), QUIRE_OK);
  for (int turns = 0; turns < 100 && p.engine.stats().offers_in_progress > 0; ++turns) p.engine.run();
  EXPECT_GT(stores, 2);
  EXPECT_EQ(p.engine.withdraw(offer), QUIRE_NOT_FOUND);
  p.engine.expect_nothing_left();
  EXPECT_EQ(store.num_in_flight(), 0U);
  EXPECT_TRUE(store.violations().empty());
}

// Tiers end although offers are not read; a connector that fails ends them.
TEST(Offers, EndWithTheirTiers) {
  const Text text = count_text(1, 321);
  for (int turns = 0; turns < 4; ++turns) {
    Clock clock;
    FakeStore store(peers());
    Prefill p(clock, of({full_layer(), window_layer(40)}), store);
    p.engine.go_on(p.sequence, count_text(1, 320));
    quire_offer offer{};
    EXPECT_EQ(p.engine.try_offer(p.sequence, text, &offer, nullptr), QUIRE_OK);
    if (turns == 1) store.accept_next(0, QUIRE_UNAVAILABLE);
    if (turns == 2) store.set_script([](const SeenTicket&, Fate* fate) { fate->code = QUIRE_UNAVAILABLE; });
    for (int i = 0; i < turns; ++i) p.engine.run();
    EXPECT_EQ(p.engine.withdraw(offer), turns == 1 ? QUIRE_NOT_FOUND : QUIRE_OK);
    p.engine.drop_tiers();
    EXPECT_EQ(p.engine.cache_stats().holds, 0U);
    EXPECT_EQ(store.num_in_flight(), 0U);
    EXPECT_TRUE(store.violations().empty());
  }
}

}  // namespace
}  // namespace quire::test
