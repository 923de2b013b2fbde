// The host side of a connector: one loaded, opened instance that takes tickets and gives
// completions back. It keeps the runtime. It believes the connector nothing: each ticket ends once,
// whatever is completed.
//
// All calls are for any thread. One thread at a time polls, and one lists.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "core/base/status.h"
#include "core/connector/region_table.h"
#include "core/connector/ticket_checks.h"
#include "core/connector/ticket_counts.h"
#include "core/connector/ticket_table.h"
#include "core/modules/module_search.h"

namespace quire {

class Connector {
 public:
  // Tickets in flight where the connector names no limit of its own, and the most where it does.
  static constexpr uint32_t kTicketsWithoutLimit = 16384;
  static constexpr uint32_t kMostTickets = 65536;

  // name or absolute path of the module; config is the connector's own JSON text. Errors: those of
  // loading, and the connector's.
  static Result<std::unique_ptr<Connector>> open(std::shared_ptr<Runtime> runtime,  // kept
                                                 const std::string& name, std::string_view config);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  const quire_connector_info& info() const { return info_; }
  const std::string& name() const { return module_.name; }
  // struct_size is not written.
  quire_connector_stats stats() const;
  // Errors: UNIMPLEMENTED, and the connector's; UNKNOWN (a state that nobody knows).
  Status read_health(quire_connector_health* health);
  Result<int32_t> descriptor();

  // *accepted: how many tickets, from the first on, are in flight from now on, also after an error.
  // Tickets for which the table has no room are not looked at. After INVALID_ARGUMENT and
  // OUT_OF_RANGE of the host nothing was submitted. Allocates only the text of an error.
  Status submit(const TicketBatch& batch, uint64_t* accepted);
  // Writes completions to `items` and their number to *count, waiting up to timeout_ns (-1: for
  // ever) for the first. A completion of a ticket that is not in flight is dropped and counted.
  // Errors: FAILED_PRECONDITION (for ever, with nothing in flight; another thread polls), UNKNOWN.
  Status poll(int64_t timeout_ns, std::span<quire_completion> items, uint64_t* count);
  // The completion still comes, also where the connector says that the ticket has ended already.
  // Errors: NOT_FOUND (over or unknown), UNIMPLEMENTED, and the connector's.
  Status cancel(uint64_t ticket);
  // What the connector has from *cursor on. Nothing is written after an error but to the arrays.
  // Errors: INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED; UNKNOWN (a listing that cannot be).
  Status list(uint64_t* cursor,  // 0: from the first object on
              std::span<quire_object_entry> items, std::span<uint8_t> keys, uint64_t* count);
  // Of the bytes from `address` on.
  Result<uint64_t> register_region(void* address, uint64_t bytes, int32_t device_type, int32_t id);
  Status unregister_region(uint64_t region);

 private:
  class Submission;
  friend class Submission;

  Connector(std::shared_ptr<Runtime> runtime, Module module);
  const quire_connector_api& api() const { return module_.connector; }
  int64_t now() const { return Runtime::host_now(runtime_.get()); }
  bool is_under_way(uint64_t submission) const;
  uint64_t settle(std::span<quire_completion> given);
  Status status(quire_code code, const quire_error& error) const;

  std::shared_ptr<Runtime> runtime_;
  Module module_;
  quire_connector_instance* instance_ = nullptr;
  quire_connector_info info_{};
  std::atomic<bool> polling_{false};

  mutable std::mutex lock_;  // of all below; not held while the connector is called
  TicketTable tickets_;
  RegionTable regions_;
  TicketCounts counts_;
  Submission* submissions_ = nullptr;  // the calls of submit that are under way
  uint64_t num_submissions_ = 0;       // ever
  std::condition_variable submission_ended_;
};

}  // namespace quire
