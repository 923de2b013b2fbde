#include "plugins/ucx/ucx_worker.h"

#include <poll.h>

#include <algorithm>
#include <new>
#include <utility>

#include "plugins/common/nanoseconds.h"

namespace quire::ucx {
namespace {

constexpr int kProgresses = 64;  // between two looks at tickets and times
constexpr int64_t kCloseTurn = plugins::kMillisecond;
constexpr int64_t kTurn = plugins::kMillisecond;
// The other process of this host has a part of a millisecond's work with the next slot; to sleep and wake takes as long.
constexpr int64_t kPatience = 50 * plugins::kMillisecond / 1000;
constexpr int64_t kLongestLease = 3600 * plugins::kSecond;
constexpr int64_t kLongestClose = 5 * plugins::kSecond;

}  // namespace

Worker::Worker(const Config& config, Tickets* tickets, const Log* log)
    : config_(config),
      tickets_(*tickets),
      log_(*log),
      transport_(config, log),
      offers_(config.copies_bytes, config.lease_ns),
      serving_(config, &transport_, &offers_, log),
      asking_(config, &transport_, this, log) {
  cancelled_.reserve(kMaxTickets);
}

void Worker::run() {
  const Quiet quiet(&log_);
  while (!tickets_.is_closed()) {
    try {
      turn();
    } catch (const std::bad_alloc&) {
      log_.say(QUIRE_LOG_ERROR, {"no host memory"});
      pollfd fd = {tickets_.wake_fd(), 0, 0};  // whatever there is to do, a little later there may be memory
      poll(&fd, 1, 10);
    }
  }
  shut_down();
}

void Worker::turn() {
  now_ = log_.now();
  bool is_busy = false;
  for (int i = 0; i < kProgresses; ++i) {
    is_busy = transport_.progress(this);
    if (!is_busy || log_.now() - now_ >= kTurn) break;
  }
  now_ = log_.now();
  begin_some();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    const uint64_t number = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    give_up(number, QUIRE_DEADLINE_EXCEEDED);
  }
  int64_t next = std::min({offers_.expire(now_), asking_.tick(now_), serving_.tick(now_)});
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  publish();  // before anybody learns of ends
  end_offers();
  if (is_busy) patience_end_ = now_ + kPatience;
  if (!is_busy && waiting_.empty() && !(transport_.is_streaming() && now_ < patience_end_)) wait(next);
}

void Worker::take() {
  cancelled_.clear();
  tickets_.take(&fresh_, &cancelled_);
  sort_fresh();
  for (const uint64_t number : cancelled_) give_up(number, QUIRE_CANCELLED);
}

// Offers begin at once, for that costs nothing. Others wait, the most urgent first.
void Worker::sort_fresh() {
  while (!fresh_.empty()) {
    if (fresh_.front()->fields.kind == QUIRE_TICKET_STORE && config_.copies_bytes == 0) {
      const TicketRef ticket = std::move(fresh_.front());
      fresh_.pop_front();
      begin(ticket);
      continue;
    }
    const int32_t priority = fresh_.front()->fields.priority;
    const bool is_last = waiting_.empty() || waiting_.back()->fields.priority >= priority;
    const auto is_less_urgent = [&](const TicketRef& other) { return other->fields.priority < priority; };
    waiting_.splice(is_last ? waiting_.end() : std::find_if(waiting_.begin(), waiting_.end(), is_less_urgent), fresh_, fresh_.begin());
  }
}

// Copies of what is here take time: between them it is asked who was cancelled, and after some of them what UCX has to say.
void Worker::begin_some() {
  const int64_t limit = now_ + kTurn;
  take();
  while (!waiting_.empty() && !tickets_.is_closed()) {
    const TicketRef ticket = std::move(waiting_.front());
    waiting_.pop_front();
    begin(ticket);
    now_ = log_.now();
    if (now_ >= limit) return;
    take();
  }
}

void Worker::wait(int64_t until) {
  if (!transport_.arm()) return;
  if (transport_.is_closing()) until = std::min(until, log_.now() + kCloseTurn);
  pollfd fds[] = {{transport_.fd(), POLLIN, 0}, {tickets_.wake_fd(), POLLIN, 0}};
  const int64_t left = std::max<int64_t>(until - log_.now(), 0);
  timespec rest = {left / plugins::kSecond, left % plugins::kSecond};
  ppoll(fds, 2, until == INT64_MAX ? nullptr : &rest, nullptr);
  if ((fds[1].revents & POLLIN) != 0) tickets_.drain();
}

// ---- Tickets ----

void Worker::begin(const TicketRef& ticket) {
  quire_code code = QUIRE_OK;
  try {
    if (ticket->is_overdue(now_)) {
      code = QUIRE_DEADLINE_EXCEEDED;
    } else {
      if (ticket->fields.deadline_ns != -1) deadlines_.insert({ticket->fields.deadline_ns, ticket->fields.ticket});
      switch (ticket->fields.kind) {
        case QUIRE_TICKET_STORE:
          code = begin_store(ticket);
          break;
        case QUIRE_TICKET_LOAD:
          code = begin_load(ticket);
          break;
        case QUIRE_TICKET_LOOKUP:
          code = begin_lookup(ticket);
          break;
        default:
          code = begin_remove(ticket);
          break;
      }
    }
  } catch (const std::bad_alloc&) {
    code = QUIRE_RESOURCE_EXHAUSTED;
  }
  if (code != QUIRE_OK) finish(ticket, code);  // otherwise it has ended, or goes on
}

quire_code Worker::begin_store(const TicketRef& ticket) {
  const auto key = parse_key(ticket->key());
  if (!key || !key->address.empty()) return QUIRE_INVALID_ARGUMENT;
  quire_completion completion = {};
  Offers::Put put;
  if (config_.copies_bytes != 0) {
    put = offers_.copy(key->object, ticket->runs, ticket->fields.object_bytes, now_);
    completion.bytes = ticket->fields.object_bytes;
  } else {
    if (!config_.listen) return QUIRE_FAILED_PRECONDITION;  // nobody could read it
    offered_.emplace(ticket->fields.ticket, ticket);
    put = offers_.offer(key->object, ticket->runs, ticket->fields.object_bytes, ticket->fields.ticket, now_);
    if (put == Offers::Put::kTaken) return QUIRE_OK;
    offered_.erase(ticket->fields.ticket);
  }
  if (put == Offers::Put::kExisted) completion.bytes = 0;
  if (put == Offers::Put::kExisted) completion.flags = QUIRE_COMPLETION_EXISTED;
  figures_.is_full.store(put == Offers::Put::kNoRoom, std::memory_order_relaxed);
  if (put == Offers::Put::kNoRoom) return QUIRE_RESOURCE_EXHAUSTED;
  finish(ticket, completion);
  return QUIRE_OK;
}

// What is here is copied by this thread.
quire_code Worker::begin_load(const TicketRef& ticket) {
  const auto key = parse_key(ticket->key());
  if (!key) return QUIRE_NOT_FOUND;
  const ObjectRef object = key->address.empty() ? offers_.find(key->object, now_) : nullptr;
  if (object == nullptr) return asking_.load(ticket, *key, now_);
  const plugins::Pieces pieces(ticket->runs);
  if (pieces.end() > object->bytes) return QUIRE_OUT_OF_RANGE;
  offers_.touch(object);
  Cursor cursor(ticket->runs);
  while (!cursor.is_at_end()) {
    const Stretch stretch = cursor.next(UINT64_MAX, 1, 1);
    Offers::gather(*object, stretch.ranges[0], static_cast<uint8_t*>(stretch.places[0].buffer));
  }
  quire_completion completion = {};
  completion.bytes = pieces.bytes();
  finish(ticket, completion);
  return QUIRE_OK;
}

quire_code Worker::begin_lookup(const TicketRef& ticket) {
  const int64_t lease = std::min(ticket->fields.lease_ns, kLongestLease);
  bool all_leased = ticket->fields.lease_ns <= kLongestLease;
  for (uint32_t i = ticket->fields.num_keys; i-- > 0;) {
    const auto key = parse_key(ticket->key(i));
    const ObjectRef object = key && key->address.empty() ? offers_.find(key->object, now_) : nullptr;
    if (object == nullptr) continue;
    ticket->sizes[i] = object->bytes;
    offers_.touch(object);
    if (lease > 0 && all_leased) offers_.renew(object, now_ + lease);
  }
  const quire_code code = asking_.look_up(ticket, now_);
  if (code != QUIRE_NOT_FOUND) return code;
  quire_completion completion = {};
  if (lease > 0 && all_leased) completion.flags = QUIRE_COMPLETION_LEASED;
  finish(ticket, completion);
  return QUIRE_OK;
}

quire_code Worker::begin_remove(const TicketRef& ticket) {
  const auto key = parse_key(ticket->key());
  if (!key) return QUIRE_NOT_FOUND;
  const ObjectRef object = key->address.empty() ? offers_.find(key->object, now_) : nullptr;
  if (object == nullptr) return asking_.remove(ticket, *key, now_);
  offers_.remove(object, QUIRE_OK);
  quire_completion completion = {};
  finish(ticket, completion);
  return QUIRE_OK;
}

void Worker::give_up(uint64_t number, quire_code code) {
  const auto waits =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const TicketRef& ticket) { return ticket->fields.ticket == number; });
  if (waits != waiting_.end()) {
    const TicketRef ticket = *waits;
    waiting_.erase(waits);
    return finish(ticket, code);
  }
  const ObjectRef object = offers_.of_ticket(number);
  if (object == nullptr) {
    asking_.give_up(number, code, now_);
    return;
  }
  if (object->is_gone) {
    object->code = code;
  } else {
    offers_.remove(object, code);
  }
  if (object->uses != 0) serving_.hurry(object, now_);
}

void Worker::finish(const TicketRef& ticket, quire_completion completion) {
  if (ticket->fields.deadline_ns != -1) deadlines_.erase({ticket->fields.deadline_ns, ticket->fields.ticket});
  tickets_.end(*ticket, completion);
}

void Worker::end_offers() {
  for (const OfferEnd& end : offers_.take_ends()) {
    const auto found = offered_.find(end.ticket);
    const TicketRef ticket = std::move(found->second);
    offered_.erase(found);
    quire_completion completion = {};
    completion.code = end.code;
    completion.bytes = end.bytes;
    finish(ticket, completion);
  }
}

void Worker::publish() {
  figures_.num_objects.store(offers_.num_objects(), std::memory_order_relaxed);
  figures_.used_bytes.store(offers_.used_bytes(), std::memory_order_relaxed);
  figures_.num_evicted.store(offers_.num_evicted(), std::memory_order_relaxed);
  figures_.is_down.store(!config_.listen && asking_.is_down(), std::memory_order_relaxed);
}

// ---- What UCX says ----

void Worker::knocked(Knock knock) { serving_.knocked(knock, now_); }

void Worker::arrived(Arrival* arrival) {
  try {
    if (arrival->link->is_served) {  // it may ask for what was offered a moment ago
      tickets_.take(&fresh_);
      sort_fresh();
    }
    arrival->link->is_served ? serving_.arrived(arrival, now_) : asking_.arrived(arrival, now_);
  } catch (const std::bad_alloc&) {
    arrival->link->why = "there is no memory for what it sent";
    lost(arrival->link);
  }
}

void Worker::ended(std::unique_ptr<Transfer> transfer) {
  transfer->link->is_served ? serving_.ended(std::move(transfer), now_) : asking_.ended(std::move(transfer), now_);
}

void Worker::lost(Link* link) { link->is_served ? serving_.lost(link, now_) : asking_.lost(link, now_); }

// Connections are closed by force, and nothing moves when they have ended. If UCX does not end them, its worker's end does.
void Worker::shut_down() {
  asking_.close();
  serving_.close();
  const int64_t limit = log_.now() + kLongestClose;
  while (!transport_.is_quiet() && log_.now() < limit) {
    if (transport_.progress(this) || !transport_.arm()) continue;
    pollfd fd = {transport_.fd(), POLLIN, 0};
    const timespec rest = {0, kCloseTurn};
    ppoll(&fd, 1, &rest, nullptr);
  }
}

}  // namespace quire::ucx
