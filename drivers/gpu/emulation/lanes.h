// The host's stand-in for a multiprocessor: the threads of a block as fibers on one host thread, switched at barriers and exchanges only.
// Nothing is timed or reordered; what runs is the kernel's own arithmetic on its own addresses, so sanitizers see every access.
#pragma once

#include <cstdint>

namespace quire::gpu::emulation {

// Of the fiber that runs.
uint32_t thread_index();
uint32_t block_index();
uint32_t grid_size();
char* shared();
uint32_t shared_size();
// Barrier of the block; whether any thread said true. Ends the process with a message where a thread has left the kernel.
bool sync(bool mine);
// Every lane of a wave gives `value` and receives that of `lane`. Ends the process where the lanes of a wave are not all here.
uint32_t exchange(uint32_t wave, uint32_t value, uint32_t lane);
// Every lane of a wave shows kPublished words to the others. The first lane's words, those of the next behind them; they stay until the
// lane that asked meets its wave once more.
inline constexpr uint32_t kPublished = 16;
const uint32_t* publish(uint32_t wave, const uint32_t* words);
// Copies of 16 bytes that happen no sooner than they must: those of a thread's last `open` groups stay open. A NULL `from` is 16 zeros.
void copy_async(void* to, const void* from);
void commit_copies();
void await_copies(uint32_t open);
// The caller's group of so many neighbouring threads meets; true for the one that goes on first, before which no other has.
bool meet_group(uint32_t threads);
// Waits until a barrier in shared memory says so (emulation/warpgroup.h).
void await_phase(uint64_t* barrier, uint32_t parity);
// Ends the process: what the kernel does is not allowed on the machine.
[[noreturn]] void fault(const char* what);

// Runs `blocks` blocks, one after the other; shared memory is filled with a NaN pattern before each. One grid at a time per host thread.
// False where memory for stacks or shared memory is not to be had.
inline constexpr uint32_t kMaxThreads = 384;
using Entry = void (*)(const void* arguments);
bool run_grid(Entry entry, const void* arguments, uint32_t blocks, uint32_t shared_bytes, uint32_t threads = 128);

}  // namespace quire::gpu::emulation
