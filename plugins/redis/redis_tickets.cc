#include "plugins/redis/redis_tickets.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "plugins/common/waiting.h"

namespace quire::redis {
namespace {

void write_one(int fd) {
  const uint64_t one = 1;
  while (write(fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

}  // namespace

bool Tickets::Sooner::operator()(const std::unique_ptr<Part>& a, const std::unique_ptr<Part>& b) const {
  if (a->ticket->fields.priority != b->ticket->fields.priority) return a->ticket->fields.priority > b->ticket->fields.priority;
  return a->ticket->sequence < b->ticket->sequence;
}

Tickets::Tickets(const Config& config) : shards_(config.servers), servers_(config.servers.size()) {
  numbers_.reserve(kMaxTickets);  // later it could fail
}

Tickets::~Tickets() {
  if (fd_ >= 0) ::close(fd_);
}

Outcome Tickets::open() {
  fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd_ < 0) return {QUIRE_RESOURCE_EXHAUSTED, errno, "eventfd: " + plugins::error_text(errno)};
  return {};
}

// All that takes memory.
Tickets::Prepared Tickets::prepare(const quire_ticket& fields, const quire_ticket_run* runs, const uint8_t* keys) const {
  auto ticket = std::make_shared<Ticket>();
  ticket->fields = fields;
  if (fields.num_runs != 0) ticket->runs.assign(runs + fields.first_run, runs + fields.first_run + fields.num_runs);
  ticket->keys.assign(reinterpret_cast<const char*>(keys) + fields.key_offset, fields.num_keys * fields.key_bytes);
  if (fields.kind == QUIRE_TICKET_LOOKUP) ticket->sizes.assign(fields.num_keys, 0);
  ticket->end.ticket = fields.ticket;
  std::vector<std::unique_ptr<Part>> parts(servers_.size());
  for (uint32_t i = 0; i < fields.num_keys; ++i) {
    const uint32_t server = shards_.of(ticket->key(i));
    if (parts[server] == nullptr) {
      parts[server] = std::make_unique<Part>();
      parts[server]->ticket = ticket;
      parts[server]->server = server;
    }
    parts[server]->keys.push_back(i);
  }
  Prepared prepared;
  for (std::unique_ptr<Part>& part : parts) {
    if (part == nullptr) continue;
    Waiting one;
    one.insert(std::move(part));
    prepared.parts.push_back(one.extract(one.begin()));
  }
  ticket->parts_left = static_cast<uint32_t>(prepared.parts.size());
  Numbers one;
  one.emplace(fields.ticket, std::move(ticket));
  prepared.number = one.extract(one.begin());
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
  for (Prepared& one : all) {
    if (numbers_.size() == kMaxTickets) return true;  // another thread has submitted meanwhile
    const std::shared_ptr<Ticket> ticket = one.number.mapped();
    if (!numbers_.insert(std::move(one.number)).inserted) return false;
    ticket->sequence = sequence_++;
    for (Waiting::node_type& part : one.parts) insert(std::move(part));
    ++*accepted;
  }
  return true;
}

// Of a part that waits from now on, or ends at once.
void Tickets::insert(Waiting::node_type node) {
  const Part& part = *node.value();
  Server& server = servers_[part.server];
  if (server.code != QUIRE_OK) return end_part(part.ticket.get(), server.code, 0, 0);
  const bool first = server.waiting.empty();
  if (part.ticket->fields.deadline_ns != -1) server.soonest = std::min(server.soonest, part.ticket->fields.deadline_ns);
  server.waiting.insert(std::move(node));
  if (first) wake(server);
}

void Tickets::wake(const Server& server) {
  for (const int fd : server.wake_fds) write_one(fd);
}

// A look-up goes without the servers that are lost, unless all of them are.
void Tickets::end_part(Ticket* ticket, quire_code code, uint32_t flags, uint64_t bytes) {
  quire_completion& end = ticket->end;
  const bool looks_up = ticket->fields.kind == QUIRE_TICKET_LOOKUP;
  const bool is_lost = looks_up && (code == QUIRE_UNAVAILABLE || code == QUIRE_PERMISSION_DENIED);
  if (!is_lost && end.code == QUIRE_OK) end.code = code;
  if (!is_lost) end.flags = ticket->parts_done++ == 0 ? flags : end.flags & flags;
  end.bytes += bytes;
  if (--ticket->parts_left != 0) return;
  if (ticket->parts_done == 0) end.code = code;
  if (looks_up && end.code == QUIRE_OK) {
    std::copy(ticket->sizes.begin(), ticket->sizes.end(), ticket->fields.sizes);
    end.num_found = ticket->sizes.size() - static_cast<uint64_t>(std::count(ticket->sizes.begin(), ticket->sizes.end(), 0));
  }
  if (looks_up && end.num_found == 0) end.flags = 0;
  ends_[(first_end_ + num_ends_++) % kMaxTickets] = end;
  if (!is_readable_) write_one(fd_);
  is_readable_ = true;
}

bool Tickets::cancel(uint64_t number) {
  const std::lock_guard guard(lock_);
  const auto found = numbers_.find(number);
  if (found == numbers_.end()) return false;
  Ticket* const ticket = found->second.get();
  ticket->is_cancelled.store(true, std::memory_order_release);
  for (Server& server : servers_) {
    end_waiting(&server, QUIRE_CANCELLED, [&](const Part& part) { return part.ticket.get() == ticket; });
    if (ticket->parts_left != 0) wake(server);
  }
  return true;
}

template <typename Choice>
void Tickets::end_waiting(Server* server, quire_code code, Choice choose) {
  for (auto at = server->waiting.begin(); at != server->waiting.end();) {
    if (!choose(**at)) {
      ++at;
      continue;
    }
    end_part((*at)->ticket.get(), code, 0, 0);
    at = server->waiting.erase(at);
  }
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
  uint64_t written = 0;
  while (read(fd_, &written, sizeof written) < 0 && errno == EINTR) continue;
  is_readable_ = false;
  return n;
}

uint64_t Tickets::poll(int64_t timeout_ns, std::span<quire_completion> items) {
  return plugins::poll_at(fd_, timeout_ns, items, [this](std::span<quire_completion> to) { return take_ends(to); });
}

void Tickets::listen(uint32_t server, int wake_fd) {
  const std::lock_guard guard(lock_);
  servers_[server].wake_fds.push_back(wake_fd);
}

void Tickets::set_state(uint32_t number, quire_code code) {
  const std::lock_guard guard(lock_);
  Server& server = servers_[number];
  server.code = code;
  if (code != QUIRE_OK) end_waiting(&server, code, [](const Part&) { return true; });
  wake(server);
}

std::unique_ptr<Part> Tickets::take(uint32_t server) {
  const std::lock_guard guard(lock_);
  Waiting& waiting = servers_[server].waiting;
  if (waiting.empty()) return nullptr;
  return std::move(waiting.extract(waiting.begin()).value());
}

void Tickets::put_back(std::unique_ptr<Part>* part) {
  Waiting one;
  one.insert(std::move(*part));  // takes it when it has memory for it
  const std::lock_guard guard(lock_);
  insert(one.extract(one.begin()));
}

int64_t Tickets::expire(uint32_t number, int64_t now) {
  const std::lock_guard guard(lock_);
  Server& server = servers_[number];
  if (server.soonest > now) return server.soonest;
  end_waiting(&server, QUIRE_DEADLINE_EXCEEDED, [&](const Part& part) { return part.is_overdue(now); });
  server.soonest = INT64_MAX;
  for (const auto& part : server.waiting) {
    if (part->ticket->fields.deadline_ns != -1) server.soonest = std::min(server.soonest, part->ticket->fields.deadline_ns);
  }
  return server.soonest;
}

void Tickets::end(std::vector<PartEnd>* ends) {
  if (ends->empty()) return;
  const std::lock_guard guard(lock_);
  for (const PartEnd& end : *ends) end_part(end.ticket.get(), end.code, end.flags, end.bytes);
  ends->clear();
}

void Tickets::close() {
  is_closed_.store(true, std::memory_order_release);
  const std::lock_guard guard(lock_);
  for (const Server& server : servers_) wake(server);
}

}  // namespace quire::redis
