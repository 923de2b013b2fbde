// The share that a superseded boundary is worth.
#include "core/step/superseded_worth.h"

#include <gtest/gtest.h>

#include <set>

namespace quire {
namespace {

TEST(SupersededWorth, OneInEightIsASample) {
  SupersededWorth worth;
  uint32_t samples = 0;
  for (uint32_t i = 0; i < 800; ++i) samples += worth.samples_next() ? 1 : 0;
  EXPECT_EQ(samples, 100u);
}

TEST(SupersededWorth, SamplesAreNotTheSameConversationsInEachTurn) {
  SupersededWorth worth;
  std::set<uint32_t> sampled;
  for (uint32_t i = 0; i < 8 * 80; ++i) {
    if (worth.samples_next()) sampled.insert(i % 80);
  }
  EXPECT_GT(sampled.size(), 40u) << "of 80 conversations that take turns";
}

TEST(SupersededWorth, IsFullUntilSixteenSamplesSaySomethingElse) {
  SupersededWorth worth;
  worth.usual(1000);
  for (uint32_t i = 0; i < 15; ++i) worth.sampled(0);
  EXPECT_EQ(worth.share(), 1);
  worth.sampled(0);
  EXPECT_EQ(worth.share(), 0.125) << "not less: what was learned may be over";
}

TEST(SupersededWorth, IsWhatSamplesSparedRelativeToOthers) {
  SupersededWorth worth;
  for (uint32_t i = 0; i < 5000; ++i) {
    worth.usual(i % 2 == 0 ? 1000 : 0);
    worth.sampled(i % 4 == 0 ? 1000 : 0);
  }
  EXPECT_NEAR(worth.share(), 0.5, 0.05);
  for (uint32_t i = 0; i < 500; ++i) worth.sampled(3000);
  EXPECT_EQ(worth.share(), 1) << "never more than others";
}

TEST(SupersededWorth, IsFullWhereNothingElseSparesAnything) {
  SupersededWorth worth;
  for (uint32_t i = 0; i < 100; ++i) worth.sampled(0);
  EXPECT_EQ(worth.share(), 1);
}

}  // namespace
}  // namespace quire
