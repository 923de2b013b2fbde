// The settings of a store, from its JSON text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/common/entry.h"

namespace quire::redis {

inline constexpr size_t kShownBytes = 160;  // of what a server says, in messages

using plugins::Outcome;

// Where a server listens: a Unix socket, or a host and a port.
struct Address {
  std::string text;  // as messages show it; the server's name in the ring of shards
  std::string path;  // of a Unix socket; empty: TCP
  std::string host;
  uint16_t port = 0;
};

struct Config {
  std::vector<Address> servers;
  std::string user;  // empty: the server's default user
  std::string password;
  uint32_t database = 0;
  std::string prefix;        // of every key
  int64_t ttl_ms = 0;        // 0: objects stay until the server evicts them
  uint32_t connections = 1;  // to each server, each with a thread
  int64_t connect_timeout_ns = 0;
  int64_t timeout_ns = 0;  // without any byte while an answer is due
  bool tls = false;
  std::string tls_ca;  // a file; empty: what the system trusts
};

// Whether this build can use TLS.
bool has_tls();

// Reads the file of the password, too. Errors: INVALID_ARGUMENT; UNIMPLEMENTED (TLS).
Outcome read_config(std::string_view json, Config* out);

}  // namespace quire::redis
