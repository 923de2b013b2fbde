// Traces of upstream's block manager, replayed against a cache whose groups are those of the trace. An allocation is a reserve; what it
// computed is committed at once, because upstream publishes when it allocates. Where quire differs on purpose, or does not offer what the
// trace does, the comparison of that trace ends there and says why: numbers are those of docs/differences-from-vllm.md.
#include <map>
#include <set>

#include "core/prefix/event_wire.h"
#include "tests/golden/derived.h"
#include "tests/golden/replay_tables.h"

namespace quire::golden {
namespace {

class Replay : public ReplayedTables, public TraceReplay {
 public:
  using ReplayedTables::ReplayedTables;

  std::string apply(const json& op) override {
    const std::string name = op.at("op");
    compared_ = false;
    passed_over_.reset();
    try {
      if (name == "add" || name == "append") request_op(name, op);
      if (!stop_) cache_op(name, op);
    } catch (const Difference& difference) {
      return name + ": " + difference.what;
    } catch (const Stop& stop) {
      stop_ = stop;
      compared_ = false;
    } catch (const PassOver& over) {
      passed_over_ = over.why;
      compared_ = false;
    }
    return {};
  }
  bool compared() const override { return compared_; }
  const std::optional<Stop>& stopped() const override { return stop_; }
  // Why the last operation was left out, where the comparison of the trace goes on.
  const std::optional<Stop>& passed_over() const override { return passed_over_; }

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
    if (pictures_ && !op.contains("res")) throw Stop{End::kMedia, "events of a picture"};
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
      r.told.clear();
      r.committed = r.slots = 0;
    } else if (name == "release" && popped_.count(op.at("h").dump()) != 0) {
      free_order_ = free_order_ || kinds_.size() > 1;
      finish(&popped_[op.at("h").dump()]);
      popped_.erase(op.at("h").dump());
    } else if (name == "new_step") {
      published_.clear();
    } else if (name == "reset") {
      reset(op);
    } else if (name == "evict") {
      evict(op);
    } else if (name == "events") {
      if (!pictures_) compare_events(op.at("res").at("ev"));
    } else if (!known) {
      return;  // copies, zeroes, estimates: not part of this comparison
    }
    if (op.contains("res")) compare_free(op);
    if (name == "events" && pictures_) return;
    if (name == "check") compare_cached(op);
    compared_ = true;
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

  // Upstream names blocks of any group by one number; ours is known where both sides met it.
  void evict(const json& op) {
    for (const json& item : op.at("ids")) {
      const auto named = theirs_to_ours_.find(item.get<int64_t>());
      if (named == theirs_to_ours_.end()) throw Stop{End::kForgotten, "a block whose name is not known"};
      for (uint32_t g = 0; g < kinds_.size(); ++g) {
        uint64_t forgotten = 0;
        const Status ok = cache_->forget_blocks(g, {&named->second, 1}, &forgotten);
        require(ok.ok(), ok.message());
      }
    }
    forgotten_ = true;
  }

  // Cached blocks that nobody uses.
  void compare_cached(const json& op) {
    const Status sound = cache_->verify();
    require(sound.ok(), sound.message());
    const json& res = op.at("res");
    if (!res.contains("hashed") || duplicates_ || windows_ || finer_ || forgotten_) return;
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
    r->told.clear();
    r->committed = r->slots = 0;
  }

  void reset(const json& op) {
    // Difference 4: what upstream refuses is left out.
    if (op.contains("res") && !op.at("res").at("ok").get<bool>()) throw PassOver{Stop{End::kReset, "sequences run"}};
    const Status ok = cache_->reset();
    require(ok.ok(), ok.message());
    duplicates_ = free_order_ = false;
  }

  // Stored events that tell one of these are taken apart, hash by hash.
  static json by_hash(const json& events, const std::set<std::pair<std::string, int>>& names) {
    json out = json::array();
    for (const json& e : events) {
      const bool apart = e.at("t") == "stored" && std::any_of(e.at("h").begin(), e.at("h").end(), [&](const json& hash) {
                           return names.count({hash.get<std::string>(), e.at("g").get<int>()}) != 0;
                         });
      if (!apart) {
        out.push_back(e);
        continue;
      }
      for (const json& hash : e.at("h")) out.push_back({{"t", "stored"}, {"h", hash}, {"g", e.at("g")}, {"k", e.at("k")}});
    }
    return out;
  }

  void compare_events(const json& expected) {
    if (events_end_) throw PassOver{*events_end_};
    if (!config_.at("events").get<bool>() || hasher_ == nullptr) return;
    const Told t = told();
    json list = json::array();
    for (const quire_event& e : t.events) list.push_back(json_of(e, t.data.data()));
    json wanted = json::array();
    std::set<std::pair<std::string, int>> short_told;  // difference 10: events whose hashes do not cover their tokens
    for (json e : expected) {
      if (e.contains("quirk") && e.contains("h") && e.at("h").empty()) continue;  // tells no block
      if (e.contains("quirk") && e.at("t") == "stored") {
        for (const json& hash : e.at("h")) short_told.insert({hash.get<std::string>(), e.at("g").get<int>()});
      }
      for (const char* untold : {"b", "x", "nx", "quirk"}) e.erase(untold);
      wanted.push_back(e);
    }
    if (!short_told.empty()) {
      wanted = by_hash(wanted, short_told);
      list = by_hash(list, short_told);
    }
    if (wanted != list) {
      try {
        excuse("events");
      } catch (const Stop& stop) {  // only what is told differs from here on
        events_end_ = stop;
        throw PassOver{stop};
      }
    }
    require(wanted == list, "events: expected " + wanted.dump() + ", are " + list.dump());
  }

  std::optional<Stop> events_end_, passed_over_;
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
    // Difference 10: of hashes that do not cover their tokens.
    const json told = step.value("events", json::array());
    const bool covered = std::all_of(told.begin(), told.end(), [](const json& e) {
      return e.at("type") != "BlockStored" || e.at("block_hashes").size() * e.at("block_size").get<size_t>() == e.at("token_ids").size();
    });
    if (expected != is && !covered) return {{}, "difference 10: one event tells tokens of blocks that it does not name"};
    if (expected != is) return {"published: expected " + expected + ", is " + is, {}};
  }
  return {};
}

struct TraceRun::State {
  std::unique_ptr<TraceReplay> replay;
  std::string name;
  bool failed = false;
  std::map<std::string, uint64_t> ends;  // traces, by what ended their comparison
  std::map<std::string, uint64_t> lost;  // operations that were not compared, by reason
  uint64_t ops = 0, compared = 0, apart = 0, traces = 0;
  // Why operations of the present trace are not compared from here on.
  std::string reason() const { return failed ? "failed" : name_of(*replay->stopped()); }
  static std::string name_of(const Stop& stop) {
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
    const json& groups = line.at("config").at("groups");
    const bool states = std::any_of(groups.begin(), groups.end(), [](const json& g) { return g.at("spec").at("kind") == "mamba"; });
    if (states) {
      s.replay = std::make_unique<Replay>(line);
    } else {
      s.replay = std::make_unique<DerivedReplay>(line);
    }
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
    if (s.replay->apart()) ++s.apart;
    return;
  }
  if (s.replay->passed_over()) {
    ++s.lost[State::name_of(*s.replay->passed_over()) + ", the operation alone"];
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
            << static_cast<double>(s.compared * 1000 / std::max<uint64_t>(s.ops, 1)) / 10 << " %), " << s.apart
            << " of them by what numbered differences make of them\n";
}

}  // namespace quire::golden
