#include "tests/metrics/metrics_text.h"

#include <sstream>

namespace quire::test {
namespace {

std::string family_of(const std::string& sample, const std::string& family, const Family& known, bool is_open) {
  const std::string name = sample.substr(0, sample.find('{'));
  std::vector<std::string> suffixes = {""};
  if (known.type == "histogram") suffixes = {"_bucket", "_sum", "_count"};
  if (is_open && known.type == "counter") suffixes = {"_total"};
  if (is_open && known.type == "info") suffixes = {"_info"};
  for (const std::string& suffix : suffixes) {
    if (name == family + suffix) return family;
  }
  ADD_FAILURE() << sample << " is no sample of " << family;
  return "";
}

}  // namespace

std::string write(const std::vector<quire_metrics_source>& sources, quire_metrics_format format) {
  std::string text;
  uint64_t count = 0;
  quire_error err = QUIRE_INIT(quire_error);
  quire_code code = quire_metrics_write(sources.data(), sources.size(), format, nullptr, 0, &count, &err);
  while (code == QUIRE_OK || code == QUIRE_OUT_OF_RANGE) {
    const bool is_all = code == QUIRE_OK && count <= text.size();
    text.resize(count);
    if (is_all) return text;
    code = quire_metrics_write(sources.data(), sources.size(), format, text.data(), text.size(), &count, &err);
  }
  ADD_FAILURE() << err.message;
  return {};
}

std::map<std::string, Family> read(const std::string& text, quire_metrics_format format) {
  const bool is_open = format == QUIRE_METRICS_OPENMETRICS;
  std::map<std::string, Family> families;
  std::istringstream lines(text);
  std::string line, current;
  bool has_ended = false;
  while (std::getline(lines, line)) {
    EXPECT_FALSE(has_ended) << line;
    if (line == "# EOF") {
      has_ended = true;
      continue;
    }
    if (line.starts_with("# ")) {
      std::istringstream words(line);
      std::string hash, what, name, value;
      words >> hash >> what >> name;
      std::getline(words >> std::ws, value);
      if (what == "HELP") {
        EXPECT_TRUE(families.emplace(name, Family{"", "", value, {}}).second) << name << " comes in two pieces";
        EXPECT_TRUE(value.ends_with(".")) << line;
        current = name;
      }
      EXPECT_EQ(name, current);
      if (what == "TYPE") families[name].type = value;
      if (what == "UNIT") families[name].unit = value;
      continue;
    }
    const size_t space = line.rfind(' ');
    if (space == std::string::npos || current.empty()) {
      ADD_FAILURE() << "no sample: " << line;
      continue;
    }
    const std::string sample = line.substr(0, space);
    if (family_of(sample, current, families[current], is_open).empty()) continue;
    EXPECT_TRUE(families[current].samples.emplace(sample, std::stod(line.substr(space + 1))).second) << sample << " stands twice";
  }
  EXPECT_EQ(has_ended, is_open);
  EXPECT_TRUE(text.empty() || text.back() == '\n');
  return families;
}

}  // namespace quire::test
