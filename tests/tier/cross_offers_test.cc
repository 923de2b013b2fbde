// Offers of models with cross attention: what an encoder was given does not follow from the prompt, so its tokens come with the offer, and
// with that offer only.
#include <algorithm>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr uint64_t kTokens = 384, kMost = 400;

EngineOptions of(std::vector<quire_layer> layers) {
  EngineOptions o;
  o.layers = std::move(layers);
  o.is_peers = true;
  o.pages = 900;
  return o;
}

EngineOptions encoder_decoder() { return of({full_layer(), cross_layer(kMost), full_layer(), cross_layer(kMost)}); }

uint32_t num_groups(const Engine& engine) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_config_info info = QUIRE_INIT(quire_config_info);
  must(quire_config_get_info(engine.config(), &info, &err), err, "info");
  return info.num_groups;
}

// One engine offers, another one reads.
struct Both {
  Clock clock;
  FakeStore store{peers()};
  Engine prefill, decode;
  const Text text;
  quire_sequence_id source = prefill.open(), sequence = decode.open();

  Both(const EngineOptions& from, const EngineOptions& to, uint64_t tokens = kTokens)
      : prefill(clock, from, {&store}), decode(clock, to, {&store}), text(count_text(1, tokens + 1)) {}

  quire_offer offer(uint64_t given, uint64_t encoder) {
    prefill.set_encoder(source, given, encoder);
    decode.set_encoder(sequence, given, encoder);
    prefill.go_on(source, first(text, text.size() - 1));
    return prefill.offer(source, text);
  }
  // The fetch brings all of it, and the sequence goes on from there.
  void expect_whole(quire_fetch_id fetch, uint64_t tokens) {
    const quire_fetch_result got = decode.wait();
    EXPECT_EQ(got.fetch, fetch);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(got.committed, tokens);
    decode.check(sequence, text);
    decode.go_on(sequence, count_text(1, tokens + 100));
    expect_nothing_left();
  }
  void expect_nothing_left() {
    prefill.settle();
    decode.settle();
    prefill.expect_nothing_left();
    decode.expect_nothing_left();
    EXPECT_EQ(prefill.stats().offers_in_progress, 0U);
    EXPECT_EQ(store.num_in_flight(), 0U);
    EXPECT_TRUE(store.violations().empty());
  }
};

// Whatever the ranks, blocks, orders and policies of both are, and however many tokens the encoder has.
TEST(CrossOffers, ComeWholeWhateverBothAre) {
  const std::vector<std::vector<quire_layer>> kinds = {
      {full_layer(), cross_layer(kMost)},
      {full_layer(4), window_layer(40), cross_layer(kMost, 4)},
      {full_layer(), cross_layer(kMost), cut_state_layer(), cross_layer(kMost)},
      {full_layer(), cross_layer(kMost, 1), cross_layer(kMost)},
  };
  const uint64_t encoders[] = {1, 16, 63, 64, 65, 250, kMost};
  const std::string orders[] = {"", "BPJKHTD", "BJPKTHD"};
  size_t turn = 0, loads = 0;
  for (const std::vector<quire_layer>& layers : kinds) {
    for (const uint32_t from : {1U, 2U, 4U}) {
      for (const uint32_t to : {1U, 2U, 4U}) {
        for (const uint32_t block : {16U, 32U, 64U}) {
          const size_t at = turn++;
          if (is_on_device() && at % 4 != 0) continue;  // without a GPU, they are slow
          const uint64_t encoder = encoders[at % 7];
          SCOPED_TRACE("kind " + std::to_string(at / 27) + ", " + std::to_string(from) + " to " + std::to_string(to) +
                       " ranks, blocks of " + std::to_string(block) + ", encoder " + std::to_string(encoder));
          EngineOptions writes = of(layers), reads = of(layers);
          writes.unit = reads.unit = 128;
          writes.ranks = from;
          reads.ranks = to;
          // Windows want no longer blocks than the writer's; layers of several sizes one policy and order.
          const bool has_window = layers[1].kind == QUIRE_LAYER_SLIDING_WINDOW;
          const bool is_even = layers.back().num_kv_heads == layers[1].num_kv_heads;
          reads.block = at % 2 == 0 || has_window ? 16 : 32;
          writes.block = block;
          writes.policy = at % 5 == 0 && is_even ? "vllm" : "";
          reads.policy = at % 4 == 0 && is_even && !has_window ? "vllm" : "";
          if (writes.policy.empty() && is_even) writes.layout = orders[at % 3];
          if (reads.policy.empty() && is_even) reads.layout = orders[at / 3 % 3];
          reads.others = {1, 2, 4};
          Both both(writes, reads);
          const quire_offer offer = both.offer(at, encoder);
          const quire_fetch_result got = both.decode.fetch_from(offer, both.sequence, both.text);
          EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
          EXPECT_EQ(got.committed, kTokens);
          EXPECT_EQ(both.decode.info(both.sequence).encoder_tokens, encoder);
          loads += both.decode.tier().objects_loaded;
          both.decode.go_on(both.sequence, count_text(1, kTokens + 100));
          both.expect_nothing_left();
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(loads, is_on_device() ? 7U : 27U);
}

// T7: the tokens of the prompt and of the encoder, and no more.
TEST(CrossOffers, MoveWhatIsNeeded) {
  constexpr uint64_t kHeader = 4096, kHeadBytes = 2 * 8 * 2;  // keys and values
  for (const uint64_t encoder : {64U, 384U}) {
    for (const uint32_t to : {1U, 2U}) {
      EngineOptions reads = encoder_decoder();
      reads.ranks = to;
      reads.policy = to == 1 ? "vllm" : "";
      reads.others = {1};
      Both both(encoder_decoder(), reads, 640);
      const quire_offer offer = both.offer(3, encoder);
      const FakeStoreCounts before = both.store.counts();
      EXPECT_EQ(both.decode.fetch_from(offer, both.sequence, both.text).outcome, QUIRE_FETCH_DONE);
      const uint64_t loads = both.store.counts().accepted[QUIRE_TICKET_LOAD] - before.accepted[QUIRE_TICKET_LOAD];
      const uint64_t moved = both.store.counts().bytes_loaded - before.bytes_loaded - loads * kHeader;
      const uint64_t needed = (640 + encoder) * 2 * 2 * kHeadBytes;  // layers, heads
      EXPECT_GE(moved, needed);
      EXPECT_LE(static_cast<double>(moved), 1.02 * static_cast<double>(needed));
      both.expect_nothing_left();
    }
  }
}

// Two requests with the same prompt, and other inputs of the encoder.
TEST(CrossOffers, AreThoseOfTheirOwnEncoder) {
  Both both(encoder_decoder(), encoder_decoder());
  const quire_sequence_id other_source = both.prefill.open(), other = both.decode.open();
  both.prefill.set_encoder(other_source, 8, 200);
  both.decode.set_encoder(other, 8, 200);
  const quire_offer one = both.offer(7, 200);
  both.prefill.go_on(other_source, first(both.text, kTokens));
  const quire_offer two = both.prefill.offer(other_source, both.text);
  EXPECT_EQ(both.decode.fetch_from(two, other, both.text).committed, kTokens);
  EXPECT_EQ(both.decode.fetch_from(one, both.sequence, both.text).committed, kTokens);
  both.decode.go_on(other, both.text);
  both.decode.go_on(both.sequence, both.text);
  both.expect_nothing_left();
}

// The sequence goes on, or ends, at once: what was offered stays as it was.
TEST(CrossOffers, AreReadAfterTheSequenceHasGone) {
  for (const bool goes_on : {false, true}) {
    EngineOptions o = encoder_decoder();
    o.pages = 200;
    Both both(o, encoder_decoder());
    const quire_offer offer = both.offer(5, 250);
    if (goes_on) both.prefill.go_on(both.source, count_text(1, 400));
    both.prefill.finish(both.source);
    for (uint64_t given = 100; given < 104; ++given) {
      const quire_sequence_id next = both.prefill.open();
      both.prefill.set_encoder(next, given, 300);
      both.prefill.go_on(next, count_text(9000, 200));
      both.prefill.finish(next);
    }
    EXPECT_EQ(both.decode.fetch_from(offer, both.sequence, both.text).committed, kTokens);
    both.expect_nothing_left();
  }
}

TEST(CrossOffers, ComeWhileThePromptIsComputed) {
  for (const uint64_t load_tokens : {uint64_t{0}, uint64_t{128}}) {
    SCOPED_TRACE(load_tokens);
    EngineOptions o = encoder_decoder(), reads = o;
    reads.waits_for_offers = true;
    reads.max_load_tokens = load_tokens;
    Both both(o, reads, 640);
    quire_offer offer{};
    std::string message;
    EXPECT_EQ(both.prefill.try_offer(both.source, both.text, &offer, &message, 0, 640), QUIRE_FAILED_PRECONDITION);
    EXPECT_NE(message.find("encoder_tokens"), std::string::npos) << message;
    both.prefill.set_encoder(both.source, 4, 250);
    both.decode.set_encoder(both.sequence, 4, 250);
    both.prefill.go_on(both.source, first(both.text, 40));
    offer = both.prefill.grow(both.source, both.text, 640);
    const quire_fetch_id fetch = both.decode.begin_from(offer, both.sequence, both.text);
    std::vector<quire_fetch_result> results;
    const auto pass = [&] {
      for (int i = 0; i < 80; ++i) {
        EXPECT_TRUE(both.prefill.run().empty());
        for (const quire_fetch_result& r : both.decode.run()) results.push_back(r);
        both.clock.now += 1'000'000;
      }
    };
    pass();
    EXPECT_GT(both.decode.tier().bytes_loaded, 0U);  // the encoder's tokens come first
    EXPECT_EQ(both.prefill.offered(offer), 0U);
    both.prefill.go_on(both.source, first(both.text, 300));
    pass();
    EXPECT_EQ(both.prefill.offered(offer), 256U);
    ASSERT_EQ(quire_sequence_preempt(both.prefill.cache(), both.source, nullptr), QUIRE_OK);
    pass();
    both.prefill.go_on(both.source, first(both.text, 640));
    pass();
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].fetch, fetch);
    EXPECT_EQ(results[0].outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(results[0].committed, 640U);
    both.decode.go_on(both.sequence, both.text);
    both.expect_nothing_left();
  }
}

// It was preempted, and its encoder has other tokens now: the reader gets no mixture.
TEST(CrossOffers, EndWhereTheEncoderIsAnotherOne) {
  EngineOptions reads = encoder_decoder();
  reads.waits_for_offers = true;
  Both both(encoder_decoder(), reads);
  both.prefill.set_encoder(both.source, 4, 250);
  both.decode.set_encoder(both.sequence, 4, 250);
  both.prefill.go_on(both.source, first(both.text, 40));
  const quire_offer offer = both.prefill.grow(both.source, both.text, kTokens);
  const quire_fetch_id fetch = both.decode.begin_from(offer, both.sequence, both.text);
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(both.prefill.run().empty());
    EXPECT_TRUE(both.decode.run().empty());
    both.clock.now += 1'000'000;
  }
  EXPECT_GT(both.decode.tier().bytes_loaded, 0U);
  ASSERT_EQ(quire_sequence_preempt(both.prefill.cache(), both.source, nullptr), QUIRE_OK);
  both.prefill.set_encoder(both.source, 4, 249);
  both.prefill.go_on(both.source, first(both.text, 100));
  both.prefill.run();
  ASSERT_EQ(both.prefill.offered(offer), UINT64_MAX);
  const quire_fetch_result got = both.decode.wait();
  EXPECT_EQ(got.fetch, fetch);
  EXPECT_EQ(got.committed, 0U);
  both.decode.go_on(both.sequence, both.text);
  both.expect_nothing_left();
}

// A prompt of a transcription has four tokens: an offer ends inside a block, and grows to there.
TEST(CrossOffers, OfShortPromptsEndAnywhere) {
  for (const uint64_t tokens : {1U, 3U, 16U, 17U, 79U, 130U}) {
    for (const auto& [from, to] : {std::pair{16U, 16U}, {16U, 32U}, {32U, 16U}}) {
      for (const bool grows : {false, true}) {
        for (const bool has_states : {false, true}) {
          SCOPED_TRACE(std::to_string(tokens) + " tokens, blocks of " + std::to_string(from) + " and " + std::to_string(to) +
                       (grows ? ", grows" : "") + (has_states ? ", states" : ""));
          EngineOptions writes = encoder_decoder(), reads = writes;
          if (has_states) writes.layers[2] = reads.layers[2] = cut_state_layer();
          writes.block = from;
          reads.block = to;
          reads.ranks = 2;
          reads.others = {1};
          reads.waits_for_offers = grows;
          Both both(writes, reads, tokens);
          both.prefill.set_encoder(both.source, 9, 77);
          both.decode.set_encoder(both.sequence, 9, 77);
          both.prefill.go_on(both.source, first(both.text, grows ? (tokens + 1) / 2 : tokens));
          const quire_offer offer = grows ? both.prefill.grow(both.source, both.text, tokens) : both.prefill.offer(both.source, both.text);
          EXPECT_EQ(offer.end_token, tokens);
          const quire_fetch_id fetch = both.decode.begin_from(offer, both.sequence, both.text);
          both.prefill.run();
          both.prefill.go_on(both.source, first(both.text, tokens));
          for (int i = 0; grows && i < 3; ++i) both.prefill.run();
          if (!grows) both.prefill.go_on(both.source, count_text(1, tokens + 40));  // in a copy of the last block
          both.expect_whole(fetch, tokens);
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Whatever the layers need at such an end: tails, sinks, a chunk that begins inside a block, rows of drafts.
TEST(CrossOffers, EndInsideBlocksOfAllKinds) {
  const std::vector<quire_layer> kinds[] = {{window_layer(40), cross_layer(kMost)},  {window_layer(40, 20), cross_layer(kMost)},
                                            {chunked_layer(24), cross_layer(kMost)}, {window_layer(1), cross_layer(kMost)},
                                            {cut_state_layer(), cross_layer(kMost)}, {cross_layer(kMost), full_layer()},
                                            {latent_layer(), cross_layer(kMost, 1)}};
  for (const std::vector<quire_layer>& kind : kinds) {
    for (const uint64_t tokens : {8U, 24U, 40U, 48U, 65U, 66U, 67U, 130U}) {
      for (const bool grows : {false, true}) {
        if (is_on_device() && tokens % 3 != 0) continue;
        const bool has_draft = kind.back().kind == QUIRE_LAYER_FULL;
        const uint32_t ahead = has_draft ? 3 : 0;
        SCOPED_TRACE("layers of kind " + std::to_string(kind[0].kind) + ", " + std::to_string(tokens) + " tokens" +
                     (grows ? ", grows" : ""));
        EngineOptions o = of({full_layer()});
        o.layers.insert(o.layers.end(), kind.begin(), kind.end());
        if (has_draft) o.layers.back().flags = QUIRE_LAYER_DRAFT, o.layers.back().look_ahead = ahead;
        o.waits_for_offers = grows;
        Both both(o, o, tokens + ahead);
        both.prefill.go_on(both.source, first(both.text, grows ? 5 : tokens));
        quire_offer offer{};
        std::string message;
        ASSERT_EQ(both.prefill.try_offer(both.source, both.text, &offer, &message, 0, tokens), QUIRE_OK) << message;
        both.prefill.run();
        const quire_fetch_id fetch = both.decode.begin_from(offer, both.sequence, both.text);
        for (uint64_t at = 5; at <= tokens && grows; at += 5) both.prefill.go_on(both.source, first(both.text, at)), both.prefill.run();
        both.prefill.go_on(both.source, first(both.text, tokens));
        for (int i = 0; i < 3; ++i) both.prefill.run();
        ASSERT_EQ(both.prefill.offered(offer), tokens);
        both.expect_whole(fetch, tokens);
        if (HasFailure()) return;
      }
    }
  }
}

// A step that was reserved before writes into the block that the offer ends in.
TEST(CrossOffers, WaitForStepsThatWriteTheirLastBlock) {
  Both both(encoder_decoder(), encoder_decoder(), 20);
  both.prefill.go_on(both.source, first(both.text, 20));
  quire_reserve_entry entry{};
  entry.sequence = both.source;
  entry.num_tokens = 1;
  quire_reserve_result result{};
  quire_step step{};
  quire_error err = QUIRE_INIT(quire_error);
  must(quire_reserve(both.prefill.cache(), &entry, 1, nullptr, 0, &result, &step, &err), err, "reserve");
  ASSERT_EQ(result.code, QUIRE_OK);
  quire_offer offer{};
  std::string message;
  ASSERT_EQ(both.prefill.try_offer(both.source, both.text, &offer, &message), QUIRE_FAILED_PRECONDITION);
  EXPECT_NE(message.find("a step in flight writes the block"), std::string::npos) << message;
  EXPECT_EQ(both.prefill.try_offer(both.source, both.text, &offer, &message, 0, 16), QUIRE_OK) << message;
  EXPECT_EQ(both.prefill.withdraw(offer), QUIRE_OK);
  must(quire_abort(step, QUIRE_ABORT_NOT_LAUNCHED, &err), err, "abort");
  EXPECT_EQ(both.prefill.try_offer(both.source, both.text, &offer, &message), QUIRE_OK) << message;
  EXPECT_EQ(both.prefill.withdraw(offer), QUIRE_OK);
  both.expect_nothing_left();
}

// A request without an input of the encoder, as of text alone.
TEST(CrossOffers, MayHaveNoEncoder) {
  Both both(encoder_decoder(), encoder_decoder(), 100);
  const quire_offer offer = both.offer(0, 0);
  EXPECT_EQ(both.decode.fetch_from(offer, both.sequence, both.text).committed, 100U);
  both.decode.go_on(both.sequence, count_text(1, 150));
  both.expect_nothing_left();
}

// An encoder takes time, too: a short prompt is worth its long encoder, where that is brought faster.
TEST(CrossOffers, AreComparedWithComputingTheEncoder) {
  for (const uint64_t encoder : {uint64_t{1}, kMost}) {
    FakeStoreOptions slow = peers();
    slow.bytes_per_second = 100'000'000;
    FakeStore store(slow);
    Clock clock;
    EngineOptions o = encoder_decoder();
    o.ns_per_token = 5'000;
    Engine prefill(clock, o, {&store}), decode(clock, o, {&store});
    const Text text = count_text(1, 5);
    const quire_sequence_id source = prefill.open(), sequence = decode.open();
    prefill.set_encoder(source, 9, encoder);
    decode.set_encoder(sequence, 9, encoder);
    prefill.go_on(source, first(text, 4));
    // What computing takes in all is 2 ms, and 25 us without the encoder.
    const quire_fetch_result got = decode.fetch_from(prefill.offer(source, text), sequence, text);
    EXPECT_EQ(got.outcome == QUIRE_FETCH_DONE, encoder == kMost) << got.outcome;
    EXPECT_EQ(got.committed, encoder == kMost ? 4U : 0U);
    decode.go_on(sequence, text);
  }
}

// Layers that read encoders of two lengths: the shorter one holds.
TEST(CrossOffers, OfTwoEncodersTakeTheShorterOne) {
  const EngineOptions o = of({full_layer(), cross_layer(400), cross_layer(200)});
  Both both(o, o);
  const quire_offer offer = both.offer(3, 200);
  quire_error err = QUIRE_INIT(quire_error);
  quire_fetch_id fetch = 0;
  both.decode.set_encoder(both.sequence, 3, 201);
  EXPECT_EQ(both.decode.try_from(offer, both.sequence, both.text, &fetch, 0, &err), QUIRE_OUT_OF_RANGE);
  both.decode.set_encoder(both.sequence, 3, 200);
  EXPECT_EQ(both.decode.fetch_from(offer, both.sequence, both.text).committed, kTokens);
  both.expect_nothing_left();
}

// Several loads, one after the other: the first one brings the encoder's tokens.
TEST(CrossOffers, ComeInSeveralLoads) {
  EngineOptions reads = encoder_decoder();
  reads.max_load_tokens = 128;
  Both both(encoder_decoder(), reads, 640);
  const quire_offer offer = both.offer(6, 333);
  const quire_fetch_result got = both.decode.fetch_from(offer, both.sequence, both.text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, 640U);
  both.decode.go_on(both.sequence, both.text);
  both.expect_nothing_left();
}

// Without all of them there is nothing: the request computes all of it, with the encoder.
TEST(CrossOffers, WithoutTheirEncoderAreNone) {
  constexpr uint64_t kHeader = 4096, kTokenBytes = 2 * 8 * 2;  // of one head
  for (const Damage damage : {Damage::kNone, Damage::kFlip, Damage::kShort, Damage::kLost}) {
    for (const uint64_t shortest : {uint64_t{64}, uint64_t{16}}) {  // all units of the encoder, or the last one
      SCOPED_TRACE(std::to_string(static_cast<int>(damage)) + ", records of at most " + std::to_string(shortest) + " tokens");
      const EngineOptions o = of({full_layer(2), cross_layer(kMost, 1)});
      Both both(o, o);
      const quire_offer offer = both.offer(6, kMost);
      size_t bad = 0;
      both.store.set_script([&](const SeenTicket& seen, Fate* fate) {
        if (seen.ticket.kind != QUIRE_TICKET_LOAD || seen.bytes > kHeader + shortest * kTokenBytes) return;
        ++bad;
        if (damage == Damage::kNone) fate->code = QUIRE_UNAVAILABLE;
        fate->damage = damage;
      });
      const quire_fetch_result got = both.decode.fetch_from(offer, both.sequence, both.text);
      EXPECT_GE(bad, shortest == 64 ? 7U : 1U);  // and what says why, where it is asked
      EXPECT_EQ(got.outcome, QUIRE_FETCH_FAILED);
      EXPECT_EQ(got.committed, 0U);
      both.decode.go_on(both.sequence, both.text);
      both.expect_nothing_left();
    }
  }
}

// The request goes on by its deadline; what the peer may still write is held until it has ended.
TEST(CrossOffers, OfStoppedPeersAreQuarantined) {
  Both both(encoder_decoder(), encoder_decoder());
  const quire_offer offer = both.offer(6, 300);
  both.store.set_script([](const SeenTicket& seen, Fate* fate) {
    if (seen.ticket.kind == QUIRE_TICKET_LOAD) fate->held = fate->deaf = true;
  });
  EXPECT_EQ(both.decode.fetch_from(offer, both.sequence, both.text, 10'000'000).outcome, QUIRE_FETCH_LATE);
  EXPECT_GT(both.decode.stats().quarantined, 0U);
  both.decode.go_on(both.sequence, both.text);  // it was computed here
  both.store.set_script(nullptr);
  both.store.release_all();
  both.decode.settle();
  both.decode.check(both.sequence, count_text(1, both.text.size() + 1));
  both.expect_nothing_left();
}

TEST(CrossOffers, SayWhereTheReaderNamesAnotherNumber) {
  for (const uint64_t other : {uint64_t{0}, uint64_t{64}, uint64_t{251}}) {
    Both both(encoder_decoder(), encoder_decoder());
    const quire_offer offer = both.offer(6, 250);
    both.decode.set_encoder(both.sequence, 6, other);
    quire_fetch_id fetch = both.decode.begin_from(offer, both.sequence, both.text);
    const quire_fetch_result got = both.decode.wait();
    EXPECT_EQ(got.outcome, QUIRE_FETCH_NOTHING);
    EXPECT_EQ(got.committed, 0U);
    quire_offer_refusal why = QUIRE_INIT(quire_offer_refusal);
    ASSERT_EQ(quire_fetch_get_refusal(both.decode.tiers(), fetch, &why, nullptr), QUIRE_OK);
    EXPECT_EQ(why.field, QUIRE_OFFER_ENCODER_TOKENS);
    EXPECT_EQ(why.here, std::to_string(other));
    EXPECT_STREQ(why.there, "250");
    both.expect_nothing_left();
    quire_error err = QUIRE_INIT(quire_error);
    both.decode.finish(both.sequence);
    both.sequence = both.decode.open();
    both.decode.set_encoder(both.sequence, 6, kMost + 1);
    EXPECT_EQ(both.decode.try_from(offer, both.sequence, both.text, &fetch, 0, &err), QUIRE_OUT_OF_RANGE);
    EXPECT_NE(std::string(err.message).find("encoder_tokens"), std::string::npos) << err.message;
  }
}

// What is found by prompts alone would be the answer to another input.
TEST(CrossOffers, AreNeitherStoredNorSaved) {
  Clock clock;
  FakeStore store, other(peers());
  EngineOptions o = encoder_decoder();
  o.tiers_may_fail = true;
  for (const uint32_t reasons : {0U, QUIRE_UNIT_COMMITTED + 0U}) {
    for (const bool has_peers : {false, true}) {
      o.is_peers = has_peers;
      o.first_peer = 1;
      o.reasons = reasons;
      const Engine engine(clock, o, {&store, &other});
      EXPECT_EQ(engine.tiers(), nullptr);
      EXPECT_EQ(engine.tiers_error().code, QUIRE_UNIMPLEMENTED) << engine.tiers_error().message;
      EXPECT_NE(std::string(engine.tiers_error().message).find("cross attention"), std::string::npos);
    }
  }
  Engine engine(clock, encoder_decoder(), {&other});
  const quire_sequence_id sequence = engine.open();
  engine.set_encoder(sequence, 1, 100);
  engine.go_on(sequence, count_text(1, 64));
  EXPECT_TRUE(engine.save(sequence, count_text(1, 64), QUIRE_UNIMPLEMENTED).empty());
  EXPECT_EQ(num_groups(engine), 2U);
}

}  // namespace
}  // namespace quire::test
