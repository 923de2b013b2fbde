// Traces of upstream's block manager, replayed against a cache whose groups are those of the trace. An allocation is a reserve; what it
// computed is committed at once, because upstream publishes when it allocates. Where quire differs on purpose, or does not offer what the
// trace does, the comparison of that trace ends there and says why: numbers are those of docs/differences-from-vllm.md.
#include <map>
#include <set>

#include "core/prefix/event_wire.h"
#include "tests/golden/replay.h"

namespace quire::golden {
namespace {

class Replay : public ReplayedCache {
 public:
  using ReplayedCache::ReplayedCache;

  // Empty: equal, or not compared (then stopped() says why).
  std::string apply(const json& op) {
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
  bool compared() const { return compared_; }
  const std::optional<Stop>& stopped() const { return stop_; }

  // The events since the last time, as they are published.
  std::string publish(double time) {
    const Told t = told();
    std::vector<WireEvent> wire;
    for (const quire_event& e : t.events) wire.push_back(wire_of(e, t.data.data(), !config_.value("int_hashes", true)));
    std::string bytes;
    encode_batch(time, wire, 0, &bytes);
    return t.events.empty() ? std::string() : hex_of({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }

 private:
  void cache_op(const std::string& name, const json& op) {
    const bool known = name == "add" || name == "append" || name == "new_step" || name == "check";
    if (name == "add" && op.contains("mm")) throw Stop{End::kMedia, "a picture"};
    if (name == "add" && op.contains("report")) throw Stop{End::kNotOffered, "announcements of reused blocks"};
    if (name == "lookup") {
      lookup(op);
    } else if (name == "alloc") {
      allocate(op);
    } else if (name == "free") {
      finish(&requests_[op.at("r")]);
    } else if (name == "pop") {
      Request& r = requests_[op.at("r")];
      popped_[op.at("h").dump()] = r;
      r.sequence.reset();
      r.table.clear();
      r.committed = 0;
    } else if (name == "release" && popped_.count(op.at("h").dump()) != 0) {
      free_order_ = free_order_ || kinds_.size() > 1;
      finish(&popped_[op.at("h").dump()]);
      popped_.erase(op.at("h").dump());
    } else if (name == "reset") {
      reset(op);
    } else if (name == "evict") {
      throw Stop{End::kNotOffered, "eviction of single blocks"};
    } else if (name == "events") {
      compare_events(op.at("res").at("ev"));
    } else if (!known) {
      return;  // copies, zeroes, estimates: not part of this comparison
    }
    if (op.contains("res")) compare_free(op);
    if (name == "check") compare_cached(op);
    compared_ = true;
  }

  // Later hits depend on what was evicted, and that on how much room there was.
  void excuse(const std::string& what) const {
    if (duplicates_) throw Stop{End::kDuplicates, what};
    if (sparse_) throw Stop{End::kSparse, what};
    if (finer_) throw Stop{End::kFiner, what};
    if (early_) throw Stop{End::kEarlyWindows, what};
    if (free_order_) throw Stop{End::kFreeOrder, what};
  }

  void lookup(const json& op) {
    Request& r = requests_[op.at("r")];
    const json& res = op.at("res");
    const bool chunks_only = std::all_of(plan_->groups.begin(), plan_->groups.end(), [](const GroupPlan& g) { return g.live.chunk != 0; });
    r.hit = r.skip ? 0 : probe(r, r.tokens.size(), false);
    if (chunks_only && res.at("hit") > r.hit) throw Stop{End::kUncomputed, "a hit in an empty cache"};
    if (res.at("hit") != r.hit) excuse(tell("hit", res.at("hit"), static_cast<int64_t>(r.hit)));
    require(res.at("hit") == r.hit, tell("hit", res.at("hit"), static_cast<int64_t>(r.hit)));
  }

  void allocate(const json& op) {
    Request& r = requests_[op.at("r")];
    if (op.value("ext", 0) != 0 || op.value("delay", false) || op.value("enc", 0) != 0 || op.value("resv", 0) != 0 ||
        op.value("new", 0) == 0) {
      throw Stop{End::kNotOffered, "externally computed tokens"};
    }
    const uint64_t computed = op.value("c", 0);
    const uint64_t hit = op.value("use_hit", false) ? op.value("hit", 0) : 0;
    const uint64_t fresh = op.at("new");
    if (fresh + op.value("look", uint64_t{0}) > step_tokens_) throw Stop{End::kNotOffered, "more tokens at once than may be in flight"};
    if (computed != r.committed) throw Stop{End::kRollback, "a sequence that was cut"};
    if (computed + hit + fresh > r.tokens.size()) throw Stop{End::kRollback, "drafts"};
    if (!r.sequence) {
      const quire_identity identity = identity_of(r);
      auto made = cache_->sequence_create(&identity);
      require(made.ok(), made.status().message());
      r.sequence = *made;
    }
    const auto symbols = symbols_of(r);
    const quire_cache_stats before = stats_now();
    const bool others = before.pages_used > 0;
    quire_reserve_entry entry{};
    entry.sequence = r.sequence->value;
    entry.symbols_offset = computed;
    entry.num_tokens = static_cast<uint32_t>(fresh);
    // With a match the hit's symbols are given, too; without one those that are computed now.
    if (hit > 0) entry.flags = QUIRE_ENTRY_MATCH;
    entry.num_symbols = static_cast<uint32_t>(hit > 0 ? std::min(r.tokens.size(), hit + fresh + 1) : fresh);
    entry.num_look_ahead = op.value("look", 0);
    entry.full_tokens = op.value("fit", false) ? r.tokens.size() : 0;
    quire_reserve_result result{};
    StepId step;
    const Status reserved = cache_->reserve({&entry, 1}, symbols, {&result, 1}, &step);
    require(reserved.ok(), reserved.message());
    const bool expected = !op.contains("res") || op.at("res").at("ok");
    if (expected != (result.code == QUIRE_OK)) {
      const bool kept = head_.at("res").at("watermark_blocks") != 0 && op.value("sched", true) != others;
      if (kept && computed == 0) throw Stop{End::kWatermark, "the watermark"};
      excuse("admission");
      require(false, tell("ok", expected, result.code));
    }
    if (!expected) return;
    if (result.hit_tokens != hit) excuse("hit at allocation");
    require(result.hit_tokens == hit, tell("hit", static_cast<int64_t>(hit), result.hit_tokens));
    const uint64_t begin = computed + hit;
    if (op.contains("res")) compare_tables(op.at("res").at("t"), begin, step);
    commit(&r, step, begin, fresh);
    if (!op.contains("res")) return;
    r.table.clear();
    for (size_t g = 0; g < kinds_.size(); ++g) {
      r.table.push_back(op.at("res").at("t")[g].get<std::vector<int64_t>>());
      const LiveRange& live = plan_->groups[g].live;
      const uint64_t gone = live.everything() ? 0 : live.tail_begin(r.committed) / plan_->groups[g].block_tokens;
      std::fill_n(r.table[g].begin(), std::min<size_t>(gone, r.table[g].size()), 0);
    }
  }

  void commit(Request* r, StepId step, uint64_t begin, uint64_t fresh) {
    // Somebody else's blocks of the same prefix are there already: upstream keeps both.
    const uint64_t end = begin + fresh;
    if (config_.at("caching").get<bool>() && probe(*r, end, true) > begin) duplicates_ = true;
    quire_commit_entry entry{};
    entry.sequence = r->sequence->value;
    entry.num_accepted = static_cast<uint32_t>(fresh);
    const Status ok = cache_->commit(step, {&entry, 1}, {});
    require(ok.ok(), ok.message());
    r->committed = end;
  }

  // One bijection of ids per trace: a block that both sides hold has one name on each.
  void compare_tables(const json& tables, uint64_t begin, StepId step) {
    for (uint32_t g = 0; g < kinds_.size(); ++g) {
      const auto theirs = tables[g].get<std::vector<int64_t>>();
      const GroupPlan& plan = plan_->groups[g];
      std::vector<int32_t> ours(theirs.size() + 64, -1);
      quire_fill fill{};
      fill.struct_size = sizeof fill;
      fill.kind = QUIRE_FILL_RAW_TABLE;
      fill.group = g;
      fill.destination = ours.data();
      fill.capacity = fill.pitch = ours.size();
      fill.fill_value = -1;
      uint64_t written = 0;
      const Status ok = cache_->step_fill(step, fill, &written);
      require(ok.ok(), ok.message());
      const auto length = static_cast<size_t>(std::find(ours.begin(), ours.end(), -1) - ours.begin());
      require(length == theirs.size(),
              tell("table length of group " + std::to_string(g), static_cast<int64_t>(theirs.size()), static_cast<int64_t>(length)));
      const uint64_t first_live = plan.live.everything() ? 0 : plan.live.tail_begin(begin) / plan.block_tokens;
      for (size_t b = 0; b < theirs.size(); ++b) {
        if (b < first_live && ours[b] == 0) continue;  // difference 1: upstream may keep it a while longer
        require((theirs[b] == 0) == (ours[b] == 0), tell("block " + std::to_string(b), theirs[b], ours[b]));
        if (theirs[b] != 0) match_ids(theirs[b], ours[b]);
      }
    }
  }

  void match_ids(int64_t theirs, int32_t ours) {
    const auto t = theirs_to_ours_.find(theirs);
    const auto o = ours_to_theirs_.find(ours);
    const bool held_t = t != theirs_to_ours_.end() && held(theirs);
    const bool held_o = o != ours_to_theirs_.end() && held(o->second);
    if (held_t) require(t->second == ours, tell("block " + std::to_string(theirs) + " of a running sequence", t->second, ours));
    if (held_o) require(o->second == theirs, tell("our block " + std::to_string(ours) + " of a running sequence", o->second, theirs));
    // Copies: where both name the same pair, erasing one entry ends the life of what the other iterator reads.
    const int32_t old_ours = t != theirs_to_ours_.end() ? t->second : 0;
    const int64_t old_theirs = o != ours_to_theirs_.end() ? o->second : 0;
    ours_to_theirs_.erase(old_ours);
    theirs_to_ours_.erase(old_theirs);
    theirs_to_ours_[theirs] = ours;
    ours_to_theirs_[ours] = theirs;
  }

  template <typename Visit>
  void each_table(Visit visit) const {
    for (const auto& [name, r] : requests_) visit(r);
    for (const auto& [name, r] : popped_) visit(r);
  }
  bool held(int64_t id) const {
    bool found = false;
    each_table([&](const Request& r) {
      for (const auto& table : r.table) found = found || std::find(table.begin(), table.end(), id) != table.end();
    });
    return found;
  }

  // Free on our side: every block that is in no table, the null block left out.
  void compare_free(const json& op) {
    std::set<int64_t> used;
    each_table([&](const Request& r) {
      for (const auto& table : r.table) used.insert(table.begin(), table.end());
    });
    used.erase(0);
    const int64_t expected = config_.at("num_blocks").get<int64_t>() - 1 - static_cast<int64_t>(used.size());
    const int64_t told = op.at("res").at("free");
    require(windows_ ? told <= expected : told == expected, tell("free by their tables", told, expected));
    early_ = early_ || told < expected;
    const quire_cache_stats stats = stats_now();
    const auto is = static_cast<int64_t>(stats.pages_free + stats.pages_evictable);
    require(expected == is, tell("free", expected, is));
  }

  // Cached blocks that nobody uses.
  void compare_cached(const json& op) {
    const Status sound = cache_->verify();
    require(sound.ok(), sound.message());
    const json& res = op.at("res");
    if (!res.contains("hashed") || duplicates_ || windows_ || finer_) return;
    std::set<int64_t> hashed;
    for (const json& item : res.at("hashed")) hashed.insert(item[0].get<int64_t>());
    int64_t expected = 0;
    for (const json& id : res.at("q")) expected += hashed.count(id.get<int64_t>()) != 0 ? 1 : 0;
    require(expected == static_cast<int64_t>(stats_now().parts_cached),
            tell("cached blocks", expected, static_cast<int64_t>(stats_now().parts_cached)));
  }

  void finish(Request* r) {
    if (r->sequence) {
      const Status ok = cache_->sequence_finish(*r->sequence);
      require(ok.ok(), ok.message());
    }
    r->sequence.reset();
    r->table.clear();
    r->committed = 0;
  }

  void reset(const json& op) {
    if (op.contains("res") && !op.at("res").at("ok").get<bool>()) throw Stop{End::kReset, "sequences run"};
    const Status ok = cache_->reset();
    require(ok.ok(), ok.message());
    duplicates_ = free_order_ = false;
  }

  void compare_events(const json& expected) {
    if (!config_.at("events").get<bool>() || hasher_ == nullptr) return;
    const Told t = told();
    json list = json::array();
    for (const quire_event& e : t.events) list.push_back(json_of(e, t.data.data()));
    json wanted = json::array();
    for (json e : expected) {
      for (const char* untold : {"b", "x", "nx"}) e.erase(untold);
      wanted.push_back(e);
    }
    if (wanted != list) excuse("events");
    require(wanted == list, "events: expected " + wanted.dump() + ", are " + list.dump());
  }
};

}  // namespace

// A short trace whose steps are published, byte for byte.
Outcome check_flow(const json& test) {
  const json& config = test.at("config");
  const size_t groups = config.at("groups").size();
  const json alignment = groups > 1 ? config.at("scheduler_block_size") : json();
  Replay replay({{"config", config}, {"res", {{"eagle_groups", json::array()}, {"alignment", alignment}, {"watermark_blocks", 0}}}});
  for (const json& step : test.at("steps")) {
    for (const json& op : step.at("ops")) {
      const std::string difference = replay.apply(op);
      if (!difference.empty()) return {difference, {}};
      if (!replay.stopped()) continue;
      const bool numbered = replay.stopped()->end != End::kNotOffered;
      const std::string number =
          numbered ? "difference " + std::to_string(static_cast<int>(replay.stopped()->end)) + ": " : "not offered: ";
      return {{}, number + replay.stopped()->reason};
    }
    const std::string expected = step.contains("published") ? step.at("published").at("msgpack_hex").get<std::string>() : "";
    const std::string is = replay.publish(step.contains("published") ? step.at("published").at("ts").get<double>() : 0);
    if (expected != is) return {"published: expected " + expected + ", is " + is, {}};
  }
  return {};
}

struct TraceRun::State {
  std::unique_ptr<Replay> replay;
  std::string name;
  bool failed = false;
  std::map<std::string, uint64_t> ends;  // traces, by what ended their comparison
  std::map<std::string, uint64_t> lost;  // operations that were not compared, by reason
  uint64_t ops = 0, compared = 0, traces = 0;
  // Why operations of the present trace are not compared from here on.
  std::string reason() const {
    if (failed) return "failed";
    const Stop& stop = *replay->stopped();
    return stop.end == End::kNotOffered ? "not offered: " + stop.reason : "difference " + std::to_string(static_cast<int>(stop.end));
  }
};

TraceRun::TraceRun() : state_(std::make_unique<State>()) {}
TraceRun::~TraceRun() = default;

void TraceRun::end(Report* report) {
  State& s = *state_;
  if (s.replay == nullptr) return;
  if (!s.failed) report->pass();
  if (s.failed || s.replay->stopped()) ++s.ends[s.reason()];
  s.replay.reset();
}

bool TraceRun::passes_over(const std::string& text) {
  State& s = *state_;
  if (s.replay == nullptr || !(s.failed || s.replay->stopped())) return false;
  for (const char* read : {"{\"trace\"", "{\"op\":\"add\"", "{\"op\":\"append\""}) {
    if (text.rfind(read, 0) == 0) return false;
  }
  ++s.ops;
  ++s.lost[s.reason()];
  return true;
}

void TraceRun::line(const json& line, const std::string& file, Report* report) {
  State& s = *state_;
  if (line.contains("trace")) {
    end(report);
    s.replay = std::make_unique<Replay>(line);
    s.name = file + ":" + line.at("trace").get<std::string>();
    s.failed = false;
    ++s.traces;
    return;
  }
  ++s.ops;
  if (s.replay == nullptr || s.failed) {
    ++s.lost["failed"];
    return;
  }
  // What must be refused leaves no mark on either side.
  if (line.value("expect_error", false)) {
    ++s.lost["what must be refused"];
    return;
  }
  const std::string difference = s.replay->apply(line);
  if (!difference.empty()) {
    s.failed = true;
    report->fail(s.name, "op " + std::to_string(s.ops) + " " + difference);
  } else if (s.replay->compared()) {
    ++s.compared;
    return;
  }
  const bool ended = s.failed || s.replay->stopped();
  ++s.lost[ended ? s.reason() : "operation not part of the comparison: " + line.at("op").get<std::string>()];
}

void TraceRun::summary() const {
  const State& s = *state_;
  if (s.traces == 0) return;
  std::vector<std::pair<uint64_t, std::string>> lost;
  for (const auto& [reason, count] : s.lost) lost.emplace_back(count, reason);
  std::sort(lost.rbegin(), lost.rend());
  for (const auto& [count, reason] : lost) {
    const auto traces = s.ends.find(reason);
    std::cout << count << " operations in " << (traces != s.ends.end() ? std::to_string(traces->second) : "all")
              << " traces not compared: " << reason << "\n";
  }
  std::cout << "traces: " << s.traces << ", operations compared: " << s.compared << " of " << s.ops << " ("
            << static_cast<double>(s.compared * 1000 / std::max<uint64_t>(s.ops, 1)) / 10 << " %)\n";
}

}  // namespace quire::golden
