// For tests of the ucx connector: an owner and a reader in one process, an owner in a process of
// its own, keys with handles and addresses.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/connectors/kit.h"
#include "tests/connectors/patience.h"

namespace quire::kit {

Subject ucx_subject();

// "off": over UCX; "auto": over shared memory, as all is in one host. What ucx_config() says, also
// in processes that begin afterwards.
std::string& same_host();

// Tests that run both ways.
class UcxWays : public testing::TestWithParam<const char*> {
 protected:
  UcxWays() { same_host() = GetParam(); }
  ~UcxWays() override { same_host() = "off"; }
  static bool is_near() { return same_host() == "auto"; }
};
std::string name_of_way(const testing::TestParamInfo<const char*>& way);
inline const auto kWays = testing::Values("off", "auto");
#define QUIRE_UCX_WAYS(suite) INSTANTIATE_TEST_SUITE_P(, suite, kWays, name_of_way)

// The settings of a test: trusted unless a secret is named, same_host(), then further fields with a
// comma before them.
std::string ucx_config(const std::string& fields = "", const std::string& secret_file = "");

// 32 bytes of a name, a handle (0: none) and an address.
Key ucx_key(uint64_t name, uint64_t handle = 0, const std::string& address = "");

// What the file says, when it says something.
std::string read_line(const std::string& path);

// An instance that serves at a port of its own.
class Owner {
 public:
  explicit Owner(const std::string& fields = "", const std::string& secret_file = "");

  Client& client() { return client_; }
  const std::string& address() const { return address_; }
  // Offers an object; its bytes stay as long as this does. The ticket's number.
  uint64_t offer(const Key& key, const Bytes& object, Layout layout);
  uint64_t offer(const Key& key, const Bytes& object);
  Memory& memory(uint64_t ticket);

 private:
  const TemporaryFolder folder_;
  std::deque<std::pair<uint64_t, Memory>> memories_;  // which the instance reads until it is closed
  Client client_;
  std::string address_;
};

// A process that offers objects until it is killed: number i of `count` has the bytes
// content(i, bytes) in pieces of 4096, 8192 apart, and the key ucx_key(i, i + 1).
class OwnerProcess {
 public:
  OwnerProcess(uint64_t count, uint64_t bytes, const std::string& fields = "");
  ~OwnerProcess();
  OwnerProcess(const OwnerProcess&) = delete;
  OwnerProcess& operator=(const OwnerProcess&) = delete;

  const std::string& address() const { return address_; }
  Key key(uint64_t i) const { return ucx_key(i, i + 1, address_); }
  std::string process() const { return std::to_string(process_); }
  void kill();
  void stop() const;  // returns when it has stopped
  void go_on() const;

 private:
  const TemporaryFolder folder_;
  pid_t process_ = -1;
  std::string address_;
};

// A process that looks up the objects 0 to `count` of an owner, with a lease, and loads them again
// and again until it is killed.
class ReaderProcess {
 public:
  ReaderProcess(const std::string& address, uint64_t count, uint64_t bytes);
  ~ReaderProcess() { kill(); }
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;
  void kill();
  void stop() const;
  void go_on() const;

 private:
  pid_t process_ = -1;
};

// What such processes do.
int read_objects(const std::string& address, uint64_t count, uint64_t bytes);
int own_objects(const std::string& config, uint64_t count, uint64_t bytes);

// Number of rounds: QUIRE_KILLS, or as many as the test says, fewer under sanitizers.
uint64_t kills(uint64_t usual);

}  // namespace quire::kit
