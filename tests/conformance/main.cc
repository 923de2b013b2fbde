// quire_conformance --driver=NAME [--modules=FOLDER]: runs the conformance kit against one driver module. Its last lines list what the
// driver is excused from.
#include "tests/conformance/driver.h"

#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string name;
  std::string folder = QUIRE_MODULE_DIR;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--driver=", 0) == 0) name = argument.substr(9);
    if (argument.rfind("--modules=", 0) == 0) folder = argument.substr(10);
  }
  if (name.empty()) {
    std::fprintf(stderr, "usage: quire_conformance --driver=NAME [--modules=FOLDER]\n");
    return 2;
  }
  const std::string problem = quire::conformance::open_driver(folder, name);
  if (!problem.empty()) {
    std::fprintf(stderr, "driver %s: %s\n", name.c_str(), problem.c_str());
    return 2;
  }
  const int result = RUN_ALL_TESTS();
  quire::conformance::close_driver();
  return result;
}
