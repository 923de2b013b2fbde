// What the connector asks of the operating system that may take long: opening, reading, writing,
// naming and removing files. Requests are carried out side by side, and each ends exactly once.
// RingKernel does it with io_uring; tests put themselves between.
#pragma once

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace quire::file {

struct Request;

// Whoever wants to know when a request ends. Requests of one owner may end in any order.
class Owner {
 public:
  virtual ~Owner() = default;
  // result: as of the system call, or -errno.
  virtual void ended(Request* request, int32_t result) = 0;
};

enum class Act : uint8_t {
  kOpen,      // path, how: below folder, without symbolic links; result: a file
  kAllocate,  // file, bytes
  kRead,      // file, memory, offset
  kWrite,
  kSync,    // file: its bytes and what is needed to read them
  kLink,    // path_from, path, flags; path_from may be absolute
  kRename,  // path_from, path: fails if path exists
  kUnlink,  // path
  kStat,    // path, stat
  kClose,   // file
};

struct Request {
  Act act = Act::kOpen;
  Owner* owner = nullptr;
  bool is_move = false;  // for the owner, which has several kinds of them
  int file = -1;
  int folder = -1;
  std::string path;
  std::string path_from;
  open_how how = {};
  int flags = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::span<iovec> memory;
  struct statx stat = {};
};

struct Ended {
  Request* request = nullptr;
  int32_t result = 0;
};

// All functions but wake are called by one thread.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // The request stays as it is until wait returned its end, and its memory belongs to the kernel
  // until then.
  virtual void start(Request* request) = 0;
  // Asks for an early end of a request that was started. It may still end as if nobody had asked.
  virtual void cancel(Request* request) = 0;
  // Waits until a request has ended, wake was called or the time is over. Returns how many ends
  // were written.
  virtual size_t wait(int64_t timeout_ns, std::span<Ended> ends) = 0;
  // Any thread.
  virtual void wake() = 0;
  // In a child of fork(): closes what the child inherited of it, and touches nothing else.
  virtual void leave() = 0;
};

// Makes a kernel in the thread that will use it. On failure: nullptr, and *why is a sentence.
using KernelMaker = std::function<std::unique_ptr<Kernel>(uint32_t depth, std::string* why)>;

// depth: of reads and writes in flight. *why names what the kernel lacks.
std::unique_ptr<Kernel> make_ring_kernel(uint32_t depth, std::string* why);

}  // namespace quire::file
