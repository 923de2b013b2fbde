// make_tier_directory DIRECTORY: one of everything that `quire tier inspect` tells of, for tests of its output.
#include <cstdio>

#include "tests/tools/tier_directory.h"

int main(int argc, char** argv) {
  using namespace quire::test;
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_tier_directory DIRECTORY\n");
    return 2;
  }
  const TierDirectory directory(argv[1]);
  for (uint8_t i = 0; i < 3; ++i) directory.put(made_record(i));
  MadeRecord state = made_record(3, 2);
  state.block_tokens = 0;
  state.stretches = {0, 1, 0, 0};
  state.layers = {1, 2, 3};
  directory.put(state);
  MadeRecord window = made_record(4, 2);
  window.stretches = {18, 20, 0, 0};
  directory.put(window);
  std::vector<uint8_t> damaged = made_record(5).bytes();
  damaged.back() ^= 1;
  directory.put(TierDirectory::key_of(made_record(5)), damaged);
  directory.put("key of somebody else", std::string("bytes"));
  std::filesystem::create_symlink("/etc", directory.path() / "link");
  return 0;
}
