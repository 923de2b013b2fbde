#include "plugins/file/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace quire::file {

Outcome Mailbox::open() {
  file_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!file_.is_open()) return {QUIRE_RESOURCE_EXHAUSTED, errno, "eventfd: " + error_text(errno)};
  return {};
}

bool Mailbox::send(std::span<std::unique_ptr<Ticket>> tickets, uint64_t* accepted) {
  const std::lock_guard lock(mutex_);
  *accepted = 0;
  mail_.tickets.reserve(mail_.tickets.size() + tickets.size());
  uint64_t num_keys = 0;
  for (const auto& ticket : tickets) num_keys += ticket->fields.num_keys;
  // The first key of a submission is its most recent one, and more recent than all before.
  int64_t used = std::max(time_of_files(), last_use_) + static_cast<int64_t>(num_keys);
  last_use_ = used;
  for (auto& ticket : tickets) {
    if (in_flight_.size() >= kMaxTickets) break;
    if (!in_flight_.insert(ticket->fields.ticket).second) return false;
    ticket->used = used;
    used -= static_cast<int64_t>(ticket->fields.num_keys);
    mail_.tickets.push_back(std::move(ticket));
    ++*accepted;
  }
  return true;
}

bool Mailbox::cancel(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (in_flight_.count(ticket) == 0) return false;
  mail_.cancelled.push_back(ticket);
  return true;
}

uint64_t Mailbox::receive(int64_t timeout_ns, std::span<quire_completion> items) {
  std::unique_lock lock(mutex_);
  const auto some = [&] { return num_waiting_ != 0; };
  if (items.empty()) return 0;
  if (timeout_ns < 0) {
    arrived_.wait(lock, some);
  } else if (timeout_ns > 0) {
    // Beyond a year the sum could wrap.
    const auto longest = std::chrono::nanoseconds(std::chrono::hours(24 * 365));
    arrived_.wait_until(lock, std::chrono::steady_clock::now() + std::min(std::chrono::nanoseconds(timeout_ns), longest), some);
  }
  uint64_t count = 0;
  for (; count < items.size() && num_waiting_ != 0; ++count, --num_waiting_) {
    items[count] = completions_[first_];
    in_flight_.erase(items[count].ticket);
    first_ = (first_ + 1) % kMaxTickets;
  }
  uint64_t set = 0;
  if (num_waiting_ == 0 && read(file_.number(), &set, sizeof set) < 0) set = 0;  // it was not set
  return count;
}

void Mailbox::complete(const quire_completion& completion) {
  const std::lock_guard lock(mutex_);
  completions_[(first_ + num_waiting_++) % kMaxTickets] = completion;
  if (num_waiting_ > 1) return;
  const uint64_t one = 1;
  while (write(file_.number(), &one, sizeof one) < 0 && errno == EINTR) continue;
  arrived_.notify_one();
}

void Mailbox::send_listing(Listing* listing) {
  const std::lock_guard lock(mutex_);
  mail_.listings.push_back(listing);
}

void Mailbox::await_listing(Listing* listing) {
  std::unique_lock lock(mutex_);
  listed_.wait(lock, [&] { return listing->is_done; });
}

void Mailbox::answer(Listing* listing) {
  const std::lock_guard lock(mutex_);
  listing->is_done = true;
  listed_.notify_all();
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  mail_.closing = true;
}

Mail Mailbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(mail_, Mail());
}

}  // namespace quire::file
