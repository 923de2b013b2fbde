#include "plugins/zmq/sender.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace quire::zmq {
namespace {

// At most so many of each before the others get their turn. A replay goes on faster than batches
// come, so that it is not overtaken by what is given up.
constexpr int kBatchesPerTurn = 64;
constexpr int kAnswersPerTurn = 256;
constexpr int kSubscriptionsPerTurn = 256;
constexpr uint64_t kEndNumber = UINT64_MAX;
constexpr size_t kNumberBytes = 8;

std::array<char, kNumberBytes> big_endian(uint64_t value) {
  std::array<char, kNumberBytes> out;
  for (size_t i = kNumberBytes; i > 0; --i, value >>= 8) out[i - 1] = static_cast<char>(value);
  return out;
}

// A number of any width; what is too large is as good as the largest.
uint64_t number_of(std::string_view bytes) {
  bytes.remove_prefix(std::min(bytes.find_first_not_of('\0'), bytes.size()));
  if (bytes.size() > kNumberBytes) return UINT64_MAX;
  uint64_t value = 0;
  for (char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

void add(std::atomic<uint64_t>* counter, uint64_t n = 1) { counter->fetch_add(n, std::memory_order_relaxed); }

}  // namespace

void Sender::run() {
  bool has_more = false;
  while (!is_over(has_more)) {
    sockets_->wait(queue_->fd(), has_more || replay_ ? 0 : -1);
    queue_->clear();
    Batch batch;
    has_more = true;
    for (int i = 0; i < kBatchesPerTurn && has_more; ++i) {
      has_more = queue_->pop(&batch);
      if (has_more) send(std::move(batch));
    }
    try {
      count_subscriptions();
      if (!replay_ && sockets_->has_replays()) read_request();
      if (replay_) replay_some();
    } catch (const std::bad_alloc&) {  // whoever asked sees that the end is missing
      replay_.reset();
    }
  }
}

bool Sender::is_over(bool has_more) const {
  Clock::time_point deadline;
  if (!queue_->is_closed(&deadline)) return false;
  return Clock::now() >= deadline || (!has_more && !replay_ && queue_->state().batches == 0);
}

void Sender::send(Batch batch) {
  next_number_ = batch.number + 1;
  bool overrun = false, is_sent = false;
  try {
    const auto number = big_endian(batch.number);
    std::array<Frame, 3> frames = {Frame(options_.topic), Frame({number.data(), number.size()}), batch.payload.share()};
    is_sent = sockets_->publish(frames, &overrun);
  } catch (const std::bad_alloc&) {
  }
  add(is_sent ? &counters_->sent : &counters_->dropped);
  if (overrun) add(&counters_->overruns);
  if (!sockets_->has_replays()) return;
  try {
    keep(std::move(batch));
  } catch (const std::bad_alloc&) {
  }
}

void Sender::keep(Batch batch) {
  kept_bytes_ += batch.payload.bytes().size();
  try {
    kept_.push_back(std::move(batch));
  } catch (const std::bad_alloc&) {
    kept_bytes_ -= batch.payload.bytes().size();
    throw;
  }
  while (kept_.size() > options_.buffer_steps || (kept_bytes_ > options_.buffer_bytes && kept_.size() > 1)) {
    kept_bytes_ -= kept_.front().payload.bytes().size();
    kept_.pop_front();
  }
  counters_->kept.store(kept_.size(), std::memory_order_relaxed);
  counters_->kept_bytes.store(kept_bytes_, std::memory_order_relaxed);
  counters_->oldest_kept.store(kept_.front().number, std::memory_order_relaxed);
}

void Sender::count_subscriptions() {
  int change = 0;
  for (int i = 0; i < kSubscriptionsPerTurn && sockets_->next_subscription(&change); ++i) {
    add(&counters_->subscriptions, static_cast<uint64_t>(change));  // -1 wraps around
  }
}

void Sender::read_request() {
  std::vector<Frame> request = sockets_->next_request();
  if (request.empty()) return;
  if (request.size() == 3) return begin_replay(std::move(request));
  add(&counters_->malformed_requests);
}

void Sender::begin_replay(std::vector<Frame> request) {
  const uint64_t from = number_of(request[2].bytes());
  const uint64_t oldest = kept_.empty() ? next_number_ : kept_.front().number;
  if (from < oldest) add(&counters_->late_replays);
  add(&counters_->replays);
  replay_.emplace(Replay{std::move(request[0]), from, next_number_});
}

void Sender::replay_some() {
  auto at = std::lower_bound(kept_.begin(), kept_.end(), replay_->next, [](const Batch& b, uint64_t number) { return b.number < number; });
  for (int i = 0; i < kAnswersPerTurn; ++i, ++at) {
    if (at == kept_.end() || at->number >= replay_->end) {
      answer("", kEndNumber, Frame());
      replay_.reset();
      return;
    }
    answer(options_.topic, at->number, at->payload.share());
    add(&counters_->replayed);
    replay_->next = at->number + 1;
  }
}

void Sender::answer(std::string_view topic, uint64_t number, Frame payload) {
  const auto bytes = big_endian(number);
  std::array<Frame, 5> frames = {replay_->client.share(), Frame(), Frame(topic), Frame({bytes.data(), bytes.size()}), std::move(payload)};
  sockets_->answer(frames);
}

}  // namespace quire::zmq
