// What a superseded boundary is worth: one whose prefix leads to a later state that is awaited, and
// to nothing else before that. In a long conversation nobody resumes from an earlier turn's end
// again. Where answers are asked for anew, or many continue the same way, somebody does. One in
// eight of these boundaries is a sample: all of its tokens count. What samples have saved, relative
// to what boundaries that are not superseded save, is the share that the others are worth.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/step/moving_mean.h"
#include "core/step/samples.h"

namespace quire {

class SupersededWorth {
 public:
  // Whether the next one that is superseded is a sample.
  bool samples_next() { return superseded_.next(); }
  // Of the tokens that one would save, those that count.
  double share() const {
    if (samples_.count < kFewest || usual_.mean <= 0) return 1;
    return std::clamp(samples_.mean / usual_.mean, kLeastShare, 1.0);
  }
  // A sample was used; the tokens that it saved. Or it was lost: 0.
  void sampled(uint64_t tokens) { samples_.add(static_cast<double>(tokens), kSamples); }
  // The same for one that is not superseded.
  void usual(uint64_t tokens) { usual_.add(static_cast<double>(tokens), kUsual); }

 private:
  // Boundaries that a mean covers, roughly; of samples at least kFewest.
  static constexpr uint64_t kFewest = 16, kSamples = 64, kUsual = 256;
  static constexpr double kLeastShare = 1. / 8;

  MovingMean usual_, samples_;  // tokens
  Samples superseded_;
};

}  // namespace quire
