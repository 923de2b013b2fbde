// Batches on their way from the engine to the publisher's thread. Whoever gives one never waits for
// that thread: what has no room is dropped.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>

#include "plugins/zmq/sockets.h"

namespace quire::zmq {

using Clock = std::chrono::steady_clock;

struct Batch {
  uint64_t number = 0;
  Frame payload;
};

class Queue {
 public:
  struct State {
    uint64_t next_number = 0;
    uint64_t batches = 0;
    uint64_t bytes = 0;
    uint64_t dropped = 0;
  };

  Queue(uint64_t max_batches, uint64_t max_bytes) : max_batches_(max_batches), max_bytes_(max_bytes) {}
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  // Errors: RESOURCE_EXHAUSTED.
  Outcome open();

  // Gives the batch the next number, also if there is no room for it. Throws std::bad_alloc, and
  // has then done nothing.
  void push(Frame payload);
  bool pop(Batch* out);
  // Nothing is pushed any more. What is queued may be sent until then.
  void close(Clock::time_point deadline);
  bool is_closed(Clock::time_point* deadline) const;
  State state() const;
  bool is_half_empty() const;

  // Readable from the first push to an empty queue, and from close, until clear.
  int fd() const { return fd_; }
  void clear() const;

 private:
  void wake() const;

  const uint64_t max_batches_, max_bytes_;
  int fd_ = -1;
  mutable std::mutex mutex_;
  std::deque<Batch> batches_;
  State state_;
  bool is_closed_ = false;
  Clock::time_point deadline_;
};

}  // namespace quire::zmq
