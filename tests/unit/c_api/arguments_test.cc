// Wrong arguments of every function: each gets its code and a message that names the argument; nothing changes.
#include <algorithm>
#include <array>
#include <cstdint>

#include "../../kernels/conformance/with_batch.h"
#include "api_rig.h"

namespace quire::test {
namespace {

class Arguments : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(rig_.whole()); }

  // A struct of type T whose size field is wrong, or whose unknown tail is set.
  template <typename T>
  struct Longer {
    T known{};
    uint64_t tail[2] = {};
  };

  Rig rig_;
};

TEST(Base, VersionsAndNames) {
  EXPECT_EQ(quire_abi_version(), static_cast<uint32_t>(QUIRE_ABI_VERSION));
  EXPECT_GT(quire_version().len, 0U);
  EXPECT_EQ(std::string(quire_code_name(QUIRE_NOT_REPRESENTABLE).data), "NOT_REPRESENTABLE");
  EXPECT_EQ(std::string(quire_code_name(12345).data), "UNKNOWN");
}

TEST(Base, RuntimeCreate) {
  quire_runtime* runtime = nullptr;
  quire_runtime_options options = runtime_options("none");
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "out is NULL", quire_runtime_create(&options, nullptr, err));
  options.struct_size = 128;  // the first headers had 144
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.struct_size is 128", quire_runtime_create(&options, &runtime, err));
  options.struct_size = 0;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.struct_size is 0", quire_runtime_create(&options, &runtime, err));
  options.struct_size = 5000;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "the limit is 4096", quire_runtime_create(&options, &runtime, err));
  options = runtime_options("none");
  options.flags |= 0x100;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.flags: unknown bits 0x100", quire_runtime_create(&options, &runtime, err));
  options = runtime_options("none");
  options.reserved0 = 1;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.reserved0", quire_runtime_create(&options, &runtime, err));
  options = runtime_options("none");
  options.driver = {nullptr, 3};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.driver.data is NULL", quire_runtime_create(&options, &runtime, err));
  options = runtime_options("none");
  options.header_abi = 0x20001;
  EXPECT_FAILS(QUIRE_INCOMPATIBLE_ABI, "compiled for ABI 2.1", quire_runtime_create(&options, &runtime, err));
  EXPECT_EQ(runtime, nullptr);
}

TEST(Base, LongerStructsOfNewerHeaders) {
  struct {
    quire_runtime_options known;
    uint64_t tail[2];
  } longer{};
  longer.known = runtime_options("none");
  longer.known.struct_size = sizeof longer;
  quire_runtime* runtime = nullptr;
  EXPECT_WORKS(quire_runtime_create(&longer.known, &runtime, err));
  quire_runtime_release(runtime);
  runtime = nullptr;
  longer.tail[1] = 1;
  EXPECT_FAILS(QUIRE_UNIMPLEMENTED, "options: byte 152 is set and this library knows 144",
               quire_runtime_create(&longer.known, &runtime, err));
  EXPECT_EQ(runtime, nullptr);
}

TEST(Base, ErrorStructIsOptionalAndChecked) {
  EXPECT_EQ(quire_runtime_create(nullptr, nullptr, nullptr), QUIRE_INVALID_ARGUMENT);
  quire_error small{};
  small.struct_size = 16;
  small.code = 77;
  EXPECT_EQ(quire_runtime_create(nullptr, nullptr, &small), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(small.code, 77);  // not a struct of ours: untouched
}

TEST(Model, Arguments) {
  quire_model* model = nullptr;
  const quire_layer layer = attention_layer(0);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "layers is NULL", quire_model_create(nullptr, sizeof layer, 1, 0, &model, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "stride is 8", quire_model_create(&layer, 8, 1, 0, &model, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "count is 0", quire_model_create(&layer, sizeof layer, 0, 0, &model, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "count is 18446744073709551615",
               quire_model_create(&layer, sizeof layer, UINT64_MAX, 0, &model, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "out is NULL", quire_model_create(&layer, sizeof layer, 1, 0, nullptr, err));
  quire_layer wrong = layer;
  wrong.struct_size = 4;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "layers[0].struct_size is 4", quire_model_create(&wrong, sizeof wrong, 1, 0, &model, err));
  wrong.struct_size = sizeof wrong + 8;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "the stride is", quire_model_create(&wrong, sizeof wrong, 1, 0, &model, err));
  wrong = layer;
  wrong.flags = 1U << 20;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "flags", quire_model_create(&wrong, sizeof wrong, 1, 0, &model, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "json.data is NULL", quire_model_from_json({nullptr, 0}, &model, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "json has 16777217 bytes", quire_model_from_json({"{", (16U << 20) + 1}, &model, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "", quire_model_from_json(text("{\"a\": "), &model, err));
  EXPECT_EQ(model, nullptr);
}

TEST_F(Arguments, ModelQueries) {
  quire_model_info info{};
  info.struct_size = sizeof info;
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "model is NULL", quire_model_get_info(nullptr, &info, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "info is NULL", quire_model_get_info(rig_.model.get(), nullptr, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "index 4", quire_model_get_layer(rig_.model.get(), 4, &layer, err));
  info.struct_size = 8;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "info.struct_size is 8", quire_model_get_info(rig_.model.get(), &info, err));
  // A handle of another type is caught by its tag.
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "not a handle of its type",
               quire_model_get_info(reinterpret_cast<quire_model*>(rig_.config.get()), &info, err));
  Longer<quire_model_info> longer;
  longer.tail[1] = 5;
  longer.known.struct_size = sizeof longer;
  EXPECT_WORKS(quire_model_get_info(rig_.model.get(), &longer.known, err));
  EXPECT_EQ(longer.known.struct_size, sizeof(quire_model_info));
  EXPECT_EQ(longer.tail[1], 0U);
  EXPECT_EQ(longer.known.num_caches, 4U);
  EXPECT_WORKS(quire_model_get_layer(rig_.model.get(), 3, &layer, err));
  EXPECT_EQ(layer.kind, QUIRE_LAYER_STATE);
  EXPECT_EQ(std::string(layer.name.data, layer.name.len), "layers.3");
}

TEST_F(Arguments, ConfigCreate) {
  quire_config* config = nullptr;
  quire_plan_options options{};
  options.struct_size = sizeof options;
  options.num_pages = 16;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "model is NULL", quire_config_create(nullptr, &options, &config, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "out is NULL", quire_config_create(rig_.model.get(), &options, nullptr, err));
  options.flags = 1U << 9;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.flags", quire_config_create(rig_.model.get(), &options, &config, err));
  options.flags = 0;
  options.num_memory_bytes = 2;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.memory_bytes is NULL", quire_config_create(rig_.model.get(), &options, &config, err));
  options.num_memory_bytes = 0;
  options.policy = text("nosuch");
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "nosuch", quire_config_create(rig_.model.get(), &options, &config, err));
  EXPECT_EQ(config, nullptr);
}

TEST_F(Arguments, ConfigQueries) {
  quire_config* config = rig_.config.get();
  quire_group_info group{};
  group.struct_size = sizeof group;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "group 99", quire_config_get_group(config, 99, &group, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "info is NULL", quire_config_get_info(config, nullptr, err));
  quire_layer_place place{};
  place.struct_size = sizeof place;
  EXPECT_FAILS(QUIRE_NOT_FOUND, "layer 7", quire_config_get_place(config, 7, 0, &place, err));
  quire_kv_view kv{};
  kv.struct_size = sizeof kv;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "shard 3", quire_config_get_kv_view(config, 3, 0, 0, &kv, err));
  EXPECT_FAILS(QUIRE_NOT_FOUND, "is a state", quire_config_get_kv_view(config, 0, 1, 0, &kv, err));
  quire_state_view state{};
  state.struct_size = sizeof state;
  EXPECT_FAILS(QUIRE_NOT_FOUND, "is a token cache", quire_config_get_state_view(config, 0, 0, 0, 0, &state, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "tensor 2", quire_config_get_state_view(config, 0, 1, 0, 2, &state, err));
  quire_lowering lowering{};
  lowering.struct_size = sizeof lowering;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "shard 1", quire_config_get_lowering(config, 1, 0, &lowering, err));
  uint64_t count = 0;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "count is NULL", quire_config_describe_json(config, nullptr, 0, nullptr, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "items is NULL and capacity is 5", quire_config_describe_json(config, nullptr, 5, &count, err));
  EXPECT_WORKS(quire_config_describe_json(config, nullptr, 0, &count, err));
  ASSERT_GT(count, 1U);
  char one = 0;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity is 1", quire_config_describe_json(config, &one, 1, &count, err));
  EXPECT_EQ(one, '{');
  quire_region_info region{};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "stride is 12", quire_config_list_regions(config, 0, &region, 12, 1, &count, err));
  quire_segment_query query = QUIRE_INIT(quire_segment_query);
  const int32_t negative = -1;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "ids[0] = -1", quire_config_list_segments(config, &query, &negative, 1, nullptr, 0, &count, err));
  query.column = 9;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "column 9", quire_config_list_segments(config, &query, &negative, 1, nullptr, 0, &count, err));
}

TEST_F(Arguments, CacheCreateAndSequences) {
  quire_cache* other = nullptr;
  quire_cache_options options{};
  options.struct_size = sizeof options;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "config is NULL", quire_cache_create(nullptr, nullptr, &options, &other, err));
  options.flags = 8;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.flags", quire_cache_create(nullptr, rig_.config.get(), &options, &other, err));
  options.flags = 0;
  options.step_depth = 9;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "step_depth", quire_cache_create(nullptr, rig_.config.get(), &options, &other, err));
  EXPECT_EQ(other, nullptr);

  quire_cache* cache = rig_.cache.get();
  quire_sequence_id sequence = 0;
  quire_identity identity{};
  identity.struct_size = sizeof identity;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "out is NULL", quire_sequence_create(cache, &identity, nullptr, err));
  identity.flags = 4;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "identity.flags", quire_sequence_create(cache, &identity, &sequence, err));
  identity.flags = 0;
  const std::string salt(4097, 'x');
  identity.salt = {salt.data(), salt.size()};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "identity.salt has 4097 bytes, the limit is 4096",
               quire_sequence_create(cache, &identity, &sequence, err));
  EXPECT_WORKS(quire_sequence_create(cache, nullptr, &sequence, err));
  EXPECT_WORKS(quire_sequence_finish(cache, sequence, err));
  // Stale, never given and null ids.
  quire_sequence_info info{};
  info.struct_size = sizeof info;
  for (const quire_sequence_id wrong : std::array<quire_sequence_id, 4>{sequence, 0, 77, UINT64_MAX}) {
    EXPECT_FAILS(QUIRE_NOT_FOUND, "it was finished", quire_sequence_finish(cache, wrong, err));
    EXPECT_FAILS(QUIRE_NOT_FOUND, "sequence", quire_sequence_preempt(cache, wrong, err));
    EXPECT_FAILS(QUIRE_NOT_FOUND, "sequence", quire_sequence_truncate(cache, wrong, 0, err));
    EXPECT_FAILS(QUIRE_NOT_FOUND, "sequence", quire_sequence_get_info(cache, wrong, &info, err));
    quire_sequence_id child = 0;
    EXPECT_FAILS(QUIRE_NOT_FOUND, "sequence", quire_sequence_fork(cache, wrong, &child, err));
  }
  quire_symbol first = 0;
  const uint8_t digest[32] = {1};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "digest is NULL", quire_cache_add_media(cache, nullptr, 4, &first, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "length", quire_cache_add_media(cache, digest, 0, &first, err));
  EXPECT_WORKS(quire_cache_verify(cache, err));
}

TEST_F(Arguments, Steps) {
  quire_cache* cache = rig_.cache.get();
  quire_reserve_entry entry{};
  quire_reserve_result result{};
  quire_step step{};
  const quire_symbol symbols[4] = {1, 2, 3, 4};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "entries is NULL", quire_reserve(cache, nullptr, 1, symbols, 4, &result, &step, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "symbols is NULL", quire_reserve(cache, &entry, 1, nullptr, 4, &result, &step, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "results is NULL", quire_reserve(cache, &entry, 1, symbols, 4, nullptr, &step, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "step is NULL", quire_reserve(cache, &entry, 1, symbols, 4, &result, nullptr, err));
  quire_sequence_id sequence = 0;
  EXPECT_WORKS(quire_sequence_create(cache, nullptr, &sequence, err));
  entry.sequence = sequence;
  entry.symbols_offset = 3;
  entry.num_symbols = 2;
  entry.num_tokens = 2;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "symbols", quire_reserve(cache, &entry, 1, symbols, 4, &result, &step, err));
  entry.symbols_offset = 0;
  entry.encoder_tokens = 1;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "entries[0].encoder_tokens", quire_reserve(cache, &entry, 1, symbols, 4, &result, &step, err));
  entry.encoder_tokens = 0;
  entry.flags = 1U << 30;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "entries[0].flags", quire_reserve(cache, &entry, 1, symbols, 4, &result, &step, err));
  EXPECT_EQ(step.owner, nullptr);

  quire_step_info info{};
  info.struct_size = sizeof info;
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  uint64_t written = 0;
  quire_commit_entry commit{};
  commit.sequence = sequence;
  for (const quire_step wrong : std::array<quire_step, 3>{quire_step{cache, 0}, {cache, 5}, {cache, UINT64_MAX}}) {
    EXPECT_FAILS(QUIRE_NOT_FOUND, "step", quire_step_get_info(wrong, &info, err));
    EXPECT_FAILS(QUIRE_NOT_FOUND, "step", quire_commit(wrong, &commit, 1, nullptr, 0, err));
    EXPECT_FAILS(QUIRE_NOT_FOUND, "step", quire_abort(wrong, 0, err));
    EXPECT_FAILS(QUIRE_NOT_FOUND, "step", quire_step_list_copies(wrong, nullptr, 0, &written, err));
    EXPECT_FAILS(QUIRE_NOT_FOUND, "step", quire_step_list_zeroes(wrong, nullptr, 0, &written, err));
    EXPECT_FAILS(QUIRE_NOT_FOUND, "step", quire_memory_prepare_step(rig_.memory.get(), wrong, rig_.stream.get(), err));
  }
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "fills is NULL", quire_step_fill({cache, 1}, nullptr, sizeof fill, 1, &written, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "written is NULL", quire_step_fill({cache, 1}, &fill, sizeof fill, 1, nullptr, err));
  fill.capacity = 4;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "fills[0].destination is NULL", quire_step_fill({cache, 1}, &fill, sizeof fill, 1, &written, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "entries is NULL", quire_commit({cache, 1}, nullptr, 1, nullptr, 0, err));
  quire_probe_result probe{};
  probe.struct_size = sizeof probe;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "symbols is NULL", quire_probe(cache, nullptr, nullptr, 4, &probe, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "result is NULL", quire_probe(cache, nullptr, symbols, 4, nullptr, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "stats is NULL", quire_cache_get_stats(cache, nullptr, err));
  EXPECT_WORKS(quire_cache_verify(cache, err));
}

TEST_F(Arguments, DevicesAndStreams) {
  quire_device* device = nullptr;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "runtime is NULL", quire_device_open(nullptr, 0, &device, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "ordinal 1: driver null has 1 device", quire_device_open(rig_.runtime.get(), 1, &device, err));
  quire_stream* stream = nullptr;
  EXPECT_FAILS(QUIRE_UNIMPLEMENTED, "no native streams", quire_stream_create(rig_.device.get(), 5, &stream, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "timeout_ns is -2", quire_stream_synchronize(rig_.stream.get(), -2, err));
  const quire_runtime_options options = runtime_options("none");
  quire_runtime* none = nullptr;
  EXPECT_WORKS(quire_runtime_create(&options, &none, err));
  EXPECT_FAILS(QUIRE_UNAVAILABLE, "options.driver=none", quire_device_open(none, 0, &device, err));
  quire_runtime_release(none);
  const quire_runtime_options unknown = runtime_options("nosuch");
  EXPECT_WORKS(quire_runtime_create(&unknown, &none, err));
  EXPECT_FAILS(QUIRE_NOT_FOUND, "no file libquire_driver_nosuch.so", quire_device_open(none, 0, &device, err));
  quire_runtime_release(none);
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(stream, nullptr);
}

TEST_F(Arguments, Ops) {
  quire_stream* stream = rig_.stream.get();
  WithBatch<quire_attention> attention{};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "stream is NULL", quire_op_attention(nullptr, &attention, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op is NULL", quire_op_attention(stream, nullptr, err));
  attention.flags = 1U << 8;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.flags", quire_op_attention(stream, &attention, err));
  attention.flags = 0;
  attention.query.ndim = 6;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.query.ndim is 6", quire_op_attention(stream, &attention, err));
  attention.query.ndim = 3;
  attention.arrays.num_rows = 2;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.batch.table is NULL", quire_op_attention(stream, &attention, err));
  attention.arrays.num_rows = 0;
  attention.struct_size = 12;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.struct_size is 12", quire_op_attention(stream, &attention, err));
  attention.struct_size = sizeof(quire_attention);
  // The null driver has no kernels: the stub names the entry, the error its source.
  Error e;
  EXPECT_EQ(quire_op_attention(stream, &attention, &e), QUIRE_UNIMPLEMENTED);
  EXPECT_STREQ(e.message, "this driver has no entry 'attention'");
  EXPECT_STREQ(e.source, "driver:null");
  EXPECT_EQ(quire_op_attention(stream, &attention, nullptr), QUIRE_UNIMPLEMENTED);
  WithBatch<quire_kv_append> append{};
  append.arrays.num_slots = 3;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.batch.slots is NULL", quire_op_kv_append(stream, &append, err));
  append.flags = 1;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.flags", quire_op_kv_append(stream, &append, err));
  quire_attention_merge merge{};
  merge.struct_size = sizeof merge;
  merge.num_parts = 2;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.partial_out is NULL", quire_op_attention_merge(stream, &merge, err));
  WithBatch<quire_gated_delta> delta{};
  delta.arrays.num_rows = 1;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.batch.query_indptr is NULL", quire_op_gated_delta(stream, &delta, err));
  WithBatch<quire_conv1d> conv{};
  conv.arrays.flags = 1;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.batch.flags", quire_op_conv1d(stream, &conv, err));
  conv.batch = nullptr;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.batch is NULL", quire_op_conv1d(stream, &conv, err));
  delta.reserved0 = 1;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.reserved0 is 1", quire_op_gated_delta(stream, &delta, err));
  delta.reserved0 = 0;
  const int32_t offsets[] = {0, 1};
  delta.arrays.query_indptr = delta.arrays.state_read = delta.arrays.state_write_indptr = static_cast<const int32_t*>(offsets);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.batch.state_write_ends is NULL", quire_op_gated_delta(stream, &delta, err));
  delta.arrays.state_write_ends = static_cast<const int32_t*>(offsets);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.batch.kv_len is NULL", quire_op_gated_delta(stream, &delta, err));
  WithBatch<quire_selective_scan> scan{};
  scan.flags = 2;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.flags", quire_op_selective_scan(stream, &scan, err));
  scan.flags = QUIRE_SELECTIVE_SCAN_SOFTPLUS;
  scan.arrays.num_rows = 1;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "op.batch.query_indptr is NULL", quire_op_selective_scan(stream, &scan, err));
  uint64_t plan_bytes = 0;
  uint64_t workspace_bytes = 0;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "plan_bytes is NULL",
               quire_op_attention_workspace(stream, 1, 1, 1, 1, 1, nullptr, &workspace_bytes, err));
  EXPECT_FAILS(QUIRE_UNIMPLEMENTED, "attention_workspace",
               quire_op_attention_workspace(stream, 1, 1, 1, 1, 1, &plan_bytes, &workspace_bytes, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "plan is NULL", quire_op_attention_plan(stream, &attention, nullptr, 8, err));
  const quire_copy_run run = {0, 4096, 1};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "runs[0]: source is 0", quire_op_copy(stream, &run, 1, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "runs is NULL", quire_op_copy(stream, nullptr, 1, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "destination is NULL", quire_op_fill(stream, nullptr, 0, 1, err));
  EXPECT_WORKS(quire_op_fill(stream, nullptr, 0, 0, err));
}

TEST(Events, HashBlocks) {
  EXPECT_EQ(quire_hash_bytes(QUIRE_HASH_SHA256_CBOR), 32U);
  EXPECT_EQ(quire_hash_bytes(QUIRE_HASH_XXHASH_PICKLE), 16U);
  EXPECT_EQ(quire_hash_bytes(9), 0U);
  quire_hash_options options{};
  options.struct_size = sizeof options;
  options.algorithm = QUIRE_HASH_SHA256_CBOR;
  options.block_tokens = 2;
  const std::array<int64_t, 5> tokens{1, 2, 3, 4, 5};
  std::array<uint8_t, 64> digests{};
  uint64_t count = 0;
  auto hash = [&](quire_error* err) { return quire_hash_blocks(&options, tokens.data(), tokens.size(), digests.data(), 2, &count, err); };
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options is NULL", quire_hash_blocks(nullptr, tokens.data(), 5, digests.data(), 2, &count, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tokens is NULL", quire_hash_blocks(&options, nullptr, 5, digests.data(), 2, &count, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "count is NULL", quire_hash_blocks(&options, tokens.data(), 5, digests.data(), 2, nullptr, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity is 1", quire_hash_blocks(&options, tokens.data(), 5, digests.data(), 1, &count, err));
  EXPECT_WORKS(quire_hash_blocks(&options, tokens.data(), 5, nullptr, 0, &count, err));
  EXPECT_EQ(count, 2U);
  EXPECT_WORKS(hash(err));
  // The chain goes on from any of its digests.
  std::array<uint8_t, 32> second{};
  options.parent = digests.data();
  options.first_token = 2;
  EXPECT_WORKS(quire_hash_blocks(&options, tokens.data() + 2, 2, second.data(), 1, &count, err));
  EXPECT_TRUE(std::equal(second.begin(), second.end(), digests.begin() + 32));
  options.first_token = 3;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.first_token is 3", hash(err));
  options.first_token = 0;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.parent is given", hash(err));
  options.parent = nullptr;
  options.block_tokens = 0;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.block_tokens is 0", hash(err));
  options.block_tokens = 2;
  options.algorithm = 5;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "algorithm 5", hash(err));
  options.algorithm = QUIRE_HASH_XXHASH_CBOR;
  options.flags = 2;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.flags", hash(err));
  options.flags = 0;
  const std::array<quire_hash_media, 2> media{{{0, 3, 0, 1}, {2, 1, 0, 1}}};
  options.media = media.data();
  options.num_media = 2;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.media[0]: identifier outside", hash(err));
  options.identifiers = text("a");
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.media[1].position is 2", hash(err));
  options.num_media = 1;
  options.embed_rows = 4;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.embeds is NULL", hash(err));
  options.embed_rows = 0;
  EXPECT_WORKS(hash(err));
}

TEST_F(Arguments, Events) {
  quire_cache* cache = rig_.cache.get();
  quire_event_options options{};
  options.struct_size = sizeof options;
  options.algorithm = QUIRE_HASH_XXHASH_CBOR;
  quire_event_batch batch{};
  batch.struct_size = sizeof batch;
  std::array<quire_event, 4> events{};
  alignas(8) std::array<uint8_t, 4096> data{};
  auto read = [&](uint64_t from, quire_error* err) {
    return quire_cache_read_events(cache, from, events.data(), events.size(), data.data(), data.size(), &batch, err);
  };
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "events are not recorded", read(0, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "cache is NULL", quire_cache_enable_events(nullptr, &options, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options is NULL", quire_cache_enable_events(cache, nullptr, err));
  options.ring_bytes = 64;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.ring_bytes is 64", quire_cache_enable_events(cache, &options, err));
  options.ring_bytes = 0;
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "events are not recorded", quire_cache_name_media(cache, 1, text("x"), 0, err));
  EXPECT_WORKS(quire_cache_enable_events(cache, &options, err));
  EXPECT_FAILS(QUIRE_ALREADY_EXISTS, "already", quire_cache_enable_events(cache, &options, err));
  EXPECT_FAILS(QUIRE_NOT_FOUND, "first: 1", quire_cache_name_media(cache, 1, text("x"), 0, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "batch is NULL",
               quire_cache_read_events(cache, 0, events.data(), 4, data.data(), data.size(), nullptr, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "events is NULL", quire_cache_read_events(cache, 0, nullptr, 4, data.data(), 8, &batch, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "not aligned", quire_cache_read_events(cache, 0, events.data(), 4, data.data() + 1, 8, &batch, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "from is 9", read(9, err));
  EXPECT_WORKS(read(0, err));
  EXPECT_EQ(batch.num_events, 0U);
  EXPECT_WORKS(quire_cache_snapshot_events(cache, nullptr, 0, nullptr, 0, &batch, err));
  EXPECT_WORKS(quire_cache_reset(cache, err));
  EXPECT_WORKS(read(0, err));
  ASSERT_EQ(batch.num_events, 1U);
  EXPECT_EQ(events[0].type, QUIRE_EVENT_CLEARED);
  std::array<uint8_t, 64> bytes{};
  uint64_t count = 0;
  quire_event_encoding encoding = QUIRE_INIT(quire_event_encoding);
  encoding.time = 5;
  auto encode = [&](quire_error* err) {
    return quire_events_encode(events.data(), 1, data.data(), batch.num_bytes, &encoding, bytes.data(), bytes.size(), &count, err);
  };
  EXPECT_WORKS(encode(err));
  EXPECT_EQ(count, 35U);  // 93 cb(8) 91 81 a4"type" b0"AllBlocksCleared" 00
  encoding.rank = -2;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "encoding.rank is -2", encode(err));
  encoding.rank = -1, encoding.flags = 2;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "encoding.flags", encode(err));
  encoding.flags = 0, encoding.time = std::numeric_limits<double>::infinity();
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "encoding.time", encode(err));
  encoding.time = 5;
  const std::string label(256, 'm');
  for (quire_str quire_event_encoding::*field : {&quire_event_encoding::medium, &quire_event_encoding::locality}) {
    encoding.*field = text(label.c_str());
    EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "256 bytes", encode(err));
    encoding.*field = {};
  }
  events[0].type = 7;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "events[0].type is 7", encode(err));
  events[0].type = QUIRE_EVENT_REMOVED;
  events[0].num_hashes = 1;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "events[0].hash_bytes is 0", encode(err));
  events[0].hash_bytes = 16;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "events[0] points outside", encode(err));
}

TEST_F(Arguments, OpsMoveBytes) {
  std::array<unsigned char, 64> a{};
  std::array<unsigned char, 64> b{};
  EXPECT_WORKS(quire_op_fill(rig_.stream.get(), a.data(), 0x5a, 64, err));
  const quire_copy_run run = {reinterpret_cast<uint64_t>(a.data()) + 8, reinterpret_cast<uint64_t>(b.data()), 16};
  EXPECT_WORKS(quire_op_copy(rig_.stream.get(), &run, 1, err));
  EXPECT_EQ(b[15], 0x5a);
  EXPECT_EQ(b[16], 0);
}

}  // namespace
}  // namespace quire::test
