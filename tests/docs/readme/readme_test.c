/* Runs the code of README.md: a prompt goes through a small model and is found again. A
 * prompt of a model with states takes several steps. A wrong config is refused by name. */
#include <stdio.h>
#include <string.h>

/* The code of README.md declares only what it calls. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#endif
#include "readme.inc"

#define EXPECT(condition)                                                                    \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      (void)printf("%s:%d: %s is false: %s\n", __FILE__, __LINE__, #condition, err.message); \
      return 1;                                                                              \
    }                                                                                        \
  } while (0)

static uint64_t tokens_seen, steps;

quire_code forward(engine* e, quire_step step, quire_symbol* next, quire_error* err) {
  quire_step_info info = {.struct_size = sizeof info};
  (void)e;
  const quire_code code = quire_step_get_info(step, &info, err);
  if (code != QUIRE_OK) return code;
  tokens_seen += info.num_tokens;
  ++steps;
  *next = 7;
  return QUIRE_OK;
}

static void engine_close(engine* e) {
  quire_memory_release(e->memory);
  quire_stream_release(e->stream);
  quire_device_release(e->device);
  quire_cache_release(e->cache);
  quire_config_release(e->config);
  quire_model_release(e->model);
  quire_runtime_release(e->runtime);
  memset(e, 0, sizeof *e);
}

int main(void) {
  static const char config[] =
      "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
      " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, \"torch_dtype\": \"bfloat16\"}";
  static const char hybrid[] =
      "{\"architectures\": [\"Qwen3NextForCausalLM\"], \"model_type\": \"qwen3_next\", \"num_hidden_layers\": 4, \"hidden_size\": 256,"
      " \"full_attention_interval\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 64,"
      " \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 16, \"linear_num_key_heads\": 4, \"linear_num_value_heads\": 8,"
      " \"linear_value_head_dim\": 16, \"max_position_embeddings\": 512, \"torch_dtype\": \"bfloat16\"}";
  quire_str json = {config, sizeof config - 1};
  engine e = {0};
  quire_symbol prompt[100];
  quire_symbol next = 0;
  quire_error err = {.struct_size = sizeof err};
  for (uint32_t i = 0; i < 100; ++i) prompt[i] = i;

  EXPECT(engine_open(&e, json, 100, &err) == QUIRE_OK);
  EXPECT(serve(&e, prompt, 100, &next, &err) == QUIRE_OK);
  EXPECT(tokens_seen == 100 && next == 7);
  EXPECT(serve(&e, prompt, 100, &next, NULL) == QUIRE_OK);
  EXPECT(tokens_seen == 104); /* six blocks of 16 are reused */
  engine_close(&e);

  const quire_str with_states = {hybrid, sizeof hybrid - 1};
  tokens_seen = steps = 0;
  EXPECT(engine_open(&e, with_states, 100, &err) == QUIRE_OK);
  EXPECT(serve(&e, prompt, 100, &next, &err) == QUIRE_OK);
  EXPECT(tokens_seen == 100 && steps > 1); /* the first step ends where a state is kept */
  engine_close(&e);

  json.len = 20; /* cut in the middle */
  EXPECT(engine_open(&e, json, 100, &err) == QUIRE_INVALID_ARGUMENT && strlen(err.message) > 0);
  engine_close(&e);
  EXPECT(engine_open(&e, json, 100, NULL) == QUIRE_INVALID_ARGUMENT);
  engine_close(&e);
  err.struct_size = 0;
  EXPECT(engine_open(&e, json, 100, &err) == QUIRE_INVALID_ARGUMENT);
  engine_close(&e);
  (void)printf("ok\n");
  return 0;
}
