#include "plugins/mooncake/mooncake_library.h"

#include <dlfcn.h>

namespace quire::mooncake {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function** out, std::string* missing) {
  *out = reinterpret_cast<Function*>(dlsym(library, name));
  if (*out == nullptr) *missing = name;
  return *out != nullptr;
}

}  // namespace

Outcome load_library(const std::string& name, Library* out) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = dlerror();  // NOLINT(concurrency-mt-unsafe)
    return {QUIRE_UNAVAILABLE, 0,
            "Mooncake's C library cannot be loaded; see config field library: " + std::string(why != nullptr ? why : name)};
  }
  std::string missing;
  const bool has_all =
      find(library, "mooncake_store_create", &out->create, &missing) && find(library, "mooncake_store_destroy", &out->destroy, &missing) &&
      find(library, "mooncake_store_setup", &out->setup, &missing) &&
      find(library, "mooncake_store_register_buffer", &out->register_buffer, &missing) &&
      find(library, "mooncake_store_put_from", &out->put_from, &missing) &&
      find(library, "mooncake_store_get_into", &out->get_into, &missing) &&
      find(library, "mooncake_store_is_exist", &out->is_exist, &missing) &&
      find(library, "mooncake_store_batch_is_exist", &out->batch_is_exist, &missing) &&
      find(library, "mooncake_store_get_size", &out->get_size, &missing) && find(library, "mooncake_store_remove", &out->remove, &missing);
  if (has_all) return {};
  dlclose(library);
  return {QUIRE_INCOMPATIBLE_ABI, 0, name + " has no function " + missing + "; it is no C library of Mooncake, or an old one"};
}

}  // namespace quire::mooncake
