#include "tests/stamps/runner.h"

#include <algorithm>
#include <string>

namespace quire::stamps {

Runner::Runner(size_t kind, uint64_t seed, Mode mode, Tallies* tallies, Heritage* heritage)
    : Ledger(kind, seed, mode, tallies, heritage), weights_{{&Runner::open, 100},      {&Runner::reserve, 330}, {&Runner::carry_out, 110},
                                                            {&Runner::commit, 270},    {&Runner::abort, 35},    {&Runner::finish, 40},
                                                            {&Runner::preempt, 8},     {&Runner::fork, 22},     {&Runner::truncate, 14},
                                                            {&Runner::pin, 14},        {&Runner::unpin, 10},    {&Runner::probe, 14},
                                                            {&Runner::begin_load, 25}, {&Runner::end_load, 30}, {&Runner::reset, 2},
                                                            {&Runner::forget, 2},      {&Runner::renew, 2},     {&Runner::check, 8},
                                                            {&Runner::drain, 1}} {
  static constexpr uint32_t kQuarters[] = {1, 2, 4, 4, 4, 12};
  for (Weight& w : weights_) {
    if (w.weight < 100) w.weight = std::max(w.weight * kQuarters[dice_.below(std::size(kQuarters))] / 4, 1u);
    sum_of_weights_ += w.weight;
  }
  choose_tiers(heritage != nullptr ? heritage->legacy : Legacy());
  choose_holds();
}

void Runner::operate() {
  uint64_t at = dice_.below(sum_of_weights_);
  for (const Weight& w : weights_) {
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
      ++time_;
      operate();
      hold_or_let_go();
      fetch_or_run();
      if (onlookers_.events != nullptr && number % 8 == 0) onlookers_.events->follow();
    }
    finale();
  } catch (const Mismatch& mismatch) {
    throw Mismatch(std::string(mismatch.what()) + "; operation " + std::to_string(number));
  }
  tally_.reads = reads_before + bytes_->reads();
  count_traits();
}

}  // namespace quire::stamps
