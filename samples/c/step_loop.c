/* The step loop: reserve, batch, append, attention on the driver that QUIRE_DRIVER names, commit.
 * A plain loop checks every number. */
#include <quire/quire.h>
#include <stdio.h>

#include "plain.h"

#define TRY(call)                            \
  do {                                       \
    quire_code failure = (call);             \
    if (failure != QUIRE_OK) return failure; \
  } while (0)

enum { SEQUENCES = 2, STEPS = 6, MAX_TOKENS = 32, MAX_LENGTH = 64, BATCH_BYTES = 4096 };

typedef struct engine {
  quire_runtime* runtime;
  quire_model* model;
  quire_config* config;
  quire_cache* cache;
  quire_device* device;
  quire_stream* stream;
  quire_memory* memory;
  quire_paged_kv layer_kv; /* where layer 0 keeps its keys and values */
} engine;

static float query[MAX_TOKENS][HEADS * DIM];
static float key[MAX_TOKENS][KV_HEADS * DIM];
static float value[MAX_TOKENS][KV_HEADS * DIM];
static float out[MAX_TOKENS][HEADS * DIM];
static _Alignas(16) unsigned char batch_memory[BATCH_BYTES];

static quire_code open_engine(engine* e, quire_error* err) {
  quire_runtime_options env = QUIRE_INIT(quire_runtime_options);
  quire_plan_options room = QUIRE_INIT(quire_plan_options);
  quire_layer layer = QUIRE_INIT(quire_layer);
  env.header_abi = QUIRE_ABI_VERSION;
  room.num_pages = 9;
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_q_heads = HEADS;
  layer.num_kv_heads = KV_HEADS;
  layer.head_dim_k = DIM;
  layer.head_dim_v = DIM;
  layer.dtype = (quire_dtype){QUIRE_DTYPE_FLOAT, 32, 1};
  TRY(quire_runtime_create(&env, &e->runtime, err));
  TRY(quire_model_create(&layer, sizeof layer, 1, MAX_LENGTH, &e->model, err));
  TRY(quire_config_create(e->model, &room, &e->config, err));
  TRY(quire_cache_create(e->runtime, e->config, NULL, &e->cache, err));
  TRY(quire_device_open(e->runtime, 0, &e->device, err));
  TRY(quire_stream_create(e->device, 0, &e->stream, err));
  TRY(quire_memory_create(e->device, e->config, 0, &e->memory, err));
  return quire_memory_get_paged_kv(e->memory, 0, 0, &e->layer_kv, err);
}

static void close_engine(engine* e) {
  quire_memory_release(e->memory);
  quire_stream_release(e->stream);
  quire_device_release(e->device);
  quire_cache_release(e->cache);
  quire_config_release(e->config);
  quire_model_release(e->model);
  quire_runtime_release(e->runtime);
}

static quire_tensor rows_of(float* data, int64_t tokens, int64_t heads) {
  quire_tensor rows = {.data = data, .dtype = {QUIRE_DTYPE_FLOAT, 32, 1}, .ndim = 3};
  rows.shape[0] = tokens;
  rows.shape[1] = heads;
  rows.shape[2] = DIM;
  rows.stride[2] = sizeof(float);
  rows.stride[1] = rows.stride[2] * DIM;
  rows.stride[0] = rows.stride[1] * heads;
  return rows;
}

/* What the weights of a model would compute. */
static void write_inputs(const quire_batch* batch) {
  for (int s = 0; s < SEQUENCES; ++s) {
    for (int32_t i = batch->query_indptr[s]; i < batch->query_indptr[s + 1]; ++i) {
      const int position = batch->positions[i];
      for (int x = 0; x < HEADS * DIM; ++x) query[i][x] = element(QUERY, s, position, x);
      for (int x = 0; x < KV_HEADS * DIM; ++x) key[i][x] = element(KEY, s, position, x);
      for (int x = 0; x < KV_HEADS * DIM; ++x) value[i][x] = element(VALUE, s, position, x);
    }
  }
}

/* One step of a model of one layer. */
static quire_code forward(const engine* e, quire_step step, quire_batch* batch, quire_error* err) {
  quire_batch_options options = QUIRE_INIT(quire_batch_options);
  quire_kv_append append = QUIRE_INIT(quire_kv_append);
  quire_attention attention = QUIRE_INIT(quire_attention);
  quire_layer layer = QUIRE_INIT(quire_layer);
  uint64_t bytes = 0;
  options.memory = batch_memory;
  options.bytes = sizeof batch_memory;
  TRY(quire_step_get_batch(step, &options, batch, sizeof *batch, 1, &bytes, err)); /* one group */
  TRY(quire_memory_prepare_step(e->memory, step, e->stream, err));
  write_inputs(batch);

  append.kv = e->layer_kv;
  append.batch = batch;
  append.key = rows_of(key[0], batch->num_tokens, KV_HEADS);
  append.value = rows_of(value[0], batch->num_tokens, KV_HEADS);
  TRY(quire_op_kv_append(e->stream, &append, err));

  TRY(quire_model_get_layer(e->model, 0, &layer, err));
  TRY(quire_attention_from_layer(&layer, &attention, err));
  attention.kv = e->layer_kv;
  attention.batch = batch;
  attention.query = rows_of(query[0], batch->num_tokens, HEADS);
  attention.out = rows_of(out[0], batch->num_tokens, HEADS);
  TRY(quire_op_attention(e->stream, &attention, err));
  return quire_stream_synchronize(e->stream, -1, err);
}

static void report(const quire_batch* batch) {
  double worst = 0;
  double sum = 0;
  for (int s = 0; s < SEQUENCES; ++s) {
    for (int32_t i = batch->query_indptr[s]; i < batch->query_indptr[s + 1]; ++i) {
      for (int x = 0; x < HEADS * DIM; ++x) {
        const double computed = (double)out[i][x];
        sum += fabs(computed);
        worst = fmax(worst, fabs(computed - plain(s, batch->positions[i], x)));
      }
    }
  }
  printf("%u tokens, lengths %d %d, checksum %.2f, %s\n", batch->num_tokens, batch->kv_len[0],
         batch->kv_len[1], sum, worst < 1e-5 ? "equal to plain attention" : "WRONG");
}

static quire_code loop(const engine* e, quire_error* err) {
  quire_reserve_entry want[SEQUENCES] = {
      {.symbols_offset = 0, .num_symbols = 20, .num_tokens = 20},
      {.symbols_offset = 20, .num_symbols = 7, .num_tokens = 7},
  };
  quire_reserve_result got[SEQUENCES];
  quire_commit_entry rows[SEQUENCES];
  quire_symbol symbols[MAX_TOKENS];
  for (uint32_t i = 0; i < MAX_TOKENS; ++i) symbols[i] = 1000 + i;
  for (int s = 0; s < SEQUENCES; ++s) {
    TRY(quire_sequence_create(e->cache, NULL, &want[s].sequence, err));
  }
  for (int round = 0; round < STEPS; ++round) {
    quire_step step;
    quire_batch batch;
    TRY(quire_reserve(e->cache, want, SEQUENCES, symbols, MAX_TOKENS, got, &step, err));
    for (int s = 0; s < SEQUENCES; ++s) TRY(got[s].code);
    TRY(forward(e, step, &batch, err));
    report(&batch);
    for (uint32_t s = 0; s < SEQUENCES; ++s) { /* here an engine samples: symbols[s] */
      rows[s] = (quire_commit_entry){
          .sequence = got[s].sequence,
          .num_accepted = got[s].num_tokens,
          .symbols_position = got[s].position + got[s].num_tokens,
          .symbols_offset = s,
          .num_symbols = 1,
      };
      want[s] = (quire_reserve_entry){.sequence = got[s].sequence, .num_tokens = 1};
    }
    TRY(quire_commit(step, rows, SEQUENCES, symbols, SEQUENCES, err));
  }
  return QUIRE_OK;
}

int main(void) {
  engine e = {0};
  quire_error err = QUIRE_INIT(quire_error);
  quire_code code = open_engine(&e, &err);
  if (code == QUIRE_OK) code = loop(&e, &err);
  if (code != QUIRE_OK) printf("%s: %s\n", quire_code_name(code).data, err.message);
  close_engine(&e);
  return code == QUIRE_OK ? 0 : 1;
}
