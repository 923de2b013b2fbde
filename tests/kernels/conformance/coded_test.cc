// Rows of codes with scales of their own (codec RECORD and BLOCK_SPLIT): appended bytes against the oracle's, attention against fp64 over
// what is stored, against what was appended within the steps of quantisation, and against attention over a cache of plain elements that
// holds the decoded rows. A driver may leave these codecs out by name; the CPU driver may not.
#include "tests/kernels/conformance/coded_case.h"
#include "tests/kernels/conformance/open_driver.h"
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/conformance/with_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace quire::conformance {
namespace {

constexpr Scheme kInt8Rows = {"int8", kI8, kF32, kNoType, 0, 0, 0, false};
constexpr Scheme kLatent656 = {"656-byte rows", kE4m3, kF32, kBf16, 128, 64, 0, false};
constexpr Scheme kLatent584 = {"584-byte rows", kE4m3, kE8m0, kBf16, 64, 64, 1, true};
constexpr Scheme kTwoSided[] = {kInt8Rows,
                                {"int4", kI4, kF32, kNoType, 0, 0, 0, false},
                                {"fp8", kE4m3, kF32, kNoType, 0, 0, 0, false},
                                {"fp8_e5m2", kE5m2, kF32, kNoType, 0, 0, 0, false},
                                {"nvfp4", kE2m1, kE4m3, kNoType, 16, 0, 0, false},
                                {"nvfp4, sides split", kE2m1, kE4m3, kNoType, 16, 0, 0, true},
                                {"int8 by 32 with an fp16 tail", kI8, kF32, kF16, 32, 6, 4, false},
                                {"fp8 without scales", kE4m3, kNoType, kBf16, 0, 2, 0, true},
                                {"fp8, a power of two", kE4m3, kE8m0, kNoType, 0, 0, 0, false},
                                {"fp8 alone", kE4m3, kNoType, kNoType, 0, 0, 0, false}};

std::vector<double> values_of(const quire_tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.shape[0]; ++i) {
    for (int64_t j = 0; j < t.shape[1]; ++j) {
      for (int64_t k = 0; k < (t.ndim == 3 ? t.shape[2] : 1); ++k) v.push_back(oracle::element(t, i, j, k));
    }
  }
  return v;
}

void attend(CodedCase::Step* step) {
  std::fill(step->out.begin(), step->out.end(), 0xff);
  std::fill(step->lse.begin(), step->lse.end(), 0xff);
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->attention(driver().stream, &step->op, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
}

// Whether the driver leaves the codecs out, which it must do by name.
bool left_out(quire_code code, const quire_error& err) {
  if (driver().name == "cpu" || code != QUIRE_UNIMPLEMENTED) return false;
  EXPECT_NE(std::string(err.message).find("kv.codec"), std::string::npos) << err.message;
  return true;
}

#define QUIRE_APPENDS(c, from, to)                                                                               \
  do {                                                                                                           \
    quire_error err_ = fresh_error();                                                                            \
    const quire_code code_ = (c).append(from, to, &err_);                                                        \
    if (left_out(code_, err_)) GTEST_SKIP() << "the driver's ops read no rows of codes: they are UNIMPLEMENTED"; \
    ASSERT_EQ(code_, QUIRE_OK) << err_.message;                                                                  \
    ASSERT_TRUE((c).pool == (c).mirror) << "appended bytes";                                                     \
  } while (false)

const std::vector<int32_t> kNothing = {0, 0, 0};

TEST(Coded, EveryByteOfThePool) {
  QUIRE_NEEDS(kv_append);
  const std::vector<int32_t> lengths = {37, 1, 50};
  for (const quire_dtype source : {kF32, kBf16, kF16}) {
    for (const Scheme& scheme : kTwoSided) {
      SCOPED_TRACE(scheme.name);
      CodedCase c(scheme, {6, 3, 96, 80}, 2, 11, lengths, source);
      QUIRE_APPENDS(c, kNothing, lengths);
    }
    for (const Scheme& scheme : {kLatent656, kLatent584}) {
      SCOPED_TRACE(scheme.name);
      CodedCase c(scheme, {4, 1, scheme.split ? 512u : 576u, 512}, 1, 16, lengths, source);
      QUIRE_APPENDS(c, kNothing, lengths);
    }
  }
}

// Prefill in one step, then tokens one by one, over the edges of blocks: after each step against fp64 over what is stored.
void expect_steps(const Scheme& scheme, const Heads& heads, uint32_t sides, quire_dtype query, uint32_t window) {
  const std::vector<int32_t> prefill = {70, 1, 29};
  CodedCase c(scheme, heads, sides, 16, {74, 5, 33}, query);
  std::vector<int32_t> from = kNothing, to = prefill;
  for (int32_t n = 0; n < 4; ++n) {
    QUIRE_APPENDS(c, from, to);
    std::vector<int32_t> queries(3);
    for (size_t r = 0; r < 3; ++r) queries[r] = to[r] - from[r];
    CodedCase::Step step;
    c.prepare(to, queries, &step);
    step.op.window = window;
    step.op.sink_tokens = window != 0 ? 2 : 0;
    attend(&step);
    const oracle::Attention want = oracle::attention(step.op);
    const Errors errors = row_errors(values_of(step.op.out), want.out, static_cast<uint64_t>(step.op.out.shape[2]));
    // Decoded rows may be rounded to bf16 on the way where queries and results are bf16.
    const double bound = query.bits == 32 ? 2e-5 : query.code == QUIRE_DTYPE_BFLOAT ? 2e-2 : 1e-3;
    EXPECT_LE(errors.worst, bound) << scheme.name << ", step " << n << ", window " << window;
    from = to;
    for (int32_t& t : to) ++t;
  }
}

TEST(Coded, PrefillAndDecodeAgainstTheOracle) {
  QUIRE_NEEDS(kv_append);
  QUIRE_NEEDS(attention);
  const Heads shapes[] = {{6, 3, 96, 80}, {5, 5, 64, 64}, {14, 2, 128, 128}, {40, 1, 48, 112}};
  uint32_t window = 0;
  for (const Scheme& scheme : kTwoSided) {
    for (const Heads& heads : shapes) {
      for (const quire_dtype query : {kF32, kBf16, kF16}) {
        if (query.code != QUIRE_DTYPE_BFLOAT && heads.dim_k != 96) continue;
        expect_steps(scheme, heads, 2, query, window);
        if (IsSkipped() || HasFatalFailure()) return;
        window = 21 - window;
      }
    }
  }
}

TEST(Coded, LatentRowsAgainstTheOracle) {
  QUIRE_NEEDS(kv_append);
  QUIRE_NEEDS(attention);
  for (const uint32_t heads : {3u, 16u, 40u}) {
    expect_steps(kLatent656, {heads, 1, 576, 512}, 1, kBf16, 0);
    if (IsSkipped() || HasFatalFailure()) return;
  }
  expect_steps(kLatent656, {3, 1, 576, 540}, 1, kF32, 33);  // V takes some of the tail
  expect_steps(kLatent656, {16, 1, 576, 540}, 1, kBf16, 33);
  expect_steps(kLatent584, {3, 1, 512, 512}, 1, kF32, 0);
  expect_steps(kInt8Rows, {16, 1, 576, 331}, 1, kBf16, 0);
}

// Whether attention has the same bits as over a cache of plain elements that holds the decoded rows: of fp32, or, where products are of
// bf16 numbers, of bf16. Where a row of 8 bits has one fp32 scale and no tail, its elements may stay unrounded. Then results are within
// 2^-7 of fp64; over rounded rows the worst is 0.015. Kernels of tiles round where a KV head has four query rows or more: all rows of an op
// here, or none.
void expect_bits(const Scheme& scheme, const Heads& heads, uint32_t sides, quire_dtype query) {
  const std::vector<int32_t> lengths = {140, 3, 66};
  CodedCase c(scheme, heads, sides, 16, lengths, query);
  QUIRE_APPENDS(c, kNothing, lengths);
  Array<uint8_t> wide, narrow;
  const bool may_round = query.code == QUIRE_DTYPE_BFLOAT;
  std::vector<quire_paged_kv> plain = {c.plain(kF32, true, lengths, &wide)};
  if (may_round) plain.push_back(c.plain(kBf16, true, lengths, &narrow));
  for (const std::vector<int32_t>& queries : {std::vector<int32_t>{1, 1, 1}, std::vector<int32_t>{40, 3, 9}}) {
    CodedCase::Step step;
    c.prepare(lengths, queries, &step);
    attend(&step);
    const Array<uint8_t> out = step.out, lse = step.lse;
    bool equal = false;
    for (const quire_paged_kv& kv : plain) {
      step.op.kv = kv;
      attend(&step);
      equal = equal || (step.out == out && step.lse == lse);
    }
    SCOPED_TRACE(std::string(scheme.name) + ", " + std::to_string(heads.query) + "/" + std::to_string(heads.kv) + " heads");
    const bool one_scale = scheme.scale.bits == 32 && scheme.scale_elements == 0 && scheme.tail_dim == 0;
    if (equal || !may_round || !one_scale || scheme.data.bits != 8) {
      EXPECT_TRUE(equal) << "query code " << int{query.code};
      continue;
    }
    step.op.kv = c.kv;
    attend(&step);
    const oracle::Attention want = oracle::attention(step.op);
    EXPECT_LE(row_errors(values_of(step.op.out), want.out, heads.dim_v).worst, 0x1p-7);
    const std::vector<double> sums = values_of(step.op.lse);
    ASSERT_EQ(sums.size(), want.lse.size());
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i], want.lse[i], 1e-3) << i;
  }
}

// The CPU driver's promise: a row decoded on its way is as good as one that was decoded before, or better.
TEST(Coded, TheBitsOfAPlainCacheOfTheDecodedRows) {
  QUIRE_NEEDS(kv_append);
  QUIRE_NEEDS(attention);
  if (driver().name != "cpu") GTEST_SKIP() << "a promise of the CPU driver alone";
  for (const Scheme& scheme : kTwoSided) {
    expect_bits(scheme, {6, 3, 96, 80}, 2, kF32);
    for (const Heads& heads : {Heads{6, 3, 96, 80}, Heads{16, 2, 128, 128}, Heads{20, 1, 64, 64}, Heads{2, 1, 40, 72}}) {
      expect_bits(scheme, heads, 2, kBf16);
    }
  }
  for (const quire_dtype query : {kF32, kBf16}) {
    expect_bits(kLatent656, {16, 1, 576, 512}, 1, query);
    expect_bits(kLatent584, {20, 1, 512, 512}, 1, query);
  }
}

// What was appended comes back within half a step of its format, and attention over it within what such errors can do: every logit off by
// at most d changes weights by a factor within exp(-2d) and exp(2d), and a result is a mean of values.
TEST(Coded, QuantisationKeepsItsBounds) {
  QUIRE_NEEDS(kv_append);
  QUIRE_NEEDS(attention);
  const std::vector<int32_t> lengths = {50, 9, 33};
  for (const Scheme& scheme : kTwoSided) {
    if (scheme.scale.bits == 0) continue;
    const Heads heads{6, 3, 96, 80};
    CodedCase c(scheme, heads, 2, 16, lengths);
    QUIRE_APPENDS(c, kNothing, lengths);
    double largest = 0, worst_value = 0;
    std::vector<double> key_steps[3];  // of each position: by how much elements of the worst head may be off, summed with the largest query
    for (size_t r = 0; r < 3; ++r) key_steps[r].assign(static_cast<size_t>(lengths[r]), 0);
    uint64_t outside = 0;
    c.each(lengths, [&](uint32_t side, size_t r, int32_t p, uint32_t head, uint32_t d) {
      const double was = c.source(side, r, p, head, d), step = c.step_of(side, r, p, head, d);
      outside += std::fabs(c.value_of(side, r, p, head, d) - was) > step * (1 + 1e-5) + 1e-12 ? 1 : 0;
      if (side == 0) return;
      largest = std::max({largest, std::fabs(was), std::fabs(c.value_of(side, r, p, head, d))});
      worst_value = std::max(worst_value, step);
    });
    EXPECT_EQ(outside, 0u) << scheme.name << ": elements that are off by more than half a step";
    CodedCase::Step step;
    c.prepare(lengths, {3, 2, 1}, &step);
    attend(&step);
    const std::vector<double> got = values_of(step.op.out);
    Array<uint8_t> bytes;
    step.op.kv = c.plain(kF32, false, lengths, &bytes);
    const oracle::Attention want = oracle::attention(step.op);
    size_t at = 0;
    uint64_t beyond = 0;
    for (size_t r = 0; r < 3; ++r) {
      for (int64_t token = step.indptr[r]; token < step.indptr[r + 1]; ++token) {
        for (uint32_t head = 0; head < heads.query; ++head) {
          double off = 0;
          for (int32_t p = 0; p < lengths[r]; ++p) {
            double sum = 0;
            for (uint32_t d = 0; d < heads.dim_k; ++d) {
              sum += std::fabs(oracle::element(step.op.query, token, head, d)) * c.step_of(0, r, p, head / 2, d);
            }
            off = std::max(off, sum / std::sqrt(static_cast<double>(heads.dim_k)));
          }
          const double bound = worst_value + largest * std::expm1(2 * off) + 1e-5;
          for (uint32_t d = 0; d < heads.dim_v; ++d, ++at) beyond += !(std::fabs(got[at] - want.out[at]) <= bound) ? 1 : 0;
        }
      }
    }
    EXPECT_EQ(beyond, 0u) << scheme.name << ": results beyond the bound";
  }
}

TEST(Coded, AScaleOutsideIsAppliedFirst) {
  QUIRE_NEEDS(kv_append);
  QUIRE_NEEDS(attention);
  const std::vector<int32_t> lengths = {20, 1, 5};
  for (const Scheme& scheme : kTwoSided) {
    CodedCase c(scheme, {4, 2, 64, 64}, 2, 16, lengths);
    c.scale_k = 0.5f, c.scale_v = 4.0f;
    QUIRE_APPENDS(c, kNothing, lengths);
    CodedCase::Step step;
    c.prepare(lengths, {1, 1, 1}, &step);
    step.op.scale_k = c.scale_k, step.op.scale_v = c.scale_v;
    attend(&step);
    const oracle::Attention want = oracle::attention(step.op);
    EXPECT_LE(row_errors(values_of(step.op.out), want.out, 64).worst, 2e-5) << scheme.name;
    EXPECT_TRUE(c.pool == c.mirror) << scheme.name << ": attention wrote";
  }
}

TEST(Coded, FaultsAreNamedAndNothingIsWritten) {
  QUIRE_NEEDS(kv_append);
  struct Fault {
    const char* names;
    quire_code code;
    void (*set)(quire_paged_kv*);
  };
  const Fault faults[] = {
      {"kv.codec", QUIRE_UNIMPLEMENTED, [](quire_paged_kv* kv) { kv->codec = QUIRE_CODEC_TILED; }},
      {"kv.data_dtype", QUIRE_UNIMPLEMENTED, [](quire_paged_kv* kv) { kv->data_dtype = kF16; }},
      {"kv.data_dtype", QUIRE_UNIMPLEMENTED, [](quire_paged_kv* kv) { kv->data_dtype = kNoType; }},
      {"kv.scale_dtype", QUIRE_UNIMPLEMENTED, [](quire_paged_kv* kv) { kv->scale_dtype = kF16; }},
      {"kv.scale_dtype", QUIRE_UNIMPLEMENTED, [](quire_paged_kv* kv) { kv->scale_dtype = kE8m0; }},
      {"kv.scale_elements", QUIRE_UNIMPLEMENTED, [](quire_paged_kv* kv) { kv->scale_elements = 24; }},
      {"kv.tail_dtype", QUIRE_UNIMPLEMENTED, [](quire_paged_kv* kv) { kv->tail_dtype = kE4m3; }},
      {"kv.side[1].tail_dim", QUIRE_INVALID_ARGUMENT, [](quire_paged_kv* kv) { kv->side[1].tail_dim = 80; }},
      {"kv.side[0]", QUIRE_UNIMPLEMENTED, [](quire_paged_kv* kv) { kv->data_dtype = kI4, kv->side[0].tail_dim = 5; }},
      {"scales_stride_token", QUIRE_INVALID_ARGUMENT, [](quire_paged_kv* kv) { kv->side[0].scales_stride_token = INT64_MAX / 8; }},
  };
  const std::vector<int32_t> lengths = {20, 1, 5};
  for (const Fault& f : faults) {
    CodedCase c(kTwoSided[6], {6, 3, 96, 80}, 2, 16, lengths);
    QUIRE_APPENDS(c, kNothing, lengths);
    const Array<uint8_t> before = c.pool;
    f.set(&c.kv);
    WithBatch<quire_kv_append> op{};
    op.kv = c.kv;
    quire_error err = fresh_error();
    EXPECT_EQ(driver().api->kv_append(driver().stream, &op, &err), f.code) << f.names << ": " << err.message;
    EXPECT_NE(std::string(err.message).find(f.names), std::string::npos) << "'" << err.message << "' does not name " << f.names;
    EXPECT_TRUE(c.pool == before) << f.names;
  }
}

}  // namespace
}  // namespace quire::conformance
