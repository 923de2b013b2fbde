#include "plugins/zmq/endpoint.h"

#include <charconv>

namespace quire::zmq {
namespace {

constexpr uint64_t kMostPort = 65535;

Outcome refused(const char* name, std::string_view endpoint, const std::string& why) {
  return {QUIRE_INVALID_ARGUMENT, 0, std::string(name) + " '" + std::string(endpoint) + "' " + why};
}

}  // namespace

bool is_bound(std::string_view endpoint) {
  return endpoint.find('*') != std::string_view::npos || endpoint.find("::") != std::string_view::npos || endpoint.starts_with("ipc://");
}

Outcome endpoint_of_rank(std::string_view endpoint, const char* name, int32_t rank, std::string* out) {
  if (endpoint.starts_with("inproc://"))
    return refused(name, endpoint, "is inside the publisher's context, which nobody else has: use ipc");
  *out = endpoint;
  const bool is_tcp = endpoint.starts_with("tcp://");
  const size_t colon = endpoint.rfind(':');
  const std::string_view text = endpoint.substr(colon + 1);
  if (is_tcp && (text == "*" || text == "0")) return {};
  uint64_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_number = is_tcp && end == text.data() + text.size() && error != std::errc::invalid_argument;
  // libzmq takes the lowest 16 bits.
  if (is_number && (error != std::errc() || port > kMostPort)) return refused(name, endpoint, "has a port above 65535");
  if (rank <= 0) return {};
  if (!is_number) return refused(name, endpoint, "has no port that rank " + std::to_string(rank) + " can be added to");
  port += static_cast<uint64_t>(rank);
  if (port > kMostPort) return refused(name, endpoint, "and rank " + std::to_string(rank) + " give port " + std::to_string(port));
  *out = std::string(endpoint.substr(0, colon + 1)) + std::to_string(port);
  return {};
}

}  // namespace quire::zmq
