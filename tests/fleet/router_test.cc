// Which engine a request goes to. Method: examples, and many draws.
#include "samples/fleet/router.h"

#include <gtest/gtest.h>

#include <map>

namespace fleet {
namespace {

constexpr bool kFree = true, kBusy = false;

std::map<size_t, int> draws(const std::vector<Candidate>& engines) {
  std::mt19937_64 random(1);
  std::map<size_t, int> counts;
  for (int i = 0; i < 600; ++i) ++counts[choose_by_prefix(engines, 100, &random).value()];
  return counts;
}

TEST(FleetRouter, TheLongestPrefixWins) {
  std::mt19937_64 random(1);
  EXPECT_EQ(choose_by_prefix({{kFree, 0, 0}, {kFree, 64, 0}, {kFree, 32, 0}}, 100, &random), 1u);
}

TEST(FleetRouter, WorkCountsAgainstAPrefix) {
  std::mt19937_64 random(1);
  EXPECT_EQ(choose_by_prefix({{kFree, 0, 0}, {kFree, 64, 63}}, 100, &random), 1u);
  EXPECT_EQ(choose_by_prefix({{kFree, 0, 0}, {kFree, 64, 65}}, 100, &random), 0u);
  // Where the prompt is done at the same time, less is computed with the prefix.
  EXPECT_EQ(choose_by_prefix({{kFree, 0, 0}, {kFree, 64, 64}}, 100, &random), 1u);
}

TEST(FleetRouter, EqualEnginesShareTheRequests) {
  const auto counts = draws({{kFree, 64, 10}, {kFree, 64, 10}, {kFree, 0, 10}});
  EXPECT_GT(counts.at(0), 200);
  EXPECT_GT(counts.at(1), 200);
  EXPECT_FALSE(counts.contains(2));
}

TEST(FleetRouter, WhoIsNotFreeGetsNothing) {
  std::mt19937_64 random(1);
  EXPECT_EQ(choose_by_prefix({{kBusy, 99, 0}, {kFree, 0, 500}}, 100, &random), 1u);
  EXPECT_EQ(choose_by_prefix({{kBusy, 99, 0}, {kBusy, 0, 0}}, 100, &random), std::nullopt);
  EXPECT_EQ(choose_random({{kBusy, 99, 0}}, &random), std::nullopt);
  EXPECT_EQ(choose_random({}, &random), std::nullopt);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(choose_random({{kBusy, 0, 0}, {kFree, 0, 0}, {kBusy, 0, 0}}, &random), 1u);
}

TEST(FleetRouter, WithoutARouterEveryEngineIsAsLikely) {
  std::mt19937_64 random(1);
  std::map<size_t, int> counts;
  for (int i = 0; i < 600; ++i) ++counts[choose_random({{kFree, 99, 0}, {kFree, 0, 0}, {kFree, 0, 900}}, &random).value()];
  for (size_t e = 0; e < 3; ++e) EXPECT_GT(counts.at(e), 130);
}

}  // namespace
}  // namespace fleet
