// The fleet's view of an engine's batches: in order, late, lost, replayed. Method: examples.
#include "samples/fleet/view.h"

#include <gtest/gtest.h>

namespace fleet {
namespace {

using nlohmann::json;

Layout layout() {
  Layout layout;
  layout.unit = 16;
  layout.groups = {{.block_tokens = 16}};
  return layout;
}

std::string packed(const std::vector<json>& events) {
  std::string text;
  json::to_msgpack(json::array({0.0, events, 0}), text);
  return text;
}
// Batch n stores block n.
std::string storing(uint64_t block) {
  return packed({{{"type", "BlockStored"}, {"group_idx", 0}, {"block_hashes", {block}}, {"block_size", 16}}});
}
std::string snapshot(uint64_t block) {
  return packed(
      {{{"type", "AllBlocksCleared"}}, {{"type", "BlockStored"}, {"group_idx", 0}, {"block_hashes", {block}}, {"block_size", 16}}});
}

TEST(FleetView, BatchesCountInOrderAndOnce) {
  View view(layout());
  view.take(0, storing(0));
  view.take(1, storing(1));
  view.take(1, storing(7));
  EXPECT_FALSE(view.has_gap());
  EXPECT_EQ(view.next(), 2u);
  EXPECT_EQ(view.batches(), 2u);
  EXPECT_EQ(view.index().size(), 2u);
}

TEST(FleetView, WhatIsEarlyWaitsForWhatIsMissing) {
  View view(layout());
  view.take(2, storing(2));
  view.take(3, storing(3));
  EXPECT_TRUE(view.has_gap());
  EXPECT_EQ(view.next(), 0u);
  EXPECT_EQ(view.index().size(), 0u);
  view.take(1, storing(1));
  EXPECT_TRUE(view.has_gap());
  view.take(0, storing(0));
  EXPECT_FALSE(view.has_gap());
  EXPECT_EQ(view.index().size(), 4u);
  EXPECT_EQ(view.given_up(), 0u);
}

TEST(FleetView, ALostEndIsNoticedFromAnAnswer) {
  View view(layout());
  view.take(0, storing(0));
  view.expect(1);
  EXPECT_FALSE(view.has_gap());
  view.expect(3);
  view.expect(2);
  EXPECT_TRUE(view.has_gap());
  view.take(1, storing(1));
  EXPECT_TRUE(view.has_gap());
  view.take(2, storing(2));
  EXPECT_FALSE(view.has_gap());
}

TEST(FleetView, WhatCannotBeHadEmptiesTheIndex) {
  View view(layout());
  view.take(0, storing(0));
  view.take(2, storing(2));
  view.take(4, storing(4));
  view.give_up();  // of 1; 3 may still come
  EXPECT_TRUE(view.has_gap());
  EXPECT_EQ(view.next(), 3u);
  EXPECT_EQ(view.index().size(), 1u);
  view.take(3, storing(3));
  EXPECT_FALSE(view.has_gap());
  EXPECT_EQ(view.index().size(), 3u);
  EXPECT_EQ(view.given_up(), 1u);
  view.expect(9);
  view.give_up();
  EXPECT_FALSE(view.has_gap());
  EXPECT_EQ(view.next(), 9u);
  EXPECT_EQ(view.index().size(), 0u);
  view.give_up();  // nothing is missing
  EXPECT_EQ(view.given_up(), 2u);
}

TEST(FleetView, ASnapshotMakesWhatWasLostHarmless) {
  View view(layout());
  view.take(0, storing(0));
  view.take(3, storing(3));
  view.take(5, snapshot(5));
  EXPECT_TRUE(view.has_gap());  // what is older is used first
  view.give_up();
  EXPECT_FALSE(view.has_gap());
  EXPECT_EQ(view.next(), 6u);
  EXPECT_EQ(view.index().size(), 1u);
  view.take(9, snapshot(9));
  EXPECT_FALSE(view.has_gap());
  EXPECT_EQ(view.next(), 10u);
  EXPECT_EQ(view.given_up(), 1u);
}

TEST(FleetView, WhatIsNoMsgpackIsRefused) {
  View view(layout());
  EXPECT_THROW(view.take(0, "\xc1"), json::exception);
}

}  // namespace
}  // namespace fleet
