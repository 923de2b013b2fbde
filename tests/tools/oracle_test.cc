// Method: simulations of caches on traces written by hand, whose hits were worked out on paper; and inequalities that hold on made traces.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "replay/generate.h"
#include "replay/replay_oracle.h"

namespace quire {
namespace {

using replay::Oracle;
using replay::Request;

constexpr uint32_t kUnit = 4;

// A letter is a unit of tokens; one more token follows, so that all letters can be hit.
Request prompt(const std::string& letters) {
  auto text = std::make_shared<std::vector<quire_symbol>>();
  for (const char c : letters) text->insert(text->end(), kUnit, static_cast<quire_symbol>(c));
  text->push_back(0);
  Request request;
  request.input_length = text->size();
  request.output_length = 1;
  request.text = text;
  return request;
}

struct Case {
  std::vector<std::string> prompts;
  uint64_t pool = 0;
  uint64_t checkpoint = 0;  // bytes; a unit has one
  uint32_t concurrency = 1;
};

// Units that each prompt hits.
std::vector<uint32_t> units_hit(Oracle oracle, const Case& one) {
  std::vector<Request> trace;
  for (const std::string& letters : one.prompts) trace.push_back(prompt(letters));
  replay::Options options;
  options.concurrency = one.concurrency;
  replay::Work work;
  work.layers = {{1, 0}};
  const replay::Sizes sizes{kUnit, one.pool, 1, one.checkpoint};
  auto hits = replay::simulate(oracle, trace, replay::content_of(trace, kUnit, UINT64_MAX), sizes, work, options);
  for (uint32_t& hit : hits) {
    EXPECT_EQ(hit % kUnit, 0u);
    hit /= kUnit;
  }
  return hits;
}

using Units = std::vector<uint32_t>;

TEST(Content, EqualPrefixesAreEqualNodes) {
  const std::vector<Request> trace = {prompt("ABC"), prompt("ABD"), prompt("CBA")};
  const replay::Content content = replay::content_of(trace, kUnit, UINT64_MAX);
  EXPECT_EQ(content.paths[0], (Units{0, 1, 2}));
  EXPECT_EQ(content.paths[1], (Units{0, 1, 3}));
  EXPECT_EQ(content.paths[2], (Units{4, 5, 6}));
  EXPECT_EQ(content.parents, (Units{replay::Content::kNone, 0, 1, 1, replay::Content::kNone, 4, 5}));
}

TEST(Oracles, InfiniteHitsAllThatWasComputed) {
  EXPECT_EQ(units_hit(Oracle::kInfinite, {{"AB", "CD", "EFGH", "ABX", "EFG"}, 1, 5}), (Units{0, 0, 0, 2, 3}));
}

TEST(Oracles, WhatAStepComputesIsFoundFromTheNextStepOn) {
  EXPECT_EQ(units_hit(Oracle::kLru, {{"AB", "AB", "AB"}, 100, 0, 2}), (Units{0, 0, 2}));
  EXPECT_EQ(units_hit(Oracle::kLru, {{"AB", "AB", "AB"}, 100, 0, 1}), (Units{0, 2, 2}));
}

TEST(Oracles, LruEvictsTheUnitThatWasUsedLongestAgo) {
  EXPECT_EQ(units_hit(Oracle::kLru, {{"AB", "CD", "AB"}, 4}), (Units{0, 0, 2}));
  EXPECT_EQ(units_hit(Oracle::kLru, {{"AB", "CD", "EF", "AB"}, 4}), (Units{0, 0, 0, 0}));
  EXPECT_EQ(units_hit(Oracle::kLru, {{"AB", "CD", "AB", "EF", "AB"}, 4}), (Units{0, 0, 2, 0, 2}));
  EXPECT_EQ(units_hit(Oracle::kLru, {{"AB", "CD", "E", "AB"}, 4}), (Units{0, 0, 0, 1}));  // the end goes before the begin
}

TEST(Oracles, RunningSequencesTakeTheirStatesFromThePool) {
  EXPECT_EQ(units_hit(Oracle::kLru, {{"AB", "CD", "AB"}, 5, 1}), (Units{0, 0, 2}));
  EXPECT_EQ(units_hit(Oracle::kLru, {{"AB", "CD", "AB"}, 4, 1}), (Units{0, 0, 1}));
}

TEST(Oracles, ARequestWaitsForRoomAndALoneOneNeverDoes) {
  // Both do not fit at once, so the second starts when the first has ended.
  EXPECT_EQ(units_hit(Oracle::kLru, {{"ABC", "ABCD"}, 4, 0, 2}), (Units{0, 0}));
  EXPECT_EQ(units_hit(Oracle::kLru, {{"ABC", "ABDE"}, 4, 0, 2}), (Units{0, 2}));
  EXPECT_EQ(units_hit(Oracle::kLru, {{"ABCDEF", "AB"}, 2}).size(), 2u);
}

TEST(Oracles, ClairvoyantWritesWhereTheNextRequestResumes) {
  const Case branches = {{"AB", "AC", "AD"}, 100, 1};
  EXPECT_EQ(units_hit(Oracle::kClairvoyant, branches), (Units{0, 1, 1}));
  EXPECT_EQ(units_hit(Oracle::kClairvoyant, {{"AB", "ABC", "ABCD"}, 100, 1}), (Units{0, 2, 3}));
}

TEST(Oracles, ClairvoyantPaysForItsCheckpoints) {
  // A, B and the checkpoint behind A take 3 bytes; the second request needs 4 of 5, so two go: the checkpoint and B.
  const Case tight = {{"AB", "CDE", "AC"}, 5, 1};
  EXPECT_EQ(units_hit(Oracle::kClairvoyant, tight), (Units{0, 0, 0}));
  EXPECT_EQ(units_hit(Oracle::kLru, tight), (Units{0, 0, 1}));
  EXPECT_EQ(units_hit(Oracle::kClairvoyant, {{"AB", "CDE", "AC"}, 7, 1}), (Units{0, 0, 1}));
}

TEST(Oracles, MarconiKeepsEndsOfPromptsAndBranchesSeenTwice) {
  EXPECT_EQ(units_hit(Oracle::kMarconi, {{"AB", "ABC", "ABCD"}, 100, 1}), (Units{0, 2, 3}));
  EXPECT_EQ(units_hit(Oracle::kMarconi, {{"AB", "AC", "AD"}, 100, 1}), (Units{0, 0, 1}));
}

TEST(Oracles, MarconiKeepsWhatSavesMorePerByte) {
  // Five prompts with checkpoints of a byte in 16 bytes: the oldest saves most, so XY goes for ZW.
  EXPECT_EQ(units_hit(Oracle::kMarconi, {{"ABCDEFGH", "XY", "UV", "ZW", "ABCDEFGH"}, 16, 1}), (Units{0, 0, 0, 0, 8}));
  EXPECT_EQ(units_hit(Oracle::kMarconi, {{"ABCDEFGH", "XY", "UV", "ZW", "UV"}, 16, 1}), (Units{0, 0, 0, 0, 2}));
  EXPECT_EQ(units_hit(Oracle::kMarconi, {{"ABCDEFGH", "XY", "UV", "ZW", "XY"}, 16, 1}), (Units{0, 0, 0, 0, 0}));
}

TEST(Oracles, WithoutCheckpointsAllBytesAreUnits) {
  const auto trace = replay::generate_documents(200, 3);
  const replay::Content content = replay::content_of(trace, 16, UINT64_MAX);
  const replay::Options options;
  const replay::Sizes sizes{16, 200000, 1, 0};
  EXPECT_EQ(replay::simulate(Oracle::kLru, trace, content, sizes, {}, options),
            replay::simulate(Oracle::kClairvoyant, trace, content, sizes, {}, options));
}

// One at a time, so that all start at the same moments: nobody hits more than what was ever computed, and free checkpoints everywhere
// find the same units or more in a larger pool.
TEST(Oracles, MoreMemoryIsNeverWorseForLru) {
  for (const char* name : {"agents:4", "documents:150", "conversations:400"}) {
    const auto trace = replay::make_trace(name, 7);
    const replay::Content content = replay::content_of(trace, 16, UINT64_MAX);
    replay::Options options;
    options.concurrency = 1;
    replay::Work work;
    work.layers = {{1, 0}};
    const auto all = replay::simulate(Oracle::kInfinite, trace, content, {16, 0, 1, 100}, work, options);
    std::vector<uint32_t> before(trace.size());
    for (const uint64_t pool : {10000, 20000, 40000, 400000}) {
      const replay::Sizes sizes{16, pool, 1, 100};
      const auto lru = replay::simulate(Oracle::kLru, trace, content, sizes, work, options);
      const auto placed = replay::simulate(Oracle::kClairvoyant, trace, content, sizes, work, options);
      const auto marconi = replay::simulate(Oracle::kMarconi, trace, content, sizes, work, options);
      for (size_t r = 0; r < trace.size(); ++r) {
        ASSERT_GE(lru[r], before[r]) << name << " request " << r << " pool " << pool;
        ASSERT_GE(all[r], lru[r]) << name << " request " << r << " pool " << pool;
        ASSERT_GE(all[r], placed[r]) << name << " request " << r << " pool " << pool;
        ASSERT_GE(all[r], marconi[r]) << name << " request " << r << " pool " << pool;
      }
      before = lru;
    }
    EXPECT_EQ(before, all) << name;
  }
}

TEST(Work, GrowsWithDepthUpToTheWindow) {
  replay::Work work;
  work.layers = {{1, 0}};
  EXPECT_EQ(work.of(3), 1 + 2 + 3);
  work.layers = {{10, 2}};
  EXPECT_EQ(work.of(4), 10 * (1 + 2 + 2 + 2));
  work.per_token = 100;
  EXPECT_EQ(work.of(1), 110);
}

TEST(Work, HitsAreCountedByTokensAndByCompute) {
  const std::vector<Request> trace = {prompt("A"), prompt("A")};  // 5 tokens each: 15 pairs
  replay::Work work;
  work.layers = {{1, 0}};
  const replay::Hits hits = replay::sum_hits(trace, {0, 4}, work);
  EXPECT_EQ(hits.hit_tokens, 4u);
  EXPECT_DOUBLE_EQ(hits.hit_share, 0.4);
  EXPECT_DOUBLE_EQ(hits.compute_saved, 10.0 / 30);
}

TEST(Oracles, HaveNames) {
  for (const char* name : {"infinite", "lru", "clairvoyant", "marconi"}) EXPECT_STREQ(replay::name_of(replay::oracle_of(name)), name);
  EXPECT_THROW(replay::oracle_of("belady"), std::invalid_argument);
}

}  // namespace
}  // namespace quire
