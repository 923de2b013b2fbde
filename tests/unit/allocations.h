// Replaces operator new and malloc of a test binary, those of its libraries included: allocations by new are counted, and one of choice
// fails.
#pragma once

#include <atomic>
#include <cstdint>

namespace quire::test {

extern std::atomic<uint64_t> allocations;  // asked for, ever
extern std::atomic<int64_t> alive;         // allocations that were not given back
extern std::atomic<bool> armed, for_ever;  // for_ever: those behind the one of choice fail, too
extern std::atomic<int64_t> until;         // allocations before that one
extern std::atomic<uint64_t> failed;       // since it was set to 0

// From now on only those fail that the code of this library asks for itself. False: it is not
// loaded.
bool only_those_of(const char* library);

// Lets the allocation fail that comes after so many, in all threads, while it lives.
struct Failing {
  explicit Failing(int64_t after) {
    failed = 0;
    until = after;
    armed = true;
  }
  ~Failing() { armed = false; }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
};

}  // namespace quire::test
