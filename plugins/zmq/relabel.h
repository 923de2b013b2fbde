// Medium and locality of encoded events. quire_events_encode writes "GPU" and no locality.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire::zmq {

// What is said of all events of a batch.
struct Label {
  std::string_view medium = "GPU";
  std::string_view locality;  // empty: not said
  bool is_default() const { return medium == "GPU" && locality.empty(); }
};

// Appends the batch with this label in every event that has a medium. False if the bytes are no
// batch, which an event's extra keys can cause.
bool relabel(std::span<const uint8_t> batch, const Label& label, std::string* out);

}  // namespace quire::zmq
