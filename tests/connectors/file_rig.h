// A store of the file connector without a library around it: its worker with a host, a kernel that
// fails or waits as told, and calls that wait for their end. And processes, folders and open files
// to look at.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kit.h"
#include "plugins/file/file_worker.h"
#include "plugins/file/mailbox.h"

namespace quire::file {

using kit::Bytes;
using kit::content;
using kit::Key;
using Keys = std::vector<Key>;
using kit::kKiB;
using kit::kMiB;
using kit::kMillisecond;
using kit::kSecond;

// What the worker sees of the library.
class FakeHost {
 public:
  FakeHost();
  const quire_host_api* api() const { return &api_; }
  int64_t now() const;
  void advance(int64_t ns) { ahead_ += ns; }
  // How many lines of the log have the text.
  size_t said(const std::string& text) const;
  std::atomic<int64_t> most_buffers{INT64_MAX};  // of staging; further ones are not to be had
  std::atomic<int64_t> buffers{0};

 private:
  quire_host_api api_ = {};
  std::atomic<int64_t> ahead_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

using Fault = std::function<std::optional<int32_t>(const Request&)>;
using Choice = std::function<bool(const Request&)>;

// What happens to requests before the kernel sees them. The functions are called by the store's
// thread.
class Script {
 public:
  // A result: the request ends with it and does nothing.
  void fault(Fault fault);
  // The request waits until release(); nobody can cancel it.
  void hold(Choice hold);
  // A read or write moves a part only.
  void shorten(Choice shorten);

  void release();
  size_t num_held() const { return num_held_; }
  // Waits until so many are held; at most ten seconds.
  [[nodiscard]] bool wait_held(size_t count) const;
  std::vector<Act> acts() const;
  size_t count(Act act) const;

 private:
  friend class ScriptedKernel;
  mutable std::mutex mutex_;
  Fault fault_ = [](const Request&) { return std::nullopt; };
  Choice hold_ = [](const Request&) { return false; };
  Choice shorten_ = [](const Request&) { return false; };
  std::vector<Act> acts_;
  std::atomic<size_t> num_held_{0};
  std::atomic<bool> is_released_{false};
  Kernel* kernel_ = nullptr;
};

KernelMaker scripted(Script* script);
// Requests of this kind end with -error, the first `times` of them.
Fault failing(Act act, int error, int times = INT32_MAX);
Choice all(Act act);

// A folder of its own, removed at the end with everything in it.
class Folder {
 public:
  // in_memory: not on a disk.
  explicit Folder(bool in_memory = true);
  ~Folder();
  Folder(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string store() const { return path_ + "/store"; }

 private:
  std::string path_;
};

Config config(const std::string& directory, uint64_t quota = 64 * kMiB);

// Runs of memory that is aligned as O_DIRECT wants it.
struct Buffer {
  explicit Buffer(uint64_t bytes, uint64_t misalignment = 0);
  quire_ticket_run run(uint64_t object_offset = 0) const;
  void fill(const Bytes& object) const;
  Bytes bytes() const;
  std::unique_ptr<uint8_t, void (*)(void*)> memory;
  uint8_t* data;
  uint64_t size;
};

class StoreRig {
 public:
  explicit StoreRig(const Config& config, Script* script = nullptr, FakeHost* host = nullptr);
  ~StoreRig() { close(); }
  StoreRig(const StoreRig&) = delete;

  const Outcome& outcome() const { return outcome_; }
  void close() { worker_.reset(); }
  FakeHost& host() { return *host_; }

  using Made = std::unique_ptr<Ticket>;
  Made ticket(quire_ticket_kind kind, const Keys& keys, const kit::Runs& runs = {});
  uint64_t submit(std::unique_ptr<Ticket> ticket);
  void submit_all(std::vector<std::unique_ptr<Ticket>> tickets);
  void cancel(uint64_t ticket);
  // Nothing: it did not end within that time.
  std::optional<quire_completion> end_of(uint64_t ticket, int64_t timeout_ns = 20 * kSecond);

  uint64_t begin_store(const Key& key, const Buffer& from, int64_t deadline_ns = -1);
  uint64_t begin_load(const Key&, const Buffer& to, int64_t deadline = -1, int32_t priority = 0);
  quire_completion store(const Key& key, const Bytes& object, uint64_t misalignment = 0);
  quire_completion load(const Key&, uint64_t bytes, Bytes* out = nullptr, uint64_t shift = 0);
  quire_completion remove(const Key& key);
  std::vector<uint64_t> sizes(const Keys& keys, int64_t lease_ns = 0, uint32_t* flags = nullptr);
  bool holds(const Key& key, const Bytes& object);
  quire_connector_state state();
  // Once the worker has seen everything that happened before.
  const Shown& shown();
  Listing list(uint64_t cursor, std::vector<quire_object_entry>* items, std::vector<uint8_t>* keys);

 private:
  void round_trip();

  FakeHost own_host_;
  FakeHost* host_;
  Mailbox mailbox_;
  std::unique_ptr<Worker> worker_;
  Outcome outcome_;
  uint64_t next_ticket_ = 1;
  std::map<uint64_t, quire_completion> ended_;
};

// Files below a folder, without those of the store itself: its folders and its lock.
std::vector<std::string> files_below(const std::string& folder);
size_t num_open_files();
// Runs in a process of its own, which ends with 0 if nothing failed in it.
pid_t in_child(const std::function<void()>& what);
// Whether it ended with 0.
[[nodiscard]] bool ended_well(pid_t child);

// No file stays open that was not open before.
class FileStore : public testing::Test {
 protected:
  void SetUp() override { files_before_ = num_open_files(); }
  void TearDown() override { EXPECT_EQ(num_open_files(), files_before_) << "open files"; }

 private:
  size_t files_before_ = 0;
};

}  // namespace quire::file
