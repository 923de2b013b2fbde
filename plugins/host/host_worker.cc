#include "plugins/host/host_worker.h"

#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include "plugins/host/host_pieces.h"

namespace quire::host {
namespace {

constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;
constexpr int64_t kOpenPatience = int64_t{5} * 1'000'000'000;
constexpr int64_t kMaxLease = kHour;  // so that a process that asks for more and dies does not take room for ever

}  // namespace

int64_t monotonic_now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool TimeLimit::over(const void* limit) { return monotonic_now() >= static_cast<const TimeLimit*>(limit)->end; }

void log_repair(const quire_host_api& host, const Repair& repair) {
  if (!repair.made) return;
  char text[160];
  const int n = std::snprintf(text, sizeof text, "a process died while it changed the store; %llu objects are kept, %llu are dropped",
                              static_cast<unsigned long long>(repair.kept), static_cast<unsigned long long>(repair.dropped));
  host.log(host.user, QUIRE_LOG_WARN, {"connector:host", 14}, {text, static_cast<uint64_t>(n)});
}

Key Worker::key_of(const Ticket& ticket, uint64_t i) const { return store_.key(ticket.key(i), ticket.fields.key_bytes); }

bool Worker::is_over(const Ticket& ticket, Until until) const {
  if (tickets_.closed() || ticket.cancelled.load(std::memory_order_relaxed)) return true;
  const int64_t now = host_.now(host_.user);
  tickets_.look_around(now);
  return until == Until::kDeadline && ticket.fields.deadline_ns != -1 && ticket.fields.deadline_ns <= now;
}

// A process that has the lock may have been stopped: what ends the ticket ends the wait, too.
quire_code Worker::lock(const Ticket& ticket, Until until) {
  struct Asked {
    const Worker& worker;
    const Ticket& ticket;
    Until until;
  } const asked{*this, ticket, until};
  const auto over = [](const void* of) {
    const auto& a = *static_cast<const Asked*>(of);
    return a.worker.is_over(a.ticket, a.until);
  };
  switch (store_.lock({over, &asked})) {
    case Locked::kYes:
      return QUIRE_OK;
    case Locked::kBroken:
      condition_.broken = true;
      return QUIRE_UNAVAILABLE;
    case Locked::kGivenUp:
      break;
  }
  const bool asked_to_end = tickets_.closed() || ticket.cancelled.load(std::memory_order_relaxed);
  return asked_to_end ? QUIRE_CANCELLED : QUIRE_DEADLINE_EXCEEDED;
}

void Worker::run(std::promise<Start>* start) {
  const TimeLimit limit(kOpenPatience);
  Start how = Start::kNoLock;
  if (store_.lock({&TimeLimit::over, &limit}) == Locked::kYes) {
    place_ = store_.claim();
    how = place_ != nullptr ? Start::kBegun : Start::kNoPlace;
    unlock();
  }
  start->set_value(how);
  if (place_ == nullptr) return;
  while (Ticket* const ticket = tickets_.next(host_)) tickets_.end(ticket, execute(ticket));
  // If the lock cannot be had now, the place stays as it is: others find that this thread is gone and end its work.
  if (place_->work != kIdle) {
    const TimeLimit none(0);
    if (store_.lock({&TimeLimit::over, &none}) != Locked::kYes) return;
    place_->work == kLoads ? store_.end_load(place_) : store_.abandon(place_);
    unlock();
  }
  store_.release(place_);
}

// Ends the work of the place. Whether an object that was stored can be found now, by this store.
bool Worker::end_work(bool whole, Ticket* ticket) {
  bool published = false;
  if (place_->work == kLoads) store_.end_load(place_);
  if (place_->work == kStores && whole) published = store_.publish(place_, ticket->use(0));
  if (place_->work == kStores) store_.abandon(place_);
  return published;
}

quire_completion Worker::execute(Ticket* ticket) {
  quire_completion end{};
  end.ticket = ticket->fields.ticket;
  try {
    end.code = lock(*ticket, Until::kDeadline);
    if (end.code != QUIRE_OK) return end;
    end_work(false, ticket);  // what the ticket before could not end
    if (ticket->fields.kind == QUIRE_TICKET_STORE) store(ticket, &end);
    if (ticket->fields.kind == QUIRE_TICKET_LOAD) load(ticket, &end);
    if (ticket->fields.kind == QUIRE_TICKET_LOOKUP) look_up(ticket, &end);
    if (ticket->fields.kind == QUIRE_TICKET_REMOVE) remove(ticket, &end);
  } catch (const std::bad_alloc&) {  // for the list of chunks
    end.code = QUIRE_RESOURCE_EXHAUSTED;
    if (lock(*ticket, Until::kCancelled) == QUIRE_OK) {
      end_work(false, ticket);
      unlock();
    }
  }
  return end;
}

// These four are called with the lock held and return without it.

void Worker::store(Ticket* ticket, quire_completion* end) {
  const uint64_t bytes = ticket->fields.object_bytes;
  int64_t room_at = 0;
  const Begun begun = store_.begin_store(place_, key_of(*ticket, 0), bytes, ticket->use(0), monotonic_now(), &room_at);
  unlock();
  condition_.full_until = begun == Begun::kNoRoom ? room_at : 0;
  if (begun == Begun::kExists) end->flags = QUIRE_COMPLETION_EXISTED;
  if (begun == Begun::kNoRoom) end->code = QUIRE_RESOURCE_EXHAUSTED;
  if (begun != Begun::kYes) return;
  store_.list_chunks(place_->record, &chunks_);
  const bool whole = copy_runs(store_, {chunks_, ticket->runs(), Direction::kIntoObject}, ticket->cancelled);
  end->code = lock(*ticket, Until::kCancelled);
  if (end->code != QUIRE_OK) return;
  const bool published = end_work(whole, ticket);
  unlock();
  if (!whole) end->code = QUIRE_CANCELLED;
  if (published) end->bytes = bytes;
  if (whole && !published) end->flags = QUIRE_COMPLETION_EXISTED;
}

void Worker::load(Ticket* ticket, quire_completion* end) {
  const uint32_t record = store_.begin_load(place_, key_of(*ticket, 0), ticket->use(0));
  const bool fits = record != kNone && runs_fit(ticket->runs(), store_.record(record).object_bytes);
  if (record == kNone) end->code = QUIRE_NOT_FOUND;
  if (record != kNone && !fits) {
    end->code = QUIRE_OUT_OF_RANGE;
    end_work(false, ticket);
  }
  unlock();
  if (end->code != QUIRE_OK) return;
  store_.list_chunks(record, &chunks_);
  const bool all = copy_runs(store_, {chunks_, ticket->runs(), Direction::kFromObject}, ticket->cancelled);
  end->code = all ? QUIRE_OK : QUIRE_CANCELLED;
  end->bytes = all ? bytes_of(ticket->runs()) : 0;
  if (lock(*ticket, Until::kCancelled) != QUIRE_OK) return;  // the next ticket ends the work of the place
  end_work(false, ticket);
  unlock();
}

// From the last key to the first: each one is the most recent when it is touched.
void Worker::look_up(Ticket* ticket, quire_completion* end) {
  const bool leased = ticket->fields.lease_ns > 0 && ticket->fields.lease_ns <= kMaxLease;
  const int64_t until = leased ? monotonic_now() + ticket->fields.lease_ns : 0;
  for (uint64_t i = ticket->fields.num_keys; i-- > 0;) {
    const uint32_t found = store_.find(key_of(*ticket, i));
    ticket->fields.sizes[i] = found != kNone ? store_.record(found).object_bytes : 0;
    if (found == kNone) continue;
    ++end->num_found;
    store_.touch(found, ticket->use(i));
    if (leased) store_.lease(found, until);
  }
  unlock();
  if (leased && end->num_found != 0) end->flags = QUIRE_COMPLETION_LEASED;
}

void Worker::remove(Ticket* ticket, quire_completion* end) {
  if (!store_.remove(key_of(*ticket, 0))) end->code = QUIRE_NOT_FOUND;
  unlock();
  condition_.full_until = 0;
}

}  // namespace quire::host
