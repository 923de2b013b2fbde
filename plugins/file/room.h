// The quota: stores ask for room before they write. What was used least recently is evicted for
// them; nobody waits for what cannot leave.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/file/catalog.h"
#include "plugins/file/condition.h"
#include "plugins/file/kernel.h"

namespace quire::file {

class RoomSeeker {
 public:
  virtual ~RoomSeeker() = default;
  // Refused: everything that is there has a lease, or the object is larger than the quota.
  virtual void answer_room(bool is_granted) = 0;
};

class Room : public Owner {
 public:
  Room(const Config&, const quire_host_api*, Log*, Catalog*, Condition*);
  void use(Kernel* kernel) { kernel_ = kernel; }

  // answer_room comes later, possibly at once. A seeker whose room was granted gives it back: when
  // the index has its object, or never will.
  void ask(RoomSeeker* seeker, uint64_t bytes);
  void stop_asking(RoomSeeker* seeker);
  void give_back(uint64_t bytes) { reserved_bytes_ -= bytes; }
  // The disk is full although the quota is not: evicts a twentieth of all.
  void shrink();
  // Answers and evicts what can be answered and evicted now.
  void pump();

  void ended(Request* request, int32_t result) override;

  bool is_evicting() const { return !evictions_.empty(); }
  // pump has to be called again soon: another process has the lock.
  bool waits_for_lock() const { return lock_wanted_since_ != kNever; }
  uint64_t used_bytes() const { return catalog_->index().charged_bytes() + reserved_bytes_; }
  uint64_t num_evicted() const { return num_evicted_; }

 private:
  static constexpr int64_t kNever = -1;
  struct Asking {
    RoomSeeker* seeker = nullptr;
    uint64_t bytes = 0;
  };
  struct Eviction : Request {
    std::string key;
    uint64_t bytes = 0;
  };
  void answer_front(bool is_granted);
  uint64_t excess() const;
  bool take_lock();
  bool evict_one();
  void evict_what_is_needed();
  bool advance(Eviction* eviction, int32_t result);
  void end(Eviction* eviction);

  uint64_t quota_;
  const quire_host_api* host_;
  Log* log_;
  Catalog* catalog_;
  Condition* condition_;
  Kernel* kernel_ = nullptr;
  std::deque<Asking> asking_;
  std::vector<std::unique_ptr<Eviction>> evictions_;
  uint64_t reserved_bytes_ = 0;
  uint64_t leaving_bytes_ = 0;
  uint64_t shrink_to_ = UINT64_MAX;
  uint64_t num_evicted_ = 0;
  int64_t lock_wanted_since_ = kNever;
  int64_t stuck_until_ = 0;
  bool is_pumping_ = false;
};

}  // namespace quire::file
