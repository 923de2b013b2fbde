#include "plugins/file/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <utility>

#include "plugins/common/nanoseconds.h"

namespace quire::file {
namespace {

constexpr char kLockName[] = "lock";
constexpr size_t kFolderPrefix = 3;  // of a path, before the file's name
using plugins::kSecond;
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr mode_t kFolderMode = S_IRWXU;
constexpr mode_t kFileMode = S_IRUSR | S_IWUSR;

// Of file systems that only this machine changes.
bool is_local_kind(int64_t kind) {
  constexpr int64_t kBtrfs = 0x9123683E, kXfs = 0x58465342, kZfs = 0x2fc12fc1, kF2fs = 0xF2F52010, kBcachefs = 0xca451a4e;
  constexpr int64_t kRamfs = 0x858458f6, kOverlay = 0x794c7630;
  for (const int64_t local : {int64_t{EXT4_SUPER_MAGIC}, int64_t{TMPFS_MAGIC}, kBtrfs, kXfs, kZfs, kF2fs, kBcachefs, kRamfs, kOverlay}) {
    if (kind == local) return true;
  }
  return false;
}

timespec as_timespec(int64_t time) {
  timespec out = {};
  out.tv_nsec = UTIME_OMIT;
  if (time != 0) {
    out.tv_sec = time / kSecond;
    out.tv_nsec = time % kSecond;
  }
  return out;
}

int64_t as_time(const timespec& time) { return int64_t{time.tv_sec} * kSecond + time.tv_nsec; }

bool says_read_only(int error) { return error == EROFS || error == EACCES || error == EPERM; }

// What is there instead of a folder, a symbolic link for example, has no objects.
bool is_absent(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

bool describe(const struct stat& status, FoundFile* found) {
  if (!S_ISREG(status.st_mode)) return false;
  found->bytes = static_cast<uint64_t>(status.st_size);
  found->used = as_time(status.st_atim);
  found->lease = as_time(status.st_mtim);
  return true;
}

struct Closes {
  void operator()(DIR* list) const { closedir(list); }
};
using FolderList = std::unique_ptr<DIR, Closes>;

// Null: errno says why. The folder's descriptor stays as it is.
FolderList list_of(const File& folder) {
  File own(fcntl(folder.number(), F_DUPFD_CLOEXEC, 0));
  FolderList list(own.is_open() ? fdopendir(own.number()) : nullptr);
  if (list != nullptr) own.release();
  return list;
}

}  // namespace

int64_t time_of_files() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return as_time(now);
}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = other.release();
  }
  return *this;
}

int File::release() { return std::exchange(number_, -1); }

void File::reset() {
  if (number_ >= 0) close(number_);
  number_ = -1;
}

// Who else may write into it.
Outcome Directory::check(int file, const std::string& path) {
  struct stat status = {};
  if (fstat(file, &status) != 0) return {QUIRE_UNAVAILABLE, errno, path + ": " + error_text(errno)};
  if ((status.st_mode & S_IWOTH) == 0) return {};
  if (status.st_uid != geteuid()) {
    return {QUIRE_PERMISSION_DENIED, 0,
            "directory " + path + " belongs to user " + std::to_string(status.st_uid) +
                " and everybody may write into it; it must not be open to others, or belong to user " + std::to_string(geteuid())};
  }
  remark_ = "everybody may write into " + path + ": whoever does can plant objects";
  return {};
}

Outcome Directory::open_root(File* root) {
  if (!read_only_ && mkdir(path_.c_str(), kFolderMode) != 0 && errno != EEXIST && !says_read_only(errno)) {
    return {errno == ENOENT ? QUIRE_NOT_FOUND : QUIRE_UNAVAILABLE, errno, "directory " + path_ + " cannot be made: " + error_text(errno)};
  }
  *root = File(::open(path_.c_str(), kOpenFolder));
  if (root->is_open()) return check(root->number(), path_);
  const int error = errno;
  struct stat status = {};
  if (lstat(path_.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    return {QUIRE_PERMISSION_DENIED, error, "directory " + path_ + " is a symbolic link; give the directory that it leads to"};
  }
  const quire_code code = error == ENOENT ? QUIRE_NOT_FOUND : error == EACCES ? QUIRE_PERMISSION_DENIED : QUIRE_UNAVAILABLE;
  return {code, error, "directory " + path_ + ": " + error_text(error)};
}

Outcome Directory::open(const std::string& path, bool read_only) {
  path_ = path;
  read_only_ = read_only;
  if (Outcome outcome = open_root(&root_); !outcome.ok()) return outcome;
  prepare();
  return {};
}

Outcome Directory::reopen() {
  struct stat status = {};
  if (stat(path_.c_str(), &status) != 0) return {QUIRE_NOT_FOUND, errno, path_ + ": " + error_text(errno)};  // is not made again
  File root;
  if (Outcome outcome = open_root(&root); !outcome.ok()) return outcome;
  unlock();
  lock_.reset();
  if (dup3(root.number(), root_.number(), O_CLOEXEC) < 0) return {QUIRE_UNAVAILABLE, errno, "dup3: " + error_text(errno)};
  prepare();
  return {};
}

void Directory::prepare() {
  struct statfs kind = {};
  is_local_ = fstatfs(root(), &kind) == 0 && is_local_kind(static_cast<int64_t>(kind.f_type));
  write_error_ = EROFS;
  check_writable();
}

void Directory::check_writable() {
  const int before = write_error_;
  write_error_ = read_only_ ? EROFS : faccessat(root(), ".", W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
  if (write_error_ != 0 || (before == 0 && lock_.is_open())) return;
  // NFS locks what is open for writing only. Elsewhere such a file would keep others from mounting the disk read-only.
  const int access = is_local_ ? O_RDONLY : O_RDWR;
  lock_ = File(openat(root(), kLockName, access | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kFileMode));
  if (!lock_.is_open() && says_read_only(errno)) write_error_ = errno;
  for (unsigned folder = 0; folder < kNumFolders && write_error_ == 0; ++folder) make_folder(folder);  // or when it is wanted
}

bool Directory::is_there() const {
  struct stat here = {}, there = {};
  return stat(path_.c_str(), &there) == 0 && fstat(root(), &here) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

int Directory::make_folder(unsigned folder) const {
  return mkdirat(root(), folder_name(folder).c_str(), kFolderMode) == 0 || errno == EEXIST ? 0 : errno;
}

File Directory::open_folder(unsigned folder) const { return File(openat(root(), folder_name(folder).c_str(), kOpenFolder)); }

bool Directory::is_foreign(unsigned folder) const {
  struct stat status = {};
  return fstatat(root(), folder_name(folder).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode);
}

int Directory::scan(const File& folder, unsigned number, std::vector<FoundFile>* found) const {
  FolderList list = list_of(folder);
  if (list == nullptr) return errno;
  struct Name {
    ino_t inode;
    std::string text;
    std::string key;
  };
  std::vector<Name> names;
  std::string key;
  errno = 0;
  while (const dirent* entry = readdir(list.get())) {
    const bool plain = entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN;
    if (plain && parse_object_name(number, entry->d_name, &key)) names.push_back({entry->d_ino, entry->d_name, key});
    errno = 0;
  }
  const int error = errno;
  list.reset();
  // In the order of the disk.
  std::sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.inode < b.inode; });
  found->reserve(names.size());
  for (Name& name : names) {
    struct stat status = {};
    FoundFile file;
    if (fstatat(folder.number(), name.text.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !describe(status, &file)) continue;
    file.key = std::move(name.key);
    found->push_back(std::move(file));
  }
  return error;
}

int Directory::look(std::string_view key, FoundFile* found) const {
  const File folder = open_folder(folder_of(key));
  if (!folder.is_open()) return is_absent(errno) ? ENOENT : errno;
  struct stat status = {};
  if (fstatat(folder.number(), object_path(key).c_str() + kFolderPrefix, &status, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  found->key = key;
  return describe(status, found) ? 0 : ENOENT;
}

int Directory::remove(std::string_view key) const { return unlinkat(root(), object_path(key).c_str(), 0) == 0 ? 0 : errno; }

int Directory::write_times(std::string_view key, int64_t used, int64_t lease) const {
  const timespec times[2] = {as_timespec(used), as_timespec(lease)};
  return utimensat(root(), object_path(key).c_str(), times, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

// A process holds a lock of its file until the file has its name, or until it ends.
void Directory::remove_leftovers(unsigned* removed, unsigned* in_use) const {
  *removed = *in_use = 0;
  const File again(openat(root(), ".", kOpenFolder));
  const FolderList list = again.is_open() ? list_of(again) : nullptr;
  if (list == nullptr) return;
  while (const dirent* entry = readdir(list.get())) {
    if (std::string_view(entry->d_name).substr(0, sizeof kLeftoverPrefix - 1) != kLeftoverPrefix) continue;
    const File file(openat(root(), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status = {};
    if (!file.is_open() || fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const bool is_leftover = flock(file.number(), LOCK_EX | LOCK_NB) == 0;
    if (!is_leftover) ++*in_use;
    if (is_leftover && unlinkat(root(), entry->d_name, 0) == 0) ++*removed;
  }
}

bool Directory::try_lock(int operation) {
  if (!lock_.is_open()) return false;
  while (flock(lock_.number(), operation | LOCK_NB) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

bool Directory::lock_shared() { return holds_exclusive_ || try_lock(LOCK_SH); }

bool Directory::lock_exclusive() {
  holds_exclusive_ = holds_exclusive_ || try_lock(LOCK_EX);
  return holds_exclusive_;
}

void Directory::unlock() {
  holds_exclusive_ = false;
  if (lock_.is_open()) flock(lock_.number(), LOCK_UN);
}

}  // namespace quire::file
