// Traces of upstream's block manager, replayed against a cache whose groups are those of the trace, beside the two naive models. Where
// quire does not offer what the trace does, the comparison of that trace ends there and says why.
#include <map>

#include "tests/golden/derived.h"

namespace quire::golden {

struct TraceRun::State {
  std::unique_ptr<DerivedReplay> replay;
  std::string name;
  bool failed = false;
  std::map<std::string, uint64_t> ends;  // traces, by what ended their comparison
  std::map<std::string, uint64_t> lost;  // operations that were not compared, by reason
  struct Met {
    uint64_t ops = 0, traces = 0, last = 0;  // last: the trace that it was met in last
  };
  std::map<int, Met> met;  // numbered differences
  uint64_t ops = 0, compared = 0, apart = 0, traces = 0;
  Wrong wrong = Wrong::kNothing;
  uint64_t wait = 0;  // operations before something is made wrong
  bool altered = false, noticed = false;
  std::string made;  // the operation with the wrong answer
  uint64_t num_altered = 0;
  // Why operations of the present trace are not compared from here on.
  std::string reason() const { return failed ? "failed" : name_of(*replay->stopped()); }
  static std::string name_of(const Stop& stop) {
    return stop.end == End::kNotOffered ? "not offered: " + stop.reason : "difference " + std::to_string(static_cast<int>(stop.end));
  }
};

TraceRun::TraceRun(Wrong wrong) : state_(std::make_unique<State>()) { state_->wrong = wrong; }
TraceRun::~TraceRun() = default;

void TraceRun::end(Report* report) {
  State& s = *state_;
  if (s.replay == nullptr) return;
  if (s.wrong == Wrong::kModel) s.altered = s.altered && s.replay->spoiled();
  if (s.altered && !s.noticed) {
    report->fail(s.name, "a wrong answer was not noticed: " + s.made);
  } else if (!s.failed || s.noticed) {
    report->pass();
  }
  s.num_altered += s.altered ? 1 : 0;
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

// One answer of the trace, another sort of answer in each.
json TraceRun::make_wrong(json op) {
  State& s = *state_;
  if (s.altered || s.wait-- > 0) return op;
  const uint64_t draw = std::hash<std::string>()(s.name + "/");
  s.wait = 0;
  if (s.wrong == Wrong::kModel) {
    s.replay->spoil(static_cast<DerivedReplay::Spoil>(draw % 4));
    s.altered = true;
    return op;
  }
  std::vector<std::string> answers;
  for (const char* name : {"free", "hit", "b", "t", "ok", "copies", "offloads", "q", "refs", "keys", "n"}) {
    if (op.at("res").contains(name)) answers.emplace_back(name);
  }
  json& answer = op.at("res").at(answers[draw % answers.size()]);
  if (answer.is_boolean()) {
    answer = !answer.get<bool>();
  } else if (answer.is_number()) {
    answer = answer.get<int64_t>() + 1;
  } else if (answer.is_array()) {
    answer.push_back(1);
  } else {
    answer["none"] = 1;
  }
  s.altered = true;
  s.made = op.dump();
  return op;
}

void TraceRun::line(const json& line, const std::string& file, Report* report) {
  State& s = *state_;
  if (line.contains("trace")) {
    end(report);
    s.replay = std::make_unique<DerivedReplay>(line);
    s.name = file + ":" + line.at("trace").get<std::string>();
    s.failed = s.altered = s.noticed = false;
    s.wait = std::hash<std::string>()(s.name) % 60;
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
  const std::string difference = s.wrong == Wrong::kNothing ? s.replay->apply(line) : s.replay->apply(make_wrong(line));
  if (!difference.empty()) {
    s.failed = true;
    s.noticed = s.altered && (s.wrong == Wrong::kRecord || s.replay->spoiled());
    if (!s.noticed) report->fail(s.name, "op " + std::to_string(s.ops) + " " + difference);
  } else if (s.replay->compared()) {
    ++s.compared;
    if (s.replay->apart()) ++s.apart;
    for (const int number : s.replay->met()) {
      State::Met& met = s.met[number];
      ++met.ops;
      met.traces += met.last != s.traces ? 1 : 0;
      met.last = s.traces;
    }
    return;
  }
  ++s.lost[s.reason()];
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
  for (const auto& [number, met] : s.met) {
    std::cout << "difference " << number << ": met by " << met.ops << " operations in " << met.traces << " traces\n";
  }
  const auto share = [&](uint64_t n) { return static_cast<double>(n * 1000 / std::max<uint64_t>(s.ops, 1)) / 10; };
  std::cout << "compared with the recorded answer as it is: " << s.compared - s.apart << " operations (" << share(s.compared - s.apart)
            << " %); with what the numbered differences make of it: " << s.apart << " (" << share(s.apart) << " %)\n";
  std::cout << "traces: " << s.traces << ", operations compared: " << s.compared << " of " << s.ops << " ("
            << static_cast<double>(s.compared * 1000 / std::max<uint64_t>(s.ops, 1)) / 10 << " %), " << s.apart
            << " of them by what numbered differences make of them\n";
  if (s.wrong != Wrong::kNothing) std::cout << "traces with a wrong answer: " << s.num_altered << "\n";
}

}  // namespace quire::golden
