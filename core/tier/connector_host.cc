#include "core/tier/connector_host.h"

#include <cinttypes>

#include "core/base/checked.h"

namespace quire {
namespace {

quire_error empty_error() {
  quire_error error{};
  error.struct_size = sizeof error;
  return error;
}

}  // namespace

Result<std::unique_ptr<Connector>> Connector::open(std::shared_ptr<Runtime> runtime, const std::string& name, std::string_view config) {
  auto module = runtime->connector(name);
  if (!module.ok()) return module.take_status();
  std::unique_ptr<Connector> connector(new Connector(std::move(runtime), std::move(*module)));
  quire_connector_options options{};
  options.struct_size = sizeof options;
  options.host = connector->runtime_->host();
  options.config = {config.data(), config.size()};
  quire_error error = empty_error();
  quire_code code = connector->module_.connector.open(&options, &connector->instance_, &error);
  if (code != QUIRE_OK) {
    connector->instance_ = nullptr;
    return connector->status(code, error);
  }
  connector->info_.struct_size = sizeof connector->info_;
  code = connector->module_.connector.info(connector->instance_, &connector->info_, &error);
  if (code != QUIRE_OK) return connector->status(code, error);
  return connector;
}

Connector::~Connector() {
  if (instance_ != nullptr) module_.connector.close(instance_);
}

// Tickets [first, end) were not started.
void Connector::forget(const TicketBatch& batch, uint64_t first, uint64_t end) {
  for (uint64_t i = first; i < end; ++i) in_flight_.erase(batch.tickets[i].ticket);
}

Status Connector::check(const TicketBatch& batch, size_t i) const {
  const quire_ticket& t = batch.tickets[i];
  if (t.kind < QUIRE_TICKET_STORE || t.kind > QUIRE_TICKET_REMOVE) {
    return invalid("tickets[%zu].kind is %d, the legal ones are QUIRE_TICKET_STORE (1) to _REMOVE (4)", i, t.kind);
  }
  if (t.first_run > batch.runs.size() || t.num_runs > batch.runs.size() - t.first_run) {
    return fail(QUIRE_OUT_OF_RANGE, "tickets[%zu]: %u runs from run %" PRIu64 " on, num_runs is %zu", i, t.num_runs, t.first_run,
                batch.runs.size());
  }
  if (t.key_offset > batch.keys.size() || t.key_bytes > batch.keys.size() - t.key_offset) {
    return fail(QUIRE_OUT_OF_RANGE, "tickets[%zu]: a key of %" PRIu64 " bytes from byte %" PRIu64 " on, num_key_bytes is %zu", i,
                t.key_bytes, t.key_offset, batch.keys.size());
  }
  if (info_.max_key_bytes != 0 && t.key_bytes > info_.max_key_bytes) {
    return fail(QUIRE_OUT_OF_RANGE, "tickets[%zu].key_bytes is %" PRIu64 ", connector %s takes %" PRIu64, i, t.key_bytes,
                module_.name.c_str(), info_.max_key_bytes);
  }
  if (t.deadline_ns < -1) return invalid("tickets[%zu].deadline_ns is %" PRId64 ", -1 is none", i, t.deadline_ns);
  uint64_t total = 0;
  for (uint64_t r = t.first_run; r < t.first_run + t.num_runs; ++r) {
    const quire_ticket_run& run = batch.runs[r];
    const auto sum = checked_add(total, run.bytes);
    if (!sum || !checked_add(run.address, run.bytes)) {
      return fail(QUIRE_OUT_OF_RANGE, "runs[%" PRIu64 "]: %" PRIu64 " bytes at 0x%" PRIx64 " reach beyond 63 bits", r, run.bytes,
                  run.address);
    }
    if ((info_.flags & QUIRE_CONNECTOR_REGISTERS) != 0 && run.region == 0) {
      return invalid("runs[%" PRIu64 "].region is 0, connector %s wants registered bytes", r, module_.name.c_str());
    }
    total = *sum;
  }
  return {};
}

Result<uint64_t> Connector::submit(const TicketBatch& batch) {
  for (size_t i = 0; i < batch.tickets.size(); ++i) QUIRE_RETURN_IF_ERROR(check(batch, i));
  // Known before the connector hears of them: it may complete a ticket at once, on a thread of its own.
  for (size_t i = 0; i < batch.tickets.size(); ++i) {
    if (in_flight_.insert(batch.tickets[i].ticket).second) continue;
    forget(batch, 0, i);
    return invalid("tickets[%zu].ticket %llu is in flight already", i, static_cast<unsigned long long>(batch.tickets[i].ticket));
  }
  quire_error error = empty_error();
  uint64_t accepted = 0;
  const quire_code code = module_.connector.submit(instance_, batch.tickets.data(), batch.tickets.size(), batch.runs.data(),
                                                   batch.runs.size(), batch.keys.data(), batch.keys.size(), &accepted, &error);
  forget(batch, code == QUIRE_OK ? accepted : 0, batch.tickets.size());
  if (code != QUIRE_OK) return status(code, error);
  if (accepted > batch.tickets.size()) {
    return fail(QUIRE_UNKNOWN, "connector %s accepted %llu of %zu tickets", module_.name.c_str(), static_cast<unsigned long long>(accepted),
                batch.tickets.size());
  }
  stats_.num_submitted += accepted;
  return accepted;
}

void Connector::count(const quire_completion& end) {
  uint64_t* const kind = end.code == QUIRE_OK          ? &stats_.num_done
                         : end.code == QUIRE_NOT_FOUND ? &stats_.num_missing
                         : end.code == QUIRE_CANCELLED ? &stats_.num_cancelled
                                                       : &stats_.num_failed;
  ++*kind;
  stats_.num_bytes += end.bytes;
}

Result<uint64_t> Connector::poll(int64_t timeout_ns, std::span<quire_completion> items) {
  if (timeout_ns == -1 && in_flight_.empty()) {
    return fail(QUIRE_FAILED_PRECONDITION, "timeout_ns is -1 (for ever) and no ticket is in flight: nothing would end the wait");
  }
  quire_error error = empty_error();
  uint64_t given = 0;
  const quire_code code = module_.connector.poll(instance_, timeout_ns, items.data(), items.size(), &given, &error);
  if (code != QUIRE_OK) return status(code, error);
  if (given > items.size()) {
    return fail(QUIRE_UNKNOWN, "connector %s gave %llu completions for %zu places", module_.name.c_str(),
                static_cast<unsigned long long>(given), items.size());
  }
  uint64_t kept = 0;
  for (uint64_t i = 0; i < given; ++i) {
    if (in_flight_.erase(items[i].ticket) != 0) {
      count(items[i]);
      items[kept++] = items[i];
    } else {
      ++stats_.num_strays;
    }
  }
  return kept;
}

Status Connector::cancel(uint64_t ticket) {
  quire_error error = empty_error();
  if (in_flight_.count(ticket) == 0) return fail(QUIRE_NOT_FOUND, "ticket %" PRIu64 " is not in flight", ticket);
  return status(module_.connector.cancel(instance_, ticket, &error), error);
}

quire_connector_stats Connector::stats() const {
  quire_connector_stats now = stats_;
  now.num_in_flight = in_flight_.size();
  return now;
}

Result<uint64_t> Connector::register_region(void* address, uint64_t bytes, int32_t device_type, int32_t device_id) {
  if (!checked_add(reinterpret_cast<uintptr_t>(address), bytes)) {
    return fail(QUIRE_OUT_OF_RANGE, "%" PRIu64 " bytes from %p on reach beyond 63 bits", bytes, address);
  }
  quire_error error = empty_error();
  uint64_t region = 0;
  const quire_code code = module_.connector.region_register(instance_, address, bytes, device_type, device_id, &region, &error);
  if (code != QUIRE_OK) return status(code, error);
  if (region == 0) return fail(QUIRE_UNKNOWN, "connector %s registered bytes as region 0, which means none", module_.name.c_str());
  return region;
}

Status Connector::unregister_region(uint64_t region) {
  quire_error error = empty_error();
  return status(module_.connector.region_unregister(instance_, region, &error), error);
}

}  // namespace quire
