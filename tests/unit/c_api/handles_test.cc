// Handles: children keep their parents whatever the order of release; references count; probing from outside.
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "api_rig.h"

namespace quire::test {
namespace {

TEST(Handles, NullIsLegalToRetainAndRelease) {
  EXPECT_EQ(quire_runtime_retain(nullptr), nullptr);
  EXPECT_EQ(quire_model_retain(nullptr), nullptr);
  EXPECT_EQ(quire_config_retain(nullptr), nullptr);
  EXPECT_EQ(quire_cache_retain(nullptr), nullptr);
  EXPECT_EQ(quire_device_retain(nullptr), nullptr);
  EXPECT_EQ(quire_stream_retain(nullptr), nullptr);
  EXPECT_EQ(quire_memory_retain(nullptr), nullptr);
  quire_runtime_release(nullptr);
  quire_model_release(nullptr);
  quire_config_release(nullptr);
  quire_cache_release(nullptr);
  quire_device_release(nullptr);
  quire_stream_release(nullptr);
  quire_memory_release(nullptr);
}

// Every order of release is legal; a sanitizer sees what is used too late or leaked.
TEST(Handles, AnyOrderOfRelease) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (int round = 0; round < 20; ++round) {
    Rig rig("", 16);
    ASSERT_TRUE(rig.whole());
    std::vector<int> order = {0, 1, 2, 3, 4, 5, 6};
    std::shuffle(order.begin(), order.end(), random);
    for (const int which : order) {
      if (which == 0) rig.runtime.reset();
      if (which == 1) rig.model.reset();
      if (which == 2) rig.config.reset();
      if (which == 3) rig.cache.reset();
      if (which == 4) rig.device.reset();
      if (which == 5) rig.stream.reset();
      if (which == 6) rig.memory.reset();
      if (rig.memory != nullptr) {
        void* address = nullptr;
        uint64_t bytes = 0;
        ASSERT_EQ(quire_memory_get_region(rig.memory.get(), 0, &address, &bytes, nullptr), QUIRE_OK);
        static_cast<unsigned char*>(address)[bytes - 1] = 1;
      }
      if (rig.cache != nullptr) {
        ASSERT_EQ(quire_cache_verify(rig.cache.get(), nullptr), QUIRE_OK);
      }
    }
  }
}

// What the process holds: descriptors, threads, and kilobytes in use by malloc.
struct Held {
  size_t descriptors = 0;
  size_t threads = 0;
  size_t bytes = 0;

  static Held now() {
    const auto entries = [](const char* folder) {
      return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
    };
    return {entries("/proc/self/fd"), entries("/proc/self/task"), mallinfo2().uordblks};
  }
};

TEST(Handles, TenThousandRuntimesLeaveNothingBehind) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const int cycles = 500;  // the sanitizers look for leaks themselves
#else
  const int cycles = 10000;
#endif
  const auto cycle = [] {
    const quire_runtime_options options = runtime_options("null");
    quire_runtime* runtime = nullptr;
    quire_device* device = nullptr;
    quire_stream* stream = nullptr;
    quire_extension* op = nullptr;
    quire_connector* connector = nullptr;
    uint64_t size = 0;
    quire_ticket ticket{};
    ticket.kind = QUIRE_TICKET_LOOKUP;
    ticket.num_keys = 1;
    ticket.key_bytes = 1;
    ticket.sizes = &size;
    ticket.deadline_ns = -1;
    const uint8_t key = 7;
    uint64_t accepted = 0;
    ASSERT_EQ(quire_runtime_create(&options, &runtime, nullptr), QUIRE_OK);
    ASSERT_EQ(quire_device_open(runtime, 0, &device, nullptr), QUIRE_OK);
    ASSERT_EQ(quire_stream_create(device, 0, &stream, nullptr), QUIRE_OK);
    ASSERT_EQ(quire_extension_find(runtime, {}, text("echo.u64"), 0, QUIRE_EXTENSION_NATIVE, &op, nullptr), QUIRE_OK);
    ASSERT_EQ(quire_connector_open(runtime, text("null"), {}, &connector, nullptr), QUIRE_OK);
    ASSERT_EQ(quire_connector_submit(connector, &ticket, 1, nullptr, 0, &key, 1, &accepted, nullptr), QUIRE_OK);
    quire_runtime_release(runtime);      // first: the others keep it
    quire_connector_release(connector);  // with a ticket in flight
    quire_extension_release(op);
    quire_stream_release(stream);
    quire_device_release(device);
  };
  for (int i = 0; i < 1200; ++i) cycle();  // checked builds remember the last 4,096 released handles
  const Held before = Held::now();
  for (int i = 0; i < cycles; ++i) cycle();
  const Held after = Held::now();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_LE(after.bytes, before.bytes + 65536) << "malloc has " << after.bytes << " bytes in use, before " << before.bytes;
}

TEST(Handles, RetainCounts) {
  Rig rig("", 16);
  quire_memory* second = quire_memory_retain(rig.memory.get());
  EXPECT_EQ(second, rig.memory.get());
  rig.memory.reset();
  void* address = nullptr;
  uint64_t bytes = 0;
  EXPECT_EQ(quire_memory_get_region(second, 0, &address, &bytes, nullptr), QUIRE_OK);
  quire_memory_release(second);
}

TEST(Probe, TwoCalls) {
  const quire_runtime_options options = runtime_options("none");
  quire_runtime* runtime = nullptr;
  ASSERT_EQ(quire_runtime_create(&options, &runtime, nullptr), QUIRE_OK);
  uint64_t count = 0;
  EXPECT_WORKS(quire_runtime_probe(runtime, nullptr, 0, 0, &count, err));
  ASSERT_GE(count, 1U);
  // A stride wider than the struct, as a newer caller would have.
  std::vector<unsigned char> raw((count + 1) * (sizeof(quire_probe_info) + 64), 0xcc);
  const uint64_t stride = sizeof(quire_probe_info) + 64;
  EXPECT_WORKS(quire_runtime_probe(runtime, reinterpret_cast<quire_probe_info*>(raw.data()), stride, count, &count, err));
  bool found = false;
  for (uint64_t i = 0; i < count; ++i) {
    quire_probe_info info;
    std::memcpy(&info, raw.data() + i * stride, sizeof info);
    EXPECT_EQ(info.struct_size, sizeof info);
    found |= std::string(info.name) == "null" && info.kind == 1 && info.code == QUIRE_OK;
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(raw[count * stride], 0xcc);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "runtime is NULL", quire_runtime_probe(nullptr, nullptr, 0, 0, &count, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "stride is 4",
               quire_runtime_probe(runtime, reinterpret_cast<quire_probe_info*>(raw.data()), 4, 1, &count, err));
  quire_runtime_release(runtime);
}

}  // namespace
}  // namespace quire::test
