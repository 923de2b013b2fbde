// A library with the functions of Mooncake's C library over the Python package of Mooncake, which is all that is published: both are thin
// layers over the same client. Each call becomes a call of MooncakeDistributedStore. For tests against a true store; see wheel.sh.
//
//   QUIRE_MOONCAKE_LIBPYTHON   the shared library of the Python that has the package; PYTHONPATH leads to it
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "plugins/mooncake/mooncake_library.h"

#define WHEEL_API __attribute__((visibility("default")))

namespace {

// The functions of the library as Python defines them. A store is a number.
constexpr char kCode[] = R"(
import ctypes, sys
from mooncake.store import MooncakeDistributedStore
stores, kept, numbers = {}, [], iter(range(1, 1 << 60))
P, S, I, L, U = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64, ctypes.c_uint64
def create():
  number = next(numbers)
  stores[number] = MooncakeDistributedStore()
  return number
def destroy(s):
  stores.pop(s).close()
def setup(s, host, metadata, segment, local, protocol, device, master):
  return stores[s].setup(host.decode(), metadata.decode(), segment, local, protocol.decode(), device.decode(), master.decode())
def register_buffer(s, buffer, size):
  return stores[s].register_buffer(buffer, size)
def put_from(s, key, buffer, size, config):
  return stores[s].put_from(key.decode(), buffer, size)
def get_into(s, key, buffer, size):
  return stores[s].get_into(key.decode(), buffer, size)
def is_exist(s, key):
  return stores[s].is_exist(key.decode())
def batch_is_exist(s, keys, n, results):
  for i, found in enumerate(stores[s].batch_is_exist([keys[i].decode() for i in range(n)])):
    results[i] = found
  return 0
def get_size(s, key):
  return stores[s].get_size(key.decode())
def remove(s, key, force):
  return stores[s].remove(key.decode(), force != 0)
def define(name, function, result, *arguments):
  callback = ctypes.CFUNCTYPE(result, *arguments)(function)
  kept.append(callback)
  library.quire_wheel_define(name.encode(), callback)
library = ctypes.CDLL(quire_wheel)
define("create", create, P)
define("destroy", destroy, None, P)
define("setup", setup, I, P, S, S, U, U, S, S, S)
define("register_buffer", register_buffer, I, P, P, U)
define("put_from", put_from, I, P, S, P, U, P)
define("get_into", get_into, L, P, S, P, U)
define("is_exist", is_exist, I, P, S)
define("batch_is_exist", batch_is_exist, I, P, ctypes.POINTER(S), U, ctypes.POINTER(I))
define("get_size", get_size, L, P, S)
define("remove", remove, I, P, S, I)
)";

quire::mooncake::Library g_functions;
std::once_flag g_started;

void start() {
  const char* const path = std::getenv("QUIRE_MOONCAKE_LIBPYTHON");  // NOLINT(concurrency-mt-unsafe)
  void* const python = dlopen(path != nullptr ? path : "", RTLD_NOW | RTLD_GLOBAL);
  if (python == nullptr) return;
  const auto initialize = reinterpret_cast<void (*)(int)>(dlsym(python, "Py_InitializeEx"));
  const auto run = reinterpret_cast<int (*)(const char*)>(dlsym(python, "PyRun_SimpleString"));
  const auto let_go = reinterpret_cast<void* (*)()>(dlsym(python, "PyEval_SaveThread"));
  Dl_info self = {};
  if (initialize == nullptr || run == nullptr || let_go == nullptr || dladdr(kCode, &self) == 0) return;
  initialize(0);
  const std::string code = "quire_wheel = '" + std::string(self.dli_fname) + "'\n" + kCode;
  if (run(code.c_str()) != 0) g_functions.create = nullptr;
  let_go();
}

template <typename Function>
void set(Function** out, void* function) {
  *out = reinterpret_cast<Function*>(function);
}

}  // namespace

extern "C" {

WHEEL_API void quire_wheel_define(const char* name, void* function) {
  const std::string own = name;
  if (own == "create") set(&g_functions.create, function);
  if (own == "destroy") set(&g_functions.destroy, function);
  if (own == "setup") set(&g_functions.setup, function);
  if (own == "register_buffer") set(&g_functions.register_buffer, function);
  if (own == "put_from") set(&g_functions.put_from, function);
  if (own == "get_into") set(&g_functions.get_into, function);
  if (own == "is_exist") set(&g_functions.is_exist, function);
  if (own == "batch_is_exist") set(&g_functions.batch_is_exist, function);
  if (own == "get_size") set(&g_functions.get_size, function);
  if (own == "remove") set(&g_functions.remove, function);
}

WHEEL_API void* mooncake_store_create() {
  std::call_once(g_started, start);
  return g_functions.create != nullptr ? g_functions.create() : nullptr;
}
WHEEL_API void mooncake_store_destroy(void* store) { g_functions.destroy(store); }
WHEEL_API int mooncake_store_setup(void* store, const char* host, const char* metadata, uint64_t segment, uint64_t local,
                                   const char* protocol, const char* device, const char* master) {
  return g_functions.setup(store, host, metadata, segment, local, protocol, device, master);
}
WHEEL_API int mooncake_store_register_buffer(void* store, void* buffer, size_t bytes) {
  return g_functions.register_buffer(store, buffer, bytes);
}
WHEEL_API int mooncake_store_put_from(void* store, const char* key, void* buffer, size_t bytes,
                                      const quire::mooncake::Replication* replication) {
  return g_functions.put_from(store, key, buffer, bytes, replication);
}
WHEEL_API int64_t mooncake_store_get_into(void* store, const char* key, void* buffer, size_t bytes) {
  return g_functions.get_into(store, key, buffer, bytes);
}
WHEEL_API int mooncake_store_is_exist(void* store, const char* key) { return g_functions.is_exist(store, key); }
WHEEL_API int mooncake_store_batch_is_exist(void* store, const char** keys, size_t n, int* results) {
  return g_functions.batch_is_exist(store, keys, n, results);
}
WHEEL_API int64_t mooncake_store_get_size(void* store, const char* key) { return g_functions.get_size(store, key); }
WHEEL_API int mooncake_store_remove(void* store, const char* key, int force) { return g_functions.remove(store, key, force); }
}
