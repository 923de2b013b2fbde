// What the readers of golden files share: a report that counts, and the cases of one file.
#pragma once

#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace quire::golden {

using nlohmann::json;

class Report {
 public:
  void pass() { ++passed_; }
  void fail(const std::string& name, const std::string& what) {
    ++failed_;
    std::cout << "failed " << name << ": " << what << "\n";
  }
  void skip(const std::string& name, const std::string& reason) {
    ++skipped_;
    std::cout << "skipped " << name << ": " << reason << "\n";
  }
  uint64_t passed() const { return passed_; }
  uint64_t failed() const { return failed_; }
  uint64_t skipped() const { return skipped_; }

 private:
  uint64_t passed_ = 0;
  uint64_t failed_ = 0;
  uint64_t skipped_ = 0;
};

// Outcome of one case: empty = passed; otherwise the first difference, or the reason to skip.
struct Outcome {
  std::string difference;
  std::string skip;
};

Outcome check_hybrid_block(const json& test);
Outcome check_layout(const json& test);
Outcome check_codec(const json& test);
Outcome check_config(const json& test);
Outcome check_hash(const json& test);
Outcome check_event(const json& test);
Outcome check_flow(const json& test);

// What is made wrong in each trace, so that its comparison has to fail.
enum class Wrong { kNothing, kRecord, kModel };

// Traces, line by line over any number of files; adds a pass or a failure per trace. With something wrong a trace passes that fails.
class TraceRun {
 public:
  explicit TraceRun(Wrong wrong = Wrong::kNothing);
  ~TraceRun();
  // Whether nothing of the line is compared, because its trace has ended; then it is counted and need not be parsed.
  bool passes_over(const std::string& text);
  void line(const json& line, const std::string& file, Report* report);
  void end(Report* report);  // of the last trace of a file
  void summary() const;      // how much was compared, and what ended comparisons

 private:
  json make_wrong(json op);

  struct State;
  std::unique_ptr<State> state_;
};

// Tokens of a case: segments, each explicit or drawn from SplitMix64.
std::vector<int64_t> tokens_of(const json& segments);
std::string hex_of(std::span<const uint8_t> bytes);
std::vector<uint8_t> bytes_of(const std::string& hex);
uint64_t split_mix(uint64_t* state);

// Bytes of a dtype code of the golden files; 0 = unknown.
uint64_t dtype_bytes(const std::string& code);
// "name: expected A, is B", or empty when equal.
std::string differs(const std::string& name, uint64_t expected, uint64_t is);

}  // namespace quire::golden
