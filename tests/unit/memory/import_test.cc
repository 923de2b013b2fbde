// DLPack tensors of others: as the regions of a memory, and as strided tensors for the ops.
#include <cstdlib>

#include "../c_api/api_rig.h"
#include "dlpack_structs.h"

namespace quire::test {
namespace {

// A producer of one tensor per region that counts its deletions.
class Import : public testing::Test {
 protected:
  struct Produced {
    DLManagedTensorVersioned managed{};
    int64_t shape[2] = {};
    int64_t strides[2] = {};
    std::unique_ptr<void, void (*)(void*)> bytes{nullptr, std::free};
    int deletions = 0;
  };

  void SetUp() override {
    ASSERT_TRUE(rig_.whole());
    uint64_t count = 0;
    EXPECT_WORKS(quire_config_list_regions(rig_.config.get(), 0, nullptr, 0, 0, &count, err));
    std::vector<quire_region_info> infos(count);
    EXPECT_WORKS(quire_config_list_regions(rig_.config.get(), 0, infos.data(), sizeof(quire_region_info), count, &count, err));
    produced_ = std::vector<Produced>(count);
    for (uint64_t i = 0; i < count; ++i) {
      Produced& p = produced_[i];
      const uint64_t alignment = std::max<uint64_t>(infos[i].alignment, 64);
      const uint64_t rounded = (infos[i].bytes + alignment - 1) / alignment * alignment;
      p.bytes.reset(std::aligned_alloc(alignment, rounded));
      p.shape[0] = static_cast<int64_t>(rounded / 64);
      p.shape[1] = 32;
      p.strides[0] = 32;
      p.strides[1] = 1;
      p.managed.major = 1;
      p.managed.keeper = &p;
      p.managed.deleter = [](DLManagedTensorVersioned* self) { static_cast<Produced*>(self->keeper)->deletions++; };
      p.managed.tensor = {p.bytes.get(), {QUIRE_DEVICE_CPU, 0}, 2, {QUIRE_DTYPE_UINT, 16, 1}, p.shape, p.strides, 0};
      tensors_.push_back({&p.managed, nullptr});
    }
  }

  void refused(quire_code code, const char* part) {
    quire_memory* out = nullptr;
    EXPECT_FAILS(code, part,
                 quire_memory_bind_dlpack(rig_.device.get(), rig_.config.get(), 0, tensors_.data(), tensors_.size(), &out, err));
    EXPECT_EQ(out, nullptr);
    for (const Produced& p : produced_) EXPECT_EQ(p.deletions, 0) << "a refused tensor stays the caller's";
  }

  Rig rig_{"", 16};
  std::vector<Produced> produced_;
  std::vector<quire_dlpack> tensors_;
};

TEST_F(Import, TakesThemAndDeletesThemOnce) {
  quire_memory* memory = nullptr;
  EXPECT_WORKS(quire_memory_bind_dlpack(rig_.device.get(), rig_.config.get(), 0, tensors_.data(), tensors_.size(), &memory, err));
  quire_memory_retain(memory);
  quire_memory_release(memory);
  for (const Produced& p : produced_) EXPECT_EQ(p.deletions, 0);
  quire_memory_release(memory);
  for (const Produced& p : produced_) EXPECT_EQ(p.deletions, 1);
}

TEST_F(Import, MissingDeleterAndStridesAreLegal) {
  produced_[0].managed.deleter = nullptr;
  produced_[0].managed.tensor.strides = nullptr;
  quire_memory* memory = nullptr;
  EXPECT_WORKS(quire_memory_bind_dlpack(rig_.device.get(), rig_.config.get(), 0, tensors_.data(), tensors_.size(), &memory, err));
  quire_memory_release(memory);
}

TEST_F(Import, RefusesEachWrongTensor) {
  DLManagedTensorVersioned& m = produced_.back().managed;
  const DLManagedTensorVersioned good = m;
  m.major = 2;
  refused(QUIRE_INVALID_ARGUMENT, "DLPack version 2.0");
  m = good;
  m.flags = 1;
  refused(QUIRE_INVALID_ARGUMENT, "read-only");
  m = good;
  m.tensor.strides[0] = 33;
  refused(QUIRE_INVALID_ARGUMENT, "not dense: stride[0] is 33 elements, dense is 32");
  m.tensor.strides[0] = 32;
  m.minor = 2;
  m.tensor.strides = nullptr;
  refused(QUIRE_INVALID_ARGUMENT, "strides are NULL");
  m = good;
  m.tensor.ndim = 9;
  refused(QUIRE_INVALID_ARGUMENT, "ndim 9");
  m = good;
  m.tensor.ndim = -1;
  refused(QUIRE_INVALID_ARGUMENT, "ndim -1");
  m = good;
  m.tensor.shape = nullptr;
  refused(QUIRE_INVALID_ARGUMENT, "shape is NULL");
  m = good;
  const int64_t rows = m.tensor.shape[0];
  m.tensor.shape[0] = -4;
  refused(QUIRE_INVALID_ARGUMENT, "shape[0] is -4");
  m.tensor.shape[0] = INT64_MAX;
  refused(QUIRE_OUT_OF_RANGE, "beyond 63 bits");
  m.tensor.shape[0] = 1;
  refused(QUIRE_INVALID_ARGUMENT, "64 bytes, region");
  m.tensor.shape[0] = rows;
  m.tensor.byte_offset = 1;
  refused(QUIRE_INVALID_ARGUMENT, "is not aligned");
  m.tensor.byte_offset = UINT64_MAX - 7;
  refused(QUIRE_INVALID_ARGUMENT, "reach beyond 63 bits");
  m = good;
  m.tensor.dtype.bits = 4;
  refused(QUIRE_INVALID_ARGUMENT, "whole number of bytes");
  m = good;
  m.tensor.device.device_type = QUIRE_DEVICE_ROCM;
  refused(QUIRE_INVALID_ARGUMENT, "device (10, 0)");
  m = good;
  m.tensor.data = nullptr;
  refused(QUIRE_INVALID_ARGUMENT, "data is NULL");
  m = good;
  tensors_.back() = {};
  refused(QUIRE_INVALID_ARGUMENT, "both are NULL");
  DLManagedTensor legacy{};
  tensors_.back() = {&m, &legacy};
  refused(QUIRE_INVALID_ARGUMENT, "both are set");
  tensors_.pop_back();
  refused(QUIRE_INVALID_ARGUMENT, "tensors, the shard has");
}

TEST_F(Import, LegacyTensorsAreBoundAndDeletedOnce) {
  static int deletions;
  deletions = 0;
  std::vector<DLManagedTensor> legacy(produced_.size());
  std::vector<quire_dlpack> tensors;
  for (size_t i = 0; i < produced_.size(); ++i) {
    legacy[i] = {produced_[i].managed.tensor, nullptr, [](DLManagedTensor*) { ++deletions; }};
    tensors.push_back({nullptr, &legacy[i]});
  }
  quire_memory* memory = nullptr;
  legacy[0].tensor.shape = nullptr;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tensors[0]: shape is NULL",
               quire_memory_bind_dlpack(rig_.device.get(), rig_.config.get(), 0, tensors.data(), tensors.size(), &memory, err));
  legacy[0].tensor.shape = produced_[0].shape;
  EXPECT_EQ(deletions, 0);
  EXPECT_WORKS(quire_memory_bind_dlpack(rig_.device.get(), rig_.config.get(), 0, tensors.data(), tensors.size(), &memory, err));
  void* base = nullptr;
  uint64_t bytes = 0;
  EXPECT_WORKS(quire_memory_get_region(memory, 0, &base, &bytes, err));
  EXPECT_EQ(base, produced_[0].bytes.get());
  quire_memory_release(memory);
  EXPECT_EQ(deletions, static_cast<int>(tensors.size()));
}

// An engine's query tensor: [tokens, heads, dim] cut out of a wider one.
class ImportStrided : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(rig_.whole());
    managed_.major = 1;
    managed_.minor = 3;
    managed_.keeper = &deletions_;
    managed_.deleter = [](DLManagedTensorVersioned* self) { ++*static_cast<int*>(self->keeper); };
    managed_.tensor = {bytes_, {QUIRE_DEVICE_CPU, 0}, 3, {QUIRE_DTYPE_BFLOAT, 16, 1}, shape_, strides_, 4};
  }

  void refused(quire_code code, const char* part, uint32_t flags = 0) {
    quire_tensor tensor{};
    quire_buffer* out = nullptr;
    const quire_dlpack dlpack = {&managed_, nullptr};
    EXPECT_FAILS(code, part, quire_buffer_import(rig_.device.get(), &dlpack, flags, &tensor, &out, err));
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(tensor.data, nullptr);
    EXPECT_EQ(deletions_, 0) << "a refused tensor stays the caller's";
  }

  quire_tensor taken(uint32_t flags = 0) {
    quire_tensor tensor{};
    quire_buffer* out = nullptr;
    const int before = deletions_;
    const quire_dlpack dlpack = {&managed_, nullptr};
    EXPECT_WORKS(quire_buffer_import(rig_.device.get(), &dlpack, flags, &tensor, &out, err));
    EXPECT_EQ(deletions_, before);
    quire_buffer_release(out);
    EXPECT_EQ(deletions_, before + 1);
    return tensor;
  }

  Rig rig_{"", 16};
  alignas(64) unsigned char bytes_[4096] = {};
  int64_t shape_[8] = {6, 4, 8};
  int64_t strides_[8] = {96, 8, 1};
  int deletions_ = 0;
  DLManagedTensorVersioned managed_{};
};

TEST_F(ImportStrided, IsSeenWhereItLies) {
  const quire_tensor tensor = taken();
  EXPECT_EQ(tensor.data, bytes_ + 4);
  EXPECT_EQ(tensor.ndim, 3);
  EXPECT_EQ(tensor.dtype.code, QUIRE_DTYPE_BFLOAT);
  EXPECT_EQ(tensor.device_type, QUIRE_DEVICE_CPU);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tensor.shape[i], shape_[i]);
    EXPECT_EQ(tensor.stride[i], 2 * strides_[i]);
  }
}

TEST_F(ImportStrided, MissingStridesAreRowMajorWhereTheVersionAllowsThem) {
  managed_.tensor.strides = nullptr;
  refused(QUIRE_INVALID_ARGUMENT, "strides are NULL");
  managed_.minor = 1;
  const quire_tensor tensor = taken();
  EXPECT_EQ(tensor.stride[0], 64);
  EXPECT_EQ(tensor.stride[1], 16);
  EXPECT_EQ(tensor.stride[2], 2);
  DLManagedTensor legacy = {managed_.tensor, nullptr, nullptr};
  quire_tensor out{};
  quire_buffer* buffer = nullptr;
  const quire_dlpack dlpack = {nullptr, &legacy};
  EXPECT_WORKS(quire_buffer_import(rig_.device.get(), &dlpack, 0, &out, &buffer, err));
  EXPECT_EQ(out.stride[0], 64);
  quire_buffer_release(buffer);
}

TEST_F(ImportStrided, ScalarsEmptyOnesAndPairsOfFourBits) {
  managed_.tensor.ndim = 0;
  managed_.tensor.shape = managed_.tensor.strides = nullptr;
  EXPECT_EQ(taken().ndim, 0);
  managed_.tensor.ndim = 3;
  managed_.tensor.shape = shape_;
  managed_.tensor.strides = strides_;
  shape_[1] = 0;
  managed_.tensor.data = nullptr;
  managed_.tensor.byte_offset = 0;
  EXPECT_EQ(taken().data, nullptr);
  shape_[1] = 4;
  managed_.tensor.data = bytes_;
  managed_.tensor.dtype = {QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 2};
  EXPECT_EQ(taken().stride[0], 96);
}

TEST_F(ImportStrided, ReadersMayHaveMore) {
  managed_.flags = 1;
  refused(QUIRE_PERMISSION_DENIED, "dlpack is read-only");
  EXPECT_EQ(taken(QUIRE_IMPORT_READ_ONLY).ndim, 3);
  managed_.flags = 0;
  strides_[1] = 0;
  deletions_ = 0;
  refused(QUIRE_INVALID_ARGUMENT, "stride[1] is 0 with 4 elements");
  EXPECT_EQ(taken(QUIRE_IMPORT_READ_ONLY).stride[1], 0);
  shape_[1] = 1;
  EXPECT_EQ(taken().stride[1], 0) << "one element repeats nothing";
}

TEST_F(ImportStrided, RefusesEachWrongTensor) {
  const DLManagedTensorVersioned good = managed_;
  managed_.major = 2;
  refused(QUIRE_INVALID_ARGUMENT, "DLPack version 2.3");
  managed_ = good;
  managed_.tensor.ndim = 6;
  for (int i = 0; i < 6; ++i) shape_[i] = strides_[i] = 1;
  refused(QUIRE_OUT_OF_RANGE, "ndim is 6, a quire_tensor has at most 5");
  managed_.tensor.ndim = 9;
  refused(QUIRE_INVALID_ARGUMENT, "ndim 9");
  managed_ = good;
  shape_[0] = -1;
  refused(QUIRE_INVALID_ARGUMENT, "shape[0] is -1");
  shape_[0] = 6;
  strides_[0] = -96;
  refused(QUIRE_INVALID_ARGUMENT, "stride[0] is -96");
  strides_[0] = INT64_MAX;
  refused(QUIRE_OUT_OF_RANGE, "shape[0] 6 x stride 9223372036854775807 is beyond 63 bits");
  strides_[0] = 96;
  shape_[0] = INT64_MAX;
  refused(QUIRE_OUT_OF_RANGE, "shape[0]");
  shape_[0] = 6;
  managed_.tensor.data = nullptr;
  refused(QUIRE_INVALID_ARGUMENT, "data is NULL");
  managed_ = good;
  managed_.tensor.byte_offset = UINT64_MAX;
  refused(QUIRE_INVALID_ARGUMENT, "byte_offset");
  managed_ = good;
  managed_.tensor.device.device_type = QUIRE_DEVICE_CUDA;
  refused(QUIRE_INVALID_ARGUMENT, "device (2, 0), wanted is (1, 0)");
  managed_ = good;
  managed_.flags = 4;
  refused(QUIRE_INVALID_ARGUMENT, "whole number of bytes");
  managed_ = good;
  managed_.tensor.dtype = {5, 64, 1};  // complex
  refused(QUIRE_INVALID_ARGUMENT, "dtype code 5 of 64 bits");
  managed_.tensor.dtype = {QUIRE_DTYPE_FLOAT, 16, 4};
  refused(QUIRE_INVALID_ARGUMENT, "x 4 lanes has no name");
  EXPECT_EQ(taken(QUIRE_IMPORT_ANY_DTYPE).stride[2], 8);
}

}  // namespace
}  // namespace quire::test
