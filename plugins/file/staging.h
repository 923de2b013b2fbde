// Memory between files and the memory of tickets: at most `count` buffers of one window, made when
// they are first wanted. A buffer that the kernel may still touch is not given back before it is
// proved that it will not.
#pragma once

#include <quire/driver.h>

#include <cstdint>
#include <vector>

#include "plugins/file/file_parts.h"

namespace quire::file {

class Staging {
 public:
  Staging(const quire_host_api* host, uint32_t count) : host_(host), most_(count) {
    free_.reserve(count);  // later it could fail
  }
  ~Staging() {
    for (uint8_t* buffer : free_) host_->release_memory(host_->user, buffer, kWindow, kPage);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // nullptr: all are in use, or there is no memory.
  uint8_t* take() noexcept {
    if (!free_.empty()) {
      uint8_t* const buffer = free_.back();
      free_.pop_back();
      ++in_use_;
      return buffer;
    }
    if (made_ == most_) return nullptr;
    auto* const buffer = static_cast<uint8_t*>(host_->alloc(host_->user, kWindow, kPage));
    if (buffer == nullptr) return nullptr;
    ++made_;
    ++in_use_;
    return buffer;
  }
  void give_back(uint8_t* buffer) {
    --in_use_;
    free_.push_back(buffer);
  }
  // Whether a later take can succeed.
  bool is_used() const { return in_use_ != 0; }

 private:
  const quire_host_api* host_;
  uint32_t most_;
  uint32_t made_ = 0;
  uint32_t in_use_ = 0;
  std::vector<uint8_t*> free_;
};

}  // namespace quire::file
