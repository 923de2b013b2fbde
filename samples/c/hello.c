/* Hello: a cache without a device. A prompt is computed, then asked for again: its full blocks are
 * found. */
#include <inttypes.h>
#include <quire/quire.h>
#include <stdio.h>

#define TRY(call)                            \
  do {                                       \
    quire_code failure = (call);             \
    if (failure != QUIRE_OK) return failure; \
  } while (0)

/* Computes a prompt and finishes its sequence, so that what it published can be found. */
static quire_code serve(quire_cache* cache, const quire_symbol* prompt, uint32_t n,
                        quire_sequence_id* sequence, quire_error* err) {
  quire_reserve_entry want = {
      .num_symbols = n, .num_tokens = n, .flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END};
  quire_reserve_result got = {0};
  quire_step step;
  int32_t ids[8];
  uint64_t count = 0;
  TRY(quire_sequence_create(cache, NULL, &want.sequence, err));
  TRY(quire_reserve(cache, &want, 1, prompt, n, &got, &step, err));
  TRY(got.code);
  printf("prompt of %u tokens: %u reused, %u to compute, blocks", n, got.hit_tokens,
         got.num_tokens);

  /* Here an engine runs its layers over the tokens from got.position on. */
  quire_fill fill = QUIRE_INIT(quire_fill);
  fill.kind = QUIRE_FILL_RAW_TABLE;
  fill.destination = ids;
  fill.capacity = 8;
  fill.pitch = 8;
  fill.fill_value = -1;
  TRY(quire_step_fill(step, &fill, sizeof fill, 1, &count, err));
  for (int i = 0; i < 8 && ids[i] >= 0; ++i) printf(" %" PRId32, ids[i]);
  printf("\n");

  quire_commit_entry row = {.sequence = want.sequence, .num_accepted = got.num_tokens};
  TRY(quire_commit(step, &row, 1, NULL, 0, err));
  *sequence = want.sequence;
  return quire_sequence_finish(cache, want.sequence, err);
}

static quire_code story(quire_runtime** runtime, quire_model** model, quire_config** config,
                        quire_cache** cache, quire_error* err) {
  const quire_dtype bf16 = {QUIRE_DTYPE_BFLOAT, 16, 1};
  quire_layer layers[2] = {QUIRE_INIT(quire_layer), QUIRE_INIT(quire_layer)};
  quire_runtime_options env = {.struct_size = sizeof env, .header_abi = QUIRE_ABI_VERSION};
  quire_plan_options room = {.struct_size = sizeof room, .num_pages = 33}; /* with the null page */
  quire_config_info info = {.struct_size = sizeof info};
  quire_group_info group = {.struct_size = sizeof group};
  quire_cache_stats stats = {.struct_size = sizeof stats};
  quire_symbol prompt[40];
  quire_sequence_id sequence = 0;
  for (uint32_t i = 0; i < 40; ++i) prompt[i] = 1000 + i;
  for (uint32_t i = 0; i < 2; ++i) {
    layers[i].layer = i;
    layers[i].kind = QUIRE_LAYER_FULL;
    layers[i].num_kv_heads = 2;
    layers[i].num_q_heads = 4;
    layers[i].head_dim_k = layers[i].head_dim_v = 64;
    layers[i].dtype = bf16;
  }
  TRY(quire_runtime_create(&env, runtime, err));
  TRY(quire_model_create(layers, sizeof layers[0], 2, 512, model, err));
  TRY(quire_config_create(*model, &room, config, err));
  TRY(quire_cache_create(*runtime, *config, NULL, cache, err));
  TRY(quire_config_get_info(*config, &info, err));
  TRY(quire_config_get_group(*config, 0, &group, err));
  printf("plan: %" PRIu32 " group, %" PRIu64 " pages, blocks of %" PRIu32 " tokens\n",
         info.num_groups, info.num_pages, group.block_tokens);
  TRY(serve(*cache, prompt, 40, &sequence, err));
  TRY(serve(*cache, prompt, 40, &sequence, err));
  prompt[20] = 7; /* differs in the second block */
  TRY(serve(*cache, prompt, 40, &sequence, err));
  TRY(quire_cache_get_stats(*cache, &stats, err));
  printf("reused %" PRIu64 " of %" PRIu64 " tokens; pages: %" PRIu64 " free, %" PRIu64
         " cached, %" PRIu64 " used\n",
         stats.hit_tokens, stats.matched_prompt_tokens, stats.pages_free, stats.pages_evictable,
         stats.pages_used);
  if (quire_sequence_finish(*cache, sequence, err) == QUIRE_NOT_FOUND)
    printf("finished twice: NOT_FOUND: %s\n", err->message);
  return QUIRE_OK;
}

int main(void) {
  quire_runtime* runtime = NULL;
  quire_model* model = NULL;
  quire_config* config = NULL;
  quire_cache* cache = NULL;
  quire_error err = {.struct_size = sizeof err};
  const quire_code code = story(&runtime, &model, &config, &cache, &err);
  const quire_str name = quire_code_name(code);
  if (code != QUIRE_OK) printf("%.*s: %s\n", (int)name.len, name.data, err.message);
  quire_cache_release(cache);
  quire_config_release(config);
  quire_model_release(model);
  quire_runtime_release(runtime);
  return code == QUIRE_OK ? 0 : 1;
}
