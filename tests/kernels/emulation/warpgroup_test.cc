// What sm_90a has, as drivers/gpu/hopper.h says it and the emulation does it: maps of a warpgroup's registers, descriptors, swizzled boxes
// of paged tensors, barriers with bytes. Method: the PTX ISA's formulas, enumeration, exact products of small integers against sums in
// plain loops over the tensors that the boxes came from.
#include "drivers/gpu/hopper.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide
namespace {

using drivers::Real;

// PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16", the formulas of its figures for A and D.
TEST(Warpgroup, MapsAreWhatPtxPublishes) {
  for (uint32_t t = 0; t < kWarpgroup; ++t) {
    const uint32_t warp = t / 32;
    const uint32_t lane = t % 32;
    for (uint32_t i = 0; i < 8; ++i) {
      const Place a = Sm90::a(t, i);
      EXPECT_EQ(a.row, warp * 16 + lane / 4 + (i / 2 % 2 == 1 ? 8 : 0));
      EXPECT_EQ(a.column, lane % 4 * 2 + i % 2 + (i >= 4 ? 8 : 0));
    }
    for (uint32_t i = 0; i < 128; ++i) {
      const Place d = Sm90::d(t, i);
      EXPECT_EQ(d.row, warp * 16 + lane / 4 + i / 2 % 2 * 8);
      EXPECT_EQ(d.column, i / 4 * 8 + lane % 4 * 2 + i % 2);
    }
  }
}

TEST(Warpgroup, EveryPlaceOfAProductHasOneOwner) {
  std::set<std::pair<uint32_t, uint32_t>> a;
  std::set<std::pair<uint32_t, uint32_t>> d;
  for (uint32_t t = 0; t < kWarpgroup; ++t) {
    for (uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(a.insert({Sm90::a(t, i).row, Sm90::a(t, i).column}).second);
    for (uint32_t i = 0; i < 128; ++i) EXPECT_TRUE(d.insert({Sm90::d(t, i).row, Sm90::d(t, i).column}).second);
  }
  EXPECT_EQ(a.size(), kGroupRows * kMatrix);
  EXPECT_EQ(d.size(), kGroupRows * 256);
  EXPECT_EQ(d.rbegin()->first, kGroupRows - 1);
}

// Bit by bit: PTX ISA, "Matrix descriptor".
TEST(Warpgroup, DescriptorsHaveTheirFields) {
  EXPECT_EQ(describe_matrix(0x400, 16, 1024), 0x4000'0040'0001'0040u);
  EXPECT_EQ(describe_matrix(0x3fff0, 0x3fff0, 0x3fff0), 0x4000'3fff'3fff'3fffu);
  EXPECT_EQ(describe_matrix(0x10, 0, 0), 0x4000'0000'0000'0001u);
  EXPECT_EQ(describe_rows(0x800), describe_matrix(0x800, 16, 1024));
  EXPECT_EQ(describe_columns(0x800, 0x2000), describe_matrix(0x800, 0x2000, 1024));
}

// Sixteens of bytes of a row go to sixteens of the same row, and those of a column to all eight.
TEST(Warpgroup, SwizzlesExchangeWithinARow) {
  for (uint32_t row = 0; row < 16; ++row) {
    std::set<uint32_t> places;
    for (uint32_t c = 0; c < 8; ++c) {
      const uint32_t at = swizzled(4096 + row * 128 + c * 16 + 6);
      EXPECT_EQ(at / 128, 32 + row);
      EXPECT_EQ(at % 16, 6u);
      EXPECT_EQ(at / 16 % 8, c ^ row % 8);
      places.insert(at);
    }
    EXPECT_EQ(places.size(), 8u);
  }
}

// Tensors of pages, and a block of a warpgroup that multiplies and a warp that brings: D = A * B^T, with B's rows along k, then E = D * C,
// with D from registers and C's rows along n.
constexpr uint32_t kPageTokens = 48;  // a multiple of 16 that does not divide 64
constexpr uint32_t kDepth = 128;      // of the first product
constexpr uint32_t kHeads = 3;

struct Paged {
  uint32_t width;
  uint64_t token, head, page;  // bytes
  std::vector<uint16_t> bits;
  std::vector<float> values;  // [token][width] of the head that is read
  BoxShape shape{};
};

constexpr uint32_t kHead = 1;
constexpr uint32_t page_of(uint32_t token) { return 3 - token / kPageTokens; }

Paged make_tensor(uint32_t width, uint64_t token, uint64_t head, uint64_t page, uint32_t range, Real real) {
  Paged p{width, token, head, page, {}, {}, {}};
  p.bits.assign((4 * page + kPageTokens * token + kHeads * head) / 2 + 64, 0x7fff);  // NaN
  uint32_t seed = width + range;
  for (uint32_t t = 0; t < kGroupRows; ++t) {
    for (uint32_t d = 0; d < width; ++d) {
      seed = seed * 1664525u + 1013904223u;
      const float x = static_cast<float>(seed >> 16 & 0x7fff) / 32768.0f;
      const float v = std::floor(x * static_cast<float>(2 * range + 1)) - static_cast<float>(range);
      const uint64_t at = page_of(t) * page + t % kPageTokens * token + kHead * head + uint64_t{d} * 2;
      p.bits[at / 2] = static_cast<uint16_t>(real == Real::kFloat16 ? drivers::fp16_of_float(v) : drivers::bf16_of_float(v));
      p.values.push_back(v);
    }
  }
  p.shape = {
      p.bits.data(), {width, kPageTokens, kHeads, 4}, {token, head, page}, {kSwizzleColumns, kBoxTokens, 1, 1}, real == Real::kFloat16};
  return p;
}

struct Job {
  TensorMap a, b, c;
  float first[kGroupRows][kGroupRows];  // A * B^T
  float again[kGroupRows][kGroupRows];  // added to itself, A from registers
  float second[kGroupRows][256];        // first * C
};

constexpr uint32_t kTile = kGroupRows * 128;  // bytes of 64 rows of 64 elements
constexpr uint32_t kJobShared = 1024 + 4 * kTile + 4 * kTile + 64;

QUIRE_GPU_DEVICE void bring_tile(char* to, const TensorMap& map, uint64_t* barrier, uint32_t chunks) {
  if (elected()) barrier_expect(barrier, chunks * kTile);
  sync_wave();
  const uint32_t box = thread_index() % 32;
  if (box >= kGroupRows / kBoxTokens) return;
  const uint32_t token = box * kBoxTokens;
  for (uint32_t c = 0; c < chunks; ++c) {
    load_box(to + c * kTile + box * kBoxTokens * 128, map, barrier, c * kSwizzleColumns, token % kPageTokens, kHead, page_of(token));
  }
}

template <Real kReal, uint32_t kN>
void multiply_tiles(const void* arguments) {
  auto& job = *static_cast<Job*>(const_cast<void*>(arguments));
  char* base = shared() + (kSwizzleBytes - shared_address(shared()) % kSwizzleBytes) % kSwizzleBytes;
  char* b = base + 2 * kTile;
  char* c = b + 2 * kTile;
  auto* barrier = reinterpret_cast<uint64_t*>(c + 4 * kTile);
  if (thread_index() == 0) {
    barrier_init(barrier, 1);
    barrier_init(barrier + 1, 2);
    barriers_are_made();
  }
  sync();
  const uint32_t t = thread_index();
  if (t >= kWarpgroup) {
    bring_tile(base, job.a, barrier, 2);
    barrier_wait(barrier, 0);
    bring_tile(b, job.b, barrier, 2);  // the next phase
    bring_tile(c, job.c, barrier + 1, kN / 64);
    if (elected()) barrier_arrive(barrier + 1);
    return;
  }
  barrier_wait(barrier, 0);
  barrier_wait(barrier, 1);
  float d[32];
  products_begin();
  for (uint32_t k = 0; k < kDepth; k += kMatrix) {
    const uint32_t at = k / 64 * kTile + k % 64 * 2;
    multiply_group<kReal, 64, false>(d, describe_rows(shared_address(base) + at), describe_rows(shared_address(b) + at), k != 0);
  }
  products_commit();
  products_await<0>();
  FragmentA<Sm80> weights[4];
  for (uint32_t i = 0; i < 32; ++i) job.first[Sm90::d(t, i).row][Sm90::d(t, i).column] = d[i];
  for (uint32_t j = 0; j < 4; ++j) {
    FragmentC<Sm80> x;
    memcpy(x.x, d + j * 8, sizeof x.x);
    weights[j] = as_a<kReal>(x);
  }
  // Once more, with A as this thread's registers.
  FragmentA<Sm80> rows[kDepth / kMatrix];
  for (uint32_t k = 0; k < kDepth / kMatrix; ++k) {
    for (uint32_t i = 0; i < 8; ++i) {
      const Place at = Sm90::a(t, i);
      uint16_t bits = 0;
      const uint32_t column = k * 16 + at.column;
      const uint32_t from = swizzled(shared_address(base) + column / 64 * kTile + at.row * 128 + column % 64 * 2);
      memcpy(&bits, base + (from - shared_address(base)), 2);
      rows[k].x[i / 2] = i % 2 == 0 ? bits : rows[k].x[i / 2] | static_cast<uint32_t>(bits) << 16;
    }
  }
  products_begin();
  for (uint32_t k = 0; k < kDepth; k += kMatrix) {
    multiply_group<kReal, 64, false>(d, rows[k / kMatrix], describe_rows(shared_address(b) + k / 64 * kTile + k % 64 * 2), true);
  }
  products_commit();
  barrier_wait(barrier + 1, 0);
  float e[kN / 2];
  products_begin();
  for (uint32_t g = 0; g < 4; ++g) {
    multiply_group<kReal, kN, true>(e, weights[g], describe_columns(shared_address(c) + g * kMatrix * 128, kTile), g != 0);
  }
  products_commit();
  products_await<1>();
  for (uint32_t i = 0; i < 32; ++i) job.again[Sm90::d(t, i).row][Sm90::d(t, i).column] = d[i];
  products_await<0>();
  for (uint32_t i = 0; i < kN / 2; ++i) job.second[Sm90::d(t, i).row][Sm90::d(t, i).column] = e[i];
}

template <Real kReal, uint32_t kN>
void check_products(uint32_t depth, uint32_t width) {
  // Tokens before heads, heads before tokens, and pages whose distance is no multiple of either.
  const Paged a = make_tensor(depth, 2 * kDepth + 16, kPageTokens * (2 * kDepth + 16), 4 * kPageTokens * (2 * kDepth + 16) + 48, 1, kReal);
  const Paged b = make_tensor(depth, kHeads * 2 * kDepth, 2 * kDepth, kPageTokens * kHeads * 2 * kDepth + 16, 1, kReal);
  const Paged c = make_tensor(width, 1040, 1040 * kPageTokens, 1040 * kPageTokens * kHeads, 2, kReal);
  auto job = std::make_unique<Job>();
  ASSERT_TRUE(emulation::make_map(a.shape, &job->a));
  ASSERT_TRUE(emulation::make_map(b.shape, &job->b));
  ASSERT_TRUE(emulation::make_map(c.shape, &job->c));
  for (const bool at_once : {false, true}) {
    emulation::boxes_come_at_once(at_once);
    memset(job->first, 0xff, sizeof *job - offsetof(Job, first));
    ASSERT_TRUE(emulation::run_grid(&multiply_tiles<kReal, kN>, job.get(), 2, kJobShared, kWarpgroup + 32));
    emulation::boxes_come_at_once(false);
    for (uint32_t i = 0; i < kGroupRows; ++i) {
      float first[kGroupRows];
      for (uint32_t j = 0; j < kGroupRows; ++j) {
        first[j] = 0.0f;
        for (uint32_t k = 0; k < depth; ++k) first[j] += a.values[i * depth + k] * b.values[j * depth + k];
        ASSERT_EQ(job->first[i][j], first[j]) << i << ", " << j;
        ASSERT_EQ(job->again[i][j], 2 * first[j]) << i << ", " << j;
      }
      for (uint32_t n = 0; n < kN; ++n) {
        float second = 0.0f;  // and zeros behind the tensor's last column
        for (uint32_t k = 0; k < kGroupRows && n < width; ++k) second += first[k] * c.values[k * width + n];
        ASSERT_EQ(job->second[i][n], second) << i << ", " << n;
      }
    }
  }
}

TEST(Warpgroup, ProductsOfBoxesAreExact) {
  check_products<Real::kBfloat16, 64>(128, 64);
  check_products<Real::kBfloat16, 128>(128, 128);
  check_products<Real::kBfloat16, 128>(80, 72);
  check_products<Real::kFloat16, 256>(128, 256);
  check_products<Real::kFloat16, 256>(96, 130);
}

TEST(Warpgroup, MapsThatTheDriverRefusesAreRefused) {
  alignas(16) static char memory[64];
  TensorMap map{};
  const BoxShape good{memory, {64, 16, 1, 1}, {128, 16, 2048}, {64, 16, 1, 1}, false};
  EXPECT_TRUE(emulation::make_map(good, &map));
  BoxShape bad = good;
  bad.base = memory + 8;
  EXPECT_FALSE(emulation::make_map(bad, &map));
  for (int i = 0; i < 3; ++i) {
    bad = good;
    bad.stride[i] += 8;
    EXPECT_FALSE(emulation::make_map(bad, &map)) << i;
    bad.stride[i] = uint64_t{1} << 40;
    EXPECT_FALSE(emulation::make_map(bad, &map)) << i;
  }
  for (int i = 0; i < 4; ++i) {
    bad = good;
    bad.size[i] = 0;
    EXPECT_FALSE(emulation::make_map(bad, &map)) << i;
  }
  bad = good;
  bad.box[0] = 72;  // wider than the swizzle
  EXPECT_FALSE(emulation::make_map(bad, &map));
}

// Phases: of a new barrier the one before has ended; then by turns, when all have arrived.
TEST(Warpgroup, BarriersHaveTheirPhases) {
  struct Result {
    uint32_t order[4];
    uint32_t n;
  } result{};
  const auto kernel = [](const void* p) {
    auto* r = static_cast<Result*>(const_cast<void*>(p));
    auto* b = reinterpret_cast<uint64_t*>(shared());
    if (thread_index() == 0) {
      barrier_init(b, 3);
      barriers_are_made();
    }
    sync();
    if (thread_index() < 32) {
      barrier_wait(b, 1);  // has ended
      if (elected()) r->order[r->n++] = 1;
      barrier_wait(b, 0);
      if (elected()) r->order[r->n++] = 3;
      barrier_wait(b, 1);
      if (elected()) r->order[r->n++] = 4;
      return;
    }
    ballot(true);  // gives the others time
    if (elected()) {
      if (thread_index() == 32) r->order[r->n++] = 2;
      barrier_arrive(b);
    }
    barrier_wait(b, 0);
    if (elected()) barrier_arrive(b);
  };
  ASSERT_TRUE(emulation::run_grid(kernel, &result, 1, 64));
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(result.order[i], i + 1);
}

TEST(WarpgroupDeathTest, WhatTheMachineDoesNotAllowIsCaught) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto run = [](emulation::Entry entry) { return emulation::run_grid(entry, nullptr, 1, 8192, kWarpgroup); };
  EXPECT_DEATH(run([](const void*) { barrier_wait(reinterpret_cast<uint64_t*>(shared()), 0); }), "nobody made");
  EXPECT_DEATH(run([](const void*) {
                 auto* b = reinterpret_cast<uint64_t*>(shared());
                 if (thread_index() == 0) barrier_init(b, 1);
                 sync();
                 barrier_wait(b, 0);  // nobody arrives
               }),
               "barrier");
  EXPECT_DEATH(run([](const void*) {
                 float d[32] = {};
                 multiply_group<Real::kFloat16, 64, false>(d, 0, 0, false);
               }),
               "without a fence");
  EXPECT_DEATH(run([](const void*) {
                 float d[32] = {};
                 products_begin();
                 multiply_group<Real::kFloat16, 64, false>(d, describe_rows(2048), describe_rows(2048), false);
                 products_commit();
               }),
               "products that nobody waited for");
  EXPECT_DEATH(run([](const void*) {
                 float d[32] = {};
                 products_begin();
                 multiply_group<Real::kFloat16, 64, false>(d, describe_rows(2048), describe_rows(2048 + thread_index() / 64 * 32), false);
                 products_commit();
                 products_await<0>();
               }),
               "the same product");
  EXPECT_DEATH(run([](const void*) {
                 float d[32] = {};
                 products_begin();
                 multiply_group<Real::kFloat16, 64, false>(d, describe_rows(2048), describe_rows(4096), false);
                 products_commit();
                 products_await<0>();
               }),
               "not in shared memory");
}

}  // namespace
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
