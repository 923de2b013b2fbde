#include "core/modules/environment.h"

#include <sys/auxv.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace quire {
namespace {

// Names only: harmless in an elevated process.
std::string plain_variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): once, in runtime_create
  return value == nullptr ? std::string() : std::string(value);
}

std::string path_variable(const char* name, std::vector<std::string>* ignored) {
  const char* value = secure_getenv(name);
  if (value == nullptr && !plain_variable(name).empty()) ignored->emplace_back(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> items;
  while (true) {
    const size_t end = text.find(separator);
    items.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return items;
    text.remove_prefix(end + 1);
  }
}

int shown(std::string_view text) { return static_cast<int>(std::min<size_t>(text.size(), 128)); }

}  // namespace

bool process_is_elevated() { return getauxval(AT_SECURE) != 0; }

Environment Environment::read() {
  Environment environment;
  environment.driver = plain_variable("QUIRE_DRIVER");
  environment.driver_path = path_variable("QUIRE_DRIVER_PATH", &environment.ignored);
  environment.connector_path = path_variable("QUIRE_CONNECTOR_PATH", &environment.ignored);
  environment.connector_allow = plain_variable("QUIRE_CONNECTOR_ALLOW");
  environment.log = plain_variable("QUIRE_LOG");
  return environment;
}

bool is_module_name(std::string_view name) {
  return !name.empty() && name.size() <= 31 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

bool Selection::excludes(std::string_view name) const { return std::find(excluded.begin(), excluded.end(), name) != excluded.end(); }

Result<Selection> parse_selection(std::string_view text, std::string origin) {
  Selection selection;
  selection.text = std::string(text);
  selection.origin = std::move(origin);
  const char* from = selection.origin.c_str();
  for (const std::string_view item : split(text, ',')) {
    if (item == "auto") {
      selection.items.push_back({Selection::Item::Kind::kAuto, "auto"});
    } else if (item == "none") {
      selection.none = true;
    } else if (!item.empty() && item.front() == '/') {
      selection.items.push_back({Selection::Item::Kind::kPath, std::string(item)});
    } else if (!item.empty() && item.front() == '^' && is_module_name(item.substr(1))) {
      selection.excluded.emplace_back(item.substr(1));
    } else if (is_module_name(item)) {
      selection.items.push_back({Selection::Item::Kind::kName, std::string(item)});
    } else {
      return invalid("%s: '%.*s' is neither a driver name ([a-z0-9_-], 1 to 31), auto, none, ^name nor an absolute path", from, shown(item),
                     item.data());
    }
  }
  if (selection.none && (!selection.items.empty() || !selection.excluded.empty())) {
    return invalid("%s: 'none' stands alone, got '%.*s'", from, shown(text), text.data());
  }
  if (!selection.none && selection.items.empty()) selection.items.push_back({Selection::Item::Kind::kAuto, "auto"});
  return selection;
}

Status AllowList::check(std::string_view connector) const {
  const auto is_in = [&](const std::vector<std::string>& list) { return std::find(list.begin(), list.end(), connector) != list.end(); };
  if (allowed.empty() && denied.empty()) return {};
  if (!connector.starts_with('/') && (allowed.empty() || is_in(allowed)) && !is_in(denied)) return {};
  return fail(QUIRE_PERMISSION_DENIED, "QUIRE_CONNECTOR_ALLOW=%s does not allow connector '%.*s'%s", text.c_str(), shown(connector),
              connector.data(), connector.starts_with('/') ? ": while it is set, connectors are opened by name" : "");
}

Result<AllowList> parse_allow_list(std::string_view text) {
  AllowList list;
  list.text = std::string(text);
  if (text.empty()) return list;
  for (const std::string_view item : split(text, ',')) {
    const bool denied = item.starts_with('^');
    const std::string_view name = denied ? item.substr(1) : item;
    if (!is_module_name(name)) {
      return invalid("QUIRE_CONNECTOR_ALLOW: '%.*s' is neither a connector's name ([a-z0-9_-], 1 to 31) nor ^name", shown(item),
                     item.data());
    }
    (denied ? list.denied : list.allowed).emplace_back(name);
  }
  return list;
}

Result<std::vector<uint32_t>> parse_cpu_list(std::string_view text, std::string_view origin) {
  constexpr size_t kMostCpus = 4096;
  constexpr uint32_t kHighestCpu = 65535;
  std::vector<uint32_t> cpus;
  if (text.empty()) return cpus;
  const auto number = [](std::string_view digits, uint32_t* value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
    return error == std::errc() && end == digits.data() + digits.size() && *value <= kHighestCpu;
  };
  for (const std::string_view item : split(text, ',')) {
    const size_t dash = item.find('-');
    uint32_t first = 0;
    uint32_t last = 0;
    const bool read = number(item.substr(0, dash), &first) && (dash == std::string_view::npos || number(item.substr(dash + 1), &last));
    if (dash == std::string_view::npos) last = first;
    if (!read || last < first) {
      return invalid("%.*s: '%.*s' is neither a CPU nor a range of them (numbers up to %u, as in 0-3,8)", shown(origin), origin.data(),
                     shown(item), item.data(), kHighestCpu);
    }
    for (uint32_t cpu = first; cpu <= last; ++cpu) {
      if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end()) {
        return invalid("%.*s: CPU %u is named twice", shown(origin), origin.data(), cpu);
      }
      if (cpus.size() == kMostCpus) return invalid("%.*s: more than %zu CPUs", shown(origin), origin.data(), kMostCpus);
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

Result<std::vector<std::string>> parse_directories(std::string_view text, std::string_view origin) {
  std::vector<std::string> directories;
  if (text.empty()) return directories;
  for (const std::string_view item : split(text, ':')) {
    if (item.empty()) continue;
    if (item.front() != '/') {
      return invalid("%.*s: '%.*s' is not an absolute directory", shown(origin), origin.data(), shown(item), item.data());
    }
    directories.emplace_back(item);
  }
  return directories;
}

}  // namespace quire
