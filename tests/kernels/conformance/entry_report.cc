#include "tests/kernels/conformance/entry_report.h"

#include "tests/kernels/conformance/open_driver.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

namespace quire::conformance {
namespace {

struct Entry {
  const char* name;
  bool (*there)(const quire_driver_api& api);
};

#define QUIRE_ENTRY(entry)                                                   \
  {                                                                          \
#entry, [](const quire_driver_api& api) { return api.entry != nullptr; } \
  }

const Entry kEntries[] = {
    QUIRE_ENTRY(create),
    QUIRE_ENTRY(destroy),
    QUIRE_ENTRY(device_count),
    QUIRE_ENTRY(device_open),
    QUIRE_ENTRY(device_close),
    QUIRE_ENTRY(device_info),
    QUIRE_ENTRY(mem_alloc),
    QUIRE_ENTRY(mem_free),
    QUIRE_ENTRY(tensor_create),
    QUIRE_ENTRY(stream_create),
    QUIRE_ENTRY(stream_destroy),
    QUIRE_ENTRY(stream_synchronize),
    QUIRE_ENTRY(event_create),
    QUIRE_ENTRY(event_destroy),
    QUIRE_ENTRY(event_record),
    QUIRE_ENTRY(event_wait),
    QUIRE_ENTRY(event_synchronize),
    QUIRE_ENTRY(copy),
    QUIRE_ENTRY(fill),
    QUIRE_ENTRY(kv_append),
    QUIRE_ENTRY(attention_workspace),
    QUIRE_ENTRY(attention_plan),
    QUIRE_ENTRY(attention),
    QUIRE_ENTRY(attention_merge),
    QUIRE_ENTRY(gated_delta),
    QUIRE_ENTRY(conv1d),
    QUIRE_ENTRY(selective_scan),
};
// A new entry of the table needs a line above.
static_assert(sizeof(quire_driver_api) == 2 * sizeof(uint32_t) + sizeof kEntries / sizeof kEntries[0] * sizeof(void*));

bool calls(const testing::TestResult& result, const std::string& entry) {
  for (int i = 0; i < result.test_property_count(); ++i) {
    if (result.GetTestProperty(i).key() == "needs_" + entry) return true;
  }
  return false;
}

// Of the tests of this run that call the entry.
struct Count {
  int passed = 0;
  int skipped = 0;
  std::vector<std::string> failed;
};

Count count_tests(const std::string& entry) {
  Count count;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (!test.should_run() || !calls(*test.result(), entry)) continue;
      if (test.result()->Failed()) {
        count.failed.push_back(std::string(suite.name()) + "." + test.name());
      } else {
        (test.result()->Skipped() ? count.skipped : count.passed) += 1;
      }
    }
  }
  return count;
}

std::string words_of(const Entry& entry) {
  const Count count = count_tests(entry.name);
  if (!count.failed.empty()) {
    std::string text = "FAILED   in";
    for (const std::string& test : count.failed) text += " " + test;
    return text;
  }
  if (!entry.there(*driver().api)) return "absent   callers get UNIMPLEMENTED";
  if (count.passed + count.skipped == 0) return "present  no test of it was run";
  if (count.passed == 0) return "present  its tests were skipped";
  return "passed   " + std::to_string(count.passed) + (count.passed == 1 ? " test" : " tests") +
         (count.skipped == 0 ? "" : ", " + std::to_string(count.skipped) + " skipped");
}

}  // namespace

const std::vector<std::string>& entry_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (const Entry& entry : kEntries) made.emplace_back(entry.name);
    return made;
  }();
  return names;
}

void print_entries() {
  std::printf("\nentries of driver %s\n", driver().name.c_str());
  for (const Entry& entry : kEntries) std::printf("  %-19s  %s\n", entry.name, words_of(entry).c_str());
}

}  // namespace quire::conformance
