#include "core/tier/tier_state.h"

#include <ctime>
#include <new>

namespace quire {

int64_t TierState::now() const {
  if (clock != nullptr) return clock(clock_user);
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

Submitted TierState::submit(uint32_t slot, quire_ticket ticket) {
  Transfer& t = transfers->at(slot);
  Tier& tier = *tiers[t.tier];
  ticket.ticket = transfers->ticket(slot);
  ticket.num_runs = static_cast<uint32_t>(ticket_runs.size());
  if (ticket.num_keys == 0) ticket.num_keys = 1;
  const std::span<const uint8_t> keys = t.keys.empty() ? std::span<const uint8_t>(t.key) : std::span<const uint8_t>(t.keys);
  if (ticket.key_bytes == 0) ticket.key_bytes = keys.size() / ticket.num_keys;
  t.begun = now();
  uint64_t accepted = 0;
  quire_code code = QUIRE_RESOURCE_EXHAUSTED;
  try {
    code = tier.connector().submit({{&ticket, 1}, ticket_runs, keys}, &accepted).code();
  } catch (const std::bad_alloc&) {  // for the text of an error; `accepted` is what counts
  }
  ticket_runs.clear();
  if (accepted == 1) return Submitted::kYes;
  close(slot);
  if (code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) return Submitted::kFull;
  tier.failed(now(), t.kind == TransferKind::kLookup ? Tier::What::kLookup : Tier::What::kTransfer);
  return Submitted::kFailed;
}

Status TierState::enlist(Transfer* transfer) {
  Connector& connector = tiers[transfer->tier]->connector();
  if ((connector.info().flags & QUIRE_CONNECTOR_REGISTERS) == 0) return {};
  auto region = connector.register_region(transfer->record().data(), transfer->record().size(), QUIRE_DEVICE_CPU, 0);
  if (!region.ok()) return region.take_status();
  transfer->region = *region;
  return {};
}

void TierState::delist(size_t tier, uint64_t region) noexcept {
  if (region == 0) return;
  try {
    (void)tiers[tier]->connector().unregister_region(region);
  } catch (const std::bad_alloc&) {  // for the text of an error
  }
}

void TierState::close(uint32_t slot) noexcept {
  const Transfer& t = transfers->at(slot);
  delist(t.tier, t.region);
  bytes_of_wholes -= t.whole.size();
  transfers->close(slot);
}

void TierState::cancel(uint32_t slot) noexcept {
  try {
    (void)tiers[transfers->at(slot).tier]->connector().cancel(transfers->ticket(slot));
  } catch (const std::bad_alloc&) {  // for the text of an error
  }
}

void TierState::remove(uint32_t tier, const RecordKey& key, std::span<const uint8_t> of_peer) {
  if (transfers->is_full()) return;
  ticket_runs.clear();
  const uint32_t slot = transfers->open();
  Transfer& t = transfers->at(slot);
  t.kind = TransferKind::kRemove;
  t.tier = tier;
  t.key = key;
  try {
    t.name_keys(of_peer);
  } catch (const std::bad_alloc&) {
    return close(slot);
  }
  quire_ticket ticket{};
  ticket.kind = QUIRE_TICKET_REMOVE;
  ticket.deadline_ns = -1;
  (void)submit(slot, ticket);
}

Status TierState::follow_streams() {
  // Twice: work of streams that never lag is done as soon as it is recorded.
  for (int turns = 0; turns < 2; ++turns) {
    if (marks.done < marks.recorded) {
      for (const auto& event : events) {
        auto done = event->is_done();
        if (!done.ok()) return done.take_status();
        if (!*done) return {};
      }
      marks.done = marks.recorded;
    }
    if (marks.wanted == marks.recorded) return {};
    for (const auto& event : events) QUIRE_RETURN_IF_ERROR(event->record());
    ++marks.recorded;
  }
  return {};
}

}  // namespace quire
