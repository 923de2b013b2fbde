// Recurrent states: gated delta and the short convolution, with read slots and write slots apart, equal, absent.
#include "tests/kernels/conformance/open_driver.h"
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/conformance/paged_states.h"
#include "tests/kernels/conformance/with_batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quire::conformance {
namespace {

struct DeltaCase {
  Array<uint8_t> pool, query, key, value, gate, beta, out;
  StateRows rows;
  WithBatch<quire_gated_delta> op{};
  int64_t heads_v, dim_k, dim_v;

  DeltaCase(int64_t heads_k, int64_t heads, int64_t k, int64_t v, quire_dtype state, quire_dtype io, uint32_t flags, bool per_channel,
            bool on_the_way = false, int64_t gap = kGap)
      : rows(on_the_way), heads_v(heads), dim_k(k), dim_v(v) {
    op.flags = flags;
    const bool v_major = (flags & QUIRE_GATED_DELTA_V_MAJOR) != 0;
    const auto first = static_cast<uint64_t>(v_major ? v : k);
    const auto second = static_cast<uint64_t>(v_major ? k : v);
    op.state = make_state(&pool, state, {static_cast<uint64_t>(heads), first, second}, false, gap);
    const int64_t tokens = rows.tokens();
    op.query = make_tensor(&query, io, {tokens, heads_k, k}, 4);
    op.key = make_tensor(&key, io, {tokens, heads_k, k}, 8);
    op.value = make_tensor(&value, io, {tokens, heads, v}, 0);
    op.gate = per_channel ? make_tensor(&gate, kF32, {tokens, heads, k}, 8) : make_tensor(&gate, kF32, {tokens, heads}, 4);
    op.beta = make_tensor(&beta, kF32, {tokens, heads}, 8);
    op.out = make_tensor(&out, io, {tokens, heads, v}, 12);
    const double spread = (flags & QUIRE_GATED_DELTA_L2NORM) != 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(k));
    fill_normal(op.query, 1, spread);
    fill_normal(op.key, 2, spread);
    fill_normal(op.value, 3);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < (per_channel ? k : 1); ++i) {
          const double g = -0.2 * std::fabs(normal(4, static_cast<uint64_t>(t), static_cast<uint64_t>(h), static_cast<uint64_t>(i))) - 0.01;
          oracle::encode(kF32, static_cast<char*>(op.gate.data) + t * op.gate.stride[0] + h * op.gate.stride[1] + i * op.gate.stride[2], g);
        }
        const double b = 1.0 / (1.0 + std::exp(-normal(5, static_cast<uint64_t>(t), static_cast<uint64_t>(h))));
        oracle::encode(kF32, static_cast<char*>(op.beta.data) + t * op.beta.stride[0] + h * op.beta.stride[1], b);
      }
    }
    rows.give(&op);
  }

  std::vector<double> outputs() const {
    std::vector<double> v;
    for (int64_t t = 0; t < op.out.shape[0]; ++t) {
      for (int64_t h = 0; h < heads_v; ++h) {
        for (int64_t j = 0; j < dim_v; ++j) v.push_back(oracle::element(op.out, t, h, j));
      }
    }
    return v;
  }
};

void expect_delta(DeltaCase* c, const std::string& what) {
  const Array<uint8_t> before = c->pool;
  const oracle::GatedDelta want = oracle::gated_delta(c->op);
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->gated_delta(driver().stream, &c->op, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK);
  const bool narrow = c->op.out.dtype.bits == 16;
  const Errors o = row_errors(c->outputs(), want.out, static_cast<uint64_t>(c->dim_v));
  EXPECT_LE(o.mean, narrow ? 4e-3 : 1e-5) << what;
  EXPECT_LE(o.worst, narrow ? 1e-2 : 1e-4) << what;
  // States: written slots hold the oracle's state, everything else (gaps, slots only read) is as before.
  Array<uint8_t> expected = before;
  const bool v_major = (c->op.flags & QUIRE_GATED_DELTA_V_MAJOR) != 0;
  std::vector<double> got;
  std::vector<double> wanted;
  for (size_t e = 0; e < c->rows.write.size(); ++e) {
    if (c->rows.write[e] < 0) continue;
    for (int64_t h = 0; h < c->heads_v; ++h) {
      for (int64_t i = 0; i < c->dim_k; ++i) {
        for (int64_t j = 0; j < c->dim_v; ++j) {
          char* p = oracle::state_address(c->op.state, c->rows.write[e], h, v_major ? j : i, v_major ? i : j);
          got.push_back(oracle::decode(c->op.state.dtype, p));
          wanted.push_back(want.state[static_cast<size_t>(((static_cast<int64_t>(e) * c->heads_v + h) * c->dim_k + i) * c->dim_v + j)]);
          memcpy(&expected[static_cast<size_t>(p - reinterpret_cast<char*>(c->pool.data()))], p,
                 static_cast<size_t>(oracle::bytes_of(c->op.state.dtype)));
        }
      }
    }
  }
  const Errors s = row_errors(got, wanted, static_cast<uint64_t>(c->dim_v * c->dim_k));
  EXPECT_LE(s.worst, c->op.state.dtype.bits == 16 ? 4e-3 : 1e-5) << what;
  EXPECT_TRUE(expected == c->pool) << what << ": bytes outside the written slots changed";
}

TEST(GatedDelta, AgainstTheOracle) {
  QUIRE_NEEDS(gated_delta);
  const uint32_t all_flags[] = {0, QUIRE_GATED_DELTA_L2NORM, QUIRE_GATED_DELTA_V_MAJOR,
                                QUIRE_GATED_DELTA_V_MAJOR | QUIRE_GATED_DELTA_L2NORM};
  for (uint32_t flags : all_flags) {
    for (bool per_channel : {false, true}) {
      for (quire_dtype state : {kF32, kBf16}) {
        for (quire_dtype io : {kF32, kBf16, kF16}) {
          DeltaCase c(2, 4, 64, 80, state, io, flags, per_channel);
          expect_delta(&c, "flags " + std::to_string(flags) + " per channel " + std::to_string(per_channel) + " state bits " +
                               std::to_string(state.bits) + " io bits " + std::to_string(io.bits));
        }
      }
    }
  }
}

TEST(GatedDelta, OddDimensions) {
  QUIRE_NEEDS(gated_delta);
  const int64_t shapes[][4] = {{1, 1, 1, 1}, {3, 3, 17, 5}, {1, 8, 128, 128}, {2, 2, 33, 130}};
  for (const auto& s : shapes) {
    DeltaCase c(s[0], s[1], s[2], s[3], kF32, kF32, QUIRE_GATED_DELTA_L2NORM, false);
    expect_delta(&c, std::to_string(s[2]) + "x" + std::to_string(s[3]));
  }
}

// Widths that kernels have tiles for, and those beside them, where 16 bytes move at once and where they can't.
TEST(GatedDelta, TilesAndWhatIsBesideThem) {
  QUIRE_NEEDS(gated_delta);
  const int64_t shapes[][2] = {{16, 16}, {64, 128}, {128, 4}, {128, 30}, {100, 68}, {132, 64}, {128, 160}, {18, 32}};
  for (const auto& s : shapes) {
    for (uint32_t flags : {0u, QUIRE_GATED_DELTA_V_MAJOR | QUIRE_GATED_DELTA_L2NORM}) {
      for (quire_dtype state : {kF32, kBf16, kF16}) {
        for (int64_t gap : {kGap, kGap + oracle::bytes_of(state)}) {
          if (gap != kGap && s[1] > 64) continue;
          DeltaCase c(1, 1, s[0], s[1], state, kBf16, flags, s[0] == 64, s[1] == 160, gap);
          expect_delta(&c, std::to_string(s[0]) + "x" + std::to_string(s[1]) + " flags " + std::to_string(flags) + " state bits " +
                               std::to_string(state.bits) + " gap " + std::to_string(gap));
        }
      }
    }
  }
}

// Drafts: a state behind each token; chunks: states at the boundaries that they cross.
TEST(GatedDelta, StatesOnTheWay) {
  QUIRE_NEEDS(gated_delta);
  for (uint32_t flags : {0u, QUIRE_GATED_DELTA_V_MAJOR}) {
    for (quire_dtype state : {kF32, kBf16}) {
      DeltaCase c(2, 4, 64, 80, state, kF32, flags, false, true);
      expect_delta(&c, "on the way, flags " + std::to_string(flags) + " state bits " + std::to_string(state.bits));
    }
  }
}

TEST(GatedDelta, TakesTheColumnOfItsCache) {
  QUIRE_NEEDS(gated_delta);
  for (const bool on_the_way : {false, true}) {
    DeltaCase right(2, 4, 64, 80, kF32, kF32, 0, false, on_the_way), c(2, 4, 64, 80, kF32, kF32, 0, false, on_the_way);
    Array<int32_t> reads, writes;
    c.op.take_column_1(&c.op.state, &c.op.arrays.state_read, &c.op.arrays.state_read_column_pitch, c.rows.read.size(), &reads, INT32_MAX);
    c.op.take_column_1(&c.op.state, &c.op.arrays.state_write, &c.op.arrays.state_write_column_pitch, c.rows.write.size(), &writes,
                       INT32_MAX);
    quire_error err = fresh_error();
    for (DeltaCase* one : {&right, &c}) {
      ASSERT_EQ(driver().api->gated_delta(driver().stream, &one->op, &err), QUIRE_OK) << err.message;
      ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK);
    }
    EXPECT_EQ(c.outputs(), right.outputs());
    EXPECT_TRUE(c.pool == right.pool);
  }
}

// Token by token through a slot gives what one call gives.
TEST(GatedDelta, StepsEqualOneCall) {
  QUIRE_NEEDS(gated_delta);
  DeltaCase whole(2, 4, 64, 64, kF32, kF32, QUIRE_GATED_DELTA_L2NORM, false);
  DeltaCase steps(2, 4, 64, 64, kF32, kF32, QUIRE_GATED_DELTA_L2NORM, false);
  quire_error err = fresh_error();
  const Array<int32_t> all{0, 37}, read{1}, write{5};
  Array<int32_t> one{0, 1};
  whole.op.arrays.query_indptr = all.data();
  whole.op.arrays.num_rows = steps.op.arrays.num_rows = 1;
  whole.op.arrays.state_read = read.data();
  whole.op.arrays.state_write = steps.op.arrays.state_write = write.data();
  steps.op.arrays.query_indptr = one.data();
  ASSERT_EQ(driver().api->gated_delta(driver().stream, &whole.op, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
  for (int32_t t = 0; t < 37; ++t) {
    one = {t, t + 1};
    steps.op.arrays.state_read = (t == 0 ? read : write).data();
    ASSERT_EQ(driver().api->gated_delta(driver().single_stream, &steps.op, &err), QUIRE_OK) << err.message;
    ASSERT_EQ(driver().api->stream_synchronize(driver().single_stream, -1, &err), QUIRE_OK) << err.message;
  }
  EXPECT_TRUE(whole.pool == steps.pool);
  EXPECT_TRUE(whole.out == steps.out);
}

struct ConvCase {
  Array<uint8_t> pool, input, weight, bias, out;
  StateRows rows;
  WithBatch<quire_conv1d> op{};

  ConvCase(int64_t channels, int64_t width, quire_dtype state, quire_dtype io, bool channel_major, bool with_bias, uint32_t flags,
           bool on_the_way = false)
      : rows(on_the_way) {
    op.flags = flags;
    op.state = make_state(&pool, state, {static_cast<uint64_t>(width - 1), static_cast<uint64_t>(channels)}, channel_major);
    op.input = make_tensor(&input, io, {rows.tokens(), channels}, 6 * oracle::bytes_of(io));
    op.weight = make_tensor(&weight, io, {channels, width}, 0);
    op.out = make_tensor(&out, io, {rows.tokens(), channels}, 4 * oracle::bytes_of(io));
    fill_normal(op.input, 21);
    fill_normal(op.weight, 22);
    if (with_bias) {
      op.bias = make_tensor(&bias, io, {channels}, 0);
      fill_normal(op.bias, 23);
    }
    rows.give(&op);
  }
};

void expect_conv(ConvCase* c, int64_t channels, int64_t width, const std::string& what) {
  const quire_dtype io = c->op.state.dtype;
  Array<uint8_t> expected = c->pool;
  const oracle::Conv1d want = oracle::conv1d(c->op);
  for (size_t e = 0; e < c->rows.write.size(); ++e) {  // kept inputs are copied, so the state is exact
    for (int64_t i = 0; i + 1 < width && c->rows.write[e] >= 0; ++i) {
      for (int64_t ch = 0; ch < channels; ++ch) {
        const char* p = oracle::state_address(c->op.state, c->rows.write[e], i, ch, 0);
        oracle::encode(io, &expected[static_cast<size_t>(p - reinterpret_cast<char*>(c->pool.data()))],
                       want.state[static_cast<size_t>((static_cast<int64_t>(e) * (width - 1) + i) * channels + ch)]);
      }
    }
  }
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->conv1d(driver().stream, &c->op, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK);
  EXPECT_TRUE(expected == c->pool) << what << ": state bytes";
  std::vector<double> got;
  for (int64_t t = 0; t < c->rows.tokens(); ++t) {
    for (int64_t ch = 0; ch < channels; ++ch) got.push_back(oracle::element(c->op.out, t, ch, 0));
  }
  EXPECT_LE(row_errors(got, want.out, static_cast<uint64_t>(channels)).worst, io.bits == 16 ? 4e-3 : 1e-6) << what;
}

TEST(Conv1d, BothOrdersAgainstTheOracle) {
  QUIRE_NEEDS(conv1d);
  for (bool channel_major : {false, true}) {
    for (int64_t width : {1, 2, 3, 4, 9}) {
      for (quire_dtype io : {kF32, kBf16}) {
        for (uint32_t flags : {0u, QUIRE_CONV1D_SILU}) {
          ConvCase c(520, width, io, io, channel_major, flags != 0, flags);
          expect_conv(&c, 520, width,
                      "width " + std::to_string(width) + " bits " + std::to_string(io.bits) + " silu " + std::to_string(flags));
        }
      }
    }
  }
}

TEST(Conv1d, StatesOnTheWay) {
  QUIRE_NEEDS(conv1d);
  for (int64_t width : {1, 2, 4}) {
    ConvCase c(130, width, kBf16, kBf16, width == 2, true, QUIRE_CONV1D_SILU, true);
    expect_conv(&c, 130, width, "on the way, width " + std::to_string(width));
  }
}

TEST(States, BadArgumentsWriteNothing) {
  QUIRE_NEEDS(gated_delta);
  QUIRE_NEEDS(conv1d);
  struct Fault {
    const char* names;
    quire_code code;
    void (*set)(DeltaCase*);
  };
  static const int32_t far[] = {1, 2, -1, 3, 4, kSlots};
  static const int32_t entries[] = {0, 1, 2, 3, 3, 4, 5};
  static const int32_t ends[] = {37, 10, 6, 64, 1001};
  static const int32_t lengths[] = {37, 10, 5, 22, 64, 1001};
  static const int32_t slots[] = {5, 2, 6, 7, 0};
  static const int32_t falling[] = {0, 37, 36, 43, 45, 45, 46};
  static const int32_t two_of_the_first[] = {0, 2, 2, 2, 2, 2, 2};
  static const int32_t one_before_the_other[] = {20, 10};
  const Fault faults[] = {
      {"struct_size", QUIRE_INVALID_ARGUMENT, [](DeltaCase* c) { c->op.struct_size = 8; }},
      {"state_read[5]", QUIRE_OUT_OF_RANGE, [](DeltaCase* c) { c->op.arrays.state_read = far; }},
      {"state_write[5]", QUIRE_OUT_OF_RANGE, [](DeltaCase* c) { c->op.arrays.state_write = far; }},
      {"query_indptr[2]", QUIRE_OUT_OF_RANGE, [](DeltaCase* c) { c->op.arrays.query_indptr = falling; }},
      {"query_indptr[6]", QUIRE_OUT_OF_RANGE,
       [](DeltaCase* c) {
         c->op.query.shape[0] = c->op.key.shape[0] = c->op.value.shape[0] = c->op.gate.shape[0] = c->op.beta.shape[0] = c->op.out.shape[0] =
             45;
       }},
      {"state_write_ends is NULL", QUIRE_INVALID_ARGUMENT, [](DeltaCase* c) { c->op.arrays.state_write_indptr = entries; }},
      {"kv_len is NULL", QUIRE_INVALID_ARGUMENT,
       [](DeltaCase* c) {
         c->op.arrays.state_write_indptr = entries;
         c->op.arrays.state_write_ends = ends;
       }},
      {"state_write_ends[2]", QUIRE_OUT_OF_RANGE,
       [](DeltaCase* c) {
         c->op.arrays.state_write = slots;
         c->op.arrays.state_write_indptr = entries;
         c->op.arrays.state_write_ends = ends;
         c->op.arrays.kv_len = lengths;
       }},
      {"state_write_ends[1]", QUIRE_OUT_OF_RANGE,
       [](DeltaCase* c) {
         c->op.arrays.state_write_indptr = two_of_the_first;
         c->op.arrays.state_write_ends = one_before_the_other;
         c->op.arrays.kv_len = lengths;
       }},
      {"state_write_indptr[2]", QUIRE_OUT_OF_RANGE,
       [](DeltaCase* c) {
         c->op.arrays.state_write_indptr = falling;
         c->op.arrays.state_write_ends = ends;
         c->op.arrays.kv_len = lengths;
       }},
      {"state.base", QUIRE_INVALID_ARGUMENT, [](DeltaCase* c) { c->op.state.base = nullptr; }},
      {"state.dtype", QUIRE_UNIMPLEMENTED, [](DeltaCase* c) { c->op.state.dtype = kE4m3; }},
      {"state.stride[1] is 0", QUIRE_INVALID_ARGUMENT, [](DeltaCase* c) { c->op.state.stride[1] = 0; }},
      {"out.stride[2] is 0", QUIRE_INVALID_ARGUMENT, [](DeltaCase* c) { c->op.out.stride[2] = 0; }},
      {"gate.dtype", QUIRE_UNIMPLEMENTED, [](DeltaCase* c) { c->op.gate.dtype = kBf16; }},
      {"key.shape[1]", QUIRE_INVALID_ARGUMENT, [](DeltaCase* c) { c->op.key.shape[1] = 1; }},
      {"query.shape[1]", QUIRE_INVALID_ARGUMENT, [](DeltaCase* c) { c->op.query.shape[1] = 3; }},
      {"flags", QUIRE_UNIMPLEMENTED, [](DeltaCase* c) { c->op.flags = 0x100; }},
  };
  for (const Fault& f : faults) {
    DeltaCase c(2, 4, 64, 64, kF32, kF32, 0, false);
    f.set(&c);
    const Array<uint8_t> pool = c.pool;
    const Array<uint8_t> out = c.out;
    quire_error err = fresh_error();
    EXPECT_EQ(driver().api->gated_delta(driver().stream, &c.op, &err), f.code) << f.names << ": " << err.message;
    EXPECT_NE(std::string(err.message).find(f.names), std::string::npos) << "'" << err.message << "' does not name " << f.names;
    EXPECT_TRUE(pool == c.pool && out == c.out) << f.names << ": bytes were written";
  }
  ConvCase c(64, 4, kF32, kF32, false, false, 0);
  c.op.weight.shape[1] = 5;
  quire_error err = fresh_error();
  EXPECT_EQ(driver().api->conv1d(driver().stream, &c.op, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("weight.shape[1]"), std::string::npos) << err.message;
  c.op.weight.shape[1] = 4;
  c.op.out.stride[0] = 0;
  EXPECT_EQ(driver().api->conv1d(driver().stream, &c.op, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("out"), std::string::npos) << err.message;
}

}  // namespace
}  // namespace quire::conformance
