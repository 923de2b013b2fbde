/* The frozen client, compiled against the frozen headers: client FOLDER DRIVER serves one prompt with the driver from FOLDER, with every
 * kind of struct in the size that its headers know. It must go on working against every later library. */
#include <quire/quire.h>
#include <stdio.h>
#include <string.h>

static quire_str text(const char* from) {
  quire_str str;
  str.data = from;
  str.len = strlen(from);
  return str;
}

#define TRY(call)                                                                           \
  do {                                                                                      \
    if ((call) != QUIRE_OK) {                                                               \
      printf("FAILED: %s: %s (%s)\n", #call, err.message, quire_code_name(err.code).data); \
      return 1;                                                                             \
    }                                                                                       \
  } while (0)

#define WANT(what)                    \
  do {                                \
    if (!(what)) {                    \
      printf("FAILED: %s\n", #what); \
      return 1;                       \
    }                                 \
  } while (0)

static void fill_layers(quire_layer* layers) {
  uint32_t i;
  memset(layers, 0, 2 * sizeof *layers);
  for (i = 0; i < 2; ++i) {
    layers[i].struct_size = sizeof layers[i];
    layers[i].kind = QUIRE_LAYER_FULL;
    layers[i].layer = i;
    layers[i].num_kv_heads = 2;
    layers[i].num_q_heads = 4;
    layers[i].head_dim_k = layers[i].head_dim_v = 64;
    layers[i].dtype.code = QUIRE_DTYPE_BFLOAT;
    layers[i].dtype.bits = 16;
    layers[i].dtype.lanes = 1;
  }
}

/* Serves a prompt of 40 symbols from the cache. */
static int serve(quire_cache* cache, quire_memory* memory, quire_stream* stream) {
  quire_error err;
  quire_reserve_entry want;
  quire_reserve_result got;
  quire_commit_entry row;
  quire_cache_stats stats;
  quire_symbol symbols[40];
  quire_step step;
  uint32_t i;
  memset(&err, 0, sizeof err);
  err.struct_size = sizeof err;
  memset(&want, 0, sizeof want);
  TRY(quire_sequence_create(cache, NULL, &want.sequence, &err));
  for (i = 0; i < 40; ++i) symbols[i] = i;
  want.num_symbols = want.num_tokens = 40;
  want.flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END;
  TRY(quire_reserve(cache, &want, 1, symbols, 40, &got, &step, &err));
  WANT(got.code == QUIRE_OK && got.num_tokens == 40);
  TRY(quire_memory_prepare_step(memory, step, stream, &err));
  memset(&row, 0, sizeof row);
  row.sequence = want.sequence;
  row.num_accepted = 40;
  TRY(quire_commit(step, &row, 1, NULL, 0, &err));
  TRY(quire_sequence_finish(cache, want.sequence, &err));
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  TRY(quire_cache_get_stats(cache, &stats, &err));
  WANT(stats.struct_size == sizeof stats && stats.pages_total == 64);
  TRY(quire_cache_verify(cache, &err));
  return 0;
}

int main(int argc, char** argv) {
  quire_error err;
  quire_runtime_options options;
  quire_plan_options plan;
  quire_layer layers[2];
  quire_model_info model_info;
  quire_device_info device_info;
  quire_probe_info probes[32];
  quire_runtime* runtime = NULL;
  quire_model* model = NULL;
  quire_config* config = NULL;
  quire_cache* cache = NULL;
  quire_device* device = NULL;
  quire_stream* stream = NULL;
  quire_memory* memory = NULL;
  uint64_t count = 0;
  if (argc != 3) return 2;
  memset(&err, 0, sizeof err);
  err.struct_size = sizeof err;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.driver = text(argv[2]);
  options.driver_path = text(argv[1]);
  options.flags = QUIRE_RUNTIME_NO_ENV;
  TRY(quire_runtime_create(&options, &runtime, &err));
  TRY(quire_runtime_probe(runtime, probes, sizeof probes[0], 32, &count, &err));
  WANT(count > 0 && probes[0].struct_size == sizeof probes[0]);
  fill_layers(layers);
  TRY(quire_model_create(layers, sizeof layers[0], 2, 512, &model, &err));
  memset(&model_info, 0, sizeof model_info);
  model_info.struct_size = sizeof model_info;
  TRY(quire_model_get_info(model, &model_info, &err));
  WANT(model_info.struct_size == sizeof model_info && model_info.num_caches == 2);
  memset(&plan, 0, sizeof plan);
  plan.struct_size = sizeof plan;
  plan.num_pages = 64;
  TRY(quire_config_create(model, &plan, &config, &err));
  TRY(quire_cache_create(runtime, config, NULL, &cache, &err));
  TRY(quire_device_open(runtime, 0, &device, &err));
  memset(&device_info, 0, sizeof device_info);
  device_info.struct_size = sizeof device_info;
  TRY(quire_device_get_info(device, &device_info, &err));
  WANT(strcmp(device_info.driver, argv[2]) == 0);
  TRY(quire_stream_create(device, 0, &stream, &err));
  TRY(quire_memory_create(device, config, 0, &memory, &err));
  if (serve(cache, memory, stream) != 0) return 1;
  quire_memory_release(memory);
  quire_stream_release(stream);
  quire_device_release(device);
  quire_cache_release(cache);
  quire_config_release(config);
  quire_model_release(model);
  quire_runtime_release(runtime);
  printf("served with driver %s\n", device_info.driver);
  return 0;
}
