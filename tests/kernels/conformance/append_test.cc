// Append: the rows land where the slots say, and not one other byte of the pool changes.
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/open_driver.h"
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/conformance/with_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quire::conformance {
namespace {

struct AppendCase {
  Shape shape;
  Array<uint8_t> pool, mirror, key, value;
  Array<int64_t> slots;
  Array<int32_t> positions;
  Array<float> cosines, sines;
  WithBatch<quire_kv_append> op{};
  quire_paged_kv mirrored{};

  AppendCase(const Shape& s, const Layout& layout, quire_dtype source, int64_t tokens) : shape(s) {
    op.kv = make_kv(&pool, s, layout, 9);
    mirror = pool;
    mirrored = op.kv;
    for (uint32_t side = 0; side < s.sides; ++side) {
      mirrored.side[side].base = mirror.data() + (static_cast<uint8_t*>(op.kv.side[side].base) - pool.data());
    }
    op.key = make_tensor(&key, source, {tokens, s.kv_heads, s.dim_k}, 6);
    fill_normal(op.key, s.seed);
    if (s.sides == 2) {
      op.value = make_tensor(&value, source, {tokens, s.kv_heads, s.dim_v}, 2);
      fill_normal(op.value, s.seed + 1);
    }
    const int64_t limit = 9 * static_cast<int64_t>(s.block);
    for (int64_t t = 0; t < tokens; ++t) {
      slots.push_back(t % 5 == 3 ? -1 : (t * 7 + 5) % limit);  // 7 is coprime to the limits used: no slot twice
      positions.push_back(static_cast<int32_t>(t * 3 % 50));
    }
    op.arrays.slots = slots.data();
    op.set_tokens(static_cast<uint64_t>(tokens));
  }

  void rope(uint32_t dim, bool interleaved) {
    cosines.resize(size_t{50} * dim / 2);
    sines.resize(cosines.size());
    for (size_t i = 0; i < cosines.size(); ++i) {
      const double angle = static_cast<double>(i / (dim / 2)) * std::pow(100.0, -2.0 * static_cast<double>(i % (dim / 2)) / dim);
      cosines[i] = static_cast<float>(std::cos(angle));
      sines[i] = static_cast<float>(std::sin(angle));
    }
    op.rope_cos = cosines.data();
    op.rope_sin = sines.data();
    op.arrays.positions = positions.data();
    op.rope_dim = dim;
    op.rope_interleaved = interleaved ? 1 : 0;
  }

  // Runs op on the pool and the oracle on the mirror.
  void run() {
    quire_error err = fresh_error();
    ASSERT_EQ(driver().api->kv_append(driver().stream, &op, &err), QUIRE_OK) << err.message;
    ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK);
    WithBatch<quire_kv_append> copy = op;
    copy.kv = mirrored;
    oracle::append(copy);
  }
};

TEST(Append, EveryByteOfThePool) {
  QUIRE_NEEDS(kv_append);
  for (const char* order : {"BKTHD", "BKHTD", "KBTHD", "BTHKD", "HBKTD", "BKTDH"}) {
    for (quire_dtype cache : {kF32, kF16, kBf16, kE4m3, kE5m2}) {
      for (quire_dtype source : {kF32, kF16, kBf16}) {
        Shape s;
        s.dim_v = 48;
        s.cache = cache;
        s.block = 11;
        AppendCase c(s, {order, 24, 8, std::string(order) == "BKTHD", 16}, source, 70);
        c.run();
        EXPECT_TRUE(c.pool == c.mirror) << order << " cache code " << int{cache.code} << " bits " << int{cache.bits};
      }
    }
  }
}

TEST(Append, TakesTheColumnOfItsCache) {
  QUIRE_NEEDS(kv_append);
  AppendCase c(Shape{}, {}, kF32, 70);
  Array<int64_t> two;
  c.op.take_column_1(&c.op.kv, &c.op.arrays.slots, &c.op.arrays.slots_column_pitch, c.slots.size(), &two, INT64_MAX);
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->kv_append(driver().stream, &c.op, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK);
  WithBatch<quire_kv_append> copy = c.op;
  copy.kv = c.mirrored;
  copy.arrays.slots = c.slots.data();
  oracle::append(copy);
  EXPECT_TRUE(c.pool == c.mirror);
}

// So many bytes at once that stores go around the caches.
TEST(Append, ManyRowsAsTheyAre) {
  QUIRE_NEEDS(kv_append);
  Shape s;
  s.kv_heads = 16;
  s.dim_k = 128;
  s.dim_v = 40;
  s.block = 59;
  s.cache = kF32;
  for (const char* order : {"BKHTD", "BKTHD"}) {
    AppendCase c(s, {order, 0, 8, false, 16}, kF32, 520);
    c.run();
    EXPECT_TRUE(c.pool == c.mirror) << order;
  }
  s.kv_heads = 72;  // one token is more than what is read together
  AppendCase c(s, {"BKHTD", 0, 8, false, 16}, kF32, 130);
  c.run();
  EXPECT_TRUE(c.pool == c.mirror);
}

TEST(Append, SidesApart) {
  QUIRE_NEEDS(kv_append);
  Shape s;
  s.dim_v = 40;
  AppendCase c(s, {"BTHD", 8, 2, false, 6, "HBTD"}, kF32, 70);
  c.run();
  EXPECT_TRUE(c.pool == c.mirror);
}

TEST(Append, QuantisedWithScale) {
  QUIRE_NEEDS(kv_append);
  for (quire_dtype cache : {kE4m3, kE5m2, kI8}) {
    Shape s;
    s.cache = cache;
    AppendCase c(s, {}, kF32, 60);
    c.op.scale_k = 0.125f;  // a power of two: value / scale is exact, so the bytes must be the oracle's
    c.op.scale_v = 0.03125f;
    c.run();
    EXPECT_TRUE(c.pool == c.mirror) << "code " << int{cache.code};
  }
}

TEST(Append, OneSide) {
  QUIRE_NEEDS(kv_append);
  Shape s;
  s.sides = 1;
  s.kv_heads = 1;
  s.dim_k = 576;
  AppendCase c(s, {"BTHD", 0, 0, false, 0}, kBf16, 40);
  c.run();
  EXPECT_TRUE(c.pool == c.mirror);
}

// Tensors that are only read may repeat elements.
TEST(Append, OneKeyForAllHeadsAndOneValueForAllTokens) {
  QUIRE_NEEDS(kv_append);
  AppendCase c(Shape{}, {}, kBf16, 70);
  c.op.key.stride[1] = 0;
  c.op.value.stride[0] = 0;
  c.run();
  EXPECT_TRUE(c.pool == c.mirror);
}

TEST(Append, RopeBothWays) {
  QUIRE_NEEDS(kv_append);
  for (bool interleaved : {false, true}) {
    for (uint32_t dim : {64u, 24u, 2u}) {
      for (quire_dtype cache : {kF32, kBf16, kF16}) {
        Shape s;
        s.cache = cache;
        AppendCase c(s, {}, kF32, 60);
        c.rope(dim, interleaved);
        c.run();
        const double step = cache.bits == 32 ? 1e-6 : cache.code == QUIRE_DTYPE_BFLOAT ? 8e-3 : 1e-3;  // one step of the format near 1
        uint64_t different = 0;
        const auto size = static_cast<size_t>(oracle::bytes_of(cache));
        for (size_t at = 0; at + size <= c.pool.size(); at += size) {
          if (memcmp(&c.pool[at], &c.mirror[at], size) == 0) continue;
          ++different;
          const double got = oracle::decode(cache, &c.pool[at]);
          const double want = oracle::decode(cache, &c.mirror[at]);
          ASSERT_NEAR(got, want, step * std::max(1.0, std::fabs(want))) << "element " << at / size;
        }
        if (cache.bits == 16) {
          EXPECT_LT(different * 100, c.pool.size() / size) << "more than 1 % of the elements are not the nearest";
        }
      }
    }
  }
}

TEST(Append, BadArgumentsWriteNothing) {
  QUIRE_NEEDS(kv_append);
  struct Fault {
    const char* names;  // what the message must name
    quire_code code;
    void (*set)(AppendCase*);
  };
  const Fault faults[] = {
      {"struct_size", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.struct_size = 40; }},
      {"slots[69]", QUIRE_OUT_OF_RANGE, [](AppendCase* c) { c->slots[69] = 9 * 16; }},
      {"slots is NULL", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.arrays.slots = nullptr; }},
      {"key.data", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.key.data = nullptr; }},
      {"num_slots", QUIRE_OUT_OF_RANGE, [](AppendCase* c) { c->op.value.shape[0] = 69; }},
      {"key.shape[1]", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.key.shape[1] = 3; }},
      {"value.shape[2]", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.value.shape[2] = 63; }},
      {"value.ndim", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.value.ndim = 2; }},
      {"key.stride[0]", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.key.stride[0] = INT64_MAX / 2; }},
      {"kv.codec", QUIRE_UNIMPLEMENTED, [](AppendCase* c) { c->op.kv.codec = 77; }},
      {"kv.dtype", QUIRE_UNIMPLEMENTED, [](AppendCase* c) { c->op.kv.dtype.bits = 4; }},
      {"kv.block_tokens", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.kv.block_tokens = 0; }},
      {"kv.num_heads", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.kv.num_heads = 0; }},
      {"kv.num_sides", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.kv.num_sides = 3; }},
      {"kv.side[1].base", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.kv.side[1].base = nullptr; }},
      {"kv.side[0]", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.kv.side[0].unit = INT64_MAX / 4; }},
      {"kv.side[0].unit is 0", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.kv.side[0].unit = 0; }},
      {"kv.side[0].stride_token is 0", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.kv.side[0].stride_token = 0; }},
      {"kv.side[1].stride_head is 0", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.kv.side[1].stride_head = 0; }},
      {"kv.side[1].stride_dim is 0", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.kv.side[1].stride_dim = 0; }},
      {"positions[68]", QUIRE_OUT_OF_RANGE, [](AppendCase* c) { c->rope(64, false), c->positions[69] = 0, c->positions[68] = -1; }},
      {"rope_dim", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->rope(64, false), c->op.rope_dim = 66; }},
      {"rope_dim", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->rope(64, false), c->op.rope_dim = 7; }},
      {"rope_sin", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->rope(64, false), c->op.rope_sin = nullptr; }},
      {"scale_k", QUIRE_INVALID_ARGUMENT, [](AppendCase* c) { c->op.scale_k = -1.0f; }},
      {"flags", QUIRE_UNIMPLEMENTED, [](AppendCase* c) { c->op.flags = 0x80; }},
  };
  for (const Fault& f : faults) {
    AppendCase c(Shape{}, {}, kBf16, 70);
    c.slots[68] = 1;
    f.set(&c);
    quire_error err = fresh_error();
    EXPECT_EQ(driver().api->kv_append(driver().stream, &c.op, &err), f.code) << f.names << ": " << err.message;
    EXPECT_EQ(err.code, f.code);
    EXPECT_NE(std::string(err.message).find(f.names), std::string::npos) << "'" << err.message << "' does not name " << f.names;
    EXPECT_TRUE(c.pool == c.mirror) << f.names << ": bytes were written";
  }
}

}  // namespace
}  // namespace quire::conformance
