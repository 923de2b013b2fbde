// lm_parity [--split] DATA FAMILY...: samples/lm computes the logits that transformers computed, in every case of
// lm_cases.cc, with caches of fp32 and bf16. With a wrong block on purpose it must not. --split: the
// weights of products are kept as bf16. Ends with "N logits equal to recorded reference, M differ": all
// logits of all cases with a cache of fp32.
#include <cstdio>

#include "lm_bench.h"
#include "lm_error.h"
#include "lm_threads.h"

namespace lm_parity {
namespace {

struct CacheType {
  const char* name;
  double bar;     // relative L2 of logits
  bool is_exact;  // not rounded: the bar holds for every single logit
};
constexpr CacheType kTypes[] = {{"fp32", 1e-4, true}, {"bf16", 2e-2, false}};
// Of all cases with an exact cache but those that are wrong on purpose.
struct Total {
  uint64_t logits = 0;
  uint64_t differ = 0;
};
constexpr uint32_t kSpacing = 16;  // of states that are kept

lm::KvSettings settings_for(const CacheType& type, const Recorded& recorded) {
  lm::KvSettings settings;
  settings.dtype = type.name;
  settings.pool_bytes = uint64_t{64} << 20;
  for (const auto& tokens : recorded.tokens) settings.max_len = std::max<uint64_t>(settings.max_len, tokens.size() + 8);
  settings.max_sequences = 8;
  settings.max_step_tokens = 512;
  settings.checkpoint_interval = kSpacing;
  settings.threads = 1;
  settings.poison = true;
  return settings;
}

// The fewest pages that a plan takes, and a few.
void find_pages(lm::KvSettings& settings, const lm::ModelConfig& config) {
  for (;; ++settings.pages) {
    try {
      const lm::Kv kv(config, settings);
      return;
    } catch (const quire::Exception& failure) {
      if (failure.code() != QUIRE_RESOURCE_EXHAUSTED || settings.pages > 4096) throw;
    }
  }
}

class Suite {
 public:
  Suite(lm::LoadedModel& model, const Recorded& recorded, std::string family, Total& total)
      : model_(model), recorded_(recorded), family_(std::move(family)), total_(total) {}

  int play_all() {
    for (const CacheType& type : kTypes) {
      for (const Case& one : cases()) play(type, one);
      play_wrong(type);
    }
    return failures_;
  }

 private:
  void play(const CacheType& type, const Case& one) {
    try {
      lm::KvSettings settings = settings_for(type, recorded_);
      if (one.prepare != nullptr) one.prepare(settings);
      if (settings.pages != 0) find_pages(settings, model_.config);
      Bench bench(model_, recorded_, settings, type.bar);
      if (one.only_states && !bench.kv().has_states()) return;
      if (one.only_reuse && bench.kv().has_encoder()) return;
      one.play(bench);
      const Score& score = bench.score();
      if (type.is_exact) {
        total_.logits += score.logits;
        total_.differ += score.differ;
      }
      report(type, one.name, score, score.passes(type.bar) && !(type.is_exact && score.differ != 0));
    } catch (const std::exception& failure) {
      ++failures_;
      std::printf("%-14s %s  %-20s FAILED: %s\n", family_.c_str(), type.name, one.name, failure.what());
    }
  }

  // The comparison sees a block that is another one.
  void play_wrong(const CacheType& type) {
    Bench bench(model_, recorded_, settings_for(type, recorded_), type.bar);
    bench.kv().break_tables(true);
    cases()[1].play(bench);
    bench.score().note = std::to_string(bench.score().differ) + " logits differ";
    report(type, "wrong block", bench.score(), !bench.score().passes(type.bar));
  }

  void report(const CacheType& type, const char* name, const Score& score, bool passes) {
    failures_ += passes ? 0 : 1;
    std::printf("%-14s %s  %-20s %4llu rows, relative L2 %.1e, top-1 %llu of %llu%s%s%s\n", family_.c_str(), type.name, name,
                static_cast<unsigned long long>(score.rows), score.relative(), static_cast<unsigned long long>(score.top_equal),
                static_cast<unsigned long long>(score.clear), score.note.empty() ? "" : ", ", score.note.c_str(), passes ? "" : "  FAILED");
  }

  lm::LoadedModel& model_;
  const Recorded& recorded_;
  std::string family_;
  Total& total_;
  int failures_ = 0;
};

int check(const std::filesystem::path& folder, lm::ProductType products, Total& total) {
  const Recorded recorded(folder);
  lm::LoadedModel model = lm::LoadedModel::open(folder, products);
  model.weights.load();
  return Suite(model, recorded, folder.filename().string(), total).play_all();
}

}  // namespace
}  // namespace lm_parity

int main(int argc, char** argv) {
  const bool is_split = argc > 1 && std::string_view(argv[1]) == "--split";
  const int first = is_split ? 2 : 1;
  if (argc < first + 2) {
    std::fprintf(stderr, "usage: lm_parity [--split] DATA FAMILY...\n");
    return 2;
  }
  if (is_split && !lm::has_bf16_products()) {
    std::printf("skipped: this processor has no products of bf16\n");
    return 77;
  }
  const lm::ProductType products = is_split ? lm::ProductType::kSplit : lm::ProductType::kFp32;
  lm::set_threads(1);
  int failures = 0;
  lm_parity::Total total;
  for (int i = first + 1; i < argc; ++i) {
    try {
      failures += lm_parity::check(std::filesystem::path(argv[first]) / argv[i], products, total);
    } catch (const std::exception& failure) {
      ++failures;
      std::printf("%-14s FAILED: %s\n", argv[i], failure.what());
    }
  }
  if (failures != 0) std::printf("NOT equal: %d cases or models\n", failures);
  std::printf("%llu logits equal to recorded reference, %llu differ\n", static_cast<unsigned long long>(total.logits - total.differ),
              static_cast<unsigned long long>(total.differ));
  return failures == 0 ? 0 : 1;
}
