// Peers in one host: when shared memory is chosen, what each side believes of the other one, and what ends alone.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>

#include "plugins/ucx/ucx_near_name.h"
#include "plugins/ucx/ucx_ring.h"
#include "plugins/ucx/ucx_seal.h"
#include "ucx_rig.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)
using quire::ucx::Handshake;
using quire::ucx::Kind;
using quire::ucx::kRingBytes;
using quire::ucx::kSlotBytes;
using quire::ucx::kSlots;
using quire::ucx::Message;
using quire::ucx::Ring;
using quire::ucx::Session;

namespace {

constexpr uint8_t kMessage = 1, kRing = 2, kData = 3, kFilled = 4, kGivenUp = 5, kEmptied = 6;
constexpr uint64_t kBytes = 3'000'000;

class UcxNear : public testing::Test {
 protected:
  UcxNear() { same_host() = "auto"; }
  ~UcxNear() override { same_host() = "off"; }
};

sockaddr_un named(const std::string& address, socklen_t* bytes) {
  sockaddr_un out = {};
  out.sun_family = AF_UNIX;
  const std::string name = quire::ucx::near_names(*quire::ucx::parse_address(address))[0];
  std::copy(name.begin(), name.end(), out.sun_path);
  *bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return out;
}

int new_socket() {
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

  bool say(uint8_t kind, const Bytes& rest = {}, int fd = -1) {
    Bytes packet(1, kind);
    packet.insert(packet.end(), rest.begin(), rest.end());
    iovec bytes = {packet.data(), packet.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* const about = CMSG_FIRSTHDR(&message);
      *about = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
      std::memcpy(CMSG_DATA(about), &fd, sizeof fd);
    }
    return sendmsg(socket_, &message, MSG_NOSIGNAL) >= 0;
  }
  // The rest of the next packet of that kind, and the descriptor in *fd. nullopt: the connection has ended, or nothing comes.
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
      if (fd != nullptr && CMSG_FIRSTHDR(&message) != nullptr) std::memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof *fd);
      if (packet[0] == kind) return Bytes(packet.begin() + 1, packet.begin() + n);
    }
  }
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

int memory_of(uint64_t bytes, int seals) {
  const int fd = memfd_create("false", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

// Whether this process has memory of such connections.
bool has_ring() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:quire-ucx") != std::string::npos) return true;
  }
  return false;
}

TEST_F(UcxNear, IsChosenByItselfUnlessOneSideIsOff) {
  for (const auto& [owner_way, reader_way, is_near] :
       {std::tuple("auto", "auto", true), std::tuple("off", "auto", false), std::tuple("auto", "off", false)}) {
    same_host() = owner_way;
    const OwnerProcess owner(2, kBytes);
    same_host() = reader_way;
    Client reader(ucx_subject(), ucx_config());
    EXPECT_TRUE(reader.holds(owner.key(1), content(1, kBytes)));
    EXPECT_EQ(has_ring(), is_near) << owner_way << " " << reader_way;
  }
  EXPECT_FALSE(has_ring()) << "it goes with the connection";
}

TEST_F(UcxNear, AnOwnerAtAllAddressesIsFound) {
  const TemporaryFolder folder;
  Client owner(ucx_subject(),
               ucx_config(", \"copies\": \"8MiB\", \"listen\": \"0.0.0.0:0\", \"port_file\": \"" + folder.path() + "/port\""));
  EXPECT_EQ(owner.store(ucx_key(1, 1), content(1, kBytes)).code, QUIRE_OK);
  const std::string address = read_line(folder.path() + "/port");
  Client reader(ucx_subject(), ucx_config());
  EXPECT_TRUE(reader.holds(ucx_key(1, 1, "127.0.0.1" + address.substr(address.rfind(':'))), content(1, kBytes)));
  EXPECT_TRUE(has_ring());
}

// A name that a process of another user has taken.
TEST_F(UcxNear, OtherUsersAreNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can have a process of another user";
  std::string address;
  {
    const Owner first;
    address = first.address();
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t other = fork();
  if (other == 0) {
    socklen_t bytes = 0;
    const sockaddr_un name = named(address, &bytes);
    const int listener = new_socket();
    const bool is_there =
        setuid(65534) == 0 && bind(listener, reinterpret_cast<const sockaddr*>(&name), bytes) == 0 && listen(listener, 9) == 0;
    if (write(ends[1], is_there ? "y" : "n", 1) != 1) _exit(1);
    while (true) pause();
  }
  char is_there = 0;
  EXPECT_EQ(read(ends[0], &is_there, 1), 1);
  EXPECT_EQ(is_there, 'y');
  {
    Client owner(ucx_subject(), ucx_config(", \"copies\": \"8MiB\", \"listen\": \"" + address + "\""));
    EXPECT_EQ(owner.store(ucx_key(1, 1), content(1, kBytes)).code, QUIRE_OK);
    Client reader(ucx_subject(), ucx_config());
    EXPECT_TRUE(reader.holds(ucx_key(1, 1, address), content(1, kBytes))) << "over UCX";
    EXPECT_FALSE(has_ring());
  }
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(UcxNear, AReaderThatGivesNothingBackGetsNoMore) {
  const OwnerProcess owner(1, kBytes, ", \"timeout_ms\": 3000");
  const Bytes object = content(0, kBytes);
  RawReader reader(owner.address());
  reader.want(owner.key(0), kBytes);
  int fd = -1;
  ASSERT_TRUE(reader.hear(kRing, 10'000, &fd));
  Ring ring;
  ASSERT_EQ(ring.take(fd), nullptr);
  EXPECT_EQ(mmap(nullptr, kRingBytes, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED) << "it could write there";
  EXPECT_NE(ftruncate(fd, 0), 0);
  ::close(fd);
  for (uint32_t i = 0; i < kSlots; ++i) ASSERT_TRUE(reader.hear(kFilled)) << i;
  EXPECT_FALSE(reader.hear(kFilled, 200)) << "a slot is used again";
  EXPECT_EQ(std::memcmp(ring.slot(0), object.data(), kRingBytes), 0);
  reader.say(kEmptied);
  EXPECT_TRUE(reader.hear(kFilled));
  EXPECT_FALSE(reader.hear(kFilled, 200));
  EXPECT_EQ(std::memcmp(ring.slot(0), object.data() + kRingBytes, kSlotBytes), 0);
  EXPECT_EQ(std::memcmp(ring.slot(1), object.data() + kSlotBytes, kRingBytes - kSlotBytes), 0);
  EXPECT_TRUE(reader.is_lost()) << "it took nothing within timeout_ms";
}

TEST_F(UcxNear, ReadersThatLieAreLost) {
  const OwnerProcess owner(1, kBytes);
  const int fd = memory_of(kRingBytes, F_SEAL_SHRINK | F_SEAL_GROW);
  const std::vector<std::function<void(RawPeer*)>> deeds = {
      [](RawPeer* peer) { peer->say(kEmptied); },
      [](RawPeer* peer) { peer->say(kEmptied, {1}); },
      [](RawPeer* peer) {
        peer->say(kFilled, {1, 0, 0, 0});
      },
      [](RawPeer* peer) { peer->say(kData, Bytes(40, 1)); },
      [](RawPeer* peer) { peer->say(kGivenUp); },
      [](RawPeer* peer) { peer->say(99); },
      [](RawPeer* peer) { peer->say(kMessage, Bytes(8001, 1)); },
      [](RawPeer* peer) { peer->say(kMessage, Bytes(100'000, 1)); },
      [&](RawPeer* peer) { peer->say(kRing, {}, fd); },
      [&](RawPeer* peer) { peer->say(kEmptied, {}, fd); },
  };
  for (size_t i = 0; i < deeds.size(); ++i) {
    RawReader reader(owner.address());
    deeds[i](&reader);
    EXPECT_TRUE(reader.is_lost()) << i;
  }
  ::close(fd);
  Client reader(ucx_subject(), ucx_config());
  EXPECT_TRUE(reader.holds(owner.key(0), content(0, kBytes)));
}

// Each ends the load with UNAVAILABLE, touches no byte outside of it and does not end the process.
TEST_F(UcxNear, OwnersThatLieAreLost) {
  constexpr int kRight = F_SEAL_SHRINK | F_SEAL_GROW;
  constexpr uint32_t kSlot = kSlotBytes;
  constexpr uint64_t kWanted = 2'000'000;
  using Deed = std::function<void(FalseOwner::Peer*)>;
  const auto ring = [](FalseOwner::Peer* peer, uint64_t bytes, int seals) {
    const int fd = memory_of(bytes, seals);
    peer->say(kRing, {}, fd);
    const bool is_cut = (seals & F_SEAL_SHRINK) == 0 && ftruncate(fd, 0) == 0;
    EXPECT_EQ(is_cut, (seals & F_SEAL_SHRINK) == 0);
    ::close(fd);
  };
  const auto all = [](FalseOwner::Peer* peer) {
    peer->announce(kWanted);
    for (uint64_t left = kWanted; left != 0; left -= std::min(left, kSlotBytes))
      peer->fill(static_cast<uint32_t>(std::min(left, kSlotBytes)));
  };
  const std::vector<Deed> deeds = {
      [&](FalseOwner::Peer* peer) { ring(peer, kRingBytes, F_SEAL_GROW), all(peer); },
      [&](FalseOwner::Peer* peer) { ring(peer, kRingBytes, 0), all(peer); },
      [&](FalseOwner::Peer* peer) { ring(peer, kRingBytes - 4096, kRight), all(peer); },
      [&](FalseOwner::Peer* peer) { ring(peer, 2 * kRingBytes, kRight), all(peer); },
      [&](FalseOwner::Peer* peer) { all(peer); },
      [&](FalseOwner::Peer* peer) { ring(peer, kRingBytes, kRight), ring(peer, kRingBytes, kRight); },
      [&](FalseOwner::Peer* peer) { ring(peer, kRingBytes, kRight), peer->fill(kSlot); },
      [&](FalseOwner::Peer* peer) { ring(peer, kRingBytes, kRight), peer->announce(kWanted), peer->fill(kSlot + 1); },
      [&](FalseOwner::Peer* peer) { ring(peer, kRingBytes, kRight), peer->announce(kWanted), peer->fill(0); },
      [&](FalseOwner::Peer* peer) { ring(peer, kRingBytes, kRight), peer->announce(kWanted), peer->announce(kWanted); },
      [&](FalseOwner::Peer* peer) { peer->announce(kWanted + 1); },
      [&](FalseOwner::Peer* peer) { ring(peer, kRingBytes, kRight), peer->announce(1000), peer->fill(1000); },
      [&](FalseOwner::Peer* peer) {
        ring(peer, kRingBytes, kRight), peer->announce(kWanted);
        for (int i = 0; i < 8; ++i) peer->fill(kSlot);  // 97,152 bytes more than were announced
      },
      [](FalseOwner::Peer* peer) { peer->announce(kWanted), peer->say(kGivenUp); },
      [](FalseOwner::Peer* peer) { peer->say(kRing); },
      [](FalseOwner::Peer* peer) { peer->say(kEmptied); },
      [](FalseOwner::Peer* peer) {
        peer->say(kData, {1, 2});
      },
  };
  for (size_t i = 0; i < deeds.size() && !HasFailure(); ++i) {
    const FalseOwner owner;
    Client reader(ucx_subject(), ucx_config(", \"timeout_ms\": 3000"));
    Layout layout = dense(0, kWanted);
    Memory memory(&layout);
    Batch batch;
    const uint64_t ticket = batch.load(ucx_key(1, 1, FalseOwner::address()), layout.runs).ticket;
    ASSERT_EQ(reader.submit(batch), 1u);
    FalseOwner::Peer peer(owner.listener());
    const auto begin = clock_now();
    deeds[i](&peer);
    EXPECT_EQ(reader.wait(1)[ticket].code, QUIRE_UNAVAILABLE) << i;
    EXPECT_LT(clock_now() - begin, 2 * kSecond) << i << " is noticed, not waited for";
    memory.forget(layout.runs);
    EXPECT_TRUE(memory.intact()) << i;
  }
}

// What TCP cannot do: a load that is given up costs the others nothing, although their owner stands still.
TEST_F(UcxNear, WhatIsGivenUpCostsTheOthersNothing) {
  constexpr uint64_t kLoads = 8;
  const OwnerProcess owner(kLoads, kBytes);
  Client reader(ucx_subject(), ucx_config());
  EXPECT_TRUE(reader.holds(owner.key(0), content(0, kBytes)));
  std::vector<Layout> layouts(kLoads, dense(0, kBytes));
  std::vector<Memory> memories;
  Batch batch;
  for (uint64_t i = 0; i < kLoads; ++i) {
    memories.emplace_back(&layouts[i]);
    quire_ticket& load = batch.load(owner.key(i), layouts[i].runs);
    if (i < kLoads / 2) load.deadline_ns = clock_now() + 100 * kMillisecond;
  }
  owner.stop();
  ASSERT_EQ(reader.submit(batch), kLoads);
  for (const auto& [ticket, end] : reader.wait(kLoads / 2)) EXPECT_EQ(end.code, QUIRE_DEADLINE_EXCEEDED);
  owner.go_on();
  for (const auto& [ticket, end] : reader.wait(kLoads / 2)) EXPECT_EQ(end.code, QUIRE_OK);
  for (uint64_t i = 0; i < kLoads; ++i) {
    if (i >= kLoads / 2) memories[i].expect(layouts[i].runs, content(i, kBytes));
    EXPECT_TRUE(memories[i].intact()) << i;
  }
}

// An offer that is cancelled while it is read ends at once, and the connection stays.
TEST_F(UcxNear, ACancelledOfferCostsNoConnection) {
  Owner owner;
  const uint64_t ticket = owner.offer(ucx_key(1, 1), content(1, kBytes));
  owner.offer(ucx_key(2, 2), content(2, kBytes));
  RawReader reader(owner.address());
  reader.want(ucx_key(1, 1), kBytes);
  ASSERT_TRUE(reader.hear(kFilled));  // and nothing is given back
  owner.client().cancel(ticket);
  const auto begin = clock_now();
  EXPECT_EQ(owner.client().wait(1)[ticket].code, QUIRE_CANCELLED);
  EXPECT_LT(clock_now() - begin, 15 * kMillisecond * kSlowness) << "before its connection would be closed";
  EXPECT_TRUE(reader.hear(kGivenUp));
  for (uint32_t i = 0; i < kSlots; ++i) reader.say(kEmptied);
  reader.want(ucx_key(2, 2), kBytes);
  EXPECT_TRUE(reader.hear(kFilled)) << "the connection lives on";
}

}  // namespace
