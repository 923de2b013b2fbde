#include "drivers/cpu/threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire::cpu {

namespace {

constexpr uint64_t kShares = 4;                  // a turn is a fourth of a thread's share of what is left
constexpr std::chrono::microseconds kAwake{50};  // to sleep and be woken, at both ends of a call, took 39

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Waits awake for a while; whether f() became true.
template <typename F>
bool soon(F&& f) {
  const auto end = std::chrono::steady_clock::now() + kAwake;
  do {
    for (int i = 0; i < 16; ++i, pause()) {
      if (f()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return f();
}

// Room for any CPU number that a mask of the kernel can hold.
bool bind(pthread_t thread, uint32_t cpu) {
  cpu_set_t* set = CPU_ALLOC(cpu + 1);
  if (set == nullptr) return false;
  const size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(cpu, bytes, set);
  const bool bound = pthread_setaffinity_np(thread, bytes, set) == 0;
  CPU_FREE(set);
  return bound;
}

}  // namespace

void* Threads::begin(void* worker) {
  const Worker& own = *static_cast<Worker*>(worker);
  own.pool->work_for(own.index);
  return nullptr;
}

bool Threads::start(uint32_t count, const uint32_t* cpus, uint32_t num_cpus) {
  count_ = 1;
  owner_ = getpid();
  if (count <= 1) return true;
  workers_.reset(new (std::nothrow) Worker[count - 1]);
  if (workers_ == nullptr) return false;
  for (uint32_t i = 1; i < count; ++i) {
    Worker& worker = workers_[i - 1];
    worker.pool = this;
    worker.index = i;
    if (pthread_create(&worker.thread, nullptr, &Threads::begin, &worker) != 0) return false;
    ++count_;
    if (num_cpus == 0 || bind(worker.thread, cpus[i % num_cpus])) continue;
    refused_cpu_ = cpus[i % num_cpus];
    return false;
  }
  return true;
}

Threads::~Threads() {
  if (getpid() != owner_) return;  // fork() copied the pool, not its threads
  stop_ = true;
  jobs_.fetch_add(1);
  jobs_.notify_all();
  for (uint32_t i = 1; i < count_; ++i) pthread_join(workers_[i - 1].thread, nullptr);
}

// Takes pieces until none is left.
void Threads::take(uint32_t index) {
  uint64_t first = next_.load(std::memory_order_relaxed);
  while (first < pieces_) {
    const uint64_t left = pieces_ - first;
    const uint64_t n = std::min(left, std::clamp(left / (kShares * count_), turns_.least, turns_.most));
    if (!next_.compare_exchange_weak(first, first + n, std::memory_order_relaxed)) continue;
    work_(job_, first, first + n, index);
    first = next_.load(std::memory_order_relaxed);
  }
}

bool Threads::enter() {
  uint32_t inside = inside_.load(std::memory_order_relaxed);
  while ((inside & kClosed) == 0) {
    if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  }
  return false;
}

void Threads::leave() {
  if (inside_.fetch_sub(1, std::memory_order_release) == (kClosed | 1)) inside_.notify_one();
}

void Threads::work_for(uint32_t index) {
  uint32_t seen = 0;
  while (true) {
    if (!soon([&] { return jobs_.load(std::memory_order_relaxed) != seen; })) jobs_.wait(seen, std::memory_order_relaxed);
    seen = jobs_.load(std::memory_order_acquire);
    if (stop_) return;
    if (!enter()) continue;  // the job that was begun has ended
    take(index);
    leave();
  }
}

void Threads::run(uint64_t pieces, Turns turns, Work work, void* job) {
  if (pieces == 0) return;
  const std::lock_guard<std::mutex> turn(turn_);
  work_ = work;
  job_ = job;
  pieces_ = pieces;
  turns_ = turns;
  next_.store(0, std::memory_order_relaxed);
  if (count_ == 1 || pieces <= turns.least) return take(0);
  inside_.store(0, std::memory_order_release);
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  take(0);
  uint32_t inside = inside_.fetch_or(kClosed, std::memory_order_acquire) | kClosed;
  if (inside == kClosed || soon([&] { return inside_.load(std::memory_order_acquire) == kClosed; })) return;
  while ((inside = inside_.load(std::memory_order_acquire)) != kClosed) inside_.wait(inside, std::memory_order_acquire);
}

}  // namespace quire::cpu
