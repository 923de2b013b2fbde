// Complete units as a random engine expects them: each is reported once for each reason, with a hold that has what it promises and under
// the name of its text, or counted as given up.
#include <algorithm>
#include <numeric>

#include "tests/model/random_engine.h"

namespace quire::model {

// Tokens whose symbols are in the index.
uint64_t Engine::published(const Request& r) const {
  return (r.flags & QUIRE_SEQUENCE_NO_PUBLISH) != 0 ? 0 : r.committed / config_->match_unit_tokens * config_->match_unit_tokens;
}

void Engine::watch_units() {
  quire_unit_options options{};
  uint64_t grid = config_->hit_alignment_tokens;
  for (const GroupSketch& g : shape_.groups) grid = std::lcm(grid, g.live.state ? 1 : uint64_t{g.block_tokens});
  options.unit_tokens = grid * (1 + pick(hold_rng_, 4));
  options.reasons = static_cast<uint32_t>(1 + pick(hold_rng_, 7));
  options.max_waiting = chance(hold_rng_, 60) ? static_cast<uint32_t>(1 + pick(hold_rng_, 12)) : 0;
  const bool stop = units_.options.reasons != 0 && chance(hold_rng_, 20);
  require_ok(cache_->watch_units(stop ? nullptr : &options), "watch_units");
  trace("watch units of %llu tokens, reasons %u, %u waiting%s\n", (unsigned long long)options.unit_tokens, options.reasons,
        options.max_waiting, stop ? ": no more" : "");
  see_units(true);
  MODEL_REQUIRE(units_.waiting.empty(), "units wait that are not watched any more");
  units_.texts.clear();
  units_.options = stop ? quire_unit_options{} : options;
  units_.most = options.max_waiting != 0 ? options.max_waiting : 1024;
}

// The sequence's units that end in (from, to].
void Engine::note_units(const Request& r, uint64_t from, uint64_t to, quire_unit_reason reason, bool computed) {
  const uint64_t live_at = reason == QUIRE_UNIT_HIT && computed ? to : r.committed;
  if ((units_.options.reasons & static_cast<uint32_t>(reason)) == 0 || (r.flags & QUIRE_SEQUENCE_NO_PUBLISH) != 0 || from >= to) return;
  const uint64_t unit = units_.options.unit_tokens, grid = config_->match_unit_tokens;
  if (shape_.states) units_.perhaps += reason == QUIRE_UNIT_HIT ? 1 : to / grid - from / grid;
  if (!shape_.states && from / unit == to / unit) return;
  auto text = std::make_shared<UnitText>(UnitText{r.id, r.tenant, reason, from, to, computed, live_at, newest_step_, {}, {}, {}});
  text->tokens.assign(r.tokens.begin(), r.tokens.begin() + static_cast<long>(to));
  text->hashes.assign(r.hashes.begin(), r.hashes.begin() + static_cast<long>(to + 1));
  for (uint64_t end = (from / unit + 1) * unit; end <= to; end += unit) note_unit(text, end);
  units_.texts.push_back(std::move(text));
  if (units_.texts.size() > 1500) units_.texts.pop_front();
}

void Engine::note_unit(const std::shared_ptr<UnitText>& text, uint64_t end) {
  ++units_.noted;
  if (units_.exact && units_.waiting.size() == units_.most) {
    units_.waiting.pop_front();
    ++expected_.units_given_up;
  }
  if (units_.exact && units_.waiting.size() + units_.taken.size() >= 2 * units_.most) {
    ++expected_.units_given_up;
  } else {
    units_.waiting.push_back({text, end});
  }
}

// A row was committed that began with `before` published tokens.
void Engine::note_row(const Request& r, const PlannedRow& row, uint64_t before, bool computed) {
  if (row.matched) note_units(r, 0, row.position, QUIRE_UNIT_HIT, computed);
  note_units(r, before, published(r), QUIRE_UNIT_COMMITTED, computed);
}

// Behind a call that may report units, or that may have let go of all that wait.
void Engine::see_units(bool may_go) {
  if (!with_units_) return;
  const quire_cache_stats s = stats();
  const uint64_t given_up = s.units_given_up - units_.seen_given_up;
  const uint64_t waiting = s.holds - holds_.size() - lates_.size() - units_.taken.size();
  units_.seen_given_up = s.units_given_up;
  if (may_go && given_up > 0) {
    MODEL_REQUIRE(waiting == 0, "some units that waited were given up, and " + std::to_string(waiting) + " were not");
    MODEL_REQUIRE(!units_.exact || given_up == units_.waiting.size(), "units that were given up: " + std::to_string(given_up));
  }
  if (units_.exact) {
    if (may_go && given_up > 0) {
      expected_.units_given_up += given_up;
      units_.waiting.clear();
    }
    MODEL_REQUIRE(s.units_given_up == expected_.units_given_up,
                  "units given up: " + std::to_string(s.units_given_up) + ", expected " + std::to_string(expected_.units_given_up));
    MODEL_REQUIRE(waiting == units_.waiting.size(),
                  std::to_string(waiting) + " units wait, expected " + std::to_string(units_.waiting.size()));
  } else {
    units_.gaps += given_up;
    if (waiting == 0) {  // those that were not taken were given up
      MODEL_REQUIRE(!units_.sure || units_.waiting.size() <= units_.gaps,
                    std::to_string(units_.waiting.size()) + " units do not wait any more, given up were " + std::to_string(units_.gaps));
      units_.waiting.clear();
      units_.gaps = 0;
    }
  }
  const uint64_t all = waiting + s.units_given_up + units_.num_taken;
  const bool right = all <= units_.noted + units_.perhaps && (all >= units_.noted || !units_.sure);
  MODEL_REQUIRE(right, std::to_string(all) + " units were reported, " + std::to_string(units_.noted) + " were to be and " +
                           std::to_string(units_.perhaps) + " more with states perhaps");
}

// What drafts wrote of a unit is named by the tokens that follow it in its sequence.
Engine::Readiness Engine::readiness(const WaitingUnit& unit) const {
  if (units_.look_ahead == 0) return Readiness::kReady;
  for (const Request& r : requests_) {
    if (r.id != unit.text->id) continue;
    const uint64_t end = published(r);
    if (end < unit.end || !std::equal(r.tokens.begin(), r.tokens.begin() + static_cast<long>(unit.end), unit.text->tokens.begin())) break;
    return end >= unit.end + units_.look_ahead ? Readiness::kReady : Readiness::kLater;
  }
  return Readiness::kNever;
}

// The next ones, where all are known beforehand.
std::vector<WaitingUnit> Engine::expect_units(uint64_t most) {
  std::vector<WaitingUnit> ready;
  std::deque<WaitingUnit> left;
  while (ready.size() < most && !units_.waiting.empty()) {
    const WaitingUnit unit = units_.waiting.front();
    units_.waiting.pop_front();
    const Readiness how = readiness(unit);
    if (how == Readiness::kReady) ready.push_back(unit);
    if (how == Readiness::kLater) left.push_back(unit);
    if (how == Readiness::kNever) ++expected_.units_given_up;
  }
  units_.waiting.insert(units_.waiting.begin(), left.begin(), left.end());
  return ready;
}

std::string Engine::digest_of(uint32_t tenant, std::span<const quire_symbol> tokens) const {
  const quire_identity identity = identity_of(tenant, 0);
  const uint64_t end = tokens.size();
  std::string digest(32, '\0');
  require_ok(cache_->prefix_digests(&identity, tokens, {&end, 1}, reinterpret_cast<uint8_t*>(digest.data())), "prefix_digests");
  return digest;
}

// The text of a unit that was taken, where some are not known beforehand: one of those that were reported, none of them twice, in order.
// Which one is not known where a sequence had the same text twice: then what all of them promise.
UnitText Engine::find_unit(const quire_unit& unit) {
  const std::string name(reinterpret_cast<const char*>(unit.digest), sizeof unit.digest);
  const uint64_t end = unit.end_token;
  const auto is_it = [&](const UnitText& text) {
    return text.id.value == unit.sequence && text.reason == unit.reason && text.from < end && end <= text.to &&
           name == digest_of(text.tenant, std::span(text.tokens).first(end));
  };
  const std::string what = "tokens [" + std::to_string(unit.first_token) + ", " + std::to_string(end) + ") of sequence " +
                           std::to_string(unit.sequence) + ", reason " + std::to_string(unit.reason);
  std::vector<std::shared_ptr<UnitText>> all;
  if (end % units_.options.unit_tokens != 0) {
    for (const std::shared_ptr<UnitText>& text : units_.texts) {
      const bool again = std::find(text->kept_ends.begin(), text->kept_ends.end(), end) != text->kept_ends.end();
      if (!again && is_it(*text)) all.push_back(text);
    }
    MODEL_REQUIRE(!all.empty(), "a unit with a state that nobody reported: " + what);
    all[0]->kept_ends.push_back(end);
  } else {
    uint64_t first = 0;
    for (uint64_t i = 0; i < units_.waiting.size(); ++i) {
      const WaitingUnit& waiting = units_.waiting[i];
      if (waiting.end != end || readiness(waiting) != Readiness::kReady || !is_it(*waiting.text)) continue;
      if (all.empty()) first = i;
      all.push_back(waiting.text);
    }
    MODEL_REQUIRE(!all.empty(), "a unit that nobody reported, or too early: " + what);
    const auto found = units_.waiting.begin() + static_cast<long>(first);
    if (units_.look_ahead > 0) {  // some wait on
      units_.waiting.erase(found);
    } else {
      MODEL_REQUIRE(!units_.sure || first <= units_.gaps, std::to_string(first) + " units were left out before: " + what);
      units_.gaps -= std::min(units_.gaps, first);
      units_.waiting.erase(units_.waiting.begin(), found + 1);
    }
  }
  UnitText text = *all.back();
  for (const std::shared_ptr<UnitText>& other : all) {
    text.computed = text.computed && other->computed;
    text.live_at = std::max(text.live_at, other->live_at);
  }
  return text;
}

void Engine::take_units(uint64_t most) {
  std::vector<quire_unit> items(most);
  items.resize(cache_->take_units(items));
  trace("take units: %zu\n", items.size());
  if (units_.exact) {
    const std::vector<WaitingUnit> ready = expect_units(most);
    MODEL_REQUIRE(ready.size() == items.size(), std::to_string(items.size()) + " units, expected " + std::to_string(ready.size()));
    for (size_t i = 0; i < items.size(); ++i) {
      const bool same =
          items[i].sequence == ready[i].text->id.value && items[i].end_token == ready[i].end && items[i].reason == ready[i].text->reason;
      MODEL_REQUIRE(same, "unit " + std::to_string(i) + " of sequence " + std::to_string(items[i].sequence) + " ends at " +
                              std::to_string(items[i].end_token) + ", expected " + std::to_string(ready[i].end));
      check_unit(items[i], *ready[i].text);
    }
    tally_.reports += items.size();
  } else {
    for (const quire_unit& unit : items) check_unit(unit, find_unit(unit));
  }
  see_units(false);
}

void Engine::check_unit(const quire_unit& unit, const UnitText& text) {
  trace("  unit [%llu, %llu) of %llx, reason %d, flags %u, since step %llu\n", (unsigned long long)unit.first_token,
        (unsigned long long)unit.end_token, (unsigned long long)unit.sequence, unit.reason, unit.flags, (unsigned long long)text.after);
  const uint64_t size = units_.options.unit_tokens, end = unit.end_token;
  const bool has_state = unit.flags == QUIRE_UNIT_HAS_STATE;
  MODEL_REQUIRE(unit.first_token == (end - 1) / size * size && (unit.flags == 0 || has_state), "tokens or flags of a unit");
  MODEL_REQUIRE(has_state ? shape_.states : end % size == 0, "a unit ends at " + std::to_string(end) + " without a state");
  Held held;
  held.id = unit.hold;
  held.first = unit.first_token;
  held.end = end;
  held.after = text.after;
  memory_->begin_hold(*cache_, &held, all_in_flight());
  check_resident(held, end, text.computed && text.reason == QUIRE_UNIT_COMMITTED ? end : text.live_at);
  for (const Held::Piece& piece : held.pieces) {
    MODEL_REQUIRE(!has_state || !shape_.groups[piece.group].live.state || piece.id(0, 0) != 0, "a unit without the state that it has");
  }
  memory_->check_held(held, end, text.hashes);
  memory_->keep(&held, end);
  const auto said = [](const uint8_t* digest) { return std::string(reinterpret_cast<const char*>(digest), 32); };
  MODEL_REQUIRE(said(unit.digest) == digest_of(text.tenant, std::span(text.tokens).first(end)), "the name of a unit");
  std::string ahead = said(unit.digest);
  if (units_.look_ahead > 0) {
    const auto r = std::find_if(requests_.begin(), requests_.end(), [&](const Request& q) { return q.id == text.id; });
    MODEL_REQUIRE(r != requests_.end() && published(*r) >= end + units_.look_ahead, "a unit whose drafts are not known");
    ahead = digest_of(text.tenant, std::span(r->tokens).first(end + units_.look_ahead));
  }
  MODEL_REQUIRE(said(unit.ahead_digest) == ahead, "the name of what drafts wrote");
  units_.taken.push_back(std::move(held));
  ++units_.num_taken;
  tally_.unit_states += has_state ? 1 : 0;
  note(kUnits);
}

void Engine::end_unit(size_t i) {
  const Held& held = units_.taken[i];
  memory_->check_kept(held);
  memory_->end_hold(held);
  require_ok(cache_->hold_end(held.id), "hold_end");
  units_.taken.erase(units_.taken.begin() + static_cast<long>(i));
}

// Nobody runs any more: what waits is reported, or waits for tokens that will never be.
void Engine::take_all_units() {
  if (!with_units_) return;
  for (uint64_t before = UINT64_MAX; before != units_.num_taken;) {
    before = units_.num_taken;
    take_units(64);
  }
  MODEL_REQUIRE(stats().holds == holds_.size() + lates_.size() + units_.taken.size(), "units wait that nobody gets");
  MODEL_REQUIRE(units_.waiting.empty(), std::to_string(units_.waiting.size()) + " units were not reported");
  require_ok(cache_->watch_units(nullptr), "watch_units");
  tally_.given_up += stats().units_given_up;
}

}  // namespace quire::model
