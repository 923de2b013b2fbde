/* A hybrid model: recurrent layers keep one state per sequence, so a prompt resumes only where a
 * state was kept. */
#include <inttypes.h>
#include <quire/quire.h>
#include <stdio.h>
#include <string.h>

#define TRY(call)                            \
  do {                                       \
    quire_code failure = (call);             \
    if (failure != QUIRE_OK) return failure; \
  } while (0)

static const char kConfig[] =
    "{\"architectures\": [\"Qwen3NextForCausalLM\"], \"model_type\": \"qwen3_next\","
    " \"num_hidden_layers\": 4, \"hidden_size\": 256, \"full_attention_interval\": 4,"
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 64,"
    " \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 16, \"linear_num_key_heads\": 4,"
    " \"linear_num_value_heads\": 8, \"linear_value_head_dim\": 16,"
    " \"max_position_embeddings\": 1024, \"torch_dtype\": \"bfloat16\"}";
static const char* const kMisses[] = {
    "complete",    "unknown prefix",        "evicted", "no state kept there",
    "window hole", "shorter than one unit", "disabled"};

static quire_str text(const char* from) { return (quire_str){from, strlen(from)}; }

/* Serves a prompt, chunk by chunk: a chunk ends where a state is worth keeping. */
static quire_code serve(quire_cache* cache, const char* name, const char* salt,
                        const quire_symbol* prompt, uint32_t n, quire_error* err) {
  quire_identity identity = {.struct_size = sizeof identity, .salt = text(salt)};
  quire_reserve_entry want = {.flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END};
  quire_reserve_result got = {0};
  quire_step step;
  TRY(quire_sequence_create(cache, &identity, &want.sequence, err));
  while (want.symbols_offset < n) {
    want.num_symbols = want.num_tokens = n - (uint32_t)want.symbols_offset;
    TRY(quire_reserve(cache, &want, 1, prompt, n, &got, &step, err));
    TRY(got.code);
    if (want.flags & QUIRE_ENTRY_MATCH) {
      printf("%s: %" PRIu32 " of %" PRIu32 " tokens reused, attention alone %" PRIu32
             ": %s; chunks",
             name, got.hit_tokens, n, got.full_hit_tokens, kMisses[got.miss]);
    }
    want.flags = QUIRE_ENTRY_PROMPT_END;
    want.symbols_position = want.symbols_offset = got.position + got.num_tokens;
    printf(" %" PRIu64 "..%" PRIu64, got.position, want.symbols_offset);
    quire_commit_entry row = {.sequence = want.sequence, .num_accepted = got.num_tokens};
    TRY(quire_commit(step, &row, 1, NULL, 0, err));
  }
  printf("\n");
  return quire_sequence_finish(cache, want.sequence, err);
}

static quire_code story(quire_runtime** runtime, quire_model** model, quire_config** config,
                        quire_cache** cache, quire_error* err) {
  quire_runtime_options env = {.struct_size = sizeof env, .header_abi = QUIRE_ABI_VERSION};
  quire_plan_options room = {.struct_size = sizeof room, .num_pages = 101};
  quire_config_info info = {.struct_size = sizeof info};
  quire_group_info group = {.struct_size = sizeof group};
  quire_symbol prompt[300];
  for (uint32_t i = 0; i < 300; ++i) prompt[i] = 1000 + i;
  TRY(quire_runtime_create(&env, runtime, err));
  TRY(quire_model_from_json(text(kConfig), model, err));
  TRY(quire_config_create(*model, &room, config, err));
  TRY(quire_cache_create(*runtime, *config, NULL, cache, err));
  TRY(quire_config_get_info(*config, &info, err));
  for (uint32_t g = 0; g < info.num_groups; ++g) {
    TRY(quire_config_get_group(*config, g, &group, err));
    printf("group %" PRIu32 ": %s, layers %" PRIu32 ", blocks of %" PRIu32 " tokens\n", g,
           group.is_state ? "states" : "attention", group.num_caches, group.block_tokens);
  }
  TRY(serve(*cache, "first", "", prompt, 300, err));
  TRY(serve(*cache, "again", "", prompt, 300, err));
  prompt[250] = 7; /* another question about the same document */
  TRY(serve(*cache, "parts at 250", "", prompt, 300, err));
  prompt[250] = 8; /* a state is kept there now */
  TRY(serve(*cache, "parts there too", "", prompt, 300, err));
  TRY(serve(*cache, "other salt", "tenant 2", prompt, 300, err));
  return quire_cache_verify(*cache, err);
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
