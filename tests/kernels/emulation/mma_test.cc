// The maps of matrix fragments and what is computed with them. Compiled once per width of a wave. Method: enumeration of all lanes and
// elements, the makers' tables, and exact products of small integers.
#include "drivers/gpu/mma.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace quire::gpu {
QUIRE_GPU_BEGIN
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): places in shared memory are 32 bits wide
namespace {

using drivers::Real;

#if QUIRE_WAVE == 32
using Backs = testing::Types<Sm80, Rdna>;
#else
using Backs = testing::Types<Cdna>;
#endif

template <typename Back>
class Maps : public testing::Test {};
TYPED_TEST_SUITE(Maps, Backs);

TYPED_TEST(Maps, EveryPlaceHasItsOwners) {
  const auto covers = [](uint32_t elements, Place (*map)(uint32_t, uint32_t), uint32_t owners) {
    uint32_t seen[kMatrix][kMatrix] = {};
    for (uint32_t lane = 0; lane < TypeParam::kLanes; ++lane) {
      for (uint32_t i = 0; i < elements; ++i) {
        const Place at = map(lane, i);
        ASSERT_LT(at.row, kMatrix);
        ASSERT_LT(at.column, kMatrix);
        ++seen[at.row][at.column];
      }
    }
    for (const auto& row : seen) {
      for (const uint32_t n : row) EXPECT_EQ(n, owners);
    }
  };
  covers(TypeParam::kA, &TypeParam::a, TypeParam::kCopies ? 2 : 1);
  covers(TypeParam::kB, &TypeParam::b, TypeParam::kCopies ? 2 : 1);
  covers(TypeParam::kC, &TypeParam::c, 1);
}

TYPED_TEST(Maps, RowsOfALaneAndLanesOfARow) {
  for (uint32_t lane = 0; lane < TypeParam::kLanes; ++lane) {
    std::set<uint32_t> rows;
    for (uint32_t i = 0; i < TypeParam::kC; ++i) {
      ASSERT_LT(TypeParam::slot(i), TypeParam::kRows);
      rows.insert(TypeParam::c(lane, i).row);
      for (uint32_t j = 0; j < TypeParam::kC; ++j) {
        EXPECT_EQ(TypeParam::slot(i) == TypeParam::slot(j), TypeParam::c(lane, i).row == TypeParam::c(lane, j).row);
      }
    }
    EXPECT_EQ(rows.size(), TypeParam::kRows);
    // All that exchanges in steps of kRowLane reach: together they have each column of the lane's rows once.
    std::set<uint32_t> lanes = {lane};
    for (uint32_t step = 0; step < TypeParam::kRowSteps; ++step) {
      for (const uint32_t l : std::set<uint32_t>(lanes)) lanes.insert(l ^ (TypeParam::kRowLane << step));
    }
    std::multiset<std::pair<uint32_t, uint32_t>> places;
    for (const uint32_t l : lanes) {
      for (uint32_t i = 0; i < TypeParam::kC; ++i) places.insert({TypeParam::c(l, i).row, TypeParam::c(l, i).column});
    }
    EXPECT_EQ(places.size(), TypeParam::kRows * kMatrix);
    for (const uint32_t row : rows) {
      for (uint32_t column = 0; column < kMatrix; ++column) EXPECT_EQ(places.count({row, column}), 1u);
    }
  }
}

#if QUIRE_WAVE == 32
// PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type": the formulas as they stand there, n = 8 twice.
TEST(Maps, Sm80IsWhatPtxPublishes) {
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t group_id = lane >> 2;
    const uint32_t in_group = lane % 4;
    for (uint32_t i = 0; i < 8; ++i) {
      const Place a = Sm80::a(lane, i);
      EXPECT_EQ(a.row, i < 2 || (4 <= i && i < 6) ? group_id : group_id + 8);
      EXPECT_EQ(a.column, i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8);
    }
    for (uint32_t half = 0; half < 2; ++half) {
      for (uint32_t i = 0; i < 4; ++i) {
        const Place b = Sm80::b(lane, half * 4 + i);
        EXPECT_EQ(b.row, i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8);
        EXPECT_EQ(b.column, group_id + half * 8);
        const Place c = Sm80::c(lane, half * 4 + i);
        EXPECT_EQ(c.row, i < 2 ? group_id : group_id + 8);
        EXPECT_EQ(c.column, in_group * 2 + (i & 1) + half * 8);
      }
    }
  }
}

// RDNA3 ISA, 7.9: A and B of lanes 16 to 31 repeat those of lanes 0 to 15; D has even rows in the lower half, odd ones in the upper.
// Operands are swapped, so the instruction's row is our column.
TEST(Maps, RdnaIsWhatItsManualPublishes) {
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t i = 0; i < 16; ++i) {
      EXPECT_EQ(Rdna::a(lane, i).row, lane % 16);
      EXPECT_EQ(Rdna::a(lane, i).column, i);
      EXPECT_EQ(Rdna::b(lane, i).column, lane % 16);
      EXPECT_EQ(Rdna::b(lane, i).row, i);
    }
    for (uint32_t i = 0; i < 8; ++i) {
      EXPECT_EQ(Rdna::c(lane, i).column, lane < 16 ? 2 * i : 2 * i + 1);
      EXPECT_EQ(Rdna::c(lane, i).row, lane % 16);
    }
  }
}
#else
// AMD's matrix instruction calculator on v_mfma_f32_16x16x16_f16: A[i][k] and B[k][j] in lane i + 16 * (k / 4) or j + 16 * (k / 4), element
// k % 4; D[i][j] in lane j + 16 * (i / 4), register i % 4. Operands are swapped, so i and j of D are too.
TEST(Maps, CdnaIsWhatItsMakerPublishes) {
  for (uint32_t i = 0; i < 16; ++i) {
    for (uint32_t j = 0; j < 16; ++j) {
      const Place a = Cdna::a(i + 16 * (j / 4), j % 4);
      EXPECT_TRUE(a.row == i && a.column == j);
      const Place b = Cdna::b(j + 16 * (i / 4), i % 4);
      EXPECT_TRUE(b.row == i && b.column == j);
      const Place d = Cdna::c(j + 16 * (i / 4), i % 4);
      EXPECT_TRUE(d.column == i && d.row == j);
    }
  }
}
#endif

TYPED_TEST(Maps, WhereNothingIsExchangedCIsA) {
  if (TypeParam::kCopies) GTEST_SKIP() << "as_a exchanges";
  ASSERT_EQ(TypeParam::kA, TypeParam::kC);
  for (uint32_t lane = 0; lane < TypeParam::kLanes; ++lane) {
    for (uint32_t i = 0; i < TypeParam::kC; ++i) {
      EXPECT_EQ(TypeParam::a(lane, i).row, TypeParam::c(lane, i).row);
      EXPECT_EQ(TypeParam::a(lane, i).column, TypeParam::c(lane, i).column);
    }
  }
}

// Every wave of a block multiplies its own tiles: C + A * B, with B as it lies and from its transpose, and (A * B) as the A of a second
// product. All numbers are small integers, so sums are exact in any order and in either format.
constexpr uint32_t kPitch = kMatrix + 8;
constexpr uint32_t kWaves = kThreads / kWave;

struct Products {
  uint16_t a[kWaves][kMatrix][kMatrix];
  uint16_t b[kWaves][kMatrix][kMatrix];
  float c[kWaves][kMatrix][kMatrix];
  float plain[kWaves][kMatrix][kMatrix];
  float transposed[kWaves][kMatrix][kMatrix];
  float twice[kWaves][kMatrix][kMatrix];
  float peaks[kWaves][kMatrix];
  float sums[kWaves][kMatrix];
};

template <typename Back, Real kReal>
void multiply_tiles(const void* arguments) {
  auto& p = *static_cast<Products*>(const_cast<void*>(arguments));
  const uint32_t wave = thread_index() / kWave;
  const uint32_t lane = thread_index() % kWave;
  uint16_t* a = reinterpret_cast<uint16_t*>(shared()) + wave * 3 * kMatrix * kPitch;
  uint16_t* b = a + kMatrix * kPitch;
  uint16_t* turned = b + kMatrix * kPitch;
  for (uint32_t i = lane; i < kMatrix * kMatrix; i += kWave) {
    a[i / kMatrix * kPitch + i % kMatrix] = p.a[wave][i / kMatrix][i % kMatrix];
    b[i / kMatrix * kPitch + i % kMatrix] = p.b[wave][i / kMatrix][i % kMatrix];
    turned[i % kMatrix * kPitch + i / kMatrix] = p.b[wave][i / kMatrix][i % kMatrix];
  }
  sync();
  FragmentA<Back> fa;
  FragmentB<Back> fb;
  FragmentB<Back> ft;
  FragmentC<Back> sum;
  FragmentC<Back> zero{};
  load_a(&fa, a, kPitch);
  load_b(&fb, b, kPitch);
  load_b_transposed(&ft, turned, kPitch);
  for (uint32_t i = 0; i < Back::kC; ++i) sum.x[i] = p.c[wave][Back::c(lane, i).row][Back::c(lane, i).column];
  FragmentC<Back> other = sum;
  multiply<kReal>(&sum, fa, fb);
  multiply<kReal>(&other, fa, ft);
  multiply<kReal>(&zero, fa, fb);
  FragmentC<Back> chained{};
  multiply<kReal>(&chained, as_a<kReal>(zero), fb);
  for (uint32_t i = 0; i < Back::kC; ++i) {
    const Place at = Back::c(lane, i);
    p.plain[wave][at.row][at.column] = sum.x[i];
    p.transposed[wave][at.row][at.column] = other.x[i];
    p.twice[wave][at.row][at.column] = chained.x[i];
  }
  for (uint32_t r = 0; r < Back::kRows; ++r) {
    float peak = -infinity();
    float total = 0.0f;
    uint32_t row = 0;
    for (uint32_t i = 0; i < Back::kC; ++i) {
      if (Back::slot(i) != r) continue;
      row = Back::c(lane, i).row;
      peak = std::max(peak, sum.x[i]);
      total += sum.x[i];
    }
    p.peaks[wave][row] = row_max<Back>(peak);
    p.sums[wave][row] = row_sum<Back>(total);
  }
}

template <typename Back, Real kReal>
void check_products() {
  Products p{};
  uint32_t seed = 12345;
  const auto next = [&seed](uint32_t range) {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>((seed >> 16) % range) - static_cast<int32_t>(range / 2));
  };
  float a[kWaves][kMatrix][kMatrix];
  float b[kWaves][kMatrix][kMatrix];
  for (uint32_t w = 0; w < kWaves; ++w) {
    for (uint32_t i = 0; i < kMatrix * kMatrix; ++i) {
      const uint32_t r = i / kMatrix;
      const uint32_t c = i % kMatrix;
      a[w][r][c] = next(7);
      b[w][r][c] = next(5);
      p.c[w][r][c] = next(1000);
      p.a[w][r][c] = static_cast<uint16_t>(round_to<kReal>(a[w][r][c]));
      p.b[w][r][c] = static_cast<uint16_t>(round_to<kReal>(b[w][r][c]));
    }
  }
  ASSERT_TRUE(emulation::run_grid(&multiply_tiles<Back, kReal>, &p, 1, kWaves * 3 * kMatrix * kPitch * 2));
  for (uint32_t w = 0; w < kWaves; ++w) {
    float ab[kMatrix][kMatrix] = {};
    for (uint32_t i = 0; i < kMatrix; ++i) {
      float peak = -infinity();
      float total = 0.0f;
      for (uint32_t j = 0; j < kMatrix; ++j) {
        for (uint32_t k = 0; k < kMatrix; ++k) ab[i][j] += a[w][i][k] * b[w][k][j];
        EXPECT_EQ(p.plain[w][i][j], p.c[w][i][j] + ab[i][j]) << i << ", " << j;
        EXPECT_EQ(p.transposed[w][i][j], p.c[w][i][j] + ab[i][j]) << i << ", " << j;
        peak = std::max(peak, p.plain[w][i][j]);
        total += p.plain[w][i][j];
      }
      EXPECT_EQ(p.peaks[w][i], peak);
      EXPECT_EQ(p.sums[w][i], total);
    }
    for (uint32_t i = 0; i < kMatrix; ++i) {
      for (uint32_t j = 0; j < kMatrix; ++j) {
        float want = 0.0f;
        for (uint32_t k = 0; k < kMatrix; ++k) want += ab[i][k] * b[w][k][j];  // |ab| <= 96: exact in bf16 as well
        EXPECT_EQ(p.twice[w][i][j], want) << i << ", " << j;
      }
    }
  }
}

TYPED_TEST(Maps, ProductsAreExact) {
  check_products<TypeParam, Real::kBfloat16>();
  check_products<TypeParam, Real::kFloat16>();
}

#if QUIRE_WAVE == 32
TEST(Copies, ArriveNoSoonerThanTheyAreAwaited) {
  alignas(16) static char from[3][16];
  for (int i = 0; i < 3; ++i) memset(from[i], i + 1, 16);
  struct Result {
    bool right;
  } result{true};
  const auto kernel = [](const void* p) {
    auto* r = static_cast<Result*>(const_cast<void*>(p));
    char* mine = shared() + thread_index() * 48;
    const auto is = [&](int n, int value) { r->right = r->right && static_cast<unsigned char>(mine[n * 16 + 7]) == value; };
    copy_async(mine, from[0], true);
    commit_copies();
    copy_async(mine + 16, from[1], true);
    commit_copies();
    copy_async(mine + 32, from[2], false);
    commit_copies();
    is(0, 0xff);
    await_copies<2>();
    is(0, 1);
    is(1, 0xff);
    await_copies<1>();
    is(1, 2);
    is(2, 0xff);
    await_copies<0>();
    is(2, 0);
  };
  ASSERT_TRUE(emulation::run_grid(kernel, &result, 2, kThreads * 48));
  EXPECT_TRUE(result.right);
}

TEST(CopiesDeathTest, WhatTheMachineRefusesIsCaught) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto forgotten = [](const void* from) {
    copy_async(shared() + thread_index() * 16, from, false);
    commit_copies();
  };
  EXPECT_DEATH(emulation::run_grid(forgotten, nullptr, 1, kThreads * 16), "nobody waited");
  const auto crooked = [](const void*) {
    FragmentA<Sm80> a;
    load_a(&a, reinterpret_cast<uint16_t*>(shared()) + 1, kPitch);
  };
  EXPECT_DEATH(emulation::run_grid(crooked, nullptr, 1, 4096), "multiple of 16");
}
#endif

}  // namespace
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
QUIRE_GPU_END
}  // namespace quire::gpu
