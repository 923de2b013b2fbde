#include "quire/record_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "client/client.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

constexpr uint64_t kFirstRead = uint64_t{64} << 10;     // most headers are shorter
constexpr uint64_t kLongestHeader = uint64_t{1} << 27;  // the library accepts none that is longer
constexpr uint64_t kCheckedAtOnce = uint64_t{8} << 20;
constexpr uint64_t kLargestBlock = uint64_t{1} << 30;  // memory is taken for one
constexpr size_t kRecordDigits = 64, kMostDigits = 240;
// Opening a pipe or a device would have effects, so only what is a file is opened; and without a
// time of its own, which is what says which objects were used last.
constexpr int kOpenFile = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOATIME;
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

bool is_digits(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The rule of the connector: a key in base16, in the folder of its first byte.
bool is_object_name(const std::string& folder, const std::string& name) {
  return name.size() >= 2 && name.size() % 2 == 0 && name.size() <= kMostDigits && is_digits(name) && name.starts_with(folder);
}

const char* kind_of(mode_t mode) {
  return S_ISLNK(mode) ? "a symbolic link" : S_ISDIR(mode) ? "a folder" : S_ISREG(mode) ? "a file" : "neither file nor folder";
}

// Sorted; empty where the folder cannot be listed, with errno.
std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  int again = openat(folder, ".", kOpenFolder | O_NOATIME);
  if (again < 0 && errno == EPERM) again = openat(folder, ".", kOpenFolder);
  DIR* const list = again < 0 ? nullptr : fdopendir(again);
  if (list == nullptr) {
    const int error = errno;
    if (again >= 0) close(again);
    errno = error;
    return names;
  }
  errno = 0;
  while (const dirent* entry = readdir(list)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  const int error = errno;
  closedir(list);
  errno = error;
  std::sort(names.begin(), names.end());
  return names;
}

int64_t nanoseconds(const timespec& time) {
  constexpr int64_t kSecond = 1'000'000'000;
  return int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

// What was found out about one object, as an exception of its own file.
struct Found {
  ObjectState state;
  std::string why;
};

// Fewer bytes than asked for: the file ended.
uint64_t read_at(const File& file, uint64_t at, uint8_t* to, uint64_t bytes) {
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(file.number(), to + done, bytes - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Found{ObjectState::kUnreadable, std::string("cannot be read: ") + std::strerror(errno)};
    if (n == 0) break;
    done += static_cast<uint64_t>(n);
  }
  return done;
}

class Reader {
 public:
  explicit Reader(bool checks) : checks_(checks) {}
  RecordFiles read(const std::string& directory);

 private:
  void read_folder(int root, const std::string& folder);
  void read_object(int folder, const std::string& path, const std::string& name);
  void look_into(const File& file, const std::string& name, RecordFile* out);
  void read_header(const File& file, const std::string& name, RecordFile* out);
  void check_blocks(const File& file, const RecordFile& object);
  void add_foreign(const std::string& path, const char* what) { out_.foreign.push_back({path, what}); }
  void add_unreadable(const std::string& path, int error);

  bool checks_;
  RecordFiles out_;
  std::vector<uint8_t> header_, blocks_;  // used again from file to file
};

void Reader::add_unreadable(const std::string& path, int error) {
  RecordFile object;
  object.path = path;
  object.state = ObjectState::kUnreadable;
  object.why = error == EPERM ? "belongs to another user: reading it would change when it was last used"
                              : std::string("cannot be opened: ") + std::strerror(error);
  out_.objects.push_back(std::move(object));
}

void Reader::read_header(const File& file, const std::string& name, RecordFile* out) {
  client::Error error;
  quire_code code = QUIRE_OUT_OF_RANGE;
  for (uint64_t bytes = kFirstRead; code == QUIRE_OUT_OF_RANGE && bytes <= kLongestHeader; bytes *= 4) {
    header_.resize(std::min(bytes, out->bytes));
    header_.resize(read_at(file, 0, header_.data(), header_.size()));
    if (header_.empty()) break;
    out->info = client::sized<quire_record_info>();
    code = quire_record_read(header_.data(), header_.size(), &out->info, &error);
    if (header_.size() < bytes) break;  // that was all
  }
  const std::string message = error.message;
  if (header_.empty()) throw Found{ObjectState::kDamaged, "it is empty"};
  if (code == QUIRE_OUT_OF_RANGE) throw Found{ObjectState::kDamaged, "it ends within its header"};
  if (code == QUIRE_NOT_FOUND && name.size() != kRecordDigits) throw Found{ObjectState::kOtherObject, "an object that no tier wrote"};
  if (code == QUIRE_NOT_FOUND) throw Found{ObjectState::kDamaged, "it does not begin as a record does"};
  if (code == QUIRE_UNIMPLEMENTED) throw Found{ObjectState::kOtherVersion, message};
  if (code == QUIRE_DATA_LOSS) throw Found{ObjectState::kDamaged, message.substr(message.find(": ") + 2)};
  client::check(code, error);
  out->has_header = true;
}

void Reader::check_blocks(const File& file, const RecordFile& object) {
  const quire_record_info& info = object.info;
  if (info.block_bytes > kLargestBlock) {
    throw Found{ObjectState::kUnreadable, "a block of " + client::bytes_text(info.block_bytes) + " is more than is checked"};
  }
  // Every call reads the header again, so that a long one goes with many bytes.
  const uint64_t at_once = std::max<uint64_t>(1, std::max<uint64_t>(kCheckedAtOnce, header_.size()) / info.block_bytes);
  uint64_t damaged = 0;
  for (uint64_t block = 0; block < info.num_blocks; block += at_once) {
    blocks_.resize(std::min(at_once, info.num_blocks - block) * info.block_bytes);
    const uint64_t at = info.header_bytes + block * info.block_bytes;
    if (read_at(file, at, blocks_.data(), blocks_.size()) != blocks_.size()) {
      throw Found{ObjectState::kDamaged, "it became shorter while it was read"};
    }
    client::Error error;
    uint64_t found = 0;
    client::check(quire_record_check(header_.data(), header_.size(), block, blocks_.data(), blocks_.size(), &found, &error), error);
    damaged += found;
    out_.checked_bytes += blocks_.size();
  }
  if (damaged == 0) return;
  throw Found{ObjectState::kDamaged, "the bytes of " + with_commas(damaged) + " of " + counted(info.num_blocks, "block") + " are others"};
}

void Reader::look_into(const File& file, const std::string& name, RecordFile* out) {
  read_header(file, name, out);
  const std::string key = base16(out->info.key, kRecordDigits);
  if (key != name) throw Found{ObjectState::kDamaged, "it is the record of another key, " + key};
  const uint64_t bytes = out->info.header_bytes + out->info.num_blocks * out->info.block_bytes;
  if (bytes != out->bytes) {
    throw Found{ObjectState::kDamaged, "it has " + with_commas(out->bytes) + " bytes, its header says " + with_commas(bytes)};
  }
  if (checks_) check_blocks(file, *out);
}

void Reader::read_object(int folder, const std::string& path, const std::string& name) {
  struct stat status = {};
  if (fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    errno == ENOENT ? void(++out_.num_gone) : add_unreadable(path, errno);
    return;
  }
  if (!S_ISREG(status.st_mode)) return add_foreign(path, kind_of(status.st_mode));
  const File file(openat(folder, name.c_str(), kOpenFile));
  if (!file.is_open() && errno == ENOENT) return void(++out_.num_gone);
  if (!file.is_open() && errno == ELOOP) return add_foreign(path, "a symbolic link");
  if (!file.is_open() || fstat(file.number(), &status) != 0) return add_unreadable(path, errno);
  if (!S_ISREG(status.st_mode)) return add_foreign(path, kind_of(status.st_mode));
  RecordFile object;
  object.path = path;
  object.bytes = static_cast<uint64_t>(status.st_size);
  object.disk_bytes = static_cast<uint64_t>(status.st_blocks) * 512;
  object.used_ns = nanoseconds(status.st_atim);
  object.lease_ns = nanoseconds(status.st_mtim);
  try {
    look_into(file, name, &object);
  } catch (Found& found) {
    object.state = found.state;
    object.why = std::move(found.why);
  }
  out_.objects.push_back(std::move(object));
}

void Reader::read_folder(int root, const std::string& folder) {
  const File file(openat(root, folder.c_str(), kOpenFolder | O_NOFOLLOW));
  if (!file.is_open()) return errno == ENOENT ? void(++out_.num_gone) : add_unreadable(folder, errno);
  errno = 0;
  const std::vector<std::string> names = names_in(file.number());
  if (errno != 0) add_unreadable(folder, errno);
  for (const std::string& name : names) {
    std::string path = folder;
    path.append("/").append(name);
    if (is_object_name(folder, name)) {
      read_object(file.number(), path, name);
    } else {
      add_foreign(path, "no name of an object");
    }
  }
}

RecordFiles Reader::read(const std::string& directory) {
  const auto begun = std::chrono::steady_clock::now();
  const File root(open(directory.c_str(), kOpenFolder));
  if (!root.is_open()) {
    const quire_code code = errno == ENOENT ? QUIRE_NOT_FOUND : errno == EACCES ? QUIRE_PERMISSION_DENIED : QUIRE_UNAVAILABLE;
    throw client::Failure(code, "directory " + directory + ": " + std::strerror(errno));
  }
  errno = 0;
  const std::vector<std::string> names = names_in(root.number());
  if (errno != 0) throw client::Failure(QUIRE_UNAVAILABLE, "directory " + directory + ": " + std::strerror(errno));
  for (const std::string& name : names) {
    struct stat status = {};
    if (fstatat(root.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      errno == ENOENT ? void(++out_.num_gone) : add_unreadable(name, errno);
    } else if (S_ISDIR(status.st_mode) && name.size() == 2 && is_digits(name)) {
      read_folder(root.number(), name);
    } else if (S_ISREG(status.st_mode) && name.starts_with("new-")) {
      ++out_.num_unfinished;
    } else if (!S_ISREG(status.st_mode) || name != "lock") {
      add_foreign(name, kind_of(status.st_mode));
    }
  }
  out_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return std::move(out_);
}

}  // namespace

RecordFiles read_record_files(const std::string& directory, bool checks) { return Reader(checks).read(directory); }

std::string base16(const uint8_t* bytes, size_t digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < digits; ++i) out += kDigits[i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15];
  return out;
}

}  // namespace quire::tools
