// One module: found, checked, loaded, asked, copied. A module that was mapped stays mapped for the life of the process, refused or not.
#pragma once

#include <quire/connector.h>
#include <quire/driver.h>

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/modules/module_file.h"
#include "core/modules/op_registry.h"

namespace quire {

enum class ModuleKind { kDriver = QUIRE_MODULE_DRIVER, kConnector = QUIRE_MODULE_CONNECTOR };

// The steps of negotiation; a refusal says how far a candidate came.
enum class ModuleStep { kSelected, kFile, kNote, kMapped, kSymbol, kAnswered, kManifest, kTable, kCreated, kUsable };

struct ModulePath {
  std::string path;
  bool beside_library = false;  // in the default directory
};

struct Module {
  ModuleKind kind = ModuleKind::kDriver;
  std::string name;
  std::string path;  // empty = registered in the process
  std::string version;
  quire_driver_api driver{};        // full: of kind kDriver
  quire_connector_api connector{};  // full: of kind kConnector
  std::vector<PublishedOp> ops;     // by name, as published
};

// What became of a candidate.
struct ModuleReport {
  ModuleStep step = ModuleStep::kSelected;
  std::string path;
};

const char* module_kind_name(ModuleKind kind);
// "libquire_driver_cpu.so"
std::string module_file_name(ModuleKind kind, const std::string& name);
// <folder of the library>/quire/<abi major>; empty when the library's file cannot be told.
std::string default_module_directory();

// Loads the file and takes its table over. `name` empty = the note's. Errors: NOT_FOUND, PERMISSION_DENIED, INCOMPATIBLE_ABI, UNAVAILABLE
// (the dynamic loader refused: its text is in the message).
Result<Module> load_module(ModuleKind kind, const std::string& name, const ModulePath& file, bool trust_paths, ModuleReport* report);

// The modules of a kind in a directory, by name. An unreadable directory has none.
std::vector<std::string> scan_directory(ModuleKind kind, const std::string& directory);

// Modules without a file.
Status register_module(ModuleKind kind, quire_module_query_fn query);
bool is_registered(ModuleKind kind, const std::string& name);
std::vector<std::string> registered_modules(ModuleKind kind);
Result<Module> load_registered(ModuleKind kind, const std::string& name, ModuleReport* report);

}  // namespace quire
