// What an endpoint says, by vLLM's rules: whether it is bound or connected to, and where a rank of
// several is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/common/entry.h"

namespace quire::zmq {

using plugins::Outcome;

// Of the socket that publishes; that of replays is always bound.
bool is_bound(std::string_view endpoint);
// The endpoint of a rank; name: the option. Errors: INVALID_ARGUMENT.
Outcome endpoint_of_rank(std::string_view endpoint, const char* name, int32_t rank, std::string* out);

}  // namespace quire::zmq
