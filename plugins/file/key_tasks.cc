// Tickets that move no bytes: look-ups and removals.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "plugins/common/nanoseconds.h"
#include "plugins/file/task.h"

namespace quire::file {
namespace {

using plugins::kSecond;
constexpr int64_t kDay = int64_t{24} * 3600 * kSecond;
constexpr size_t kMostLooks = 64;  // at once

int64_t sum(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

// Asks the index; the directory only where the index may not know everything.
class LookupTask : public Task {
 public:
  using Task::Task;
  void begin() override;
  bool retry() override;

 private:
  void step(Request* request, int32_t result) override;
  void look();
  void finish();
  bool wait_for_lock();
  bool lease(const std::vector<Entry*>& found, bool is_shared);

  std::vector<uint32_t> unknown_;  // keys to ask the directory for
  size_t asked_ = 0;
  size_t looks_ = 0;
  int64_t waits_until_ = 0;  // for the lock; 0 = it does not
  std::vector<std::unique_ptr<Request>> requests_;
};

void LookupTask::begin() {
  if (!store_.catalog.is_complete()) {
    for (uint32_t i = 0; i < ticket_->fields.num_keys; ++i) {
      if (store_.catalog.index().find_any(ticket_->key(i)) == nullptr) unknown_.push_back(i);
    }
  }
  look();
}

void LookupTask::look() {
  for (; asked_ < unknown_.size() && looks_ < kMostLooks; ++asked_) {
    requests_.push_back(std::make_unique<Request>());
    Request& request = *requests_.back();
    request.act = Act::kStat;
    request.folder = store_.catalog.directory().root();
    request.path = object_path(ticket_->key(unknown_[asked_]));
    request.offset = unknown_[asked_];
    ++looks_;
    start(&request);
  }
  if (looks_ == 0 && !is_answered()) finish();
}

void LookupTask::step(Request* request, int32_t result) {
  --looks_;
  if (result == 0) store_.catalog.refresh(ticket_->key(request->offset));
  std::erase_if(requests_, [&](const auto& each) { return each.get() == request; });
  if (is_answered()) return;
  look();
}

// The lock keeps others from evicting what is being promised. True: another process has it, and it may be free soon.
bool LookupTask::wait_for_lock() {
  const int64_t now = store_.now();
  if (waits_until_ == 0) waits_until_ = now + kLockPatience;
  return now < waits_until_ && store_.catalog.directory().has_lock();
}

bool LookupTask::retry() {
  if (waits_until_ == 0 || is_answered()) return false;
  finish();
  return !is_answered();
}

// An earlier key is more recent than a later one.
void LookupTask::finish() {
  const quire_ticket& t = ticket_->fields;
  Directory& directory = store_.catalog.directory();
  const bool is_shared = t.lease_ns > 0 && t.lease_ns <= kDay && directory.lock_shared();
  if (t.lease_ns > 0 && t.lease_ns <= kDay && !is_shared && wait_for_lock()) return;
  std::vector<Entry*> found;
  found.reserve(t.num_keys);
  for (uint32_t i = 0; i < t.num_keys; ++i) {
    Entry* const entry = store_.catalog.index().find(ticket_->key(i));
    t.sizes[i] = entry != nullptr ? entry->bytes : 0;
    if (entry == nullptr) continue;
    store_.catalog.use(entry, ticket_->used - static_cast<int64_t>(i));
    found.push_back(entry);
  }
  const bool is_leased = t.lease_ns > 0 && lease(found, is_shared);
  if (is_shared && !directory.is_locked_exclusive()) directory.unlock();
  answer(QUIRE_OK, 0, is_leased ? QUIRE_COMPLETION_LEASED : 0, found.size());
}

// False: somebody could evict one of them; this process will not.
bool LookupTask::lease(const std::vector<Entry*>& found, bool is_shared) {
  const int64_t host_end = sum(store_.now(), ticket_->fields.lease_ns);
  const int64_t wall_end = is_shared ? sum(time_of_files(), ticket_->fields.lease_ns) : 0;
  bool all = is_shared;
  for (Entry* entry : found) {
    if (!store_.catalog.lease(entry, host_end, wall_end)) all = false;
  }
  return all;
}

class RemoveTask : public Task {
 public:
  using Task::Task;
  void begin() override;
  // It cannot be taken back: the ticket ends with the truth about it.
  void stop(quire_code code) override {
    if (!is_in_kernel()) answer(code);
  }

 private:
  void step(Request* request, int32_t result) override;

  Request request_;
};

void RemoveTask::begin() {
  if (store_.catalog.directory().write_error() != 0) return answer(QUIRE_PERMISSION_DENIED);
  if (store_.catalog.is_foreign(ticket_->key())) return answer(QUIRE_NOT_FOUND);
  request_.act = Act::kUnlink;
  request_.folder = store_.catalog.directory().root();
  request_.path = object_path(ticket_->key());
  start(&request_);
}

void RemoveTask::step(Request* /*request*/, int32_t result) {
  if (result == -ENOENT && !store_.catalog.check_there()) return answer(QUIRE_UNAVAILABLE);
  store_.catalog.refresh(ticket_->key());
  if (result == 0) return answer(QUIRE_OK);
  if (result == -ENOENT || result == -ENOTDIR || result == -EISDIR) return answer(QUIRE_NOT_FOUND);
  answer(store_.fail_store(-result, "object " + request_.path + " cannot be removed"));
}

}  // namespace

std::unique_ptr<Task> make_task(Store* store, std::unique_ptr<Ticket> ticket) {
  switch (ticket->fields.kind) {
    case QUIRE_TICKET_STORE:
      return make_store_task(store, std::move(ticket));
    case QUIRE_TICKET_LOAD:
      return make_load_task(store, std::move(ticket));
    case QUIRE_TICKET_LOOKUP:
      return std::make_unique<LookupTask>(store, std::move(ticket));
    default:
      return std::make_unique<RemoveTask>(store, std::move(ticket));
  }
}

}  // namespace quire::file
