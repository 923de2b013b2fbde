// Whether states that are kept for their place alone are worth their bytes. The last multiple of
// the interval in a chunk serves the first request that shares a beginning with another one. Where
// none does, such states push out keys and values that are hit. What earlier ones have spared says
// which it is; if they spared too little, one in eight is kept, to notice when that changes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

class PlaceWorth {
 public:
  // To be called once, or not at all: then all are kept. tokens: of full attention, that have the
  // bytes of the states of one boundary; boundaries: so many fit into the pool.
  void prepare(double tokens, double boundaries) {
    least_ = tokens * kLeastSpared;
    mean_ = 2 * least_;
    memory_ = std::clamp(boundaries / kTurns, kLeastMemory, kMostMemory);
  }

  // Of each boundary that could be kept, in order.
  bool keeps_next() { return mean_ >= least_ || num_asked_++ % kTried == 0; }
  // One that was kept was used for the first time; the tokens that this spared.
  void used(uint64_t tokens) { learn(static_cast<double>(tokens)); }
  // One was lost and never used.
  void lost() { learn(0); }

 private:
  static constexpr double kLeastSpared = 1. / 256;  // of those tokens, by each
  // Roughly, the mean is of so many boundaries: a small pool has seen few when it is full.
  static constexpr double kTurns = 4, kLeastMemory = 8, kMostMemory = 256;
  static constexpr uint64_t kTried = 8;

  void learn(double tokens) { mean_ += (tokens - mean_) / memory_; }

  double least_ = 0, mean_ = 0;  // tokens
  double memory_ = kMostMemory;
  uint64_t num_asked_ = 0;
};

}  // namespace quire
