// Holds, transfers that come late, and units: what is held keeps its bytes whatever else happens, what comes late is read by nobody, and a
// unit has the bytes and the name of a text that its sequence had.
#include <algorithm>
#include <string>

#include "tests/stamps/runner.h"

namespace quire::stamps {

void Runner::choose_holds() {
  holding_ = hold_dice_.percent(50);
  lets_late_ = hold_dice_.percent(60);
  const bool watches = hold_dice_.percent(50);
  if (watches && tiers_ == nullptr) watch();
}

void Runner::watch() {
  quire_unit_options options = QUIRE_INIT(quire_unit_options);
  const uint64_t grid = grid_of(plan_);
  options.unit_tokens = grid * hold_dice_.between(1, 3);
  options.reasons = hold_dice_.small(1, 7);
  uint32_t ahead = 0;
  for (const quire_group_info& group : plan_.groups) ahead = std::max(ahead, group.look_ahead);
  if (options.unit_tokens == 2 * grid && ahead == 0) options.reasons |= QUIRE_UNIT_EVICTING;
  options.max_waiting = hold_dice_.percent(60) ? hold_dice_.small(1, 12) : 0;
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_cache_watch_units(cache_.get(), &options, &err);
  // A hit leaves a token to compute: where the first boundary is behind the longest sequence there is none.
  if (!limits_.reuse || (code == QUIRE_FAILED_PRECONDITION && grid >= plan_.info.max_model_len)) {
    return demand(code == QUIRE_FAILED_PRECONDITION, "units of a cache without prefix reuse");
  }
  must_call(code, err, "watch units");
  trace("watch", options.unit_tokens, options.reasons, options.max_waiting);
  unit_tokens_ = options.unit_tokens;
  evicting_ = (options.reasons & QUIRE_UNIT_EVICTING) != 0;
}

// One of what may happen between operations. Dice of its own: operations go as they always did.
void Runner::hold_or_let_go() {
  if (holding_ && hold_dice_.percent(6)) begin_hold();
  if (!holds_.empty() && hold_dice_.percent(4)) end_hold(hold_dice_.below(holds_.size()));
  if (!lates_.empty() && hold_dice_.percent(20)) bytes_->write_late(lates_[hold_dice_.below(lates_.size())], hold_dice_);
  if (!lates_.empty() && hold_dice_.percent(6)) end_late(hold_dice_.below(lates_.size()));
  if (unit_tokens_ == 0) return;
  if (hold_dice_.percent(8)) take_units(hold_dice_.percent(50) ? 2 : 64);
  if (!units_.empty() && hold_dice_.percent(12)) end_unit(hold_dice_.below(units_.size()));
}

std::vector<HeldBlocks> Runner::blocks_of(quire_hold_id hold, uint64_t first) const {
  quire_error err = QUIRE_INIT(quire_error);
  quire_hold_info info = QUIRE_INIT(quire_hold_info);
  must_call(quire_hold_get_info(cache_.get(), hold, &info, &err), err, "info of a hold");
  std::vector<HeldBlocks> groups(plan_.groups.size());
  uint64_t parts = 0;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const quire_group_info& group = plan_.groups[g];
    uint64_t count = 0;
    must_call(quire_hold_list_ids(cache_.get(), hold, g, nullptr, 0, &count, &err), err, "ids of a hold");
    demand(count % group.ids_per_block == 0, "ids of whole blocks");
    groups[g].blocks = count / group.ids_per_block;
    groups[g].first = group.is_state != 0 || group.encoder_tokens != 0 ? 0 : first / group.block_tokens;
    groups[g].ids.resize(count);
    must_call(quire_hold_list_ids(cache_.get(), hold, g, groups[g].ids.data(), count, &count, &err), err, "ids of a hold");
    parts += static_cast<uint64_t>(std::count_if(groups[g].ids.begin(), groups[g].ids.end(), [](int32_t id) { return id != 0; }));
  }
  demand(parts == info.num_parts, "parts of a hold");
  return groups;
}

// Where groups keep everything all blocks are held.
void Runner::check_whole(const HeldBytes& held) const {
  for (uint32_t g = 0; g < plan_.groups.size(); ++g) {
    const quire_group_info& group = plan_.groups[g];
    if (group.is_state != 0 || group.window != 0 || group.chunk != 0 || group.encoder_tokens != 0) continue;
    const uint64_t size = group.block_tokens;
    const uint64_t blocks = held.first >= held.end ? 0 : (held.end + size - 1) / size - held.first / size;
    demand(held.groups[g].blocks == blocks, "blocks of a hold");
    const std::vector<int32_t>& ids = held.groups[g].ids;
    demand(std::none_of(ids.begin(), ids.end(), [](int32_t id) { return id == 0; }), "a block is not held");
  }
}

void Runner::begin_hold() {
  if (sequences_.empty() || holds_.size() >= 5) return;
  const Sequence& s = sequences_[hold_dice_.below(sequences_.size())];
  if (s.fetch != 0) return;
  HeldBytes held;
  held.end = hold_dice_.percent(60) ? s.committed : hold_dice_.between(0, s.committed);
  held.first = hold_dice_.percent(40) ? 0 : hold_dice_.between(0, held.end);
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_hold_begin(cache_.get(), s.id, held.first, held.end, &held.hold, &err);
  if (s.loading) return demand(code == QUIRE_FAILED_PRECONDITION, "a hold of a sequence that is loading");
  if (code == QUIRE_FAILED_PRECONDITION && limits_.in_place && s.in_flight > 0) return;
  must_call(code, err, "hold");
  trace("hold", s.id, held.first, held.end);
  held.groups = blocks_of(held.hold, held.first);
  check_whole(held);
  // Nobody has begun to write behind them: then whole blocks stay as they are.
  const bool whole = in_flight_.empty() && loads_.empty() && lates_.empty();
  held.tokens = s.committed;
  bytes_->check_held(held, row_of(s, 0, s.committed));
  if (whole) held.tokens = UINT64_MAX;
  held.values = bytes_->held_values(held);
  holds_.push_back(std::move(held));
  tallies_.count(kHeld);
}

void Runner::check_unchanged(const HeldBytes& held) const {
  demand(bytes_->held_values(held) == held.values, "bytes that are held have changed");
}

void Runner::end(const HeldBytes& held) {
  quire_error err = QUIRE_INIT(quire_error);
  must_call(quire_hold_end(cache_.get(), held.hold, &err), err, "end of a hold");
  demand(quire_hold_end(cache_.get(), held.hold, &err) == QUIRE_NOT_FOUND, "a hold ends twice");
}

void Runner::end_hold(size_t i) {
  trace("end of hold", holds_[i].first, holds_[i].end);
  check_unchanged(holds_[i]);
  end(holds_[i]);
  holds_.erase(holds_.begin() + static_cast<long>(i));
}

// What failed is held, and nothing else.
void Runner::leave_late(TakenStep taken, const std::vector<quire_load_failure>& failures, quire_hold_id hold) {
  LateLoad late{{hold, taken.rows[0].position, taken.rows[0].end, 0, {}, {}}, std::move(taken), failures};
  const TakenStep& load = late.load;
  const TakenRow& row = load.rows[0];
  if (hold != 0) late.held.groups = blocks_of(hold, row.position);
  for (uint32_t g = 0; g < plan_.groups.size(); ++g) {
    const quire_group_info& group = plan_.groups[g];
    const bool cross = group.encoder_tokens != 0;
    std::vector<bool> lost(1);
    const uint64_t first = cross || group.is_state != 0 ? 0 : row.position / group.block_tokens;
    if (group.is_state != 0) {
      for (uint64_t p = row.position; p < row.end; ++p) lost[0] = lost[0] || fails(failures, g, p);
    } else {
      const uint64_t begin = cross ? 0 : row.position, end = cross ? (row.position == 0 ? row.encoder : 0) : row.end;
      lost.assign((std::max(end, uint64_t{1}) - 1) / group.block_tokens + 1 - first, false);
      for (uint64_t p = begin; p < end; ++p) {
        const bool has_slot = load.shards[shard_with(plan_, g)].batches[g].slots[p - begin] >= 0;
        if (has_slot && fails(failures, g, p)) lost[p / group.block_tokens - first] = true;
      }
    }
    demand(hold != 0 || std::none_of(lost.begin(), lost.end(), [](bool one) { return one; }), "what may come late is not held");
    for (uint64_t b = 0; hold != 0 && b < late.held.groups[g].blocks; ++b) {
      for (uint32_t c = 0; c < group.ids_per_block; ++c) {
        demand((late.held.groups[g].id(c, first + b) != 0) == lost[b], "a hold of what comes late has other blocks");
      }
    }
  }
  if (hold == 0) return;
  trace("late", row.id, failures.size());
  bytes_->write_late(late, hold_dice_);
  lates_.push_back(std::move(late));
  tallies_.count(kLeftLate);
}

void Runner::end_late(size_t i) {
  end(lates_[i].held);
  lates_.erase(lates_.begin() + static_cast<long>(i));
}

// A sequence has another text from here on, or none: units of what it had may still wait.
void Runner::keep_text(const Sequence& s) {
  if (unit_tokens_ == 0 || s.committed == 0) return;
  texts_.push_back({s.id, s.owner, s.text});
  texts_.back().text.cut(s.committed + 1);
  texts_.back().tokens = s.committed;
  if (texts_.size() > 400) texts_.pop_front();
  if (evicting_) name_all(s);
}

// Units are reported long after their sequence has ended.
void Runner::name_all(const Sequence& s) {
  std::vector<uint64_t> ends;
  for (uint64_t end = 1; end <= s.committed; ++end) ends.push_back(end);
  const quire_identity identity = s.owner.describe(0);
  std::string names(32 * ends.size(), '\0');
  quire_error err = QUIRE_INIT(quire_error);
  must_call(quire_prefix_digests(cache_.get(), &identity, s.text.symbols().data(), s.text.size(), ends.data(), ends.size(),
                                 reinterpret_cast<uint8_t*>(names.data()), &err),
            err, "digests of a text");
  const auto text = std::make_shared<const KeptText>(texts_.back());
  for (size_t i = 0; i < ends.size(); ++i) named_.insert_or_assign(names.substr(32 * i, 32), text);
}

std::string Runner::name_of(const Owner& owner, const History& text, uint64_t end) const {
  const quire_identity identity = owner.describe(0);
  std::string name(32, '\0');
  quire_error err = QUIRE_INIT(quire_error);
  must_call(quire_prefix_digests(cache_.get(), &identity, text.symbols().data(), text.size(), &end, 1,
                                 reinterpret_cast<uint8_t*>(name.data()), &err),
            err, "digest of a prefix");
  return name;
}

// The text of a unit: one that its sequence has or had.
Runner::KeptText Runner::text_of(const quire_unit& unit) const {
  const std::string name(reinterpret_cast<const char*>(unit.digest), sizeof unit.digest);
  const bool evicting = unit.reason == QUIRE_UNIT_EVICTING;
  demand(!evicting || (evicting_ && unit.sequence == 0), "a unit that is evicted soon has a sequence");
  const auto named = named_.find(name);
  if (evicting && named != named_.end()) return *named->second;
  for (const Sequence& s : sequences_) {
    if ((s.id != unit.sequence && !evicting) || s.committed < unit.end_token || name != name_of(s.owner, s.text, unit.end_token)) continue;
    KeptText now{s.id, s.owner, s.text, s.committed};
    now.text.cut(s.committed + 1);
    return now;
  }
  for (auto text = texts_.rbegin(); text != texts_.rend(); ++text) {
    const bool is_it = text->id == unit.sequence && text->tokens >= unit.end_token;
    if (is_it && name == name_of(text->owner, text->text, unit.end_token)) return *text;
  }
  throw Mismatch("a unit of a text that its sequence never had: tokens [" + std::to_string(unit.first_token) + ", " +
                 std::to_string(unit.end_token) + ") of sequence " + std::to_string(unit.sequence));
}

void Runner::take_units(uint64_t most) {
  std::vector<quire_unit> items(most);
  uint64_t count = 0;
  quire_error err = QUIRE_INIT(quire_error);
  must_call(quire_cache_take_units(cache_.get(), items.data(), most, &count, &err), err, "take units");
  for (uint64_t i = 0; i < count; ++i) take_unit(items[i]);
}

void Runner::take_unit(const quire_unit& unit) {
  trace("unit", unit.sequence, unit.first_token, unit.end_token);
  demand(unit.end_token > 0 && unit.first_token == (unit.end_token - 1) / unit_tokens_ * unit_tokens_, "tokens of a unit");
  const bool has_state = unit.flags == QUIRE_UNIT_HAS_STATE;
  demand(has_state ? plan_.states : unit.flags == 0 && unit.end_token % unit_tokens_ == 0, "a unit ends where it may not");
  const KeptText text = text_of(unit);
  HeldBytes held{unit.hold, unit.first_token, unit.end_token, unit.end_token, blocks_of(unit.hold, unit.first_token), {}};
  check_whole(held);
  for (uint32_t g = 0; has_state && g < plan_.groups.size(); ++g) {
    demand(plan_.groups[g].is_state == 0 || held.groups[g].id(0, 0) != 0, "a unit without the state that it has");
  }
  TakenRow row;
  row.id = unit.sequence;
  row.end = unit.end_token;
  row.hashes = text.text.hashes();
  bytes_->check_held(held, row);
  held.values = bytes_->held_values(held);
  uint64_t ahead = 0;
  for (const quire_group_info& group : plan_.groups) ahead = std::max<uint64_t>(ahead, group.look_ahead);
  const std::string said(reinterpret_cast<const char*>(unit.ahead_digest), sizeof unit.ahead_digest);
  demand(unit.end_token + ahead <= text.tokens && said == name_of(text.owner, text.text, unit.end_token + ahead),
         "the name of what drafts wrote");
  units_.push_back(std::move(held));
  tallies_.count(has_state ? kTakenWithStates : kTaken);
  if (unit.reason == QUIRE_UNIT_EVICTING) tallies_.count(kTakenCold);
}

void Runner::end_unit(size_t i) {
  check_unchanged(units_[i]);
  end(units_[i]);
  units_.erase(units_.begin() + static_cast<long>(i));
}

void Runner::end_all_holds() {
  while (!holds_.empty()) end_hold(holds_.size() - 1);
  while (!lates_.empty()) end_late(lates_.size() - 1);
  if (unit_tokens_ != 0) take_units(64);
  while (!units_.empty()) end_unit(units_.size() - 1);
}

// Nothing waits any more, and nothing is reported.
void Runner::watch_no_more() {
  if (unit_tokens_ == 0) return;
  end_all_holds();
  quire_error err = QUIRE_INIT(quire_error);
  must_call(quire_cache_watch_units(cache_.get(), nullptr, &err), err, "watch no units");
  tallies_.deeds[kUnitsGivenUp] += stats().units_given_up;
  unit_tokens_ = 0;
}

void Runner::check_holds() {
  const quire_cache_stats now = stats();
  const uint64_t mine = holds_.size() + lates_.size() + units_.size();
  const bool others = unit_tokens_ != 0 || tiers_ != nullptr;
  demand(others ? now.holds >= mine : now.holds == mine, "stats: holds");
  demand(tiers_ != nullptr ? now.loads >= loads_.size() : now.loads == loads_.size(), "stats: loads");
  for (const HeldBytes& held : holds_) check_unchanged(held);
  for (const HeldBytes& held : units_) check_unchanged(held);
}

}  // namespace quire::stamps
