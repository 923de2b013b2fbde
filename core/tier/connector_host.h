// The host side of a connector: one loaded, opened instance that takes tickets and gives completions back. Children keep the runtime.
#pragma once

#include <quire/connector.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_set>

#include "core/base/status.h"
#include "core/modules/module_search.h"

namespace quire {

// The arrays of a submission: tickets index runs and keys.
struct TicketBatch {
  std::span<const quire_ticket> tickets;
  std::span<const quire_ticket_run> runs;
  std::span<const uint8_t> keys;
};

class Connector {
 public:
  // name or absolute path of the module; config is the connector's own JSON text. Errors: those of loading, and the connector's.
  static Result<std::unique_ptr<Connector>> open(std::shared_ptr<Runtime> runtime, const std::string& name, std::string_view config);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  const quire_connector_info& info() const { return info_; }
  const std::string& name() const { return module_.name; }
  // How many of the tickets, from the first on, were accepted; poll and submit the rest later. What a connector may rely on is checked
  // here: kinds, runs and keys inside their arrays, numbers that are in flight once, regions where it wants them.
  Result<uint64_t> submit(const TicketBatch& batch);
  // Completions into `items`, waiting up to timeout_ns (-1: for ever) for the first. A completion of a ticket that is not in flight (told
  // twice, or never submitted) is dropped and counted: every ticket ends exactly once. Serialized with submit.
  // Errors: FAILED_PRECONDITION (for ever, with nothing in flight).
  Result<uint64_t> poll(int64_t timeout_ns, std::span<quire_completion> items);
  // struct_size is not written.
  quire_connector_stats stats() const;
  // The completion still comes. Errors: NOT_FOUND (over or unknown).
  Status cancel(uint64_t ticket);
  Result<uint64_t> register_region(void* address, uint64_t bytes, int32_t device_type, int32_t device_id);
  Status unregister_region(uint64_t region);

 private:
  Connector(std::shared_ptr<Runtime> runtime, Module module) : runtime_(std::move(runtime)), module_(std::move(module)) {}
  Status check(const TicketBatch& batch, size_t i) const;
  void forget(const TicketBatch& batch, uint64_t first, uint64_t end);
  void count(const quire_completion& end);
  Status status(quire_code code, const quire_error& error) const {
    return module_status(code, error, ModuleKind::kConnector, module_.name);
  }

  std::shared_ptr<Runtime> runtime_;
  Module module_;
  quire_connector_instance* instance_ = nullptr;
  quire_connector_info info_{};
  std::unordered_set<uint64_t> in_flight_;
  quire_connector_stats stats_{};  // all but num_in_flight
};

}  // namespace quire
