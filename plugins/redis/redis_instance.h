// An opened redis connector: its tickets, its servers, and the connections to them with a thread
// each.
#pragma once

#include <quire/connector.h>

#include <sys/types.h>

#include <memory>
#include <thread>
#include <vector>

#include "plugins/redis/connection.h"
#include "plugins/redis/listing.h"
#include "plugins/redis/redis_shard_server.h"
#include "plugins/redis/redis_tickets.h"

namespace quire::redis {

inline constexpr uint64_t kMaxKeyBytes = 512;

class Instance {
 public:
  // Waits for the first try of every server. Errors: RESOURCE_EXHAUSTED; PERMISSION_DENIED (a
  // server refuses user and password); UNAVAILABLE (none of the servers answers).
  static Outcome open(const quire_host_api& host, Config config, std::unique_ptr<Instance>* out);
  ~Instance();
  // In a child of fork() the threads are not there, and what they use is in any state: true, and
  // only the descriptors were given back.
  bool leave_in_child();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Tickets& tickets() { return tickets_; }
  Listing& listing() { return listing_; }
  static quire_connector_info info();
  quire_connector_health health();

 private:
  Instance(const quire_host_api& host, Config config);
  Outcome start();
  Outcome await_servers();

  const quire_host_api host_;
  const Config config_;
  const Log log_;
  const pid_t owner_;
  Tickets tickets_;
  Condition condition_;
  Listing listing_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::thread> threads_;
};

}  // namespace quire::redis
