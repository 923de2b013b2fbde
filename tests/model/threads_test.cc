// Four threads ask (probes, statistics, events, snapshots) while one thread runs an engine: made for ThreadSanitizer. What the readers see
// must make sense by itself: pages add up, hits are multiples of a block, events have no gaps.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "tests/model/world.h"

namespace quire::model {
namespace {

uint64_t rounds() {
#ifdef NDEBUG
  return 8'000;
#else
  return 2'000;
#endif
}

class Shared {
 public:
  Shared() {
    const GroupSketch groups[] = {{LiveRange{}, 4, 2, 1}, {LiveRange{.window = 10}, 4, 1, 1}, {LiveRange{.state = true}, 4, 1, 2}};
    config_ = make_config({groups[0], groups[1], groups[2]}, 64, 128);
    quire_cache_options options{};
    options.struct_size = sizeof options;
    options.max_sequences = 6;
    options.max_tokens_per_step = 96;
    options.step_depth = 2;
    options.hash_seed = 5;
    auto made = Cache::create(config_, options);
    EXPECT_TRUE(made.ok());
    cache_ = std::move(made.value());
    quire_event_options events{};
    events.struct_size = sizeof events;
    events.algorithm = QUIRE_HASH_SHA256_CBOR;
    events.ring_bytes = 1 << 17;
    EXPECT_TRUE(cache_->enable_events(events).ok());
  }

  // Prompts that share stems come, are computed, aborted, preempted, forked and finished.
  void engine() {
    Rng rng(3);
    std::vector<SequenceId> running;
    for (uint64_t i = 0; i < rounds(); ++i) {
      const quire_identity identity = identity_of(static_cast<uint32_t>(pick(rng, kNumTenants)), 0);
      auto id = cache_->sequence_create(&identity);
      if (!id.ok()) continue;
      const std::vector<quire_symbol> prompt = prompt_of(pick(rng, 8));
      quire_reserve_entry e{};
      e.sequence = id->value;
      e.num_symbols = e.num_tokens = static_cast<uint32_t>(prompt.size());
      e.flags = QUIRE_ENTRY_MATCH;
      quire_reserve_result r{};
      StepId step;
      require_ok(cache_->reserve({&e, 1}, prompt, {&r, 1}, &step), "reserve");
      if (r.code == QUIRE_OK && chance(rng, 15)) {
        require_ok(cache_->abort(step), "abort");
      } else if (r.code == QUIRE_OK) {
        if (chance(rng, 10)) require_ok(cache_->sequence_preempt(*id), "preempt");
        const quire_commit_entry done = {id->value, 0, 0, 0, r.num_tokens};
        require_ok(cache_->commit(step, {&done, 1}, {}), "commit");
      }
      running.push_back(*id);
      if (chance(rng, 20) && running.size() < 5) {
        auto child = cache_->sequence_fork(*id);
        if (child.ok()) running.push_back(*child);
      }
      while (running.size() > 3) {
        require_ok(cache_->sequence_finish(running.front()), "finish");
        running.erase(running.begin());
      }
      if (chance(rng, 1)) require_ok(cache_->reset(), "reset");
    }
    for (SequenceId id : running) require_ok(cache_->sequence_finish(id), "finish");
    require_ok(cache_->verify(), "verify");
    over_ = true;
  }

  void probes(uint64_t seed) {
    Rng rng(seed);
    for (; !over_; ++asked_) {
      const quire_identity identity = identity_of(static_cast<uint32_t>(pick(rng, kNumTenants)), 0);
      const std::vector<quire_symbol> prompt = prompt_of(pick(rng, 8));
      quire_probe_result found{};
      require_ok(cache_->probe(&identity, prompt, &found), "probe");
      EXPECT_EQ(found.hit_tokens % 4, 0u);
      EXPECT_LT(found.hit_tokens, prompt.size());
      EXPECT_LE(found.hit_tokens, found.full_hit_tokens);
    }
  }

  void statistics() {
    uint64_t steps = 0;
    for (; !over_; ++asked_) {
      quire_cache_stats s{};
      s.struct_size = sizeof s;
      cache_->stats(&s);
      EXPECT_EQ(s.pages_free + s.pages_evictable + s.pages_used + 1, s.pages_total);
      EXPECT_GE(s.steps, steps);
      steps = s.steps;
    }
  }

  // Follows the events; where they were too fast, a snapshot says where to go on.
  void events() {
    std::vector<quire_event> events(256);
    std::vector<uint8_t> data(1 << 18);
    std::set<std::string> known;
    uint64_t next = 0;
    for (bool last = false; !last; ++asked_) {
      last = over_;
      quire_event_batch batch{};
      batch.struct_size = sizeof batch;
      Status status = cache_->read_events(next, events, data, &batch);
      const bool lost = status.code() == QUIRE_DATA_LOSS;
      if (lost) {
        batch = {};
        batch.struct_size = sizeof batch;
        known.clear();
        status = cache_->snapshot_events(events, data, &batch);
        if (status.code() == QUIRE_OUT_OF_RANGE) {  // more than was expected: ask with more room
          events.resize(batch.num_events + 64);
          data.resize(batch.num_bytes + 4096);
          continue;
        }
      }
      require_ok(status, "events");
      for (uint64_t i = 0; i < batch.num_events; ++i) {
        if (!lost) {
          EXPECT_EQ(events[i].number, next + i);
        }
        replay(events[i], data.data(), &known);
      }
      next = batch.next;
      told_ += batch.num_events;
    }
  }

  uint64_t asked() const { return asked_; }
  uint64_t told() const { return told_; }

 private:
  static std::vector<quire_symbol> prompt_of(uint64_t number) {
    std::vector<quire_symbol> prompt(12 + number * 7);
    for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<quire_symbol>(mix(number % 3, i) % 50);
    return prompt;
  }

  // What can be found, as events tell it.
  static void replay(const quire_event& event, const uint8_t* data, std::set<std::string>* known) {
    if (event.type == QUIRE_EVENT_CLEARED) known->clear();
    for (uint32_t h = 0; h < event.num_hashes; ++h) {
      const char* hash = reinterpret_cast<const char*>(data + event.hashes_offset + size_t{h} * event.hash_bytes);
      const std::string name = std::to_string(event.group) + std::string(hash, event.hash_bytes);
      if (event.type == QUIRE_EVENT_STORED) known->insert(name);
      if (event.type == QUIRE_EVENT_REMOVED) known->erase(name);
    }
  }

  std::shared_ptr<const Config> config_;
  std::unique_ptr<Cache> cache_;
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> asked_{0}, told_{0};
};

TEST(Threads, FourAskWhileOneRunsAnEngine) {
  Shared shared;
  std::vector<std::thread> readers;
  readers.emplace_back([&] { shared.probes(1); });
  readers.emplace_back([&] { shared.probes(2); });
  readers.emplace_back([&] { shared.statistics(); });
  readers.emplace_back([&] { shared.events(); });
  shared.engine();
  for (std::thread& reader : readers) reader.join();
  std::printf("%llu questions answered, %llu events read\n", static_cast<unsigned long long>(shared.asked()),
              static_cast<unsigned long long>(shared.told()));
  EXPECT_GT(shared.asked(), 100u);
  EXPECT_GT(shared.told(), 100u);
}

}  // namespace
}  // namespace quire::model
