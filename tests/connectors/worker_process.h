// A process that works on a store until it is killed, for connectors whose store several processes
// share. Every key only ever has one object.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "kit.h"

namespace quire::kit {

inline constexpr uint64_t kWorkerKeys = 200;
// Tiny ones, and some of up to 1.5 MB.
inline Bytes worker_object(uint64_t number) { return content(number, number < 150 ? 1 + number * 17 : 1 + (number - 150) * 30'000); }

// What the process does: stores, loads, looks up and removes, for ever. It writes one byte to its
// standard output when it begins.
inline int work(Client& client, uint64_t seed) {
  if (!client.is_open() || write(1, "b", 1) != 1) return 1;
  Rng rng(seed);
  while (true) {
    const uint64_t number = below(&rng, kWorkerKeys);
    const uint64_t dice = below(&rng, 10);
    if (dice < 6) {
      client.store(key(number), worker_object(number));
    } else if (dice < 8) {
      Bytes out;
      client.load(key(number), 0, 1, &out);
    } else if (dice < 9) {
      client.sizes({key(number), key(number + 1), key(number + 2)});
    } else {
      client.remove(key(number));
    }
  }
}

// Such a process: PROGRAM PLACE SEED. It works when the constructor returns; the destructor kills
// it.
class WorkerProcess {
 public:
  WorkerProcess(const char* program, const std::string& place, uint64_t seed) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const std::string number = std::to_string(seed);
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], 1);
      execl(program, program, place.c_str(), number.c_str(), nullptr);
      _exit(127);
    }
    ::close(ends[1]);
    char begun = 0;
    EXPECT_EQ(read(ends[0], &begun, 1), 1) << "the process did not begin";
    ::close(ends[0]);
  }
  ~WorkerProcess() {
    ::kill(process_, SIGKILL);
    int status = 0;
    waitpid(process_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended before: " << status;
  }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

 private:
  pid_t process_ = -1;
};

}  // namespace quire::kit
