// A small pool of worker threads. One job at a time: n pieces, of which the caller's thread and the workers take neighbours, turn by turn:
// many while many are left, few towards the end, so that all end together. Which thread takes a piece never changes a result; every piece
// owns its output. After fork() the threads are the parent's: a child may destroy the pool, and do nothing else with it. Workers and
// callers that have nothing to do wait awake for some microseconds, for ops come in quick succession, then asleep; a job waits for nobody
// who has not begun to work on it.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace quire::cpu {

// How many pieces make a turn. One of the last turns may have fewer than `least`.
struct Turns {
  uint64_t least = 1;
  uint64_t most = UINT64_MAX;
};

class Threads {
 public:
  // Pieces [first, last) of a job; thread: 0..count-1, for scratch.
  using Work = void (*)(void* job, uint64_t first, uint64_t last, uint32_t thread);

  // Starts count - 1 threads; false when the system refuses (threads already started are ended). Thread i >= 1 is bound to
  // cpus[i % num_cpus] when there are any; the caller's thread, number 0, is not.
  bool start(uint32_t count, const uint32_t* cpus, uint32_t num_cpus);
  ~Threads();

  uint32_t count() const { return count_; }
  // After start() failed: the CPU that a thread cannot be bound to; -1 when something else was the reason.
  int64_t refused_cpu() const { return refused_cpu_; }
  // Returns when all pieces are done. Callers on different threads take turns.
  void run(uint64_t pieces, Turns turns, Work work, void* job);

 private:
  static constexpr uint32_t kClosed = uint32_t{1} << 31;

  struct Worker {
    Threads* pool;
    uint32_t index;
    pthread_t thread;
  };

  static void* begin(void* worker);
  void work_for(uint32_t index);
  bool enter();
  void leave();
  void take(uint32_t index);

  std::mutex turn_;  // one job at a time
  std::unique_ptr<Worker[]> workers_;
  uint32_t count_ = 1;
  pid_t owner_ = 0;  // the process that has the threads
  int64_t refused_cpu_ = -1;
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> jobs_{0};          // begun; workers wait for it to change
  std::atomic<uint32_t> inside_{kClosed};  // workers that take pieces; kClosed: no other may begin to
  // Of the job. Written while closed and nobody is inside.
  Work work_ = nullptr;
  void* job_ = nullptr;
  uint64_t pieces_ = 0;
  Turns turns_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace quire::cpu
