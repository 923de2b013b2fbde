// Holds of a random engine, and transfers that write long after their load has ended: what is held stays as it is, whatever else happens,
// and nobody reads what is written late.
#include <algorithm>

#include "tests/model/random_engine.h"

namespace quire::model {

// Which engines have them, and how loads are limited.
void Engine::choose_holds(quire_cache_options* options) {
  Rng rng(mix(0x401d, options_.seed));
  const auto with = [&](Operation o, uint32_t percent) { return chance(rng, percent) && allowed(o); };
  with_holds_ = with(kHold, 50);
  with_late_ = with(kLate, 60);
  with_units_ = with(kUnits, 50) && shape_.encoder == 0;
  if (chance(rng, 30)) options->max_loads = static_cast<uint32_t>(1 + pick(rng, 4));
  if (chance(rng, 40)) options->max_load_tokens = 1 + pick(rng, 2 * shape_.max_len);
  max_loads_ = std::min<uint64_t>(options->max_loads != 0 ? options->max_loads : 16, options->max_sequences);
  max_load_tokens_ = std::min<uint64_t>(options->max_load_tokens != 0 ? options->max_load_tokens : shape_.max_tokens, shape_.max_len);
  if (!with_units_) return;
  for (const GroupSketch& g : shape_.groups) units_.look_ahead = std::max<uint64_t>(units_.look_ahead, g.live.state ? 0 : g.look_ahead);
  units_.sure = options->max_index_units >= 400;
  units_.exact = units_.sure && !shape_.states;
  if (units_.sure) options->max_index_units = kMostUnits;  // the index is never full: every sequence goes on publishing
}

std::vector<const PlannedStep*> Engine::all_in_flight() const {
  std::vector<const PlannedStep*> all;
  for (const PlannedStep& step : in_flight_) all.push_back(&step);
  for (const PlannedStep& load : loads_) all.push_back(&load);
  return all;
}

void Engine::hold_and_let_go(bool faults) {
  if (faults && with_holds_ && holds_.size() < kMostHolds && chance(hold_rng_, 10)) begin_hold();
  for (size_t i = holds_.size(); i > 0; --i) {
    if (chance(hold_rng_, faults ? 5 : 30)) end_hold(i - 1);
  }
  for (size_t i = lates_.size(); i > 0; --i) {
    if (chance(hold_rng_, 40)) write_late(lates_[i - 1]);
    if (chance(hold_rng_, faults ? 8 : 30)) end_late(i - 1);
  }
  if (faults && with_late_ && chance(hold_rng_, 12)) load(true);
  if (!with_units_) return;
  if (faults && chance(hold_rng_, units_.options.reasons == 0 ? 20 : 1)) watch_units();
  if (chance(hold_rng_, 25)) take_units(1 + pick(hold_rng_, chance(hold_rng_, 50) ? 4 : 64));
  for (size_t i = units_.taken.size(); i > 0; --i) {
    if (chance(hold_rng_, faults ? 12 : 40)) end_unit(i - 1);
  }
}

// Of groups of tokens every block that resuming at `live_at` takes.
void Engine::check_resident(const Held& held, uint64_t tokens, uint64_t live_at) const {
  for (const Held::Piece& piece : held.pieces) {
    const GroupSketch& group = shape_.groups[piece.group];
    if (group.live.state || group.live.fixed) continue;
    for (uint64_t b = piece.first_block; b < piece.first_block + piece.blocks; ++b) {
      const uint64_t begin = b * group.block_tokens, end = std::min(begin + group.block_tokens, tokens);
      const bool wanted = end > group.live.tail_begin(live_at) || begin < group.live.sink_end(live_at);
      MODEL_REQUIRE(!wanted || piece.id(0, b) != 0, "block " + std::to_string(b) + " of group " + std::to_string(piece.group) +
                                                        " is not held, of tokens [" + std::to_string(held.first) + ", " +
                                                        std::to_string(held.end) + ") to resume at " + std::to_string(live_at));
    }
  }
}

void Engine::begin_hold() {
  if (requests_.empty()) return;
  const Request& r = requests_[pick(hold_rng_, requests_.size())];
  const bool wrong = chance(hold_rng_, 4);
  Held held;
  held.end = wrong ? r.committed + 1 + pick(hold_rng_, 9) : chance(hold_rng_, 60) ? r.committed : pick(hold_rng_, r.committed + 1);
  held.first = chance(hold_rng_, 40) ? 0 : pick(hold_rng_, held.end + 1);
  held.after = newest_step_;
  auto made = cache_->hold_begin(r.id, held.first, held.end);
  const bool busy = r.loading || overwrites_current(r);
  const quire_code wanted = busy ? QUIRE_FAILED_PRECONDITION : wrong ? QUIRE_OUT_OF_RANGE : QUIRE_OK;
  MODEL_REQUIRE(made.status().code() == wanted, "hold_begin: " + made.status().message());
  if (wanted != QUIRE_OK) {
    note(kFailure);
    return;
  }
  held.id = *made;
  trace("hold %llu of %llx: [%llu, %llu)\n", (unsigned long long)held.id, (unsigned long long)r.id.value, (unsigned long long)held.first,
        (unsigned long long)held.end);
  memory_->begin_hold(*cache_, &held, all_in_flight());
  check_resident(held, r.committed, r.committed);
  for (const Held::Piece& piece : held.pieces) {
    const LiveRange& live = shape_.groups[piece.group].live;
    MODEL_REQUIRE(!live.fixed || piece.blocks == 0, "blocks of cross attention are held");
    const bool has = live.state && piece.id(0, 0) != 0;
    MODEL_REQUIRE(!live.state || held.end != r.committed || has == (r.committed > 0), "the state of a hold");
  }
  memory_->check_held(held, r.committed, r.hashes);
  memory_->keep(&held, r.committed);
  holds_.push_back(std::move(held));
  note(kHold);
}

void Engine::end_hold(size_t i) {
  const Held& held = holds_[i];
  memory_->check_kept(held);
  memory_->end_hold(held);
  require_ok(cache_->hold_end(held.id), "hold_end");
  MODEL_REQUIRE(cache_->hold_end(held.id).code() == QUIRE_NOT_FOUND, "a hold ended twice");
  holds_.erase(holds_.begin() + static_cast<long>(i));
}

// Whether a load had memory of its own for the block, and a token of it did not arrive.
bool Engine::was_lost(const PlannedStep& load, std::span<const quire_load_failure> failures, uint32_t group, uint64_t block) const {
  const GroupSketch& g = shape_.groups[group];
  const PlannedRow& row = load.rows[0];
  const uint64_t end = row.position + row.num_tokens;
  if (g.live.state) return failed(failures, group, row.position, end);
  const uint64_t first = block * g.block_tokens, last = first + g.block_tokens;
  if (load.tables[group][block] == 0) return false;
  if (g.live.fixed) return failed(failures, group, first, last);
  return !load.shares(group, 0, block, g.block_tokens) && failed(failures, group, std::max(first, row.position), std::min(last, end));
}

// The hold has what failed and nothing else.
void Engine::leave_late(const PlannedStep& load, std::span<const quire_load_failure> failures, quire_hold_id hold) {
  const PlannedRow& row = load.rows[0];
  const uint64_t end = row.position + row.num_tokens;
  Late late{{}, load, {}};
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
    const GroupSketch& group = shape_.groups[g];
    const bool once = group.live.state || group.live.fixed;
    const uint64_t first = once ? 0 : row.position;
    const uint64_t last = group.live.state ? 1 : group.live.fixed ? (row.position == 0 ? row.encoder : 0) : end;
    for (uint64_t p = first; p < last; ++p) {
      const bool lost = group.live.state ? failed(failures, g, row.position, end) : failed(failures, g, p, p + 1);
      if (!lost || !was_lost(load, failures, g, group.live.state ? 0 : p / group.block_tokens)) continue;
      for (uint32_t c = 0; c < group.ids_per_block; ++c) late.places.push_back({g, c, p});
    }
  }
  MODEL_REQUIRE(hold != 0 || late.places.empty(), "nothing is held of what may still be written");
  if (hold == 0) return;
  late.held.id = hold;
  late.held.first = row.position;
  late.held.end = end;
  late.held.after = newest_step_;
  memory_->begin_hold(*cache_, &late.held, all_in_flight());
  for (const Held::Piece& piece : late.held.pieces) {
    const GroupSketch& group = shape_.groups[piece.group];
    const uint64_t encoder = row.position == 0 ? ceil_div(row.encoder, group.block_tokens) : 0;
    MODEL_REQUIRE(!group.live.fixed || piece.blocks == encoder, "blocks of cross attention that are held");
    for (uint64_t b = piece.first_block; b < piece.first_block + piece.blocks; ++b) {
      const bool lost = was_lost(load, failures, piece.group, b);
      for (uint32_t c = 0; c < group.ids_per_block; ++c) {
        const int32_t id = group.live.state ? load.state_write(piece.group, group.ids_per_block, load.first_write[piece.group][1] - 1, c)
                                            : load.tables[piece.group][c * load.pitch + b];
        MODEL_REQUIRE(piece.id(c, b) == (lost ? id : 0), "block " + std::to_string(b) + " of group " + std::to_string(piece.group) +
                                                             (lost ? " is not held though it may be" : " is held and not") +
                                                             " written late");
      }
    }
  }
  lates_.push_back(std::move(late));
  write_late(lates_.back());
  note(kLate);
}

void Engine::write_late(const Late& late) {
  for (uint64_t n = 1 + pick(hold_rng_, 4); n > 0 && !late.places.empty(); --n) {
    const Late::Place& place = late.places[pick(hold_rng_, late.places.size())];
    memory_->write_late(late.load, place.group, place.column, place.token, hold_rng_() | 1);
  }
}

void Engine::end_late(size_t i) {
  memory_->end_hold(lates_[i].held);
  require_ok(cache_->hold_end(lates_[i].held.id), "hold_end");
  lates_.erase(lates_.begin() + static_cast<long>(i));
}

void Engine::end_all_holds() {
  while (!holds_.empty()) end_hold(holds_.size() - 1);
  while (!lates_.empty()) end_late(lates_.size() - 1);
  while (!units_.taken.empty()) end_unit(units_.taken.size() - 1);
}

void Engine::hold_wrongly() {
  const SequenceId stale((uint64_t{1} << 62) | pick(hold_rng_, 4));
  MODEL_REQUIRE(cache_->hold_begin(stale, 0, 0).status().code() == QUIRE_NOT_FOUND, "a hold of a stale id");
  if (!requests_.empty() && !requests_.front().loading && !overwrites_current(requests_.front())) {
    const Request& r = requests_.front();
    MODEL_REQUIRE(cache_->hold_begin(r.id, 0, r.committed + 1).status().code() == QUIRE_OUT_OF_RANGE, "more than is committed");
    MODEL_REQUIRE(cache_->hold_begin(r.id, 1, 0).status().code() == QUIRE_OUT_OF_RANGE, "tokens that end before they begin");
  }
  uint64_t n = 0;
  quire_hold_info info{};
  for (const quire_hold_id none : {quire_hold_id{0}, quire_hold_id{1} << 62, UINT64_MAX}) {
    MODEL_REQUIRE(cache_->hold_end(none).code() == QUIRE_NOT_FOUND, "no hold");
    MODEL_REQUIRE(cache_->hold_info(none, &info).code() == QUIRE_NOT_FOUND, "no hold");
    MODEL_REQUIRE(cache_->hold_ids(none, 0, {}, &n).code() == QUIRE_NOT_FOUND, "no hold");
  }
  const auto groups = static_cast<uint32_t>(shape_.groups.size());
  if (!holds_.empty()) {
    MODEL_REQUIRE(cache_->hold_ids(holds_.front().id, groups, {}, &n).code() == QUIRE_OUT_OF_RANGE, "ids of no group");
  }
  const auto refused = [&](uint64_t tokens, uint32_t reasons, uint32_t waiting, quire_code wanted) {
    quire_unit_options options{};
    options.unit_tokens = tokens;
    options.reasons = reasons;
    options.max_waiting = waiting;
    const quire_code code = shape_.encoder > 0 && reasons > 0 && reasons < 16 ? QUIRE_FAILED_PRECONDITION : wanted;
    MODEL_REQUIRE(cache_->watch_units(&options).code() == code, "units that cannot be watched");
  };
  refused(0, QUIRE_UNIT_COMMITTED, 0, QUIRE_INVALID_ARGUMENT);
  refused(UINT64_MAX, QUIRE_UNIT_COMMITTED, 0, QUIRE_INVALID_ARGUMENT);
  refused(1 << 20, 0, 0, QUIRE_INVALID_ARGUMENT);
  refused(1 << 20, 16, 0, QUIRE_INVALID_ARGUMENT);
  refused(1 << 20, QUIRE_UNIT_HIT, UINT32_MAX, QUIRE_INVALID_ARGUMENT);
  std::vector<uint64_t> have(groups);
  MODEL_REQUIRE(cache_->load_have(StepId(1u << 30), have, &n).code() == QUIRE_NOT_FOUND, "what no load has");
  const uint64_t far[] = {1, 0};
  const quire_symbol text[] = {1, 2};
  uint8_t digests[64];
  MODEL_REQUIRE(cache_->prefix_digests(nullptr, text, far, digests).code() == QUIRE_OUT_OF_RANGE, "lengths that fall");
}

}  // namespace quire::model
