// An opened ucx connector: its tickets, and the thread that works on them.
#pragma once

#include <quire/connector.h>

#include <sys/types.h>

#include <memory>
#include <thread>

#include "plugins/ucx/ucx_worker.h"

namespace quire::ucx {

class Instance {
 public:
  // Errors: RESOURCE_EXHAUSTED, UNAVAILABLE (no transport, the address is in use), INTERNAL.
  static Outcome open(const quire_host_api& host, Config config, std::unique_ptr<Instance>* out);
  ~Instance();
  // In a child of fork() the thread is not there, and what it uses is in any state: true, and only
  // the descriptors were given back.
  bool leave_in_child();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Tickets& tickets() { return tickets_; }
  quire_connector_info info() const;
  quire_connector_health health() const;

 private:
  Instance(const quire_host_api& host, Config config);
  Outcome start();
  Outcome say_port() const;

  const quire_host_api host_;
  const Config config_;
  const Log log_;
  const pid_t owner_;
  Tickets tickets_;
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
};

}  // namespace quire::ucx
