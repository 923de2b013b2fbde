// Who a peer is: HMAC-SHA256 with the secret over the nonces of both sides, and with keys made of
// them over every later message. A counter in each message keeps it from being used twice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plugins/ucx/ucx_wire.h"

namespace quire::ucx {

// Random bytes. False: the kernel gives none.
bool fill_random(std::span<uint8_t> out);

// What the nonces of one connection and the secret make.
class Handshake {
 public:
  Handshake(std::string_view secret, const Nonce& reader, const Nonce& owner, uint32_t lease_ms);

  Mac proof_of_owner() const;
  Mac proof_of_reader() const;
  Mac key_to_owner() const;
  Mac key_to_reader() const;

 private:
  Mac mac(std::string_view purpose) const;

  std::string_view secret_;
  std::string about_;
};

bool equal_macs(const Mac& a, const Mac& b);

// Counters that were seen. Messages may overtake each other, by less than 64.
class Replay {
 public:
  // False: it was seen, or is too old to know.
  bool accept(uint64_t counter);

 private:
  uint64_t highest_ = 0;  // counters begin with 1
  uint64_t seen_ = 0;     // bit i: highest_ - i
};

// One side of a connection after the handshake.
class Session {
 public:
  Session(const Mac& own_key, const Mac& key_of_peer)
      : own_key_(own_key),  //
        key_of_peer_(key_of_peer) {}

  // The message with its counter and the seal.
  Bytes seal(Message* message);
  // nullopt: it was not sealed with the key of the peer, or its counter is not a new one.
  std::optional<Message> open(std::span<const uint8_t> bytes);

 private:
  Mac own_key_;
  Mac key_of_peer_;
  uint64_t counter_ = 0;
  Replay replay_;
};

}  // namespace quire::ucx
