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

  // What is to be set back at the end.
  template <int64_t kDone>
  class Ends {
   public:
    Ends() = default;
    Ends(Ends&& other) noexcept = default;
    Ends& operator=(Ends&& other) noexcept {
      std::swap(state_, other.state_);
      return *this;
    }
    ~Ends() {
      if (state_ != nullptr) state_->fetch_sub(kDone, std::memory_order_release);
    }
    explicit operator bool() const { return state_ != nullptr; }

   private:
    friend class Exclusive;
    explicit Ends(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

 public:
  using Owner = Ends<kOwned>;
  using Use = Ends<1>;

  // False: somebody owns it, or a call uses it now.
  Owner take() {
    int64_t none = 0;
    return Owner(state_->compare_exchange_strong(none, kOwned, std::memory_order_acquire) ? state_ : nullptr);
  }
  // For the length of a call. False: somebody owns it.
  Use use() {
    int64_t calls = state_->load(std::memory_order_relaxed);
    while (calls != kOwned) {
      if (state_->compare_exchange_weak(calls, calls + 1, std::memory_order_acquire)) return Use(state_);
    }
    return Use(nullptr);
  }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>(0);  // an owner may outlive this
};

}  // namespace quire::c_api
