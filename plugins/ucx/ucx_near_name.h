// The names of owners for readers in the same host.
#pragma once

#include <string>
#include <vector>

#include "plugins/ucx/ucx_config.h"

namespace quire::ucx {

// Of an owner that listens there. It begins with a zero byte: it is in no file system, belongs to
// the network namespace and goes with its socket.
std::string near_name(const Address& address, uint16_t port);
// Those that an owner with this address can have: its own, and if the address is one of this host,
// that of all addresses.
std::vector<std::string> near_names(const Address& address);
// Whether the process at the other end of a connected Unix socket has the user of this one.
bool is_same_user(int socket);

}  // namespace quire::ucx
