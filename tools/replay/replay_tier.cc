#include "replay/replay_tier.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "client/client.h"

namespace quire::replay {
namespace {

constexpr uint64_t kDigestBytes = 32;
// Of a unit's tokens in the group that has most, as in quire/tier.h.
constexpr double kUnitBytes = 1 << 20;
constexpr uint64_t kShortest = 64, kLongest = 4096;

uint64_t round_up(uint64_t n, uint64_t of) { return (n + of - 1) / of * of; }

}  // namespace

bool UnitStore::keep(std::string name, uint64_t bytes, bool has_state) {
  const auto place = places_.find(name);
  if (place != places_.end()) {
    const Unit& known = *place->second;
    if (known.has_state || !has_state) return false;  // as good as this one
    bytes_ -= known.bytes;
    units_.erase(place->second);
    places_.erase(place);
  }
  if (bytes > capacity_) return false;
  while (bytes_ + bytes > capacity_) {
    bytes_ -= units_.back().bytes;
    places_.erase(units_.back().name);
    units_.pop_back();
    ++num_evicted_;
  }
  units_.push_front({name, bytes, has_state});
  places_[std::move(name)] = units_.begin();
  bytes_ += bytes;
  return true;
}

const UnitStore::Unit* UnitStore::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &*found->second;
}

void UnitStore::touch(const Unit& unit) { units_.splice(units_.begin(), units_, places_[unit.name]); }

Tier::Tier(quire_cache* cache, quire_config* config, UnitStore* store) : cache_(cache), store_(store) {
  client::Error error;
  auto facts = client::sized<quire_config_info>();
  client::check(quire_config_get_info(config, &facts, &error), error);
  grid_ = std::max(1u, facts.match_unit_tokens);
  double most = 0;  // bytes of a token
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    auto info = client::sized<quire_group_info>();
    client::check(quire_config_get_group(config, g, &info, &error), error);
    if (info.encoder_tokens != 0) continue;  // cross attention is not stored
    look_ahead_ = std::max(look_ahead_, uint64_t{info.look_ahead});
    groups_.push_back({info, info.payload_bytes_per_block / std::max(1u, info.ids_per_block)});
    has_states_ = has_states_ || info.is_state != 0;
    grid_ = std::lcm(grid_, uint64_t{info.block_tokens});
    if (info.is_state != 0) continue;
    most = std::max(most, static_cast<double>(info.payload_bytes_per_block) / info.block_tokens);
  }
  const double wanted = most > 0 ? kUnitBytes / most : 256;
  unit_tokens_ = round_up(std::bit_ceil(std::clamp(static_cast<uint64_t>(wanted), kShortest, kLongest)), grid_);
  auto watched = client::sized<quire_unit_options>();
  watched.reasons = QUIRE_UNIT_COMMITTED;
  watched.unit_tokens = unit_tokens_;
  watched.max_waiting = 16384;
  client::check(quire_cache_watch_units(cache, &watched, &error), error);
}

uint64_t Tier::held_bytes(quire_hold_id hold) const {
  client::Error error;
  uint64_t bytes = 0;
  std::vector<int32_t> ids;
  for (const Group& group : groups_) {
    uint64_t count = 0;
    client::check(quire_hold_list_ids(cache_, hold, group.info.group, nullptr, 0, &count, &error), error);
    ids.resize(count);
    client::check(quire_hold_list_ids(cache_, hold, group.info.group, ids.data(), count, &count, &error), error);
    bytes += group.bytes * static_cast<uint64_t>(std::count_if(ids.begin(), ids.end(), [](int32_t id) { return id != 0; }));
  }
  return bytes;
}

void Tier::store() {
  client::Error error;
  std::array<quire_unit, 64> units{};
  for (uint64_t n = units.size(); n == units.size();) {
    client::check(quire_cache_take_units(cache_, units.data(), units.size(), &n, &error), error);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t bytes = held_bytes(units[i].hold);
      client::check(quire_hold_end(cache_, units[i].hold, &error), error);
      std::string name(reinterpret_cast<const char*>(units[i].ahead_digest), kDigestBytes);
      if (!store_->keep(std::move(name), bytes, (units[i].flags & QUIRE_UNIT_HAS_STATE) != 0)) continue;
      ++counts_.stored_units;
      counts_.stored_bytes += bytes;
    }
  }
}

// Whole units, and with states every place where one can be kept.
Tier::Names Tier::names_of(const std::vector<quire_symbol>& prompt, uint64_t longest) const {
  Names names;
  const uint64_t step = has_states_ ? grid_ : unit_tokens_;
  std::vector<uint64_t> ahead;  // what drafts are computed from
  for (uint64_t end = step; end <= longest && end + look_ahead_ <= prompt.size(); end += step) {
    names.ends.push_back(end);
    ahead.push_back(end + look_ahead_);
  }
  names.digests.resize(names.ends.size() * kDigestBytes);
  client::Error error;
  client::check(
      quire_prefix_digests(cache_, nullptr, prompt.data(), prompt.size(), ahead.data(), ahead.size(), names.digests.data(), &error), error);
  return names;
}

const UnitStore::Unit* Tier::find(const Names& names, uint64_t end) const {
  const auto at = static_cast<size_t>(std::lower_bound(names.ends.begin(), names.ends.end(), end) - names.ends.begin());
  if (at == names.ends.size() || names.ends[at] != end) return nullptr;
  return store_->find(std::string(reinterpret_cast<const char*>(names.digests.data()) + at * kDigestBytes, kDigestBytes));
}

// The first token that a group lacks where it has those before `have` and is to go on at `boundary`.
uint64_t Tier::first_needed(const Group& group, uint64_t have, uint64_t boundary) const {
  if (group.info.is_state != 0) return boundary;
  uint64_t begin = 0;
  if (group.info.window != 0) begin = boundary - std::min(boundary, group.info.window);
  if (group.info.chunk != 0) begin = boundary / group.info.chunk * group.info.chunk;
  return std::max(begin, have);
}

bool Tier::is_there(const Names& names, uint64_t full_hit, uint64_t boundary) const {
  uint64_t first = boundary;
  for (const Group& group : groups_) {
    const bool everything = group.info.window == 0 && group.info.chunk == 0;
    first = std::min(first, first_needed(group, everything ? full_hit : 0, boundary));
  }
  const UnitStore::Unit* const last = find(names, boundary);
  if (last == nullptr || (has_states_ && !last->has_state)) return false;
  for (uint64_t end = boundary / unit_tokens_ * unit_tokens_; end > first; end -= unit_tokens_) {
    if (find(names, end) == nullptr) return false;
  }
  return true;
}

uint64_t Tier::loaded_bytes(std::span<const uint64_t> have, uint64_t boundary) const {
  uint64_t bytes = 0;
  for (const Group& group : groups_) {
    if (group.info.is_state != 0) {
      bytes += group.info.payload_bytes_per_block;
      continue;
    }
    const uint64_t block = group.info.block_tokens, first = first_needed(group, have[group.info.group], boundary);
    if (first < boundary) bytes += (round_up(boundary, block) / block - first / block) * group.info.payload_bytes_per_block;
  }
  return bytes;
}

// The last first, so that what nothing depends on is the oldest.
void Tier::touch(const Names& names, uint64_t boundary) {
  const auto to_front = [this](const UnitStore::Unit* unit) {
    if (unit != nullptr) store_->touch(*unit);
  };
  to_front(find(names, boundary));
  for (uint64_t end = (boundary - 1) / unit_tokens_ * unit_tokens_; end > 0; end -= unit_tokens_) to_front(find(names, end));
}

std::optional<uint64_t> Tier::fetch(quire_sequence_id sequence, const std::vector<quire_symbol>& prompt, uint64_t longest,
                                    uint64_t full_tokens, quire_reserve_result* result) {
  client::Error error;
  auto probed = client::sized<quire_probe_result>();
  client::check(quire_probe(cache_, nullptr, prompt.data(), prompt.size(), &probed, &error), error);
  const Names names = names_of(prompt, longest);
  uint64_t boundary = 0;
  for (auto end = names.ends.rbegin(); end != names.ends.rend() && *end > probed.hit_tokens && boundary == 0; ++end) {
    if (is_there(names, probed.full_hit_tokens, *end)) boundary = *end;
  }
  if (boundary == 0) return 0;
  quire_reserve_entry entry{};
  entry.sequence = sequence;
  entry.num_symbols = static_cast<uint32_t>(boundary);
  entry.num_tokens = static_cast<uint32_t>(boundary - probed.hit_tokens);
  entry.flags = QUIRE_ENTRY_MATCH;
  entry.full_tokens = full_tokens;
  *result = {};
  quire_step load{};
  const quire_code code = quire_load_begin(cache_, &entry, prompt.data(), boundary, result, &load, &error);
  if (code == QUIRE_RESOURCE_EXHAUSTED || (code == QUIRE_OK && load.id == 0)) return std::nullopt;
  client::check(code, error);
  std::vector<uint64_t> have;
  uint64_t count = 0;
  client::check(quire_load_get_have(load, nullptr, 0, &count, &error), error);
  have.resize(count);
  client::check(quire_load_get_have(load, have.data(), count, &count, &error), error);
  // The cache may have shortened its hit to make room: then the load ends elsewhere, and nothing of it is in the tier.
  std::vector<quire_load_failure> failures;
  if (result->hit_tokens != probed.hit_tokens) {
    for (const Group& group : groups_) failures.push_back({group.info.group, 0, result->position, result->num_tokens});
  }
  uint64_t committed = 0;
  client::check(quire_load_end(load, failures.data(), failures.size(), &committed, nullptr, &error), error);
  if (!failures.empty()) return committed;
  touch(names, boundary);
  ++counts_.loads;
  counts_.loaded_bytes += loaded_bytes(have, committed);
  return committed;
}

}  // namespace quire::replay
