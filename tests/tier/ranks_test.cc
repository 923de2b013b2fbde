// Records that were written under another tensor-parallel size: every byte of what comes is right, whatever the blocks, orders and heads of
// both, and what is moved is what is needed. QUIRE_ALL_ORDERS=1: every order of pages to every other.
#include <algorithm>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

const std::vector<uint32_t> kSizes = {1, 2, 4, 8};
#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
const std::vector<uint32_t> kBlocks = {16, 64};  // builds that take ten times as long
#else
const std::vector<uint32_t> kBlocks = {16, 64, 256};
#endif
const std::vector<std::string> kOrders = {"", "BPJKHTD", "BJPKTHD"};
constexpr uint64_t kHeader = 4096;
constexpr uint64_t kResumes = 1024;  // in units of 256

struct Model {
  const char* name;
  std::vector<quire_layer> layers;
  uint64_t heads = 2;  // of all layers
  // Of heads, sides and layers: a token of those that keep everything, one of the windows, a state.
  uint64_t token_bytes = 0, window_bytes = 0, state_bytes = 0;
};

constexpr uint64_t kHeadBytes = 2 * 8 * 2;  // of a token: two sides of 8 elements

std::vector<Model> models() {
  return {
      {"fewer heads than ranks", {full_layer(), full_layer()}, 2, 2 * 2 * kHeadBytes},
      {"as many heads as ranks", {full_layer(8), full_layer(8)}, 8, 2 * 8 * kHeadBytes},
      {"windows", {full_layer(4), window_layer(256), full_layer(4)}, 4, 2 * 4 * kHeadBytes, 2 * kHeadBytes},
      {"latent rows", {latent_layer(), latent_layer()}, 1, 2 * 16 * 2},
      {"states", {full_layer(4), cut_state_layer(), state_layer(), full_layer(4)}, 4, 2 * 4 * kHeadBytes, 0, 2000},
  };
}

EngineOptions options_of(const std::vector<quire_layer>& layers, uint32_t ranks, uint32_t block, const std::string& order) {
  EngineOptions o;
  o.layers = layers;
  o.ranks = ranks;
  o.block = block;
  o.layout = order;
  o.unit = 256;
  o.pages = 700;
  return o;
}

// Ranks of one size that have the same heads are written once, but read by each of them.
uint64_t copies(uint64_t heads, uint32_t writer, uint32_t reader) {
  const bool alike = std::min<uint64_t>(heads, writer) == std::min<uint64_t>(heads, reader);
  return alike ? reader / std::min<uint64_t>(heads, reader) : 1;
}

// The sequence fetches all that was written, or what is offered. Returns the bytes of payload that moved.
uint64_t fetch_all(Engine& reader, quire_sequence_id sequence, const Text& text, const FakeStore& store,
                   const quire_offer* offer = nullptr) {
  const uint64_t bytes = store.counts().bytes_loaded, loads = store.counts().accepted[QUIRE_TICKET_LOAD];
  const quire_fetch_result got = offer != nullptr ? reader.fetch_from(*offer, sequence, text) : reader.fetch(sequence, text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, kResumes);
  const uint64_t headers = (store.counts().accepted[QUIRE_TICKET_LOAD] - loads) * kHeader;
  return store.counts().bytes_loaded - bytes - headers;
}

// One of them by turns; with QUIRE_ALL_ORDERS=1 all.
std::vector<std::string> orders(size_t turn) {
  static const bool kAll = number_of("QUIRE_ALL_ORDERS", 0) != 0;
  return kAll ? kOrders : std::vector<std::string>{kOrders[turn % kOrders.size()]};
}

// Of one model: what a writer wrote, to all readers.
class Matrix {
 public:
  // offered: the writer stores nothing, and offers it to each reader.
  Matrix(const Model& model, bool offered) : model_(model), offered_(offered) {}

  double most() const { return most_; }
  size_t readers() const { return readers_; }

  void read_all(uint32_t from, uint32_t from_block) {
    for (const std::string& order : orders(turn_ / (kSizes.size() * kBlocks.size()))) {
      FakeStoreOptions of_store;
      of_store.offers = offered_;
      FakeStore store(of_store);
      EngineOptions o = options_of(model_.layers, from, from_block, order);
      o.is_peers = offered_;
      auto writer = std::make_unique<Engine>(clock_, o, std::vector<FakeStore*>{&store});
      const quire_sequence_id written = writer->open();
      if (offered_) writer->go_on(written, Text(text_.begin(), text_.end() - 1));
      if (!offered_) writer->compute(text_);
      writer->settle();
      if (!offered_) writer.reset();
      for (const uint32_t to : kSizes) {
        for (const uint32_t block : kBlocks) {
          for (const std::string& own : orders(++turn_ / 2)) {
            SCOPED_TRACE(std::string(model_.name) + ": from " + std::to_string(from) + " ranks, blocks of " + std::to_string(from_block) +
                         ", order " + order + " to " + std::to_string(to) + ", " + std::to_string(block) + ", order " + own);
            read(options_of(model_.layers, to, block, own), from, &store, writer.get(), written);
            if (::testing::Test::HasFailure()) return;
          }
        }
      }
      EXPECT_TRUE(store.violations().empty());
    }
  }

 private:
  void read(EngineOptions o, uint32_t from, FakeStore* store, Engine* writer, quire_sequence_id written) {
    o.others = kSizes;
    o.reasons = 0;
    o.is_peers = offered_;
    quire_offer offer{};
    if (offered_) offer = writer->offer(written, text_);
    ++readers_;
    Engine reader(clock_, o, {store});
    const quire_sequence_id sequence = reader.open();
    const uint64_t moved = fetch_all(reader, sequence, text_, *store, offered_ ? &offer : nullptr);
    const uint64_t needed = kResumes * model_.token_bytes * copies(model_.heads, from, o.ranks) +
                            256 * model_.window_bytes * copies(2, from, o.ranks) + model_.state_bytes;
    EXPECT_LE(static_cast<double>(moved), 1.02 * static_cast<double>(needed));
    most_ = std::max(most_, static_cast<double>(moved) / static_cast<double>(needed));
    reader.go_on(sequence, text_);
  }

  const Model& model_;
  const bool offered_;
  const Text text_ = count_text(1, kResumes + 1);
  Clock clock_;
  size_t turn_ = 0, readers_ = 0;
  double most_ = 0;
};

void read_matrix(bool offered) {
  double most = 0;
  size_t readers = 0;
  const std::vector<Model> all = models();
  for (const Model& model : all) {
    Matrix matrix(model, offered);
    for (const uint32_t from : kSizes) {
      for (const uint32_t from_block : kBlocks) matrix.read_all(from, from_block);
    }
    most = std::max(most, matrix.most());
    readers += matrix.readers();
  }
  std::printf("%zu readers; bytes moved: at most %.4f of what is needed\n", readers, most);
}

TEST(Ranks, OfAnySizeReadWhatAnySizeWrote) { read_matrix(false); }

TEST(Ranks, OfAnySizeReadWhatAnySizeOffers) { read_matrix(true); }

// Of records that have sinks and a tail the blocks that are wanted are read, if that can be done.
TEST(Ranks, ReadOfRecordsWhatIsWanted) {
  const Text text = count_text(1, kResumes + 1);
  const std::vector<quire_layer> layers = {window_layer(64, 16), window_layer(64, 16)};
  for (const uint32_t flags : {0u, QUIRE_CONNECTOR_RANGES, QUIRE_CONNECTOR_RANGES | QUIRE_CONNECTOR_REGISTERS}) {
    for (const uint32_t from : kSizes) {
      for (const uint32_t from_block : {16u, 64u, 256u}) {
        Clock clock;
        FakeStore store({.flags = flags});
        Engine writer(clock, options_of(layers, from, from_block, ""), {&store});
        writer.compute(text);
        writer.settle();
        for (const uint32_t to : kSizes) {
          SCOPED_TRACE(std::to_string(flags) + ": from " + std::to_string(from) + ", blocks of " + std::to_string(from_block) + ", to " +
                       std::to_string(to));
          EngineOptions o = options_of(layers, to, 16, "BPJKHTD");
          o.others = kSizes;
          o.reasons = 0;
          Engine reader(clock, o, {&store});
          const quire_sequence_id sequence = reader.open();
          const uint64_t moved = fetch_all(reader, sequence, text, store);
          // Whole blocks, as they were written: a block is what has a checksum.
          const uint64_t tokens = std::max(16u, from_block) + std::max(64u, from_block);
          if (flags != 0) {
            EXPECT_LE(moved, tokens * 2 * 2 * kHeadBytes * copies(2, from, to));
          }
          reader.go_on(sequence, text);
        }
        EXPECT_TRUE(store.violations().empty());
      }
    }
  }
}

// Records of one size can have blocks of 16 or 64 tokens. Those that came last say which blocks are read of the next ones.
TEST(Ranks, ReadAgainWhereBlocksAreLongerThanTheLastOnes) {
  const std::vector<quire_layer> layers = {window_layer(304), window_layer(304)};
  Clock clock;
  FakeStore store;
  EngineOptions o = options_of(layers, 2, 16, "");
  o.others = {1};
  o.reasons = 0;
  Engine reader(clock, o, {&store});
  uint64_t moved[2] = {};
  for (const uint32_t block : {16u, 64u}) {
    const Text text = count_text(block * 1000, kResumes + 1);
    Engine writer(clock, options_of(layers, 1, block, ""), {&store});
    writer.compute(text);
    writer.settle();
    const uint64_t before = store.counts().bytes_loaded, loads = store.counts().accepted[QUIRE_TICKET_LOAD];
    const quire_sequence_id sequence = reader.open();
    EXPECT_EQ(reader.fetch(sequence, text).committed, kResumes);
    moved[block / 64] = store.counts().bytes_loaded - before;
    EXPECT_EQ(store.counts().accepted[QUIRE_TICKET_LOAD] - loads, block == 16 ? 2U : 3U);
    reader.go_on(sequence, text);
    reader.finish(sequence);
  }
  EXPECT_GT(moved[1], moved[0]);
  EXPECT_EQ(reader.tier().objects_damaged, 0U);
}

// Who does not say that others write here pays nothing, and neither does who finds everything as it writes it.
TEST(Ranks, AskForOthersOnlyWhereTheirOwnAreMissing) {
  const Text text = count_text(1, kResumes + 1);
  const std::vector<quire_layer> layers = {full_layer(4), full_layer(4)};
  Clock clock;
  FakeStore store;
  EngineOptions o = options_of(layers, 2, 16, "");
  Engine writer(clock, o, {&store});
  writer.compute(text);
  writer.settle();
  o.reasons = 0;
  uint64_t keys[2] = {};
  for (const bool asks : {false, true}) {
    o.others = asks ? kSizes : std::vector<uint32_t>();
    Engine reader(clock, o, {&store});
    EXPECT_EQ(reader.fetch(reader.open(), text).committed, kResumes);
    keys[asks ? 1 : 0] = reader.tier().keys_looked_up;
  }
  EXPECT_EQ(keys[1], keys[0]);
  o.others.clear();
  o.ranks = 4;
  Engine reader(clock, o, {&store});
  EXPECT_EQ(reader.fetch(reader.open(), text).outcome, QUIRE_FETCH_NOTHING);
  EXPECT_EQ(reader.tier().keys_found, 0U);
}

// What came is stored as the reader writes it, so the next one finds its own.
TEST(Ranks, StoreWhatTheyReadAsTheirOwn) {
  const Text text = count_text(1, kResumes + 1);
  Clock clock;
  FakeStore store;
  EngineOptions o = options_of({full_layer(8)}, 2, 16, "");
  Engine writer(clock, o, {&store});
  writer.compute(text);
  writer.settle();
  o.ranks = 8;
  o.others = {2};
  Engine reader(clock, o, {&store});
  const quire_sequence_id sequence = reader.open();
  EXPECT_EQ(reader.fetch(sequence, text).committed, kResumes);
  reader.go_on(sequence, text);
  reader.settle();
  o.others.clear();
  Engine next(clock, o, {&store});
  EXPECT_EQ(next.fetch(next.open(), text).committed, kResumes);
}

// Layers of 2 and of 8 heads in one group: ranks share the heads of one and not of the other.
TEST(Ranks, ShareHeadsOfOneLayerAndNotOfAnother) {
  const Text text = count_text(1, kResumes + 1);
  for (const uint32_t from : kSizes) {
    Clock clock;
    FakeStore store;
    const std::vector<quire_layer> layers = {full_layer(2, 32), full_layer(8, 8)};
    Engine writer(clock, options_of(layers, from, 16, ""), {&store});
    writer.compute(text);
    writer.settle();
    for (const uint32_t to : kSizes) {
      SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
      EngineOptions o = options_of(layers, to, 16, "");
      o.others = kSizes;
      Engine reader(clock, o, {&store});
      const quire_sequence_id sequence = reader.open();
      const uint64_t committed = reader.fetch(sequence, text).committed;
      EXPECT_TRUE(committed == kResumes || committed == 0) << committed;
      EXPECT_TRUE(from != to || committed == kResumes);
      reader.go_on(sequence, text);
    }
  }
}

TEST(Ranks, OfNoLegalSizeAreRefused) {
  Clock clock;
  FakeStore store;
  EngineOptions o = options_of({full_layer()}, 1, 16, "");
  o.tiers_may_fail = true;
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{0}, {2, 1025}, std::vector<uint32_t>(9, 2)}) {
    o.others = sizes;
    const Engine engine(clock, o, {&store});
    EXPECT_EQ(engine.tiers_error().code, QUIRE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(engine.tiers_error().message).find("tensor_parallel"), std::string::npos) << engine.tiers_error().message;
  }
  o.others = {3, 5, 1, 1, 1024};  // the heads cannot be cut so, or nobody writes so
  const Engine engine(clock, o, {&store});
  EXPECT_NE(engine.tiers(), nullptr) << engine.tiers_error().message;
}

}  // namespace
}  // namespace quire::test
