#include "plugins/ucx/ucx_ring.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace quire::ucx {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

Ring::~Ring() {
  if (memory_ != nullptr) munmap(memory_, kRingBytes);
}

int Ring::make() {
  const int fd = memfd_create("quire-ucx", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  void* memory = MAP_FAILED;
  // All of it is taken now: a page that cannot be had later would be SIGBUS.
  if (fallocate(fd, 0, 0, kRingBytes) == 0) memory = mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  // Before 5.1 kernels have no seal that leaves writing to who has mapped it already.
  const bool is_sealed = memory != MAP_FAILED && (fcntl(fd, F_ADD_SEALS, kSizeSeals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0 ||
                                                  fcntl(fd, F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) == 0);
  if (!is_sealed) {
    if (memory != MAP_FAILED) munmap(memory, kRingBytes);
    ::close(fd);
    return -1;
  }
  memory_ = static_cast<uint8_t*>(memory);
  return fd;
}

// The seals first: what is read afterwards stays.
const char* Ring::take(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) return "its shared memory is not sealed";
  struct statfs system = {};
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) return "its shared memory is of another kind";
  struct stat file = {};
  if (fstat(fd, &file) != 0 || static_cast<uint64_t>(file.st_size) != kRingBytes) return "its shared memory has another size";
  if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, kRingBytes) != 0) return "there is no room for its shared memory";
  void* const memory = mmap(nullptr, kRingBytes, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return "its shared memory cannot be mapped";
  memory_ = static_cast<uint8_t*>(memory);
  return nullptr;
}

}  // namespace quire::ucx
