#include "generate_options.h"

#include <CLI/CLI.hpp>

#include "checkpoint.h"

namespace lm {
namespace {

std::vector<int32_t> read_ids(const std::string& list) {
  std::vector<int32_t> ids;
  for (const std::string& part : CLI::detail::split(list, ',')) {
    int32_t id = 0;
    if (!CLI::detail::lexical_cast(part, id) || id < 0)
      throw CLI::ValidationError("--tokens", "'" + part + "' is no token id");
    ids.push_back(id);
  }
  return ids;
}

void add_requests(CLI::App& app, GenerateOptions& o, std::vector<std::string>& tokens) {
  app.add_option("--model", o.model, "folder of the checkpoint")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--prompt", o.prompts,
                 "a text; several are served together, with --chat one after another")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--tokens", tokens, "token ids instead of a text, separated by commas")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--requests", o.requests,
                 "requests, one JSON object per line; - = standard input");
  app.add_flag("--chat", o.chat, "a conversation: the prompts, or lines of standard input");
  app.add_option("--system", o.system, "system message of conversations");
  app.add_option("--max-tokens", o.max_tokens, "tokens to generate")->check(CLI::Range(1, 1 << 20));
  app.add_option("--samples", o.samples, "texts for each prompt; they share its memory")
      ->check(CLI::Range(1, 1024));
  app.add_option("--temperature", o.sampling.temperature, "0 = always the most likely token")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-k", o.sampling.top_k, "only the k most likely tokens; 0 = all")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--top-p", o.sampling.top_p,
                 "only the most likely tokens of this probability together")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", o.sampling.seed, "of the draws");
  app.add_flag("--ignore-eos", o.ignore_stops, "generate --max-tokens tokens in any case");
}

void add_memory(CLI::App& app, GenerateOptions& o) {
  app.add_option("--pool", o.kv.pool_bytes, "bytes for keys, values and states, e.g. 512MiB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--context", o.kv.max_len,
                 "longest sequence in tokens; 0 = what model and pool allow");
  app.add_option("--cache", o.kv.dtype,
                 "type of the cache; auto: keys and values as config.json says, states fp32")
      ->check(CLI::IsMember({"auto", "model", "fp32", "bf16"}));
  app.add_option("--policy", o.kv.policy, "of the plan: auto, vllm, pack:N");
  app.add_option("--batch", o.kv.max_sequences, "sequences that run together")
      ->check(CLI::Range(1, 4096));
  app.add_option("--budget", o.kv.max_step_tokens, "tokens of a step")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("!--no-reuse", o.kv.reuse, "prefixes are not shared");
  app.add_option("--threads", o.kv.threads, "0 = all cores")->check(CLI::Range(0, 4096));
  app.add_option("--weights", o.weights,
                 "how weights are kept: auto, fp32, split (bf16, activations with 16 bits), bf16")
      ->check(CLI::IsMember({"auto", "fp32", "split", "bf16"}));
  app.add_option("--draft", o.draft,
                 "folder of a smaller model with the same vocabulary that proposes tokens")
      ->check(CLI::ExistingDirectory);
  app.add_option("--draft-tokens", o.draft_tokens, "tokens that it proposes at once")
      ->check(CLI::Range(1, 16));
}

}  // namespace

std::optional<GenerateOptions> read_options(int argc, char** argv, int* status) {
  GenerateOptions o;
  std::vector<std::string> tokens;
  CLI::App app{"Text from a published checkpoint."};
  add_requests(app, o, tokens);
  add_memory(app, o);
  app.add_flag("--json", o.json, "one JSON object per text, then one of all");
  app.add_flag("--ids", o.ids, "print token ids instead of texts");
  app.add_flag("--quiet", o.quiet, "no status line");
  try {
    app.parse(argc, argv);
    for (const std::string& list : tokens) o.token_prompts.push_back(read_ids(list));
    const bool has_prompts = !o.prompts.empty() || !tokens.empty();
    if (!has_prompts && o.requests.empty() && !o.chat)
      throw CLI::RequiredError("--prompt, --tokens, --requests or --chat");
    if (o.chat && (!tokens.empty() || !o.requests.empty()))
      throw CLI::ExcludesError("--chat", "--tokens and --requests");
    if (o.chat && o.samples > 1) throw CLI::ExcludesError("--chat", "--samples");
  } catch (const CLI::ParseError& failure) {
    *status = app.exit(failure) == 0 ? 0 : 2;
    return std::nullopt;
  }
  return o;
}

ProductType product_type(const std::string& weights, const Checkpoint& checkpoint) {
  if (weights == "fp32") return ProductType::kFp32;
  if (weights == "split") return ProductType::kSplit;
  if (weights == "bf16") return ProductType::kBf16;
  return checkpoint.is_bf16() && has_bf16_products() ? ProductType::kSplit : ProductType::kFp32;
}

}  // namespace lm
