// Events of a cache. Method: by example, against hashes computed apart from it, and a reader that keeps up or does not.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "core/events/block_hash.h"
#include "states_fixture.h"
#include "tests/unit/allocations.h"

namespace quire {
namespace {

struct Batch {
  Status status;
  quire_event_batch info{};
  std::vector<quire_event> events;
  std::vector<uint8_t> data;

  std::string hash(size_t event, uint32_t i) const {
    const quire_event& e = events[event];
    return {reinterpret_cast<const char*>(data.data()) + e.hashes_offset + i * e.hash_bytes, e.hash_bytes};
  }
  std::string text(uint64_t offset, uint64_t bytes) const { return {reinterpret_cast<const char*>(data.data()) + offset, bytes}; }
  std::vector<int64_t> tokens(size_t event) const {
    std::vector<int64_t> out(events[event].num_tokens);
    std::memcpy(out.data(), data.data() + events[event].tokens_offset, out.size() * 8);
    return out;
  }
};

quire_event_options options_of(uint64_t ring_bytes = 0) {
  quire_event_options o{};
  o.struct_size = sizeof o;
  o.algorithm = QUIRE_HASH_SHA256_CBOR;
  o.seed = {"0", 1};
  o.ring_bytes = ring_bytes;
  return o;
}

Batch read(const Cache& cache, uint64_t from, size_t capacity = 256, size_t bytes = 1 << 20) {
  Batch b;
  b.events.resize(capacity);
  b.data.resize(bytes);
  b.status = cache.read_events(from, b.events, b.data, &b.info);
  b.events.resize(std::min<size_t>(b.info.num_events, capacity));
  return b;
}

Batch snapshot(const Cache& cache) {
  Batch b;
  b.events.resize(256);
  b.data.resize(1 << 20);
  b.status = cache.snapshot_events(b.events, b.data, &b.info);
  b.events.resize(b.info.num_events);
  return b;
}

// Blocks of 4 tokens without extra keys; keys of the first block may be given.
std::vector<std::string> chain(const std::vector<quire_symbol>& prompt, const std::vector<ExtraKey>& first = {},
                               const std::vector<ExtraKey>& all = {}) {
  auto hasher = BlockHasher::create(QUIRE_HASH_SHA256_CBOR, "0");
  Digest parent = hasher->none();
  std::vector<std::string> out;
  for (size_t i = 0; i + 4 <= prompt.size(); i += 4) {
    const std::vector<int64_t> tokens(prompt.begin() + static_cast<long>(i), prompt.begin() + static_cast<long>(i) + 4);
    parent = hasher->hash(parent.view(), tokens, i == 0 ? first : all);
    out.emplace_back(reinterpret_cast<const char*>(parent.bytes.data()), parent.size);
  }
  return out;
}

TEST(Events, CommitTellsWhatCanBeFound) {
  Fixture f({kFull});
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 10));
  const Batch b = read(*f.cache, 0);
  ASSERT_TRUE(b.status.ok()) << b.status.message();
  ASSERT_EQ(b.events.size(), 1U);
  EXPECT_EQ(b.events[0].type, QUIRE_EVENT_STORED);
  EXPECT_EQ(b.events[0].parent_bytes, 0U);
  EXPECT_EQ(b.events[0].block_tokens, 4U);
  ASSERT_EQ(b.events[0].num_hashes, 2U);
  EXPECT_EQ(b.hash(0, 0), chain(count_from(1, 10))[0]);
  EXPECT_EQ(b.hash(0, 1), chain(count_from(1, 10))[1]);
  EXPECT_EQ(b.tokens(0), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(b.text(b.events[0].keys_offset, b.events[0].keys_bytes), "\xc0\xc0");
  EXPECT_EQ(b.info.next, 1U);
}

TEST(Events, EverythingThatIsForgottenIsTold) {
  Fixture f({kFull, kState}, 12);
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  std::set<std::pair<uint32_t, std::string>> known;  // what a router believes
  uint64_t next = 0;
  uint64_t removed = 0;
  for (quire_symbol round = 0; round < 40; ++round) {
    const SequenceId id = f.open(round % 3 == 0 ? "salt" : "");
    f.prefill(id, count_from(round % 7 * 100, 9 + round % 5));
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    const Batch b = read(*f.cache, next);
    ASSERT_TRUE(b.status.ok());
    next = b.info.next;
    for (size_t i = 0; i < b.events.size(); ++i) {
      for (uint32_t h = 0; h < b.events[i].num_hashes; ++h) {
        const auto key = std::pair(b.events[i].group, b.hash(i, h));
        if (b.events[i].type == QUIRE_EVENT_STORED) {
          EXPECT_TRUE(known.insert(key).second) << "stored twice";
        } else {
          EXPECT_EQ(known.erase(key), 1U) << "removed and never stored";
          ++removed;
        }
      }
    }
    std::set<std::pair<uint32_t, std::string>> now;
    const Batch all = snapshot(*f.cache);
    ASSERT_TRUE(all.status.ok());
    for (size_t i = 0; i < all.events.size(); ++i) now.insert({all.events[i].group, all.hash(i, 0)});
    ASSERT_EQ(now, known) << "round " << round;
    EXPECT_EQ(all.info.next, next);
  }
  EXPECT_GT(removed, 20U);
}

TEST(Events, ParentsNameTheBlockBefore) {
  Fixture f({kFull, GroupSketch{LiveRange{.window = 4}, 4, 1, 1}});
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  const SequenceId id = f.open();
  StepId step;
  const auto prompt = count_from(1, 16);
  f.reserve(id, {prompt.begin(), prompt.begin() + 8}, 8, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.commit(step, id, 8).ok());
  f.reserve(id, {prompt.begin() + 8, prompt.end()}, 8, 0, &step);
  ASSERT_TRUE(f.commit(step, id, 8).ok());
  const Batch b = read(*f.cache, 2);
  ASSERT_EQ(b.events.size(), 2U);
  const auto hashes = chain(prompt);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(b.events[i].group, i);
    EXPECT_EQ(b.text(b.events[i].parent_offset, b.events[i].parent_bytes), hashes[1]);
    EXPECT_EQ(b.hash(i, 1), hashes[3]);
  }
  EXPECT_EQ(b.events[1].window, 4U);
}

// Upstream sends one event for all tokens since the last one, with the hashes of those blocks that were stored: hashes and tokens do not
// line up, and a router cannot tell which tokens a hash stands for. Here every hash has exactly its own tokens.
TEST(Events, EveryHashHasItsTokens) {
  Fixture f({kFull, kState});
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 12));
  const Batch b = read(*f.cache, 0);
  const auto hashes = chain(count_from(1, 12));
  bool state = false;
  for (size_t i = 0; i < b.events.size(); ++i) {
    ASSERT_EQ(b.events[i].num_tokens, uint64_t{b.events[i].num_hashes} * 4);
    if (b.events[i].group != 1) continue;
    state = true;
    const auto tokens = b.tokens(i);
    EXPECT_EQ(b.hash(i, 0), hashes[static_cast<size_t>(tokens[0]) / 4]);
  }
  EXPECT_TRUE(state);
}

TEST(Events, SaltAdapterAndMediaAreKeys) {
  Fixture f({kFull});
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  uint8_t digest[32] = {0xab};
  quire_symbol picture = 0;
  ASSERT_TRUE(f.cache->add_media(digest, 3, &picture).ok());
  ASSERT_TRUE(f.cache->name_media(picture, "img", 77).ok());
  EXPECT_EQ(f.cache->name_media(picture + 1, "img", 77).code(), QUIRE_NOT_FOUND);
  quire_identity identity{};
  identity.struct_size = sizeof identity;
  identity.salt = {"s", 1};
  identity.adapter = {"lora", 4};
  identity.adapter_number = 9;
  const SequenceId id = *f.cache->sequence_create(&identity);
  f.prefill(id, {1, 2, picture, picture + 1, picture + 2, 6, 7, 8, 9});
  const Batch b = read(*f.cache, 0);
  ASSERT_EQ(b.events.size(), 1U);
  EXPECT_EQ(b.tokens(0), (std::vector<int64_t>{1, 2, 77, 77, 77, 6, 7, 8}));
  EXPECT_EQ(b.text(b.events[0].adapter_offset, b.events[0].adapter_bytes), "lora");
  EXPECT_EQ(b.events[0].adapter_number, 9U);
  const ExtraKey lora{ExtraKey::Kind::kText, "lora", 0};
  const ExtraKey salt{ExtraKey::Kind::kText, "s", 0};
  const auto hashes =
      chain({1, 2, 77, 77, 77, 6, 7, 8}, {lora, {ExtraKey::Kind::kMedia, "img", 2}, salt}, {lora, {ExtraKey::Kind::kMedia, "img", -2}});
  EXPECT_EQ(b.hash(0, 0), hashes[0]);
  EXPECT_EQ(b.hash(0, 1), hashes[1]);
}

TEST(Events, ResetIsOneEvent) {
  Fixture f({kFull});
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  f.prefill(f.open(), count_from(1, 9));
  const SequenceId id = f.open();
  f.prefill(id, count_from(100, 9));
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  ASSERT_TRUE(f.cache->reset().ok());  // one sequence still lives: what it holds stays, the rest is named
  Batch b = read(*f.cache, 2);
  ASSERT_EQ(b.events.size(), 2U);
  EXPECT_EQ(b.events[0].type, QUIRE_EVENT_REMOVED);
  Fixture g({kFull});
  ASSERT_TRUE(g.cache->enable_events(options_of()).ok());
  const SequenceId only = g.open();
  g.prefill(only, count_from(1, 9));
  ASSERT_TRUE(g.cache->sequence_finish(only).ok());
  ASSERT_TRUE(g.cache->reset().ok());
  b = read(*g.cache, 1);
  ASSERT_EQ(b.events.size(), 1U);
  EXPECT_EQ(b.events[0].type, QUIRE_EVENT_CLEARED);
  EXPECT_TRUE(snapshot(*g.cache).events.empty());
}

TEST(Events, ASlowReaderIsToldAndResynchronises) {
  Fixture f({kFull}, 16);
  EXPECT_EQ(f.cache->enable_events(options_of(1024)).code(), QUIRE_INVALID_ARGUMENT);
  ASSERT_TRUE(f.cache->enable_events(options_of(64 << 10)).ok());
  EXPECT_EQ(f.cache->enable_events(options_of()).code(), QUIRE_ALREADY_EXISTS);
  for (quire_symbol round = 0; round < 600; ++round) {
    const SequenceId id = f.open();
    f.prefill(id, count_from(round * 100, 20));
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  }
  const Batch lost = read(*f.cache, 0);
  EXPECT_EQ(lost.status.code(), QUIRE_DATA_LOSS);
  EXPECT_GT(lost.info.oldest, 0U);
  const Batch rest = read(*f.cache, lost.info.oldest, 1 << 12);
  ASSERT_TRUE(rest.status.ok());
  for (size_t i = 0; i < rest.events.size(); ++i) ASSERT_EQ(rest.events[i].number, lost.info.oldest + i);
  EXPECT_EQ(read(*f.cache, rest.info.next + 1).status.code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(read(*f.cache, rest.info.next).events.size(), 0U);
  const Batch one = read(*f.cache, lost.info.oldest, 1);
  EXPECT_EQ(one.info.next, lost.info.oldest + 1);
  EXPECT_EQ(read(*f.cache, lost.info.oldest, 4, 8).status.code(), QUIRE_OUT_OF_RANGE);
  const Batch all = snapshot(*f.cache);
  EXPECT_EQ(all.info.next, rest.info.next);
  EXPECT_GT(all.events.size(), 5U);
}

// What a router believes of one group or all, event by event: nothing is removed that was not stored, and every hash has its bytes.
struct Believed {
  using Key = std::pair<uint32_t, std::string>;
  std::map<Key, std::string> known;  // parents
  uint64_t next = 0;

  static std::string parent_of(const Batch& b, size_t i, uint32_t hash) {
    return hash > 0 ? b.hash(i, hash - 1) : b.text(b.events[i].parent_offset, b.events[i].parent_bytes);
  }
  void follow(const Cache& cache) {
    Batch b = read(cache, next);
    if (b.status.code() == QUIRE_DATA_LOSS) {
      b = snapshot(cache);
      known.clear();
    }
    ASSERT_TRUE(b.status.ok());
    next = b.info.next;
    for (size_t i = 0; i < b.events.size(); ++i) {
      const quire_event& e = b.events[i];
      ASSERT_EQ(e.hash_bytes, 32U) << "event " << e.number;
      ASSERT_TRUE(e.type != QUIRE_EVENT_STORED || e.num_tokens == uint64_t{e.num_hashes} * e.block_tokens) << "event " << e.number;
      for (uint32_t h = 0; h < e.num_hashes; ++h) {
        const auto key = std::pair(e.group, b.hash(i, h));
        if (e.type == QUIRE_EVENT_STORED) {
          ASSERT_TRUE(known.emplace(key, parent_of(b, i, h)).second) << "stored twice, event " << e.number;
        } else {
          ASSERT_EQ(known.erase(key), 1U) << "removed and never stored, event " << e.number;
        }
      }
    }
  }
  void compare(const Cache& cache) const {
    std::map<Key, std::string> now;
    const Batch all = snapshot(cache);
    ASSERT_TRUE(all.status.ok());
    for (size_t i = 0; i < all.events.size(); ++i) {
      EXPECT_TRUE(now.emplace(Key{all.events[i].group, all.hash(i, 0)}, parent_of(all, i, 0)).second);
    }
    EXPECT_EQ(now, known);
  }
};

SequenceId open_as(Fixture* f, std::string_view salt, std::string_view adapter, uint64_t epoch) {
  quire_identity identity{};
  identity.struct_size = sizeof identity;
  identity.salt = {salt.data(), salt.size()};
  identity.adapter = {adapter.data(), adapter.size()};
  identity.epoch = epoch;
  return *f->cache->sequence_create(&identity);
}

// A row that crosses eight boundaries within a budget of few: some are kept for a moment only. Without another group their nodes go, too.
TEST(Events, AStateThatGoesInTheCommitThatKeptItIsNeverTold) {
  for (const uint64_t budget : {1U, 2U, 3U}) {
    for (const bool alone : {true, false}) {
      quire_cache_options options = states_of(QUIRE_CACHE_STATES_AT_BLOCKS);
      options.checkpoint_bytes = budget;
      Fixture f(alone ? std::vector{kState} : std::vector{kFull, kState}, 128, 2, options);
      ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
      Believed router;
      for (quire_symbol user = 0; user < 3; ++user) {
        f.prefill(f.open(), count_from(1000 * user, 33));
        ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
        router.compare(*f.cache);
      }
      EXPECT_EQ(f.stats().checkpoint_bytes, budget);
    }
  }
}

TEST(Events, AnEpochHasNamesOfItsOwn) {
  Fixture f({kFull});
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  Believed router;
  const SequenceId old = open_as(&f, "", "", 0), young = open_as(&f, "", "", 1), salted = open_as(&f, "s", "", 2);
  for (const SequenceId id : {old, young, salted}) f.prefill(id, count_from(1, 9));
  ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
  EXPECT_EQ(router.known.size(), 6U);
  const auto prompt = count_from(1, 8);
  const auto mine = chain(prompt, {{ExtraKey::Kind::kText, "#epoch=1", 0}});
  for (const std::string& name : mine) EXPECT_TRUE(router.known.contains({0, name}));
  for (const std::string& name : chain(prompt, {{ExtraKey::Kind::kText, "s#epoch=2", 0}})) EXPECT_TRUE(router.known.contains({0, name}));
  for (const std::string& name : chain(prompt)) EXPECT_TRUE(router.known.contains({0, name})) << "epoch 0 is named as ever";
  ASSERT_TRUE(f.cache->sequence_finish(old).ok());
  ASSERT_TRUE(f.cache->reset().ok());
  ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
  router.compare(*f.cache);
  EXPECT_EQ(router.known.size(), 4U);
  for (const std::string& name : mine) EXPECT_TRUE(router.known.contains({0, name})) << "the old epoch's went";
}

// The first block under salt "x" has the name of that under adapter "x", as in vLLM.
TEST(Events, ANameOfTwoBlocksGoesWithTheLastOfThem) {
  Fixture f({kFull});
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  Believed router;
  const SequenceId salted = open_as(&f, "x", "", 0), adapted = open_as(&f, "", "x", 0), other = f.open();
  const auto name = std::pair(0U, chain(count_from(1, 4), {{ExtraKey::Kind::kText, "x", 0}})[0]);
  f.prefill(salted, count_from(1, 9));
  f.prefill(adapted, count_from(1, 9));
  f.prefill(other, count_from(1, 5));
  ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
  EXPECT_EQ(router.known.size(), 4U) << "two first blocks have one name, their second ones differ";
  router.compare(*f.cache);
  ASSERT_TRUE(f.cache->sequence_finish(salted).ok());
  ASSERT_TRUE(f.cache->reset().ok());
  ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
  router.compare(*f.cache);
  EXPECT_TRUE(router.known.contains(name)) << "the adapter's is still there";
  ASSERT_TRUE(f.cache->sequence_finish(adapted).ok());
  ASSERT_TRUE(f.cache->reset().ok());
  ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
  router.compare(*f.cache);
  EXPECT_FALSE(router.known.contains(name));
  EXPECT_EQ(router.known.size(), 1U);
}

// One allocation of a commit fails, whichever. Readers take a snapshot then, and are right from there on: one block at most has no name.
TEST(Events, WhatIsLostForWantOfMemoryIsInTheSnapshotAndIsRemoved) {
  std::vector<size_t> names;
  for (bool failed = true; failed;) {
    Fixture f({kFull, GroupSketch{LiveRange{.window = 40}, 4, 1, 1}, kState}, 64);
    ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
    Believed router;
    const SequenceId id = f.open(), other = f.open();
    f.prefill(other, count_from(100, 5));
    StepId step;
    ASSERT_EQ(f.reserve(id, count_from(1, 24), 24, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &step).code, QUIRE_OK);
    const quire_commit_entry entry{id.value, 0, 0, 0, 24};
    test::until = static_cast<int64_t>(names.size());
    test::failed = 0;
    test::armed = true;
    const Status done = f.cache->commit(step, {&entry, 1}, {});
    test::armed = false;
    failed = test::failed > 0;
    ASSERT_TRUE(done.ok()) << done.message();
    ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
    router.compare(*f.cache);
    names.push_back(router.known.size());
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    ASSERT_TRUE(f.cache->reset().ok());
    ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
    router.compare(*f.cache);
  }
  EXPECT_GT(names.size(), 8U);
  for (const size_t n : names) EXPECT_GE(n + 1, names.back());
}

// A reset takes all names at once: what has the name of a block that nobody can find any more is told of again.
TEST(Events, AfterAResetNamesAreNew) {
  Fixture f({kFull});
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  for (int round = 0; round < 2; ++round) {
    const SequenceId id = f.open();
    f.prefill(id, count_from(1, 9));
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    ASSERT_TRUE(f.cache->reset().ok());
  }
  const Batch b = read(*f.cache, 0);
  ASSERT_EQ(b.events.size(), 4U);
  for (const size_t stored : {0U, 2U}) {
    EXPECT_EQ(b.events[stored].type, QUIRE_EVENT_STORED);
    EXPECT_EQ(b.events[stored].num_hashes, 2U);
    EXPECT_EQ(b.events[stored + 1].type, QUIRE_EVENT_CLEARED);
  }
}

// Where hits end inside blocks, what there is of one is told with its own tokens, and apart from the whole ones before it.
TEST(Events, ABlockThatIsNotCompleteIsAnEventOfItsOwn) {
  const std::vector<GroupSketch> groups{GroupSketch{LiveRange{}, 8, 1, 1}, GroupSketch{LiveRange{.state = true}, 2, 1, 1}};
  Fixture f({kFull});
  hit_inside_blocks(&f, groups, 32, 2, 2, states_of(0));
  ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
  Believed router;
  const SequenceId id = f.open();
  ASSERT_TRUE(f.commit(row(f, id, 1, 18), id, 18).ok());
  const Batch b = read(*f.cache, 0);
  ASSERT_GE(b.events.size(), 2U);
  EXPECT_EQ(b.events[0].num_hashes, 2U);
  EXPECT_EQ(b.events[0].block_tokens, 8U);
  EXPECT_EQ(b.events[1].group, 0U);
  EXPECT_EQ(b.events[1].block_tokens, 2U);
  EXPECT_EQ(b.tokens(1), (std::vector<int64_t>{17, 18}));
  EXPECT_EQ(b.text(b.events[1].parent_offset, b.events[1].parent_bytes), b.hash(0, 1));
  ASSERT_TRUE(f.commit(row(f, id, 19, 8), id, 8).ok());
  ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
  router.compare(*f.cache);
}

// The same where several states are kept inside of blocks within one commit: those that lie a whole block apart are not one behind the
// other.
TEST(Events, StatesInsideBlocksAreNoRun) {
  const std::vector<GroupSketch> groups{kFull, GroupSketch{LiveRange{.state = true}, 8, 1, 1}};
  for (uint64_t budget = 1; budget < 5; ++budget) {
    for (uint32_t tokens = 4; tokens < 64; tokens += 2) {
      quire_cache_options options = states_of(QUIRE_CACHE_STATES_AT_BLOCKS);
      options.checkpoint_interval = 2;
      options.checkpoint_bytes = budget;
      Fixture f({kFull});
      hit_inside_blocks(&f, groups, 128, 2, 2, options);
      ASSERT_TRUE(f.cache->enable_events(options_of()).ok());
      Believed router;
      const SequenceId id = f.open();
      ASSERT_TRUE(f.commit(row(f, id, 1, 2), id, 2).ok());
      ASSERT_TRUE(f.commit(row(f, id, 3, tokens - 2), id, tokens - 2).ok());
      ASSERT_NO_FATAL_FAILURE(router.follow(*f.cache));
      router.compare(*f.cache);
    }
  }
}

TEST(Events, OffWithoutAsking) {
  Fixture f({kFull});
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 9));
  EXPECT_EQ(read(*f.cache, 0).status.code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(snapshot(*f.cache).status.code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(f.cache->enable_events(options_of()).code(), QUIRE_FAILED_PRECONDITION);
}

TEST(Events, ReadersRunBesideCommits) {
  Fixture f({kFull}, 16);
  ASSERT_TRUE(f.cache->enable_events(options_of(64 << 10)).ok());
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      uint64_t next = 0;
      while (!done.load()) {
        const Batch b = read(*f.cache, next, 64, 64 << 10);
        next = b.status.ok() ? b.info.next : snapshot(*f.cache).info.next;
      }
    });
  }
  for (quire_symbol round = 0; round < 300; ++round) {
    const SequenceId id = f.open();
    f.prefill(id, count_from(round * 100, 20));
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  }
  done = true;
  for (std::thread& t : readers) t.join();
}

}  // namespace
}  // namespace quire
