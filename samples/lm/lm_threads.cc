#include "lm_threads.h"

#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lm {
namespace {

// Products follow one another with a few microseconds of other work between them; to sleep and to
// be woken takes longer.
constexpr std::chrono::microseconds kAwake{50};

uint32_t cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

// oneDNN takes as many threads as OpenMP would give to this one: none but itself. Whichever library
// brings OpenMP came with oneDNN; without one there is nothing to set.
void be_alone() {
  using Set = void (*)(int);
  static const auto set = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(1);
}

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits, first awake, until the value is another one.
uint32_t wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  const auto end = std::chrono::steady_clock::now() + kAwake;
  do {
    for (int i = 0; i < 16; ++i, pause()) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
    }
  } while (std::chrono::steady_clock::now() < end);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

// A job waits for those who take parts of it, and for nobody who has not begun to.
class Workers {
 public:
  explicit Workers(uint32_t threads) {
    be_alone();
    for (uint32_t i = 1; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() {
    is_ending_ = true;
    begin();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(int64_t count, const std::function<void(int64_t)>& part) {
    part_ = &part;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    failure_ = nullptr;
    inside_.store(0, std::memory_order_release);
    begin();
    take_parts();
    const uint32_t before = inside_.fetch_or(kClosed, std::memory_order_acq_rel);
    for (uint32_t inside = before | kClosed; inside != kClosed;)
      inside = wait_for_change(inside_, inside);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void begin() {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  void take_parts() {
    try {
      for (int64_t i = 0; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;)
        (*part_)(i);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }
  bool enter() {
    uint32_t inside = inside_.load(std::memory_order_relaxed);
    while ((inside & kClosed) == 0) {
      if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire,
                                        std::memory_order_relaxed))
        return true;
    }
    return false;
  }
  void leave() {
    if (inside_.fetch_sub(1, std::memory_order_release) == (kClosed | 1)) inside_.notify_one();
  }
  void work() {
    be_alone();
    for (uint32_t round = 0;;) {
      round = wait_for_change(round_, round);
      if (is_ending_) return;
      if (!enter()) continue;  // the job has ended
      take_parts();
      leave();
    }
  }

  static constexpr uint32_t kClosed = uint32_t{1} << 31;

  std::vector<std::thread> threads_;
  const std::function<void(int64_t)>* part_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> inside_{kClosed};  // who take parts; kClosed: no other may begin to
  std::atomic<bool> is_ending_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

uint32_t wanted = 0;
std::unique_ptr<Workers> workers;

}  // namespace

void set_threads(uint32_t threads) {
  wanted = threads;
  workers.reset();
}

uint32_t num_threads() { return wanted != 0 ? wanted : wanted = cores(); }

void parallel(int64_t count, const std::function<void(int64_t part)>& part) {
  if (workers == nullptr) workers = std::make_unique<Workers>(num_threads());
  if (count > 1 && num_threads() > 1) {
    workers->run(count, part);
  } else {
    for (int64_t i = 0; i < count; ++i) part(i);
  }
}

}  // namespace lm
