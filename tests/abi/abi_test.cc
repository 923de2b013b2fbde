// The promise of the C ABI, kept by comparison: layouts and values with abi/abi.golden, names in headers = names in the map = names
// exported.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "headers.h"

namespace quire::abi {
namespace {

const std::string kSource = QUIRE_SOURCE_DIR;

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string all;
  std::array<char, 4096> buffer{};
  while (pipe != nullptr) {
    const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get());
    if (n == 0) break;
    all.append(buffer.data(), n);
  }
  return all;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::set<std::string> library_functions() {
  std::set<std::string> names;
  for (const std::string& name : read_headers(kSource + "/abi/include").functions) names.insert(name);
  // Implemented by modules, not by the library.
  names.erase("quire_driver_query");
  names.erase("quire_connector_query");
  return names;
}

std::set<std::string> exported(const std::string& library) {
  std::set<std::string> names;
  std::istringstream lines(output_of(std::string(QUIRE_NM) + " -D --defined-only " + library));
  std::string address;
  std::string kind;
  std::string name;
  while (lines >> address >> kind >> name) {
    if (kind != "A") names.insert(name.substr(0, name.find('@')));  // A: the version nodes themselves
  }
  return names;
}

TEST(Layout, IsTheGoldenOne) {
  const std::string golden = kSource + "/abi/abi.golden";
  const std::string now = output_of(QUIRE_LAYOUT);
  ASSERT_GT(now.size(), 1000U) << "the layout program printed nothing";
  if (std::getenv("QUIRE_UPDATE_GOLDEN") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    std::ofstream(golden, std::ios::trunc) << now;
    GTEST_SKIP() << "abi/abi.golden was rewritten because QUIRE_UPDATE_GOLDEN is set; read its diff";
  }
  std::istringstream was(content_of(golden));
  std::istringstream is(now);
  std::string expected;
  std::string found;
  for (int line = 1;; ++line) {
    const bool more_expected = static_cast<bool>(std::getline(was, expected));
    const bool more_found = static_cast<bool>(std::getline(is, found));
    if (!more_expected && !more_found) break;
    ASSERT_EQ(more_expected ? expected : "(nothing)", more_found ? found : "(nothing)")
        << "abi/abi.golden:" << line << ": the ABI differs. Meant so? Rewrite it with QUIRE_UPDATE_GOLDEN=1 and say so in the changelog.";
  }
}

TEST(Layout, EveryStructHasNoHiddenPaddingAndIsWhole) {
  std::istringstream lines(content_of(kSource + "/abi/abi.golden"));
  std::string line;
  std::string name;
  unsigned size = 0;
  unsigned end = 0;
  const auto check = [&] { EXPECT_EQ(end, size) << name << " has a hole or padding"; };
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    if (line.rfind("struct ", 0) == 0) {
      check();
      std::string word;
      words >> word >> name >> size;
      end = 0;
    } else if (line.rfind("  ", 0) == 0) {
      unsigned offset = 0;
      unsigned bytes = 0;
      words >> offset >> bytes;
      EXPECT_EQ(offset, end) << line << " in " << name;
      end = offset + bytes;
    }
  }
  check();
}

TEST(Names, HeadersMapAndLibraryAgree) {
  const std::set<std::string> declared = library_functions();
  std::set<std::string> mapped;
  std::istringstream lines(content_of(kSource + "/abi/quire.map"));
  std::string line;
  while (std::getline(lines, line)) {
    const size_t at = line.find("    quire_");
    if (at == 0) mapped.insert(line.substr(4, line.find(';') - 4));
    EXPECT_EQ(line.rfind("    quire_*", 0), std::string::npos) << "a pattern in the map exports what nobody meant";
  }
  EXPECT_EQ(declared, mapped);
  EXPECT_EQ(declared, exported(QUIRE_LIBRARY));
  EXPECT_GT(declared.size(), 70U);
}

TEST(Names, ModulesExportOneName) {
  const std::string modules = QUIRE_MODULES;
  EXPECT_EQ(exported(modules + "/libquire_driver_null.so"), std::set<std::string>{"quire_driver_query"});
  for (const char* connector : {"null", "host"}) {
    const std::string module = modules + "/libquire_connector_" + connector + ".so";
    EXPECT_EQ(exported(module), std::set<std::string>{"quire_connector_query"}) << connector;
  }
}

TEST(Library, HasItsNameAndIsNeverUnloaded) {
  const std::string dynamic = output_of(std::string(QUIRE_READELF) + " -dW " + QUIRE_LIBRARY);
  EXPECT_NE(dynamic.find("[libquire.so.0]"), std::string::npos);
  EXPECT_NE(dynamic.find("NODELETE"), std::string::npos);
  EXPECT_NE(dynamic.find("NOW"), std::string::npos);
  const std::string module = output_of(std::string(QUIRE_READELF) + " -dW " + QUIRE_MODULES + "/libquire_driver_null.so");
  EXPECT_NE(module.find("NODELETE"), std::string::npos);
  EXPECT_EQ(module.find("libquire.so"), std::string::npos) << "a module links the library";
}

}  // namespace
}  // namespace quire::abi
