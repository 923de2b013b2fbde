// A live cache whose steps are directed row by row: what makes the worst of the guaranteed number.
// It reserves, commits and aborts through the C ABI; that nothing was refused, and pages in use,
// are all that it sees.
#pragma once

#include <quire/quire.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "client/client.h"

namespace quire {

class DirectedCache {
 public:
  struct Row {
    size_t sequence = 0;
    uint32_t tokens = 0;
    uint32_t flags = 0;       // QUIRE_ENTRY_*
    uint32_t look_ahead = 0;  // slots
    uint32_t rejected = 0;    // at the commit
  };

  DirectedCache(quire_config* config, const quire_cache_options& options);

  // Shares nothing with any other. flags: QUIRE_SEQUENCE_*. Its number.
  size_t begin(uint32_t flags = 0);
  void finish(size_t sequence);
  // One step of these rows, none of which has no tokens. Chunks may stop where states are kept.
  // False: an entry was refused.
  bool reserve(std::span<const Row> rows);
  void commit();             // the oldest step
  void settle();             // all of them
  void forget();             // what no sequence has; nothing is in flight
  void abort(size_t steps);  // the newest ones
  // To so many tokens, all committed, the longest chunks first.
  bool fill(size_t sequence, uint64_t tokens);
  // Pages in use if the sequence, alone in a step, gets so many tokens more; the null page
  // included. 0: refused.
  uint64_t pages_with(size_t sequence, uint32_t tokens);

  uint32_t depth() const { return depth_; }
  uint32_t step_tokens() const { return step_tokens_; }
  size_t in_flight() const { return flying_.size(); }
  bool flies(size_t sequence) const { return sequences_[sequence].in_flight > 0; }
  uint64_t length(size_t sequence) const { return sequences_[sequence].reserved; }
  uint64_t tokens_in_flight(size_t sequence) const {  //
    return sequences_[sequence].reserved - sequences_[sequence].known;
  }
  uint64_t pages();  // in use, the null page included
  void verify();

 private:
  struct Sequence {
    quire_sequence_id id = 0;
    uint64_t reserved = 0, known = 0;
    uint32_t in_flight = 0;
    bool ended = false;
  };
  struct Flying {
    quire_step step;
    std::vector<Row> rows;  // as granted
  };

  client::Cache cache_;
  uint32_t depth_, step_tokens_;
  std::vector<Sequence> sequences_;
  std::deque<Flying> flying_;
  std::vector<quire_symbol> symbols_;
  std::vector<quire_reserve_entry> entries_;
  std::vector<quire_reserve_result> results_;
  std::vector<quire_commit_entry> commits_;
};

}  // namespace quire
