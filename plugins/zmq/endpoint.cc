#include "plugins/zmq/endpoint.h"

#include <charconv>

namespace quire::zmq {
namespace {

constexpr uint32_t kMostPort = 65535;

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
  if (rank <= 0) return {};
  if (!endpoint.starts_with("tcp://")) return refused(name, endpoint, "has no port that rank " + std::to_string(rank) + " can be added to");
  const size_t colon = endpoint.rfind(':');
  const std::string_view text = endpoint.substr(colon + 1);
  if (text == "*" || text == "0") return {};
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size())
    return refused(name, endpoint, "has no port that rank " + std::to_string(rank) + " can be added to");
  const uint64_t shifted = uint64_t{port} + static_cast<uint64_t>(rank);
  if (shifted > kMostPort) return refused(name, endpoint, "and rank " + std::to_string(rank) + " give port " + std::to_string(shifted));
  *out = std::string(endpoint.substr(0, colon + 1)) + std::to_string(shifted);
  return {};
}

}  // namespace quire::zmq
