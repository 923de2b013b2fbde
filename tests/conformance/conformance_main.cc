// quire_conformance --driver=NAME [--modules=FOLDER] [--flags=N]: runs the conformance kit against one driver module, opened with N as the
// flags of its options (the CPU driver's kernels). Exits with 77 where this machine lacks what the flags ask for. Its last lines list what
// the driver is excused from, and the largest errors of attention in bf16.
#include "tests/conformance/cases.h"
#include "tests/conformance/open_driver.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string name;
  std::string folder = QUIRE_MODULE_DIR;
  uint64_t flags = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--driver=", 0) == 0) name = argument.substr(9);
    if (argument.rfind("--modules=", 0) == 0) folder = argument.substr(10);
    if (argument.rfind("--flags=", 0) == 0) flags = std::strtoull(argument.c_str() + 8, nullptr, 0);
  }
  if (name.empty()) {
    std::fprintf(stderr, "usage: quire_conformance --driver=NAME [--modules=FOLDER] [--flags=N]\n");
    return 2;
  }
  bool absent = false;
  const std::string problem = quire::conformance::open_driver(folder, name, flags, &absent);
  if (absent) {
    std::printf("skipped: driver %s with flags %llu: %s\n", name.c_str(), static_cast<unsigned long long>(flags), problem.c_str());
    return 77;
  }
  if (!problem.empty()) {
    std::fprintf(stderr, "driver %s: %s\n", name.c_str(), problem.c_str());
    return 2;
  }
  const int result = RUN_ALL_TESTS();
  quire::conformance::print_noted_errors();
  quire::conformance::close_driver();
  return result;
}
