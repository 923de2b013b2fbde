#include "plugins/ucx/ucx_tickets.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "plugins/common/waiting.h"

namespace quire::ucx {
namespace {

void write_one(int fd) {
  const uint64_t one = 1;
  while (write(fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

void read_all(int fd) {
  uint64_t count = 0;
  while (read(fd, &count, sizeof count) < 0 && errno == EINTR) continue;
}

}  // namespace

Tickets::Tickets() {
  numbers_.reserve(kMaxTickets);  // later it could fail
  cancelled_.reserve(kMaxTickets);
}

Tickets::~Tickets() {
  if (fd_ >= 0) ::close(fd_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

Outcome Tickets::open() {
  for (int* const fd : {&fd_, &wake_fd_}) {
    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (*fd < 0) return {QUIRE_RESOURCE_EXHAUSTED, errno, "eventfd: " + plugins::error_text(errno)};
  }
  return {};
}

bool Tickets::submit(std::span<const quire_ticket> tickets, const quire_ticket_run* runs, const uint8_t* keys, uint64_t* accepted) {
  *accepted = 0;
  {
    const std::lock_guard guard(lock_);
    tickets = tickets.first(std::min<size_t>(tickets.size(), kMaxTickets - numbers_.size()));
  }
  std::vector<std::pair<Numbers::node_type, std::list<TicketRef>>> all;  // all that takes memory
  all.reserve(tickets.size());
  for (const quire_ticket& fields : tickets) {
    auto ticket = std::make_shared<Ticket>();
    ticket->fields = fields;
    if (fields.num_runs != 0) ticket->runs.assign(runs + fields.first_run, runs + fields.first_run + fields.num_runs);
    ticket->keys.assign(reinterpret_cast<const char*>(keys) + fields.key_offset, fields.num_keys * fields.key_bytes);
    if (fields.kind == QUIRE_TICKET_LOOKUP) ticket->sizes.assign(fields.num_keys, 0);
    Numbers one;
    one.emplace(fields.ticket, ticket);
    all.emplace_back(one.extract(one.begin()), std::list<TicketRef>{std::move(ticket)});
  }
  const std::lock_guard guard(lock_);
  for (auto& [number, ticket] : all) {
    if (numbers_.size() == kMaxTickets) return true;  // another thread has submitted meanwhile
    if (!numbers_.insert(std::move(number)).inserted) return false;
    fresh_.splice(fresh_.end(), ticket);
    if (fresh_.size() == 1) wake();
    ++*accepted;
  }
  return true;
}

bool Tickets::cancel(uint64_t number) {
  const std::lock_guard guard(lock_);
  if (!numbers_.contains(number)) return false;
  // So often that there is no memory for it, it was asked before.
  if (cancelled_.size() < kMaxTickets) cancelled_.push_back(number);
  wake();
  return true;
}

uint64_t Tickets::take_ends(std::span<quire_completion> items) {
  const std::lock_guard guard(lock_);
  const uint64_t n = std::min<uint64_t>(num_ends_, items.size());
  for (uint64_t i = 0; i < n; ++i) {
    items[i] = ends_[first_end_];
    first_end_ = (first_end_ + 1) % kMaxTickets;
    numbers_.erase(items[i].ticket);
  }
  num_ends_ -= n;
  if (num_ends_ != 0 || !is_readable_) return n;
  read_all(fd_);
  is_readable_ = false;
  return n;
}

uint64_t Tickets::poll(int64_t timeout_ns, std::span<quire_completion> items) {
  return plugins::poll_at(fd_, timeout_ns, items, [this](std::span<quire_completion> to) { return take_ends(to); });
}

void Tickets::close() {
  is_closed_.store(true, std::memory_order_release);
  wake();
}

void Tickets::wake() const { write_one(wake_fd_); }
void Tickets::drain() const { read_all(wake_fd_); }

// Both at one moment: who is cancelled was submitted before.
void Tickets::take(std::list<TicketRef>* fresh, std::vector<uint64_t>* cancelled) {
  const std::lock_guard guard(lock_);
  fresh->splice(fresh->end(), fresh_);
  cancelled->insert(cancelled->end(), cancelled_.begin(), cancelled_.end());
  cancelled_.clear();
}

void Tickets::take(std::list<TicketRef>* fresh) {
  const std::lock_guard guard(lock_);
  fresh->splice(fresh->end(), fresh_);
}

void Tickets::end(const Ticket& ticket, quire_completion completion) {
  const std::lock_guard guard(lock_);
  if (ticket.fields.kind == QUIRE_TICKET_LOOKUP && completion.code == QUIRE_OK) {
    std::copy(ticket.sizes.begin(), ticket.sizes.end(), ticket.fields.sizes);
    completion.num_found = ticket.sizes.size() - static_cast<uint64_t>(std::count(ticket.sizes.begin(), ticket.sizes.end(), 0));
    if (completion.num_found == 0) completion.flags = 0;
  }
  completion.ticket = ticket.fields.ticket;
  std::erase(cancelled_, completion.ticket);  // the next ticket of this number is not meant
  ends_[(first_end_ + num_ends_++) % kMaxTickets] = completion;
  if (!is_readable_) write_one(fd_);
  is_readable_ = true;
}

}  // namespace quire::ucx
