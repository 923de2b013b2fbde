// What is either used by calls, any number at a time, or has one owner. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace quire::c_api {

class Exclusive {
  using State = std::atomic<int64_t>;  // calls in progress; kOwned
  static constexpr int64_t kOwned = -1;

 public:
  // Owns until it is destroyed, which may be after the Exclusive is.
  class Owner {
   public:
    explicit Owner(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Owner(Owner&& other) noexcept = default;
    Owner& operator=(Owner&& other) = delete;
    ~Owner() {
      if (state_ != nullptr) state_->store(0, std::memory_order_release);
    }
    explicit operator bool() const { return state_ != nullptr; }

   private:
    std::shared_ptr<State> state_;
  };
  // A call in progress.
  class Use {
   public:
    explicit Use(State* state) : state_(state) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (state_ != nullptr) state_->fetch_sub(1, std::memory_order_release);
    }
    explicit operator bool() const { return state_ != nullptr; }

   private:
    State* state_;
  };

  // False: somebody owns it, or a call uses it now.
  Owner take() {
    int64_t none = 0;
    return Owner(state_->compare_exchange_strong(none, kOwned) ? state_ : nullptr);
  }
  // False: somebody owns it.
  Use use() {
    int64_t calls = state_->load();
    while (calls != kOwned && !state_->compare_exchange_weak(calls, calls + 1)) continue;
    return Use(calls == kOwned ? nullptr : state_.get());
  }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>(0);
};

}  // namespace quire::c_api
