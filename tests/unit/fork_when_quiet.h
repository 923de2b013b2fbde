// fork() for tests whose process has threads.
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace quire::test {

// True when every thread but the calling one sleeps.
inline bool other_threads_sleep() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream file(task.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const size_t name_end = stat.rfind(')');
    if (name_end != std::string::npos && stat.compare(name_end, 3, ") S") != 0) return false;
  }
  return true;
}

// fork() at once; under AddressSanitizer as soon as the other threads sleep, for at most ten seconds. Its allocator (g++ 12)
// does not hold its locks across fork(): a child waits forever for those that another thread had. glibc's holds them.
inline pid_t fork_when_quiet() {
#if defined(__SANITIZE_ADDRESS__)
  for (int i = 0; i < 10000 && !other_threads_sleep(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
#endif
  return fork();
}

}  // namespace quire::test
