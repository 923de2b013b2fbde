// The thread of a store. It alone touches the ring, the index and the tickets at work.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/file/file_store.h"
#include "plugins/file/mailbox.h"
#include "plugins/file/task.h"

namespace quire::file {

// What other threads may know at any time.
struct Shown {
  std::atomic<quire_connector_state> state = QUIRE_CONNECTOR_UP;
  std::atomic<uint64_t> used_bytes = 0;
  std::atomic<uint64_t> num_objects = 0;
  std::atomic<uint64_t> num_evicted = 0;
  std::atomic<uint64_t> num_damaged = 0;
};

class Worker {
 public:
  Worker(const Config&, const quire_host_api*, Mailbox*, KernelMaker);
  // Ends all tickets and the thread. An operation of the kernel that never returns holds it up;
  // then the log says so.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Opens the directory and starts the thread. Errors: those of Catalog::open, UNAVAILABLE (no
  // io_uring).
  Outcome open();
  // Any thread.
  void wake();
  // In a child of fork(), instead of the destructor: the thread and what it does belong to the
  // parent.
  void leave();
  const Shown& shown() const { return shown_; }

 private:
  // By priority, the highest first.
  using Waiting = std::multimap<int64_t, std::unique_ptr<Ticket>>;

  void run();
  bool turn();
  void receive();
  void cancel(uint64_t ticket);
  void list(Listing* listing);
  Waiting& waiting_of(const Ticket& ticket);
  size_t num_at_work(quire_ticket_kind kind) const;
  size_t room_for(const Waiting& waiting) const;
  void begin_waiting(Waiting* waiting);
  void begin(std::unique_ptr<Ticket> ticket, std::vector<std::unique_ptr<Task>>* tasks);
  template <typename Which>
  void end_all(Which which, quire_code code);
  void end_overdue();
  void complete(const Ticket& ticket, quire_code code);
  void keep_up(int64_t now);
  void retry();
  void start_transfers();
  int64_t pause();
  void dispatch(const Ended& ended);
  void sweep();
  void tick();
  void show();

  Store store_;
  Mailbox& mailbox_;
  KernelMaker make_kernel_;
  std::unique_ptr<Kernel> kernel_;
  Shown shown_;
  Waiting stores_, loads_;
  Waiting quick_;                             // look-ups and removals
  std::vector<std::unique_ptr<Task>> tasks_;  // stores and loads by priority
  std::vector<std::unique_ptr<Task>> quick_tasks_;
  int64_t next_deadline_ = INT64_MAX;
  int64_t next_tick_ = 0;
  bool is_closing_ = false;
  bool is_retrying_ = false;
  bool has_slices_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  enum class Phase { kStarting, kRunning, kEnded } phase_ = Phase::kStarting;
  std::string failure_;
  std::thread thread_;
};

}  // namespace quire::file
