// Rows of quire/config.h.
#include "rows.h"

namespace quire::test {
namespace {

ROW(quire_config_create) {
  auto options = sized<quire_plan_options>();
  options.num_pages = 16;
  quire_config* out = nullptr;
  call.null_is_legal({"options"});
  call(rig.model.get(), &options, &out);
  quire_config_release(out);
}

ROW(quire_config_retain) { EXPECT_EQ(quire_config_retain(nullptr), nullptr); }

ROW(quire_config_release) { quire_config_release(nullptr); }

ROW(quire_config_get_info) {
  auto info = sized<quire_config_info>();
  call(rig.config.get(), &info);
  EXPECT_GT(info.num_groups, 1U);
}

ROW(quire_config_get_group) {
  auto info = sized<quire_group_info>();
  call.bad("group", {99, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.config.get(), 0U, &info);
  auto plan = sized<quire_config_info>();
  EXPECT_EQ(quire_config_get_info(rig.config.get(), &plan, nullptr), QUIRE_OK);
  for (uint32_t g = 0; g < plan.num_groups; ++g) {
    EXPECT_EQ(quire_config_get_group(rig.config.get(), g, &info, nullptr), QUIRE_OK);
    const uint64_t blocks = (plan.max_model_len + info.look_ahead + info.block_tokens - 1) / info.block_tokens;
    EXPECT_EQ(info.table_pitch, info.is_state != 0 ? 0 : blocks * (info.block_tokens / info.kernel_block_tokens)) << g;
    EXPECT_TRUE(info.is_state != 0 || info.checkpoint_interval == 0) << g;
  }
}

ROW(quire_config_get_place) {
  auto place = sized<quire_layer_place>();
  call.bad("layer", {4, UINT32_MAX}, QUIRE_NOT_FOUND).bad("sub", {1, UINT32_MAX}, QUIRE_NOT_FOUND);
  call(rig.config.get(), 0U, 0U, &place);
}

ROW(quire_config_get_kv_view) {
  auto view = sized<quire_kv_view>();
  call.bad("shard", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE).bad("layer", {1, 4, UINT32_MAX}, QUIRE_NOT_FOUND);
  call.bad("sub", {1, UINT32_MAX}, QUIRE_NOT_FOUND);
  call(rig.config.get(), 0U, 0U, 0U, &view);
}

ROW(quire_config_get_state_view) {
  auto view = sized<quire_state_view>();
  call.bad("shard", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE).bad("layer", {0, 4, UINT32_MAX}, QUIRE_NOT_FOUND);
  call.bad("sub", {1, UINT32_MAX}, QUIRE_NOT_FOUND).bad("tensor", {2, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.config.get(), 0U, 1U, 0U, 1U, &view);
}

ROW(quire_config_list_regions) {
  std::vector<quire_region_info> items(8);
  uint64_t count = 0;
  call.bad("shard", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.config.get(), 0U, items.data(), sizeof(quire_region_info), items.size(), &count);
  EXPECT_GT(count, 0U);
}

ROW(quire_config_list_segments) {
  auto query = sized<quire_segment_query>();
  const std::vector<int32_t> ids = {1, 2};
  std::vector<quire_segment> items(64);
  uint64_t count = 0;
  call.any({"num_ids"});
  call(rig.config.get(), &query, ids.data(), ids.size(), items.data(), items.size(), &count);
  EXPECT_GT(count, 0U);
}

ROW(quire_config_list_fields) {
  std::vector<quire_kv_field> items(8);
  uint64_t count = 0;
  call.bad("shard", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE).bad("layer", {1, 4, UINT32_MAX}, QUIRE_NOT_FOUND);
  call.bad("sub", {1, UINT32_MAX}, QUIRE_NOT_FOUND);
  call(rig.config.get(), 0U, 0U, 0U, items.data(), items.size(), &count);
  EXPECT_EQ(count, 2U);
}

ROW(quire_kv_view_list_runs) {
  auto view = sized<quire_kv_view>();
  EXPECT_WORKS(quire_config_get_kv_view(rig.config.get(), 0, 0, 0, &view, err));
  const std::vector<int32_t> ids = {1, 2};
  std::vector<quire_run> items(64);
  uint64_t count = 0;
  const quire_kv_blocks blocks{&view, ids.data(), ids.size()};
  call.any({"begin", "end"});
  call(&blocks, &blocks, uint64_t{3}, uint64_t{7}, items.data(), items.size(), &count);
  EXPECT_GT(count, 0U);
  const auto wrong = [&](const quire_kv_blocks& one, const char* part) {
    EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, part, quire_kv_view_list_runs(&blocks, &one, 3, 7, items.data(), items.size(), &count, err));
  };
  wrong({nullptr, ids.data(), ids.size()}, "to.view is NULL");
  wrong({&view, nullptr, ids.size()}, "to.ids is NULL");
  wrong({&view, ids.data(), UINT64_MAX}, "to.num_ids is 18446744073709551615");
  const auto short_view = [&] {
    quire_kv_view shorter = view;
    shorter.struct_size = 8;
    return shorter;
  }();
  wrong({&short_view, ids.data(), ids.size()}, "to.view.struct_size is 8");
}

ROW(quire_state_view_list_runs) {
  auto view = sized<quire_state_view>();
  EXPECT_WORKS(quire_config_get_state_view(rig.config.get(), 0, 1, 0, 0, &view, err));
  quire_run item{};
  uint64_t count = 0;
  call.bad("from_id", {UINT32_MAX, 0x7fffffffU}, QUIRE_OUT_OF_RANGE).bad("to_id", {UINT32_MAX, 0x7fffffffU}, QUIRE_OUT_OF_RANGE);
  call(&view, 1, &view, 2, &item, uint64_t{1}, &count);
  EXPECT_EQ(count, 1U);
}

ROW(quire_config_compare) {
  auto out = sized<quire_compatibility>();
  call(rig.config.get(), rig.config.get(), &out);
  EXPECT_EQ(out.level, QUIRE_COMPAT_IDENTICAL);
}

ROW(quire_config_get_lowering) {
  auto lowering = sized<quire_lowering>();
  call.bad("shard", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE).bad("group", {99, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.config.get(), 0U, 0U, &lowering);
}

ROW(quire_config_describe_json) {
  std::string json(1 << 20, '\0');
  uint64_t count = 0;
  call.null_is_legal({"text"});  // with capacity 0: the size is asked for
  call(rig.config.get(), json.data(), json.size(), &count);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "items is NULL and capacity is 5",
               quire_config_describe_json(rig.config.get(), nullptr, 5, &count, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity is 1", quire_config_describe_json(rig.config.get(), json.data(), 1, &count, err));
}

}  // namespace
}  // namespace quire::test
