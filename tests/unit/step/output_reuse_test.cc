// Whether what sequences generated is kept, by what later prompts contain of it.
#include "pressure.h"

namespace quire {
namespace {

constexpr uint32_t kPrompt = 33, kOutput = 24;

std::vector<quire_symbol> prompt_of(quire_symbol n) { return count_from(1000 * n, kPrompt); }
std::vector<quire_symbol> output_of(quire_symbol n) { return count_from(1000 * n + 500, kOutput); }

void answer(Fixture& f, quire_symbol n) {
  const SequenceId id = f.open();
  f.prefill(id, prompt_of(n));
  decode(f, id, output_of(n), 1);
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
}

// Answers the prompts [first, end), each of which `next` continues.
template <typename Next>
void converse(Fixture& f, quire_symbol first, quire_symbol end, Next next) {
  for (quire_symbol i = first; i < end; ++i) {
    answer(f, i);
    request(f, next(i));
  }
}

std::vector<quire_symbol> without_output(quire_symbol n) { return joined(prompt_of(n), count_from(1000 * n + 800, 12)); }
std::vector<quire_symbol> with_output(quire_symbol n) { return joined(joined(prompt_of(n), output_of(n)), count_from(1000 * n + 800, 12)); }

// Of sequences that are younger than all others, after four pages for each of them were evicted: those whose output stayed.
uint32_t outputs_left(Fixture& f, quire_symbol all = 8) {
  constexpr quire_symbol kFirst = 5000;
  for (quire_symbol i = 0; i < all; ++i) answer(f, kFirst + i);
  press(f, uint64_t{4} * all);
  uint32_t left = 0;
  for (quire_symbol i = 0; i < all; ++i) {
    const uint64_t hit = hit_of(f, with_output(kFirst + i));
    EXPECT_GE(hit, 32u);
    left += hit == 56 ? 1 : 0;
  }
  return left;
}

Fixture make(uint32_t flags = 0) {
  quire_cache_options options{};
  options.max_sequences = 256;
  options.flags = flags;
  return Fixture({kFull}, 400, 2, options);
}

TEST(OutputReuse, OutputsThatNoPromptContainsGoFirst) {
  Fixture f = make();
  converse(f, 1, 300, without_output);
  EXPECT_LE(outputs_left(f), 3u) << "samples";
}

TEST(OutputReuse, OutputsThatPromptsContainStay) {
  Fixture f = make();
  converse(f, 1, 300, with_output);
  EXPECT_EQ(outputs_left(f), 8u);
}

// Under pressure the last block goes first, and not all that follows the first one.
TEST(OutputReuse, AnOutputGoesFromItsEnd) {
  Fixture f = make();
  converse(f, 1, 300, without_output);
  constexpr quire_symbol kFirst = 5000, kAll = 8;
  uint64_t hits = 0;
  for (quire_symbol n = kFirst; n < kFirst + kAll; ++n) {
    answer(f, n);
    press(f, 2);
    hits += hit_of(f, with_output(n));
  }
  EXPECT_GE(hits, 48u * kAll);
}

TEST(OutputReuse, SomeOutputsAlwaysStay) {
  Fixture f = make();
  converse(f, 1, 300, without_output);
  const uint32_t left = outputs_left(f, 16);
  EXPECT_GE(left, 1u);
  EXPECT_LE(left, 5u);
}

// All conversations begin alike, messages are short, and each has two turns: most requests come by the end of somebody's first prompt. The
// first conversation is a sample after some numbers of earlier sequences.
TEST(OutputReuse, OtherConversationsThatBeginAlikeShowNothing) {
  for (quire_symbol earlier = 0; earlier < 24; ++earlier) {
    Fixture f = make();
    const auto system = count_from(100000000, 40);
    for (quire_symbol n = 1; n <= earlier; ++n) answer(f, 9000 + n);
    for (quire_symbol n = 1; n <= 300; ++n) {
      const SequenceId id = f.open();
      const auto prompt = joined(system, count_from(1000 * n, 9));
      f.prefill(id, prompt);
      decode(f, id, output_of(n), 1);
      EXPECT_TRUE(f.cache->sequence_finish(id).ok());
      request(f, joined(joined(prompt, output_of(n)), count_from(1000 * n + 800, 12)));
    }
    EXPECT_EQ(outputs_left(f), 8u) << earlier;
  }
}

// Where the engine keeps states of an output somebody will resume.
TEST(OutputReuse, NotBeforeAStateThatWasAskedFor) {
  quire_cache_options options{};
  options.max_sequences = 256;
  options.keep_states = QUIRE_KEEP_ASKED | QUIRE_KEEP_PROMPT_END;
  Fixture f({kFull, kState}, 400, 2, options);
  converse(f, 1, 300, without_output);
  constexpr quire_symbol kFirst = 5000, kAll = 8;
  for (quire_symbol n = kFirst; n < kFirst + kAll; ++n) {
    const SequenceId id = f.open();
    f.prefill(id, prompt_of(n));
    const auto output = output_of(n);
    decode(f, id, {output.begin(), output.begin() + 10}, 1);
    StepId step;
    ASSERT_EQ(f.reserve(id, {output[10]}, 1, QUIRE_ENTRY_KEEP_STATE, &step).code, QUIRE_OK);
    ASSERT_TRUE(f.commit(step, id, 1).ok());
    decode(f, id, {output.begin() + 11, output.end()}, 1);
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  }
  press(f, uint64_t{3} * kAll);
  for (quire_symbol n = kFirst; n < kFirst + kAll; ++n) EXPECT_EQ(hit_of(f, with_output(n)), 44u) << n;
}

TEST(OutputReuse, NotBeforeMultiplesOfAnIntervalThatWasAskedFor) {
  quire_cache_options options{};
  options.max_sequences = 256;
  options.checkpoint_interval = 16;
  Fixture f({kFull}, 400, 2, options);
  converse(f, 1, 300, without_output);
  constexpr quire_symbol kFirst = 5000, kAll = 8;
  for (quire_symbol n = kFirst; n < kFirst + kAll; ++n) answer(f, n);
  press(f, uint64_t{4} * kAll);
  for (quire_symbol n = kFirst; n < kFirst + kAll; ++n) EXPECT_GE(hit_of(f, with_output(n)), 48u) << n;
}

TEST(OutputReuse, NothingIsKnownOfAFewPrompts) {
  Fixture f = make();
  converse(f, 1, 30, without_output);
  EXPECT_EQ(outputs_left(f), 8u);
}

TEST(OutputReuse, AgeAloneDecidesWhereThatWasAskedFor) {
  Fixture f = make(QUIRE_CACHE_STRICT_LRU);
  converse(f, 1, 300, without_output);
  EXPECT_EQ(outputs_left(f), 8u);
}

// The end of a prompt begins the answer: the next turn writes that in another way.
TEST(OutputReuse, ThePromptsLastTokensNeedNotComeAgain) {
  Fixture f = make();
  converse(f, 1, 300, [](quire_symbol n) {
    auto next = count_from(1000 * n, kPrompt - 6);
    return joined(next, count_from(1000 * n + 800, 40));
  });
  EXPECT_LE(outputs_left(f), 3u);
}

TEST(OutputReuse, TheSamePromptAgainShowsNothing) {
  Fixture f = make();
  converse(f, 1, 300, prompt_of);
  EXPECT_EQ(outputs_left(f), 8u);
}

// Longer conversations than there is room for: the prompt is here, its output was evicted.
TEST(OutputReuse, AnOutputThatWasEvictedShowsNothing) {
  Fixture f = make();
  for (quire_symbol n = 1, other = 1; n <= 200; ++n) {
    answer(f, n);
    for (; hit_of(f, with_output(n)) > 32; ++other) request(f, count_from(10000000 + 10 * other, 9));
    request(f, with_output(n));
  }
  EXPECT_EQ(outputs_left(f), 8u);
}

// Two turns in one sequence: what was generated before the second prompt stays.
TEST(OutputReuse, OnlyTheLastOutputOfASequenceGoes) {
  Fixture f = make();
  converse(f, 1, 300, without_output);
  constexpr quire_symbol kFirst = 5000, kAll = 8;
  for (quire_symbol n = kFirst; n < kFirst + kAll; ++n) {
    const SequenceId id = f.open();
    f.prefill(id, prompt_of(n));
    decode(f, id, output_of(n), 1);
    decode(f, id, count_from(1000 * n + 800, 12), 12);  // in one row
    decode(f, id, count_from(1000 * n + 900, 24), 1);
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  }
  press(f, uint64_t{5} * kAll);
  for (quire_symbol n = kFirst; n < kFirst + kAll; ++n) EXPECT_GE(hit_of(f, joined(with_output(n), {1})), 68u) << n;
}

// At first nobody continues an output, then everybody does.
TEST(OutputReuse, IsLearnedAgain) {
  Fixture f = make();
  converse(f, 1, 2000, without_output);
  converse(f, 2000, 2500, with_output);
  EXPECT_EQ(outputs_left(f), 8u);
}

}  // namespace
}  // namespace quire
