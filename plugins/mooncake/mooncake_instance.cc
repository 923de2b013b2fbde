#include "plugins/mooncake/mooncake_instance.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "plugins/common/signals.h"
#include "plugins/common/waiting.h"

namespace quire::mooncake {
namespace {

constexpr int64_t kFarewell = 1'000'000'000;  // nanoseconds
constexpr int64_t kFarewellOfProcess = 10'000'000'000;
// Mooncake moved objects of 2 MiB 1.2 to 2.2 times as fast as those of 32 KiB, byte by byte.
constexpr uint64_t kBestBytes = uint64_t{2} << 20;

// What threads were left with in calls. They are waited for when the process ends, before Mooncake's library cleans up under them: a
// handler that is registered later runs earlier.
struct Left {
  std::mutex lock;
  std::vector<std::weak_ptr<Shared>> all;
  pid_t owner = -1;  // a child of fork() has none of the threads
};

Left& left() {
  static auto* const own = new Left;  // for the end of the process
  return *own;
}

void await_left() {
  const std::lock_guard guard(left().lock);
  if (left().owner != getpid()) return;
  const int64_t limit = plugins::monotonic() + kFarewellOfProcess;
  for (const std::weak_ptr<Shared>& shared : left().all) {
    while (!shared.expired() && plugins::monotonic() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void remember(const std::shared_ptr<Shared>& shared) {
  const std::lock_guard guard(left().lock);
  std::erase_if(left().all, [](const std::weak_ptr<Shared>& before) { return before.expired(); });
  left().all.push_back(shared);
  left().owner = getpid();
  static const int kRegistered = std::atexit(await_left);
  (void)kRegistered;
}

}  // namespace

Instance::Instance(std::shared_ptr<Shared> shared) : shared_(std::move(shared)), owner_(getpid()) {}

Outcome Instance::open(const quire_host_api& host, const Config& config, std::unique_ptr<Instance>* out) {
  Library library;
  if (Outcome outcome = load_library(config.library, &library); !outcome.ok()) return outcome;
  std::unique_ptr<Instance> instance(new Instance(std::make_shared<Shared>(host, config, library)));
  if (Outcome outcome = instance->tickets().open(); !outcome.ok()) return outcome;
  if (Outcome outcome = instance->start(); !outcome.ok()) return outcome;
  if (Outcome outcome = instance->tickets().await_first_try(); !outcome.ok()) return outcome;
  *out = std::move(instance);
  return {};
}

Outcome Instance::start() {
  const uint32_t threads = shared_->config.threads;
  workers_.reserve(threads);
  const plugins::NoSignals quiet;
  try {
    watch_ = std::thread([shared = shared_] { shared->tickets.watch(); });
    for (uint32_t i = 0; i < threads; ++i) {
      workers_.emplace_back([shared = shared_, i] { Worker(shared, i).run(); });
    }
  } catch (const std::system_error& error) {
    return {QUIRE_RESOURCE_EXHAUSTED, error.code().value(),
            "thread " + std::to_string(workers_.size()) + " of " + std::to_string(threads) +
                " could not be started; see config field threads: " + error.what()};
  }
  return {};
}

Instance::~Instance() {
  shared_->tickets.close();
  if (watch_.joinable()) watch_.join();
  const bool all_left = shared_->tickets.await_workers(static_cast<uint32_t>(workers_.size()), kFarewell);
  for (std::thread& worker : workers_) {
    if (all_left) {
      worker.join();
    } else {
      worker.detach();
    }
  }
  if (all_left) return;
  try {
    remember(shared_);
  } catch (const std::bad_alloc&) {  // then the end of the process does not wait
  }
}

bool Instance::leave_in_child() {
  if (getpid() == owner_) return false;
  ::close(tickets().fd());
  return true;
}

quire_connector_info Instance::info() const {
  const Config& config = shared_->config;
  quire_connector_info info = {};
  info.flags = QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_STAGES;
  if (config.segment_bytes == 0) info.flags |= QUIRE_CONNECTOR_PERSISTENT;  // others have all objects
  info.max_in_flight = kMaxTickets;
  info.max_key_bytes = kMaxKeyBytes;
  info.device_types = uint64_t{1} << QUIRE_DEVICE_CPU;
  info.max_object_bytes = config.object_bytes;
  info.best_object_bytes = kBestBytes < config.object_bytes ? kBestBytes : config.object_bytes;
  return info;
}

quire_connector_health Instance::health() {
  quire_connector_health health = {};
  const bool is_full = shared_->full_until.load(std::memory_order_relaxed) > plugins::monotonic();
  health.state = tickets().is_down() ? QUIRE_CONNECTOR_DOWN : is_full ? QUIRE_CONNECTOR_FULL : QUIRE_CONNECTOR_UP;
  health.num_damaged = shared_->num_damaged.load(std::memory_order_relaxed);
  return health;
}

}  // namespace quire::mooncake
