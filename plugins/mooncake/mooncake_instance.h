// An opened mooncake connector: what its workers share, and its threads.
#pragma once

#include <quire/connector.h>

#include <sys/types.h>

#include <memory>
#include <thread>
#include <vector>

#include "plugins/mooncake/mooncake_worker.h"

namespace quire::mooncake {

inline constexpr uint64_t kMaxKeyBytes = 512;

class Instance {
 public:
  // Waits until the store is set up, as long as the settings say. Errors: those of load_library;
  // RESOURCE_EXHAUSTED; UNAVAILABLE and others that the library's set-up answered.
  static Outcome open(const quire_host_api& host, const Config& config, std::unique_ptr<Instance>* out);
  // Waits a moment for calls of the library. Threads in calls that do not return then are left
  // alone; they have no memory but their own, and end when their calls do.
  ~Instance();
  // In a child of fork() the threads are not there, and what they use is in any state: true, and
  // only the descriptor was given back.
  bool leave_in_child();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Tickets& tickets() { return shared_->tickets; }
  quire_connector_info info() const;
  quire_connector_health health();

 private:
  explicit Instance(std::shared_ptr<Shared> shared);
  Outcome start();

  const std::shared_ptr<Shared> shared_;
  const pid_t owner_;
  std::vector<std::thread> workers_;
  std::thread watch_;
};

}  // namespace quire::mooncake
