// What goes first when room is needed: examples of a few conversations in a pool that is too small for all of them.
#include "fixture.h"

namespace quire {
namespace {

const GroupSketch kWindow{LiveRange{.window = 8}, 4, 1, 1};

// Prompts of 48 tokens by several users, then the first of them comes back with eight tokens more: how much of its prompt is left?
uint64_t hit_of_who_returns(uint32_t users, uint32_t flags, uint64_t pages) {
  quire_cache_options options{};
  options.flags = flags;
  Fixture f({kFull, kWindow}, pages, 2, options);
  for (uint32_t user = 0; user < users; ++user) {
    const SequenceId id = f.open();
    f.prefill(id, count_from(1000 * user, 48));
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
    EXPECT_TRUE(f.cache->verify().ok());
  }
  const SequenceId again = f.open();
  return f.prefill(again, count_from(0, 56));
}

TEST(Eviction, BlocksThatNoBoundaryNeedsGoFirst) {
  // Of a prompt's 24 blocks 16 are worth keeping: all 12 of full attention and 4 of the window.
  EXPECT_EQ(hit_of_who_returns(3, 0, 60), 48u);
  EXPECT_EQ(hit_of_who_returns(3, QUIRE_CACHE_STRICT_LRU, 60), 0u);
}

TEST(Eviction, NothingIsGivenUpWhileThereIsRoom) {
  for (uint32_t flags : {0u, QUIRE_CACHE_STRICT_LRU}) EXPECT_EQ(hit_of_who_returns(3, flags, 120), 48u);
}

TEST(Eviction, WhoTurnsOffShortBeforeTheEndFindsItsWindow) {
  Fixture f({kFull, kWindow}, 60);
  for (uint32_t user = 0; user < 3; ++user) {
    const SequenceId id = f.open();
    f.prefill(id, count_from(1000 * user, 48));
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  }
  std::vector<quire_symbol> other = count_from(0, 44);
  for (quire_symbol s : count_from(5000, 12)) other.push_back(s);
  EXPECT_EQ(f.prefill(f.open(), other), 44u);
}

TEST(Eviction, APrefixSeenTwiceKeepsItsWindow) {
  Fixture f({kFull, kWindow}, 45);
  const auto serve = [&](quire_symbol user) {
    std::vector<quire_symbol> prompt = count_from(0, 24);
    for (quire_symbol s : count_from(1000 * user, 24)) prompt.push_back(s);
    const SequenceId id = f.open();
    const uint64_t hit = f.prefill(id, prompt);
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
    return hit;
  };
  const auto take_for_a_while = [&](uint32_t pages) {
    const SequenceId id = f.open({}, QUIRE_SEQUENCE_NO_PUBLISH);
    f.prefill(id, count_from(50000, 2 * pages));
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  };
  serve(1);
  take_for_a_while(20 + 8);  // all that is free, and the first eight blocks of the window
  EXPECT_EQ(serve(2), 0u);   // attention would have hit 24 tokens: now their window is worth keeping
  take_for_a_while(10 + 4 + 2);
  EXPECT_EQ(serve(3), 24u);
}

}  // namespace
}  // namespace quire
