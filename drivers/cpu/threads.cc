#include "drivers/cpu/threads.h"

#include <pthread.h>
#include <sched.h>

#include <new>
#include <system_error>

namespace quire::cpu {

namespace {

// Room for any CPU number that a mask of the kernel can hold.
bool bind(std::thread* thread, uint32_t cpu) {
  cpu_set_t* set = CPU_ALLOC(cpu + 1);
  if (set == nullptr) return false;
  const size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(cpu, bytes, set);
  const bool bound = pthread_setaffinity_np(thread->native_handle(), bytes, set) == 0;
  CPU_FREE(set);
  return bound;
}

}  // namespace

bool Threads::start(uint32_t count, const uint32_t* cpus, uint32_t num_cpus) {
  count_ = 1;
  if (count <= 1) return true;
  threads_.reset(new (std::nothrow) std::thread[count - 1]);
  if (threads_ == nullptr) return false;
  try {
    for (uint32_t i = 1; i < count; ++i) {
      threads_[i - 1] = std::thread(&Threads::worker, this, i);
      ++count_;
      if (num_cpus == 0 || bind(&threads_[i - 1], cpus[i % num_cpus])) continue;
      refused_cpu_ = cpus[i % num_cpus];
      return false;
    }
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

Threads::~Threads() {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    stop_ = true;
  }
  begin_.notify_all();
  for (uint32_t i = 1; i < count_; ++i) threads_[i - 1].join();
}

void Threads::take(uint32_t index) {
  for (uint64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < pieces_; i = next_.fetch_add(1, std::memory_order_relaxed)) {
    work_(job_, i, index);
  }
}

void Threads::worker(uint32_t index) {
  uint64_t seen = 0;
  std::unique_lock<std::mutex> guard(lock_);
  while (true) {
    begin_.wait(guard, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    guard.unlock();
    take(index);
    guard.lock();
    if (--running_ == 0) end_.notify_one();
  }
}

void Threads::run(uint64_t pieces, Work work, void* job) {
  if (pieces == 0) return;
  const std::lock_guard<std::mutex> turn(turn_);
  const bool alone = count_ == 1 || pieces == 1;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    work_ = work;
    job_ = job;
    pieces_ = pieces;
    next_.store(0, std::memory_order_relaxed);
    if (!alone) {
      running_ = count_ - 1;
      ++generation_;
    }
  }
  if (!alone) begin_.notify_all();
  take(0);
  if (alone) return;
  std::unique_lock<std::mutex> guard(lock_);
  end_.wait(guard, [&] { return running_ == 0; });
}

}  // namespace quire::cpu
