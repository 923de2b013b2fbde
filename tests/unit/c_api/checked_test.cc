// Checked builds: wrong types, use after release, double release, two threads at once. Each is said, none is undefined.
#include <atomic>
#include <cstdlib>
#include <thread>

#include <quire/driver.h>

#include "api_rig.h"
#include "common/note.h"

namespace quire::test {
namespace {

#if defined(QUIRE_CHECKED)

TEST(Checked, UseAfterReleaseIsSaid) {
  Rig rig;
  quire_model* model = rig.model.get();
  quire_model_info info{};
  info.struct_size = sizeof info;
  quire_model_retain(model);
  rig.model.reset();
  EXPECT_WORKS(quire_model_get_info(model, &info, err));
  quire_model_release(model);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "model was released before", quire_model_get_info(model, &info, err));
  // The config made from it lives on.
  uint64_t count = 0;
  EXPECT_WORKS(quire_config_describe_json(rig.config.get(), nullptr, 0, &count, err));
}

TEST(CheckedDeath, DoubleReleaseAndWrongTypesEndTheProcessWithASentence) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Rig rig;
  quire_model* model = rig.model.release();
  quire_model_release(model);
  EXPECT_DEATH(quire_model_release(model), "quire: release of a handle that was released before, or of another type");
  EXPECT_DEATH(quire_model_retain(model), "quire: retain of a handle that was released before, or of another type");
  EXPECT_DEATH(quire_cache_release(reinterpret_cast<quire_cache*>(rig.device.get())), "or of another type");
}

// A driver whose fill waits until it is told to go on.
std::atomic<int> filling{0};
std::atomic<bool> go_on{false};

quire_code wait_create(const quire_driver_options*, quire_driver_instance** out, quire_error*) {
  *out = reinterpret_cast<quire_driver_instance*>(std::malloc(1));
  return QUIRE_OK;
}
void wait_destroy(quire_driver_instance* instance) { std::free(instance); }
quire_code wait_count(quire_driver_instance*, uint32_t* count, quire_error*) {
  *count = 1;
  return QUIRE_OK;
}
quire_code wait_open(quire_driver_instance*, uint32_t, quire_driver_device** out, quire_error*) {
  *out = reinterpret_cast<quire_driver_device*>(std::malloc(1));
  return QUIRE_OK;
}
void wait_close(quire_driver_device* device) { std::free(device); }
quire_code wait_info(quire_driver_device*, quire_device_info* info, quire_error*) {
  info->alignment = 64;
  info->device_type = QUIRE_DEVICE_CPU;
  return QUIRE_OK;
}
quire_code wait_stream(quire_driver_device*, uint64_t, quire_driver_stream** out, quire_error*) {
  *out = reinterpret_cast<quire_driver_stream*>(std::malloc(1));
  return QUIRE_OK;
}
void wait_stream_destroy(quire_driver_stream* stream) { std::free(stream); }
quire_code wait_synchronize(quire_driver_stream*, int64_t, quire_error*) { return QUIRE_OK; }
quire_code wait_fill(quire_driver_stream*, void*, uint8_t, uint64_t, quire_error*) {
  filling = 1;
  while (!go_on) std::this_thread::yield();
  return QUIRE_OK;
}

quire_code wait_query(const quire_query*, const quire_manifest** out, quire_error*) {
  static const quire_driver_api api = [] {
    quire_driver_api table{};
    table.struct_size = sizeof table;
    table.create = wait_create;
    table.destroy = wait_destroy;
    table.device_count = wait_count;
    table.device_open = wait_open;
    table.device_close = wait_close;
    table.device_info = wait_info;
    table.stream_create = wait_stream;
    table.stream_destroy = wait_stream_destroy;
    table.stream_synchronize = wait_synchronize;
    table.fill = wait_fill;
    return table;
  }();
  static const quire_manifest manifest = {QUIRE_MODULE_MAGIC,
                                          sizeof(quire_manifest),
                                          QUIRE_MODULE_DRIVER,
                                          QUIRE_DRIVER_ABI_VERSION,
                                          "wait",
                                          "1",
                                          QUIRE_MODULE_SANITIZERS,
                                          &api,
                                          nullptr};
  *out = &manifest;
  return QUIRE_OK;
}

TEST(Checked, TwoThreadsInOneStreamAreSaid) {
  EXPECT_WORKS(quire_register_driver(wait_query, err));
  const quire_runtime_options options = runtime_options("wait");
  quire_runtime* runtime = nullptr;
  quire_device* device = nullptr;
  quire_stream* stream = nullptr;
  EXPECT_WORKS(quire_runtime_create(&options, &runtime, err));
  EXPECT_WORKS(quire_device_open(runtime, 0, &device, err));
  EXPECT_WORKS(quire_stream_create(device, 0, &stream, err));
  char byte = 0;
  std::thread other([&] { EXPECT_EQ(quire_op_fill(stream, &byte, 0, 1, nullptr), QUIRE_OK); });
  while (filling == 0) std::this_thread::yield();
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "stream is inside another call", quire_op_fill(stream, &byte, 0, 1, err));
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "stream is inside another call", quire_stream_synchronize(stream, 0, err));
  go_on = true;
  other.join();
  EXPECT_WORKS(quire_op_fill(stream, &byte, 0, 1, err));
  quire_stream_release(stream);
  quire_device_release(device);
  quire_runtime_release(runtime);
}

#else

TEST(Checked, IsTheBusinessOfCheckedBuilds) { GTEST_SKIP() << "built without QUIRE_CHECKED: misuse of handles is not caught here"; }

#endif

}  // namespace
}  // namespace quire::test
