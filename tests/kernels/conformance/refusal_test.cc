// Attention's arguments: each fault has its code, its message names the argument, and not one byte is written.
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/open_driver.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire::conformance {
namespace {

struct Fault {
  const char* names;
  quire_code code;
  void (*set)(AttentionCase*);
};

const Fault kFaults[] = {
    {"struct_size", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.struct_size = 100; }},
    {"flags", QUIRE_UNIMPLEMENTED, [](AttentionCase* c) { c->op.flags = 0x80000000u; }},
    {"window", QUIRE_UNIMPLEMENTED, [](AttentionCase* c) { c->op.flags = 0, c->op.window = 3; }},
    {"kv.codec", QUIRE_UNIMPLEMENTED, [](AttentionCase* c) { c->op.kv.codec = 5; }},
    {"kv.dtype", QUIRE_UNIMPLEMENTED, [](AttentionCase* c) { c->op.kv.dtype.bits = 64; }},
    {"kv.num_sides", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.kv.num_sides = 0; }},
    {"kv.num_heads", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.kv.num_heads = 0; }},
    {"query.shape[1]", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.kv.num_heads = 3; }},
    {"kv.block_tokens", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.kv.block_tokens = 0; }},
    {"kv.side[0].head_dim", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.kv.side[0].head_dim = 0; }},
    {"kv.side[1].head_dim", QUIRE_UNIMPLEMENTED, [](AttentionCase* c) { c->op.kv.side[1].head_dim = 1u << 20; }},
    {"kv.side[0].base", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.kv.side[0].base = nullptr; }},
    {"num_ids", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.kv.num_ids = uint64_t{1} << 40; }},
    {"query.shape[2]", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.query.shape[2] = 32; }},
    {"query.dtype", QUIRE_UNIMPLEMENTED, [](AttentionCase* c) { c->op.query.dtype = kE4m3; }},
    {"query.ndim", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.query.ndim = 4; }},
    {"query.data", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.query.data = nullptr; }},
    {"query.device_type", QUIRE_INVALID_ARGUMENT,
     [](AttentionCase* c) { c->op.query.device_type = 13; }},  // managed memory: nobody takes it
    {"out.shape[0]", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.out.shape[0] += 1; }},
    {"out.stride[1] is 0", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.out.stride[1] = 0; }},
    {"lse.stride[0] is 0", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.lse.stride[0] = 0; }},
    {"lse.dtype", QUIRE_UNIMPLEMENTED, [](AttentionCase* c) { c->op.lse.dtype = kBf16; }},
    {"head_dim_v", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.head_dim_v = 32; }},
    {"batch is NULL", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.batch = nullptr; }},
    {"batch.struct_size", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.arrays.struct_size = 8; }},
    {"batch.flags", QUIRE_UNIMPLEMENTED, [](AttentionCase* c) { c->op.arrays.flags = 1; }},
    {"batch.group is 0", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.kv.group = 1; }},
    {"batch.num_columns is 1", QUIRE_OUT_OF_RANGE, [](AttentionCase* c) { c->op.kv.column = 1; }},
    {"pitch", QUIRE_OUT_OF_RANGE, [](AttentionCase* c) { c->op.arrays.table_column_pitch = uint64_t{1} << 50; }},
    {"query_indptr is NULL", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.arrays.query_indptr = nullptr; }},
    {"query_indptr[0]", QUIRE_OUT_OF_RANGE, [](AttentionCase* c) { c->indptr[0] = -1; }},
    {"query_indptr[2]", QUIRE_OUT_OF_RANGE, [](AttentionCase* c) { c->indptr[2] = 0; }},
    {"query_indptr[3]", QUIRE_OUT_OF_RANGE, [](AttentionCase* c) { c->indptr[3] += 1; }},
    {"kv_len[1]", QUIRE_OUT_OF_RANGE, [](AttentionCase* c) { c->lengths[1] = -5; }},
    {"kv_len[1]", QUIRE_OUT_OF_RANGE, [](AttentionCase* c) { c->lengths[1] = 4; }},
    {"kv_len[2]", QUIRE_OUT_OF_RANGE, [](AttentionCase* c) { c->lengths[2] = 1 << 20; }},
    {"table[1][2]", QUIRE_OUT_OF_RANGE, [](AttentionCase* c) { c->table[c->op.arrays.table_pitch + 2] = -1; }},
    {"table[2][0]", QUIRE_OUT_OF_RANGE,
     [](AttentionCase* c) { c->table[2 * c->op.arrays.table_pitch] = static_cast<int32_t>(c->op.kv.num_ids); }},
    {"softcap", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.softcap = -1.0f; }},
    {"scale", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.scale = NAN; }},
    {"mask_indptr", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.mask_bits = c->pool.data(); }},
    {"plan_bytes", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.plan = c->pool.data(); }},
    {"plan", QUIRE_INVALID_ARGUMENT, [](AttentionCase* c) { c->op.plan = c->pool.data(), c->op.plan_bytes = 4096; }},
};

Shape small_shape() {
  Shape s;
  s.rows = {{1, 20}, {5, 40}, {2, 33}};
  return s;
}

TEST(Refusals, EveryFaultIsNamedAndNothingIsWritten) {
  QUIRE_NEEDS(attention);
  for (const Fault& f : kFaults) {
    AttentionCase c(small_shape(), {});
    f.set(&c);
    c.reset();
    const Array<uint8_t> pool = c.pool;
    quire_error err = fresh_error();
    EXPECT_EQ(driver().api->attention(driver().stream, &c.op, &err), f.code) << f.names << ": " << err.message;
    EXPECT_NE(std::string(err.message).find(f.names), std::string::npos) << "'" << err.message << "' does not name " << f.names;
    EXPECT_TRUE(std::string(err.source).rfind("driver:", 0) == 0) << err.source;
    EXPECT_TRUE(pool == c.pool) << f.names;
    EXPECT_TRUE(c.outputs_untouched()) << f.names;
    EXPECT_EQ(driver().api->attention(driver().stream, &c.op, nullptr), f.code) << f.names << " without an error struct";
  }
}

// A plan is bytes of the caller: any byte may be wrong, and then either the call is refused or the result is what it would have been.
TEST(Refusals, DamagedPlans) {
  QUIRE_NEEDS(attention_plan);
  Shape s = small_shape();
  s.rows = {{1, 900}, {5, 40}};
  AttentionCase c(s, {});
  uint64_t plan_bytes = 0;
  uint64_t workspace_bytes = 0;
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->attention_workspace(driver().device, 2, 6, 900, s.q_heads, s.dim_v, &plan_bytes, &workspace_bytes, &err),
            QUIRE_OK);
  EXPECT_EQ(driver().api->attention_plan(driver().device, &c.op, nullptr, plan_bytes, &err), QUIRE_INVALID_ARGUMENT);
  Array<uint64_t> plan(plan_bytes / 8 + 1);
  EXPECT_EQ(driver().api->attention_plan(driver().device, &c.op, plan.data(), 56, &err), QUIRE_OUT_OF_RANGE) << err.message;
  ASSERT_EQ(driver().api->attention_plan(driver().device, &c.op, plan.data(), plan_bytes, &err), QUIRE_OK) << err.message;
  Array<float> workspace(workspace_bytes / 4 + 1);
  c.op.plan_bytes = plan_bytes;
  c.op.workspace = workspace.data();
  c.op.workspace_bytes = workspace_bytes;
  uint64_t refused = 0;
  for (uint64_t i = 0; i < 600; ++i) {
    Array<uint64_t> damaged = plan;
    auto* bytes = reinterpret_cast<uint8_t*>(damaged.data());
    bytes[mixed(5, i) % std::min<uint64_t>(plan_bytes, 400)] ^= static_cast<uint8_t>(1u << (mixed(6, i) % 8));
    c.op.plan = damaged.data();
    c.reset();
    refused += driver().api->attention(driver().stream, &c.op, &err) != QUIRE_OK ? 1 : 0;  // a sanitizer watches the rest
    ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
  }
  EXPECT_GT(refused, 100u);
  // The right plan for other lengths.
  c.lengths[0] = 899;
  c.op.plan = plan.data();
  EXPECT_EQ(driver().api->attention(driver().stream, &c.op, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("plan"), std::string::npos);
}

}  // namespace
}  // namespace quire::conformance
