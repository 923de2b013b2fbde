#include "plugins/redis/link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#if defined(QUIRE_REDIS_TLS)
#include <hiredis/hiredis_ssl.h>
#endif

namespace quire::redis {
namespace {

std::string shown(std::string_view text) {
  std::string out(text.substr(0, kShownBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

timeval to_timeval(int64_t ns) { return {ns / 1'000'000'000, ns % 1'000'000'000 / 1000}; }

Outcome failed(const redisContext& wire) {
  const std::string text = wire.errstr[0] != '\0' ? shown(wire.errstr) : plugins::error_text(errno);
  return {QUIRE_UNAVAILABLE, wire.err == REDIS_ERR_IO ? errno : 0, text};
}

#if defined(QUIRE_REDIS_TLS)
// The certificate of the server must be of a known authority; hiredis does not compare its name with the host's.
Outcome begin_tls(const Config& config, const Address& address, redisContext* wire) {
  struct Free {
    void operator()(redisSSLContext* of) const { redisFreeSSLContext(of); }
  };
  redisInitOpenSSL();
  redisSSLContextError error = REDIS_SSL_CTX_NONE;
  const char* const ca = config.tls_ca.empty() ? nullptr : config.tls_ca.c_str();
  const char* const folder = ca == nullptr ? "/etc/ssl/certs" : nullptr;
  const char* const name = address.host.empty() ? nullptr : address.host.c_str();
  const std::unique_ptr<redisSSLContext, Free> tls(redisCreateSSLContext(ca, folder, nullptr, nullptr, name, &error));
  if (tls == nullptr) return {QUIRE_INVALID_ARGUMENT, 0, "TLS: " + shown(redisSSLContextGetError(error))};
  if (redisInitiateSSLWithContext(wire, tls.get()) != REDIS_OK) return failed(*wire);
  return {};
}
#endif

}  // namespace

Outcome dial(const Config& config, const Address& address, bool block, Wire* out) {
  const timeval limit = to_timeval(config.connect_timeout_ns);
  redisContext* wire = nullptr;
  if (!address.path.empty()) {
    wire = block ? redisConnectUnixWithTimeout(address.path.c_str(), limit) : redisConnectUnixNonBlock(address.path.c_str());
  } else {
    wire = block ? redisConnectWithTimeout(address.host.c_str(), address.port, limit)
                 : redisConnectNonBlock(address.host.c_str(), address.port);
  }
  out->reset(wire);
  if (wire == nullptr) return {QUIRE_RESOURCE_EXHAUSTED, 0, "no host memory for a connection"};
  if (wire->err != 0) return failed(*wire);
  if (address.path.empty()) redisEnableKeepAlive(wire);
  if (block && redisSetTimeout(wire, to_timeval(config.timeout_ns)) != REDIS_OK) return failed(*wire);
#if defined(QUIRE_REDIS_TLS)
  if (config.tls && block) return begin_tls(config, address, wire);
#endif
  return {};
}

std::vector<std::vector<std::string>> greeting(const Config& config) {
  std::vector<std::vector<std::string>> commands;
  if (!config.user.empty()) {
    commands.push_back({"AUTH", config.user, config.password});
  } else if (!config.password.empty()) {
    commands.push_back({"AUTH", config.password});
  }
  if (config.database != 0) commands.push_back({"SELECT", std::to_string(config.database)});
  commands.push_back({"PING"});
  commands.push_back({"INFO", "memory"});  // the last one: it may be refused
  return commands;
}

Outcome check_greeting(const Config& config, size_t i, const redisReply& reply) {
  const auto commands = greeting(config);
  const std::string& command = commands[i][0];
  const bool is_last = i + 1 == commands.size();
  if (reply.type == REDIS_REPLY_ERROR) {
    const std::string_view text(reply.str, reply.len);
    const bool refused = text.starts_with("NOAUTH") || text.starts_with("WRONGPASS") || text.starts_with("NOPERM") || command == "AUTH";
    if (is_last && !text.starts_with("NOAUTH")) return {};
    return {refused ? QUIRE_PERMISSION_DENIED : QUIRE_UNAVAILABLE, 0, "it answers " + command + " with: " + shown(text)};
  }
  const auto expected = is_last ? REDIS_REPLY_STRING : REDIS_REPLY_STATUS;
  // What talks like this is no server of this kind.
  if (reply.type != expected) return {QUIRE_UNAVAILABLE, 0, "it does not answer " + command + " as a Redis server does"};
  return {};
}

short Link::awaited() const {
  if (state_ == State::kConnecting || (wire_ != nullptr && holds_bytes())) return POLLIN | POLLOUT;
  return POLLIN;
}

Outcome Link::begin() {
  num_greeted_ = 0;
  never_evicts_ = false;
  if (Outcome outcome = dial(config_, address_, false, &wire_); !outcome.ok()) {
    close();
    return outcome;
  }
  state_ = State::kConnecting;
  return {};
}

Outcome Link::advance() {
  if (state_ == State::kConnecting) {
    pollfd ready = {fd(), POLLOUT, 0};
    if (poll(&ready, 1, 0) == 0) return {};
    int error = 0;
    socklen_t bytes = sizeof error;
    if (getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
    if (error != 0) return {QUIRE_UNAVAILABLE, error, plugins::error_text(error)};
#if defined(QUIRE_REDIS_TLS)
    if (config_.tls) {
      if (Outcome outcome = begin_tls(config_, address_, wire_.get()); !outcome.ok()) return outcome;
    }
#endif
    state_ = State::kGreeting;
    if (Outcome outcome = greet(); !outcome.ok()) return outcome;
  }
  int done = 0;
  if (redisBufferWrite(wire_.get(), &done) != REDIS_OK) return failed(*wire_);
  if (redisBufferRead(wire_.get()) != REDIS_OK) return failed(*wire_);
  while (num_greeted_ < num_greetings_) {
    void* object = nullptr;
    if (redisGetReplyFromReader(wire_.get(), &object) != REDIS_OK) return failed(*wire_);
    if (object == nullptr) return {};
    const ReplyObject reply(static_cast<redisReply*>(object));
    if (Outcome outcome = check_greeting(config_, num_greeted_, *reply); !outcome.ok()) return outcome;
    ++num_greeted_;
    const bool is_text = reply->type == REDIS_REPLY_STRING;
    never_evicts_ = is_text && std::string_view(reply->str, reply->len).find("\nmaxmemory_policy:noeviction\r") != std::string_view::npos;
  }
  state_ = State::kUp;
  return {};
}

Outcome Link::greet() {
  const auto commands = greeting(config_);
  num_greetings_ = commands.size();
  for (const auto& command : commands) {
    std::vector<const char*> words;
    std::vector<size_t> bytes;
    for (const std::string& word : command) {
      words.push_back(word.data());
      bytes.push_back(word.size());
    }
    if (redisAppendCommandArgv(wire_.get(), static_cast<int>(words.size()), words.data(), bytes.data()) != REDIS_OK) {
      return failed(*wire_);
    }
  }
  return {};
}

void Link::close() {
  wire_.reset();
  state_ = State::kClosed;
}

bool Link::holds_bytes() const {
#if defined(QUIRE_REDIS_TLS)
  return config_.tls && wire_ != nullptr && wire_->obuf != nullptr && wire_->obuf[0] != '\0';
#else
  return false;
#endif
}

#if defined(QUIRE_REDIS_TLS)

namespace {

constexpr size_t kRecord = 65536;  // taken at once

ssize_t write_out(redisContext* wire) {
  int done = 0;
  errno = 0;
  if (redisBufferWrite(wire, &done) != REDIS_OK) return -1;
  return done;
}

}  // namespace

#endif

ssize_t Link::send(std::span<iovec> from) {
#if defined(QUIRE_REDIS_TLS)
  if (config_.tls) {
    const ssize_t done = write_out(wire_.get());
    if (done <= 0 || from.empty()) return done < 0 ? -1 : 0;
    const size_t bytes = std::min(from[0].iov_len, kRecord);
    if (redisAppendFormattedCommand(wire_.get(), static_cast<const char*>(from[0].iov_base), bytes) != REDIS_OK) return -1;
    return write_out(wire_.get()) < 0 ? -1 : static_cast<ssize_t>(bytes);
  }
#endif
  msghdr message = {};
  message.msg_iov = from.data();
  message.msg_iovlen = from.size();
  while (true) {
    const ssize_t n = sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return n;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return -1;
  }
}

ssize_t Link::receive(std::span<iovec> to) {
#if defined(QUIRE_REDIS_TLS)
  if (config_.tls) {
    errno = 0;
    const ssize_t n = wire_->funcs->read(wire_.get(), static_cast<char*>(to[0].iov_base), to[0].iov_len);
    return n >= 0 && wire_->err == 0 ? n : -1;
  }
#endif
  msghdr message = {};
  message.msg_iov = to.data();
  message.msg_iovlen = to.size();
  while (true) {
    const ssize_t n = recvmsg(fd(), &message, MSG_DONTWAIT);
    if (n > 0) return n;
    if (n == 0) {
      errno = 0;
      return -1;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return -1;
  }
}

}  // namespace quire::redis
