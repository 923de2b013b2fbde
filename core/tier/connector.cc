#include "core/tier/connector.h"

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

Result<uint64_t> Connector::submit(const TicketBatch& batch) {
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
  return accepted;
}

Result<uint64_t> Connector::poll(int64_t timeout_ns, std::span<quire_completion> items) {
  quire_error error = empty_error();
  uint64_t count = 0;
  const quire_code code = module_.connector.poll(instance_, timeout_ns, items.data(), items.size(), &count, &error);
  if (code != QUIRE_OK) return status(code, error);
  if (count > items.size()) {
    return fail(QUIRE_UNKNOWN, "connector %s gave %llu completions for %zu places", module_.name.c_str(),
                static_cast<unsigned long long>(count), items.size());
  }
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (in_flight_.erase(items[i].ticket) != 0) {
      items[kept++] = items[i];
    } else {
      ++strays_;
    }
  }
  return kept;
}

Status Connector::cancel(uint64_t ticket) {
  quire_error error = empty_error();
  return status(module_.connector.cancel(instance_, ticket, &error), error);
}

}  // namespace quire
