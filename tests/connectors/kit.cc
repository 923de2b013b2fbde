#include "kit.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace quire::kit {
namespace {

std::atomic<uint64_t> g_next_ticket{1};

quire_str text(const std::string& from) { return {from.data(), from.size()}; }

quire_runtime* make_runtime() {
  auto options = QUIRE_INIT(quire_runtime_options);
  options.flags = QUIRE_RUNTIME_NO_ENV;
  options.header_abi = QUIRE_ABI_VERSION;
  const char* other = std::getenv("QUIRE_KIT_MODULES");  // NOLINT(concurrency-mt-unsafe)
  const std::string modules = other != nullptr ? other : QUIRE_MODULES;
  options.connector_path = text(modules);
  quire_runtime* runtime = nullptr;
  Error err;
  EXPECT_EQ(quire_runtime_create(&options, &runtime, &err), QUIRE_OK) << err.message;
  return runtime;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name; }
std::string name_of(const testing::TestParamInfo<Subject>& info) { return info.param.name; }

quire_ticket& Batch::add(quire_ticket_kind kind, const Runs& runs, std::span<const Key> keys) {
  quire_ticket ticket{};
  ticket.ticket = g_next_ticket++;
  ticket.kind = kind;
  ticket.first_run = runs_.size();
  ticket.num_runs = static_cast<uint32_t>(runs.size());
  ticket.num_keys = static_cast<uint32_t>(keys.size());
  ticket.key_offset = keys_.size();
  ticket.key_bytes = keys[0].size();
  ticket.deadline_ns = -1;
  runs_.insert(runs_.end(), runs.begin(), runs.end());
  for (const Key& key : keys) keys_.insert(keys_.end(), key.begin(), key.end());
  return tickets_.emplace_back(ticket);
}

quire_ticket& Batch::store(const Key& key, const Runs& runs, uint64_t object_bytes) {
  quire_ticket& ticket = add(QUIRE_TICKET_STORE, runs, {&key, 1});
  ticket.object_bytes = object_bytes;
  return ticket;
}

quire_ticket& Batch::load(const Key& key, const Runs& runs) { return add(QUIRE_TICKET_LOAD, runs, {&key, 1}); }

quire_ticket& Batch::look_up(const std::vector<Key>& keys, uint64_t* sizes, int64_t lease_ns) {
  quire_ticket& ticket = add(QUIRE_TICKET_LOOKUP, {}, keys);
  ticket.sizes = sizes;
  ticket.lease_ns = lease_ns;
  return ticket;
}

quire_ticket& Batch::remove(const Key& key) { return add(QUIRE_TICKET_REMOVE, {}, {&key, 1}); }

quire_code Client::try_open(const Subject& subject, const std::string& config, Error* error) {
  quire_runtime* const runtime = make_runtime();
  quire_connector* connector = nullptr;
  const quire_code code = quire_connector_open(runtime, text(subject.connector), text(config), &connector, error);
  quire_connector_release(connector);
  quire_runtime_release(runtime);
  return code;
}

Client::Client(const Subject& subject, const std::string& config) : runtime_(make_runtime()), lists_(subject.lists) {
  Error err;
  EXPECT_EQ(quire_connector_open(runtime_, text(subject.connector), text(config), &connector_, &err), QUIRE_OK) << err.message;
  info_.struct_size = sizeof info_;
  if (connector_ == nullptr) return;
  EXPECT_EQ(quire_connector_get_info(connector_, &info_, &err), QUIRE_OK) << err.message;
}

Client::Client(Client&& other) noexcept
    : runtime_(std::exchange(other.runtime_, nullptr)),
      connector_(std::exchange(other.connector_, nullptr)),
      info_(other.info_),
      lists_(other.lists_) {}

void Client::close() {
  quire_connector_release(std::exchange(connector_, nullptr));
  quire_runtime_release(std::exchange(runtime_, nullptr));
}

quire_connector_health Client::health() const {
  auto health = QUIRE_INIT(quire_connector_health);
  Error err;
  EXPECT_EQ(quire_connector_get_health(connector_, &health, &err), QUIRE_OK) << err.message;
  return health;
}

quire_code Client::try_submit(const Batch& batch, uint64_t* accepted, Error* error, uint64_t first) {
  return quire_connector_submit(connector_, batch.tickets_.data() + first, batch.tickets_.size() - first, batch.runs_.data(),
                                batch.runs_.size(), batch.keys_.data(), batch.keys_.size(), accepted, error);
}

uint64_t Client::submit(const Batch& batch, uint64_t first) {
  uint64_t accepted = 0;
  Error err;
  EXPECT_EQ(try_submit(batch, &accepted, &err, first), QUIRE_OK) << err.message;
  return accepted;
}

void Client::cancel(uint64_t ticket) {
  Error err;
  EXPECT_EQ(quire_connector_cancel(connector_, ticket, &err), QUIRE_OK) << err.message;
}

std::vector<quire_completion> Client::poll(int64_t timeout_ns, uint64_t capacity) {
  std::vector<quire_completion> ends(capacity);
  uint64_t count = 0;
  Error err;
  EXPECT_EQ(quire_connector_poll(connector_, timeout_ns, ends.data(), ends.size(), &count, &err), QUIRE_OK) << err.message;
  ends.resize(count);
  return ends;
}

Ends Client::wait(uint64_t tickets) {
  Ends all;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (all.size() < tickets && std::chrono::steady_clock::now() < limit) {
    for (const quire_completion& end : poll(kSecond)) EXPECT_TRUE(all.emplace(end.ticket, end).second) << "ended twice: " << end.ticket;
  }
  EXPECT_EQ(all.size(), tickets) << "tickets that ended within a minute";
  return all;
}

Ends Client::run(const Batch& batch) {
  Ends all;
  for (uint64_t given = 0; all.size() < batch.tickets_.size();) {
    const uint64_t accepted = given < batch.tickets_.size() ? submit(batch, given) : 0;
    given += accepted;
    if (given == all.size()) {
      ADD_FAILURE() << "nothing is in flight and nothing is accepted";
      return all;
    }
    for (const auto& [ticket, end] : wait(given < batch.tickets_.size() ? 1 : given - all.size())) all.emplace(ticket, end);
    if (testing::Test::HasFailure()) return all;
  }
  return all;
}

quire_completion Client::store(const Key& key, const Bytes& object) {
  Layout layout = dense(0, object.size());
  Memory memory(&layout);
  memory.fill(layout.runs, object);
  Batch batch;
  const uint64_t ticket = batch.store(key, layout.runs, object.size()).ticket;
  const quire_completion end = run(batch)[ticket];
  EXPECT_TRUE(memory.intact());
  return end;
}

quire_completion Client::load(const Key& key, uint64_t offset, uint64_t bytes, Bytes* out) {
  out->assign(bytes, 0);
  Layout layout = dense(offset, bytes);
  layout.runs[0].address = reinterpret_cast<uintptr_t>(out->data());
  Batch batch;
  const uint64_t ticket = batch.load(key, layout.runs).ticket;
  return run(batch)[ticket];
}

quire_completion Client::remove(const Key& key) {
  Batch batch;
  const uint64_t ticket = batch.remove(key).ticket;
  return run(batch)[ticket];
}

std::vector<uint64_t> Client::sizes(const std::vector<Key>& keys, int64_t lease_ns, quire_completion* end) {
  std::vector<uint64_t> sizes(keys.size(), UINT64_MAX);
  Batch batch;
  const uint64_t ticket = batch.look_up(keys, sizes.data(), lease_ns).ticket;
  const quire_completion own = run(batch)[ticket];
  EXPECT_EQ(own.code, QUIRE_OK);
  EXPECT_EQ(own.num_found, static_cast<uint64_t>(std::count_if(sizes.begin(), sizes.end(), [](uint64_t size) { return size != 0; })));
  if (end != nullptr) *end = own;
  return sizes;
}

testing::AssertionResult Client::holds(const Key& key, const Bytes& object) {
  Bytes bytes;
  const quire_completion end = load(key, 0, object.size(), &bytes);
  if (end.code != QUIRE_OK) return testing::AssertionFailure() << "load ended with code " << end.code;
  if (end.bytes != object.size()) return testing::AssertionFailure() << end.bytes << " bytes were moved, not " << object.size();
  if (std::memcmp(bytes.data(), object.data(), bytes.size()) == 0) return testing::AssertionSuccess();
  const auto wrong = std::mismatch(bytes.begin(), bytes.end(), object.begin()).first - bytes.begin();
  return testing::AssertionFailure() << "byte " << wrong << " of " << bytes.size() << " is wrong";
}

std::map<Key, uint64_t> Client::list(uint64_t capacity) {
  std::map<Key, uint64_t> objects;
  std::vector<quire_object_entry> items(capacity);
  std::vector<uint8_t> keys(capacity * 256);
  uint64_t cursor = 0;
  do {
    uint64_t count = 0;
    Error err;
    const quire_code code = quire_connector_list(connector_, &cursor, items.data(), items.size(), &count, keys.data(), keys.size(), &err);
    EXPECT_EQ(code, QUIRE_OK) << err.message;
    if (code != QUIRE_OK) return objects;
    for (uint64_t i = 0; i < count; ++i) {
      const auto first = keys.begin() + static_cast<ptrdiff_t>(items[i].key_offset);
      const Key key(first, first + static_cast<ptrdiff_t>(items[i].key_bytes));
      EXPECT_TRUE(objects.emplace(key, items[i].object_bytes).second) << "listed twice";
    }
  } while (cursor != 0);
  return objects;
}

std::map<Key, uint64_t> Client::found(const std::vector<Key>& keys) {
  std::map<Key, uint64_t> objects;
  const std::vector<uint64_t> found = sizes(keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (found[i] != 0) objects[keys[i]] = found[i];
  }
  return objects;
}

testing::AssertionResult Client::keeps(const std::map<Key, uint64_t>& objects) {
  std::map<Key, uint64_t> there;
  if (lists_) there = list();
  for (const auto& [key, size] : objects) {
    if (lists_) break;
    there.merge(found({key}));
  }
  if (there == objects) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "it has " << there.size() << " objects, must be " << objects.size() << ", or their sizes differ";
}

}  // namespace quire::kit

ConnectorKit::ConnectorKit() {
  static std::atomic<uint64_t> tests{0};
  place_ = "kit-" + std::to_string(getpid()) + "-" + std::to_string(tests++);
}

quire::kit::Client ConnectorKit::open(uint64_t capacity) { return {GetParam(), GetParam().config(capacity, place_)}; }
