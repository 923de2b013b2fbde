// What quire/connector.h allows in tickets, written apart from what the library checks.
#include <algorithm>

#include "tests/fakes/fake_store_impl.h"

namespace quire::test {
namespace {

// 128 bits: nothing here overflows.
using Wide = __int128;

struct Reach {
  Wide begin;
  Wide end;
};

Reach reach_of(uint64_t first, int64_t stride, const quire_ticket_run& run) {
  const Wide last = Wide{first} + (run.count == 1 ? Wide{0} : Wide{stride} * (Wide{run.count} - 1));
  return {std::min<Wide>(first, last), std::max<Wide>(first, last) + run.bytes};
}

bool is_inside(const Reach& reach, Wide begin, Wide end) { return reach.begin >= begin && reach.end <= end; }

bool is_apart(int64_t stride, uint64_t bytes) { return Wide{stride} >= Wide{bytes} || Wide{stride} <= -Wide{bytes}; }

// What is wrong with a run, or NULL.
const char* wrong_run(const StoreInstance& instance, const quire_ticket& ticket, const quire_ticket_run& run) {
  constexpr Wide kMost = INT64_MAX;
  if (run.bytes == 0 || run.count == 0) return "has no bytes";
  if (run.count > 1 && !(is_apart(run.stride, run.bytes) && is_apart(run.object_stride, run.bytes))) return "overlaps itself";
  const Reach memory = reach_of(run.address, run.stride, run);
  const Reach object = reach_of(run.object_offset, run.object_stride, run);
  if (!is_inside(memory, 1, kMost)) return "lies outside all memory";
  if (!is_inside(object, 0, ticket.kind == QUIRE_TICKET_STORE ? Wide{ticket.object_bytes} : kMost)) return "lies outside its object";
  const bool needs_region = (instance.store->options.flags & QUIRE_CONNECTOR_REGISTERS) != 0;
  if (run.region == 0) return needs_region ? "has no region" : nullptr;
  const auto region = instance.regions.find(run.region);
  if (region == instance.regions.end()) return "has a region that is not registered";
  if (!is_inside(memory, region->second.address, Wide{region->second.address} + region->second.bytes)) return "leaves its region";
  return nullptr;
}

const char* wrong_keys(const StoreInstance& instance, const quire_ticket& ticket, uint64_t num_key_bytes) {
  const FakeStoreOptions& options = instance.store->options;
  if (ticket.key_bytes == 0) return "an empty key";
  if (ticket.kind == QUIRE_TICKET_LOOKUP ? ticket.num_keys == 0 : ticket.num_keys != 1) return "a wrong number of keys";
  if (options.max_key_bytes != 0 && ticket.key_bytes > options.max_key_bytes) return "a key that is too long";
  if (Wide{ticket.key_offset} + Wide{ticket.key_bytes} * ticket.num_keys > Wide{num_key_bytes}) return "keys outside the array";
  return nullptr;
}

// What is wrong with the fields of a ticket, or NULL.
const char* wrong_fields(const StoreInstance& instance, const quire_ticket& ticket, uint64_t num_runs) {
  const FakeStoreOptions& options = instance.store->options;
  const bool moves = ticket.kind == QUIRE_TICKET_STORE || ticket.kind == QUIRE_TICKET_LOAD;
  if (ticket.kind < QUIRE_TICKET_STORE || ticket.kind > QUIRE_TICKET_REMOVE) return "an unknown kind";
  if ((ticket.num_runs != 0) != moves) return "a wrong number of runs";
  if (Wide{ticket.first_run} + ticket.num_runs > Wide{num_runs}) return "runs outside the array";
  if ((ticket.sizes != nullptr) != (ticket.kind == QUIRE_TICKET_LOOKUP)) return "wrong sizes";
  if (ticket.kind != QUIRE_TICKET_STORE && ticket.object_bytes != 0) return "object_bytes";
  if (options.max_object_bytes != 0 && ticket.object_bytes > options.max_object_bytes) return "an object that is too large";
  if (ticket.lease_ns < 0 || (ticket.lease_ns != 0 && ticket.kind != QUIRE_TICKET_LOOKUP)) return "a wrong lease";
  return ticket.deadline_ns < -1 ? "a wrong deadline" : nullptr;
}

}  // namespace

bool FakeStore::Impl::inspect(const StoreInstance& instance, const Arrays& arrays) {
  const size_t before = num_violations;
  std::set<uint64_t> numbers;
  for (uint64_t i = 0; i < arrays.n; ++i) {
    const quire_ticket& ticket = arrays.tickets[i];
    const std::string name = "ticket " + std::to_string(ticket.ticket);
    if (instance.by_number.count(ticket.ticket) != 0 || !numbers.insert(ticket.ticket).second) violate(name + " is in flight already");
    const char* wrong = wrong_fields(instance, ticket, arrays.num_runs);
    if (wrong == nullptr) wrong = wrong_keys(instance, ticket, arrays.num_key_bytes);
    if (wrong != nullptr) {
      violate(name + " has " + wrong);
      continue;
    }
    Wide bytes = 0;
    for (uint64_t r = ticket.first_run; r < ticket.first_run + ticket.num_runs; ++r) {
      wrong = wrong_run(instance, ticket, arrays.runs[r]);
      if (wrong != nullptr) violate("run " + std::to_string(r) + " of " + name + " " + wrong);
      bytes += Wide{arrays.runs[r].bytes} * arrays.runs[r].count;
    }
    if (ticket.kind == QUIRE_TICKET_STORE && bytes != Wide{ticket.object_bytes}) violate(name + " has other object_bytes than runs");
  }
  return num_violations == before;
}

}  // namespace quire::test
