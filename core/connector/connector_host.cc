#include "core/connector/connector_host.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>

#include "core/base/checked.h"

namespace quire {
namespace {

quire_error empty_error() {
  quire_error error;
  error.struct_size = sizeof error;
  error.code = QUIRE_OK;
  error.native_code = error.native_domain = 0;
  error.source[0] = error.message[0] = '\0';
  return error;
}

// A poll's own time: connectors wait by the clock of the machine, whatever the runtime's says.
class Timeout {
 public:
  explicit Timeout(int64_t timeout_ns) : timeout_ns_(timeout_ns) {
    if (timeout_ns > 0) begin_ = std::chrono::steady_clock::now();
  }
  // What is left; 0 = nothing, -1 = for ever.
  int64_t left() const {
    if (timeout_ns_ <= 0) return timeout_ns_;
    const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - begin_;
    return std::max<int64_t>(timeout_ns_ - passed.count(), 0);
  }

 private:
  int64_t timeout_ns_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

Connector::Connector(std::shared_ptr<Runtime> runtime, Module module) : runtime_(std::move(runtime)), module_(std::move(module)) {}

Status Connector::status(quire_code code, const quire_error& error) const {
  return module_status(code, error, ModuleKind::kConnector, module_.name);
}

Result<std::unique_ptr<Connector>> Connector::open(std::shared_ptr<Runtime> runtime, const std::string& name, std::string_view config) {
  auto module = runtime->connector(name);
  if (!module.ok()) return module.take_status();
  std::unique_ptr<Connector> connector(new Connector(std::move(runtime), std::move(*module)));
  quire_connector_options options{};
  options.struct_size = sizeof options;
  options.host = connector->runtime_->host();
  options.config = {config.data(), config.size()};
  quire_error error = empty_error();
  quire_code code = connector->api().open(&options, &connector->instance_, &error);
  if (code != QUIRE_OK) {
    connector->instance_ = nullptr;
    return connector->status(code, error);
  }
  if (connector->instance_ == nullptr) return fail(QUIRE_UNKNOWN, "connector %s: open answered OK and NULL", name.c_str());
  quire_connector_info& info = connector->info_;
  info.struct_size = sizeof info;
  code = connector->api().info(connector->instance_, &info, &error);
  if (code != QUIRE_OK) return connector->status(code, error);
  connector->tickets_ = TicketTable(info.max_in_flight == 0 ? kTicketsWithoutLimit : std::min(info.max_in_flight, kMostTickets));
  return connector;
}

Connector::~Connector() {
  if (instance_ != nullptr) api().close(instance_);
}

quire_connector_stats Connector::stats() const {
  const std::lock_guard<std::mutex> hold(lock_);
  quire_connector_stats now = counts_.read();
  now.num_regions = regions_.count();
  return now;
}

Status Connector::read_health(quire_connector_health* health) {
  quire_connector_health own{};
  own.struct_size = sizeof own;
  quire_error error = empty_error();
  const quire_code code = api().health(instance_, &own, &error);
  if (code != QUIRE_OK) return status(code, error);
  if (own.state < QUIRE_CONNECTOR_UP || own.state > QUIRE_CONNECTOR_DOWN) {
    return fail(QUIRE_UNKNOWN, "connector %s gave its state as %d, the known ones are QUIRE_CONNECTOR_UP (0) to _DOWN (3)", name().c_str(),
                own.state);
  }
  *health = own;
  return {};
}

Result<int32_t> Connector::descriptor() {
  quire_error error = empty_error();
  int32_t fd = -1;
  const quire_code code = api().get_fd(instance_, &fd, &error);
  if (code != QUIRE_OK) return status(code, error);
  if (fd < 0) return fail(QUIRE_UNKNOWN, "connector %s gave the file descriptor %d", name().c_str(), fd);
  return fd;
}

// Tickets ------------------------------------------------------------------------------------------------------------------------------

// The tickets of one call of submit, from before the connector hears of them: it may complete one at once, on a thread of its own. What it
// did not accept is taken back at the end.
class Connector::Submission {
 public:
  Submission(Connector& connector, const TicketBatch& batch) : connector_(connector), batch_(batch), now_(connector.now()) {
    const std::lock_guard<std::mutex> hold(connector_.lock_);
    number_ = ++connector_.num_submissions_;
    next_ = connector_.submissions_;
    connector_.submissions_ = this;
  }
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  ~Submission() {
    const std::lock_guard<std::mutex> hold(connector_.lock_);
    for (uint64_t i = accepted_; i < entered_; ++i) {
      TicketEntry* const entry = connector_.tickets_.find(batch_.tickets[i].ticket);
      connector_.regions_.give_back(entry->regions);
      connector_.counts_.end_bytes(entry->bytes);
      connector_.tickets_.erase(entry);
    }
    connector_.counts_.submitted(accepted_);
    Submission** at = &connector_.submissions_;
    while (*at != this) at = &(*at)->next_;
    *at = next_;
    connector_.submission_ended_.notify_all();
  }

  // Checks and enters as many tickets as there is room for.
  Status enter() {
    const std::lock_guard<std::mutex> hold(connector_.lock_);
    const uint64_t n = std::min<uint64_t>(batch_.tickets.size(), connector_.tickets_.room());
    const TicketRules rules{connector_.info_, connector_.module_.name, connector_.regions_};
    for (; entered_ < n; ++entered_) {
      const quire_ticket& t = batch_.tickets[entered_];
      TicketUse use;
      QUIRE_RETURN_IF_ERROR(check_ticket(batch_, entered_, rules, &use));
      if (!connector_.tickets_.insert({t.ticket, number_, use.bytes, use.regions, now_, t.num_keys, t.kind})) {
        return invalid("tickets[%" PRIu64 "].ticket %" PRIu64 " is in flight already", entered_, t.ticket);
      }
      connector_.regions_.use(use.regions);
      connector_.counts_.begin_bytes(use.bytes);
    }
    return {};
  }

  uint64_t entered() const { return entered_; }
  // The connector took so many, from the first on.
  void accept(uint64_t n) { accepted_ = n; }
  uint64_t number() const { return number_; }
  const Submission* next() const { return next_; }

 private:
  Connector& connector_;
  const TicketBatch& batch_;
  int64_t now_;
  uint64_t number_ = 0;
  uint64_t entered_ = 0;
  uint64_t accepted_ = 0;
  Submission* next_ = nullptr;
};

bool Connector::is_under_way(uint64_t submission) const {
  for (const Submission* each = submissions_; each != nullptr; each = each->next()) {
    if (each->number() == submission) return true;
  }
  return false;
}

Status Connector::submit(const TicketBatch& batch, uint64_t* accepted) {
  *accepted = 0;
  Submission own(*this, batch);
  QUIRE_RETURN_IF_ERROR(own.enter());
  if (own.entered() == 0) return {};
  quire_error error = empty_error();
  uint64_t taken = 0;
  const quire_code code = api().submit(instance_, batch.tickets.data(), own.entered(), batch.runs.data(), batch.runs.size(),
                                       batch.keys.data(), batch.keys.size(), &taken, &error);
  // Whatever it says, it touches the bytes of no other tickets: it saw no others.
  *accepted = std::min(taken, own.entered());
  own.accept(*accepted);
  if (code != QUIRE_OK) return status(code, error);
  if (taken > own.entered()) {
    return fail(QUIRE_UNKNOWN, "connector %s accepted %" PRIu64 " of %" PRIu64 " tickets", name().c_str(), taken, own.entered());
  }
  return {};
}

// Keeps the completions of tickets that are in flight, and returns how many they are.
uint64_t Connector::settle(std::span<quire_completion> given) {
  const int64_t time = now();
  uint64_t kept = 0;
  std::unique_lock<std::mutex> hold(lock_);
  for (const quire_completion& each : given) {
    TicketEntry* entry = tickets_.find(each.ticket);
    // Not known yet whether the connector accepted it: submit never blocks.
    while (entry != nullptr && is_under_way(entry->submission)) {
      submission_ended_.wait(hold);
      entry = tickets_.find(each.ticket);
    }
    if (entry == nullptr) {
      counts_.stray();
      continue;
    }
    quire_completion& end = given[kept++] = each;
    correct_completion(*entry, &end);
    counts_.ended(*entry, end, time - entry->submitted_ns);
    regions_.give_back(entry->regions);
    tickets_.erase(entry);
  }
  return kept;
}

Status Connector::poll(int64_t timeout_ns, std::span<quire_completion> items, uint64_t* count) {
  if (polling_.exchange(true, std::memory_order_acquire)) {
    return fail(QUIRE_FAILED_PRECONDITION, "another thread polls connector %s: one at a time does", name().c_str());
  }
  struct Polling {
    std::atomic<bool>& flag;
    ~Polling() { flag.store(false, std::memory_order_release); }
  } const polling{polling_};
  if (timeout_ns == -1) {
    const std::lock_guard<std::mutex> hold(lock_);
    if (tickets_.size() == 0) {
      return fail(QUIRE_FAILED_PRECONDITION, "timeout_ns is -1 (for ever) and no ticket is in flight: nothing would end the wait");
    }
  }
  if (items.empty()) {
    *count = 0;
    return {};
  }
  const Timeout timeout(timeout_ns);
  // Again only after completions of which none could be believed.
  for (int64_t left = timeout_ns;; left = timeout.left()) {
    quire_error error = empty_error();
    uint64_t given = 0;
    const quire_code code = api().poll(instance_, left, items.data(), items.size(), &given, &error);
    if (code != QUIRE_OK) return status(code, error);
    if (given > items.size()) {
      return fail(QUIRE_UNKNOWN, "connector %s gave %" PRIu64 " completions for %zu places", name().c_str(), given, items.size());
    }
    const uint64_t kept = given != 0 ? settle(items.first(given)) : 0;
    if (kept == 0 && given != 0 && left != 0) continue;
    *count = kept;
    return {};
  }
}

Status Connector::cancel(uint64_t ticket) {
  {
    const std::lock_guard<std::mutex> hold(lock_);
    if (tickets_.find(ticket) == nullptr) return fail(QUIRE_NOT_FOUND, "ticket %" PRIu64 " is not in flight", ticket);
  }
  quire_error error = empty_error();
  const quire_code code = api().cancel(instance_, ticket, &error);
  if (code == QUIRE_NOT_FOUND) return {};  // it has ended and waits to be polled
  return status(code, error);
}

// Objects and regions ------------------------------------------------------------------------------------------------------------------

Status Connector::list(uint64_t* cursor, std::span<quire_object_entry> items, std::span<uint8_t> keys, uint64_t* count) {
  if (items.empty()) return invalid("capacity is 0: a listing would never end");
  quire_error error = empty_error();
  uint64_t next = *cursor;
  uint64_t given = 0;
  const quire_code code = api().list(instance_, &next, items.data(), items.size(), &given, keys.data(), keys.size(), &error);
  if (code != QUIRE_OK) return status(code, error);
  const char* const own = name().c_str();
  if (given > items.size()) return fail(QUIRE_UNKNOWN, "connector %s listed %" PRIu64 " objects in %zu places", own, given, items.size());
  if (given == 0 && next != 0) return fail(QUIRE_UNKNOWN, "connector %s listed nothing and wants to go on at %" PRIu64, own, next);
  for (uint64_t i = 0; i < given; ++i) {
    const quire_object_entry& item = items[i];
    if (item.key_bytes == 0 || item.key_offset > keys.size() || item.key_bytes > keys.size() - item.key_offset || item.reserved0 != 0) {
      return fail(QUIRE_UNKNOWN, "connector %s listed object %" PRIu64 " with a key of %" PRIu64 " bytes from byte %" PRIu64 " on, of %zu",
                  own, i, item.key_bytes, item.key_offset, keys.size());
    }
  }
  *cursor = next;
  *count = given;
  return {};
}

Result<uint64_t> Connector::register_region(void* address, uint64_t bytes, int32_t device_type, int32_t id) {
  if (!checked_add(reinterpret_cast<uintptr_t>(address), bytes)) {
    return fail(QUIRE_OUT_OF_RANGE, "%" PRIu64 " bytes from %p on reach beyond 63 bits", bytes, address);
  }
  std::unique_lock<std::mutex> hold(lock_);
  const int slot = regions_.begin_open();
  if (slot < 0)
    return fail(QUIRE_RESOURCE_EXHAUSTED, "%d regions are registered with connector %s already", RegionTable::kMost, name().c_str());
  hold.unlock();
  quire_error error = empty_error();
  uint64_t region = 0;
  const quire_code code = api().region_register(instance_, address, bytes, device_type, id, &region, &error);
  hold.lock();
  const bool known = regions_.find(region) >= 0;
  if (code != QUIRE_OK || region == 0 || known) {
    regions_.free(slot);
    if (code != QUIRE_OK) return status(code, error);
    return fail(QUIRE_UNKNOWN, "connector %s registered bytes as region %" PRIu64 ", which means %s", name().c_str(), region,
                known ? "others" : "none");
  }
  regions_.end_open(slot, region, reinterpret_cast<uintptr_t>(address), bytes);
  return region;
}

Status Connector::unregister_region(uint64_t region) {
  std::unique_lock<std::mutex> hold(lock_);
  const int slot = regions_.find(region);
  if (slot < 0) return fail(QUIRE_NOT_FOUND, "region %" PRIu64 " is not registered with connector %s", region, name().c_str());
  if (const uint64_t uses = regions_.at(slot).uses; uses != 0) {
    return fail(QUIRE_FAILED_PRECONDITION, "%" PRIu64 " tickets in flight use region %" PRIu64, uses, region);
  }
  regions_.begin_close(slot);
  hold.unlock();
  quire_error error = empty_error();
  const quire_code code = api().region_unregister(instance_, region, &error);
  hold.lock();
  if (code != QUIRE_OK) {
    regions_.cancel_close(slot);
    return status(code, error);
  }
  regions_.free(slot);
  return {};
}

}  // namespace quire
