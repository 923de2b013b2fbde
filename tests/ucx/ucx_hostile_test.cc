// Peers that do what they should not. The owner refuses it with a code or ends the connection, needs no more memory for it than it may, and
// serves others meanwhile.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "plugins/ucx/ucx_near_name.h"
#include "plugins/ucx/ucx_seal.h"
#include "plugins/ucx/ucx_transport.h"
#include "tests/unit/full_size.h"
#include "ucx_rig.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)
using quire::ucx::Arrival;
using quire::ucx::Handshake;
using quire::ucx::Kind;
using quire::ucx::Knock;
using quire::ucx::Link;
using quire::ucx::Message;
using quire::ucx::Range;
using quire::ucx::Session;
using quire::ucx::Transfer;
using quire::ucx::Transport;
using quire::ucx::Verdict;

namespace {

using Clock = std::chrono::steady_clock;

// 0 under AddressSanitizer, which keeps what was freed.
uint64_t resident_kib(const std::string& process = "self") {
#if defined(__SANITIZE_ADDRESS__)
  return 0 * process.size();
#else
  std::ifstream file("/proc/" + process + "/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 1024;
#endif
}

uint64_t open_files(const std::string& process = "self") {
  uint64_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/" + process + "/fd")) count += file.path().empty() ? 0 : 1;
  return count;
}

std::string write_secret(const TemporaryFolder& folder, const std::string& name, const std::string& secret) {
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path) << secret;
  return path;
}

// A peer that speaks the protocol word by word.
class Stranger final : public Transport::Events {
 public:
  explicit Stranger(const std::string& address, std::string secret = "") : address_(address), secret_(std::move(secret)) {
    host_.struct_size = sizeof host_;
    host_.now = [](void*) { return clock_now(); };
    EXPECT_TRUE(read_config(ucx_config(), &config_).ok());
    EXPECT_TRUE(transport_.open().ok());
    connect();
  }
  ~Stranger() override {
    if (link_ != nullptr) transport_.close(link_);
    until([&] { return transport_.is_quiet(); });
  }
  void connect() {
    if (link_ != nullptr) transport_.close(link_);
    got.clear();
    link_ = transport_.connect(*quire::ucx::parse_address(address_));
    ASSERT_NE(link_, nullptr);
  }
  bool is_lost() {
    return until([&] { return link_ == nullptr; });
  }
  void say(Bytes bytes) {
    if (link_ != nullptr) transport_.send(link_, std::move(bytes));
  }
  Bytes sealed(Message message) { return session_->seal(&message); }
  void say(const Message& message) { say(sealed(message)); }
  // The greeting; with a session afterwards.
  bool greet() {
    Message hello;
    hello.kind = Kind::kHello;
    hello.version = quire::ucx::kVersion;
    hello.nonce.fill(1);
    say(encode(hello));
    const auto welcome = plain();
    if (!welcome || welcome->kind != Kind::kWelcome) return false;
    const Handshake handshake(secret_, hello.nonce, welcome->nonce, welcome->lease_ms);
    Message confirm;
    confirm.kind = Kind::kConfirm;
    confirm.mac = handshake.proof_of_reader();
    say(encode(confirm));
    session_.emplace(handshake.key_to_owner(), handshake.key_to_reader());
    return true;
  }
  std::optional<Message> plain() {
    if (!until([&] { return !got.empty() || link_ == nullptr; }) || got.empty()) return std::nullopt;
    const Bytes bytes = std::move(got.front());
    got.pop_front();
    return quire::ucx::decode(bytes);
  }
  std::optional<Message> answer() {
    if (!until([&] { return !got.empty() || link_ == nullptr; }) || got.empty()) return std::nullopt;
    const Bytes bytes = std::move(got.front());
    got.pop_front();
    return session_->open(bytes);
  }
  // Sends bytes by rendezvous, as only owners do.
  void send_data(Bytes* bytes) {
    auto transfer = std::make_unique<Transfer>();
    transfer->places.push_back({bytes->data(), bytes->size()});
    transfer->bytes = bytes->size();
    transport_.send(link_, std::move(transfer));
  }
  template <typename Condition>
  bool until(Condition condition, int limit_ms = 10'000) {
    for (const auto limit = Clock::now() + std::chrono::milliseconds(limit_ms); Clock::now() < limit;) {
      if (condition()) return true;
      if (transport_.progress(this) || !transport_.arm()) continue;
      pollfd fd = {transport_.fd(), POLLIN, 0};
      poll(&fd, 1, 1);
    }
    return condition();
  }
  bool has_link() const { return link_ != nullptr; }

  std::deque<Bytes> got;

 private:
  void knocked(Knock knock) override { transport_.reject(knock); }
  void arrived(Arrival* arrival) override { got.push_back(arrival->message); }
  void ended(std::unique_ptr<Transfer> /*transfer*/) override {}
  void lost(Link* /*link*/) override { link_ = nullptr; }

  const std::string address_;
  const std::string secret_;
  quire_host_api host_{};
  const quire::ucx::Log log_{&host_};
  quire::ucx::Config config_;
  Transport transport_{config_, &log_};
  Link* link_ = nullptr;
  std::optional<Session> session_;
};

quire::ucx::ObjectKey object_key(uint64_t name, uint64_t handle) { return quire::ucx::parse_key(ucx_key(name, handle))->object; }

Message want(uint64_t name, uint64_t handle, std::vector<Range> ranges, uint64_t request = 1) {
  Message message;
  message.kind = Kind::kWant;
  message.request = request;
  message.keys.push_back(object_key(name, handle));
  message.ranges = std::move(ranges);
  return message;
}

// A connected socket, at which nothing was said.
int bare_socket(const std::string& text, bool is_near) {
  const auto address = quire::ucx::parse_address(text);
  const int out = is_near ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un named = {};
  named.sun_family = AF_UNIX;
  const std::string name = quire::ucx::near_names(*address)[0];
  std::copy(name.begin(), name.end(), named.sun_path);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const int error = is_near ? connect(out, reinterpret_cast<const sockaddr*>(&named), bytes)
                            : connect(out, reinterpret_cast<const sockaddr*>(&address->storage), address->bytes);
  EXPECT_EQ(error, 0);
  return out;
}

// That an honest reader is served.
testing::AssertionResult serves(const std::string& address, const std::string& secret_file = "") {
  Client reader(ucx_subject(), ucx_config("", secret_file));
  return reader.holds(ucx_key(1, 1, address), content(1, 100'000));
}

class UcxHostile : public UcxWays {};
QUIRE_UCX_WAYS(UcxHostile);

TEST_P(UcxHostile, WhoDoesNotHaveTheSecretGetsNothing) {
  const TemporaryFolder folder;
  const std::string right = write_secret(folder, "right", std::string(40, 's')),
                    wrong = write_secret(folder, "wrong", std::string(40, 't'));
  Owner owner("", right);
  owner.offer(ucx_key(1, 1), content(1, 100'000));
  EXPECT_TRUE(serves(owner.address(), right));
  for (const std::string& file : {wrong, std::string()}) {
    Client reader(ucx_subject(), ucx_config("", file));
    Bytes out;
    EXPECT_EQ(reader.load(ucx_key(1, 1, owner.address()), 0, 1, &out).code, QUIRE_PERMISSION_DENIED) << "of " << file;
  }
  Stranger stranger(owner.address(), std::string(40, 't'));  // it does not mind who the owner is
  EXPECT_TRUE(stranger.greet());
  stranger.say(want(1, 1, {{0, 100}}));
  EXPECT_TRUE(stranger.is_lost());
  Stranger silent(owner.address(), std::string(40, 't'));
  EXPECT_TRUE(silent.greet());
  EXPECT_TRUE(silent.is_lost()) << "it would take the place of another peer";
  EXPECT_TRUE(stranger.got.empty());
  EXPECT_TRUE(serves(owner.address(), right));
  // And an owner that does not have it is not believed.
  Owner other("", wrong);
  other.offer(ucx_key(1, 1), content(2, 100'000));
  Client reader(ucx_subject(), ucx_config("", right));
  Bytes out;
  EXPECT_EQ(reader.load(ucx_key(1, 1, other.address()), 0, 1, &out).code, QUIRE_PERMISSION_DENIED);
}

TEST_P(UcxHostile, WhatIsNoMessageEndsTheConnection) {
  Owner owner;
  owner.offer(ucx_key(1, 1), content(1, 100'000));
  Bytes large(200'000, 7);
  Message hello;
  hello.kind = Kind::kHello;
  hello.version = quire::ucx::kVersion;
  const std::vector<std::function<void(Stranger*)>> deeds = {
      [](Stranger* peer) { peer->say(Bytes(1, 0)); },
      [](Stranger* peer) { peer->say(Bytes(7000, 0xff)); },
      [](Stranger* peer) { peer->say(Bytes(7990, 0x41)); },
      [&](Stranger* peer) { peer->say(large); },
      [&](Stranger* peer) { peer->send_data(&large); },
      [&](Stranger* peer) { peer->say(encode(hello)), peer->say(encode(hello)); },
      [](Stranger* peer) { peer->greet(), peer->say(Bytes(100, 1)); },
      [&](Stranger* peer) { peer->greet(), peer->say(encode(hello)); },
      [&](Stranger* peer) { peer->greet(), peer->send_data(&large); },
      [](Stranger* peer) {
        peer->greet();
        Message data;
        data.kind = Kind::kData;
        data.bytes = 5;
        peer->say(data);
      },
  };
  for (size_t i = 0; i < deeds.size(); ++i) {
    Stranger stranger(owner.address());
    deeds[i](&stranger);
    EXPECT_TRUE(stranger.is_lost()) << i;
  }
  Stranger newer(owner.address());
  hello.version = 2;
  newer.say(encode(hello));
  const auto refusal = newer.plain();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind, Kind::kRefuse);
  EXPECT_EQ(refusal->version, quire::ucx::kVersion);
  EXPECT_TRUE(serves(owner.address()));
}

TEST_P(UcxHostile, AMessageThatComesTwiceEndsTheConnection) {
  Owner owner;
  owner.offer(ucx_key(1, 1), content(1, 100'000));
  Stranger stranger(owner.address()), other(owner.address());
  ASSERT_TRUE(stranger.greet());
  ASSERT_TRUE(other.greet());
  Message done;
  done.kind = Kind::kDone;
  done.keys.push_back(object_key(9, 9));
  const Bytes bytes = stranger.sealed(done);
  stranger.say(bytes);
  const auto answer = stranger.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->verdict, Verdict::kNotFound);
  stranger.say(bytes);
  EXPECT_TRUE(stranger.is_lost()) << "the same again";
  other.say(bytes);
  EXPECT_TRUE(other.is_lost()) << "heard on another connection";
  EXPECT_TRUE(serves(owner.address()));
}

TEST_P(UcxHostile, WrongHandlesCannotBeToldFromAbsentKeys) {
  Owner owner(", \"lease\": \"2s\"");
  const uint64_t expired = owner.offer(ucx_key(1, 1), content(1, 1000));
  EXPECT_EQ(owner.client().wait(1).count(expired), 1u);
  const uint64_t consumed = owner.offer(ucx_key(2, 2), content(2, 1000));
  Client reader(ucx_subject(), ucx_config());
  EXPECT_EQ(reader.remove(ucx_key(2, 2, owner.address())).code, QUIRE_OK);
  EXPECT_EQ(owner.client().wait(1).count(consumed), 1u);
  const uint64_t open = owner.offer(ucx_key(3, 0), content(3, 1000));
  owner.offer(ucx_key(4, 4), content(4, 1000));
  Stranger stranger(owner.address());
  ASSERT_TRUE(stranger.greet());
  const std::pair<uint64_t, uint64_t> wrong[] = {{1, 1}, {2, 2}, {3, 3}, {4, 5}, {4, 0}, {9, 9}, {9, 0}};
  for (const auto& [name, handle] : wrong) {
    stranger.say(want(name, handle, {{0, 1}}, name));
    const auto answer = stranger.answer();
    ASSERT_TRUE(answer) << name << " " << handle;
    EXPECT_EQ(answer->kind, Kind::kAnswer);
    EXPECT_EQ(answer->verdict, Verdict::kNotFound);
    Bytes out;
    EXPECT_EQ(reader.load(ucx_key(name, handle, owner.address()), 0, 1, &out).code, QUIRE_NOT_FOUND);
    EXPECT_FALSE(reader.has(ucx_key(name, handle, owner.address())));
    EXPECT_EQ(reader.remove(ucx_key(name, handle, owner.address())).code, QUIRE_NOT_FOUND);
  }
  EXPECT_TRUE(reader.holds(ucx_key(3, 0, owner.address()), content(3, 1000)));
  EXPECT_EQ(reader.remove(ucx_key(3, 0, owner.address())).code, QUIRE_FAILED_PRECONDITION) << "others may want it, too";
  EXPECT_EQ(owner.client().wait(2).count(open), 1u) << "one lease later nothing is left";
  EXPECT_EQ(owner.client().health().num_objects, 0u);
}

TEST_P(UcxHostile, RangesLieInsideTheObject) {
  constexpr uint64_t kBig = uint64_t{1} << 63;
  Owner owner;
  owner.offer(ucx_key(1, 1), content(1, 100'000));
  Stranger stranger(owner.address());
  ASSERT_TRUE(stranger.greet());
  const std::vector<std::vector<Range>> outside = {{{100'000, 1}},  {{99'999, 2}},         {{0, 100'001}},  {{0, 1}, {100'000, 1}},
                                                   {{kBig - 1, 1}}, {{kBig - 4096, 4096}}, {{1 << 20, 100}}};
  for (const auto& ranges : outside) {
    stranger.say(want(1, 1, ranges));
    const auto answer = stranger.answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->verdict, Verdict::kOutOfRange) << ranges.back().offset;
  }
  stranger.say(want(1, 1, {{99'999, 1}}));
  const auto data = stranger.answer();
  ASSERT_TRUE(data);
  EXPECT_EQ(data->kind, Kind::kData);
  const std::vector<std::vector<Range>> impossible = {{{kBig, 1}}, {{0, kBig}}, {{1, UINT64_MAX}}, {{UINT64_MAX, UINT64_MAX}}, {{0, 0}}};
  for (const auto& ranges : impossible) {
    Stranger liar(owner.address());
    ASSERT_TRUE(liar.greet());
    liar.say(want(1, 1, ranges));
    EXPECT_TRUE(liar.is_lost()) << ranges.back().offset;
  }
  Client reader(ucx_subject(), ucx_config());
  Bytes out;
  EXPECT_EQ(reader.load(ucx_key(1, 1, owner.address()), 99'999, 2, &out).code, QUIRE_OUT_OF_RANGE);
  EXPECT_TRUE(serves(owner.address()));
}

// It asks for ever more and takes nothing: rendezvous that it never answers.
TEST_P(UcxHostile, WhoAsksForTooMuchAtOnceIsLost) {
  Owner owner(", \"timeout_ms\": 500");
  const uint64_t ticket = owner.offer(ucx_key(1, 1), content(1, 4'000'000));
  const uint64_t before = resident_kib();
  Stranger stranger(owner.address());
  ASSERT_TRUE(stranger.greet());
  for (uint64_t i = 0; i < 1000; ++i) stranger.say(want(1, 1, {{0, 4'000'000}}, i));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(serves(owner.address())) << "others are served";
  EXPECT_TRUE(stranger.is_lost());
  EXPECT_LT(resident_kib(), before + 64 * 1024);
  owner.client().cancel(ticket);
  EXPECT_EQ(owner.client().wait(1)[ticket].code, QUIRE_CANCELLED);
}

// Connections that are opened and left, with and without a greeting. The owner is another process:
// before 1.18, UCX ends a process of which one worker takes the descriptor of another one's
// connection while that is closed (openucx/ucx pull request 9942).
TEST_P(UcxHostile, ManyOpens) {
  const char* const text = std::getenv("QUIRE_ROUNDS");  // NOLINT(concurrency-mt-unsafe)
  const uint64_t opens = text != nullptr ? std::strtoull(text, nullptr, 10) : quire::test::full_or(20'000, 4'000) / kSlowness;
  const OwnerProcess owner(2, 100'000, ", \"connect_timeout_ms\": 300, \"lease\": \"60min\"");
  const auto is_served = [&] {
    Client reader(ucx_subject(), ucx_config());
    return reader.holds(owner.key(1), content(1, 100'000));
  };
  Stranger stranger(owner.address());
  uint64_t before = 0, greeted = 0;
  const uint64_t files = open_files(owner.process());
  const auto begin = Clock::now();
  for (uint64_t i = 0; i < opens; ++i) {
    if (i == opens / 10) before = resident_kib(owner.process());
    stranger.connect();
    if (i % 4 == 0) greeted += stranger.greet() ? 1 : 0;
    if (i % 4 == 1) stranger.say(Bytes(50, 1));
    stranger.until([] { return true; });
    if (i % 1000 == 0) {
      EXPECT_TRUE(is_served()) << i;
    }
  }
  std::printf("%llu opens, %llu greeted, %.0f opens/s, %lld KiB more\n", static_cast<unsigned long long>(opens),
              static_cast<unsigned long long>(greeted),
              static_cast<double>(opens) / std::chrono::duration<double>(Clock::now() - begin).count(),
              static_cast<long long>(resident_kib(owner.process())) - static_cast<long long>(before));
  EXPECT_GT(greeted, 0u);
  EXPECT_TRUE(becomes_true([&] { return is_served() == true; }));
  EXPECT_LT(resident_kib(owner.process()), before + 32 * 1024);
  EXPECT_TRUE(becomes_true([&] { return open_files(owner.process()) < files + 20; }))
      << open_files(owner.process()) << " files are open, " << files << " were";
}

// Peers that connect and are silent, and bare sockets that send a byte now and then.
TEST_P(UcxHostile, WhoIsSlowToGreetIsLost) {
  Owner owner(", \"connect_timeout_ms\": 200, \"max_peers\": 4");
  owner.offer(ucx_key(1, 1), content(1, 100'000));
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(std::make_unique<Stranger>(owner.address()));
  for (const auto& peer : silent) EXPECT_TRUE(peer->is_lost());
  EXPECT_TRUE(becomes_true([&] { return serves(owner.address()) == true; }));
  std::vector<int> sockets;
  const uint64_t files = open_files();
  for (int i = 0; i < 200; ++i) sockets.push_back(bare_socket(owner.address(), is_near()));
  for (int round = 0; round < 5; ++round) {
    for (const int socket : sockets) (void)!send(socket, "\x01", 1, MSG_NOSIGNAL);
    EXPECT_TRUE(becomes_true([&] { return serves(owner.address()) == true; })) << round;
  }
  for (const int socket : sockets) close(socket);
  EXPECT_TRUE(serves(owner.address()));
  EXPECT_TRUE(becomes_true([&] { return open_files() < files + 20; })) << open_files() << " files are open, " << files << " were";
}

}  // namespace
