// Recurrent states: where rows write them, what aborts and rejected drafts leave, which boundaries are kept. Examples, and a random engine
// whose kernels stamp every state that they write, so that a stale or foreign one shows at the row that reads it.
#include <cstdlib>
#include <map>
#include <random>

#include "core/base/checked.h"
#include "states_fixture.h"

namespace quire {
namespace {

std::vector<int32_t> fill(const Fixture& f, StepId step, quire_fill_kind kind, uint32_t group = 0) {
  std::vector<int32_t> out(64, -7);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = kind;
  fill.group = group;
  fill.destination = out.data();
  fill.capacity = out.size();
  uint64_t written = 0;
  const Status ok = f.cache->step_fill(step, fill, &written);
  EXPECT_TRUE(ok.ok()) << ok.message();
  out.resize(written);
  return out;
}

TEST(States, InPlaceARunningSequenceOwnsOneState) {
  Fixture f({kState}, 16, 2, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId id = f.open();
  StepId step = row(f, id, 1, 3);
  ASSERT_TRUE(f.commit(step, id, 3).ok());
  EXPECT_EQ(f.info(id).num_parts, 1U);
  step = row(f, id, 4, 1);
  EXPECT_EQ(fill(f, step, QUIRE_FILL_STATE_READ), fill(f, step, QUIRE_FILL_STATE_WRITE));
  ASSERT_TRUE(f.commit(step, id, 1).ok());  // 4 tokens: a boundary, kept
  EXPECT_EQ(f.stats().checkpoints, 1U);
  step = row(f, id, 5, 1);
  EXPECT_NE(fill(f, step, QUIRE_FILL_STATE_READ), fill(f, step, QUIRE_FILL_STATE_WRITE));
  ASSERT_TRUE(f.commit(step, id, 1).ok());
  EXPECT_EQ(f.info(id).num_parts, 1U);
  EXPECT_EQ(f.stats().pages_used, 1U);
  EXPECT_EQ(f.stats().pages_evictable, 1U);  // the boundary at 4
}

// States that it had to write into would lie idle until it is preempted.
TEST(States, ASequenceThatIsRolledBackToNothingOwnsNothing) {
  Fixture f({kFull, kState}, 32, 2, states_of(0, 2));
  const SequenceId id = f.open();
  const auto empty = [&](const char* after) {
    EXPECT_EQ(f.info(id).committed, 0u) << after;
    EXPECT_EQ(f.info(id).num_parts, 0u) << after;
    EXPECT_EQ(f.stats().pages_used, 0u) << after;
    EXPECT_TRUE(f.cache->verify().ok()) << after;
  };
  StepId step = row(f, id, 0, 3);
  ASSERT_TRUE(f.commit(step, id, 0).ok());
  empty("a commit that accepts nothing");
  step = row(f, id, 0, 3);
  const StepId later = row(f, id, 3, 1);
  ASSERT_TRUE(f.cache->abort(later).ok());
  EXPECT_GT(f.info(id).num_parts, 0u) << "its first step still writes";
  ASSERT_TRUE(f.cache->abort(step).ok());
  empty("an abort of its first step");
  step = row(f, id, 0, 3, QUIRE_ENTRY_MATCH);
  ASSERT_TRUE(f.cache->abort(step, true).ok());
  empty("an abort of a match");
}

TEST(States, WhatARowInFlightReadsIsNoSpareThoughItsSequenceIsGone) {
  Fixture f({kFull, kState}, 32, 3);
  const SequenceId a = f.open(), b = f.open();
  StepId first = row(f, a, 0, 8);
  ASSERT_TRUE(f.commit(first, a, 8).ok());
  first = row(f, a, 8, 1);  // reads the state behind 8, which is kept
  StepId second, third;
  ASSERT_EQ(f.reserve(b, count_from(0, 9), 1, QUIRE_ENTRY_MATCH, &second).hit_tokens, 8u);
  const std::vector<int32_t> kept = fill(f, second, QUIRE_FILL_STATE_READ, 1);
  ASSERT_EQ(kept, fill(f, first, QUIRE_FILL_STATE_READ, 1));
  uint64_t forgotten = 0;
  const std::vector<int32_t> ids{1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(f.cache->forget_blocks(0, ids, &forgotten).ok());
  ASSERT_GT(forgotten, 2u) << "the state, too";
  ASSERT_TRUE(f.cache->sequence_preempt(b).ok());
  ASSERT_TRUE(f.commit(first, a, 1).ok());
  third = row(f, a, 9, 1);
  EXPECT_NE(fill(f, third, QUIRE_FILL_STATE_WRITE, 1), kept) << "the second step still reads it";
  ASSERT_TRUE(f.commit(second, b, 1).ok());
  ASSERT_TRUE(f.commit(third, a, 1).ok());
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(States, InPlaceTwoStepsInFlightWriteTheSameState) {
  Fixture f({kState}, 16, 2, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId id = f.open();
  const StepId a = row(f, id, 1, 2), b = row(f, id, 3, 1);
  EXPECT_EQ(fill(f, a, QUIRE_FILL_STATE_WRITE), fill(f, b, QUIRE_FILL_STATE_READ));
  EXPECT_EQ(fill(f, a, QUIRE_FILL_STATE_WRITE), fill(f, b, QUIRE_FILL_STATE_WRITE));
  ASSERT_TRUE(f.commit(a, id, 2).ok());
  const StepId c = row(f, id, 4, 1);  // ends at the boundary
  ASSERT_TRUE(f.commit(b, id, 1).ok());
  const StepId d = row(f, id, 5, 1);  // reads what the commit of c will keep: not over it
  EXPECT_EQ(fill(f, c, QUIRE_FILL_STATE_WRITE), fill(f, d, QUIRE_FILL_STATE_READ));
  EXPECT_NE(fill(f, d, QUIRE_FILL_STATE_READ), fill(f, d, QUIRE_FILL_STATE_WRITE));
  ASSERT_TRUE(f.commit(c, id, 1).ok());
  EXPECT_EQ(f.stats().checkpoints, 1U);
  ASSERT_TRUE(f.commit(d, id, 1).ok());
  EXPECT_EQ(f.info(id).num_parts, 1U);
}

TEST(States, AbortInPlaceGoesBackToTheLastKeptBoundaryUnlessNothingRan) {
  Fixture f({kFull, kState}, 32, 2, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 6));  // stops at 4, where the state is kept
  StepId step = row(f, id, 7, 1);
  EXPECT_EQ(fill(f, step, QUIRE_FILL_STATE_READ, 1), fill(f, step, QUIRE_FILL_STATE_WRITE, 1));
  ASSERT_TRUE(f.cache->abort(step, true).ok());
  EXPECT_EQ(f.info(id).committed, 6U);
  step = row(f, id, 7, 1);
  ASSERT_TRUE(f.cache->abort(step).ok());
  EXPECT_EQ(f.info(id).committed, 0U);
  EXPECT_EQ(f.info(id).known, 0U);
  EXPECT_EQ(f.prefill(id, count_from(1, 7)), 4U);
}

TEST(States, AbortOfARowThatReadsACheckpointIsExact) {
  Fixture f({kState}, 32, 2, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 4));
  ASSERT_TRUE(f.cache->abort(row(f, id, 5, 2)).ok());
  EXPECT_EQ(f.info(id).committed, 4U);
}

TEST(States, AnAbortBehindAStepInFlightEmptiesTheSequenceAndItsLateResultIsDropped) {
  Fixture f({kState}, 32, 2, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId id = f.open();
  const StepId a = row(f, id, 1, 2), b = row(f, id, 3, 1);
  ASSERT_TRUE(f.cache->abort(b).ok());
  EXPECT_EQ(f.info(id).reserved, 0U);
  EXPECT_TRUE(f.commit(a, id, 2).ok());
  EXPECT_EQ(f.info(id).committed, 0U);
  EXPECT_EQ(f.stats().pages_used, 0U);
}

TEST(States, NothingAcceptedOfARowWrittenInPlaceEmptiesTheSequence) {
  Fixture f({kState}, 32, 2, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId id = f.open();
  ASSERT_TRUE(f.commit(row(f, id, 1, 2), id, 2).ok());
  ASSERT_TRUE(f.commit(row(f, id, 3, 1), id, 0).ok());
  EXPECT_EQ(f.info(id).committed, 0U);
}

TEST(States, AForkWhileTheStateIsOverwrittenIsRefused) {
  Fixture f({kState}, 32, 2, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId id = f.open();
  ASSERT_TRUE(f.commit(row(f, id, 1, 2), id, 2).ok());
  const StepId step = row(f, id, 3, 1);
  EXPECT_EQ(f.cache->sequence_fork(id).status().code(), QUIRE_FAILED_PRECONDITION);
  ASSERT_TRUE(f.commit(step, id, 1).ok());
  EXPECT_TRUE(f.cache->sequence_fork(id).ok());
  const StepId shared = row(f, id, 4, 1);  // the child's state is not overwritten
  EXPECT_NE(fill(f, shared, QUIRE_FILL_STATE_READ), fill(f, shared, QUIRE_FILL_STATE_WRITE));
}

TEST(States, AnyNumberOfDraftsIsAccepted) {
  for (const uint32_t flags : {0U, QUIRE_CACHE_STATES_IN_PLACE}) {
    for (uint32_t accepted = 1; accepted <= 4; ++accepted) {
      Fixture f({kFull, kState}, 64, 1, states_of(flags, 3));
      const SequenceId id = f.open();
      ASSERT_TRUE(f.commit(row(f, id, 1, 2), id, 2).ok());
      const StepId step = row(f, id, 3, 4);
      const auto writes = fill(f, step, QUIRE_FILL_STATE_WRITES, 1);
      EXPECT_EQ(fill(f, step, QUIRE_FILL_STATE_WRITE_INDPTR, 1), (std::vector<int32_t>{0, 4}));
      EXPECT_EQ(fill(f, step, QUIRE_FILL_STATE_WRITE_ENDS, 1), (std::vector<int32_t>{3, 4, 5, 6}));
      ASSERT_TRUE(f.commit(step, id, accepted).ok());
      EXPECT_EQ(f.info(id).committed, 2U + accepted);
      const StepId next = row(f, id, 20, 1);
      EXPECT_EQ(fill(f, next, QUIRE_FILL_STATE_READ, 1)[0], writes[accepted - 1]);
      ASSERT_TRUE(f.commit(next, id, 1).ok());
      EXPECT_LE(f.info(id).num_parts - ceil_div(f.info(id).committed, 4), flags != 0 ? 4U : 5U);  // branches do not pile up
      EXPECT_EQ(f.stats().checkpoints, 1U);                                                       // at 4, also when the row crossed it
    }
  }
}

TEST(States, WithoutRoomForBothTheSequenceRunsOnAndItsCheckpointGoes) {
  Fixture f({GroupSketch{LiveRange{}, 4, 4, 1}, kState}, 3, 1, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId id = f.open();
  StepId step;
  EXPECT_EQ(f.reserve(id, count_from(1, 4), 4, QUIRE_ENTRY_MATCH, &step, 16).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, id, 4).ok());
  EXPECT_EQ(f.stats().checkpoints, 1U);
  step = row(f, id, 5, 3);
  EXPECT_EQ(fill(f, step, QUIRE_FILL_STATE_READ, 1), fill(f, step, QUIRE_FILL_STATE_WRITE, 1));
  ASSERT_TRUE(f.commit(step, id, 3).ok());
}

TEST(States, ARowOfMoreTokensThanBranchesTakesAllOrNone) {
  Fixture f({kState}, 64, 1, states_of(0, 1));
  const SequenceId id = f.open();
  const StepId step = row(f, id, 1, 3);
  EXPECT_EQ(f.commit(step, id, 2).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(f.commit(step, id, 3).ok());
}

TEST(States, KernelsThatWriteEveryBoundaryKeepThemAllInOneChunk) {
  Fixture f({kFull, kState}, 64, 2, states_of(QUIRE_CACHE_STATES_AT_BLOCKS | QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId id = f.open();
  const StepId step = row(f, id, 1, 14, QUIRE_ENTRY_MATCH);
  EXPECT_EQ(fill(f, step, QUIRE_FILL_STATE_WRITE_ENDS, 1), (std::vector<int32_t>{4, 8, 12, 14}));
  ASSERT_TRUE(f.commit(step, id, 14).ok());
  for (size_t cut : {5, 9, 13, 14}) {
    auto prompt = count_from(1, cut);
    prompt.push_back(99);
    EXPECT_EQ(f.prefill(f.open(), prompt), cut / 4 * 4);
  }
}

TEST(States, AChunkIsNotStoppedWhereTheEngineSaysSo) {
  Fixture f({kFull, kState}, 64);
  StepId step;
  EXPECT_EQ(f.reserve(f.open(), count_from(1, 7), 7, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &step).num_tokens, 7U);
  StepId other;
  EXPECT_EQ(f.reserve(f.open(), count_from(1, 7), 7, QUIRE_ENTRY_MATCH, &other).num_tokens, 4U);
}

// Hits at every `unit` tokens, inside blocks of the groups.
// An engine with drafts, aborts, forks and steps in flight. States carry the hash of the symbols that they stand for.
class StampedEngine {
 public:
  StampedEngine(uint64_t seed) : rng_(seed) {
    const uint32_t flags = (pick(2) != 0 ? QUIRE_CACHE_STATES_IN_PLACE : 0U) | (pick(3) == 0 ? QUIRE_CACHE_STATES_AT_BLOCKS : 0U);
    branches_ = static_cast<uint32_t>(pick(4));
    depth_ = 1 + static_cast<uint32_t>(pick(3));
    f_ = std::make_unique<Fixture>(std::vector<GroupSketch>{kFull, kState, GroupSketch{LiveRange{.state = true}, 4, 2, 3}}, 60 + pick(60),
                                   depth_, states_of(flags, branches_));
    if (pick(2) == 0) return;
    static constexpr uint32_t kBlocks[] = {4, 8, 16};
    block_ = kBlocks[pick(3)];
    const std::vector<GroupSketch> groups{GroupSketch{LiveRange{}, block_, 1 + static_cast<uint32_t>(pick(2)), 1},
                                          GroupSketch{LiveRange{.state = true}, block_, 1, 1},
                                          GroupSketch{LiveRange{.state = true}, block_, 2, 3}};
    hit_inside_blocks(f_.get(), groups, 40 + pick(60), depth_, 1U << pick(3), states_of(flags, branches_));
  }

  void run(uint32_t steps) {
    for (uint32_t i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
      if (lives_.size() < 5 && pick(3) == 0) lives_.push_back(Life{f_->open(), stem()});
      disturb();
      if (flying_.size() < depth_ && pick(4) != 0) reserve();
      if (!flying_.empty() && (flying_.size() == depth_ || pick(2) != 0)) settle();
      const Status ok = f_->cache->verify();
      ASSERT_TRUE(ok.ok()) << ok.message();
    }
  }
  uint64_t reads = 0, drafts = 0, emptied = 0, hits = 0;

 private:
  struct Life {
    SequenceId id;
    std::vector<quire_symbol> tokens;  // all that it will ever see
    uint64_t reserved = 0, known = 0;
    uint32_t in_flight = 0;
  };
  struct Flying {
    StepId id;
    SequenceId sequence;
    std::vector<quire_symbol> tokens;
    uint64_t position = 0;
    uint32_t num_tokens = 0;
  };

  uint64_t pick(uint64_t n) { return rng_() % n; }
  std::vector<quire_symbol> stem() {
    std::vector<quire_symbol> tokens = count_from(static_cast<quire_symbol>(1000 * pick(3)), pick(40));
    while (tokens.size() < 120) tokens.push_back(static_cast<quire_symbol>(pick(50)));
    return tokens;
  }
  Life* find(SequenceId id) {
    for (Life& life : lives_) {
      if (life.id == id) return &life;
    }
    return nullptr;
  }
  // What the cache says a sequence is, after calls that may have emptied it.
  void look(Life* life) {
    const quire_sequence_info info = f_->info(life->id);
    if (info.reserved < life->reserved) ++emptied;
    life->reserved = info.reserved;
    life->known = info.known;
    life->in_flight = info.steps_in_flight;
  }

  void disturb() {
    if (lives_.empty()) return;
    Life& life = lives_[pick(lives_.size())];
    if (life.reserved > 100 || pick(20) == 0) {
      ASSERT_TRUE(f_->cache->sequence_finish(life.id).ok());
      lives_.erase(lives_.begin() + (&life - lives_.data()));
    } else if (pick(15) == 0 && lives_.size() < 7) {
      auto child = f_->cache->sequence_fork(life.id);
      if (!child.ok()) return;
      Life copy = life;
      copy.id = *child;
      lives_.push_back(copy);
      look(&lives_.back());
    }
  }

  void reserve() {
    if (lives_.empty()) return;
    Life& life = lives_[pick(lives_.size())];
    if (life.reserved + 12 > life.tokens.size()) return;
    const bool fresh = life.reserved == 0 && life.known == 0 && life.in_flight == 0;
    const auto tokens = static_cast<uint32_t>(pick(3) == 0 ? 1 + pick(12) : 1 + pick(branches_ + 1));
    const uint64_t end = fresh ? 30 : life.reserved + tokens;
    std::vector<quire_symbol> symbols(life.tokens.begin() + static_cast<long>(life.known),
                                      life.tokens.begin() + static_cast<long>(std::max(end, life.known)));
    StepId step;
    const quire_reserve_result r = f_->reserve(life.id, symbols, tokens, fresh ? QUIRE_ENTRY_MATCH : 0, &step);
    if (r.code == QUIRE_RESOURCE_EXHAUSTED) {
      if (flying_.empty()) {
        ASSERT_TRUE(f_->cache->sequence_preempt(life.id).ok());
        look(&life);
      }
      return;
    }
    ASSERT_EQ(r.code, QUIRE_OK);
    hits += r.hit_tokens > 0 ? 1 : 0;
    flying_.push_back(Flying{step, life.id, life.tokens, r.position, r.num_tokens});
    look(&life);
    kernels(flying_.back());
  }

  uint64_t stamp(const Flying& row, uint64_t tokens) const {
    uint64_t h = 7;
    for (uint64_t i = 0; i < tokens; ++i) h = model::mix(h, row.tokens[i]);
    return h;
  }

  // Group 0: what each position holds, through the table; copies first.
  void attention(const Flying& row) {
    auto copies = f_->cache->step_copies(row.id);
    for (const quire_copy& c : *copies) {
      for (uint32_t t = c.first_token; t < c.first_token + c.num_tokens; ++t) rows_[{c.destination, t}] = rows_[{c.source, t}];
    }
    std::vector<int32_t> table(64, 0);
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = QUIRE_FILL_RAW_TABLE;
    fill.destination = table.data();
    fill.capacity = fill.pitch = table.size();
    uint64_t written = 0;
    ASSERT_TRUE(f_->cache->step_fill(row.id, fill, &written).ok());
    for (uint64_t p = 0; p < row.position + row.num_tokens; ++p) {
      uint64_t& found = rows_[{table[p / block_], static_cast<uint32_t>(p % block_)}];
      const bool old = p < row.position;
      ASSERT_EQ(old ? found : 0, old ? stamp(row, p + 1) : 0) << "token " << p << " of a row at " << row.position;
      found = stamp(row, p + 1);
    }
  }

  void kernels(const Flying& row) {
    attention(row);
    for (uint32_t g : {1U, 2U}) {
      const auto read = fill(*f_, row.id, QUIRE_FILL_STATE_READ, g);
      const auto writes = fill(*f_, row.id, QUIRE_FILL_STATE_WRITES, g);
      const auto ends = fill(*f_, row.id, QUIRE_FILL_STATE_WRITE_ENDS, g);
      const size_t columns = read.size();
      ASSERT_EQ(writes.size(), ends.size() * columns);
      ASSERT_EQ(ends.back(), static_cast<int32_t>(row.position + row.num_tokens));
      for (size_t c = 0; c < columns; ++c) {
        ++reads;
        const bool zero = row.position == 0;
        ASSERT_EQ(zero ? 0 : (memory_[{g, read[c]}]), zero ? 0 : model::mix(stamp(row, row.position), c)) << "group " << g;
        for (size_t i = 0; i < ends.size(); ++i) {
          memory_[{g, writes[c * ends.size() + i]}] = model::mix(stamp(row, static_cast<uint64_t>(ends[i])), c);
        }
      }
    }
  }

  void settle() {
    if (pick(8) == 0) {
      const size_t first = pick(flying_.size());
      ASSERT_TRUE(f_->cache->abort(flying_[first].id).ok());
      flying_.resize(first);
      for (Life& life : lives_) look(&life);
      return;
    }
    const Flying row = flying_.front();
    flying_.erase(flying_.begin());
    Life* life = find(row.sequence);
    uint32_t accepted = row.num_tokens;
    const bool last = life == nullptr || life->in_flight == 1;
    if (last && row.num_tokens <= branches_ + 1 && pick(2) == 0) {
      accepted = static_cast<uint32_t>(pick(row.num_tokens + 1));
      ++drafts;
    }
    ASSERT_TRUE(f_->commit(row.id, row.sequence, accepted).ok());
    if (life != nullptr) look(life);
  }

  std::mt19937_64 rng_;
  std::unique_ptr<Fixture> f_;
  uint32_t branches_ = 0, depth_ = 1, block_ = 4;
  std::map<std::pair<int32_t, uint32_t>, uint64_t> rows_;
  std::vector<Life> lives_;
  std::vector<Flying> flying_;
  std::map<std::pair<uint32_t, int32_t>, uint64_t> memory_;
};

TEST(States, RandomEnginesReadTheStateOfTheirOwnTokens) {
  const char* one = std::getenv("QUIRE_SEED");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  uint64_t reads = 0, drafts = 0, emptied = 0, hits = 0;
  for (uint64_t seed = first; seed < first + (one != nullptr ? 1 : 60); ++seed) {
    StampedEngine engine(seed);
    engine.run(400);
    ASSERT_FALSE(HasFailure()) << "QUIRE_SEED=" << seed;
    reads += engine.reads, drafts += engine.drafts, emptied += engine.emptied, hits += engine.hits;
  }
  std::printf("reads %llu drafts %llu emptied %llu hits %llu\n", static_cast<unsigned long long>(reads),
              static_cast<unsigned long long>(drafts), static_cast<unsigned long long>(emptied), static_cast<unsigned long long>(hits));
  if (one != nullptr) return;
  for (uint64_t n : {reads, drafts, emptied, hits}) EXPECT_GE(n, 100U) << "hardly exercised";
}

}  // namespace
}  // namespace quire
