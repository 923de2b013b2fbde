// Fetches: who has which records, and which boundary is worth most.
#include <algorithm>
#include <bit>

#include "core/tier/fetches.h"

namespace quire {
namespace {

constexpr size_t kMostTails = 4;            // boundaries inside units that are asked for in one fetch
constexpr size_t kMostOtherKeys = 16384;    // of other tensor-parallel sizes, in one look-up
constexpr size_t kMostChoices = 64;         // boundaries that are compared
constexpr int64_t kLease = 30'000'000'000;  // ns
constexpr int32_t kLookupPriority = 20;

// Tiers nearer than all that have not answered have everything: their records are taken in any case.
bool has_enough(const TierState& state, const Arrivals& arrivals, const Fetch& f) {
  if (f.phase != FetchPhase::kLooking || f.asks_others) return false;
  const uint64_t longest = f.candidates.boundaries.back();
  std::vector<uint64_t> bytes(state.tiers.size());
  if (!f.table->has_states(longest) || !arrivals.has_whole_blocks(*f.table, longest)) return false;
  if (!f.table->is_there(f.full_hit, longest, bytes)) return false;
  uint64_t near = 0;
  for (size_t t = 0; t < bytes.size(); ++t) {
    const bool is_nearer = (f.awaited() & ((2U << t) - 1)) == 0;
    if (bytes[t] > 0 && !is_nearer) return false;
    near += bytes[t];
  }
  return near > 0;
}

}  // namespace

void Fetches::look_up(uint32_t index) {
  Fetch& f = fetches_[index];
  const TierPlan& plan = *state_.plan;
  f.table->clear(f.encoder_of_load());
  for (uint32_t p = 0; p < plan.parts().size(); ++p) {
    const TierPart& part = plan.parts()[p];
    if (part.twin != p) continue;
    if (part.is_state) {
      for (const uint64_t end : f.candidates.boundaries) f.table->add(p, end, f.names_at(end));
      continue;
    }
    if (part.live.fixed) {
      f.table->each_needed(part, 0, 0, [&](uint64_t end) {
        f.table->add(p, end, f.no_prompt);
        return true;
      });
      continue;
    }
    // Of no boundary beyond the hit is anything before this needed, but for sinks. Of what is here of those that need everything too
    // much may go until the load begins, and a tier that is never asked for the beginning of a prompt loses that first.
    const uint64_t from = part.live.everything() ? f.committed : part.live.tail_begin(f.hit);
    for (const uint64_t end : f.candidates.unit_ends) {
      const bool needed = end > from || plan.unit_begin(end) < part.live.sink;
      if (needed && plan.record_bytes(part, end) > 0) f.table->add(p, end, f.names_at(end));
    }
    const uint64_t last = f.peer_end;  // which may lie inside a unit
    const bool is_last = std::binary_search(f.candidates.boundaries.begin(), f.candidates.boundaries.end(), last);
    if (f.peer_tier != kNone && is_last && plan.record_bytes(part, last) > 0) f.table->add(p, last, f.names_at(last));
  }
  ask(index, 0);
}

// One ticket for each tier with the records from `first` on, in the order of the prompt: heads of chains come first.
void Fetches::ask(uint32_t index, size_t first) {
  Fetch& f = fetches_[index];
  f.asked_from = first;
  f.unasked = f.table->records().size() == first ? 0 : (1u << state_.tiers.size()) - 1;
  f.asked = 0;
  ask_rest(index);
}

// Those that are full are asked when they take more, if that is in time.
void Fetches::ask_rest(uint32_t index) {
  Fetch& f = fetches_[index];
  const size_t first = f.asked_from;
  const std::span<WantedRecord> records = f.table->records().subspan(first);
  const int64_t now = state_.now();
  if (first > 0 && now >= f.deadline) f.unasked = 0;  // what is known is enough
  for (uint32_t t = 0; t < state_.tiers.size(); ++t) {
    if ((f.unasked >> t & 1) == 0 || (state_.tiers[t]->is_open(now) && state_.transfers->is_full())) continue;
    f.unasked &= ~(1u << t);
    if (!state_.tiers[t]->is_open(now) || (state_.tiers[t]->is_peers() && t != f.peer_tier)) continue;
    if (worth_.is_too_far(f, *state_.tiers[t], now)) {
      if (first == 0) state_.tiers[t]->was_passed_over();
      f.is_far = true;
      continue;
    }
    const uint32_t slot = state_.transfers->open();
    Transfer& transfer = state_.transfers->at(slot);
    transfer.kind = TransferKind::kLookup;
    transfer.tier = t;
    transfer.owner = index;
    transfer.end = first;
    try {
      transfer.keys.clear();
      for (const WantedRecord& record : records) {
        transfer.keys.insert(transfer.keys.end(), record.key.begin(), record.key.end());
        if (t == f.peer_tier) transfer.keys.insert(transfer.keys.end(), f.peer_key.begin(), f.peer_key.end());
      }
      transfer.sizes.assign(records.size(), 0);
    } catch (...) {
      state_.close(slot);
      throw;
    }
    quire_ticket ticket{};
    ticket.kind = QUIRE_TICKET_LOOKUP;
    ticket.priority = kLookupPriority;
    ticket.num_keys = static_cast<uint32_t>(records.size());
    ticket.sizes = transfer.sizes.data();
    ticket.lease_ns = kLease;
    ticket.deadline_ns = f.deadline;
    state_.ticket_runs.clear();
    const Submitted submitted = state_.submit(slot, ticket);
    if (submitted == Submitted::kFull) f.unasked |= 1u << t;
    if (submitted != Submitted::kYes) continue;
    f.asked |= 1u << t;
    state_.tiers[t]->stats.keys_looked_up += records.size();
  }
  if (f.awaited() == 0) looked_up(index);
}

void Fetches::looked_up(uint32_t index) {
  Fetch& f = fetches_[index];
  if (!f.asks_others && ask_others(index)) return;
  f.asks_others = false;
  if (f.phase == Phase::kLooking && state_.plan->has_states()) return look_up_tails(index);
  choose(index);
}

// Of what was asked for last and is not there as we write it, the records of other tensor-parallel sizes. False: none.
bool Fetches::ask_others(uint32_t index) {
  Fetch& f = fetches_[index];
  const Sources& sources = *state_.sources;
  if (!sources.has_others()) return false;
  const size_t first = f.asked_from, own = f.table->records().size();
  uint64_t there = 0;  // up to here nothing is missing
  std::vector<uint64_t> bytes(state_.tiers.size());
  for (size_t i = f.candidates.boundaries.size(); i > 0 && there == 0; --i) {
    const uint64_t boundary = f.candidates.boundaries[i - 1];
    if (f.table->has_states(boundary) && f.table->is_there(f.full_hit, boundary, bytes)) there = boundary;
  }
  for (size_t i = first; i < own && f.table->records().size() - own < kMostOtherKeys; ++i) {
    const uint64_t end = f.table->records()[i].end;
    if (end <= there) continue;
    const TierPart& part = sources.part_of(f.table->records()[i].source);
    const uint32_t family = part.family;
    const std::span<const std::vector<uint32_t>> sets = sources.sets(family);
    if (sets.size() == 1 || f.table->has_own(family, end)) continue;
    for (const std::vector<uint32_t>& set : sets.subspan(1)) {
      for (const uint32_t source : set) f.table->add(source, end, f.names_of(part, end));
    }
  }
  if (f.table->records().size() == own) return false;
  f.asks_others = true;
  ask(index, own);
  return true;
}

// The first answers are here, and the time for others is over.
void Fetches::choose_without_the_rest(uint32_t index) {
  Fetch& f = fetches_[index];
  orphan_lookups(index, state_.now() >= f.fair);
  f.asked = f.unasked = 0;
  f.asks_others = false;
  f.lacks_answers = true;
  choose(index);
}

void Fetches::lookup_is_late(const Transfer& t) {
  if (worth_.is_known()) state_.tiers[t.tier]->saw_late_lookup(state_.now() - t.begun);
  state_.tiers[t.tier]->failed(state_.now(), Tier::What::kLookup);
}

void Fetches::lookup_ended(uint32_t slot, const quire_completion& end) {
  Transfer& transfer = state_.transfers->at(slot);
  Tier& tier = *state_.tiers[transfer.tier];
  const uint32_t index = transfer.owner;
  const bool given_up = index == kNone;
  if (end.code == QUIRE_OK) {
    tier.saw_lookup(state_.now() - transfer.begun);
    tier.succeeded(Tier::What::kLookup);
  } else if (end.code == QUIRE_DEADLINE_EXCEEDED) {
    if (!given_up) fetches_[index].lacks_answers = true;
    if (!given_up && state_.now() >= fetches_[index].fair) lookup_is_late(transfer);
  } else if (end.code != QUIRE_CANCELLED) {
    tier.failed(state_.now(), Tier::What::kLookup);
  }
  if (!given_up && transfer.tier == fetches_[index].peer_tier && end.code != QUIRE_OK) fetches_[index].peer_failed = true;
  if (!given_up && end.code == QUIRE_OK) {
    const std::span<WantedRecord> records = fetches_[index].table->records().subspan(transfer.end);
    for (size_t i = 0; i < transfer.sizes.size(); ++i) {
      if (transfer.sizes[i] == 0) {
        tier.forget(records[i].key);
        continue;
      }
      tier.remember(records[i].key);
      ++tier.stats.keys_found;
      if (records[i].size != 0 && records[i].tier <= transfer.tier) continue;
      records[i].size = transfer.sizes[i];
      records[i].tier = transfer.tier;
    }
  }
  const uint32_t answered = 1u << transfer.tier;
  state_.close(slot);
  if (given_up || is_stopping_) return;
  Fetch& f = fetches_[index];
  f.asked &= ~answered;
  if (f.awaited() != 0 && has_enough(state_, arrivals_, f)) {
    orphan_lookups(index, false);
    f.asked = f.unasked = 0;
  }
  if (f.awaited() == 0) looked_up(index);
}

// A state was kept inside a unit: the last part of the unit is a record of its own.
void Fetches::look_up_tails(uint32_t index) {
  Fetch& f = fetches_[index];
  const TierPlan& plan = *state_.plan;
  const size_t first = f.table->records().size();
  size_t tails = 0;
  for (size_t i = f.candidates.boundaries.size(); i > 0 && tails < kMostTails; --i) {
    const uint64_t boundary = f.candidates.boundaries[i - 1];
    if (boundary % plan.unit_tokens() == 0 || !f.table->has_states(boundary)) continue;
    ++tails;
    for (uint32_t p = 0; p < plan.parts().size(); ++p) {
      const TierPart& part = plan.parts()[p];
      const bool has_tail = part.twin == p && !part.is_state && !part.live.fixed && plan.record_bytes(part, boundary) > 0;
      if (has_tail) f.table->add(p, boundary, f.names_at(boundary));
    }
  }
  f.phase = Phase::kLookingAgain;
  ask(index, first);
}

// The longest of those that are worth it: what it saves more than it takes decides where computing has a price.
void Fetches::choose(uint32_t index) {
  Fetch& f = fetches_[index];
  if (const uint64_t boundary = awaiting_.boundary(f); boundary > 0) {
    if (!f.has_met) return meet(index);
    f.fair = f.deadline = f.growing_until;
    awaiting_.begin(boundary, &f);
    return start(index, boundary);
  }
  f.awaits = false;
  uint64_t best = 0;
  double most = 0;
  bool any = false;
  size_t seen = 0;
  std::vector<uint64_t> bytes(state_.tiers.size()), longest, chosen;
  for (size_t i = f.candidates.boundaries.size(); i > 0 && seen < kMostChoices; --i) {
    const uint64_t boundary = f.candidates.boundaries[i - 1];
    if (!f.table->has_states(boundary)) continue;  // cheap, and most have none
    if (!arrivals_.has_whole_blocks(*f.table, boundary)) {
      f.has_refused_blocks = true;
      continue;
    }
    std::fill(bytes.begin(), bytes.end(), 0);
    if (!f.table->is_there(f.full_hit, boundary, bytes)) continue;
    // Where a chunk begins nothing is needed. That says nobody has computed what is before it.
    if (std::all_of(bytes.begin(), bytes.end(), [](uint64_t n) { return n == 0; })) continue;
    if (!any) longest = bytes;
    any = true;
    ++seen;
    const double saves = worth_.saves(f, boundary, bytes);
    if (saves <= most) continue;
    best = boundary;
    most = saves;
    chosen = bytes;
  }
  if (best == 0 && any) {
    for (size_t t = 0; t < bytes.size(); ++t) {
      if (longest[t] > 0) state_.tiers[t]->was_passed_over();
    }
  }
  if (best == 0) {
    const quire_fetch_outcome none = f.lacks_answers ? QUIRE_FETCH_LATE : QUIRE_FETCH_NOTHING;
    return finish(index, any || f.is_far ? QUIRE_FETCH_SLOWER : none, 0);
  }
  worth_.limit_load(&f, best, chosen, state_.now());
  start(index, best);
}

void Fetches::meet(uint32_t index) {
  Fetch& f = fetches_[index];
  f.phase = Phase::kMeeting;
  f.ending = {};
  const int64_t now = state_.now();
  f.growing_until = f.has_deadline ? f.deadline : later(now, worth_.growing_ns(f, f.peer_end));
  if (!f.has_deadline) f.deadline = std::max(f.fair, now + 2 * kMostSilence);  // for two questions
  if (!questions_.move_on(index, &f)) met(index);
}

void Fetches::met(uint32_t index) {
  Fetch& f = fetches_[index];
  f.has_met = true;
  f.is_growing = f.ending.fits;
  if (!f.has_deadline) f.deadline = f.fair;
  choose(index);
}

void Fetches::start(uint32_t index, uint64_t boundary) {
  Fetch& f = fetches_[index];
  // Transfers that nobody waits for hold blocks. There must not be more and more of them.
  if (state_.stats.quarantined >= fetches_.size()) return finish(index, QUIRE_FETCH_NO_ROOM, 0);
  if (!f.has_deadline) f.deadline = f.fair;
  uint64_t committed = 0;
  const quire_fetch_outcome outcome = begin_load(index, boundary, &committed);
  if (outcome != QUIRE_FETCH_DONE) finish(index, outcome, committed);
}

}  // namespace quire
