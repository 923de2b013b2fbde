// The messages of the protocol as bytes. Pure: nothing here knows of UCX, connections or keys of a
// session. All integers are little-endian. Whatever is decoded has been checked: lengths are exact,
// counts and sums are bounded.
//
//   hello    reader to owner   version, nonce
//   welcome  owner to reader   version, nonce, lease, proof of the secret
//   confirm  reader to owner   proof of the secret
//   refuse   owner to reader   why; the connection ends
// From then on every message has a counter and ends with a seal (ucx_seal.h):
//   look-up  reader to owner   keys, and for how long they are wanted
//   found    owner to reader   their sizes
//   want     reader to owner   a key and ranges of its object
//   data     owner to reader   the header of the bytes of a want
//   done     reader to owner   a key whose object is not needed any more
//   answer   owner to reader   to a want that is refused, or to a done
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/ucx/ucx_key.h"

namespace quire::ucx {

inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kMacBytes = 32;
inline constexpr size_t kMostKeys = 128;                    // of a look-up
inline constexpr size_t kMostRanges = 384;                  // of a want
inline constexpr uint64_t kMostWanted = uint64_t{4} << 20;  // bytes of a want
inline constexpr size_t kMostMessage = 8000;                // bytes, seal included
inline constexpr uint64_t kMostOffset = uint64_t{1} << 63;  // ends of ranges lie below

using Nonce = std::array<uint8_t, kNonceBytes>;
using Mac = std::array<uint8_t, kMacBytes>;
using Bytes = std::vector<uint8_t>;

enum class Kind : uint8_t {
  kHello = 1,
  kWelcome = 2,
  kConfirm = 3,
  kRefuse = 4,
  kLookup = 5,
  kFound = 6,
  kWant = 7,
  kData = 8,
  kDone = 9,
  kAnswer = 10,
};

// Of an answer.
enum class Verdict : uint8_t {
  kOk = 0,
  kNotFound = 1,
  kOutOfRange = 2,
  kNotYours = 3,  // an object without a handle cannot be taken away from others
  kBusy = 4,      // no memory for it now
};

struct Range {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// One message; which fields have a meaning depends on the kind.
struct Message {
  Kind kind = Kind::kHello;
  uint64_t counter = 0;  // of sealed ones
  uint16_t version = 0;
  Nonce nonce = {};
  Mac mac = {};
  uint32_t lease_ms = 0;  // welcome: of the owner; look-up: 0 = none is asked for
  uint64_t request = 0;   // chosen by the reader
  uint64_t bytes = 0;     // data
  Verdict verdict = Verdict::kOk;
  bool leased = false;  // found
  std::vector<ObjectKey> keys;
  std::vector<uint64_t> sizes;
  std::vector<Range> ranges;
};

bool is_sealed(Kind kind);

// Without the seal. What is encoded must be legal.
Bytes encode(const Message& message);
// bytes: without the seal. nullopt: it is no message.
std::optional<Message> decode(std::span<const uint8_t> bytes);

// Of the ranges; nullopt: one is empty or ends beyond 2^63, or the sum is more than `most`.
std::optional<uint64_t> sum_of(std::span<const Range> ranges, uint64_t most);

}  // namespace quire::ucx
