/* Runs the function that README.md shows: a prompt goes through a small model on the CPU driver, and a wrong config is refused by name. */
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

static uint64_t tokens_seen;

quire_code forward(quire_memory* memory, quire_cache* cache, quire_step_id step, quire_stream* stream, quire_symbol* next,
                   quire_error* err) {
  quire_step_info info = {.struct_size = sizeof info};
  (void)memory;
  (void)stream;
  const quire_code code = quire_step_get_info(cache, step, &info, err);
  if (code != QUIRE_OK) return code;
  tokens_seen += info.num_tokens;
  *next = 7;
  return QUIRE_OK;
}

int main(void) {
  static const char config[] =
      "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
      " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, \"torch_dtype\": \"bfloat16\"}";
  quire_str json = {config, sizeof config - 1};
  quire_symbol prompt[100];
  quire_symbol next = 0;
  quire_error err = {.struct_size = sizeof err};
  for (uint32_t i = 0; i < 100; ++i) prompt[i] = i;

  EXPECT(serve(json, 4 << 20, prompt, 100, &next, &err) == QUIRE_OK);
  EXPECT(tokens_seen == 100 && next == 7);

  json.len = 20; /* cut in the middle */
  EXPECT(serve(json, 4 << 20, prompt, 100, &next, &err) == QUIRE_INVALID_ARGUMENT && strlen(err.message) > 0);
  EXPECT(serve(json, 4 << 20, prompt, 100, &next, NULL) == QUIRE_INVALID_ARGUMENT);
  json.len = sizeof config - 1;
  EXPECT(serve(json, 4 << 20, prompt, 100, &next, NULL) == QUIRE_OK);
  err.struct_size = 0;
  json.len = 20;
  EXPECT(serve(json, 4 << 20, prompt, 100, &next, &err) == QUIRE_INVALID_ARGUMENT);
  (void)printf("ok\n");
  return 0;
}
