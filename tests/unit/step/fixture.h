// A cache and the calls that its tests make on it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <vector>

#include "core/step/kv_cache.h"
#include "tests/model/world.h"

namespace quire {

using model::GroupSketch;
using model::make_config;

// Tests that do not say what is kept look at every kind of boundary, not at the default.
constexpr uint32_t kKeepAll = 2 * QUIRE_KEEP_ASKED - 1;

struct Fixture {
  std::unique_ptr<Cache> cache;

  explicit Fixture(std::vector<GroupSketch> groups, uint64_t pages = 32, uint32_t depth = 2,  //
                   quire_cache_options options = {}, CacheClock clock = {}) {
    options.struct_size = sizeof options;
    if (options.max_sequences == 0) options.max_sequences = 8;
    if (options.keep_states == 0) options.keep_states = kKeepAll;
    options.max_tokens_per_step = 64;
    options.step_depth = depth;
    options.hash_seed = 7;
    auto made = Cache::create(make_config(groups, pages, 128), options, clock);
    EXPECT_TRUE(made.ok()) << made.status().message();
    cache = std::move(made.value());
  }
  SequenceId open(std::string_view salt = {}, uint32_t flags = 0) {
    quire_identity identity{};
    identity.struct_size = sizeof identity;
    identity.flags = flags;
    identity.salt = {salt.data(), salt.size()};
    return *cache->sequence_create(&identity);
  }
  // The first position whose symbol is not known, once all but `accepted` tokens of the only row in flight are taken back.
  uint64_t known(SequenceId id, uint64_t accepted = UINT64_MAX) const {
    quire_sequence_info s{};
    s.struct_size = sizeof s;
    if (!cache->sequence_info(id, &s).ok()) return 0;
    const bool rejects = s.steps_in_flight == 1 && accepted < s.reserved - s.committed;
    return rejects ? std::min(s.known, s.committed + accepted) : s.known;
  }
  quire_reserve_result reserve(SequenceId id, const std::vector<quire_symbol>& symbols, uint32_t tokens, uint32_t flags, StepId* step,
                               uint64_t full = 0) {
    quire_reserve_entry e{};
    e.sequence = id.value;
    e.symbols_position = known(id);
    e.num_symbols = static_cast<uint32_t>(symbols.size());
    e.num_tokens = tokens;
    e.flags = flags;
    e.full_tokens = full;
    quire_reserve_result r{};
    Status ok = cache->reserve({&e, 1}, symbols, {&r, 1}, step);
    EXPECT_TRUE(ok.ok()) << ok.message();
    return r;
  }
  Status commit(StepId step, SequenceId id, uint32_t accepted, const std::vector<quire_symbol>& symbols = {}) {
    quire_commit_entry e{};
    e.sequence = id.value;
    e.num_accepted = accepted;
    e.symbols_position = known(id, accepted);
    e.num_symbols = static_cast<uint32_t>(symbols.size());
    return cache->commit(step, {&e, 1}, symbols);
  }
  // Computes the whole prompt, chunk by chunk; returns the hit.
  uint64_t prefill(SequenceId id, const std::vector<quire_symbol>& prompt) {
    StepId step;
    quire_reserve_result r = reserve(id, prompt, static_cast<uint32_t>(prompt.size()), QUIRE_ENTRY_MATCH, &step);
    EXPECT_EQ(r.code, QUIRE_OK);
    if (r.code != QUIRE_OK) return 0;
    uint64_t hit = r.hit_tokens, done = r.position + r.num_tokens;
    EXPECT_TRUE(commit(step, id, r.num_tokens).ok());
    while (done < prompt.size()) {
      std::vector<quire_symbol> rest(prompt.begin() + static_cast<long>(done), prompt.end());
      r = reserve(id, rest, static_cast<uint32_t>(rest.size()), 0, &step);
      EXPECT_EQ(r.code, QUIRE_OK);
      if (r.code != QUIRE_OK) break;
      done += r.num_tokens;
      EXPECT_TRUE(commit(step, id, r.num_tokens).ok());
    }
    return hit;
  }
  quire_cache_stats stats() const {
    quire_cache_stats s{};
    s.struct_size = sizeof s;
    cache->stats(&s);
    return s;
  }
  quire_sequence_info info(SequenceId id) const {
    quire_sequence_info i{};
    EXPECT_TRUE(cache->sequence_info(id, &i).ok());
    return i;
  }
  ~Fixture() {
    Status ok = cache->verify();
    EXPECT_TRUE(ok.ok()) << ok.message();
  }
};

inline std::vector<quire_symbol> count_from(quire_symbol first, size_t n) {
  std::vector<quire_symbol> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = first + static_cast<quire_symbol>(i);
  return v;
}

inline const GroupSketch kFull{LiveRange{}, 4, 1, 1};
inline const GroupSketch kState{LiveRange{.state = true}, 4, 1, 1};

}  // namespace quire
