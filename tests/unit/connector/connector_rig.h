// What the tests of the connector room share: connectors on the null module and on a FakeStore,
// tickets that are right, and a clock that the test moves.
#pragma once

#include <gtest/gtest.h>
#include <quire/connector.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/connector/connector_host.h"
#include "tests/fakes/fake_store.h"

namespace quire::test {

using Connected = std::unique_ptr<Connector>;

// Virtual time of a runtime.
struct Clock {
  std::atomic<int64_t> now{1'000'000};
  static int64_t read(void* clock) { return static_cast<Clock*>(clock)->now; }
};

inline std::shared_ptr<Runtime> make_runtime(Clock* clock = nullptr, std::string_view modules = {}) {
  quire_runtime_options options{};
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.flags = QUIRE_RUNTIME_NO_ENV;
  options.connector_path = {modules.data(), modules.size()};
  if (clock != nullptr) options.clock = &Clock::read, options.clock_user = clock;
  auto runtime = Runtime::create(options);
  EXPECT_TRUE(runtime.ok()) << runtime.status().message();
  return runtime.ok() ? *runtime : nullptr;
}

// The connector keeps the runtime.
inline Connected open_connector(std::shared_ptr<Runtime> runtime, const std::string& name, std::string_view config) {
  auto connector = Connector::open(std::move(runtime), name, config);
  EXPECT_TRUE(connector.ok()) << connector.status().message();
  return connector.ok() ? std::move(*connector) : nullptr;
}

inline Connected open_null() { return open_connector(make_runtime(nullptr, QUIRE_MODULES), "null", "{}"); }

inline Connected open_store(const FakeStore& store, Clock* clock = nullptr) {
  static const bool registered = register_module(ModuleKind::kConnector, &fake_store_query).ok();
  EXPECT_TRUE(registered);
  return open_connector(make_runtime(clock), "fake_store", store.config());
}

// Tickets with what they name, built one by one.
class Batch {
 public:
  // Every ticket has a deadline of -1 and a key of its own.
  quire_ticket& add(uint64_t number, quire_ticket_kind kind, std::string_view key) {
    quire_ticket& ticket = tickets.emplace_back();
    ticket.ticket = number;
    ticket.kind = kind;
    ticket.first_run = runs.size();
    ticket.num_keys = 1;
    ticket.key_offset = keys.size();
    ticket.key_bytes = key.size();
    ticket.deadline_ns = -1;
    keys.insert(keys.end(), key.begin(), key.end());
    return ticket;
  }
  // A run of the last ticket.
  quire_ticket_run& run(const void* address, uint64_t bytes, uint64_t object_offset = 0) {
    ++tickets.back().num_runs;
    runs.push_back({0, reinterpret_cast<uintptr_t>(address), bytes, 1, 0, object_offset, 0});
    return runs.back();
  }
  Batch& store(uint64_t number, std::string_view key, const void* from, uint64_t bytes) {
    add(number, QUIRE_TICKET_STORE, key).object_bytes = bytes;
    run(from, bytes);
    return *this;
  }
  Batch& load(uint64_t number, std::string_view key, void* to, uint64_t bytes, uint64_t object_offset = 0) {
    add(number, QUIRE_TICKET_LOAD, key);
    run(to, bytes, object_offset);
    return *this;
  }
  Batch& remove(uint64_t number, std::string_view key) {
    add(number, QUIRE_TICKET_REMOVE, key);
    return *this;
  }
  // key: all keys, each of key_bytes.
  Batch& look_up(uint64_t number, std::string_view key, uint64_t key_bytes, uint64_t* sizes, int64_t lease_ns = 0) {
    quire_ticket& ticket = add(number, QUIRE_TICKET_LOOKUP, key);
    ticket.num_keys = static_cast<uint32_t>(key.size() / key_bytes);
    ticket.key_bytes = key_bytes;
    ticket.sizes = sizes;
    ticket.lease_ns = lease_ns;
    return *this;
  }
  TicketBatch all() const { return {tickets, runs, keys}; }

  std::vector<quire_ticket> tickets;
  std::vector<quire_ticket_run> runs;
  std::vector<uint8_t> keys;
};

// Submits all of them.
inline void submit_all(Connector& connector, const Batch& batch) {
  uint64_t accepted = 0;
  const Status status = connector.submit(batch.all(), &accepted);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(accepted, batch.tickets.size());
}

// Completions that are there now.
inline std::vector<quire_completion> poll_now(Connector& connector, int64_t timeout_ns = 0, size_t most = 4096) {
  std::vector<quire_completion> items(most);
  uint64_t count = 0;
  const Status status = connector.poll(timeout_ns, items, &count);
  EXPECT_TRUE(status.ok()) << status.message();
  items.resize(count);
  return items;
}

// The code with which a submission is refused; nothing is in flight then.
inline Status refusal(Connector& connector, const Batch& batch) {
  uint64_t accepted = 99;
  Status status = connector.submit(batch.all(), &accepted);
  EXPECT_EQ(accepted, 0U);
  EXPECT_FALSE(status.ok());
  return status;
}

}  // namespace quire::test
