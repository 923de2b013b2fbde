// Tickets from submission to completion. Workers take them, those of the highest priority first,
// and call the library for them. A call cannot be given up, so a ticket ends without its worker:
// when it is cancelled or overdue, or when its call takes too long. Its memory is touched by a
// worker alone, and only between may_copy() and the next may_call() or end().
//
//   waits -> calls <-> copies -> ended
//
// A ticket that was accepted cannot fail to end: what its end needs is there before it is accepted.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/mooncake/mooncake_config.h"

namespace quire::mooncake {

inline constexpr uint32_t kMaxTickets = 1024;  // accepted and not polled

// With copies of what it refers to.
struct Ticket {
  enum class State { kWaits, kCalls, kCopies, kEnded };

  quire_ticket fields = {};
  std::vector<quire_ticket_run> runs;
  std::string keys;
  uint64_t sequence = 0;
  std::vector<uint64_t> sizes;  // of a look-up: what its worker found
  // Under the lock of Tickets.
  State state = State::kWaits;
  bool is_cancelled = false;
  bool is_changing = false;  // the store may be doing it: its end is waited for

  std::string_view key(uint64_t i = 0) const { return std::string_view(keys).substr(i * fields.key_bytes, fields.key_bytes); }
  bool is_change() const { return fields.kind == QUIRE_TICKET_STORE || fields.kind == QUIRE_TICKET_REMOVE; }
};
using TicketPtr = std::shared_ptr<Ticket>;

// Completions that wait to be polled, and a descriptor that is readable meanwhile.
class Ends {
 public:
  ~Ends();
  // Errors: RESOURCE_EXHAUSTED (an eventfd).
  Outcome open();
  int fd() const { return fd_; }
  // One lock is held for these. There are never more than kMaxTickets.
  void put(const quire_completion& end);
  uint64_t take(std::span<quire_completion> items);

 private:
  std::vector<quire_completion> ring_ = std::vector<quire_completion>(kMaxTickets);
  uint64_t first_ = 0;
  uint64_t count_ = 0;
  bool is_readable_ = false;
  int fd_ = -1;
};

// What a worker is to do.
struct Task {
  enum class Kind { kTicket, kTry, kLeave };
  Kind kind = Kind::kLeave;
  TicketPtr ticket;
};

class Tickets {
 public:
  // host: until close() has returned.
  Tickets(const quire_host_api& host, const Config& config);
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;

  Outcome open() { return ends_.open(); }

  // Threads of the host.
  // Accepts tickets from the first on. False: the number of the next one is in flight already.
  // Throws std::bad_alloc; then none was accepted.
  bool submit(std::span<const quire_ticket> tickets, const quire_ticket_run* runs,  //
              const uint8_t* keys, uint64_t* accepted);
  // False: none of that number is in flight.
  bool cancel(uint64_t number);
  uint64_t poll(int64_t timeout_ns, std::span<quire_completion> items);
  int fd() const { return ends_.fd(); }
  bool is_down();
  // How the first try of the store ended. Waits for it as long as the settings say.
  Outcome await_first_try();
  // Ends all tickets; workers are sent away. Returns when none of them touches memory of a ticket.
  void close();
  // Whether so many workers left within that time.
  bool await_workers(uint32_t workers, int64_t timeout_ns);

  // The thread that ends what is overdue. Returns after close().
  void watch();

  // Workers. The next task; waits for one.
  Task next(uint32_t worker);
  // A call for the ticket begins. False: it has ended, or ends now.
  bool may_call(uint32_t worker, Ticket* ticket, bool changes = false);
  // The worker touches the memory of the ticket. False: as above. Ask again after each MiB.
  bool may_copy(uint32_t worker, Ticket* ticket);
  void end(Ticket* ticket, quire_code code, uint32_t flags = 0, uint64_t bytes = 0);
  // The store does not answer, or is not there: tickets end at once until a try works.
  void lost(const Outcome& outcome);
  // How a task kTry ended.
  void tried(const Outcome& outcome);
  void left();
  // To the log of the host, unless it was closed.
  void say(quire_log_level level, std::string_view text);

 private:
  struct Sooner {
    bool operator()(const TicketPtr& a, const TicketPtr& b) const;
  };
  using Waiting = std::set<TicketPtr, Sooner>;
  using Numbers = std::unordered_map<uint64_t, TicketPtr>;
  struct Prepared {
    Numbers::node_type number;
    Waiting::node_type waiting;
  };
  struct Worker {
    TicketPtr ticket;       // of the call; it may have ended
    int64_t call_ends = 0;  // when the call has taken too long; 0: it is in none
  };

  static Prepared prepare(const quire_ticket& fields, const quire_ticket_run* runs, const uint8_t* keys);
  int64_t host_now() const { return host_.now(host_.user); }
  int64_t own_time(int64_t host_time) const;
  bool is_overdue(const Ticket& ticket) const;
  // What follows is called with the lock.
  quire_code refusal(int64_t now) const;
  bool has_store_of_key(const Ticket& ticket) const;
  bool ends_here(Ticket* ticket);
  void end_locked(Ticket* ticket, quire_code code, uint32_t flags, uint64_t bytes);
  template <typename Choice>
  void end_waiting(quire_code code, Choice choose);
  void end_calls(int64_t now);
  int64_t pause_of_watch(int64_t now) const;
  void watch_from(int64_t time);
  void say_locked(quire_log_level level, std::string_view text) const;
  uint64_t take_ends(std::span<quire_completion> items);

  const quire_host_api host_;
  const Config config_;
  std::mutex lock_;  // of all below
  std::condition_variable work_, watch_, quiet_;
  Waiting waiting_;
  Numbers numbers_;
  Ends ends_;
  uint64_t sequence_ = 0;
  std::vector<Worker> workers_;
  uint32_t num_left_ = 0;
  // Of the store: what tickets end with at once, and when it is tried again.
  Outcome state_ = {QUIRE_UNAVAILABLE, 0, "the store was not opened yet"};
  bool was_tried_ = false;
  bool is_trying_ = false;
  int64_t next_try_ = 0;
  int64_t pause_ = 0;
  int64_t watch_until_ = 0;
  bool is_closed_ = false;
};

}  // namespace quire::mooncake
