// An opened host connector: its store, its tickets and its worker threads.
#pragma once

#include <quire/connector.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "plugins/host/host_pieces.h"
#include "plugins/host/host_store.h"
#include "plugins/host/host_tickets.h"
#include "plugins/host/host_worker.h"
#include "plugins/host/region.h"

namespace quire::host {

struct InstanceOptions {
  RegionOptions region;
  uint32_t threads = 1;
};

// The sentence that says what is wrong with the settings; empty = nothing.
std::string read_options(std::string_view config, InstanceOptions* options);

class Instance {
 public:
  static Outcome open(const quire_host_api& host, const InstanceOptions& options,  //
                      std::unique_ptr<Instance>* out);
  // In a child of fork() it gives back the child's copies and nothing else.
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Tickets& tickets() { return tickets_; }
  quire_connector_info info() const;
  quire_connector_health health() const;
  // Tickets, runs and keys are those that the library has checked. *accepted: as in
  // quire_connector_api.
  Outcome submit(std::span<const quire_ticket> tickets, RunSpan runs,  //
                 std::span<const uint8_t> keys, uint64_t* accepted);
  Outcome list(uint64_t* cursor, std::span<quire_object_entry> items, uint64_t* count,  //
               std::span<uint8_t> keys);

 private:
  Instance(const quire_host_api& host, const InstanceOptions& options);
  Outcome start_workers();
  uint64_t capacity() const { return store_.num_chunks() * store_.chunk_bytes(); }

  const quire_host_api host_;
  const InstanceOptions options_;
  const pid_t owner_;
  Region region_;
  Store store_;
  Tickets tickets_;
  Condition condition_;
  uint64_t evicted_before_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace quire::host
