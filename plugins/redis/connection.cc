#include "plugins/redis/connection.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace quire::redis {
namespace {

constexpr size_t kDepth = 256;                        // parts in flight
constexpr uint64_t kWindowBytes = uint64_t{8} << 20;  // of them, but for a single one
constexpr size_t kMostVectors = 64;                   // sent at once, before the last exchange is added
constexpr size_t kMostSent = size_t{1} << 20;         // bytes, as well
constexpr int kReads = 8;                             // between two looks at what is overdue
constexpr int kSends = 8;                             // the same
constexpr int64_t kMostQuiet = 100'000;               // until ends are told
constexpr int64_t kGrace = 10'000'000;                // for a store that is being sent
constexpr int64_t kFullFor = 1'000'000'000;           // health, after a store was refused
constexpr int64_t kReadOnlyFor = 60 * kFullFor;

std::string lost_text(int error) { return error != 0 ? plugins::error_text(error) : "it closed the connection"; }

}  // namespace

WakeFd::WakeFd() : number_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

WakeFd::~WakeFd() {
  if (number_ >= 0) ::close(number_);
}

void WakeFd::drain() const {
  uint64_t count = 0;
  while (read(number_, &count, sizeof count) < 0 && errno == EINTR) continue;
}

Connection::Connection(const Config& config, Server* server, Tickets* tickets, Condition* condition, const Log* log)
    : config_(config),
      server_(*server),
      tickets_(*tickets),
      condition_(*condition),
      log_(*log),
      link_(config, server->address()),
      scratch_(new uint8_t[kScratchBytes]) {
  pipeline_.ends.reserve(2 * kDepth);  // later it could fail
  outgoing_.reserve(kMostVectors + 4 * kDepth);
}

Outcome Connection::open() {
  if (wake_.number() < 0) return {QUIRE_RESOURCE_EXHAUSTED, errno, "eventfd: " + plugins::error_text(errno)};
  tickets_.listen(server_.number(), wake_.number());
  return {};
}

void Connection::run() {
  while (!tickets_.is_closed()) {
    try {
      turn();
    } catch (const std::bad_alloc&) {
      lose({QUIRE_RESOURCE_EXHAUSTED, 0, ""}, log_.now());
    }
  }
  link_.close();
}

void Connection::leave() const {
  ::close(wake_.number());
  if (link_.fd() >= 0) ::close(link_.fd());
}

void Connection::turn() {
  const int64_t now = log_.now();
  next_wake_ = tickets_.expire(server_.number(), now);
  if (link_.state() != Link::State::kUp) connect(now);
  if (link_.state() == Link::State::kUp) stop_overdue(now);
  if (link_.state() == Link::State::kUp) {  // still
    pull(now);
    send(now);
    if (!pipeline_.asked.empty()) next_wake_ = std::min(next_wake_, progress_ + config_.timeout_ns);
  }
  wait(now);
  if (link_.state() == Link::State::kUp) receive(log_.now());
}

void Connection::connect(int64_t now) {
  if (link_.state() == Link::State::kClosed) {
    int64_t next = 0;
    if (!is_up_ && !server_.may_try(now, &next)) {
      next_wake_ = std::min(next_wake_, next);
      return;
    }
    begun_ = now;
    if (const Outcome outcome = link_.begin(); !outcome.ok()) return lose(outcome, now);
  }
  if (const Outcome outcome = link_.advance(); !outcome.ok()) return lose(outcome, now);
  if (link_.state() == Link::State::kUp) {
    if (!is_up_) server_.up();
    is_up_ = true;
    progress_ = now;
    return;
  }
  const int64_t limit = begun_ + config_.connect_timeout_ns;
  if (now >= limit) return lose({QUIRE_UNAVAILABLE, 0, "it does not answer within connect_timeout_ms"}, now);
  next_wake_ = std::min(next_wake_, limit);
}

void Connection::pull(int64_t now) {
  while (pipeline_.asked.size() < kDepth && pipeline_.weight < kWindowBytes) {
    std::unique_ptr<Part> part = tickets_.take(server_.number());
    if (part == nullptr) return;
    const bool is_late = part->is_overdue(now);
    if (is_late || part->ticket->is_cancelled.load(std::memory_order_acquire)) {
      end(std::move(part->ticket), is_late ? QUIRE_DEADLINE_EXCEEDED : QUIRE_CANCELLED);
    } else {
      add(std::move(part));
    }
    if (pipeline_.ends.size() >= kDepth) tickets_.end(&pipeline_.ends);
  }
}

void Connection::add(std::unique_ptr<Part> part) {
  const std::shared_ptr<Ticket> ticket = part->ticket;
  if (pipeline_.asked.empty()) progress_ = log_.now();
  try {
    auto exchange = std::make_unique<Exchange>(std::move(part), config_, link_.never_evicts());
    const uint64_t weight = exchange->weight();
    pipeline_.asked.push_back(std::move(exchange));
    pipeline_.weight += weight;
    if (ticket->fields.deadline_ns != -1) next_wake_ = std::min(next_wake_, ticket->fields.deadline_ns);
  } catch (const std::bad_alloc&) {
    end(ticket, QUIRE_RESOURCE_EXHAUSTED);
  }
}

void Connection::end(std::shared_ptr<Ticket> ticket, quire_code code) {
  PartEnd end;
  end.ticket = std::move(ticket);
  end.code = code;
  pipeline_.ends.push_back(std::move(end));
}

void Connection::put_back(std::unique_ptr<Part> part) {
  try {
    tickets_.put_back(&part);
  } catch (const std::bad_alloc&) {
    end(std::move(part->ticket), QUIRE_RESOURCE_EXHAUSTED);
  }
}

void Connection::send(int64_t now) {
  for (int i = 0; i < kSends && link_.state() == Link::State::kUp; ++i) {
    if (pipeline_.num_sent == pipeline_.asked.size() && !link_.holds_bytes()) return;
    if (!send_once(now)) return;
  }
}

// False: the server takes no more for now.
bool Connection::send_once(int64_t now) {
  outgoing_.clear();
  size_t bytes = 0;
  bool goes_on = true;
  for (size_t i = pipeline_.num_sent; goes_on && i < pipeline_.asked.size() && outgoing_.size() < kMostVectors && bytes < kMostSent; ++i) {
    const size_t before = outgoing_.size();
    goes_on = pipeline_.asked[i]->outgoing(&outgoing_, scratch_);
    size_t own = 0;
    for (size_t v = before; v < outgoing_.size(); ++v) own += outgoing_[v].iov_len;
    goes_on = goes_on && pipeline_.asked[i]->unsent() == own;
    bytes += own;
  }
  const ssize_t n = link_.send(outgoing_);
  if (n < 0) {
    lose({QUIRE_UNAVAILABLE, errno, lost_text(errno)}, now);
    return false;
  }
  if (n > 0) progress_ = now;
  for (size_t left = static_cast<size_t>(n); pipeline_.num_sent < pipeline_.asked.size();) {
    Exchange& exchange = *pipeline_.asked[pipeline_.num_sent];
    left = exchange.sent(left);
    if (!exchange.is_sent()) break;
    ++pipeline_.num_sent;
  }
  return static_cast<size_t>(n) == bytes && bytes != 0;
}

void Connection::receive(int64_t now) {
  has_more_ = false;
  for (int i = 0; i < kReads; ++i) {
    const Inbox::Got got = inbox_.read(&link_, &pipeline_, scratch_);
    const int error = errno;
    const uint64_t answers = pipeline_.num_answers;
    pipeline_.take_answered([&](Exchange* exchange) { look_at(exchange, now); });
    if (pipeline_.num_answers != answers) server_.works();
    if (got == Inbox::Got::kNothing) return;
    if (got == Inbox::Got::kNonsense) return lose({QUIRE_UNAVAILABLE, 0, "it answers what was not asked for"}, now);
    // Servers close connections that nobody uses.
    if (got == Inbox::Got::kLost && pipeline_.asked.empty() && pipeline_.num_answers != 0) return start_again(now);
    if (got == Inbox::Got::kLost) return lose({QUIRE_UNAVAILABLE, error, lost_text(error)}, now);
    progress_ = now;
    if (got == Inbox::Got::kAll) return;
  }
  has_more_ = true;
}

void Connection::look_at(Exchange* answered, int64_t now) {
  if (answered->needs_one_range()) {
    std::unique_ptr<Part> part = answered->give_back();
    part->is_one_range = true;
    return put_back(std::move(part));
  }
  const std::string_view text = answered->complaint();
  if (text.empty()) return;
  if (text.starts_with("OOM")) condition_.full_until.store(now + kFullFor, std::memory_order_relaxed);
  if (text.starts_with("READONLY")) condition_.read_only_until.store(now + kReadOnlyFor, std::memory_order_relaxed);
  server_.complain(text);
}

void Connection::stop_overdue(int64_t now) {
  bool is_stuck = false;
  for (size_t i = 0; i < pipeline_.asked.size();) {
    const Part* const part = pipeline_.asked[i]->part();
    const size_t before = pipeline_.asked.size();
    if (part != nullptr) {
      const bool is_late = part->is_overdue(now);
      if (!is_late && part->ticket->fields.deadline_ns != -1) next_wake_ = std::min(next_wake_, part->ticket->fields.deadline_ns);
      if (is_late || part->ticket->is_cancelled.load(std::memory_order_acquire)) is_stuck = stop(i, is_late, now) || is_stuck;
    }
    if (pipeline_.asked.size() == before) ++i;
  }
  if (is_stuck) return start_again(now);
  if (pipeline_.asked.empty()) return;
  if (now >= progress_ + config_.timeout_ns)
    lose({QUIRE_UNAVAILABLE, 0, "it has sent and taken nothing for timeout_ms while an answer is due"}, now);
}

// True: it has to end now, and only closing the connection ends it.
bool Connection::stop(size_t i, bool is_late, int64_t now) {
  Exchange& exchange = *pipeline_.asked[i];
  const quire_code code = is_late ? QUIRE_DEADLINE_EXCEEDED : QUIRE_CANCELLED;
  if (!exchange.has_begun()) {
    pipeline_.weight -= exchange.weight();
    pipeline_.ends.push_back(exchange.end(code));
    pipeline_.asked.erase(pipeline_.asked.begin() + static_cast<ptrdiff_t>(i));
    return false;
  }
  if (exchange.can_stop(is_late)) {
    pipeline_.ends.push_back(exchange.end(code));
    return false;
  }
  if (exchange.is_sent()) return false;  // the answer says what became of it
  const int64_t end_by = exchange.end_by(now, kGrace);
  next_wake_ = std::min(next_wake_, end_by);
  return now >= end_by;
}

// Ends are told when nothing is to be read right now, or when they are some time old: to wake whoever polls costs more than a short answer.
void Connection::wait(int64_t now) {
  pollfd files[2] = {{wake_.number(), POLLIN, 0}, {link_.fd(), 0, 0}};
  files[1].events = link_.awaited();
  if (link_.state() == Link::State::kUp && pipeline_.num_sent < pipeline_.asked.size()) files[1].events |= POLLOUT;
  const nfds_t count = link_.fd() >= 0 ? 2 : 1;
  timespec rest = {};
  if (pipeline_.ends.empty()) {
    quiet_since_ = now;
  } else if (now - quiet_since_ < kMostQuiet && pipeline_.ends.size() < kDepth) {
    if (ppoll(files, count, &rest, nullptr) > 0 && (files[1].revents & POLLIN) != 0) return;
  }
  tickets_.end(&pipeline_.ends);
  const int64_t left = has_more_ ? 0 : std::max<int64_t>(0, next_wake_ - std::min(now, next_wake_));
  rest = {left / 1'000'000'000, left % 1'000'000'000};
  ppoll(files, count, next_wake_ != INT64_MAX || has_more_ ? &rest : nullptr, nullptr);
  if (files[0].revents != 0) wake_.drain();
}

void Connection::lose(const Outcome& outcome, int64_t now) {
  link_.close();
  server_.failed(outcome, now, std::exchange(is_up_, false));
  for (const auto& exchange : pipeline_.asked) {
    if (exchange->part() == nullptr) continue;
    if (exchange->has_begun()) {
      pipeline_.ends.push_back(exchange->end(outcome.code));
    } else {
      put_back(exchange->give_back());
    }
  }
  forget_link();
}

void Connection::start_again(int64_t now) {
  link_.close();
  for (const auto& exchange : pipeline_.asked) {
    const Part* const part = exchange->part();
    if (part == nullptr) continue;
    const bool is_late = part->is_overdue(now);
    if (is_late || part->ticket->is_cancelled.load(std::memory_order_acquire)) {
      pipeline_.ends.push_back(exchange->end(is_late ? QUIRE_DEADLINE_EXCEEDED : QUIRE_CANCELLED));
      continue;
    }
    const bool has_begun = exchange->has_begun();
    std::unique_ptr<Part> own = exchange->give_back();
    own->is_again = own->is_again || has_begun;
    put_back(std::move(own));
  }
  forget_link();
  next_wake_ = now;
}

void Connection::forget_link() {
  inbox_.clear();
  pipeline_.asked.clear();
  pipeline_.weight = 0;
  pipeline_.num_sent = 0;
  pipeline_.num_answers = 0;
  has_more_ = false;
  tickets_.end(&pipeline_.ends);
}

}  // namespace quire::redis
