// Events on the wire, as vLLM's consumers expect them: one msgpack batch per publication. What sends
// them is plugins/zmq.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/events/block_hash.h"

namespace quire {

// One event; all text is borrowed, empty text is nil (or left out where the format allows).
struct WireEvent {
  quire_event_type type = QUIRE_EVENT_CLEARED;
  bool whole_hashes = false;
  std::vector<std::string_view> hashes;  // digests
  std::string_view parent;               // one digest
  std::span<const int64_t> tokens;
  uint64_t block_tokens = 0;
  std::optional<uint64_t> adapter_number;
  std::string_view adapter;
  std::string_view medium = "GPU";
  uint64_t num_keys = 0;  // 0 = the field is left out
  std::string_view keys;  // encoded
  std::optional<uint32_t> group;
  std::string_view kind;
  std::optional<uint64_t> window;
  std::string_view locality;
};

// The event as it goes out; borrows from data, into which its offsets point.
WireEvent wire_of(const quire_event& event, const uint8_t* data, bool whole_hashes);

// Appends the keys of one block: nil, or an array of strings, [identifier, offset] and byte
// strings.
void encode_keys(std::span<const ExtraKey> keys, std::string* out);
void encode_event(const WireEvent& event, std::string* out);
void encode_batch(double time, std::span<const WireEvent> events, std::optional<uint64_t> rank, std::string* out);

// What all of several workers reported, in the order of first appearance. An event counts as often
// as it was reported.
std::vector<std::string> events_of_all(std::span<const std::vector<std::string>> encoded_by_worker);

}  // namespace quire
