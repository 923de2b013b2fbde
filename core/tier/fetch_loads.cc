// Fetches: bringing the records of the boundary that was chosen.
#include <algorithm>

#include "core/base/checked.h"
#include "core/tier/fetches.h"

namespace quire {
namespace {

constexpr uint64_t kMostForeignBytes = uint64_t{1} << 28;  // of a record that is arranged otherwise
constexpr int32_t kLoadPriority = 10;

uint64_t num_blocks(const std::array<BlockStretch, 2>& stretches) { return stretches[0].size() + stretches[1].size(); }

}  // namespace

quire_fetch_outcome Fetches::begin_load(uint32_t index, uint64_t boundary, uint64_t* committed) {
  Fetch& f = fetches_[index];
  quire_reserve_entry entry{};
  entry.sequence = f.sequence.value;
  entry.flags = QUIRE_ENTRY_MATCH;
  entry.num_symbols = static_cast<uint32_t>(f.symbols.size());
  // The hit may have changed since it was asked for; then once more, from what is here now.
  for (int tries = 0; tries < 2; ++tries) {
    quire_probe_result probe{};
    if (!state_.cache->sequence_probe(f.sequence, f.symbols, &probe).ok()) return QUIRE_FETCH_FAILED;
    if (probe.hit_tokens >= boundary) return QUIRE_FETCH_NOTHING;
    entry.num_tokens = static_cast<uint32_t>(boundary - probe.hit_tokens);
    quire_reserve_result result{};
    if (!state_.cache->load_begin(entry, f.symbols, &result, &f.load).ok()) return QUIRE_FETCH_FAILED;
    if (result.code == QUIRE_RESOURCE_EXHAUSTED) return QUIRE_FETCH_NO_ROOM;
    if (result.code != QUIRE_OK) return QUIRE_FETCH_FAILED;
    f.position = result.position;
    if (f.position + result.num_tokens == boundary) break;
    std::vector<quire_load_failure> all;
    for (uint32_t g = 0; g < state_.plan->config().groups.size(); ++g) all.push_back({g, 0, f.position, result.num_tokens});
    (void)state_.cache->load_end(f.load, all, committed);
    if (*committed > 0 || tries > 0) return QUIRE_FETCH_NOTHING;
  }
  f.boundary = boundary;
  f.hit = f.position;
  f.loading_since = state_.now();
  if (prepare(&f).ok()) {
    f.phase = Phase::kPreparing;
    return QUIRE_FETCH_DONE;
  }
  for (uint32_t g = 0; g < state_.plan->config().groups.size(); ++g) f.failures.push_back({g, 0, f.position, boundary - f.position});
  (void)state_.cache->load_end(f.load, f.failures, committed);
  return QUIRE_FETCH_FAILED;
}

// Copies and zeroes of the load come before its bytes, and behind the kernels of earlier steps.
Status Fetches::prepare(Fetch* f) {
  const size_t groups = state_.plan->config().groups.size();
  uint64_t n = 0;
  f->have.resize(groups);
  f->ids.resize(groups);
  QUIRE_RETURN_IF_ERROR(state_.cache->load_have(f->load, f->have, &n));
  for (uint32_t g = 0; g < groups; ++g) QUIRE_RETURN_IF_ERROR(state_.cache->load_ids(f->load, g, &f->ids[g]));
  auto copies = state_.cache->step_copies(f->load);
  auto zeroes = state_.cache->step_zeroes(f->load);
  if (!copies.ok()) return copies.take_status();
  if (!zeroes.ok()) return zeroes.take_status();
  for (size_t s = 0; s < state_.memories.size(); ++s) {
    QUIRE_RETURN_IF_ERROR(state_.memories[s]->prepare_step(*copies, *zeroes, *state_.streams[s]));
  }
  return state_.record_events();
}

void Fetches::start_loads(uint32_t index) {
  auto done = state_.events_are_done();
  if (!done.ok()) return give_up(index, QUIRE_FETCH_FAILED);
  if (!*done) return;
  Fetch& f = fetches_[index];
  f.phase = Phase::kLoading;
  for (uint32_t p = 0; p < state_.plan->parts().size(); ++p) {
    const TierPart& part = state_.plan->parts()[p];
    f.table->each_needed(part, f.have[part.group], f.boundary, [&](uint64_t end) {
      f.pending.emplace_back(p, end);
      const WantedRecord* const record = f.table->find(p, end);
      f.bytes_wanted += record == nullptr ? 0 : record->size;
      return true;
    });
  }
  leave_out(&f);
  std::reverse(f.pending.begin(), f.pending.end());  // taken from the end
  submit_pending(index);
}

// Some drafts keep blocks of a window that nobody resumes by. No record has them, so they are as if they had failed.
void Fetches::leave_out(Fetch* f) const {
  const Config& config = state_.plan->config();
  for (uint32_t g = 0; g < config.groups.size(); ++g) {
    const GroupPlan& group = config.groups[g];
    if (group.is_state()) continue;
    const uint64_t columns = group.ids_per_block, first = f->position / group.block_tokens, end = first + f->ids[g].size() / columns;
    std::vector<bool> brought(end - first);
    const TierPart* any = nullptr;
    for (const auto& [p, unit_end] : f->pending) {
      const TierPart& part = state_.plan->parts()[p];
      if (part.group != g) continue;
      for (const BlockStretch& stretch : state_.plan->stretches(part, unit_end)) {
        for (uint64_t b = std::max(stretch.first, first); b < std::min(stretch.end, end); ++b) brought[b - first] = true;
      }
    }
    for (const TierPart& part : state_.plan->parts()) any = part.group == g ? &part : any;
    if (any == nullptr) continue;
    for (uint64_t b = std::max(first, f->have[g] / group.block_tokens); b < end; ++b) {
      if (brought[b - first] || !has_place(*f, *any, b)) continue;
      f->failures.push_back({g, 0, b * group.block_tokens, group.block_tokens});
    }
  }
  f->num_left_out = f->failures.size();
}

// A part of what is kept goes as it is: half of the slots are left to stores and look-ups of others.
void Fetches::submit_pending(uint32_t index) {
  Fetch& f = fetches_[index];
  while (!f.pending.empty() && f.slots.size() < Transfers::kMost / 2) {
    const auto [part, end] = f.pending.back();
    if (!submit_load(index, part, end, false)) break;
    f.pending.pop_back();
  }
  if (!f.pending.empty() || !f.slots.empty()) return;
  end_load(index, f.failures.size() == f.num_left_out ? QUIRE_FETCH_DONE : f.is_late ? QUIRE_FETCH_LATE : QUIRE_FETCH_FAILED);
}

bool Fetches::has_place(const Fetch& f, const TierPart& part, uint64_t block) const {
  const std::vector<int32_t>& ids = f.ids[part.group];
  const uint64_t columns = state_.plan->config().groups[part.group].ids_per_block, blocks = ids.size() / columns;
  const uint64_t first = f.position / part.block_tokens;
  return block >= first && block - first < blocks && ids[block - first] != 0;
}

// Blocks of the record that the load has places for and lacks; between them there may be some without a place. False: none.
bool Fetches::find_wanted(const Fetch& f, const TierPart& part, Transfer* t) const {
  t->blocks = state_.plan->stretches(part, t->end);
  t->wanted = {};
  if (part.is_state) {
    t->wanted[0] = {0, 1};
    return true;
  }
  const std::vector<int32_t>& ids = f.ids[part.group];
  const uint64_t first = f.position / part.block_tokens, columns = state_.plan->config().groups[part.group].ids_per_block;
  const uint64_t end = first + ids.size() / columns, have = f.have[part.group] / part.block_tokens;
  for (size_t s = 0; s < 2; ++s) {
    BlockStretch w{std::max({t->blocks[s].first, first, have}), std::min(t->blocks[s].end, end)};
    while (w.first < w.end && !has_place(f, part, w.first)) ++w.first;
    while (w.first < w.end && !has_place(f, part, w.end - 1)) --w.end;
    if (w.first < w.end) t->wanted[s] = w;
  }
  return num_blocks(t->wanted) > 0;
}

bool Fetches::submit_load(uint32_t index, uint32_t p, uint64_t end, bool whole) {
  Fetch& f = fetches_[index];
  const TierPart& part = state_.plan->parts()[p];
  if (state_.transfers->is_full()) return false;
  const uint32_t slot = state_.transfers->open();
  Transfer& t = state_.transfers->at(slot);
  t.kind = TransferKind::kLoad;
  t.owner = index;
  t.part = p;
  t.end = end;
  const WantedRecord* const record = f.table->find(p, end);
  if (!find_wanted(f, part, &t)) {
    f.bytes_here += record == nullptr ? 0 : record->size;
    state_.transfers->close(slot);
    return true;
  }
  if (record == nullptr || record->size == 0 || record->size > kMostForeignBytes) {
    note_failure(&f, t);
    state_.transfers->close(slot);
    return true;
  }
  t.tier = record->tier;
  t.key = record->key;
  t.bytes = record->size;
  state_.ticket_runs.clear();
  if (whole || record->size != state_.plan->record_bytes(part, end)) {
    t.whole.resize(record->size);
    add_header_run(t.whole, 0, &state_.ticket_runs);
  } else {
    t.header_bytes = header_bytes(part.shape, num_blocks(t.blocks));
    add_header_run(state_.transfers->header(slot).first(t.header_bytes), state_.header_regions[t.tier], &state_.ticket_runs);
    const uint64_t first = part.is_state ? 0 : f.position / part.block_tokens;
    uint64_t before = 0;
    for (size_t s = 0; s < 2; ++s) {
      const BlockStretch& w = t.wanted[s];
      if (w.size() > 0 && part.is_state) part.runs.state(f.ids[part.group], &t.runs);
      if (w.size() > 0 && !part.is_state) {
        part.runs.tokens(w.first * part.block_tokens, w.end * part.block_tokens, f.ids[part.group], static_cast<uint32_t>(first),
                         t.blocks[s].first - before, &t.runs);
      }
      before += t.blocks[s].size();
    }
    const ShardBytes& shard = state_.shards[part.shard];
    add_payload_runs(shard, shard.ids[t.tier], t.runs, t.header_bytes, &state_.ticket_runs);
  }
  quire_ticket ticket{};
  ticket.kind = QUIRE_TICKET_LOAD;
  ticket.priority = kLoadPriority;
  ticket.deadline_ns = f.deadline;
  const Submitted submitted = state_.submit(slot, ticket);
  if (submitted == Submitted::kYes) f.slots.push_back(slot);
  if (submitted == Submitted::kFailed) {
    note_failure(&f, t);  // closed, but still as it was
    ++state_.tiers[t.tier]->stats.objects_failed;
  }
  return submitted != Submitted::kFull;
}

// What did not come, as tokens of the group.
void Fetches::note_failure(Fetch* f, const Transfer& t) const {
  const TierPart& part = state_.plan->parts()[t.part];
  if (part.is_state) {
    f->failures.push_back({part.group, 0, f->position, f->boundary - f->position});
    return;
  }
  for (const BlockStretch& w : t.wanted) {
    if (w.size() > 0) f->failures.push_back({part.group, 0, w.first * part.block_tokens, w.size() * part.block_tokens});
  }
}

void Fetches::count_failure(const Transfer& t, quire_code code) {
  Tier& tier = *state_.tiers[t.tier];
  switch (code) {
    case QUIRE_NOT_FOUND:
      ++tier.stats.objects_missing;
      tier.forget(t.key);
      break;
    case QUIRE_OUT_OF_RANGE:
    case QUIRE_DATA_LOSS:
      ++tier.stats.objects_damaged;
      tier.forget(t.key);
      state_.remove(t.tier, t.key);
      break;
    default:
      ++tier.stats.objects_failed;
      if (code != QUIRE_CANCELLED) tier.failed(state_.now());
      break;
  }
}

void Fetches::load_ended(uint32_t slot, const quire_completion& end) {
  const Transfer& t = state_.transfers->at(slot);
  if (t.owner == 0xffffffffu) {  // nobody waits for it; its blocks may be let go when all of the load have ended
    const auto held = quarantine_.find(t.quarantine);
    if (held != quarantine_.end() && --held->second == 0) {
      (void)state_.cache->hold_end(held->first);
      quarantine_.erase(held);
      --state_.stats.quarantined;
    }
    state_.transfers->close(slot);
    return;
  }
  const uint32_t index = t.owner;
  Fetch& f = fetches_[index];
  quire_code code = end.code;
  bool otherwise = false;
  if (code == QUIRE_OK) code = t.whole.empty() ? check_arrived(slot, f, &otherwise) : scatter(t, f);
  f.slots.erase(std::find(f.slots.begin(), f.slots.end(), slot));
  if (code == QUIRE_OK && !otherwise) {
    Tier& tier = *state_.tiers[t.tier];
    tier.succeeded();
    ++tier.stats.objects_loaded;
    tier.stats.bytes_loaded += t.bytes;
    f.bytes_here += t.bytes;
    f.bytes_of[t.tier] += t.bytes;
  } else if (code != QUIRE_OK) {
    f.is_late = f.is_late || code == QUIRE_DEADLINE_EXCEEDED;
    count_failure(t, code);
    note_failure(&f, t);
  }
  const uint32_t part = t.part;
  const uint64_t unit_end = t.end;
  state_.transfers->close(slot);
  // Its size was that of ours, its arrangement was not: it is read once more, as a whole.
  if (otherwise && !submit_load(index, part, unit_end, true)) f.pending.emplace_back(part, unit_end);
  submit_pending(index);
}

// The header came beside its payload, which lies in the pool already.
quire_code Fetches::check_arrived(uint32_t slot, const Fetch& f, bool* otherwise) {
  const Transfer& t = state_.transfers->at(slot);
  const TierPart& part = state_.plan->parts()[t.part];
  auto header = read_header(state_.transfers->header(slot).first(t.header_bytes));
  if (!header.ok()) return QUIRE_DATA_LOSS;
  if (header->key != t.key || header->fingerprint != state_.plan->fingerprint() || header->end_token != t.end) return QUIRE_DATA_LOSS;
  *otherwise = header->shape != part.shape || header->stretches != t.blocks || header->block_bytes != part.runs.block_bytes();
  if (*otherwise) return QUIRE_OK;
  std::vector<bool> lacking(header->num_blocks());  // of the payload: those that were to come
  size_t n = 0;
  for (const BlockStretch& w : t.wanted) {
    for (uint64_t b = w.first; b < w.end; ++b) {
      if (!part.is_state && !has_place(f, part, b)) continue;
      const uint64_t place = header->index_of(b);
      if (place == UINT64_MAX) return QUIRE_DATA_LOSS;
      lacking[place] = true;
      ++n;
    }
  }
  bool good = true;
  sum_blocks(state_.shards[part.shard], t.runs, header->block_bytes, &state_.scratch, [&](uint64_t block, uint64_t sum) {
    if (block >= lacking.size() || !lacking[block]) return;
    good = good && header->checksums[block] == sum;
    lacking[block] = false;
    --n;
  });
  return good && n == 0 ? QUIRE_OK : QUIRE_DATA_LOSS;
}

const RecordRuns* Fetches::runs_for(const Transfer& t, const RecordShape& shape) {
  constexpr size_t kMostShapes = 256;  // of records of others, who are believed nothing
  std::vector<uint8_t> bytes;
  shape.encode(&bytes);
  const auto key = std::make_pair(t.part, std::move(bytes));
  const auto known = foreign_.find(key);
  if (known != foreign_.end()) return known->second.get();
  if (foreign_.size() >= kMostShapes) foreign_.clear();
  const TierPart& part = state_.plan->parts()[t.part];
  auto made = RecordRuns::make(state_.plan->config(), part.shard, part.group, shape);
  return foreign_.emplace(key, made.ok() ? std::make_unique<RecordRuns>(std::move(*made)) : nullptr).first->second.get();
}

// From a record that is arranged otherwise.
quire_code Fetches::scatter(const Transfer& t, const Fetch& f) {
  const TierPart& part = state_.plan->parts()[t.part];
  auto header = read_header(t.whole);
  if (!header.ok() || header->key != t.key || header->fingerprint != state_.plan->fingerprint() || header->end_token != t.end) {
    return QUIRE_DATA_LOSS;
  }
  const uint64_t begin = header_bytes(header->shape, header->num_blocks());
  if (begin + header->payload_bytes() != t.whole.size()) return QUIRE_DATA_LOSS;
  const std::span<const uint8_t> payload = std::span(t.whole).subspan(begin);
  if (count_damaged(*header, 0, payload) != 0) return QUIRE_DATA_LOSS;
  const RecordRuns* const runs = runs_for(t, header->shape);
  if (runs == nullptr || runs->block_bytes() != header->block_bytes || runs->block_tokens() != header->block_tokens) return QUIRE_NOT_FOUND;
  std::vector<PayloadRun> list;
  uint64_t wanted = part.is_state ? part.runs.block_bytes() : 0;  // bytes
  if (part.is_state) {
    if (header->num_blocks() != 1 || header->index_of(0) != 0) return QUIRE_DATA_LOSS;
    runs->state(f.ids[part.group], &list);
  } else {
    const uint64_t first = f.position / part.block_tokens;
    for (const BlockStretch& w : t.wanted) {
      for (uint64_t b = w.first; b < w.end; ++b) {
        if (!has_place(f, part, b)) continue;
        const uint64_t from = b * part.block_tokens, to = from + part.block_tokens, other = header->block_tokens;
        for (uint64_t at = from, next = 0; at < to; at = next) {
          next = std::min(to, (at / other + 1) * other);
          const uint64_t place = header->index_of(at / other);
          // Of a block that a window begins in, the tokens before it need not be there.
          const bool needed = next > part.live.tail_begin(f.boundary) || at < part.live.sink;
          if (place == UINT64_MAX && needed) return QUIRE_NOT_FOUND;
          if (place == UINT64_MAX) continue;
          wanted += (next - at) * (part.runs.block_bytes() / part.block_tokens);
          runs->tokens(at, next, f.ids[part.group], static_cast<uint32_t>(first), at / other - place, &list);
        }
      }
    }
  }
  uint64_t bytes = 0;
  for (const PayloadRun& run : list) {
    if (!internal::lies_within(run, payload.size())) return QUIRE_DATA_LOSS;
    bytes += run.bytes * run.count;
  }
  if (bytes != wanted) return QUIRE_NOT_FOUND;  // it has other heads
  internal::copy_runs(state_.shards[part.shard], list, 0, true, {const_cast<uint8_t*>(payload.data()), payload.size()});
  return QUIRE_OK;
}

}  // namespace quire
