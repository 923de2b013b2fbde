#include "tests/golden/derived.h"

#include <algorithm>

#include "core/base/checked.h"

namespace quire::golden {
namespace {

template <typename Range>
json list_of(const Range& range) {
  json list = json::array();
  for (const auto& item : range) list.push_back(item);
  return list;
}

}  // namespace

DerivedReplay::DerivedReplay(const json& head)
    : ReplayedCache(head), naive_(stop_ ? NaiveShape{} : shape_of()), upstream_(naive_), ours_(naive_, &names_) {
  apart_ = !stop_ && naive_.retention.has_value();
}

NaiveShape DerivedReplay::shape_of() const {
  NaiveShape s;
  const json& res = head_.at("res");
  s.num_blocks = config_.at("num_blocks");
  s.max_len = config_.at("max_model_len");
  s.joint = plan_->hit_alignment_tokens;
  s.wanted = config_.at("scheduler_block_size");
  s.unit = plan_->match_unit_tokens;
  s.hash_unit = hash_block_;
  s.watermark = res.at("watermark_blocks");
  s.in_flight = step_tokens_;
  s.caching = config_.at("caching");
  const json retention = config_.value("retention", json());
  if (!retention.is_null()) s.retention = retention.get<uint64_t>();
  for (size_t g = 0; g < plan_->groups.size(); ++g) {
    const GroupPlan& plan = plan_->groups[g];
    NaiveGroup group;
    group.spec = config_.at("groups")[g].at("spec").dump();
    group.kind = plan.live.fixed         ? NaiveGroup::Kind::kCross
                 : plan.live.chunk != 0  ? NaiveGroup::Kind::kChunk
                 : plan.live.window != 0 ? NaiveGroup::Kind::kWindow
                                         : NaiveGroup::Kind::kFull;
    group.block = plan.block_tokens;
    group.range = std::max(plan.live.chunk, plan.live.window);
    group.drafts = plan.look_ahead > 0;
    s.look_ahead = std::max<uint64_t>(s.look_ahead, plan.look_ahead);
    const json cap = res.contains("caps") ? res.at("caps")[g] : json();
    if (!cap.is_null()) group.cap = cap;
    s.groups.push_back(group);
  }
  return s;
}

std::string DerivedReplay::apply(const json& op) {
  const std::string name = op.at("op");
  compared_ = false;
  try {
    if (name == "add" || name == "append") request_op(name, op);
    if (!stop_) cache_op(name, op);
  } catch (const Difference& difference) {
    return name + ": " + difference.what;
  } catch (const Stop& stop) {
    stop_ = stop;
    compared_ = false;
  }
  return {};
}

void DerivedReplay::cache_op(const std::string& op_name, const json& op) {
  const std::string name = op.contains("r") ? op.at("r").get<std::string>() : std::string();
  const json& res = op.at("res");
  if (op_name == "add" || op_name == "append") {
    reports_ = reports_ || op.contains("report");
    name_prefixes(name);
    if (op_name == "add") theirs_of_[name].prompt = ours_of_[name].prompt = requests_[name].tokens.size();
    if (requests_[name].skip) ours_of_[name].prompt = 0;  // told with a match only
  } else if (op_name == "lookup") {
    lookup(name, res);
  } else if (op_name == "alloc") {
    allocate(name, op);
  } else if (op_name == "free") {
    release(name);
  } else if (op_name == "pop") {
    pop(name, op.at("h").dump(), res);
  } else if (op_name == "release") {
    let_go(op.at("h").dump(), op.value("reverse", false));
  } else if (op_name == "cache") {
    upstream_.cache(&theirs_of_[name], op.at("n"), op.value("sb", uint64_t{0}));
  } else if (op_name == "remove_skipped") {
    upstream_.remove_skipped(&theirs_of_[name], op.at("processed"), op.value("prompt", uint64_t{0}));
  } else if (op_name == "evict") {
    evict(op);
  } else if (op_name == "reset") {
    const bool done = upstream_.reset();
    require(res.at("ok") == done, tell("reset", res.at("ok").get<bool>(), done));
    if (done) {
      ours_.reset();
      const Status ok = cache_->reset();
      require(ok.ok(), ok.message());
    }
  } else if (op_name == "estimate") {
    const uint64_t is = upstream_.estimate(theirs_of_[name]);
    require(res.at("n") == is, tell("estimate", res.at("n"), static_cast<int64_t>(is)));
  } else if (op_name == "common") {
    compare_common(name, res);
  } else if (op_name == "ids_computed") {
    compare_ids(name, op);
  } else if (op_name == "events") {
    compare_events(res.at("ev"));
  }
  compare_state(op);
  if (op_name == "check") compare_check(res);
  compared_ = true;
}

// Prefixes are named by their symbols. Upstream knows them by their hashes, which say less about a picture: not where it ends. There a
// prefix has the name of the first one with its hash, mostly itself.
void DerivedReplay::name_prefixes(const std::string& name) {
  const Request& r = requests_[name];
  const auto symbols = symbols_of(r);
  std::vector<int64_t> prefixes, theirs;
  int64_t parent = names_.root(r.salt + '\0' + r.adapter);
  for (uint64_t end = naive_.hash_unit; end <= symbols.size(); end += naive_.hash_unit) {
    parent = names_.of(parent, {symbols.begin() + static_cast<long>(end - naive_.hash_unit), symbols.begin() + static_cast<long>(end)});
    prefixes.push_back(parent);
    const size_t k = prefixes.size() - 1;
    theirs.push_back(parent);
    if (k >= r.hashes.size()) continue;
    digests_[parent] = hex_of(r.hashes[k].view());
    theirs.back() = by_digest_.emplace(digests_[parent], parent).first->second;
    alike_[theirs.back()].insert(parent);
  }
  theirs_of_[name].names = theirs;
  ours_of_[name].names = prefixes;
  theirs_of_[name].tokens = ours_of_[name].tokens = r.tokens.size();
}

void DerivedReplay::lookup(const std::string& name, const json& res) {
  const Request& r = requests_[name];
  NaiveHit hit = r.skip ? NaiveHit{} : upstream_.lookup(theirs_of_[name]);
  hit.blocks.resize(naive_.groups.size());
  require(res.at("hit") == hit.tokens, tell("their hit", res.at("hit"), static_cast<int64_t>(hit.tokens)));
  require(res.value("boundary", hit.boundary) == hit.boundary,
          tell("boundary", res.value("boundary", uint64_t{0}), static_cast<int64_t>(hit.boundary)));
  if (res.contains("b")) require(res.at("b") == json(hit.blocks), "their blocks: expected " + res.at("b").dump());
  hits_[name] = hit;
  const uint64_t expected = r.skip || r.tokens.empty() ? 0 : ours_.lookup(ours_of_[name], r.tokens.size() - 1, ours_of_);
  const uint64_t is = r.skip ? 0 : probe(r, r.tokens.size(), false);
  apart_ = apart_ || expected != hit.tokens;
  require(expected == is, tell("hit", static_cast<int64_t>(expected), static_cast<int64_t>(is)));
}

void DerivedReplay::compare_allocation(const NaiveRequest& theirs, const json& res) const {
  require(res.at("t") == json(theirs.table), "their table: expected " + res.at("t").dump() + ", is " + json(theirs.table).dump());
}

void DerivedReplay::allocate(const std::string& name, const json& op) {
  const json& res = op.at("res");
  NaiveRequest& theirs = theirs_of_[name];
  NaiveHit hit;
  hit.blocks.resize(naive_.groups.size());
  if (op.value("use_hit", false)) {
    hit = hits_[name];
    require(op.value("hit", uint64_t{0}) == hit.tokens, "the hit of an allocation is not that of the last lookup");
  }
  const bool ok = upstream_.allocate(&theirs, op, hit);
  require(res.at("ok") == ok, tell("their admission", res.at("ok").get<bool>(), ok));
  compare_allocation(theirs, res);
  const Request& r = requests_[name];
  NaiveRequest& ours = ours_of_[name];
  NaiveWant want;
  want.match = ours.committed == 0 && !r.skip;
  want.target =
      std::min(op.value("c", uint64_t{0}) + hit.tokens + op.value("ext", uint64_t{0}) + op.value("new", uint64_t{0}), naive_.max_len);
  want.look = op.value("look", uint64_t{0});
  want.full = op.value("fit", false) ? std::min<uint64_t>(r.tokens.size(), naive_.max_len) : 0;
  bring(name, want);
  apart_ = apart_ || ok != (ours.committed > 0 && ours.committed >= std::min<uint64_t>(want.target, r.tokens.size()));
}

// In calls of at most so many tokens as may be in flight.
void DerivedReplay::bring(const std::string& name, const NaiveWant& want) {
  const NaiveRequest& ours = ours_of_[name];
  while (ours.committed < want.target) {
    const uint64_t before = ours.committed;
    if (!bring_once(name, want) || ours.committed == before) return;
    in_pieces_ = in_pieces_ || ours.committed < want.target;
  }
}

bool DerivedReplay::bring_once(const std::string& name, NaiveWant want) {
  Request& r = requests_[name];
  NaiveRequest& ours = ours_of_[name];
  const bool first = ours.committed == 0;
  if (!r.sequence) {
    const quire_identity identity = identity_of(r);
    auto made = cache_->sequence_create(&identity);
    require(made.ok(), made.status().message());
    r.sequence = *made;
  }
  const uint64_t hit = first && want.match ? ours_.lookup(ours, r.tokens.size() - 1, ours_of_) : 0;
  const uint64_t position = first ? hit : ours.committed;
  want.look = std::min(want.look, step_tokens_ - 1);
  if (first) want.target = std::min<uint64_t>(std::max(want.target, position + 1), r.tokens.size());
  want.target = std::min({want.target, position + step_tokens_ - want.look, naive_.max_len});
  if (want.target <= position) return false;
  want.accepted = std::max(position, std::min<uint64_t>(want.target, r.tokens.size()));
  const auto symbols = symbols_of(r);
  quire_reserve_entry entry{};
  entry.sequence = r.sequence->value;
  entry.symbols_offset = first && want.match ? 0 : position;
  entry.num_symbols = static_cast<uint32_t>((first && want.match ? r.tokens.size() : want.accepted) - entry.symbols_offset);
  entry.num_tokens = static_cast<uint32_t>(want.target - position);
  entry.flags = first && want.match ? QUIRE_ENTRY_MATCH : 0U;
  entry.num_look_ahead = static_cast<uint32_t>(want.look);
  entry.full_tokens = want.full;
  quire_reserve_result result{};
  StepId step;
  const Status called = cache_->reserve({&entry, 1}, symbols, {&result, 1}, &step);
  require(called.ok(), called.message());
  const bool admitted = ours_.reserve(&ours, want, hit);
  require(admitted == (result.code == QUIRE_OK), tell("admission", admitted, result.code));
  if (!admitted) return false;
  require(result.hit_tokens == hit, tell("hit at allocation", static_cast<int64_t>(hit), result.hit_tokens));
  require(result.num_tokens == entry.num_tokens, tell("tokens of the step", entry.num_tokens, result.num_tokens));
  compare_table(ours, step, result);
  quire_commit_entry done{};
  done.sequence = r.sequence->value;
  done.num_accepted = static_cast<uint32_t>(want.accepted - position);
  const Status committed = cache_->commit(step, {&done, 1}, {});
  require(committed.ok(), committed.message());
  if (first) ours.junction = result.full_hit_tokens > hit ? result.full_hit_tokens : 0;
  ours_.commit(&ours, want);
  return true;
}

// One bijection of ids per trace, as long as a block lives.
void DerivedReplay::match_ids(int naive, int32_t is) {
  const std::pair<int, uint64_t> life{naive, ours_.pool().at(naive).life};
  const auto known = ids_.find(life);
  if (known != ids_.end()) {
    require(known->second == is, tell("id of block " + std::to_string(naive), known->second, is));
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
    if (naive_.groups[g].kind == NaiveGroup::Kind::kCross) continue;
    std::vector<int32_t> is(r.table[g].size() + 64, -1);
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = QUIRE_FILL_RAW_TABLE;
    fill.group = g;
    fill.destination = is.data();
    fill.capacity = fill.pitch = is.size();
    fill.fill_value = -1;
    uint64_t written = 0;
    const Status ok = cache_->step_fill(step, fill, &written);
    require(ok.ok(), ok.message());
    const auto length = static_cast<uint64_t>(std::find(is.begin(), is.end(), -1) - is.begin());
    const uint64_t expected =
        ceil_div(result.position + result.num_tokens, naive_.groups[g].block);  // look-ahead has slots and is not read
    require(length == expected,
            tell("table length of group " + std::to_string(g), static_cast<int64_t>(expected), static_cast<int64_t>(length)));
    for (size_t b = 0; b < length; ++b) {
      const int wanted = r.table[g][b];
      require((wanted == 0) == (is[b] == 0), tell("group " + std::to_string(g) + " block " + std::to_string(b), wanted, is[b]));
      if (wanted != 0) match_ids(wanted, is[b]);
    }
  }
}

void DerivedReplay::release(const std::string& name) {
  upstream_.release(&theirs_of_[name]);
  ours_.release(&ours_of_[name]);
  Request& r = requests_[name];
  if (r.sequence) {
    const Status ok = cache_->sequence_finish(*r.sequence);
    require(ok.ok(), ok.message());
  }
  r.sequence.reset();
}

void DerivedReplay::pop(const std::string& name, const std::string& handle, const json& res) {
  popped_ids_[handle] = upstream_.pop(&theirs_of_[name]);
  require(res.at("b") == json(popped_ids_[handle]), "popped blocks");
  Request& r = requests_[name];
  if (!r.sequence) return;
  popped_ours_[handle] = {*r.sequence, ours_of_[name]};
  r.sequence.reset();
  NaiveRequest& ours = ours_of_[name];
  ours.table.clear();
  ours.told.clear();
  ours.committed = 0;
  ours.silent.reset();
  // A sequence that is taken down still holds its path.
  ours_of_["popped " + handle] = popped_ours_[handle].second;
}

void DerivedReplay::let_go(const std::string& handle, bool reverse) {
  if (popped_ids_.count(handle) != 0) {
    std::vector<int>& ids = popped_ids_[handle];
    if (reverse) std::reverse(ids.begin(), ids.end());
    upstream_.give_back(ids);
    popped_ids_.erase(handle);
  }
  const auto it = popped_ours_.find(handle);
  if (it == popped_ours_.end()) return;
  ours_.release(&ours_of_["popped " + handle]);
  ours_of_.erase("popped " + handle);
  const Status ok = cache_->sequence_finish(it->second.first);
  require(ok.ok(), ok.message());
  popped_ours_.erase(it);
}

void DerivedReplay::evict(const json& op) {
  for (int id : op.at("ids").get<std::vector<int>>()) {
    const std::vector<NaivePool::Key> keys = upstream_.pool().at(id).keys;
    upstream_.evict(id);
    std::set<NaivePool::Key> bad;
    for (const NaivePool::Key& key : keys) {
      bad.insert(key);
      for (int64_t name : alike_[key.first]) bad.insert({name, key.second});
    }
    for (const NaivePool::Key& key : bad) {
      const int block = ours_.pool().find(key);
      if (block < 0) continue;  // the end of a prompt inside a block, or gone with what was evicted before it
      const auto known = ids_.find({block, ours_.pool().at(block).life});
      require(known != ids_.end(), "a cached block without an id");
      ours_.evict(key, &ours_of_);
      uint64_t forgotten = 0;
      const Status ok = cache_->forget_blocks(key.second, {&known->second, 1}, &forgotten);
      require(ok.ok() && forgotten > 0, "nothing forgotten: " + ok.message());
    }
  }
}

void DerivedReplay::compare_common(const std::string& name, const json& res) const {
  uint64_t running = 0;
  for (const auto& [other, r] : theirs_of_) running += r.table.empty() || r.table[0].empty() ? 0 : 1;
  const auto it = theirs_of_.find(name);
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
  for (size_t g = 0; g < tables.size(); ++g) {
    auto ids = tables[g];
    const bool clips = naive_.groups[g].kind != NaiveGroup::Kind::kCross;
    if (clips) ids.resize(std::min<size_t>(ids.size(), ceil_div(op.at("n").get<uint64_t>(), naive_.groups[g].block / dcp)));
    require(op.at("res").at("ids")[g] == json(ids), "ids of computed tokens");
  }
}

void DerivedReplay::compare_state(const json& op) {
  if (op.contains("res") && op.at("res").contains("free")) {
    const auto is = static_cast<int64_t>(upstream_.pool().free());
    require(op.at("res").at("free") == is, tell("their free", op.at("res").at("free"), is));
  }
  const quire_cache_stats stats = stats_now();
  const auto expected = static_cast<int64_t>(ours_.pool().free());
  const auto is = static_cast<int64_t>(stats.pages_free + stats.pages_evictable);
  require(expected == is, tell("free", expected, is));
  require(ours_.pool().cached() == stats.parts_cached,
          tell("cached blocks", static_cast<int64_t>(ours_.pool().cached()), static_cast<int64_t>(stats.parts_cached)));
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
  const bool plain =
      std::all_of(naive_.groups.begin(), naive_.groups.end(), [&](const NaiveGroup& g) { return g.full() && g.block == naive_.hash_unit; });
  require(apart_ || reports_ || in_pieces_ || !plain, "events: expected " + wanted.dump() + ", are " + list.dump());
}

}  // namespace quire::golden
