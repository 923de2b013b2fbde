// The host side of a connector: one loaded, opened instance that takes tickets and gives completions back. Children keep the runtime.
#pragma once

#include <quire/connector.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_set>

#include "core/base/status.h"
#include "core/boundary/runtime.h"

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
  // How many of the tickets, from the first on, were accepted; poll and submit the rest later.
  Result<uint64_t> submit(const TicketBatch& batch);
  // Completions into `items`, waiting up to timeout_ns for the first. A completion of a ticket that is not in flight (told twice, or never
  // submitted) is dropped and counted: every ticket ends exactly once. Serialized with submit.
  Result<uint64_t> poll(int64_t timeout_ns, std::span<quire_completion> items);
  uint64_t strays() const { return strays_; }
  uint64_t in_flight() const { return in_flight_.size(); }
  // The completion still comes. Errors: NOT_FOUND (over or unknown).
  Status cancel(uint64_t ticket);

 private:
  Connector(std::shared_ptr<Runtime> runtime, Module module) : runtime_(std::move(runtime)), module_(std::move(module)) {}
  void forget(const TicketBatch& batch, uint64_t first, uint64_t end);
  Status status(quire_code code, const quire_error& error) const {
    return module_status(code, error, ModuleKind::kConnector, module_.name);
  }

  std::shared_ptr<Runtime> runtime_;
  Module module_;
  quire_connector_instance* instance_ = nullptr;
  quire_connector_info info_{};
  std::unordered_set<uint64_t> in_flight_;
  uint64_t strays_ = 0;
};

}  // namespace quire
