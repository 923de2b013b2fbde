// The loops behind the ceilings, in the widest instructions that the processor has; portable ones elsewhere.
#pragma once

#include <cstdint>

namespace quire::bench {

uint64_t read_all(const char* p, uint64_t bytes);  // both: a multiple of 256 bytes, aligned to 64
void copy_streamed(char* to, const char* from, uint64_t bytes);

const char* float_loop();  // what run_float runs
uint64_t float_operations(uint64_t rounds);
uint64_t run_float(uint64_t rounds);

const char* matrix_loop();
uint64_t matrix_operations(uint64_t rounds);
uint64_t run_matrix(uint64_t rounds);

}  // namespace quire::bench
