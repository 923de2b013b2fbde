// Peers in one host that speak packet by packet, and lie if they are made to.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "plugins/ucx/ucx_near_name.h"
#include "plugins/ucx/ucx_ring.h"
#include "plugins/ucx/ucx_seal.h"
#include "ucx_rig.h"

namespace quire::kit::raw {

using ucx::Handshake;
using ucx::Kind;
using ucx::Message;
using ucx::Session;

inline constexpr uint8_t kMessage = 1, kRing = 2, kData = 3;  // kinds of packets
inline constexpr uint8_t kFilled = 4, kGivenUp = 5, kEmptied = 6;

inline sockaddr_un named(const std::string& address, socklen_t* bytes) {
  sockaddr_un out = {};
  out.sun_family = AF_UNIX;
  const std::string name = quire::ucx::near_names(*quire::ucx::parse_address(address))[0];
  std::copy(name.begin(), name.end(), out.sun_path);
  *bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return out;
}

inline int new_socket() {
  const int out = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const timeval limit = {10, 0};
  setsockopt(out, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return out;
}

// One end of a connection that speaks packet by packet.
class RawPeer {
 public:
  explicit RawPeer(int socket = -1) : socket_(socket) {}
  ~RawPeer() { ::close(socket_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  bool say(uint8_t kind, const Bytes& rest = {}, int fd = -1, int other_fd = -1) {
    Bytes packet(1, kind);
    packet.insert(packet.end(), rest.begin(), rest.end());
    iovec bytes = {packet.data(), packet.size()};
    const int fds[] = {fd, other_fd};
    const size_t used = other_fd >= 0 ? sizeof fds : sizeof fd;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(used);
      cmsghdr* const about = CMSG_FIRSTHDR(&message);
      *about = {CMSG_LEN(used), SOL_SOCKET, SCM_RIGHTS};
      std::memcpy(CMSG_DATA(about), fds, used);
    }
    return sendmsg(socket_, &message, MSG_NOSIGNAL) >= 0;
  }
  // The rest of the next packet of that kind, and the descriptor in *fd. nullopt: the connection
  // has ended, or nothing comes.
  std::optional<Bytes> hear(uint8_t kind, int wait_ms = 10'000, int* fd = nullptr) {
    Bytes packet(16'384);
    iovec bytes = {packet.data(), packet.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    while (true) {
      msghdr message = {};
      message.msg_iov = &bytes;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const timeval limit = {wait_ms / 1000, wait_ms % 1000 * 1000};
      setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      const ssize_t n = recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
      if (n <= 0) return std::nullopt;
      num_filled += packet[0] == kFilled ? 1 : 0;
      const cmsghdr* const about = CMSG_FIRSTHDR(&message);
      if (fd != nullptr && about != nullptr) std::memcpy(fd, CMSG_DATA(about), sizeof *fd);
      if (packet[0] == kind) return Bytes(packet.begin() + 1, packet.begin() + n);
    }
  }
  uint32_t num_filled = 0;  // packets that were heard
  bool is_lost() {
    while (hear(0, 5000)) continue;
    return !say(kMessage, {1});
  }

 protected:
  int socket_;
  std::optional<Session> session_;
};

class RawReader : public RawPeer {
 public:
  explicit RawReader(const std::string& address) : RawPeer(new_socket()) {
    socklen_t bytes = 0;
    const sockaddr_un name = named(address, &bytes);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&name), bytes), 0);
    Message hello;
    hello.kind = Kind::kHello;
    hello.version = quire::ucx::kVersion;
    say(kMessage, encode(hello));
    const auto welcome = quire::ucx::decode(hear(kMessage).value_or(Bytes()));
    if (!welcome) {
      ADD_FAILURE() << "no welcome";
      return;
    }
    const Handshake handshake("", hello.nonce, welcome->nonce, welcome->lease_ms);
    Message confirm;
    confirm.kind = Kind::kConfirm;
    confirm.mac = handshake.proof_of_reader();
    say(kMessage, encode(confirm));
    session_.emplace(handshake.key_to_owner(), handshake.key_to_reader());
  }
  void want(const Key& key, uint64_t bytes) {
    Message message;
    message.kind = Kind::kWant;
    message.request = 1;
    message.keys.push_back(quire::ucx::parse_key(key)->object);
    message.ranges.push_back({0, bytes});
    say(kMessage, session_->seal(&message));
  }
};

// An owner that lies. Its address has no process that UCX could reach.
class FalseOwner {
 public:
  FalseOwner() : listener_(new_socket()) {
    const std::string address = this->address();
    socklen_t bytes = 0;
    const sockaddr_un name = named(address, &bytes);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&name), bytes), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
  }
  ~FalseOwner() { ::close(listener_); }
  FalseOwner(const FalseOwner&) = delete;
  FalseOwner& operator=(const FalseOwner&) = delete;
  static std::string address() { return "127.0.0.1:" + std::to_string(10 + getpid() % 500); }

  // Greets whoever comes, and gets its want.
  class Peer : public RawPeer {
   public:
    explicit Peer(int listener) : RawPeer(accept(listener, nullptr, nullptr)) {
      const auto hello = quire::ucx::decode(hear(kMessage).value_or(Bytes()));
      if (!hello) {
        ADD_FAILURE() << "no hello";
        return;
      }
      const Handshake handshake("", hello->nonce, {}, 1000);
      Message welcome;
      welcome.kind = Kind::kWelcome;
      welcome.version = quire::ucx::kVersion;
      welcome.lease_ms = 1000;
      welcome.mac = handshake.proof_of_owner();
      say(kMessage, encode(welcome));
      hear(kMessage);
      session_.emplace(handshake.key_to_reader(), handshake.key_to_owner());
      hear_want();
    }
    void hear_want() {
      const auto want = session_->open(hear(kMessage).value_or(Bytes()));
      if (!want) {
        ADD_FAILURE() << "no want";
        return;
      }
      request_ = want->request;
    }
    void announce(uint64_t bytes) {
      Message data;
      data.kind = Kind::kData;
      data.request = request_;
      data.bytes = bytes;
      const Bytes header = session_->seal(&data);
      Bytes rest(10);
      for (size_t i = 0; i < 8; ++i) rest[i] = static_cast<uint8_t>(bytes >> (8 * i));
      rest[8] = static_cast<uint8_t>(header.size());
      rest.insert(rest.end(), header.begin(), header.end());
      say(kData, rest);
    }
    void fill(uint32_t bytes) {
      Bytes rest(4);
      std::memcpy(rest.data(), &bytes, sizeof bytes);
      say(kFilled, rest);
    }

   private:
    uint64_t request_ = 0;
  };
  int listener() const { return listener_; }

 private:
  const int listener_;
};

inline int memory_of(uint64_t bytes, int seals) {
  const int fd = memfd_create("false", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

}  // namespace quire::kit::raw
