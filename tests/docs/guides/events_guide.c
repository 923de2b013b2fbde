/* Runs the code of docs/events.md: its cache, its publisher at other ports. */
#include <stdio.h>
#include <string.h>

/* The page declares only what it calls. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#endif
#include "events_c.inc"

#define EXPECT(condition)                                                                    \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      (void)printf("%s:%d: %s is false: %s\n", __FILE__, __LINE__, #condition, err.message); \
      return 1;                                                                              \
    }                                                                                        \
  } while (0)

static quire_code prefill(quire_cache* cache, quire_error* err) {
  quire_symbol prompt[40];
  quire_reserve_entry want = {.num_symbols = 40, .num_tokens = 40, .flags = QUIRE_ENTRY_MATCH};
  quire_reserve_result got;
  quire_step step;
  quire_commit_entry row = {0};
  for (uint32_t i = 0; i < 40; ++i) prompt[i] = i;
  quire_code code = quire_sequence_create(cache, NULL, &want.sequence, err);
  if (code == QUIRE_OK) code = quire_reserve(cache, &want, 1, prompt, 40, &got, &step, err);
  if (code == QUIRE_OK) code = got.code;
  row.sequence = want.sequence;
  row.num_accepted = 40;
  if (code == QUIRE_OK) code = quire_commit(step, &row, 1, NULL, 0, err);
  return code;
}

int main(void) {
  static const char any_port[] = "tcp://127.0.0.1:*";
  quire_error err = {.struct_size = sizeof err};
  quire_runtime_options env = QUIRE_INIT(quire_runtime_options);
  quire_plan_options room = QUIRE_INIT(quire_plan_options);
  quire_event_publisher_options options = QUIRE_INIT(quire_event_publisher_options);
  quire_event_publisher_stats stats = QUIRE_INIT(quire_event_publisher_stats);
  quire_layer layer = {.struct_size = sizeof layer, .kind = QUIRE_LAYER_FULL, .num_kv_heads = 2, .num_q_heads = 2};
  quire_runtime* runtime = NULL;
  quire_model* model = NULL;
  quire_config* config = NULL;
  quire_cache* cache = NULL;
  quire_event_publisher* publisher = NULL;
  uint64_t late = 0;
  env.header_abi = QUIRE_ABI_VERSION;
  room.num_pages = 16;
  layer.head_dim_k = layer.head_dim_v = 8;
  layer.dtype = (quire_dtype){QUIRE_DTYPE_FLOAT, 32, 1};
  EXPECT(quire_runtime_create(&env, &runtime, &err) == QUIRE_OK);
  EXPECT(quire_model_create(&layer, sizeof layer, 1, 64, &model, &err) == QUIRE_OK);
  EXPECT(quire_config_create(model, &room, &config, &err) == QUIRE_OK);
  EXPECT(quire_cache_create(runtime, config, NULL, &cache, &err) == QUIRE_OK);
  EXPECT(enable_events(cache, (quire_str){"0", 1}, &err) == QUIRE_OK);
  EXPECT(open_publisher(NULL, &err) == QUIRE_INVALID_ARGUMENT);
  /* The ports of the page may be taken here. */
  options.endpoint = options.replay_endpoint = (quire_str){any_port, sizeof any_port - 1};
  EXPECT(quire_event_publisher_create(&options, &publisher, &err) == QUIRE_OK);
  EXPECT(prefill(cache, &err) == QUIRE_OK);
  EXPECT(publish_events(publisher, cache, &late, &err) == QUIRE_OK);
  EXPECT(quire_event_publisher_get_stats(publisher, &stats, &err) == QUIRE_OK);
  EXPECT(stats.next_number == 1 && stats.dropped == 0 && late == 0);
  quire_event_publisher_release(publisher);
  quire_cache_release(cache);
  quire_config_release(config);
  quire_model_release(model);
  quire_runtime_release(runtime);
  (void)printf("ok\n");
  return 0;
}
