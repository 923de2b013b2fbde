#include "plugins/host/host_tickets.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "plugins/common/waiting.h"
#include "plugins/host/host_pieces.h"

namespace quire::host {
namespace {

constexpr int64_t kMostQuiet = 50'000;  // nanoseconds

// So that others need not wait for it.
bool is_short(const Ticket& ticket) { return bytes_of(ticket.runs()) <= uint64_t{256} * 1024 && ticket.fields.num_keys <= 1000; }

quire_completion ended(const Ticket& ticket, quire_code code) {
  quire_completion completion{};
  completion.ticket = ticket.fields.ticket;
  completion.code = code;
  return completion;
}

// The parts of the caller's arrays that these tickets name.
std::shared_ptr<Submission> copied(std::span<const quire_ticket> tickets, const quire_ticket_run* runs, const uint8_t* keys) {
  auto submission = std::make_shared<Submission>();
  uint64_t first_run = UINT64_MAX, end_run = 0, first_byte = UINT64_MAX, end_byte = 0;
  for (const quire_ticket& t : tickets) {
    if (t.num_runs != 0) {
      first_run = std::min(first_run, t.first_run);
      end_run = std::max(end_run, t.first_run + t.num_runs);
    }
    first_byte = std::min(first_byte, t.key_offset);
    end_byte = std::max(end_byte, t.key_offset + t.num_keys * t.key_bytes);
  }
  if (end_run != 0) {
    submission->first_run = first_run;
    submission->runs.assign(runs + first_run, runs + end_run);
  }
  submission->first_key_byte = first_byte;
  submission->keys.assign(keys + first_byte, keys + end_byte);
  return submission;
}

}  // namespace

std::span<const quire_ticket_run> Ticket::runs() const {
  return std::span(submission->runs).subspan(fields.first_run - submission->first_run, fields.num_runs);
}

const uint8_t* Ticket::key(uint64_t i) const {
  return submission->keys.data() + (fields.key_offset - submission->first_key_byte) + i * fields.key_bytes;
}

struct Tickets::Spare {
  std::vector<Waiting::node_type> waiting;
  std::vector<Deadlines::node_type> deadlines;
  std::vector<Numbers::node_type> numbers;
};

bool Tickets::Sooner::operator()(const Ticket* a, const Ticket* b) const {
  if (a->fields.priority != b->fields.priority) return a->fields.priority > b->fields.priority;
  return a->sequence < b->sequence;
}

bool Tickets::Earlier::operator()(const Ticket* a, const Ticket* b) const {
  if (a->fields.deadline_ns != b->fields.deadline_ns) return a->fields.deadline_ns < b->fields.deadline_ns;
  return a->sequence < b->sequence;
}

Tickets::Tickets() : all_(new Ticket[kMaxInFlight]), spare_(new Spare), ends_(kMaxInFlight) {
  free_.reserve(kMaxInFlight);
  spare_->waiting.reserve(kMaxInFlight);
  spare_->deadlines.reserve(kMaxInFlight);
  spare_->numbers.reserve(kMaxInFlight);
  numbers_.reserve(kMaxInFlight);
  for (uint32_t i = 0; i < kMaxInFlight; ++i) {
    Ticket* const ticket = &all_[kMaxInFlight - 1 - i];
    free_.push_back(ticket);
    waiting_.insert(ticket);
    spare_->waiting.push_back(waiting_.extract(waiting_.begin()));
    deadlines_.insert(ticket);
    spare_->deadlines.push_back(deadlines_.extract(deadlines_.begin()));
    numbers_.emplace(0, ticket);
    spare_->numbers.push_back(numbers_.extract(numbers_.begin()));
  }
}

Tickets::~Tickets() {
  if (fd_ >= 0) ::close(fd_);
}

int Tickets::open() {
  fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return fd_ < 0 ? errno : 0;
}

uint64_t Tickets::submit(std::span<const quire_ticket> tickets, const quire_ticket_run* runs, const uint8_t* keys,
                         std::atomic<uint64_t>* next_use, bool* doubled) {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    tickets = tickets.first(std::min(tickets.size(), free_.size()));
  }
  *doubled = false;
  if (tickets.empty()) return 0;
  const auto submission = copied(tickets, runs, keys);
  uint64_t uses = 0;
  for (const quire_ticket& t : tickets) uses += t.num_keys;
  uint64_t use = next_use->fetch_add(uses, std::memory_order_relaxed) + uses;
  uint64_t accepted = 0;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    while (accepted < tickets.size() && !free_.empty()) {  // another thread may have taken places meanwhile
      const quire_ticket& t = tickets[accepted];
      *doubled = numbers_.contains(t.ticket);
      if (*doubled) break;
      accept(t, submission, use -= t.num_keys);
      ++accepted;
    }
  }
  calls_.fetch_add(1);
  accepted == 1 ? calls_.notify_one() : calls_.notify_all();
  return accepted;
}

void Tickets::accept(const quire_ticket& fields, const Shared& submission, uint64_t first_use) {
  Ticket* const ticket = free_.back();
  free_.pop_back();
  ticket->fields = fields;
  ticket->submission = submission;
  ticket->first_use = first_use;
  ticket->sequence = sequence_++;
  ticket->state = Ticket::kWaits;
  ticket->cancelled.store(false, std::memory_order_relaxed);
  const auto insert = [](auto& into, auto& from, auto value) {
    auto node = std::move(from.back());
    from.pop_back();
    node.value() = value;
    into.insert(std::move(node));
  };
  insert(waiting_, spare_->waiting, ticket);
  if (fields.deadline_ns != -1) insert(deadlines_, spare_->deadlines, ticket);
  auto node = std::move(spare_->numbers.back());
  spare_->numbers.pop_back();
  node.key() = fields.ticket;
  node.mapped() = ticket;
  numbers_.insert(std::move(node));
}

void Tickets::stop_waiting(Ticket* ticket) {
  spare_->waiting.push_back(waiting_.extract(ticket));
  if (ticket->fields.deadline_ns != -1) spare_->deadlines.push_back(deadlines_.extract(ticket));
}

void Tickets::end_locked(Ticket* ticket, const quire_completion& completion) {
  ticket->state = Ticket::kEnded;
  ticket->submission.reset();
  ends_[(first_end_ + num_ends_) % kMaxInFlight] = completion;
  ++num_ends_;
}

void Tickets::announce() {
  quiet_since_ = 0;
  if (readable_ || num_ends_ == 0) return;
  readable_ = true;
  const uint64_t one = 1;
  while (write(fd_, &one, sizeof one) < 0 && errno == EINTR) continue;
}

void Tickets::end(Ticket* ticket, const quire_completion& completion) {
  const std::lock_guard<std::mutex> guard(lock_);
  end_locked(ticket, completion);
  if (readable_) return;
  const int64_t now = plugins::monotonic();
  if (quiet_since_ == 0) quiet_since_ = now;
  if (waiting_.empty() || now - quiet_since_ >= kMostQuiet) announce();
}

void Tickets::expire(int64_t now) {
  while (!deadlines_.empty() && (*deadlines_.begin())->fields.deadline_ns <= now) {
    Ticket* const ticket = *deadlines_.begin();
    stop_waiting(ticket);
    end_locked(ticket, ended(*ticket, QUIRE_DEADLINE_EXCEEDED));
    announce();
  }
}

void Tickets::look_around(int64_t now) {
  const std::lock_guard<std::mutex> guard(lock_);
  expire(now);
  announce();
}

bool Tickets::cancel(uint64_t number) {
  const std::lock_guard<std::mutex> guard(lock_);
  const auto found = numbers_.find(number);
  if (found == numbers_.end()) return false;
  Ticket* const ticket = found->second;
  ticket->cancelled.store(true, std::memory_order_relaxed);
  if (ticket->state != Ticket::kWaits) return true;
  stop_waiting(ticket);
  end_locked(ticket, ended(*ticket, QUIRE_CANCELLED));
  announce();
  return true;
}

Ticket* Tickets::next(const quire_host_api& host) {
  while (true) {
    const int seen = calls_.load();  // before the look at what waits
    const int64_t now = host.now(host.user);
    {
      const std::lock_guard<std::mutex> guard(lock_);
      if (closed()) return nullptr;
      expire(now);
      if (!waiting_.empty()) {
        Ticket* const ticket = *waiting_.begin();
        stop_waiting(ticket);
        ticket->state = Ticket::kRuns;
        if (!is_short(*ticket)) announce();
        return ticket;
      }
      announce();
    }
    calls_.wait(seen);
  }
}

uint64_t Tickets::take(std::span<quire_completion> items) {
  const std::lock_guard<std::mutex> guard(lock_);
  const uint64_t n = std::min<uint64_t>(num_ends_, items.size());
  for (uint64_t i = 0; i < n; ++i) {
    items[i] = ends_[first_end_];
    first_end_ = (first_end_ + 1) % kMaxInFlight;
    const auto number = numbers_.find(items[i].ticket);
    free_.push_back(number->second);
    number->second->state = Ticket::kFree;
    spare_->numbers.push_back(numbers_.extract(number));
  }
  num_ends_ -= n;
  if (num_ends_ != 0) return n;
  quiet_since_ = 0;
  uint64_t written = 0;
  while (readable_ && read(fd_, &written, sizeof written) < 0 && errno == EINTR) continue;
  readable_ = false;
  return n;
}

uint64_t Tickets::poll(int64_t timeout_ns, std::span<quire_completion> items) {
  return plugins::poll_at(fd_, timeout_ns, items, [this](std::span<quire_completion> to) { return take(to); });
}

void Tickets::close() {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    closed_.store(true, std::memory_order_relaxed);
    for (uint32_t i = 0; i < kMaxInFlight; ++i) all_[i].cancelled.store(true, std::memory_order_relaxed);
  }
  calls_.fetch_add(1);
  calls_.notify_all();
}

}  // namespace quire::host
