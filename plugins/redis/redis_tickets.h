// Tickets from submission to completion. A ticket is split into parts, one for each server that has
// keys of it; only look-ups have several. Parts wait for their server, those of the highest
// priority first; a connection takes one and ends it. The last end of a part ends the ticket.
//
// A ticket that was accepted cannot fail to end: what its end needs is there before it is accepted.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/redis/redis_config.h"
#include "plugins/redis/shards.h"

namespace quire::redis {

inline constexpr uint32_t kMaxTickets = 1024;  // accepted and not polled

// With copies of what it refers to.
struct Ticket {
  quire_ticket fields = {};
  std::vector<quire_ticket_run> runs;
  std::string keys;
  uint64_t sequence = 0;
  std::atomic<bool> is_cancelled{false};
  // Of the parts that have ended; under the lock. The caller's `sizes` are written at the very end.
  uint32_t parts_left = 0;
  uint32_t parts_done = 0;  // that their server answered
  quire_completion end = {};
  std::vector<uint64_t> sizes;

  std::string_view key(uint64_t i = 0) const {
    const uint64_t bytes = fields.key_bytes;
    return std::string_view(keys).substr(i * bytes, bytes);
  }
};

struct Part {
  std::shared_ptr<Ticket> ticket;
  uint32_t server = 0;
  std::vector<uint32_t> keys;  // their numbers in the ticket
  bool is_again = false;       // it was sent before, and the answer did not come
  bool is_one_range = false;   // a load that reads from its first byte to its last

  bool is_overdue(int64_t now) const {
    const int64_t deadline = ticket->fields.deadline_ns;
    return deadline != -1 && deadline <= now;
  }
};

// How a part ended. A look-up has written the sizes of its keys into the ticket.
struct PartEnd {
  std::shared_ptr<Ticket> ticket;
  quire_code code = QUIRE_OK;
  uint32_t flags = 0;  // LEASED: what it found, if anything, has the lease
  uint64_t bytes = 0;
};

class Tickets {
 public:
  explicit Tickets(const Config& config);
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
  // False: none of that number is in flight. What waits ends now.
  bool cancel(uint64_t number);
  uint64_t poll(int64_t timeout_ns, std::span<quire_completion> items);
  int fd() const { return fd_; }

  // Connections.
  // An eventfd that is written when there is something for a connection of this server.
  void listen(uint32_t server, int wake_fd);
  // From now on parts wait for the server, or end at once: with the code, if it is not OK.
  void set_state(uint32_t server, quire_code code);
  // The part that starts now; nullptr: none waits.
  std::unique_ptr<Part> take(uint32_t server);
  // A part that is to start again. Throws std::bad_alloc; then the caller has it still.
  void put_back(std::unique_ptr<Part>* part);
  // Ends what waits and is overdue. The next time at which something will be; INT64_MAX: none.
  int64_t expire(uint32_t server, int64_t now);
  // Empties the array.
  void end(std::vector<PartEnd>* ends);
  void close();
  bool is_closed() const { return is_closed_.load(std::memory_order_acquire); }

 private:
  struct Sooner {
    bool operator()(const std::unique_ptr<Part>& a, const std::unique_ptr<Part>& b) const;
  };
  using Waiting = std::set<std::unique_ptr<Part>, Sooner>;
  using Numbers = std::unordered_map<uint64_t, std::shared_ptr<Ticket>>;
  struct Server {
    Waiting waiting;
    quire_code code = QUIRE_UNAVAILABLE;  // what parts end with at once; OK: they wait
    int64_t soonest = INT64_MAX;          // no part is overdue before
    std::vector<int> wake_fds;
  };
  struct Prepared {
    Numbers::node_type number;
    std::vector<Waiting::node_type> parts;
  };

  Prepared prepare(const quire_ticket& fields, const quire_ticket_run* runs,  //
                   const uint8_t* keys) const;
  void insert(Waiting::node_type node);
  void wake(const Server& server);
  template <typename Choice>
  void end_waiting(Server* server, quire_code code, Choice choose);
  void end_part(Ticket* ticket, quire_code code, uint32_t flags, uint64_t bytes);
  uint64_t take_ends(std::span<quire_completion> items);

  const Shards shards_;
  std::mutex lock_;  // of all below but the atomic ones
  std::vector<Server> servers_;
  Numbers numbers_;
  std::vector<quire_completion> ends_ = std::vector<quire_completion>(kMaxTickets);  // a ring
  uint64_t first_end_ = 0;
  uint64_t num_ends_ = 0;
  uint64_t sequence_ = 0;
  bool is_readable_ = false;  // the descriptor
  int fd_ = -1;
  std::atomic<bool> is_closed_{false};
};

}  // namespace quire::redis
