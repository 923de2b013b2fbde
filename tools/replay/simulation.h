// The frame of the simulations: requests in steps, over a store that is what differs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "replay/content.h"
#include "replay/replay_oracle.h"

namespace quire::replay {

// Counts in units of the content. A path is that of the request.
class Store {
 public:
  virtual ~Store() = default;
  // The units that are hit, at most `most`; nothing = no room now. With `alone` there is always
  // room.
  virtual std::optional<uint32_t> start(uint32_t request, uint32_t most, bool alone) = 0;
  // Units [from, to) of the path are computed.
  virtual void reach(uint32_t request, uint32_t from, uint32_t to) = 0;
  virtual void finish(uint32_t request) = 0;
};

std::unique_ptr<Store> lru_store(const Content& content, const Sizes& sizes);
std::unique_ptr<Store> clairvoyant_store(const std::vector<Request>& trace, const Content& content, const Sizes& sizes);
std::unique_ptr<Store> marconi_store(const std::vector<Request>& trace, const Content& content, const Sizes& sizes, const Work& work);

// Units of a prompt that can be hit: its last token is computed.
inline uint32_t most_hit(const Request& request, uint32_t unit_tokens) {
  return static_cast<uint32_t>((request.input_length - 1) / unit_tokens);
}

}  // namespace quire::replay
