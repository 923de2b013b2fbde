// What the tests over the fakes share: the module, an engine's objects, and what they ask of the fake.
#pragma once

#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/open_driver.h"
#include "tests/kernels/fake_gpu/fake.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace quire {

using conformance::AttentionCase;
using conformance::fresh_error;

constexpr int kOutOfMemory = fake::kOutOfMemory;
constexpr int kIllegalAddress = fake::kIllegalAddress;

struct Given {
  std::string driver;
  std::string library;
  bool cuda() const { return driver == "cuda"; }
  bool batches() const { return cuda() && QUIRE_FAKE_CUDA_VERSION >= 13000; }  // cuMemcpyBatchAsync as this driver knows it
};
extern Given given;

inline std::string modules() { return std::string(QUIRE_FAKE_FOLDER) + "/modules"; }

inline const quire_manifest* manifest() {
  static const quire_manifest* const found = [] {
    void* module = dlopen((modules() + "/libquire_driver_" + given.driver + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto query = module == nullptr ? nullptr : reinterpret_cast<quire_module_query_fn>(dlsym(module, "quire_driver_query"));
    const quire_manifest* m = nullptr;
    quire_query request{};
    request.struct_size = sizeof request;
    request.abi_min = request.abi_max = QUIRE_DRIVER_ABI_VERSION;
    if (query == nullptr || query(&request, &m, nullptr) != QUIRE_OK) std::abort();
    return m;
  }();
  return found;
}

inline const quire_driver_api& api() { return *static_cast<const quire_driver_api*>(manifest()->api); }

template <typename Call>
Call* of_fake(const char* name) {
  static const char* const kNames[] = {"libcuda.so.1", "libamdhip64.so.7", "libamdhip64.so.5"};
  for (const char* file : kNames) {
    if (std::string(file).find(given.cuda() ? "cuda" : "hip") == std::string::npos) continue;
    void* library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    void* symbol = library == nullptr ? nullptr : dlsym(library, name);
    if (symbol != nullptr) return reinterpret_cast<Call*>(symbol);
  }
  std::fprintf(stderr, "no fake is loaded\n");
  std::abort();
}
#define QUIRE_FAKE(name) of_fake<decltype(name)>(#name)

// By the names of either library.
inline std::string call_of(const std::string& cuda, const std::string& hip) { return given.cuda() ? cuda : hip; }
inline uint64_t calls(const std::string& name) { return QUIRE_FAKE(quire_fake_calls)(name.c_str()); }

struct Rig {
  quire_driver_instance* instance = nullptr;
  quire_driver_device* device = nullptr;
  quire_driver_stream* stream = nullptr;
  quire_error err = fresh_error();
  std::string said;
  quire_host_api host{};

  explicit Rig(uint32_t ordinal = 0, uint64_t flags = 0, uint64_t native = 0) {
    host.struct_size = sizeof host;
    host.user = this;
    host.log = [](void* user, int32_t level, quire_str, quire_str message) {
      if (level == QUIRE_LOG_WARN) static_cast<Rig*>(user)->said.append(message.data, message.len);
    };
    quire_driver_options options{};
    options.struct_size = sizeof options;
    options.flags = flags;
    options.host = &host;
    if (api().create(&options, &instance, &err) != QUIRE_OK) return;
    if (api().device_open(instance, ordinal, &device, &err) != QUIRE_OK) return;
    api().stream_create(device, native, &stream, &err);
  }
  ~Rig() {
    api().stream_destroy(stream);
    api().device_close(device);
    api().destroy(instance);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  char* take(uint64_t bytes, uint32_t kind = QUIRE_MEM_DEVICE) {
    void* p = nullptr;
    EXPECT_EQ(api().mem_alloc(device, bytes, 0, kind, &p, &err), QUIRE_OK) << err.message;
    return static_cast<char*>(p);
  }
  void give(void* p, uint32_t kind = QUIRE_MEM_DEVICE) { api().mem_free(device, p, 0, kind); }
  quire_code wait() { return api().stream_synchronize(stream, -1, &err); }
};

inline uint64_t number(const void* p) { return reinterpret_cast<uint64_t>(p); }

inline quire_code call_op(const char* name, std::vector<quire_value> args, uint64_t* result, quire_error* err) {
  const quire_extension_table& ops = *manifest()->ops;
  for (uint64_t i = 0; i < ops.count; ++i) {
    if (std::string(ops.items[i].name.data, ops.items[i].name.len) != name) continue;
    quire_value answer{};
    const quire_code code = ops.items[i].packed(nullptr, args.data(), args.size(), &answer, err);
    if (result != nullptr) *result = answer.bits;
    return code;
  }
  ADD_FAILURE() << "no op " << name;
  return QUIRE_NOT_FOUND;
}

inline quire_value value(uint64_t bits) { return {QUIRE_VALUE_U64, 0, bits}; }
inline quire_value value(const void* p) { return {QUIRE_VALUE_POINTER, 0, number(p)}; }

extern int64_t not_ours;  // what this program itself keeps, or a lost device has kept
inline int64_t alive() { return QUIRE_FAKE(quire_fake_alive)() - not_ours; }

// One test of the suite Process in a process of its own, with variables set before its library is loaded: how that ended. Only so are these
// tests run.
int in_process(const char* test, const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace quire
