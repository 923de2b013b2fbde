#include "plugins/mooncake/mooncake_tickets.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "plugins/common/waiting.h"

namespace quire::mooncake {
namespace {

using plugins::monotonic;

constexpr int64_t kFirstPause = 50'000'000;
constexpr int64_t kMostPause = 5'000'000'000;
// Deadlines are on the clock of the host, which need not be that of this machine.
constexpr int64_t kMostWatchPause = 100'000'000;
constexpr int64_t kLeastWatchPause = 1'000'000;

}  // namespace

Ends::~Ends() {
  if (fd_ >= 0) ::close(fd_);
}

Outcome Ends::open() {
  fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd_ < 0) return {QUIRE_RESOURCE_EXHAUSTED, errno, "eventfd: " + plugins::error_text(errno)};
  return {};
}

void Ends::put(const quire_completion& end) {
  ring_[(first_ + count_++) % kMaxTickets] = end;
  if (is_readable_) return;
  is_readable_ = true;
  const uint64_t one = 1;
  while (write(fd_, &one, sizeof one) < 0 && errno == EINTR) continue;
}

uint64_t Ends::take(std::span<quire_completion> items) {
  const uint64_t n = std::min<uint64_t>(count_, items.size());
  for (uint64_t i = 0; i < n; ++i) items[i] = ring_[(first_ + i) % kMaxTickets];
  first_ = (first_ + n) % kMaxTickets;
  count_ -= n;
  if (count_ != 0 || !is_readable_) return n;
  uint64_t written = 0;
  while (read(fd_, &written, sizeof written) < 0 && errno == EINTR) continue;
  is_readable_ = false;
  return n;
}

bool Tickets::Sooner::operator()(const TicketPtr& a, const TicketPtr& b) const {
  if (a->fields.priority != b->fields.priority) return a->fields.priority > b->fields.priority;
  return a->sequence < b->sequence;
}

Tickets::Tickets(const quire_host_api& host, const Config& config) : host_(host), config_(config), workers_(config.threads) {
  numbers_.reserve(kMaxTickets);  // later it could fail
}

// All that takes memory.
Tickets::Prepared Tickets::prepare(const quire_ticket& fields, const quire_ticket_run* runs, const uint8_t* keys) {
  auto ticket = std::make_shared<Ticket>();
  ticket->fields = fields;
  if (fields.num_runs != 0) ticket->runs.assign(runs + fields.first_run, runs + fields.first_run + fields.num_runs);
  ticket->keys.assign(reinterpret_cast<const char*>(keys) + fields.key_offset, fields.num_keys * fields.key_bytes);
  if (fields.kind == QUIRE_TICKET_LOOKUP) ticket->sizes.assign(fields.num_keys, 0);
  Prepared prepared;
  Waiting waiting;
  waiting.insert(ticket);
  prepared.waiting = waiting.extract(waiting.begin());
  Numbers numbers;
  numbers.emplace(fields.ticket, std::move(ticket));
  prepared.number = numbers.extract(numbers.begin());
  return prepared;
}

bool Tickets::submit(std::span<const quire_ticket> tickets, const quire_ticket_run* runs, const uint8_t* keys, uint64_t* accepted) {
  *accepted = 0;
  {
    const std::lock_guard guard(lock_);
    tickets = tickets.first(std::min<size_t>(tickets.size(), kMaxTickets - numbers_.size()));
  }
  std::vector<Prepared> all;
  all.reserve(tickets.size());
  for (const quire_ticket& fields : tickets) all.push_back(prepare(fields, runs, keys));
  const std::lock_guard guard(lock_);
  const quire_code refused = refusal(monotonic());
  for (Prepared& one : all) {
    if (numbers_.size() == kMaxTickets) return true;  // another thread has submitted meanwhile
    const TicketPtr ticket = one.number.mapped();
    if (!numbers_.insert(std::move(one.number)).inserted) return false;
    ticket->sequence = sequence_++;
    ++*accepted;
    if (refused != QUIRE_OK) {
      end_locked(ticket.get(), is_overdue(*ticket) ? QUIRE_DEADLINE_EXCEEDED : refused, 0, 0);
      continue;
    }
    waiting_.insert(std::move(one.waiting));
    work_.notify_one();
    if (ticket->fields.deadline_ns != -1) watch_from(own_time(ticket->fields.deadline_ns));
  }
  return true;
}

// A time of the host's clock, of this connector's.
int64_t Tickets::own_time(int64_t host_time) const {
  int64_t time = 0;
  return __builtin_add_overflow(monotonic(), host_time - host_now(), &time) ? INT64_MAX : time;
}

bool Tickets::is_overdue(const Ticket& ticket) const { return ticket.fields.deadline_ns != -1 && ticket.fields.deadline_ns <= host_now(); }

// What a ticket that waits ends with at once. OK: nothing.
quire_code Tickets::refusal(int64_t now) const {
  if (!state_.ok()) return state_.code;
  const bool all_stuck =
      std::all_of(workers_.begin(), workers_.end(), [&](const Worker& worker) { return worker.call_ends != 0 && worker.call_ends <= now; });
  return all_stuck ? QUIRE_UNAVAILABLE : QUIRE_OK;
}

bool Tickets::is_down() {
  const std::lock_guard guard(lock_);
  return refusal(monotonic()) != QUIRE_OK;
}

void Tickets::end_locked(Ticket* ticket, quire_code code, uint32_t flags, uint64_t bytes) {
  quire_completion end = {};
  end.ticket = ticket->fields.ticket;
  end.code = code;
  end.bytes = bytes;
  if (ticket->fields.kind == QUIRE_TICKET_LOOKUP && code == QUIRE_OK) {
    std::copy(ticket->sizes.begin(), ticket->sizes.end(), ticket->fields.sizes);
    end.num_found = ticket->sizes.size() - static_cast<uint64_t>(std::count(ticket->sizes.begin(), ticket->sizes.end(), 0));
    if (end.num_found == 0) flags = 0;
  }
  end.flags = flags;
  ticket->state = Ticket::State::kEnded;
  ends_.put(end);
}

template <typename Choice>
void Tickets::end_waiting(quire_code code, Choice choose) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (!choose(**at)) {
      ++at;
      continue;
    }
    end_locked(at->get(), code, 0, 0);
    at = waiting_.erase(at);
  }
}

bool Tickets::cancel(uint64_t number) {
  const std::lock_guard guard(lock_);
  const auto found = numbers_.find(number);
  if (found == numbers_.end()) return false;
  const TicketPtr ticket = found->second;
  ticket->is_cancelled = true;
  if (ticket->state == Ticket::State::kWaits) {
    waiting_.erase(ticket);
    end_locked(ticket.get(), QUIRE_CANCELLED, 0, 0);
  } else if (ticket->state == Ticket::State::kCalls && !ticket->is_changing) {
    end_locked(ticket.get(), QUIRE_CANCELLED, 0, 0);
  }
  return true;
}

uint64_t Tickets::take_ends(std::span<quire_completion> items) {
  const std::lock_guard guard(lock_);
  const uint64_t n = ends_.take(items);
  for (const quire_completion& end : items.first(n)) numbers_.erase(end.ticket);
  return n;
}

uint64_t Tickets::poll(int64_t timeout_ns, std::span<quire_completion> items) {
  return plugins::poll_at(ends_.fd(), timeout_ns, items, [this](std::span<quire_completion> to) { return take_ends(to); });
}

// Whether a worker is storing or removing the object, so that another store of it has to wait: what the library answers does not say which
// of two stores wrote.
bool Tickets::has_store_of_key(const Ticket& ticket) const {
  if (!ticket.is_change()) return false;
  return std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
    const Ticket* const other = worker.ticket.get();
    return other != nullptr && other->state != Ticket::State::kEnded && other->is_change() && other->keys == ticket.keys;
  });
}

Task Tickets::next(uint32_t number) {
  std::unique_lock guard(lock_);
  Worker& worker = workers_[number];
  // Stores of the same key may wait for the ticket, and all tickets for a worker.
  if (worker.ticket != nullptr) work_.notify_all();
  worker = {};
  while (true) {
    const int64_t now = monotonic();
    if (is_closed_) return {};
    if (!state_.ok() && !is_trying_ && next_try_ <= now) {
      is_trying_ = true;
      return {Task::Kind::kTry, nullptr};
    }
    const auto free = std::find_if(waiting_.begin(), waiting_.end(), [&](const TicketPtr& ticket) { return !has_store_of_key(*ticket); });
    if (free != waiting_.end()) {
      worker.ticket = *free;
      waiting_.erase(free);
      worker.ticket->state = Ticket::State::kCalls;
      return {Task::Kind::kTicket, worker.ticket};
    }
    work_.wait(guard);
  }
}

// Before more is done for it.
bool Tickets::ends_here(Ticket* ticket) {
  if (ticket->state == Ticket::State::kEnded) return true;
  const quire_code code = ticket->is_cancelled ? QUIRE_CANCELLED : is_overdue(*ticket) ? QUIRE_DEADLINE_EXCEEDED : QUIRE_OK;
  if (code == QUIRE_OK) return false;
  end_locked(ticket, code, 0, 0);
  quiet_.notify_all();
  return true;
}

bool Tickets::may_call(uint32_t worker, Ticket* ticket, bool changes) {
  const std::lock_guard guard(lock_);
  if (ends_here(ticket)) return false;
  ticket->state = Ticket::State::kCalls;
  ticket->is_changing = changes;
  workers_[worker].call_ends = monotonic() + config_.timeout_ns;
  watch_from(workers_[worker].call_ends);
  if (ticket->fields.deadline_ns != -1) watch_from(own_time(ticket->fields.deadline_ns));
  return true;
}

bool Tickets::may_copy(uint32_t worker, Ticket* ticket) {
  const std::lock_guard guard(lock_);
  if (ends_here(ticket)) return false;
  ticket->state = Ticket::State::kCopies;
  workers_[worker].call_ends = 0;
  return true;
}

void Tickets::end(Ticket* ticket, quire_code code, uint32_t flags, uint64_t bytes) {
  const std::lock_guard guard(lock_);
  if (ticket->state == Ticket::State::kEnded) return;
  end_locked(ticket, code, flags, bytes);
  quiet_.notify_all();
}

void Tickets::lost(const Outcome& outcome) {
  const std::lock_guard guard(lock_);
  if (!state_.ok()) return;
  Outcome state = outcome;
  say_locked(QUIRE_LOG_WARN, "the store is lost: " + outcome.text);
  state_ = std::move(state);
  next_try_ = 0;
  pause_ = 0;
  end_waiting(outcome.code, [](const Ticket&) { return true; });
  work_.notify_one();
}

void Tickets::tried(const Outcome& outcome) {
  const std::lock_guard guard(lock_);
  is_trying_ = false;
  if (outcome.ok() && was_tried_) say_locked(QUIRE_LOG_INFO, "the store is back");
  was_tried_ = true;
  state_ = outcome;
  pause_ = outcome.ok() ? 0 : std::clamp(2 * pause_, kFirstPause, kMostPause);
  next_try_ = monotonic() + pause_;
  if (!outcome.ok()) end_waiting(outcome.code, [](const Ticket&) { return true; });
  quiet_.notify_all();
  watch_from(next_try_);
}

Outcome Tickets::await_first_try() {
  std::unique_lock guard(lock_);
  if (!quiet_.wait_for(guard, std::chrono::nanoseconds(config_.connect_timeout_ns), [&] { return was_tried_; })) {
    return {QUIRE_UNAVAILABLE, 0,
            "the store with master " + config_.master + " was not set up within " + std::to_string(config_.connect_timeout_ns / 1'000'000) +
                " ms; see config field connect_timeout_ms"};
  }
  return state_;
}

// Calls that have taken too long, and tickets in calls whose deadline has passed.
void Tickets::end_calls(int64_t now) {
  for (const Worker& worker : workers_) {
    Ticket* const ticket = worker.ticket.get();
    if (ticket == nullptr || ticket->state != Ticket::State::kCalls) continue;
    if (is_overdue(*ticket)) {
      end_locked(ticket, QUIRE_DEADLINE_EXCEEDED, 0, 0);
    } else if (worker.call_ends != 0 && worker.call_ends <= now) {
      end_locked(ticket, ticket->is_cancelled ? QUIRE_CANCELLED : QUIRE_UNAVAILABLE, 0, 0);
      say_locked(QUIRE_LOG_WARN, "a call of Mooncake's library takes longer than timeout_ms; its staging memory waits for it");
    }
  }
}

int64_t Tickets::pause_of_watch(int64_t now) const {
  int64_t pause = kMostPause;
  const int64_t host = host_now();
  const auto look_at = [&](const Ticket& ticket) {
    if (ticket.fields.deadline_ns == -1) return;
    pause = std::min({pause, kMostWatchPause, std::max<int64_t>(ticket.fields.deadline_ns - host, 0)});
  };
  for (const TicketPtr& ticket : waiting_) look_at(*ticket);
  for (const Worker& worker : workers_) {
    if (worker.ticket != nullptr && worker.ticket->state == Ticket::State::kCalls) look_at(*worker.ticket);
    if (worker.call_ends > now) pause = std::min(pause, worker.call_ends - now);
  }
  if (!state_.ok() && !is_trying_) pause = std::min(pause, std::max<int64_t>(next_try_ - now, 0));
  return pause;
}

// The watch has something to do then.
void Tickets::watch_from(int64_t time) {
  if (time < watch_until_) watch_.notify_one();
}

void Tickets::watch() {
  std::unique_lock guard(lock_);
  while (!is_closed_) {
    const int64_t now = monotonic();
    end_waiting(QUIRE_DEADLINE_EXCEEDED, [&](const Ticket& ticket) { return is_overdue(ticket); });
    end_calls(now);
    if (const quire_code code = refusal(now); code != QUIRE_OK) end_waiting(code, [](const Ticket&) { return true; });
    if (!state_.ok() && !is_trying_ && next_try_ <= now) work_.notify_one();
    // At least a moment: a worker that was woken needs one to take what is due.
    const int64_t pause = std::max(pause_of_watch(now), kLeastWatchPause);
    watch_until_ = now + pause;
    watch_.wait_for(guard, std::chrono::nanoseconds(pause));
  }
}

void Tickets::close() {
  std::unique_lock guard(lock_);
  is_closed_ = true;
  for (const auto& [number, ticket] : numbers_) ticket->is_cancelled = true;
  end_waiting(QUIRE_CANCELLED, [](const Ticket&) { return true; });
  for (const Worker& worker : workers_) {
    if (worker.ticket != nullptr && worker.ticket->state == Ticket::State::kCalls) end_locked(worker.ticket.get(), QUIRE_CANCELLED, 0, 0);
  }
  work_.notify_all();
  watch_.notify_all();
  quiet_.wait(guard, [&] {
    return std::none_of(workers_.begin(), workers_.end(),
                        [](const Worker& worker) { return worker.ticket != nullptr && worker.ticket->state == Ticket::State::kCopies; });
  });
}

bool Tickets::await_workers(uint32_t workers, int64_t timeout_ns) {
  std::unique_lock guard(lock_);
  return quiet_.wait_for(guard, std::chrono::nanoseconds(timeout_ns), [&] { return num_left_ == workers; });
}

void Tickets::left() {
  const std::lock_guard guard(lock_);
  ++num_left_;
  quiet_.notify_all();
}

void Tickets::say(quire_log_level level, std::string_view text) {
  const std::lock_guard guard(lock_);
  say_locked(level, text);
}

void Tickets::say_locked(quire_log_level level, std::string_view text) const {
  constexpr std::string_view kComponent = "connector:mooncake";
  if (is_closed_ || host_.log == nullptr) return;
  host_.log(host_.user, level, {kComponent.data(), kComponent.size()}, {text.data(), text.size()});
}

}  // namespace quire::mooncake
