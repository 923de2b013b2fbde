// Tiers over stores that are late, fail, lie, forget and end tickets twice: random conversations, several engines on one store, deadlines
// and cancellations. Whatever happens, no engine ever reads a byte that its text does not say, nothing is left behind, and every fetch
// ends. The seed is printed; QUIRE_SEED and QUIRE_ROUNDS choose others.
#include <algorithm>
#include <random>

#include "tests/tier/tier_rig.h"
#include "tests/unit/full_size.h"

namespace quire::test {
namespace {

class Round {
 public:
  explicit Round(uint64_t seed) : random_(seed), store_(failing_store(seed, 200'000)) {
    base_.layers = layers();
    has_states_ = std::any_of(base_.layers.begin(), base_.layers.end(), [](const quire_layer& l) { return l.kind == QUIRE_LAYER_STATE; });
    base_.unit = 64 * (1 + pick(2));
    base_.ns_per_token = percent(30) ? 2000 : 0;
    base_.ranks = percent(40) ? 2 : 1;
    base_.others = percent(50) ? std::vector<uint32_t>{1, 2, 4, 8} : std::vector<uint32_t>();
    base_.may_refuse = true;
    base_.reasons = 1 + static_cast<uint32_t>(pick(7));
    for (uint64_t n = 1 + pick(2); n > 0; --n) add_engine();
    for (int i = 0; i < 4; ++i) texts_.push_back(count_text(1 + 1000 * static_cast<quire_symbol>(i), 100));
  }

  void run() {
    for (uint64_t n = 40 + pick(30); n > 0 && !::testing::Test::HasFailure(); --n) turn();
    for (size_t e = 0; e < engines_.size(); ++e) {
      Engine& engine = *engines_[e];
      cancel(e);
      store_.release_all();
      engine.settle();
      engine.expect_nothing_left();
      hits_ += engine.stats().outcomes[QUIRE_FETCH_DONE];
      given_up_ += engine.stats().quarantined_ever;
    }
    for (const std::string& violation : store_.violations()) ADD_FAILURE() << violation;
  }
  uint64_t hits() const { return hits_; }
  uint64_t given_up() const { return given_up_; }

 private:
  uint64_t pick(uint64_t n) { return random_() % n; }
  bool percent(uint64_t share) { return pick(100) < share; }

  std::vector<quire_layer> layers() {
    std::vector<quire_layer> all;
    const uint64_t kind = pick(7);
    if (kind != 1) all.push_back(kind == 2 ? chunked_layer(48) : full_layer());
    if (kind == 1 || kind == 3 || kind >= 5) all.push_back(window_layer(8 + pick(90), static_cast<uint32_t>(pick(3) * 5)));
    if (kind >= 4) all.push_back(percent(50) ? state_layer() : cut_state_layer());
    if (percent(50)) all.push_back(all[pick(all.size())]);
    return all;
  }

  void add_engine() {
    EngineOptions o = base_;
    if (!engines_.empty()) {
      o.block = base_.block << pick(3);
      if (percent(50)) o.layout = "BPJKHTD";
      if (!o.others.empty() && percent(60)) o.ranks = 1u << pick(3);
    }
    // With states its blocks are longer than units.
    if (!has_states_ && o.layout.empty() && percent(40)) o.policy = "vllm";
    o.pages = 70 + pick(80);
    o.max_len = 320;
    engines_.push_back(std::make_unique<Engine>(clock_, o, std::vector<FakeStore*>{&store_}));
    open_.emplace_back();
  }

  Text text() {
    Text t = texts_[pick(texts_.size())];
    t.resize(1 + pick(t.size()));
    for (uint64_t n = pick(200); n > 0 && t.size() < 300; --n) t.push_back(static_cast<quire_symbol>(50'000 + pick(4)));
    if (percent(60) && t.size() < 280) texts_[pick(texts_.size())] = t;
    return t;
  }

  void turn() {
    const size_t e = pick(engines_.size());
    Engine& engine = *engines_[e];
    const uint64_t what = pick(100);
    if (what < 35) {
      engine.compute(text());
    } else if (what < 65) {
      if (open_[e].size() < 4) {
        const Text t = text();
        const quire_sequence_id sequence = engine.open();
        open_[e].push_back({sequence, engine.begin(sequence, t, percent(30) ? 1 + static_cast<int64_t>(pick(3'000'000)) : 0), t});
      }
    } else if (what < 70) {
      if (!open_[e].empty()) (void)quire_fetch_cancel(engine.tiers(), open_[e][pick(open_[e].size())].fetch, nullptr);
    } else if (what < 82) {
      (void)quire_cache_reset(engine.cache(), nullptr);
    } else if (what < 86) {
      store_.forget_some(200);
    } else {
      clock_.now += static_cast<int64_t>(pick(3'000'000));
      store_.update();
    }
    for (uint64_t n = pick(4); n > 0; --n) advance(e);
    engine.verify();
  }

  struct Open {
    quire_sequence_id sequence = 0;
    quire_fetch_id fetch = 0;
    Text text;
  };

  void advance(size_t e) {
    Engine& engine = *engines_[e];
    for (const quire_fetch_result& result : engine.run()) {
      const auto at = std::find_if(open_[e].begin(), open_[e].end(), [&](const Open& o) { return o.fetch == result.fetch; });
      ASSERT_NE(at, open_[e].end()) << "a fetch ended twice";
      EXPECT_EQ(result.committed, engine.info(at->sequence).committed);
      EXPECT_LT(result.committed, at->text.size());
      const Open ended = *at;
      open_[e].erase(at);
      if (percent(70)) engine.go_on(ended.sequence, ended.text);  // reads all that it was given
      engine.finish(ended.sequence);
    }
  }

  void cancel(size_t e) {
    for (const Open& open : open_[e]) (void)quire_fetch_cancel(engines_[e]->tiers(), open.fetch, nullptr);
    for (int turns = 0; turns < 4; ++turns) advance(e);
    EXPECT_TRUE(open_[e].empty());
  }

  std::mt19937_64 random_;
  Clock clock_;
  FakeStore store_;
  EngineOptions base_;
  bool has_states_ = false;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::vector<Open>> open_;
  std::vector<Text> texts_;
  uint64_t hits_ = 0, given_up_ = 0;
};

TEST(Tiers, AreNeverWrongWhateverStoresDo) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), rounds = number_of("QUIRE_ROUNDS", full_or(400, 150));
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed + rounds - 1));
  uint64_t hits = 0, given_up = 0;
  for (uint64_t s = seed; s < seed + rounds && !HasFailure(); ++s) {
    SCOPED_TRACE("seed " + std::to_string(s));
    Round round(s);
    round.run();
    hits += round.hits();
    given_up += round.given_up();
  }
  std::printf("%llu fetches brought tokens, %llu were given up while bytes moved\n", static_cast<unsigned long long>(hits),
              static_cast<unsigned long long>(given_up));
  if (rounds >= 100) {
    EXPECT_GT(hits, rounds / 4);
    EXPECT_GT(given_up, rounds / 20);
  }
}

}  // namespace
}  // namespace quire::test
