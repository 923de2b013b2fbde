// Questions about bytes through the exported functions: fields, segments, runs for a peer, compatibility of two plans.
#include <algorithm>
#include <numeric>

#include "api_rig.h"

namespace quire::test {
namespace {

struct PlanWish {
  const char* policy = "vllm";
  const char* layout = "";
  uint32_t tensor_parallel = 1;
  uint32_t block_tokens = 0;
  uint64_t num_pages = 64;
};

class Plans : public testing::Test {
 protected:
  Owned<quire_model> model_of(const std::vector<quire_layer>& layers) {
    quire_model* model = nullptr;
    EXPECT_WORKS(quire_model_create(layers.data(), sizeof(quire_layer), layers.size(), 64, &model, err));
    return Owned<quire_model>(model);
  }

  Owned<quire_config> plan(const std::vector<quire_layer>& layers, const PlanWish& wish = {}) {
    const Owned<quire_model> model = model_of(layers);
    quire_plan_options options{};
    options.struct_size = sizeof options;
    options.policy = text(wish.policy);
    options.layout = text(wish.layout);
    options.tensor_parallel = wish.tensor_parallel;
    options.block_tokens = wish.block_tokens;
    options.num_pages = wish.num_pages;
    options.max_tokens_in_flight = 32;
    quire_config* config = nullptr;
    EXPECT_WORKS(quire_config_create(model.get(), &options, &config, err));
    return Owned<quire_config>(config);
  }

  static quire_layer latent_layer(uint32_t index) {  // 656-byte records
    quire_layer layer{};
    layer.struct_size = sizeof layer;
    layer.kind = QUIRE_LAYER_MLA;
    layer.layer = index;
    layer.num_kv_heads = 1;
    layer.num_q_heads = 16;
    layer.head_dim_k = 576;
    layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
    layer.codec = QUIRE_CODEC_RECORD;
    layer.codec_params.data_bytes[0] = 512;
    layer.codec_params.scale_bytes[0] = 16;
    layer.codec_params.tail_bytes[0] = 128;
    layer.codec_params.data_dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
    layer.codec_params.scale_dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
    layer.codec_params.tail_dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
    layer.codec_params.scale_elements = 128;
    return layer;
  }

  quire_kv_view view_of(quire_config* config, uint32_t shard, uint32_t layer) {
    quire_kv_view view{};
    view.struct_size = sizeof view;
    EXPECT_WORKS(quire_config_get_kv_view(config, shard, layer, 0, &view, err));
    return view;
  }

  quire_compatibility compared(quire_config* a, quire_config* b) {
    quire_compatibility out{};
    out.struct_size = sizeof out;
    EXPECT_WORKS(quire_config_compare(a, b, &out, err));
    return out;
  }
};

TEST_F(Plans, EncodedRowsHaveFieldsAndSegments) {
  const auto config = plan({latent_layer(0), latent_layer(1)});
  quire_kv_field fields[4] = {};
  uint64_t count = 0;
  EXPECT_WORKS(quire_config_list_fields(config.get(), 0, 1, 0, fields, 4, &count, err));
  ASSERT_EQ(count, 3U);
  EXPECT_EQ(fields[1].role, static_cast<uint32_t>(QUIRE_FIELD_SCALES));
  EXPECT_EQ(fields[1].offset - fields[0].offset, 512);
  EXPECT_EQ(fields[2].offset - fields[0].offset, 528);
  EXPECT_EQ(fields[2].stride_token, 656);
  EXPECT_EQ(view_of(config.get(), 0, 1).codec, static_cast<uint32_t>(QUIRE_CODEC_RECORD));
  quire_group_info group{};
  group.struct_size = sizeof group;
  EXPECT_WORKS(quire_config_get_group(config.get(), 0, &group, err));
  EXPECT_EQ(group.payload_bytes_per_block, uint64_t{2} * 656 * group.block_tokens);
  EXPECT_FAILS(QUIRE_NOT_FOUND, "layer 9", quire_config_list_fields(config.get(), 0, 9, 0, nullptr, 0, &count, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "config is NULL", quire_config_list_fields(nullptr, 0, 0, 0, nullptr, 0, &count, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "count is NULL", quire_config_list_fields(config.get(), 0, 0, 0, nullptr, 0, nullptr, err));
}

TEST_F(Plans, SegmentsAsSelected) {
  const auto config = plan({attention_layer(0), state_layer(1), attention_layer(2), state_layer(3)});
  quire_layer_place place{};
  place.struct_size = sizeof place;
  EXPECT_WORKS(quire_config_get_place(config.get(), 2, 0, &place, err));
  const int32_t ids[] = {1, 2, 5};
  const auto bytes = [&](const quire_segment_query& query) {
    uint64_t count = 0;
    EXPECT_WORKS(quire_config_list_segments(config.get(), &query, ids, 3, nullptr, 0, &count, err));
    std::vector<quire_segment> runs(count);
    EXPECT_WORKS(quire_config_list_segments(config.get(), &query, ids, 3, runs.data(), count, &count, err));
    return std::accumulate(runs.begin(), runs.end(), uint64_t{0}, [](uint64_t sum, const quire_segment& run) { return sum + run.bytes; });
  };
  quire_segment_query query{};
  query.struct_size = sizeof query;
  query.group = place.group;
  const uint64_t whole = bytes(query);
  query.flags = QUIRE_SELECT_ONE_LAYER;
  query.layer = 2;
  const uint64_t layer = bytes(query);
  EXPECT_GT(layer, 0U);
  EXPECT_EQ(whole, 2 * layer);
  query.num_head_shards = 2;
  EXPECT_EQ(2 * bytes(query), layer);
  uint64_t count = 0;
  const auto call = [&](const int32_t* some, uint64_t n, quire_error* err) {
    return quire_config_list_segments(config.get(), &query, some, n, nullptr, 0, &count, err);
  };
  query.head_shard = 2;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "query.head_shard 2: num_head_shards is 2", call(ids, 3, err));
  query.head_shard = 0;
  query.layer = 1;
  EXPECT_FAILS(QUIRE_NOT_REPRESENTABLE, "layer 1 is a state", call(ids, 3, err));
  query.layer = 2;
  query.flags = 2;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "query.flags", call(ids, 3, err));
  query.flags = 0;
  query.column = 4;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "query.column 4", call(ids, 3, err));
  query.column = 0;
  query.group = 9;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "group 9", call(ids, 3, err));
  query.group = place.group;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "ids is NULL", call(nullptr, 3, err));
  const int32_t wrong[] = {1, 64};
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "ids[1] = 64", call(wrong, 2, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "query is NULL", quire_config_list_segments(config.get(), nullptr, ids, 3, nullptr, 0, &count, err));
}

// Two ranks send what one rank holds: together all of it, once, whatever their blocks.
TEST_F(Plans, RunsReachAnotherSplitAndBlock) {
  const std::vector<quire_layer> layers = {attention_layer(0), attention_layer(1)};
  const auto one = plan(layers, {"vllm", "BLPJKTHD", 1, 16, 64});
  const auto two = plan(layers, {"vllm", "BJLPHTKD", 2, 32, 64});
  const quire_kv_view from = view_of(one.get(), 0, 1);
  const std::vector<int32_t> from_ids = {3, 9, 4, 7};
  const std::vector<int32_t> to_ids = {5, 2};
  const quire_kv_blocks source{&from, from_ids.data(), from_ids.size()};
  uint64_t bytes = 0;
  for (uint32_t shard = 0; shard < 2; ++shard) {
    const quire_kv_view to = view_of(two.get(), shard, 1);
    EXPECT_EQ(to.first_head, shard);
    EXPECT_EQ(to.model_heads, 2U);
    const quire_kv_blocks target{&to, to_ids.data(), to_ids.size()};
    uint64_t count = 0;
    EXPECT_WORKS(quire_kv_view_list_runs(&source, &target, 0, 50, nullptr, 0, &count, err));
    std::vector<quire_run> runs(count);
    EXPECT_WORKS(quire_kv_view_list_runs(&source, &target, 0, 50, runs.data(), count, &count, err));
    for (const quire_run& run : runs) bytes += run.bytes * run.count;
  }
  EXPECT_EQ(bytes, 50U * 2 * (64 + 32) * 2);
  uint64_t count = 0;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "to is NULL", quire_kv_view_list_runs(&source, nullptr, 0, 1, nullptr, 0, &count, err));
  const quire_kv_blocks one_id{&from, from_ids.data(), 1};
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "from_ids: 1 ids", quire_kv_view_list_runs(&one_id, &source, 0, 20, nullptr, 0, &count, err));
}

TEST_F(Plans, StateRunsFollowTheRanks) {
  quire_layer split = state_layer(1);
  split.state_shard[0] = 1;
  const std::vector<quire_layer> layers = {attention_layer(0), split};
  const auto one = plan(layers);
  const auto two = plan(layers, {"vllm", "", 2, 0, 64});
  quire_state_view from{};
  quire_state_view to{};
  from.struct_size = to.struct_size = sizeof from;
  EXPECT_WORKS(quire_config_get_state_view(one.get(), 0, 1, 0, 0, &from, err));
  EXPECT_WORKS(quire_config_get_state_view(two.get(), 1, 1, 0, 0, &to, err));
  quire_run run{};
  uint64_t count = 0;
  EXPECT_WORKS(quire_state_view_list_runs(&from, 3, &to, 2, &run, 1, &count, err));
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(run.bytes, 16U * 16 * 4);  // the second of two heads
  EXPECT_EQ(run.from_offset, static_cast<uint64_t>(from.offset + 3 * from.stride_page) + 16 * 16 * 4);
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "to_id = 64", quire_state_view_list_runs(&from, 3, &to, 64, &run, 1, &count, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "from is NULL", quire_state_view_list_runs(nullptr, 3, &to, 2, &run, 1, &count, err));
}

TEST_F(Plans, CompatibilityHasLevels) {
  const std::vector<quire_layer> layers = {attention_layer(0), state_layer(1), attention_layer(2), state_layer(3)};
  const auto a = plan(layers);
  EXPECT_EQ(compared(a.get(), plan(layers, {"vllm", "", 1, 0, 90}).get()).level, static_cast<uint32_t>(QUIRE_COMPAT_IDENTICAL));
  EXPECT_STREQ(compared(a.get(), a.get()).reason, "");
  const auto expect = [&](const std::vector<quire_layer>& other, const PlanWish& wish, uint32_t level, const char* reason) {
    const quire_compatibility found = compared(a.get(), plan(other, wish).get());
    EXPECT_EQ(found.level, level) << found.reason;
    EXPECT_NE(std::string(found.reason).find(reason), std::string::npos) << found.reason;
  };
  expect(layers, {"vllm", "BLPJKHTD", 1, 0, 64}, QUIRE_COMPAT_REARRANGED, "layer 0 sub 0: stride_token is");
  expect(layers, {"auto", "", 1, 0, 64}, QUIRE_COMPAT_REARRANGED, "");
  std::vector<quire_layer> other = layers;
  other[2].dtype = {QUIRE_DTYPE_FLOAT, 16, 1};
  other[0].dtype = other[2].dtype;
  expect(other, {}, QUIRE_COMPAT_CONVERTIBLE, "layer 0 sub 0: dtype is {code 4, bits 16} and {code 2, bits 16}");
  other = layers;
  other[0].codec = other[2].codec = QUIRE_CODEC_COLUMN_K;
  expect(other, {}, QUIRE_COMPAT_CONVERTIBLE, "layer 0 sub 0: codec is 0 and 5");
  other = layers;
  other[2].head_dim_v = 64;
  expect(other, {"auto", "", 1, 0, 64}, QUIRE_COMPAT_INCOMPATIBLE, "layer 2 sub 0: head_dim is 32 and 64");
  other = layers;
  other[2].kind = QUIRE_LAYER_SLIDING_WINDOW;
  other[2].window = 20;
  expect(other, {}, QUIRE_COMPAT_INCOMPATIBLE, "layer 2 sub 0: window is 0 and 20");
  other = layers;
  other[3].state[1].shape[0] = 4;
  other[1].state[1].shape[0] = 4;
  expect(other, {}, QUIRE_COMPAT_INCOMPATIBLE, "layer 1 sub 0: state[1].shape[0] is 3 and 4");
  other.pop_back();
  expect(other, {}, QUIRE_COMPAT_INCOMPATIBLE, "number of caches is 4 and 3");
  quire_compatibility out{};
  out.struct_size = sizeof out;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "b is NULL", quire_config_compare(a.get(), nullptr, &out, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "out is NULL", quire_config_compare(a.get(), a.get(), nullptr, err));
}

}  // namespace
}  // namespace quire::test
