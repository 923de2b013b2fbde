// How many sequences a cache serves, found by running one: the oracle of quire_cache_get_capacity. It only reserves and commits, through
// the C ABI, and knows nothing of pages, groups or formulas.
#pragma once

#include <quire/quire.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "client/client.h"

namespace quire {

class LiveCache {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // options: max_sequences and max_entries_per_step are the caller's to set.
  LiveCache(quire_config* config, const quire_cache_options& options);

  // A prompt of `tokens` tokens that no other sequence has. Its number.
  size_t begin(uint64_t tokens);
  // One step: `decode` tokens of every sequence whose prompt was computed, and up to `most` tokens of the prompt of sequence `prompt`.
  // With step_depth steps in flight the oldest is committed first. False: a token was refused, or the prompt while nothing was in flight
  // that could still give room.
  bool step(uint32_t decode, size_t prompt = kNone, uint64_t most = UINT64_MAX);
  // Tokens of the prompt that are not reserved yet.
  uint64_t left(size_t sequence) const {
    return sequences_[sequence].tokens - std::min(sequences_[sequence].tokens, sequences_[sequence].reserved);
  }
  uint64_t length(size_t sequence) const { return sequences_[sequence].reserved; }
  void finish(size_t sequence);
  void settle();  // commits what is in flight
  void verify();

 private:
  struct Sequence {
    quire_sequence_id id = 0;
    uint64_t tokens = 0;  // of the prompt
    uint64_t reserved = 0;
    bool runs = false;
    std::vector<quire_symbol> prompt;
  };
  struct Flying {
    quire_step step;
    std::vector<quire_commit_entry> rows;
    uint64_t num_symbols = 0;  // that their commit gives
  };
  void commit_oldest();

  client::Cache cache_;
  uint32_t depth_, step_tokens_, refusals_ = 0;
  std::vector<Sequence> sequences_;
  std::deque<Flying> flying_;
  std::vector<quire_symbol> symbols_;
  std::vector<quire_reserve_entry> entries_;
  std::vector<size_t> numbers_;  // of the entries
  std::vector<quire_reserve_result> results_;
};

// Sequences of `tokens` tokens that are prefilled one after the other until the first is refused; at most max_sequences of the options.
uint64_t live_resident(quire_config* config, const quire_cache_options& options, uint64_t tokens);
// Whether `sequences` of them, started one after the other, decode a token in every step until all have `tokens` tokens together.
bool live_decodes(quire_config* config, const quire_cache_options& options, uint64_t tokens, uint64_t sequences);
// Whether no entry is refused in `steps` steps where up to `sequences` sequences begin, get chunks of any length, decode or wait, end, and
// are replaced, as `seed` says.
bool live_serves(quire_config* config, const quire_cache_options& options, uint64_t tokens, uint64_t sequences, uint64_t steps,
                 uint64_t seed);

}  // namespace quire
