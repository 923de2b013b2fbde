// When requests begin to wait for an engine: all of a trace at once, in its order, or each when its
// time has come. The time is simulated: a step takes a while, and so does each token that it
// computes.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "replay/trace.h"

namespace quire::replay {

// Without arrivals all requests wait from the beginning, and the next turn of a conversation goes
// before them. With arrivals: first come, first served.
struct Timing {
  bool arrivals = false;     // requests begin to wait when they arrive; else at once
  double think_seconds = 0;  // between the end of a turn and the next one of its conversation
  double step_ms = 20;       // of a step
  double token_us = 20;      // of each token that a step computes, besides

  bool counts() const { return arrivals || think_seconds > 0; }
};

class Schedule {
 public:
  struct Due {
    uint64_t request = 0;
    bool first = false;  // before those that wait
  };

  // The trace is borrowed. Throws std::invalid_argument where the timing has nothing to count: no
  // request has a time, or none goes on with another.
  Schedule(const std::vector<Request>& trace, const Timing& timing);

  // The requests that begin to wait now, in order; valid until the next call. idle: nobody waits or
  // runs, so the time of the next one has come.
  const std::vector<Due>& due(bool idle);
  // A step was made that computed so many tokens.
  void stepped(uint64_t tokens) {  //
    now_ += timing_.step_ms / 1e3 + static_cast<double>(tokens) * timing_.token_us / 1e6;
  }
  // In that step the request ended.
  void ended(uint64_t request);
  // Since the begin of the trace.
  double seconds() const { return now_; }

 private:
  struct Event {
    double time = 0;  // seconds
    uint64_t number = 0;
    Due due;
    bool operator>(const Event& other) const {  //
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  void add(double time, Due due) { events_.push({time, next_number_++, due}); }

  const std::vector<Request>& trace_;
  Timing timing_;
  double now_ = 0;
  uint64_t next_number_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Due> due_;
};

}  // namespace quire::replay
