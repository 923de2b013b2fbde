// Steps as bytes: a follower answers everything as its leader does, bit for bit, and what is not an exported step is an error and changes
// nothing. Methods: model (the leader beside it, random hybrid steps), exhaustive (every byte changed, every length cut), example.
#include <random>
#include <string>

#include "core/step/step_bytes.h"
#include "states_fixture.h"
#include "tests/model/follow.h"
#include "tests/unit/allocations.h"

namespace quire {
namespace {

using model::Follow;
using test::allocations;

const std::vector<GroupSketch> kHybrid{{LiveRange{}, 4, 1, 1}, {LiveRange{.window = 10}, 4, 2, 2}, {LiveRange{.state = true}, 8, 3, 3}};

quire_cache_options options_of(uint32_t depth, uint32_t branches) {
  quire_cache_options options{};
  options.struct_size = sizeof options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 64;
  options.step_depth = depth;
  options.num_state_branches = branches;
  return options;
}

// Sequences that come, go on by one or many tokens, fork, are preempted and finished while steps of them are in flight.
class Story {
 public:
  explicit Story(uint32_t seed)
      : random_(seed), f_(kHybrid, 96, 3, states_of(0, 2)), follow_(make_config(kHybrid, 96, 128), options_of(3, 2)) {}

  void step() {
    if (running_.size() < 6 && random_() % 2 == 0) running_.push_back({f_.open(), random_() % 3});
    reserve();
    check();
    if (!running_.empty() && random_() % 8 == 0) disturb();
    check();
    if (in_flight_.size() == 3 || (!in_flight_.empty() && random_() % 3 == 0)) finish();
    check();
  }
  uint64_t compared() const { return compared_; }

 private:
  struct One {
    SequenceId id;
    uint64_t text = 0;
    uint32_t reserved = 0;
  };
  struct InFlight {
    StepId id;
    std::vector<quire_commit_entry> rows;
  };

  void reserve() {
    std::vector<quire_reserve_entry> entries;
    std::vector<quire_symbol> symbols;
    std::vector<size_t> who;
    for (size_t i = 0; i < running_.size(); ++i) {
      const One& one = running_[i];
      const auto most = static_cast<uint32_t>(std::min<uint64_t>(120 - one.reserved, one.reserved == 0 ? 30 : 1 + random_() % 3));
      if (most == 0 || random_() % 5 == 0) continue;
      quire_reserve_entry e{};
      e.sequence = one.id.value;
      e.symbols_position = one.reserved;
      e.symbols_offset = symbols.size();
      e.num_symbols = e.num_tokens = most;
      e.flags = one.reserved == 0 ? QUIRE_ENTRY_MATCH : 0;
      for (uint32_t t = 0; t < most; ++t) symbols.push_back(static_cast<quire_symbol>(1000 * one.text + one.reserved + t));
      entries.push_back(e);
      who.push_back(i);
    }
    if (in_flight_.size() == 3 || entries.empty()) return;
    std::vector<quire_reserve_result> results(entries.size());
    InFlight flying;
    ASSERT_TRUE(f_.cache->reserve(entries, symbols, results, &flying.id).ok());
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].code != QUIRE_OK) continue;
      running_[who[i]].reserved = static_cast<uint32_t>(results[i].position + results[i].num_tokens);
      quire_commit_entry row{};
      row.sequence = entries[i].sequence;
      row.num_accepted = results[i].num_tokens;
      flying.rows.push_back(row);
    }
    if (flying.id.value != 0) in_flight_.push_back(flying);
  }
  // Somebody goes, or a copy comes, while steps are in flight.
  void disturb() {
    const size_t i = random_() % running_.size();
    if (random_() % 3 == 0 && running_.size() < 6) {
      auto child = f_.cache->sequence_fork(running_[i].id);
      ASSERT_TRUE(child.ok()) << child.status().message();
      running_.push_back({*child, running_[i].text, static_cast<uint32_t>(f_.info(*child).reserved)});
    } else if (random_() % 2 == 0) {
      ASSERT_TRUE(f_.cache->sequence_preempt(running_[i].id).ok());
      running_[i].reserved = 0;
    } else {
      ASSERT_TRUE(f_.cache->sequence_finish(running_[i].id).ok());
      running_.erase(running_.begin() + static_cast<long>(i));
    }
  }
  void finish() {
    if (random_() % 10 == 0) {
      ASSERT_TRUE(f_.cache->abort(in_flight_.front().id).ok());
      in_flight_.clear();
      for (One& one : running_) one.reserved = static_cast<uint32_t>(f_.info(one.id).reserved);
      return;
    }
    ASSERT_TRUE(f_.cache->commit(in_flight_.front().id, in_flight_.front().rows, {}).ok());
    in_flight_.erase(in_flight_.begin());
  }
  // All steps in flight, as they are now: later ones may have copied what earlier ones read.
  void check() {
    for (const InFlight& flying : in_flight_) {
      ASSERT_EQ(follow_.take(*f_.cache, flying.id), "");
      ASSERT_EQ(follow_.compare(*f_.cache, flying.id), "");
      ++compared_;
    }
  }

  std::mt19937 random_;
  Fixture f_;
  Follow follow_;
  std::vector<One> running_;
  std::vector<InFlight> in_flight_;
  uint64_t compared_ = 0;
};

TEST(Follower, AnswersEveryArrayAsItsLeader) {
  uint64_t compared = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Story run(seed);
    for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) run.step();
    if (testing::Test::HasFatalFailure()) return;
    compared += run.compared();
  }
  EXPECT_GT(compared, 2000u);
}

// A leader with a step of one prompt in flight, and a follower.
struct Pair {
  Fixture f{kHybrid, 64, 2, states_of(0, 2)};
  Follow follow{make_config(kHybrid, 64, 128), options_of(2, 2)};
  SequenceId id = f.open();
  StepId step = row(f, id, 0, 30, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP), last;

  Pair() { EXPECT_EQ(follow.take(*f.cache, step), ""); }
  ~Pair() { EXPECT_TRUE(f.cache->abort(step).ok()); }
  // Ids are of the plan, whatever the bytes were.
  // Where kernels write: nowhere, or behind the null page.
  static void check_written(uint32_t group, int32_t id, int32_t nowhere) {
    EXPECT_TRUE(id == nowhere || id >= static_cast<int32_t>(kHybrid[group].parts_per_page)) << id << ", group " << group;
  }
  void check_ids() {
    std::vector<int32_t> ids(1024, 0);
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.destination = ids.data();
    fill.capacity = ids.size();
    uint64_t written = 0;
    for (uint32_t g = 0; g < kHybrid.size(); ++g) {
      fill.group = g;
      fill.kind = kHybrid[g].live.state ? QUIRE_FILL_STATE_WRITES : QUIRE_FILL_RAW_TABLE;
      fill.pitch = kHybrid[g].live.state ? 0 : 32;
      ASSERT_TRUE(follow.follower().step_fill(last, {&fill, 1}, &written).ok());
      for (uint64_t i = 0; i < written; ++i) {
        EXPECT_GE(ids[i], -1);
        EXPECT_LT(ids[i], static_cast<int32_t>(64 * kHybrid[g].parts_per_page)) << "group " << g;
        check_written(g, ids[i], kHybrid[g].live.state ? -1 : 0);
      }
    }
    auto copies = follow.follower().step_copies(last);
    auto zeroes = follow.follower().step_zeroes(last);
    ASSERT_TRUE(copies.ok() && zeroes.ok());
    for (const quire_copy& copy : *copies) check_written(copy.group, copy.destination, -1);
    for (const quire_zero& zero : *zeroes) {
      if (zero.group != 0xffffffffU) check_written(zero.group, zero.id, -1);
      EXPECT_GT(zero.id, 0);
    }
  }
  Status import(const std::vector<uint8_t>& bytes) {
    StepId taken(77);  // kept on errors
    Status status = follow.follower().step_import(bytes, &taken);
    EXPECT_TRUE(status.ok() || taken.value == 77u) << "an output changed";
    last = taken;
    return status;
  }
};

TEST(Follower, EveryChangedByteAndEveryCutIsAnErrorAndChangesNothing) {
  Pair p;
  const std::vector<uint8_t> bytes = p.follow.bytes();
  ASSERT_GT(bytes.size(), kStepHeaderBytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const uint8_t flip : {uint8_t{0x01}, uint8_t{0x80}, uint8_t{0xff}}) {
      std::vector<uint8_t> wrong = bytes;
      wrong[i] ^= flip;
      EXPECT_FALSE(p.import(wrong).ok()) << "byte " << i;
    }
    EXPECT_EQ(p.import({bytes.begin(), bytes.begin() + static_cast<long>(i)}).code(), QUIRE_DATA_LOSS) << i << " bytes";
  }
  std::vector<uint8_t> longer = bytes;
  longer.push_back(0);
  EXPECT_EQ(p.import(longer).code(), QUIRE_DATA_LOSS);
  std::vector<uint8_t> later = bytes;
  later[4] = 99;
  EXPECT_EQ(p.import(later).code(), QUIRE_INCOMPATIBLE_ABI);
  EXPECT_EQ(p.follow.compare(*p.f.cache, p.step), "") << "what was there before answers as before";
}

TEST(Follower, IdsAreOfThePlanOrNone) {
  const auto read = [](const std::vector<int32_t>& ids, int32_t least, uint64_t limit) {
    std::vector<uint8_t> bytes(256);
    ByteWriter writer(bytes);
    IdWriter list(&writer);
    for (const int32_t id : ids) list.put(id);
    list.finish();
    ByteReader reader(std::span<const uint8_t>(bytes).first(writer.size()));
    std::vector<int32_t> out(ids.size());
    reader.ids(out, least, limit);
    return reader.at_end() && out == ids;
  };
  EXPECT_TRUE(read({0, 1, 2, 63, 7, 7, 7}, 0, 64));
  EXPECT_TRUE(read({-1, 63}, -1, 64));
  for (const int32_t wrong : {-2, 64, 65, 1 << 20, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(read({wrong}, -1, 64)) << wrong;
    EXPECT_FALSE(read({62, 63, wrong, 1}, -1, 64)) << wrong;
  }
  EXPECT_FALSE(read({-1}, 0, 64));
  EXPECT_FALSE(read({61, 62, 63, 64, 65}, 0, 64)) << "within a run";
}

// Whoever makes bytes can make their checksum, too.
TEST(Follower, WhatIsSealedAndMakesNoSenseIsAnErrorOrAStepInsideItsLimits) {
  Pair p;
  const std::vector<uint8_t> bytes = p.follow.bytes();
  uint64_t refused = 0;
  for (size_t i = kStepHeaderBytes; i < bytes.size(); ++i) {
    for (uint32_t to = 0; to < 256; ++to) {
      if (to == bytes[i]) continue;
      std::vector<uint8_t> wrong = bytes;
      wrong[i] = static_cast<uint8_t>(to);
      seal(wrong);
      if (p.import(wrong).ok()) {
        p.check_ids();
      } else {
        ++refused;
      }
    }
    std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<long>(i));
    seal(cut);
    EXPECT_FALSE(p.import(cut).ok()) << i << " bytes";
  }
  EXPECT_GT(refused, bytes.size());
  EXPECT_EQ(p.follow.take(*p.f.cache, p.step), "");
  EXPECT_EQ(p.follow.compare(*p.f.cache, p.step), "");
}

TEST(Follower, NamesWhatAnotherPlanHasOtherwise) {
  Pair p;
  const auto refused = [&](const std::shared_ptr<const Config>& config, const char* part) {
    Follow other(config, options_of(2, 2));
    StepId step;
    const Status status = other.follower().step_import(p.follow.bytes(), &step);
    EXPECT_EQ(status.code(), QUIRE_INVALID_ARGUMENT);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  refused(make_config(kHybrid, 65, 128), "num_pages is 64 at the leader, 65 here");
  refused(make_config(kHybrid, 64, 129), "max_model_len is 128 at the leader, 129 here");
  refused(make_config({kHybrid[0], kHybrid[1]}, 64, 128), "number of groups is 3 at the leader, 2 here");
  std::vector<GroupSketch> groups = kHybrid;
  groups[1].parts_per_page = 3;
  refused(make_config(groups, 64, 128), "parts_per_page of group 1 is 2 at the leader, 3 here");
  auto moved = std::make_shared<Config>(*make_config(kHybrid, 64, 128));
  moved->shards[0].page_bytes += 64;
  refused(moved, "layers lie elsewhere");
}

TEST(Follower, ItsLimitsAreNamed) {
  Pair p;
  const auto refused = [&](auto change, const char* part) {
    quire_cache_options options = options_of(2, 2);
    change(&options);
    Follow other(make_config(kHybrid, 64, 128), options);
    StepId step;
    const Status status = other.follower().step_import(p.follow.bytes(), &step);
    EXPECT_EQ(status.code(), QUIRE_RESOURCE_EXHAUSTED);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  refused([](auto* o) { o->max_tokens_per_step = 29; }, "max_tokens_per_step: the step has 30, the follower has room for 29");
  SequenceId more = p.f.open();
  ASSERT_TRUE(p.f.cache->abort(p.step).ok());
  std::vector<quire_reserve_entry> entries(2);
  for (quire_reserve_entry& e : entries) e.num_tokens = e.num_symbols = 3;
  entries[0].sequence = p.id.value;
  entries[0].symbols_position = p.f.info(p.id).known;
  entries[1].sequence = more.value;
  std::vector<quire_reserve_result> results(2);
  ASSERT_TRUE(p.f.cache->reserve(entries, count_from(0, 3), results, &p.step).ok());
  ASSERT_EQ(p.follow.take(*p.f.cache, p.step), "");
  refused([](auto* o) { o->max_sequences = 1; }, "max_entries_per_step: the step has 2, the follower has room for 1");
  const auto few_states = [](auto* o) {
    o->max_sequences = 2;
    o->num_state_branches = 0;
  };
  refused(few_states, "num_state_branches: a row writes 3 states, the follower's options allow one per row");
  // Lists of states, but for fewer than six: two a row, and none at boundaries.
  const auto short_lists = [&](auto* o) {
    few_states(o);
    o->max_tokens_per_step = 6;
    o->flags |= QUIRE_CACHE_STATES_AT_BLOCKS;
  };
  refused(short_lists, "num_state_branches: states written");
}

TEST(Follower, KeepsTheLastStepsAndTheLatestOfEach) {
  Fixture f({kFull}, 64, 2);
  Follow follow(make_config({kFull}, 64, 128), options_of(2, 0));
  const SequenceId id = f.open();
  quire_step_info info{};
  std::vector<StepId> steps(3);
  for (StepId& step : steps) {
    f.reserve(id, count_from(0, 3), 3, 0, &step);
    ASSERT_EQ(follow.take(*f.cache, step), "");
    ASSERT_EQ(follow.take(*f.cache, step), "") << "again: it takes its own place";
    ASSERT_EQ(follow.compare(*f.cache, step), "");
    ASSERT_TRUE(f.commit(step, id, 3).ok());
  }
  EXPECT_EQ(follow.follower().step_info(steps[0], &info).code(), QUIRE_NOT_FOUND);
  EXPECT_TRUE(follow.follower().step_info(steps[1], &info).ok());
  EXPECT_TRUE(follow.follower().step_info(steps[2], &info).ok());
  EXPECT_EQ(follow.follower().step_info(StepId(0), &info).code(), QUIRE_NOT_FOUND);
}

TEST(Follower, ALongTableInConsecutiveBlocksIsAFewBytes) {
  Pair p;
  EXPECT_LT(p.follow.bytes().size(), 200u);
  uint64_t size = 0;
  std::vector<uint8_t> small(p.follow.bytes().size() - 1, 0xee);
  const Status status = p.f.cache->step_export(p.step, small, &size);
  EXPECT_EQ(status.code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(size, small.size() + 1);
  EXPECT_EQ(small, std::vector<uint8_t>(small.size(), 0xee)) << "nothing is written where it is too small";
}

TEST(Follower, NothingIsAllocatedForAStep) {
  Pair p;
  std::vector<uint8_t> bytes(4096);
  std::vector<int32_t> table(256);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_TABLE;
  fill.destination = table.data();
  fill.capacity = table.size();
  fill.pitch = 32;
  uint64_t size = 0, written = 0;
  const uint64_t before = allocations;
  for (int i = 0; i < 4; ++i) {
    StepId taken;
    ASSERT_TRUE(p.f.cache->step_export(p.step, bytes, &size).ok());
    ASSERT_TRUE(p.follow.follower().step_import(std::span(bytes).first(size), &taken).ok());
    ASSERT_TRUE(p.follow.follower().step_fill(taken, {&fill, 1}, &written).ok());
  }
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace quire
