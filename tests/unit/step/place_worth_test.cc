// Whether states that are kept for their place alone are worth it.
#include "core/step/place_worth.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

uint32_t kept(PlaceWorth* worth, uint32_t of) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < of; ++i) n += worth->keeps_next() ? 1 : 0;
  return n;
}

TEST(PlaceWorth, WithoutLimitAllAreKept) {
  PlaceWorth worth;
  for (int i = 0; i < 10'000; ++i) worth.lost();
  EXPECT_EQ(kept(&worth, 100), 100u);
}

TEST(PlaceWorth, NobodyUsesThemSoOneInEightIsKept) {
  PlaceWorth worth;
  worth.prepare(6400, 1024);
  EXPECT_EQ(kept(&worth, 100), 100u) << "nothing is known yet";
  for (int i = 0; i < 170; ++i) worth.lost();
  EXPECT_EQ(kept(&worth, 100), 100u) << "too little is known";
  for (int i = 0; i < 30; ++i) worth.lost();
  EXPECT_EQ(kept(&worth, 800), 100u);
}

TEST(PlaceWorth, ASmallPoolLearnsFromFewer) {
  PlaceWorth worth, least;
  worth.prepare(6400, 128);  // of 32
  least.prepare(6400, 1);    // of 8
  for (int i = 0; i < 18; ++i) worth.lost();
  EXPECT_EQ(kept(&worth, 100), 100u);
  for (int i = 0; i < 6; ++i) worth.lost();
  EXPECT_EQ(kept(&worth, 800), 100u);
  for (int i = 0; i < 4; ++i) least.lost();
  EXPECT_EQ(kept(&least, 100), 100u);
  for (int i = 0; i < 3; ++i) least.lost();
  EXPECT_EQ(kept(&least, 800), 100u);
}

TEST(PlaceWorth, WhatIsUsedAgainIsKeptAgain) {
  PlaceWorth worth;
  worth.prepare(6400, 1024);
  for (int i = 0; i < 10'000; ++i) worth.lost();
  worth.used(8192);  // 32 tokens for each of the last 256: more than a 256th of 6,400
  EXPECT_EQ(kept(&worth, 100), 100u);
  // One in 100 that spares 8,192 tokens pays, one in 1,000 does not.
  for (int i = 1; i < 10'000; ++i) i % 100 == 0 ? worth.used(8192) : worth.lost();
  EXPECT_EQ(kept(&worth, 100), 100u);
  for (int i = 1; i < 10'000; ++i) i % 1000 == 0 ? worth.used(8192) : worth.lost();
  EXPECT_EQ(kept(&worth, 800), 100u);
}

}  // namespace
}  // namespace quire
