// The life of a ticket in a store: accepted, started, ended, told.
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>

#include "tests/fakes/fake_store_impl.h"

namespace quire::test {

Fate FakeStore::Impl::draw(quire_ticket_kind kind, uint64_t bytes) {
  const Odds& odds = options.odds;
  Fate fate;
  fate.delay_ns = options.latency_ns;
  if (options.bytes_per_second != 0) {
    fate.delay_ns += static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(options.bytes_per_second));
  }
  if (chance(odds.late)) {
    fate.polls = 1 + static_cast<uint32_t>(random() % std::max(odds.max_polls, 1U));
    if (odds.max_delay_ns > 0) fate.delay_ns += static_cast<int64_t>(random() % static_cast<uint64_t>(odds.max_delay_ns));
  }
  if (chance(odds.fail)) {
    fate.code = QUIRE_UNAVAILABLE;
    if (bytes != 0 && chance(500)) fate.moved = random() % bytes;
  }
  if (chance(odds.twice)) fate.told = 2;
  if (chance(odds.deaf)) fate.deaf = true;
  const bool moves = kind == QUIRE_TICKET_STORE || kind == QUIRE_TICKET_LOAD;
  if (moves && chance(odds.damage)) fate.damage = static_cast<Damage>(1 + random() % static_cast<uint64_t>(Damage::kLost));
  return fate;
}

uint64_t FakeStore::Impl::submit(StoreInstance* instance, const Arrays& arrays, uint64_t most) {
  const uint64_t in_flight = instance->by_number.size();
  const uint64_t room = options.max_in_flight == 0 ? most : options.max_in_flight - std::min<uint64_t>(options.max_in_flight, in_flight);
  const uint64_t n = std::min({arrays.n, most, room});
  for (uint64_t i = 0; i < n; ++i) {
    StoreTicket& own = instance->tickets[++last_order];
    own.ticket = arrays.tickets[i];
    const quire_ticket& t = own.ticket;
    own.runs.assign(arrays.runs + t.first_run, arrays.runs + t.first_run + t.num_runs);
    const char* const keys = reinterpret_cast<const char*>(arrays.keys) + t.key_offset;
    for (uint32_t k = 0; k < t.num_keys; ++k) own.keys.emplace_back(keys + k * t.key_bytes, t.key_bytes);
    for (const quire_ticket_run& run : own.runs) own.bytes += run.bytes * run.count;
    if (options.watches) own.sum = sum_of(own);
    own.fate = draw(t.kind, own.bytes);
    own.fate.held = own.fate.held || is_offer(own);
    if (script) script({t, own.keys[0], own.bytes}, &own.fate);
    ++counts.accepted[t.kind];
    instance->by_number[t.ticket] = last_order;
  }
  advance(instance, false);
  return n;
}

// Of those that wait, the ones of the highest priority first.
void FakeStore::Impl::start(StoreInstance* instance, int64_t now) {
  uint64_t started = 0;
  std::vector<StoreTicket*> waiting;
  for (auto& each : instance->tickets) {
    if (each.second.started) {
      ++started;
    } else {
      waiting.push_back(&each.second);
    }
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const StoreTicket* a, const StoreTicket* b) { return a->ticket.priority > b->ticket.priority; });
  for (StoreTicket* ticket : waiting) {
    if (options.max_started != 0 && started >= options.max_started) return;
    ticket->started = true;
    ticket->end_ns = now + ticket->fate.delay_ns;
    ++started;
  }
}

// Why a ticket ends before its time; OK: it does not.
quire_code FakeStore::Impl::early_end(const StoreTicket& ticket, int64_t now) const {
  if (ticket.fate.deaf) return QUIRE_OK;
  if (ticket.cancelled) return QUIRE_CANCELLED;
  const int64_t deadline = ticket.ticket.deadline_ns;
  const bool in_time = ticket.started && !ticket.fate.held && ticket.fate.polls == 0 && ticket.end_ns <= std::min(now, deadline);
  if (deadline >= 0 && now >= deadline && !in_time) return QUIRE_DEADLINE_EXCEEDED;
  return state == QUIRE_CONNECTOR_DOWN && !ticket.fate.held ? QUIRE_UNAVAILABLE : QUIRE_OK;
}

void FakeStore::Impl::end(StoreInstance* instance, uint64_t order, quire_code code) {
  const auto found = instance->tickets.find(order);
  StoreTicket ticket = std::move(found->second);
  instance->tickets.erase(found);
  if (options.watches) check_untouched(ticket);
  quire_completion end{};
  if (code == QUIRE_OK) end = finish(instance, &ticket);
  if (code != QUIRE_OK) end.code = code;
  end.ticket = ticket.ticket.ticket;
  ++counts.ended[end.code];
  for (uint32_t i = 0; i < ticket.fate.told; ++i) {
    const uint64_t behind = options.reorders ? random() % (instance->ready.size() + 1) : instance->ready.size();
    instance->ready.insert(instance->ready.begin() + static_cast<std::ptrdiff_t>(behind), end);
  }
}

void FakeStore::Impl::advance(StoreInstance* instance, bool a_poll) {
  const int64_t now = instance->now();
  for (size_t before = SIZE_MAX; instance->tickets.size() != before;) {  // what ended makes room to start others
    before = instance->tickets.size();
    start(instance, now);
    for (auto each = instance->tickets.begin(); each != instance->tickets.end();) {
      StoreTicket& ticket = each->second;
      const uint64_t order = each++->first;
      if (const quire_code code = early_end(ticket, now); code != QUIRE_OK) {
        end(instance, order, code);
      } else if (ticket.started && ticket.fate.polls != 0) {
        if (a_poll) --ticket.fate.polls;
      } else if (ticket.started && !ticket.fate.held && now >= ticket.end_ns) {
        end(instance, order, QUIRE_OK);
      }
    }
    a_poll = false;
  }
  signal(instance);
}

void FakeStore::Impl::advance_all() {
  for (StoreInstance* instance : instances) advance(instance, false);
}

// The descriptor is readable while completions wait, and poll wakes up.
void FakeStore::Impl::signal(StoreInstance* instance) {
  const bool some = !instance->ready.empty();
  if (some) changed.notify_all();
  if (some == instance->readable) return;
  eventfd_t value = 0;
  if (some) eventfd_write(instance->event, 1);
  if (!some) eventfd_read(instance->event, &value);
  instance->readable = some;
}

int64_t FakeStore::Impl::next_end_ns(const StoreInstance& instance) const {
  int64_t next = INT64_MAX;
  for (const auto& each : instance.tickets) {
    const StoreTicket& ticket = each.second;
    if (ticket.started && !ticket.fate.held && ticket.fate.polls == 0) next = std::min(next, ticket.end_ns);
    if (!ticket.fate.deaf && ticket.ticket.deadline_ns >= 0) next = std::min(next, ticket.ticket.deadline_ns);
  }
  return next;
}

uint64_t FakeStore::Impl::poll(StoreInstance* instance, int64_t timeout_ns, std::span<quire_completion> items,
                               std::unique_lock<std::mutex>* hold) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  advance(instance, true);
  const auto counts_polls = [](const auto& each) { return each.second.fate.polls != 0; };
  while (options.waits && timeout_ns != 0 && instance->ready.empty()) {
    if (std::any_of(instance->tickets.begin(), instance->tickets.end(), counts_polls)) break;  // the next one is awaited
    int64_t left = INT64_MAX;
    if (timeout_ns > 0) left = timeout_ns - std::chrono::nanoseconds(Clock::now() - begin).count();
    if (left <= 0) break;
    const int64_t next = next_end_ns(*instance);
    if (next != INT64_MAX) left = std::min(left, std::max<int64_t>(next - instance->now(), 0) + 1000);
    constexpr int64_t kMost = 100'000'000;  // more at once would not fit the clock of a wait
    changed.wait_for(*hold, std::chrono::nanoseconds(std::min(left, kMost)));
    advance(instance, false);
  }
  uint64_t n = 0;
  for (; n < items.size() && !instance->ready.empty(); ++n) {
    items[n] = instance->ready.front();
    instance->ready.pop_front();
    instance->by_number.erase(items[n].ticket);
  }
  counts.told += n;
  signal(instance);
  return n;
}

}  // namespace quire::test
