#include "plugins/host/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace quire::host {
namespace {

constexpr const char* kFolder = "/dev/shm/";  // where shm_open(3) keeps its objects
constexpr const char* kPrefix = "quire-";
constexpr int kAttempts = 16;  // to open or to make; another process may make or remove the memory meanwhile
constexpr uint64_t kPage = 4096;

uint64_t rounded_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

Outcome failed(quire_code code, int native, std::string text) { return {code, native, std::move(text)}; }

std::string error_text(int error) { return std::string(std::strerror(error)) + " (errno " + std::to_string(error) + ")"; }

struct File {
  int fd = -1;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

// The number behind a word in a short text file; an empty word: at its beginning. 0 = there is none.
uint64_t number_in(const char* path, const char* word) {
  char text[4096];
  const File file{::open(path, O_RDONLY | O_CLOEXEC)};
  const ssize_t bytes = file.fd < 0 ? -1 : read(file.fd, text, sizeof text - 1);
  if (bytes <= 0) return 0;
  text[bytes] = 0;
  const char* const found = std::strstr(text, word);
  return found != nullptr ? std::strtoull(found + std::strlen(word), nullptr, 10) : 0;
}

// The smaller one of the memory that the kernel says is available and what the limit of the container leaves. UINT64_MAX = unknown.
uint64_t available_memory() {
  const uint64_t machine = number_in("/proc/meminfo", "MemAvailable:") * 1024;
  const uint64_t limit = number_in("/sys/fs/cgroup/memory.max", "");  // "max" is no number
  // Caches of files make room; these two do not.
  const char* const use = "/sys/fs/cgroup/memory.stat";
  const uint64_t used = std::min(limit, number_in(use, "anon ") + number_in(use, "\nshmem "));
  return std::min(machine != 0 ? machine : UINT64_MAX, limit != 0 ? limit - used : UINT64_MAX);
}

Outcome no_room(uint64_t wanted, uint64_t there, const std::string& where, int native) {
  return failed(QUIRE_RESOURCE_EXHAUSTED, native,
                "config field bytes: the store needs " + std::to_string(wanted) + " bytes, " + where + " has " + std::to_string(there));
}

}  // namespace

bool is_shared_name(const std::string& name) {
  static constexpr const char* kLegal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= kMaxNameBytes && name.find_first_not_of(kLegal) == std::string::npos;
}

Geometry geometry_of(uint64_t capacity, uint64_t chunk_bytes) {
  Geometry g;
  g.chunk_bytes = chunk_bytes;
  g.num_chunks = capacity / chunk_bytes;
  g.num_buckets = std::bit_ceil(g.num_chunks);
  g.buckets_at = rounded_up(sizeof(Header), kPage);
  g.records_at = rounded_up(g.buckets_at + g.num_buckets * sizeof(uint32_t), kPage);
  g.chunks_at = rounded_up(g.records_at + g.num_chunks * sizeof(Record), kPage);
  g.region_bytes = g.chunks_at + g.num_chunks * chunk_bytes;
  return g;
}

Region::~Region() {
  if (base_ != nullptr) munmap(base_, geometry_.region_bytes);
}

Outcome Region::open(const RegionOptions& options) {
  geometry_ = geometry_of(options.capacity, options.chunk_bytes);
  huge_pages_ = options.huge_pages;
  return options.shared.empty() ? open_private() : open_shared(options.shared);
}

// file: -1 = private memory.
Outcome Region::map(int file) {
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* address = mmap(nullptr, geometry_.region_bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    if (error == ENOMEM) return no_room(geometry_.region_bytes, available_memory(), "the machine", error);
    return failed(QUIRE_UNAVAILABLE, error, "mmap of " + std::to_string(geometry_.region_bytes) + " bytes: " + error_text(error));
  }
  base_ = static_cast<char*>(address);
  return {};
}

// Advice, and pages in place, so that no store waits for them later. Kernels before 5.14 cannot do the latter.
void Region::settle_pages() {
  madvise(base_, geometry_.region_bytes, MADV_DONTFORK);
  if (huge_pages_ && madvise(base_, geometry_.region_bytes, MADV_HUGEPAGE) != 0) {
    remark_ = "huge_pages: the kernel refused them: " + error_text(errno);
  }
  if (madvise(base_, geometry_.region_bytes, MADV_POPULATE_WRITE) != 0) {
    remark_ += (remark_.empty() ? "" : "; ") + ("pages are put in place at first use: " + error_text(errno));
  }
}

Outcome Region::open_private() {
  const uint64_t there = available_memory();
  if (geometry_.region_bytes > there) return no_room(geometry_.region_bytes, there, "the machine", 0);
  if (Outcome outcome = map(-1); !outcome.ok()) return outcome;
  settle_pages();
  return format(base_, geometry_);
}

Outcome Region::open_shared(const std::string& name) {
  const std::string path = kFolder + (kPrefix + name);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    File file{::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)};
    if (file.fd >= 0) return join_shared(file.fd, path);
    if (errno == EACCES || errno == ELOOP) {
      return failed(QUIRE_PERMISSION_DENIED, errno, "shared memory " + path + ": " + error_text(errno));
    }
    if (errno != ENOENT) return failed(QUIRE_UNAVAILABLE, errno, "shared memory " + path + ": " + error_text(errno));
    bool lost_race = false;
    Outcome outcome = make_shared(path, &lost_race);
    if (!lost_race) return outcome;
  }
  return failed(QUIRE_UNAVAILABLE, 0,
                "shared memory " + path + " was made and removed by others " + std::to_string(kAttempts) + " times meanwhile");
}

Outcome Region::make_shared(const std::string& path, bool* lost_race) {
  const uint64_t bytes = geometry_.region_bytes;
  const uint64_t there = available_memory();
  if (bytes > there) return no_room(bytes, there, "the machine", 0);
  File file{::open(kFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  if (file.fd < 0) return failed(QUIRE_UNAVAILABLE, errno, std::string("a new file in ") + kFolder + ": " + error_text(errno));
  int error = fchmod(file.fd, S_IRUSR | S_IWUSR) != 0 ? errno : 0;  // whatever the umask
  if (error == 0 && ftruncate(file.fd, static_cast<off_t>(bytes)) != 0) error = errno;
  // Without its memory, a write to it would end the process.
  while (error == 0 && (error = posix_fallocate(file.fd, 0, static_cast<off_t>(bytes))) == EINTR) error = 0;
  if (error == ENOSPC || error == ENOMEM || error == EFBIG) {
    struct statvfs space = {};
    const uint64_t left = fstatvfs(file.fd, &space) == 0 ? uint64_t{space.f_bavail} * space.f_frsize : 0;
    return no_room(bytes, left, kFolder, error);
  }
  if (error != 0) return failed(QUIRE_UNAVAILABLE, error, "shared memory " + path + ": " + error_text(error));
  if (Outcome outcome = map(file.fd); !outcome.ok()) return outcome;
  settle_pages();
  if (Outcome outcome = format(base_, geometry_); !outcome.ok()) return outcome;
  const std::string self = "/proc/self/fd/" + std::to_string(file.fd);
  if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  error = errno;
  munmap(base_, geometry_.region_bytes);
  base_ = nullptr;
  *lost_race = error == EEXIST;
  return failed(QUIRE_UNAVAILABLE, error, "shared memory " + path + ": linkat: " + error_text(error));
}

// Whether the memory is of this layout and of the geometry that is wanted, and nobody else's.
Outcome Region::check_shared(int file, const std::string& path) const {
  struct stat status = {};
  if (fstat(file, &status) != 0) return failed(QUIRE_UNAVAILABLE, errno, "shared memory " + path + ": " + error_text(errno));
  if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0 || !S_ISREG(status.st_mode)) {
    return failed(QUIRE_PERMISSION_DENIED, 0,
                  "shared memory " + path + " belongs to user " + std::to_string(status.st_uid) +
                      " or is open to others; it must be a file of user " + std::to_string(geteuid()) + " with mode 0600");
  }
  struct Prefix {  // of a Header
    uint64_t magic;
    uint32_t layout_version, header_bytes, record_bytes, num_places;
    uint64_t chunk_bytes, num_chunks, num_buckets, region_bytes;
  } start = {};
  if (pread(file, &start, sizeof start, 0) != static_cast<ssize_t>(sizeof start) || start.magic != kMagic) {
    return failed(QUIRE_FAILED_PRECONDITION, 0, "shared memory " + path + " is no store of the host connector");
  }
  struct Fact {
    const char* name;
    uint64_t there, wanted;
  };
  const Fact facts[] = {{"layout version", start.layout_version, kLayoutVersion},
                        {"size of its header", start.header_bytes, sizeof(Header)},
                        {"size of a record", start.record_bytes, sizeof(Record)},
                        {"number of worker places", start.num_places, kMaxPlaces},
                        {"chunk_bytes", start.chunk_bytes, geometry_.chunk_bytes},
                        {"bytes", start.num_chunks * start.chunk_bytes, geometry_.num_chunks * geometry_.chunk_bytes},
                        {"number of buckets", start.num_buckets, geometry_.num_buckets},
                        {"size", start.region_bytes, geometry_.region_bytes},
                        {"size of its file", static_cast<uint64_t>(status.st_size), geometry_.region_bytes}};
  for (const Fact& fact : facts) {
    if (fact.there == fact.wanted) continue;
    return failed(QUIRE_FAILED_PRECONDITION, 0,
                  "shared memory " + path + ": its " + fact.name + " is " + std::to_string(fact.there) + ", wanted is " +
                      std::to_string(fact.wanted) + "; open it as it is, or remove it");
  }
  return {};
}

Outcome Region::join_shared(int file, const std::string& path) {
  if (Outcome outcome = check_shared(file, path); !outcome.ok()) return outcome;
  if (Outcome outcome = map(file); !outcome.ok()) return outcome;
  settle_pages();
  return {};
}

Outcome format(char* base, const Geometry& geometry) {
  Header& header = *new (base) Header{};
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  int error = pthread_mutex_init(&header.lock, &attributes);
  for (Place& place : header.places) {
    if (error == 0) error = pthread_mutex_init(&place.alive, &attributes);
    place.record = kNone;
  }
  pthread_mutexattr_destroy(&attributes);
  if (error != 0) return failed(QUIRE_UNAVAILABLE, error, "a robust mutex between processes: " + error_text(error));
  if (getrandom(&header.seed, sizeof header.seed, 0) != static_cast<ssize_t>(sizeof header.seed)) {
    return failed(QUIRE_UNAVAILABLE, errno, "getrandom: " + error_text(errno));
  }
  header.layout_version = kLayoutVersion;
  header.header_bytes = sizeof(Header);
  header.record_bytes = sizeof(Record);
  header.num_places = kMaxPlaces;
  header.chunk_bytes = geometry.chunk_bytes;
  header.num_chunks = geometry.num_chunks;
  header.num_buckets = geometry.num_buckets;
  header.region_bytes = geometry.region_bytes;
  header.newest = header.oldest = kNone;
  header.first_free = 0;
  header.free_chunks = geometry.num_chunks;
  auto* buckets = reinterpret_cast<uint32_t*>(base + geometry.buckets_at);
  std::fill_n(buckets, geometry.num_buckets, kNone);
  auto* records = reinterpret_cast<Record*>(base + geometry.records_at);
  for (uint64_t i = 0; i < geometry.num_chunks; ++i) {
    new (&records[i]) Record{};
    records[i].next = i + 1 < geometry.num_chunks ? static_cast<uint32_t>(i + 1) : kNone;
  }
  header.magic = kMagic;
  return {};
}

}  // namespace quire::host
