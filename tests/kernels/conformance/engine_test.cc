// What an engine brings of its own: a stream that records graphs, and the memory of a pool. Method: example, on the device under test, with
// the vendor's own library beside the driver.
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/conformance/with_batch.h"
#include "tests/kernels/gpu/graph.h"

#include <gtest/gtest.h>
#include <quire/quire.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

namespace quire::conformance {
namespace {

// A decode step over two sequences: one row of keys and values is appended to each, then attended.
struct Step {
  AttentionCase attend;
  Array<uint8_t> key, value;
  Array<int64_t> slots;
  WithBatch<quire_kv_append> append{};

  explicit Step(const Shape& shape) : attend(shape, {}), slots(shape.rows.size()) {
    append.kv = attend.op.kv;
    const auto rows = static_cast<int64_t>(shape.rows.size());
    append.key = make_tensor(&key, shape.query, {rows, shape.kv_heads, shape.dim_k}, 0);
    append.value = make_tensor(&value, shape.query, {rows, shape.kv_heads, shape.dim_v}, 0);
    append.arrays.slots = slots.data();
    append.set_tokens(shape.rows.size());
  }
  // What differs from step to step lies in memory that the kernels read.
  void aim(const Array<int32_t>& lengths, uint64_t seed) {
    const uint32_t block = attend.op.kv.block_tokens;
    std::copy(lengths.begin(), lengths.end(), attend.lengths.begin());
    for (size_t r = 0; r < slots.size(); ++r) {
      const auto at = static_cast<uint32_t>(lengths[r] - 1);
      slots[r] = int64_t{attend.table[r * attend.op.arrays.table_pitch + at / block]} * block + at % block;
    }
    fill_normal(append.key, seed);
    fill_normal(append.value, seed + 1);
    attend.reset();
  }
  void queue(quire_driver_stream* stream) {
    quire_error err = fresh_error();
    ASSERT_EQ(driver().api->kv_append(stream, &append, &err), QUIRE_OK) << err.message;
    ASSERT_EQ(driver().api->attention(stream, &attend.op, &err), QUIRE_OK) << err.message;
  }
};

TEST(Engine, ADecodeStepRecordedOnceStaysRightOver64GrowingSteps) {
  QUIRE_NEEDS(kv_append);
  QUIRE_NEEDS(attention);
  const std::unique_ptr<Graphs> graphs = Graphs::open(device_type());
  if (graphs == nullptr) GTEST_SKIP() << "the device has no graphs";
  const quire_driver_api& api = *driver().api;
  quire_error err = fresh_error();
  quire_driver_stream* stream = nullptr;
  ASSERT_EQ(api.stream_create(driver().device, graphs->native(), &stream, &err), QUIRE_OK) << err.message;
  Shape shape;
  shape.rows = {{1, 700}, {1, 90}};
  Step replayed(shape);
  Step eager(shape);
  Array<int32_t> lengths = {637, 27};
  replayed.aim(lengths, 100);
  graphs->record();
  replayed.queue(stream);
  graphs->keep();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_TRUE(replayed.attend.outputs_untouched()) << "recorded, not run";
  for (uint64_t step = 0; step < 64; ++step) {
    replayed.aim(lengths, 100 + step * 2);
    eager.aim(lengths, 100 + step * 2);
    graphs->launch(0);
    ASSERT_EQ(api.stream_synchronize(stream, -1, &err), QUIRE_OK) << err.message;
    eager.queue(driver().stream);
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_EQ(api.stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
    ASSERT_TRUE(replayed.attend.pool == eager.attend.pool) << "step " << step;
    ASSERT_TRUE(replayed.attend.out() == eager.attend.out() && replayed.attend.lse() == eager.attend.lse()) << "step " << step;
    const oracle::Attention want = oracle::attention(eager.attend.op);
    ASSERT_LE(row_errors(replayed.attend.out(), want.out, shape.dim_v).worst, bounds(shape).worst) << "step " << step;
    for (int32_t& length : lengths) ++length;
  }
  EXPECT_TRUE(replayed.attend.padding_untouched());
  api.stream_destroy(stream);
}

struct Release {
  void operator()(quire_runtime* h) const { quire_runtime_release(h); }
  void operator()(quire_model* h) const { quire_model_release(h); }
  void operator()(quire_config* h) const { quire_config_release(h); }
  void operator()(quire_device* h) const { quire_device_release(h); }
  void operator()(quire_stream* h) const { quire_stream_release(h); }
  void operator()(quire_memory* h) const { quire_memory_release(h); }
};
template <typename T>
using Held = std::unique_ptr<T, Release>;

// A plan of one layer on the device under test.
struct Pool {
  Held<quire_runtime> runtime;
  Held<quire_model> model;
  Held<quire_config> config;
  Held<quire_device> device;
  Held<quire_stream> stream;
  quire_region_info region{};

  quire_code open(quire_error* err) {
    const std::string& folder = module_folder();
    quire_runtime_options options{};
    options.struct_size = sizeof options;
    options.header_abi = QUIRE_ABI_VERSION;
    options.driver = {driver().name.data(), driver().name.size()};
    options.driver_path = {folder.data(), folder.size()};
    options.flags = QUIRE_RUNTIME_NO_ENV | QUIRE_RUNTIME_TRUST_PATHS;
    quire_layer layer{};
    layer.struct_size = sizeof layer;
    layer.kind = QUIRE_LAYER_FULL;
    layer.num_kv_heads = layer.num_q_heads = 2;
    layer.head_dim_k = layer.head_dim_v = 64;
    layer.dtype = kBf16;
    quire_plan_options plan{};
    plan.struct_size = sizeof plan;
    plan.num_pages = 9;
    region.struct_size = sizeof region;
    uint64_t count = 0;
    quire_code code = make(&runtime, [&](quire_runtime** out) { return quire_runtime_create(&options, out, err); });
    if (code == QUIRE_OK) {
      code = make(&model, [&](quire_model** out) { return quire_model_create(&layer, sizeof layer, 1, 64, out, err); });
    }
    if (code == QUIRE_OK) code = make(&config, [&](quire_config** out) { return quire_config_create(model.get(), &plan, out, err); });
    if (code == QUIRE_OK) code = quire_config_list_regions(config.get(), 0, &region, sizeof region, 1, &count, err);
    if (code == QUIRE_OK) code = make(&device, [&](quire_device** out) { return quire_device_open(runtime.get(), 0, out, err); });
    if (code == QUIRE_OK) code = make(&stream, [&](quire_stream** out) { return quire_stream_create(device.get(), 0, out, err); });
    return code;
  }

 private:
  template <typename T, typename Call>
  static quire_code make(Held<T>* to, const Call& call) {
    T* made = nullptr;
    const quire_code code = call(&made);
    to->reset(made);
    return code;
  }
};

// All bytes of the engine's memory, seen by the host.
Array<uint8_t> bytes_of(const void* from, uint64_t n) {
  Array<uint8_t> seen(n);
  const quire_copy_run run = {reinterpret_cast<uint64_t>(from), reinterpret_cast<uint64_t>(seen.data()), n};
  quire_error err = fresh_error();
  EXPECT_EQ(driver().api->copy(driver().stream, &run, 1, &err), QUIRE_OK) << err.message;
  EXPECT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
  return seen;
}

// One row in every page, by the tensors that the memory gives, against the same in a copy of the bytes.
void append_rows(quire_memory* memory, char* own, Array<uint8_t>* mirror) {
  quire_error err = fresh_error();
  WithBatch<quire_kv_append> op{};
  op.kv.dtype = kBf16;
  op.kv.num_heads = 2;
  op.kv.num_sides = 2;
  for (uint32_t side = 0; side < 2; ++side) {
    quire_tensor t{};
    quire_export what = QUIRE_INIT(quire_export);
    what.item = side;
    ASSERT_EQ(quire_memory_get_tensor(memory, &what, &t, &err), QUIRE_OK) << err.message;
    ASSERT_EQ(t.device_type, device_type());
    ASSERT_EQ(t.shape[1], 1) << "blocks of a page";
    op.kv.block_tokens = static_cast<uint32_t>(t.shape[2]);
    op.kv.num_ids = static_cast<uint64_t>(t.shape[0]);
    op.kv.side[side] = {t.data, t.stride[0], t.stride[2], t.stride[3], t.stride[4], 64, 0, 0, 0, 0, 0};
  }
  Array<uint8_t> key;
  Array<uint8_t> value;
  const auto rows = static_cast<int64_t>(op.kv.num_ids) - 1;
  op.key = make_tensor(&key, kF32, {rows, 2, 64}, 0);
  op.value = make_tensor(&value, kF32, {rows, 2, 64}, 0);
  fill_normal(op.key, 1);
  fill_normal(op.value, 2);
  Array<int64_t> slots(static_cast<size_t>(rows));
  for (size_t r = 0; r < slots.size(); ++r) slots[r] = static_cast<int64_t>(r + 1) * op.kv.block_tokens + static_cast<int64_t>(r);
  op.arrays.slots = slots.data();
  op.set_tokens(slots.size());
  ASSERT_EQ(driver().api->kv_append(driver().stream, &op, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
  for (quire_paged_side& side : op.kv.side) side.base = mirror->data() + (static_cast<char*>(side.base) - own);
  oracle::append(op);
}

TEST(Engine, ItsMemoryIsBoundUsedAndLeftAlone) {
  QUIRE_NEEDS(kv_append);
  if (driver().name == "emulation") GTEST_SKIP() << "the emulation is no driver of an engine's";
  quire_error err = fresh_error();
  Pool pool;
  ASSERT_EQ(pool.open(&err), QUIRE_OK) << err.message;
  const uint64_t bytes = pool.region.bytes;
  auto* own = static_cast<char*>(take_native(device_type(), bytes));
  {
    quire_memory_binding binding = {sizeof binding, 0, own, bytes, device_type() == QUIRE_DEVICE_CPU ? 2 : 1, 0, 0};
    quire_memory* made = nullptr;
    EXPECT_EQ(quire_memory_bind(pool.device.get(), pool.config.get(), 0, &binding, 1, &made, &err), QUIRE_INVALID_ARGUMENT)
        << "another device's";
    binding.device_type = device_type();
    ASSERT_EQ(quire_memory_bind(pool.device.get(), pool.config.get(), 0, &binding, 1, &made, &err), QUIRE_OK) << err.message;
    const Held<quire_memory> memory(made);
    void* address = nullptr;
    uint64_t length = 0;
    ASSERT_EQ(quire_memory_get_region(memory.get(), 0, &address, &length, &err), QUIRE_OK) << err.message;
    EXPECT_TRUE(address == own && length == bytes);
    ASSERT_EQ(quire_memory_poison(memory.get(), pool.stream.get(), 0x5a, &err), QUIRE_OK) << err.message;
    ASSERT_EQ(quire_stream_synchronize(pool.stream.get(), -1, &err), QUIRE_OK) << err.message;
    Array<uint8_t> want = bytes_of(own, bytes);
    EXPECT_EQ(static_cast<uint64_t>(std::count(want.begin(), want.end(), 0)), bytes / 9) << "the null page, and no other";
    EXPECT_EQ(static_cast<uint64_t>(std::count(want.begin(), want.end(), 0x5a)), bytes - bytes / 9);
    append_rows(memory.get(), own, &want);
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_TRUE(bytes_of(own, bytes) == want);
  }
  EXPECT_EQ(bytes_of(own, bytes).size(), bytes) << "still there";
  give_native(device_type(), own);
}

}  // namespace
}  // namespace quire::conformance
