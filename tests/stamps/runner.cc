#include "tests/stamps/runner.h"

#include <string>

namespace quire::stamps {

void Runner::operate() {
  struct Weight {
    Operation operation;
    uint32_t weight;
  };
  static constexpr Weight kWeights[] = {
      {&Runner::open, 100},  {&Runner::reserve, 330}, {&Runner::carry_out, 110}, {&Runner::commit, 270},  {&Runner::abort, 30},
      {&Runner::finish, 40}, {&Runner::preempt, 8},   {&Runner::fork, 20},       {&Runner::truncate, 12}, {&Runner::pin, 12},
      {&Runner::unpin, 10},  {&Runner::probe, 14},    {&Runner::begin_load, 25}, {&Runner::end_load, 30}, {&Runner::reset, 2},
      {&Runner::forget, 2},  {&Runner::renew, 2},     {&Runner::check, 8},       {&Runner::drain, 1}};
  static constexpr uint32_t kSum = [] {
    uint32_t sum = 0;
    for (const Weight& w : kWeights) sum += w.weight;
    return sum;
  }();
  uint64_t at = dice_.below(kSum);
  for (const Weight& w : kWeights) {
    if (at < w.weight) return (this->*w.operation)();
    at -= w.weight;
  }
}

void Runner::run(uint64_t operations) {
  const uint64_t reads_before = tally_.reads;
  uint64_t number = 0;
  try {
    for (; number < operations; ++number) {
      ++tallies_.operations;
      operate();
      if (events_ != nullptr && number % 8 == 0) events_->follow();
    }
    finale();
  } catch (const Mismatch& mismatch) {
    throw Mismatch(std::string(mismatch.what()) + "; operation " + std::to_string(number));
  }
  tally_.reads = reads_before + bytes_->reads();
}

}  // namespace quire::stamps
