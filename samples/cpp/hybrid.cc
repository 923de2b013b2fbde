// A hybrid model: recurrent layers keep one state per sequence, so a prompt resumes only where a
// state was kept.
#define QUIRE_EXCEPTIONS
#include <array>
#include <cinttypes>
#include <cstdio>
#include <numeric>
#include <quire.hpp>

static const char kConfig[] = R"({
  "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
  "num_hidden_layers": 4, "hidden_size": 256, "full_attention_interval": 4,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
  "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 4,
  "linear_num_value_heads": 8, "linear_value_head_dim": 16,
  "max_position_embeddings": 1024, "torch_dtype": "bfloat16"})";
static const std::array<const char*, 7> kMisses = {
    "complete",    "unknown prefix",        "evicted", "no state kept there",
    "window hole", "shorter than one unit", "disabled"};

// Serves a prompt, chunk by chunk: a chunk ends where a state is worth keeping.
static void serve(const quire::Cache& cache, const char* name, std::span<const quire_symbol> prompt,
                  const char* salt = "") {
  auto identity = quire::make<quire_identity>();
  identity.salt = quire::text(salt);
  const quire::Sequence sequence = cache.create_sequence(identity);
  quire_reserve_entry want{};
  want.sequence = sequence.id();
  want.flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END;
  while (want.symbols_offset < prompt.size()) {
    quire_reserve_result got{};
    want.num_symbols = want.num_tokens = static_cast<uint32_t>(prompt.size() - want.symbols_offset);
    quire::Step step = cache.reserve({&want, 1}, prompt, {&got, 1});
    if (got.code != QUIRE_OK) throw quire::Exception({got.code, "no room for the prompt"});
    if ((want.flags & QUIRE_ENTRY_MATCH) != 0) {
      std::printf("%s: %" PRIu32 " of %zu tokens reused, attention alone %" PRIu32 ": %s; chunks",
                  name, got.hit_tokens, prompt.size(), got.full_hit_tokens,
                  kMisses.at(static_cast<size_t>(got.miss)));
    }
    want.flags = QUIRE_ENTRY_PROMPT_END;
    want.symbols_position = want.symbols_offset = got.position + got.num_tokens;
    std::printf(" %" PRIu64 "..%" PRIu64, got.position, want.symbols_offset);
    quire_commit_entry row{};
    row.sequence = want.sequence;
    row.num_accepted = got.num_tokens;
    step.commit({&row, 1});
  }
  std::printf("\n");
}

static void story() {
  auto room = quire::make<quire_plan_options>();
  room.num_pages = 101;
  const auto config = quire::Config::create(quire::Model::from_json(kConfig), room);
  const auto cache = quire::Cache::create(quire::Runtime::create(), config);
  for (uint32_t g = 0; g < config.info().num_groups; ++g) {
    const quire_group_info group = config.group(g);
    std::printf("group %" PRIu32 ": %s, layers %" PRIu32 ", blocks of %" PRIu32 " tokens\n", g,
                group.is_state != 0 ? "states" : "attention", group.num_caches, group.block_tokens);
  }
  std::array<quire_symbol, 300> prompt{};
  std::iota(prompt.begin(), prompt.end(), 1000);
  serve(cache, "first", prompt);
  serve(cache, "again", prompt);
  prompt[250] = 7;  // another question about the same document
  serve(cache, "parts at 250", prompt);
  prompt[250] = 8;  // a state is kept there now
  serve(cache, "parts there too", prompt);
  serve(cache, "other salt", prompt, "tenant 2");
  cache.verify();
}

int main() {
  try {
    story();
    return 0;
  } catch (const quire::Exception& failure) {
    std::printf("%s: %s\n", failure.error().name().data(), failure.what());
    return 1;
  }
}
