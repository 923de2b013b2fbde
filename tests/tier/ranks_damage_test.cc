// Records of another tensor-parallel size that are missing, damaged or lie: what comes is never wrong, and never less than it says. The
// seed is printed; QUIRE_SEED and QUIRE_ROUNDS choose others.
#include <algorithm>
#include <cstring>
#include <random>

#include "tests/fakes/made_record.h"
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

const std::vector<uint32_t> kSizes = {1, 2, 4, 8};

EngineOptions options_of(const std::vector<quire_layer>& layers, uint32_t ranks) {
  EngineOptions o;
  o.layers = layers;
  o.ranks = ranks;
  o.unit = 64;
  o.max_len = 420;
  o.pages = 400;
  return o;
}

std::vector<quire_layer> hybrid() { return {full_layer(4), cut_state_layer(), window_layer(32, 16)}; }

// Any one record is missing, cut or has another bit: the fetch ends where everybody has all heads.
TEST(RanksDamage, OfOneRecordIsNeverWrong) {
  const Text text = count_text(1, 330);
  for (const uint32_t from : {1u, 4u}) {
    const uint32_t to = from == 1 ? 4 : 2;
    size_t records = 1;
    uint64_t damaged = 0, less = 0;
    for (size_t n = 0; n < records; ++n) {
      for (const std::string what : {"forget", "flip", "truncate", "replace"}) {
        SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to) + ": " + what + " " + std::to_string(n));
        Clock clock;
        FakeStore store;
        Engine writer(clock, options_of(hybrid(), from), {&store});
        writer.compute(text);
        writer.settle();
        const std::vector<std::string> keys = store.keys();
        records = keys.size();
        if (what == "forget") store.forget(keys[n]);
        if (what == "flip") store.flip(keys[n], 8 * 4096 + 77 * n % (8 * (store.get(keys[n])->size() - 4096)));
        if (what == "truncate") store.truncate(keys[n], store.get(keys[n])->size() - 1);
        if (what == "replace") store.replace(keys[n], keys[(n + 1) % records]);
        EngineOptions o = options_of(hybrid(), to);
        o.others = {from};
        Engine reader(clock, o, {&store});
        const quire_sequence_id sequence = reader.open();
        const quire_fetch_result got = reader.fetch(sequence, text);
        less += got.committed < 320 ? 1 : 0;
        damaged += reader.tier().objects_damaged;
        reader.go_on(sequence, text);
        reader.finish(sequence);
        reader.settle();
        reader.expect_nothing_left();
        for (size_t tokens = 330; tokens > 90; tokens -= 48) {
          reader.compute(Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(tokens)));
        }
        EXPECT_TRUE(store.violations().empty());
      }
    }
    EXPECT_GT(damaged, records);
    EXPECT_GT(less, records);
  }
}

// What is missing under one size may be there under another one. A unit comes if one of them has all of it.
TEST(RanksDamage, SetsAreWholeOrNotUsed) {
  const Text text = count_text(1, 330);
  const std::vector<quire_layer> layers = {full_layer(4)};
  std::mt19937_64 random(3);
  uint64_t best = 0, mixed = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    Clock clock;
    FakeStore store;
    std::vector<bool> there(5, false);  // by unit
    for (const uint32_t from : {1u, 2u}) {
      FakeStore own;
      Engine writer(clock, options_of(layers, from), {&own});
      writer.compute(text);
      writer.settle();
      std::vector<uint32_t> here(5, 0);
      for (const std::string& key : own.keys()) {
        const std::vector<uint8_t> record = *own.get(key);
        uint64_t end = 0;
        std::memcpy(&end, &record[MadeRecord::kBlockTokensAt - 8], sizeof end);
        if (random() % 4 == 0) continue;
        store.put(key, record);
        ++here[end / 64 - 1];
      }
      for (size_t unit = 0; unit < 5; ++unit) there[unit] = there[unit] || here[unit] == from;
      mixed += from == 2 && std::find(here.begin(), here.end(), 1u) != here.end() ? 1 : 0;
    }
    const uint64_t expected = 64 * static_cast<uint64_t>(std::find(there.begin(), there.end(), false) - there.begin());
    EngineOptions o = options_of(layers, 4);
    o.others = {2, 1};
    Engine reader(clock, o, {&store});
    const quire_sequence_id sequence = reader.open();
    EXPECT_EQ(reader.fetch(sequence, text).committed, expected);
    best = std::max(best, expected);
    reader.go_on(sequence, text);
  }
  EXPECT_GT(best, 64U);
  EXPECT_GT(mixed, 20U);
}

// Every word of the shape of every record of another size becomes each of these, with checksums that fit: nobody reads what is not so.
TEST(RanksDamage, ShapesThatLieAreMisses) {
  const Text text = count_text(1, 140);
  const std::vector<quire_layer> layers = {full_layer(4), cut_state_layer()};
  Clock clock;
  FakeStore own;
  Engine writer(clock, options_of(layers, 2), {&own});
  writer.compute(text);
  writer.settle();
  EngineOptions o = options_of(layers, 4);
  o.others = {2};
  o.reasons = 0;
  o.pages = 64;
  o.max_len = 160;
  size_t tried = 0, read = 0;
  for (size_t at = MadeRecord::kBlockTokensAt; at < 600; at += 4) {
    for (const uint32_t word : {0u, 1u, 2u, 3u, 8u, 0x10000u, 0xffffffffu}) {
      FakeStore store;
      bool any = false;
      for (const std::string& key : own.keys()) {
        std::vector<uint8_t> record = *own.get(key);
        uint64_t shape = 0;
        std::memcpy(&shape, &record[MadeRecord::kShapeBytesAt], sizeof shape);
        if (at + 4 <= MadeRecord::kShapeAt + shape && std::memcmp(&record[at], &word, 4) != 0) {
          std::memcpy(&record[at], &word, 4);
          MadeRecord::sign(&record);
          any = true;
        }
        store.put(key, record);
      }
      if (!any) continue;
      SCOPED_TRACE(std::to_string(at) + " = " + std::to_string(word));
      ++tried;
      Engine reader(clock, o, {&store});
      const quire_sequence_id sequence = reader.open();
      const quire_fetch_result got = reader.fetch(sequence, text);
      read += got.outcome == QUIRE_FETCH_DONE ? 1 : 0;
      EXPECT_EQ(reader.cache_stats().loads, 0U);
      reader.verify();
      EXPECT_TRUE(store.violations().empty());
    }
  }
  std::printf("%zu changes, %zu of them made no difference\n", tried, read);
  EXPECT_GT(tried, 200U);
  EXPECT_LT(read, tried / 4);
}

// Together they have all heads, but each says that it has those of the other.
TEST(RanksDamage, HeadsAreThoseOfTheName) {
  const Text text = count_text(1, 330);
  Clock clock;
  FakeStore store;
  Engine writer(clock, options_of({full_layer(4)}, 2), {&store});
  writer.compute(text);
  writer.settle();
  for (const std::string& key : store.keys()) {
    std::vector<uint8_t> record = *store.get(key);
    uint32_t letters = 0, head = 0;
    std::memcpy(&letters, &record[MadeRecord::kShapeAt], sizeof letters);
    uint8_t* const at = &record[MadeRecord::kShapeAt + 4 + letters + 12];  // behind order, kind, kernel blocks and the number of slices
    std::memcpy(&head, at, sizeof head);
    ASSERT_TRUE(head == 0 || head == 2) << head;
    head = 2 - head;
    std::memcpy(at, &head, sizeof head);
    MadeRecord::sign(&record);
    store.forget(key);
    store.put(key, record);
  }
  EngineOptions o = options_of({full_layer(4)}, 1);
  o.others = {2};
  Engine reader(clock, o, {&store});
  const quire_sequence_id sequence = reader.open();
  EXPECT_EQ(reader.fetch(sequence, text).committed, 0U);
  EXPECT_EQ(reader.tier().objects_damaged, 10U);
  reader.go_on(sequence, text);
}

// Whatever is missing or damaged: who reads the records of another size gets as many tokens as who wrote them.
TEST(RanksDamage, AnotherSizeFindsWhatTheWriterFinds) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), rounds = number_of("QUIRE_ROUNDS", 250);
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed + rounds - 1));
  const Text text = count_text(1, 330);
  uint64_t came = 0, all = 0;
  for (uint64_t s = seed; s < seed + rounds && !HasFailure(); ++s) {
    SCOPED_TRACE("seed " + std::to_string(s));
    std::mt19937_64 random(s);
    const std::vector<quire_layer> layers = any_layers(random);
    Clock clock;
    FakeStore stores[2];
    EngineOptions from = options_of(layers, kSizes[random() % 4]), to = from;
    {
      Engine writer(clock, from, {&stores[0]});
      writer.compute(text);
      writer.settle();
    }
    const std::vector<std::string> keys = stores[0].keys();
    for (uint64_t n = random() % 4; n > 0; --n) {
      const std::string& key = keys[random() % keys.size()];
      if (random() % 2 == 0) stores[0].forget(key);
      if (stores[0].get(key)) stores[0].flip(key, random() % (8 * stores[0].get(key)->size()));
    }
    for (const std::string& key : stores[0].keys()) stores[1].put(key, *stores[0].get(key));
    to.ranks = kSizes[random() % 4];
    const bool one_width = std::none_of(layers.begin(), layers.end(), [](const quire_layer& l) { return l.kind == QUIRE_LAYER_MLA; });
    if (one_width && random() % 2 == 0) to.layout = "BPJKHTD";
    to.others = {4, 1, 8, 2};
    uint64_t committed[2] = {};
    for (size_t e = 0; e < 2; ++e) {
      Engine reader(clock, e == 0 ? from : to, {&stores[e]});
      const quire_sequence_id sequence = reader.open();
      committed[e] = reader.fetch(sequence, text).committed;
      reader.go_on(sequence, text);
      reader.finish(sequence);
      reader.settle();
      reader.expect_nothing_left();
      EXPECT_TRUE(stores[e].violations().empty());
    }
    EXPECT_EQ(committed[0], committed[1]);
    came += committed[1];
    all += committed[1] == 320 ? 1 : 0;
  }
  std::printf("%llu tokens came, all of them in %llu rounds\n", static_cast<unsigned long long>(came),
              static_cast<unsigned long long>(all));
}

}  // namespace
}  // namespace quire::test
