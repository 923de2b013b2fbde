// The learned share of states: how far losses move it.
#include "core/step/budget_share.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace quire {
namespace {

constexpr uint32_t kUnitTokens = 4;
constexpr uint64_t kBoundaryBytes = 1600, kPoolBytes = 1024 * kBoundaryBytes;
constexpr uint64_t kLeast = kBoundaryBytes / 16, kFull = kLeast * 21;  // a step, alone and in a row
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
  // Each costs one unit.
  void by_share() {
    share_.went(first_, true);
    share_.learn(first_, 0, kUnitTokens, 0);
  }
  void by_pool() {
    share_.went(second_, false);
    share_.learn(second_, kUnitTokens, kUnitTokens, 0);
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
    more.by_share();
    less.by_pool();
    EXPECT_NEAR(static_cast<double>(more.bytes()), static_cast<double>(kQuarterBytes + n * kFull), 1) << n;
    EXPECT_NEAR(static_cast<double>(less.bytes()), static_cast<double>(kQuarterBytes - n * kFull), 1) << n;
  }
  const uint64_t before = more.bytes();
  more.none();
  EXPECT_EQ(more.bytes(), before);
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
    EXPECT_NEAR(static_cast<double>(losses.bytes()), static_cast<double>(before), 1);
  }
}

TEST(BudgetShare, ItTurnsWhenLossesComeFromTheOtherSide) {
  Losses losses;
  for (uint32_t n = 0; n < 50; ++n) losses.by_share();
  const uint64_t most = losses.bytes();
  uint64_t step = 0;
  for (uint32_t n = 0; n < 40; ++n) {
    const uint64_t before = losses.bytes();
    losses.by_pool();
    step = before - losses.bytes();
    if (n == 4) { EXPECT_LE(step, 2 * kLeast) << "about as many of each"; }
  }
  EXPECT_GT(step, kFull - kLeast) << "nearly a full one again";
  EXPECT_LT(losses.bytes(), most - 25 * kFull);
}

}  // namespace
}  // namespace quire
