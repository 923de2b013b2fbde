// Ends: the last sequence runs to its end, and behind the last one nothing is left.
#include <algorithm>

#include "tests/stamps/runner.h"

namespace quire::stamps {

// Nothing is in flight, nothing arrives, nothing is pinned.
void Runner::settle() {
  while (!in_flight_.empty()) commit();
  settle_tiers();
  while (!loads_.empty()) end_load();
  while (!pins_.empty()) unpin();
  end_all_holds();
}

void Runner::run_to_its_end() {
  bool again = false;
  while (!sequences_.empty() && sequences_[0].committed < sequences_[0].goal) {
    if (!in_flight_.empty()) {
      commit();
      continue;
    }
    if (reserve_entries({0})) continue;
    // Its parts may lie scattered over pages that it shared with others. Then it starts again,
    // once.
    const bool scattered = (refused_.flags & QUIRE_RESULT_NEVER_FITS) == 0 && sequences_[0].reserved > 0;
    if (again || !scattered) {
      throw Mismatch("the last sequence makes no progress: " + std::to_string(sequences_[0].reserved) + " of " +
                     std::to_string(sequences_[0].goal) + " tokens, " + std::to_string(refused_.missing_pages) +
                     " pages are missing, flags " + std::to_string(refused_.flags));
    }
    again = true;
    (void)preempt_one(&sequences_[0]);
  }
}

// Creates a sequence while there is no other, and runs it to its end.
void Runner::run_alone(Sequence s) {
  const quire_identity identity = s.owner.describe(s.flags);
  quire_error err = QUIRE_INIT(quire_error);
  must_call(quire_sequence_create(cache_.get(), &identity, &s.id, &err), err, "create");
  empty(&s);
  s.family = s.life;
  sequences_.push_back(std::move(s));
  trace("alone", sequences_[0].id, sequences_[0].prompt, sequences_[0].goal);
  run_to_its_end();
  while (!in_flight_.empty()) commit();
  (void)finish_one(0);
}

// Of what the last sequence computed a longer one goes on: its hit must leave it room.
void Runner::go_on_alone() {
  Sequence s = sequences_[0];
  (void)finish_one(0);
  s.prompt = dice_.between(1, limits_.longest);
  s.goal = limits_.longest;
  run_alone(std::move(s));
}

void Runner::drain() {
  mode_.quiet = true;
  settle();
  while (sequences_.size() > 1) (void)finish_one(dice_.below(sequences_.size()));
  if (!sequences_.empty() && dice_.percent(40)) sequences_[0].goal = limits_.longest;
  run_to_its_end();
  while (!in_flight_.empty()) commit();
  if (!sequences_.empty() && dice_.percent(60)) go_on_alone();
  mode_.quiet = false;
  tallies_.count(kDrained);
}

// A request as long as the plan allows is admitted.
void Runner::fit_whole() {
  mode_.quiet = true;
  Sequence s;
  s.flags = QUIRE_SEQUENCE_NO_MATCH;
  s.text = History(s.owner.root());
  s.prompt = std::max<uint64_t>(limits_.longest / 2, 1);
  s.goal = limits_.longest;
  rewrite(&s, 0);
  run_alone(std::move(s));
}

void Runner::finale() {
  drain();
  while (!sequences_.empty()) (void)finish_one(0);
  watch_no_more();
  drop_tiers();
  check();
  demand(stats().pages_used == 0 && stats().parts_used == 0, "pages are used when nobody is there");
  fit_whole();
  check();
  demand(stats().pages_used == 0 && stats().pins == 0, "pages are used at the end");
}

}  // namespace quire::stamps
