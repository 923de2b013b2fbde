// Which blocks of a window are evicted before all others, and which are not: what decoding leaves, and boundaries where somebody resumes.
#include "pressure.h"

namespace quire {
namespace {

const GroupSketch kWindow{LiveRange{.window = 8}, 4, 1, 1};

Fixture make(uint64_t pages) {
  quire_cache_options options{};
  options.max_sequences = 64;
  return Fixture({kFull, kWindow}, pages, 2, options);
}

// Blocks older than all that follows.
void request_older(Fixture& f) { request(f, count_from(100000, 33)); }

// Pages: some more than what is cold in each of these tests, which is what decoding left and what left the window within a prompt's chunk.
// What is older goes as well then, but not what is younger.
constexpr uint64_t kMostCold = 17;

// Windows of 8 in blocks of 4 tokens: 48 decoded tokens leave ten blocks that nobody resumes behind.
TEST(ColdBlocks, WhatDecodingLeavesGoesBeforeOlderBlocks) {
  for (const uint32_t row : {1u, 3u}) {
    Fixture f = make(100);
    const auto old = count_from(100000, 33), prompt = count_from(1, 33), answer = count_from(500, 48);
    request(f, old);
    const SequenceId id = f.open();
    f.prefill(id, prompt);
    decode(f, id, answer, row);
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
    press(f, kMostCold);
    EXPECT_EQ(hit_of(f, old), 32u) << "rows of " << row;
    EXPECT_EQ(hit_of(f, joined(prompt, {9000, 9001})), 32u);
    EXPECT_EQ(hit_of(f, joined(joined(prompt, answer), {9000, 9001})), 80u);
  }
}

TEST(ColdBlocks, NotTheWindowWhereALaterPromptOfTheSequenceEnds) {
  Fixture f = make(100);
  request_older(f);
  const auto turns = joined(joined(count_from(1, 17), count_from(500, 8)), count_from(700, 16));
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 17));
  decode(f, id, count_from(500, 8), 1);
  decode(f, id, count_from(700, 16), 16);  // in one row
  decode(f, id, count_from(900, 40), 1);
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  press(f, kMostCold);
  EXPECT_EQ(hit_of(f, joined(turns, {9000, 9001})), 40u);
}

TEST(ColdBlocks, NotTheWindowWhereASequenceWasForked) {
  for (const bool parent_decodes : {false, true}) {
    Fixture f = make(100);
    request_older(f);
    const auto text = joined(count_from(1, 17), count_from(500, 8));
    const SequenceId id = f.open();
    f.prefill(id, count_from(1, 17));
    decode(f, id, count_from(500, 8), 1);
    const SequenceId child = *f.cache->sequence_fork(id);
    EXPECT_TRUE(f.cache->sequence_finish(parent_decodes ? child : id).ok());
    decode(f, parent_decodes ? id : child, count_from(900, 40), 1);
    EXPECT_TRUE(f.cache->sequence_finish(parent_decodes ? id : child).ok());
    press(f, kMostCold);
    EXPECT_EQ(hit_of(f, joined(text, {9000, 9001})), 24u) << parent_decodes;
  }
}

// The last chunks of the prompt are as short as rows that decode, and others have all the room there is for ends of prompts.
TEST(ColdBlocks, NotTheWindowAtTheEndOfAPromptWhoseLastChunkIsShort) {
  Fixture f = make(180);
  request_older(f);
  for (quire_symbol other = 1; other <= 12; ++other) f.prefill(f.open(), count_from(200000 + 100 * other, 13));
  const auto prompt = count_from(1, 34);
  const SequenceId id = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(id, prompt, 28, QUIRE_ENTRY_MATCH, &step).num_tokens, 28u);
  ASSERT_TRUE(f.commit(step, id, 28).ok());
  decode(f, id, count_from(29, 4), 4);
  decode(f, id, count_from(33, 2), 2);
  decode(f, id, count_from(900, 40), 1);
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  press(f, kMostCold);
  EXPECT_EQ(hit_of(f, joined(prompt, {9000, 9001})), 32u);
}

}  // namespace
}  // namespace quire
