// Model: random engines against the cache. Random mixes of layers, pools that are too small, steps in flight, drafts, aborts, forks,
// preemption, finishing in flight, identities, media, pins, loads that fail in part, bad calls. After every step verify() derives all
// invariants again, a naive model of every sequence and counter is compared, and every simulated read compares content stamps; in the end
// everything that runs must end. In every eighth engine a router follows the events: after every step its view is that of a snapshot, and
// its guess of a prompt's hit, from names that it computes itself, is the cache's.
//   model_simulate [--steps N] [--seed S] [--without operation,...] [--trace]
// Seeds are printed. QUIRE_SEED and QUIRE_STEPS do the same as the options; a failure prints the shortest run found that shows it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <random>

#include "tests/model/random_engine.h"
#include "tests/unit/full_size.h"

namespace quire::model {
namespace {

constexpr uint64_t kStepsPerEngine = 1500;
constexpr uint64_t kLeastOfEach = 5000;

struct Arguments {
  uint64_t steps = 0;
  uint64_t seed = 0;
  uint64_t without = 0;
  bool trace = false;
  bool seeded = false;
} arguments;

// What is asked of a build of this kind. The stamps of CI run on longer, over the same calls.
uint64_t default_steps() {
#if defined(__SANITIZE_ADDRESS__)
  return test::full_or(250'000, 100'000);
#elif defined(NDEBUG)
  return test::full_or(2'500'000, 500'000);
#else
  return 30'000;
#endif
}

bool is_of_engine(uint32_t o) {
  switch (o) {
    case kWatermark:
    case kSmallIndex:
    case kFewRoots:
    case kStatesInPlace:
    case kBranches:
    case kStatesAtBlocks:
    case kHitsInside:
    case kKeepStates:
    case kCheckpointInterval:
    case kDrafts:
    case kCheckpointBytes:
    case kEncoder:
    case kEvents:
      return true;
    default:
      return false;
  }
}

std::string fails(const RunOptions& options) {
  Tally ignored;
  try {
    run_engine(options, &ignored);
  } catch (const Wrong& wrong) {
    return wrong.what();
  }
  return {};
}

std::string names_of(uint64_t without) {
  std::string names;
  for (uint32_t o = 0; o < kNumOperations; ++o) {
    if ((without >> o & 1) == 0) continue;
    if (!names.empty()) names += ',';
    for (const char* c = kOperationNames[o]; *c != '\0'; ++c) names += *c == ' ' ? '-' : *c;
  }
  return names;
}

uint64_t step_of(const std::string& what, uint64_t otherwise) {
  const size_t at = what.rfind("[step ");
  return at == std::string::npos ? otherwise : std::strtoull(what.c_str() + at + 6, nullptr, 10) + 1;
}

// Leaves out one kind of operation after the other, and tries a few other seeds with what is left: the shortest failing prefix of all.
void explain(RunOptions options, std::string what) {
  options.steps = step_of(what, options.steps);
  for (int round = 0; round < static_cast<int>(kNumOperations) + 4; ++round) {
    RunOptions tried = options;
    if (round < static_cast<int>(kNumOperations)) {
      tried.without |= uint64_t{1} << round;
    } else {
      tried.seed = mix(options.seed, static_cast<uint64_t>(round));
    }
    const std::string again = fails(tried);
    if (again.empty() || (step_of(again, tried.steps) >= options.steps && tried.seed != options.seed)) continue;
    what = again;
    tried.steps = std::min(tried.steps, step_of(again, tried.steps));
    options = tried;
  }
  std::string command = "model_simulate --seed " + std::to_string(options.seed) + " --steps " + std::to_string(options.steps);
  if (options.without != 0) command += " --without " + names_of(options.without);
  std::printf("shortest failing run found: %s [--trace]\n  %s\n", command.c_str(), what.c_str());
}

void print(const Tally& t, double seconds) {
  std::printf(
      "%llu steps of %llu engines in %.1f s of processor time (%.0f steps/s), %.1f rows per step, %llu reads checked, %llu times "
      "verified\n",
      static_cast<unsigned long long>(t.steps), static_cast<unsigned long long>(t.engines), seconds, static_cast<double>(t.steps) / seconds,
      static_cast<double>(t.rows) / static_cast<double>(t.steps), static_cast<unsigned long long>(t.reads),
      static_cast<unsigned long long>(t.verified));
  std::printf("every bad call %llu times, and all that can be observed as before\n", static_cast<unsigned long long>(t.digests));
  std::printf("3 groups and more in %.0f %% of the engines, one part per page in %.0f %%; %llu requests ended in quiet phases\n",
              100.0 * static_cast<double>(t.many_groups) / static_cast<double>(t.engines),
              100.0 * static_cast<double>(t.plain) / static_cast<double>(t.engines), static_cast<unsigned long long>(t.drained));
  std::printf("routers looked %llu times, were too late %llu times, and guessed %llu prompts, %llu of them hits\n",
              static_cast<unsigned long long>(t.views), static_cast<unsigned long long>(t.late), static_cast<unsigned long long>(t.guesses),
              static_cast<unsigned long long>(t.hits));
  std::printf("%llu loads shared what is cached; of the units %llu were known beforehand, %llu had states, %llu were given up\n",
              static_cast<unsigned long long>(t.shared), static_cast<unsigned long long>(t.reports),
              static_cast<unsigned long long>(t.unit_states), static_cast<unsigned long long>(t.given_up));
  for (uint32_t o = 0; o < kNumOperations; ++o) {
    std::printf("  %-18s %llu\n", kOperationNames[o], static_cast<unsigned long long>(t.counts[o]));
  }
}

TEST(Simulate, RandomEnginesGetWhatTheyWereToldAndReadWhatTheyWrote) {
  const uint64_t total = arguments.steps != 0 ? arguments.steps : default_steps();
  const uint64_t base = arguments.seeded ? arguments.seed : (uint64_t{std::random_device{}()} << 16) | 1;
  std::printf("seed %llu\n", static_cast<unsigned long long>(base));
  const std::clock_t start = std::clock();
  Tally tally;
  for (uint64_t i = 0; tally.steps < total; ++i) {
    // The first engines are the same every time, the others are new ones.
    RunOptions options{i < 20 && !arguments.seeded ? i + 1 : base + i, kStepsPerEngine, arguments.without, arguments.trace};
    if (arguments.seeded && total < kStepsPerEngine) options.steps = total;
    try {
      run_engine(options, &tally);
    } catch (const Wrong& wrong) {
      ADD_FAILURE() << "seed " << options.seed << ": " << wrong.what();
      if (!arguments.trace) explain(options, wrong.what());
      return;
    }
    if (arguments.seeded && total <= kStepsPerEngine) return;  // one replayed engine
  }
  print(tally, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  if (arguments.without != 0) return;
  EXPECT_GE(tally.digests, tally.steps / 1000) << "bad calls are too rare";
  const uint64_t least = total >= 200 * kLeastOfEach ? kLeastOfEach : total / 400;  // a million steps, as under AddressSanitizer
  for (uint32_t o = 0; o < kNumOperations; ++o) {
    // What an engine is made with counts once for each.
    if (is_of_engine(o) && tally.engines < 1000) continue;
    if (o == kGiveUpState && tally.engines < 200) continue;  // of engines with a budget, one in 25
    EXPECT_GE(tally.counts[o], is_of_engine(o) ? tally.engines / 25 : least) << kOperationNames[o] << " was hardly exercised";
  }
  EXPECT_GE(2 * tally.many_groups + tally.engines / 10 + 10, tally.engines) << "engines with 3 groups and more are too few";
}

// Engines in which long runs found something.
TEST(Simulate, SeedsThatFoundSomethingOnce) {
  if (arguments.seeded) GTEST_SKIP() << "another seed is asked for";
  // What is newer than the failure is left out.
  constexpr uint64_t kHolds = uint64_t{1} << kHold | uint64_t{1} << kLate | uint64_t{1} << kUnits;
  const std::pair<uint64_t, uint64_t> found[] = {{20315720, kHolds},       {20319101, kHolds}, {20266413, kHolds},
                                                 {38313696035993, kHolds}, {1000509, 0},       {2001292, 0}};
  for (const auto& [seed, without] : found) {
    Tally tally;
    try {
      run_engine({seed, kStepsPerEngine, without, false}, &tally);
    } catch (const Wrong& wrong) {
      ADD_FAILURE() << "seed " << seed << ": " << wrong.what();
    }
  }
}

void read_arguments(int argc, char** argv) {
  if (const char* seed = std::getenv("QUIRE_SEED")) arguments.seed = std::strtoull(seed, nullptr, 10), arguments.seeded = true;
  if (const char* steps = std::getenv("QUIRE_STEPS")) arguments.steps = std::strtoull(steps, nullptr, 10);
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--trace") {
      arguments.trace = true;
      continue;
    }
    if (name == "--steps") arguments.steps = std::strtoull(value, nullptr, 10);
    if (name == "--seed") arguments.seed = std::strtoull(value, nullptr, 10), arguments.seeded = true;
    if (name == "--without") {
      const std::string list = "," + std::string(value) + ",";
      for (uint32_t o = 0; o < kNumOperations; ++o) {
        if (list.find("," + names_of(uint64_t{1} << o) + ",") != std::string::npos) arguments.without |= uint64_t{1} << o;
      }
    }
    ++i;
  }
}

}  // namespace
}  // namespace quire::model

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  quire::model::read_arguments(argc, argv);
  return RUN_ALL_TESTS();
}
