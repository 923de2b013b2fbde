// Fibers and their scheduler. A fiber is a stack and a stack pointer; on x86-64 a switch is a dozen instructions, elsewhere swapcontext.
#include "drivers/gpu/emulation/lanes.h"

#include "drivers/gpu/emulation/warpgroup.h"

#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define QUIRE_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUIRE_FIBER_ASAN 1
#endif
#endif
#if defined(QUIRE_FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace quire::gpu::emulation {
namespace {

constexpr uint64_t kStackBytes = uint64_t{256} << 10;

enum class State : uint8_t { kRunning, kAtBarrier, kAtExchange, kAtPhase, kDone };

struct Fiber {
#if defined(__x86_64__)
  void* stack_pointer;
#else
  ucontext_t place;
#endif
  char* stack;
  State state;
  uint64_t barriers;    // passed or waited at
  uint64_t exchanges;   // likewise
  uint64_t gatherings;  // likewise, of warpgroups
  uint64_t copies;      // groups committed
  uint64_t* phase_of;   // the barrier whose phase of `parity` is awaited
  uint32_t parity;
  bool ready;
};

struct Copy {
  uint64_t group;
  void* to;
  const void* from;
};

// Where threads meet: a barrier of the block or an exchange of a wave. Two of each serve in turn; one is free again when all have left.
struct Meeting {
  uint32_t arrived;
  uint32_t left;
  uint64_t after;  // barriers that those who meet have passed
  bool vote;
  void leave(uint32_t all) {
    if (++left == all) arrived = left = 0;
  }
};

struct Grid {
  Fiber fibers[kMaxThreads];
  Fiber scheduler;
  const void* scheduler_stack;
  size_t scheduler_bytes;
  uint32_t values[2][kMaxThreads][kPublished];  // of exchanges
  std::vector<Copy> copies[kMaxThreads];        // not yet made, oldest first
  Meeting barriers[2];
  Meeting waves[kMaxThreads][2];       // by the wave's first thread
  Meeting warpgroups[kMaxThreads][2];  // likewise
  Entry entry;
  const void* arguments;
  char* shared_memory;
  uint32_t shared_bytes;
  uint32_t threads;
  uint32_t block;
  uint32_t blocks;
  uint32_t current;
  char* stacks;
};

thread_local Grid* running = nullptr;

[[noreturn]] void diverged(const char* where) {
  char line[160];
  const int n = std::snprintf(line, sizeof line, "emulation: block %u, thread %u: not all threads are at the same %s\n", running->block,
                              running->current, where);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(n));
  std::abort();
}

#if defined(__x86_64__)
extern "C" void quire_fiber_switch(void** from, void* to);
asm(R"(
.text
.type quire_fiber_switch,@function
.hidden quire_fiber_switch
.globl quire_fiber_switch
quire_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size quire_fiber_switch, .-quire_fiber_switch
)");

void jump(Fiber* from, Fiber* to) { quire_fiber_switch(&from->stack_pointer, to->stack_pointer); }
#else
void jump(Fiber* from, Fiber* to) { swapcontext(&from->place, &to->place); }
#endif

void enter_fiber(Grid* g, uint32_t thread) {
  g->current = thread;
#if defined(QUIRE_FIBER_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, g->fibers[thread].stack, kStackBytes);
  jump(&g->scheduler, &g->fibers[thread]);
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
  jump(&g->scheduler, &g->fibers[thread]);
#endif
}

void leave_fiber(Grid* g, [[maybe_unused]] bool forever) {
#if defined(QUIRE_FIBER_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(forever ? nullptr : &fake, g->scheduler_stack, g->scheduler_bytes);
  jump(&g->fibers[g->current], &g->scheduler);
  __sanitizer_finish_switch_fiber(fake, &g->scheduler_stack, &g->scheduler_bytes);
#else
  jump(&g->fibers[g->current], &g->scheduler);
#endif
}

void fiber_main() {
  Grid* g = running;
#if defined(QUIRE_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &g->scheduler_stack, &g->scheduler_bytes);
#endif
  g->entry(g->arguments);
  if (!g->copies[g->current].empty()) fault("copies that nobody waited for");
  g->fibers[g->current].state = State::kDone;
  leave_fiber(g, true);
  std::abort();
}

void prepare(Fiber* f) {
  f->state = State::kRunning;
  f->barriers = f->exchanges = f->gatherings = f->copies = 0;
#if defined(QUIRE_FIBER_ASAN)
  constexpr uint64_t kTop = uint64_t{16} << 10;  // what the thread before left marked
  __asan_unpoison_memory_region(f->stack + kStackBytes - kTop, kTop);
#endif
#if defined(__x86_64__)
  auto* top = reinterpret_cast<void**>(f->stack + kStackBytes);
  *--top = nullptr;                               // where fiber_main would return to, and its alignment
  *--top = reinterpret_cast<void*>(&fiber_main);  // taken by ret
  for (int i = 0; i < 6; ++i) *--top = nullptr;   // the six registers
  f->stack_pointer = top;
#else
  getcontext(&f->place);
  f->place.uc_stack.ss_sp = f->stack;
  f->place.uc_stack.ss_size = kStackBytes;
  f->place.uc_link = nullptr;
  makecontext(&f->place, fiber_main, 0);
#endif
}

// Runs every thread up to the next barrier, exchange or wait, in order; a thread whose turn it is finds all others at least as far. Whether
// waits are over is asked before a round, so that the threads of a wave that wait for the same go on together.
void run_block(Grid* g) {
  begin_block();
  for (uint32_t t = 0; t < g->threads; ++t) prepare(&g->fibers[t]);
  for (uint32_t alive = g->threads; alive != 0;) {
    alive = 0;
    bool moved = false;
    for (uint32_t t = 0; t < g->threads; ++t) {
      Fiber& f = g->fibers[t];
      f.ready = f.state != State::kAtPhase || phase_ended(f.phase_of, f.parity);
    }
    for (uint32_t t = 0; t < g->threads; ++t) {
      const Fiber& f = g->fibers[t];
      if (f.state == State::kDone) continue;
      ++alive;
      if (!f.ready) continue;
      if (f.state == State::kAtBarrier && g->barriers[(f.barriers - 1) & 1].arrived != g->threads) continue;
      moved = true;
      enter_fiber(g, t);
    }
    if (alive != 0 && !moved) diverged("barrier");
  }
  end_block();
}

}  // namespace

uint32_t thread_index() { return running->current; }
uint32_t block_index() { return running->block; }
uint32_t grid_size() { return running->blocks; }
char* shared() { return running->shared_memory; }
uint32_t shared_size() { return running->shared_bytes; }

bool sync(bool mine) {
  Grid* g = running;
  Fiber& f = g->fibers[g->current];
  Meeting& m = g->barriers[f.barriers & 1];
  m.vote = m.arrived != 0 && m.vote ? true : mine;
  ++m.arrived;
  ++f.barriers;
  f.state = State::kAtBarrier;
  leave_fiber(g, false);
  f.state = State::kRunning;
  const bool any = m.vote;
  m.leave(g->threads);
  return any;
}

namespace {

// Waits for the threads from the meeting's first on; all had their turn since, so that all are here.
void meet_at(Grid* g, Fiber& f, Meeting& m, uint32_t all) {
  if (m.arrived == 0) m.after = f.barriers;
  if (m.after != f.barriers) diverged("exchange");
  ++m.arrived;
  f.state = State::kAtExchange;
  leave_fiber(g, false);
  f.state = State::kRunning;
  if (m.arrived != all) diverged("exchange");
}

// Gives `count` words and waits for the wave; the first lane's words.
const uint32_t* meet(uint32_t wave, const uint32_t* words, uint32_t count) {
  Grid* g = running;
  Fiber& f = g->fibers[g->current];
  const uint32_t first = g->current / wave * wave;
  Meeting& m = g->waves[first][f.exchanges & 1];
  auto* values = g->values[f.exchanges & 1];
  memcpy(values[g->current], words, count * sizeof *words);
  ++f.exchanges;
  meet_at(g, f, m, wave);
  m.leave(wave);
  return values[first];
}

}  // namespace

uint32_t exchange(uint32_t wave, uint32_t value, uint32_t lane) {
  if (lane >= wave) diverged("exchange");
  return meet(wave, &value, 1)[size_t{lane} * kPublished];
}

const uint32_t* publish(uint32_t wave, const uint32_t* words) { return meet(wave, words, kPublished); }

bool meet_group(uint32_t threads) {
  Grid* g = running;
  Fiber& f = g->fibers[g->current];
  const uint32_t first_thread = g->current / threads * threads;
  Meeting& m = g->warpgroups[first_thread][f.gatherings++ & 1];
  meet_at(g, f, m, threads);
  const bool first = m.left == 0;
  m.leave(threads);
  return first;
}

void await_phase(uint64_t* barrier, uint32_t parity) {
  Grid* g = running;
  Fiber& f = g->fibers[g->current];
  f.phase_of = barrier;
  f.parity = parity;
  f.state = State::kAtPhase;
  leave_fiber(g, false);
  f.state = State::kRunning;
}

void copy_async(void* to, const void* from) {
  Grid* g = running;
  g->copies[g->current].push_back({g->fibers[g->current].copies, to, from});
}

void commit_copies() { ++running->fibers[running->current].copies; }

void await_copies(uint32_t open) {
  Grid* g = running;
  std::vector<Copy>& copies = g->copies[g->current];
  const uint64_t committed = g->fibers[g->current].copies;
  size_t done = 0;
  for (; done < copies.size() && copies[done].group + open < committed; ++done) {
    const Copy& c = copies[done];
    if (c.from == nullptr) {
      memset(c.to, 0, 16);
    } else {
      memcpy(c.to, c.from, 16);
    }
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(done));
}

void fault(const char* what) {
  char line[160];
  const int n = std::snprintf(line, sizeof line, "emulation: block %u, thread %u: %s\n", running->block, running->current, what);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(n));
  std::abort();
}

bool run_grid(Entry entry, const void* arguments, uint32_t blocks, uint32_t shared_bytes, uint32_t threads) {
  // The stacks stay for the next grid of this host thread.
  struct Memory {
    Grid grid{};
    Memory() {
      void* p = mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      grid.stacks = p == MAP_FAILED ? nullptr : static_cast<char*>(p);
    }
    ~Memory() {
      if (grid.stacks != nullptr) munmap(grid.stacks, kMaxThreads * kStackBytes);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
  };
  thread_local const std::unique_ptr<Memory> memory(new (std::nothrow) Memory);
  if (memory == nullptr || memory->grid.stacks == nullptr) return false;
  Grid* g = &memory->grid;
  // Exactly as much as was asked for, from the allocator, so that a sanitizer sees what lies beyond.
  const std::unique_ptr<char, decltype(&std::free)> bytes(static_cast<char*>(aligned_alloc(16, (uint64_t{shared_bytes} + 16) / 16 * 16)),
                                                          std::free);
  if (bytes == nullptr) return false;
  running = g;
  g->entry = entry;
  g->arguments = arguments;
  g->blocks = blocks;
  g->shared_memory = bytes.get();
  g->shared_bytes = shared_bytes;
  g->threads = threads;
  for (uint32_t t = 0; t < kMaxThreads; ++t) g->fibers[t].stack = g->stacks + t * kStackBytes;
  for (g->block = 0; g->block < blocks; ++g->block) {
    memset(g->shared_memory, 0xff, shared_bytes);
    run_block(g);
  }
  running = nullptr;
  return true;
}

}  // namespace quire::gpu::emulation
