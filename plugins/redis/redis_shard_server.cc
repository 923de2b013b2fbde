#include "plugins/redis/redis_shard_server.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "plugins/common/nanoseconds.h"

namespace quire::redis {
namespace {

using plugins::kMillisecond;
constexpr int64_t kShortPause = 50 * kMillisecond;
constexpr int64_t kLongPause = 5000 * kMillisecond;

}  // namespace

void Log::say(quire_log_level level, std::initializer_list<std::string_view> texts) const {
  constexpr std::string_view kComponent = "connector:redis";
  char line[400];
  size_t bytes = 0;
  for (const std::string_view text : texts) {
    for (size_t i = 0; i < text.size() && bytes < sizeof line; ++i) line[bytes++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  }
  if (host_->log != nullptr) host_->log(host_->user, level, {kComponent.data(), kComponent.size()}, {line, bytes});
}

Server::Server(const Config& config, uint32_t number, Tickets* tickets, const Log* log)
    : address_(config.servers[number]),
      number_(number),
      patience_(config.connect_timeout_ns + 1000 * kMillisecond),
      tickets_(*tickets),
      log_(*log),
      random_(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(this)) ^ static_cast<uint64_t>(log->now())) {}

bool Server::is_up() {
  const std::lock_guard guard(lock_);
  return num_up_ != 0;
}

Outcome Server::await_first() {
  std::unique_lock guard(lock_);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_);
  if (!tried_.wait_until(guard, limit, [&] { return is_tried_; })) return {QUIRE_UNAVAILABLE, 0, "its address was not found in time"};
  return outcome_;
}

bool Server::may_try(int64_t now, int64_t* next) {
  const std::lock_guard guard(lock_);
  *next = std::max(now + kShortPause, next_try_);
  if (now < next_try_ || is_trying_) return false;
  is_trying_ = true;
  return true;
}

// The state of the tickets changes under the lock, so that two connections cannot change it in the wrong order.
void Server::up() {
  {
    const std::lock_guard guard(lock_);
    if (is_tried_ && num_up_ == 0) log_.say(QUIRE_LOG_INFO, {"server ", address_.text, " is back"});
    is_trying_ = false;
    is_tried_ = true;
    ++num_up_;
    num_failures_ = 0;
    outcome_ = {};
    said_ = 0;
    tickets_.set_state(number_, QUIRE_OK);  // also wakes connections that wait for their turn
  }
  tried_.notify_all();
}

// Between three quarters and five quarters, so that many processes do not come at once.
int64_t Server::pause() {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const int64_t quarter = pause_ / 4;
  return pause_ - quarter + static_cast<int64_t>((random_ >> 33) % static_cast<uint64_t>(2 * quarter + 1));
}

void Server::failed(const Outcome& outcome, int64_t now, bool was_up) {
  {
    const std::lock_guard guard(lock_);
    if (was_up) --num_up_;
    if (!was_up) is_trying_ = false;
    next_try_ = now + (pause_ != 0 ? pause() : 0);
    pause_ = std::min(std::max(2 * pause_, kShortPause), kLongPause);
    const bool is_down = num_up_ == 0;
    if (num_failures_++ == 0 && is_down) log_.say(QUIRE_LOG_WARN, {"server ", address_.text, " is lost: ", outcome.text});
    outcome_ = outcome;
    is_tried_ = true;
    if (is_down) tickets_.set_state(number_, outcome.code == QUIRE_PERMISSION_DENIED ? QUIRE_PERMISSION_DENIED : QUIRE_UNAVAILABLE);
  }
  tried_.notify_all();
}

void Server::works() {
  const std::lock_guard guard(lock_);
  pause_ = 0;
}

void Server::complain(std::string_view text) {
  const size_t kind = std::hash<std::string_view>()(text.substr(0, text.find(' '))) % 32;
  const std::lock_guard guard(lock_);
  if ((said_ >> kind & 1) != 0) return;
  said_ |= 1u << kind;
  log_.say(QUIRE_LOG_WARN, {"server ", address_.text, " answers: ", text});
}

}  // namespace quire::redis
