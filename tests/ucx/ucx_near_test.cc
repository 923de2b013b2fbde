// Peers in one host: when shared memory is chosen, what each side believes of the other one, and what ends alone.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "ucx_raw_peers.h"

using namespace quire::kit;       // NOLINT(google-build-using-namespace)
using namespace quire::kit::raw;  // NOLINT(google-build-using-namespace)
using quire::ucx::kRingBytes;
using quire::ucx::kSlotBytes;
using quire::ucx::kSlots;
using quire::ucx::Ring;

namespace {

constexpr uint64_t kBytes = 3'000'000;

class UcxNear : public testing::Test {
 protected:
  UcxNear() { same_host() = "auto"; }
  ~UcxNear() override { same_host() = "off"; }
};

uint64_t num_open_files() {
  uint64_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) count += file.path().empty() ? 0 : 1;
  return count;
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
      [](FalseOwner::Peer* peer) {
        const int fd = memory_of(kRingBytes, kRight);
        peer->say(kRing, {}, fd, fd);
        ::close(fd);
      },
      [](FalseOwner::Peer* peer) { peer->say(kEmptied); },
      [](FalseOwner::Peer* peer) {
        peer->say(kData, {1, 2});
      },
  };
  uint64_t files = 0;
  for (size_t i = 0; i < deeds.size() && !HasFailure(); ++i) {
    if (i == 1) files = num_open_files();
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
  EXPECT_LE(num_open_files(), files) << "descriptors that came are closed";
}

// A load passes its deadline while its bytes come. What comes later is dropped, and the next load has the same connection.
TEST_F(UcxNear, WhatIsGivenUpIsWrittenNoMore) {
  constexpr uint64_t kWanted = 2 * kSlotBytes;
  constexpr uint32_t kSlot = kSlotBytes;
  const FalseOwner owner;
  Client reader(ucx_subject(), ucx_config());
  Layout layout = dense(0, kWanted);
  Bytes memory(kWanted, 0xa5);
  layout.runs[0].address = reinterpret_cast<uintptr_t>(memory.data());
  Batch batch, next;
  quire_ticket& load = batch.load(ucx_key(1, 1, FalseOwner::address()), layout.runs);
  const int64_t deadline = load.deadline_ns = clock_now() + kSecond * kSlowness;  // before timeout_ms
  ASSERT_EQ(reader.submit(batch), 1u);
  FalseOwner::Peer peer(owner.listener());
  const int fd = memory_of(kRingBytes, F_SEAL_SHRINK | F_SEAL_GROW);
  peer.say(kRing, {}, fd);
  peer.announce(kWanted);
  peer.fill(kSlot);
  EXPECT_TRUE(peer.hear(kEmptied));
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 0), kSlot) << "it had begun";
  EXPECT_EQ(reader.wait(1).begin()->second.code, QUIRE_DEADLINE_EXCEEDED);
  EXPECT_LT(clock_now() - deadline, 500 * kMillisecond * kSlowness);
  std::fill(memory.begin(), memory.end(), 0xa5);
  peer.fill(kSlot);
  EXPECT_TRUE(peer.hear(kEmptied));
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 0xa5), static_cast<ptrdiff_t>(kWanted)) << "late bytes";
  next.load(ucx_key(1, 1, FalseOwner::address()), layout.runs);
  ASSERT_EQ(reader.submit(next), 1u);
  peer.hear_want();
  peer.announce(kWanted);
  peer.fill(kSlot), peer.fill(kSlot);
  EXPECT_EQ(reader.wait(1).begin()->second.code, QUIRE_OK);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 0), static_cast<ptrdiff_t>(kWanted));
  ::close(fd);
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
  EXPECT_LT(clock_now() - begin, 500 * kMillisecond * kSlowness);
  EXPECT_TRUE(reader.hear(kGivenUp));
  for (uint32_t i = 0; i < reader.num_filled; ++i) reader.say(kEmptied);
  reader.want(ucx_key(2, 2), kBytes);
  EXPECT_TRUE(reader.hear(kFilled)) << "the connection lives on";
}

}  // namespace
