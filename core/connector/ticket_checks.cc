#include "core/connector/ticket_checks.h"

#include <cinttypes>

#include "core/base/checked.h"

namespace quire {
namespace {

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
};

uint64_t magnitude(int64_t stride) { return stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride); }

// What `run.count` pieces occupy, the first of them at `first`. False: it begins before 0 or ends beyond 63 bits.
bool extent_of(const quire_ticket_run& run, uint64_t first, int64_t stride, Extent* extent) {
  const auto end = checked_add(first, run.bytes);
  if (!end) return false;
  *extent = {first, *end};
  if (run.count == 1) return true;
  const auto reach = checked_mul(run.count - 1, magnitude(stride));
  if (!reach || (stride < 0 && *reach > first)) return false;
  if (stride < 0) {
    extent->begin = first - *reach;
    return true;
  }
  const auto last = checked_add(*end, *reach);
  if (!last) return false;
  extent->end = *last;
  return true;
}

// Pieces of `bytes` bytes that far apart do not overlap.
bool is_apart(int64_t stride, uint64_t bytes) { return magnitude(stride) >= bytes; }

Status check_shape(const quire_ticket_run& run, uint64_t r) {
  if (run.bytes == 0) return invalid("runs[%" PRIu64 "].bytes is 0, a piece has at least 1", r);
  if (run.count == 0) return invalid("runs[%" PRIu64 "].count is 0, a run has at least 1 piece", r);
  if (run.address == 0) return invalid("runs[%" PRIu64 "].address is NULL", r);
  if (run.count == 1) return {};
  if (!is_apart(run.stride, run.bytes)) {
    return invalid("runs[%" PRIu64 "].stride is %" PRId64 ": pieces of %" PRIu64 " bytes overlap", r, run.stride, run.bytes);
  }
  if (!is_apart(run.object_stride, run.bytes)) {
    return invalid("runs[%" PRIu64 "].object_stride is %" PRId64 ": pieces of %" PRIu64 " bytes overlap", r, run.object_stride, run.bytes);
  }
  return {};
}

Status check_region(const quire_ticket_run& run, uint64_t r, const Extent& memory, const TicketRules& rules, TicketUse* use) {
  if (run.region == 0) {
    if ((rules.info.flags & QUIRE_CONNECTOR_REGISTERS) == 0) return {};
    return invalid("runs[%" PRIu64 "].region is 0, connector %s wants registered bytes", r, rules.name.c_str());
  }
  const int slot = rules.regions.find(run.region);
  if (slot < 0) return invalid("runs[%" PRIu64 "].region is %" PRIu64 ", no region of that number is registered", r, run.region);
  const Region& region = rules.regions.at(slot);
  if (memory.begin < region.address || memory.end > region.address + region.bytes) {
    return fail(QUIRE_OUT_OF_RANGE,
                "runs[%" PRIu64 "]: bytes [0x%" PRIx64 ", 0x%" PRIx64 "), region %" PRIu64 " is [0x%" PRIx64 ", 0x%" PRIx64 ")", r,
                memory.begin, memory.end, run.region, region.address, region.address + region.bytes);
  }
  use->regions |= uint64_t{1} << slot;
  return {};
}

Status check_run(const quire_ticket_run& run, uint64_t r, const quire_ticket& ticket, const TicketRules& rules, TicketUse* use) {
  QUIRE_RETURN_IF_ERROR(check_shape(run, r));
  Extent memory;
  if (!extent_of(run, run.address, run.stride, &memory)) {
    return fail(QUIRE_OUT_OF_RANGE,
                "runs[%" PRIu64 "]: %" PRIu64 " x %" PRIu64 " bytes from 0x%" PRIx64 " on, stride %" PRId64 ", leave the range of 63 bits",
                r, run.count, run.bytes, run.address, run.stride);
  }
  Extent object;
  if (!extent_of(run, run.object_offset, run.object_stride, &object)) {
    return fail(QUIRE_OUT_OF_RANGE,
                "runs[%" PRIu64 "]: %" PRIu64 " x %" PRIu64 " bytes from object_offset %" PRIu64 " on, object_stride %" PRId64
                ", begin before the object or end beyond 63 bits",
                r, run.count, run.bytes, run.object_offset, run.object_stride);
  }
  if (ticket.kind == QUIRE_TICKET_STORE && object.end > ticket.object_bytes) {
    return fail(QUIRE_OUT_OF_RANGE, "runs[%" PRIu64 "]: bytes [%" PRIu64 ", %" PRIu64 ") of an object of %" PRIu64, r, object.begin,
                object.end, ticket.object_bytes);
  }
  const auto bytes = checked_mul(run.bytes, run.count);
  const auto sum = bytes ? checked_add(use->bytes, *bytes) : bytes;
  if (!sum) return fail(QUIRE_OUT_OF_RANGE, "runs[%" PRIu64 "]: the bytes of its ticket go beyond 63 bits", r);
  use->bytes = *sum;
  return check_region(run, r, memory, rules, use);
}

Status check_keys(const TicketBatch& batch, uint64_t i, const TicketRules& rules) {
  const quire_ticket& t = batch.tickets[i];
  if (t.kind == QUIRE_TICKET_LOOKUP ? t.num_keys == 0 : t.num_keys != 1) {
    return invalid("tickets[%" PRIu64 "].num_keys is %u, a look-up has at least 1 and any other ticket 1", i, t.num_keys);
  }
  if (t.key_bytes == 0) return invalid("tickets[%" PRIu64 "].key_bytes is 0, a key has at least 1", i);
  if (rules.info.max_key_bytes != 0 && t.key_bytes > rules.info.max_key_bytes) {
    return fail(QUIRE_OUT_OF_RANGE, "tickets[%" PRIu64 "].key_bytes is %" PRIu64 ", connector %s takes %" PRIu64, i, t.key_bytes,
                rules.name.c_str(), rules.info.max_key_bytes);
  }
  const auto bytes = checked_mul(t.key_bytes, t.num_keys);
  if (!bytes || t.key_offset > batch.keys.size() || *bytes > batch.keys.size() - t.key_offset) {
    return fail(QUIRE_OUT_OF_RANGE, "tickets[%" PRIu64 "]: %u keys of %" PRIu64 " bytes from byte %" PRIu64 " on, num_key_bytes is %zu", i,
                t.num_keys, t.key_bytes, t.key_offset, batch.keys.size());
  }
  return {};
}

// The fields that only one kind has.
Status check_kind(const quire_ticket& t, uint64_t i, const TicketRules& rules) {
  if (t.kind < QUIRE_TICKET_STORE || t.kind > QUIRE_TICKET_REMOVE) {
    return invalid("tickets[%" PRIu64 "].kind is %d, the legal ones are QUIRE_TICKET_STORE (1) to _REMOVE (4)", i, t.kind);
  }
  const bool look_up = t.kind == QUIRE_TICKET_LOOKUP;
  const bool moves = t.kind == QUIRE_TICKET_STORE || t.kind == QUIRE_TICKET_LOAD;
  if (look_up != (t.sizes != nullptr)) {
    return invalid(look_up ? "tickets[%" PRIu64 "].sizes is NULL, a look-up writes there"
                           : "tickets[%" PRIu64 "].sizes is not NULL, only look-ups have it",
                   i);
  }
  if (t.lease_ns < 0 || (!look_up && t.lease_ns != 0)) {
    return invalid("tickets[%" PRIu64 "].lease_ns is %" PRId64 ", the smallest legal one is 0, and only look-ups have another", i,
                   t.lease_ns);
  }
  if (moves != (t.num_runs != 0)) {
    return invalid("tickets[%" PRIu64 "].num_runs is %u, stores and loads have at least 1 and others 0", i, t.num_runs);
  }
  if (t.kind != QUIRE_TICKET_STORE && t.object_bytes != 0) {
    return invalid("tickets[%" PRIu64 "].object_bytes is %" PRIu64 ", only stores have it", i, t.object_bytes);
  }
  if (rules.info.max_object_bytes != 0 && t.object_bytes > rules.info.max_object_bytes) {
    return fail(QUIRE_OUT_OF_RANGE, "tickets[%" PRIu64 "].object_bytes is %" PRIu64 ", connector %s takes %" PRIu64, i, t.object_bytes,
                rules.name.c_str(), rules.info.max_object_bytes);
  }
  if (t.deadline_ns < -1) return invalid("tickets[%" PRIu64 "].deadline_ns is %" PRId64 ", -1 is none", i, t.deadline_ns);
  return {};
}

}  // namespace

Status check_ticket(const TicketBatch& batch, uint64_t i, const TicketRules& rules, TicketUse* use) {
  const quire_ticket& t = batch.tickets[i];
  QUIRE_RETURN_IF_ERROR(check_kind(t, i, rules));
  QUIRE_RETURN_IF_ERROR(check_keys(batch, i, rules));
  if (t.first_run > batch.runs.size() || t.num_runs > batch.runs.size() - t.first_run) {
    return fail(QUIRE_OUT_OF_RANGE, "tickets[%" PRIu64 "]: %u runs from run %" PRIu64 " on, num_runs is %zu", i, t.num_runs, t.first_run,
                batch.runs.size());
  }
  *use = {};
  for (uint64_t r = t.first_run; r < t.first_run + t.num_runs; ++r) {
    QUIRE_RETURN_IF_ERROR(check_run(batch.runs[r], r, t, rules, use));
  }
  if (t.kind == QUIRE_TICKET_STORE && use->bytes != t.object_bytes) {
    return invalid("tickets[%" PRIu64 "].object_bytes is %" PRIu64 ", its runs have %" PRIu64, i, t.object_bytes, use->bytes);
  }
  return {};
}

}  // namespace quire
