// Events of what tiers keep. What a tier says it has is what the cache said of the same blocks when it published them, and the names are
// those that quire_hash_blocks computes of the text alone. What a fetch misses is taken back.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr char kSeed[] = "7";

// Events as whoever follows them applies them: what can be found now, by group and name, and what was said of it.
struct Seen {
  struct Block {
    std::string tokens, parent, keys;  // bytes; keys only where the event has one block
    int64_t first_token() const {
      int64_t token = 0;
      std::memcpy(&token, tokens.data(), sizeof token);
      return token;
    }
  };
  using Name = std::pair<uint32_t, std::string>;  // group, digest
  std::map<Name, Block> blocks;
  uint64_t next = 0, num_stored = 0, num_removed = 0;

  void apply(const quire_event& e, const uint8_t* data) {
    const auto text = [&](uint64_t at, uint64_t bytes) { return std::string(reinterpret_cast<const char*>(data) + at, bytes); };
    std::string before = text(e.parent_offset, e.parent_bytes);
    for (uint32_t i = 0; i < e.num_hashes; ++i) {
      const std::string name = text(e.hashes_offset + uint64_t{i} * e.hash_bytes, e.hash_bytes);
      if (e.type == QUIRE_EVENT_REMOVED) {
        EXPECT_EQ(blocks.erase({e.group, name}), 1U) << "what was removed was there";
        ++num_removed;
        continue;
      }
      EXPECT_EQ(e.type, QUIRE_EVENT_STORED);
      const uint64_t bytes = uint64_t{e.block_tokens} * 8;
      blocks[{e.group, name}] = {text(e.tokens_offset + i * bytes, bytes), before,
                                 e.num_hashes == 1 ? text(e.keys_offset, e.keys_bytes) : std::string()};
      before = name;
      ++num_stored;
    }
  }

  // All from `next` on. tier < 0: the cache's.
  quire_code read(const Engine& engine, int tier) {
    std::vector<quire_event> events(64);
    std::vector<uint64_t> data(1 << 16);
    for (;;) {
      quire_event_batch batch = QUIRE_INIT(quire_event_batch);
      quire_error err = QUIRE_INIT(quire_error);
      auto* const bytes = reinterpret_cast<uint8_t*>(data.data());
      const quire_code code =
          tier < 0 ? quire_cache_read_events(engine.cache(), next, events.data(), events.size(), bytes, data.size() * 8, &batch, &err)
                   : quire_tiers_read_events(engine.tiers(), static_cast<uint32_t>(tier), next, events.data(), events.size(), bytes,
                                             data.size() * 8, &batch, &err);
      if (code == QUIRE_DATA_LOSS) next = batch.oldest;
      if (code != QUIRE_OK || batch.num_events == 0) return code;
      for (uint64_t i = 0; i < batch.num_events; ++i) {
        EXPECT_EQ(events[i].number, next + i);
        apply(events[i], bytes);
      }
      next = batch.next;
    }
  }
};

EngineOptions options(std::vector<quire_layer> layers) {
  EngineOptions o;
  o.layers = std::move(layers);
  o.event_ring_bytes = uint64_t{1} << 20;
  o.max_len = 420;
  return o;
}

// Names of the text's units of so many tokens.
std::vector<std::string> names_of(const Text& text, uint32_t unit) {
  quire_hash_options o = QUIRE_INIT(quire_hash_options);
  o.algorithm = QUIRE_HASH_SHA256_CBOR;
  o.seed = {kSeed, sizeof kSeed - 1};
  o.block_tokens = unit;
  const std::vector<int64_t> tokens(text.begin(), text.end());
  const uint64_t bytes = quire_hash_bytes(o.algorithm);
  std::vector<uint8_t> digests(tokens.size() / unit * bytes);
  uint64_t n = 0;
  quire_error err = QUIRE_INIT(quire_error);
  must(quire_hash_blocks(&o, tokens.data(), tokens.size(), digests.data(), tokens.size() / unit, &n, &err), err, "names");
  std::vector<std::string> names;
  for (uint64_t i = 0; i < n; ++i) names.emplace_back(reinterpret_cast<const char*>(digests.data()) + i * bytes, bytes);
  return names;
}

TEST(TierEvents, AreThoseOfTheCacheForWhatWasWritten) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), rounds = number_of("QUIRE_ROUNDS", 40);
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed + rounds - 1));
  uint64_t stored = 0;
  for (uint64_t s = seed; s < seed + rounds && !HasFailure(); ++s) {
    SCOPED_TRACE("seed " + std::to_string(s));
    std::mt19937_64 random(s);
    Clock clock;
    FakeStore store;
    EngineOptions o = options(any_layers(random));
    o.unit = 64 * (1 + random() % 2);
    o.ranks = 1 + random() % 2;
    Engine engine(clock, o, {&store});
    for (quire_symbol first : {1, 1000}) {
      engine.compute(count_text(first, 65 + random() % 330));
      engine.settle();
    }
    Seen cached, kept;
    EXPECT_EQ(cached.read(engine, -1), QUIRE_OK);
    EXPECT_EQ(kept.read(engine, 0), QUIRE_OK);
    EXPECT_EQ(engine.tier().units_dropped, 0U);
    for (const auto& [name, block] : kept.blocks) {
      const auto same = cached.blocks.find(name);
      ASSERT_TRUE(same != cached.blocks.end()) << "group " << name.first;
      EXPECT_EQ(same->second.tokens, block.tokens);
      EXPECT_EQ(same->second.parent, block.parent);
    }
    EXPECT_EQ(kept.num_removed, 0U);
    stored += kept.num_stored;
  }
  EXPECT_GT(stored, 10 * rounds);
}

// Of full attention every block of every unit, once.
TEST(TierEvents, NameEveryBlockThatIsThere) {
  Clock clock;
  FakeStore store;
  Engine engine(clock, options({full_layer()}), {&store});
  const Text text = count_text(1, 300);
  engine.compute(text);
  engine.settle();
  Seen kept;
  EXPECT_EQ(kept.read(engine, 0), QUIRE_OK);
  const std::vector<std::string> names = names_of(text, 16);
  ASSERT_EQ(kept.blocks.size(), 256U / 16);
  EXPECT_EQ(kept.num_stored, kept.blocks.size());
  for (size_t i = 0; i < kept.blocks.size(); ++i) {
    const auto at = kept.blocks.find({0, names[i]});
    ASSERT_TRUE(at != kept.blocks.end()) << i;
    EXPECT_EQ(at->second.parent, i == 0 ? std::string() : names[i - 1]);
  }
}

TEST(TierEvents, OfUnitsThatWereNotWrittenAreNone) {
  Clock clock;
  FakeStore store, other;
  EngineOptions o = options({full_layer(), window_layer(40)});
  Engine engine(clock, o, {&store, &other});
  store.set_script([](const SeenTicket& seen, Fate* fate) {
    if (seen.ticket.kind == QUIRE_TICKET_STORE) fate->code = QUIRE_UNAVAILABLE;
  });
  engine.compute(count_text(1, 200));
  engine.settle();
  Seen failed, kept;
  EXPECT_EQ(failed.read(engine, 0), QUIRE_OK);
  EXPECT_EQ(kept.read(engine, 1), QUIRE_OK);
  EXPECT_EQ(failed.num_stored, 0U);
  EXPECT_GT(kept.num_stored, 0U);
}

// One that is gone takes back what its group has of the unit, once, and nothing else; one that is damaged, too.
TEST(TierEvents, WhatAFetchMissesIsTakenBack) {
  for (const auto& [damaged, ranks] : {std::pair{false, 1U}, {false, 2U}, {true, 1U}, {true, 2U}}) {
    SCOPED_TRACE(std::to_string(damaged) + ", ranks: " + std::to_string(ranks));
    EngineOptions o = options({full_layer(), state_layer()});
    o.ranks = ranks;
    Forgotten f(o, 300);
    Seen kept;
    EXPECT_EQ(kept.read(f.engine, 0), QUIRE_OK);
    const size_t all = kept.blocks.size();
    ASSERT_EQ(all, 16U + 1U);  // and a state where a unit ends
    for (const std::string& key : f.store.keys()) {
      if (damaged) {
        EXPECT_TRUE(f.store.flip(key, 8 * 4096 + 5) || f.store.flip(key, 77));
      } else {
        EXPECT_TRUE(f.store.forget(key));
      }
    }
    quire_fetch_result got = f.fetch();
    for (int turns = 0; turns < 40 && got.outcome == QUIRE_FETCH_FAILED; ++turns) {
      f.clock.now += 400'000'000'000;  // it is open again
      got = f.fetch();
    }
    EXPECT_EQ(got.committed, 0U);
    EXPECT_EQ(kept.read(f.engine, 0), QUIRE_OK);
    EXPECT_GT(kept.num_removed, 0U);
    if (!damaged) {
      EXPECT_TRUE(kept.blocks.empty()) << kept.blocks.size() << " of " << all;
    }
    // It is written again, and said again.
    f.clock.now += 400'000'000'000;
    f.engine.compute(f.text);
    f.engine.settle();
    EXPECT_EQ(kept.read(f.engine, 0), QUIRE_OK);
    EXPECT_EQ(kept.blocks.size(), all);
  }
}

// Only of what records have: of a window the blocks that resuming reads, of a chunk that ends with the unit none.
TEST(TierEvents, NameWhatRecordsHave) {
  Clock clock;
  FakeStore store;
  Engine engine(clock, options({full_layer(), window_layer(20), chunked_layer(64)}), {&store});
  engine.compute(count_text(1, 300));
  engine.settle();
  Seen kept;
  EXPECT_EQ(kept.read(engine, 0), QUIRE_OK);
  std::map<uint32_t, size_t> blocks;
  for (const auto& [name, block] : kept.blocks) ++blocks[name.first];
  EXPECT_EQ(blocks, (std::map<uint32_t, size_t>{{0, 16}, {1, 4 * 2}}));
}

// A state inside a unit has a record of its own. What it names stands in the whole unit, too: losing it takes nothing back.
TEST(TierEvents, UnitsInsideOthersAreNotReported) {
  Clock clock;
  FakeStore store;
  Engine engine(clock, options({full_layer(), state_layer()}), {&store});
  engine.compute(count_text(1, 110));
  engine.settle();
  engine.compute(count_text(1, 300));
  engine.settle();
  Seen kept;
  EXPECT_EQ(kept.read(engine, 0), QUIRE_OK);
  EXPECT_EQ(kept.num_stored, kept.blocks.size()) << "nothing is said twice";
  EXPECT_EQ(kept.num_removed, 0U);
}

TEST(TierEvents, OfARingThatIsFullAreLostFromTheOldestOn) {
  Clock clock;
  FakeStore store;
  EngineOptions o = options({full_layer()});
  o.event_ring_bytes = 64 << 10;
  Engine engine(clock, o, {&store});
  Seen kept;
  std::vector<Text> texts;
  for (quire_symbol n = 0; n < 100; ++n) {
    texts.push_back(count_text(1 + 1000 * n, 200));
    engine.compute(texts.back());
    engine.settle();
  }
  EXPECT_EQ(kept.read(engine, 0), QUIRE_DATA_LOSS);
  EXPECT_GT(kept.next, 0U);
  EXPECT_EQ(kept.read(engine, 0), QUIRE_OK);
  EXPECT_GT(kept.num_stored, 0U);
  EXPECT_LT(kept.num_stored, 100U * 12);
  // Of what the ring lost nothing is taken back.
  for (const std::string& key : store.keys()) EXPECT_TRUE(store.forget(key));
  engine.forget_all();
  EXPECT_EQ(engine.fetch(engine.open(), texts.front()).committed, 0U);
  EXPECT_EQ(kept.read(engine, 0), QUIRE_OK);
  EXPECT_EQ(kept.num_removed, 0U);
}

TEST(TierEvents, AreRefusedWhereNobodyRecordsThem) {
  Clock clock;
  FakeStore store, read_only;
  EngineOptions o = options({full_layer()});
  o.reasons_of = {QUIRE_UNIT_COMMITTED, 0};
  const Engine engine(clock, o, {&store, &read_only});
  Seen seen;
  EXPECT_EQ(seen.read(engine, 0), QUIRE_OK);
  EXPECT_EQ(seen.read(engine, 1), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(seen.read(engine, 2), QUIRE_OUT_OF_RANGE);
  seen.next = 1;
  EXPECT_EQ(seen.read(engine, 0), QUIRE_OUT_OF_RANGE);

  o.event_ring_bytes = 100;
  o.tiers_may_fail = true;
  const Engine small(clock, o, {&store, &read_only});
  EXPECT_EQ(small.tiers_error().code, QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(small.tiers_error().message).find("options.event_ring_bytes"), std::string::npos) << small.tiers_error().message;
  o.event_ring_bytes = 1 << 20;
  o.has_cache_events = false;
  const Engine none(clock, o, {&store, &read_only});
  EXPECT_EQ(none.tiers_error().code, QUIRE_FAILED_PRECONDITION);
  EXPECT_NE(std::string(none.tiers_error().message).find("enable them first"), std::string::npos) << none.tiers_error().message;
}

}  // namespace
}  // namespace quire::test
