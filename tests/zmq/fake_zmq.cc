#include "fake_zmq.h"

#include <poll.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace quire::wire {

FakeZmq& fake_zmq() {
  static FakeZmq fake;
  return fake;
}

std::mutex& fake_zmq_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::condition_variable& fake_zmq_resumed() {
  static std::condition_variable resumed;
  return resumed;
}

namespace {

// What stands in the 64 bytes of a zmq_msg_t.
struct Bytes {
  int references;
  size_t size;
  char data[1];
};
struct Message {
  Bytes* bytes;
  bool has_more;
};
Message* of(const zmq_msg_t* message) { return const_cast<Message*>(reinterpret_cast<const Message*>(message)); }

struct Socket {
  int type;
  bool may_drop;
  std::vector<std::string> frames;  // of a message that has not ended
};

using Lock = std::lock_guard<std::mutex>;

// Whether this call is the one of choice; only some can be interrupted. The lock is held.
bool fails(bool can_be_interrupted = false) {
  FakeZmq& fake = fake_zmq();
  if (fake.error == EINTR && !can_be_interrupted) return false;
  if (fake.num_calls++ != fake.fails_after) return false;
  errno = fake.error;
  return true;
}

}  // namespace
}  // namespace quire::wire

using quire::wire::Bytes, quire::wire::fake_zmq_resumed, quire::wire::Socket;
using quire::wire::fake_zmq, quire::wire::fake_zmq_mutex, quire::wire::fails, quire::wire::Lock, quire::wire::of;

extern "C" {

int zmq_errno(void) { return errno; }
const char* zmq_strerror(int) { return "as the fake was asked to"; }

void* zmq_ctx_new(void) {
  const Lock lock(fake_zmq_mutex());
  if (fails()) return nullptr;
  ++fake_zmq().num_contexts;
  return &fake_zmq();
}
int zmq_ctx_term(void*) {
  const Lock lock(fake_zmq_mutex());
  --fake_zmq().num_contexts;
  return 0;
}
void* zmq_socket(void*, int type) {
  const Lock lock(fake_zmq_mutex());
  if (fails()) return nullptr;
  void* const memory = std::malloc(sizeof(Socket));
  if (memory == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  ++fake_zmq().num_sockets;
  return new (memory) Socket{type, true, {}};
}
int zmq_close(void* socket) {
  const Lock lock(fake_zmq_mutex());
  --fake_zmq().num_sockets;
  static_cast<Socket*>(socket)->~Socket();
  std::free(socket);
  return 0;
}
int zmq_setsockopt(void* socket, int option, const void* value, size_t) {
  const Lock lock(fake_zmq_mutex());
  if (option == ZMQ_LINGER) return 0;
  if (fails()) return -1;
  if (option == ZMQ_XPUB_NODROP) static_cast<Socket*>(socket)->may_drop = *static_cast<const int*>(value) == 0;
  return 0;
}
int zmq_getsockopt(void*, int, void* value, size_t* bytes) {
  const Lock lock(fake_zmq_mutex());
  if (fails()) return -1;
  *bytes = static_cast<size_t>(std::snprintf(static_cast<char*>(value), *bytes, "fake://1")) + 1;
  return 0;
}
int zmq_bind(void*, const char*) {
  const Lock lock(fake_zmq_mutex());
  return fails() ? -1 : 0;
}
int zmq_connect(void*, const char*) {
  const Lock lock(fake_zmq_mutex());
  return fails() ? -1 : 0;
}

// Waits for the descriptor only, for a millisecond at most, so that requests are looked for.
int zmq_poll(zmq_pollitem_t* items, int, long) {
  {
    const Lock lock(fake_zmq_mutex());
    if (fails(true)) return -1;
  }
  pollfd readable = {items[0].fd, POLLIN, 0};
  poll(&readable, 1, 1);
  return 1;
}

int zmq_msg_init(zmq_msg_t* message) {
  of(message)->bytes = nullptr;
  of(message)->has_more = false;
  return 0;
}
int zmq_msg_init_size(zmq_msg_t* message, size_t size) {
  zmq_msg_init(message);
  const Lock lock(fake_zmq_mutex());
  if (fails()) return -1;
  auto* const bytes = static_cast<Bytes*>(std::malloc(sizeof(Bytes) + size));
  if (bytes == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  bytes->references = 1;
  bytes->size = size;
  of(message)->bytes = bytes;
  return 0;
}
int zmq_msg_close(zmq_msg_t* message) {
  const Lock lock(fake_zmq_mutex());
  Bytes* const bytes = of(message)->bytes;
  of(message)->bytes = nullptr;
  if (bytes != nullptr && --bytes->references == 0) std::free(bytes);
  return 0;
}
int zmq_msg_move(zmq_msg_t* to, zmq_msg_t* from) {
  zmq_msg_close(to);
  std::swap(of(to)->bytes, of(from)->bytes);
  return 0;
}
int zmq_msg_copy(zmq_msg_t* to, zmq_msg_t* from) {
  zmq_msg_close(to);
  const Lock lock(fake_zmq_mutex());
  if (fails()) return -1;
  of(to)->bytes = of(from)->bytes;
  if (of(to)->bytes != nullptr) ++of(to)->bytes->references;
  return 0;
}
void* zmq_msg_data(zmq_msg_t* message) { return of(message)->bytes == nullptr ? nullptr : of(message)->bytes->data; }
size_t zmq_msg_size(const zmq_msg_t* message) { return of(message)->bytes == nullptr ? 0 : of(message)->bytes->size; }
int zmq_msg_more(const zmq_msg_t* message) { return of(message)->has_more ? 1 : 0; }

int zmq_msg_send(zmq_msg_t* message, void* socket, int flags) {
  {
    std::unique_lock lock(fake_zmq_mutex());
    auto& fake = fake_zmq();
    auto* const own = static_cast<Socket*>(socket);
    const bool is_event = own->type == ZMQ_XPUB;
    if (fails(true)) return -1;
    if (is_event && fake.is_full && !own->may_drop) {
      errno = EAGAIN;
      return -1;
    }
    if (fake.is_recording) {
      own->frames.emplace_back(static_cast<const char*>(zmq_msg_data(message)), zmq_msg_size(message));
      if ((flags & ZMQ_SNDMORE) == 0) (is_event ? fake.sent : fake.answers).push_back(std::exchange(own->frames, {}));
      if (is_event) fake.answers_before_last_sent = fake.answers.size();
      fake_zmq_resumed().wait(lock, [&] { return is_event || fake.pauses_after == 0 || fake.answers.size() < fake.pauses_after; });
    }
  }
  return zmq_msg_close(message);
}
int zmq_msg_recv(zmq_msg_t* message, void* socket, int) {
  std::string bytes;
  bool is_last = true;
  {
    const Lock lock(fake_zmq_mutex());
    auto& fake = fake_zmq();
    errno = EAGAIN;
    if (static_cast<const Socket*>(socket)->type != ZMQ_ROUTER || fake.requests.empty()) return -1;
    if (fails()) return -1;
    bytes = std::move(fake.requests.front().bytes);
    is_last = fake.requests.front().is_last;
    fake.requests.erase(fake.requests.begin());
  }
  zmq_msg_close(message);
  auto* const own = static_cast<Bytes*>(std::malloc(sizeof(Bytes) + bytes.size()));
  if (own == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  own->references = 1;
  own->size = bytes.size();
  std::copy(bytes.begin(), bytes.end(), own->data);
  of(message)->bytes = own;
  of(message)->has_more = !is_last;
  return static_cast<int>(bytes.size());
}

}  // extern "C"
