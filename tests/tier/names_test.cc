// Records are found by whoever would compute the same bytes, and by nobody else: identities of sequences, names of weights, and models
// that differ in one field. The seed is printed; QUIRE_SEED and QUIRE_ROUNDS choose others.
#include <array>
#include <set>
#include <tuple>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr uint64_t kTokens = 128;  // that were written

EngineOptions options() {
  EngineOptions o;
  o.layers = {full_layer(), window_layer(40, 4), chunked_layer(48), latent_layer(), cut_state_layer()};
  o.max_len = 160;
  o.pages = 64;
  o.keep = QUIRE_KEEP_EVERY | QUIRE_KEEP_PROMPT_END;
  return o;
}

using Identity = std::tuple<std::string, std::string, uint64_t>;  // salt, adapter, epoch

quire_sequence_id open(Engine* engine, const Identity& who) {
  const auto& [salt, adapter, epoch] = who;
  quire_identity identity = QUIRE_INIT(quire_identity);
  identity.salt = {salt.data(), salt.size()};
  identity.adapter = {adapter.data(), adapter.size()};
  identity.epoch = epoch;
  return engine->open(&identity);
}

// The tokens that come, of a sequence of this identity.
uint64_t fetch(Engine* engine, const Identity& who, const Text& text) {
  const quire_sequence_id sequence = open(engine, who);
  engine->begin(sequence, text);
  const uint64_t committed = engine->wait().committed;
  engine->finish(sequence);
  if (committed > 0) engine->forget_all();
  return committed;
}

// Those that are easily taken for each other, and others.
Identity any_identity(std::mt19937_64& random) {
  static const std::array<const char*, 8> kParts = {"", "a", "b", "ab", "ba", "aa", "tenant", "adapter"};
  const auto text = [&] {
    std::string part = kParts[random() % kParts.size()];
    if (random() % 4 == 0) part.insert(part.begin() + static_cast<std::ptrdiff_t>(random() % (part.size() + 1)), '\0');
    if (random() % 8 == 0) part += std::to_string(random() % 1000);
    return part;
  };
  std::string salt = text(), adapter = text();
  const uint64_t epoch = random() % 3 == 0 ? random() % 4 : random() % 2 == 0 ? uint64_t{1} << random() % 64 : random();
  return {std::move(salt), std::move(adapter), epoch};
}

TEST(Names, OfOtherIdentitiesAreNotFound) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), rounds = number_of("QUIRE_ROUNDS", 100'000);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  Clock clock;
  FakeStore store;
  EngineOptions o = options();
  const Text text = count_text(1, kTokens + 1);
  std::set<Identity> writers = {{"", "", 0}, {"ab", "", 0}, {"a", "b", 0}, {"", "ab", 0}, {"ab", "", 1}};
  {
    Engine engine(clock, o, {&store});
    while (writers.size() < 40) writers.insert(any_identity(random));
    for (const Identity& who : writers) {
      const quire_sequence_id sequence = open(&engine, who);
      engine.go_on(sequence, text);
      engine.finish(sequence);
      engine.settle();
    }
  }
  o.reasons = 0;
  Engine reader(clock, o, {&store});
  uint64_t right = 0, wrong = 0;
  for (uint64_t n = 0; n < rounds && !HasFailure(); ++n) {
    const Identity who =
        random() % 20 != 0 ? any_identity(random) : *std::next(writers.begin(), static_cast<std::ptrdiff_t>(random() % writers.size()));
    const bool known = writers.count(who) != 0;
    const uint64_t found = reader.tier().keys_found;
    ASSERT_EQ(fetch(&reader, who, text), known ? kTokens : 0)
        << "'" << std::get<0>(who) << "' '" << std::get<1>(who) << "' " << std::get<2>(who);
    ASSERT_EQ(reader.tier().keys_found > found, known);
    ++(known ? right : wrong);
  }
  std::printf("%llu of others, %llu of their own\n", static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(right));
  if (rounds < 10'000) return;
  EXPECT_GT(wrong, rounds * 8 / 10);
  EXPECT_GT(right, rounds / 30);
}

struct Change {
  const char* name;
  void (*change)(EngineOptions* o);
};

// Each alone makes other bytes of the same tokens.
const std::vector<Change>& changes() {
  static const std::vector<Change> kChanges = {
      {"weights", [](EngineOptions* o) { o->weights = "test-weightt"; }},
      {"weights, a prefix", [](EngineOptions* o) { o->weights = "test-weight"; }},
      {"weights, longer", [](EngineOptions* o) { o->weights = "test-weights\n"; }},
      {"rope", [](EngineOptions* o) { o->weights = "test-weights rope=yarn4"; }},
      {"dtype",
       [](EngineOptions* o) {
         o->layers[0].dtype = {QUIRE_DTYPE_FLOAT, 16, 1};
       }},
      {"dtype of a window",
       [](EngineOptions* o) {
         o->layers[1].dtype = {QUIRE_DTYPE_FLOAT, 16, 1};
       }},
      {"dtype of latent rows",
       [](EngineOptions* o) {
         o->layers[3].dtype = {QUIRE_DTYPE_FLOAT, 16, 1};
       }},
      {"dtype of a state",
       [](EngineOptions* o) {
         o->layers[4].state[1].dtype = {QUIRE_DTYPE_INT, 32, 1};
       }},
      {"more bits",
       [](EngineOptions* o) {
         o->layers[0].dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
       }},
      {"heads", [](EngineOptions* o) { o->layers[0].num_kv_heads = o->layers[0].num_q_heads = 4; }},
      {"width of K and V", [](EngineOptions* o) { o->layers[0].head_dim_k = 4, o->layers[0].head_dim_v = 12; }},
      {"latent width", [](EngineOptions* o) { o->layers[3].head_dim_k = 24; }},
      {"codec", [](EngineOptions* o) { o->layers[0].codec = QUIRE_CODEC_COLUMN_K; }},
      {"scales",
       [](EngineOptions* o) {
         quire_layer& layer = o->layers[0];
         layer.codec = QUIRE_CODEC_RECORD;
         layer.codec_params.data_dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
         layer.codec_params.scale_dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
         for (const size_t side : {0, 1}) layer.codec_params.data_bytes[side] = 8, layer.codec_params.scale_bytes[side] = 4;
       }},
      {"shape of a state", [](EngineOptions* o) { o->layers[4].state[1].shape[1] = 4, o->layers[4].state[1].shape[2] = 3; }},
      {"window", [](EngineOptions* o) { o->layers[1].window = 41; }},
      {"sinks", [](EngineOptions* o) { o->layers[1].sink_tokens = 5; }},
      {"chunk", [](EngineOptions* o) { o->layers[2].window = 64; }},
      {"no chunks", [](EngineOptions* o) { o->layers[2] = full_layer(); }},
      {"no window", [](EngineOptions* o) { o->layers[1] = full_layer(); }},
      {"order of layers", [](EngineOptions* o) { std::swap(o->layers[0], o->layers[1]); }},
      {"a layer more", [](EngineOptions* o) { o->layers.push_back(full_layer()); }},
      {"a layer less", [](EngineOptions* o) { o->layers.pop_back(); }},
  };
  return kChanges;
}

TEST(Names, OfOtherModelsAreNotFound) {
  Clock clock;
  FakeStore store;
  EngineOptions o = options();
  const Text text = count_text(1, 3 * kTokens);
  o.max_len = 3 * kTokens;
  {
    Engine writer(clock, o, {&store});
    for (size_t n = 40; n <= text.size(); n += 8) writer.compute(Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n)));
    writer.settle();
  }
  o.reasons = 0;
  uint64_t tries = 0;
  for (const Change& change : changes()) {
    SCOPED_TRACE(change.name);
    EngineOptions other = o;
    change.change(&other);
    Engine reader(clock, other, {&store});
    for (size_t n = 66; n <= text.size(); ++n, ++tries) {
      ASSERT_EQ(fetch(&reader, {}, Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n))), 0U) << n;
    }
  }
  Engine reader(clock, o, {&store});
  for (size_t n = 66; n <= text.size(); ++n) {
    ASSERT_GT(fetch(&reader, {}, Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n))), 0U) << n;
  }
  std::printf("%zu models, %llu tries\n", changes().size(), static_cast<unsigned long long>(tries));
}

}  // namespace
}  // namespace quire::test
