#include "replay/replay.h"

#include <algorithm>

#include "replay/replay_engine.h"

namespace quire::replay {

uint64_t longest_request(const std::vector<Request>& trace) {
  uint64_t longest = 0;
  for (const Request& request : trace) longest = std::max(longest, request.input_length + request.output_length);
  return longest;
}

Result run(quire_cache* cache, const std::vector<Request>& trace, const Options& options) {
  Engine engine(cache, trace, options);
  Schedule schedule(trace, options.timing);
  while (true) {
    for (const Schedule::Due& due : schedule.due(!engine.busy())) due.first ? engine.give_first(due.request) : engine.give(due.request);
    if (!engine.busy()) break;
    const uint64_t before = engine.result().computed_tokens;
    const std::vector<uint64_t>& ended = engine.step();
    schedule.stepped(engine.result().computed_tokens - before);
    for (const uint64_t request : ended) schedule.ended(request);
    if (options.clock != nullptr) *options.clock = static_cast<int64_t>(engine.result().requests) * 1'000'000;
    if (options.progress != nullptr) options.progress(engine.result().requests, trace.size());
  }
  Result result = engine.result();
  if (options.timing.counts()) result.simulated_seconds = schedule.seconds();
  return result;
}

}  // namespace quire::replay
