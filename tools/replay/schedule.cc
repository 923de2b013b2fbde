#include "replay/schedule.h"

#include <algorithm>
#include <stdexcept>

namespace quire::replay {

Schedule::Schedule(const std::vector<Request>& trace, const Timing& timing) : trace_(trace), timing_(timing) {
  uint64_t begin = UINT64_MAX, end = 0;
  bool continues = false;
  for (const Request& request : trace) {
    begin = std::min(begin, request.arrival_ms);
    end = std::max(end, request.arrival_ms);
    continues = continues || request.continues;
  }
  if (timing.arrivals && end == 0 && !trace.empty()) throw std::invalid_argument("--arrivals: the trace has no times");
  if (timing.think_seconds > 0 && !continues && !trace.empty()) {
    throw std::invalid_argument("--think-time: no request of the trace goes on with the one before it");
  }
  for (uint64_t i = 0; i < trace.size(); ++i) {
    if (!trace[i].continues) add(timing.arrivals ? static_cast<double>(trace[i].arrival_ms - begin) / 1e3 : 0, {i, false});
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
  add(now_ + timing_.think_seconds, {request + 1, !timing_.arrivals});
}

}  // namespace quire::replay
