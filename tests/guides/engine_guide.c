/* Runs the C code of docs/in-your-engine.md: prefill, decode, a prefix found again, and a pool too small for two. */
#include <stdio.h>
#include <string.h>

/* The page declares only what it calls. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#endif
#include "in_your_engine_c.inc"

#define EXPECT(condition)                                                                    \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      (void)printf("%s:%d: %s is false: %s\n", __FILE__, __LINE__, #condition, err.message); \
      return 1;                                                                              \
    }                                                                                        \
  } while (0)

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 512, \"torch_dtype\": \"bfloat16\"}";
static step_tables tables;

/* One prompt in one step; the sequence and what was reused. */
static int prefill(engine* e, const quire_symbol* prompt, uint32_t n, quire_sequence_id* sequence, quire_reserve_result* got) {
  quire_error err = {.struct_size = sizeof err};
  quire_reserve_entry want = {.num_symbols = n, .num_tokens = n, .flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END};
  quire_step_id step = 0;
  const uint8_t ends = 1;
  const quire_symbol next = 7;
  EXPECT(quire_sequence_create(e->cache, NULL, &want.sequence, &err) == QUIRE_OK);
  *sequence = want.sequence;
  EXPECT(engine_begin(e, &want, 1, prompt, n, got, &tables, &step, &err) == QUIRE_OK);
  if (step == 0) return 0;
  EXPECT(tables.query_indptr[1] == (int32_t)got->num_tokens && tables.kv_len[0] == (int32_t)n);
  EXPECT(tables.slots[0] == tables.table[got->position / 16] * 16 + (int64_t)(got->position % 16));
  EXPECT(engine_end(e, step, got, 1, &ends, &next, &err) == QUIRE_OK);
  return 0;
}

int main(void) {
  engine e = {0};
  quire_error err = {.struct_size = sizeof err};
  quire_reserve_result got = {0};
  quire_sequence_id running[2] = {0, 0};
  quire_sequence_id preempted = 0;
  quire_cache_stats stats = {.struct_size = sizeof stats};
  uint32_t num_running = 1;
  quire_symbol prompt[400];
  quire_str json = {config, sizeof config - 1};
  for (uint32_t i = 0; i < 400; ++i) prompt[i] = i;

  /* 512 bytes per layer, side and block of 16 tokens of 2 heads of 16: 4 KiB a page; 40 pages serve one prompt of 400, not two. */
  EXPECT(engine_open(&e, json, 40 * 4096, &err) == QUIRE_OK);
  EXPECT(prefill(&e, prompt, 100, &running[0], &got) == 0 && got.hit_tokens == 0 && got.num_tokens == 100);
  EXPECT(quire_sequence_finish(e.cache, running[0], &err) == QUIRE_OK);
  EXPECT(prefill(&e, prompt, 400, &running[0], &got) == 0 && got.code == QUIRE_OK && got.hit_tokens == 96);
  prompt[0] = 9999;
  EXPECT(prefill(&e, prompt, 400, &running[1], &got) == 0 && got.code == QUIRE_RESOURCE_EXHAUSTED && got.missing_pages > 0);
  EXPECT(give_way(&e, &got, running, &num_running, &preempted, &err) == QUIRE_OK && preempted == running[0] && num_running == 0);
  EXPECT(quire_sequence_finish(e.cache, running[1], &err) == QUIRE_OK);
  EXPECT(prefill(&e, prompt, 400, &running[1], &got) == 0 && got.code == QUIRE_OK);
  EXPECT(quire_cache_get_stats(e.cache, &stats, &err) == QUIRE_OK && stats.preemptions == 1 && stats.steps == 3);
  engine_close(&e);

  memset(&e, 0, sizeof e);
  json.len = 20; /* cut in the middle */
  EXPECT(engine_open(&e, json, 1 << 20, &err) == QUIRE_INVALID_ARGUMENT && strlen(err.message) > 0);
  engine_close(&e);
  (void)printf("ok\n");
  return 0;
}
