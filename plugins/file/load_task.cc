// A load: opens the object and reads what the runs name. That it exists is decided by opening it; from then on nobody can take it away.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "plugins/file/task.h"

namespace quire::file {
namespace {

// Without O_NOATIME the kernel would write times of its own; it is for owners of the file only. O_NONBLOCK: nothing that has the name of an
// object may hold us up.
constexpr uint64_t kPlain = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

class LoadTask : public TransferTask {
 public:
  LoadTask(Store* store, std::unique_ptr<Ticket> ticket) : TransferTask(store, std::move(ticket), false) {}
  ~LoadTask() override;
  void begin() override;

 private:
  void all_moved() override { answer(QUIRE_OK, pieces_.bytes()); }
  quire_code code_of(int error) override { return store_.fail_load(error, "object " + path_ + " cannot be read"); }
  void advance(Request* request, int32_t result) override;
  void open(int other_flags);
  void not_found();
  bool has_its_size(uint64_t bytes);

  Request request_;
  int other_flags_ = 0;
  bool is_counted_ = false;
};

LoadTask::~LoadTask() {
  Entry* const entry = is_counted_ ? store_.catalog.index().find_any(ticket_->key()) : nullptr;
  if (entry != nullptr && entry->loads != 0) --entry->loads;
}

void LoadTask::begin() {
  if (Entry* const entry = store_.catalog.index().find(ticket_->key()); entry != nullptr) {
    ++entry->loads;
    is_counted_ = true;
    store_.catalog.use(entry, ticket_->used);
  } else if (store_.catalog.is_complete()) {
    return answer(QUIRE_NOT_FOUND);
  }
  open(O_NOATIME);
}

void LoadTask::open(int other_flags) {
  other_flags_ = other_flags;
  request_.act = Act::kOpen;
  request_.folder = store_.catalog.directory().root();
  request_.path = path_;
  request_.how = {};
  request_.how.flags = kPlain | static_cast<uint64_t>(other_flags);
  start(&request_);
}

void LoadTask::not_found() {
  if (!store_.catalog.check_there()) return stop(QUIRE_UNAVAILABLE);
  store_.catalog.refresh(ticket_->key());
  stop(QUIRE_NOT_FOUND);
}

// Objects never change. One that another process removed and stored again has told us so.
bool LoadTask::has_its_size(uint64_t bytes) {
  const Entry* entry = store_.catalog.index().find_any(ticket_->key());
  if (entry == nullptr || entry->bytes == bytes) return true;
  store_.catalog.follow();
  entry = store_.catalog.index().find_any(ticket_->key());
  if (entry == nullptr || entry->bytes == bytes) return true;
  store_.catalog.remove_damaged(ticket_->key());
  return false;
}

void LoadTask::advance(Request* /*request*/, int32_t result) {
  if (result >= 0) file_ = File(result);
  if (is_stopping()) return;
  if (result == -EPERM && other_flags_ != 0) return open(0);
  // A symbolic link, a folder or something else that is no object.
  if (result == -ENOENT || result == -ELOOP || result == -ENXIO || result == -ENOTDIR || result == -ESTALE) return not_found();
  if (result < 0) return stop(code_of(-result));
  struct statx status = {};
  if (statx(file_.number(), "", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE, &status) != 0) return stop(code_of(errno));
  if (!S_ISREG(status.stx_mode) || status.stx_size == 0) return not_found();
  const uint64_t bytes = status.stx_size;
  if (!has_its_size(bytes)) return stop(QUIRE_DATA_LOSS);
  if (pieces_.end() > bytes) return stop(QUIRE_OUT_OF_RANGE);
  set_direct(other_flags_);
  begin_moving(pieces_.end());
}

}  // namespace

std::unique_ptr<Task> make_load_task(Store* store, std::unique_ptr<Ticket> ticket) {
  return std::make_unique<LoadTask>(store, std::move(ticket));
}

}  // namespace quire::file
