// A driver of the emulation, opened, with a stream whose launches can be recorded.
#pragma once

#include "drivers/gpu/emulation/emulation_runtime.h"

#include <gtest/gtest.h>

namespace quire::gpu {

struct Rig {
  quire_driver_instance* instance = nullptr;
  quire_driver_device* device = nullptr;
  quire_driver_stream* stream = nullptr;
  void* native = emulation::create_stream();
  quire_error err{};

  explicit Rig(uint64_t flags) {
    err.struct_size = sizeof err;
    quire_driver_options options{};
    options.struct_size = sizeof options;
    options.flags = flags;
    EXPECT_EQ(kApi.create(&options, &instance, &err), QUIRE_OK) << err.message;
    EXPECT_EQ(kApi.device_open(instance, 0, &device, &err), QUIRE_OK) << err.message;
    const auto own = reinterpret_cast<uintptr_t>(native);
    EXPECT_EQ(kApi.stream_create(device, own, &stream, &err), QUIRE_OK) << err.message;
  }
  ~Rig() {
    kApi.stream_destroy(stream);
    kApi.device_close(device);
    kApi.destroy(instance);
    emulation::destroy_stream(native);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
};

}  // namespace quire::gpu
