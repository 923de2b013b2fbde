// Rows of quire/ops.h. The null driver has no kernels: valid arguments reach its stub, which answers UNIMPLEMENTED.
#include "rows.h"

namespace quire::test {
namespace {

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

ROW(quire_op_kv_append) {
  const auto op = sized<quire_kv_append>();
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
}

ROW(quire_op_attention_workspace) {
  uint64_t plan_bytes = 0;
  uint64_t workspace_bytes = 0;
  call.any({"max_rows", "max_query_tokens", "max_kv_len", "num_q_heads", "head_dim_v"}).answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), 1U, uint64_t{1}, uint64_t{1}, 1U, 1U, &plan_bytes, &workspace_bytes);
}

ROW(quire_op_attention_plan) {
  const auto op = sized<quire_attention>();
  uint64_t plan[8] = {};
  call.any({"plan_bytes"}).answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op, static_cast<void*>(plan), uint64_t{sizeof plan});
}

ROW(quire_op_attention) {
  const auto op = sized<quire_attention>();
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
}

ROW(quire_op_attention_merge) {
  const auto op = sized<quire_attention_merge>();
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
}

ROW(quire_op_gated_delta) {
  const auto op = sized<quire_gated_delta>();
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
}

ROW(quire_op_conv1d) {
  const auto op = sized<quire_conv1d>();
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
}

ROW(quire_op_selective_scan) {
  const auto op = sized<quire_selective_scan>();
  call.answers(QUIRE_UNIMPLEMENTED);
  call(rig.stream.get(), &op);
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
