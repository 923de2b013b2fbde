#include "plugins/zmq/queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace quire::zmq {

Queue::~Queue() {
  if (fd_ >= 0) ::close(fd_);
}

Outcome Queue::open() {
  fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd_ < 0) return {QUIRE_RESOURCE_EXHAUSTED, errno, "no descriptor for the publisher's queue: " + plugins::error_text(errno)};
  return {};
}

void Queue::push(Frame payload) {
  const uint64_t bytes = payload.bytes().size();
  const std::lock_guard lock(mutex_);
  const bool is_empty = batches_.empty();
  const bool has_room = batches_.size() < max_batches_ && (is_empty || (bytes <= max_bytes_ && state_.bytes <= max_bytes_ - bytes));
  if (has_room) {
    batches_.push_back({state_.next_number, std::move(payload)});
    state_.bytes += bytes;
  } else {
    ++state_.dropped;
  }
  ++state_.next_number;
  if (is_empty) wake();
}

bool Queue::pop(Batch* out) {
  const std::lock_guard lock(mutex_);
  if (batches_.empty()) return false;
  *out = std::move(batches_.front());
  batches_.pop_front();
  state_.bytes -= out->payload.bytes().size();
  return true;
}

void Queue::close(Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  deadline_ = deadline;
  wake();
}

bool Queue::is_closed(Clock::time_point* deadline) const {
  const std::lock_guard lock(mutex_);
  *deadline = deadline_;
  return is_closed_;
}

Queue::State Queue::state() const {
  const std::lock_guard lock(mutex_);
  State state = state_;
  state.batches = batches_.size();
  return state;
}

bool Queue::is_half_empty() const {
  const std::lock_guard lock(mutex_);
  return batches_.size() <= max_batches_ / 2 && state_.bytes <= max_bytes_ / 2;
}

void Queue::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);  // full: it is readable already
}

void Queue::clear() const {
  uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(fd_, &count, sizeof count);
}

}  // namespace quire::zmq
