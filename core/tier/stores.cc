#include "core/tier/stores.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/base/checked.h"
#include "core/tier/held_records.h"

namespace quire {
namespace {

PrefixNames names_of(const quire_unit& unit) {
  PrefixNames names;
  std::copy_n(unit.digest, names.own.size(), names.own.begin());
  std::copy_n(unit.ahead_digest, names.ahead.size(), names.ahead.begin());
  return names;
}

}  // namespace

// Tiers that are open, want the unit for this reason, and lack at least one of its records as far as is known.
uint32_t Stores::tiers_for(const quire_unit& unit) const {
  uint32_t wanted = 0;
  const int64_t now = state_.now();
  for (size_t t = 0; t < state_.tiers.size(); ++t) {
    const Tier& tier = *state_.tiers[t];
    if ((tier.reasons() & static_cast<uint32_t>(unit.reason)) == 0 || !tier.is_open(now)) continue;
    for (size_t p = 0; p < state_.plan->parts().size() && (wanted >> t & 1) == 0; ++p) {
      const TierPart& part = state_.plan->parts()[p];
      if (part.twin != p || state_.plan->record_bytes(part, unit.end_token) == 0) continue;
      if (part.is_state && (unit.flags & QUIRE_UNIT_HAS_STATE) == 0) continue;
      if (!tier.is_known(state_.plan->key(part, part.name, unit.end_token, names_of(unit)))) wanted |= 1u << t;
    }
  }
  return wanted;
}

Stores::Stores(TierState& state) : state_(state) {
  quire_unit whole{};
  whole.end_token = state_.plan->unit_tokens();
  whole.flags = QUIRE_UNIT_HAS_STATE;
  largest_unit_ = bytes_of(whole);
}

uint64_t Stores::bytes_of(const quire_unit& unit) const {
  uint64_t bytes = 0;
  for (size_t p = 0; p < state_.plan->parts().size(); ++p) {
    const TierPart& part = state_.plan->parts()[p];
    if (part.twin != p || (part.is_state && (unit.flags & QUIRE_UNIT_HAS_STATE) == 0)) continue;
    bytes += state_.plan->record_bytes(part, unit.end_token);
  }
  return bytes;
}

// Whether a tier that is open may have more bytes on their way. Units wait in the cache until then, which lets them go where it
// needs their blocks. Where all are closed they are let go.
bool Stores::has_room() const {
  const int64_t now = state_.now();
  bool any_open = false;
  for (const auto& tier : state_.tiers) {
    if (tier->reasons() == 0 || !tier->is_open(now)) continue;
    if (tier->has_room(largest_unit_)) return true;
    any_open = true;
  }
  return !any_open;
}

// As many as are summed quickly: a step waits for this.
void Stores::take_units() noexcept {
  try {
    for (uint64_t taken = 0; taken < kSummedAtOnce && has_room();) {
      uint64_t bytes = 0;
      if (!take_unit(&bytes)) break;
      taken += bytes;
    }
  } catch (const std::bad_alloc&) {  // those that were not taken wait on
  }
}

// False: none waits.
bool Stores::take_unit(uint64_t* bytes) {
  make_place();
  quire_unit unit{};
  if (state_.cache->take_units({&unit, 1}) == 0) return false;
  ++state_.stats.units_taken;
  const uint32_t wanted = tiers_to_write(unit);
  if (wanted == 0) {
    (void)state_.cache->hold_end(unit.hold);
    return true;
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  waiting_.push_back(index);
  Unit& own = units_[index];
  own = Unit{};
  own.unit = unit;
  own.tiers = wanted;
  own.mark = state_.mark_streams();
  *bytes = bytes_of(unit);
  for (size_t t = 0; t < state_.tiers.size(); ++t) {
    if ((wanted >> t & 1) == 0) continue;
    own.unsent[t] = *bytes;
    state_.tiers[t]->bytes_in_stores += *bytes;
  }
  ++num_units_;
  return true;
}

// What takes memory for another unit comes before the unit is taken.
void Stores::make_place() {
  if (!free_.empty()) return;
  const size_t n = units_.size() + 1;
  for (std::vector<uint32_t>* list : {&free_, &waiting_}) {
    if (list->capacity() < n) list->reserve(2 * n);
  }
  units_.emplace_back();
  free_.push_back(static_cast<uint32_t>(n - 1));
}

uint32_t Stores::tiers_to_write(const quire_unit& unit) {
  try {
    return affordable(tiers_for(unit), bytes_of(unit));
  } catch (const std::bad_alloc&) {
    for (const auto& tier : state_.tiers) {
      if ((tier->reasons() & static_cast<uint32_t>(unit.reason)) != 0) ++tier->stats.units_dropped;
    }
    return 0;
  }
}

// Of these tiers those in which more bytes may be on their way.
uint32_t Stores::affordable(uint32_t wanted, uint64_t bytes) {
  for (size_t t = 0; t < state_.tiers.size(); ++t) {
    Tier& tier = *state_.tiers[t];
    if ((wanted >> t & 1) == 0 || tier.has_room(bytes)) continue;
    wanted &= ~(1u << t);
    ++tier.stats.units_dropped;
  }
  return wanted;
}

// Of its bytes so many more are on their way, or will not be.
void Stores::count_sent(Unit* unit, size_t t, uint64_t bytes) {
  bytes = std::min(bytes, unit->unsent[t]);
  unit->unsent[t] -= bytes;
  state_.tiers[t]->bytes_in_stores -= bytes;
}

void Stores::count_all_sent(Unit* unit) {
  for (size_t t = 0; t < state_.tiers.size(); ++t) count_sent(unit, t, unit->unsent[t]);
}

void Stores::start_ready() {
  size_t kept = 0;
  summed_ = 0;
  for (const uint32_t index : waiting_) {
    const bool later = summed_ >= kSummedAtOnce || !state_.is_done(units_[index].mark);
    if (later || !start_or_drop(index)) waiting_[kept++] = index;
  }
  waiting_.resize(kept);
}

bool Stores::start_or_drop(uint32_t index) noexcept {
  try {
    return start(index);
  } catch (const std::bad_alloc&) {
    drop(index);
    return true;
  }
}

// What was not submitted yet is not written.
void Stores::drop(uint32_t index) {
  Unit& unit = units_[index];
  count_all_sent(&unit);
  unit.failed = unit.tiers;
  unit.next_part = static_cast<uint32_t>(state_.plan->parts().size());
  if (unit.in_flight == 0) close(index);
}

bool Stores::has_record(const Unit& unit, uint32_t p) const {
  const TierPart& part = state_.plan->parts()[p];
  if (part.twin != p || state_.plan->record_bytes(part, unit.unit.end_token) == 0) return false;
  return !part.is_state || (unit.unit.flags & QUIRE_UNIT_HAS_STATE) != 0;
}

void Stores::stage(uint32_t index) {
  const auto parts = static_cast<uint32_t>(state_.plan->parts().size());
  for (uint32_t p = units_[index].next_part; p < parts; ++p) {
    Unit& unit = units_[index];
    if (state_.shards[state_.plan->parts()[p].shard].staging == nullptr || !has_record(unit, p)) continue;
    unit.staged.resize(parts);
    if (unit.staged[p].copy != 0) continue;
    if (!stage_part(&unit, p).ok()) unit.staged[p].copy = UINT64_MAX;  // nobody has such a number
    if (unit.staged[p].copy == 0) return;                              // no room now
  }
}

Status Stores::stage_part(Unit* unit, uint32_t p) {
  const TierPart& part = state_.plan->parts()[p];
  DeviceStaging& staging = *state_.shards[part.shard].staging;
  if (!describe(*unit, part, &header_, &runs_)) return fail(QUIRE_NOT_FOUND, "a block is not there");
  auto bytes = staging.take(header_.payload_bytes(), true);
  if (!bytes.ok()) return bytes.take_status();
  if (*bytes == nullptr) return {};
  auto copy = staging.copy(runs_, false, 0, bytes->get());
  if (!copy.ok()) return copy.take_status();
  unit->staged[p] = {std::move(*bytes), *copy};
  return {};
}

bool Stores::is_staged(const Unit& unit, uint32_t p, bool* failed) const {
  if (p >= unit.staged.size() || unit.staged[p].copy == 0) return false;
  *failed = unit.staged[p].bytes == nullptr;
  if (*failed) return false;
  auto done = state_.shards[state_.plan->parts()[p].shard].staging->is_done(unit.staged[p].copy);
  *failed = !done.ok();
  return done.ok() && *done;
}

bool Stores::start(uint32_t index) {
  const auto parts = static_cast<uint32_t>(state_.plan->parts().size());
  stage(index);
  for (uint32_t& p = units_[index].next_part; p < parts; ++p) {
    const TierPart& part = state_.plan->parts()[p];
    const quire_unit& unit = units_[index].unit;
    if (!has_record(units_[index], p)) continue;
    uint32_t lacking = units_[index].lacking;
    const bool goes_on = lacking != 0;
    for (size_t t = 0; !goes_on && t < state_.tiers.size(); ++t) {
      const bool wants = (units_[index].tiers >> t & 1) != 0;
      if (wants && !state_.tiers[t]->is_known(state_.plan->key(part, part.name, unit.end_token, names_of(unit)))) lacking |= 1u << t;
    }
    units_[index].lacking = lacking == 0 ? 0 : start_record(index, p, lacking);
    if (units_[index].lacking != 0) return false;
    if (p < units_[index].staged.size()) units_[index].staged[p].bytes.reset();  // transfers have it, or nobody lacks it
  }
  count_all_sent(&units_[index]);
  if (units_[index].in_flight == 0) close(index);
  return true;
}

// Requests wait for look-ups and loads: stores leave them slots, and a part of what the connector takes at the same time.
bool Stores::can_submit(uint32_t t) const {
  return state_.transfers->num_in_use() < Transfers::kMost - Transfers::kMost / 4 && state_.tiers[t]->may_store();
}

bool Stores::describe(const Unit& unit, const TierPart& part, RecordHeader* header, std::vector<PayloadRun>* runs) {
  const HeldRange range{unit.unit.hold, unit.unit.first_token, unit.unit.first_token, unit.unit.end_token};
  return describe_record(state_, range, names_of(unit.unit), part, Clipping::kRefuse, header, runs, &ids_);
}

uint32_t Stores::start_record(uint32_t index, uint32_t p, uint32_t tiers) {
  const TierPart& part = state_.plan->parts()[p];
  uint32_t full = 0;
  for (uint32_t t = 0; t < state_.tiers.size(); ++t) full |= (tiers >> t & 1) != 0 && !can_submit(t) ? 1u << t : 0;
  if (full == tiers) return full;  // before anything is summed
  if (state_.shards[part.shard].staging != nullptr) {
    bool failed = false;
    if (!is_staged(units_[index], p, &failed)) {
      if (!failed) return tiers;  // later
      units_[index].failed |= tiers;
      return 0;
    }
  }
  RecordHeader& header = header_;
  if (!describe(units_[index], part, &header, &runs_)) {
    units_[index].failed |= tiers;
    return 0;
  }
  sum(units_[index], p, &header);
  summed_ += header.payload_bytes();
  for (uint32_t t = 0; t < state_.tiers.size(); ++t) {
    if (((tiers & ~full) >> t & 1) == 0) continue;
    const Submitted submitted = submit(index, p, t, header, runs_);
    if (submitted == Submitted::kFailed) units_[index].failed |= 1u << t;
    if (submitted == Submitted::kFull) full |= 1u << t;
  }
  return full;
}

void Stores::sum(const Unit& unit, uint32_t p, RecordHeader* header) {
  const ShardBytes& shard = state_.shards[state_.plan->parts()[p].shard];
  if (shard.staging != nullptr) return sum_payload(unit.staged[p].bytes->bytes().data(), header);
  header->checksums.assign(header->num_blocks(), 0);
  sum_blocks(shard, runs_, header->block_bytes, &state_.scratch, [&](uint64_t block, uint64_t sum) { header->checksums[block] = sum; });
}

Submitted Stores::submit(uint32_t index, uint32_t p, uint32_t t, const RecordHeader& header, std::span<const PayloadRun> runs) {
  if (!can_submit(t)) return Submitted::kFull;
  const TierPart& part = state_.plan->parts()[p];
  const uint32_t slot = state_.transfers->open();
  Transfer& transfer = state_.transfers->at(slot);
  transfer.kind = TransferKind::kStore;
  transfer.tier = t;
  transfer.owner = index;
  transfer.part = p;
  transfer.end = header.end_token;
  transfer.key = header.key;
  transfer.header_bytes = header_bytes(header.shape, header.num_blocks());
  transfer.bytes = transfer.header_bytes + header.payload_bytes();
  try {
    const std::span<uint8_t> own = state_.transfers->header(slot).first(transfer.header_bytes);
    write_header(header, own);
    state_.ticket_runs.clear();
    add_header_run(own, state_.header_regions[t], &state_.ticket_runs);
    const ShardBytes& shard = state_.shards[part.shard];
    if (shard.staging == nullptr) {
      add_payload_runs(shard, shard.ids[t], runs, transfer.header_bytes, &state_.ticket_runs);
    } else {
      transfer.staged = units_[index].staged[p].bytes;
      if (const Status enlisted = state_.enlist(&transfer); !enlisted.ok()) {
        state_.close(slot);
        const bool later = enlisted.code() == QUIRE_RESOURCE_EXHAUSTED && state_.tiers[t]->num_stores > 0;
        return later ? Submitted::kFull : Submitted::kFailed;
      }
      const auto address = reinterpret_cast<uint64_t>(transfer.staged->bytes().data());
      state_.ticket_runs.push_back({transfer.region, address, header.payload_bytes(), 1, 0, transfer.header_bytes, 0});
    }
  } catch (...) {
    state_.close(slot);
    throw;
  }
  quire_ticket ticket{};
  ticket.kind = QUIRE_TICKET_STORE;
  ticket.object_bytes = transfer.bytes;
  ticket.deadline_ns = -1;
  const uint64_t bytes = transfer.bytes;
  const Submitted submitted = state_.submit(slot, ticket);
  if (submitted != Submitted::kYes) return submitted;
  count_sent(&units_[index], t, bytes);
  state_.tiers[t]->bytes_in_stores += bytes;
  ++state_.tiers[t]->num_stores;
  ++units_[index].in_flight;
  return submitted;
}

void Stores::ended(uint32_t slot, const quire_completion& end) {
  const Transfer& transfer = state_.transfers->at(slot);
  Tier& tier = *state_.tiers[transfer.tier];
  Unit& unit = units_[transfer.owner];
  tier.bytes_in_stores -= transfer.bytes;
  --tier.num_stores;
  if (end.code == QUIRE_OK) {
    tier.remember(transfer.key);
    tier.succeeded(Tier::What::kTransfer);
    const bool existed = (end.flags & QUIRE_COMPLETION_EXISTED) != 0;
    ++(existed ? tier.stats.objects_existed : tier.stats.objects_stored);
    if (!existed) tier.stats.bytes_stored += transfer.bytes;
    Arranged& arranged = state_.arranged[transfer.part];
    if (!existed && arranged == Arranged::kUnknown) arranged = Arranged::kAsOurs;
  } else {
    unit.failed |= 1u << transfer.tier;
    // A store that is full works, and one that was asked to stop does, too.
    if (end.code != QUIRE_RESOURCE_EXHAUSTED && end.code != QUIRE_CANCELLED) tier.failed(state_.now(), Tier::What::kTransfer);
  }
  const uint32_t index = transfer.owner;
  state_.close(slot);
  // One of which a part waits for a tier ends later.
  if (--unit.in_flight == 0 && unit.next_part == state_.plan->parts().size()) close(index);
}

// Blocks of a unit that ends at a state, and not where all units do, are those of a later unit, too: nothing is said of them, because a
// record that goes takes back what it was named by.
void Stores::report(const Unit& unit) noexcept {
  if (unit.unit.end_token % state_.plan->unit_tokens() != 0) return;
  for (size_t t = 0; t < state_.tiers.size(); ++t) {
    Tier& tier = *state_.tiers[t];
    if (tier.events == nullptr || ((unit.tiers & ~unit.failed) >> t & 1) == 0) continue;
    try {
      named_.assign(state_.plan->config().groups.size(), {});
      for (uint32_t p = 0; p < state_.plan->parts().size(); ++p) {
        if (!has_record(unit, p)) continue;
        const TierPart& part = state_.plan->parts()[p];
        const Tier::Named by = push_events(unit, part, &tier);
        if (by.num > 0) tier.name(state_.plan->key(part, part.name, unit.unit.end_token, names_of(unit.unit)), by);
      }
    } catch (const std::bad_alloc&) {
      tier.events->lose();
    }
  }
}

// Blocks of a group are reported once, for all ranks and for all families that share the group. A record takes back the events of its
// groups, as far as they follow each other in the ring.
Tier::Named Stores::push_events(const Unit& unit, const TierPart& part, Tier* tier) {
  Tier::Named all;
  for (const uint32_t group : state_.plan->families()[part.family].groups) {
    Tier::Named& by = named_[group];
    if (by.num == 0) by = push_group(unit, part, group, tier);
    if (all.num == 0) all.first = by.first;
    if (all.first + all.num == by.first) all.num += by.num;
  }
  return all;
}

Tier::Named Stores::push_group(const Unit& unit, const TierPart& part, uint32_t group, Tier* tier) {
  described_.clear();
  for (const BlockStretch& blocks : state_.plan->stretches(part, unit.unit.end_token)) {
    if (!part.is_state && blocks.size() == 0) continue;
    state_.cache->describe_hold(unit.unit.hold, group, blocks.first, blocks.end, tier->events->most_bytes(), &described_);
    if (part.is_state) break;
  }
  Tier::Named by;
  for (const EventRecord& record : described_) {
    const uint64_t number = tier->events->push(record);
    by = {by.num == 0 ? number : by.first, by.num + 1};
  }
  return by;
}

void Stores::close(uint32_t index) {
  Unit& unit = units_[index];
  report(unit);
  (void)state_.cache->hold_end(unit.unit.hold);
  for (size_t t = 0; t < state_.tiers.size(); ++t) {
    if ((unit.tiers >> t & 1) == 0) continue;
    ++((unit.failed >> t & 1) != 0 ? state_.tiers[t]->stats.units_dropped : state_.tiers[t]->stats.units_stored);
  }
  unit = Unit{};
  free_.push_back(index);
  --num_units_;
}

void Stores::stop() {
  for (const uint32_t index : waiting_) drop(index);
  waiting_.clear();
}

}  // namespace quire
