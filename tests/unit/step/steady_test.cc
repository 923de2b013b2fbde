// What a cache costs its host: nothing is allocated once it is made, whatever happens to it, and little is for each block.
#include <gtest/gtest.h>
#include <quire/load.h>

#include <array>

#include "fixture.h"
#include "tests/unit/allocations.h"

namespace quire {
namespace {

using test::allocations;

// An engine that allocates nothing itself: prompts that evict each other, hits, forks, copies, drafts, truncation, preemption, aborts,
// loads that fail in part, pins that make room, probes and fills.
class Busy {
 public:
  explicit Busy(std::vector<GroupSketch> groups, uint64_t pages, quire_cache_options options = {}, bool events = false)
      : f_(std::move(groups), pages, 2, options) {
    quire_event_options recorded{};
    recorded.struct_size = sizeof recorded;
    recorded.algorithm = QUIRE_HASH_SHA256_CBOR;
    recorded.ring_bytes = 1 << 16;
    if (events) require(f_.cache->enable_events(recorded));
    for (size_t i = 0; i < text_.size(); ++i) text_[i] = static_cast<quire_symbol>(i * 7 % 1000);
    identity_.struct_size = sizeof identity_;
    if (events) {
      identity_.salt = {"salt", 4};
      identity_.adapter = {"lora", 4};
    }
    auto holder = f_.cache->sequence_create(&identity_);  // the identity stays known
    require(holder.status());
    holder_ = *holder;
    for (const GroupPlan& g : f_.cache->config().groups) all_whole_ = all_whole_ && g.live.everything();
  }

  void round(uint32_t n) {
    const auto prompt = std::span(text_).subspan(n % 4 == 3 ? 0 : n * 13 % 200, 30);  // some of them were there before
    quire_probe_result found{};
    require(f_.cache->probe(&identity_, prompt, &found));
    auto made = f_.cache->sequence_create(&identity_);
    require(made.status());
    const SequenceId a = *made;
    uint32_t had = 0;
    while (had < 22) {  // chunk by chunk
      const uint32_t got = row(a, prompt.subspan(had, 22 - had), 22 - had, had == 0 ? QUIRE_ENTRY_MATCH : 0, 0);
      if (got == 0) break;
      had += got;
    }
    ASSERT_GE(had, 22U) << "a lone sequence fits";
    auto child = f_.cache->sequence_fork(a);
    require(child.status());
    row(*child, prompt.subspan(22, 1), 1, 0, 2);
    row(a, prompt.subspan(22, 1), 1, 0, 0);
    row(a, prompt.subspan(23, 3), 3, 0, 2, 0);  // all drafts are rejected
    abort(a, prompt.subspan(23, 2));
    if (n % 3 == 0) {  // states do not go back, and windows not far
      uint64_t shorter = all_whole_ ? 20 : 0;
      require(f_.cache->sequence_truncate(a, shorter));
      if (shorter == 0) row(a, prompt.first(9), 9, QUIRE_ENTRY_MATCH, 0);
    }
    if (n % 3 == 1) require(f_.cache->sequence_preempt(*child));
    StepId in_flight;
    const uint64_t at = info(a).known;
    reserve(a, prompt.subspan(at, 1), 1, 0, 0, &in_flight);
    require(f_.cache->sequence_finish(a));
    commit_to(in_flight, a, 1);
    require(f_.cache->sequence_finish(*child));
    load(n);
    pin(prompt);
    quire_cache_stats s{};
    f_.cache->stats(&s);
    if (n % 16 == 15) {
      const std::array<int32_t, 2> ids = {1, 2};
      uint64_t forgotten = 0;
      require(f_.cache->forget_blocks(0, ids, &forgotten));
      while (num_pins_ > 0) unpin();
    }
    if (n % 64 == 63) {
      require(f_.cache->reset());
      num_pins_ = 0;
    }
  }

  const Fixture& fixture() const { return f_; }
  uint64_t loads = 0, pins = 0, fills = 0, refused = 0;
  uint64_t told = 0;  // allocations that are documented

 private:
  static void require(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }
  // The last one; a call that fails, since the pin was given up, takes memory for its message.
  void unpin() {
    const uint64_t before = allocations;
    const Status done = f_.cache->unpin(pins_[--num_pins_]);
    if (!done.ok()) told += allocations - before;
  }
  quire_sequence_info info(SequenceId id) {
    quire_sequence_info out{};
    require(f_.cache->sequence_info(id, &out));
    return out;
  }

  uint32_t reserve(SequenceId id, std::span<const quire_symbol> symbols, uint32_t tokens, uint32_t flags, uint32_t ahead, StepId* step) {
    quire_reserve_entry e{};
    e.sequence = id.value;
    e.symbols_position = info(id).known;
    e.num_symbols = static_cast<uint32_t>(symbols.size());
    e.num_tokens = tokens;
    e.num_look_ahead = ahead;
    e.flags = flags;
    quire_reserve_result r{};
    const Status ok = f_.cache->reserve({&e, 1}, symbols, {&r, 1}, step);
    EXPECT_TRUE(ok.ok());
    if (r.code != QUIRE_OK) return ++refused, 0;
    hit_ = r.hit_tokens;
    fill(*step);
    return r.num_tokens;
  }
  void commit_to(StepId step, SequenceId id, uint32_t accepted) {
    if (step.value == 0) return;
    quire_commit_entry c{};
    c.sequence = id.value;
    c.num_accepted = accepted;
    require(f_.cache->commit(step, {&c, 1}, {}));
  }
  // Tokens that the sequence has more; 0: there was no room.
  uint32_t row(SequenceId id, std::span<const quire_symbol> symbols, uint32_t tokens, uint32_t flags, uint32_t ahead,
               uint32_t most = UINT32_MAX) {
    StepId step;
    hit_ = 0;
    const uint32_t n = reserve(id, symbols, tokens, flags, ahead, &step);
    commit_to(step, id, std::min(n, most));
    return n == 0 ? 0 : hit_ + n;
  }
  void abort(SequenceId id, std::span<const quire_symbol> symbols) {
    StepId step;
    if (reserve(id, symbols, 2, 0, 1, &step) > 0) require(f_.cache->abort(step));
  }
  void fill(StepId step) {
    for (uint32_t g = 0; g < f_.cache->config().groups.size(); ++g) {
      const bool state = f_.cache->config().groups[g].is_state();
      quire_fill fill{};
      fill.kind = state ? QUIRE_FILL_STATE_WRITE : QUIRE_FILL_TABLE;
      fill.group = g;
      fill.destination = table_.data();
      fill.capacity = table_.size();
      fill.pitch = 64;
      fill.num_rows = 2;
      uint64_t written = 0;
      require(f_.cache->step_fill(step, fill, &written));
      fill.kind = QUIRE_FILL_UPDATE_INDICES;
      if (!state) require(f_.cache->step_fill(step, fill, &written));
      ++fills;
    }
    uint64_t size = 0;
    require(f_.cache->step_export(step, exported_, &size));
  }
  void load(uint32_t n) {
    auto made = f_.cache->sequence_create(&identity_);
    require(made.status());
    const auto text = std::span(text_).subspan(n * 29 % 150 + 20, 21);
    quire_reserve_entry e{};
    e.sequence = made->value;
    e.num_symbols = 21;
    e.num_tokens = 16;
    e.flags = QUIRE_ENTRY_MATCH;
    quire_reserve_result r{};
    StepId step;
    require(f_.cache->load_begin(e, text, &r, &step));
    if (step.value != 0) {
      const quire_load_failure lost = {0, 0, r.position + 4, 2};
      uint64_t committed = 0;
      require(f_.cache->load_end(step, {&lost, n % 2}, &committed));
      ++loads;
    }
    require(f_.cache->sequence_finish(*made));
  }
  void pin(std::span<const quire_symbol> prompt) {
    quire_pin_options options{};
    options.struct_size = sizeof options;
    options.priority = 1;  // soft: they make room
    uint64_t tokens = 0;
    if (num_pins_ == pins_.size()) unpin();
    const uint64_t before = allocations;
    auto made = f_.cache->pin(&identity_, prompt, options, &tokens);
    told += allocations - before;  // making a pin takes memory for what it holds, as its header says
    if (!made.ok()) return;        // nothing is cached
    pins_[num_pins_++] = *made;
    ++pins;
  }

  Fixture f_;
  quire_identity identity_{};
  SequenceId holder_;
  std::array<quire_symbol, 256> text_{};
  std::array<int32_t, 64 * 2 * 4> table_{};
  std::array<uint8_t, 1 << 14> exported_{};
  std::array<quire_pin_id, 4> pins_{};
  size_t num_pins_ = 0;
  uint32_t hit_ = 0;
  bool all_whole_ = true;
};

// warm: rounds until buffers are as long as they get.
void expect_steady(Busy& busy, bool several, uint32_t warm = 64) {
  for (uint32_t n = 0; n < warm; ++n) busy.round(n);
  const Fixture& f = busy.fixture();
  const quire_cache_stats before = f.stats();
  const uint64_t counted = allocations, told = busy.told;
  for (uint32_t n = warm; n < warm + 512; ++n) busy.round(n);
  const uint64_t more = allocations - counted - (busy.told - told);
  const quire_cache_stats after = f.stats();
  EXPECT_EQ(more, 0U);
  EXPECT_GT(counted, 0U);
  EXPECT_GT(after.evicted_blocks, before.evicted_blocks + 100);
  EXPECT_GE(after.hand_overs, before.hand_overs + (several ? 100 : 0));
  EXPECT_GT(after.forks, before.forks + 500);
  EXPECT_GT(after.copies, before.copies);
  EXPECT_GT(after.preemptions, before.preemptions + 100);
  EXPECT_GT(after.hit_tokens, before.hit_tokens + 100);
  EXPECT_GT(after.pins_given_up, before.pins_given_up);
  EXPECT_GT(after.aborted_steps, before.aborted_steps + 100);
  EXPECT_GT(busy.loads, 100U);
  EXPECT_GT(busy.pins, 100U);
  EXPECT_GT(busy.fills, 2000U);
}

TEST(Steady, OneGroupAllocatesNothingWhateverHappens) {
  Busy busy({kFull}, 24);
  expect_steady(busy, false);
}

TEST(Steady, WindowsAllocateNothingWhateverHappens) {
  Busy busy({kFull, {LiveRange{.window = 8}, 4, 2, 2}, {LiveRange{.sink = 4, .window = 12}, 4, 1, 1}}, 64);
  expect_steady(busy, true);
}

TEST(Steady, StatesAllocateNothingWhateverHappens) {
  quire_cache_options options{};
  options.num_state_branches = 3;
  Busy busy({kFull, {LiveRange{.window = 8}, 4, 1, 1}, kState}, 36, options);
  expect_steady(busy, true);
}

TEST(Steady, EventsAllocateNothingWhateverHappens) {
  quire_cache_options options{};
  options.num_state_branches = 3;
  Busy busy({kFull, {LiveRange{.window = 8}, 4, 1, 1}, kState}, 36, options, true);
  expect_steady(busy, true, 512);
}

// An entry that finds no room, and one of a sequence that is gone: both have a code and no message.
TEST(Steady, ARefusedEntryAllocatesNothing) {
  Fixture f({kFull}, 8);
  const SequenceId first = f.open(), second = f.open(), gone = f.open();
  ASSERT_TRUE(f.cache->sequence_finish(gone).ok());
  f.prefill(first, count_from(1, 20));
  const std::vector<quire_symbol> prompt = count_from(100, 20);
  for (const SequenceId id : {second, gone}) {
    quire_reserve_entry e{};
    e.sequence = id.value;
    e.num_symbols = e.num_tokens = 20;
    e.flags = QUIRE_ENTRY_MATCH;
    quire_reserve_result result{};
    StepId step;
    const uint64_t before = allocations;
    ASSERT_TRUE(f.cache->reserve({&e, 1}, prompt, {&result, 1}, &step).ok());
    EXPECT_EQ(allocations, before);
    EXPECT_EQ(result.code, id == gone ? QUIRE_NOT_FOUND : QUIRE_RESOURCE_EXHAUSTED);
  }
}

// Of plans with as many blocks as groups' shares of the pool are measured with, tables and symbols of sequences included.
TEST(Steady, ABlockOfAGroupTakesAtMost256Bytes) {
  constexpr uint64_t kBlocks = 320000;  // of each group
  const GroupSketch full{LiveRange{}, 16, 1, 1}, window{LiveRange{.window = 1024}, 16, 1, 1}, state{LiveRange{.state = true}, 16, 1, 1};
  const struct {
    const char* name;
    std::vector<GroupSketch> groups;
  } plans[] = {{"1 group", {full}}, {"4 groups", {full, window, window, window}}, {"hybrid", {full, window, state}}};
  for (const auto& plan : plans) {
    quire_cache_options options{};
    options.struct_size = sizeof options;
    options.max_sequences = 4;
    const uint64_t blocks = kBlocks * plan.groups.size();
    auto cache = Cache::create(make_config(plan.groups, blocks + 1, 131072), options);
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    quire_cache_stats stats{};
    (*cache)->stats(&stats);
    const double bytes = static_cast<double>(stats.host_bytes) / static_cast<double>(blocks);
    std::printf("%-8s  %.0f bytes per block and group\n", plan.name, bytes);
    EXPECT_LE(bytes, 256) << plan.name;
    EXPECT_GT(bytes, 64) << plan.name << ": the symbols of a block alone";
  }
}

}  // namespace
}  // namespace quire
