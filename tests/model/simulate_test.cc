// Random engines against the cache: random layer mixes, pools that are too small, steps in flight, aborts, forks, preemption, finishing in
// flight, drafts, salts. After every step verify() re-derives all invariants, and every simulated read compares content stamps.
// Seeds are printed; QUIRE_SEED=n replays one, QUIRE_STEPS=n sets the length.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/model/world.h"

namespace quire::model {
namespace {

struct Tally {
  uint64_t steps = 0, hits = 0, evictions = 0, hand_overs = 0, aborts = 0, forks = 0, rollbacks = 0, preempts = 0, finished_in_flight = 0,
           refused = 0, truncates = 0, reads = 0;
};

struct Shape {
  std::vector<GroupSketch> groups;
  uint64_t pages = 0;
  uint32_t depth = 1;
  uint64_t max_len = 160;
  bool states = false;
};

Shape random_shape(Rng& rng) {
  Shape s;
  s.pages = 40 + pick(rng, 120);
  s.depth = 1 + static_cast<uint32_t>(pick(rng, 3));
  static const uint32_t blocks[] = {2, 4, 8};
  uint32_t bt = blocks[pick(rng, 3)];
  auto token_group = [&](LiveRange live) {
    GroupSketch g;
    g.live = live;
    g.block_tokens = chance(rng, 70) ? bt : blocks[pick(rng, 3)];
    g.parts_per_page = 1 + static_cast<uint32_t>(pick(rng, 4));
    g.ids_per_block = 1 + static_cast<uint32_t>(pick(rng, 2));
    s.groups.push_back(g);
  };
  if (chance(rng, 85)) token_group(LiveRange{});
  if (chance(rng, 50)) token_group(LiveRange{.sink = chance(rng, 40) ? 1 + pick(rng, 6) : 0, .window = 1 + pick(rng, 20)});
  if (chance(rng, 25)) token_group(LiveRange{.chunk = 4 + pick(rng, 24)});
  if (s.groups.empty() || chance(rng, 50)) {
    GroupSketch g;
    g.live.state = true;
    g.block_tokens = bt;
    g.ids_per_block = 1 + static_cast<uint32_t>(pick(rng, 5));
    g.parts_per_page = 1 + static_cast<uint32_t>(pick(rng, 4));
    s.groups.push_back(g);
    s.states = true;
  }
  return s;
}

class Engine {
 public:
  Engine(uint64_t seed, Tally* tally) : rng_(seed), tally_(*tally), shape_(random_shape(rng_)) {
    config_ = make_config(shape_.groups, shape_.pages, shape_.max_len);
    quire_cache_options options{};
    options.struct_size = sizeof options;
    options.max_sequences = 12;
    options.max_tokens_per_step = 96;
    options.step_depth = shape_.depth;
    options.hash_seed = seed | 1;
    options.watermark_pages = static_cast<uint32_t>(pick(rng_, 3));
    if (chance(rng_, 15)) options.max_index_units = 8 + pick(rng_, 40);
    if (chance(rng_, 30)) options.checkpoint_interval = 1 + pick(rng_, 40);
    auto made = Cache::create(config_, options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    cache_ = std::move(made.value());
    memory_ = std::make_unique<Memory>(*config_);
  }

  void run(uint64_t steps) {
    for (uint64_t i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      if (requests_.size() < 8 && chance(rng_, 40)) arrive();
      disturb();
      if (in_flight_.size() < shape_.depth && chance(rng_, 75)) reserve();
      if (!in_flight_.empty() && (in_flight_.size() == shape_.depth || chance(rng_, 55))) settle();
      Status ok = cache_->verify();
      ASSERT_TRUE(ok.ok()) << ok.message();
    }
    while (!in_flight_.empty() && !::testing::Test::HasFailure()) commit();
    quire_cache_stats stats{};
    stats.struct_size = sizeof stats;
    cache_->stats(&stats);
    tally_.evictions += stats.evicted_blocks;
    tally_.hand_overs += stats.hand_overs;
    tally_.reads += memory_->reads();
    close();
  }

 private:
  // Prompts share stems, so that prefixes are hit, forked and evicted.
  void arrive() {
    Request r;
    r.salt = chance(rng_, 30) ? "a" : (chance(rng_, 50) ? "b" : "");
    uint64_t stem = pick(rng_, 4);
    uint64_t shared = pick(rng_, 70);
    for (uint64_t i = 0; i < shared; ++i) r.tokens.push_back(static_cast<quire_symbol>(mix(stem, i) % 50));
    uint64_t own = 1 + pick(rng_, 30);
    for (uint64_t i = 0; i < own; ++i) r.tokens.push_back(static_cast<quire_symbol>(pick(rng_, 50)));
    r.prompt = r.tokens.size();
    while (r.tokens.size() < shape_.max_len) r.tokens.push_back(static_cast<quire_symbol>(pick(rng_, 50)));
    quire_identity identity{};
    identity.struct_size = sizeof identity;
    identity.salt = {r.salt.data(), r.salt.size()};
    auto id = cache_->sequence_create(&identity);
    ASSERT_TRUE(id.ok()) << id.status().message();
    r.id = *id;
    requests_.push_back(std::move(r));
  }

  void disturb() {
    if (requests_.empty()) return;
    size_t i = pick(rng_, requests_.size());
    Request& r = requests_[i];
    if (chance(rng_, 4)) {
      ASSERT_TRUE(cache_->sequence_preempt(r.id).ok());
      ++tally_.preempts;
      r.committed = r.reserved = r.known = 0;
      r.in_flight = 0;
      r.fresh = true;
      ++r_incarnation_[r.id.value];
    } else if (chance(rng_, 4) || r.committed + 8 > shape_.max_len) {
      if (r.in_flight > 0) ++tally_.finished_in_flight;
      ASSERT_TRUE(cache_->sequence_finish(r.id).ok());
      EXPECT_EQ(cache_->sequence_finish(r.id).code(), QUIRE_NOT_FOUND);
      requests_.erase(requests_.begin() + static_cast<long>(i));
    } else if (chance(rng_, 6) && requests_.size() < 10 && r.committed > 0) {
      fork(r);
    } else if (chance(rng_, 5) && r.in_flight == 0 && r.committed > 0) {
      truncate(r);
    }
  }

  void fork(const Request& parent) {
    auto child = cache_->sequence_fork(parent.id);
    ASSERT_TRUE(child.ok()) << child.status().message();
    ++tally_.forks;
    Request r = parent;
    r.id = *child;
    r.reserved = r.known = r.committed;
    r.in_flight = 0;
    for (uint64_t i = r.committed; i < r.tokens.size(); ++i) r.tokens[i] = static_cast<quire_symbol>(pick(rng_, 50));
    r.fresh = false;
    r.prompt = r.committed;
    requests_.push_back(std::move(r));
  }

  void truncate(Request& r) {
    uint64_t to = pick(rng_, r.committed + 1);
    Status done = cache_->sequence_truncate(r.id, to);
    if (!done.ok()) {
      EXPECT_EQ(done.code(), QUIRE_FAILED_PRECONDITION) << done.message();
      return;
    }
    ++tally_.truncates;
    bool whole = to == r.committed;
    r.committed = r.reserved = to;
    r.known = to;
    if (to == 0) r.fresh = true;
    if (!whole) {
      for (uint64_t i = to; i < r.tokens.size(); ++i) r.tokens[i] = static_cast<quire_symbol>(pick(rng_, 50));
    }
  }

  void reserve() {
    std::vector<quire_reserve_entry> entries;
    std::vector<quire_symbol> symbols;
    std::vector<size_t> who;
    for (size_t i = 0; i < requests_.size(); ++i) {
      Request& r = requests_[i];
      if (!chance(rng_, 70) || r.reserved + 4 > shape_.max_len) continue;
      if (r.fresh && r.in_flight > 0) continue;
      quire_reserve_entry e{};
      e.sequence = r.id.value;
      e.symbols_offset = symbols.size();
      bool prefill = r.reserved < r.prompt;
      uint64_t want = prefill ? 1 + pick(rng_, r.prompt - r.reserved) : 1 + (chance(rng_, 30) ? pick(rng_, 3) : 0);
      if (r.fresh) {
        e.flags = QUIRE_ENTRY_MATCH;
        symbols.insert(symbols.end(), r.tokens.begin(), r.tokens.begin() + static_cast<long>(r.prompt));
        e.num_symbols = static_cast<uint32_t>(r.prompt);
        want = 1 + pick(rng_, r.prompt);
      } else if (r.known < r.reserved + want && (prefill || chance(rng_, 50))) {
        // The engine may not know the tokens yet; then a later commit tells them.
        symbols.insert(symbols.end(), r.tokens.begin() + static_cast<long>(r.known),
                       r.tokens.begin() + static_cast<long>(r.reserved + want));
        e.num_symbols = static_cast<uint32_t>(r.reserved + want - r.known);
      }
      e.num_tokens = static_cast<uint32_t>(want);
      if (chance(rng_, 20)) e.num_look_ahead = static_cast<uint32_t>(pick(rng_, 6));
      if (r.fresh && chance(rng_, 20)) e.full_tokens = r.prompt + 8;
      entries.push_back(e);
      who.push_back(i);
    }
    std::vector<quire_reserve_result> results(entries.size());
    StepId step;
    Status ok = cache_->reserve(entries, symbols, results, &step);
    ASSERT_TRUE(ok.ok()) << ok.message();
    PlannedStep planned;
    planned.id = step;
    for (size_t i = 0; i < entries.size(); ++i) admitted(entries[i], results[i], requests_[who[i]], &planned);
    if (step.value == 0) {
      ASSERT_TRUE(planned.rows.empty());
      relieve();
      return;
    }
    ++tally_.steps;
    in_flight_.push_back(std::move(planned));
    if (chance(rng_, 50)) run_until(in_flight_.size());
  }

  // Nothing fits and nothing runs: somebody must go.
  void relieve() {
    if (!in_flight_.empty() || requests_.empty()) return;
    Request& r = requests_.back();
    ASSERT_TRUE(cache_->sequence_preempt(r.id).ok());
    ++r_incarnation_[r.id.value];
    ++tally_.preempts;
    r.committed = r.reserved = r.known = 0;
    r.fresh = true;
  }

  void admitted(const quire_reserve_entry& e, const quire_reserve_result& result, Request& r, PlannedStep* planned) {
    if (result.code != QUIRE_OK) {
      EXPECT_TRUE(result.code == QUIRE_RESOURCE_EXHAUSTED || result.code == QUIRE_OUT_OF_RANGE) << result.code;
      ++tally_.refused;
      return;
    }
    ASSERT_EQ(result.row, planned->rows.size());
    if (r.fresh) {
      if (result.hit_tokens > 0) ++tally_.hits;
      ASSERT_LT(result.hit_tokens, r.prompt);
      r.known = r.reserved = r.committed = result.hit_tokens;
      r.fresh = false;
      uint64_t end = result.position + result.num_tokens;
      r.known = std::max(r.known, std::min<uint64_t>(e.num_symbols, end));
    } else {
      ASSERT_EQ(result.position, r.reserved);
      r.known = std::max(r.known, std::min<uint64_t>(r.known + e.num_symbols, result.position + result.num_tokens));
    }
    ASSERT_GE(result.num_tokens, 1u);
    ASSERT_LE(result.num_tokens, e.num_tokens);
    r.reserved = result.position + result.num_tokens;
    ++r.in_flight;
    planned->rows.push_back(PlannedRow{r.id, r.salt, r.tokens, result.position, result.num_tokens});
    incarnation_at_[{planned->id.value, r.id.value}] = r_incarnation_[r.id.value];
  }

  void run_until(size_t n) {
    for (size_t i = 0; i < n; ++i) {
      if (in_flight_[i].ran) continue;
      std::string wrong = memory_->run(*cache_, in_flight_[i]);
      ASSERT_TRUE(wrong.empty()) << wrong;
      in_flight_[i].ran = true;
    }
  }

  Request* find(SequenceId id) {
    for (Request& r : requests_) {
      if (r.id == id) return &r;
    }
    return nullptr;
  }
  Request* alive(const PlannedStep& step, const PlannedRow& row) {
    Request* r = find(row.id);
    return r != nullptr && incarnation_at_[{step.id.value, row.id.value}] == r_incarnation_[row.id.value] ? r : nullptr;
  }

  void settle() {
    if (chance(rng_, 10)) {
      abort();
    } else {
      commit();
    }
  }

  void commit() {
    run_until(1);
    if (::testing::Test::HasFailure()) return;
    PlannedStep step = std::move(in_flight_.front());
    in_flight_.pop_front();
    std::vector<quire_commit_entry> entries;
    std::vector<quire_symbol> symbols;
    for (const PlannedRow& row : step.rows) {
      quire_commit_entry e{};
      e.sequence = row.id.value;
      e.num_accepted = row.num_tokens;
      e.symbols_offset = symbols.size();
      if (Request* r = alive(step, row)) {
        if (r->in_flight == 1 && chance(rng_, 15)) {
          e.num_accepted = shape_.states ? 0 : static_cast<uint32_t>(pick(rng_, row.num_tokens));
          ++tally_.rollbacks;
        }
        --r->in_flight;
        r->committed = row.position + e.num_accepted;
        if (e.num_accepted < row.num_tokens) {
          r->reserved = r->committed;
          r->known = std::min(r->known, r->committed);
          r->fresh = r->committed == 0 && r->known == 0;
        }
        uint64_t tell = r->known < r->committed ? r->committed : (chance(rng_, 40) ? r->known + 1 : r->known);
        tell = std::min<uint64_t>(tell, std::min<uint64_t>(r->reserved + 1, r->tokens.size()));
        for (; r->known < tell; ++r->known) symbols.push_back(r->tokens[r->known]);
        e.num_symbols = static_cast<uint32_t>(symbols.size() - e.symbols_offset);
        if (r->committed == 0) r->fresh = r->known == 0 && r->in_flight == 0;
      }
      entries.push_back(e);
    }
    Status ok = cache_->commit(step.id, entries, symbols);
    ASSERT_TRUE(ok.ok()) << ok.message();
  }

  void abort() {
    size_t first = pick(rng_, in_flight_.size());
    std::vector<std::pair<SequenceId, quire_sequence_info>> before;
    StepId id = in_flight_[first].id;
    while (in_flight_.size() > first) {
      PlannedStep step = std::move(in_flight_.back());
      in_flight_.pop_back();
      for (const PlannedRow& row : step.rows) {
        Request* r = alive(step, row);
        if (r == nullptr) continue;
        --r->in_flight;
        r->reserved = row.position;
      }
    }
    Status ok = cache_->abort(id);
    ASSERT_TRUE(ok.ok()) << ok.message();
    ++tally_.aborts;
    for (Request& r : requests_) {
      quire_sequence_info info{};
      ASSERT_TRUE(cache_->sequence_info(r.id, &info).ok());
      ASSERT_EQ(info.steps_in_flight, r.in_flight);
      r.known = info.known;
      if (info.reserved == 0 && r.in_flight == 0) {
        r.reserved = r.committed = 0;
        r.fresh = info.known == 0;
      }
      ASSERT_EQ(info.committed, r.committed);
      ASSERT_EQ(info.reserved, r.reserved);
    }
  }

  // All requests closed and everything forgotten: every page is free again.
  void close() {
    if (::testing::Test::HasFailure()) return;
    for (Request& r : requests_) ASSERT_TRUE(cache_->sequence_finish(r.id).ok());
    ASSERT_TRUE(cache_->reset().ok());
    quire_cache_stats stats{};
    cache_->stats(&stats);
    EXPECT_EQ(stats.pages_free, stats.pages_total - 1);
    EXPECT_EQ(stats.index_units, 0u);
    Status ok = cache_->verify();
    EXPECT_TRUE(ok.ok()) << ok.message();
  }

  Rng rng_;
  Tally& tally_;
  Shape shape_;
  std::shared_ptr<const Config> config_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Memory> memory_;
  std::vector<Request> requests_;
  std::deque<PlannedStep> in_flight_;
  std::map<uint64_t, uint64_t> r_incarnation_;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> incarnation_at_;
};

TEST(Simulate, RandomEnginesReadOnlyWhatTheyWrote) {
  const char* one = std::getenv("QUIRE_SEED");
  const char* length = std::getenv("QUIRE_STEPS");
  uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  uint64_t count = one != nullptr ? 1 : 100;
  uint64_t steps = length != nullptr ? std::strtoull(length, nullptr, 10) : 300;
  Tally tally;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Engine engine(seed, &tally);
    engine.run(steps);
    if (HasFailure()) {
      std::printf("failed with QUIRE_SEED=%llu\n", static_cast<unsigned long long>(seed));
      return;
    }
  }
  std::printf(
      "steps %llu hits %llu evicted blocks %llu hand-overs %llu aborts %llu forks %llu rollbacks %llu preempts %llu finished in flight "
      "%llu "
      "refused %llu truncates %llu reads checked %llu\n",
      static_cast<unsigned long long>(tally.steps), static_cast<unsigned long long>(tally.hits),
      static_cast<unsigned long long>(tally.evictions), static_cast<unsigned long long>(tally.hand_overs),
      static_cast<unsigned long long>(tally.aborts), static_cast<unsigned long long>(tally.forks),
      static_cast<unsigned long long>(tally.rollbacks), static_cast<unsigned long long>(tally.preempts),
      static_cast<unsigned long long>(tally.finished_in_flight), static_cast<unsigned long long>(tally.refused),
      static_cast<unsigned long long>(tally.truncates), static_cast<unsigned long long>(tally.reads));
  if (one != nullptr) return;
  for (uint64_t n : {tally.hits, tally.evictions, tally.hand_overs, tally.aborts, tally.forks, tally.rollbacks, tally.preempts,
                     tally.finished_in_flight, tally.refused, tally.truncates}) {
    EXPECT_GE(n, 100u) << "an operation was hardly exercised";
  }
}

}  // namespace
}  // namespace quire::model
