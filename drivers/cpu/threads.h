// A small pool of worker threads. One job at a time: n pieces, taken from a counter by the caller's thread and the workers. Which thread
// takes a piece never changes a result; every piece owns its output.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

namespace quire::cpu {

class Threads {
 public:
  // piece: 0..pieces-1; thread: 0..count-1, for scratch.
  using Work = void (*)(void* job, uint64_t piece, uint32_t thread);

  // Starts count - 1 threads; false when the system refuses (threads already started are ended). Thread i >= 1 is bound to
  // cpus[i % num_cpus] when there are any; the caller's thread, number 0, is not.
  bool start(uint32_t count, const uint32_t* cpus, uint32_t num_cpus);
  ~Threads();

  uint32_t count() const { return count_; }
  // After start() failed: the CPU that a thread cannot be bound to; -1 when something else was the reason.
  int64_t refused_cpu() const { return refused_cpu_; }
  // Returns when all pieces are done. Callers on different threads take turns.
  void run(uint64_t pieces, Work work, void* job);

 private:
  void worker(uint32_t index);
  void take(uint32_t index);

  std::mutex turn_;  // one job at a time
  std::mutex lock_;
  std::condition_variable begin_;
  std::condition_variable end_;
  std::unique_ptr<std::thread[]> threads_;
  uint32_t count_ = 1;
  int64_t refused_cpu_ = -1;
  uint32_t running_ = 0;
  uint64_t generation_ = 0;
  bool stop_ = false;
  Work work_ = nullptr;
  void* job_ = nullptr;
  uint64_t pieces_ = 0;
  std::atomic<uint64_t> next_{0};
};

}  // namespace quire::cpu
