// The fleet's index over made events: each kind of group asks for its own blocks. Method: examples.
#include "samples/fleet/fleet_index.h"

#include <gtest/gtest.h>

#include <numeric>

namespace fleet {
namespace {

using nlohmann::json;
using Names = std::vector<uint64_t>;

constexpr uint64_t kPrompt = 161;  // ten units of 16 tokens, and one token

Group full(uint64_t block = 16) { return {.block_tokens = block}; }
Group window(uint64_t tokens, uint64_t sinks = 0) { return {.block_tokens = 16, .window = tokens, .sink_tokens = sinks}; }
Group chunked(uint64_t tokens) { return {.block_tokens = 16, .chunk = tokens}; }
Group state() { return {.block_tokens = 16, .is_state = true}; }

// Units are called 1 to 10.
Names names() {
  Names all(10);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

json event(const char* type, size_t group, const Names& blocks) {
  return {{"type", type}, {"group_idx", group}, {"block_hashes", blocks}, {"block_size", 16}};
}
json stored(size_t group, const Names& blocks) { return event("BlockStored", group, blocks); }
json removed(size_t group, const Names& blocks) { return event("BlockRemoved", group, blocks); }
json batch(const std::vector<json>& events) { return json::array({0.0, events, 0}); }
json cleared() { return {{"type", "AllBlocksCleared"}}; }

Index index_of(const std::vector<Group>& groups, const std::vector<json>& events) {
  Layout layout;
  layout.unit = 16;
  layout.groups = groups;
  Index index(layout);
  index.apply(batch(events));
  return index;
}

TEST(FleetIndex, FullAttentionNeedsEveryBlockFromTheFirst) {
  EXPECT_EQ(index_of({full()}, {}).hit(names(), kPrompt), 0u);
  EXPECT_EQ(index_of({full()}, {stored(0, {1, 2, 3, 5, 6})}).hit(names(), kPrompt), 48u);
  EXPECT_EQ(index_of({full()}, {stored(0, {2, 3, 4})}).hit(names(), kPrompt), 0u);
}

TEST(FleetIndex, TheLastTokenIsComputed) {
  const Index index = index_of({full()}, {stored(0, names())});
  EXPECT_EQ(index.hit(names(), kPrompt), 160u);
  EXPECT_EQ(index.hit(names(), 160), 144u);
  EXPECT_EQ(index.hit({}, 5), 0u);
  EXPECT_EQ(index.hit({}, 0), 0u);
}

TEST(FleetIndex, ABlockOfSeveralUnitsHasTheNameOfItsLast) {
  const Index index = index_of({full(64)}, {stored(0, {4})});
  EXPECT_EQ(index.hit(names(), kPrompt), 64u);
  EXPECT_EQ(index_of({full(64)}, {stored(0, {1, 2, 3})}).hit(names(), kPrompt), 0u);
}

TEST(FleetIndex, AWindowNeedsItsTail) {
  // At token 96 a window of 33 needs tokens 64 to 95: blocks 5 and 6.
  EXPECT_EQ(index_of({window(33)}, {stored(0, {5, 6})}).hit(names(), kPrompt), 96u);
  EXPECT_EQ(index_of({window(34)}, {stored(0, {5, 6})}).hit(names(), kPrompt), 0u);
  EXPECT_EQ(index_of({window(34)}, {stored(0, {4, 5, 6})}).hit(names(), kPrompt), 96u);
}

TEST(FleetIndex, SinksAreAlwaysNeeded) {
  EXPECT_EQ(index_of({window(33, 4)}, {stored(0, {5, 6})}).hit(names(), kPrompt), 0u);
  EXPECT_EQ(index_of({window(33, 4)}, {stored(0, {1, 5, 6})}).hit(names(), kPrompt), 96u);
}

TEST(FleetIndex, AChunkNeedsItselfAlone) {
  // At a multiple of the chunk nothing is needed, elsewhere what the chunk has already.
  EXPECT_EQ(index_of({chunked(64)}, {}).hit(names(), kPrompt), 128u);
  EXPECT_EQ(index_of({chunked(64)}, {stored(0, {9})}).hit(names(), kPrompt), 144u);
  EXPECT_EQ(index_of({chunked(64)}, {stored(0, {10})}).hit(names(), kPrompt), 128u);
}

TEST(FleetIndex, AStateStandsForAllBeforeIt) { EXPECT_EQ(index_of({state()}, {stored(0, {3, 7})}).hit(names(), kPrompt), 112u); }

TEST(FleetIndex, AllGroupsMustAgree) {
  const std::vector<Group> groups = {state(), full()};
  EXPECT_EQ(index_of(groups, {stored(1, {1, 2, 3, 4, 5})}).hit(names(), kPrompt), 0u);
  EXPECT_EQ(index_of(groups, {stored(0, {3, 7}), stored(1, {1, 2, 3, 4, 5})}).hit(names(), kPrompt), 48u);
  // Equal names of different groups are different blocks.
  EXPECT_EQ(index_of(groups, {stored(0, {1, 2, 3})}).hit(names(), kPrompt), 0u);
}

TEST(FleetIndex, HitsAreMultiplesOfAllBlocks) {
  EXPECT_EQ(index_of({full(), full(64)}, {stored(0, names()), stored(1, {4, 8})}).hit(names(), kPrompt), 128u);
}

TEST(FleetIndex, WhatIsRemovedOrClearedIsGone) {
  Index index = index_of({full(), state()}, {stored(0, {1, 2, 3}), stored(1, {1, 3}), removed(0, {3})});
  EXPECT_EQ(index.size(), 4u);
  EXPECT_EQ(index.hit(names(), kPrompt), 16u);
  index.apply(batch({removed(0, {9})}));  // it was never there
  EXPECT_EQ(index.size(), 4u);
  index.apply(batch({cleared(), stored(0, {1})}));
  EXPECT_EQ(index.size(), 1u);
  EXPECT_EQ(index.hit(names(), kPrompt), 0u);
}

TEST(FleetIndex, WhatIsNoBatchIsRefused) {
  Index index = index_of({full()}, {});
  EXPECT_THROW(index.apply(json::array()), json::exception);
  EXPECT_THROW(index.apply(batch({json::object()})), json::exception);
  EXPECT_THROW(index.apply(batch({stored(1, {1})})), std::out_of_range);
}

}  // namespace
}  // namespace fleet
