// Engines of different policies on one store that is late, fails and forgets: drafts, windows that retain blocks, states, ranks and
// sessions between them. Nobody reads a byte that its text does not say, and every fetch ends. QUIRE_SEED and QUIRE_ROUNDS choose others.
#include <algorithm>
#include <random>

#include "tests/tier/tier_rig.h"
#include "tests/unit/full_size.h"

namespace quire::test {
namespace {

struct Figures {
  uint64_t fetched = 0, given_up = 0, restored = 0, vllm = 0, engines = 0, failed = 0;
};

// Whether such a plan can be made, and its blocks divide units.
bool can_be(const EngineOptions& o) {
  Clock clock;
  std::vector<quire_layer> layers = o.layers;
  for (uint32_t i = 0; i < layers.size(); ++i) layers[i].layer = i;
  quire_model* model = nullptr;
  if (quire_model_create(layers.data(), sizeof(quire_layer), layers.size(), o.max_len, &model, nullptr) != QUIRE_OK) return false;
  quire_plan_options plan = QUIRE_INIT(quire_plan_options);
  plan.num_pages = o.pages;
  plan.tensor_parallel = o.ranks;
  plan.block_tokens = o.block;
  plan.layout = {o.layout.data(), o.layout.size()};
  plan.max_tokens_in_flight = 512;
  plan.policy = {o.policy.data(), o.policy.size()};
  plan.vllm.retained_tokens = o.retained;
  quire_config* config = nullptr;
  const quire_code code = quire_config_create(model, &plan, &config, nullptr);
  quire_model_release(model);
  if (code != QUIRE_OK) return false;
  quire_config_info info = QUIRE_INIT(quire_config_info);
  bool fits = quire_config_get_info(config, &info, nullptr) == QUIRE_OK;
  for (uint32_t g = 0; g < info.num_groups; ++g) {
    quire_group_info group = QUIRE_INIT(quire_group_info);
    fits = fits && quire_config_get_group(config, g, &group, nullptr) == QUIRE_OK;
    fits = fits && (group.block_tokens == 0 || o.unit % group.block_tokens == 0);
  }
  quire_config_release(config);
  return fits;
}

class Mixed {
 public:
  Mixed(uint64_t seed, Figures* figures) : random_(seed), figures_(figures), store_(failing_store(seed, 400'000)) {
    base_.layers = layers();
    has_states_ = std::any_of(base_.layers.begin(), base_.layers.end(), [](const quire_layer& l) { return l.kind == QUIRE_LAYER_STATE; });
    long_ = has_states_ && percent(50);
    base_.unit = long_ ? 384 : 64 * (1 + pick(2));
    base_.max_len = long_ ? 1500 : 700;
    base_.ns_per_token = percent(20) ? 2000 : 0;
    base_.keep = percent(70) ? QUIRE_KEEP_EVERY : 0;
    base_.checkpoint_interval = percent(50) || (has_states_ && base_.keep != 0) ? base_.unit : 0;
    base_.others = percent(60) ? std::vector<uint32_t>{1, 2, 4} : std::vector<uint32_t>();
    base_.may_refuse = true;
    base_.reasons = has_drafts_ ? 1 + static_cast<uint32_t>(pick(7)) : 1 + static_cast<uint32_t>(pick(15));
    if (has_drafts_) base_.reasons &= ~static_cast<uint32_t>(QUIRE_UNIT_EVICTING);
    if (base_.reasons == 0) base_.reasons = QUIRE_UNIT_COMMITTED;
    for (uint64_t n = 2 + pick(2); n > 0; --n) add_engine();
    for (int i = 0; i < 4; ++i) texts_.push_back(count_text(1 + 1000 * static_cast<quire_symbol>(i), base_.unit * 2));
  }

  void run() {
    if (engines_.empty()) return;
    for (uint64_t n = 30 + pick(30); n > 0 && !::testing::Test::HasFailure(); --n) turn();
    for (size_t e = 0; e < engines_.size(); ++e) {
      Engine& engine = *engines_[e];
      cancel(e);
      store_.release_all();
      engine.settle();
      engine.expect_nothing_left();
      figures_->fetched += engine.stats().outcomes[QUIRE_FETCH_DONE];
      figures_->failed += engine.stats().outcomes[QUIRE_FETCH_FAILED];
      figures_->given_up += engine.stats().quarantined_ever;
    }
    for (const std::string& violation : store_.violations()) ADD_FAILURE() << violation;
  }
  std::string words() const {
    std::string text;
    for (const EngineOptions& o : made_) {
      text += o.policy + " x" + std::to_string(o.ranks) + " block " + std::to_string(o.block) + " retained " + std::to_string(o.retained) +
              " pages " + std::to_string(o.pages) + "; ";
    }
    for (const quire_layer& l : base_.layers) {
      text += " kind " + std::to_string(l.kind) + " w " + std::to_string(l.window) + " ahead " + std::to_string(l.look_ahead);
    }
    return text + " unit " + std::to_string(base_.unit);
  }

 private:
  struct Open {
    quire_sequence_id sequence = 0;
    quire_fetch_id fetch = 0;
    Text text;
  };

  uint64_t pick(uint64_t n) { return random_() % n; }
  bool percent(uint64_t share) { return pick(100) < share; }

  std::vector<quire_layer> layers() {
    std::vector<quire_layer> all;
    const auto add = [&](const quire_layer& layer, uint64_t most) {
      for (uint64_t n = 1 + pick(most); n > 0; --n) all.push_back(layer);
    };
    const uint64_t kind = pick(8);
    const quire_layer window = window_layer(16 * (1 + pick(8)), static_cast<uint32_t>(percent(30) ? 16 : 0));
    if (kind != 1) add(full_layer(), 4);
    if (kind == 1 || kind == 2 || kind >= 6) add(window, 4);
    if (kind == 3) add(chunked_layer(96), 3);
    if (kind == 4 || kind == 5) add(percent(50) ? cut_state_layer() : state_layer(), 4);
    if (kind == 7) add(window_layer(24), 2);
    for (quire_layer& layer : all) {
      const bool can = layer.kind == QUIRE_LAYER_FULL || layer.kind == QUIRE_LAYER_SLIDING_WINDOW;
      if (!can || !percent(25) || seed_without_drafts_) continue;
      layer.flags = QUIRE_LAYER_DRAFT;
      layer.look_ahead = 1 + static_cast<uint32_t>(pick(3));
      has_drafts_ = true;
    }
    std::shuffle(all.begin(), all.end(), random_);
    return all;
  }

  void add_engine() {
    for (int tries = 0; tries < 8; ++tries) {
      EngineOptions o = base_;
      const char* const policies[] = {"vllm", "auto", "pack:1", "pack:2"};
      o.policy = policies[engines_.empty() ? 0 : pick(4)];
      if (percent(30)) o.block = 32;
      if (o.policy != "vllm" && percent(30)) o.layout = percent(50) ? "BPJKHTD" : "BJPKTHD";
      if (!o.others.empty() && percent(50)) o.ranks = 1u << pick(3);
      if (o.policy == "vllm" && percent(40)) o.retained = 16 * (1 + pick(5));
      o.pages = (long_ ? 200 : 90) + pick(160);
      if (!can_be(o)) continue;
      engines_.push_back(std::make_unique<Engine>(clock_, o, std::vector<FakeStore*>{&store_}));
      open_.emplace_back();
      made_.push_back(o);
      figures_->vllm += o.policy == "vllm" ? 1 : 0;
      ++figures_->engines;
      return;
    }
  }

  Text text() {
    Text t = texts_[pick(texts_.size())];
    if (percent(40)) t.resize(1 + pick(t.size()));
    const size_t most = base_.max_len - 150;
    for (uint64_t n = pick(base_.unit * 3); n > 0 && t.size() < most; --n) t.push_back(static_cast<quire_symbol>(50'000 + pick(100) / 99));
    if (percent(60)) texts_[pick(texts_.size())] = t;
    return t;
  }

  void turn() {
    const size_t e = pick(engines_.size());
    Engine& engine = *engines_[e];
    const uint64_t what = pick(100);
    if (what < 35) {
      // Units of drafts are written while their sequence is there.
      const quire_sequence_id sequence = engine.open();
      engine.go_on(sequence, text());
      for (uint64_t n = pick(4); n > 0; --n) advance(e);
      engine.finish(sequence);
    } else if (what < 62) {
      if (open_[e].size() < 4) {
        const Text t = text();
        const quire_sequence_id sequence = engine.open();
        open_[e].push_back({sequence, engine.begin(sequence, t, percent(30) ? 1 + static_cast<int64_t>(pick(3'000'000)) : 0), t});
      }
    } else if (what < 66) {
      if (!open_[e].empty()) (void)quire_fetch_cancel(engine.tiers(), open_[e][pick(open_[e].size())].fetch, nullptr);
    } else if (what < 78) {
      (void)quire_cache_reset(engine.cache(), nullptr);
    } else if (what < 82) {
      store_.forget_some(200);
    } else if (what < 90) {
      travel(e);
    } else {
      clock_.now += static_cast<int64_t>(pick(3'000'000));
      store_.update();
    }
    for (uint64_t n = pick(6); n > 0; --n) advance(e);
    engine.verify();
  }

  // A session from this engine to any.
  void travel(size_t e) {
    Engine& from = *engines_[e];
    Engine& to = *engines_[pick(engines_.size())];
    Text t = text();
    const quire_sequence_id sequence = from.open();
    from.go_on(sequence, t);
    const bool whole = from.info(sequence).committed == t.size();
    std::vector<uint8_t> session;
    if (whole) session = from.save(sequence, t);
    from.finish(sequence);
    if (!whole) return;
    const quire_sequence_id other = to.open();
    quire_session_info info{};
    std::string message;
    const quire_code code = to.try_restore(other, session, &info, &message);
    EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code << ": " << message;
    Text more = t;
    for (int i = 0; i < 40; ++i) more.push_back(7'000 + i);
    if (code == QUIRE_OK) {
      figures_->restored += info.committed > 0 ? 1 : 0;
      to.go_on(other, more);
    }
    to.finish(other);
  }

  void advance(size_t e) {
    Engine& engine = *engines_[e];
    for (const quire_fetch_result& result : engine.run()) {
      const auto at = std::find_if(open_[e].begin(), open_[e].end(), [&](const Open& o) { return o.fetch == result.fetch; });
      ASSERT_NE(at, open_[e].end()) << "a fetch ended twice";
      EXPECT_EQ(result.committed, engine.info(at->sequence).committed);
      EXPECT_LT(result.committed, at->text.size());
      const Open ended = *at;
      open_[e].erase(at);
      if (percent(70)) engine.go_on(ended.sequence, ended.text);
      engine.finish(ended.sequence);
    }
  }

  void cancel(size_t e) {
    for (const Open& open : open_[e]) (void)quire_fetch_cancel(engines_[e]->tiers(), open.fetch, nullptr);
    for (int turns = 0; turns < 4; ++turns) advance(e);
    EXPECT_TRUE(open_[e].empty());
  }

  std::mt19937_64 random_;
  Figures* figures_;
  Clock clock_;
  FakeStore store_;
  EngineOptions base_;
  bool has_states_ = false, has_drafts_ = false, long_ = false, seed_without_drafts_ = percent(40);
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<EngineOptions> made_;
  std::vector<std::vector<Open>> open_;
  std::vector<Text> texts_;
};

// A prompt that is computed in chunks and offered meanwhile, to an engine of another policy that has some of it.
class MixedOffer {
 public:
  explicit MixedOffer(uint64_t seed) : random_(seed), store_(store_options(seed)) {}

  uint64_t run() {
    EngineOptions from = options();
    EngineOptions to = from;
    choose(&from);
    choose(&to);
    if (!can_be(from) || !can_be(to)) return 0;
    const std::string words = from.policy + " x" + std::to_string(from.ranks) + " to " + to.policy + " x" + std::to_string(to.ranks);
    SCOPED_TRACE(words);
    Engine prefill(clock_, from, {&store_}), decode(clock_, to, {&store_});
    const uint64_t end = from.unit * (1 + pick(5)) + (pick(2) == 0 ? 0 : 32);
    const Text text = count_text(1, end + 4);
    if (pick(2) == 0) decode.compute(first(text, 1 + pick(end)));
    if (pick(2) == 0) decode.compute(count_text(5000, 1 + pick(600)));
    const quire_sequence_id source = prefill.open(), sequence = decode.open();
    quire_offer offer{};
    std::string message;
    if (prefill.try_offer(source, text, &offer, &message, 0, end) != QUIRE_OK) return 0;
    quire_fetch_id fetch = 0;
    if (decode.try_from(offer, sequence, text, &fetch, pick(3) == 0 ? 1 + static_cast<int64_t>(pick(60'000'000)) : 0) != QUIRE_OK) return 0;
    std::vector<quire_fetch_result> results;
    const auto pass = [&](uint64_t turns) {
      for (; turns > 0; --turns) {
        EXPECT_TRUE(prefill.run().empty());
        for (const quire_fetch_result& r : decode.run()) results.push_back(r);
        clock_.now += 1'000'000;
        if (pick(200) == 0) (void)prefill.withdraw(offer);
        if (pick(200) == 0) (void)quire_fetch_cancel(decode.tiers(), fetch, nullptr);
        decode.verify();
      }
    };
    for (uint64_t at = 32 + pick(100); at < end; at += 32 + pick(200)) {
      prefill.go_on(source, first(text, at));
      pass(pick(12));
      if (pick(4) == 0) decode.compute(first(text, 1 + pick(end)));
    }
    prefill.go_on(source, first(text, end));
    for (int i = 0; i < 2000 && results.empty(); ++i) pass(10);
    EXPECT_EQ(results.size(), 1U) << "the fetch does not end";
    if (results.size() != 1) return 0;
    EXPECT_EQ(results[0].committed, decode.info(sequence).committed);
    if (results[0].committed > 0) decode.check(sequence, text);
    decode.go_on(sequence, text);
    decode.finish(sequence);
    prefill.finish(source);
    (void)prefill.withdraw(offer);
    store_.release_all();
    prefill.settle();
    decode.settle();
    prefill.expect_nothing_left();
    decode.expect_nothing_left();
    EXPECT_EQ(store_.num_in_flight(), 0U);
    for (const std::string& violation : store_.violations()) ADD_FAILURE() << violation;
    return results[0].committed > 0 ? 1 : 0;
  }

 private:
  uint64_t pick(uint64_t n) { return random_() % n; }
  static FakeStoreOptions store_options(uint64_t seed) {
    FakeStoreOptions o = peers();
    o.seed = seed;
    o.reorders = seed % 2 != 0;
    if (seed % 3 != 0) o.odds = {static_cast<uint32_t>(seed % 400), static_cast<uint32_t>(seed % 4 == 0 ? 20 : 0), 0, 0, 0, 6, 2'000'000};
    return o;
  }
  EngineOptions options() {
    EngineOptions o;
    const auto add = [&](const quire_layer& layer, uint64_t most) {
      for (uint64_t n = 1 + pick(most); n > 0; --n) o.layers.push_back(layer);
    };
    const uint64_t kind = pick(5);
    add(full_layer(), 4);
    if (kind == 1 || kind == 4) add(window_layer(16 * (1 + pick(8))), 4);
    if (kind == 2) add(state_layer(), 4);
    if (kind == 3 || kind == 4) {
      o.layers.push_back(full_layer());
      o.layers.back().flags = QUIRE_LAYER_DRAFT;
      o.layers.back().look_ahead = 1 + static_cast<uint32_t>(pick(3));
    }
    o.unit = kind == 2 && pick(2) == 0 ? 384 : 64;
    o.max_len = 2400;
    o.is_peers = o.waits_for_offers = o.may_refuse = true;
    o.others = {1, 2, 4};
    return o;
  }
  void choose(EngineOptions* o) {
    const char* const policies[] = {"vllm", "auto", "pack:1", "pack:2"};
    o->policy = policies[pick(4)];
    o->ranks = 1U << pick(3);
    if (pick(3) == 0) o->block = 32;
    if (o->policy == "vllm" && pick(3) == 0) o->retained = 48;
    if (o->policy != "vllm" && pick(3) == 0) o->layout = "BJPKTHD";
    o->pages = 300 + pick(300);
  }

  std::mt19937_64 random_;
  Clock clock_;
  FakeStore store_;
};

TEST(MixedPolicies, OfferWhatTheyCompute) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), rounds = number_of("QUIRE_ROUNDS", full_or(1000, 200));
  uint64_t brought = 0;
  for (uint64_t s = seed; s < seed + rounds && !HasFailure(); ++s) {
    SCOPED_TRACE("seed " + std::to_string(s));
    brought += MixedOffer(s).run();
  }
  std::printf("%llu of %llu fetches brought tokens\n", static_cast<unsigned long long>(brought), static_cast<unsigned long long>(rounds));
}

TEST(MixedPolicies, AreNeverWrongWhateverStoresDo) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), rounds = number_of("QUIRE_ROUNDS", full_or(400, 100));
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed + rounds - 1));
  Figures f;
  for (uint64_t s = seed; s < seed + rounds && !HasFailure(); ++s) {
    SCOPED_TRACE("seed " + std::to_string(s));
    Mixed mixed(s, &f);
    SCOPED_TRACE(mixed.words());
    mixed.run();
  }
  std::printf("%llu engines, %llu of vllm; %llu fetches brought tokens, %llu failed, %llu were given up while bytes moved; %llu sessions\n",
              static_cast<unsigned long long>(f.engines), static_cast<unsigned long long>(f.vllm),
              static_cast<unsigned long long>(f.fetched), static_cast<unsigned long long>(f.failed),
              static_cast<unsigned long long>(f.given_up), static_cast<unsigned long long>(f.restored));
}

}  // namespace
}  // namespace quire::test
