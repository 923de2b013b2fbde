// Tickets from submission to completion: those that wait, in the order in which they start; those
// that run; ends that wait to be polled. All memory of a ticket but its keys and runs is there from
// the beginning, so a ticket that was accepted cannot fail to end.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "plugins/host/host_store.h"

namespace quire::host {

inline constexpr uint32_t kMaxInFlight = 1024;

// What the tickets of one call need of its arrays.
struct Submission {
  std::vector<quire_ticket_run> runs;
  std::vector<uint8_t> keys;
  uint64_t first_run = 0;  // of the caller's array that is copied
  uint64_t first_key_byte = 0;
  UseHint hint;  // under the lock of the store
};

struct Ticket {
  quire_ticket fields{};
  std::shared_ptr<Submission> submission;
  uint64_t first_use = 0;  // of its last key; every earlier key has one more
  uint64_t sequence = 0;
  enum { kFree, kWaits, kRuns, kEnded } state = kFree;
  std::atomic<bool> cancelled{false};

  std::span<const quire_ticket_run> runs() const;
  const uint8_t* key(uint64_t i) const;
  Use use(uint64_t i) { return {first_use + fields.num_keys - 1 - i, &submission->hint}; }
};

class Tickets {
 public:
  Tickets();
  ~Tickets();
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;

  // errno, or 0.
  int open();
  int fd() const { return fd_; }

  // How many of the tickets, from the first on, are in flight now. next_use: counts the uses of all
  // submissions. *doubled: the number of the next ticket is in flight already. Throws
  // std::bad_alloc; then none was accepted.
  uint64_t submit(std::span<const quire_ticket> tickets, const quire_ticket_run* runs,  //
                  const uint8_t* keys, std::atomic<uint64_t>* next_use, bool* doubled);
  // False: none of that number is in flight. One that waits ends now.
  bool cancel(uint64_t number);
  uint64_t poll(int64_t timeout_ns, std::span<quire_completion> items);

  // For workers. The ticket that starts now; waits for one. nullptr = closed. Tickets whose
  // deadline passed end here.
  Ticket* next(const quire_host_api& host);
  // To wake whoever polls takes about as long as to copy 32 KiB. So while more short tickets wait,
  // an end may be announced up to 50 microseconds late, together with others.
  void end(Ticket* ticket, const quire_completion& completion);
  // Before a wait: ends what waits and whose deadline has passed, and announces all ends.
  void look_around(int64_t now);
  // Everything that waits ends, what runs is asked to, workers are let go.
  void close();
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

 private:
  struct Sooner {
    bool operator()(const Ticket* a, const Ticket* b) const;
  };
  struct Earlier {
    bool operator()(const Ticket* a, const Ticket* b) const;
  };
  using Waiting = std::set<Ticket*, Sooner>;
  using Deadlines = std::set<Ticket*, Earlier>;
  using Numbers = std::unordered_map<uint64_t, Ticket*>;
  struct Spare;

  using Shared = std::shared_ptr<Submission>;
  void accept(const quire_ticket& fields, const Shared& submission, uint64_t first_use);
  void stop_waiting(Ticket* ticket);
  void end_locked(Ticket* ticket, const quire_completion& completion);
  void announce();
  void expire(int64_t now);
  uint64_t take(std::span<quire_completion> items);

  std::mutex lock_;
  // Counts what workers wait for. Not a condition variable: a child of fork() could not destroy one
  // that the parent's workers wait for.
  std::atomic<int> calls_{0};
  std::atomic<bool> closed_{false};
  std::unique_ptr<Ticket[]> all_;
  std::vector<Ticket*> free_;
  // Nodes of the containers are made once and change places; inserting one takes no memory.
  Waiting waiting_;
  Deadlines deadlines_;
  Numbers numbers_;
  std::unique_ptr<Spare> spare_;
  std::vector<quire_completion> ends_;  // a ring
  uint64_t first_end_ = 0;
  uint64_t num_ends_ = 0;
  uint64_t sequence_ = 0;
  int64_t quiet_since_ = 0;  // when the first end came that is not announced; 0 = all are
  bool readable_ = false;    // the descriptor
  int fd_ = -1;
};

}  // namespace quire::host
