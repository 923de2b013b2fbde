// Prefill and decode at the same time: an offer that grows with its sequence, and a fetch that waits for what is not there yet.
#include <algorithm>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

EngineOptions of(std::vector<quire_layer> layers) {
  EngineOptions o;
  o.layers = std::move(layers);
  o.is_peers = true;
  o.waits_for_offers = true;
  return o;
}

uint64_t look_ahead(const EngineOptions& o) { return o.layers.back().look_ahead; }  // of drafts, which are the last layers

// Two engines: one computes a prompt in chunks and offers it from its beginning, the other one fetches it meanwhile.
struct Both {
  Clock clock;
  FakeStore store{peers()};
  Engine prefill;
  Engine decode;
  const Text text;
  const uint64_t end;
  quire_sequence_id source = prefill.open();
  quire_sequence_id sequence = decode.open();
  quire_offer offer{};
  quire_fetch_id fetch = 0;
  std::vector<quire_fetch_result> results;

  Both(const EngineOptions& from, const EngineOptions& to, uint64_t tokens)
      : prefill(clock, from, {&store}), decode(clock, to, {&store}), text(count_text(1, tokens + 1 + look_ahead(from))), end(tokens) {}

  void begin(int64_t deadline_ns = 0) {
    if (prefill.info(source).reserved == 0 && prefill.has_encoder(source)) compute_to(16);  // then its length is known
    offer = prefill.grow(source, text, end);
    fetch = decode.begin_from(offer, sequence, text, deadline_ns);
  }
  void compute_to(uint64_t tokens) { prefill.go_on(source, first(text, tokens)); }
  // Both look after their tiers for a while.
  void pass(int turns = 40) {
    for (int i = 0; i < turns; ++i) {
      EXPECT_TRUE(prefill.run().empty());
      for (const quire_fetch_result& r : decode.run()) results.push_back(r);
      clock.now += kMillisecond;
    }
  }
  quire_fetch_result result() {
    EXPECT_EQ(results.size(), 1U);
    if (results.empty()) return {};
    EXPECT_EQ(results[0].fetch, fetch);
    EXPECT_EQ(results[0].committed, decode.info(sequence).committed);
    if (results[0].committed > 0) decode.check(sequence, text);
    return results[0];
  }
  void expect_nothing_left() {
    prefill.settle();
    decode.settle();
    EXPECT_EQ(prefill.stats().offers_in_progress, 0U);
    prefill.expect_nothing_left();
    decode.expect_nothing_left();
    EXPECT_EQ(store.num_in_flight(), 0U);
    EXPECT_TRUE(store.violations().empty());
  }
};

TEST(GrowingOffers, ComeWhileTheyAreComputed) {
  size_t turn = 0;
  for (const std::vector<quire_layer>& layers : offered_kinds()) {
    for (const auto& [from, to] : {std::pair{1U, 1U}, {2U, 1U}, {1U, 4U}}) {
      for (const uint64_t chunk : {uint64_t{48}, uint64_t{128}, uint64_t{200}}) {
        const uint64_t tokens = turn % 2 == 0 ? 640 : 416;
        SCOPED_TRACE("kind " + std::to_string(turn / 9) + ", " + std::to_string(from) + " to " + std::to_string(to) + ", chunk " +
                     std::to_string(chunk));
        EngineOptions o = of(layers);
        o.ranks = from;
        o.block = turn % 3 == 0 ? 32 : 16;
        o.pages = 700;
        EngineOptions other = o;
        other.ranks = to;
        other.block = 16;
        other.layout = turn++ % 4 == 0 ? "BJPKTHD" : "";
        other.others = {1, 2, 4};
        Both both(o, other, tokens);
        both.begin();
        uint64_t early = 0;
        for (uint64_t at = chunk; at < tokens; at += chunk) {
          both.compute_to(at);
          both.pass();
          EXPECT_TRUE(both.results.empty());
          EXPECT_EQ(both.prefill.offered(both.offer), at / 64 * 64);
          early = both.decode.tier().bytes_loaded;
        }
        both.compute_to(tokens);
        both.pass();
        const quire_fetch_result got = both.result();
        EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
        EXPECT_EQ(got.committed, tokens);
        EXPECT_GT(early, got.bytes / 4);  // what is needed of all tokens came before the last chunk
        both.decode.go_on(both.sequence, both.text);
        both.prefill.finish(both.source);
        both.expect_nothing_left();
        if (HasFailure()) return;
      }
    }
  }
}

// Rows of drafts are final when the tokens that follow are committed.
TEST(GrowingOffers, LeaveOutRowsOfDraftsThatAreNotFinal) {
  for (const uint32_t ahead : {1U, 3U}) {
    for (const bool has_states : {false, true}) {
      SCOPED_TRACE(std::to_string(ahead) + " tokens ahead" + (has_states ? ", states" : ""));
      constexpr uint64_t kEnd = 512;
      EngineOptions from = of({full_layer(), window_layer(40), full_layer()});
      if (has_states) from.layers[1] = state_layer();
      from.layers[2].flags = QUIRE_LAYER_DRAFT;
      from.layers[2].look_ahead = ahead;
      from.pages = 700;
      EngineOptions to = from;
      from.guesses_before = kEnd;
      Both both(from, to, kEnd);
      both.begin();
      for (uint64_t at = 128; at < kEnd; at += 128) {
        both.compute_to(at);
        both.pass();
        EXPECT_EQ(both.prefill.offered(both.offer), at - 64);  // the last unit is not final
      }
      both.compute_to(kEnd);
      both.pass();
      EXPECT_EQ(both.result().committed, kEnd);
      both.prefill.finish(both.source);
      both.decode.finish(both.sequence);
      both.expect_nothing_left();
    }
  }
}

// A reader may come at any time, also when everything is there.
TEST(GrowingOffers, AreFoundWheneverTheReaderComes) {
  for (const std::vector<quire_layer>& layers : offered_kinds()) {
    for (const uint64_t begins : {uint64_t{0}, uint64_t{100}, uint64_t{320}}) {
      Both both(of(layers), of(layers), 320);
      both.compute_to(40);
      both.offer = both.prefill.grow(both.source, both.text, 320);
      if (begins > 0) both.compute_to(begins);
      both.pass(4);
      both.fetch = both.decode.begin_from(both.offer, both.sequence, both.text);
      both.pass(4);
      if (begins == 320) both.prefill.finish(both.source);
      if (begins < 320) both.compute_to(320);
      both.pass();
      EXPECT_EQ(both.result().outcome, QUIRE_FETCH_DONE);
      EXPECT_EQ(both.result().committed, 320U);
      both.expect_nothing_left();
    }
  }
}

// What was committed is not asked for again: the sequence begins with a hit, and is preempted on its way.
TEST(GrowingOffers, FollowHitsAndPreemption) {
  for (const std::vector<quire_layer>& layers : offered_kinds()) {
    EngineOptions o = of(layers);
    o.keep = QUIRE_KEEP_EVERY;
    Both both(o, of(layers), 640);
    both.prefill.compute(first(both.text, 256));
    both.decode.compute(first(both.text, 128));
    both.begin();
    both.pass(4);
    both.compute_to(400);
    both.pass(4);
    ASSERT_EQ(quire_sequence_preempt(both.prefill.cache(), both.source, nullptr), QUIRE_OK);
    both.pass(4);
    both.compute_to(500);
    both.compute_to(640);
    both.pass();
    EXPECT_EQ(both.result().outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(both.result().committed, 640U);
    both.expect_nothing_left();
  }
}

// The peer ends early, in all ways: what came is kept, as far as all groups can resume, and the rest is computed.
TEST(GrowingOffers, ThatEndEarlyGiveWhatCame) {
  enum class End { kWithdrawn, kFinished, kTiersGone, kLookupsFail, kLoadsFail };
  for (const End end : {End::kWithdrawn, End::kFinished, End::kTiersGone, End::kLookupsFail, End::kLoadsFail}) {
    for (const bool has_states : {false, true}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(end)) + (has_states ? ", states" : ""));
      std::vector<quire_layer> layers = {full_layer(), window_layer(40)};
      if (has_states) layers.push_back(state_layer());
      Both both(of(layers), of(layers), 640);
      both.begin();
      both.compute_to(300);
      both.pass();
      EXPECT_TRUE(both.results.empty());
      EXPECT_GT(both.decode.tier().bytes_loaded, 0U);
      both.store.set_script([&](const SeenTicket& seen, Fate* fate) {
        if (seen.ticket.kind == QUIRE_TICKET_LOOKUP && end == End::kLookupsFail) fate->code = QUIRE_UNAVAILABLE;
        if (seen.ticket.kind == QUIRE_TICKET_LOAD && end == End::kLoadsFail) fate->code = QUIRE_UNAVAILABLE;
      });
      if (end == End::kWithdrawn) {
        EXPECT_EQ(both.prefill.withdraw(both.offer), QUIRE_OK);
      }
      if (end == End::kFinished) both.prefill.finish(both.source);
      if (end == End::kTiersGone) both.prefill.drop_tiers();
      if (end == End::kLoadsFail) both.compute_to(640);
      for (int i = 0; i < 60; ++i) {
        if (end != End::kTiersGone) both.prefill.run();
        for (const quire_fetch_result& r : both.decode.run()) both.results.push_back(r);
        both.clock.now += kMillisecond;
      }
      const quire_fetch_result got = both.result();
      EXPECT_EQ(got.outcome, QUIRE_FETCH_FAILED);
      EXPECT_EQ(got.committed, 0U);  // the window at token 256 was not asked for, nor is there a state
      both.decode.go_on(both.sequence, both.text);
      both.decode.settle();
      both.decode.expect_nothing_left();
      EXPECT_EQ(both.store.num_in_flight(), 0U);
      EXPECT_TRUE(both.store.violations().empty());
    }
  }
  Both both(of({full_layer()}), of({full_layer()}), 640);
  both.begin();
  both.compute_to(300);
  both.pass();
  both.prefill.finish(both.source);
  both.pass(60);
  EXPECT_EQ(both.result().outcome, QUIRE_FETCH_FAILED);
  EXPECT_EQ(both.result().committed, 256U);
  EXPECT_EQ(both.prefill.offered(both.offer), UINT64_MAX);
  both.expect_nothing_left();
}

// A peer that has stopped answers no look-up. The request goes on after a second, whatever its deadline is.
TEST(GrowingOffers, OfPeersThatSayNothingAreGivenUp) {
  Both both(of({full_layer(), window_layer(40)}), of({full_layer(), window_layer(40)}), 640);
  both.begin(30'000 * kMillisecond);
  both.compute_to(300);
  both.pass();
  both.store.set_script([](const SeenTicket& seen, Fate* fate) { fate->held = seen.ticket.kind == QUIRE_TICKET_LOOKUP; });
  both.pass(900);
  EXPECT_TRUE(both.results.empty());
  both.pass(300);
  EXPECT_EQ(both.result().outcome, QUIRE_FETCH_LATE);
  both.store.set_script(nullptr);
  both.store.release_all();
  both.prefill.finish(both.source);
  both.expect_nothing_left();
}

// The same while the last bytes are on their way: what may still be written is quarantined.
TEST(GrowingOffers, OfPeersThatStopWhileTheySendAreGivenUp) {
  Both both(of({full_layer(), window_layer(40)}), of({full_layer(), window_layer(40)}), 640);
  both.begin(30'000 * kMillisecond);
  both.compute_to(300);
  both.pass();
  both.store.set_script([](const SeenTicket& seen, Fate* fate) {
    fate->held = seen.ticket.kind == QUIRE_TICKET_LOAD || seen.ticket.num_keys == 1;
    fate->deaf = seen.ticket.kind == QUIRE_TICKET_LOAD;
  });
  both.compute_to(640);
  both.pass(900);
  EXPECT_TRUE(both.results.empty());
  both.pass(300);
  EXPECT_EQ(both.result().outcome, QUIRE_FETCH_LATE);
  EXPECT_GT(both.decode.stats().quarantined, 0U);
  both.store.set_script(nullptr);
  both.store.release_all();
  both.prefill.finish(both.source);
  both.expect_nothing_left();
}

// When everything was announced it is still asked whether the offer is there. A load that ends meanwhile does not wait for the answer, and
// the answer is nobody's.
TEST(GrowingOffers, EndWhileAQuestionIsOnItsWay) {
  Both both(of({full_layer(), window_layer(40)}), of({full_layer(), window_layer(40)}), 640);
  both.begin(30'000 * kMillisecond);
  both.compute_to(300);
  both.pass();
  both.store.set_script([](const SeenTicket& seen, Fate* fate) {
    if (seen.ticket.kind == QUIRE_TICKET_LOOKUP && seen.ticket.num_keys == 1) fate->held = fate->deaf = true;
    if (seen.ticket.kind == QUIRE_TICKET_LOAD) fate->delay_ns = 20 * kMillisecond;
  });
  both.compute_to(640);
  both.pass(100);
  EXPECT_EQ(both.result().outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(both.result().committed, 640U);
  EXPECT_EQ(both.store.num_in_flight(), 1U);  // the question
  both.store.set_script(nullptr);
  both.store.release_all();
  both.pass(10);
  EXPECT_EQ(both.results.size(), 1U);
  EXPECT_EQ(both.decode.stats().fetches_in_progress, 0U);
  both.prefill.finish(both.source);
  both.expect_nothing_left();
}

TEST(GrowingOffers, AreWaitedForUntilTheDeadline) {
  for (const double ns_per_token : {0.0, 1e6}) {
    for (const int64_t deadline : {int64_t{0}, 100 * kMillisecond}) {
      SCOPED_TRACE(std::to_string(ns_per_token) + ", " + std::to_string(deadline));
      EngineOptions o = of({full_layer()});
      o.ns_per_token = ns_per_token;
      Both both(of({full_layer()}), o, 640);
      both.begin(deadline);
      both.compute_to(300);
      const int64_t begun = both.clock.now;
      // 640 tokens of 1 ms, twice, and a second; or a minute.
      const int64_t expected = deadline > 0 ? deadline : ns_per_token > 0 ? 2280 * kMillisecond : 60'000 * kMillisecond;
      while (both.results.empty() && both.clock.now - begun < 2 * expected) both.pass(1);
      EXPECT_NEAR(static_cast<double>(both.clock.now - begun), static_cast<double>(expected), 2e6);
      EXPECT_EQ(both.result().outcome, QUIRE_FETCH_LATE);
      EXPECT_EQ(both.result().committed, 256U);
      both.prefill.settle();
      EXPECT_EQ(both.prefill.offered(both.offer), UINT64_MAX);  // its reader has gone
      both.compute_to(640);
      both.expect_nothing_left();
    }
  }
}

TEST(GrowingOffers, CanBeCancelledAtAnyTime) {
  for (int turns = 0; turns < 60; turns += 3) {
    for (const bool drops : {false, true}) {
      Both both(of({full_layer(), state_layer()}), of({full_layer(), state_layer()}), 640);
      both.store.set_script([](const SeenTicket&, Fate* fate) { fate->polls = 2; });
      both.begin();
      both.compute_to(300);
      for (int i = 0; i < turns && both.results.empty(); ++i) both.pass(1);
      if (drops) {
        both.decode.drop_tiers();
        EXPECT_EQ(both.decode.cache_stats().holds, 0U);
        EXPECT_EQ(both.prefill.withdraw(both.offer), QUIRE_OK);
        both.prefill.settle();
        both.prefill.expect_nothing_left();
        EXPECT_TRUE(both.store.violations().empty());
        continue;
      }
      EXPECT_EQ(quire_fetch_cancel(both.decode.tiers(), both.fetch, nullptr), QUIRE_OK);
      both.pass(10);
      EXPECT_EQ(both.result().outcome, QUIRE_FETCH_CANCELLED);
      both.expect_nothing_left();
    }
  }
}

// One that does not fit is not waited for, and says why.
TEST(GrowingOffers, ThatDoNotFitAreRefusedAtOnce) {
  EngineOptions other = of({full_layer()});
  other.weights = "other-weights";
  Both both(of({full_layer()}), other, 640);
  both.begin();
  both.pass(10);
  EXPECT_EQ(both.result().outcome, QUIRE_FETCH_NOTHING);
  quire_offer_refusal refusal = QUIRE_INIT(quire_offer_refusal);
  EXPECT_EQ(quire_fetch_get_refusal(both.decode.tiers(), both.fetch, &refusal, nullptr), QUIRE_OK);
  EXPECT_EQ(refusal.field, QUIRE_OFFER_WEIGHTS);
  EXPECT_EQ(both.decode.tier().offers_refused, 1U);
  both.expect_nothing_left();

  Both gone(of({full_layer()}), of({full_layer()}), 640);
  gone.offer = gone.prefill.grow(gone.source, gone.text, 640);
  EXPECT_EQ(gone.prefill.withdraw(gone.offer), QUIRE_OK);
  gone.prefill.settle();
  gone.fetch = gone.decode.begin_from(gone.offer, gone.sequence, gone.text);
  gone.pass(10);
  EXPECT_EQ(gone.result().outcome, QUIRE_FETCH_NOTHING);
  gone.expect_nothing_left();
}

// Where a load may not be as long as the prompt, several come, each one when its part is there.
TEST(GrowingOffers, LongerThanALoadComeInSeveral) {
  EngineOptions o = of({full_layer(), latent_layer()});
  EngineOptions other = o;
  other.max_load_tokens = 192;
  other.ns_per_token = 2e5;  // a twentieth of a part is 2 ms, and chunks take 40 here
  Both both(o, other, 640);
  both.begin();
  for (uint64_t at = 100; at < 640; at += 100) {
    both.compute_to(at);
    both.pass();
    EXPECT_TRUE(both.results.empty());
    EXPECT_EQ(both.decode.info(both.sequence).committed, at / 192 * 192);
  }
  both.compute_to(640);
  both.pass();
  EXPECT_EQ(both.result().outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(both.result().committed, 640U);
  both.expect_nothing_left();

  o = of({full_layer(), window_layer(40)});  // whose end is the only place at which all can resume
  other = o;
  other.max_load_tokens = 192;
  Both windows(o, other, 640);
  windows.begin();
  windows.pass(10);
  EXPECT_EQ(windows.result().outcome, QUIRE_FETCH_NOTHING);
  windows.expect_nothing_left();
}

// Of windows only what resuming at the end needs stays in the pool of the one that computes, and no state of a chunk's end.
TEST(GrowingOffers, HoldWhatTheirEndNeeds) {
  Both both(of({full_layer(), window_layer(40), state_layer()}), of({full_layer(), window_layer(40), state_layer()}), 640);
  both.offer = both.prefill.grow(both.source, both.text, 640);
  for (uint64_t at = 64; at < 640; at += 64) {
    both.compute_to(at);
    both.prefill.run();
    EXPECT_EQ(both.prefill.cache_stats().held_parts, at / 16) << at;
  }
  both.compute_to(640);
  both.prefill.run();
  EXPECT_EQ(both.prefill.cache_stats().held_parts, 640U / 16 + 3 + 1);  // window: tokens 600 to 640
  EXPECT_EQ(both.prefill.offered(both.offer), 640U);
  EXPECT_EQ(both.prefill.withdraw(both.offer), QUIRE_OK);
  both.expect_nothing_left();
}

TEST(GrowingOffers, AreRefusedWhereTheyCannotBe) {
  EngineOptions o = of({full_layer(), state_layer()});
  o.keep = QUIRE_KEEP_ASKED;
  Both both(o, of({full_layer()}), 640);
  quire_offer offer{};
  std::string message;
  EXPECT_EQ(both.prefill.try_offer(both.source, both.text, &offer, &message, 0, 650), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(message.find("end_token: 650"), std::string::npos) << message;
  EXPECT_EQ(both.prefill.try_offer(both.source, both.text, &offer, &message, 0, 656), QUIRE_OUT_OF_RANGE);
  EXPECT_NE(message.find("num_symbols: 641"), std::string::npos) << message;
  EXPECT_EQ(both.prefill.try_offer(both.source, both.text, &offer, &message, 0, 1600), QUIRE_OUT_OF_RANGE);
  EXPECT_NE(message.find("max_model_len is 1400"), std::string::npos) << message;
  EXPECT_EQ(both.prefill.try_offer(both.source, both.text, &offer, &message, 0, uint64_t{1} << 60), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(both.prefill.try_offer(both.source + 9, both.text, &offer, &message, 0, 640), QUIRE_NOT_FOUND);
  quire_peer peer = QUIRE_INIT(quire_peer);
  peer.address = {"a", 1};
  peer.flags = 2;
  quire_fetch_id fetch = 0;
  EXPECT_EQ(quire_fetch_begin_peer(both.decode.tiers(), both.sequence, both.text.data(), both.text.size(), 0, &peer, &fetch, nullptr),
            QUIRE_INVALID_ARGUMENT);
  // A sequence that went on beyond the end has no state there any more: then the offer ends.
  offer = both.prefill.grow(both.source, both.text, 320);
  both.compute_to(330);
  both.pass(4);
  EXPECT_EQ(both.prefill.offered(offer), UINT64_MAX);
  both.expect_nothing_left();
  // The same of a block of a window. Of an offer that does not grow that is said at once.
  Both windows(of({full_layer(), window_layer(40)}), of({full_layer()}), 640);
  offer = windows.prefill.grow(windows.source, windows.text, 320);
  windows.compute_to(330);
  windows.pass(4);
  EXPECT_EQ(windows.prefill.offered(offer), UINT64_MAX);
  EXPECT_EQ(windows.prefill.try_offer(windows.source, windows.text, &offer, &message, 0, 320), QUIRE_FAILED_PRECONDITION);
  EXPECT_NE(message.find("a block of the unit that ends at token 320"), std::string::npos) << message;
  windows.expect_nothing_left();
  // A connector of short objects: the records fit, and the description does with a short name only.
  FakeStoreOptions tiny = peers();
  tiny.max_object_bytes = 4096 + 16 * 3 * 8;
  FakeStore store(tiny);
  EngineOptions few = of({full_layer(1, 1), full_layer(1, 1), full_layer(1, 1)});
  few.unit = 16;
  Engine small(both.clock, few, {&store});
  few.weights = std::string(4096, 'w');
  Engine long_name(both.clock, few, {&store});
  EXPECT_EQ(small.try_offer(small.open(), both.text, &offer, &message, 0, 640), QUIRE_OK) << message;
  EXPECT_EQ(long_name.try_offer(long_name.open(), both.text, &offer, &message, 0, 640), QUIRE_UNIMPLEMENTED);
  EXPECT_NE(message.find("long enough to describe"), std::string::npos) << message;
}

// Leases of what came are renewed while the rest is computed.
void expect_leases(uint64_t max_load_tokens, uint64_t missing, uint64_t here) {
  EngineOptions to = of({full_layer()});
  to.max_load_tokens = max_load_tokens;
  Both both(of({full_layer()}), to, 640);
  uint64_t most = 0;
  both.store.set_script([&](const SeenTicket& seen, Fate*) {
    if (seen.ticket.kind == QUIRE_TICKET_LOOKUP) most = std::max<uint64_t>(most, seen.ticket.num_keys);
  });
  both.begin(60'000 * kMillisecond);
  both.compute_to(320);
  both.pass();
  most = 0;
  both.pass(500);
  EXPECT_EQ(most, 1 + missing);  // the description and what is missing
  both.pass(10'000);
  EXPECT_EQ(most, 1 + missing + here);
  both.compute_to(640);
  both.pass();
  EXPECT_EQ(both.result().outcome, QUIRE_FETCH_DONE);
  both.expect_nothing_left();
}

TEST(GrowingOffers, KeepTheirLeases) {
  expect_leases(640, 5, 5);
  expect_leases(256, 3, 5);  // the second load: of the first one, too
}

}  // namespace
}  // namespace quire::test
