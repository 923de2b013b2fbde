#include "plugins/host/host_instance.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>

#include "plugins/common/settings.h"

namespace quire::host {
namespace {

// Small enough that half a chunk per object, which is what the last ones waste on average, is 3 % of objects of 1 MiB; large enough that
// 1,000 scattered chunks are copied as fast as one piece (0.97 to 1.02 on a Zen 4) and that records take 0.3 % of the memory.
constexpr uint64_t kChunkBytes = 65536;
constexpr uint64_t kMinChunkBytes = 4096;
constexpr uint64_t kMaxChunkBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxBytes = uint64_t{1} << 56;
constexpr uint32_t kMaxThreads = 64;
constexpr int64_t kListPatience = int64_t{5} * 1'000'000'000;
constexpr uint64_t kListTurn = 65536;  // records between two breaks, in which others take the lock

Outcome refused(quire_code code, std::string text) { return {code, 0, std::move(text)}; }
std::string number(uint64_t value) { return std::to_string(value); }

}  // namespace

std::string read_options(std::string_view config, InstanceOptions* options) {
  plugins::Settings settings(config);
  RegionOptions& region = options->region;
  region.chunk_bytes = settings.size("chunk_bytes", kMinChunkBytes, kMaxChunkBytes, kChunkBytes);
  if (!std::has_single_bit(region.chunk_bytes)) {
    settings.refuse("config field chunk_bytes is " + number(region.chunk_bytes) + ", it must be a power of two");
    region.chunk_bytes = kChunkBytes;
  }
  const uint64_t bytes = settings.size("bytes", region.chunk_bytes, kMaxBytes, 0);
  settings.require("bytes", "the capacity of the store, such as \"16GiB\"");
  if (bytes / region.chunk_bytes >= kNone) {
    settings.refuse("config field bytes is " + number(bytes) + ", at most 4294967294 chunks of " + number(region.chunk_bytes) +
                    " bytes; a larger chunk_bytes allows more");
  }
  region.capacity = bytes / region.chunk_bytes * region.chunk_bytes;
  region.huge_pages = settings.flag("huge_pages", false);
  region.shared = settings.text("shared", "");
  if (settings.has("shared") && !is_shared_name(region.shared)) {
    settings.refuse("config field shared must be 1 to 64 characters of a-z, A-Z, 0-9, '.', '_' and '-'");
  }
  options->threads = static_cast<uint32_t>(settings.number("threads", 1, kMaxThreads, 1));
  return settings.finish();
}

Instance::Instance(const quire_host_api& host, const InstanceOptions& options) : host_(host), options_(options), owner_(getpid()) {}

Outcome Instance::open(const quire_host_api& host, const InstanceOptions& options, std::unique_ptr<Instance>* out) {
  std::unique_ptr<Instance> instance(new Instance(host, options));
  if (const int error = instance->tickets_.open(); error != 0) {
    return {QUIRE_RESOURCE_EXHAUSTED, error, "eventfd: " + plugins::error_text(error)};
  }
  if (Outcome outcome = instance->region_.open(options.region); !outcome.ok()) return outcome;
  const std::string& remark = instance->region_.remark();
  if (!remark.empty()) host.log(host.user, QUIRE_LOG_WARN, {"connector:host", 14}, {remark.data(), remark.size()});
  instance->store_.attach(instance->region_.base(), instance->region_.geometry());
  instance->evicted_before_ = instance->store_.header().num_evicted;
  if (Outcome outcome = instance->start_workers(); !outcome.ok()) return outcome;
  *out = std::move(instance);
  return {};
}

Outcome Instance::start_workers() {
  threads_.reserve(options_.threads);
  for (uint32_t i = 0; i < options_.threads; ++i) {
    std::promise<Start> start;
    std::future<Start> started = start.get_future();
    try {
      threads_.emplace_back([this, own = std::move(start)]() mutable { Worker(host_, &store_, &tickets_, &condition_).run(&own); });
    } catch (const std::system_error& error) {
      return {QUIRE_RESOURCE_EXHAUSTED, error.code().value(),
              "config field threads is " + number(options_.threads) + ", thread " + number(i) + " could not be started: " + error.what()};
    }
    const Start how = started.get();
    if (how == Start::kNoLock) return refused(QUIRE_UNAVAILABLE, "another process has held the lock of the store for 5 s");
    if (how == Start::kNoPlace) {
      return refused(QUIRE_RESOURCE_EXHAUSTED, "the store has " + number(kMaxPlaces) +
                                                   " places for worker threads of all processes; none is left for thread " + number(i) +
                                                   " of this one");
    }
  }
  return {};
}

Instance::~Instance() {
  if (getpid() != owner_) {
    for (std::thread& thread : threads_) thread.detach();
    region_.forget();
    return;
  }
  tickets_.close();
  for (std::thread& thread : threads_) thread.join();
}

quire_connector_info Instance::info() const {
  quire_connector_info info{};
  // Bytes lie in memory of the connector, and the processor copies them: tickets end soon after they are cancelled.
  info.flags = QUIRE_CONNECTOR_RANGES | QUIRE_CONNECTOR_STAGES;
  if (!options_.region.shared.empty()) info.flags |= QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_PERSISTENT;
  info.max_in_flight = kMaxInFlight;
  info.max_key_bytes = kMaxKeyBytes;
  info.device_types = uint64_t{1} << QUIRE_DEVICE_CPU;
  info.max_object_bytes = capacity();
  info.best_object_bytes = store_.chunk_bytes();
  return info;
}

quire_connector_health Instance::health() const {
  const Header& header = store_.header();
  quire_connector_health health{};
  health.state = condition_.broken                                ? QUIRE_CONNECTOR_DOWN
                 : condition_.full_until.load() > monotonic_now() ? QUIRE_CONNECTOR_FULL
                                                                  : QUIRE_CONNECTOR_UP;
  health.capacity_bytes = capacity();
  health.used_bytes = capacity() - header.free_chunks * store_.chunk_bytes();
  health.num_objects = header.num_objects;
  health.num_evicted = header.num_evicted - evicted_before_;
  health.num_damaged = header.num_damaged;
  return health;
}

Outcome Instance::submit(std::span<const quire_ticket> tickets, RunSpan runs, std::span<const uint8_t> keys, uint64_t* accepted) {
  *accepted = 0;
  bool doubled = false;
  *accepted = tickets_.submit(tickets, runs.data(), keys.data(), &store_.header().next_use, &doubled);
  if (!doubled) return {};
  return refused(QUIRE_INVALID_ARGUMENT,
                 "tickets[" + number(*accepted) + "].ticket is " + number(tickets[*accepted].ticket) + ", which is in flight");
}

// The cursor is the number of a record. An object keeps its record as long as it is there.
Outcome Instance::list(uint64_t* cursor, std::span<quire_object_entry> items, uint64_t* count, std::span<uint8_t> keys) {
  uint64_t at = *cursor;
  if (at > store_.num_chunks()) return refused(QUIRE_INVALID_ARGUMENT, "cursor is " + number(at) + ", which list has not given");
  if (items.empty()) return refused(QUIRE_INVALID_ARGUMENT, "capacity is 0, at least 1");
  const TimeLimit limit(kListPatience);
  uint64_t used = 0;
  uint64_t n = 0;
  bool fits = true;
  while (at < store_.num_chunks() && n < items.size() && fits) {
    if (store_.lock({&TimeLimit::over, &limit}) != Locked::kYes) {
      return refused(QUIRE_UNAVAILABLE, "another process has held the lock of the store for 5 s");
    }
    for (const uint64_t end = std::min(store_.num_chunks(), at + kListTurn); at < end && n < items.size(); ++at) {
      const Record& record = store_.record(static_cast<uint32_t>(at));
      if (record.state != kWhole) continue;
      fits = record.key_bytes <= keys.size() - used;
      if (!fits) break;
      std::memcpy(keys.data() + used, record.key, record.key_bytes);
      items[n++] = {used, record.key_bytes, record.object_bytes, 0};
      used += record.key_bytes;
    }
    log_repair(host_, store_.unlock());
  }
  if (!fits && n == 0) {
    return refused(QUIRE_OUT_OF_RANGE, "num_key_bytes is " + number(keys.size()) + ", the next key has up to " + number(kMaxKeyBytes));
  }
  *count = n;
  *cursor = at < store_.num_chunks() ? at : 0;
  return {};
}

}  // namespace quire::host
