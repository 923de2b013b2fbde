// An engine without a model: continuous batching with chunked prefill and preemption over a cache.
#pragma once

#include <quire/cache.h>
#include <quire/step.h>

#include <deque>
#include <vector>

#include "replay/replay.h"

namespace quire::replay {

// A request that an engine has.
struct Running {
  uint64_t index = 0;  // in the trace
  quire_sequence_id sequence = 0;
  uint64_t position = 0;  // computed tokens
  uint64_t prompt = 0;    // tokens to prefill: after a preemption what was generated, too
  uint64_t generated = 0;
  bool matched = false;  // symbols were given
  bool counted = false;
};

class Engine {
 public:
  // All are borrowed. Whoever makes it gives it its requests.
  Engine(quire_cache* cache, const std::vector<Request>& trace, const Options& options);

  // A request of the trace waits behind the others, or before them.
  void give(uint64_t index) { waiting_.push_back(Running{index}); }
  void give_first(uint64_t index) { waiting_.push_front(Running{index}); }
  bool busy() const { return !waiting_.empty() || !running_.empty(); }
  uint64_t num_requests() const { return waiting_.size() + running_.size(); }
  // Tokens of prompts that are not computed yet, as far as is known: hits of waiting ones are not.
  uint64_t tokens_to_prefill() const;
  // One step; the requests that ended in it.
  const std::vector<uint64_t>& step();
  const Result& result() const { return result_; }

 private:
  static constexpr uint64_t kMeanOf = 64;

  void take_sample();
  void sample();
  void follow();
  template <typename Call>
  void timed(Call call);
  uint64_t output_length(const Running& one) const;
  void admit();
  uint64_t full_tokens(const Running& one) const;
  bool fetch(Running* one);
  void prompt_of(const Running& one);
  void add_symbols(const Running& one);
  void build_entries();
  void reserve_and_commit();
  void commit(quire_step step);
  void count_match(Running* one, const quire_reserve_result& result, uint64_t tokens);
  void make_room();
  void preempt_youngest();
  void retire();

  quire_cache* cache_;
  const std::vector<Request>& trace_;
  Options options_;
  Result result_;
  std::deque<Running> waiting_;
  std::vector<Running> running_;
  std::vector<uint64_t> ended_;
  std::vector<quire_reserve_entry> entries_;
  std::vector<quire_reserve_result> results_;
  std::vector<quire_commit_entry> commits_;
  std::vector<quire_symbol> symbols_;
  std::vector<quire_symbol> prompt_;
  double mean_output_ = 0;  // tokens that a request generated, of about kMeanOf
  bool full_ = false;
  bool followed_done_ = false;
};

}  // namespace quire::replay
