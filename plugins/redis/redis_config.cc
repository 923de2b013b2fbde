#include "plugins/redis/redis_config.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>

#include "plugins/common/nanoseconds.h"
#include "plugins/common/settings.h"

namespace quire::redis {
namespace {

constexpr size_t kMostServers = 64;
constexpr uint64_t kMostConnections = 16;
constexpr size_t kMostPrefix = 128;
constexpr size_t kMostPassword = 4096;
constexpr uint16_t kPort = 6379;
using plugins::kMillisecond;

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// "/path", "host", "host:port", "[::1]:port".
std::optional<Address> parse_address(std::string_view text) {
  Address address;
  address.text = text;
  if (text.starts_with('/')) {
    address.path = text;
    return text.size() < sizeof sockaddr_un{}.sun_path ? std::optional(address) : std::nullopt;
  }
  std::string_view host = text, port;
  if (const size_t close = text.find(']'); text.starts_with('[') && close != std::string_view::npos) {
    host = text.substr(1, close - 1);
    port = text.substr(close + 1);
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  address.host = host;
  address.port = kPort;
  if (!port.empty()) {
    const auto [end, error] = std::from_chars(port.data() + 1, port.data() + port.size(), address.port);
    if (port[0] != ':' || error != std::errc() || end != port.data() + port.size() || address.port == 0) return std::nullopt;
  }
  const bool is_plain = std::all_of(host.begin(), host.end(), [](char c) { return c > ' ' && c < 127; });
  return !host.empty() && is_plain ? std::optional(address) : std::nullopt;
}

void read_servers(plugins::Settings* settings, Config* out) {
  const std::string list = settings->text("servers", "");
  settings->require("servers", "where the servers listen, such as \"10.0.0.1:6379, 10.0.0.2\" or \"/run/redis/redis.sock\"");
  if (!settings->has("servers")) return;
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    const auto text = trimmed(std::string_view(list).substr(at, comma - at));
    const auto address = parse_address(text);
    if (!address)
      return settings->refuse("config field servers: \"" + std::string(text) + "\" is no host, host:port or absolute path of a socket");
    for (const Address& other : out->servers) {
      if (other.text == address->text) return settings->refuse("config field servers has " + address->text + " twice");
    }
    out->servers.push_back(*address);
    at = comma + 1;
  }
  if (out->servers.size() > kMostServers)
    settings->refuse("config field servers has " + std::to_string(out->servers.size()) + ", at most 64");
}

// The first line of the file.
void read_password(plugins::Settings* settings, Config* out) {
  out->user = settings->text("user", "");
  out->password = settings->text("password", "");
  const std::string path = settings->text("password_file", "");
  if (settings->has("password") && settings->has("password_file")) settings->refuse("config has both password and password_file");
  if (settings->has("password_file")) {
    std::ifstream file(path, std::ios::binary);
    std::string text(kMostPassword + 1, 0);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    if (file.bad() || text.empty() || text.size() > kMostPassword) {
      return settings->refuse("config field password_file: " + path + " cannot be read, is empty, or has more than 4096 bytes");
    }
    out->password = text.substr(0, text.find_first_of("\r\n"));
  }
  if (!out->user.empty() && out->password.empty()) settings->refuse("config field user needs password or password_file");
}

}  // namespace

bool has_tls() {
#if defined(QUIRE_REDIS_TLS)
  return true;
#else
  return false;
#endif
}

Outcome read_config(std::string_view json, Config* out) {
  plugins::Settings settings(json);
  read_servers(&settings, out);
  read_password(&settings, out);
  out->database = static_cast<uint32_t>(settings.number("database", 0, 65535, 0));
  out->prefix = settings.text("prefix", "quire:");
  if (out->prefix.size() > kMostPrefix)
    settings.refuse("config field prefix has " + std::to_string(out->prefix.size()) + " bytes, at most 128");
  out->ttl_ms = static_cast<int64_t>(settings.number("ttl_ms", 0, uint64_t{366} * 86'400'000, 0));
  out->connections = static_cast<uint32_t>(settings.number("connections", 1, kMostConnections, 1));
  out->connect_timeout_ns = static_cast<int64_t>(settings.number("connect_timeout_ms", 1, 60'000, 1000)) * kMillisecond;
  out->timeout_ns = static_cast<int64_t>(settings.number("timeout_ms", 1, 600'000, 2000)) * kMillisecond;
  out->tls = settings.flag("tls", false);
  out->tls_ca = settings.text("tls_ca", "");
  if (settings.has("tls_ca") && !out->tls) settings.refuse("config field tls_ca needs \"tls\": true");
  const std::string& wrong = settings.finish();
  if (!wrong.empty()) return {QUIRE_INVALID_ARGUMENT, 0, wrong};
  if (out->tls && !has_tls()) {
    return {QUIRE_UNIMPLEMENTED, 0, "config field tls is true, but this connector was built with a hiredis without TLS (older than 1.0)"};
  }
  return {};
}

}  // namespace quire::redis
