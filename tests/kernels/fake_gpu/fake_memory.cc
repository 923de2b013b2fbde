// Memory: the device's in one file of the process, so that others can map it; pinned memory from the heap.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/kernels/fake_gpu/machine.h"

namespace quire::fake {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kArena = size_t{8} << 30;  // device memory of the machine; sparse

bool open_arena() {
  Machine& m = machine();
  if (m.arena != nullptr) return true;
  m.arena_file = memfd_create("quire_fake_gpu", MFD_CLOEXEC);
  if (m.arena_file < 0 || ftruncate(m.arena_file, kArena) != 0) return false;
  void* at = mmap(nullptr, kArena, PROT_NONE, MAP_SHARED | MAP_NORESERVE, m.arena_file, 0);
  if (at == MAP_FAILED) return false;
  m.arena = static_cast<char*>(at);
  return true;
}

// The lowest gap with a closed page behind it.
char* place(size_t bytes) {
  Machine& m = machine();
  char* at = m.arena + kPage;
  for (const auto& [begin, region] : m.regions) {
    if (begin < m.arena || begin >= m.arena + kArena) continue;
    if (begin >= at + bytes + kPage) break;
    at = begin + (region.bytes + kPage - 1) / kPage * kPage + kPage;
  }
  return bytes > kArena - kPage || at + bytes + kPage > m.arena + kArena ? nullptr : at;
}

struct Reference {  // what a handle says
  char magic[8];
  int32_t process;
  int32_t file;
  uint64_t offset;
  uint64_t bytes;
};

void protect(int access) {
  for (const auto& [at, region] : machine().regions) {
    if (region.place == 2) mprotect(at, (region.bytes + kPage - 1) / kPage * kPage, access);
  }
}

}  // namespace

Open::Open() {
  if (machine().open++ == 0) protect(PROT_READ | PROT_WRITE);
}
Open::~Open() {
  if (--machine().open == 0) protect(PROT_NONE);
}

const std::pair<char* const, Region>* region_of(const void* address) {
  auto& regions = machine().regions;
  auto* at = const_cast<char*>(static_cast<const char*>(address));
  auto next = regions.upper_bound(at);
  if (next == regions.begin()) return nullptr;
  --next;
  return at < next->first + next->second.bytes ? &*next : nullptr;
}

bool is_whole(const void* address, size_t bytes) {
  const auto* region = region_of(address);
  return region == nullptr || static_cast<const char*>(address) + bytes <= region->first + region->second.bytes;
}

int allocate(int, size_t bytes, bool host, void** address) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (spoils()) return kRecording;
  if (bytes == 0) return kInvalid;
  char* at = nullptr;
  if (host) {
    void* p = nullptr;
    if (bytes > kArena || posix_memalign(&p, 4096, bytes) != 0) return kOutOfMemory;
    at = static_cast<char*>(p);
  } else {
    if (bytes > kArena || !open_arena()) return kOutOfMemory;
    at = place(bytes);
    if (at == nullptr) return kOutOfMemory;
  }
  m.regions[at] = {bytes, host ? 1 : 2, false, 0, ""};
  ++m.alive;
  *address = at;
  return kOk;
}

int release(void* address, bool host) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (spoils()) return kRecording;
  const auto found = m.regions.find(static_cast<char*>(address));
  if (found == m.regions.end() || found->second.import || (found->second.place == 1) != host) return kInvalid;
  finish_all();
  if (host) {
    std::free(address);
  } else {
    const auto whole = static_cast<off_t>((found->second.bytes + kPage - 1) / kPage * kPage);
    static_cast<void>(fallocate(m.arena_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, found->first - m.arena, whole));
  }
  m.regions.erase(found);
  --m.alive;
  return kOk;
}

int place_of(const void* address) {
  const Lock lock(machine().mutex);
  const auto* region = region_of(address);
  return region == nullptr ? 0 : region->second.place;
}

int range_of(const void* address, void** base, size_t* bytes) {
  const Lock lock(machine().mutex);
  const auto* region = region_of(address);
  if (region == nullptr || region->second.place != 2) return kNotFound;
  *base = region->first;
  *bytes = region->second.bytes;
  return kOk;
}

int export_memory(const void* base, Handle* handle) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto* region = region_of(base);
  if (region == nullptr || region->second.place != 2 || region->second.import || region->first != base) return kInvalid;
  const Reference made = {{'f', 'a', 'k', 'e', 'i', 'p', 'c', 0},
                          static_cast<int32_t>(getpid()),
                          m.arena_file,
                          static_cast<uint64_t>(region->first - m.arena),
                          region->second.bytes};
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &made, sizeof made);
  return kOk;
}

int import_memory(int, const Handle& handle, void** base) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  Reference wanted;
  memcpy(&wanted, &handle, sizeof wanted);
  if (memcmp(wanted.magic, "fakeipc", 8) != 0) return kInvalid;
  if (wanted.process == getpid()) return kInvalidContext;  // a handle is for other processes
  const std::string key(reinterpret_cast<const char*>(handle.bytes), sizeof handle);
  for (auto& [at, region] : m.regions) {
    if (region.import && region.handle == key) {
      ++region.opened;
      *base = at;
      return kOk;
    }
  }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", wanted.process, wanted.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return kInvalid;
  void* at = mmap(nullptr, wanted.bytes, PROT_NONE, MAP_SHARED, file, static_cast<off_t>(wanted.offset));
  close(file);
  if (at == MAP_FAILED) return kOutOfMemory;
  m.regions[static_cast<char*>(at)] = {wanted.bytes, 2, true, 1, key};
  ++m.alive;
  *base = at;
  return kOk;
}

int close_memory(void* base) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = m.regions.find(static_cast<char*>(base));
  if (found == m.regions.end() || !found->second.import) return kInvalid;
  if (--found->second.opened != 0) return kOk;
  finish_all();
  munmap(base, found->second.bytes);
  m.regions.erase(found);
  --m.alive;
  return kOk;
}

void memory_info(size_t* available, size_t* total) {
  const Lock lock(machine().mutex);
  *total = kArena;
  *available = kArena;
  for (const auto& [at, region] : machine().regions) {
    if (region.place == 2 && !region.import) *available -= region.bytes;
  }
}

}  // namespace quire::fake
