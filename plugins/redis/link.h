// One connection to a server: hiredis connects it and reads the answers to its greeting, which are
// those to AUTH, SELECT and INFO. From then on it sends and receives bytes. Nothing here waits,
// except that hiredis may ask a name server for the address of a host.
#pragma once

#include <hiredis/hiredis.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugins/redis/redis_config.h"

namespace quire::redis {

struct FreeWire {
  void operator()(redisContext* of) const { redisFree(of); }
};
using Wire = std::unique_ptr<redisContext, FreeWire>;
struct FreeReply {
  void operator()(redisReply* of) const { freeReplyObject(of); }
};
using ReplyObject = std::unique_ptr<redisReply, FreeReply>;

// Connected, or beginning to be. block: at most for the timeouts of the settings, here and later.
Outcome dial(const Config& config, const Address& address, bool block, Wire* out);
// The commands of the greeting.
std::vector<std::vector<std::string>> greeting(const Config& config);
// What an answer to command i of the greeting means.
Outcome check_greeting(const Config& config, size_t i, const redisReply& reply);

class Link {
 public:
  enum class State { kClosed, kConnecting, kGreeting, kUp };

  Link(const Config& config, const Address& address) : config_(config), address_(address) {}

  State state() const { return state_; }
  int fd() const { return wire_ != nullptr ? wire_->fd : -1; }
  // For poll(2) before it is up.
  short awaited() const;
  Outcome begin();
  // When poll(2) says so: one step on the way up.
  Outcome advance();
  void close();

  // Once it is up. How many bytes were moved; 0: none now; -1: it is lost, see errno (0: the server
  // has closed it).
  ssize_t send(std::span<iovec> from);
  ssize_t receive(std::span<iovec> to);
  // Whether a receive() that fills less than there is room for took all that came so far.
  bool tells_all() const { return !config_.tls; }
  // Whether bytes that were taken by send() still lie here.
  bool holds_bytes() const;
  // Whether the server said that it never evicts.
  bool never_evicts() const { return never_evicts_; }

 private:
  Outcome greet();

  const Config& config_;
  const Address& address_;
  Wire wire_;
  State state_ = State::kClosed;
  size_t num_greeted_ = 0;  // answers
  size_t num_greetings_ = 0;
  bool never_evicts_ = false;
};

}  // namespace quire::redis
