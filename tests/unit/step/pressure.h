// Calls of tests about what is evicted first.
#pragma once

#include "fixture.h"

namespace quire {

using Symbols = std::vector<quire_symbol>;

inline Symbols joined(Symbols first, const Symbols& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

inline void request(Fixture& f, const Symbols& prompt) {
  const SequenceId id = f.open();
  f.prefill(id, prompt);
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
}

// Rows of `row` tokens of which all are accepted.
inline void decode(Fixture& f, SequenceId id, const Symbols& symbols, uint32_t row) {
  for (size_t at = 0; at < symbols.size(); at += row) {
    const auto first = symbols.begin() + static_cast<long>(at);
    const Symbols some(first, first + row);
    StepId step;
    ASSERT_EQ(f.reserve(id, some, row, 0, &step).code, QUIRE_OK);
    ASSERT_TRUE(f.commit(step, id, row).ok());
  }
}

inline uint64_t hit_of(Fixture& f, const Symbols& prompt) {
  quire_probe_result r{};
  r.struct_size = sizeof r;
  EXPECT_TRUE(f.cache->probe(nullptr, prompt, &r).ok());
  return r.hit_tokens;
}

// Evicts so many pages, or one more.
inline void press(Fixture& f, uint64_t pages) {
  for (const uint64_t end = f.stats().evicted_pages + pages; f.stats().evicted_pages < end;) {
    const SequenceId id = f.open({}, QUIRE_SEQUENCE_NO_MATCH | QUIRE_SEQUENCE_NO_PUBLISH);
    StepId step;
    ASSERT_EQ(f.reserve(id, {}, 4, 0, &step).code, QUIRE_OK);
    ASSERT_TRUE(f.commit(step, id, 4).ok());
  }
}

}  // namespace quire
