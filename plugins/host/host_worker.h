// A worker thread: takes tickets, moves their bytes, ends them. Callers' threads never copy and
// never take the lock of the store.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <future>
#include <vector>

#include "plugins/host/host_store.h"
#include "plugins/host/host_tickets.h"

namespace quire::host {

// What workers find out about the store.
struct Condition {
  // monotonic_now(): a store was refused, and nothing can make room before.
  std::atomic<int64_t> full_until{0};
  std::atomic<bool> broken{false};  // the lock cannot be had again
};

int64_t monotonic_now();
// Until a time of monotonic_now().
struct TimeLimit {
  explicit TimeLimit(int64_t ns) : end(monotonic_now() + ns) {}
  static bool over(const void* limit);
  int64_t end;
};
// Says so if a lock was taken over from a process that died. Called without the lock.
void log_repair(const quire_host_api& host, const Repair& repair);

enum class Start { kBegun, kNoPlace, kNoLock };

class Worker {
 public:
  Worker(const quire_host_api& host, Store* store, Tickets* tickets, Condition* condition)
      : host_(host), store_(*store), tickets_(*tickets), condition_(*condition) {}

  // Until the tickets are closed. *start is told as soon as it has a place, or not.
  void run(std::promise<Start>* start);

 private:
  enum class Until { kDeadline, kCancelled };  // what ends the wait for the lock

  quire_completion execute(Ticket* ticket);
  void store(Ticket* ticket, quire_completion* end);
  void load(Ticket* ticket, quire_completion* end);
  void look_up(Ticket* ticket, quire_completion* end);
  void remove(Ticket* ticket, quire_completion* end);
  bool end_work(bool whole, Ticket* ticket);
  quire_code lock(const Ticket& ticket, Until until);
  void unlock() { log_repair(host_, store_.unlock()); }
  bool is_over(const Ticket& ticket, Until until) const;
  Key key_of(const Ticket& ticket, uint64_t i) const;

  const quire_host_api& host_;
  Store& store_;
  Tickets& tickets_;
  Condition& condition_;
  Place* place_ = nullptr;
  std::vector<uint32_t> chunks_;  // of the object at work
};

}  // namespace quire::host
