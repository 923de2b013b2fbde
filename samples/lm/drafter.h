// drafter.h: speculative decoding: a smaller model of the same vocabulary proposes tokens, the
// large one checks them all in one step.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "stepper.h"

namespace lm {

// The draft's sequences follow those of the large model. A proposal is made on a fork that is then
// dropped, so nothing needs to be undone: states of recurrent layers neither.
class Drafter {
 public:
  // Error if the vocabularies differ.
  static void check(const Family& draft, const Family& target);
  // tokens: proposed at once, at most.
  Drafter(const Stepper& draft, uint32_t tokens) : draft_(draft), tokens_(tokens) {}

  uint32_t tokens() const { return tokens_; }
  // Proposes up to `tokens` tokens for each of these sequences, most likely ones; keys name them.
  // Sequences for which the draft has no room get none.
  struct Want {
    size_t key = 0;
    const std::vector<int32_t>* tokens = nullptr;
    uint32_t most = 0;
  };
  std::vector<std::vector<int32_t>> propose(const std::vector<Want>& wants);
  // The sequence ended or lost its memory.
  void forget(size_t key) { lives_.erase(key); }

 private:
  std::vector<std::vector<int32_t>> propose_fitting(const std::vector<Want>& wants);
  void catch_up(const std::vector<Want>& wants, std::vector<std::vector<int32_t>>& proposals);

  const Stepper& draft_;
  uint32_t tokens_;
  std::map<size_t, Live> lives_;
};

}  // namespace lm
