#include "core/modules/module_search.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace quire {
namespace {

std::string_view view(quire_str text) { return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.len); }

// The order of `auto`; the rest follows by name. The null driver computes nothing and is taken only when somebody names it.
constexpr const char* kAutoOrder[] = {"cuda", "rocm", "cpu"};
constexpr const char* kNeverAutomatic = "null";

template <size_t N>
void copy_line(char (&to)[N], std::string_view from) {
  const size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

Status check_header_abi(uint32_t header_abi) {
  if (header_abi == QUIRE_ABI_VERSION) return {};
  return fail(QUIRE_INCOMPATIBLE_ABI,
              "options.header_abi: the caller was compiled for ABI %u.%u, this library has %u.%u; before 1.0 they must be equal",
              header_abi >> 16, header_abi & 0xffff, QUIRE_ABI_VERSION >> 16, QUIRE_ABI_VERSION & 0xffff);
}

}  // namespace

void Runtime::host_log(void* user, int32_t level, quire_str component, quire_str message) {
  static_cast<Runtime*>(user)->log_.write(level, view(component), view(message));
}

void* Runtime::host_alloc(void* user, uint64_t bytes, uint64_t alignment) {
  const auto* self = static_cast<Runtime*>(user);
  if (self->alloc_ != nullptr) return self->alloc_(self->alloc_user_, bytes, alignment);
  void* address = nullptr;
  return posix_memalign(&address, std::max<uint64_t>(alignment, sizeof(void*)), bytes) == 0 ? address : nullptr;
}

void Runtime::host_free(void* user, void* address, uint64_t bytes, uint64_t alignment) {
  const auto* self = static_cast<Runtime*>(user);
  if (self->free_ != nullptr) {
    self->free_(self->alloc_user_, address, bytes, alignment);
  } else {
    std::free(address);
  }
}

int64_t Runtime::host_now(void* user) {
  const auto* self = static_cast<Runtime*>(user);
  if (self->clock_ != nullptr) return self->clock_(self->clock_user_);
  struct timespec now {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Status Runtime::read_options(const quire_runtime_options& options) {
  QUIRE_RETURN_IF_ERROR(check_header_abi(options.header_abi));
  if ((options.alloc == nullptr) != (options.release_memory == nullptr)) {
    return invalid("options.alloc and options.release_memory: set both or none");
  }
  if (options.log_level < QUIRE_LOG_TRACE || options.log_level > QUIRE_LOG_OFF) {
    return invalid("options.log_level %d is outside [%d, %d]", options.log_level, QUIRE_LOG_TRACE, QUIRE_LOG_OFF);
  }
  alloc_ = options.alloc;
  free_ = options.release_memory;
  alloc_user_ = options.alloc_user;
  clock_ = options.clock;
  clock_user_ = options.clock_user;
  num_threads_ = options.num_threads;
  auto cpus = parse_cpu_list(view(options.cpus), "options.cpus");
  if (!cpus.ok()) return cpus.take_status();
  cpus_ = std::move(*cpus);
  trust_paths_ = (options.flags & QUIRE_RUNTIME_TRUST_PATHS) != 0 && !process_is_elevated();

  const bool use_environment = (options.flags & QUIRE_RUNTIME_NO_ENV) == 0;
  const Environment environment = use_environment ? Environment::read() : Environment{};
  if (options.log != nullptr) {
    log_ = Log(options.log, options.log_user, options.log_level);
  } else if (!environment.log.empty()) {
    auto filter = parse_log_filter(environment.log);
    if (!filter.ok()) return filter.take_status();
    log_ = Log(std::move(*filter));
  }
  for (const std::string& name : environment.ignored) {
    log_.write(QUIRE_LOG_WARN, "runtime", name + " is ignored: this process runs with elevated privileges");
  }
  auto allowed = parse_allow_list(environment.connector_allow);
  if (!allowed.ok()) return allowed.take_status();
  allowed_connectors_ = std::move(*allowed);
  return read_search(options, environment);
}

// Who is searched for, and where. Precedence: argument, environment, default.
Status Runtime::read_search(const quire_runtime_options& options, const Environment& environment) {
  const auto choose = [](quire_str argument, const std::string& variable, const char* argument_name, const char* variable_name) {
    if (argument.len != 0) return std::pair(std::string(view(argument)), std::string(argument_name));
    return std::pair(variable, std::string(variable_name));
  };
  auto [driver, driver_origin] = choose(options.driver, environment.driver, "options.driver", "QUIRE_DRIVER");
  auto selection = driver.empty() ? parse_selection("auto", "default") : parse_selection(driver, driver_origin);
  if (!selection.ok()) return selection.take_status();
  selection_ = std::move(*selection);
  if (process_is_elevated() && driver_origin == "QUIRE_DRIVER") {
    for (const Selection::Item& item : selection_.items) {
      if (item.kind == Selection::Item::Kind::kPath) {
        return fail(QUIRE_PERMISSION_DENIED, "QUIRE_DRIVER: '%s' is a path, and this process runs with elevated privileges",
                    item.text.c_str());
      }
    }
  }
  const auto [driver_path, path_origin] = choose(options.driver_path, environment.driver_path, "options.driver_path", "QUIRE_DRIVER_PATH");
  auto driver_directories = parse_directories(driver_path, path_origin);
  if (!driver_directories.ok()) return driver_directories.take_status();
  driver_directories_ = std::move(*driver_directories);
  const auto [connector_path, connector_origin] =
      choose(options.connector_path, environment.connector_path, "options.connector_path", "QUIRE_CONNECTOR_PATH");
  auto connector_directories = parse_directories(connector_path, connector_origin);
  if (!connector_directories.ok()) return connector_directories.take_status();
  connector_directories_ = std::move(*connector_directories);
  return {};
}

Result<std::shared_ptr<Runtime>> Runtime::create(const quire_runtime_options& options) {
  auto runtime = std::make_shared<Runtime>(Private{});
  QUIRE_RETURN_IF_ERROR(runtime->read_options(options));
  quire_host_api& host = runtime->host_;
  host.struct_size = sizeof host;
  host.abi_version = QUIRE_ABI_VERSION;
  host.user = runtime.get();
  host.log = &Runtime::host_log;
  host.alloc = &Runtime::host_alloc;
  host.release_memory = &Runtime::host_free;
  host.now = &Runtime::host_now;
  return runtime;
}

std::vector<ModulePath> Runtime::directories(ModuleKind kind) const {
  std::vector<ModulePath> all;
  for (const std::string& directory : kind == ModuleKind::kDriver ? driver_directories_ : connector_directories_)
    all.push_back({directory, false});
  const std::string beside = default_module_directory();
  if (!beside.empty()) all.push_back({beside, true});
  return all;
}

std::vector<std::string> Runtime::known_names(ModuleKind kind) const {
  std::vector<std::string> names = registered_modules(kind);
  for (const ModulePath& directory : directories(kind)) {
    for (std::string& name : scan_directory(kind, directory.path)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<Runtime::Candidate> Runtime::candidates() const {
  std::vector<Candidate> list;
  const auto add = [&](const std::string& name, bool automatic) {
    if (selection_.excludes(name)) return;
    if (std::any_of(list.begin(), list.end(), [&](const Candidate& c) { return c.name == name; })) return;
    list.push_back({ModuleKind::kDriver, name, {}, automatic});
  };
  for (const Selection::Item& item : selection_.items) {
    switch (item.kind) {
      case Selection::Item::Kind::kName:
        add(item.text, false);
        break;
      case Selection::Item::Kind::kPath:
        list.push_back({ModuleKind::kDriver, {}, item.text, false});
        break;
      case Selection::Item::Kind::kAuto:
        for (const char* name : kAutoOrder) add(name, true);
        for (const std::string& name : known_names(ModuleKind::kDriver)) {
          if (name != kNeverAutomatic) add(name, true);
        }
        break;
    }
  }
  return list;
}

// A name is looked for among registered modules, then in each directory; the first file of that name decides.
Result<Module> Runtime::load(const Candidate& candidate, ModuleReport* report) const {
  if (candidate.kind == ModuleKind::kConnector) {
    QUIRE_RETURN_IF_ERROR(allowed_connectors_.check(candidate.path.empty() ? candidate.name : candidate.path));
  }
  if (!candidate.path.empty()) return load_module(candidate.kind, candidate.name, {candidate.path, false}, trust_paths_, report);
  if (is_registered(candidate.kind, candidate.name)) return load_registered(candidate.kind, candidate.name, report);
  std::string searched;
  for (const ModulePath& directory : directories(candidate.kind)) {
    const ModulePath file{directory.path + "/" + module_file_name(candidate.kind, candidate.name), directory.beside_library};
    auto module = load_module(candidate.kind, candidate.name, file, trust_paths_, report);
    if (module.ok() || module.status().code() != QUIRE_NOT_FOUND || report->step != ModuleStep::kSelected) return module;
    if (!searched.empty()) searched += ":";
    searched += directory.path;
  }
  report->path.clear();
  // A slip is seen from what is there. Nobody misspelt what is looked for of its own accord, which as a rule is absent.
  std::string known;
  const std::vector<std::string> names = candidate.automatic ? std::vector<std::string>() : known_names(candidate.kind);
  for (const std::string& name : names) known += (known.empty() ? "; known: " : ", ") + name;
  return fail(QUIRE_NOT_FOUND, "no file %s in %s%s", module_file_name(candidate.kind, candidate.name).c_str(),
              searched.empty() ? "any directory (none is searched)" : searched.c_str(), known.c_str());
}

Result<std::shared_ptr<Driver>> Runtime::open(const Candidate& candidate, ModuleReport* report) {
  auto module = load(candidate, report);
  if (!module.ok()) return module.take_status();
  quire_driver_options options{};
  options.struct_size = sizeof options;
  options.num_threads = num_threads_;
  options.host = &host_;
  options.cpus = cpus_.empty() ? nullptr : cpus_.data();
  options.num_cpus = static_cast<uint32_t>(cpus_.size());
  quire_driver_instance* instance = nullptr;
  quire_error error{};
  error.struct_size = sizeof error;
  const quire_code code = module->driver.create(&options, &instance, &error);
  if (code != QUIRE_OK) return module_status(code, error, ModuleKind::kDriver, module->name);
  if (instance == nullptr) return fail(QUIRE_UNKNOWN, "driver %s: create answered OK and NULL", module->name.c_str());
  report->step = ModuleStep::kCreated;
  auto driver = std::make_shared<Driver>(shared_from_this(), std::move(*module), instance);
  uint32_t count = 0;
  const quire_code counted = driver->api().device_count(instance, &count, &error);
  if (counted != QUIRE_OK) return driver->status(counted, error);
  if (count == 0) return fail(QUIRE_UNAVAILABLE, "driver %s: there is no device", driver->name().c_str());
  report->step = ModuleStep::kUsable;
  return driver;
}

Result<std::shared_ptr<Driver>> Runtime::try_candidates() {
  const std::vector<Candidate> list = candidates();
  std::string reasons;
  for (const Candidate& candidate : list) {
    ModuleReport report;
    auto driver = open(candidate, &report);
    const std::string& shown = candidate.path.empty() ? candidate.name : candidate.path;
    if (driver.ok()) {
      log_.write(QUIRE_LOG_INFO, "driver", "driver '" + (*driver)->name() + "' selected by " + selection_.origin + "=" + selection_.text);
      return driver;
    }
    // Being absent is an expected miss of an automatic candidate, not news.
    const quire_code code = driver.status().code();
    const bool expected = candidate.automatic && (code == QUIRE_NOT_FOUND || code == QUIRE_UNAVAILABLE);
    log_.write(expected ? QUIRE_LOG_DEBUG : QUIRE_LOG_WARN, "driver", "driver '" + shown + "' not usable: " + driver.status().message());
    if (list.size() == 1 && !candidate.automatic) {
      return fail(code, "%s=%s: %s", selection_.origin.c_str(), selection_.text.c_str(), driver.status().message().c_str())
          .with_native(driver.status().native_domain(), driver.status().native_code());
    }
    if (candidate.automatic && code == QUIRE_NOT_FOUND) continue;
    reasons += (reasons.empty() ? "" : "; ") + shown + ": " + driver.status().message();
  }
  if (reasons.empty()) reasons = "no module was found";
  return fail(QUIRE_UNAVAILABLE, "%s=%s gives no driver: %s", selection_.origin.c_str(), selection_.text.c_str(), reasons.c_str());
}

Result<std::shared_ptr<Driver>> Runtime::driver() {
  if (selection_.none) {
    return fail(QUIRE_UNAVAILABLE, "%s=none: this runtime does bookkeeping only and has no devices; name a driver to use memory or ops",
                selection_.origin.c_str());
  }
  {
    const std::lock_guard<std::mutex> hold(lock_);
    if (auto driver = driver_.lock()) return driver;
  }
  auto driver = try_candidates();  // without the lock: modules log and may take long
  if (!driver.ok()) return driver;
  const std::lock_guard<std::mutex> hold(lock_);
  if (auto earlier = driver_.lock()) return earlier;
  driver_ = *driver;
  return driver;
}

Result<Module> Runtime::connector(const std::string& name) {
  Candidate candidate{ModuleKind::kConnector, name, {}, false};
  if (!name.empty() && name.front() == '/') {
    candidate.name.clear();
    candidate.path = name;
  } else if (!is_module_name(name)) {
    return invalid("connector '%s' is neither a name ([a-z0-9_-], 1 to 31) nor an absolute path", name.c_str());
  }
  ModuleReport report;
  return load(candidate, &report);
}

Result<std::vector<PublishedOp>> Runtime::ops(const std::string& connector) {
  if (connector.empty()) {
    auto selected = driver();
    if (!selected.ok()) return selected.take_status();
    return (*selected)->ops();
  }
  auto module = this->connector(connector);
  if (!module.ok()) return module.take_status();
  return std::move(module->ops);
}

// A connector's op belongs to the module, which is never unloaded; a driver's to the instance.
Result<std::shared_ptr<Op>> Runtime::op(const std::string& connector, std::string_view name, uint32_t min_version, uint32_t form) {
  std::shared_ptr<Driver> selected;
  if (connector.empty()) {
    auto opened = driver();
    if (!opened.ok()) return opened.take_status();
    selected = std::move(*opened);
  }
  auto list = ops(connector);
  if (!list.ok()) return list.take_status();
  const std::string source = selected != nullptr ? std::string(selected->source()) : "connector:" + connector;
  const auto found = std::find_if(list->begin(), list->end(), [&](const PublishedOp& op) { return op.name == name; });
  const int shown = static_cast<int>(std::min<size_t>(name.size(), 64));
  if (found == list->end()) {
    return fail(QUIRE_NOT_FOUND, "%s publishes no op '%.*s' (it publishes %zu)", source.c_str(), shown, name.data(), list->size());
  }
  if (found->version < min_version) {
    return fail(QUIRE_NOT_FOUND, "op '%.*s' of %s has version %u, min_version is %u", shown, name.data(), source.c_str(), found->version,
                min_version);
  }
  void* self = selected != nullptr ? selected->instance() : nullptr;
  return Op::make(*found, form, std::move(selected), self, source);
}

quire_probe_info Runtime::probe_one(const Candidate& candidate) {
  quire_probe_info info{};
  info.struct_size = sizeof info;
  info.kind = static_cast<int32_t>(candidate.kind);
  copy_line(info.name, candidate.name);
  const int64_t begin = host_now(this);
  ModuleReport report;
  Status status;
  if (candidate.kind == ModuleKind::kDriver) {
    auto driver = open(candidate, &report);
    if (driver.ok()) copy_line(info.name, (*driver)->name());
    if (!driver.ok()) status = driver.take_status();
  } else {
    auto module = load(candidate, &report);
    if (!module.ok()) status = module.take_status();
  }
  info.code = status.code();
  info.step = static_cast<int32_t>(report.step);
  info.duration_ns = host_now(this) - begin;
  copy_line(info.path, report.path);
  copy_line(info.reason, status.message());
  return info;
}

std::vector<quire_probe_info> Runtime::probe() {
  std::vector<quire_probe_info> reports;
  // What was named is what people ask about, also when nobody finds it.
  const std::vector<std::string> found = known_names(ModuleKind::kDriver);
  for (const Candidate& candidate : candidates()) {
    if (!candidate.automatic && std::find(found.begin(), found.end(), candidate.name) == found.end())
      reports.push_back(probe_one(candidate));
  }
  for (const ModuleKind kind : {ModuleKind::kDriver, ModuleKind::kConnector}) {
    for (const std::string& name : known_names(kind)) reports.push_back(probe_one({kind, name, {}, true}));
  }
  return reports;
}

}  // namespace quire
