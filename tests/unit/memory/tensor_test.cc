// Strided tensors of the driver, and exports as DLPack.
#include <cstdlib>
#include <thread>

#include "../c_api/api_rig.h"
#include "dlpack_structs.h"

namespace quire::test {
namespace {

quire_tensor tensor_of(std::vector<int64_t> shape, std::vector<int64_t> stride = {}) {
  quire_tensor tensor{};
  tensor.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
  tensor.ndim = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape);
  std::copy(stride.begin(), stride.end(), tensor.stride);
  return tensor;
}

quire_export layer_of(uint32_t layer, uint32_t item, uint32_t flags = 0) {
  quire_export what = QUIRE_INIT(quire_export);
  what.layer = layer, what.item = item, what.flags = flags;
  return what;
}

class Tensors : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(rig_.whole()); }
  quire_code create(quire_tensor* tensor, quire_error* err) {
    quire_buffer* buffer = nullptr;
    const quire_code code = quire_buffer_create(rig_.device.get(), tensor, &buffer, err);
    kept_.emplace_back(buffer);
    EXPECT_EQ(code == QUIRE_OK, buffer != nullptr);
    return code;
  }
  quire_tensor tensor_of_layer(uint32_t layer, uint32_t item) const {
    const quire_export what = layer_of(layer, item);
    quire_tensor tensor{};
    EXPECT_WORKS(quire_memory_get_tensor(rig_.memory.get(), &what, &tensor, err));
    return tensor;
  }

  Rig rig_;
  std::vector<Owned<quire_buffer>> kept_;
};

TEST_F(Tensors, DenseStridesAreCompleted) {
  quire_tensor tensor = tensor_of({3, 5, 7});
  EXPECT_WORKS(create(&tensor, err));
  EXPECT_EQ(tensor.stride[0], 140);
  EXPECT_EQ(tensor.stride[1], 28);
  EXPECT_EQ(tensor.stride[2], 4);
  EXPECT_EQ(tensor.device_type, QUIRE_DEVICE_CPU);
  ASSERT_NE(tensor.data, nullptr);
  std::memset(tensor.data, 1, 420);
}

TEST_F(Tensors, StridesAreKeptAndEveryElementIsInside) {
  quire_tensor tensor = tensor_of({4, 2, 8}, {40, 1000, 4});
  EXPECT_WORKS(create(&tensor, err));
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      for (int64_t k = 0; k < 8; ++k) *reinterpret_cast<float*>(static_cast<char*>(tensor.data) + i * 40 + j * 1000 + k * 4) = 1;
    }
  }
  quire_tensor zero = tensor_of({4, 0, 8});
  EXPECT_WORKS(create(&zero, err));
  EXPECT_EQ(zero.data, nullptr);
  quire_tensor scalar = tensor_of({});
  EXPECT_WORKS(create(&scalar, err));
  EXPECT_NE(scalar.data, nullptr);
}

TEST_F(Tensors, RefusesWhatCannotBe) {
  quire_tensor tensor = tensor_of({2, -1});
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tensor.shape[1] is -1", create(&tensor, err));
  tensor = tensor_of({2, 2}, {-8, 4});
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tensor.stride[0] is -8", create(&tensor, err));
  tensor = tensor_of({2, 4}, {12, 4});
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tensor.stride[0] is 12 bytes, elements overlap below 16", create(&tensor, err));
  tensor = tensor_of({2, 4}, {0, 4});
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "overlap", create(&tensor, err));
  tensor = tensor_of({int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "beyond 63 bits", create(&tensor, err));
  tensor = tensor_of({3, 2}, {INT64_MAX / 2, 4});
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "beyond 63 bits", create(&tensor, err));
  tensor = tensor_of({1});
  tensor.ndim = 6;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tensor.ndim is 6", create(&tensor, err));
  tensor = tensor_of({1});
  tensor.dtype.bits = 4;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tensor.dtype", create(&tensor, err));
  tensor = tensor_of({int64_t{1} << 58});
  EXPECT_FAILS(QUIRE_RESOURCE_EXHAUSTED, "bytes wanted", create(&tensor, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tensor is NULL", create(nullptr, err));
}

TEST_F(Tensors, ExportsOutliveTheMemoryAndDieOnAnyThread) {
  const quire_tensor kv = tensor_of_layer(0, 1);
  const auto export_of = [&](const quire_export& what) {
    quire_dlpack out{};
    EXPECT_WORKS(quire_memory_export(rig_.memory.get(), &what, &out, err));
    EXPECT_EQ(out.legacy != nullptr, (what.flags & QUIRE_EXPORT_LEGACY) != 0);
    EXPECT_NE(out.legacy != nullptr, out.versioned != nullptr);
    return out;
  };
  DLManagedTensorVersioned* exported = export_of(layer_of(0, 1)).versioned;
  DLManagedTensor* legacy = export_of(layer_of(0, 1, QUIRE_EXPORT_LEGACY)).legacy;
  DLManagedTensorVersioned* state = export_of(layer_of(1, 0)).versioned;
  quire_dlpack none{};
  quire_export wrong = layer_of(0, 2);
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "what.item 2", quire_memory_export(rig_.memory.get(), &wrong, &none, err));
  wrong = layer_of(9, 0, QUIRE_EXPORT_LEGACY);
  EXPECT_FAILS(QUIRE_NOT_FOUND, "layer 9", quire_memory_export(rig_.memory.get(), &wrong, &none, err));
  EXPECT_TRUE(none.versioned == nullptr && none.legacy == nullptr);
  EXPECT_EQ(exported->major, 1U);
  EXPECT_EQ(exported->flags, 0U);
  for (const TestTensor* t : {&exported->tensor, &legacy->tensor}) {
    EXPECT_EQ(t->data, kv.data);
    EXPECT_EQ(t->byte_offset, 0U);
    EXPECT_EQ(t->device.device_type, QUIRE_DEVICE_CPU);
    ASSERT_EQ(t->ndim, 5);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(t->shape[i], kv.shape[i]);
      EXPECT_EQ(t->strides[i] * 2, kv.stride[i]);  // elements of bf16
    }
  }
  ASSERT_EQ(state->tensor.ndim, 5);
  EXPECT_EQ(state->tensor.shape[2], 2);
  EXPECT_EQ(state->tensor.shape[4], 16);
  rig_.memory.reset();
  rig_.device.reset();
  rig_.runtime.reset();
  static_cast<unsigned char*>(exported->tensor.data)[0] = 9;  // still there
  std::thread([&] { exported->deleter(exported); }).join();
  legacy->deleter(legacy);
  std::thread([&] { state->deleter(state); }).join();
}

// Views of a layer, of one id and of a page name the same bytes.
TEST_F(Tensors, ExportsOfLayersIdsAndPages) {
  quire_export wish = QUIRE_INIT(quire_export);
  const auto exported = [&](auto&& check) {
    quire_dlpack made{};
    EXPECT_WORKS(quire_memory_export(rig_.memory.get(), &wish, &made, err));
    DLManagedTensorVersioned* out = made.versioned;
    if (out == nullptr) return;
    check(out->tensor);
    EXPECT_EQ(out->flags, (wish.flags & QUIRE_EXPORT_READ_ONLY) != 0 ? 1U : 0U);
    EXPECT_EQ(out->tensor.byte_offset, 0U);
    out->deleter(out);
  };
  const quire_tensor kv = tensor_of_layer(2, 1);
  wish.layer = 2;
  wish.item = 1;  // V
  exported([&](const TestTensor& t) {
    ASSERT_EQ(t.ndim, 5);
    EXPECT_EQ(t.data, kv.data);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(t.strides[i] * 2, kv.stride[i]);
  });
  wish.kind = QUIRE_EXPORT_ID;
  wish.id = 7;
  quire_lowering lowering{};
  lowering.struct_size = sizeof lowering;
  quire_layer_place place{};
  place.struct_size = sizeof place;
  EXPECT_WORKS(quire_config_get_place(rig_.config.get(), 2, 0, &place, err));
  EXPECT_WORKS(quire_config_get_lowering(rig_.config.get(), 0, place.group, &lowering, err));
  ASSERT_EQ(lowering.parts_per_page, 1U);
  exported([&](const TestTensor& t) {
    ASSERT_EQ(t.ndim, 4);
    EXPECT_EQ(t.data, static_cast<char*>(kv.data) + 7 * kv.stride[0]);
    EXPECT_EQ(t.shape[0], lowering.kernel_blocks_per_part);
  });
  wish.flags = QUIRE_EXPORT_AS_BYTES | QUIRE_EXPORT_READ_ONLY;
  exported([&](const TestTensor& t) {
    ASSERT_EQ(t.ndim, 5);
    EXPECT_EQ(t.shape[4], 2);
    EXPECT_EQ(t.strides[4], 1);
    EXPECT_EQ(t.dtype.code, QUIRE_DTYPE_UINT);
    EXPECT_EQ(t.strides[3], kv.stride[4]);
  });
  wish.flags |= QUIRE_EXPORT_LEGACY;
  quire_dlpack none{};
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "read-only", quire_memory_export(rig_.memory.get(), &wish, &none, err));
  wish.flags = 0;
  wish.kind = QUIRE_EXPORT_ID;
  wish.layer = 1;
  wish.item = 0;
  exported([&](const TestTensor& t) {  // one state tensor of one id
    ASSERT_EQ(t.ndim, 3);
    EXPECT_EQ(t.shape[2], 16);
  });
}

TEST_F(Tensors, ExportsOfPagesAndRefusals) {
  quire_export wish = QUIRE_INIT(quire_export);
  wish.layer = 1;
  const auto exported = [&](auto&& check) {
    quire_dlpack made{};
    EXPECT_WORKS(quire_memory_export(rig_.memory.get(), &wish, &made, err));
    DLManagedTensorVersioned* out = made.versioned;
    if (out == nullptr) return;
    check(out->tensor);
    EXPECT_EQ(out->flags, (wish.flags & QUIRE_EXPORT_READ_ONLY) != 0 ? 1U : 0U);
    EXPECT_EQ(out->tensor.byte_offset, 0U);
    out->deleter(out);
  };
  wish.kind = QUIRE_EXPORT_PAGE;
  wish.page = 7;
  quire_region_info region{};
  region.struct_size = sizeof region;
  uint64_t count = 0;
  EXPECT_WORKS(quire_config_list_regions(rig_.config.get(), 0, &region, sizeof region, 1, &count, err));
  void* base = nullptr;
  uint64_t bytes = 0;
  EXPECT_WORKS(quire_memory_get_region(rig_.memory.get(), 0, &base, &bytes, err));
  exported([&](const TestTensor& t) {
    ASSERT_EQ(t.ndim, 2);
    EXPECT_EQ(t.data, static_cast<char*>(base) + 7 * region.page_stride);
    EXPECT_EQ(t.shape[0], static_cast<int64_t>(region.num_planes));
    EXPECT_EQ(t.shape[1], static_cast<int64_t>(region.page_stride));
  });
  const auto refused = [&](quire_code code, const char* part) {
    quire_dlpack out{};
    EXPECT_FAILS(code, part, quire_memory_export(rig_.memory.get(), &wish, &out, err));
  };
  wish.page = 48;
  refused(QUIRE_OUT_OF_RANGE, "what.page 48: the plan has 48");
  wish.page = 0;
  wish.region = static_cast<uint32_t>(count);
  refused(QUIRE_OUT_OF_RANGE, "what.region");
  wish.kind = 4;
  refused(QUIRE_INVALID_ARGUMENT, "what.kind is 4");
  wish.kind = QUIRE_EXPORT_ID;
  wish.id = 48;
  refused(QUIRE_OUT_OF_RANGE, "what.id 48");
  wish.id = 0;
  wish.item = 2;
  refused(QUIRE_OUT_OF_RANGE, "what.item 2: layer 1, sub 0 has 2");
  wish.layer = 9;
  refused(QUIRE_NOT_FOUND, "layer 9");
}

}  // namespace
}  // namespace quire::test
