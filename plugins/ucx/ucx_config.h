// The settings of the ucx connector. docs/connectors.md describes them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/common/entry.h"

namespace quire::ucx {

using plugins::Outcome;

// A numeric address and a port.
struct Address {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;
  std::string text;  // as it was given
};

// "10.0.0.1:7800" or "[::1]:7800".
std::optional<Address> parse_address(std::string_view text, bool may_be_any_port = false);

struct Config {
  std::optional<Address> listen;
  std::string port_file;
  std::vector<Address> peers;  // asked in this order for keys without an address
  int64_t lease_ns = 0;        // of an offer
  uint64_t copies_bytes = 0;   // 0: stores are offers
  std::string secret;          // empty: trusted
  std::string transports;      // as UCX's TLS
  std::string devices;         // as UCX's NET_DEVICES; empty: all
  int64_t connect_timeout_ns = 0;
  int64_t timeout_ns = 0;  // without a byte from a peer that owes some
  uint32_t max_peers = 0;  // that are served at once
  bool same_host = true;   // peers of one host talk over shared memory
};

// Errors: INVALID_ARGUMENT; the message names the field.
Outcome read_config(std::string_view json, Config* out);

}  // namespace quire::ucx
