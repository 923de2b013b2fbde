// Servers for tests of the redis connector: redis-server on a Unix socket in a folder of its own,
// and a program that answers as it is told.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kit.h"
#include "patience.h"

namespace quire::kit {

inline Subject redis_subject() {
  Subject subject;
  subject.connector = "redis";
  return subject;
}

// A process of redis-server that keeps nothing on disk. It ends with this object, and also with the
// thread that started it.
class RedisServer {
 public:
  // options: as on its command line. Waits until it answers.
  explicit RedisServer(std::vector<std::string> options = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  static bool is_installed();
  std::string socket() const { return folder_.path() + "/redis.sock"; }
  // Settings of the connector: this server, then further fields such as ", \"ttl_ms\": 5".
  std::string config(const std::string& fields = "") const;
  void start();
  void kill();
  // SIGSTOP; returns when it has stopped.
  void stop() const;
  void go_on() const;
  // A command of its client; the answer as text, "(nil)" and numbers included.
  std::string ask(const std::vector<std::string>& words) const;

 private:
  const TemporaryFolder folder_;
  const std::vector<std::string> options_;
  pid_t process_ = -1;
};

// A Unix socket at which a thread answers each connection, one after the other.
class FakeServer {
 public:
  // What is sent for a command, given its words; it is sent in pieces of `piece` bytes with a pause
  // between them. "CLOSE" closes the connection.
  struct Answer {
    std::string bytes;
    size_t piece = SIZE_MAX;
    int pause_ms = 0;
  };
  using Script = std::function<Answer(const std::vector<std::string>& words)>;

  // The greeting is answered as a server would; `script` answers everything else.
  explicit FakeServer(Script script);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string config(const std::string& fields = "") const;
  uint64_t num_connections() const { return num_connections_; }
  // From now on it closes a connection as soon as it has answered the greeting.
  void hang_up_after_greeting() { hangs_up_ = true; }

 private:
  void run();
  void serve(int connection);
  bool say(int connection, const Answer& answer) const;

  const TemporaryFolder folder_;
  const Script script_;
  int listener_ = -1;
  std::atomic<bool> is_over_{false}, hangs_up_{false};
  std::atomic<uint64_t> num_connections_{0};
  std::thread thread_;
};

}  // namespace quire::kit
