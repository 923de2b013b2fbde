#include "plugins/ucx/ucx_near.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "plugins/ucx/ucx_near_name.h"

namespace quire::ucx {
namespace {

constexpr int kEventsOfTurn = 32;
constexpr int kKnocksOfTurn = 64;
constexpr int kBacklog = 64;
constexpr int kSocketKind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

struct Named {
  sockaddr_un address = {};
  socklen_t bytes = 0;
  explicit Named(const std::string& name) {
    address.sun_family = AF_UNIX;
    const size_t length = std::min(name.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, name.data(), length);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

bool watch_also(int epoll, int fd, void* whose) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = whose;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Near::~Near() {
  for (const auto& link : links_) close(link.get());
  if (listener_ >= 0) ::close(listener_);
  if (fd_ >= 0) ::close(fd_);
}

Outcome Near::open(int other_fd) {
  packet_.resize(16 + kMostMessage + kMostEager);
  fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (fd_ < 0 || !watch_also(fd_, other_fd, nullptr)) return {QUIRE_RESOURCE_EXHAUSTED, errno, "epoll: " + plugins::error_text(errno)};
  return {};
}

void Near::listen(const Address& address, uint16_t port) {
  if (const int memory = Ring().make(); memory >= 0) {
    ::close(memory);
  } else {
    return log_.say(QUIRE_LOG_WARN, {"peers of this host come over UCX, for there is no shared memory: ", plugins::error_text(errno)});
  }
  const Named name(near_name(address, port));
  listener_ = socket(AF_UNIX, kSocketKind, 0);
  const bool is_named = listener_ >= 0 && bind(listener_, name.get(), name.bytes) == 0;
  if (is_named && ::listen(listener_, kBacklog) == 0 && watch_also(fd_, listener_, this)) return;
  const std::string why = is_named || errno != EADDRINUSE ? plugins::error_text(errno) : "another process has its name";
  log_.say(QUIRE_LOG_WARN, {"peers of this host come over UCX, for there is no socket for them: ", why});
  if (listener_ >= 0) ::close(std::exchange(listener_, -1));
}

bool Near::progress(Events* events) {
  ends_.take(events);
  epoll_event ready[kEventsOfTurn];
  const int n = epoll_wait(fd_, ready, kEventsOfTurn, 0);
  bool is_busy = false;
  for (int i = 0; i < n; ++i) {
    if (ready[i].data.ptr == nullptr) continue;  // the other descriptor
    is_busy = true;
    if (ready[i].data.ptr == this) {
      accept_some(events);
      continue;
    }
    auto* const link = static_cast<NearLink*>(ready[i].data.ptr);
    if ((ready[i].events & EPOLLOUT) != 0) flush(link);
    if ((ready[i].events & ~EPOLLOUT) != 0) read(link, events);
  }
  if (is_full_) accept_some(events);
  for (size_t i = 0; i < links_.size(); ++i) {
    if (can_send(*links_[i])) is_busy |= send_some(links_[i].get());
  }
  ends_.take(events);
  if (any_lost_) take_lost(events);
  if (any_closed_) forget_closed();
  return is_busy || !ends_.empty();
}

void Near::accept_some(Events* events) {
  for (int i = 0; i < kKnocksOfTurn; ++i) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      const bool is_full = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
      if (is_full && !is_full_) epoll_ctl(fd_, EPOLL_CTL_DEL, listener_, nullptr);
      if (!is_full && is_full_ && !watch_also(fd_, listener_, this)) return;
      is_full_ = is_full;
      return;
    }
    if (!is_same_user(socket)) {
      ::close(socket);
      continue;
    }
    try {
      events->knocked({nullptr, socket});
    } catch (const std::bad_alloc&) {
      const auto has_it = [&](const auto& link) { return link->socket == socket; };
      if (std::none_of(links_.begin(), links_.end(), has_it)) ::close(socket);
      throw;
    }
  }
}

// ---- Connections ----

// The socket is closed if there is no memory.
NearLink* Near::add(int socket) {
  try {
    auto link = std::make_unique<NearLink>();
    link->medium = this;
    link->is_near = true;
    links_.reserve(links_.size() + 1);
    if (watch_also(fd_, socket, link.get())) {
      link->socket = socket;
      links_.push_back(std::move(link));
      return links_.back().get();
    }
  } catch (const std::bad_alloc&) {  // as if there were no descriptors
  }
  ::close(socket);
  return nullptr;
}

Link* Near::connect(const Address& address) {
  for (const std::string& text : near_names(address)) {
    const Named name(text);
    const int socket = ::socket(AF_UNIX, kSocketKind, 0);
    if (socket < 0) return nullptr;
    if (::connect(socket, name.get(), name.bytes) == 0 && is_same_user(socket)) return add(socket);
    ::close(socket);
  }
  return nullptr;
}

Link* Near::accept(int socket) {
  NearLink* const link = add(socket);
  if (link != nullptr) link->is_served = true;
  return link;
}

void Near::reject(int socket) { ::close(socket); }

void Near::watch(NearLink* link, bool for_room) {
  if (link->waits_for_room == for_room) return;
  epoll_event event = {};
  event.events = EPOLLIN | (for_room ? EPOLLOUT : 0U);
  event.data.ptr = link;
  if (epoll_ctl(fd_, EPOLL_CTL_MOD, link->socket, &event) != 0) return lose(link, "its socket cannot be waited for");
  link->waits_for_room = for_room;
}

// What it has not ended ends when ends are taken; nothing touches its bytes any more.
void Near::close(Link* link) {
  if (link->is_closed) return;
  auto* const own = static_cast<NearLink*>(link);
  own->is_closed = any_closed_ = true;
  epoll_ctl(fd_, EPOLL_CTL_DEL, own->socket, nullptr);
  ::close(std::exchange(own->socket, -1));
  for (NearLink::Sending& sending : own->sends) {
    if (sending.transfer != nullptr) ends_.add(sending.transfer.release(), UCS_ERR_CANCELED);
  }
  own->sends.clear();
  own->packets.clear();
  if (own->receiving != nullptr) ends_.add(own->receiving.release(), UCS_ERR_CANCELED);
}

void Near::lose(NearLink* link, const char* why, bool is_wrong) {
  if (link->is_lost) return;
  link->is_lost = any_lost_ = true;
  link->is_wrong = is_wrong;
  link->why = why;
}

void Near::take_lost(Events* events) {
  for (size_t i = 0; i < links_.size(); ++i) {
    NearLink* const link = links_[i].get();
    if (link->is_lost && !link->is_closed) events->lost(link);
    if (link->is_lost) close(link);
  }
  any_lost_ = std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->is_lost && !link->is_closed; });
  ends_.take(events);
}

void Near::forget_closed() {
  std::erase_if(links_, [](const auto& link) { return link->is_closed && link->in_flight == 0; });
  any_closed_ = std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->is_closed; });
}

void Near::leave_in_child() {
  for (const auto& link : links_) {
    if (link != nullptr && link->socket >= 0) ::close(link->socket);
  }
  if (listener_ >= 0) ::close(listener_);
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace quire::ucx
