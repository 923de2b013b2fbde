/* The step loop: reserve, tables, append, attention on the driver that QUIRE_DRIVER names, commit. A plain loop checks every number. */
#include <quire/quire.h>
#include <stdio.h>
#include "plain.h"

#define TRY(call) \
  if ((code = (call)) != QUIRE_OK) return code
enum { SEQUENCES = 2, STEPS = 6, TOKENS = 32, PITCH = 4 };

static int32_t table[SEQUENCES * PITCH], query_indptr[SEQUENCES + 1], kv_len[SEQUENCES], positions[TOKENS];
static int64_t slots[TOKENS];
static float query[TOKENS][HEADS * DIM], key[TOKENS][KV_HEADS * DIM], value[TOKENS][KV_HEADS * DIM], out[TOKENS][HEADS * DIM];

static quire_tensor rows_of(float* data, int64_t tokens, int64_t heads) {
  const int64_t stride[2] = {heads * DIM * 4, DIM * INT64_C(4)}; /* bytes */
  return (quire_tensor){data, {QUIRE_DTYPE_FLOAT, 32, 1}, .ndim = 3, .shape = {tokens, heads, DIM}, .stride = {stride[0], stride[1], 4}};
}

static quire_fill array(quire_fill_kind kind, void* to, uint64_t n, uint64_t pitch) {
  return (quire_fill){.struct_size = sizeof(quire_fill), .kind = kind, .destination = to, .capacity = n, .pitch = pitch};
}

static quire_code forward(quire_cache* cache, quire_memory* memory, quire_stream* stream, quire_step_id step, quire_error* err) {
  quire_fill all[] = {
      array(QUIRE_FILL_TABLE, table, sizeof table / 4, PITCH),
      array(QUIRE_FILL_SLOTS, slots, TOKENS, TOKENS),
      array(QUIRE_FILL_QUERY_INDPTR, query_indptr, SEQUENCES + 1, 1),
      array(QUIRE_FILL_KV_LEN, kv_len, SEQUENCES, 1),
      array(QUIRE_FILL_POSITIONS, positions, TOKENS, 1),
  };
  uint64_t written[5];
  quire_code code = QUIRE_OK;
  TRY(quire_step_fill(cache, step, all, sizeof all[0], 5, written, err));
  const int n = query_indptr[SEQUENCES];
  for (int i = 0, s = 0; i < n; ++i, s += i == query_indptr[s + 1]) {
    for (int x = 0; x < HEADS * DIM; ++x) query[i][x] = element(0, s, positions[i], x);
    for (int x = 0; x < KV_HEADS * DIM; ++x) key[i][x] = element(1, s, positions[i], x), value[i][x] = element(2, s, positions[i], x);
  }
  quire_kv_append append = {.struct_size = sizeof append, .slots = slots, .num_tokens = (uint64_t)n};
  append.key = rows_of(key[0], n, KV_HEADS), append.value = rows_of(value[0], n, KV_HEADS);
  TRY(quire_memory_get_paged_kv(memory, 0, 0, &append.kv, err));
  quire_attention op = {.struct_size = sizeof op, .flags = QUIRE_ATTENTION_CAUSAL, .kv = append.kv, .table = table, .table_pitch = PITCH};
  op.query_indptr = query_indptr, op.kv_len = kv_len, op.num_rows = SEQUENCES;
  op.query = rows_of(query[0], n, HEADS), op.out = rows_of(out[0], n, HEADS);
  TRY(quire_memory_prepare_step(memory, cache, step, stream, err));
  TRY(quire_op_kv_append(stream, &append, err));
  TRY(quire_op_attention(stream, &op, err));
  return quire_stream_synchronize(stream, -1, err);
}

static quire_code loop(quire_cache* cache, quire_memory* memory, quire_stream* stream, quire_error* err) {
  quire_reserve_entry want[SEQUENCES] = {{.num_symbols = 20, .num_tokens = 20}, {.symbols_offset = 20, .num_symbols = 7, .num_tokens = 7}};
  quire_reserve_result got[SEQUENCES];
  quire_symbol symbols[TOKENS];
  quire_step_id step = 0;
  quire_code code = QUIRE_OK;
  for (uint32_t i = 0; i < TOKENS; ++i) symbols[i] = 1000 + i;
  for (int s = 0; s < SEQUENCES; ++s) TRY(quire_sequence_create(cache, NULL, &want[s].sequence, err));
  for (int round = 0; round < STEPS; ++round) {
    TRY(quire_reserve(cache, want, SEQUENCES, symbols, TOKENS, got, &step, err));
    for (int s = 0; s < SEQUENCES; ++s) TRY(err->code = got[s].code);
    TRY(forward(cache, memory, stream, step, err));
    double worst = 0, sum = 0;
    for (int i = 0, s = 0; i < query_indptr[SEQUENCES]; ++i, s += i == query_indptr[s + 1])
      for (int x = 0; x < HEADS * DIM; ++x)
        sum += fabs((double)out[i][x]), worst = fmax(worst, fabs((double)out[i][x] - plain(s, positions[i], x)));
    printf("%d tokens, lengths %d %d, checksum %.2f, %s\n", query_indptr[SEQUENCES], kv_len[0], kv_len[1], sum,
           worst < 1e-5 ? "equal to plain attention" : "WRONG");
    quire_commit_entry row[SEQUENCES];
    for (uint32_t s = 0; s < SEQUENCES; ++s) { /* here an engine samples: symbols[s] */
      row[s] = (quire_commit_entry){.sequence = want[s].sequence, .symbols_offset = s, .num_symbols = 1, .num_accepted = got[s].num_tokens};
      row[s].symbols_position = got[s].position + got[s].num_tokens;
      want[s] = (quire_reserve_entry){.sequence = want[s].sequence, .num_tokens = 1};
    }
    TRY(quire_commit(cache, step, row, SEQUENCES, symbols, SEQUENCES, err));
  }
  return QUIRE_OK;
}

int main(void) {
  quire_runtime_options env = {.struct_size = sizeof env, .header_abi = QUIRE_ABI_VERSION};
  quire_layer layer = {.struct_size = sizeof layer, .kind = QUIRE_LAYER_FULL, .num_kv_heads = KV_HEADS, .num_q_heads = HEADS};
  quire_plan_options room = {.struct_size = sizeof room, .num_pages = 9};
  quire_error err = {.struct_size = sizeof err};
  quire_runtime* runtime = NULL;
  quire_model* model = NULL;
  quire_config* config = NULL;
  quire_cache* cache = NULL;
  quire_device* device = NULL;
  quire_stream* stream = NULL;
  quire_memory* memory = NULL;
  layer.head_dim_k = layer.head_dim_v = DIM, layer.dtype = (quire_dtype){QUIRE_DTYPE_FLOAT, 32, 1};
  if (quire_runtime_create(&env, &runtime, &err) || quire_model_create(&layer, sizeof layer, 1, PITCH * UINT64_C(16), &model, &err) ||
      quire_config_create(model, &room, &config, &err) || quire_cache_create(runtime, config, NULL, &cache, &err) ||
      quire_device_open(runtime, 0, &device, &err) || quire_stream_create(device, 0, &stream, &err) ||
      quire_memory_create(device, config, 0, &memory, &err) || loop(cache, memory, stream, &err))
    printf("%s: %s\n", quire_code_name(err.code).data, err.message);
  quire_memory_release(memory), quire_stream_release(stream), quire_device_release(device);
  quire_cache_release(cache), quire_config_release(config), quire_model_release(model), quire_runtime_release(runtime);
  return err.code == QUIRE_OK ? 0 : 1;
}
