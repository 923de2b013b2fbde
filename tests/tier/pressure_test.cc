// A pool that is a fifth larger than what its sequences need, and stores that are always behind: units are dropped, nobody waits for
// them, and no entry is refused that would not be refused without tiers. The seed is printed; QUIRE_SEED and QUIRE_ROUNDS choose others.
#include <algorithm>
#include <numeric>

#include "tests/tier/tier_rig.h"
#include "tests/unit/full_size.h"

namespace quire::test {
namespace {

constexpr size_t kRequests = 14;

// What a round is made of. The rest follows from the seed, too.
struct Workload {
  EngineOptions options;
  size_t live = 0;     // sequences at the same time
  size_t tokens = 0;   // of each
  bool stops = false;  // no store ever ends; otherwise they are late

  explicit Workload(uint64_t seed) {
    std::mt19937_64 random(seed);
    options.layers = any_layers(random);
    if (random() % 4 == 0) options.layers.push_back(chunked_layer(16 * (2 + random() % 8)));
    options.unit = 64;
    stops = random() % 2 == 0;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) options.reasons_of.push_back(1U << random() % 3);
    options.reasons_of[0] |= QUIRE_UNIT_COMMITTED;
    live = 3 * options.reasons_of.size() + random() % 4;  // each tier may always have a unit: at most a ninth of what is needed
    tokens = 192 + random() % 128;
    options.max_len = 330;
    options.max_store_bytes = 0;  // as it is chosen
    options.may_refuse = true;
  }
};

// Requests that come as others end; some begin as the one before. Prompts are computed in chunks, answers a few tokens at a time. All live
// sequences go on in turns. False: one of them was refused something.
bool serve(const Workload& work, Engine* engine) {
  struct Live {
    quire_sequence_id id = 0;
    Text text;
  };
  std::vector<Live> live;
  for (size_t begun = 0; begun < kRequests || !live.empty();) {
    while (live.size() < work.live && begun < kRequests) {
      Text text = count_text(static_cast<quire_symbol>(1 + 1000 * begun), work.tokens);
      if (begun % 3 == 2) std::iota(text.begin(), text.begin() + 100, 1 + 1000 * (begun - 1));
      live.push_back({engine->open(), std::move(text)});
      ++begun;
    }
    for (size_t i = 0; i < live.size();) {
      const Live& one = live[i];
      const uint64_t has = engine->info(one.id).committed;
      const size_t end = has < work.tokens / 2 ? std::min<size_t>(has + 48, work.tokens / 2) : std::min<size_t>(has + 4, work.tokens);
      engine->go_on(one.id, Text(one.text.begin(), one.text.begin() + static_cast<std::ptrdiff_t>(end)));
      if (engine->info(one.id).committed < end) return false;
      if (end + 8 * i >= work.tokens) {  // not all at once
        engine->finish(one.id);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    if (engine->tiers() != nullptr) {
      EXPECT_TRUE(engine->run().empty());
    }
    if (::testing::Test::HasFatalFailure()) break;
  }
  return true;
}

// The smallest pool in which nobody is refused.
uint64_t need_of(const Workload& work) {
  uint64_t most = 1500;  // pages
  Clock clock;
  EngineOptions o = work.options;
  o.pages = most;
  quire_capacity one = QUIRE_INIT(quire_capacity);
  quire_error err = QUIRE_INIT(quire_error);
  must(quire_config_get_capacity(Engine(clock, o, {}).config(), nullptr, o.max_len, 1, &one, &err), err, "capacity");
  for (uint64_t least = one.pages_needed; most - least > 1;) {
    o.pages = (least + most) / 2;
    Engine engine(clock, o, {});
    (engine.config() != nullptr && serve(work, &engine) ? most : least) = o.pages;
  }
  return most;
}

// Returns the units that were dropped.
uint64_t run_behind(const Workload& work, uint64_t pages) {
  Clock clock;
  EngineOptions o = work.options;
  o.pages = pages;
  std::vector<std::unique_ptr<FakeStore>> stores;
  std::vector<FakeStore*> all;
  for (size_t t = 0; t < o.reasons_of.size(); ++t) {
    stores.push_back(std::make_unique<FakeStore>());
    all.push_back(stores.back().get());
    all.back()->set_script([stops = work.stops, t](const SeenTicket& seen, Fate* fate) {
      if (seen.ticket.kind != QUIRE_TICKET_STORE) return;
      fate->held = stops;
      fate->polls = 100 + 200 * static_cast<uint32_t>(t);
    });
  }
  Engine engine(clock, o, all);
  EXPECT_TRUE(serve(work, &engine)) << "refused";
  uint64_t dropped = engine.cache_stats().units_given_up;
  for (FakeStore* store : all) {
    store->set_script({});
    store->release_all();
  }
  engine.settle();
  engine.expect_nothing_left();
  for (uint32_t t = 0; t < all.size(); ++t) dropped += engine.tier(t).units_dropped;
  return dropped;
}

TEST(Pressure, RefusesNobody) {
  const uint64_t seed = number_of("QUIRE_SEED", 33), rounds = number_of("QUIRE_ROUNDS", full_or(60, 24));
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed + rounds - 1));
  uint64_t dropped = 0, made = 0;
  for (uint64_t s = seed; s < seed + rounds && !HasFatalFailure(); ++s) {
    const Workload work(s);
    const uint64_t need = need_of(work);
    if (need < 48) continue;  // a part that is held keeps its page from other groups, which is much of so few
    ++made;
    SCOPED_TRACE("seed " + std::to_string(s) + ", " + std::to_string(need) +
                 " pages needed, tiers: " + std::to_string(work.options.reasons_of.size()) + (work.stops ? ", stopped" : ""));
    dropped += run_behind(work, need + need / 5 + 1);
  }
  std::printf("%llu pools, %llu units were dropped\n", static_cast<unsigned long long>(made), static_cast<unsigned long long>(dropped));
  EXPECT_GT(dropped, 5 * made);
  EXPECT_GE(made, rounds / 2);
}

}  // namespace
}  // namespace quire::test
