// The memory of boundaries that lost their states, against a list of what went.
#include "core/step/gone_boundaries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace quire {
namespace {

TEST(GoneBoundaries, AreTheLastThatWent) {
  std::mt19937_64 draw(3);
  for (const uint64_t count : {1u, 2u, 7u, 64u}) {
    GoneBoundaries gone;
    EXPECT_FALSE(gone.prepared());
    gone.prepare(count);
    EXPECT_TRUE(gone.prepared());
    std::deque<GoneBoundaries::Boundary> all;  // oldest first
    // Hashes that share their buckets, with many hints, and 0.
    std::vector<uint64_t> hashes = {0};
    for (uint64_t i = 1; i < 3 * count; ++i) hashes.push_back((i % 3) | i << 56);
    for (uint32_t when = 0; when < 2000; ++when) {
      const GoneBoundaries::Boundary one{hashes[draw() % hashes.size()], GoneBoundaries::kClock - when, draw() % 2 == 0};
      gone.remember(one);
      all.push_back(one);
      if (all.size() > count) all.pop_front();
      for (const uint64_t hash : hashes) {
        const auto wanted = std::find_if(all.rbegin(), all.rend(), [&](const auto& b) { return b.hash == hash; });
        const auto found = gone.find(hash);
        ASSERT_EQ(found.has_value(), wanted != all.rend()) << count << ": " << hash << " at " << when;
        ASSERT_TRUE(!found || gone.hints().may_have(hash)) << count << ": " << hash << " at " << when;
        if (!found) continue;
        EXPECT_EQ(found->when, wanted->when);
        EXPECT_EQ(found->for_the_share, wanted->for_the_share);
      }
    }
  }
}

// Most of what never went is known from the hints, however much went before.
TEST(GoneBoundaries, AreSeldomSearchedForNothing) {
  std::mt19937_64 draw(5);
  constexpr uint64_t kCount = 4096, kAsked = 100000;
  GoneBoundaries gone;
  gone.prepare(kCount);
  for (uint64_t i = 0; i < 10 * kCount; ++i) gone.remember({draw(), 0, false});
  uint64_t searches = 0;
  for (uint64_t i = 0; i < kAsked; ++i) searches += gone.hints().may_have(draw()) ? 1 : 0;
  EXPECT_LE(searches, kAsked / 30);
}

TEST(GoneBoundaries, AreAsManyAsTheirNumbersAllow) {
  for (const uint64_t count : {uint64_t{GoneBoundaries::kMost}, uint64_t{1} << 20}) {
    GoneBoundaries gone;
    gone.prepare(count);
    constexpr uint32_t kMore = 1000;
    const auto hash_of = [](uint64_t i) { return i * 0x9e3779b97f4a7c15; };
    for (uint32_t i = 0; i < GoneBoundaries::kMost + kMore; ++i) gone.remember({hash_of(i), i, false});
    for (uint32_t i = 0; i < GoneBoundaries::kMost + kMore; ++i) {
      const auto found = gone.find(hash_of(i));
      ASSERT_EQ(found.has_value(), i >= kMore) << i;
      if (found) {
        ASSERT_EQ(found->when, i);
      }
    }
  }
}

}  // namespace
}  // namespace quire
