// The unit in software against sums written down one by one, what it refuses, and what the kernels do with it: how many tiles they load,
// multiply and store, and that they leave none behind.
#include "drivers/cpu/cpu_kernels.h"
#include "tests/kernels/tiles/tile_unit.h"

#include <quire/driver.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace quire::tiles {
namespace {

struct Shapes {
  uint8_t bytes[64] = {1};
  Shapes& tile(int t, int rows, int width) {
    bytes[16 + 2 * t] = static_cast<uint8_t>(width);
    bytes[48 + t] = static_cast<uint8_t>(rows);
    return *this;
  }
};

float wide(uint16_t bits) {
  const uint32_t word = uint32_t{bits} << 16;
  float f = 0;
  memcpy(&f, &word, 4);
  return f;
}

float flushed(float f) { return std::fabs(f) < FLT_MIN ? std::copysign(0.0f, f) : f; }

// Mostly moderate numbers; denormal ones, zeros of both signs, huge ones, infinities and NaN among them.
uint16_t random_bf16(std::mt19937* random, bool special) {
  const uint32_t r = (*random)();
  const auto sign = static_cast<uint16_t>(r & 0x8000);
  const uint32_t kind = r >> 16 & 63;
  if (special && kind == 0) return sign | 0x7f80;
  if (special && kind == 1) return sign | 0x7fc1;
  if (kind < 6) return sign | static_cast<uint16_t>(r & 0x7f);              // denormal
  if (kind < 9) return sign;                                                // zero
  if (kind < 14) return sign | static_cast<uint16_t>(0x2000 | (r & 0x7f));  // products near the smallest normal number
  if (kind < 16) return sign | static_cast<uint16_t>(0x7e00 | (r & 0x7f));  // huge
  return sign | static_cast<uint16_t>(((120 + (r >> 22 & 15)) << 7 & 0x7f80) | (r & 0x7f));
}

bool has_vectors() { return __builtin_cpu_supports("avx512f") != 0; }

void expect_same(float got, float want, int m, int n) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << m << ", " << n;
    return;
  }
  uint32_t a = 0, b = 0;
  memcpy(&a, &got, 4);
  memcpy(&b, &want, 4);
  EXPECT_EQ(a, b) << m << ", " << n << ": " << got << " for " << want;
}

void multiply_and_compare(int rows, int pairs, int columns, std::mt19937* random, bool special) {
  uint16_t a[16][32], b[16][32];
  float c[16][16], got[16][16];
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 32; ++j) a[i][j] = random_bf16(random, special), b[i][j] = random_bf16(random, special);
    for (int j = 0; j < 16; ++j) c[i][j] = wide(random_bf16(random, special));
  }
  const Shapes shapes = Shapes().tile(0, rows, 4 * columns).tile(1, rows, 4 * pairs).tile(2, pairs, 4 * columns);
  configure(&shapes);
  load(0, c, 64);
  load(1, a, 64);
  load(2, b, 64);
  product(0, 1, 2);
  store(0, got, 64);
  release();
  for (int m = 0; m < rows; ++m) {
    for (int n = 0; n < columns; ++n) {
      float sums[2] = {};
      for (int k = 0; k < 2 * pairs; ++k) {
        sums[k % 2] = flushed(std::fma(flushed(wide(a[m][k])), flushed(wide(b[k / 2][2 * n + k % 2])), sums[k % 2]));
      }
      expect_same(got[m][n], flushed(flushed(c[m][n]) + flushed(sums[0] + sums[1])), m, n);
    }
  }
}

TEST(TileUnit, ProductsAsOneByOne) {
  if (!has_vectors()) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    multiply_and_compare(16, 16, 16, &random, i % 2 == 1);
    multiply_and_compare(1 + i % 16, 1 + i * 7 % 16, 1 + i * 5 % 16, &random, i % 2 == 1);
  }
}

TEST(TileUnit, ProductsDoNotChangeHowTheThreadRounds) {
  if (!has_vectors()) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(2);
  const unsigned before = _mm_getcsr();
  multiply_and_compare(16, 16, 16, &random, true);
  EXPECT_EQ(_mm_getcsr(), before);
}

TEST(TileUnit, LoadsAndStoresTouchRowsTimesBytes) {
  // Its inline functions are also compiled with the kernels, and the linker may keep that copy.
  if (!has_vectors()) GTEST_SKIP() << "no AVX-512";
  std::vector<uint8_t> from(500, 7), to(500, 9);
  const Shapes shapes = Shapes().tile(3, 5, 12);
  configure(&shapes);
  load(3, from.data(), 100);
  for (int r = 0; r < 16; ++r) {
    for (int i = 0; i < 64; ++i) EXPECT_EQ(unit().data[3][r][i], r < 5 && i < 12 ? 7 : 0);
  }
  store(3, to.data(), 100);
  for (size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], i % 100 < 12 ? 7 : 9);
  load(3, from.data() + 400, -100);
  zero(3);
  store(3, to.data(), 100);
  EXPECT_EQ(to[0], 0);
  release();
}

TEST(TileUnitDeathTest, RefusesWhatTheProcessorRefuses) {
  // Its inline functions are also compiled with the kernels, and the linker may keep that copy.
  if (!has_vectors()) GTEST_SKIP() << "no AVX-512";
  const auto with = [](Shapes shapes, void (*use)()) {
    configure(&shapes);
    use();
  };
  uint8_t bytes[64] = {};
  release();
  EXPECT_DEATH(load(0, bytes, 0), "without a configuration, tile 0");
  EXPECT_DEATH(with(Shapes().tile(0, 16, 64), [] { zero(1); }), "not in the configuration, tile 1");
  EXPECT_DEATH(with(Shapes().tile(0, 16, 64), [] { release(), zero(0); }), "without a configuration");
  EXPECT_DEATH(with(Shapes().tile(0, 17, 64), [] {}), "more than 16 rows");
  EXPECT_DEATH(with(Shapes().tile(0, 16, 65), [] {}), "more than 16 rows");
  EXPECT_DEATH(with(Shapes().tile(8, 1, 4), [] {}), "there are 8 tiles");
  const auto multiply = [] { product(0, 1, 2); };
  EXPECT_DEATH(with(Shapes().tile(0, 4, 64).tile(1, 5, 64).tile(2, 16, 64), multiply), "do not go together");
  EXPECT_DEATH(with(Shapes().tile(0, 4, 64).tile(1, 4, 32).tile(2, 16, 64), multiply), "do not go together");
  EXPECT_DEATH(with(Shapes().tile(0, 4, 64).tile(1, 4, 64).tile(2, 16, 60), multiply), "do not go together");
  EXPECT_DEATH(with(Shapes().tile(0, 16, 64).tile(1, 16, 64), [] { product(0, 1, 1); }), "with itself");
  Shapes palette;
  palette.bytes[0] = 2;
  EXPECT_DEATH(configure(&palette), "palette");
  Shapes reserved;
  reserved.bytes[3] = 1;
  EXPECT_DEATH(configure(&reserved), "reserved");
}

// One KV head, whole pages of 64 keys, one record of `queries` last tokens with `heads` each: what it costs in tiles.
struct Call {
  uint32_t queries, heads, dim, keys;
  uint16_t query = 0x3c00;    // every number of every query
  uint16_t odd_key = 0x3f80;  // every number of the second key, the fourth, and so on; those of the others and of all values are 1
  uint64_t flags = 0;
};

// The cache: [2][keys][dim], or with a `code` rows of dim bytes and an fp32 scale each; query and out: [queries][heads][dim].
void attend(const cpu::Kernels& kernels, const Call& call, std::vector<uint16_t>& cache, std::vector<uint16_t>& query,
            std::vector<uint16_t>* out, const drivers::RowCode* code = nullptr) {
  out->resize(query.size());
  std::vector<int32_t> table((call.keys + 63) / 64);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  const int32_t indptr[] = {0, static_cast<int32_t>(call.queries)};
  const auto length = static_cast<int32_t>(call.keys);
  const quire_dtype bf16 = {QUIRE_DTYPE_BFLOAT, 16, 1};
  drivers::AttentionOp op{};
  op.kv.dtype = bf16;
  op.kv.num_heads = 1;
  op.kv.block_tokens = 64;
  op.kv.num_sides = 2;
  for (uint32_t s = 0; s < 2; ++s) {
    const int64_t row = code != nullptr ? int64_t{call.dim} + 4 : int64_t{2} * call.dim;
    char* const first = reinterpret_cast<char*>(cache.data()) + s * call.keys * row;
    op.kv.side[s] = {first, 64 * row, row, row, 2, call.dim, 0, 0, 0, 0, 0};
    op.kv.side[s].scales_offset = call.dim;
    op.kv.side[s].scales_stride_token = op.kv.side[s].scales_stride_head = row;
  }
  op.query.data = query.data();
  op.out.data = out->data();
  for (quire_tensor* t : {&op.query, &op.out}) {
    t->dtype = bf16;
    t->ndim = 3;
    t->stride[2] = 2;
    t->stride[1] = int64_t{2} * call.dim;
    t->stride[0] = t->stride[1] * call.heads;
  }
  op.table = table.data();
  op.query_indptr = indptr;
  op.kv_len = &length;
  op.num_rows = 1;
  op.flags = call.flags;
  drivers::AttentionJob job{};
  job.op = &op;
  job.key = op.kv.side[0];
  job.value = op.kv.side[1];
  job.cache = job.query = job.out = drivers::Real::kBfloat16;
  if (code != nullptr) job.code = *code, job.cache = drivers::Real::kNone;
  job.group = call.heads;
  job.scale = job.scale_v = 1.0f;
  cpu::PlanRecord record{};
  record.heads = static_cast<uint16_t>(call.heads);
  record.queries = call.queries;
  record.kv_end = call.keys;
  record.partial = -1;
  static std::vector<float> scratch(cpu::kScratchFloats + 16);
  auto* aligned = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  unit().counts = {};
  kernels.attention(job, record, aligned);
}

Counts attend(const cpu::Kernels& kernels, const Call& call) {
  std::vector<uint16_t> cache(uint64_t{2} * call.keys * call.dim, 0x3f80),
      query(uint64_t{call.queries} * call.heads * call.dim, call.query);
  for (uint64_t key = 1; key < call.keys; key += 2) {
    std::fill_n(cache.begin() + static_cast<int64_t>(key * call.dim), call.dim, call.odd_key);
  }
  std::vector<uint16_t> out;
  attend(kernels, call, cache, query, &out);
  for (const uint16_t value : out) EXPECT_EQ(value, 0x3f80);  // all values are one
  return unit().counts;
}

// Tiles for 64 keys: products 2 * (64 * rows * dim) / (16 * 16 * 32), and their loads and stores, counted by hand below.
TEST(TiledKernels, LoadMultiplyAndStoreAsManyTilesAsTheyShould) {
  const cpu::Kernels* kernels = cpu::find_kernels(QUIRE_DRIVER_KERNELS_AMX);
  if (kernels == nullptr) GTEST_SKIP() << "no AVX-512 with VBMI and BF16";
  EXPECT_STREQ(kernels->name, "amx_in_software");
  const auto expect = [&](const Call& call, Counts block, uint64_t blocks = 1, Counts pass = {}, uint64_t passes = 0) {
    const Counts got = attend(*kernels, call);
    EXPECT_EQ(got.products, blocks * block.products) << call.queries << " " << call.heads << " " << call.dim;
    EXPECT_EQ(got.loads, blocks * block.loads + passes * pass.loads) << call.queries << " " << call.heads << " " << call.dim;
    EXPECT_EQ(got.stores, blocks * block.stores + passes * pass.stores) << call.queries << " " << call.heads << " " << call.dim;
    EXPECT_EQ(got.configurations, block.configurations);
    EXPECT_FALSE(unit().configured);
  };
  // Logits + results; of these the sums that are there already, then their operands.
  // Pairs of whole tiles: sums of results come and go once for up to four blocks.
  const Counts block = {128 + 128, 128 + 128, 32, 1}, pass = {0, 64, 64, 0};
  expect({32, 4, 128, 64}, block, 1, pass, 1);
  expect({32, 4, 128, 192}, block, 3, pass, 1);
  expect({32, 4, 128, 256}, block, 4, pass, 1);
  expect({32, 4, 128, 320}, block, 5, pass, 2);
  expect({32, 4, 1024, 128}, {1024 + 1024, 1024 + 1024, 32, 1}, 2, {0, 512, 512, 0}, 2);  // no room for more than a block
  // Up to 16 rows: two loads more for each 32 keys and dimensions; results are those of even and of odd columns.
  expect({1, 16, 128, 64}, {16 + 32, 24 + 8 + 48, 4 + 8, 1});
  expect({1, 8, 128, 128}, {16 + 32, 24 + 8 + 48, 4 + 8, 1}, 2);
  expect({1, 4, 96, 64}, {12 + 24, 18 + 6 + 36, 4 + 6, 1});
  expect({1, 4, 128, 33}, {16 + 24, 24 + 8 + 36, 4 + 8, 1});
  expect({1, 48, 64, 64}, {24 + 24, 26 + 12 + 28, 12 + 12, 1});
  // Sums of a last tile that is not full begin at zero.
  expect({1, 24, 128, 128}, {32 + 32, 32 + 8 + 24 + 24, 8 + 16, 1}, 2);
  // Two whole pairs, a tile and half a tile; half a block.
  expect({1, 88, 64, 32}, {24 + 16 + 8, 24 + 16 + 16 + 4 + 12, 12 + 16 + 8, 1});
  expect({1, 40, 64, 64}, {24 + 24, 26 + 8 + 28, 12 + 12, 1});
}

// The maximum of logits is rounded, and they are not: from 2^31 on their difference alone would empty a row or overflow it.
TEST(TiledKernels, HugeLogitsWeighAsMuchAsOthers) {
  const cpu::Kernels* kernels = cpu::find_kernels(QUIRE_DRIVER_KERNELS_AMX);
  if (kernels == nullptr) GTEST_SKIP() << "no AVX-512 with VBMI and BF16";
  for (const uint16_t query : {0x4b80, 0x5111, 0x5a33, 0xd177, 0x7055}) {  // 1.7e7 to 2.6e29
    for (const uint32_t keys : {40, 64, 128}) attend(*kernels, {1, 8, 64, keys, query});
  }
}

// Weights of keys that are far below the maximum, or not seen, are zeros and not denormal: nothing underflows.
TEST(TiledKernels, NoWeightUnderflows) {
  constexpr unsigned kUnderflow = 0x10, kExceptions = 0x3f;
  const unsigned before = _mm_getcsr();
  for (const uint32_t name : {QUIRE_DRIVER_KERNELS_AMX, QUIRE_DRIVER_KERNELS_AVX512_BF16}) {
    const cpu::Kernels* kernels = cpu::find_kernels(name);
    if (kernels == nullptr) GTEST_SKIP() << "no AVX-512 with VBMI and BF16";
    // Logits of odd keys are 96 or 128 below those of even ones, 138 or 185 in base 2; or those after a query are not seen.
    for (const uint32_t heads : {1u, 2u, 8u, 16u, 40u}) {
      for (const Call& call : {Call{1, heads, 64, 64, 0x3f80, 0xbf00}, Call{1, heads, 64, 96, 0x3f80, 0xbf80},
                               Call{2, heads, 64, 150, 0x3c00, 0x3f80, QUIRE_ATTENTION_CAUSAL}}) {
        _mm_setcsr(before & ~kExceptions);
        attend(*kernels, call);
        EXPECT_EQ(_mm_getcsr() & kUnderflow, 0u) << kernels->name << " " << heads << " " << call.keys;
      }
    }
  }
  _mm_setcsr(before);
}

// The same where weights take the scales of values: those of odd keys are 2^-115, and a millionth of that would be denormal.
TEST(TiledKernels, NoWeightUnderflowsByTheScaleOfItsValue) {
  constexpr unsigned kUnderflow = 0x10, kExceptions = 0x3f;
  const unsigned before = _mm_getcsr();
  const drivers::RowCode int8 = {drivers::Code::kInt8, drivers::ScaleCode::kFloat32, drivers::Real::kNone, true, 1u << 30};
  for (const uint32_t name : {QUIRE_DRIVER_KERNELS_AMX, QUIRE_DRIVER_KERNELS_AVX512_BF16}) {
    const cpu::Kernels* kernels = cpu::find_kernels(name);
    if (kernels == nullptr) GTEST_SKIP() << "no AVX-512 with VBMI and BF16";
    for (const uint32_t heads : {1u, 2u, 8u, 16u, 40u}) {
      constexpr uint32_t kDim = 64, kKeys = 150, kRow = kDim + 4;
      std::vector<uint16_t> cache(kRow * kKeys), query(uint64_t{heads} * kDim, 0x3f80), out;  // 2 bytes each, two sides
      for (uint32_t r = 0; r < 2 * kKeys; ++r) {
        const int8_t number = r >= kKeys ? 1 : r % 2 == 0 ? 64 : -16;
        const float scale = r >= kKeys ? 1e-6f : 0x1p-6f;  // keys: 1 and -0.25
        char* const row = reinterpret_cast<char*>(cache.data()) + uint64_t{r} * kRow;
        memset(row, number, kDim);
        memcpy(row + kDim, &scale, 4);
      }
      _mm_setcsr(before & ~kExceptions);
      attend(*kernels, {1, heads, kDim, kKeys}, cache, query, &out, &int8);
      EXPECT_EQ(_mm_getcsr() & kUnderflow, 0u) << kernels->name << " " << heads;
      for (const uint16_t value : out) EXPECT_NEAR(wide(value), 1e-6f, 1e-8f) << kernels->name << " " << heads;
    }
  }
  _mm_setcsr(before);
}

// Each row picks another key, and the others' weights are zeros: what comes out is that key's values, column by column. For every
// number of rows that takes values as they lie, and for pairs of tiles in passes of four blocks, in which maxima rise at every place: whole
// and partial vectors, even and odd numbers of them, whole and partial blocks and passes.
TEST(TiledKernels, RowsTakeEveryColumnOfTheirKey) {
  const cpu::Kernels* kernels = cpu::find_kernels(QUIRE_DRIVER_KERNELS_AMX);
  if (kernels == nullptr) GTEST_SKIP() << "no AVX-512 with VBMI and BF16";
  const auto narrow = [](float f) {
    uint32_t word = 0;
    memcpy(&word, &f, 4);
    return static_cast<uint16_t>(word >> 16);
  };
  std::vector<uint32_t> counts(18);
  std::iota(counts.begin(), counts.end(), 1);
  counts.insert(counts.end(), {32, 33, 56, 64, 128});
  for (const uint32_t rows : counts) {
    for (const uint32_t dim : {16u, 32u, 40u, 64u, 72u, 96u, 160u}) {
      for (const uint32_t keys : {1u, 15u, 16u, 31u, 33u, 50u, 64u, 65u, 97u, 200u, 256u, 257u, 300u, 512u, 530u, 900u}) {
        if (rows <= 18 && keys > 300) continue;
        const Call call{1, rows, dim, keys};
        // Key k is +-64 in each of the first 10 dimensions by the bits of k; a query is so by those of the key that it picks.
        std::vector<uint16_t> cache(uint64_t{2} * keys * dim), query(uint64_t{rows} * dim), out;
        const auto sign = [](uint32_t key, uint32_t bit) { return (key >> bit & 1) != 0 ? 64.0f : -64.0f; };
        const auto picked = [&](uint32_t row) { return (row * 37 + 11) % keys; };
        const auto value = [&](uint32_t key, uint32_t d) { return narrow(static_cast<float>((key * 5 + d) % 256)); };
        for (uint32_t k = 0; k < keys; ++k) {
          for (uint32_t d = 0; d < 10; ++d) cache[uint64_t{k} * dim + d] = narrow(sign(k, d));
          for (uint32_t d = 0; d < dim; ++d) cache[uint64_t{keys + k} * dim + d] = value(k, d);
        }
        for (uint32_t r = 0; r < rows; ++r) {
          for (uint32_t d = 0; d < 10; ++d) query[uint64_t{r} * dim + d] = narrow(sign(picked(r), d));
        }
        attend(*kernels, call, cache, query, &out);
        for (uint32_t r = 0; r < rows; ++r) {
          for (uint32_t d = 0; d < dim; ++d) {
            ASSERT_EQ(out[uint64_t{r} * dim + d], value(picked(r), d))
                << rows << " rows of " << dim << ", " << keys << " keys: " << r << ", " << d;
          }
        }
      }
    }
  }
}

TEST(TiledKernels, FewRowsGoWithoutTiles) {
  const cpu::Kernels* kernels = cpu::find_kernels(QUIRE_DRIVER_KERNELS_AMX);
  if (kernels == nullptr) GTEST_SKIP() << "no AVX-512 with VBMI and BF16";
  const Counts counts = attend(*kernels, {1, 3, 128, 64});
  EXPECT_EQ(counts.products + counts.loads + counts.stores + counts.configurations, 0u);
}

TEST(TiledKernels, AreChosenByTheirName) {
  const cpu::Kernels* kernels = cpu::find_kernels(QUIRE_DRIVER_KERNELS_AMX);
  if (kernels == nullptr) GTEST_SKIP() << "no AVX-512 with VBMI and BF16";
  EXPECT_EQ(cpu::find_kernels(0), kernels);
  EXPECT_STREQ(cpu::find_kernels(QUIRE_DRIVER_KERNELS_AVX512_BF16)->name, "avx512_bf16");
}

}  // namespace
}  // namespace quire::tiles
