// Rows of quire/ops.h. The null driver has no kernels: valid arguments reach its stub, which answers UNIMPLEMENTED.
#include "../../../kernels/conformance/with_batch.h"
#include "rows.h"

namespace quire::test {
namespace {

// A batch of another group has no arrays that the op could need: what is said is the group.
template <typename Op, typename Call>
void expect_group(WithBatch<Op>* op, uint32_t* group, Call&& call) {
  op->arrays.num_rows = 1;
  op->arrays.num_slots = 1;
  op->arrays.group = 2;
  *group = 3;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.batch.group is 2", call(err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, ".group is 3", call(err));
}

ROW(quire_memory_get_paged_kv) {
  quire_paged_kv out{};
  call.bad("layer", {1, 4, UINT32_MAX}, QUIRE_NOT_FOUND).bad("sub", {1, UINT32_MAX}, QUIRE_NOT_FOUND);
  call(rig.memory.get(), 0U, 0U, &out);
}

ROW(quire_memory_get_paged_state) {
  quire_paged_state out{};
  call.bad("layer", {0, 4, UINT32_MAX}, QUIRE_NOT_FOUND).bad("sub", {1, UINT32_MAX}, QUIRE_NOT_FOUND);
  call.bad("tensor", {2, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.memory.get(), 1U, 0U, 0U, &out);
}

ROW(quire_attention_from_layer) {
  auto layer = sized<quire_layer>();
  layer.kind = QUIRE_LAYER_SLIDING_WINDOW;
  layer.head_dim_k = 64;
  layer.window = 128;
  layer.sink_tokens = 4;
  layer.softcap = 30;
  auto op = sized<quire_attention>();
  op.flags = QUIRE_ATTENTION_BATCH_INVARIANT;
  op.scale = 0.5F;
  call(&layer, &op);
  EXPECT_EQ(op.flags, QUIRE_ATTENTION_CAUSAL | QUIRE_ATTENTION_BATCH_INVARIANT);
  EXPECT_EQ(op.window, 128U);
  EXPECT_EQ(op.sink_tokens, 4U);
  EXPECT_EQ(op.chunk, 0U);
  EXPECT_EQ(op.softcap, 30.0F);
  EXPECT_EQ(op.scale, 0.5F);
  layer.kind = QUIRE_LAYER_STATE;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "layer.kind: 5", quire_attention_from_layer(&layer, &op, err));
  EXPECT_EQ(op.window, 128U);
}

ROW(quire_op_kv_append) {
  WithBatch<quire_kv_append> op;
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
  expect_group(&op, &op.kv.group, [&](quire_error* err) { return quire_op_kv_append(rig.stream.get(), &op, err); });
}

ROW(quire_op_attention_workspace) {
  uint64_t plan_bytes = 0;
  uint64_t workspace_bytes = 0;
  call.any({"max_rows", "max_query_tokens", "max_kv_len", "num_q_heads", "head_dim_v"}).answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), 1U, uint64_t{1}, uint64_t{1}, 1U, 1U, &plan_bytes, &workspace_bytes);
}

ROW(quire_op_attention_plan) {
  const WithBatch<quire_attention> op;
  uint64_t plan[8] = {};
  call.any({"plan_bytes"}).answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op, static_cast<void*>(plan), uint64_t{sizeof plan});
}

ROW(quire_op_attention) {
  WithBatch<quire_attention> op;
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
  expect_group(&op, &op.kv.group, [&](quire_error* err) { return quire_op_attention(rig.stream.get(), &op, err); });
}

ROW(quire_op_attention_merge) {
  const auto op = sized<quire_attention_merge>();
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
}

ROW(quire_op_gated_delta) {
  WithBatch<quire_gated_delta> op;
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
  expect_group(&op, &op.state.group, [&](quire_error* err) { return quire_op_gated_delta(rig.stream.get(), &op, err); });
}

ROW(quire_op_conv1d) {
  WithBatch<quire_conv1d> op;
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
  expect_group(&op, &op.state.group, [&](quire_error* err) { return quire_op_conv1d(rig.stream.get(), &op, err); });
}

ROW(quire_op_selective_scan) {
  WithBatch<quire_selective_scan> op;
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
  expect_group(&op, &op.state.group, [&](quire_error* err) { return quire_op_selective_scan(rig.stream.get(), &op, err); });
}

ROW(quire_op_copy) {
  uint64_t bytes[2] = {1, 2};
  const quire_copy_run run = {reinterpret_cast<uint64_t>(&bytes[0]), reinterpret_cast<uint64_t>(&bytes[1]), 8};
  call.any({"n"});
  call(rig.stream.get(), &run, uint64_t{1});
  EXPECT_EQ(bytes[1], 1U);
}

ROW(quire_op_fill) {
  uint64_t bytes = 0;
  call.any({"value", "bytes"});
  call(rig.stream.get(), static_cast<void*>(&bytes), uint8_t{1}, uint64_t{1});
  EXPECT_EQ(bytes, 1U);
}

}  // namespace
}  // namespace quire::test
