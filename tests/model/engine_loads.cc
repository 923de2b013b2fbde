// Loads of a random engine: a connector brings a stretch of a prompt, all of it, a part of every group or nothing, while others run.
#include <algorithm>

#include "tests/model/random_engine.h"

namespace quire::model {

// any: of any request that can be loaded.
void Engine::load(bool any) {
  if (requests_.empty() || (any && !allowed(kLoad))) return;
  const auto may = [](const Request& q) { return q.in_flight == 0 && q.reserved + 1 < q.prompt; };
  size_t i = pick(rng_, requests_.size());
  for (size_t tries = any ? requests_.size() : 0; tries > 0 && !may(requests_[i]); --tries) i = (i + 1) % requests_.size();
  Request& r = requests_[i];
  if (!may(r)) return;
  quire_reserve_entry e{};
  e.sequence = r.id.value;
  const uint64_t rest = r.prompt - 1 - r.reserved;
  e.num_tokens = static_cast<uint32_t>(chance(rng_, 40) ? rest : 1 + pick(rng_, rest));
  e.encoder_tokens = r.reserved == 0 ? r.encoder : 0;
  symbols_.clear();
  if (r.fresh && chance(rng_, 90)) {
    e.flags = QUIRE_ENTRY_MATCH;
    e.num_symbols = static_cast<uint32_t>(r.prompt);
    symbols_.assign(r.tokens.begin(), r.tokens.begin() + static_cast<long>(r.prompt));
  } else {
    const uint64_t end = std::max(r.known, r.reserved + e.num_tokens);
    e.num_symbols = static_cast<uint32_t>(end - r.known);
    symbols_.assign(r.tokens.begin() + static_cast<long>(r.known), r.tokens.begin() + static_cast<long>(end));
  }
  e.symbols_position = r.known;
  if (chance(rng_, 20)) e.flags |= QUIRE_ENTRY_KEEP_STATE;
  if (r.fresh && roll(kFullLength, 15)) e.full_tokens = std::min(r.prompt + 12, shape_.max_len);
  before_ = stats();
  const bool alone = std::all_of(requests_.begin(), requests_.end(), [](const Request& q) { return q.reserved == 0; });
  quire_reserve_result result{};
  PlannedStep planned;
  const Status begun = cache_->load_begin(e, symbols_, &result, &planned.id);
  if (loads_.size() == max_loads_) {
    MODEL_REQUIRE(begun.code() == QUIRE_RESOURCE_EXHAUSTED, "a load too many");
    return note(kFailure);
  }
  require_ok(begun, "load_begin");
  note_given_up(planned.id.value != 0);
  see_units(true);
  trace("load %llu of %llx tokens %u flags %u: %d at %llu +%u hit %u\n", (unsigned long long)planned.id.value,
        (unsigned long long)e.sequence, e.num_tokens, e.flags, result.code, (unsigned long long)result.position, result.num_tokens,
        result.hit_tokens);
  if (result.code != QUIRE_OK) {
    MODEL_REQUIRE(planned.id.value == 0, "a refused load has an id");
    return refused(e, result, r, true);
  }
  MODEL_REQUIRE(result.row == 0 && planned.id.value != 0, "a load is a step of one row");
  MODEL_REQUIRE(result.num_tokens <= max_load_tokens_, "a load of " + std::to_string(result.num_tokens) + " tokens");
  planned.rows.push_back(row_of(e, result, &r));
  newest_step_ = planned.id.value;
  r.loading = true;
  check_have(&planned, alone, result.full_hit_tokens);
  auto copies = cache_->step_copies(planned.id);
  MODEL_REQUIRE(copies.ok(), "the load is in progress");
  expected_.copies += copies->size();
  memory_->plan(*cache_, &planned);
  memory_->check_slots(*cache_, planned);
  if (planned.id.value % 4 == 0) follow_one(planned.id);
  run_until(in_flight_.size());  // pages that these zero may have parts for the load
  memory_->prepare(planned);
  loads_.push_back(std::move(planned));
  note(kLoad);
}

// What of the load is cached. It is no less than the tokens up to which groups that need everything could have resumed, where the sequence
// is not alone.
void Engine::check_have(PlannedStep* load, bool alone, uint64_t full_hit) {
  const PlannedRow& row = load->rows[0];
  const uint64_t end = row.position + row.num_tokens;
  uint64_t count = 0;
  require_ok(cache_->load_have(load->id, {}, &count), "load_have");
  MODEL_REQUIRE(count == shape_.groups.size(), "groups of a load");
  load->have.resize(count);
  if (count > 1) {
    const Status brief = cache_->load_have(load->id, std::span(load->have).first(count - 1), &count);
    MODEL_REQUIRE(brief.code() == QUIRE_OUT_OF_RANGE, "an array that is too short");
  }
  require_ok(cache_->load_have(load->id, load->have, &count), "load_have");
  bool shared = false;
  for (uint32_t g = 0; g < count; ++g) {
    const GroupSketch& group = shape_.groups[g];
    const uint64_t have = load->have[g], size = group.block_tokens;
    shared = shared || have > row.position;
    const bool may = row.matched && !group.live.state && !group.live.fixed && group.look_ahead == 0 && row.position % size == 0;
    MODEL_REQUIRE(have >= row.position && have <= end && (have == row.position || (may && have % size == 0)),
                  "what a load need not bring of group " + std::to_string(g) + ": " + std::to_string(have));
    const bool must = may && !alone && group.live.everything();
    MODEL_REQUIRE(!must || have >= std::min(full_hit, end) / size * size,
                  "group " + std::to_string(g) + " has " + std::to_string(full_hit) + " tokens, and a load is to bring those from " +
                      std::to_string(have) + " on");
  }
  tally_.shared += shared ? 1 : 0;
}

// As quire_load_end says it, token by token.
uint64_t Engine::resumable(const PlannedRow& row, std::span<const quire_load_failure> failures) const {
  const uint64_t end = row.position + row.num_tokens;
  for (uint64_t length = end; length > row.position; --length) {
    bool all = true;
    for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
      const GroupSketch& group = shape_.groups[g];
      if (group.live.state) {
        all = all && length == end && !failed(failures, g, row.position, end);
        continue;
      }
      if (group.live.fixed) {
        all = all && (row.position > 0 || !failed(failures, g, 0, row.encoder));
        continue;
      }
      for (uint64_t p = row.position; p < end; ++p) {
        const uint64_t block = p / group.block_tokens;
        const bool came = p >= length || passed(group.live, group.block_tokens, block, length) || !failed(failures, g, p, p + 1);
        all = all && (left_out(group.live, group.block_tokens, block, end) ? length == end : came);
      }
    }
    if (all) return length;
  }
  return row.position;
}

void Engine::arrived(size_t i, bool faults) {
  const PlannedStep load = std::move(loads_[i]);
  loads_.erase(loads_.begin() + static_cast<long>(i));
  const PlannedRow& row = load.rows[0];
  Request& r = *alive(row);
  const uint64_t end = row.position + row.num_tokens;
  std::vector<quire_load_failure> failures;
  for (uint64_t n = faults && roll(kLoadFailure, 45) ? 1 + pick(rng_, 3) : 0; n > 0; --n) {
    const auto group = static_cast<uint32_t>(pick(rng_, shape_.groups.size()));
    const uint64_t first = chance(rng_, 15) ? pick(rng_, end) : row.position + pick(rng_, row.num_tokens);
    failures.push_back({group, 0, first, chance(rng_, 30) ? shape_.max_len : pick(rng_, 9)});
    note(kLoadFailure);
  }
  memory_->bring(load, failures);
  const uint64_t wanted = resumable(row, failures);
  uint64_t committed = 0;
  quire_hold_id late = 0;
  const bool leaves = with_late_ && faults && chance(hold_rng_, 85);
  require_ok(cache_->load_end(load.id, failures, &committed, leaves ? &late : nullptr), "load_end");
  trace("load %llu ends with %zu failures: %llu of %llu\n", (unsigned long long)load.id.value, failures.size(),
        (unsigned long long)committed, (unsigned long long)end);
  MODEL_REQUIRE(committed == wanted, "a load ends at " + std::to_string(committed) + ", expected " + std::to_string(wanted));
  MODEL_REQUIRE(cache_->load_end(load.id, {}, &committed).code() == QUIRE_NOT_FOUND, "a load ended twice");
  memory_->done(load);
  if (leaves) leave_late(load, failures, late);
  const uint64_t before = published(r);
  r.loading = false;
  r.in_flight = 0;
  r.committed = r.reserved = wanted;
  r.known = wanted < end ? wanted : std::max(r.known, end);
  if (wanted < end) cut_blocks(&r, wanted);
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
    const GroupSketch& group = shape_.groups[g];
    const auto live = static_cast<uint32_t>(group.live.kept_begin(wanted) / group.block_tokens);
    r.first_live[g] = std::max(r.first_live[g], std::min(live, r.blocks[g]));
    // What stays for drafts begins behind the last block that did not come whole.
    for (uint32_t b = r.first_live[g]; wanted > row.position && b < r.blocks[g]; ++b) {
      const uint64_t first = std::max(uint64_t{b} * group.block_tokens, row.position);
      const bool whole = !failed(failures, g, first, uint64_t{b + 1} * group.block_tokens);
      if (!whole && passed(group.live, group.block_tokens, b, wanted)) r.first_live[g] = b + 1;
    }
  }
  r.fresh = r.reserved == 0 && r.known == 0;
  note_row(r, row, before, false);
  see_units(false);
}

// Until the load ends its sequence stays as it is.
void Engine::call_while_loading(const Request& r) {
  note(kFailure);
  quire_reserve_entry e{};
  e.sequence = r.id.value;
  e.num_tokens = 1;
  quire_reserve_result result{};
  StepId step;
  const uint64_t kind = pick(rng_, 6);
  quire_code code = QUIRE_FAILED_PRECONDITION;
  if (kind == 0) code = cache_->sequence_finish(r.id).code();
  if (kind == 1) code = cache_->sequence_preempt(r.id).code();
  if (kind == 2) code = cache_->sequence_fork(r.id).status().code();
  if (kind == 3) code = cache_->sequence_truncate(r.id, 0).code();
  if (kind == 4) code = cache_->load_begin(e, {}, &result, &step).code();
  if (kind == 5 && in_flight_.size() < shape_.depth) {
    require_ok(cache_->reserve({&e, 1}, {}, {&result, 1}, &step), "reserve");
    MODEL_REQUIRE(step.value == 0, "a row of a sequence that is loading");
    ++expected_.refused_entries;
    code = result.code;
  }
  MODEL_REQUIRE(code == QUIRE_FAILED_PRECONDITION, "call " + std::to_string(kind) + " while loading: " + std::to_string(code));
}

}  // namespace quire::model
