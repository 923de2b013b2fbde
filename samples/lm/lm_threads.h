// lm_threads.h: the threads that products run on. They wait awake for microseconds only, so that
// they leave the cores to the threads of quire's driver, and the other way round.
#pragma once

#include <cstdint>
#include <functional>

namespace lm {

// Before the first product; 0 = one per core that the process may use.
void set_threads(uint32_t threads);
uint32_t num_threads();
// Calls part(0) ... part(count - 1), on up to num_threads() threads, and waits. The first exception
// is thrown again. Calls do not nest.
void parallel(int64_t count, const std::function<void(int64_t part)>& part);

}  // namespace lm
