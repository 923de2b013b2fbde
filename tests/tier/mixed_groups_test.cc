// Layers of drafts in the groups of other layers: the records of several families have blocks of one group.
#include <algorithm>
#include <map>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

quire_layer draft_layer(uint32_t look_ahead) {
  quire_layer layer = full_layer();
  layer.flags = QUIRE_LAYER_DRAFT;
  layer.look_ahead = look_ahead;
  return layer;
}

// How often a tier said of each block of each group that it is there, and that it is gone.
struct Said {
  std::map<std::pair<uint32_t, std::string>, std::pair<int, int>> of;

  explicit Said(const Engine& engine) {
    std::vector<quire_event> events(256);
    std::vector<uint64_t> data(1 << 17);
    for (uint64_t next = 0;;) {
      quire_event_batch batch = QUIRE_INIT(quire_event_batch);
      quire_error err = QUIRE_INIT(quire_error);
      auto* const bytes = reinterpret_cast<uint8_t*>(data.data());
      must(quire_tiers_read_events(engine.tiers(), 0, next, events.data(), events.size(), bytes, data.size() * 8, &batch, &err), err,
           "events");
      if (batch.num_events == 0) return;
      for (uint64_t i = 0; i < batch.num_events; ++i) {
        const quire_event& e = events[i];
        for (uint32_t k = 0; k < e.num_hashes; ++k) {
          const char* const name = reinterpret_cast<const char*>(bytes) + e.hashes_offset + uint64_t{k} * e.hash_bytes;
          auto& counts = of[{e.group, std::string(name, e.hash_bytes)}];
          ++(e.type == QUIRE_EVENT_STORED ? counts.first : counts.second);
        }
      }
      next = batch.next;
    }
  }
};

EngineOptions options_of(std::vector<quire_layer> layers, const char* policy) {
  EngineOptions o;
  o.layers = std::move(layers);
  o.policy = policy;
  o.event_ring_bytes = uint64_t{1} << 22;
  o.max_len = 420;
  return o;
}

// Two families share the blocks of one group under policy vllm. A block is said to be there once, and to be gone once.
TEST(MixedGroups, ReportABlockOnce) {
  for (const char* policy : {"auto", "vllm"}) {
    SCOPED_TRACE(policy);
    Clock clock;
    FakeStore store;
    Engine engine(clock, options_of({full_layer(), full_layer(), draft_layer(1)}, policy), {&store});
    const Text text = count_text(1, 300);
    engine.compute(text, false);
    engine.settle();
    EXPECT_FALSE(Said(engine).of.empty());
    for (const auto& [block, counts] : Said(engine).of) {
      EXPECT_EQ(counts.first, 1) << "group " << block.first;
      EXPECT_EQ(counts.second, 0) << "group " << block.first;
      if (HasFailure()) break;
    }
    for (const std::string& key : store.keys()) store.forget(key);
    engine.forget_all();
    const quire_sequence_id sequence = engine.open();
    (void)engine.fetch(sequence, text);
    for (const auto& [block, counts] : Said(engine).of) {
      EXPECT_EQ(counts.first, 1) << "group " << block.first;
      EXPECT_LE(counts.second, 1) << "group " << block.first;
      if (HasFailure()) break;
    }
  }
}

// One record of a mixed group is gone, and the other one is there: none of its blocks is gone and there at the same time.
TEST(MixedGroups, LackOneOfTwoRecords) {
  Clock clock;
  FakeStore store;
  Engine engine(clock, options_of({full_layer(), full_layer(), draft_layer(1)}, "vllm"), {&store});
  const Text text = count_text(1, 300);
  engine.compute(text, false);
  engine.settle();
  const std::vector<std::string> keys = store.keys();
  for (size_t i = 0; i < keys.size(); i += 2) store.forget(keys[i]);
  engine.forget_all();
  const quire_sequence_id sequence = engine.open();
  const quire_fetch_result got = engine.fetch(sequence, text);
  engine.go_on(sequence, text);
  EXPECT_LE(got.committed, 256U);
  engine.settle();
}

// More families than a plan can have groups.
TEST(MixedGroups, HaveMoreFamiliesThanAPlanCanHaveGroups) {
  std::vector<quire_layer> layers = {full_layer()};
  for (uint32_t ahead = 1; ahead <= 100; ++ahead) layers.push_back(draft_layer(ahead));
  Clock clock;
  FakeStore store;
  EngineOptions o = options_of(layers, "vllm");
  Engine engine(clock, o, {&store});
  const Text text = count_text(1, 400);
  engine.compute(text, false);
  engine.settle();
  EXPECT_GT(engine.tier().objects_stored, 64U);
  EXPECT_FALSE(Said(engine).of.empty());
}

// What is damaged in one record of a group is not made up for by another record of the same blocks.
TEST(MixedGroups, RestoreNothingThatIsDamaged) {
  EngineOptions o;
  o.layers = {full_layer(), draft_layer(1)};
  o.policy = "vllm";
  Clock clock;
  Engine writer(clock, o, {});
  const Text text = count_text(1, 200), more = count_text(1, 240);
  const quire_sequence_id sequence = writer.open();
  writer.go_on(sequence, text);
  const std::vector<uint8_t> session = writer.save(sequence, text);
  uint64_t damaged = 0;
  for (size_t at = session.size() - 1; at > 4096 && !HasFailure(); at -= std::min<size_t>(at, 777)) {
    SCOPED_TRACE("byte " + std::to_string(at) + " of " + std::to_string(session.size()));
    std::vector<uint8_t> changed = session;
    changed[at] ^= 4;
    Engine reader(clock, o, {});
    quire_session_info info{};
    std::string message;
    const quire_sequence_id restored = reader.open();
    if (reader.try_restore(restored, changed, &info, &message) != QUIRE_OK) continue;
    EXPECT_TRUE(info.num_damaged == 0 || info.committed < text.size());
    damaged += info.num_damaged;
    reader.go_on(restored, more);
  }
  EXPECT_GT(damaged, 0U);
}

// Records of windows under longer blocks than their writer's lack tokens of the first one, of all layers.
TEST(MixedGroups, RestoreNoBlockThatLacksTokens) {
  const quire_layer window = window_layer(128);
  quire_layer draft = window, farther = window;
  draft.flags = farther.flags = QUIRE_LAYER_DRAFT;
  draft.look_ahead = 2;
  farther.look_ahead = 3;
  EngineOptions from, to;
  from.layers = to.layers = {window, draft, farther, full_layer(), full_layer(), window};
  to.policy = "vllm";
  to.block = 32;
  for (uint64_t n = 200; n < 300 && !HasFailure(); n += 4) {
    SCOPED_TRACE(n);
    Clock clock;
    Engine writer(clock, from, {}), reader(clock, to, {});
    const Text text = count_text(1, n);
    const quire_sequence_id sequence = writer.open();
    writer.go_on(sequence, text);
    quire_session_info info{};
    const quire_sequence_id restored = reader.restore(writer.save(sequence, text), count_text(1, n + 40), &info);
    reader.go_on(restored, count_text(1, n + 40));
    reader.finish(restored);
    for (uint64_t shorter = 33; shorter < n; shorter += 32) reader.compute(first(text, shorter));
  }
}

}  // namespace
}  // namespace quire::test
