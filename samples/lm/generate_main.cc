// quire_generate: text from a published checkpoint.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "lm_error.h"
#include "stepper.h"

namespace {

struct Options {
  std::string model;
  std::vector<int32_t> tokens;
  int64_t max_tokens = 32;
  lm::KvSettings kv;
};

int32_t greedy(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void generate(const Options& options) {
  lm::LoadedModel model = lm::LoadedModel::open(options.model);
  lm::Kv kv(model.config, options.kv);
  model.weights.load();
  kv.allocate();
  const lm::Stepper stepper(kv, *model.family);
  lm::Live live = stepper.begin(options.tokens);
  for (int64_t made = 0; made < options.max_tokens;) {
    const auto rest = static_cast<uint32_t>(live.tokens.size() - live.reserved);
    const lm::Ask ask{&live, std::min(rest, options.kv.max_step_tokens),
                      live.reserved == 0 ? QUIRE_ENTRY_MATCH : 0};
    lm::Flight flight = stepper.reserve({&ask, 1});
    if (!flight) throw lm::Error(std::string(quire::refusal_text(flight.results[0].reason)));
    stepper.run(flight);
    const lm::StepRow row = flight.rows[0];
    stepper.commit(flight);
    if (row.position + row.tokens < live.tokens.size()) continue;
    live.tokens.push_back(greedy(flight.logits.row(0)));
    std::printf("%d%s", live.tokens.back(), ++made == options.max_tokens ? "\n" : ",");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Generates tokens with a published checkpoint."};
  app.add_option("--model", options.model, "folder with config.json and model.safetensors")
      ->required();
  app.add_option("--tokens", options.tokens, "token ids of the prompt")->delimiter(',')->required();
  app.add_option("--max-tokens", options.max_tokens, "tokens to generate")
      ->check(CLI::Range(1, 1 << 20));
  CLI11_PARSE(app, argc, argv);
  try {
    generate(options);
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "quire_generate: %s\n", failure.what());
    return 1;
  }
}
