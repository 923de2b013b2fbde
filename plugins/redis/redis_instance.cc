#include "plugins/redis/redis_instance.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "plugins/common/signals.h"

namespace quire::redis {
Instance::Instance(const quire_host_api& host, Config config)
    : host_(host), config_(std::move(config)), log_(&host_), owner_(getpid()), tickets_(config_), listing_(config_) {}

Outcome Instance::open(const quire_host_api& host, Config config, std::unique_ptr<Instance>* out) {
  std::unique_ptr<Instance> instance(new Instance(host, std::move(config)));
  if (Outcome outcome = instance->tickets_.open(); !outcome.ok()) return outcome;
  if (Outcome outcome = instance->start(); !outcome.ok()) return outcome;
  if (Outcome outcome = instance->await_servers(); !outcome.ok()) return outcome;
  *out = std::move(instance);
  return {};
}

Outcome Instance::start() {
  for (uint32_t i = 0; i < config_.servers.size(); ++i) {
    servers_.push_back(std::make_unique<Server>(config_, i, &tickets_, &log_));
    for (uint32_t k = 0; k < config_.connections; ++k) {
      connections_.push_back(std::make_unique<Connection>(config_, servers_.back().get(), &tickets_, &condition_, &log_));
      if (Outcome outcome = connections_.back()->open(); !outcome.ok()) return outcome;
    }
  }
  threads_.reserve(connections_.size());
  // Signals are for the threads of the host; and hiredis writes where the kernel may answer with SIGPIPE.
  const plugins::NoSignals quiet;
  for (const auto& connection : connections_) {
    try {
      threads_.emplace_back([own = connection.get()] { own->run(); });
    } catch (const std::system_error& error) {
      return {QUIRE_RESOURCE_EXHAUSTED, error.code().value(),
              "thread " + std::to_string(threads_.size()) + " of " + std::to_string(connections_.size()) +
                  " could not be started; see config field connections: " + error.what()};
    }
  }
  return {};
}

Outcome Instance::await_servers() {
  Outcome lost;
  size_t num_lost = 0;
  for (const auto& server : servers_) {
    Outcome outcome = server->await_first();
    if (outcome.ok()) continue;
    outcome.text = "server " + server->address().text + ": " + outcome.text;
    if (outcome.code == QUIRE_PERMISSION_DENIED) return outcome;
    if (num_lost++ == 0) lost = std::move(outcome);
  }
  return num_lost == servers_.size() ? lost : Outcome();
}

Instance::~Instance() {
  tickets_.close();
  for (std::thread& thread : threads_) thread.join();
}

bool Instance::leave_in_child() {
  if (getpid() == owner_) return false;
  for (const auto& connection : connections_) connection->leave();
  ::close(tickets_.fd());
  return true;
}

quire_connector_info Instance::info() {
  quire_connector_info info = {};
  // Not every byte passes through memory of the connector; but its threads alone move them, and stop at once.
  info.flags = QUIRE_CONNECTOR_PERSISTENT | QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_RANGES | QUIRE_CONNECTOR_STAGES;
  info.max_in_flight = kMaxTickets;
  info.max_key_bytes = kMaxKeyBytes;
  info.device_types = uint64_t{1} << QUIRE_DEVICE_CPU;
  info.max_object_bytes = kMostObjectBytes;
  info.best_object_bytes = kScratchBytes;
  return info;
}

quire_connector_health Instance::health() {
  quire_connector_health health = {};
  const int64_t now = log_.now();
  const auto is_now = [&](const std::atomic<int64_t>& until) { return until.load(std::memory_order_relaxed) > now; };
  const bool any_up = std::any_of(servers_.begin(), servers_.end(), [](const auto& server) { return server->is_up(); });
  health.state = !any_up                              ? QUIRE_CONNECTOR_DOWN
                 : is_now(condition_.read_only_until) ? QUIRE_CONNECTOR_READ_ONLY
                 : is_now(condition_.full_until)      ? QUIRE_CONNECTOR_FULL
                                                      : QUIRE_CONNECTOR_UP;
  return health;
}

}  // namespace quire::redis
