// Bytes that come after a load was given up: none may. The owner is stopped while it sends, loads pass their deadline, their memory is used
// again, the owner goes on. A control gives up as one should not, and must see late bytes.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

#include "plugins/ucx/ucx_transport.h"
#include "ucx_rig.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kCount = 16;
constexpr uint64_t kBytes = 4'000'000;
constexpr uint8_t kPattern = 0xa5;

double milliseconds(Clock::duration span) { return std::chrono::duration<double, std::milli>(span).count(); }
uint64_t late_bytes(const Bytes& bytes) { return bytes.size() - static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), kPattern)); }

// QUIRE_STOPS, if set: the owner stays stopped for another 0.1, 1, 10 or 60 s, in turn.
std::chrono::milliseconds stop_of(uint64_t round) {
  constexpr int kTimes[] = {100, 1000, 10'000, 60'000};
  const char* const given = std::getenv("QUIRE_STOPS");  // NOLINT(concurrency-mt-unsafe)
  return std::chrono::milliseconds(given != nullptr ? kTimes[round % std::size(kTimes)] : 0);
}

class UcxLate : public UcxWays {};
QUIRE_UCX_WAYS(UcxLate);

TEST_P(UcxLate, NothingIsWrittenLateWhenAStoppedOwnerGoesOn) {
  constexpr int64_t kDeadline = 200 * kMillisecond;
  Rng rng(seed());
  const uint64_t rounds = std::max<uint64_t>(kills(10), 1);
  OwnerProcess owner(kCount, kBytes, ", \"lease\": \"10min\"");  // longer than any stop
  Client reader(ucx_subject(), ucx_config());
  uint64_t in_time = 0, given_up = 0;
  std::vector<double> beyond;  // the deadline
  for (uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
    ASSERT_TRUE(becomes_true([&] { return reader.holds(owner.key(0), content(0, kBytes)); })) << "it is there again";
    std::vector<Bytes> slots(kCount, Bytes(kBytes));
    Batch batch;
    const int64_t deadline = clock_now() + kDeadline;
    for (uint64_t i = 0; i < kCount; ++i) {
      Layout layout = dense(0, kBytes);
      layout.runs[0].address = reinterpret_cast<uintptr_t>(slots[i].data());
      batch.load(owner.key(i), layout.runs).deadline_ns = deadline;
    }
    ASSERT_EQ(reader.submit(batch), kCount);
    // Sometimes at once: shared memory moves all of it within milliseconds.
    if (round % 2 == 1) std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, is_near() ? 5'000 : 25'000)));
    owner.stop();
    for (const auto& [ticket, end] : reader.wait(kCount)) {
      ASSERT_TRUE(end.code == QUIRE_OK || end.code == QUIRE_DEADLINE_EXCEEDED || end.code == QUIRE_UNAVAILABLE) << end.code;
      ++(end.code == QUIRE_OK ? in_time : given_up);
    }
    beyond.push_back(static_cast<double>(clock_now() - deadline) / 1e6);
    for (Bytes& slot : slots) std::fill(slot.begin(), slot.end(), kPattern);
    std::this_thread::sleep_for(stop_of(round));
    owner.go_on();
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    for (const Bytes& slot : slots) EXPECT_EQ(late_bytes(slot), 0u);
  }
  std::sort(beyond.begin(), beyond.end());
  std::printf("%llu loads came in time, %llu were given up; ms after the deadline: median %.1f, longest %.1f\n",
              static_cast<unsigned long long>(in_time), static_cast<unsigned long long>(given_up), beyond[beyond.size() / 2],
              beyond.back());
  EXPECT_GT(given_up, 0u);
  EXPECT_LE(beyond[beyond.size() / 2], 50 * static_cast<double>(kSlowness));  // other work shares the processors
}

// A reader that is stopped keeps an owner's bytes for the time that the owner allows.
TEST_P(UcxLate, AStoppedReaderDoesNotHoldAnOffer) {
  Owner owner;
  std::vector<uint64_t> tickets;
  for (uint64_t i = 0; i < kCount; ++i) tickets.push_back(owner.offer(ucx_key(i, i + 1), content(i, kBytes)));
  const ReaderProcess reader(owner.address(), kCount, kBytes);
  reader.stop();
  const auto begin = Clock::now();
  for (const uint64_t ticket : tickets) owner.client().cancel(ticket);
  for (const auto& [ticket, end] : owner.client().wait(kCount)) EXPECT_EQ(end.code, QUIRE_CANCELLED);
  EXPECT_LE(milliseconds(Clock::now() - begin), 200 * kSlowness);
  reader.go_on();
}

// ---- The control ----

using quire::ucx::Arrival;
using quire::ucx::Knock;
using quire::ucx::Link;
using quire::ucx::Transfer;
using quire::ucx::Transport;

quire_host_api silent_host() {
  quire_host_api host{};
  host.struct_size = sizeof host;
  host.now = [](void*) { return clock_now(); };
  return host;
}

// Sends so many transfers to whoever says anything.
class Sender final : public Transport::Events {
 public:
  explicit Sender(Transport* transport) : transport_(*transport), bytes_(kBytes, 1) {}
  void knocked(Knock knock) override { transport_.accept(knock); }
  void arrived(Arrival* arrival) override {
    for (uint64_t i = 0; i < kCount; ++i) {
      auto transfer = std::make_unique<Transfer>();
      transfer->places.push_back({bytes_.data(), bytes_.size()});
      transfer->bytes = bytes_.size();
      transport_.send(arrival->link, std::move(transfer));
    }
  }
  void ended(std::unique_ptr<Transfer> /*transfer*/) override {}
  void lost(Link* /*link*/) override {}

 private:
  Transport& transport_;
  Bytes bytes_;
};

// Receives them, and keeps what can be cancelled.
class Receiver final : public Transport::Events {
 public:
  explicit Receiver(Transport* transport) : transport_(*transport), slots(kCount, Bytes(kBytes)) {}
  void knocked(Knock knock) override { transport_.reject(knock); }
  void arrived(Arrival* arrival) override {
    auto transfer = std::make_unique<Transfer>();
    transfer->places.push_back({slots[running.size()].data(), kBytes});
    transfer->bytes = kBytes;
    running.push_back(transfer.get());
    transport_.receive(arrival->link, arrival, std::move(transfer));
  }
  void ended(std::unique_ptr<Transfer> /*transfer*/) override { ++num_ended; }
  void lost(Link* /*link*/) override {}

 private:
  Transport& transport_;

 public:
  std::vector<Bytes> slots;
  std::vector<Transfer*> running;
  uint64_t num_ended = 0;
};

[[noreturn]] void send_for_ever(int port_pipe) {
  static const quire_host_api host = silent_host();
  const quire::ucx::Log log(&host);
  quire::ucx::Config config;
  if (!read_config(ucx_config(", \"listen\": \"127.0.0.1:0\""), &config).ok()) _exit(2);
  Transport transport(config, &log);
  if (!transport.open().ok()) _exit(3);
  const uint16_t port = transport.port();
  if (write(port_pipe, &port, sizeof port) != sizeof port) _exit(4);
  Sender sender(&transport);
  while (true) transport.progress(&sender);
}

// Gives up after some transfers were begun. How many bytes come afterwards.
uint64_t bytes_after_giving_up(bool by_force) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t sender = fork();
  if (sender == 0) send_for_ever(ends[1]);
  uint16_t port = 0;
  EXPECT_EQ(read(ends[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  ::close(ends[0]);
  ::close(ends[1]);
  const quire_host_api host = silent_host();
  const quire::ucx::Log log(&host);
  quire::ucx::Config config;
  EXPECT_TRUE(read_config(ucx_config(), &config).ok());
  auto own = std::make_unique<Transport>(config, &log);
  Transport& transport = *own;
  EXPECT_TRUE(transport.open().ok());
  Receiver receiver(&transport);
  Link* const link = transport.connect(*quire::ucx::parse_address("127.0.0.1:" + std::to_string(port)));
  EXPECT_TRUE(transport.send(link, Bytes(10, 1)));
  const auto progress_until = [&](auto condition, int limit_ms) {
    for (const auto limit = Clock::now() + std::chrono::milliseconds(limit_ms); !condition() && Clock::now() < limit;) {
      transport.progress(&receiver);
    }
  };
  progress_until([&] { return receiver.running.size() >= 4; }, 20'000);
  EXPECT_GE(receiver.running.size(), 4u);
  kill(sender, SIGSTOP);
  waitpid(sender, nullptr, WUNTRACED);
  progress_until([] { return false; }, 200);
  if (by_force) {
    transport.close(link);
    progress_until([&] { return transport.is_quiet(); }, 1000);
    EXPECT_EQ(receiver.num_ended, receiver.running.size()) << "all receives end";
  } else {
    for (size_t i = receiver.num_ended; i < receiver.running.size(); ++i)
      ucp_request_cancel(transport.worker(), receiver.running[i]->request);
    progress_until([] { return false; }, 10);
  }
  for (Bytes& slot : receiver.slots) std::fill(slot.begin(), slot.end(), kPattern);
  kill(sender, SIGCONT);
  progress_until([] { return false; }, 500);
  uint64_t late = 0;
  for (const Bytes& slot : receiver.slots) late += late_bytes(slot);
  kill(sender, SIGKILL);
  waitpid(sender, nullptr, 0);
  if (!by_force) (void)own.release();  // the process ends
  return late;
}

// In a process of its own, which ends at once: UCX 1.13 may abort when a worker is destroyed whose
// requests were cancelled.
uint64_t bytes_after_cancelling() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t receiver = fork();
  uint64_t late = 0;
  if (receiver == 0) {
    late = bytes_after_giving_up(false);
    _exit(write(ends[1], &late, sizeof late) == sizeof late ? 0 : 1);
  }
  ::close(ends[1]);
  EXPECT_EQ(read(ends[0], &late, sizeof late), static_cast<ssize_t>(sizeof late));
  ::close(ends[0]);
  waitpid(receiver, nullptr, 0);
  return late;
}

TEST(UcxLateControl, ARequestThatIsCancelledStillWrites) {
  uint64_t late = 0;
  for (int round = 0; round < 5 && late == 0; ++round) late = bytes_after_cancelling();
  std::printf("%llu late bytes after ucp_request_cancel\n", static_cast<unsigned long long>(late));
  EXPECT_GT(late, 0u) << "this test would not see late bytes";
}

TEST(UcxLateControl, AConnectionThatIsClosedByForceDoesNot) {
  for (int round = 0; round < 3; ++round) EXPECT_EQ(bytes_after_giving_up(true), 0u);
}

}  // namespace
