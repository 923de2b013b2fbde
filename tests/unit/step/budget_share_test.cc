// The learned share of states: how far losses move it.
#include "core/step/budget_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "tests/unit/prefix/small_index.h"

namespace quire {
namespace {

constexpr uint32_t kTokensOfUnit = 4;
constexpr uint64_t kBoundaryBytes = 1600, kPoolBytes = 1024 * kBoundaryBytes;
constexpr uint64_t kLeastStep = kBoundaryBytes / 16, kFullStep = kBoundaryBytes;  // steps
constexpr uint64_t kQuarterBytes = kPoolBytes / 4;

// One prompt of two units. Its first boundary went for the share, and its keys and values are
// cached; or its second one went with what was evicted.
class Losses {
 public:
  explicit Losses(uint64_t pool = kPoolBytes)
      : index_(test::small_index(kTokensOfUnit, 16)), root_(*index_.open_root("a")), share_(index_) {
    const std::initializer_list<quire_symbol> prompt = {1, 1, 1, 1, 2, 2, 2, 2};
    const quire_symbol* const units[] = {prompt.begin(), prompt.begin() + kTokensOfUnit};
    NodeId nodes[] = {NodeId(kNone), NodeId(kNone)};
    EXPECT_EQ(index_.extend(index_.root_node(root_), units, nodes).count, 2u);
    first_ = nodes[0];
    second_ = nodes[1];
    share_.prepare(pool, kBoundaryBytes / 2, kBoundaryBytes);
    EXPECT_EQ(share_.bytes(), std::max(pool / 4, 2 * kBoundaryBytes));
  }
  // Each costs so many units.
  void by_share(uint32_t units = 1) {
    const NodeId node = units == 1 ? first_ : second_;
    share_.went(node, true);
    share_.learn(node, 0, units * kTokensOfUnit, 0);
  }
  void by_pool(uint32_t units = 1) {
    share_.went(second_, false);
    share_.learn(second_, (2 - units) * kTokensOfUnit, kTokensOfUnit, 0);
  }
  // Of one prompt: one unit by the share, two by the pool.
  void by_both() {
    share_.went(first_, true);
    share_.went(second_, false);
    share_.learn(second_, 0, kTokensOfUnit, 0);
  }
  void none() { share_.learn(second_, 2 * kTokensOfUnit, 2 * kTokensOfUnit, 0); }
  // A loss by the share, and so many boundaries that go for it before the prompt comes.
  void by_share_before(uint64_t others) {
    share_.went(first_, true);
    for (uint64_t n = 0; n < others; ++n) share_.went(second_, true);
    share_.learn(first_, 0, kTokensOfUnit, 0);
  }
  // A loss by the pool once `before` pages have been evicted; the prompt comes once `after` have been.
  void by_pool_between(uint64_t before, uint64_t after) {
    share_.learn(second_, 2 * kTokensOfUnit, 2 * kTokensOfUnit, before);
    share_.went(second_, false);
    share_.learn(second_, kTokensOfUnit, kTokensOfUnit, after);
  }
  uint64_t bytes() const { return share_.bytes(); }

 private:
  PrefixIndex index_;
  uint32_t root_;
  BudgetShare share_;
  NodeId first_{kNone}, second_{kNone};
};

TEST(BudgetShare, LossesOfOneSideMoveItByFullSteps) {
  Losses more, less;
  for (uint64_t n = 1; n <= 20; ++n) {
    more.none();
    more.by_share();
    less.by_pool();
    less.none();
    EXPECT_EQ(more.bytes(), kQuarterBytes + n * kFullStep) << n;
    EXPECT_EQ(less.bytes(), kQuarterBytes - n * kFullStep) << n;
  }
}

TEST(BudgetShare, ALargerLossMovesItByMore) {
  Losses more, less;
  for (uint32_t n = 0; n < 200; ++n) more.by_share();
  const uint64_t before = more.bytes();
  more.by_share(2);
  EXPECT_NEAR(static_cast<double>(more.bytes() - before), 2. * kFullStep / 1.01, 1) << "twice the usual loss, which includes this one";
  less.by_pool(2);
  EXPECT_EQ(less.bytes(), kQuarterBytes - kFullStep) << "the first one is the usual one";
}

TEST(BudgetShare, OfTwoLossesOfOnePromptTheDifferenceCounts) {
  Losses losses;
  losses.by_both();
  EXPECT_EQ(losses.bytes(), kQuarterBytes - kFullStep / 2);
}

// Time is counted in sixteenths of the pool that went. What went in one is remembered to the end of the next.
TEST(BudgetShare, LossesOfLongAgoMoveNothing) {
  constexpr uint64_t kBoundaries = 1024 / 16, kPages = 2 * kBoundaries;
  const auto by_share = [](uint64_t others) {
    Losses losses;
    losses.by_share_before(others);
    return losses.bytes();
  };
  EXPECT_EQ(by_share(2 * kBoundaries - 2), kQuarterBytes + kFullStep);
  EXPECT_EQ(by_share(2 * kBoundaries - 1), kQuarterBytes);
  const auto by_pool = [](uint64_t before, uint64_t after) {
    Losses losses;
    losses.by_pool_between(before, after);
    return losses.bytes();
  };
  constexpr uint64_t kWholeClock = uint64_t{1} << 31;  // sixteenths
  for (const uint64_t before : {uint64_t{0}, 10 * kPages, (kWholeClock - 1) * kPages}) {
    SCOPED_TRACE(before);
    for (const uint64_t within : {uint64_t{0}, kPages - 1}) {
      EXPECT_EQ(by_pool(before + within, before + 2 * kPages - 1), kQuarterBytes - kFullStep);
      EXPECT_EQ(by_pool(before + within, before + 2 * kPages), kQuarterBytes);
    }
  }
}

TEST(BudgetShare, LossesThatAlternateMoveItByLittle) {
  Losses losses;
  for (uint32_t n = 0; n < 20; ++n) {
    losses.by_share();
    losses.by_pool();
  }
  for (uint32_t n = 0; n < 4; ++n) {
    const uint64_t before = losses.bytes();
    losses.by_share();
    EXPECT_GE(losses.bytes() - before, kLeastStep);
    EXPECT_LE(losses.bytes() - before, kLeastStep * 5 / 4);
    const uint64_t between = losses.bytes();
    losses.by_pool();
    EXPECT_GE(between - losses.bytes(), kLeastStep);
    EXPECT_LE(between - losses.bytes(), kLeastStep * 5 / 4);
  }
}

TEST(BudgetShare, ItTurnsWhenLossesComeFromTheOtherSide) {
  Losses losses;
  for (uint32_t n = 0; n < 50; ++n) losses.by_share();
  const uint64_t most = losses.bytes();
  for (uint32_t n = 1; n <= 5; ++n) {
    losses.by_pool();
    EXPECT_NEAR(static_cast<double>(most - losses.bytes()), n * kLeastStep, 1) << "the mean is still on the other side";
  }
  for (uint32_t n = 5; n < 40; ++n) losses.by_pool();
  const uint64_t before = losses.bytes();
  losses.by_pool();
  EXPECT_GT(before - losses.bytes(), kFullStep - kLeastStep) << "nearly a full step again";
  EXPECT_LT(losses.bytes(), most - 20 * kFullStep);
}

TEST(BudgetShare, ItEndsAtSomeBoundariesAndAtThePool) {
  const auto least = [](uint64_t boundaries) {
    Losses losses(boundaries * kBoundaryBytes);
    for (uint32_t n = 0; n < 1000; ++n) losses.by_pool();
    return losses.bytes() / kBoundaryBytes;
  };
  Losses more;
  for (uint32_t n = 0; n < 1000; ++n) more.by_share();
  EXPECT_EQ(more.bytes(), kPoolBytes);
  EXPECT_EQ(least(1024), 48u);
  EXPECT_EQ(least(192), 48u);
  EXPECT_EQ(least(100), 25u) << "a quarter of a small pool";
  EXPECT_EQ(least(8), 2u);
  EXPECT_EQ(least(4), 2u);
  EXPECT_EQ(least(1), 2u) << "though they do not fit";
}

}  // namespace
}  // namespace quire
