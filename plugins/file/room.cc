#include "plugins/file/room.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "plugins/common/nanoseconds.h"

namespace quire::file {
namespace {

constexpr size_t kMostEvictions = 16;  // at once
using plugins::kMillisecond;
// Too much is there and nothing can leave: it is looked at again after a while.
constexpr int64_t kStuckPause = 1'000 * kMillisecond;
constexpr int64_t kAfterFailure = 10'000 * kMillisecond;  // until the eviction of an object is tried again

}  // namespace

Room::Room(const Config& config, const quire_host_api* host, Log* log, Catalog* catalog, Condition* condition)
    : quota_(config.quota != 0 ? config.quota : UINT64_MAX), host_(host), log_(log), catalog_(catalog), condition_(condition) {}

void Room::ask(RoomSeeker* seeker, uint64_t bytes) {
  asking_.push_back({seeker, bytes});
  pump();
}

void Room::stop_asking(RoomSeeker* seeker) {
  std::erase_if(asking_, [&](const Asking& asking) { return asking.seeker == seeker; });
}

void Room::shrink() {
  shrink_to_ = std::min(shrink_to_, catalog_->index().charged_bytes() / 20 * 19);
  stuck_until_ = 0;
  pump();
}

void Room::answer_front(bool is_granted) {
  const Asking asking = asking_.front();
  asking_.pop_front();
  if (is_granted) reserved_bytes_ += asking.bytes;
  if (!is_granted) condition_->no_room();
  asking.seeker->answer_room(is_granted);
}

// What has to leave, so that everybody who asks can have what he wants.
uint64_t Room::excess() const {
  uint64_t wanted = used_bytes();
  for (const Asking& asking : asking_) wanted += std::min(asking.bytes, quota_);
  uint64_t out = wanted > quota_ ? wanted - quota_ : 0;
  const uint64_t charged = catalog_->index().charged_bytes();
  if (charged > shrink_to_) out = std::max(out, charged - shrink_to_);
  return out;
}

void Room::pump() {
  if (is_pumping_) return;  // a seeker that was answered asks for something
  if (asking_.empty() && evictions_.empty() && stuck_until_ != 0 && host_->now(host_->user) < stuck_until_) return;
  struct Pumping {
    bool& flag;
    explicit Pumping(bool* set) : flag(*set) { flag = true; }
    ~Pumping() { flag = false; }
  } const pumping(&is_pumping_);
  for (;;) {
    while (!asking_.empty()) {
      const uint64_t bytes = asking_.front().bytes;
      if (bytes <= quota_ && used_bytes() + bytes > quota_) break;
      answer_front(bytes <= quota_);
    }
    if (excess() == 0) break;
    evict_what_is_needed();
    if (!evictions_.empty() || waits_for_lock()) break;
    shrink_to_ = UINT64_MAX;  // nothing can leave
    if (asking_.empty()) {
      stuck_until_ = host_->now(host_->user) + kStuckPause;
      break;
    }
    answer_front(false);
  }
  if (catalog_->index().charged_bytes() <= shrink_to_) shrink_to_ = UINT64_MAX;
  if (evictions_.empty() && catalog_->directory().is_locked_exclusive()) catalog_->directory().unlock();
  if (excess() == 0) lock_wanted_since_ = kNever;
}

bool Room::take_lock() {
  const int64_t now = host_->now(host_->user);
  if (catalog_->directory().lock_exclusive()) {
    if (lock_wanted_since_ != kNever || evictions_.empty()) catalog_->follow();  // others may have evicted meanwhile
    lock_wanted_since_ = kNever;
    return true;
  }
  if (!catalog_->directory().has_lock()) return true;
  if (lock_wanted_since_ == kNever) lock_wanted_since_ = now;
  if (now - lock_wanted_since_ < kLockPatience) return false;
  lock_wanted_since_ = kNever;
  return true;
}

void Room::evict_what_is_needed() {
  if (!take_lock()) return;
  while (leaving_bytes_ < excess() && evictions_.size() < kMostEvictions && evict_one()) continue;
}

bool Room::evict_one() {
  const int64_t host_now = host_->now(host_->user);
  const int64_t wall_now = time_of_files();
  Entry* victim = nullptr;
  catalog_->index().each_by_use([&](Entry* entry) {
    if (catalog_->may_leave(*entry, host_now, wall_now)) victim = entry;
    return victim != nullptr;
  });
  if (victim == nullptr) return false;
  auto eviction = std::make_unique<Eviction>();
  eviction->owner = this;
  eviction->act = Act::kStat;
  eviction->folder = catalog_->directory().root();
  eviction->key = std::string(victim->key);
  eviction->path = object_path(eviction->key);
  eviction->bytes = charge_of(victim->bytes);
  evictions_.push_back(std::move(eviction));
  victim->leaving = true;
  leaving_bytes_ += evictions_.back()->bytes;
  kernel_->start(evictions_.back().get());
  return true;
}

void Room::end(Eviction* eviction) {
  leaving_bytes_ -= eviction->bytes;
  std::erase_if(evictions_, [&](const auto& each) { return each.get() == eviction; });
  pump();
}

void Room::ended(Request* request, int32_t result) {
  auto* const eviction = static_cast<Eviction*>(request);
  bool goes_on = false;
  try {
    goes_on = advance(eviction, result);
  } catch (const std::bad_alloc&) {
    if (Entry* const entry = catalog_->index().find_any(eviction->key); entry != nullptr) entry->leaving = false;
    catalog_->lose_trust();
  }
  if (!goes_on) end(eviction);
}

// Whether another request of it is under way.
bool Room::advance(Eviction* eviction, int32_t result) {
  Entry* entry = catalog_->index().find_any(eviction->key);
  if (eviction->act == Act::kStat && result == 0 && entry != nullptr) {
    const auto nanoseconds = [](const statx_timestamp& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; };
    const struct statx& stat = eviction->stat;
    if (catalog_->accept_times(entry, nanoseconds(stat.stx_atime), nanoseconds(stat.stx_mtime), time_of_files())) {
      eviction->act = Act::kUnlink;
      kernel_->start(eviction);
      return true;
    }
    entry->leaving = false;
    return false;
  }
  if (eviction->act == Act::kUnlink && result == 0) ++num_evicted_;
  if (result == 0 || result == -ENOENT) {
    entry = catalog_->refresh(eviction->key);  // another process may have stored it anew
    if (entry != nullptr) entry->leaving = false;
  } else if (entry != nullptr) {
    entry->leaving = false;
    entry->lease_end = host_->now(host_->user) + kAfterFailure;
    log_->say_once(Topic::kIoError, QUIRE_LOG_ERROR, "object " + eviction->path + " cannot be evicted: " + error_text(-result));
  }
  return false;
}

}  // namespace quire::file
