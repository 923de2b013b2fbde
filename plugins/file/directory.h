// The directory of a store: opened once and checked, with its 256 folders. Nothing in it is reached
// through a symbolic link.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/common/entry.h"
#include "plugins/common/nanoseconds.h"
#include "plugins/file/object_name.h"

namespace quire::file {

using plugins::error_text;
using plugins::Outcome;

// A file that has the name of an object.
struct FoundFile {
  std::string key;
  uint64_t bytes = 0;
  int64_t used = 0;   // access time
  int64_t lease = 0;  // modification time
};

// The lock keeps an object from being evicted while another process takes a lease of it. A process
// that was stopped may hold it for long: it is waited for so many nanoseconds.
inline constexpr int64_t kLockPatience = 50 * plugins::kMillisecond;

// Of files that have no key yet, where there is no O_TMPFILE.
inline constexpr char kLeftoverPrefix[] = "new-";

// An open file, closed with the object.
class File {
 public:
  File() = default;
  explicit File(int number) : number_(number) {}
  File(File&& other) noexcept : number_(other.release()) {}
  File& operator=(File&& other) noexcept;
  ~File() { reset(); }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  int release();
  void reset();

 private:
  int number_ = -1;
};

class Directory {
 public:
  // Makes the directory if it is absent, its parent is there and read_only is false; then its
  // folders. Errors: NOT_FOUND, PERMISSION_DENIED (a symbolic link; others may write into it),
  // UNAVAILABLE.
  Outcome open(const std::string& path, bool read_only);
  // After it was removed or replaced: requests that are under way keep the number of root(), which
  // now means the new directory.
  Outcome reopen();

  void leave() {
    root_.reset();
    lock_.reset();
  }

  const std::string& path() const { return path_; }
  int root() const { return root_.number(); }
  // Whether files can be written: not read_only, and the file system allows it. 0 or the errno of
  // the refusal.
  int write_error() const { return write_error_; }
  void check_writable();
  // Something that should be known and is no error; empty = nothing.
  const std::string& remark() const { return remark_; }
  // Whether the path still leads to this directory.
  bool is_there() const;
  // Whether other processes of this machine alone can change it, so that inotify sees everything.
  bool is_local() const { return is_local_; }

  // 0 or errno.
  int make_folder(unsigned folder) const;
  // Not open: errno says why.
  File open_folder(unsigned folder) const;
  // Whether something else has the name of the folder.
  bool is_foreign(unsigned folder) const;
  // The objects in the folder. 0 or errno.
  int scan(const File& folder, unsigned number, std::vector<FoundFile>* found) const;
  // The file of a key. 0 or errno; ENOENT also for what is no plain file.
  int look(std::string_view key, FoundFile* found) const;
  int remove(std::string_view key) const;
  // used, lease: times of the file, 0 = as it is. 0 or errno.
  int write_times(std::string_view key, int64_t used, int64_t lease) const;
  // Removes what processes that ended left behind. *removed: how many files that were; *in_use: how
  // many files have a writer that lives, or is ending.
  void remove_leftovers(unsigned* removed, unsigned* in_use) const;

  // A lock between processes, of everything in the directory. Never waits. A shared one excludes
  // exclusive ones.
  bool lock_shared();
  bool lock_exclusive();
  void unlock();
  bool is_locked_exclusive() const { return holds_exclusive_; }
  bool has_lock() const { return lock_.is_open(); }

 private:
  Outcome open_root(File* root);
  Outcome check(int file, const std::string& path);
  void prepare();
  bool try_lock(int operation);

  std::string path_;
  bool read_only_ = false;
  bool is_local_ = false;
  bool holds_exclusive_ = false;
  int write_error_ = 0;
  std::string remark_;
  File root_;
  File lock_;
};

// Wall clock, as files have it.
int64_t time_of_files();

}  // namespace quire::file
