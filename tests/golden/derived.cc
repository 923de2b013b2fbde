#include "tests/golden/derived.h"

#include <algorithm>

#include "core/base/checked.h"

namespace quire::golden {
DerivedReplay::DerivedReplay(const json& head)
    : ReplayedCache(head), naive_(stop_ ? NaiveShape{} : shape_of()), upstream_(naive_), ours_(ours_of(naive_), &names_) {
  apart_ = !stop_ && naive_.retention.has_value();
}

// A state does not depend on what is sampled behind it.
NaiveShape DerivedReplay::ours_of(NaiveShape shape) {
  for (NaiveGroup& group : shape.groups) group.drafts = group.drafts && !group.state();
  return shape;
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
    const json& spec = config_.at("groups")[g].at("spec");
    group.kind = plan.live.fixed         ? NaiveGroup::Kind::kCross
                 : plan.live.state       ? NaiveGroup::Kind::kState
                 : plan.live.chunk != 0  ? NaiveGroup::Kind::kChunk
                 : plan.live.window != 0 ? NaiveGroup::Kind::kWindow
                                         : NaiveGroup::Kind::kFull;
    group.block = plan.block_tokens;
    group.aligned = spec.value("mode", std::string()) == "align";
    group.branches = spec.value("spec_blocks", uint64_t{0});
    if (group.state()) s.step_spacing = std::lcm(std::max<uint64_t>(s.step_spacing, s.joint), group.block);
    group.range = std::max(plan.live.chunk, plan.live.window);
    group.extra = plan.live.retained;
    group.drafts = plan.look_ahead > 0;
    s.look_ahead = std::max<uint64_t>(s.look_ahead, plan.look_ahead);
    const json cap = res.contains("caps") ? res.at("caps")[g] : json();
    if (!cap.is_null()) group.cap = cap;
    s.groups.push_back(group);
  }
  s.fine = partial_;
  s.states = states_;
  s.at_blocks = at_blocks_;
  s.branches = branches_;
  if (s.retention.value_or(0) != 0) s.step_spacing = round_up(*s.retention, s.joint);
  s.spacing = s.retention == 0 ? 0 : s.step_spacing;
  return s;
}

std::string DerivedReplay::apply(const json& op) {
  const std::string name = op.at("op");
  compared_ = false;
  ours_.met.clear();
  try {
    if (name == "add" || name == "append") request_op(name, op);
    if (!stop_) cache_op(name, op);
  } catch (const Difference& difference) {
    return name + ": " + difference.what;
  }
  return {};
}

void DerivedReplay::cache_op(const std::string& op_name, const json& op) {
  const std::string name = op.contains("r") ? op.at("r").get<std::string>() : std::string();
  const json& res = op.at("res");
  if (op_name == "add" || op_name == "append") {
    reports_ = reports_ || op.contains("report");
    name_prefixes(name);
    if (op_name == "add") theirs_of_[name].prompt = requests_[name].tokens.size();
  } else if (op_name == "lookup" || op_name == "lookup_conn") {
    lookup(name, op);
  } else if (op_name == "truncate") {
    cut_hit(name, op);
  } else if (op_name == "new_step") {
    upstream_.new_step();
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
    if (!done) ours_.met.insert(4);
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
  } else {
    worker_op(op_name, op);
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
    if (theirs.back() != parent) ours_.met.insert(5);
    alike_[theirs.back()].insert(parent);
  }
  theirs_of_[name].names = theirs;
  ours_of_[name].names = prefixes;
  theirs_of_[name].tokens = ours_of_[name].tokens = r.tokens.size();
}

void DerivedReplay::lookup(const std::string& name, const json& op) {
  const json& res = op.at("res");
  const Request& r = requests_[name];
  bool diverged = false;
  const bool apart = op.at("op") == "lookup_conn";
  NaiveHit hit = r.skip ? NaiveHit{} : apart ? upstream_.lookup_apart(theirs_of_[name], &diverged) : upstream_.lookup(theirs_of_[name]);
  hit.blocks.resize(naive_.groups.size());
  require(res.at("hit") == hit.tokens, tell("their hit", res.at("hit"), static_cast<int64_t>(hit.tokens)));
  require(res.value("boundary", hit.boundary) == hit.boundary,
          tell("boundary", res.value("boundary", uint64_t{0}), static_cast<int64_t>(hit.boundary)));
  if (res.contains("b"))
    require(res.at("b") == json(hit.blocks), "their blocks: expected " + res.at("b").dump() + ", are " + json(hit.blocks).dump());
  require(res.value("diverged", diverged) == diverged, "diverged");
  hits_[name] = hit;
  const uint64_t expected = r.skip || r.tokens.empty() ? 0 : ours_.lookup(ours_of_[name], r.tokens.size() - 1, ours_of_);
  const uint64_t is = (r.skip ? 0 : probe(r)) + static_cast<uint64_t>(spoilt_by(Spoil::kHit));
  apart_ = apart_ || expected != hit.tokens;
  require(expected == is, tell("hit", static_cast<int64_t>(expected), static_cast<int64_t>(is)));
}

// Less of a hit is taken.
void DerivedReplay::cut_hit(const std::string& name, const json& op) {
  NaiveHit& hit = hits_[name];
  hit.tokens = op.at("n");
  for (size_t g = 0; g < naive_.groups.size(); ++g)
    hit.blocks[g].resize(std::min<size_t>(hit.blocks[g].size(), hit.tokens / naive_.groups[g].block));
  require(op.at("res").at("b") == json(hit.blocks), "cut blocks: expected " + op.at("res").at("b").dump());
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
  if (upstream_.held_back) ours_.met.insert(16);
  upstream_.held_back = false;
  const bool others = ours_.pool().free() + 1 < naive_.num_blocks;
  if (naive_.watermark > 0 && ours_of_[name].committed == 0 && op.value("sched", true) != others) ours_.met.insert(12);
  require(res.at("ok") == ok, tell("their admission", res.at("ok").get<bool>(), ok));
  const Request& r = requests_[name];
  NaiveRequest& ours = ours_of_[name];
  NaiveWant want;
  want.match = ours.committed == 0 && !r.skip;
  want.target =
      std::min(op.value("c", uint64_t{0}) + hit.tokens + op.value("ext", uint64_t{0}) + op.value("new", uint64_t{0}), naive_.max_len);
  if (const auto encoder = op.value("enc", uint64_t{0}); encoder > 0) ours.encoder = encoder;
  want.encoder = ours.encoder;
  want.look = op.value("look", uint64_t{0});
  want.full = op.value("fit", false) ? std::min<uint64_t>(r.tokens.size(), naive_.max_len) : 0;
  bring(name, want);
  apart_ = apart_ || ok != (ours.committed > 0 && ours.committed >= std::min<uint64_t>(want.target, r.tokens.size()));
}

// Upstream keeps the last boundary of a prompt beside those of the blocks, and with retention those where requests parted.
bool DerivedReplay::keeps_state(const std::string& name, uint64_t end) const {
  if (!states_) return false;
  const NaiveRequest& r = theirs_of_.at(name);
  const auto last = [](uint64_t tokens, uint64_t grid) { return tokens / grid * grid; };
  if (partial_ && end == last(r.prompt, naive_.unit)) return true;
  return naive_.retention && (end == last(r.prompt - 1, naive_.joint) || (r.junction > 0 && end == last(r.junction, naive_.joint)));
}

// A hit that ends inside a block may take any that reaches so far: which one it was.
std::map<size_t, int> DerivedReplay::taken_inside(const NaiveRequest& r, uint64_t hit, StepId step) const {
  std::map<size_t, int> out;
  auto copies = cache_->step_copies(step);
  require(copies.ok(), copies.status().message());
  for (size_t g = 0; g < naive_.groups.size(); ++g) {
    const NaiveGroup& group = naive_.groups[g];
    if (!group.full() || hit % group.block == 0) continue;
    int32_t is = row_of(step, QUIRE_FILL_RAW_TABLE, static_cast<uint32_t>(g), ceil_div(naive_.max_len, group.block))[hit / group.block];
    for (const quire_copy& copy : *copies) is = copy.group == g ? copy.source : is;
    const auto life = lives_.find(is);
    require(life != lives_.end(), "a hit ends in a block that nobody knows");
    const std::vector<int> right = ours_.over(r, g, hit);
    require(std::find(right.begin(), right.end(), life->second.first) != right.end(), "a hit ends in a block of other tokens");
    out[g] = life->second.first;
  }
  return out;
}

std::vector<int32_t> DerivedReplay::row_of(StepId step, quire_fill_kind kind, uint32_t group, size_t capacity) const {
  std::vector<int32_t> is(capacity, -1);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = kind;
  fill.group = group;
  fill.destination = is.data();
  fill.capacity = fill.pitch = is.size();
  fill.fill_value = -1;
  uint64_t written = 0;
  const Status ok = cache_->step_fill(step, fill, &written);
  require(ok.ok(), ok.message());
  return is;
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

// On our side. A lone request that would be refused for ever gets a shorter hit: *hit, at last none.
bool DerivedReplay::reserve_ours(NaiveRequest* ours, const quire_reserve_result& result, StepId step, NaiveWant* want, uint64_t* hit) {
  const bool alone = std::none_of(ours_of_.begin(), ours_of_.end(), [](const auto& item) { return item.second.committed > 0; });
  const uint64_t tokens = want->target - (alone ? *hit : 0);
  uint64_t grid = 1;
  for (const NaiveGroup& group : naive_.groups) grid = group.full() ? std::lcm(grid, group.block) : grid;
  for (bool again = false;; again = true) {
    want->taken.clear();
    if (*hit > 0 && result.code == QUIRE_OK && result.hit_tokens == *hit) want->taken = taken_inside(*ours, *hit, step);
    if (ours_.reserve(ours, *want, *hit)) return true;
    if (!want->match || !alone || *hit == 0) return false;
    *hit = ours_.lookup(*ours, std::min((*hit - 1) / grid * grid, again ? *hit / 2 : *hit), ours_of_);
    want->target = *hit + tokens;
    want->accepted = std::max(*hit, std::min(want->target, ours->tokens));
    apart_ = true;
    ours_.met.insert(18);
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
  // A state stands behind a whole row, or behind every token of a short one.
  if (states_ && want.accepted < want.target && want.target - position > branches_ + 1) want.target = want.accepted;
  if (states_ && want.accepted <= position) return false;
  want.keep = keeps_state(name, want.target);
  const auto symbols = symbols_of(r);
  quire_reserve_entry entry{};
  entry.sequence = r.sequence->value;
  entry.symbols_position = entry.symbols_offset = first && want.match ? 0 : position;
  entry.num_symbols = static_cast<uint32_t>((first && want.match ? r.tokens.size() : want.accepted) - entry.symbols_offset);
  entry.num_tokens = static_cast<uint32_t>(want.target - position);
  entry.flags = QUIRE_ENTRY_NO_STOP | (first && want.match ? QUIRE_ENTRY_MATCH : 0U) | (want.keep ? QUIRE_ENTRY_KEEP_STATE : 0U);
  entry.num_look_ahead = static_cast<uint32_t>(want.look);
  entry.full_tokens = want.full;
  entry.encoder_tokens = first ? want.encoder : 0;
  quire_reserve_result result{};
  StepId step;
  const Status called = cache_->reserve({&entry, 1}, symbols, {&result, 1}, &step);
  require(called.ok(), called.message());
  uint64_t taken = hit;
  const bool admitted = reserve_ours(&ours, result, step, &want, &taken);
  require(admitted == (result.code == QUIRE_OK), tell("admission", admitted, result.code));
  if (!admitted) return false;
  require(result.hit_tokens == taken, tell("hit at allocation", static_cast<int64_t>(taken), result.hit_tokens));
  require(result.num_tokens == entry.num_tokens, tell("tokens of the step", entry.num_tokens, result.num_tokens));
  compare_table(ours, step, result);
  quire_commit_entry done{};
  done.sequence = r.sequence->value;
  done.num_accepted = static_cast<uint32_t>(want.accepted - result.position);
  const Status committed = cache_->commit(step, {&done, 1}, {});
  require(committed.ok(), committed.message());
  if (first) ours.junction = result.full_hit_tokens > hit ? result.full_hit_tokens : 0;
  ours_.commit(&ours, want);
  return true;
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
  if (naive_.groups.size() > 1) ours_.met.insert(7);
  if (!r.sequence) return;
  popped_ours_[handle] = {*r.sequence, ours_of_[name]};
  r.sequence.reset();
  NaiveRequest& ours = ours_of_[name];
  ours.table.clear();
  ours.told.clear();
  ours.states.clear();
  ours.may_share = false;
  ours.committed = ours.prompt = 0;
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

}  // namespace quire::golden
