// The learned share of states: how far losses move it.
#include "core/step/budget_share.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace quire {
namespace {

constexpr uint32_t kUnitTokens = 4;
constexpr uint64_t kBoundaryBytes = 1600, kPoolBytes = 1024 * kBoundaryBytes;
constexpr uint64_t kLeast = kBoundaryBytes / 16, kFull = kBoundaryBytes;  // steps
constexpr uint64_t kQuarterBytes = kPoolBytes / 4;

// One prompt of two units. Its first boundary went for the share, and its keys and values are
// cached; or its second one went with what was evicted.
class Losses {
 public:
  Losses() : index_(make()), share_(index_) {
    const std::initializer_list<quire_symbol> prompt = {1, 1, 1, 1, 2, 2, 2, 2};
    const quire_symbol* const units[] = {prompt.begin(), prompt.begin() + kUnitTokens};
    NodeId nodes[] = {NodeId(kNone), NodeId(kNone)};
    EXPECT_EQ(index_.extend(index_.root_node(root_), units, nodes).count, 2u);
    first_ = nodes[0];
    second_ = nodes[1];
    share_.prepare(kPoolBytes, kBoundaryBytes / 2, kBoundaryBytes);
    EXPECT_EQ(share_.bytes(), kQuarterBytes);
  }
  // Each costs so many units.
  void by_share(uint32_t units = 1) {
    const NodeId node = units == 1 ? first_ : second_;
    share_.went(node, true);
    share_.learn(node, 0, units * kUnitTokens, 0);
  }
  void by_pool(uint32_t units = 1) {
    share_.went(second_, false);
    share_.learn(second_, (2 - units) * kUnitTokens, kUnitTokens, 0);
  }
  // Of one prompt: one unit by the share, two by the pool.
  void by_both() {
    share_.went(first_, true);
    share_.went(second_, false);
    share_.learn(second_, 0, kUnitTokens, 0);
  }
  void none() { share_.learn(second_, 2 * kUnitTokens, 2 * kUnitTokens, 0); }
  uint64_t bytes() const { return share_.bytes(); }

 private:
  PrefixIndex make() {
    IndexShape shape;
    shape.unit_tokens = shape.hit_alignment_tokens = kUnitTokens;
    shape.max_nodes = 16;
    shape.max_roots = 2;
    shape.groups = {{LiveRange{}, kUnitTokens, 0}};
    auto index = PrefixIndex::create(shape);
    EXPECT_TRUE(index.ok()) << index.status().message();
    root_ = *index.value().open_root("a");
    return std::move(index.value());
  }

  uint32_t root_ = 0;
  PrefixIndex index_;
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
    EXPECT_EQ(more.bytes(), kQuarterBytes + n * kFull) << n;
    EXPECT_EQ(less.bytes(), kQuarterBytes - n * kFull) << n;
  }
}

TEST(BudgetShare, ALargerLossMovesItByMore) {
  Losses more, less;
  for (uint32_t n = 0; n < 200; ++n) more.by_share();
  const uint64_t before = more.bytes();
  more.by_share(2);
  EXPECT_NEAR(static_cast<double>(more.bytes() - before), 2. * kFull / 1.01, 1) << "twice the usual one, of which it is part";
  less.by_pool(2);
  EXPECT_EQ(less.bytes(), kQuarterBytes - kFull) << "the first one is the usual one";
}

TEST(BudgetShare, OfOnePromptTheLargerLossCountsByWhatItIsMore) {
  Losses losses;
  losses.by_both();
  EXPECT_EQ(losses.bytes(), kQuarterBytes - kFull / 2);
}

TEST(BudgetShare, LossesThatDisagreeMoveItByLittle) {
  Losses losses;
  for (uint32_t n = 0; n < 20; ++n) {
    losses.by_share();
    losses.by_pool();
  }
  for (uint32_t n = 0; n < 4; ++n) {
    const uint64_t before = losses.bytes();
    losses.by_share();
    EXPECT_LE(losses.bytes() - before, kLeast * 5 / 4);
    const uint64_t between = losses.bytes();
    losses.by_pool();
    EXPECT_LE(between - losses.bytes(), kLeast * 5 / 4);
    EXPECT_LT(losses.bytes(), between);
  }
}

TEST(BudgetShare, ItTurnsWhenLossesComeFromTheOtherSide) {
  Losses losses;
  for (uint32_t n = 0; n < 50; ++n) losses.by_share();
  const uint64_t most = losses.bytes();
  for (uint32_t n = 1; n <= 5; ++n) {
    losses.by_pool();
    EXPECT_NEAR(static_cast<double>(most - losses.bytes()), n * kLeast, 1) << "most of the last ones were on the other side";
  }
  for (uint32_t n = 5; n < 40; ++n) losses.by_pool();
  const uint64_t before = losses.bytes();
  losses.by_pool();
  EXPECT_GT(before - losses.bytes(), kFull - kLeast) << "nearly a full step again";
  EXPECT_LT(losses.bytes(), most - 20 * kFull);
}

TEST(BudgetShare, ItEndsAtTwoBoundariesAndAtThePool) {
  Losses more, less;
  for (uint32_t n = 0; n < 1000; ++n) {
    more.by_share();
    less.by_pool();
  }
  EXPECT_EQ(more.bytes(), kPoolBytes);
  EXPECT_EQ(less.bytes(), 2 * kBoundaryBytes);
}

}  // namespace
}  // namespace quire
