// What a state is worth whose prefix has one continuation, with a later state on it. In a long
// conversation nobody resumes from an earlier turn's end again; where answers are asked for anew,
// or many continue the same way, somebody does. One in eight of these boundaries keeps its full
// worth. What those have spared, relative to what boundaries that are not superseded spare, is the
// share that the others are worth.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

class SupersededWorth {
 public:
  // Whether the next one that is superseded keeps its full worth, so that it says what they spare.
  bool samples_next() { return num_superseded_++ % kSampled == 0; }
  // Of the tokens that one would spare, those that count.
  double share() const {
    if (num_samples_ < kFewest || usual_ <= 0) return 1;
    return std::clamp(sampled_ / usual_, kLeastShare, 1.0);
  }
  // A sample was used or lost; the tokens that it spared.
  void sampled(uint64_t tokens) {
    num_samples_ = std::min(num_samples_ + 1, kSamples);
    learn(tokens, num_samples_, &sampled_);
  }
  // The same of one that is not superseded.
  void usual(uint64_t tokens) { learn(tokens, kUsual, &usual_); }

 private:
  static constexpr uint64_t kSampled = 8;
  static constexpr double kFewest = 16, kSamples = 64;  // that the mean is of
  static constexpr double kUsual = 256;                 // the same of the others
  static constexpr double kLeastShare = 1. / 8;

  static void learn(uint64_t tokens, double memory, double* mean) {  //
    *mean += (static_cast<double>(tokens) - *mean) / memory;
  }

  double usual_ = 0, sampled_ = 0;  // tokens
  double num_samples_ = 0;
  uint64_t num_superseded_ = 0;
};

}  // namespace quire
