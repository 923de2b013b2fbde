#include "plugins/file/file_worker.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <string>

#include "plugins/common/nanoseconds.h"
#include "plugins/common/signals.h"

namespace quire::file {
namespace {

using plugins::kMillisecond;
using plugins::kSecond;
// Deadlines are on the host's clock, which need not run like ours.
constexpr int64_t kDeadlineGrain = 20 * kMillisecond;
constexpr size_t kMostEnds = 128;  // taken at once
constexpr size_t kMostQuick = 256;
// More than reads and writes: small objects are synced together, while others are opened and named.
constexpr size_t kTicketsPerDepth = 4;
constexpr auto kCloseWarning = std::chrono::seconds(5);

}  // namespace

Worker::Worker(const Config& config, const quire_host_api* host, Mailbox* mailbox, KernelMaker make_kernel)
    : store_(config, host, mailbox), mailbox_(*mailbox), make_kernel_(std::move(make_kernel)) {}

Outcome Worker::open() {
  if (Outcome outcome = store_.catalog.open(); !outcome.ok()) return outcome;
  if (access("/proc/self/fd", X_OK) != 0) store_.has_temporary = false;  // such files get their names there
  show();
  {
    const plugins::NoSignals quiet;
    thread_ = std::thread([this] { run(); });
  }
  pthread_setname_np(thread_.native_handle(), "quire-file");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return phase_ != Phase::kStarting; });
  if (phase_ == Phase::kRunning) return {};
  return {QUIRE_UNAVAILABLE, 0, failure_};
}

Worker::~Worker() {
  if (!thread_.joinable()) return;
  mailbox_.close();
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::kRunning) kernel_->wake();
  const auto begin = std::chrono::steady_clock::now();
  auto pause = std::chrono::steady_clock::duration(kCloseWarning);
  while (!changed_.wait_for(lock, pause, [&] { return phase_ == Phase::kEnded; })) {
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
    store_.log.say(QUIRE_LOG_WARN, "close waits since " + std::to_string(waited.count()) + " s for operations of the kernel on " +
                                       store_.config.directory + " that do not end; their memory cannot be given back before");
    pause = std::min(pause * 2, std::chrono::steady_clock::duration(std::chrono::minutes(1)));
  }
  lock.unlock();
  thread_.join();
}

void Worker::wake() {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kRunning) kernel_->wake();
}

void Worker::leave() {
  store_.catalog.leave();
  if (kernel_ != nullptr) kernel_->leave();
}

void Worker::run() {
  std::string why;
  std::unique_ptr<Kernel> kernel;
  try {
    kernel = make_kernel_(store_.config.depth, &why);
  } catch (const std::bad_alloc&) {
    why = "no host memory";
  }
  const bool is_made = kernel != nullptr;
  {
    const std::lock_guard lock(mutex_);
    kernel_ = std::move(kernel);
    phase_ = is_made ? Phase::kRunning : Phase::kEnded;
    failure_.swap(why);
  }
  changed_.notify_all();
  if (!is_made) return;
  store_.kernel = kernel_.get();
  store_.room.use(kernel_.get());
  while (turn()) continue;
  const std::lock_guard lock(mutex_);
  kernel_.reset();
  phase_ = Phase::kEnded;
  changed_.notify_all();
}

// One round of the thread. False: it is over.
bool Worker::turn() {
  receive();
  const int64_t now = store_.now();
  if (now >= next_deadline_) end_overdue();
  keep_up(now);
  begin_waiting(&quick_);
  begin_waiting(&loads_);
  begin_waiting(&stores_);
  retry();
  start_transfers();
  sweep();
  show();
  if (is_closing_ && tasks_.empty() && quick_tasks_.empty() && !store_.closing.is_busy() && !store_.room.is_evicting()) return false;
  std::array<Ended, kMostEnds> ends;
  const size_t count = kernel_->wait(pause(), ends);
  for (size_t i = 0; i < count; ++i) dispatch(ends[i]);
  sweep();
  return true;
}

void Worker::retry() {
  is_retrying_ = false;
  for (const auto& task : quick_tasks_) {
    try {
      is_retrying_ = task->retry() || is_retrying_;
    } catch (const std::bad_alloc&) {
      task->stop(QUIRE_RESOURCE_EXHAUSTED);
    }
  }
}

// What has to be done beside tickets. Without memory for it the directory is read again.
void Worker::keep_up(int64_t now) {
  try {
    if (now >= next_tick_) tick();
    store_.catalog.follow();
    has_slices_ = store_.catalog.work();
    if (store_.catalog.directory().write_error() == 0 && !store_.catalog.is_down() && !is_closing_) store_.room.pump();
  } catch (const std::bad_alloc&) {
    store_.catalog.lose_trust();
  }
}

// Without memory for it, a ticket fails; the store goes on.
void Worker::dispatch(const Ended& ended) {
  Owner* const owner = ended.request->owner;
  try {
    owner->ended(ended.request, ended.result);
  } catch (const std::bad_alloc&) {
    if (auto* const task = dynamic_cast<Task*>(owner); task != nullptr) task->stop(QUIRE_RESOURCE_EXHAUSTED);
  }
}

void Worker::complete(const Ticket& ticket, quire_code code) { mailbox_.complete({ticket.fields.ticket, code, 0, 0, 0}); }

void Worker::receive() {
  Mail mail = mailbox_.take();
  is_closing_ = is_closing_ || mail.closing;
  for (auto& ticket : mail.tickets) {
    const int64_t deadline = ticket->fields.deadline_ns;
    const int64_t order = -int64_t{ticket->fields.priority};
    try {
      waiting_of(*ticket).emplace(order, nullptr)->second = std::move(ticket);
    } catch (const std::bad_alloc&) {
      complete(*ticket, QUIRE_RESOURCE_EXHAUSTED);
      continue;
    }
    if (deadline >= 0) next_deadline_ = std::min(next_deadline_, deadline);
  }
  for (const uint64_t ticket : mail.cancelled) cancel(ticket);
  for (Listing* listing : mail.listings) {
    try {
      list(listing);
    } catch (const std::bad_alloc&) {
      listing->outcome.code = QUIRE_RESOURCE_EXHAUSTED;
    }
    mailbox_.answer(listing);
  }
  if (!is_closing_) return;
  end_all([](const Ticket&) { return true; }, QUIRE_CANCELLED);
}

// Ends the tickets that `which` chooses: those that wait at once, those at work as early as they may.
template <typename Which>
void Worker::end_all(Which which, quire_code code) {
  for (Waiting* waiting : {&stores_, &loads_, &quick_}) {
    std::erase_if(*waiting, [&](const auto& each) {
      const bool ends = which(*each.second);
      if (ends) complete(*each.second, code);
      return ends;
    });
  }
  for (auto* tasks : {&tasks_, &quick_tasks_}) {
    for (const auto& task : *tasks) {
      if (!task->is_answered() && which(task->ticket())) task->stop(code);
    }
  }
}

void Worker::cancel(uint64_t ticket) {
  end_all([&](const Ticket& each) { return each.fields.ticket == ticket; }, QUIRE_CANCELLED);
}

void Worker::end_overdue() {
  const int64_t now = store_.now();
  next_deadline_ = INT64_MAX;
  const auto is_overdue = [&](const Ticket& ticket) {
    const int64_t deadline = ticket.fields.deadline_ns;
    if (deadline > now) next_deadline_ = std::min(next_deadline_, deadline);
    return deadline >= 0 && deadline <= now;
  };
  end_all(is_overdue, QUIRE_DEADLINE_EXCEEDED);
}

Worker::Waiting& Worker::waiting_of(const Ticket& ticket) {
  if (ticket.fields.kind == QUIRE_TICKET_STORE) return stores_;
  return ticket.fields.kind == QUIRE_TICKET_LOAD ? loads_ : quick_;
}

size_t Worker::num_at_work(quire_ticket_kind kind) const {
  const auto is_of_kind = [&](const auto& task) { return task->ticket().fields.kind == kind; };
  return static_cast<size_t>(std::count_if(tasks_.begin(), tasks_.end(), is_of_kind));
}

// How many tickets of these may begin. Stores never keep loads waiting, nor loads stores.
size_t Worker::room_for(const Waiting& waiting) const {
  if (waiting.empty()) return 0;
  const size_t most = &waiting == &quick_ ? kMostQuick : kTicketsPerDepth * store_.config.depth;
  const size_t at_work =
      &waiting == &quick_ ? quick_tasks_.size() : num_at_work(&waiting == &loads_ ? QUIRE_TICKET_LOAD : QUIRE_TICKET_STORE);
  return most - std::min(most, at_work);
}

void Worker::begin_waiting(Waiting* waiting) {
  auto& tasks = waiting == &quick_ ? quick_tasks_ : tasks_;
  for (size_t room = room_for(*waiting); room != 0 && !waiting->empty(); --room) {
    std::unique_ptr<Ticket> ticket = std::move(waiting->begin()->second);
    waiting->erase(waiting->begin());
    if (store_.catalog.is_down()) {
      complete(*ticket, QUIRE_UNAVAILABLE);
      continue;
    }
    begin(std::move(ticket), &tasks);
  }
}

void Worker::begin(std::unique_ptr<Ticket> ticket, std::vector<std::unique_ptr<Task>>* tasks) {
  const uint64_t number = ticket->fields.ticket;
  Task* task = nullptr;
  try {
    tasks->reserve(tasks->size() + 1);
    std::unique_ptr<Task> made = make_task(&store_, std::move(ticket));
    task = made.get();
    const auto later = [](int32_t priority, const auto& each) { return priority > each->ticket().fields.priority; };
    tasks->insert(std::upper_bound(tasks->begin(), tasks->end(), task->ticket().fields.priority, later), std::move(made));
    task->begin();
  } catch (const std::bad_alloc&) {
    if (task != nullptr) return task->stop(QUIRE_RESOURCE_EXHAUSTED);
    mailbox_.complete({number, QUIRE_RESOURCE_EXHAUSTED, 0, 0, 0});
  }
}

// Tickets of higher priority first, and as many reads and writes as the kernel is to have.
void Worker::start_transfers() {
  for (const auto& task : tasks_) {
    try {
      while (store_.may_start_transfer() && task->transfer()) continue;
    } catch (const std::bad_alloc&) {
      task->stop(QUIRE_RESOURCE_EXHAUSTED);
    }
  }
}

void Worker::sweep() {
  for (auto* tasks : {&tasks_, &quick_tasks_}) {
    std::erase_if(*tasks, [](const auto& task) { return task->is_over(); });
  }
}

void Worker::list(Listing* listing) {
  if (!store_.catalog.check_there()) {
    listing->outcome = {QUIRE_UNAVAILABLE, 0, "the directory " + store_.config.directory + " is gone"};
    return;
  }
  if (listing->cursor == 0 && !store_.catalog.is_complete()) store_.catalog.scan_all();
  store_.catalog.follow();
  const Index& index = store_.catalog.index();
  if (listing->cursor > index.num_slots()) {
    listing->outcome = {QUIRE_INVALID_ARGUMENT, 0,
                        "cursor is " + std::to_string(listing->cursor) + ", the greatest one is " + std::to_string(index.num_slots())};
    return;
  }
  size_t slot = listing->cursor;
  uint64_t key_bytes = 0;
  for (; slot < index.num_slots() && listing->count < listing->items.size(); ++slot) {
    const Entry* const entry = index.in_slot(slot);
    if (entry == nullptr || entry->leaving) continue;
    if (entry->key.size() > listing->keys.size() - key_bytes) break;
    std::copy(entry->key.begin(), entry->key.end(), listing->keys.begin() + static_cast<ptrdiff_t>(key_bytes));
    listing->items[listing->count++] = {key_bytes, entry->key.size(), entry->bytes, 0};
    key_bytes += entry->key.size();
  }
  while (slot < index.num_slots() && index.in_slot(slot) == nullptr) ++slot;
  if (listing->count == 0 && slot < index.num_slots() && !listing->items.empty()) {
    listing->outcome = {QUIRE_OUT_OF_RANGE, 0,
                        "the next key has " + std::to_string(index.in_slot(slot)->key.size()) + " bytes, num_key_bytes is " +
                            std::to_string(listing->keys.size())};
    return;
  }
  listing->cursor = slot < index.num_slots() ? slot : 0;
}

void Worker::tick() {
  const int64_t now = store_.now();
  next_tick_ = now + kSecond;
  const bool was_down = store_.catalog.is_down();
  store_.catalog.tick();
  if ((was_down && !store_.catalog.is_down()) || store_.condition.is_refused(now)) store_.condition.reset();
  if (!store_.condition.lacks_room()) return;
  const int64_t wall_now = time_of_files();
  store_.catalog.index().each_by_use([&](const Entry* entry) {
    const bool may_leave = store_.catalog.may_leave(*entry, now, wall_now);
    if (may_leave) store_.condition.has_room();
    return may_leave;
  });
}

void Worker::show() {
  const bool is_read_only = store_.catalog.directory().write_error() != 0;
  shown_.state = store_.catalog.is_down() ? QUIRE_CONNECTOR_DOWN
                 : is_read_only           ? QUIRE_CONNECTOR_READ_ONLY
                                          : store_.condition.state(store_.now());
  shown_.used_bytes = store_.catalog.index().charged_bytes();
  shown_.num_objects = store_.catalog.index().num_objects();
  shown_.num_evicted = store_.room.num_evicted();
  shown_.num_damaged = store_.catalog.num_damaged();
}

// How long the thread may sleep if nobody wakes it.
int64_t Worker::pause() {
  if (has_slices_ || room_for(quick_) != 0 || room_for(loads_) != 0 || room_for(stores_) != 0) return 0;
  if (is_retrying_ || store_.room.waits_for_lock()) return kMillisecond;
  const int64_t now = store_.now();
  int64_t pause = std::clamp<int64_t>(next_tick_ - now, 0, kSecond);
  if (next_deadline_ != INT64_MAX) pause = std::min(pause, std::clamp<int64_t>(next_deadline_ - now, 0, kDeadlineGrain));
  return pause;
}

}  // namespace quire::file
