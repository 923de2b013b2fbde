#include "core/modules/load_module.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core/modules/driver_table.h"
#include "core/modules/environment.h"

namespace quire {
namespace {

// NOLINTNEXTLINE(bugprone-branch-clone): the two versions are equal by chance
uint32_t host_abi(ModuleKind kind) { return kind == ModuleKind::kDriver ? QUIRE_DRIVER_ABI_VERSION : QUIRE_CONNECTOR_ABI_VERSION; }
const char* query_name(ModuleKind kind) { return kind == ModuleKind::kDriver ? "quire_driver_query" : "quire_connector_query"; }

constexpr uint64_t host_sanitizers() {
#if defined(__SANITIZE_ADDRESS__)
  return 1;
#elif defined(__SANITIZE_THREAD__)
  return 2;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return 1;
#elif __has_feature(thread_sanitizer)
  return 2;
#else
  return 0;
#endif
#else
  return 0;
#endif
}

// Manifests of the first modules end here: they publish no ops.
constexpr size_t kFirstManifestBytes = offsetof(quire_manifest, ops);

// Text of a fixed array; nothing when it is not terminated.
template <size_t N>
std::string fixed_text(const char (&text)[N]) {
  const size_t n = strnlen(text, N);
  return n == N ? std::string() : std::string(text, n);
}

Status check_note(ModuleKind kind, const std::string& name, const std::string& path, const quire_note& note) {
  const std::string noted = fixed_text(note.name);
  if (note.kind != static_cast<quire_module_kind>(kind)) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: its note says kind %d, wanted is %d (%s)", path.c_str(), note.kind,
                static_cast<quire_module_kind>(kind), module_kind_name(kind));
  }
  // While the major version is 0 nothing but equality is promised.
  if (note.abi_version != host_abi(kind)) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: its note says %s ABI %u.%u, this library has %u.%u", path.c_str(), module_kind_name(kind),
                note.abi_version >> 16, note.abi_version & 0xffff, host_abi(kind) >> 16, host_abi(kind) & 0xffff);
  }
  if (note.min_host_abi > host_abi(kind)) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: its note asks for a host of %s ABI %u.%u or newer, this library has %u.%u", path.c_str(),
                module_kind_name(kind), note.min_host_abi >> 16, note.min_host_abi & 0xffff, host_abi(kind) >> 16, host_abi(kind) & 0xffff);
  }
  if (note.flags != 0) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: its note has flags 0x%x, this library knows none", path.c_str(), note.flags);
  }
  if (!is_module_name(noted) || (!name.empty() && noted != name)) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: its note gives the name '%s', wanted is '%s'", path.c_str(), noted.c_str(), name.c_str());
  }
  return {};
}

// The dynamic loader's last word.
std::string loader_text() {
  const char* text = dlerror();  // NOLINT(concurrency-mt-unsafe): thread-local in glibc
  return text == nullptr ? "unknown reason" : text;
}

// Maps the file and finds the query in the file itself, not in something it depends on.
Result<quire_module_query_fn> map_and_find(ModuleKind kind, const std::string& path, ModuleReport* report) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return fail(QUIRE_UNAVAILABLE, "%s: %s", path.c_str(), loader_text().c_str()).with_native(6, 0);
  report->step = ModuleStep::kMapped;
  void* symbol = dlsym(library, query_name(kind));
  if (symbol == nullptr) return fail(QUIRE_INCOMPATIBLE_ABI, "%s: does not export %s", path.c_str(), query_name(kind));
  struct link_map* own = nullptr;
  struct link_map* owner = nullptr;
  Dl_info info{};
  if (dlinfo(library, RTLD_DI_LINKMAP, &own) != 0 || dladdr1(symbol, &info, reinterpret_cast<void**>(&owner), RTLD_DL_LINKMAP) == 0 ||
      own != owner) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: %s belongs to its dependency %s", path.c_str(), query_name(kind),
                info.dli_fname == nullptr ? "?" : info.dli_fname);
  }
  report->step = ModuleStep::kSymbol;
  return reinterpret_cast<quire_module_query_fn>(symbol);
}

Result<const quire_manifest*> ask(ModuleKind kind, const std::string& what, quire_module_query_fn query) {
  quire_query question{};
  question.struct_size = sizeof question;
  question.abi_min = host_abi(kind);
  question.abi_max = host_abi(kind);
  quire_error error{};
  error.struct_size = sizeof error;
  const quire_manifest* manifest = nullptr;
  const quire_code code = query(&question, &manifest, &error);
  if (code != QUIRE_OK) {
    error.message[sizeof error.message - 1] = '\0';
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: query refused with code %d: %s", what.c_str(), code, error.message);
  }
  if (manifest == nullptr) return fail(QUIRE_INCOMPATIBLE_ABI, "%s: query answered OK without a manifest", what.c_str());
  return manifest;
}

Status check_manifest(ModuleKind kind, const std::string& what, const std::string& name, const quire_manifest& manifest) {
  if (manifest.magic != QUIRE_MODULE_MAGIC) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: manifest magic 0x%08x, wanted is 0x%08x", what.c_str(), manifest.magic, QUIRE_MODULE_MAGIC);
  }
  if (manifest.struct_size < kFirstManifestBytes || manifest.struct_size > 4096) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: manifest struct_size %u is outside [%zu, 4096]", what.c_str(), manifest.struct_size,
                kFirstManifestBytes);
  }
  if (manifest.kind != static_cast<quire_module_kind>(kind)) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: manifest kind %d, wanted is %d", what.c_str(), manifest.kind,
                static_cast<quire_module_kind>(kind));
  }
  if (manifest.abi_version != host_abi(kind)) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: manifest gives %s ABI %u.%u, this library has %u.%u", what.c_str(), module_kind_name(kind),
                manifest.abi_version >> 16, manifest.abi_version & 0xffff, host_abi(kind) >> 16, host_abi(kind) & 0xffff);
  }
  const std::string own = fixed_text(manifest.name);
  if (!is_module_name(own) || own != name) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: manifest gives the name '%s', wanted is '%s'", what.c_str(), own.c_str(), name.c_str());
  }
  if ((manifest.sanitizers & 3) != host_sanitizers()) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: built with sanitizers %u, this library with %u (1 address, 2 thread)", what.c_str(),
                static_cast<unsigned>(manifest.sanitizers & 3), static_cast<unsigned>(host_sanitizers()));
  }
  if (manifest.api == nullptr) return fail(QUIRE_INCOMPATIBLE_ABI, "%s: manifest has no table", what.c_str());
  return {};
}

Result<Module> take_over(ModuleKind kind, const std::string& what, const std::string& name, const quire_manifest& manifest,
                         ModuleReport* report) {
  QUIRE_RETURN_IF_ERROR(check_manifest(kind, what, name, manifest));
  report->step = ModuleStep::kManifest;
  Module module;
  module.kind = kind;
  module.name = name;
  module.version = fixed_text(manifest.version);
  if (kind == ModuleKind::kDriver) {
    auto table = copy_driver_table(manifest.api);
    if (!table.ok()) return fail(table.status().code(), "%s: %s", what.c_str(), table.status().message().c_str());
    module.driver = *table;
  } else {
    auto table = copy_connector_table(manifest.api);
    if (!table.ok()) return fail(table.status().code(), "%s: %s", what.c_str(), table.status().message().c_str());
    module.connector = *table;
  }
  auto ops = read_op_table(manifest.struct_size >= sizeof(quire_manifest) ? manifest.ops : nullptr);
  if (!ops.ok()) return fail(ops.status().code(), "%s: %s", what.c_str(), ops.status().message().c_str());
  module.ops = std::move(*ops);
  report->step = ModuleStep::kTable;
  return module;
}

// The file that this code is in. The loader calls a program by its argv[0], which anybody may have written: libquire.a asks the kernel.
std::string library_path() {
  Dl_info info{};
  void* map = nullptr;
  if (dladdr1(reinterpret_cast<void*>(&library_path), &info, &map, RTLD_DL_LINKMAP) == 0 || map == nullptr) return {};
  const char* const name = static_cast<const link_map*>(map)->l_name;
  char resolved[PATH_MAX];
  return realpath(*name == '\0' ? "/proc/self/exe" : name, resolved) == nullptr ? std::string() : std::string(resolved);
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

TrustRule trust_rule(bool beside_library, bool trust_paths) {
  TrustRule rule;
  if (process_is_elevated()) return rule;
  rule.everything = trust_paths;
  const std::string library = beside_library ? library_path() : std::string();
  struct stat file {};
  struct stat folder {};
  if (!library.empty() && stat(library.c_str(), &file) == 0 && stat(folder_of(library).c_str(), &folder) == 0) {
    rule.beside_library = true;
    rule.library_owner = file.st_uid;
    rule.library_mode = folder.st_mode & (S_IWGRP | S_IWOTH);
    rule.library_directory = folder_of(library);
  }
  return rule;
}

struct RegisteredModule {
  ModuleKind kind;
  std::string name;
  quire_module_query_fn query;
};

struct Registry {
  std::mutex lock;
  std::vector<RegisteredModule> modules;
};

// Never destroyed: registered queries must outlive every runtime, also at exit.
Registry& registry() {
  static auto* registry = new Registry;
  return *registry;
}

}  // namespace

const char* module_kind_name(ModuleKind kind) { return kind == ModuleKind::kDriver ? "driver" : "connector"; }

std::string module_file_name(ModuleKind kind, const std::string& name) {
  return std::string("libquire_") + module_kind_name(kind) + "_" + name + ".so";
}

std::string default_module_directory() {
  const std::string library = library_path();
  return library.empty() ? std::string() : folder_of(library) + "/quire/" + std::to_string(QUIRE_ABI_MAJOR);
}

Result<Module> load_module(ModuleKind kind, const std::string& name, const ModulePath& file, bool trust_paths, ModuleReport* report) {
  report->path = file.path;
  auto path = resolve_module_path(file.path, trust_rule(file.beside_library, trust_paths));
  if (!path.ok()) return path.take_status();
  report->step = ModuleStep::kFile;
  auto note = read_module_note(*path);
  if (!note.ok()) return note.take_status();
  QUIRE_RETURN_IF_ERROR(check_note(kind, name, *path, *note));
  report->step = ModuleStep::kNote;
  auto query = map_and_find(kind, *path, report);
  if (!query.ok()) return query.take_status();
  auto manifest = ask(kind, *path, *query);
  if (!manifest.ok()) return manifest.take_status();
  report->step = ModuleStep::kAnswered;
  auto module = take_over(kind, *path, fixed_text(note->name), **manifest, report);
  if (module.ok()) module->path = *path;
  return module;
}

std::vector<std::string> scan_directory(ModuleKind kind, const std::string& directory) {
  std::vector<std::string> names;
  DIR* entries = opendir(directory.c_str());
  if (entries == nullptr) return names;
  const std::string head = std::string("libquire_") + module_kind_name(kind) + "_";
  while (const dirent* entry = readdir(entries)) {  // NOLINT(concurrency-mt-unsafe): a stream of its own
    const std::string file = entry->d_name;
    if (file.size() <= head.size() + 3 || !file.starts_with(head) || !file.ends_with(".so")) continue;
    const std::string name = file.substr(head.size(), file.size() - head.size() - 3);
    if (is_module_name(name)) names.push_back(name);
  }
  closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

Status register_module(ModuleKind kind, quire_module_query_fn query) {
  const std::string what = std::string("registered ") + module_kind_name(kind);
  auto manifest = ask(kind, what, query);
  if (!manifest.ok()) return manifest.take_status();
  const std::string name = fixed_text((*manifest)->name);
  ModuleReport report;
  auto module = take_over(kind, what, name, **manifest, &report);
  if (!module.ok()) return module.take_status();
  Registry& all = registry();
  const std::lock_guard<std::mutex> hold(all.lock);
  for (const RegisteredModule& other : all.modules) {
    if (other.kind == kind && other.name == name) {
      return fail(QUIRE_ALREADY_EXISTS, "a %s named '%s' is registered already", module_kind_name(kind), name.c_str());
    }
  }
  all.modules.push_back({kind, name, query});
  return {};
}

std::vector<std::string> registered_modules(ModuleKind kind) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> hold(all.lock);
  std::vector<std::string> names;
  names.reserve(all.modules.size());
  for (const RegisteredModule& module : all.modules) {
    if (module.kind == kind) names.push_back(module.name);
  }
  return names;
}

bool is_registered(ModuleKind kind, const std::string& name) {
  const auto names = registered_modules(kind);
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<Module> load_registered(ModuleKind kind, const std::string& name, ModuleReport* report) {
  quire_module_query_fn query = nullptr;
  {
    Registry& all = registry();
    const std::lock_guard<std::mutex> hold(all.lock);
    for (const RegisteredModule& module : all.modules) {
      if (module.kind == kind && module.name == name) query = module.query;
    }
  }
  if (query == nullptr) return fail(QUIRE_NOT_FOUND, "no %s named '%s' is registered", module_kind_name(kind), name.c_str());
  const std::string what = std::string("registered ") + module_kind_name(kind) + " '" + name + "'";
  report->step = ModuleStep::kSymbol;
  auto manifest = ask(kind, what, query);
  if (!manifest.ok()) return manifest.take_status();
  report->step = ModuleStep::kAnswered;
  return take_over(kind, what, name, **manifest, report);
}

}  // namespace quire
