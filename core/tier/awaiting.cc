#include "core/tier/awaiting.h"

#include <algorithm>

#include "core/tier/fetch_records.h"
#include "core/tier/offer_description.h"

namespace quire {
namespace {

constexpr size_t kMostComing = 256;                // keys in one look-up
constexpr int64_t kSoonestLook = 1'000'000;        // ns between look-ups
constexpr int64_t kLatestLook = 50'000'000;        // the same
constexpr int64_t kQuietShare = 16;                // of the time since something came
constexpr int64_t kLeaseOfOffer = 30'000'000'000;  // ns
constexpr int64_t kRenewal = kLeaseOfOffer / 3;
constexpr int32_t kComingPriority = 20;

}  // namespace

uint64_t Awaiting::boundary(const Fetch& f) const {
  if (!f.is_growing || f.peer_tier == kNone || !state_.tiers[f.peer_tier]->is_open(state_.now())) return 0;
  const std::vector<uint64_t>& all = f.candidates.boundaries;
  uint64_t boundary = 0;
  if (std::binary_search(all.begin(), all.end(), f.peer_end)) {
    boundary = f.peer_end;
  } else if (f.is_cut && f.peer_end <= f.longest && !all.empty() && all.back() < f.peer_end) {
    // The rest comes in another load, unless a group needs what an offer has at its end only.
    const std::span<const TierPart> parts = state_.plan->parts();
    const bool is_anywhere =
        std::all_of(parts.begin(), parts.end(), [](const TierPart& part) { return part.live.everything() || part.live.fixed; });
    boundary = is_anywhere ? all.back() : 0;
  }
  std::vector<uint64_t> bytes(state_.tiers.size());
  const bool is_there = boundary > 0 && f.table->is_there(f.full_hit, boundary, bytes);
  return is_there ? 0 : boundary;
}

void Awaiting::begin(uint64_t boundary, Fetch* fetch) const {
  Fetch& f = *fetch;
  const Sources& sources = *state_.sources;
  for (uint32_t i = 0; i < state_.plan->families().size(); ++i) {  // whoever may be the writer
    if (sources.sets(i).empty()) continue;
    const TierPart& part = sources.part_of(sources.sets(i)[0][0]);
    f.table->each_needed(part, f.committed, boundary, [&](uint64_t end) {
      for (const std::vector<uint32_t>& set : sources.sets(i)) {
        for (const uint32_t source : set) f.table->add(sources.all()[source].twin, end, f.names_of(part, end));
      }
      return true;
    });
  }
  f.awaits = true;
  f.came_at = f.ask_at = state_.now();
  f.renew_at = later(f.ask_at, static_cast<double>(kRenewal));
}

template <typename Visit>
void Awaiting::each(const Fetch& f, Visit visit) const {
  size_t n = 0;
  for (const Fetch::Coming& coming : f.coming) {
    if (n >= kMostComing) return;
    for (const std::vector<uint32_t>& set : state_.sources->sets(coming.family)) {
      for (const uint32_t source : set) visit(source, coming.end);
      n += set.size();
    }
  }
}

void Awaiting::ask(uint32_t index, Fetch* fetch) {
  Fetch& f = *fetch;
  if (!f.awaits) return;
  const int64_t now = state_.now();
  if (f.coming_slot != kNone || now < f.ask_at) return;
  f.ask_at = now + kSoonestLook;
  if (state_.transfers->is_full() || (f.coming.empty() && f.slots.empty())) return;
  const uint32_t slot = state_.transfers->open();
  Transfer& t = state_.transfers->at(slot);
  t.kind = TransferKind::kComing;
  t.tier = f.peer_tier;
  t.owner = index;
  uint32_t n = 0;
  const bool renews = now >= f.renew_at;
  try {
    t.keys.clear();
    const auto add = [&](const RecordKey& key) {
      t.keys.insert(t.keys.end(), key.begin(), key.end());
      t.keys.insert(t.keys.end(), f.peer_key.begin(), f.peer_key.end());
      ++n;
    };
    add(description_key());
    each(f, [&](uint32_t source, uint64_t end) { add(f.table->find(source, end)->key); });
    if (renews) {  // what came is a part of an offer that must not end yet
      for (const RecordKey& key : f.earlier) add(key);
      for (const WantedRecord& record : f.table->records()) {
        if (record.size != 0 && record.tier == f.peer_tier) add(record.key);
      }
    }
    t.sizes.assign(n, 0);
  } catch (...) {
    state_.close(slot);
    throw;
  }
  quire_ticket ticket{};
  ticket.kind = QUIRE_TICKET_LOOKUP;
  ticket.priority = kComingPriority;
  ticket.num_keys = n;
  ticket.sizes = t.sizes.data();
  ticket.lease_ns = kLeaseOfOffer;
  ticket.deadline_ns = std::min(f.deadline, now + kMostSilence);
  state_.ticket_runs.clear();
  const Submitted submitted = state_.submit(slot, ticket);
  if (submitted == Submitted::kYes) {
    f.coming_slot = slot;
    if (renews) f.renew_at = now + kRenewal;
  }
  if (submitted != Submitted::kFailed) return;
  f.peer_failed = true;
  lose(&f);
}

bool Awaiting::ended(uint32_t slot, const quire_completion& end, Fetch* fetch) {
  Transfer& t = state_.transfers->at(slot);
  Fetch& f = *fetch;
  Tier& tier = *state_.tiers[t.tier];
  const int64_t now = state_.now();
  bool any = false;
  if (end.code == QUIRE_OK) {
    tier.saw_lookup(now - t.begun);
    tier.succeeded(Tier::What::kLookup);
    size_t i = 1;
    each(f, [&](uint32_t source, uint64_t at) {
      any = any || t.sizes[i] != 0;
      f.table->set_size(source, at, t.sizes[i++], f.peer_tier);
    });
  }
  const bool has_offer = end.code == QUIRE_OK && t.sizes[0] != 0;
  const bool is_late = end.code == QUIRE_DEADLINE_EXCEEDED;
  const bool is_busy = end.code == QUIRE_RESOURCE_EXHAUSTED || (is_late && f.landed_at > t.begun);  // or its answer waits after bytes
  f.coming_slot = kNone;
  state_.close(slot);
  if (any && take(&f)) f.came_at = now;
  f.ask_at = now + std::clamp((now - f.came_at) / kQuietShare, kSoonestLook, kLatestLook);
  if (has_offer || is_busy) return true;
  if (end.code != QUIRE_OK) tier.failed(now, Tier::What::kLookup);
  f.peer_failed = true;
  lose(&f);
  return !is_late;
}

bool Awaiting::take(Fetch* f) const {
  const size_t before = f->coming.size();
  std::erase_if(f->coming, [&](const Fetch::Coming& coming) {
    const std::span<const uint32_t> set = f->table->set_at(coming.family, coming.end);
    if (set.empty()) return false;
    add_pending(state_, coming.family, set, coming.end, f);
    return true;
  });
  return f->coming.size() != before;
}

void Awaiting::lose(Fetch* f) const {
  for (const Fetch::Coming& coming : f->coming) {
    Transfer t;
    t.part = state_.sources->sets(coming.family)[0][0];
    t.end = coming.end;
    if (arrivals_.find_wanted(*f, state_.sources->part_of(t.part), &t)) note_failure(state_, t, f);
  }
  f->coming.clear();
}

void Awaiting::stop(Fetch* f) noexcept {
  if (f->coming_slot == kNone) return;
  state_.transfers->at(f->coming_slot).owner = kNone;
  state_.cancel(f->coming_slot);
  f->coming_slot = kNone;
}

}  // namespace quire
