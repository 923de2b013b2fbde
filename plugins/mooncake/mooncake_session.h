// An opened store of Mooncake with the staging memory that its calls use. Bytes pass through it,
// never through memory of tickets: a call cannot be given up, and may write even after it answered.
// What a failed transfer may still write is quarantined until the session ends, for only the end of
// the client is proof. Calls may be in a session that nobody uses any more; it ends with the last.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "plugins/mooncake/mooncake_config.h"
#include "plugins/mooncake/mooncake_library.h"

namespace quire::mooncake {

class Session {
 public:
  // Blocks as long as the library does. Errors: RESOURCE_EXHAUSTED; those of answers.h.
  static Outcome open(const Library& library, const Config& config, std::shared_ptr<Session>* out);
  // Blocks as long as the library does.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void* store() const { return store_; }

  // Memory for one value; nullptr: none is free.
  uint8_t* take();
  // settled: nothing writes it any more. Otherwise it is not given out again.
  void give_back(uint8_t* buffer, bool settled);
  // Whether what is not quarantined is too little for all threads.
  bool is_worn_out();

 private:
  explicit Session(const Library& library) : library_(library) {}
  Outcome map(const Config& config);
  Outcome set_up(const Config& config);

  const Library library_;
  void* store_ = nullptr;
  std::span<uint8_t> memory_;
  uint64_t buffer_bytes_ = 0;
  uint64_t num_buffers_ = 0;
  uint64_t num_threads_ = 0;
  std::mutex lock_;  // of what follows
  std::vector<uint8_t*> free_;
  uint64_t num_quarantined_ = 0;
};

}  // namespace quire::mooncake
