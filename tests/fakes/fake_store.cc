// What tests ask of a store, and the stores there are.
#include "tests/fakes/fake_store.h"

#include <algorithm>

#include "tests/fakes/fake_store_impl.h"

namespace quire::test {
namespace {

struct Stores {
  std::mutex lock;
  std::map<std::string, FakeStore::Impl*, std::less<>> by_config;
  uint64_t last = 0;
};

Stores& stores() {
  static auto* all = new Stores;  // connectors may be closed at exit
  return *all;
}

}  // namespace

FakeStore::Impl* find_store(std::string_view config) {
  const std::lock_guard<std::mutex> hold(stores().lock);
  const auto found = stores().by_config.find(config);
  return found == stores().by_config.end() ? nullptr : found->second;
}

// SplitMix64.
uint64_t FakeStore::Impl::random() {
  uint64_t z = random_state += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

void FakeStore::Impl::violate(const std::string& what) {
  constexpr size_t kMost = 100;
  ++num_violations;
  if (violations.size() < kMost) violations.push_back(what);
}

bool FakeStore::Impl::fails(StoreCall call, quire_code* code) {
  const auto found = next_failures.find(call);
  if (found == next_failures.end()) return false;
  *code = found->second;
  next_failures.erase(found);
  return true;
}

void FakeStore::Impl::keep(std::string_view key, std::vector<uint8_t> bytes) {
  used_bytes += bytes.size();
  StoredObject& object = objects[std::string(key)];
  used_bytes -= object.bytes.size();
  object.bytes = std::move(bytes);
  object.serial = ++last_serial;
  object.used = ++last_use;
}

void FakeStore::Impl::drop(std::map<std::string, StoredObject, std::less<>>::iterator object) {
  used_bytes -= object->second.bytes.size();
  objects.erase(object);
}

FakeStore::FakeStore(const FakeStoreOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->random_state = options.seed;
  const std::lock_guard<std::mutex> hold(stores().lock);
  impl_->number = ++stores().last;
  impl_->config = "{\"store\":" + std::to_string(impl_->number) + "}";
  stores().by_config[impl_->config] = impl_.get();
}

FakeStore::~FakeStore() {
  const std::lock_guard<std::mutex> hold(stores().lock);
  stores().by_config.erase(impl_->config);
}

const std::string& FakeStore::config() const { return impl_->config; }

void FakeStore::set_script(std::function<void(const SeenTicket&, Fate*)> script) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  impl_->script = std::move(script);
}

void FakeStore::set_odds(const Odds& odds) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  impl_->options.odds = odds;
}

void FakeStore::release(uint64_t ticket) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  for (StoreInstance* instance : impl_->instances) {
    for (auto& each : instance->tickets) {
      if (each.second.ticket.ticket == ticket) each.second.fate.held = false;
    }
  }
  impl_->advance_all();
}

void FakeStore::release_all() {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  for (StoreInstance* instance : impl_->instances) {
    for (auto& each : instance->tickets) each.second.fate.held = false;
  }
  impl_->advance_all();
}

void FakeStore::accept_next(uint64_t most, quire_code code) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  impl_->next_accepts.emplace_back(most, code);
}

void FakeStore::fail_next(StoreCall call, quire_code code) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  impl_->next_failures[call] = code;
}

void FakeStore::set_state(quire_connector_state state) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  impl_->state = state;
  impl_->advance_all();
}

void FakeStore::update() {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  impl_->advance_all();
}

int64_t FakeStore::next_end_ns() const {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  int64_t next = INT64_MAX;
  for (const StoreInstance* instance : impl_->instances) next = std::min(next, impl_->next_end_ns(*instance));
  return next;
}

uint64_t FakeStore::num_in_flight() const {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  uint64_t n = 0;
  for (const StoreInstance* instance : impl_->instances) n += instance->tickets.size();
  return n;
}

void FakeStore::put(std::string_view key, std::span<const uint8_t> bytes) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  impl_->keep(key, {bytes.begin(), bytes.end()});
}

std::optional<std::vector<uint8_t>> FakeStore::get(std::string_view key) const {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  const auto found = impl_->objects.find(key);
  if (found == impl_->objects.end()) return std::nullopt;
  return found->second.bytes;
}

std::vector<std::string> FakeStore::keys() const {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  std::vector<std::string> all;
  for (const auto& each : impl_->objects) all.push_back(each.first);
  return all;
}

uint64_t FakeStore::used_bytes() const {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  return impl_->used_bytes;
}

bool FakeStore::forget(std::string_view key) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  const auto found = impl_->objects.find(key);
  if (found == impl_->objects.end()) return false;
  impl_->drop(found);
  return true;
}

bool FakeStore::flip(std::string_view key, uint64_t bit) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  const auto found = impl_->objects.find(key);
  if (found == impl_->objects.end() || bit / 8 >= found->second.bytes.size()) return false;
  found->second.bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
  return true;
}

bool FakeStore::truncate(std::string_view key, uint64_t bytes) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  const auto found = impl_->objects.find(key);
  if (found == impl_->objects.end() || bytes > found->second.bytes.size()) return false;
  impl_->used_bytes -= found->second.bytes.size() - bytes;
  found->second.bytes.resize(bytes);
  return true;
}

bool FakeStore::replace(std::string_view key, std::string_view with) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  const auto found = impl_->objects.find(key);
  const auto other = impl_->objects.find(with);
  if (found == impl_->objects.end() || other == impl_->objects.end()) return false;
  impl_->used_bytes += other->second.bytes.size() - found->second.bytes.size();
  found->second.bytes = other->second.bytes;
  return true;
}

uint64_t FakeStore::forget_some(uint32_t of_thousand) {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  int64_t now = INT64_MIN;  // without a connector there is no clock, and no lease
  for (const StoreInstance* instance : impl_->instances) now = std::max(now, instance->now());
  uint64_t gone = 0;
  for (auto each = impl_->objects.begin(); each != impl_->objects.end();) {
    const auto next = std::next(each);
    if (each->second.leased_until_ns <= now && impl_->chance(of_thousand)) {
      impl_->drop(each);
      ++gone;
    }
    each = next;
  }
  return gone;
}

void FakeStore::lose_leases() {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  for (auto& each : impl_->objects) each.second.leased_until_ns = INT64_MIN;
}

std::string FakeStore::last_address() const {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  return impl_->last_address;
}

FakeStoreCounts FakeStore::counts() const {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  return impl_->counts;
}

std::vector<std::string> FakeStore::violations() const {
  const std::lock_guard<std::mutex> hold(impl_->lock);
  return impl_->violations;
}

}  // namespace quire::test
