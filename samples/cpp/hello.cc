// Hello: a cache without a device. A prompt is computed, then asked for again: its full blocks are
// found.
#include <array>
#include <cinttypes>
#include <cstdio>
#include <numeric>
#include <quire.hpp>

// Computes a prompt and finishes its sequence, so that what it published can be found. Errors are
// values here: see step_loop.cc for exceptions.
static quire::Result<quire_sequence_id> serve(const quire::Cache& cache,
                                              std::span<const quire_symbol> prompt) {
  const auto n = static_cast<uint32_t>(prompt.size());
  auto sequence = cache.create_sequence();
  if (!sequence) return sequence.error();
  quire_reserve_entry want{};
  want.sequence = sequence->id();
  want.num_symbols = want.num_tokens = n;
  want.flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END;
  quire_reserve_result got{};
  auto step = cache.reserve({&want, 1}, prompt, {&got, 1});
  if (!step) return step.error();
  if (got.code != QUIRE_OK) return quire::Error(got.code, "no room for the prompt");
  std::printf("prompt of %" PRIu32 " tokens: %" PRIu32 " reused, %" PRIu32 " to compute, blocks", n,
              got.hit_tokens, got.num_tokens);

  // Here an engine runs its layers over the tokens from got.position on.
  std::array<int32_t, 8> ids{};
  if (auto filled = step->fill(QUIRE_FILL_RAW_TABLE, ids, {.fill_value = -1}); !filled)
    return filled.error();
  for (const int32_t id : ids) {
    if (id >= 0) std::printf(" %" PRId32, id);
  }
  std::printf("\n");

  quire_commit_entry row{};
  row.sequence = want.sequence;
  row.num_accepted = got.num_tokens;
  if (auto done = step->commit({&row, 1}); !done) return done.error();
  return quire::Result<quire_sequence_id>(sequence->id());  // the sequence is finished here
}

static quire::Result<void> story() {
  auto layer = quire::make<quire_layer>();
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_kv_heads = 2, layer.num_q_heads = 4;
  layer.head_dim_k = layer.head_dim_v = 64;
  layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
  std::array layers = {layer, layer};
  layers[1].layer = 1;
  auto room = quire::make<quire_plan_options>();
  room.num_pages = 33;  // page 0 is the null page
  const auto runtime = quire::Runtime::create();
  if (!runtime) return runtime.error();
  const auto model = quire::Model::create(layers, 512);
  if (!model) return model.error();
  const auto config = quire::Config::create(*model, room);
  if (!config) return config.error();
  const auto cache = quire::Cache::create(*runtime, *config);
  if (!cache) return cache.error();
  std::printf("plan: %" PRIu32 " group, %" PRIu64 " pages, blocks of %" PRIu32 " tokens\n",
              config->info()->num_groups, config->info()->num_pages,
              config->group(0)->block_tokens);

  std::array<quire_symbol, 40> prompt{};
  std::iota(prompt.begin(), prompt.end(), 1000);
  if (auto first = serve(*cache, prompt); !first) return first.error();
  if (auto again = serve(*cache, prompt); !again) return again.error();
  prompt[20] = 7;  // differs in the second block
  auto other = serve(*cache, prompt);
  if (!other) return other.error();
  const auto stats = cache->stats();
  if (!stats) return stats.error();
  std::printf("reused %" PRIu64 " of %" PRIu64 " tokens; pages: %" PRIu64 " free, %" PRIu64
              " cached, %" PRIu64 " used\n",
              stats->hit_tokens, stats->matched_prompt_tokens, stats->pages_free,
              stats->pages_evictable, stats->pages_used);
  quire::Sequence twice(cache->share(), *other);
  if (auto refused = twice.finish(); refused.code() == QUIRE_NOT_FOUND)
    std::printf("finished twice: NOT_FOUND: %s\n", refused.error().message());
  return {};
}

int main() {
  const auto done = story();
  if (!done) std::printf("%s: %s\n", done.error().name().data(), done.error().message());
  return done ? 0 : 1;
}
