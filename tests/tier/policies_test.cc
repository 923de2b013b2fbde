// Engines whose plans divide the layers of one live range into groups in different ways: records are the same, and every byte of what
// comes is right, also where some of these groups have more of it already.
#include <algorithm>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr uint64_t kUnit = 384, kTokens = 1152;
constexpr uint64_t kHeader = 4096, kHeadBytes = 2 * 8 * 2, kStateBytes = 2 * 48 * 2 + 8 * 3 * 4 * 4;

struct Model {
  const char* name;
  std::vector<quire_layer> layers;
  uint64_t token_bytes = 0, window = 0, window_bytes = 0, state_bytes = 0;
  bool is_latent = false;
  uint64_t ahead = 0;  // tokens that the writer computes after the last unit, for its drafts
};

std::vector<Model> models() {
  quire_layer draft = full_layer();
  draft.flags = QUIRE_LAYER_DRAFT;
  draft.look_ahead = 1;
  const quire_layer full = full_layer(), window = window_layer(96), chunked = chunked_layer(768), cut = cut_state_layer();
  return {
      {"windows", {full, window, window, window, full, window, window, window}, 4 * kHeadBytes, 96, 12 * kHeadBytes, 0},
      {"states", {full, cut, cut, full, cut, cut}, 4 * kHeadBytes, 0, 0, 4 * kStateBytes},
      {"latent rows and states", {latent_layer(), cut, cut, cut}, 16 * 2, 0, 0, 3 * kStateBytes, true},
      {"drafts", {full, full, draft}, 6 * kHeadBytes, 0, 0, 0, false, 48},
      {"drafts and windows", {full, window, window, draft}, 4 * kHeadBytes, 96, 4 * kHeadBytes, 0, false, 48},
      {"chunks", {full, chunked, chunked, chunked}, 2 * kHeadBytes, 384, 6 * kHeadBytes, 0},
  };
}

struct Side {
  const char* policy;
  uint32_t ranks;
  const char* order;
};
constexpr Side kSides[] = {{"auto", 1, ""}, {"vllm", 1, ""}, {"vllm", 2, ""}, {"auto", 2, "BJPKTHD"}, {"pack:1", 1, ""}};

EngineOptions options_of(const Model& model, const Side& side) {
  EngineOptions o;
  o.layers = model.layers;
  o.policy = side.policy;
  o.ranks = side.ranks;
  o.layout = side.order;
  o.unit = kUnit;
  o.pages = 900;
  o.keep = QUIRE_KEEP_EVERY;
  o.checkpoint_interval = kUnit;
  o.others = {1, 2};
  return o;
}

uint32_t num_groups(const Engine& engine) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_config_info info = QUIRE_INIT(quire_config_info);
  must(quire_config_get_info(engine.config(), &info, &err), err, "info");
  return info.num_groups;
}

// What comes is all of the prompt, and not more than resuming at its end needs.
void expect_all(const Model& model, const Side& from, const Side& to, bool offered) {
  SCOPED_TRACE(std::string(model.name) + ": " + from.policy + " " + std::to_string(from.ranks) + " to " + to.policy + " " +
               std::to_string(to.ranks) + (offered ? ", offered" : ", stored"));
  FakeStoreOptions of_store;
  of_store.offers = offered;
  FakeStore store(of_store);
  Clock clock;
  const Text text = count_text(1, kTokens + model.ahead + 1);
  EngineOptions writes = options_of(model, from), reads = options_of(model, to);
  writes.is_peers = reads.is_peers = offered;
  reads.reasons = 0;
  Engine writer(clock, writes, {&store}), reader(clock, reads, {&store});
  const quire_sequence_id written = writer.open(), sequence = reader.open();
  writer.go_on(written, first(text, kTokens + (offered ? 0 : model.ahead)));
  writer.settle();
  quire_offer offer{};
  if (offered) offer = writer.offer(written, text);
  const FakeStoreCounts before = store.counts();
  const quire_fetch_result got = offered ? reader.fetch_from(offer, sequence, text) : reader.fetch(sequence, text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, kTokens);
  const uint64_t loads = store.counts().accepted[QUIRE_TICKET_LOAD] - before.accepted[QUIRE_TICKET_LOAD];
  const uint64_t moved = store.counts().bytes_loaded - before.bytes_loaded - loads * kHeader;
  const uint64_t copies = model.is_latent ? to.ranks : 1;  // each rank has all of it
  const uint64_t needed = kTokens * model.token_bytes * copies + model.window * model.window_bytes + model.state_bytes;
  EXPECT_LE(static_cast<double>(moved), 1.02 * static_cast<double>(needed));
  reader.go_on(sequence, text);
  EXPECT_TRUE(store.violations().empty());
}

TEST(Policies, ReadEachOthersRecords) {
  for (const Model& model : models()) {
    for (const Side& from : kSides) {
      for (const Side& to : kSides) {
        for (const bool offered : {false, true}) {
          expect_all(model, from, to, offered);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(Policies, HaveDifferentGroups) {
  Clock clock;
  for (const Model& model : models()) {
    const Engine one(clock, options_of(model, kSides[0]), {}), other(clock, options_of(model, kSides[1]), {});
    EXPECT_NE(num_groups(one), num_groups(other)) << model.name;
  }
}

// Tokens that the groups have of a prompt that is about to be loaded, by group.
std::vector<uint64_t> have_of(const Engine& engine, quire_sequence_id sequence, const Text& text, uint64_t tokens) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_reserve_entry entry{};
  entry.sequence = sequence;
  entry.flags = QUIRE_ENTRY_MATCH;
  entry.num_tokens = static_cast<uint32_t>(tokens);
  entry.num_symbols = static_cast<uint32_t>(tokens);
  quire_reserve_result result{};
  quire_step load{};
  must(quire_load_begin(engine.cache(), &entry, text.data(), tokens, &result, &load, &err), err, "load");
  EXPECT_EQ(result.code, QUIRE_OK);
  std::vector<uint64_t> have(num_groups(engine));
  uint64_t n = 0, committed = 0;
  must(quire_load_get_have(load, have.data(), have.size(), &n, &err), err, "have");
  const quire_load_failure none{0, 0, 0, tokens};
  must(quire_load_end(load, &none, 1, &committed, nullptr, &err), err, "end");
  return have;
}

// One of the groups of full attention has lost blocks that another one still has. These are shared with whoever has them: nothing is
// written there.
TEST(Policies, LoadWhatOneGroupLacksAndAnotherHas) {
  const Model model = {"", {full_layer(), full_layer(), full_layer(), full_layer(), window_layer(32), window_layer(32)}};
  Clock clock;
  size_t uneven = 0;
  for (uint64_t others = 0; others < 700; others += 64) {
    SCOPED_TRACE(others);
    FakeStore store;
    EngineOptions o = options_of(model, kSides[1]);
    o.unit = 64;
    o.pages = 130;
    o.max_len = 700;
    Engine engine(clock, o, {&store});
    const Text text = count_text(1, 641);
    engine.compute(text);
    engine.settle();
    if (others > 0) engine.compute(count_text(5000, others));
    engine.settle();
    const quire_sequence_id sequence = engine.open();
    const std::vector<uint64_t> have = have_of(engine, sequence, text, 640);
    uneven += have[0] != have[1] ? 1 : 0;
    engine.finish(sequence);
    const quire_sequence_id fetches = engine.open();
    const quire_fetch_result got = engine.fetch(fetches, text);
    EXPECT_EQ(got.outcome, have[2] < 640 ? QUIRE_FETCH_DONE : QUIRE_FETCH_NOTHING);
    engine.go_on(fetches, text);
    engine.finish(fetches);
    EXPECT_TRUE(store.violations().empty());
  }
  EXPECT_GT(uneven, 4U);
}

}  // namespace
}  // namespace quire::test
