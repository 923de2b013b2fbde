#include "tests/kernels/conformance/open_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace quire::conformance {
namespace {

// What is needed to open anything at all; a sentence if the table lacks one of them.
std::string missing_entry(const quire_driver_api& api) {
  const char* name = api.create == nullptr               ? "create"
                     : api.destroy == nullptr            ? "destroy"
                     : api.device_count == nullptr       ? "device_count"
                     : api.device_open == nullptr        ? "device_open"
                     : api.device_close == nullptr       ? "device_close"
                     : api.device_info == nullptr        ? "device_info"
                     : api.stream_create == nullptr      ? "stream_create"
                     : api.stream_destroy == nullptr     ? "stream_destroy"
                     : api.stream_synchronize == nullptr ? "stream_synchronize"
                                                         : nullptr;
  return name == nullptr ? "" : std::string(name) + ": the table has no such entry, and nothing can be tested without it";
}

std::set<std::string>& required() {
  static std::set<std::string> names;
  return names;
}

std::string& folder_state() {
  static std::string folder;
  return folder;
}

Driver& state() {
  static Driver d;
  return d;
}

std::string open_one(const quire_driver_api* api, uint64_t flags, uint32_t threads, quire_driver_instance** instance,
                     quire_driver_device** device, quire_driver_stream** stream, bool* absent) {
  static quire_host_api host = {sizeof(quire_host_api), QUIRE_DRIVER_ABI_VERSION, nullptr, nullptr, nullptr, nullptr, nullptr};
  quire_driver_options options{};
  options.struct_size = sizeof options;
  options.num_threads = threads;
  options.host = &host;
  options.flags = flags;
  quire_error err = fresh_error();
  const quire_code code = api->create(&options, instance, &err);
  *absent = code == QUIRE_UNAVAILABLE;
  if (code != QUIRE_OK) return std::string("create: ") + err.message;
  if (api->device_open(*instance, 0, device, &err) != QUIRE_OK) return std::string("device_open: ") + err.message;
  if (api->stream_create(*device, 0, stream, &err) != QUIRE_OK) return std::string("stream_create: ") + err.message;
  return "";
}

void close_one(const quire_driver_api* api, quire_driver_instance* instance, quire_driver_device* device, quire_driver_stream* stream) {
  if (stream != nullptr) api->stream_destroy(stream);
  if (device != nullptr) api->device_close(device);
  if (instance != nullptr) api->destroy(instance);
}

}  // namespace

quire_error fresh_error() {
  quire_error err{};
  err.struct_size = sizeof err;
  return err;
}

Driver& driver() { return state(); }

int32_t device_type() {
  const auto ask = [](const quire_driver_api& api) {
    quire_device_info info{};
    info.struct_size = sizeof info;
    quire_error err = fresh_error();
    return api.device_info(state().device, &info, &err) == QUIRE_OK ? info.device_type : static_cast<int32_t>(QUIRE_DEVICE_CPU);
  };
  const quire_driver_api* api = state().api;
  if (api == nullptr) return QUIRE_DEVICE_CPU;
  static const int32_t type = ask(*api);
  return type;
}

int32_t shared_type() {
  const int32_t type = device_type();
  return type == QUIRE_DEVICE_CUDA ? QUIRE_DEVICE_CUDA_HOST : type == QUIRE_DEVICE_ROCM ? QUIRE_DEVICE_ROCM_HOST : QUIRE_DEVICE_CPU;
}

std::string attended_by(quire_driver_stream* stream) {
  const quire_extension_table* ops = state().ops;
  for (uint64_t i = 0; ops != nullptr && i < ops->count; ++i) {
    if (std::string(ops->items[i].name.data, ops->items[i].name.len) != "attention.kernel") continue;
    char text[256] = {};
    const quire_value args[] = {{QUIRE_VALUE_POINTER, 0, reinterpret_cast<uint64_t>(stream)},
                                {QUIRE_VALUE_POINTER, 0, reinterpret_cast<uint64_t>(text)},
                                {QUIRE_VALUE_U64, 0, sizeof text}};
    quire_value answer{};
    quire_error err = fresh_error();
    return ops->items[i].packed(nullptr, args, 3, &answer, &err) == QUIRE_OK ? text : "";
  }
  return "";
}

void* take_shared(size_t bytes) {
  if (shared_type() == QUIRE_DEVICE_CPU) return ::operator new(bytes);
  void* address = nullptr;
  quire_error err = fresh_error();
  if (state().api->mem_alloc(state().device, bytes, 64, QUIRE_MEM_HOST, &address, &err) != QUIRE_OK) throw std::bad_alloc();
  return address;
}

void give_shared(void* address, size_t bytes) {
  if (shared_type() == QUIRE_DEVICE_CPU) {
    ::operator delete(address);
  } else {
    state().api->mem_free(state().device, address, bytes, QUIRE_MEM_HOST);
  }
}

const std::string& module_folder() { return folder_state(); }

void require_entries(std::set<std::string> names) { required() = std::move(names); }

bool is_required(const std::string& entry) { return required().count("all") != 0 || required().count(entry) != 0; }

std::string open_driver(const std::string& folder, const std::string& name, uint64_t flags, bool* absent) {
  Driver& d = state();
  d.name = name;
  folder_state() = folder;
  const std::string path = folder + "/libquire_driver_" + name + ".so";
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return dlerror();
  const auto query = reinterpret_cast<quire_module_query_fn>(dlsym(module, "quire_driver_query"));
  if (query == nullptr) return path + " has no quire_driver_query";
  quire_query request{};
  request.struct_size = sizeof request;
  request.abi_min = request.abi_max = QUIRE_DRIVER_ABI_VERSION;
  const quire_manifest* manifest = nullptr;
  quire_error err = fresh_error();
  if (query(&request, &manifest, &err) != QUIRE_OK) return std::string("query: ") + err.message;
  if (manifest == nullptr || manifest->api == nullptr) return "query: " + path + " answered without a manifest or a table";
  if (name != manifest->name) return "the manifest of " + path + " says " + manifest->name;
  static quire_driver_api table;  // what lies beyond the driver's struct_size is absent
  const auto* theirs = static_cast<const quire_driver_api*>(manifest->api);
  memcpy(&table, theirs, std::min<size_t>(theirs->struct_size, sizeof table));
  d.api = &table;
  d.ops = manifest->ops;
  std::string problem = missing_entry(table);
  if (!problem.empty()) return problem;
  problem = open_one(d.api, flags, 0, &d.instance, &d.device, &d.stream, absent);
  if (problem.empty()) problem = open_one(d.api, flags, 1, &d.single_instance, &d.single_device, &d.single_stream, absent);
  return problem;
}

void close_driver() {
  Driver& d = state();
  if (d.api == nullptr) return;
  close_one(d.api, d.instance, d.device, d.stream);
  close_one(d.api, d.single_instance, d.single_device, d.single_stream);
}

}  // namespace quire::conformance
