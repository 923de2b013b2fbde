// quire_golden PATH...: checks the core against recorded vectors. A line per failure and per skipped case; the last line is
// "N passed, M failed". With --wrong-record or --wrong-model one answer of each trace is made wrong, and a trace passes when that is
// noticed. Exit status: 0 all passed, 1 failures, unreadable or unknown files, or nothing checked, 2 bad call, 77 nothing there (with
// --if-present).
#include "tests/golden/golden.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>

namespace quire::golden {

uint64_t dtype_bytes(const std::string& code) {
  static const std::map<std::string, uint64_t> sizes{{"bf16", 2}, {"fp16", 2}, {"fp32", 4}, {"u8", 1}, {"i8", 1}, {"fp8", 1}};
  const auto it = sizes.find(code);
  return it == sizes.end() ? 0 : it->second;
}

std::string differs(const std::string& name, uint64_t expected, uint64_t is) {
  if (expected == is) return {};
  return name + ": expected " + std::to_string(expected) + ", is " + std::to_string(is);
}

namespace {

using Check = std::function<Outcome(const json&)>;

// Reads a plain or gzip file; gzread passes plain text through.
bool read_text(const std::filesystem::path& path, std::string* text) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  std::array<char, 65536> buffer;
  int n = 0;
  while ((n = gzread(file, buffer.data(), buffer.size())) > 0) text->append(buffer.data(), static_cast<size_t>(n));
  gzclose(file);
  return n == 0;
}

void run_case(const json& test, const std::string& file, const Check& check, Report* report) {
  const std::string name = file + ":" + test.value("name", std::string("?"));
  try {
    const Outcome outcome = check(test);
    if (!outcome.skip.empty()) {
      report->skip(name, outcome.skip);
    } else if (!outcome.difference.empty()) {
      report->fail(name, outcome.difference);
    } else {
      report->pass();
    }
  } catch (const std::exception& error) {  // a field is missing or of another type
    report->fail(name, error.what());
  }
}

// In folders lie other files, too; one that was asked for by its name is meant to be checked.
void run_file(const std::filesystem::path& path, bool asked_for, TraceRun* traces, Report* report) {
  const std::string file = path.filename();
  const std::string stem = file.substr(0, file.find('.'));
  static const std::map<std::string, Check> checks{{"hybrid_blocks", check_hybrid_block},
                                                   {"layouts", check_layout},
                                                   {"configs", check_config},
                                                   {"hashes", check_hash},
                                                   {"events", check_event}};
  const auto check = checks.find(stem);
  if (check == checks.end() && stem == "index") return;  // of the traces beside it
  const bool is_trace = check == checks.end() && file.find(".jsonl") != std::string::npos;
  if (check == checks.end() && !is_trace) {
    const char* const known =
        "no kind of golden file; known are hybrid_blocks, layouts, configs, hashes, events (.json) and traces (.jsonl)";
    asked_for ? report->fail(path, known) : report->skip(path, known);
    return;
  }
  std::string text;
  if (!read_text(path, &text)) {
    report->fail(path, "cannot be read");
    return;
  }
  try {
    if (file.find(".jsonl") == std::string::npos) {
      for (const json& test : json::parse(text)) run_case(test, file, check->second, report);
      return;
    }
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) continue;
      if (is_trace) {
        if (!traces->passes_over(line)) traces->line(json::parse(line), file, report);
      } else {
        run_case(json::parse(line), file, check->second, report);
      }
    }
    if (is_trace) traces->end(report);
  } catch (const json::exception& error) {
    report->fail(file, error.what());
  }
}

void run_path(const std::filesystem::path& path, TraceRun* traces, Report* report) {
  if (!std::filesystem::is_directory(path)) {
    run_file(path, true, traces, report);
    return;
  }
  std::vector<std::filesystem::path> entries;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    const std::string name = entry.path().filename();
    const bool data = name.find(".json") != std::string::npos;
    if (entry.is_regular_file() && data) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  for (const auto& entry : entries) run_file(entry, false, traces, report);
}

int run(const std::vector<std::string>& arguments) {
  Report report;
  const auto asked = [&](const char* flag) { return std::find(arguments.begin(), arguments.end(), flag) != arguments.end(); };
  TraceRun traces(asked("--wrong-record") ? Wrong::kRecord : asked("--wrong-model") ? Wrong::kModel : Wrong::kNothing);
  bool if_present = false;
  bool any = false;
  for (const std::string& argument : arguments) {
    if_present = if_present || argument == "--if-present";
    if (argument.rfind("--", 0) == 0) continue;
    if (!std::filesystem::exists(argument)) {
      if (if_present) {
        std::cout << "no " << argument << ": nothing is checked\n";
        continue;
      }
      report.fail(argument, "no such file or folder");
      continue;
    }
    any = true;
    run_path(argument, &traces, &report);
  }
  if (arguments.empty()) {
    std::cerr << "usage: quire_golden [--if-present] [--wrong-record | --wrong-model] PATH...\n";
    return 2;
  }
  traces.summary();
  if (report.skipped() != 0) std::cout << report.skipped() << " skipped\n";
  std::cout << report.passed() << " passed, " << report.failed() << " failed\n";
  if (if_present && !any) return 77;
  return report.failed() != 0 || report.passed() == 0 ? 1 : 0;
}

}  // namespace
}  // namespace quire::golden

int main(int argc, char** argv) { return quire::golden::run({argv + 1, argv + argc}); }
