// What this machine can do, measured in the same process as the benchmarks, on all threads the process may use. A ceiling is the best slice
// (32 MiB per thread, or as long in arithmetic) of three independent loops over 1 GiB; every later probe may raise it, so that a ceiling
// measured while the machine was busy does not flatter what is measured after.
#pragma once

#include <functional>
#include <vector>

namespace quire::bench {

enum class Ceiling {
  kRead,    // GB/s read from memory, in sequence
  kPaged,   // GB/s read from memory, in pages of 64 KiB in random order: one of 16 tokens of 8 KV heads of 128 in bf16, both sides
  kCopy,    // GB/s read plus written: memcpy or non-temporal stores, whichever is faster
  kFloat,   // TFLOP/s of fp32 multiply-adds in registers
  kMatrix,  // TFLOP/s of bf16 products with their loads from the first-level cache: AMX tiles, else AVX-512 BF16, else kFloat
};

// Measured and printed to stderr on first use; later the best seen so far. GB/s or TFLOP/s.
double ceiling(Ceiling kind);
// Runs one more slice of that loop; returns its rate.
double probe(Ceiling kind);

// Seconds of single calls beside slices of the ceiling, taken in turns. The best of both is compared with the best: what other processes
// took from either side falls out. `work` is bytes or operations of one call.
struct Sample {
  double best_rate = 0;     // GB/s or TFLOP/s
  double of_ceiling = 0;    // best rate / best ceiling
  double median_ratio = 0;  // median over the pairs of rate / probe beside it
  double median_paged = 0;  // the same of kPaged, where the ceiling is kRead
  // Median of work / (processor time / threads) against the best ceiling: what the call would reach if no other process ran and its threads
  // were equally busy.
  double cpu_of_ceiling = 0;
};
class Pairs {
 public:
  Pairs(Ceiling kind, double work) : kind_(kind), work_(work) {}
  // Runs the call once, timed, with a probe next to it; returns the seconds of the call.
  double run(const std::function<void()>& call);
  Sample sample() const;
  // Processor seconds of the last call, over the number of threads.
  double last_share() const { return shares_.back(); }

 private:
  Ceiling kind_;
  double work_;
  std::vector<double> rates_;
  std::vector<double> ratios_, paged_;
  std::vector<double> cpu_rates_;
  std::vector<double> shares_;
};

double median(std::vector<double> values);

}  // namespace quire::bench
