// quire_conformance: runs the conformance kit against one driver module. kUsage below says how. Nothing of the tree is needed at run time.
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/entry_report.h"
#include "tests/kernels/conformance/open_driver.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

namespace quire::conformance {
namespace {

constexpr int kUsageError = 2;  // 0 and 1 are GoogleTest's: passed, failed
constexpr int kAbsent = 77;

const char kUsage[] =
    R"(usage: quire_conformance --driver=NAME [options]

Tests the driver module libquire_driver_NAME.so, entry by entry, against a reference in fp64.

  --driver=NAME        the driver to test
  --modules=FOLDER     the folder of the module; without it, the folders of the environment variable
                       QUIRE_DRIVER_PATH are searched, then the module folder of the library
  --flags=N            the flags of the driver's options; for the CPU driver they choose the kernels
  --require=ENTRIES    entries that the driver must have, separated by commas, or "all"; the tests of
                       other entries that it lacks are skipped
  --gtest_filter=LIST  only these tests, for example Memory.*:Bytes.*
  --gtest_list_tests   lists the tests and runs none
  --help               prints this text

Other options of GoogleTest work as well, for example --gtest_output=json:FILE.

exit status:
  0   every test passed or was skipped
  1   a test failed; the list of entries at the end names the entry
  2   the arguments are wrong, no test was chosen, or the driver cannot be loaded or opened
  77  the driver answered UNAVAILABLE: this machine lacks the device or what the flags ask for
)";

struct Arguments {
  std::string driver;
  std::string modules;
  uint64_t flags = 0;
  std::set<std::string> required;
};

std::string read_required(const std::string& list, std::set<std::string>* required) {
  const std::vector<std::string>& names = entry_names();
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (word != "all" && std::find(names.begin(), names.end(), word) == names.end()) return "--require: no entry is named '" + word + "'";
    required->insert(word);
  }
  return required->empty() ? "--require: no entry is named" : "";
}

std::string read_flags(const std::string& text, uint64_t* flags) {
  char* end = nullptr;
  errno = 0;
  *flags = std::strtoull(text.c_str(), &end, 0);
  const bool number = !text.empty() && text[0] != '-' && *end == '\0' && errno == 0 && *flags <= UINT32_MAX;
  return number ? "" : "--flags: '" + text + "' is no number from 0 to 4294967295";
}

// A sentence on the first wrong argument, empty if there is none.
std::string read_arguments(int argc, char** argv, Arguments* all) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    std::string problem;
    if (name == "--driver") {
      all->driver = value;
    } else if (name == "--modules") {
      all->modules = value;
    } else if (name == "--flags") {
      problem = read_flags(value, &all->flags);
    } else if (name == "--require") {
      problem = read_required(value, &all->required);
    } else {
      problem = "unknown argument '" + argument + "'";
    }
    if (!problem.empty()) return problem;
  }
  return !all->driver.empty() ? "" : "--driver=NAME is missing";
}

bool asks_for_help(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const char* argument) { return std::string(argument) == "--help"; });
}

// Where the library that this program runs with looks for its modules.
std::string library_folder() {
  Dl_info library{};
  void* symbol = dlsym(RTLD_DEFAULT, "quire_version");
  if (symbol == nullptr || dladdr(symbol, &library) == 0) return "";
  std::error_code none;
  const std::filesystem::path file = std::filesystem::canonical(library.dli_fname, none);
  return none ? "" : (file.parent_path() / "quire/0").string();
}

// The folder of the module, empty if none has it; *searched: all that were looked at.
std::string find_folder(const std::string& name, std::string* searched) {
  std::vector<std::string> folders;
  const char* given = std::getenv("QUIRE_DRIVER_PATH");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream path(given == nullptr ? "" : given);
  for (std::string folder; std::getline(path, folder, ':');) {
    if (!folder.empty() && folder[0] == '/') folders.push_back(folder);  // the library takes no other
  }
  folders.push_back(library_folder());
  for (const std::string& folder : folders) {
    std::error_code none;
    if (std::filesystem::exists(folder + "/libquire_driver_" + name + ".so", none)) return folder;
    *searched += "\n  " + folder;
  }
  return "";
}

int run(const Arguments& given) {
  std::string searched;
  std::string folder = given.modules.empty() ? find_folder(given.driver, &searched) : std::filesystem::absolute(given.modules).string();
  if (folder.empty()) {
    std::fprintf(stderr, "driver %s: no libquire_driver_%s.so in the folders of QUIRE_DRIVER_PATH and of the library:%s\n",
                 given.driver.c_str(), given.driver.c_str(), searched.c_str());
    return kUsageError;
  }
  bool absent = false;
  const std::string problem = open_driver(folder, given.driver, given.flags, &absent);
  if (absent) {
    std::printf("skipped: driver %s with flags %llu: %s\n", given.driver.c_str(), static_cast<unsigned long long>(given.flags),
                problem.c_str());
    return kAbsent;
  }
  if (!problem.empty()) {
    std::fprintf(stderr, "driver %s: %s\n", given.driver.c_str(), problem.c_str());
    return kUsageError;
  }
  require_entries(given.required);
  const int result = RUN_ALL_TESTS();
  const bool listed = GTEST_FLAG_GET(list_tests);
  if (!listed) {
    print_noted_errors();
    print_entries();
  }
  const bool nothing = !listed && testing::UnitTest::GetInstance()->test_to_run_count() == 0;
  if (nothing) std::fprintf(stderr, "no test was chosen: --gtest_filter=%s\n", GTEST_FLAG_GET(filter).c_str());
  close_driver();
  return nothing ? kUsageError : result;
}

}  // namespace
}  // namespace quire::conformance

int main(int argc, char** argv) {
  using namespace quire::conformance;  // NOLINT(google-build-using-namespace)
  if (asks_for_help(argc, argv)) {     // before GoogleTest prints its own
    std::fputs(kUsage, stdout);
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  Arguments given;
  const std::string problem = read_arguments(argc, argv, &given);
  if (!problem.empty()) {
    std::fprintf(stderr, "quire_conformance: %s\n\n%s", problem.c_str(), kUsage);
    return kUsageError;
  }
  return run(given);
}
