#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "tests/golden/directed_cache.h"
#include "tests/golden/worst_schedule.h"

namespace quire {
namespace {

using Row = DirectedCache::Row;

class RandomSchedule {
 public:
  RandomSchedule(quire_config* config, const quire_cache_options& options, uint64_t tokens, uint64_t sequences, uint64_t seed)
      : live_(config, options), options_(options), tokens_(tokens), sequences_(sequences), random_(seed) {
    client::Error error;
    auto info = client::sized<quire_config_info>();
    client::check(quire_config_get_info(config, &info, &error), error);
    for (uint32_t g = 0; g < info.num_groups; ++g) {
      auto group = client::sized<quire_group_info>();
      client::check(quire_config_get_group(config, g, &group, &error), error);
      states_ = states_ || group.is_state != 0;
      ahead_ = std::max(ahead_, group.look_ahead);
    }
  }

  uint64_t run(uint64_t steps) {
    for (uint64_t step = 0; step < steps; ++step) {
      if (step % 64 == 0) phase_ = below(4);
      while (running_.size() + ending_.size() < sequences_ && below(4) != 0) {
        running_.push_back(live_.begin(below(8) == 0 ? QUIRE_SEQUENCE_NO_PUBLISH : 0));
      }
      while (live_.in_flight() == live_.depth() || (live_.in_flight() > 0 && below(6) == 0)) commit();
      if (!reserve()) return 0;
      if (live_.in_flight() > 0 && below(16) == 0) abort();
      end_some();
    }
    while (live_.in_flight() > 0) commit();
    live_.verify();
    return most_;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }

  void commit() {
    live_.commit();
    ++committed_;
    while (!ending_.empty() && ending_.front().until <= committed_) ending_.pop_front();
  }

  void abort() {
    const uint64_t steps = 1 + below(live_.in_flight());
    live_.abort(steps);
    reserved_ -= steps;
    for (Ending& end : ending_) end.until = std::min(end.until, reserved_);
  }

  // A row of the sequence, of at most `left` slots.
  Row row_of(size_t one, uint64_t left) {
    const uint64_t most = std::min(left, tokens_ - live_.length(one)), kind = below(4);
    const uint64_t long_one = phase_ == 0 || kind == 0 ? most : phase_ == 1 ? 40 : 3;
    Row row{one, static_cast<uint32_t>(1 + below(std::min(most, long_one)))};
    row.flags = below(3) == 0 ? 0 : QUIRE_ENTRY_NO_STOP;
    if (below(3) == 0) row.flags |= QUIRE_ENTRY_KEEP_STATE;
    if (below(2) == 0) row.look_ahead = static_cast<uint32_t>(below(std::min<uint64_t>(most - row.tokens, ahead_) + 1));
    // A sequence whose drafts may be rejected has no other row in flight.
    if (below(3) == 0 && !live_.flies(one)) {
      const bool any = !states_ || row.tokens <= options_.num_state_branches + 1;
      row.rejected = any ? static_cast<uint32_t>(below(row.tokens + 1)) : below(2) == 0 ? row.tokens : 0;
      if (row.rejected > 0) waiting_.push_back(one);
    }
    return row;
  }

  bool reserve() {
    std::erase_if(waiting_, [this](size_t one) { return !live_.flies(one); });
    std::shuffle(running_.begin(), running_.end(), random_);
    std::vector<Row> rows;
    uint64_t left = live_.step_tokens() * live_.depth();
    for (const Ending& end : ending_) left -= std::min(left, end.tokens);
    for (const size_t one : running_) left -= std::min(left, live_.tokens_in_flight(one));
    left = std::min<uint64_t>(left, live_.step_tokens());
    for (const size_t one : running_) {
      const bool waits = std::find(waiting_.begin(), waiting_.end(), one) != waiting_.end();
      if (left == 0 || waits || live_.length(one) >= tokens_ || below(8) == 0) continue;
      rows.push_back(row_of(one, left));
      left -= rows.back().tokens + rows.back().look_ahead;
    }
    if (rows.empty()) return true;
    const size_t before = live_.in_flight();
    const bool all = live_.reserve(rows);
    reserved_ += live_.in_flight() - before;
    most_ = std::max(most_, live_.pages());
    return all;
  }

  void end_some() {
    for (size_t i = 0; i < running_.size();) {
      const bool full = live_.length(running_[i]) >= tokens_;
      if (below(full ? 20 : 400) != 0) {
        ++i;
        continue;
      }
      if (live_.in_flight() > 0) ending_.push_back(Ending{reserved_, live_.tokens_in_flight(running_[i])});
      live_.finish(running_[i]);
      running_[i] = running_.back();
      running_.pop_back();
    }
  }

  struct Ending {
    uint64_t until = 0;   // so many steps are committed
    uint64_t tokens = 0;  // that were in flight
  };

  DirectedCache live_;
  quire_cache_options options_;
  uint64_t tokens_, sequences_;
  std::mt19937_64 random_;
  bool states_ = false;
  uint32_t ahead_ = 0;
  std::vector<size_t> running_;
  std::deque<Ending> ending_;    // counted until the steps that were in flight are done
  std::vector<size_t> waiting_;  // their drafts may be rejected
  uint64_t reserved_ = 0, committed_ = 0, phase_ = 0, most_ = 0;
};

}  // namespace

uint64_t random_pages(quire_config* config, const quire_cache_options& options, uint64_t tokens, uint64_t sequences, uint64_t steps,
                      uint64_t seed) {
  return RandomSchedule(config, options, tokens, sequences, seed).run(steps);
}

}  // namespace quire
