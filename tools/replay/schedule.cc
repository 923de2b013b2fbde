#include "replay/schedule.h"

#include <algorithm>

namespace quire::replay {

Schedule::Schedule(const std::vector<Request>& trace, const Timing& timing) : trace_(trace), timing_(timing) {
  for (uint64_t i = 0; i < trace.size(); ++i) {
    if (!trace[i].continues) add(timing.arrivals ? static_cast<double>(trace[i].arrival_ms) / 1e3 : 0, {i, false});
  }
}

const std::vector<Schedule::Due>& Schedule::due(bool idle) {
  due_.clear();
  if (idle && !events_.empty()) now_ = std::max(now_, events_.top().time);
  for (; !events_.empty() && events_.top().time <= now_; events_.pop()) due_.push_back(events_.top().due);
  return due_;
}

void Schedule::ended(uint64_t request) {
  if (request + 1 >= trace_.size() || !trace_[request + 1].continues) return;
  add(now_ + timing_.think_seconds, {request + 1, timing_.think_seconds == 0});
}

}  // namespace quire::replay
