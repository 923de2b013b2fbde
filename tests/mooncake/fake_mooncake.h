// A library with the functions of Mooncake's C library, for tests: a store in a directory, which is
// the text that set-up is given as the master. A value is a file. Several processes may have the
// same store. Within a process a test says what calls do instead: answer errors, take long, not
// return, return and write later, give other bytes. As with Mooncake: a put of an existing key
// answers 0 and writes nothing, a key that was looked for has a lease, buffers must be registered.
//
// The file `capacity` in the directory, if there, has a number of bytes; puts beyond it are refused.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#define FAKE_API __attribute__((visibility("default")))

namespace quire::test {

enum class Call { kSetup, kRegister, kPut, kGet, kExist, kBatchExist, kSize, kRemove, kCount };

// What a call does that is not what it should.
struct Act {
  std::optional<int64_t> answer = {};  // it does nothing else
  bool waits = false;                  // first; until go_on()
  // A get: the value is written into the buffer by go_on(), unless the store was destroyed before.
  bool writes_late = false;
  std::function<void(std::string* value)> alters = {};  // of a get or a put
};

class FAKE_API FakeMooncake {
 public:
  using Script = std::function<Act(Call call, const std::string& key)>;

  // Of this process.
  static FakeMooncake& get();

  void set_script(Script script);
  // Everything that waits goes on, and what is late is written.
  void go_on();
  // No script; everything goes on.
  void reset();
  uint64_t num_calls(Call call) const { return calls_[static_cast<size_t>(call)]; }
  uint64_t num_waiting() const { return num_waiting_; }
  uint64_t num_stores() const { return num_stores_; }
  uint64_t num_late_bytes() const { return num_late_bytes_; }
  // Where the value of a key is.
  static std::string path(const std::string& directory, const std::string& key);

  // For the functions of the library.
  Act begin(Call call, const std::string& key);
  void write_later(const void* store, void* buffer, std::string value);
  void created() { ++num_stores_; }
  void destroyed(const void* store);

 private:
  struct Late {
    const void* store;
    void* buffer;
    std::string value;
  };

  std::mutex lock_;
  std::condition_variable goes_on_;
  Script script_;
  uint64_t turn_ = 0;
  std::vector<Late> late_;
  std::atomic<uint64_t> calls_[static_cast<size_t>(Call::kCount)] = {};
  std::atomic<uint64_t> num_waiting_{0};
  std::atomic<uint64_t> num_stores_{0};
  std::atomic<uint64_t> num_late_bytes_{0};
};

}  // namespace quire::test
