// What the process says from outside: environment variables, read once per runtime, and the grammar of a driver selection.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace quire {

// True when the process runs with privileges its user does not have (AT_SECURE): path-like settings from the environment are then ignored.
bool process_is_elevated();

// Values of the variables; empty = unset. Paths are read as an elevated process must.
struct Environment {
  std::string driver;                // QUIRE_DRIVER
  std::string driver_path;           // QUIRE_DRIVER_PATH
  std::string connector_path;        // QUIRE_CONNECTOR_PATH
  std::string connector_allow;       // QUIRE_CONNECTOR_ALLOW
  std::string log;                   // QUIRE_LOG
  std::vector<std::string> ignored;  // names of path variables that are set and must not be used: the process is elevated

  static Environment read();
};

// A module name: [a-z0-9_-]{1,31}.
bool is_module_name(std::string_view name);

// Which drivers are tried, in order.
//   name | /absolute/path   that one          a,b,c   in order, an error only when all fail
//   auto                    cuda, rocm, cpu, then every other one by name
//   none                    no driver          ^name   excluded from what the rest names; alone: auto without it
struct Selection {
  struct Item {
    enum class Kind { kName, kPath, kAuto };
    Kind kind = Kind::kName;
    std::string text;
  };
  std::vector<Item> items;
  std::vector<std::string> excluded;
  bool none = false;
  std::string text;    // as given
  std::string origin;  // "options.driver", "QUIRE_DRIVER" or "default": named in messages

  bool excludes(std::string_view name) const;
};

Result<Selection> parse_selection(std::string_view text, std::string origin);

// Which connectors may be opened: `a,b` only these, `^a,^b` all but these; empty = all.
struct AllowList {
  std::vector<std::string> allowed;
  std::vector<std::string> denied;
  std::string text;  // as given

  // Errors: PERMISSION_DENIED; also for an absolute path, whose name is not known before its file is read, unless everything is allowed.
  Status check(std::string_view connector) const;
};

Result<AllowList> parse_allow_list(std::string_view text);

// CPUs as Linux writes lists of them: "0-3,8". In the order given, each once; empty text = none. At most 4096, numbers below 65536.
Result<std::vector<uint32_t>> parse_cpu_list(std::string_view text, std::string_view origin);

// Colon separated absolute directories.
Result<std::vector<std::string>> parse_directories(std::string_view text, std::string_view origin);

}  // namespace quire
