// The command line of the stamps: runs one cache after another, each with a seed of its own, prints
// what was done, and exits with 1 at the first mismatch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/stamps/runner.h"

namespace quire::stamps {
namespace {

struct Arguments {
  uint64_t seed = 1;
  uint64_t operations = 0;  // 0: the fixed seeds
  double seconds = 0;       // 0: no limit
  std::string model;
  Mode mode;
};

constexpr uint64_t kOperationsOfARun = 3000;
constexpr uint64_t kOfHeirs = 500;  // of a run that reads what the last one left

// Seeds that found something, and what.
struct Found {
  uint64_t seed;
  const char* model;
  const char* what;
};
const std::vector<Found>& found() {
  static const std::vector<Found> kFound = {
      {40, "full", "pins kept places of forgotten blocks: the index was full though the pool was not"},
      {571000264, "chunked", "the model: a hit at the edge of a chunk holds no block"},
      {20268844, "chunked", "the model: a pin whose time is over ends between a probe and a reserve"},
      {571004761, "window", "the model: a hit of a window of one token holds no block"},
      {2155002790, "chunked", "units that were given up for a request took the place of its hit with them"},
      {2026131647, "latent", "a unit that waited kept its path in the index, which was full: nothing more was published"},
  };
  return kFound;
}

bool number(const char* text, const char* name, double* out) {
  const size_t n = std::strlen(name);
  if (std::strncmp(text, name, n) != 0) return false;
  char* end = nullptr;
  *out = std::strtod(text + n, &end);
  if (end == text + n || *end != 0 || *out < 0) {
    std::fprintf(stderr, "quire_stamps: %s: not a number\n", text);
    std::exit(2);
  }
  return true;
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    double value = 0;
    if (std::strncmp(argv[i], "--seed=", 7) == 0) {
      a.seed = std::strtoull(argv[i] + 7, nullptr, 10);
    } else if (number(argv[i], "--operations=", &value)) {
      a.operations = static_cast<uint64_t>(value);
    } else if (number(argv[i], "--seconds=", &value)) {
      a.seconds = value;
    } else if (std::strncmp(argv[i], "--model=", 8) == 0) {
      a.model = argv[i] + 8;
    } else if (std::strcmp(argv[i], "--tiers=always") == 0) {
      a.mode.tiered = Tiered::kAlways;
    } else if (std::strcmp(argv[i], "--tiers=never") == 0) {
      a.mode.tiered = Tiered::kNever;
    } else if (std::strcmp(argv[i], "--verbose") == 0) {
      a.mode.verbose = true;
    } else {
      std::fprintf(stderr,
                   "quire_stamps: unknown argument '%s'\n"
                   "quire_stamps --seed=N --operations=N [--seconds=S] [--model=NAME] [--tiers=always|never] [--verbose]\nmodels:",
                   argv[i]);
      for (const Kind& kind : kinds()) std::fprintf(stderr, " %s", kind.name);
      std::fprintf(stderr, "\n");
      std::exit(2);
    }
  }
  return a;
}

size_t kind_of(const std::string& name, uint64_t seed) {
  for (size_t k = 0; k < kinds().size(); ++k) {
    if (name == kinds()[k].name) return k;
  }
  if (name.empty()) return seed % kinds().size();
  std::fprintf(stderr, "quire_stamps: no model '%s'\n", name.c_str());
  std::exit(2);
}

// One cache; false: a mismatch, which is printed.
bool run_one(size_t kind, uint64_t seed, uint64_t operations, Mode mode, Tallies* tallies) {
  std::string words;
  try {
    Runner runner(kind, seed, mode, tallies);
    words = runner.words();
    if (mode.verbose) std::printf("%s: %s\n", kinds()[kind].name, words.c_str());
    runner.run(operations);
    if (const std::unique_ptr<Heritage> heritage = runner.leave()) {
      Runner heir(kind, chained(seed, kOfHeirs), mode, tallies, heritage.get());
      words = heir.words();
      if (mode.verbose) std::printf("heir: %s\n", words.c_str());
      heir.run(std::min(operations, kOfHeirs));
    }
    return true;
  } catch (const Mismatch& mismatch) {
    const char* const tiers = mode.tiered == Tiered::kSome ? "" : mode.tiered == Tiered::kAlways ? " --tiers=always" : " --tiers=never";
    std::printf("MISMATCH seed %llu, model %s (%s): %s\nagain: quire_stamps --seed=%llu --operations=%llu --model=%s%s --verbose\n",
                static_cast<unsigned long long>(seed), kinds()[kind].name, words.c_str(), mismatch.what(),
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(operations), kinds()[kind].name, tiers);
    return false;
  }
}

int run_all(const Arguments& a) {
  Tallies tallies(kinds().size());
  const auto begin = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  std::printf("seed %llu\n", static_cast<unsigned long long>(a.seed));
  bool right = true;
  for (const Found& f : found()) {
    if (a.model.empty()) right = right && run_one(kind_of(f.model, 0), f.seed, kOperationsOfARun, Mode(), &tallies);
  }
  uint64_t seed = a.seed;
  for (uint64_t left = a.operations; right && left > 0; ++seed) {
    if (a.seconds > 0 && spent() > a.seconds) break;
    const uint64_t operations = left < kOperationsOfARun ? left : kOperationsOfARun;
    right = run_one(kind_of(a.model, seed), seed, operations, a.mode, &tallies);
    left -= operations;
  }
  std::printf("%s", tallies.text(spent()).c_str());
  return right ? 0 : 1;
}

}  // namespace
}  // namespace quire::stamps

int main(int argc, char** argv) {
  quire::stamps::Arguments arguments = quire::stamps::parse(argc, argv);
  if (arguments.operations == 0) arguments.operations = arguments.seconds > 0 ? UINT64_MAX : 1000000;
  return quire::stamps::run_all(arguments);
}
