// A store: a file without a name is filled, made durable, and named. Whoever stops it leaves nothing: a file without a name ends with its
// last user. Where the file system has no O_TMPFILE the file has another name first, and a lock that says that its writer lives.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "plugins/file/task.h"

namespace quire::file {
namespace {

constexpr uint64_t kModeOfFiles = S_IRUSR | S_IWUSR;
constexpr uint64_t kNewFile = O_RDWR | O_CLOEXEC | O_NOFOLLOW;

class StoreTask : public TransferTask, private RoomSeeker {
 public:
  StoreTask(Store* store, std::unique_ptr<Ticket> ticket)
      : TransferTask(store, std::move(ticket), true), object_bytes_(ticket_->fields.object_bytes) {}
  ~StoreTask() override;
  void begin() override;
  void stop(quire_code code) override;

 private:
  void all_moved() override;
  quire_code code_of(int error) override { return store_.fail_store(error, "object " + path_ + " cannot be written"); }
  void advance(Request* request, int32_t result) override;
  void answer_room(bool is_granted) override;

  void seek_room();
  void open();
  void opened(int32_t result);
  bool lock_new_file();
  void allocated(int32_t result);
  void write_tail();
  void tail_written(int32_t result);
  void name_it();
  void named(int32_t result);
  void exists();
  void stored();
  void remove_new_name();
  void request(Act act);

  const uint64_t object_bytes_;
  Request request_;
  std::string new_name_;  // without O_TMPFILE: its first name
  bool has_new_name_ = false;
  bool is_temporary_ = false;  // opened, or being opened, with O_TMPFILE
  bool makes_folder_ = true;   // once
  bool names_again_ = true;    // once
  bool links_ = false;         // rather than rename
  bool is_naming_ = false;
  bool seeks_room_ = false;
  bool has_room_ = false;
  std::vector<uint8_t> tail_;  // behind the last whole page
  size_t tail_done_ = 0;
  iovec tail_memory_ = {};
};

StoreTask::~StoreTask() {
  if (has_room_) store_.room.give_back(charge_of(object_bytes_));
  if (has_new_name_) unlinkat(store_.catalog.directory().root(), new_name_.c_str(), 0);
}

void StoreTask::request(Act act) {
  request_.act = act;
  request_.file = file_.number();
  request_.folder = store_.catalog.directory().root();
  start(&request_);
}

// What is being named cannot be taken back: the ticket ends with the truth about it.
void StoreTask::stop(quire_code code) {
  if (is_naming_) return;
  if (seeks_room_) store_.room.stop_asking(this);
  seeks_room_ = false;
  TransferTask::stop(code);
}

void StoreTask::begin() {
  if (store_.catalog.is_foreign(ticket_->key())) return answer(QUIRE_UNAVAILABLE);
  if (store_.catalog.index().find(ticket_->key()) != nullptr) {
    if (store_.catalog.is_complete()) return exists();
    request_.path = path_;  // another process may have removed it
    return request(Act::kStat);
  }
  seek_room();
}

void StoreTask::seek_room() {
  const int refusal = store_.catalog.directory().write_error();
  const quire_code code = refusal != 0 ? QUIRE_PERMISSION_DENIED : store_.condition.admit(store_.now());
  if (code != QUIRE_OK) return answer(code);
  seeks_room_ = true;
  store_.room.ask(this, charge_of(object_bytes_));
}

void StoreTask::answer_room(bool is_granted) {
  seeks_room_ = false;
  if (!is_granted) return answer(QUIRE_RESOURCE_EXHAUSTED);
  has_room_ = true;
  try {
    open();
  } catch (const std::bad_alloc&) {  // whoever answers has nothing to do with it
    stop(QUIRE_RESOURCE_EXHAUSTED);
  }
}

void StoreTask::open() {
  request_.how = {};
  request_.how.mode = kModeOfFiles;
  is_temporary_ = store_.has_temporary;
  if (is_temporary_) {
    request_.path = folder_name(folder_of(ticket_->key()));
    request_.how.flags = kNewFile | O_TMPFILE;
  } else {
    new_name_ =
        kLeftoverPrefix + std::to_string(getpid()) + "-" + std::to_string(time_of_files()) + "-" + std::to_string(++store_.num_new_files);
    request_.path = new_name_;
    request_.how.flags = kNewFile | O_CREAT | O_EXCL;
  }
  request(Act::kOpen);
}

void StoreTask::opened(int32_t result) {
  if (result >= 0) {
    file_ = File(result);
    has_new_name_ = !is_temporary_;
    if (has_new_name_ && !lock_new_file()) return stop(QUIRE_UNAVAILABLE);
    request_.bytes = object_bytes_;
    return request(Act::kAllocate);
  }
  const bool is_refusal = result == -EOPNOTSUPP || result == -EISDIR || result == -EINVAL;
  if (is_temporary_ && is_refusal) {
    store_.log.say_once(Topic::kNoTemporary, QUIRE_LOG_INFO, "the file system refuses O_TMPFILE: new files have names, and are renamed");
    store_.has_temporary = false;
    return open();
  }
  if (result == -ENOENT && is_temporary_ && makes_folder_ && store_.catalog.check_there()) {
    makes_folder_ = false;
    if (store_.catalog.directory().make_folder(folder_of(ticket_->key())) == 0) return open();
  }
  stop(code_of(-result));
}

// False: whoever cleans up took it for a leftover, in the moment between its creation and its lock.
bool StoreTask::lock_new_file() {
  struct statx status = {};
  return flock(file_.number(), LOCK_EX | LOCK_NB) == 0 && statx(file_.number(), "", AT_EMPTY_PATH, STATX_NLINK, &status) == 0 &&
         status.stx_nlink != 0;
}

// The bytes behind the last whole page go through the page cache: O_DIRECT cannot write them, and cutting a file that was written too long
// would read the page and write it again.
void StoreTask::allocated(int32_t result) {
  const bool is_unsupported = result == -EOPNOTSUPP || result == -ENOSYS || result == -EINVAL;
  if (result < 0 && !is_unsupported) return stop(code_of(-result));
  const uint64_t pages = page_floor(object_bytes_);
  if (!store_.is_direct || pages == object_bytes_) return write_tail();
  tail_.resize(object_bytes_ - pages);
  pieces_.gather(pages, object_bytes_, tail_.data());
  write_tail();
}

// What is left of it, then everything else.
void StoreTask::write_tail() {
  if (tail_done_ == tail_.size()) {
    set_direct(0);
    return begin_moving(object_bytes_ - tail_.size());
  }
  tail_memory_ = {tail_.data() + tail_done_, tail_.size() - tail_done_};
  request_.memory = {&tail_memory_, 1};
  request_.offset = object_bytes_ - tail_memory_.iov_len;
  request(Act::kWrite);
}

void StoreTask::tail_written(int32_t result) {
  const bool is_wait = result == -EAGAIN || result == -EINTR;
  if (result <= 0 && !is_wait) return stop(code_of(result == 0 ? EIO : -result));
  if (result > 0) tail_done_ += static_cast<size_t>(result);
  write_tail();
}

void StoreTask::all_moved() {
  const timespec times[2] = {{ticket_->used / 1'000'000'000, ticket_->used % 1'000'000'000}, {0, UTIME_OMIT}};
  if (futimens(file_.number(), times) != 0) {
    store_.log.say_once(Topic::kTimes, QUIRE_LOG_WARN, "the order of use cannot be kept in the files: utimensat: " + error_text(errno));
  }
  if (store_.config.sync) return request(Act::kSync);
  name_it();
}

void StoreTask::name_it() {
  request_.path = path_;
  request_.path_from = has_new_name_ ? new_name_ : "/proc/self/fd/" + std::to_string(file_.number());
  request_.flags = has_new_name_ ? 0 : AT_SYMLINK_FOLLOW;
  store_.catalog.begin_naming(ticket_->key());
  is_naming_ = true;
  request(has_new_name_ && !links_ ? Act::kRename : Act::kLink);
}

void StoreTask::named(int32_t result) {
  is_naming_ = false;
  store_.catalog.end_naming(ticket_->key());
  if (result == 0) {
    if (request_.act == Act::kRename) has_new_name_ = false;
    return stored();
  }
  if (result == -EEXIST) {
    if (store_.catalog.refresh(ticket_->key()) != nullptr) return exists();
    if (!names_again_) return stop(QUIRE_UNAVAILABLE);  // what has that name is no object and cannot be removed
    names_again_ = false;
    return name_it();
  }
  if (request_.act == Act::kRename && (result == -EINVAL || result == -ENOSYS || result == -EOPNOTSUPP)) {
    links_ = true;  // it knows no rename that keeps what is there
    return name_it();
  }
  if (result == -ENOENT && makes_folder_ && store_.catalog.check_there()) {
    makes_folder_ = false;
    if (store_.catalog.directory().make_folder(folder_of(ticket_->key())) == 0) return name_it();
  }
  stop(code_of(-result));
}

void StoreTask::exists() {
  if (Entry* const entry = store_.catalog.index().find(ticket_->key()); entry != nullptr) store_.catalog.use(entry, ticket_->used);
  answer(QUIRE_OK, 0, QUIRE_COMPLETION_EXISTED);
}

void StoreTask::stored() {
  store_.catalog.put_own(ticket_->key(), object_bytes_, ticket_->used);
  store_.room.give_back(charge_of(object_bytes_));
  has_room_ = false;
  store_.condition.stored();
  store_.log.forget(Topic::kNoSpace);
  answer(QUIRE_OK, object_bytes_);
}

void StoreTask::advance(Request* request, int32_t result) {
  if (request->act == Act::kOpen && result >= 0 && is_stopping()) file_ = File(result);
  if (request->act == Act::kOpen && is_stopping()) has_new_name_ = result >= 0 && !is_temporary_;
  if (is_stopping()) return;
  switch (request->act) {
    case Act::kStat:
      if (result == 0) return exists();
      store_.catalog.refresh(ticket_->key());
      return seek_room();
    case Act::kOpen:
      return opened(result);
    case Act::kAllocate:
      return allocated(result);
    case Act::kWrite:
      return tail_written(result);
    case Act::kSync:
      if (result < 0) return stop(code_of(-result));
      return name_it();
    default:
      return named(result);
  }
}

}  // namespace

std::unique_ptr<Task> make_store_task(Store* store, std::unique_ptr<Ticket> ticket) {
  return std::make_unique<StoreTask>(store, std::move(ticket));
}

}  // namespace quire::file
