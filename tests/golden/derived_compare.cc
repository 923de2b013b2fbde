// What a replay compares after each operation.
#include <algorithm>

#include "core/base/checked.h"
#include "tests/golden/derived.h"

namespace quire::golden {
namespace {

template <typename Range>
json list_of(const Range& range) {
  json list = json::array();
  for (const auto& item : range) list.push_back(item);
  return list;
}

}  // namespace

// 1 once, if the model is to be wrong here.
int64_t DerivedReplay::spoilt_by(Spoil what) {
  if (spoil_ != what) return 0;
  spoil_.reset();
  return 1;
}

// What workers are told, and statistics.
void DerivedReplay::worker_op(const std::string& op_name, const json& op) {
  const json& res = op.at("res");
  if (op_name == "copies") {
    const auto copies = upstream_.take_copies();
    std::vector<int>& kept = popped_ids_[op.at("h").dump()];
    for (const auto& [source, target] : copies) kept.insert(kept.end(), {source, target});
    require(res.at("copies") == json(copies), "their copies: expected " + res.at("copies").dump() + ", are " + json(copies).dump());
    require(res.at("retained") == json(kept), "retained: expected " + res.at("retained").dump());
  } else if (op_name == "offloads") {
    const auto tails = upstream_.take_tails();
    json told = json::object();
    for (const auto& [name, r] : theirs_of_) {
      const auto it = tails.find(&theirs_of_[name]);
      if (it != tails.end()) told[name] = it->second;
    }
    require(res.at("offloads") == told, "offloads: expected " + res.at("offloads").dump() + ", are " + told.dump());
  } else if (op_name == "zero") {
    const auto ids = upstream_.take_zeroes();
    require(!head_.at("res").at("zeroing") || res.at("ids") == json(ids),
            "zeroes: expected " + res.at("ids").dump() + ", are " + json(ids).dump());
  } else if (op_name == "zero_range") {
    std::vector<int> ids;
    const auto& tables = theirs_of_[op.at("r")].table;
    for (size_t g = 0; g < tables.size(); ++g) {
      const uint64_t block = naive_.groups[g].block;
      const uint64_t end = std::min<uint64_t>(ceil_div(op.at("to").get<uint64_t>(), block), tables[g].size());
      for (uint64_t b = op.at("from").get<uint64_t>() / block; !naive_.groups[g].state() && b < end; ++b) ids.push_back(tables[g][b]);
    }
    require(res.at("ids") == json(ids), "zeroes of a range: expected " + res.at("ids").dump() + ", are " + json(ids).dump());
  } else if (op_name == "record" && naive_.caching && !requests_[op.at("r")].skip) {
    const bool again = op.at("preemptions") > 0;
    recorded_[again ? "p_requests" : "requests"] += 1;
    recorded_[again ? "p_queries" : "queries"] += requests_[op.at("r")].tokens.size();
    recorded_[again ? "p_hits" : "hits"] += op.at("hits").get<uint64_t>();
  } else if (op_name == "stats") {
    for (const char* name : {"requests", "queries", "hits", "p_requests", "p_queries", "p_hits"})
      require(res.at(name) == recorded_[name], tell(name, res.at(name), static_cast<int64_t>(recorded_[name])));
    recorded_.clear();
  }
}

void DerivedReplay::compare_states(const OurStates& states, StepId step, uint32_t group) {
  const int32_t read = row_of(step, QUIRE_FILL_STATE_READ, group, 1)[0];
  require((states.read == 0) == (read == 0), tell("state read", states.read, read));
  if (read != 0) match_ids(states.read, read);
  const std::vector<int32_t> writes = row_of(step, QUIRE_FILL_STATE_WRITES, group, states.writes.size());
  const std::vector<int32_t> ends = row_of(step, QUIRE_FILL_STATE_WRITE_ENDS, group, states.writes.size());
  for (size_t i = 0; i < states.writes.size(); ++i) {
    match_ids(states.writes[i].first, writes[i]);
    require(ends[i] == static_cast<int64_t>(states.writes[i].second),
            tell("end of a state", static_cast<int64_t>(states.writes[i].second), ends[i]));
  }
}

// One bijection of ids per trace, as long as a block lives.
void DerivedReplay::match_ids(int naive, int32_t is) {
  const std::pair<int, uint64_t> life{naive, ours_.pool().at(naive).life};
  const auto known = ids_.find(life);
  if (known != ids_.end()) {
    const int64_t expected = known->second + spoilt_by(Spoil::kBlock);
    require(expected == is, tell("id of block " + std::to_string(naive), expected, is));
    return;
  }
  const auto other = lives_.find(is);
  if (other != lives_.end()) {
    const bool stale = ours_.pool().at(other->second.first).life != other->second.second || ours_.pool().at(other->second.first).refs == 0;
    require(stale, "id " + std::to_string(is) + " is block " + std::to_string(other->second.first) + " already");
    ids_.erase(other->second);
  }
  ids_[life] = is;
  lives_[is] = life;
}

void DerivedReplay::compare_table(const NaiveRequest& r, StepId step, const quire_reserve_result& result) {
  for (uint32_t g = 0; g < naive_.groups.size(); ++g) {
    if (naive_.groups[g].state()) {
      compare_states(r.states[g], step, g);
      continue;
    }
    const std::vector<int32_t> is = row_of(step, QUIRE_FILL_RAW_TABLE, g, r.table[g].size() + 64);
    const auto length = static_cast<uint64_t>(std::find(is.begin(), is.end(), -1) - is.begin());
    const bool cross = naive_.groups[g].kind == NaiveGroup::Kind::kCross;
    // Look-ahead has slots and is not read.
    const uint64_t expected = ceil_div(cross ? r.encoder : result.position + result.num_tokens, naive_.groups[g].block);
    require(length == expected,
            tell("table length of group " + std::to_string(g), static_cast<int64_t>(expected), static_cast<int64_t>(length)));
    for (size_t b = 0; b < length; ++b) {
      const int wanted = r.table[g][b];
      require((wanted == 0) == (is[b] == 0), tell("group " + std::to_string(g) + " block " + std::to_string(b), wanted, is[b]));
      if (wanted != 0) match_ids(wanted, is[b]);
    }
  }
}

void DerivedReplay::compare_common(const std::string& name, const json& res) const {
  uint64_t running = 0;
  for (const auto& [other, r] : theirs_of_) running += r.table.empty() || r.table[0].empty() ? 0 : 1;
  const auto it = theirs_of_.find(name);
  require(res.at("n").size() == naive_.groups.size(), "common blocks: " + res.at("n").dump());
  for (size_t g = 0; g < naive_.groups.size(); ++g) {
    uint64_t n = 0;
    const bool counts = naive_.groups[g].full() && naive_.caching && it != theirs_of_.end() && !it->second.table.empty();
    while (counts && n < it->second.table[g].size() && static_cast<uint64_t>(upstream_.pool().at(it->second.table[g][n]).refs) == running)
      ++n;
    require(res.at("n")[g] == n, tell("common blocks", res.at("n")[g], static_cast<int64_t>(n)));
  }
}

void DerivedReplay::compare_ids(const std::string& name, const json& op) const {
  const auto& tables = theirs_of_.at(name).table;
  const uint64_t dcp = config_.value("dcp", uint64_t{1});
  require(op.at("res").at("ids").size() == naive_.groups.size(), "ids of computed tokens: " + op.at("res").at("ids").dump());
  for (size_t g = 0; g < tables.size(); ++g) {
    auto ids = tables[g];
    const bool clips = naive_.groups[g].kind != NaiveGroup::Kind::kCross && !naive_.groups[g].state();
    if (clips) ids.resize(std::min<size_t>(ids.size(), ceil_div(op.at("n").get<uint64_t>(), naive_.groups[g].block / dcp)));
    require(op.at("res").at("ids")[g] == json(ids), "ids of computed tokens");
  }
}

void DerivedReplay::compare_state(const json& op) {
  if (op.contains("res") && op.at("res").contains("free")) {
    const auto is = static_cast<int64_t>(upstream_.pool().free());
    require(op.at("res").at("free") == is, tell("their free", op.at("res").at("free"), is));
  }
  if (op.contains("r") && op.at("res").contains("t")) {
    auto tables = theirs_of_[op.at("r")].table;
    tables.resize(naive_.groups.size());
    require(op.at("res").at("t") == json(tables), "their table: expected " + op.at("res").at("t").dump() + ", is " + json(tables).dump());
  }
  const quire_cache_stats stats = stats_now();
  const auto expected = static_cast<int64_t>(ours_.pool().free()) + spoilt_by(Spoil::kFree);
  const auto is = static_cast<int64_t>(stats.pages_free + stats.pages_evictable);
  require(expected == is, tell("free", expected, is));
  const auto cached = static_cast<int64_t>(ours_.pool().cached()) + spoilt_by(Spoil::kCached);
  require(cached == static_cast<int64_t>(stats.parts_cached), tell("cached blocks", cached, static_cast<int64_t>(stats.parts_cached)));
  const auto alike = [](const auto& a, const auto& b) { return a.first == b.first && a.second.size() == b.second.size(); };
  const auto& keys = ours_.pool().keys();
  apart_ = apart_ || ours_.pool().free() != upstream_.pool().free() || ours_.pool().cached() != upstream_.pool().cached() ||
           !std::equal(keys.begin(), keys.end(), upstream_.pool().keys().begin(), upstream_.pool().keys().end(), alike);
}

void DerivedReplay::compare_check(const json& res) const {
  const Status sound = cache_->verify();
  require(sound.ok(), sound.message());
  require(res.at("q") == list_of(upstream_.pool().queue()), "their queue: expected " + res.at("q").dump());
  json refs = json::array();
  for (size_t id = 1; id < upstream_.pool().size(); ++id) {
    const int count = upstream_.pool().at(static_cast<int>(id)).refs;
    if (count > 0) refs.push_back({id, count});
  }
  require(res.at("refs") == refs, "their references: expected " + res.at("refs").dump() + ", are " + refs.dump());
  json hashed = json::array();
  for (size_t id = 1; id < upstream_.pool().size(); ++id) {
    const NaivePool::Block& block = upstream_.pool().at(static_cast<int>(id));
    if (!block.keys.empty()) hashed.push_back({id, block.covered});
  }
  json told = json::array();
  for (const json& item : res.value("hashed", hashed)) told.push_back({item[0], item[1]});
  require(told == hashed, "their cached blocks: expected " + told.dump() + ", are " + hashed.dump());
  require(res.at("keys") == upstream_.pool().keys().size(),
          tell("their keys", res.at("keys"), static_cast<int64_t>(upstream_.pool().keys().size())));
}

std::string DerivedReplay::name_of(NaivePool::Key key) const {
  const auto it = digests_.find(key.first);
  return (it == digests_.end() ? std::string("?") : it->second) + " " + std::to_string(key.second);
}

// What was stored and removed; the grouping into events only where upstream's has no quirk.
void DerivedReplay::compare_events(const json& expected) {
  std::multiset<std::string> stored, removed, is_stored, is_removed;
  for (const auto& key : ours_.stored) stored.insert(name_of(key));
  for (const auto& key : ours_.removed) removed.insert(name_of(key));
  ours_.stored.clear();
  ours_.removed.clear();
  if (!config_.at("events").get<bool>() || hasher_ == nullptr || pictures_) return;
  const Told t = told();
  json list = json::array();
  bool cleared = false;
  for (const quire_event& e : t.events) {
    list.push_back(json_of(e, t.data.data()));
    cleared = cleared || e.type == QUIRE_EVENT_CLEARED;
    for (uint32_t i = 0; i < e.num_hashes; ++i) {
      const uint8_t* hash = t.data.data() + e.hashes_offset + uint64_t{i} * e.hash_bytes;
      (e.type == QUIRE_EVENT_REMOVED ? is_removed : is_stored).insert(hex_of({hash, e.hash_bytes}) + " " + std::to_string(e.group));
    }
  }
  require(stored == is_stored, "stored: expected " + list_of(stored).dump() + ", are " + list_of(is_stored).dump());
  if (!cleared) require(removed == is_removed, "removed: expected " + list_of(removed).dump() + ", are " + list_of(is_removed).dump());
  json wanted = json::array();
  for (json e : expected) {
    for (const char* untold : {"b", "x", "nx"}) e.erase(untold);
    wanted.push_back(e);
  }
  if (wanted == list) return;
  if (stored.size() > 1) ours_.met.insert(10);
  const bool plain =
      std::all_of(naive_.groups.begin(), naive_.groups.end(), [&](const NaiveGroup& g) { return g.full() && g.block == naive_.hash_unit; });
  require(apart_ || reports_ || in_pieces_ || !plain, "events: expected " + wanted.dump() + ", are " + list.dump());
}

}  // namespace quire::golden
