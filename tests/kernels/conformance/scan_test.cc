// The selective scan: Mamba2 and Mamba1, against the oracle.
#include "tests/kernels/conformance/open_driver.h"
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/conformance/paged_states.h"
#include "tests/kernels/conformance/with_batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quire::conformance {
namespace {

struct ScanShape {
  int64_t heads = 6;
  int64_t dim = 20;
  int64_t width = 64;
  int64_t groups = 2;
  quire_dtype state = kF32;
  quire_dtype io = kF32;
  bool per_element = false;  // a [heads, state_dim]
  bool two_axes = false;     // a state without head_dim
  bool skip = true;
  bool skip_per_element = false;
  bool bias = true;
  bool gate = true;
  bool softplus = true;
  bool last_outermost = false;
  bool on_the_way = false;
  int64_t gap = kGap;
};

struct ScanCase {
  ScanShape shape;
  StateRows rows;
  Array<uint8_t> pool, x, dt, a, b, c, skip, bias, z, out;
  WithBatch<quire_selective_scan> op{};

  explicit ScanCase(const ScanShape& s) : shape(s), rows(s.on_the_way) {
    op.flags = s.softplus ? QUIRE_SELECTIVE_SCAN_SOFTPLUS : 0;
    const auto heads = static_cast<uint64_t>(s.heads);
    const auto width = static_cast<uint64_t>(s.width);
    op.state = s.two_axes ? make_state(&pool, s.state, {heads, width}, s.last_outermost, s.gap)
                          : make_state(&pool, s.state, {heads, static_cast<uint64_t>(s.dim), width}, s.last_outermost, s.gap);
    const int64_t tokens = rows.tokens();
    op.x = make_tensor(&x, s.io, {tokens, s.heads, s.dim}, 4);
    op.dt = make_tensor(&dt, s.io, {tokens, s.heads}, 8);
    op.a = s.per_element ? make_tensor(&a, kF32, {s.heads, s.width}, 4) : make_tensor(&a, kF32, {s.heads}, 0);
    op.b = make_tensor(&b, s.io, {tokens, s.groups, s.width}, 12);
    op.c = make_tensor(&c, s.io, {tokens, s.groups, s.width}, 0);
    op.out = make_tensor(&out, s.io, {tokens, s.heads, s.dim}, 8);
    fill_normal(op.x, 31);
    fill_normal(op.dt, 32, s.softplus ? 1.5 : 0.1);
    fill_normal(op.b, 33, 0.5);
    fill_normal(op.c, 34, 0.5);
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t n = 0; n < (s.per_element ? s.width : 1); ++n) {
        const double v = -0.05 - 0.5 * std::fabs(normal(35, static_cast<uint64_t>(h), static_cast<uint64_t>(n)));
        oracle::encode(kF32, static_cast<char*>(op.a.data) + h * op.a.stride[0] + n * op.a.stride[1], v);
      }
    }
    if (s.skip) {
      op.skip = s.skip_per_element ? make_tensor(&skip, s.io, {s.heads, s.dim}, 4) : make_tensor(&skip, kF32, {s.heads}, 0);
      fill_normal(op.skip, 36);
    }
    if (s.bias) {
      op.dt_bias = make_tensor(&bias, kF32, {s.heads}, 0);
      fill_normal(op.dt_bias, 37, 0.3);
    }
    if (s.gate) {
      op.z = make_tensor(&z, s.io, {tokens, s.heads, s.dim}, 0);
      fill_normal(op.z, 38);
    }
    rows.give(&op);
  }

  char* place(int32_t slot, int64_t h, int64_t p, int64_t n) const {
    return oracle::state_address(op.state, slot, h, shape.two_axes ? n : p, shape.two_axes ? 0 : n);
  }

  std::vector<double> outputs() const {
    std::vector<double> v;
    for (int64_t t = 0; t < rows.tokens(); ++t) {
      for (int64_t h = 0; h < shape.heads; ++h) {
        for (int64_t p = 0; p < shape.dim; ++p) v.push_back(oracle::element(op.out, t, h, p));
      }
    }
    return v;
  }
};

void run(ScanCase* c) {
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->selective_scan(driver().stream, &c->op, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK);
}

// Outputs and written slots are the oracle's, every other byte of the pool is as before.
void expect_scan(const ScanShape& shape, const std::string& what) {
  ScanCase c(shape);
  Array<uint8_t> expected = c.pool;
  const oracle::SelectiveScan want = oracle::selective_scan(c.op);
  run(&c);
  const bool narrow = shape.io.bits == 16;
  const Errors e = row_errors(c.outputs(), want.out, static_cast<uint64_t>(shape.heads * shape.dim));
  EXPECT_LE(e.mean, narrow ? 4e-3 : 1e-5) << what;
  EXPECT_LE(e.worst, narrow ? 1e-2 : 1e-4) << what;
  std::vector<double> got;
  std::vector<double> wanted;
  for (size_t i = 0; i < c.rows.write.size(); ++i) {
    if (c.rows.write[i] < 0) continue;
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t p = 0; p < shape.dim; ++p) {
        for (int64_t n = 0; n < shape.width; ++n) {
          const char* at = c.place(c.rows.write[i], h, p, n);
          got.push_back(oracle::decode(shape.state, at));
          wanted.push_back(
              want.state[static_cast<size_t>(((static_cast<int64_t>(i) * shape.heads + h) * shape.dim + p) * shape.width + n)]);
          memcpy(&expected[static_cast<size_t>(at - reinterpret_cast<char*>(c.pool.data()))], at,
                 static_cast<size_t>(oracle::bytes_of(shape.state)));
        }
      }
    }
  }
  const Errors s = row_errors(got, wanted, static_cast<uint64_t>(shape.heads * shape.dim * shape.width));
  EXPECT_LE(s.worst, shape.state.bits == 16 ? 4e-3 : 1e-5) << what;
  EXPECT_TRUE(expected == c.pool) << what << ": bytes outside the written slots changed";
}

TEST(SelectiveScan, Mamba2AgainstTheOracle) {
  QUIRE_NEEDS(selective_scan);
  for (quire_dtype state : {kF32, kBf16, kF16}) {
    for (quire_dtype io : {kF32, kBf16, kF16}) {
      for (bool plain : {false, true}) {
        ScanShape s;
        s.state = state;
        s.io = io;
        s.skip = s.bias = s.gate = s.softplus = !plain;
        expect_scan(s,
                    "state bits " + std::to_string(state.bits) + " io bits " + std::to_string(io.bits) + " plain " + std::to_string(plain));
      }
    }
  }
}

TEST(SelectiveScan, Mamba1AgainstTheOracle) {
  QUIRE_NEEDS(selective_scan);
  for (bool two_axes : {false, true}) {
    for (bool last_outermost : {false, true}) {
      ScanShape s;
      s.heads = 200;
      s.dim = 1;
      s.width = 16;
      s.groups = 1;
      s.per_element = true;
      s.two_axes = two_axes;
      s.last_outermost = last_outermost;
      s.io = kBf16;
      expect_scan(s, "axes " + std::to_string(two_axes) + " order " + std::to_string(last_outermost));
    }
  }
}

TEST(SelectiveScan, OddDimensions) {
  QUIRE_NEEDS(selective_scan);
  const int64_t shapes[][4] = {{1, 1, 1, 1}, {3, 5, 17, 3}, {4, 64, 128, 1}, {8, 33, 24, 4}, {2, 3, 260, 2}, {5, 129, 8, 1}};
  for (const auto& d : shapes) {
    for (bool per_element : {false, true}) {
      ScanShape s;
      s.heads = d[0];
      s.dim = d[1];
      s.width = d[2];
      s.groups = d[3];
      s.per_element = per_element;
      s.skip_per_element = per_element;
      s.last_outermost = d[2] == 24;
      expect_scan(s, std::to_string(d[0]) + "x" + std::to_string(d[1]) + "x" + std::to_string(d[2]) + " per element " +
                         std::to_string(per_element));
    }
  }
}

// Widths that kernels have tiles for, and those beside them, where 16 bytes move at once and where they can't.
TEST(SelectiveScan, TilesAndWhatIsBesideThem) {
  QUIRE_NEEDS(selective_scan);
  const int64_t shapes[][4] = {{8, 64, 128, 2}, {2, 34, 128, 1}, {4, 3, 64, 2},  {140, 1, 16, 1}, {2, 8, 132, 1},
                               {6, 6, 16, 2},   {5, 1, 12, 1},   {2, 16, 20, 1}, {3, 20, 100, 3}, {12, 1, 128, 3}};
  for (const auto& d : shapes) {
    for (bool last_outermost : {false, true}) {
      for (quire_dtype state : {kF32, kBf16, kF16}) {
        for (bool aligned : {true, false}) {
          ScanShape s;
          s.heads = d[0];
          s.dim = d[1];
          s.width = d[2];
          s.groups = d[3];
          s.state = state;
          s.io = kBf16;
          s.per_element = d[2] <= 20;
          s.two_axes = d[1] == 1;
          s.last_outermost = last_outermost;
          s.on_the_way = d[1] == 34 || d[0] == 140;
          s.gap = aligned ? kGap : kGap + oracle::bytes_of(state);
          expect_scan(s, std::to_string(d[0]) + "x" + std::to_string(d[1]) + "x" + std::to_string(d[2]) + " order " +
                             std::to_string(last_outermost) + " state bits " + std::to_string(state.bits) + " aligned " +
                             std::to_string(aligned));
        }
      }
    }
  }
}

TEST(SelectiveScan, StatesOnTheWay) {
  QUIRE_NEEDS(selective_scan);
  for (quire_dtype state : {kF32, kBf16}) {
    ScanShape s;
    s.state = state;
    s.on_the_way = true;
    expect_scan(s, "on the way, state bits " + std::to_string(state.bits));
  }
}

TEST(SelectiveScan, StepsOfTimeAreLimited) {
  QUIRE_NEEDS(selective_scan);
  ScanShape shape;
  shape.gate = false;
  ScanCase free(shape);
  ScanCase limited(shape);
  limited.op.dt_min = 0.5f;
  limited.op.dt_max = 1.25f;
  const oracle::SelectiveScan want = oracle::selective_scan(limited.op);
  run(&free);
  run(&limited);
  EXPECT_LE(row_errors(limited.outputs(), want.out, static_cast<uint64_t>(shape.heads * shape.dim)).worst, 1e-4);
  EXPECT_GT(row_errors(free.outputs(), want.out, static_cast<uint64_t>(shape.heads * shape.dim)).mean, 1e-2) << "the limits do nothing";
}

// Tensors that are only read may repeat elements, as models of one step for all channels give them.
TEST(SelectiveScan, OneStepForAllHeads) {
  QUIRE_NEEDS(selective_scan);
  ScanShape shape;
  ScanCase c(shape);
  c.op.dt.stride[1] = c.op.a.stride[0] = c.op.b.stride[1] = 0;
  const oracle::SelectiveScan want = oracle::selective_scan(c.op);
  run(&c);
  EXPECT_LE(row_errors(c.outputs(), want.out, static_cast<uint64_t>(shape.heads * shape.dim)).worst, 1e-4);
}

// What a model that forgets everything or nothing, or gets very large and very small steps, gives is finite and right.
TEST(SelectiveScan, ExtremeSteps) {
  QUIRE_NEEDS(selective_scan);
  for (float bias : {-40.0f, -12.0f, 12.0f, 40.0f}) {
    ScanShape shape;
    ScanCase c(shape);
    for (int64_t h = 0; h < shape.heads; ++h) memcpy(static_cast<char*>(c.op.dt_bias.data) + h * 4, &bias, 4);
    const oracle::SelectiveScan want = oracle::selective_scan(c.op);
    run(&c);
    EXPECT_LE(row_errors(c.outputs(), want.out, static_cast<uint64_t>(shape.heads * shape.dim)).worst, 1e-4) << "bias " << bias;
  }
}

// Token by token through a slot gives what one call gives.
TEST(SelectiveScan, StepsEqualOneCall) {
  QUIRE_NEEDS(selective_scan);
  ScanShape shape;
  ScanCase whole(shape);
  ScanCase steps(shape);
  quire_error err = fresh_error();
  const Array<int32_t> all{0, 37}, read{1}, write{5};
  Array<int32_t> one{0, 1};
  whole.op.arrays.query_indptr = all.data();
  whole.op.arrays.num_rows = steps.op.arrays.num_rows = 1;
  whole.op.arrays.state_read = read.data();
  whole.op.arrays.state_write = steps.op.arrays.state_write = write.data();
  steps.op.arrays.query_indptr = one.data();
  run(&whole);
  for (int32_t t = 0; t < 37; ++t) {
    one = {t, t + 1};
    steps.op.arrays.state_read = (t == 0 ? read : write).data();
    ASSERT_EQ(driver().api->selective_scan(driver().single_stream, &steps.op, &err), QUIRE_OK) << err.message;
    ASSERT_EQ(driver().api->stream_synchronize(driver().single_stream, -1, &err), QUIRE_OK);
  }
  EXPECT_TRUE(whole.pool == steps.pool);
  EXPECT_TRUE(whole.out == steps.out);
}

TEST(SelectiveScan, BadArgumentsWriteNothing) {
  QUIRE_NEEDS(selective_scan);
  struct Fault {
    const char* names;
    quire_code code;
    void (*set)(WithBatch<quire_selective_scan>*);
  };
  const Fault faults[] = {
      {"struct_size", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->struct_size = 8; }},
      {"flags", QUIRE_UNIMPLEMENTED, [](WithBatch<quire_selective_scan>* op) { op->flags = 0x100; }},
      {"state.ndim", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->state.ndim = 4; }},
      {"state.shape", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->state.shape[1] = 0; }},
      {"state_dim", QUIRE_UNIMPLEMENTED, [](WithBatch<quire_selective_scan>* op) { op->state.shape[2] = 2000; }},
      {"x.shape[2]", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->x.shape[2] = 19; }},
      {"dt.shape[1]", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->dt.shape[1] = 7; }},
      {"a.dtype", QUIRE_UNIMPLEMENTED, [](WithBatch<quire_selective_scan>* op) { op->a.dtype = kBf16; }},
      {"a.shape[0]", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->a.shape[0] = 5; }},
      {"b.shape[1]", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->b.shape[1] = 4; }},
      {"c.shape[1]", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->c.shape[1] = 1; }},
      {"skip.shape[0]", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->skip.shape[0] = 5; }},
      {"dt_bias.ndim", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->dt_bias.ndim = 2; }},
      {"z.shape[0]", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->z.shape[0] = 45; }},
      {"out.dtype", QUIRE_UNIMPLEMENTED, [](WithBatch<quire_selective_scan>* op) { op->out.dtype = kE4m3; }},
      {"out.stride[0] is 0", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->out.stride[0] = 0; }},
      {"state.stride[2] is 0", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->state.stride[2] = 0; }},
      {"dt_min", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->dt_min = -1.0f; }},
      {"dt_max", QUIRE_INVALID_ARGUMENT,
       [](WithBatch<quire_selective_scan>* op) {
         op->dt_min = 2.0f;
         op->dt_max = 1.0f;
       }},
      {"state_write is NULL", QUIRE_INVALID_ARGUMENT, [](WithBatch<quire_selective_scan>* op) { op->arrays.state_write = nullptr; }},
  };
  for (const Fault& f : faults) {
    ScanCase c{ScanShape{}};
    f.set(&c.op);
    const Array<uint8_t> pool = c.pool;
    const Array<uint8_t> out = c.out;
    quire_error err = fresh_error();
    EXPECT_EQ(driver().api->selective_scan(driver().stream, &c.op, &err), f.code) << f.names << ": " << err.message;
    EXPECT_NE(std::string(err.message).find(f.names), std::string::npos) << "'" << err.message << "' does not name " << f.names;
    EXPECT_TRUE(pool == c.pool && out == c.out) << f.names << ": bytes were written";
  }
}

}  // namespace
}  // namespace quire::conformance
