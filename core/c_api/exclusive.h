// What has at most one owner at a time. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace quire::c_api {

class Exclusive {
 public:
  // Ends when it is destroyed.
  class Owner {
   public:
    Owner() = default;
    Owner(Owner&& other) noexcept = default;
    Owner& operator=(Owner&& other) noexcept {
      std::swap(is_owned_, other.is_owned_);
      return *this;
    }
    ~Owner() {
      if (is_owned_ != nullptr) is_owned_->store(false, std::memory_order_release);
    }
    explicit operator bool() const { return is_owned_ != nullptr; }

   private:
    friend class Exclusive;
    explicit Owner(std::shared_ptr<std::atomic<bool>> is_owned) : is_owned_(std::move(is_owned)) {}
    std::shared_ptr<std::atomic<bool>> is_owned_;
  };

  // False: somebody owns it.
  Owner take() { return Owner(is_owned_->exchange(true, std::memory_order_acquire) ? nullptr : is_owned_); }
  bool is_owned() const { return is_owned_->load(std::memory_order_acquire); }

 private:
  std::shared_ptr<std::atomic<bool>> is_owned_ = std::make_shared<std::atomic<bool>>(false);  // an owner may outlive this
};

}  // namespace quire::c_api
