// What sm_90a has beside sm_90: products of a warpgroup (wgmma), boxes of tensors brought by the copy engine (TMA), and barriers in shared
// memory that both report to (mbarrier). As in mma.h every instruction is a thin function, and the emulation computes what the instruction
// is defined to: it decodes the very descriptors, gathers the registers of 128 lanes by the maps here, swizzles the very addresses. What a
// descriptor or a map says wrongly comes out wrong there too, unless it is read wrongly in both; the places in the PTX ISA are named.
//
// Everything asynchronous happens in the emulation as late as it may (or boxes at once, where a test wants that): products when their
// group is awaited, boxes when their barrier is.
#pragma once

#include "drivers/gpu/boxes.h"
#include "drivers/gpu/mma.h"

#if defined(QUIRE_GPU_EMULATION)
#define QUIRE_GPU_HOPPER (QUIRE_WAVE == 32)
#include "drivers/gpu/emulation/warpgroup.h"
#elif defined(QUIRE_GPU_CUDA) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define QUIRE_GPU_HOPPER 1
#else
#define QUIRE_GPU_HOPPER 0
#endif

namespace quire::gpu {

inline constexpr uint32_t kWarpgroup = 128;
inline constexpr uint32_t kGroupRows = 64;  // rows of a warpgroup's product

// PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16": warp w of the group has rows 16 w to 16 w + 15, and in them 16 columns of D,
// and A, are spread as those of mma.m16n8k16 are: FragmentC<Sm80>[N / 16] and FragmentA<Sm80>.
struct Sm90 {
  QUIRE_HD static constexpr Place a(uint32_t thread, uint32_t i) {
    return {thread / 32 * 16 + Sm80::a(thread % 32, i).row, Sm80::a(thread % 32, i).column};
  }
  QUIRE_HD static constexpr Place d(uint32_t thread, uint32_t i) {
    return {thread / 32 * 16 + Sm80::c(thread % 32, i % 8).row, i / 8 * 16 + Sm80::c(thread % 32, i % 8).column};
  }
};

// Tiles of 16-bit elements in shared memory: rows of 64 elements, 128 bytes, one behind the other, from a multiple of 1024 bytes on. The 16
// bytes at an address lie where its bits 4 to 6 are exchanged by bits 7 to 9 (PTX ISA, "128-Byte swizzle mode"; the copy engine's
// CU_TENSOR_MAP_SWIZZLE_128B is the same).
inline constexpr uint32_t kSwizzleBytes = 1024;
QUIRE_HD constexpr uint32_t swizzled(uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

// PTX ISA, "Matrix descriptor" of wgmma: bits 0-13 the address, 16-29 the leading and 32-45 the stride byte offset, all without their
// lowest four bits; 49-51 the base offset, 0 where patterns begin at multiples of 1024; 62-63 the swizzle, 1 = 128 bytes.
// Canonical layouts with that swizzle (T = 8 elements of 16 bits):
//   K-major   ((8, m), (T, 2)) : ((8T, stride), (1, T))     rows of 64 along k; `stride` between eights of rows; leading is not used
//   MN-major  ((T, 8, m), (8, k)) : ((1, T, leading), (8T, stride))   rows of 64 along m or n; `leading` between 64s of these, `stride`
//                                                                     between eights of k
QUIRE_HD constexpr uint64_t describe_matrix(uint32_t address, uint32_t leading, uint32_t stride) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>((leading & 0x3ffff) >> 4) << 16 |
         static_cast<uint64_t>((stride & 0x3ffff) >> 4) << 32 | uint64_t{1} << 62;
}
// The same matrix `bytes` on, of which it knows no more than 18 bits.
QUIRE_HD constexpr uint64_t moved(uint64_t descriptor, uint32_t bytes) { return descriptor + (bytes >> 4); }
// Rows of 64 elements along k from `address` on: 16 of them, which is 32 bytes, are a product's depth.
QUIRE_HD constexpr uint64_t describe_rows(uint32_t address) { return describe_matrix(address, 16, kSwizzleBytes); }
// Rows along n; those behind the 64th column lie `leading` bytes on. Sixteen rows are a product's depth.
QUIRE_HD constexpr uint64_t describe_columns(uint32_t address, uint32_t leading) {
  return describe_matrix(address, leading, kSwizzleBytes);
}

QUIRE_GPU_BEGIN
#if QUIRE_GPU_HOPPER

#if defined(QUIRE_GPU_EMULATION)

inline uint32_t shared_address(const void* p) { return emulation::shared_address(p); }
inline void wait_for_warpgroup() { emulation::warpgroup_sync(); }
inline bool elected() { return thread_index() % 32 == 0; }
inline uint32_t ballot(bool mine) {
  uint32_t words[emulation::kPublished] = {mine ? 1u : 0u};
  const uint32_t* all = emulation::publish(32, words);
  uint32_t bits = 0;
  for (uint32_t l = 0; l < 32; ++l) bits |= all[size_t{l} * emulation::kPublished] << l;
  return bits;
}

inline void barrier_init(uint64_t* b, uint32_t arrivals) { emulation::barrier_init(b, arrivals); }
inline void barriers_are_made() {}
inline void barrier_arrive(uint64_t* b) { emulation::barrier_arrive(b, 0); }
inline void barrier_expect(uint64_t* b, uint32_t bytes) { emulation::barrier_arrive(b, bytes); }
inline void barrier_wait(uint64_t* b, uint32_t parity) { emulation::barrier_wait(b, parity); }
inline void load_box(void* to, const TensorMap& map, uint64_t* barrier, uint32_t d, uint32_t token, uint32_t head, uint32_t page) {
  const uint32_t from[4] = {d, token, head, page};
  emulation::load_box(to, &map, barrier, from);
}
inline void prefetch_map(const TensorMap&) {}
inline void fence_async() {}
template <uint32_t kCount, bool kMore>
inline void set_registers() {}

template <uint32_t kCount>
inline void hold(float*) {}
inline void products_begin() { emulation::products_begin(); }
inline void products_commit() { emulation::products_commit(); }
template <uint32_t kOpen>
inline void products_await() {
  emulation::products_await(kOpen);
}
template <drivers::Real kReal, uint32_t kN, bool kColumns>
inline void multiply_group(float* d, uint64_t a, uint64_t b, bool add) {
  emulation::multiply_group({d, nullptr, a, b, kN, kReal == drivers::Real::kFloat16, kColumns, add});
}
template <drivers::Real kReal, uint32_t kN, bool kColumns>
inline void multiply_group(float* d, const FragmentA<Sm80>& a, uint64_t b, bool add) {
  emulation::multiply_group({d, a.x, 0, b, kN, kReal == drivers::Real::kFloat16, kColumns, add});
}

#else

QUIRE_GPU_DEVICE uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
// The 128 threads of a warpgroup; barrier 0 is that of the block.
QUIRE_GPU_DEVICE void wait_for_warpgroup() { asm volatile("bar.sync %0, 128;" ::"r"(threadIdx.x / kWarpgroup + 1) : "memory"); }
QUIRE_GPU_DEVICE bool elected() { return threadIdx.x % 32 == 0; }
QUIRE_GPU_DEVICE uint32_t ballot(bool mine) { return __ballot_sync(0xffffffffu, mine ? 1 : 0); }

// A barrier's phase ends when so many have arrived and all bytes expected are there. Waiting is for the phase of a parity to have ended:
// of a new barrier that of 1 has.
QUIRE_GPU_DEVICE void barrier_init(uint64_t* b, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}
// In the thread that made them, before a barrier of the block: the copy engine sees them too.
QUIRE_GPU_DEVICE void barriers_are_made() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
QUIRE_GPU_DEVICE void barrier_arrive(uint64_t* b) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(shared_address(b)) : "memory");
}
// Arrives, and tells how many bytes of boxes belong to the phase.
QUIRE_GPU_DEVICE void barrier_expect(uint64_t* b, uint32_t bytes) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(shared_address(b)), "r"(bytes)
               : "memory");
}
QUIRE_GPU_DEVICE void barrier_wait(uint64_t* b, uint32_t parity) {
  uint32_t done = 0;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(b)), "r"(parity)
                 : "memory");
  } while (done == 0);
}
// One thread's call brings the whole box; what lies outside the tensor becomes zeros and counts among the bytes.
QUIRE_GPU_DEVICE void load_box(void* to, const TensorMap& map, uint64_t* barrier, uint32_t d, uint32_t token, uint32_t head,
                               uint32_t page) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(
                   shared_address(to)),
               "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(barrier)), "r"(d), "r"(token), "r"(head), "r"(page)
               : "memory");
}
QUIRE_GPU_DEVICE void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(&map)) : "memory");
}
// What this thread has written to shared memory, cp.async included, before products and boxes that follow (PTX ISA, "async proxy").
QUIRE_GPU_DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// All threads of a warpgroup: so many registers from here on, more or fewer than the launch gave (PTX ISA, setmaxnreg).
template <uint32_t kCount, bool kMore>
QUIRE_GPU_DEVICE void set_registers() {
  static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256);
  if constexpr (kMore) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
  }
}

// Sums stay in their registers across products: nothing is moved to or from them between here and there.
template <uint32_t kCount>
QUIRE_GPU_DEVICE void hold(float* x) {
  QUIRE_GPU_UNROLL
  for (uint32_t i = 0; i < kCount; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
// Before the first product of a group, and after registers that it reads or sums into were written (PTX ISA, wgmma.fence).
QUIRE_GPU_DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
QUIRE_GPU_DEVICE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// All groups but the last kOpen are done: their sums may be read, what they read may be written.
template <uint32_t kOpen>
QUIRE_GPU_DEVICE void products_await() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}

// Registers in the text of an instruction, and as its operands.
#define QUIRE_TEN(t) "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9, "
#define QUIRE_TEXT30 QUIRE_TEN("") QUIRE_TEN("1") QUIRE_TEN("2")
#define QUIRE_TEXT60 QUIRE_TEXT30 QUIRE_TEN("3") QUIRE_TEN("4") QUIRE_TEN("5")
#define QUIRE_TEXT120 QUIRE_TEXT60 QUIRE_TEN("6") QUIRE_TEN("7") QUIRE_TEN("8") QUIRE_TEN("9") QUIRE_TEN("10") QUIRE_TEN("11")
#define QUIRE_TEXT32 QUIRE_TEXT30 "%30, %31"
#define QUIRE_TEXT64 QUIRE_TEXT60 "%60, %61, %62, %63"
#define QUIRE_TEXT128 QUIRE_TEXT120 "%120, %121, %122, %123, %124, %125, %126, %127"
#define QUIRE_HELD8(i) \
  "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3]), "+f"(x[i + 4]), "+f"(x[i + 5]), "+f"(x[i + 6]), "+f"(x[i + 7])
#define QUIRE_HELD32 QUIRE_HELD8(0), QUIRE_HELD8(8), QUIRE_HELD8(16), QUIRE_HELD8(24)
#define QUIRE_HELD64 QUIRE_HELD32, QUIRE_HELD8(32), QUIRE_HELD8(40), QUIRE_HELD8(48), QUIRE_HELD8(56)
#define QUIRE_HELD128                                                                                                                    \
  QUIRE_HELD64, QUIRE_HELD8(64), QUIRE_HELD8(72), QUIRE_HELD8(80), QUIRE_HELD8(88), QUIRE_HELD8(96), QUIRE_HELD8(104), QUIRE_HELD8(112), \
      QUIRE_HELD8(120)
// A and B by descriptors: operands behind the sums are A, B, whether to add, and whether rows of B lie along n.
#define QUIRE_PRODUCT_SS(n, type, count, a, b, p, t)                                                                         \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type \
               " {" QUIRE_TEXT##count "}, %" #a ", %" #b ", p, 1, 1, 0, %" #t ";\n}"                                         \
               : QUIRE_HELD##count                                                                                           \
               : "l"(left), "l"(right), "r"(add ? 1 : 0), "n"(kColumns ? 1 : 0))
// A by registers.
#define QUIRE_PRODUCT_RS(n, type, count, a0, a1, a2, a3, b, p, t)                                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type \
               " {" QUIRE_TEXT##count "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", p, 1, 1, %" #t ";\n}"           \
               : QUIRE_HELD##count                                                                                           \
               : "r"(left.x[0]), "r"(left.x[1]), "r"(left.x[2]), "r"(left.x[3]), "l"(right), "r"(add ? 1 : 0), "n"(kColumns ? 1 : 0))

// x = A * B, or is added to: 64 rows, kN columns, a depth of 16; x has kN / 2 sums of the thread. kColumns: B's rows lie along n.
template <drivers::Real kReal, uint32_t kN, bool kColumns>
QUIRE_GPU_DEVICE void multiply_group(float* x, uint64_t left, uint64_t right, bool add) {
  static_assert(kN == 64);
  if constexpr (kReal == drivers::Real::kFloat16) {
    QUIRE_PRODUCT_SS(64, "f16", 32, 32, 33, 34, 35);
  } else {
    QUIRE_PRODUCT_SS(64, "bf16", 32, 32, 33, 34, 35);
  }
}

template <drivers::Real kReal, uint32_t kN, bool kColumns>
QUIRE_GPU_DEVICE void multiply_group(float* x, const FragmentA<Sm80>& left, uint64_t right, bool add) {
  static_assert(kN == 64 || kN == 128 || kN == 256);
  if constexpr (kReal == drivers::Real::kFloat16) {
    if constexpr (kN == 64) QUIRE_PRODUCT_RS(64, "f16", 32, 32, 33, 34, 35, 36, 37, 38);
    if constexpr (kN == 128) QUIRE_PRODUCT_RS(128, "f16", 64, 64, 65, 66, 67, 68, 69, 70);
    if constexpr (kN == 256) QUIRE_PRODUCT_RS(256, "f16", 128, 128, 129, 130, 131, 132, 133, 134);
  } else {
    if constexpr (kN == 64) QUIRE_PRODUCT_RS(64, "bf16", 32, 32, 33, 34, 35, 36, 37, 38);
    if constexpr (kN == 128) QUIRE_PRODUCT_RS(128, "bf16", 64, 64, 65, 66, 67, 68, 69, 70);
    if constexpr (kN == 256) QUIRE_PRODUCT_RS(256, "bf16", 128, 128, 129, 130, 131, 132, 133, 134);
  }
}
#undef QUIRE_PRODUCT_RS
#undef QUIRE_PRODUCT_SS
#undef QUIRE_HELD128
#undef QUIRE_HELD64
#undef QUIRE_HELD32
#undef QUIRE_HELD8
#undef QUIRE_TEXT128
#undef QUIRE_TEXT64
#undef QUIRE_TEXT32
#undef QUIRE_TEXT120
#undef QUIRE_TEXT60
#undef QUIRE_TEXT30
#undef QUIRE_TEN
#endif

#endif
QUIRE_GPU_END
}  // namespace quire::gpu
