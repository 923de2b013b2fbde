// Offers through the connector ucx, over loopback: what one engine computed is read from its pool into another one's, and every byte is
// right. Time is real.
#include <fstream>

#include "tests/connectors/patience.h"
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

std::string line_of(const std::string& path) {
  std::string line;
  std::ifstream(path) >> line;
  return line;
}

EngineOptions of(const std::vector<quire_layer>& layers, uint32_t ranks, const std::string& settings) {
  EngineOptions o;
  o.layers = layers;
  o.ranks = ranks;
  o.others = {1, 2, 4};
  o.is_peers = true;
  o.connector = "ucx";
  o.settings = settings;
  o.pages = 700;
  o.block = 32;  // what windows need of longer blocks than the writer's may be gone
  return o;
}

struct Pair {
  kit::TemporaryFolder folder;
  Clock clock{true};
  const bool waits;  // for offers that grow
  Engine prefill;
  Engine decode;
  quire_sequence_id sequence;

  Pair(const std::vector<quire_layer>& layers, uint32_t from, uint32_t to, const std::string& fields = "", bool waits_for_offers = false)
      : waits(waits_for_offers),
        prefill(clock, of(layers, from, R"({"trusted": true, "listen": "127.0.0.1:0", "port_file": ")" + port() + "\"" + fields + "}"), {}),
        decode(clock, reader(layers, to), {}),
        sequence(prefill.open()) {}
  std::string port() const { return folder.path() + "/port"; }
  EngineOptions reader(const std::vector<quire_layer>& layers, uint32_t ranks) const {
    EngineOptions o = of(layers, ranks, R"({"trusted": true})");
    o.block = 16;
    o.peer = line_of(port());
    o.waits_for_offers = waits;
    return o;
  }
  quire_offer offer(const Text& text) {
    prefill.go_on(sequence, Text(text.begin(), text.end() - 1));
    return prefill.offer(sequence, text);
  }
  // Ends by itself when the reader is done, or the lease is over.
  void expect_over() {
    for (int turns = 0; turns < 5000 && prefill.stats().offers_in_progress > 0; ++turns) EXPECT_TRUE(prefill.run().empty());
    prefill.expect_nothing_left();
    decode.expect_nothing_left();
  }
};

TEST(UcxOffers, ComeWhole) {
  const Text text = count_text(1, 417);
  for (const auto& layers : {std::vector<quire_layer>{full_layer(4), window_layer(40)},
                             {full_layer(4), cut_state_layer(), window_layer(100, 20), state_layer()},
                             {full_layer(4), cross_layer(200, 4), window_layer(40)},
                             {latent_layer(), latent_layer()}}) {
    for (const auto& [from, to] : {std::pair{1U, 1U}, {2U, 1U}, {1U, 2U}, {4U, 2U}}) {
      SCOPED_TRACE(std::to_string(layers.size()) + " layers, " + std::to_string(from) + " to " + std::to_string(to) + " ranks");
      Pair pair(layers, from, to);
      const quire_offer offer = pair.offer(text);
      pair.prefill.finish(pair.sequence);
      pair.prefill.forget_all();
      const quire_sequence_id sequence = pair.decode.open();
      const quire_fetch_result got = pair.decode.fetch_from(offer, sequence, text);
      EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
      EXPECT_EQ(got.committed, 416U);
      pair.decode.go_on(sequence, text);
      pair.decode.settle();
      pair.expect_over();
      if (HasFailure()) return;
    }
  }
}

TEST(UcxOffers, AreFoundByTheirHandleOnce) {
  const Text text = count_text(1, 417);
  Pair pair({full_layer(), state_layer()}, 1, 1);
  const quire_offer offer = pair.offer(text);
  const auto fetch = [&](const quire_offer& wanted) {
    const quire_sequence_id sequence = pair.decode.open();
    const quire_fetch_outcome outcome = pair.decode.fetch_from(wanted, sequence, text).outcome;
    pair.decode.finish(sequence);
    pair.decode.forget_all();
    return outcome;
  };
  quire_offer forged = offer;
  forged.handle[7] ^= 1;
  EXPECT_EQ(fetch(forged), QUIRE_FETCH_NOTHING);
  EXPECT_EQ(fetch(offer), QUIRE_FETCH_DONE);
  pair.expect_over();
  EXPECT_EQ(fetch(offer), QUIRE_FETCH_NOTHING);
}

// A fetch that is refused ends its offer, as any other does.
TEST(UcxOffers, SayWhyTheyAreRefused) {
  const Text text = count_text(1, 417);
  const auto refused = [&](void (*change)(EngineOptions * o), const quire_offer_refusal& expected) {
    Pair pair({full_layer(4), window_layer(40), state_layer()}, 2, 1);
    EngineOptions o = pair.reader({full_layer(4), window_layer(40), state_layer()}, 1);
    change(&o);
    Engine reader(pair.clock, o, {});
    const quire_offer offer = pair.offer(text);
    const quire_sequence_id sequence = reader.open();
    const quire_fetch_result got = reader.fetch_from(offer, sequence, text);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_NOTHING);
    quire_offer_refusal why = QUIRE_INIT(quire_offer_refusal);
    ASSERT_EQ(quire_fetch_get_refusal(reader.tiers(), got.fetch, &why, nullptr), QUIRE_OK);
    EXPECT_EQ(why.field, expected.field);
    EXPECT_STREQ(why.name, expected.name);
    EXPECT_STREQ(why.here, expected.here);
    EXPECT_STREQ(why.there, expected.there);
    reader.go_on(sequence, text);
    pair.expect_over();
    EXPECT_EQ(reader.tier().offers_refused, 1U);
  };
  refused([](EngineOptions* o) { o->weights = "others"; }, {0, QUIRE_OFFER_WEIGHTS, "weights", "others", "test-weights"});
  refused([](EngineOptions* o) { o->layers[1].window = 48; }, {0, QUIRE_OFFER_LAYERS, "layer 1.0", "window 48", "window 40"});
  refused([](EngineOptions* o) { o->others.clear(); }, {0, QUIRE_OFFER_RANKS, "tensor_parallel", "1", "2"});
}

TEST(UcxOffers, EndWithTheirLease) {
  Pair pair({full_layer(), window_layer(40)}, 1, 1, R"(, "lease": "200ms")");
  const Text text = count_text(1, 417);
  const quire_offer offer = pair.offer(text);
  EXPECT_EQ(pair.prefill.cache_stats().holds > 0, !is_on_device());
  pair.expect_over();
  EXPECT_EQ(pair.decode.fetch_from(offer, pair.decode.open(), text).outcome, QUIRE_FETCH_NOTHING);
}

// A prompt that is computed for longer than the lease: the reader renews it while it waits.
TEST(UcxOffers, GrowForLongerThanTheirLease) {
  const Text text = count_text(1, 417);
  for (const auto& layers : {std::vector<quire_layer>{full_layer(4), window_layer(40)}, {full_layer(4), state_layer()}}) {
    Pair pair(layers, 2, 1, R"(, "lease": "300ms")", true);
    const quire_offer offer = pair.prefill.grow(pair.sequence, text, 416);
    const quire_sequence_id sequence = pair.decode.open();
    const quire_fetch_id fetch = pair.decode.begin_from(offer, sequence, text);
    std::vector<quire_fetch_result> results;
    const auto pass = [&](int64_t ns) {
      timespec begin{}, now{};
      clock_gettime(CLOCK_MONOTONIC, &begin);
      do {
        EXPECT_TRUE(pair.prefill.run().empty());
        for (const quire_fetch_result& r : pair.decode.run()) results.push_back(r);
        clock_gettime(CLOCK_MONOTONIC, &now);
      } while (results.empty() && (now.tv_sec - begin.tv_sec) * 1'000'000'000 + now.tv_nsec - begin.tv_nsec < ns);
    };
    for (int64_t tokens = 0; tokens < 416 && results.empty(); tokens += 104) {
      pair.prefill.go_on(pair.sequence, Text(text.begin(), text.begin() + tokens));
      pass(400'000'000);
    }
    EXPECT_TRUE(results.empty());
    EXPECT_GT(pair.decode.tier().bytes_loaded, 0U);
    pair.prefill.go_on(pair.sequence, Text(text.begin(), text.end() - 1));
    pass(20'000'000'000);
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].fetch, fetch);
    EXPECT_EQ(results[0].outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(results[0].committed, 416U);
    pair.decode.go_on(sequence, text);
    pair.expect_over();
  }
}

}  // namespace
}  // namespace quire::test
