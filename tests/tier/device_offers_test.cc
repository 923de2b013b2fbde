// What is offered of pools on devices: the bytes are copied into host memory, which is the offer's until it ends. tier_offers runs there,
// too; these are the tests of copies and of their memory.
#include <chrono>

#include "tests/tier/faked_gpu.h"
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

EngineOptions of(std::vector<quire_layer> layers) {
  EngineOptions o;
  o.layers = std::move(layers);
  o.is_peers = true;
  o.pages = 700;
  return o;
}

// An engine that has computed a prompt, and one that wants it.
struct Pair {
  Clock clock;
  FakeStore store{peers()};
  Engine prefill, decode;
  const Text text;
  quire_sequence_id source = prefill.open();

  Pair(const EngineOptions& from, const EngineOptions& to, uint64_t tokens)
      : prefill(clock, from, {&store}), decode(clock, to, {&store}), text(count_text(1, tokens + 1)) {
    prefill.go_on(source, first(text, tokens));
  }
  Pair(const std::vector<quire_layer>& layers, uint64_t tokens) : Pair(of(layers), of(layers), tokens) {}
  ~Pair() { hold(false); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  quire_offer begin() {
    quire_offer offer{};
    std::string message;
    EXPECT_EQ(prefill.try_offer(source, text, &offer, &message), QUIRE_OK) << message;
    return offer;
  }
  void expect_read(const quire_offer& offer) {
    const quire_sequence_id sequence = decode.open();
    const quire_fetch_result got = decode.fetch_from(offer, sequence, text);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(got.committed, text.size() - 1);
    decode.go_on(sequence, text);
    decode.finish(sequence);
    decode.forget_all();
    prefill.settle();
  }
  // Without what would need the device to be well.
  void expect_none_held() {
    EXPECT_EQ(prefill.stats().offers_in_progress, 0U);
    EXPECT_EQ(prefill.tier().bytes_in_flight, 0U);
    EXPECT_EQ(prefill.cache_stats().holds, 0U);
    EXPECT_EQ(store.num_in_flight(), 0U);
    for (const std::string& violation : store.violations()) ADD_FAILURE() << violation;
  }
  void expect_nothing_left() {
    prefill.settle();
    decode.settle();
    expect_none_held();
    prefill.expect_nothing_left();
    decode.expect_nothing_left();
  }
};

std::vector<quire_layer> hybrid() { return {full_layer(), window_layer(40), state_layer()}; }

// What the pool has is somebody else's before the reader comes.
TEST(DeviceOffers, AreReadAfterTheirBlocksHaveGone) {
  size_t turn = 0;
  for (const std::vector<quire_layer>& layers : offered_kinds()) {
    for (const auto& [from, to] : {std::pair{1U, 1U}, {2U, 1U}, {1U, 4U}, {4U, 2U}}) {
      SCOPED_TRACE("kind " + std::to_string(turn / 4) + ", " + std::to_string(from) + " to " + std::to_string(to));
      const uint64_t tokens = turn % 2 == 0 ? 416 : 320;
      EngineOptions o = of(layers), other = o;
      o.ranks = from;
      o.block = turn % 3 == 0 ? 32 : 16;
      other.ranks = to;
      other.layout = turn++ % 4 == 1 ? "BJPKHTD" : "";
      other.others = {1, 2, 4};
      Pair pair(o, other, tokens);
      const quire_offer offer = pair.prefill.offer(pair.source, pair.text);
      EXPECT_EQ(pair.prefill.cache_stats().holds, 0U);
      EXPECT_EQ(pair.prefill.tier().bytes_in_flight, offer.num_bytes);
      pair.prefill.finish(pair.source);
      pair.prefill.forget_all();
      for (quire_symbol begin = 1000; begin < 5000; begin += 1000) pair.prefill.compute(count_text(begin, 400));
      pair.expect_read(offer);
      pair.expect_nothing_left();
      if (HasFailure()) return;
    }
  }
}

// Nobody else has the blocks before they were copied.
TEST(DeviceOffers, HoldTheirBlocksUntilTheyWereCopied) {
  EngineOptions o = of(hybrid());
  o.pages = 160;
  Pair pair(o, of(hybrid()), 320);
  const quire_offer offer = pair.begin();
  hold(true);
  for (int turns = 0; turns < 10; ++turns) {
    EXPECT_TRUE(pair.prefill.run().empty());
    EXPECT_EQ(quire_stream_synchronize(pair.prefill.stream(0), -1, nullptr), QUIRE_OK);  // the kernels are done
  }
  EXPECT_FALSE(pair.prefill.is_ready(offer));
  EXPECT_EQ(pair.store.counts().accepted[QUIRE_TICKET_STORE], 1U);  // the description
  EXPECT_EQ(pair.prefill.cache_stats().holds, 1U);
  pair.prefill.finish(pair.source);
  for (quire_symbol begin = 1000; begin < 5000; begin += 1000) pair.prefill.compute(count_text(begin, 150));
  EXPECT_EQ(pair.prefill.cache_stats().holds, 1U);
  hold(false);
  for (int turns = 0; turns < 10; ++turns) EXPECT_TRUE(pair.prefill.run().empty());
  EXPECT_TRUE(pair.prefill.is_ready(offer));
  EXPECT_EQ(pair.prefill.cache_stats().holds, 0U);
  pair.expect_read(offer);
  pair.expect_nothing_left();
}

// Of one that grows, each chunk is let go when it was copied, and what its end needs when that was.
TEST(DeviceOffers, LetGoOfChunks) {
  for (const std::vector<quire_layer>& layers : offered_kinds()) {
    Pair pair(layers, 64);
    const Text text = count_text(1, 641);
    const quire_offer offer = pair.prefill.grow(pair.source, text, 640);
    for (uint64_t at = 128; at <= 640; at += 128) {
      hold(at == 384);
      pair.prefill.go_on(pair.source, first(text, at));
      hold(at == 384);
      for (int turns = 0; turns < 6; ++turns) EXPECT_TRUE(pair.prefill.run().empty());
      EXPECT_EQ(pair.prefill.offered(offer), at == 384 ? 256 : at);
      EXPECT_EQ(pair.prefill.cache_stats().holds, at == 384 ? 1U : 0U);
      hold(false);
    }
    pair.prefill.finish(pair.source);
    pair.prefill.forget_all();
    pair.prefill.compute(count_text(5000, 600));
    const quire_sequence_id sequence = pair.decode.open();
    EXPECT_EQ(pair.decode.fetch_from(offer, sequence, text).committed, 640U);
    pair.decode.go_on(sequence, text);
    pair.expect_nothing_left();
  }
}

// Some shards on devices, others in host memory: the latter are read from the pool, so the blocks stay held.
TEST(DeviceOffers, OfMixedShards) {
  for (const std::vector<quire_layer>& layers : offered_kinds()) {
    for (const auto& [from, to] : {std::pair{1U, 2U}, {2U, 1U}, {2U, 2U}, {3U, 0U}, {0U, 3U}}) {
      for (const uint64_t committed : {uint64_t{416}, uint64_t{100}}) {
        SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to) + ", " + std::to_string(committed));
        EngineOptions o = of(layers), other = o;
        o.ranks = other.ranks = 2;
        o.host_shards = from;
        other.host_shards = to;
        Pair pair(o, other, committed);
        const Text text = count_text(1, 417);
        const quire_offer offer = pair.prefill.grow(pair.source, text, 416);
        pair.prefill.go_on(pair.source, first(text, 416));
        for (int turns = 0; turns < 6; ++turns) EXPECT_TRUE(pair.prefill.run().empty());
        EXPECT_EQ(pair.prefill.offered(offer), 416U);
        EXPECT_EQ(pair.prefill.cache_stats().holds > 0, from != 0);
        pair.prefill.finish(pair.source);
        pair.prefill.compute(count_text(5000, 600));
        const quire_sequence_id sequence = pair.decode.open();
        EXPECT_EQ(pair.decode.fetch_from(offer, sequence, text).committed, 416U);
        pair.decode.go_on(sequence, text);
        pair.expect_nothing_left();
        if (HasFailure()) return;
      }
    }
  }
}

TEST(DeviceOffers, AreWithdrawnInEveryPhase) {
  for (int turns = 0; turns < 5; ++turns) {
    for (const bool is_held : {false, true}) {
      for (const bool grows : {false, true}) {
        SCOPED_TRACE(std::to_string(turns) + (is_held ? ", held" : "") + (grows ? ", grows" : ""));
        Pair pair(hybrid(), 320);
        quire_offer offer{};
        const Text text = count_text(1, 641);
        EXPECT_EQ(pair.prefill.try_offer(pair.source, text, &offer, nullptr, 0, grows ? 640 : 0), QUIRE_OK);
        hold(is_held);
        for (int turn = 0; turn < turns; ++turn) pair.prefill.run();
        const bool copies = is_held && turns > 0;
        EXPECT_EQ(pair.prefill.withdraw(offer), QUIRE_OK);
        for (int turn = 0; turn < 5; ++turn) pair.prefill.run();
        // Its memory is written still: it is nobody else's.
        EXPECT_EQ(pair.prefill.stats().offers_in_progress, copies ? 1U : 0U);
        EXPECT_EQ(pair.prefill.tier().bytes_in_flight, copies ? offer.num_bytes : 0U);
        EXPECT_EQ(pair.prefill.withdraw(offer), QUIRE_NOT_FOUND);
        EXPECT_EQ(pair.store.num_in_flight(), 0U);
        hold(false);
        pair.prefill.settle();
        pair.expect_none_held();
        pair.expect_read(pair.prefill.offer(pair.source, pair.text));
        pair.expect_nothing_left();
      }
    }
  }
}

// One whose reader has gone while others are copied.
TEST(DeviceOffers, EndBesideOthers) {
  Pair pair(hybrid(), 320);
  const quire_offer read = pair.prefill.offer(pair.source, pair.text);
  const quire_offer kept = pair.begin();
  hold(true);
  for (int turns = 0; turns < 5; ++turns) pair.prefill.run();
  EXPECT_EQ(pair.prefill.withdraw(read), QUIRE_OK);
  for (int turns = 0; turns < 5; ++turns) pair.prefill.run();
  EXPECT_EQ(pair.prefill.stats().offers_in_progress, 1U);
  hold(false);
  for (int turns = 0; turns < 5; ++turns) pair.prefill.run();
  EXPECT_TRUE(pair.prefill.is_ready(kept));
  pair.expect_read(kept);
  pair.expect_nothing_left();
}

// Whatever a driver refuses ends the offer, and the next one is whole.
TEST(DeviceOffers, EndWithTheirDriver) {
  const std::vector<void (*)(uint32_t)> failures = {
      [](uint32_t nth) { fail_launch(nth, 2); }, fail_pinned,
      [](uint32_t nth) { fail_call("cuEventRecord", "hipEventRecord", nth + 1, 2); },  // the first is the engine's stream
      [](uint32_t nth) { fail_call("cuEventCreate", "hipEventCreateWithFlags", nth, 2); }};
  for (size_t f = 0; f < failures.size(); ++f) {
    for (const uint32_t nth : {1U, 2U, 5U}) {
      SCOPED_TRACE(std::to_string(f) + ", " + std::to_string(nth));
      Pair pair(hybrid(), 320);
      const quire_offer offer = pair.begin();
      failures[f](nth);
      for (int turns = 0; turns < 20; ++turns) EXPECT_TRUE(pair.prefill.run().empty());
      EXPECT_EQ(pair.prefill.offered(offer), UINT64_MAX);
      EXPECT_EQ(pair.prefill.tier().times_closed, 0U);
      pair.expect_none_held();
      pair.expect_read(pair.prefill.offer(pair.source, pair.text));
      pair.expect_nothing_left();
    }
  }
}

TEST(DeviceOffers, OfALostDeviceEnd) {
  for (const uint32_t nth : {1U, 2U, 3U, 5U}) {
    for (const bool is_late : {false, true}) {
      {
        Pair pair(hybrid(), 320);
        const quire_offer offer = pair.begin();
        if (is_late) hold(true), pair.prefill.run(), hold(false);
        fail_call("work", "work", nth, 700);
        for (int turns = 0; turns < 50; ++turns) pair.prefill.run();
        EXPECT_EQ(pair.prefill.offered(offer), UINT64_MAX);
        pair.expect_none_held();
        quire_offer again{};
        EXPECT_EQ(pair.prefill.try_offer(pair.source, pair.text, &again, nullptr), QUIRE_OK);
        for (int turns = 0; turns < 5; ++turns) pair.prefill.run();
        EXPECT_EQ(pair.prefill.offered(again), UINT64_MAX);
        pair.expect_none_held();
      }
      revive();
    }
  }
}

// Memory is pinned once; of what offers are not allowed to have nothing is kept.
TEST(DeviceOffers, KeepTheirMemoryForOthers) {
  Pair pair({full_layer(), full_layer()}, 640);
  pair.expect_read(pair.prefill.offer(pair.source, pair.text));
  const uint64_t before = pinned();
  for (int turns = 0; turns < 5; ++turns) pair.expect_read(pair.prefill.offer(pair.source, pair.text));
  EXPECT_EQ(pinned(), before);
  pair.expect_nothing_left();

  EngineOptions o = of({full_layer(), full_layer()});
  const auto left_after = [&](uint64_t most) {  // pieces of host memory that an offer leaves
    o.max_store_bytes = most;
    Pair small(o, o, 640);
    const int64_t alive_before = alive();
    const quire_offer offer = small.prefill.offer(small.source, small.text);
    EXPECT_GT(alive(), alive_before + 10);
    EXPECT_EQ(small.prefill.withdraw(offer), QUIRE_OK);
    small.prefill.settle();
    small.expect_nothing_left();
    return alive() - alive_before;
  };
  const int64_t all = left_after(uint64_t{1} << 30), some = left_after(3 * 8192), none = left_after(4095);
  EXPECT_EQ(all - none, 10);
  EXPECT_EQ(some - none, 3);
}

// Offers one record of 16 tokens where memory of ten longer ones is kept. Returns by how much the pieces of host memory grew meanwhile.
int64_t grown_by_short_offer(uint64_t max_store_bytes, bool refuses) {
  EngineOptions o = of({full_layer(), full_layer()});
  o.max_store_bytes = max_store_bytes;
  Pair pair(o, o, 640);
  pair.expect_read(pair.prefill.offer(pair.source, pair.text));
  const quire_sequence_id sequence = pair.prefill.open();
  const Text text = count_text(5000, 17);
  pair.prefill.go_on(sequence, first(text, 16));
  const int64_t before = alive();
  if (refuses) fail_pinned(1);
  const quire_offer offer = pair.prefill.offer(sequence, text);
  const int64_t grown = alive() - before;
  EXPECT_TRUE(pair.prefill.is_ready(offer));
  EXPECT_EQ(pair.prefill.withdraw(offer), QUIRE_OK);
  pair.expect_nothing_left();
  return grown;
}

// Kept memory of another size goes before more is pinned than offers may have.
TEST(DeviceOffers, HaveNoMoreMemoryThanTheyMay) {
  EXPECT_EQ(grown_by_short_offer(11 * 8192, false), 1);
  EXPECT_EQ(grown_by_short_offer(10 * 8192, false), 0);
}

// All that is kept goes before an offer ends because nothing more can be pinned.
TEST(DeviceOffers, GiveUpWhatIsKeptWhereTheSystemAllowsLess) { EXPECT_EQ(grown_by_short_offer(uint64_t{1} << 30, true), 1 - 10); }

// Copies are a little ahead of what the connector has taken.
TEST(DeviceOffers, AreNotCopiedAllAtOnce) {
  EngineOptions o = of({full_layer(16, 128), full_layer(16, 128)});
  o.unit = 128;
  o.block = 32;
  o.pages = 100;
  Pair pair(o, o, 1280);  // ten records of 2 MiB each
  const uint64_t before = pinned();
  quire_offer offer{};
  for (const bool is_wanted : {false, true}) {
    offer = pair.begin();
    hold(true);
    for (int turns = 0; turns < 10; ++turns) pair.prefill.run();
    EXPECT_EQ(pinned() - before, 8U);  // 16 MiB
    if (!is_wanted) {
      EXPECT_EQ(pair.prefill.withdraw(offer), QUIRE_OK);
    }
    hold(false);
    if (!is_wanted) pair.prefill.settle();
  }
  int turns = 0;
  for (; turns < 50 && !pair.prefill.is_ready(offer); ++turns) pair.prefill.run();
  EXPECT_GT(turns, 0);
  EXPECT_EQ(pinned() - before, 10U);
  pair.expect_read(offer);
  pair.expect_nothing_left();
}

TEST(DeviceOffers, EndWithTheirTiers) {
  for (int turns = 0; turns < 5; ++turns) {
    for (const bool is_withdrawn : {false, true}) {
      Pair pair(hybrid(), 320);
      const quire_offer offer = pair.begin();
      hold(turns > 0 && turns < 3);
      for (int turn = 0; turn < turns; ++turn) pair.prefill.run();
      if (is_withdrawn) {
        EXPECT_EQ(pair.prefill.withdraw(offer), QUIRE_OK);
      }
      hold(false);
      pair.prefill.drop_tiers();
      EXPECT_EQ(pair.prefill.cache_stats().holds, 0U);
      EXPECT_EQ(pair.store.num_in_flight(), 0U);
      EXPECT_TRUE(pair.store.violations().empty());
    }
  }
}

// A connector that does not let go keeps the copies: nothing of them is freed, and the pool is not concerned.
TEST(DeviceOffers, StayWithAConnectorThatDoesNotLetGo) {
  static auto* const kept_clock = new Clock;  // these live as long as the connector: to the end
  static auto* const kept_store = new FakeStore(peers());
  Engine engine(*kept_clock, of(hybrid()), {kept_store});
  kept_store->set_script([](const SeenTicket&, Fate* fate) { fate->deaf = true; });
  const quire_sequence_id sequence = engine.open();
  const Text text = count_text(1, 321);
  engine.go_on(sequence, first(text, 320));
  (void)engine.offer(sequence, text);
  const auto begun = std::chrono::steady_clock::now();
  engine.drop_tiers();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  EXPECT_GT(took.count(), 4.5);
  EXPECT_EQ(engine.cache_stats().holds, 0U);
  engine.verify();
  kept_store->release_all();
  EXPECT_TRUE(kept_store->violations().empty());
}

// The same of a device that does not end a copy: what it reads stays held, what it writes stays pinned.
TEST(DeviceOffers, StayWithADeviceThatDoesNotAnswer) {
  static auto* const kept_clock = new Clock;
  static auto* const kept_store = new FakeStore(peers());
  Engine engine(*kept_clock, of(hybrid()), {kept_store});
  const quire_sequence_id sequence = engine.open();
  const Text text = count_text(1, 321);
  engine.go_on(sequence, first(text, 320));
  quire_offer offer{};
  EXPECT_EQ(engine.try_offer(sequence, text, &offer, nullptr), QUIRE_OK);
  hold(true);
  for (int turns = 0; turns < 5; ++turns) EXPECT_TRUE(engine.run().empty());
  const auto begun = std::chrono::steady_clock::now();
  engine.drop_tiers();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  hold(false);
  EXPECT_GT(took.count(), 4.5);
  EXPECT_LT(took.count(), 10.0);
  EXPECT_EQ(kept_store->num_in_flight(), 0U);
  EXPECT_EQ(engine.cache_stats().holds, 1U);
  engine.verify();
}

}  // namespace
}  // namespace quire::test
