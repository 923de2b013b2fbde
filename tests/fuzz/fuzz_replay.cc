// Runs a target over the files of the folders and files named on the command line: every compiler and sanitizer replays the corpus.
// --random N [SEED [FIRST]]: also over N random inputs from number FIRST on. Each follows from the seed and its number, so that what fails
// between two lines of the output is found by running a part of them, in the end one.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

void run(const std::filesystem::path& path, size_t* count) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // A copy of exactly this size, so that a sanitizer sees a read behind its end.
  const std::vector<uint8_t> own(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(own.data(), own.size());
  ++*count;
}

uint64_t number(const char* text) { return std::strtoull(text, nullptr, 10); }

void run_random(uint64_t inputs, uint64_t seed, uint64_t first, size_t* count) {
  constexpr size_t kMostBytes = 96;
  constexpr uint64_t kBatch = 10000;  // inputs between two lines
  for (uint64_t i = first; i < first + inputs; ++i) {
    if ((i - first) % kBatch == 0)
      std::printf("seed %llu, from input %llu\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(i));
    std::fflush(stdout);
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + i);
    std::vector<uint8_t> bytes(random() % kMostBytes);
    std::generate(bytes.begin(), bytes.end(), [&random] { return static_cast<uint8_t>(random() >> 32); });
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++*count;
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--random" && i + 1 < argc) {
      const char* const given = std::getenv("QUIRE_SEED");
      const uint64_t seed = i + 2 < argc ? number(argv[i + 2]) : given != nullptr ? number(given) : 1;
      run_random(number(argv[i + 1]), seed, i + 3 < argc ? number(argv[i + 3]) : 0, &count);
      break;
    }
    if (!std::filesystem::is_directory(argv[i])) {
      run(argv[i], &count);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) run(entry.path(), &count);
    }
  }
  std::printf("%zu inputs replayed\n", count);
  return count == 0 ? 1 : 0;
}
