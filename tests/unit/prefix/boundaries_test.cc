// Which boundary is worth least, where later ones are kept: by hand, without a cache.
#include "core/prefix/checkpoints.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/prefix/small_index.h"

namespace quire {
namespace {

constexpr uint32_t kUnit = 4;

class Tree {
 public:
  Tree()
      : index_(test::small_index(kUnit, 256)),
        root_(*index_.open_root("a")),
        kept_(Checkpoints::create(index_, 64, CheckpointOrder::by_cost())) {}

  // The path of units that begin with these symbols, from the root; its last node.
  NodeId path(const std::vector<quire_symbol>& firsts) {
    NodeId at = index_.root_node(root_);
    for (const quire_symbol first : firsts) {
      const std::vector<quire_symbol> unit{first, first, first, first};
      const quire_symbol* const symbols = unit.data();
      NodeId node{kNone};
      EXPECT_EQ(index_.extend(at, {&symbols, 1}, {&node, 1}).count, 1u);
      index_.hold(node);
      at = node;
    }
    return at;
  }
  Checkpoints& kept() { return kept_; }
  NodeId least() {
    return kept_.least([](NodeId) { return true; });
  }
  // As after each keep().
  NodeId supersede(NodeId node, double share) {
    const NodeId before = kept_.superseded_by(node);
    if (before.value != kNone) kept_.supersede(before, BoundaryKind::kSuperseded, share);
    return before;
  }

 private:
  PrefixIndex index_;
  uint32_t root_;
  Checkpoints kept_;
};

TEST(Boundaries, ALaterOneSupersedesWhatNoPromptLeavesTheWayBehind) {
  Tree tree;
  const NodeId first = tree.path({1, 2}), second = tree.path({1, 2, 3, 4}), other = tree.path({7, 8});
  tree.kept().keep(first, BoundaryKind::kAwaited);
  EXPECT_EQ(tree.supersede(first, 0.25).value, kNone) << "the root is none";
  tree.kept().keep(other, BoundaryKind::kAwaited);
  EXPECT_EQ(tree.least(), first) << "both cost as much, and it is older";
  tree.kept().use(first);
  EXPECT_EQ(tree.least(), other);
  tree.kept().keep(second, BoundaryKind::kAwaited);
  EXPECT_EQ(tree.supersede(second, 0.25), first);
  EXPECT_TRUE(tree.kept().cold(first));
  EXPECT_EQ(tree.least(), first) << "it was used, but is worth a quarter now";
  tree.kept().use(first);
  EXPECT_FALSE(tree.kept().cold(first));
  EXPECT_EQ(tree.kept().kind(first), BoundaryKind::kAwaited);
  EXPECT_EQ(tree.least(), other);
}

TEST(Boundaries, WhereAPromptLeavesTheWayNothingIsSuperseded) {
  for (const std::vector<quire_symbol>& aside : {std::vector<quire_symbol>{1, 2, 9}, {1, 2, 3, 9}, {1, 2, 3, 4, 5, 9}}) {
    Tree tree;
    const NodeId first = tree.path({1, 2}), second = tree.path({1, 2, 3, 4, 5, 6});
    tree.path(aside);
    tree.kept().keep(first, BoundaryKind::kAwaited);
    tree.kept().keep(second, BoundaryKind::kAwaited);
    EXPECT_EQ(tree.supersede(second, 0.25).value, kNone) << aside.size();
  }
  Tree tree;
  const NodeId first = tree.path({1, 2}), second = tree.path({1, 2, 3, 4});
  tree.path({1, 9});
  tree.path({1, 2, 3, 4, 9});
  tree.path({1, 2, 3, 4, 5});
  tree.kept().keep(first, BoundaryKind::kAwaited);
  tree.kept().keep(second, BoundaryKind::kAwaited);
  EXPECT_EQ(tree.supersede(second, 0.25), first) << "before it and after the later one others may do so";
}

TEST(Boundaries, PinnedOnesAndThoseOfAPlaceAreNotSupersededAndPlacesSupersedeNothing) {
  Tree tree;
  const NodeId pinned = tree.path({1, 2}), second = tree.path({1, 2, 3});
  tree.kept().keep(pinned, BoundaryKind::kAwaited);
  tree.kept().pin(pinned);
  tree.kept().keep(second, BoundaryKind::kAwaited);
  EXPECT_EQ(tree.supersede(second, 0.25).value, kNone);
  const NodeId place = tree.path({4}), after = tree.path({4, 5}), next_place = tree.path({4, 5, 6});
  tree.kept().keep(place, BoundaryKind::kPlace);
  tree.kept().keep(after, BoundaryKind::kAwaited);
  EXPECT_EQ(tree.supersede(after, 0.25).value, kNone);
  tree.kept().keep(next_place, BoundaryKind::kPlace);
  EXPECT_EQ(tree.supersede(next_place, 0.25).value, kNone) << "nobody may ever ask for that one";
}

TEST(Boundaries, TheLastOneIsWorthAllOfItsTokensAgain) {
  Tree tree;
  const NodeId first = tree.path({1, 2}), second = tree.path({1, 2, 3}), third = tree.path({1, 2, 3, 4});
  for (const NodeId node : {first, second, third}) {
    tree.kept().keep(node, BoundaryKind::kAwaited);
    tree.supersede(node, 0.25);
  }
  EXPECT_EQ(tree.kept().kind(first), BoundaryKind::kSuperseded);
  EXPECT_EQ(tree.kept().kind(second), BoundaryKind::kSuperseded);
  tree.kept().lose(second, false);
  EXPECT_EQ(tree.kept().kind(first), BoundaryKind::kSuperseded) << "the third one is still there";
  const NodeId fourth = tree.path({1, 2, 3, 4, 5});
  tree.kept().keep(fourth, BoundaryKind::kAwaited);
  tree.supersede(fourth, 0.25);
  tree.kept().lose(fourth, false);
  EXPECT_EQ(tree.kept().kind(third), BoundaryKind::kAwaited);
  EXPECT_FALSE(tree.kept().cold(third));
  const auto states = [](NodeId) { return 1u; };
  const auto pins = [](NodeId) { return 0u; };
  EXPECT_TRUE(tree.kept().verify(2, states, pins).ok());
}

// Others cost more each, but nobody uses them.
TEST(Boundaries, EachUseAddsHalfOfItsTokens) {
  Tree tree;
  const NodeId often = tree.path({1}), longer = tree.path({7, 8}), longest = tree.path({5, 6, 7, 8, 9});
  for (const NodeId node : {often, longer, longest}) tree.kept().keep(node, BoundaryKind::kAwaited);
  EXPECT_EQ(tree.least(), often) << "1 unit, 2 and 5";
  EXPECT_EQ(tree.kept().use(often), kUnit) << "what a use spares is what it spares";
  EXPECT_EQ(tree.least(), often) << "1.5 units, 2 and 5";
  tree.kept().use(often);
  tree.kept().use(often);
  EXPECT_EQ(tree.least(), longer) << "2.5 units, 2 and 5";
  tree.kept().lose(longer, false);
  EXPECT_EQ(tree.least(), often);
  for (int i = 0; i < 6; ++i) tree.kept().use(often);
  EXPECT_EQ(tree.least(), longest) << "5.5 units and 5";
  tree.kept().lose(often, false);
  tree.kept().keep(often, BoundaryKind::kAwaited);
  EXPECT_EQ(tree.least(), often) << "uses are forgotten with it";
  for (int i = 0; i < 1000; ++i) {
    tree.kept().use(often);
    ASSERT_EQ(tree.least(), i < 7 ? often : longest) << i;
  }
}

TEST(Boundaries, UsesBeforeItWasSupersededDoNotCount) {
  Tree tree;
  const NodeId first = tree.path({1}), second = tree.path({1, 2, 3, 4, 5, 6, 7, 8}), other = tree.path({7});
  tree.kept().keep(other, BoundaryKind::kAwaited);
  tree.kept().keep(first, BoundaryKind::kAwaited);
  for (int i = 0; i < 100; ++i) tree.kept().use(first);
  EXPECT_EQ(tree.least(), other);
  tree.kept().keep(second, BoundaryKind::kAwaited);
  EXPECT_EQ(tree.supersede(second, 0.75), first);
  EXPECT_EQ(tree.least(), first) << "three quarters of its tokens, and not 50 times that";
  tree.kept().lose(second, false);
  EXPECT_EQ(tree.kept().kind(first), BoundaryKind::kAwaited);
  EXPECT_EQ(tree.least(), other) << "as many tokens, and older";
  tree.kept().use(other);
  EXPECT_EQ(tree.least(), first) << "its own uses are of another time";
}

}  // namespace
}  // namespace quire
