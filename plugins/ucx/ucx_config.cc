#include "plugins/ucx/ucx_config.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>

#include "plugins/common/nanoseconds.h"
#include "plugins/common/settings.h"

namespace quire::ucx {
namespace {

using plugins::kMillisecond;
using plugins::kSecond;

constexpr size_t kMostPeers = 64;
constexpr size_t kLeastSecret = 32;
constexpr size_t kMostSecret = 4096;
constexpr uint64_t kLeastCopies = 4096;
constexpr uint64_t kMostCopies = uint64_t{1} << 56;
constexpr int64_t kLeastLease = 100 * kMillisecond;
constexpr int64_t kMostLease = int64_t{24} * 3600 * kSecond;
// What checks no addresses of ours is left out: shared memory does not notice that a peer has died.
constexpr std::array<std::string_view, 6> kTransports = {"tcp", "rc", "dc", "ud", "rc_x", "dc_x"};

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Calls each(part) for the parts of a list with commas.
template <typename Each>
void split(std::string_view list, Each each) {
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    each(trimmed(list.substr(at, comma - at)));
    at = comma + 1;
  }
}

// "250ms", "30s", "10min".
std::optional<int64_t> duration_of(std::string_view text) {
  uint64_t count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count > 1'000'000'000) return std::nullopt;
  const std::string_view unit = trimmed(text.substr(static_cast<size_t>(rest - text.data())));
  const auto number = static_cast<int64_t>(count);
  if (unit == "ms") return number * kMillisecond;
  if (unit == "s") return number * kSecond;
  if (unit == "min" && number <= 1'000'000) return number * 60 * kSecond;
  return std::nullopt;
}

void read_peers(plugins::Settings* settings, Config* out) {
  const std::string list = settings->text("peers", "");
  if (trimmed(list).empty()) return;
  split(list, [&](std::string_view text) {
    const auto address = parse_address(text);
    if (!address)
      return settings->refuse("config field peers: \"" + std::string(text) + "\" is no number of a host and port, as 10.0.0.1:7800");
    for (const Address& other : out->peers) {
      if (other.text == address->text) return settings->refuse("config field peers has " + address->text + " twice");
    }
    out->peers.push_back(*address);
  });
  if (out->peers.size() > kMostPeers) settings->refuse("config field peers has " + std::to_string(out->peers.size()) + ", at most 64");
}

void read_listen(plugins::Settings* settings, Config* out) {
  const std::string listen = settings->text("listen", "");
  out->port_file = settings->text("port_file", "");
  if (settings->has("listen")) {
    out->listen = parse_address(listen, true);
    if (!out->listen)
      settings->refuse("config field listen is \"" + listen + "\", it must be a number of a host and port, as 10.0.0.1:7800");
  } else if (settings->has("port_file")) {
    settings->refuse("config field port_file needs listen");
  }
}

// The bytes of the file, as they are.
void read_secret(plugins::Settings* settings, Config* out) {
  const std::string path = settings->text("secret_file", "");
  const bool trusted = settings->flag("trusted", false);
  if (settings->has("secret_file") && trusted) return settings->refuse("config has both secret_file and \"trusted\": true");
  if (!settings->has("secret_file")) {
    if (!trusted)
      settings->require("secret_file", "32 bytes or more that all peers have, or \"trusted\": true where nobody else reaches them");
    return;
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostSecret + 1, 0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || text.size() < kLeastSecret || text.size() > kMostSecret) {
    return settings->refuse("config field secret_file: " + path + " cannot be read, or has not 32 to 4096 bytes");
  }
  out->secret = std::move(text);
}

void read_transports(plugins::Settings* settings, Config* out) {
  out->transports = "tcp";
  if (settings->has("tls")) {
    out->transports.clear();
    split(settings->text("tls", "tcp"), [&](std::string_view name) {
      if (std::find(kTransports.begin(), kTransports.end(), name) == kTransports.end()) {
        return settings->refuse("config field tls: \"" + std::string(name) + "\" is none of tcp, rc, dc, ud, rc_x, dc_x");
      }
      out->transports += (out->transports.empty() ? "" : ",") + std::string(name);
    });
  }
  out->devices = settings->text("devices", "");
  const bool is_plain = std::all_of(out->devices.begin(), out->devices.end(), [](char c) { return c > ' ' && c < 127; });
  if (out->devices.size() > 1024 || !is_plain) settings->refuse("config field devices must be names with commas, as \"eth0,mlx5_0:1\"");
}

}  // namespace

std::optional<Address> parse_address(std::string_view text, bool may_be_any_port) {
  Address address;
  address.text = text;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.size() > 64) return std::nullopt;
  std::string host(text.substr(0, colon));
  const std::string_view digits = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || (port == 0 && !may_be_any_port)) return std::nullopt;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    auto* const six = reinterpret_cast<sockaddr_in6*>(&address.storage);
    host = host.substr(1, host.size() - 2);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    address.bytes = sizeof *six;
    return inet_pton(AF_INET6, host.c_str(), &six->sin6_addr) == 1 ? std::optional(address) : std::nullopt;
  }
  auto* const four = reinterpret_cast<sockaddr_in*>(&address.storage);
  four->sin_family = AF_INET;
  four->sin_port = htons(port);
  address.bytes = sizeof *four;
  return inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1 ? std::optional(address) : std::nullopt;
}

Outcome read_config(std::string_view json, Config* out) {
  plugins::Settings settings(json);
  read_listen(&settings, out);
  read_peers(&settings, out);
  const std::string lease = settings.text("lease", "30s");
  const auto lease_ns = duration_of(lease);
  if (!lease_ns || *lease_ns < kLeastLease || *lease_ns > kMostLease) {
    settings.refuse("config field lease is \"" + lease + "\", it must be a time such as \"30s\", 100ms to 1440min");
  }
  out->lease_ns = lease_ns.value_or(30 * kSecond);
  out->copies_bytes = settings.size("copies", kLeastCopies, kMostCopies, 0);
  read_secret(&settings, out);
  read_transports(&settings, out);
  out->connect_timeout_ns = static_cast<int64_t>(settings.number("connect_timeout_ms", 1, 60'000, 2000)) * kMillisecond;
  out->timeout_ns = static_cast<int64_t>(settings.number("timeout_ms", 10, 600'000, 5000)) * kMillisecond;
  out->max_peers = static_cast<uint32_t>(settings.number("max_peers", 1, 4096, 256));
  const std::string same_host = settings.text("same_host", "auto");
  out->same_host = same_host == "auto";
  if (!out->same_host && same_host != "off") {
    settings.refuse("config field same_host is \"" + same_host + "\", it must be \"auto\" or \"off\"");
  }
  const std::string& wrong = settings.finish();
  if (!wrong.empty()) return {QUIRE_INVALID_ARGUMENT, 0, wrong};
  return {};
}

}  // namespace quire::ucx
