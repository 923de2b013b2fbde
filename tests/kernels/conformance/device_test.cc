// Devices, memory, strided tensors, streams and events, copies and fills: every driver has these.
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/open_driver.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace quire::conformance {
namespace {

TEST(Device, RequiredEntries) {
  const quire_driver_api& a = *driver().api;
  EXPECT_GE(a.struct_size, sizeof(uint32_t) * 2 + 6 * sizeof(void*));
  QUIRE_NEEDS(create);
  QUIRE_NEEDS(destroy);
  QUIRE_NEEDS(device_count);
  QUIRE_NEEDS(device_open);
  QUIRE_NEEDS(device_close);
  QUIRE_NEEDS(device_info);
}

TEST(Device, Info) {
  QUIRE_NEEDS(device_info);
  quire_device_info info{};
  info.struct_size = sizeof info;
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->device_info(driver().device, &info, &err), QUIRE_OK) << err.message;
  EXPECT_EQ(info.struct_size, sizeof info);
  EXPECT_EQ(std::string(info.driver), driver().name);
  EXPECT_NE(std::string(info.name), "");
  EXPECT_NE(info.alignment, 0u);
  quire_device_info small{};
  small.struct_size = 8;
  small.device_id = 77;
  ASSERT_EQ(driver().api->device_info(driver().device, &small, &err), QUIRE_OK);
  EXPECT_EQ(small.device_id, 77) << "written beyond struct_size";
}

TEST(Device, NoSecondOne) {
  QUIRE_NEEDS(device_count);
  QUIRE_NEEDS(device_open);
  uint32_t count = 0;
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->device_count(driver().instance, &count, &err), QUIRE_OK);
  ASSERT_GE(count, 1u);
  quire_driver_device* device = nullptr;
  EXPECT_EQ(driver().api->device_open(driver().instance, count, &device, &err), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(device, nullptr);
}

TEST(Memory, AlignmentAndSize) {
  QUIRE_NEEDS(mem_alloc);
  QUIRE_NEEDS(mem_free);
  quire_error err = fresh_error();
  for (uint64_t bytes : {1u, 100u, 4096u, 3u << 20}) {
    for (uint64_t alignment : {0u, 1u, 64u, 4096u}) {
      void* p = nullptr;
      ASSERT_EQ(driver().api->mem_alloc(driver().device, bytes, alignment, QUIRE_MEM_HOST, &p, &err), QUIRE_OK) << err.message;
      ASSERT_NE(p, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % (alignment > 1 ? alignment : 1), 0u);
      memset(p, 0x5a, bytes);
      driver().api->mem_free(driver().device, p, bytes, QUIRE_MEM_HOST);
    }
  }
  void* p = &err;
  ASSERT_EQ(driver().api->mem_alloc(driver().device, 0, 0, QUIRE_MEM_DEVICE, &p, &err), QUIRE_OK);
  EXPECT_EQ(p, nullptr);
}

TEST(Memory, WhatCannotBe) {
  QUIRE_NEEDS(mem_alloc);
  quire_error err = fresh_error();
  void* p = nullptr;
  EXPECT_EQ(driver().api->mem_alloc(driver().device, UINT64_MAX - 4096, 64, QUIRE_MEM_DEVICE, &p, &err), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(driver().api->mem_alloc(driver().device, uint64_t{1} << 55, 64, QUIRE_MEM_DEVICE, &p, &err), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(driver().api->mem_alloc(driver().device, 64, 768, QUIRE_MEM_DEVICE, &p, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(p, nullptr);
}

TEST(Tensor, DenseAndStrided) {
  QUIRE_NEEDS(tensor_create);
  quire_error err = fresh_error();
  quire_tensor t{};
  t.dtype = kBf16;
  t.ndim = 3;
  t.shape[0] = 5, t.shape[1] = 3, t.shape[2] = 7;
  void* allocation = nullptr;
  uint64_t bytes = 0;
  ASSERT_EQ(driver().api->tensor_create(driver().device, &t, QUIRE_MEM_HOST, &allocation, &bytes, &err), QUIRE_OK) << err.message;
  EXPECT_EQ(t.stride[0], 42);
  EXPECT_EQ(t.stride[1], 14);
  EXPECT_EQ(t.stride[2], 2);
  EXPECT_GE(bytes, 210u);
  memset(t.data, 1, 210);
  driver().api->mem_free(driver().device, allocation, bytes, QUIRE_MEM_HOST);
  t.stride[0] = 2, t.stride[1] = 200, t.stride[2] = 14;  // permuted and padded
  ASSERT_EQ(driver().api->tensor_create(driver().device, &t, QUIRE_MEM_HOST, &allocation, &bytes, &err), QUIRE_OK) << err.message;
  EXPECT_EQ(t.stride[1], 200);
  EXPECT_GE(bytes, 2u + 4 * 2 + 2 * 200 + 6 * 14);
  memset(static_cast<char*>(t.data) + 4 * 2 + 2 * 200 + 6 * 14, 1, 2);
  driver().api->mem_free(driver().device, allocation, bytes, QUIRE_MEM_HOST);
}

TEST(Tensor, Refused) {
  QUIRE_NEEDS(tensor_create);
  struct Fault {
    const char* names;
    int64_t shape[3];
    int64_t stride[3];
  };
  const Fault faults[] = {
      {"shape[1]", {2, -1, 4}, {0, 0, 0}},
      {"stride[0]", {2, 2, 4}, {-16, 8, 2}},
      {"stride[1]", {2, 2, 4}, {64, 6, 2}},                    // overlaps the last dimension
      {"stride[2]", {2, 2, 4}, {64, 16, 0}},                   // four elements in one place
      {"stride[0]", {INT64_MAX / 8, 2, 4}, {1 << 20, 16, 2}},  // beyond 63 bits
      {"shape", {INT64_MAX / 2, INT64_MAX / 2, 4}, {0, 0, 0}},
  };
  for (const Fault& f : faults) {
    quire_tensor t{};
    t.dtype = kBf16;
    t.ndim = 3;
    for (int d = 0; d < 3; ++d) t.shape[d] = f.shape[d], t.stride[d] = f.stride[d];
    const quire_tensor before = t;
    void* allocation = nullptr;
    uint64_t bytes = 0;
    quire_error err = fresh_error();
    EXPECT_EQ(driver().api->tensor_create(driver().device, &t, QUIRE_MEM_HOST, &allocation, &bytes, &err), QUIRE_INVALID_ARGUMENT)
        << f.names;
    EXPECT_EQ(allocation, nullptr);
    EXPECT_EQ(memcmp(&before, &t, sizeof t), 0) << f.names;
    EXPECT_NE(std::string(err.message).find(f.names), std::string::npos) << err.message;
  }
}

// Runs of 0 to limit - 1 bytes from anywhere to anywhere, every other one to a line's begin.
void copies_runs(uint64_t size, uint64_t limit) {
  Array<uint8_t> source(size);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(mixed(9, i / 8) >> (8 * (i % 8)));
  Array<uint8_t> target(size, 0xcc);
  Array<uint8_t> want = target;
  std::vector<quire_copy_run> runs;
  uint64_t at = 3;
  for (uint64_t n = 0; at < source.size() - 1000000; ++n) {
    const uint64_t bytes = n == 20 ? 900001 : n == 21 ? 0 : mixed(3, n) % limit;
    const uint64_t from = (at * 7 + 11) % (source.size() - bytes);
    runs.push_back({reinterpret_cast<uintptr_t>(source.data()) + from, reinterpret_cast<uintptr_t>(target.data()) + at, bytes});
    memcpy(&want[at], &source[from], bytes);
    at += bytes + 5;
    if (n % 2 == 0) at = (at + 63) / 64 * 64 - reinterpret_cast<uintptr_t>(target.data()) % 64 + 64;
  }
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->copy(driver().stream, runs.data(), runs.size(), &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK);
  EXPECT_TRUE(target == want);
}

TEST(Bytes, CopyRuns) {
  QUIRE_NEEDS(copy);
  for (uint64_t size : {3 << 20, 9 << 20}) {  // within the caches, and what drivers may store around them
    for (uint64_t limit : {90, 600, 5000}) {
      SCOPED_TRACE(std::to_string(size) + " bytes, runs below " + std::to_string(limit));
      copies_runs(size, limit);
    }
  }
  quire_error err = fresh_error();
  EXPECT_EQ(driver().api->copy(driver().stream, nullptr, 0, &err), QUIRE_OK);
}

// As tiers move the bytes of a pool: through host memory of the driver.
TEST(Bytes, CopyBetweenHostAndDevice) {
  QUIRE_NEEDS(copy);
  QUIRE_NEEDS(mem_alloc);
  QUIRE_NEEDS(mem_free);
  constexpr uint64_t kBytes = uint64_t{6} << 20, kLarge = kBytes - (uint64_t{1} << 20);
  quire_error err = fresh_error();
  void* host = nullptr;
  void* device = nullptr;
  ASSERT_EQ(driver().api->mem_alloc(driver().device, 2 * kBytes, 4096, QUIRE_MEM_HOST, &host, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->mem_alloc(driver().device, kBytes, 4096, QUIRE_MEM_DEVICE, &device, &err), QUIRE_OK) << err.message;
  auto* const from = static_cast<uint8_t*>(host);
  uint8_t* const back = from + kBytes;
  for (uint64_t i = 0; i < kBytes; ++i) from[i] = static_cast<uint8_t>(mixed(7, i / 8) >> (8 * (i % 8)));
  memset(back, 0xcc, kBytes);
  // One large run, then many small ones of odd sizes.
  std::vector<quire_copy_run> there = {{reinterpret_cast<uintptr_t>(from), reinterpret_cast<uintptr_t>(device), kLarge}};
  for (uint64_t at = kLarge, n = 0; at < kBytes; ++n) {
    const uint64_t bytes = std::min(1 + mixed(3, n) % 5000, kBytes - at);
    there.push_back({reinterpret_cast<uintptr_t>(from) + at, reinterpret_cast<uintptr_t>(device) + at, bytes});
    at += bytes;
  }
  std::vector<quire_copy_run> here;
  for (const quire_copy_run& run : there) here.push_back({run.destination, run.source + kBytes, run.bytes});
  ASSERT_EQ(driver().api->copy(driver().stream, there.data(), there.size(), &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->copy(driver().stream, here.data(), here.size(), &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
  EXPECT_EQ(memcmp(from, back, kBytes), 0);
  driver().api->mem_free(driver().device, device, kBytes, QUIRE_MEM_DEVICE);
  driver().api->mem_free(driver().device, host, 2 * kBytes, QUIRE_MEM_HOST);
}

TEST(Bytes, Fill) {
  QUIRE_NEEDS(fill);
  Array<uint8_t> target(2 << 20, 0xcc);
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->fill(driver().stream, target.data() + 7, 0xa5, 1500000, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK);
  for (size_t i = 0; i < target.size(); ++i) ASSERT_EQ(target[i], i >= 7 && i < 1500007 ? 0xa5 : 0xcc) << i;
}

TEST(Bytes, CopyRefused) {
  QUIRE_NEEDS(copy);
  Array<uint8_t> bytes(64, 1);
  const auto base = reinterpret_cast<uintptr_t>(bytes.data());
  quire_error err = fresh_error();
  const quire_copy_run null_source[] = {{base, base + 32, 8}, {0, base + 48, 8}};
  EXPECT_EQ(driver().api->copy(driver().stream, null_source, 2, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("runs[1]"), std::string::npos) << err.message;
  const quire_copy_run overlap[] = {{base, base + 4, 8}};
  EXPECT_EQ(driver().api->copy(driver().stream, overlap, 1, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("overlap"), std::string::npos) << err.message;
}

TEST(Streams, ASecondOneIsMadeAndDestroyed) {
  QUIRE_NEEDS(stream_create);
  QUIRE_NEEDS(stream_synchronize);
  QUIRE_NEEDS(stream_destroy);
  quire_error err = fresh_error();
  quire_driver_stream* other = nullptr;
  ASSERT_EQ(driver().api->stream_create(driver().device, 0, &other, &err), QUIRE_OK) << err.message;
  EXPECT_NE(other, nullptr);
  EXPECT_NE(other, driver().stream);
  EXPECT_EQ(driver().api->stream_synchronize(other, -1, &err), QUIRE_OK) << err.message;
  driver().api->stream_destroy(other);
}

TEST(Streams, EventsOrderWork) {
  QUIRE_NEEDS(event_create);
  QUIRE_NEEDS(event_destroy);
  QUIRE_NEEDS(event_record);
  QUIRE_NEEDS(event_wait);
  QUIRE_NEEDS(event_synchronize);
  const quire_driver_api& a = *driver().api;
  quire_error err = fresh_error();
  quire_driver_stream* other = nullptr;
  quire_driver_event* event = nullptr;
  ASSERT_EQ(a.stream_create(driver().device, 0, &other, &err), QUIRE_OK);
  ASSERT_EQ(a.event_create(driver().device, &event, &err), QUIRE_OK);
  Array<uint8_t> bytes(1 << 20, 0);
  Array<uint8_t> copy(1 << 20, 0);
  ASSERT_EQ(a.fill(driver().stream, bytes.data(), 0x3c, bytes.size(), &err), QUIRE_OK);
  ASSERT_EQ(a.event_record(event, driver().stream, &err), QUIRE_OK);
  ASSERT_EQ(a.event_wait(event, other, &err), QUIRE_OK);
  const quire_copy_run run = {reinterpret_cast<uintptr_t>(bytes.data()), reinterpret_cast<uintptr_t>(copy.data()), copy.size()};
  ASSERT_EQ(a.copy(other, &run, 1, &err), QUIRE_OK);
  ASSERT_EQ(a.stream_synchronize(other, -1, &err), QUIRE_OK);
  ASSERT_EQ(a.event_synchronize(event, -1, &err), QUIRE_OK);
  EXPECT_TRUE(bytes == copy);
  EXPECT_EQ(copy[12345], 0x3c);
  a.event_destroy(event);
  a.stream_destroy(other);
}

}  // namespace
}  // namespace quire::conformance
