// The module under test: loaded once by name, one instance, one device, one stream; and what is
// expected of it.
#pragma once

#include <quire/driver.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace quire::conformance {

struct Driver {
  std::string name;
  const quire_driver_api* api = nullptr;
  const quire_extension_table* ops = nullptr;  // may be NULL
  quire_driver_instance* instance = nullptr;
  quire_driver_device* device = nullptr;
  quire_driver_stream* stream = nullptr;
  // The same module with one thread.
  quire_driver_instance* single_instance = nullptr;
  quire_driver_device* single_device = nullptr;
  quire_driver_stream* single_stream = nullptr;
};

// Loads libquire_driver_<name>.so from `folder` with `flags` in its options; a sentence on failure,
// empty on success. *absent: the driver answered UNAVAILABLE, this machine lacks what the flags ask
// for.
std::string open_driver(const std::string& folder, const std::string& name, uint64_t flags, bool* absent);
void close_driver();
// Where it was loaded from.
const std::string& module_folder();
Driver& driver();

// By which kernel the last attention of the stream went, empty where the driver does not say
// (attention.kernel of the GPU drivers).
std::string attended_by(quire_driver_stream* stream);
// QUIRE_DEVICE_* of the device under test.
int32_t device_type();

// Entries that must be there, by name; "all" stands for every one. A test of an entry that is
// absent and not among them is skipped.
void require_entries(std::set<std::string> names);
bool is_required(const std::string& entry);

// An error struct ready for a call.
quire_error fresh_error();

// Memory that both the tests and the driver's kernels reach: the process's where the driver
// computes on the host, its pinned memory elsewhere.
int32_t shared_type();  // QUIRE_DEVICE_*
void* take_shared(size_t bytes);
void give_shared(void* address, size_t bytes);

template <typename T>
struct SharedMemory {
  using value_type = T;
  SharedMemory() = default;
  template <typename U>
  SharedMemory(const SharedMemory<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(take_shared(n * sizeof(T))); }
  void deallocate(T* address, size_t n) { give_shared(address, n * sizeof(T)); }
  template <typename U>
  bool operator==(const SharedMemory<U>&) const {
    return true;
  }
};
template <typename T>
using Array = std::vector<T, SharedMemory<T>>;

}  // namespace quire::conformance

// At the start of a test: what it calls, for the report of entries. Where the driver leaves the
// entry out, the test is skipped, or fails if the entry is required.
#define QUIRE_NEEDS(entry)                                                                                                         \
  do {                                                                                                                             \
    ::testing::Test::RecordProperty("needs_" #entry, 1);                                                                           \
    if (quire::conformance::driver().api->entry == nullptr) {                                                                      \
      if (quire::conformance::is_required(#entry)) GTEST_FAIL() << #entry << ": the driver has no such entry, and it is required"; \
      GTEST_SKIP() << #entry << ": the driver has no such entry, so callers get UNIMPLEMENTED";                                    \
    }                                                                                                                              \
  } while (false)
