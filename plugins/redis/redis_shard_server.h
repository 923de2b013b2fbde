// What the connections to one server have in common: whether it can be reached, and when the next
// of them may try. While none is connected, one tries at a time, after pauses that double.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>

#include "plugins/redis/redis_tickets.h"

namespace quire::redis {

// To the log of the host.
class Log {
 public:
  explicit Log(const quire_host_api* host) : host_(host) {}
  // One line of these texts. What cannot be printed is shown as '?'. Takes no memory.
  void say(quire_log_level level, std::initializer_list<std::string_view> texts) const;
  int64_t now() const { return host_->now(host_->user); }

 private:
  const quire_host_api* host_;
};

// What answers say of all servers together. Times are the host's.
struct Condition {
  std::atomic<int64_t> full_until{0};
  std::atomic<int64_t> read_only_until{0};
};

class Server {
 public:
  Server(const Config& config, uint32_t number, Tickets* tickets, const Log* log);

  const Address& address() const { return address_; }
  uint32_t number() const { return number_; }
  bool is_up();
  // Waits until the first try has ended, at most as long as the settings allow it to take. How it
  // ended.
  Outcome await_first();

  // Whether a connection may try now; then it calls up() or failed(). If not: *next is when to ask
  // again, or when it is woken.
  bool may_try(int64_t now, int64_t* next);
  void up();
  // was_up: the connection had called up().
  void failed(const Outcome& outcome, int64_t now, bool was_up);
  // An answer came: the server works. Pauses begin from the shortest one again.
  void works();
  // What a server said, once for each kind of error until it is down and up again.
  void complain(std::string_view text);

 private:
  int64_t pause();

  const Address& address_;
  const uint32_t number_;
  const int64_t patience_;  // for the first try
  Tickets& tickets_;
  const Log& log_;
  std::mutex lock_;
  std::condition_variable tried_;
  bool is_tried_ = false;
  bool is_trying_ = false;
  uint32_t num_up_ = 0;
  uint32_t num_failures_ = 0;
  int64_t pause_ = 0;  // 0: none yet
  int64_t next_try_ = 0;
  uint64_t random_;
  uint32_t said_ = 0;  // a bit for each kind of error
  Outcome outcome_;    // of the last failure
};

}  // namespace quire::redis
