// The sockets of a publisher, over libzmq: what is sent, what is received, and why a call failed.
// After open() one thread owns them.
#pragma once

#include <zmq.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/common/entry.h"

namespace quire::zmq {

using plugins::Outcome;

// A frame, whose bytes are shared by its copies.
class Frame {
 public:
  Frame() { zmq_msg_init(&message_); }
  // Throws std::bad_alloc.
  explicit Frame(std::string_view bytes);
  Frame(Frame&& other) noexcept : Frame() { zmq_msg_move(&message_, &other.message_); }
  Frame& operator=(Frame&& other) noexcept {
    zmq_msg_move(&message_, &other.message_);
    return *this;
  }
  ~Frame() { zmq_msg_close(&message_); }
  // Throws std::bad_alloc.
  Frame share() const;
  std::string_view bytes() const;
  bool is_followed() const { return zmq_msg_more(&message_) != 0; }
  zmq_msg_t* get() { return &message_; }

 private:
  mutable zmq_msg_t message_;  // libzmq's counters of references change when it is copied
};

struct SocketOptions {
  std::string endpoint;
  std::string replay_endpoint;  // empty: no replays
  int hwm = 0;
  int replay_hwm = 0;
};

class Sockets {
 public:
  // Errors: INVALID_ARGUMENT, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, INTERNAL.
  static Outcome open(const SocketOptions& options, std::unique_ptr<Sockets>* out);
  // Waits for what was sent, for so long at most.
  void close(int linger_ms);
  ~Sockets() { close(0); }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  bool has_replays() const { return replay_ != nullptr; }
  // As bound.
  const std::string& endpoint() const { return endpoint_; }
  const std::string& replay_endpoint() const { return replay_endpoint_; }

  // Waits until a subscription, a request or `fd` can be read. timeout_ms: -1 = for ever.
  void wait(int fd, int timeout_ms);
  // False if there is none. change: 1 for one that came, -1 for one that went, 0 for anything else.
  bool next_subscription(int* change);
  // The frames of a request, that of the client first; none if there is no request.
  std::vector<Frame> next_request();
  // To all subscribers. overrun: a subscriber loses batches from here on, since it has hwm unread.
  bool publish(std::span<Frame> frames, bool* overrun);
  // To a client, if it can be reached and has room.
  void answer(std::span<Frame> frames);

 private:
  Sockets() = default;
  Outcome make(int type, const std::string& endpoint, void** out) const;
  static Outcome attach(void* socket, const char* name, bool bind, std::string* endpoint);
  static bool send(void* socket, std::span<Frame> frames);

  void* libzmq_ = nullptr;
  void* events_ = nullptr;  // XPUB: as PUB, and it says who subscribes
  void* replay_ = nullptr;
  std::string endpoint_, replay_endpoint_;
};

}  // namespace quire::zmq
