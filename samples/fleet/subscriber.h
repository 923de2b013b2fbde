// subscriber.h: receives the events of one engine over ZeroMQ, and asks again for what is lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "view.h"

namespace fleet {

// What libzmq keeps for sockets. It is shared by the sockets of a program, and outlives them.
class Sockets {
 public:
  Sockets();
  ~Sockets();
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  void* libzmq() const { return libzmq_; }

 private:
  void* libzmq_;
};

class Subscriber {
 public:
  // Follows a publisher into a view; both endpoints may be bound later.
  Subscriber(const Sockets& sockets, const std::string& endpoint, const std::string& replays,
             View* view);

  // Takes what has arrived and asks for what is missing. Never waits.
  void follow();
  // To wait for: a ZMQ_SUB and a ZMQ_DEALER socket.
  void* events() const { return events_.get(); }
  void* replays() const { return replays_.get(); }
  uint64_t asked() const { return asked_; }  // requests for replays

 private:
  using Clock = std::chrono::steady_clock;
  struct Close {
    void operator()(void* socket) const;
  };
  using Socket = std::unique_ptr<void, Close>;

  void receive_events();
  void receive_replays();
  void ask();

  Socket events_, replays_;
  View* view_;
  enum class State { kWhole, kGap, kAsked } state_ = State::kWhole;
  Clock::time_point since_;
  uint64_t asked_ = 0, asked_from_ = 0;
};

}  // namespace fleet
