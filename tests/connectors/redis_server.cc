#include "redis_server.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace quire::kit {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(30);

const char* binary() {
  for (const char* path :
       {"/usr/bin/redis-server", "/usr/local/bin/redis-server", "/usr/bin/valkey-server", "/usr/local/bin/valkey-server"}) {
    if (access(path, X_OK) == 0) return path;
  }
  return nullptr;
}

std::string text_of(const redisReply* reply) {
  if (reply == nullptr) return "(none)";
  if (reply->type == REDIS_REPLY_INTEGER) return std::to_string(reply->integer);
  return reply->type == REDIS_REPLY_NIL ? "(nil)" : std::string(reply->str != nullptr ? reply->str : "", reply->len);
}

std::string json_servers(const std::string& socket, const std::string& fields) { return "{\"servers\": \"" + socket + "\"" + fields + "}"; }

class NeedsServer : public testing::Environment {
 public:
  void SetUp() override {
    if (!RedisServer::is_installed()) GTEST_SKIP() << "redis-server is not installed: the redis connector cannot be tested here";
  }
};

const testing::Environment* const kNeedsServer = testing::AddGlobalTestEnvironment(new NeedsServer);

}  // namespace

RedisServer::RedisServer(std::vector<std::string> options) : options_(std::move(options)) { start(); }
RedisServer::~RedisServer() { kill(); }

bool RedisServer::is_installed() { return binary() != nullptr; }

std::string RedisServer::config(const std::string& fields) const { return json_servers(socket(), fields); }

void RedisServer::start() {
  ASSERT_EQ(process_, -1);
  std::vector<std::string> words = {binary(), "--port",       "0",  "--unixsocket", socket(), "--dir", folder_.path(), "--save",
                                    "",       "--appendonly", "no", "--daemonize",  "no"};
  words.insert(words.end(), options_.begin(), options_.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int null = open("/dev/null", O_RDWR);
    dup2(null, 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  ASSERT_GT(process_, 0);
  const auto limit = Clock::now() + kPatience;
  std::string answer;
  while (answer != "PONG" && answer.rfind("NOAUTH", 0) != 0 && Clock::now() < limit) {
    answer = ask({"PING"});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(answer == "PONG" || answer.rfind("NOAUTH", 0) == 0) << "redis-server does not answer: " << answer;
}

void RedisServer::kill() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
}

void RedisServer::stop() const {
  ::kill(process_, SIGSTOP);
  int status = 0;
  EXPECT_EQ(waitpid(process_, &status, WUNTRACED), process_);
  EXPECT_TRUE(WIFSTOPPED(status));
}

void RedisServer::go_on() const { ::kill(process_, SIGCONT); }

std::string RedisServer::ask(const std::vector<std::string>& words) const {
  redisContext* const wire = redisConnectUnixWithTimeout(socket().c_str(), {10, 0});
  std::string answer = "(none)";
  if (wire != nullptr && wire->err == 0) {
    redisSetTimeout(wire, {10, 0});
    std::vector<const char*> texts;
    std::vector<size_t> bytes;
    for (const std::string& word : words) {
      texts.push_back(word.data());
      bytes.push_back(word.size());
    }
    auto* const reply = static_cast<redisReply*>(redisCommandArgv(wire, static_cast<int>(texts.size()), texts.data(), bytes.data()));
    answer = text_of(reply);
    if (reply != nullptr) freeReplyObject(reply);
  }
  if (wire != nullptr) redisFree(wire);
  return answer;
}

FakeServer::FakeServer(Script script) : script_(std::move(script)) {
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder_.path() + "/fake.sock";
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(listener_, 64), 0);
  thread_ = std::thread([this] { run(); });
}

FakeServer::~FakeServer() {
  is_over_ = true;
  thread_.join();
  close(listener_);
}

std::string FakeServer::config(const std::string& fields) const { return json_servers(folder_.path() + "/fake.sock", fields); }

void FakeServer::run() {
  while (!is_over_) {
    pollfd ready = {listener_, POLLIN, 0};
    if (poll(&ready, 1, 10) != 1) continue;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    ++num_connections_;
    serve(connection);
    close(connection);
  }
}

bool FakeServer::say(int connection, const Answer& answer) const {
  for (size_t at = 0; at < answer.bytes.size(); at += std::min(answer.piece, answer.bytes.size() - at)) {
    const size_t bytes = std::min(answer.piece, answer.bytes.size() - at);
    for (size_t done = 0; done < bytes && !is_over_;) {
      const ssize_t n = send(connection, answer.bytes.data() + at + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN) return false;
      if (n < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      done += n < 0 ? 0 : static_cast<size_t>(n);
    }
    for (int waited = 0; waited < answer.pause_ms && !is_over_; ++waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return !is_over_;
}

// Commands are read by hiredis: a command is an array of bulks, as an answer can be.
void FakeServer::serve(int connection) {
  const std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader(redisReaderCreate(), redisReaderFree);
  std::vector<char> buffer(65536);
  while (!is_over_) {
    pollfd ready = {connection, POLLIN, 0};
    if (poll(&ready, 1, 10) != 1) continue;
    const ssize_t n = read(connection, buffer.data(), buffer.size());
    if (n <= 0) return;
    redisReaderFeed(reader.get(), buffer.data(), static_cast<size_t>(n));
    void* object = nullptr;
    while (redisReaderGetReply(reader.get(), &object) == REDIS_OK && object != nullptr) {
      auto* const command = static_cast<redisReply*>(object);
      std::vector<std::string> words;
      for (size_t i = 0; i < command->elements; ++i) words.emplace_back(command->element[i]->str, command->element[i]->len);
      freeReplyObject(command);
      Answer answer;
      if (words[0] == "PING") {
        answer.bytes = "+PONG\r\n";
      } else if (words[0] == "INFO") {
        answer.bytes = "$4\r\n# No\r\n";
      } else {
        answer = script_(words);
      }
      if (answer.bytes == "CLOSE" || !say(connection, answer)) return;
      if (words[0] == "INFO" && hangs_up_) return;
    }
  }
}

}  // namespace quire::kit
