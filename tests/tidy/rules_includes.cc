// Rules about who may include whom, and about files that nobody needs.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/tidy/tidy_rules.h"

namespace quire::tidy {
namespace {

struct Include {
  int line;
  bool quoted;
  std::string path;  // as written between the quotes or brackets
};

std::vector<Include> includes_of(const File& file) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  std::vector<Include> includes;
  std::istringstream lines(code_of(file.text, true));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (line.find('#') != std::string::npos && std::regex_search(line, match, kInclude))
      includes.push_back({number, match[1] == "\"", match[2]});
  }
  return includes;
}

bool starts_with(const std::string& text, const std::string& prefix) { return text.compare(0, prefix.size(), prefix) == 0; }

bool is_source(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  static const std::set<std::string> kExtensions = {".h", ".hpp", ".c", ".cc", ".cu", ".hip"};
  return kExtensions.count(extension) != 0;
}

std::string folder(const std::string& path, int depth) {  // the first `depth` folders, with a slash behind
  size_t end = 0;
  for (int i = 0; i < depth; ++i) {
    const size_t next = path.find('/', end);
    if (next == std::string::npos) return path.substr(0, end);
    end = next + 1;
  }
  return path.substr(0, end);
}

// A quoted include as a path from the top folder: written so, or relative to the including file.
std::string resolved(const File& file, const std::string& include) {
  static const std::set<std::string> kTops = {"abi/", "core/", "drivers/", "plugins/", "tools/", "samples/", "tests/", "bindings/"};
  static const std::set<std::string> kDrivers = {"common/", "cpu/", "gpu/", "cuda/", "rocm/", "null/"};
  if (kTops.count(folder(include, 1)) != 0) return std::filesystem::path(include).lexically_normal().generic_string();
  if (starts_with(file.path, "drivers/") && kDrivers.count(folder(include, 1)) != 0)
    return "drivers/" + include;  // drivers/ is searched too
  return (std::filesystem::path(file.path).parent_path() / include).lexically_normal().generic_string();
}

// What a room of core may include beside itself.
const std::map<std::string, std::set<std::string>>& rooms() {
  static const std::map<std::string, std::set<std::string>> kRooms = [] {
    std::map<std::string, std::set<std::string>> rooms;
    std::set<std::string> before;
    for (const char* room : {"base", "model", "layout", "plan", "pool", "prefix", "sequence", "events", "step"}) {
      rooms[room] = before;
      before.insert(room);
    }
    rooms["modules"] = {"base"};
    rooms["memory"] = {"base", "model", "layout", "plan", "modules"};
    rooms["connector"] = {"base", "layout", "modules"};
    rooms["records"] = {"base", "model", "layout", "plan", "events"};
    before.insert({"modules", "memory", "connector", "records"});
    rooms["tier"] = before;
    before.insert("tier");
    rooms["session"] = before;
    before.insert("session");
    rooms["metrics"] = before;
    before.insert("metrics");
    rooms["c_api"] = before;
    return rooms;
  }();
  return kRooms;
}

std::string refused_by_core(const File& file, const Include& include) {
  if (!include.quoted) return "";
  const std::string path = resolved(file, include.path);
  const std::string own = folder(file.path, 2).substr(5, folder(file.path, 2).size() - 6);
  const std::string other =
      starts_with(path, "core/") && folder(path, 2).size() > 6 ? folder(path, 2).substr(5, folder(path, 2).size() - 6) : "";
  if (other.empty()) return "core includes core and <quire/...> only";
  if (other == own) return "";
  const auto allowed = rooms().find(own);
  if (allowed == rooms().end()) return "core/" + own + " is no room of the house";
  return allowed->second.count(other) != 0 ? "" : "core/" + own + " may not see core/" + other + "; includes look back, never ahead";
}

std::string refused_by_module(const File& file, const Include& include) {
  const std::string own = folder(file.path, 2);
  if (!include.quoted) return starts_with(include.path, "core/") || starts_with(include.path, "drivers/") ? "use the public headers" : "";
  const std::string path = resolved(file, include.path);
  if (starts_with(path, own) || (starts_with(own, "drivers/") && starts_with(path, "drivers/common/"))) return "";
  if (starts_with(own, "plugins/") && starts_with(path, "plugins/common/")) return "";
  if ((own == "drivers/cuda/" || own == "drivers/rocm/") && starts_with(path, "drivers/gpu/")) return "";  // one source for both
  return own + " includes its own files, what its kind shares (drivers/common, plugins/common) and the public headers only";
}

std::string refused_by_client(const File& file, const Include& include) {
  if (!include.quoted) return starts_with(include.path, "core/") ? "use the installed headers <quire/...>" : "";
  const bool tool = starts_with(file.path, "tools/");
  return starts_with(resolved(file, include.path), folder(file.path, tool ? 1 : 2)) ? "" : "tools and samples see installed headers only";
}

std::string refused_by_abi(const Include& include) {
  static const std::set<std::string> kAllowed = {"stdint.h"};
  if (!include.quoted && (starts_with(include.path, "quire/") || kAllowed.count(include.path) != 0)) return "";
  return "public headers include <stdint.h> and <quire/...> only";
}

}  // namespace

Findings include_directions(const File& file) {
  Findings findings;
  if (!is_source(file.path)) return findings;
  for (const Include& include : includes_of(file)) {
    std::string refused;
    const std::string top = folder(file.path, 1);
    if (top == "core/") refused = refused_by_core(file, include);
    if (top == "drivers/" || top == "plugins/") refused = refused_by_module(file, include);
    if (top == "tools/" || top == "samples/") refused = refused_by_client(file, include);
    if (top == "abi/") refused = refused_by_abi(include);
    if (!refused.empty()) findings.push_back({file.path, include.line, "includes " + include.path + ": " + refused});
  }
  return findings;
}

Findings single_owners(const Tree& tree) {
  struct Owned {
    const char* prefix;
    const char* room;
  };
  constexpr std::array<Owned, 4> kOwned = {
      {{"spdlog/", "core/base/"}, {"dlfcn.h", "core/modules/"}, {"ffi.h", "core/modules/"}, {"dlpack/", "core/layout/"}}};
  Findings findings;
  for (const Owned& owned : kOwned) {
    std::string first;
    for (const File& file : tree) {
      if (!starts_with(file.path, "core/") || !is_source(file.path)) continue;
      for (const Include& include : includes_of(file)) {
        if (!starts_with(include.path, owned.prefix)) continue;
        if (!starts_with(file.path, owned.room)) findings.push_back({file.path, include.line, include.path + " belongs to " + owned.room});
        if (!first.empty() && first != file.path) findings.push_back({file.path, include.line, include.path + " is already in " + first});
        first = file.path;
      }
    }
  }
  return findings;
}

Findings unused_headers(const Tree& tree) {
  Findings findings;
  std::set<std::string> included;  // as written, and from the top folder
  for (const File& file : tree) {
    if (!is_source(file.path)) continue;
    for (const Include& include : includes_of(file)) included.insert({include.path, resolved(file, include.path)});
  }
  const auto used = [&](std::string path) {
    for (; included.count(path) == 0; path.erase(0, path.find('/') + 1)) {
      const size_t slash = path.find('/');
      if (slash == std::string::npos || path.find('/', slash + 1) == std::string::npos) return false;  // a bare name is not enough
    }
    return true;
  };
  for (const File& file : tree) {
    const bool header = std::filesystem::path(file.path).extension() == ".h";
    if (header && !starts_with(file.path, "abi/") && !used(file.path)) findings.push_back({file.path, 0, "no file includes this header"});
  }
  return findings;
}

Findings dead_files(const Tree& tree) {
  Findings findings;
  for (const File& file : tree) {
    const std::filesystem::path path(file.path);
    if (!is_source(file.path) || path.extension() == ".h" || path.extension() == ".hpp") continue;
    const bool built = std::any_of(tree.begin(), tree.end(), [&](const File& lists) {
      const std::filesystem::path list(lists.path);
      if (list.filename() != "CMakeLists.txt") return false;
      const std::string from_list = path.lexically_relative(list.parent_path()).generic_string();
      return !starts_with(from_list, "..") && lists.text.find(from_list) != std::string::npos;
    });
    if (!built) findings.push_back({file.path, 0, "no CMakeLists.txt names this file"});
  }
  return findings;
}

Findings shared_names(const Tree& tree) {
  Findings findings;
  std::map<std::string, std::string> first;  // by the name alone
  for (const File& file : tree) {
    if (!is_source(file.path) || starts_with(file.path, "tests/abi/frozen/")) continue;
    const auto [at, is_new] = first.emplace(std::filesystem::path(file.path).filename().generic_string(), file.path);
    if (!is_new) findings.push_back({file.path, 0, "another file has this name: " + at->second});
  }
  return findings;
}

}  // namespace quire::tidy
