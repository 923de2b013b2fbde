// The runtime: options and environment, read once; and the objects of the driver it selects.
// Children keep their parents.
#pragma once

#include <quire/base.h>
#include <quire/driver.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/modules/environment.h"
#include "core/modules/load_module.h"
#include "core/modules/op_counts.h"
#include "core/modules/op_registry.h"

namespace quire {

class Driver;

class Runtime : public std::enable_shared_from_this<Runtime> {
 public:
  // Options are structurally valid (sizes, flags, next). Errors: INVALID_ARGUMENT,
  // INCOMPATIBLE_ABI.
  static Result<std::shared_ptr<Runtime>> create(const quire_runtime_options& options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Log& log() const { return log_; }
  // Services for modules; lives as long as the runtime.
  const quire_host_api* host() const { return &host_; }
  uint32_t num_threads() const { return num_threads_; }
  // Nanoseconds by the clock of a Runtime.
  static int64_t host_now(void* runtime);

  // The driver that the selection gives, one instance per runtime while it is in use. Any thread.
  // Errors: UNAVAILABLE (none, or all candidates failed), or the reason of the only candidate.
  Result<std::shared_ptr<Driver>> driver();
  // A connector's module by name or absolute path.
  Result<Module> connector(const std::string& name);
  // The ops of the selected driver (connector empty) or of a connector. Errors: those of driver()
  // or connector().
  Result<std::vector<PublishedOp>> ops(const std::string& connector);
  // One of them, ready. Errors: NOT_FOUND (name, version), UNIMPLEMENTED (form), UNAVAILABLE.
  Result<std::shared_ptr<Op>> op(const std::string& connector, std::string_view name, uint32_t min_version, uint32_t form);
  // Every module that can be found, drivers before connectors, and before them what the selection
  // names and no folder has; each tried.
  std::vector<quire_probe_info> probe();

 private:
  struct Private {};

 public:
  explicit Runtime(Private) {}

 private:
  struct Candidate {
    ModuleKind kind = ModuleKind::kDriver;
    std::string name;        // empty = the note's
    std::string path;        // empty = search
    bool automatic = false;  // not named by anyone: being absent is normal
  };

  Status read_options(const quire_runtime_options& options);
  Status read_search(const quire_runtime_options& options, const Environment& environment);
  std::vector<ModulePath> directories(ModuleKind kind) const;
  // All names of a kind that are registered or lie in a searched directory, sorted.
  std::vector<std::string> known_names(ModuleKind kind) const;
  std::vector<Candidate> candidates() const;
  Result<Module> load(const Candidate& candidate, ModuleReport* report) const;
  Result<std::shared_ptr<Driver>> open(const Candidate& candidate, ModuleReport* report);
  Result<std::shared_ptr<Driver>> try_candidates();
  quire_probe_info probe_one(const Candidate& candidate);

  Log log_;
  quire_host_api host_{};
  quire_alloc_fn alloc_ = nullptr;
  quire_free_fn free_ = nullptr;
  void* alloc_user_ = nullptr;
  quire_clock_fn clock_ = nullptr;
  void* clock_user_ = nullptr;
  uint32_t num_threads_ = 0;
  std::vector<uint32_t> cpus_;  // of a CPU driver's threads; empty = anywhere
  bool trust_paths_ = false;
  Selection selection_;
  std::vector<std::string> driver_directories_;
  std::vector<std::string> connector_directories_;
  AllowList allowed_connectors_;
  std::mutex lock_;
  std::weak_ptr<Driver> driver_;

  static void host_log(void* user, int32_t level, quire_str component, quire_str message);
  static void* host_alloc(void* user, uint64_t bytes, uint64_t alignment);
  static void host_free(void* user, void* address, uint64_t bytes, uint64_t alignment);
};

// The code, or UNKNOWN where this library does not know it.
quire_code known_code(quire_code code);
// Turns a module's answer into a Status: unknown codes become UNKNOWN, the message names the
// module.
Status module_status(quire_code code, const quire_error& error, ModuleKind kind, const std::string& name);
// The same into the caller's struct, without allocating: for calls handed through. Returns the code
// to answer.
quire_code fail_module_call(quire_code code, quire_error* error, const char* source);
// `module` is asked for its source only when the call failed: what succeeds stays short.
template <typename Module>
quire_code finish_module_call(quire_code code, quire_error* error, const Module& module) {
  if (code != QUIRE_OK) return fail_module_call(code, error, module.source());
  if (error == nullptr || error->struct_size < sizeof(quire_error)) return QUIRE_OK;
  error->code = QUIRE_OK;
  error->native_code = 0;
  error->native_domain = 0;
  error->source[0] = '\0';
  error->message[0] = '\0';
  return QUIRE_OK;
}

// One instance of a driver.
class Driver {
 public:
  Driver(std::shared_ptr<Runtime> runtime, Module module, quire_driver_instance* instance);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const quire_driver_api& api() const { return module_.driver; }
  const std::string& name() const { return module_.name; }
  const char* source() const { return source_.c_str(); }  // "driver:cpu"
  quire_driver_instance* instance() const { return instance_; }
  const std::vector<PublishedOp>& ops() const { return module_.ops; }
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  Status status(quire_code code, const quire_error& error) const { return module_status(code, error, ModuleKind::kDriver, module_.name); }

 private:
  std::shared_ptr<Runtime> runtime_;
  Module module_;
  std::string source_;
  quire_driver_instance* instance_;
};

class Device {
 public:
  // Errors: OUT_OF_RANGE (ordinal), and the driver's.
  static Result<std::shared_ptr<Device>> open(std::shared_ptr<Driver> driver, uint32_t ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  const quire_driver_api& api() const { return driver_->api(); }
  quire_driver_device* get() const { return device_; }
  // Facts as of opening; free_bytes may have changed since.
  const quire_device_info& info() const { return info_; }
  // Asks again.
  Status read_info(quire_device_info* info) const;
  OpCounts& op_counts() const { return op_counts_; }

 private:
  explicit Device(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}

  std::shared_ptr<Driver> driver_;
  quire_driver_device* device_ = nullptr;
  quire_device_info info_{};
  mutable OpCounts op_counts_;
};

class Stream {
 public:
  static Result<std::shared_ptr<Stream>> create(std::shared_ptr<Device> device, uint64_t native);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Device& device() const { return *device_; }
  const quire_driver_api& api() const { return *api_; }
  quire_driver_stream* get() const { return stream_; }
  const char* source() const { return device_->driver().source(); }
  Status synchronize(int64_t timeout_ns) const;
  Status copy(const quire_copy_run* runs, uint64_t n) const;
  Status fill(void* destination, uint8_t value, uint64_t bytes) const;

 private:
  explicit Stream(std::shared_ptr<Device> device) : device_(std::move(device)), api_(&device_->api()) {}

  std::shared_ptr<Device> device_;
  const quire_driver_api* api_;  // the device's, one step nearer
  quire_driver_stream* stream_ = nullptr;
};

// A place in a stream. Where a driver has no events, record() waits for the stream.
class Event {
 public:
  static Result<std::unique_ptr<Event>> create(std::shared_ptr<Stream> stream);  // kept
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Behind all that is queued now.
  Status record();
  // Whether everything before it is done.
  Result<bool> is_done() const;

 private:
  explicit Event(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

  std::shared_ptr<Stream> stream_;
  quire_driver_event* event_ = nullptr;
};

}  // namespace quire
