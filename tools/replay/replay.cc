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
  for (uint64_t i = 0; i < trace.size(); ++i) {
    if (!trace[i].continues) engine.give(i);
  }
  while (engine.busy()) {
    for (const uint64_t ended : engine.step()) {
      if (ended + 1 < trace.size() && trace[ended + 1].continues) engine.give_first(ended + 1);
    }
    if (options.progress != nullptr) options.progress(engine.result().requests, trace.size());
  }
  return engine.result();
}

}  // namespace quire::replay
