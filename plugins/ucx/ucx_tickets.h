// Tickets between threads of the host and the one of the instance: what was submitted and what was
// cancelled on the way in, ends on the way out. A ticket that was accepted cannot fail to end.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/ucx/ucx_config.h"

namespace quire::ucx {

inline constexpr uint32_t kMaxTickets = 16384;  // accepted and not polled; offers are among them

// With copies of what it refers to.
struct Ticket {
  quire_ticket fields = {};
  std::vector<quire_ticket_run> runs;
  std::string keys;
  std::vector<uint64_t> sizes;  // of a look-up; the caller's are written at the very end

  std::string_view key(uint64_t i = 0) const {  //
    return std::string_view(keys).substr(i * fields.key_bytes, fields.key_bytes);
  }
  bool is_overdue(int64_t now) const {  //
    return fields.deadline_ns != -1 && fields.deadline_ns <= now;
  }
};
using TicketRef = std::shared_ptr<Ticket>;

class Tickets {
 public:
  Tickets();
  ~Tickets();
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;

  // Errors: RESOURCE_EXHAUSTED (an eventfd).
  Outcome open();

  // Threads of the host.
  // Accepts tickets from the first on. False: the number of the next one is in flight already.
  // Throws std::bad_alloc; then none was accepted.
  bool submit(std::span<const quire_ticket> tickets, const quire_ticket_run* runs,  //
              const uint8_t* keys, uint64_t* accepted);
  // False: none of that number is in flight.
  bool cancel(uint64_t number);
  uint64_t poll(int64_t timeout_ns, std::span<quire_completion> items);
  int fd() const { return fd_; }
  void close();
  bool is_closed() const { return is_closed_.load(std::memory_order_acquire); }

  // The thread of the instance.
  // Readable when there is something below.
  int wake_fd() const { return wake_fd_; }
  void drain() const;
  // Appends what was submitted, in its order, and what was cancelled. The second must have room for
  // kMaxTickets; so this cannot fail.
  void take(std::list<TicketRef>* fresh, std::vector<uint64_t>* cancelled);
  // Leaves what was cancelled for a later call.
  void take(std::list<TicketRef>* fresh);
  // The ticket is not in flight any more: nothing touches its bytes.
  void end(const Ticket& ticket, quire_completion completion);

 private:
  using Numbers = std::unordered_map<uint64_t, TicketRef>;
  uint64_t take_ends(std::span<quire_completion> items);
  void wake() const;

  std::mutex lock_;
  Numbers numbers_;
  std::list<TicketRef> fresh_;
  std::vector<uint64_t> cancelled_;
  std::vector<quire_completion> ends_ = std::vector<quire_completion>(kMaxTickets);  // a ring
  uint64_t first_end_ = 0;
  uint64_t num_ends_ = 0;
  bool is_readable_ = false;  // the descriptor
  int fd_ = -1;
  int wake_fd_ = -1;
  std::atomic<bool> is_closed_{false};
};

}  // namespace quire::ucx
