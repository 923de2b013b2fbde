// Fetches: bringing the records of the boundary that was chosen.
#include <algorithm>

#include "core/base/checked.h"
#include "core/tier/fetch_records.h"
#include "core/tier/fetches.h"

namespace quire {
namespace {

constexpr int32_t kLoadPriority = 10;

// The row of the load, to be admitted at once. `known`: symbols that the sequence has from the load before.
quire_reserve_entry entry_of(const Fetch& f, uint64_t num_tokens, uint64_t known) {
  quire_reserve_entry entry{};
  entry.sequence = f.sequence.value;
  entry.flags = f.committed == 0 ? QUIRE_ENTRY_MATCH : 0;
  entry.symbols_position = known;
  entry.symbols_offset = known;
  entry.num_symbols = static_cast<uint32_t>(f.symbols.size() - known);
  entry.num_tokens = static_cast<uint32_t>(num_tokens);
  entry.encoder_tokens = f.encoder_of_load();
  return entry;
}

void count_failure(TierState& state, const Transfer& t, quire_code code) {
  Tier& tier = *state.tiers[t.tier];
  switch (code) {
    case QUIRE_NOT_FOUND:
      ++tier.stats.objects_missing;
      tier.forget(t.key);
      break;
    case QUIRE_OUT_OF_RANGE:
    case QUIRE_DATA_LOSS:
      ++tier.stats.objects_damaged;
      tier.forget(t.key);
      if (!tier.is_peers()) state.remove(t.tier, t.key);
      break;
    default:
      ++tier.stats.objects_failed;
      if (code != QUIRE_CANCELLED && code != QUIRE_DEADLINE_EXCEEDED) tier.failed(state.now(), Tier::What::kTransfer);
      break;
  }
}

// Copies and zeroes of the load come before its bytes, and behind the kernels of earlier steps.
Status prepare(TierState& state, Fetch* f) {
  QUIRE_RETURN_IF_ERROR(f->places.read(*state.cache, f->load, *state.plan, f->position));
  auto copies = state.cache->step_copies(f->load);
  auto zeroes = state.cache->step_zeroes(f->load);
  if (!copies.ok()) return copies.take_status();
  if (!zeroes.ok()) return zeroes.take_status();
  for (size_t s = 0; s < state.memories.size(); ++s) {
    QUIRE_RETURN_IF_ERROR(state.memories[s]->prepare_step(*copies, *zeroes, *state.streams[s]));
  }
  f->mark = state.mark_streams();
  return {};
}

// Some drafts keep blocks of a window that nobody resumes by. No record has them, so they are as if they had failed.
void leave_out(const TierState& state, Fetch* f) {
  const Sources& sources = *state.sources;
  for (uint32_t i = 0; i < state.plan->families().size(); ++i) {
    if (sources.sets(i).empty()) continue;
    const TierPart& any = sources.part_of(sources.sets(i)[0][0]);
    if (any.is_state) continue;
    const uint64_t first = f->places.first_block(any), end = f->places.end_block(any);
    std::vector<bool> brought(end - first);
    const auto bring = [&](uint64_t to) {
      for (const BlockStretch& stretch : state.plan->stretches(any, to)) {
        for (uint64_t b = std::max(stretch.first, first); b < std::min(stretch.end, end); ++b) brought[b - first] = true;
      }
    };
    for (const PendingLoad& load : f->pending) {
      if (sources.part_of(load.source).family == i) bring(load.end);
    }
    for (const Fetch::Coming& coming : f->coming) {
      if (coming.family == i) bring(coming.end);
    }
    // Where a chunk begins inside a block nothing of this block is needed, and the sequence writes on in it.
    const bool begins = any.live.tail_begin(f->boundary) >= f->boundary && f->boundary > any.live.sink;
    const uint64_t begun = begins && f->boundary % any.block_tokens != 0 ? f->boundary / any.block_tokens : UINT64_MAX;
    for (uint64_t b = first; b < end; ++b) {
      if (!brought[b - first] && b != begun && f->places.has_place(any, b)) f->places.lose(any, b, b + 1, &f->lost);
    }
  }
}

}  // namespace

quire_fetch_outcome Fetches::begin_load(uint32_t index, uint64_t boundary, uint64_t* committed) {
  Fetch& f = fetches_[index];
  f.lost.begin(state_.plan->config(), boundary, f.encoder_of_load());
  // The hit may have changed since it was asked for; then once more, from what is here now.
  for (int tries = 0; tries < 2; ++tries) {
    quire_sequence_info info{};
    quire_probe_result probe{};
    probe.hit_tokens = f.committed;
    if (!state_.cache->sequence_info(f.sequence, &info).ok()) return QUIRE_FETCH_FAILED;
    if (f.committed == 0 && !state_.cache->sequence_probe(f.sequence, f.symbols, &probe).ok()) return QUIRE_FETCH_FAILED;
    if (probe.hit_tokens >= boundary) return QUIRE_FETCH_NOTHING;
    quire_reserve_result result{};
    const uint64_t known = std::min<uint64_t>(info.known, f.symbols.size());
    const Status begun = state_.cache->load_begin(entry_of(f, boundary - probe.hit_tokens, known), f.symbols, &result, &f.load);
    const quire_code code = begun.ok() ? result.code : begun.code();
    if (code == QUIRE_RESOURCE_EXHAUSTED) return QUIRE_FETCH_NO_ROOM;
    if (code != QUIRE_OK) return QUIRE_FETCH_FAILED;
    f.phase = Phase::kPreparing;  // there is a load from now on
    f.position = result.position;
    if (f.position + result.num_tokens == boundary) break;
    f.lost.lose_all();
    (void)state_.cache->load_end(f.load, f.lost.failures(), committed);
    f.phase = Phase::kLooking;
    if (*committed > 0 || tries > 0) return QUIRE_FETCH_NOTHING;  // also where it goes on: *committed is what it had
    f.lost.begin(state_.plan->config(), boundary, f.encoder_of_load());
  }
  f.boundary = boundary;
  f.hit = f.position;
  f.loading_since = state_.now();
  if (prepare(state_, &f).ok()) return QUIRE_FETCH_DONE;
  f.lost.lose_all();
  (void)state_.cache->load_end(f.load, f.lost.failures(), committed);
  return QUIRE_FETCH_FAILED;
}

void Fetches::start_loads(uint32_t index) {
  Fetch& f = fetches_[index];
  if (!state_.is_done(f.mark)) return;
  f.phase = Phase::kLoading;
  f.loading_since = state_.now();
  const Sources& sources = *state_.sources;
  for (uint32_t i = 0; i < state_.plan->families().size(); ++i) {
    if (sources.sets(i).empty()) continue;
    const std::vector<uint32_t>& own = sources.sets(i)[0];
    f.table->each_needed(sources.part_of(own[0]), f.places.have(i), f.boundary, [&](uint64_t end) {
      std::span<const uint32_t> set = f.table->set_at(i, end);
      if (set.empty() && f.awaits) {
        f.coming.push_back({i, end});
        return true;
      }
      if (set.empty()) set = own;  // they fail
      add_pending(state_, i, set, end, &f);
      return true;
    });
  }
  const auto is_of_encoder = [&](const Fetch::Coming& c) { return sources.part_of(sources.sets(c.family)[0][0]).live.fixed; };
  std::sort(f.coming.begin(), f.coming.end(), [&](const auto& a, const auto& b) {
    return std::make_pair(!is_of_encoder(a), a.end) < std::make_pair(!is_of_encoder(b), b.end);
  });
  leave_out(state_, &f);
  std::reverse(f.pending.begin(), f.pending.end());  // taken from the end
  submit_pending(index);
}

// A part of what is kept goes as it is: half of the slots are left to stores and look-ups of others.
void Fetches::submit_pending(uint32_t index) {
  Fetch& f = fetches_[index];
  while (!f.pending.empty() && f.slots.size() < Transfers::kMost / 2) {
    if (!submit_load(index, f.pending.back())) break;
    f.pending.pop_back();
  }
  if (!f.pending.empty() || !f.slots.empty() || !f.coming.empty() || is_stopping_ || f.is_doomed) return;
  end_load(index, !f.has_failed ? QUIRE_FETCH_DONE : f.late != 0 ? QUIRE_FETCH_LATE : QUIRE_FETCH_FAILED);
}

bool Fetches::submit_load(uint32_t index, const PendingLoad& load) {
  if (state_.transfers->is_full()) return false;
  const uint32_t slot = state_.transfers->open();
  Transfer& t = state_.transfers->at(slot);
  t.kind = TransferKind::kLoad;
  t.owner = index;
  t.part = load.source;
  t.end = load.end;
  t.assembly = load.assembly;
  try {
    return fill_load(index, slot, load.way);
  } catch (...) {  // it was not submitted
    state_.close(slot);
    throw;
  }
}

// False: it goes later.
bool Fetches::fill_load(uint32_t index, uint32_t slot, LoadWay way) {
  Fetch& f = fetches_[index];
  Transfer& t = state_.transfers->at(slot);
  const TierPart& part = state_.sources->part_of(t.part);
  const WantedRecord* const record = f.table->find(t.part, t.end);
  if (!arrivals_.find_wanted(f, part, &t)) {
    f.bytes_here += record == nullptr ? 0 : record->size;
    state_.close(slot);
    return true;
  }
  if (way == LoadWay::kInPlace && record != nullptr && !arrivals_.can_come_in_place(f, t, *record)) way = LoadWay::kStaged;
  // On a device all come beside the pool.
  const bool is_own_staged = state_.sources->all()[t.part].is_own && state_.shards[part.shard].staging != nullptr;
  const bool is_too_large = record != nullptr && way != LoadWay::kInPlace && record->size > kMostBytesBeside && !is_own_staged;
  if (record == nullptr || record->size == 0 || is_too_large) {
    note_failure(state_, t, &f);
    if (record != nullptr && record->size > 0) ++state_.tiers[record->tier]->stats.objects_failed;
    state_.close(slot);
    return true;
  }
  t.tier = record->tier;
  t.key = record->key;
  if (t.tier == f.peer_tier) t.name_keys(f.peer_key);
  t.bytes = record->size;
  state_.ticket_runs.clear();
  if (way == LoadWay::kInPlace) {
    t.header_bytes = header_bytes(part.shape, num_blocks(t.blocks));
    arrivals_.add_places(f, &t, state_.transfers->header(slot).first(t.header_bytes));
  } else if (const Submitted beside = arrivals_.make_room(&t, record->size, way); beside != Submitted::kYes) {
    if (beside == Submitted::kFailed) {
      note_failure(state_, t, &f);
      ++state_.tiers[t.tier]->stats.objects_failed;
    }
    state_.close(slot);
    return beside == Submitted::kFailed;
  }
  quire_ticket ticket{};
  ticket.kind = QUIRE_TICKET_LOAD;
  ticket.priority = kLoadPriority;
  ticket.deadline_ns = f.deadline;
  const Submitted submitted = state_.submit(slot, ticket);
  if (submitted == Submitted::kYes) f.slots.push_back(slot);  // there is room
  if (submitted == Submitted::kFailed) {
    note_failure(state_, t, &f);  // closed, but still as it was
    ++state_.tiers[t.tier]->stats.objects_failed;
  }
  return submitted != Submitted::kFull;
}

void Fetches::load_ended(uint32_t slot, const quire_completion& end) {
  Transfer& t = state_.transfers->at(slot);
  Fetch& f = fetches_[t.owner];
  LoadEnd over{end.code};
  try {
    if (over.code == QUIRE_OK && !is_stopping_)
      over.code = t.record().empty() ? arrivals_.check(slot, f, &over.otherwise) : arrivals_.scatter(&t, &f, &over.otherwise);
  } catch (const std::bad_alloc&) {
    over.is_ours = true;
  }
  f.has_refused_blocks = f.has_refused_blocks || (end.code == QUIRE_OK && over.code == QUIRE_NOT_FOUND);
  f.peer_failed = f.peer_failed || (t.tier == f.peer_tier && end.code != QUIRE_OK);
  over.is_ours = over.is_ours || (end.code == QUIRE_OK && over.code == QUIRE_ABORTED);
  if (t.copies.empty()) return landed(slot, over);
  state_.landings.begin(slot, over);  // also of one that has failed: its copies still write
}

void Fetches::landed(uint32_t slot, const LoadEnd& end) noexcept {
  const uint32_t index = state_.transfers->at(slot).owner;
  if (index == kNone) {
    quarantine_.ended(state_.transfers->at(slot).quarantine);
    return state_.close(slot);
  }
  guarded(index, [&] {
    const Transfer& t = state_.transfers->at(slot);
    Fetch& f = fetches_[index];
    f.slots.erase(std::find(f.slots.begin(), f.slots.end(), slot));
    if (end.is_ours) {
      ++state_.tiers[t.tier]->stats.objects_failed;
      note_failure(state_, t, &f);
    } else if (end.code == QUIRE_OK && !end.otherwise) {
      Tier& tier = *state_.tiers[t.tier];
      tier.succeeded(Tier::What::kTransfer);
      ++tier.stats.objects_loaded;
      tier.stats.bytes_loaded += t.bytes;
      f.bytes_here += t.bytes;
      f.bytes_of[t.tier] += t.bytes;
      if (t.tier == f.peer_tier) f.landed_at = state_.now();
      f.elapsed_of[t.tier] = state_.now() - f.loading_since;
    } else if (end.code != QUIRE_OK) {
      f.late |= end.code == QUIRE_DEADLINE_EXCEEDED ? 1u << t.tier : 0;
      count_failure(state_, t, end.code);
      note_failure(state_, t, &f);
    }
    const PendingLoad again{t.part, t.end, t.record().empty() ? LoadWay::kStaged : LoadWay::kAll, t.assembly};
    state_.close(slot);
    if (is_stopping_) return;
    // Its size was that of one that is arranged as was thought, and it is not.
    if (end.otherwise && !submit_load(index, again)) f.pending.push_back(again);
    submit_pending(index);
  });
}

}  // namespace quire
