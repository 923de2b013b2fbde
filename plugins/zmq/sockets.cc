#include "plugins/zmq/sockets.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "plugins/zmq/endpoint.h"

namespace quire::zmq {
namespace {

constexpr int64_t kMostRequestBytes = 1024;
constexpr size_t kMostRequestFrames = 4;  // one more than a request has; further ones are passed over
constexpr int kPauseMs = 10;

Outcome outcome_of(const std::string& what) {
  const int error = zmq_errno();
  quire_code code = QUIRE_INVALID_ARGUMENT;
  if (error == EADDRINUSE) code = QUIRE_ALREADY_EXISTS;
  if (error == EACCES || error == EPERM) code = QUIRE_PERMISSION_DENIED;
  if (error == EMFILE || error == ENFILE || error == ENOMEM) code = QUIRE_RESOURCE_EXHAUSTED;
  if (error == EFAULT || error == ETERM || error == ENOTSOCK) code = QUIRE_INTERNAL;
  return {code, error, what + ": " + zmq_strerror(error)};
}

// libzmq takes the file of a Unix socket away from whoever listens there.
bool is_listened_to(const std::string& endpoint) {
  constexpr std::string_view kScheme = "ipc://";
  if (!endpoint.starts_with(kScheme)) return false;
  sockaddr_un address = {};
  const std::string_view path = std::string_view(endpoint).substr(kScheme.size());
  if (path.size() >= sizeof address.sun_path || path.starts_with('@')) return false;
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  // EAGAIN: so many wait to be accepted that there is no room.
  const bool is_there = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
  ::close(fd);
  return is_there;
}

bool set(void* socket, int option, int value) { return zmq_setsockopt(socket, option, &value, sizeof value) == 0; }

}  // namespace

Frame::Frame(std::string_view bytes) {
  if (zmq_msg_init_size(&message_, bytes.size()) != 0) throw std::bad_alloc();
  if (!bytes.empty()) std::memcpy(zmq_msg_data(&message_), bytes.data(), bytes.size());
}

Frame Frame::share() const {
  Frame copy;
  if (zmq_msg_copy(&copy.message_, &message_) != 0) throw std::bad_alloc();
  return copy;
}

std::string_view Frame::bytes() const { return {static_cast<const char*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)}; }

Outcome Sockets::open(const SocketOptions& options, std::unique_ptr<Sockets>* out) {
  std::unique_ptr<Sockets> sockets(new Sockets);
  sockets->libzmq_ = zmq_ctx_new();
  if (sockets->libzmq_ == nullptr) return outcome_of("libzmq has no context");
  sockets->endpoint_ = options.endpoint;
  sockets->replay_endpoint_ = options.replay_endpoint;
  if (Outcome outcome = sockets->make(ZMQ_XPUB, options.endpoint, &sockets->events_); !outcome.ok()) return outcome;
  void* const events = sockets->events_;
  // Subscriptions and requests come from anybody.
  if (zmq_setsockopt(events, ZMQ_MAXMSGSIZE, &kMostRequestBytes, sizeof kMostRequestBytes) != 0 || !set(events, ZMQ_SNDHWM, options.hwm) ||
      !set(events, ZMQ_XPUB_VERBOSER, 1) || !set(events, ZMQ_XPUB_NODROP, 1))
    return outcome_of("the socket of events");
  if (Outcome outcome = sockets->attach(events, "options.endpoint", is_bound(options.endpoint), &sockets->endpoint_); !outcome.ok())
    return outcome;
  if (!options.replay_endpoint.empty()) {
    if (Outcome outcome = sockets->make(ZMQ_ROUTER, options.replay_endpoint, &sockets->replay_); !outcome.ok()) return outcome;
    void* const replay = sockets->replay_;
    if (!set(replay, ZMQ_SNDHWM, options.replay_hwm) ||
        zmq_setsockopt(replay, ZMQ_MAXMSGSIZE, &kMostRequestBytes, sizeof kMostRequestBytes) != 0)
      return outcome_of("the socket of replays");
    if (Outcome outcome = sockets->attach(replay, "options.replay_endpoint", true, &sockets->replay_endpoint_); !outcome.ok())
      return outcome;
  }
  *out = std::move(sockets);
  return {};
}

Outcome Sockets::make(int type, const std::string& endpoint, void** out) const {
  *out = zmq_socket(libzmq_, type);
  if (*out == nullptr) return outcome_of("libzmq has no socket");
  const bool is_ipv6 = endpoint.starts_with("tcp://[") || endpoint.find("::") != std::string::npos;
  if (is_ipv6 && !set(*out, ZMQ_IPV6, 1)) return outcome_of("IPv6");
  return {};
}

Outcome Sockets::attach(void* socket, const char* name, bool bind, std::string* endpoint) {
  const std::string what = name + (" '" + *endpoint) + "'";
  if (!bind) return zmq_connect(socket, endpoint->c_str()) == 0 ? Outcome() : outcome_of(what);
  if (is_listened_to(*endpoint)) return {QUIRE_ALREADY_EXISTS, EADDRINUSE, what + ": another process listens there"};
  if (zmq_bind(socket, endpoint->c_str()) != 0) return outcome_of(what);
  char text[512];
  size_t bytes = sizeof text;
  if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, text, &bytes) != 0) return outcome_of(what);
  *endpoint = text;
  return {};
}

void Sockets::close(int linger_ms) {
  for (void** socket : {&events_, &replay_}) {
    if (*socket == nullptr) continue;
    set(*socket, ZMQ_LINGER, linger_ms);
    zmq_close(std::exchange(*socket, nullptr));
  }
  if (libzmq_ == nullptr) return;
  while (zmq_ctx_term(libzmq_) != 0 && zmq_errno() == EINTR) {
  }
  libzmq_ = nullptr;
}

void Sockets::wait(int fd, int timeout_ms) {
  zmq_pollitem_t items[] = {{nullptr, fd, ZMQ_POLLIN, 0}, {events_, 0, ZMQ_POLLIN, 0}, {replay_, 0, ZMQ_POLLIN, 0}};
  if (zmq_poll(items, has_replays() ? 3 : 2, timeout_ms) >= 0 || zmq_errno() == EINTR) return;
  pollfd readable = {fd, POLLIN, 0};  // libzmq cannot say: the queue goes on
  poll(&readable, 1, timeout_ms < 0 ? kPauseMs : std::min(timeout_ms, kPauseMs));
}

bool Sockets::next_subscription(int* change) {
  Frame frame;
  if (zmq_msg_recv(frame.get(), events_, ZMQ_DONTWAIT) < 0) return false;
  const std::string_view bytes = frame.bytes();
  *change = bytes.starts_with('\1') ? 1 : bytes.starts_with('\0') ? -1 : 0;
  return true;
}

std::vector<Frame> Sockets::next_request() {
  std::vector<Frame> frames;
  frames.reserve(kMostRequestFrames);
  bool is_followed = true;
  while (is_followed) {
    Frame frame;
    if (zmq_msg_recv(frame.get(), replay_, ZMQ_DONTWAIT) < 0) return {};
    is_followed = frame.is_followed();
    if (frames.size() < kMostRequestFrames) frames.push_back(std::move(frame));
  }
  return frames;
}

// No frame is made here, so that a message ends as it began.
bool Sockets::send(void* socket, std::span<Frame> frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    while (zmq_msg_send(frames[i].get(), socket, flags) < 0) {
      if (zmq_errno() != EINTR) return false;
    }
  }
  return true;
}

// The socket refuses what a subscriber has no room for, and is then asked to leave that one out.
bool Sockets::publish(std::span<Frame> frames, bool* overrun) {
  *overrun = false;
  if (send(events_, frames)) return true;
  *overrun = zmq_errno() == EAGAIN;
  if (!*overrun || !set(events_, ZMQ_XPUB_NODROP, 0)) return false;
  const bool is_sent = send(events_, frames);
  set(events_, ZMQ_XPUB_NODROP, 1);
  return is_sent;
}

void Sockets::answer(std::span<Frame> frames) { send(replay_, frames); }

}  // namespace quire::zmq
