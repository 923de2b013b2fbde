#include "subscriber.h"

#include <zmq.h>

#include <cstdlib>

#include "failure.h"

namespace fleet {
namespace {

// A batch may be on its way when the engine's answer is already here.
constexpr auto kGrace = std::chrono::milliseconds(20);
// A stopped engine replays nothing.
constexpr auto kAnswerPatience = std::chrono::seconds(2);

using Frames = std::vector<std::string>;

void* open_socket(const Sockets& sockets, int type, const std::string& endpoint) {
  void* const socket = zmq_socket(sockets.libzmq(), type);
  if (socket == nullptr) throw Failure(std::string("no socket: ") + zmq_strerror(zmq_errno()));
  const int none = 0, soon_ms = 20;
  zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
  zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);  // no limit
  zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &soon_ms, sizeof soon_ms);
  if (type == ZMQ_SUB) zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
  if (zmq_connect(socket, endpoint.c_str()) == 0) return socket;
  const std::string why = zmq_strerror(zmq_errno());
  zmq_close(socket);
  throw Failure("cannot connect to " + endpoint + ": " + why);
}

// The frames of a message that has arrived; none otherwise.
Frames receive(void* socket) {
  Frames frames;
  for (int more = 1; more != 0;) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&message);
      return {};
    }
    frames.emplace_back(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    more = zmq_msg_more(&message);
    zmq_msg_close(&message);
  }
  return frames;
}

uint64_t number_of(const std::string& frame) {
  if (frame.size() != 8)
    throw Failure("the number of a batch has " + std::to_string(frame.size()) + " bytes");
  uint64_t number = 0;
  for (const char c : frame) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

}  // namespace

Sockets::Sockets() : libzmq_(zmq_ctx_new()) {
  if (libzmq_ == nullptr) throw Failure("libzmq cannot be used");
}
Sockets::~Sockets() { zmq_ctx_term(libzmq_); }

void Subscriber::Close::operator()(void* socket) const { zmq_close(socket); }

Subscriber::Subscriber(const Sockets& sockets, const std::string& endpoint,
                       const std::string& replays, View* view)
    : events_(open_socket(sockets, ZMQ_SUB, endpoint)),
      replays_(open_socket(sockets, ZMQ_DEALER, replays)),
      view_(view) {}

void Subscriber::follow() {
  receive_events();
  receive_replays();
  const Clock::time_point now = Clock::now();
  if (!view_->has_gap()) {
    state_ = State::kWhole;
  } else if (state_ == State::kWhole) {
    state_ = State::kGap;
    since_ = now;
  } else if (state_ == State::kGap && now - since_ >= kGrace) {
    ask();
    state_ = State::kAsked;
    since_ = now;
  } else if (state_ == State::kAsked && now - since_ >= kAnswerPatience) {
    view_->give_up();
    state_ = State::kWhole;
  }
}

// Topic, number, payload.
void Subscriber::receive_events() {
  for (Frames f = receive(events_.get()); !f.empty(); f = receive(events_.get())) {
    if (f.size() != 3) throw Failure("a message of " + std::to_string(f.size()) + " frames");
    view_->take(number_of(f[1]), f[2]);
  }
}

// An empty frame, then as above. The last one has no payload: what is still missing is gone.
void Subscriber::receive_replays() {
  for (Frames f = receive(replays_.get()); !f.empty(); f = receive(replays_.get())) {
    if (f.size() != 4) throw Failure("a replay of " + std::to_string(f.size()) + " frames");
    if (!f[3].empty()) {
      view_->take(number_of(f[2]), f[3]);
    } else if (state_ == State::kAsked) {
      // If some came, a gap may be left that is younger than the question.
      if (view_->next() == asked_from_) view_->give_up();
      state_ = State::kWhole;
    }
  }
}

void Subscriber::ask() {
  std::string number;
  asked_from_ = view_->next();
  for (int shift = 56; shift >= 0; shift -= 8) number += static_cast<char>(view_->next() >> shift);
  const bool has_begun = zmq_send(replays_.get(), "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
  if (has_begun && zmq_send(replays_.get(), number.data(), number.size(), ZMQ_DONTWAIT) >= 0)
    ++asked_;
}

}  // namespace fleet
