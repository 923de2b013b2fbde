// The kernel as an io_uring. Nothing spins: the thread sleeps in the ring until a request ends or somebody wakes it.
#include <fcntl.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

#include "plugins/common/entry.h"
#include "plugins/common/nanoseconds.h"
#include "plugins/file/kernel.h"

namespace quire::file {
namespace {

constexpr uint64_t kWakeMark = 1;    // user_data of the read of the eventfd; requests are addresses
constexpr uint64_t kCancelMark = 2;  // of a request to cancel: its end says nothing
constexpr uint32_t kRequestsPerDepth = 4;
constexpr uint32_t kMostEntries = 4096;
using plugins::kSecond;

constexpr struct {
  int number;
  const char* name;
} kNeeded[] = {{IORING_OP_OPENAT2, "OPENAT2"},
               {IORING_OP_FALLOCATE, "FALLOCATE"},
               {IORING_OP_READV, "READV"},
               {IORING_OP_WRITEV, "WRITEV"},
               {IORING_OP_FSYNC, "FSYNC"},
               {IORING_OP_LINKAT, "LINKAT"},
               {IORING_OP_RENAMEAT, "RENAMEAT"},
               {IORING_OP_UNLINKAT, "UNLINKAT"},
               {IORING_OP_STATX, "STATX"},
               {IORING_OP_CLOSE, "CLOSE"},
               {IORING_OP_ASYNC_CANCEL, "ASYNC_CANCEL"},
               {IORING_OP_READ, "READ"}};

class RingKernel : public Kernel {
 public:
  ~RingKernel() override;
  bool open(uint32_t depth, std::string* why);

  void start(Request* request) override;
  void cancel(Request* request) override;
  size_t wait(int64_t timeout_ns, std::span<Ended> ends) override;
  void wake() override;
  void leave() override;

 private:
  bool open_ring(uint32_t depth, std::string* why);
  bool check_operations(std::string* why);
  io_uring_sqe* entry();
  void watch_wakes();
  size_t take(std::span<Ended> ends);

  io_uring ring_ = {};
  bool has_ring_ = false;
  int wake_file_ = -1;
  uint64_t wake_count_ = 0;  // the ring reads the eventfd into it
  bool watches_wakes_ = false;
  bool ending_ = false;
};

using plugins::error_text;

bool RingKernel::open(uint32_t depth, std::string* why) {
  wake_file_ = eventfd(0, EFD_CLOEXEC);
  if (wake_file_ < 0) {
    *why = "eventfd: " + error_text(errno);
    return false;
  }
  if (!open_ring(depth, why) || !check_operations(why)) return false;
  // Threads of the kernel for calls that block. As a rule they wait for the disk, so there may be more of them than processors.
  std::array<unsigned, 2> workers = {4 * depth, 0};
  io_uring_register_iowq_max_workers(&ring_, workers.data());  // refused before Linux 5.15: then its own limit holds
  watch_wakes();
  return true;
}

bool RingKernel::open_ring(uint32_t depth, std::string* why) {
  const uint32_t entries = std::min(kMostEntries, std::bit_ceil(std::max<uint32_t>(64, depth * kRequestsPerDepth)));
  // Newer flags save interrupts of this thread; older kernels do not know them.
  int error = 0;
  for (const unsigned flags : {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 0u}) {
    error = -io_uring_queue_init(entries, &ring_, flags);
    if (error != EINVAL) break;
  }
  has_ring_ = error == 0;
  if (has_ring_) return true;
  *why = "io_uring_setup: " + error_text(error);
  if (error == EPERM || error == ENOSYS) *why += " (the kernel, kernel.io_uring_disabled or a seccomp filter forbids io_uring)";
  return false;
}

bool RingKernel::check_operations(std::string* why) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) {
    *why = "this kernel does not say which operations its io_uring has: Linux 5.15 is needed";
    return false;
  }
  for (const auto& needed : kNeeded) {
    if (io_uring_opcode_supported(probe, needed.number) == 0 && why->empty()) {
      *why = std::string("the io_uring of this kernel lacks the operation ") + needed.name + ": Linux 5.15 is needed";
    }
  }
  io_uring_free_probe(probe);
  return why->empty();
}

RingKernel::~RingKernel() {
  if (has_ring_) {
    ending_ = true;
    if (watches_wakes_) {  // the ring must not write into this object later
      RingKernel::wake();
      std::array<Ended, 8> ends;
      while (watches_wakes_) {
        const int submitted = io_uring_submit_and_wait(&ring_, 1);  // an error is its result; errno says nothing
        if (submitted < 0 && submitted != -EINTR) break;
        take(ends);
      }
    }
    io_uring_queue_exit(&ring_);
  }
  if (wake_file_ >= 0) close(wake_file_);
}

io_uring_sqe* RingKernel::entry() {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (entry == nullptr) {  // the kernel takes what is queued
    io_uring_submit(&ring_);
    entry = io_uring_get_sqe(&ring_);
  }
  return entry;
}

void RingKernel::watch_wakes() {
  io_uring_sqe* read = entry();
  io_uring_prep_read(read, wake_file_, &wake_count_, sizeof wake_count_, 0);
  io_uring_sqe_set_data64(read, kWakeMark);
  watches_wakes_ = true;
}

void RingKernel::wake() {
  const uint64_t one = 1;
  while (write(wake_file_, &one, sizeof one) < 0 && errno == EINTR) continue;
}

// The ring reads paths, vectors and open_how when it takes the entry; they stay with the request.
void prepare(io_uring_sqe* entry, Request* request) {
  Request& r = *request;
  const auto parts = static_cast<unsigned>(r.memory.size());
  switch (r.act) {
    case Act::kOpen:
      r.how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
      return io_uring_prep_openat2(entry, r.folder, r.path.c_str(), &r.how);
    case Act::kAllocate:
      return io_uring_prep_fallocate(entry, r.file, 0, 0, static_cast<off_t>(r.bytes));
    case Act::kRead:
      if (parts == 1) return io_uring_prep_read(entry, r.file, r.memory[0].iov_base, static_cast<unsigned>(r.memory[0].iov_len), r.offset);
      return io_uring_prep_readv(entry, r.file, r.memory.data(), parts, r.offset);
    case Act::kWrite:
      if (parts == 1) return io_uring_prep_write(entry, r.file, r.memory[0].iov_base, static_cast<unsigned>(r.memory[0].iov_len), r.offset);
      return io_uring_prep_writev(entry, r.file, r.memory.data(), parts, r.offset);
    case Act::kSync:
      return io_uring_prep_fsync(entry, r.file, IORING_FSYNC_DATASYNC);
    case Act::kLink:
      return io_uring_prep_linkat(entry, r.folder, r.path_from.c_str(), r.folder, r.path.c_str(), r.flags);
    case Act::kRename:
      return io_uring_prep_renameat(entry, r.folder, r.path_from.c_str(), r.folder, r.path.c_str(), RENAME_NOREPLACE);
    case Act::kUnlink:
      return io_uring_prep_unlinkat(entry, r.folder, r.path.c_str(), 0);
    case Act::kStat:
      return io_uring_prep_statx(entry, r.folder, r.path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &r.stat);
    case Act::kClose:
      return io_uring_prep_close(entry, r.file);
  }
}

void RingKernel::start(Request* request) {
  io_uring_sqe* const next = entry();
  prepare(next, request);
  io_uring_sqe_set_data(next, request);
}

void RingKernel::cancel(Request* request) {
  io_uring_sqe* const next = entry();
  io_uring_prep_cancel(next, request, 0);
  io_uring_sqe_set_data64(next, kCancelMark);
}

void RingKernel::leave() {
  close(ring_.ring_fd);
  close(wake_file_);
}

size_t RingKernel::wait(int64_t timeout_ns, std::span<Ended> ends) {
  __kernel_timespec time = {};
  time.tv_sec = timeout_ns / kSecond;
  time.tv_nsec = timeout_ns % kSecond;
  io_uring_cqe* first = nullptr;
  io_uring_submit_and_wait_timeout(&ring_, &first, 1, &time, nullptr);  // what it says is in the queue, or nothing is
  return take(ends);
}

size_t RingKernel::take(std::span<Ended> ends) {
  size_t count = 0;
  io_uring_cqe* done = nullptr;
  while (count < ends.size() && io_uring_peek_cqe(&ring_, &done) == 0) {
    const uint64_t mark = io_uring_cqe_get_data64(done);
    if (mark == kWakeMark) {
      watches_wakes_ = false;
    } else if (mark != kCancelMark) {
      ends[count++] = {static_cast<Request*>(io_uring_cqe_get_data(done)), done->res};
    }
    io_uring_cqe_seen(&ring_, done);
  }
  if (!watches_wakes_ && !ending_) watch_wakes();
  return count;
}

}  // namespace

std::unique_ptr<Kernel> make_ring_kernel(uint32_t depth, std::string* why) {
  auto kernel = std::make_unique<RingKernel>();
  if (!kernel->open(depth, why)) return nullptr;
  return kernel;
}

}  // namespace quire::file
