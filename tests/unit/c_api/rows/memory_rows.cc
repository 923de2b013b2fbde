// Rows of quire/memory.h.
#include "rows.h"

namespace quire::test {
namespace {

ROW(quire_device_open) {
  quire_device* out = nullptr;
  call.bad("ordinal", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.runtime.get(), 0U, &out);
  quire_device_release(out);
}

ROW(quire_device_retain) { EXPECT_EQ(quire_device_retain(nullptr), nullptr); }

ROW(quire_device_release) { quire_device_release(nullptr); }

ROW(quire_device_get_info) {
  auto info = sized<quire_device_info>();
  call(rig.device.get(), &info);
  EXPECT_STREQ(info.driver, "null");
}

ROW(quire_stream_create) {
  quire_stream* out = nullptr;
  call.bad("native", {1, UINT64_MAX}, QUIRE_UNIMPLEMENTED);
  call(rig.device.get(), uint64_t{0}, &out);
  quire_stream_release(out);
}

ROW(quire_stream_release) { quire_stream_release(nullptr); }

ROW(quire_stream_synchronize) {
  call.bad("timeout_ns", {UINT64_MAX - 1, uint64_t{1} << 63}, QUIRE_INVALID_ARGUMENT);
  call(rig.stream.get(), int64_t{0});
}

ROW(quire_memory_create) {
  quire_memory* out = nullptr;
  call.bad("shard", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.device.get(), rig.config.get(), 0U, &out);
  quire_memory_release(out);
}

// Bytes of the engine for every region of the plan.
struct Bytes {
  std::vector<quire_memory_binding> bindings;
  std::vector<std::unique_ptr<unsigned char, decltype(&std::free)>> owned;

  explicit Bytes(const Rig& rig) {
    std::vector<quire_region_info> regions(8, sized<quire_region_info>());
    uint64_t count = 0;
    EXPECT_EQ(quire_config_list_regions(rig.config.get(), 0, regions.data(), sizeof(quire_region_info), 8, &count, nullptr), QUIRE_OK);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t bytes = (regions[i].bytes + 4095) / 4096 * 4096;
      owned.emplace_back(static_cast<unsigned char*>(std::aligned_alloc(4096, bytes)), &std::free);
      bindings.push_back({sizeof(quire_memory_binding), static_cast<uint32_t>(i), owned.back().get(), bytes, QUIRE_DEVICE_CPU, 0, 0});
    }
  }
};

ROW(quire_memory_bind) {
  const Bytes bytes(rig);
  quire_memory* out = nullptr;
  call.elements({"bindings"}).bad("shard", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call.bad("n", {0, 65537, UINT64_MAX}, QUIRE_INVALID_ARGUMENT, "");
  const auto with = [&](auto change, const char* part) {
    std::vector<quire_memory_binding> wrong = bytes.bindings;
    change(&wrong[0]);
    EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, part,
                 quire_memory_bind(rig.device.get(), rig.config.get(), 0, wrong.data(), wrong.size(), &out, err));
  };
  with([](auto* b) { b->struct_size = 0; }, "bindings[0].struct_size is 0");
  with([](auto* b) { b->struct_size = 48; }, "bindings[0].struct_size is 48");
  with([](auto* b) { b->reserved0 = 1; }, "bindings[0].reserved0");
  with([](auto* b) { b->region = 99; }, "region");
  with([](auto* b) { b->address = nullptr; }, "bindings[0]");
  with([](auto* b) { b->address = static_cast<char*>(b->address) + 1; }, "bindings[0]");
  with([](auto* b) { b->bytes = 8; }, "bindings[0]");
  with([](auto* b) { b->device_type = QUIRE_DEVICE_CUDA; }, "bindings[0]");
  with([](auto* b) { b->device_id = 7; }, "bindings[0]");
  EXPECT_EQ(out, nullptr);
  call(rig.device.get(), rig.config.get(), 0U, bytes.bindings.data(), static_cast<uint64_t>(bytes.bindings.size()), &out);
  quire_memory_release(out);
}

ROW(quire_memory_bind_dlpack) {
  quire_memory* out = nullptr;
  const quire_dlpack none{};
  call.bad("shard", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE).any({"n"}).answers(QUIRE_INVALID_ARGUMENT);  // tensors: see import_test.cc
  call(rig.device.get(), rig.config.get(), 0U, &none, uint64_t{1}, &out);
  EXPECT_EQ(out, nullptr);
}

ROW(quire_stream_retain) { EXPECT_EQ(quire_stream_retain(nullptr), nullptr); }

ROW(quire_memory_retain) { EXPECT_EQ(quire_memory_retain(nullptr), nullptr); }

ROW(quire_memory_release) { quire_memory_release(nullptr); }

ROW(quire_memory_get_region) {
  void* address = nullptr;
  uint64_t bytes = 0;
  call.bad("region", {99, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.memory.get(), 0U, &address, &bytes);
  EXPECT_NE(address, nullptr);
}

ROW(quire_memory_get_tensor) {
  auto what = sized<quire_export>();
  what.kind = QUIRE_EXPORT_LOWERED;
  quire_tensor out{};
  call(rig.memory.get(), &what, &out);
  EXPECT_EQ(out.ndim, 4);
  what.flags = QUIRE_EXPORT_READ_ONLY;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "what.flags", quire_memory_get_tensor(rig.memory.get(), &what, &out, err));
}

// The deleter of an exported tensor, run.
void delete_tensor(const quire_dlpack& of) {
  void (*deleter)(void*) = nullptr;  // after version and owner; after the tensor and the owner
  void* tensor = of.versioned != nullptr ? static_cast<void*>(of.versioned) : of.legacy;
  std::memcpy(&deleter, static_cast<const char*>(tensor) + (of.versioned != nullptr ? 16 : 56), sizeof deleter);
  deleter(tensor);
}

ROW(quire_memory_export) {
  auto what = sized<quire_export>();
  what.kind = QUIRE_EXPORT_ID;
  what.id = 2;
  quire_dlpack out{};
  call(rig.memory.get(), &what, &out);
  ASSERT_NE(out.versioned, nullptr);
  delete_tensor(out);
  what.flags = QUIRE_EXPORT_LEGACY;
  EXPECT_WORKS(quire_memory_export(rig.memory.get(), &what, &out, err));
  ASSERT_NE(out.legacy, nullptr);
  delete_tensor(out);
}

ROW(quire_memory_prepare_step) {
  quire_sequence_id sequence = 0;
  ASSERT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &sequence, nullptr), QUIRE_OK);
  const quire_step step = rig.reserve(sequence, {1, 2, 3, 4});
  call(rig.memory.get(), step, rig.stream.get());
}

ROW(quire_memory_poison) {
  call.any({"byte"});
  call(rig.memory.get(), rig.stream.get(), uint8_t{0x5a});
}

ROW(quire_buffer_create) {
  quire_tensor tensor{};
  tensor.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
  tensor.ndim = 2;
  tensor.shape[0] = tensor.shape[1] = 4;
  quire_buffer* out = nullptr;
  call(rig.device.get(), &tensor, &out);
  quire_buffer_release(out);
  out = nullptr;
  tensor.ndim = 6;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tensor.ndim is 6", quire_buffer_create(rig.device.get(), &tensor, &out, err));
  EXPECT_EQ(out, nullptr);
}

// An exported tensor comes back: tensors of other producers are in import_test.cc.
ROW(quire_buffer_import) {
  const auto what = sized<quire_export>();
  quire_dlpack dlpack{};
  EXPECT_WORKS(quire_memory_export(rig.memory.get(), &what, &dlpack, err));
  quire_tensor tensor{};
  quire_buffer* out = nullptr;
  call.bad("flags", {4, 1U << 31}, QUIRE_INVALID_ARGUMENT);
  call(rig.device.get(), &dlpack, 0U, &tensor, &out);
  EXPECT_EQ(tensor.ndim, 5);
  quire_buffer_release(out);
  const quire_dlpack none{};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "dlpack: both are NULL", quire_buffer_import(rig.device.get(), &none, 0, &tensor, &out, err));
}

ROW(quire_buffer_retain) { EXPECT_EQ(quire_buffer_retain(nullptr), nullptr); }

ROW(quire_buffer_release) { quire_buffer_release(nullptr); }

}  // namespace
}  // namespace quire::test
