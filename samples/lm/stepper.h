// stepper.h: steps of a model: reserve, run, commit. The engine and the tests are made of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "family.h"
#include "kv.h"

namespace lm {

// A sequence: its tokens, and what the cache has of them.
struct Live {
  quire::Sequence sequence;
  std::vector<int32_t> tokens;
  uint64_t committed = 0;
  uint64_t reserved = 0;                        // the tokens of steps in flight are counted
  uint64_t known = 0;                           // symbols that the cache knows
  uint64_t hit_tokens = 0;                      // of the last match
  std::shared_ptr<const Matrix> encoder_input;  // of models with an encoder
};

// What a sequence wants of a step: some of its tokens that have not been reserved.
struct Ask {
  Live* live = nullptr;
  uint32_t tokens = 0;
  uint32_t flags = 0;  // QUIRE_ENTRY_*
};

// A row of a step: what the cache admitted of an ask.
struct StepRow {
  Live* live = nullptr;
  uint64_t position = 0;
  uint32_t tokens = 0;
  uint32_t hit_tokens = 0;
};

enum class Logits { kLast, kAll };  // of the last token of each row, or of every token

// A step in flight. It is aborted if it is destroyed before its commit.
struct Flight {
  quire::Step step;
  std::vector<StepRow> rows;                  // in the order of the step
  std::vector<quire_reserve_result> results;  // one per ask
  std::vector<int32_t> ids;                   // tokens of all rows
  Matrix logits;                              // after run()
  std::vector<int64_t> first_logits;          // of each row of the step: its first row of logits

  explicit operator bool() const { return static_cast<bool>(step); }
};

class Stepper {
 public:
  Stepper(Kv& kv, Family& family) : kv_(kv), family_(family) {}
  Kv& kv() const { return kv_; }

  Live begin(std::vector<int32_t> tokens, std::string_view salt = {}) const;
  // Another sequence with the same tokens, as far as they are committed.
  Live fork(const Live& parent) const;
  // Reserves one step. The flight is empty if nothing was admitted; results say why.
  Flight reserve(std::span<const Ask> asks) const;
  void run(Flight& flight, Logits wanted = Logits::kLast) const;
  // The same with logits of the last wanted[i] tokens of row i.
  void run(Flight& flight, std::span<const uint32_t> wanted) const;
  // accepted: tokens of each row that stay; empty = all.
  void commit(Flight& flight, std::span<const uint32_t> accepted = {}) const;
  void abort(Flight& flight) const;
  // Gives all its memory back. It goes on with a match.
  void preempt(Live& live) const;
  void truncate(Live& live, uint64_t tokens) const;
  // Reads what the cache has of a sequence.
  void refresh(Live& live) const;

 private:
  Kv& kv_;
  Family& family_;
};

}  // namespace lm
