#include "ceilings.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "ceilings_x86.h"

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kBytes = uint64_t{1} << 30;        // of the source, and of the target, over all threads
constexpr uint64_t kSliceBytes = uint64_t{32} << 20;  // per thread
constexpr uint64_t kPageBytes = uint64_t{64} << 10;
constexpr uint64_t kRounds = 300000;  // of an arithmetic slice: a millisecond, or a few

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

uint32_t usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<uint32_t>(std::max(1, CPU_COUNT(&set))) : 1;
}

// Threads that start together and are waited for without sleeping.
class Crew {
 public:
  explicit Crew(uint32_t count) : count_(count) {
    for (uint32_t i = 1; i < count; ++i) threads_.emplace_back([this, i] { serve(i); });
  }
  ~Crew() {
    {
      const std::lock_guard<std::mutex> guard(lock_);
      stop_ = true;
    }
    begin_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  uint32_t count() const { return count_; }

  double run(const std::function<void(uint32_t)>& work) {
    done_ = 0;
    {
      const std::lock_guard<std::mutex> guard(lock_);
      work_ = &work;
      ++generation_;
    }
    begin_.notify_all();
    // The clock starts when all are awake.
    while (ready_ != count_ - 1) std::this_thread::yield();
    ready_ = 0;
    const auto begin = Clock::now();
    go_ = generation_.load();
    work(0);
    while (done_ != count_ - 1) std::this_thread::yield();
    return seconds_since(begin);
  }

 private:
  void serve(uint32_t index) {
    uint64_t seen = 0;
    while (!stop_) {
      if (generation_ == seen) {
        std::unique_lock<std::mutex> guard(lock_);
        begin_.wait(guard, [&] { return generation_ != seen || stop_; });
        continue;
      }
      seen = generation_;
      ++ready_;
      while (go_ != seen) std::this_thread::yield();
      (*work_)(index);
      ++done_;
    }
  }

  uint32_t count_;
  std::vector<std::thread> threads_;
  const std::function<void(uint32_t)>* work_ = nullptr;
  std::mutex lock_;
  std::condition_variable begin_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint64_t> go_{0};
  std::atomic<uint32_t> ready_{0};
  std::atomic<uint32_t> done_{0};
  std::atomic<bool> stop_{false};
};

char* take_huge(uint64_t bytes, uint64_t pattern) {
  void* p = aligned_alloc(uint64_t{2} << 20, bytes);
  if (p == nullptr) std::abort();
  madvise(p, bytes, MADV_HUGEPAGE);
  auto* words = static_cast<uint64_t*>(p);
  for (uint64_t i = 0; i < bytes / 8; ++i) words[i] = pattern + i;
  return static_cast<char*>(p);
}

class Probes {
 public:
  Probes() : crew_(usable_threads()), sums_(crew_.count()) {
    source_ = take_huge(kBytes, 0x3f81a2b3c4d5e6f7ull);
    target_ = take_huge(kBytes, 1);
    std::iota(pages_.begin(), pages_.end(), 0);
    std::shuffle(pages_.begin(), pages_.end(), std::mt19937(1));
    constexpr Ceiling kAll[] = {Ceiling::kRead, Ceiling::kPaged, Ceiling::kCopy, Ceiling::kFloat, Ceiling::kMatrix};
    const uint64_t slices = kBytes / kSliceBytes / crew_.count();
    for (int loop = 0; loop < 3; ++loop) {
      for (Ceiling kind : kAll) {
        for (uint64_t i = 0; i < std::max<uint64_t>(slices, 4); ++i) probe(kind);
      }
    }
    std::fprintf(stderr,
                 "ceilings (%u threads, best slice of 3 loops): read %.1f GB/s, in random pages of 64 KiB %.1f GB/s, memcpy %.1f GB/s, "
                 "non-temporal copy %.1f GB/s (read + write), %s %.3f TFLOP/s, %s %.3f TFLOP/s\n",
                 crew_.count(), best(Ceiling::kRead), best(Ceiling::kPaged), memcpy_, streamed_, float_loop(), best(Ceiling::kFloat),
                 matrix_loop(), best(Ceiling::kMatrix));
  }
  ~Probes() {
    std::free(source_);
    std::free(target_);
  }
  Probes(const Probes&) = delete;
  Probes& operator=(const Probes&) = delete;

  double best(Ceiling kind) const { return best_[static_cast<int>(kind)]; }

  double probe(Ceiling kind) {
    double rate = 0;
    if (kind == Ceiling::kRead) {
      rate = rate_of(kSliceBytes * 1e-9, [&](uint32_t t) { sums_[t] += read_all(source_ + place(t), kSliceBytes); });
    } else if (kind == Ceiling::kPaged) {
      rate = rate_of(kSliceBytes * 1e-9, [&](uint32_t t) {
        const uint64_t first = place(t) / kPageBytes;
        for (uint64_t i = 0; i < kSliceBytes / kPageBytes; ++i) sums_[t] += read_all(source_ + pages_[first + i] * kPageBytes, kPageBytes);
      });
    } else if (kind == Ceiling::kCopy) {
      const double plain =
          rate_of(2 * kSliceBytes * 1e-9, [&](uint32_t t) { memcpy(target_ + place(t), source_ + place(t), kSliceBytes); });
      ++turn_;
      const double streamed =
          rate_of(2 * kSliceBytes * 1e-9, [&](uint32_t t) { copy_streamed(target_ + place(t), source_ + place(t), kSliceBytes); });
      memcpy_ = std::max(memcpy_, plain);
      streamed_ = std::max(streamed_, streamed);
      rate = std::max(plain, streamed);
    } else if (kind == Ceiling::kFloat) {
      rate = rate_of(static_cast<double>(float_operations(kRounds)) * 1e-12, [&](uint32_t t) { sums_[t] += run_float(kRounds); });
    } else {
      rate = rate_of(static_cast<double>(matrix_operations(kRounds)) * 1e-12, [&](uint32_t t) { sums_[t] += run_matrix(kRounds); });
    }
    ++turn_;
    double& top = best_[static_cast<int>(kind)];
    top = std::max(top, rate);
    return rate;
  }

 private:
  double rate_of(double work, const std::function<void(uint32_t)>& loop) { return work * crew_.count() / crew_.run(loop); }
  // Where thread t works: each turn elsewhere, until all of the set has been used.
  uint64_t place(uint32_t t) const { return ((turn_ * crew_.count() + t) * kSliceBytes) % kBytes; }

  Crew crew_;
  std::vector<uint64_t> sums_;
  std::vector<uint64_t> pages_ = std::vector<uint64_t>(kBytes / kPageBytes);  // in random order
  char* source_;
  char* target_;
  uint64_t turn_ = 0;
  double best_[5] = {};
  double memcpy_ = 0;
  double streamed_ = 0;
};

Probes& probes() {
  static Probes p;
  return p;
}

}  // namespace

namespace {

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

double ceiling(Ceiling kind) { return probes().best(kind); }
double probe(Ceiling kind) { return probes().probe(kind); }

double Pairs::run(const std::function<void()>& call) {
  probes();
  const double processor = processor_seconds();
  const auto begin = Clock::now();
  call();
  const double seconds = seconds_since(begin);
  const bool bytes = kind_ == Ceiling::kRead || kind_ == Ceiling::kCopy;
  const double unit = bytes ? 1e-9 : 1e-12;
  shares_.push_back((processor_seconds() - processor) / usable_threads());
  rates_.push_back(work_ / seconds * unit);
  cpu_rates_.push_back(work_ / shares_.back() * unit);
  ratios_.push_back(rates_.back() / probe(kind_));
  if (kind_ == Ceiling::kRead) paged_.push_back(rates_.back() / probe(Ceiling::kPaged));
  return seconds;
}

Sample Pairs::sample() const {
  Sample s;
  if (rates_.empty()) return s;
  s.best_rate = *std::max_element(rates_.begin(), rates_.end());
  s.of_ceiling = s.best_rate / ceiling(kind_);
  s.median_ratio = median(ratios_);
  s.median_paged = median(paged_);
  s.cpu_of_ceiling = median(cpu_rates_) / ceiling(kind_);
  return s;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace quire::bench
