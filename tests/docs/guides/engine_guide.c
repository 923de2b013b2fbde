/* Runs the C code of docs/in-your-engine.md: prefill, decode, a prefix found again, and a pool too small for two; whole requests on a model
 * with states. */
/* The page declares only what it calls. It stands first: it includes what it needs. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#endif
#include "in_your_engine_c.inc"

#include <stdio.h>
#include <string.h>

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
static const char hybrid[] =
    "{\"architectures\": [\"Qwen3NextForCausalLM\"], \"model_type\": \"qwen3_next\", \"num_hidden_layers\": 4, \"hidden_size\": 256,"
    " \"full_attention_interval\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 64,"
    " \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 16, \"linear_num_key_heads\": 4, \"linear_num_value_heads\": 8,"
    " \"linear_value_head_dim\": 16, \"max_position_embeddings\": 1024, \"torch_dtype\": \"bfloat16\"}";
static step_batch batch;

/* One prompt in one step; the sequence and what was reused. */
static int prefill(engine* e, const quire_symbol* prompt, uint32_t n, quire_sequence_id* sequence, quire_reserve_result* got) {
  quire_error err = {.struct_size = sizeof err};
  quire_reserve_entry want = {.num_symbols = n, .num_tokens = n, .flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END};
  quire_step step;
  const uint8_t ends = 1;
  const quire_symbol next = 7;
  int32_t offsets[2];
  int32_t indices[32];
  EXPECT(quire_sequence_create(e->cache, NULL, &want.sequence, &err) == QUIRE_OK);
  *sequence = want.sequence;
  EXPECT(engine_begin(e, &want, 1, prompt, n, got, &batch, &step, &err) == QUIRE_OK);
  if (step.id == 0) return 0;
  const quire_batch* group = &batch.groups[0];
  EXPECT(group->num_rows == 1 && group->num_tokens == got->num_tokens && group->kv_len[0] == (int32_t)n);
  EXPECT(group->slots[0] == group->table[got->position / 16] * INT64_C(16) + (int64_t)(got->position % 16));
  EXPECT(fill_offsets_and_indices(step, 0, offsets, 2, indices, 32, &err) == QUIRE_OK);
  EXPECT(offsets[1] == (int32_t)((n + 15) / 16) && indices[got->position / 16] == group->table[got->position / 16]);
  EXPECT(engine_end(step, got, 1, &ends, &next, &err) == QUIRE_OK);
  return 0;
}

static uint32_t runs, fail_at, wrong, refused_layers;

/* The null driver has no kernels. It names the one that it lacks. */
static int has_no_kernels(engine* e, const step_batch* of) {
  quire_error err = {.struct_size = sizeof err};
  quire_model_info info = {.struct_size = sizeof info};
  const quire_tensor none = {0};
  if (quire_model_get_info(e->model, &info, &err) != QUIRE_OK) return 0;
  for (uint32_t i = 0; i < info.num_caches; ++i) {
    quire_layer layer = {.struct_size = sizeof layer};
    if (quire_model_get_layer(e->model, i, &layer, &err) != QUIRE_OK) return 0;
    if (layer.kind == QUIRE_LAYER_STATE) continue;
    if (attend(e, of, &layer, none, none, none, none, &err) != QUIRE_UNIMPLEMENTED) return 0;
    if (strstr(err.message, "kv_append") == NULL) return 0;
    ++refused_layers;
  }
  return 1;
}

/* A step of one row: every group has what its kind needs. */
static quire_code run(engine* e, const step_batch* of, quire_step step, quire_symbol* next, quire_error* err) {
  (void)step;
  for (uint32_t g = 0; g < e->num_groups; ++g) {
    quire_group_info info = {.struct_size = sizeof info};
    const quire_batch* group = &of->groups[g];
    if (quire_config_get_group(e->config, g, &info, err) != QUIRE_OK) return QUIRE_INTERNAL;
    const int32_t position = group->positions[0];
    if (info.is_state) {
      if (group->table != NULL || group->slots != NULL || group->state_write[0] <= 0) ++wrong;
      if ((group->state_read[0] > 0) != (position > 0)) ++wrong;
    } else {
      const int32_t tokens = (int32_t)info.kernel_block_tokens;
      if (group->state_read != NULL || group->slots[0] != (int64_t)group->table[position / tokens] * tokens + position % tokens) ++wrong;
    }
  }
  if (!has_no_kernels(e, of)) ++wrong;
  *next = 500 + ++runs;
  return runs == fail_at ? QUIRE_UNAVAILABLE : QUIRE_OK;
}

static uint32_t stored, fail_store;

static quire_code count_blocks(void* user, const quire_unit* unit, uint32_t group, const int32_t* ids, uint64_t num_ids) {
  (void)user;
  if (++stored == fail_store) return QUIRE_UNAVAILABLE;
  if (group != 0 || num_ids != 1 || ids[0] == 0 || unit->end_token - unit->first_token != 16) ++wrong;
  return QUIRE_OK;
}

/* Whole requests on a model whose first groups have states: what is reused, and that no step stays in flight after an error. */
static int requests(void) {
  engine e = {0};
  quire_error err = {.struct_size = sizeof err};
  quire_cache_stats stats = {.struct_size = sizeof stats};
  quire_group_info first = {.struct_size = sizeof first};
  quire_symbol prompt[300];
  quire_symbol out[4];
  uint32_t reused = 9;
  const quire_str salt = {"tenant", 6};
  for (uint32_t i = 0; i < 300; ++i) prompt[i] = 1000 + i;
  EXPECT(engine_open(&e, (quire_str){hybrid, sizeof hybrid - 1}, 4 << 20, &err) == QUIRE_OK);
  EXPECT(batch_open(&batch, &e) == QUIRE_OK);
  EXPECT(quire_config_get_group(e.config, 0, &first, &err) == QUIRE_OK && first.is_state);
  EXPECT(engine_serve(&e, &batch, run, salt, prompt, 300, out, 4, &reused, &err) == QUIRE_OK && reused == 0 && wrong == 0);
  EXPECT(out[3] == 500 + runs && runs > 4); /* the prompt took more than one chunk */
  EXPECT(engine_serve(&e, &batch, run, salt, prompt, 300, out, 4, &reused, &err) == QUIRE_OK && reused > 200 && wrong == 0);

  EXPECT(refused_layers >= runs); /* every step tried its attention layers */

  /* Kernels fail, or the batch does: no step stays in flight, and the code comes back without an err, too. */
  fail_at = runs + 2;
  EXPECT(engine_serve(&e, &batch, run, salt, prompt, 300, out, 4, &reused, &err) == QUIRE_UNAVAILABLE && runs == fail_at);
  --e.num_groups;
  EXPECT(engine_serve(&e, &batch, run, salt, prompt, 300, out, 4, &reused, &err) == QUIRE_OUT_OF_RANGE && strlen(err.message) > 0);
  EXPECT(engine_serve(&e, &batch, run, salt, prompt, 300, out, 4, &reused, NULL) == QUIRE_OUT_OF_RANGE);
  ++e.num_groups;
  EXPECT(engine_serve(&e, &batch, run, salt, prompt, 300, out, 4, &reused, &err) == QUIRE_OK && wrong == 0);
  EXPECT(quire_cache_get_stats(e.cache, &stats, &err) == QUIRE_OK && stats.num_sequences == 0);
  batch_close(&batch);
  engine_close(&e);
  return 0;
}

/* A failure is a failure, also for those who want no message or forgot struct_size. */
static int codes(void) {
  const quire_str cut = {config, 20};
  quire_error err = {0};
  engine e = {0};
  EXPECT(engine_open(&e, cut, 1 << 20, &err) == QUIRE_INVALID_ARGUMENT && err.code == QUIRE_OK);
  engine_close(&e);
  memset(&e, 0, sizeof e);
  EXPECT(engine_open(&e, cut, 1 << 20, NULL) == QUIRE_INVALID_ARGUMENT);
  engine_close(&e);
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
  EXPECT(engine_open(&e, json, UINT64_C(40) * 4096, &err) == QUIRE_OK && batch_open(&batch, &e) == QUIRE_OK);
  EXPECT(watch_units(&e, 16, &err) == QUIRE_OK);
  EXPECT(prefill(&e, prompt, 100, &running[0], &got) == 0 && got.hit_tokens == 0 && got.num_tokens == 100);
  fail_store = 2;
  EXPECT(store_units(&e, count_blocks, NULL, &err) == QUIRE_UNAVAILABLE);
  EXPECT(store_units(&e, count_blocks, NULL, &err) == QUIRE_OK && stored == 6 && wrong == 0);
  EXPECT(quire_sequence_finish(e.cache, running[0], &err) == QUIRE_OK);
  EXPECT(prefill(&e, prompt, 400, &running[0], &got) == 0 && got.code == QUIRE_OK && got.hit_tokens == 96);
  prompt[0] = 9999;
  EXPECT(prefill(&e, prompt, 400, &running[1], &got) == 0 && got.code == QUIRE_RESOURCE_EXHAUSTED && got.missing_pages > 0);
  EXPECT(give_way(&e, &got, running, &num_running, &preempted, &err) == QUIRE_OK && preempted == running[0] && num_running == 0);
  EXPECT(quire_sequence_finish(e.cache, running[1], &err) == QUIRE_OK);
  EXPECT(prefill(&e, prompt, 400, &running[1], &got) == 0 && got.code == QUIRE_OK);
  EXPECT(quire_cache_get_stats(e.cache, &stats, &err) == QUIRE_OK && stats.preemptions == 1 && stats.steps == 3);
  EXPECT(watch_units(&e, 7, &err) == QUIRE_INVALID_ARGUMENT);
  batch_close(&batch);
  engine_close(&e);

  memset(&e, 0, sizeof e);
  json.len = 20; /* cut in the middle */
  EXPECT(engine_open(&e, json, 1 << 20, &err) == QUIRE_INVALID_ARGUMENT && strlen(err.message) > 0);
  engine_close(&e);
  if (codes() != 0 || requests() != 0) return 1;
  (void)printf("ok\n");
  return 0;
}
