#include "plugins/ucx/ucx_instance.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "plugins/common/signals.h"

namespace quire::ucx {

Instance::Instance(const quire_host_api& host, Config config) : host_(host), config_(std::move(config)), log_(&host_), owner_(getpid()) {}

Outcome Instance::open(const quire_host_api& host, Config config, std::unique_ptr<Instance>* out) {
  std::unique_ptr<Instance> instance(new Instance(host, std::move(config)));
  if (Outcome outcome = instance->tickets_.open(); !outcome.ok()) return outcome;
  if (Outcome outcome = instance->start(); !outcome.ok()) return outcome;
  *out = std::move(instance);
  return {};
}

Outcome Instance::start() {
  const plugins::NoSignals quiet;  // also for UCX's own thread
  worker_ = std::make_unique<Worker>(config_, &tickets_, &log_);
  if (Outcome outcome = worker_->open(); !outcome.ok()) return outcome;
  if (Outcome outcome = say_port(); !outcome.ok()) return outcome;
  try {
    thread_ = std::thread([this] { worker_->run(); });
  } catch (const std::system_error& error) {
    return {QUIRE_RESOURCE_EXHAUSTED, error.code().value(), std::string("the thread could not be started: ") + error.what()};
  }
  return {};
}

// The file is whole or not there.
Outcome Instance::say_port() const {
  if (!config_.listen) return {};
  const std::string& listen = config_.listen->text;
  const std::string address = listen.substr(0, listen.rfind(':') + 1) + std::to_string(worker_->port());
  log_.say(QUIRE_LOG_INFO, {"listens at ", address});
  if (config_.port_file.empty()) return {};
  const std::string next = config_.port_file + ".new";
  std::ofstream file(next, std::ios::trunc);
  file << address << '\n';
  file.close();
  if (!file || std::rename(next.c_str(), config_.port_file.c_str()) != 0) {
    return {QUIRE_INVALID_ARGUMENT, errno, "config field port_file: " + config_.port_file + " cannot be written"};
  }
  return {};
}

Instance::~Instance() {
  tickets_.close();
  if (thread_.joinable()) thread_.join();
}

bool Instance::leave_in_child() {
  if (getpid() == owner_) return false;
  ::close(tickets_.fd());
  ::close(tickets_.wake_fd());
  worker_->leave_in_child();
  return true;
}

quire_connector_info Instance::info() const {
  quire_connector_info info = {};
  info.flags = QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_RANGES;
  info.max_in_flight = kMaxTickets;
  info.max_key_bytes = kMostKey;
  info.device_types = uint64_t{1} << QUIRE_DEVICE_CPU;
  info.best_object_bytes = uint64_t{1} << 20;
  return info;
}

quire_connector_health Instance::health() const {
  quire_connector_health health = {};
  const Figures& figures = worker_->figures();
  health.state = figures.is_down.load(std::memory_order_relaxed)   ? QUIRE_CONNECTOR_DOWN
                 : figures.is_full.load(std::memory_order_relaxed) ? QUIRE_CONNECTOR_FULL
                                                                   : QUIRE_CONNECTOR_UP;
  health.capacity_bytes = config_.copies_bytes;
  health.used_bytes = figures.used_bytes.load(std::memory_order_relaxed);
  health.num_objects = figures.num_objects.load(std::memory_order_relaxed);
  health.num_evicted = figures.num_evicted.load(std::memory_order_relaxed);
  return health;
}

}  // namespace quire::ucx
