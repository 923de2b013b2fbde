#include <cstdlib>
#include <cstring>

#include "tests/tier/tier_rig.h"

namespace quire::test {

void choose_driver(quire_runtime_options* options) {
  const char* const driver = std::getenv("QUIRE_TIER_DRIVER");
  const char* const path = std::getenv("QUIRE_TIER_DRIVER_PATH");
  options->driver = driver == nullptr ? quire_str{"cpu", 3} : quire_str{driver, std::strlen(driver)};
  options->driver_path = path == nullptr ? quire_str{QUIRE_MODULES, std::strlen(QUIRE_MODULES)} : quire_str{path, std::strlen(path)};
}

bool is_on_device() {
  const char* const driver = std::getenv("QUIRE_TIER_DRIVER");
  return driver != nullptr && std::strcmp(driver, "cpu") != 0;
}

quire_device* Engine::device_of(uint32_t shard) {
  if ((options_.host_shards >> shard & 1) == 0) return device_.get();
  if (host_device_ != nullptr) return host_device_.get();
  quire_error err = QUIRE_INIT(quire_error);
  quire_runtime_options own = QUIRE_INIT(quire_runtime_options);
  own.header_abi = QUIRE_ABI_VERSION;
  own.flags = QUIRE_RUNTIME_NO_ENV;
  own.num_threads = 1;
  own.driver = {"cpu", 3};
  own.driver_path = {QUIRE_MODULES, std::strlen(QUIRE_MODULES)};
  quire_runtime* runtime = nullptr;
  must(quire_runtime_create(&own, &runtime, &err), err, "runtime");
  quire_device* device = nullptr;
  must(quire_device_open(runtime, 0, &device, &err), err, "device");
  quire_runtime_release(runtime);
  host_device_.reset(device);
  return device;
}

void Engine::mirror(bool to_device) {
  quire_error err = QUIRE_INIT(quire_error);
  for (auto& [at, shadow] : shadows_) {
    const auto device = reinterpret_cast<uint64_t>(at.second), host = reinterpret_cast<uint64_t>(shadow.data());
    const quire_copy_run run{to_device ? host : device, to_device ? device : host, shadow.size()};
    must(quire_op_copy(streams_[at.first].get(), &run, 1, &err), err, "copy");
    must(quire_stream_synchronize(streams_[at.first].get(), -1, &err), err, "synchronize");
  }
}

}  // namespace quire::test
