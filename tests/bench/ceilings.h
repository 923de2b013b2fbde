// What this machine can do, measured in the same process as the benchmarks: best of three independent loops on all threads the process may
// use.
#pragma once

#include <cstdint>

namespace quire::bench {

struct Ceilings {
  double read_gbps;  // bytes read from memory
  double copy_gbps;  // bytes read plus bytes written
  double tflops;     // fp32 multiply-adds in registers, two operations each
};

// Measured on first use, then kept.
const Ceilings& ceilings();

}  // namespace quire::bench
