#include "plugins/zmq/publisher.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

#include "plugins/common/signals.h"

namespace quire::zmq {
namespace {

constexpr size_t kFirstEncoded = 16 << 10;
constexpr size_t kFirstEvents = 256;
constexpr size_t kFirstWords = 8 << 10;

double now() {
  timespec time = {};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

quire_str str(std::string_view text) { return {text.data(), text.size()}; }

Outcome outcome_of(quire_code code, const quire_error& error) {
  if (code == QUIRE_OK) return {};
  return {code, 0, error.message};
}

template <size_t n>
void write(const std::string& text, char (&out)[n]) {
  std::snprintf(out, n, "%s", text.c_str());
}

}  // namespace

Publisher::Publisher(PublisherOptions options)
    : options_(std::move(options)), home_(getpid()), queue_(options_.max_queue_size, options_.max_queue_bytes) {}

Outcome Publisher::open(PublisherOptions options, std::unique_ptr<Publisher>* out) {
  std::unique_ptr<Publisher> publisher(new Publisher(std::move(options)));
  if (Outcome outcome = publisher->start(); !outcome.ok()) return outcome;
  *out = std::move(publisher);
  return {};
}

Outcome Publisher::start() {
  encoded_.resize(kFirstEncoded);
  if (Outcome outcome = queue_.open(); !outcome.ok()) return outcome;
  if (Outcome outcome = Sockets::open(options_.sockets, &sockets_); !outcome.ok()) return outcome;
  sender_ = std::make_unique<Sender>(options_.sender, sockets_.get(), &queue_, &counters_);
  const plugins::NoSignals quiet;
  Outcome outcome;
  try {
    thread_ = std::thread([sender = sender_.get()] { sender->run(); });
  } catch (const std::system_error& error) {
    outcome = {QUIRE_RESOURCE_EXHAUSTED, error.code().value(), std::string("the publisher's thread could not be started: ") + error.what()};
  } catch (const std::bad_alloc&) {
    outcome = {QUIRE_RESOURCE_EXHAUSTED, 0, "no host memory for the publisher's thread"};
  }
  return outcome;
}

Publisher::~Publisher() {
  if (!thread_.joinable()) return;
  const auto deadline = Clock::now() + std::chrono::milliseconds(options_.linger_ms);
  queue_.close(deadline);
  thread_.join();
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  sockets_->close(static_cast<int>(std::max<int64_t>(left, 0)));
}

bool Publisher::is_at_home() const { return getpid() == home_; }

Outcome Publisher::encode(const quire_event_message& message, uint64_t* bytes) {
  quire_event_encoding encoding = QUIRE_INIT(quire_event_encoding);
  encoding.flags = options_.flags;
  encoding.time = message.time == 0 ? now() : message.time;
  encoding.rank = options_.rank;
  encoding.medium = message.medium.len != 0 ? message.medium : str(options_.medium);
  encoding.locality = message.locality.len != 0 ? message.locality : str(options_.locality);
  while (true) {
    quire_error error = QUIRE_INIT(quire_error);
    *bytes = 0;
    const quire_code code = quire_events_encode(message.events, message.num_events, message.data, message.data_bytes, &encoding,
                                                encoded_.data(), encoded_.size(), bytes, &error);
    const bool is_short = code == QUIRE_OUT_OF_RANGE && *bytes > encoded_.size();
    if (!is_short) return outcome_of(code, error);
    encoded_.resize(*bytes);
  }
}

Outcome Publisher::publish(const quire_event_message& message) {
  const std::lock_guard lock(encoding_);
  uint64_t bytes = 0;
  if (Outcome outcome = encode(message, &bytes); !outcome.ok()) return outcome;
  queue_.push(Frame(std::string_view(reinterpret_cast<const char*>(encoded_.data()), bytes)));
  constexpr size_t kMostKept = size_t{1} << 20;  // snapshots are large and rare
  if (encoded_.size() > kMostKept) encoded_ = {};
  return {};
}

uint64_t Publisher::num_dropped() const { return queue_.state().dropped + counters_.dropped.load(std::memory_order_relaxed); }

Outcome Publisher::follow(quire_cache* cache, bool snapshot) {
  if (cache == nullptr) return {QUIRE_INVALID_ARGUMENT, 0, "cache is NULL"};
  if (cache_ != nullptr && cache_.get() != cache) return {QUIRE_INVALID_ARGUMENT, 0, "cache is another one than in the first call"};
  const uint64_t drops = num_dropped();
  // One that had no room is not made again before it surely has.
  const bool has_room = lost_snapshot_ ? queue_.state().batches == 0 : queue_.is_half_empty();
  bool is_wanted = snapshot || (drops > known_drops_ && has_room);
  if (!is_wanted) {
    if (Outcome outcome = publish_new(cache, &is_wanted); !outcome.ok()) return outcome;
  }
  if (is_wanted) {
    if (Outcome outcome = publish_snapshot(cache); !outcome.ok()) return outcome;
    known_drops_ = drops;
    lost_snapshot_ = num_dropped() > drops;
  }
  if (cache_ == nullptr) cache_.reset(quire_cache_retain(cache));
  return {};
}

Outcome Publisher::publish_read(uint64_t num_events, uint64_t num_bytes) {
  quire_event_message message = QUIRE_INIT(quire_event_message);
  message.events = events_.data();
  message.num_events = num_events;
  message.data = reinterpret_cast<const uint8_t*>(data_.data());
  message.data_bytes = num_bytes;
  return publish(message);
}

Outcome Publisher::publish_new(quire_cache* cache, bool* is_late) {
  events_.resize(std::max(events_.size(), kFirstEvents));
  data_.resize(std::max(data_.size(), kFirstWords));
  while (true) {
    quire_error error = QUIRE_INIT(quire_error);
    quire_event_batch batch = QUIRE_INIT(quire_event_batch);
    const quire_code code = quire_cache_read_events(cache, next_event_, events_.data(), events_.size(),
                                                    reinterpret_cast<uint8_t*>(data_.data()), data_.size() * 8, &batch, &error);
    *is_late = code == QUIRE_DATA_LOSS;
    if (*is_late) return {};
    if (code == QUIRE_OUT_OF_RANGE && batch.num_bytes > data_.size() * 8) {  // one event is longer than all of it
      data_.resize((batch.num_bytes + 7) / 8);
      continue;
    }
    if (code != QUIRE_OK) return outcome_of(code, error);
    if (batch.num_events == 0) return {};
    if (Outcome outcome = publish_read(batch.num_events, batch.num_bytes); !outcome.ok()) return outcome;
    next_event_ = batch.next;
  }
}

Outcome Publisher::publish_snapshot(quire_cache* cache) {
  events_.resize(std::max(events_.size(), kFirstEvents));
  data_.resize(std::max(data_.size(), kFirstWords));
  quire_event_batch batch = QUIRE_INIT(quire_event_batch);
  while (true) {
    quire_error error = QUIRE_INIT(quire_error);
    const quire_code code = quire_cache_snapshot_events(cache, events_.data() + 1, events_.size() - 1,
                                                        reinterpret_cast<uint8_t*>(data_.data()), data_.size() * 8, &batch, &error);
    if (code == QUIRE_OK) break;
    if (code != QUIRE_OUT_OF_RANGE) return outcome_of(code, error);
    events_.resize(std::max<size_t>(events_.size(), batch.num_events + batch.num_events / 8 + 1));  // it may have grown meanwhile
    data_.resize(std::max<size_t>(data_.size(), batch.num_bytes / 8 + batch.num_bytes / 64 + 1));
  }
  events_[0] = {};
  events_[0].type = QUIRE_EVENT_CLEARED;
  if (Outcome outcome = publish_read(batch.num_events + 1, batch.num_bytes); !outcome.ok()) return outcome;
  next_event_ = batch.next;
  snapshots_.fetch_add(1, std::memory_order_relaxed);
  events_ = {};  // snapshots are large and rare
  data_ = {};
  return {};
}

quire_event_publisher_stats Publisher::stats() const {
  const auto read = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  quire_event_publisher_stats stats = {};
  stats.sent = read(counters_.sent);  // before the queue is asked, so that no batch counts twice
  stats.dropped = read(counters_.dropped);
  const Queue::State queue = queue_.state();
  stats.next_number = queue.next_number;
  stats.dropped += queue.dropped;
  stats.queued = queue.batches;
  stats.queued_bytes = queue.bytes;
  stats.overruns = read(counters_.overruns);
  stats.kept = read(counters_.kept);
  stats.kept_bytes = read(counters_.kept_bytes);
  stats.oldest_kept = std::min(read(counters_.oldest_kept), queue.next_number);
  stats.subscriptions = read(counters_.subscriptions);
  stats.replays = read(counters_.replays);
  stats.replayed = read(counters_.replayed);
  stats.late_replays = read(counters_.late_replays);
  stats.malformed_requests = read(counters_.malformed_requests);
  stats.snapshots = read(snapshots_);
  return stats;
}

quire_event_publisher_info Publisher::info() const {
  quire_event_publisher_info info = {};
  info.data_parallel_rank = options_.rank;
  write(sockets_->endpoint(), info.endpoint);
  write(sockets_->replay_endpoint(), info.replay_endpoint);
  return info;
}

}  // namespace quire::zmq
