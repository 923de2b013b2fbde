// The step loop: reserve, tables, append, attention on the driver that QUIRE_DRIVER names, commit. A plain loop checks every number.
#define QUIRE_EXCEPTIONS
#include <cstdio>
#include <numeric>
#include <quire.hpp>

#include "plain.h"

constexpr int kSequences = 2, kSteps = 6, kTokens = 32, kPitch = 4;

// Everything a step needs is here: the loop allocates nothing.
struct Engine {
  quire::Cache cache;
  quire::Memory memory;
  quire::Stream stream;
  int32_t table[kSequences * kPitch]{}, query_indptr[kSequences + 1]{}, kv_len[kSequences]{}, positions[kTokens]{};
  int64_t slots[kTokens]{};
  float query[kTokens * HEADS * DIM]{}, out[kTokens * HEADS * DIM]{}, key[kTokens * KV_HEADS * DIM]{}, value[kTokens * KV_HEADS * DIM]{};

  // visit(token, sequence) for all tokens of the step.
  void each_token(auto visit) {
    for (int i = 0, s = 0; i < query_indptr[kSequences]; ++i, s += i == query_indptr[s + 1] ? 1 : 0) visit(i, s);
  }

  void forward(const quire::Step& step) {
    step.fill(QUIRE_FILL_TABLE, table, {.pitch = kPitch});
    step.fill_slots(slots);
    step.fill(QUIRE_FILL_QUERY_INDPTR, query_indptr);
    step.fill(QUIRE_FILL_KV_LEN, kv_len);
    step.fill(QUIRE_FILL_POSITIONS, positions);
    each_token([this](int i, int s) {
      for (int x = 0; x < HEADS * DIM; ++x) query[i * HEADS * DIM + x] = element(0, s, positions[i], x);
      for (int x = 0; x < KV_HEADS * DIM; ++x) key[i * KV_HEADS * DIM + x] = element(1, s, positions[i], x);
      for (int x = 0; x < KV_HEADS * DIM; ++x) value[i * KV_HEADS * DIM + x] = element(2, s, positions[i], x);
    });
    const int n = query_indptr[kSequences];
    auto append = quire::make<quire_kv_append>();
    append.kv = memory.paged_kv(0);
    append.slots = slots, append.num_tokens = n;
    append.key = rows_of(key, n, KV_HEADS), append.value = rows_of(value, n, KV_HEADS);
    auto op = quire::make<quire_attention>();
    op.kv = append.kv, op.flags = QUIRE_ATTENTION_CAUSAL, op.num_rows = kSequences;
    op.table = table, op.table_pitch = kPitch, op.query_indptr = query_indptr, op.kv_len = kv_len;
    op.query = rows_of(query, n, HEADS), op.out = rows_of(out, n, HEADS);
    memory.prepare(step, stream);
    stream.kv_append(append);
    stream.attention(op);
    stream.synchronize();
  }
  void report() {
    double worst = 0, sum = 0;
    each_token([&](int i, int s) {
      for (int x = 0; x < HEADS * DIM; ++x) {
        sum += std::fabs(out[i * HEADS * DIM + x]);
        worst = std::fmax(worst, std::fabs(out[i * HEADS * DIM + x] - plain(s, positions[i], x)));
      }
    });
    std::printf("%d tokens, lengths %d %d, checksum %.2f, %s\n", query_indptr[kSequences], kv_len[0], kv_len[1], sum,
                worst < 1e-5 ? "equal to plain attention" : "WRONG");
  }
};

static void loop(Engine& engine) {
  const quire::Sequence first = engine.cache.create_sequence(), second = engine.cache.create_sequence();
  quire_reserve_entry want[kSequences] = {};
  want[0].sequence = first.id(), want[0].num_symbols = want[0].num_tokens = 20;
  want[1].sequence = second.id(), want[1].symbols_offset = 20, want[1].num_symbols = want[1].num_tokens = 7;
  quire_reserve_result got[kSequences];
  quire_commit_entry rows[kSequences];
  quire_symbol symbols[kTokens];
  std::iota(symbols, symbols + kTokens, 1000);
  for (int round = 0; round < kSteps; ++round) {
    quire::Step step = engine.cache.reserve(want, symbols, got);
    if (step.info().num_rows != kSequences) throw quire::Exception({QUIRE_RESOURCE_EXHAUSTED, "no room for a sequence"});
    engine.forward(step);
    engine.report();
    for (uint32_t s = 0; s < kSequences; ++s) {  // here an engine samples: symbols[s]
      rows[s] = {want[s].sequence, got[s].position + got[s].num_tokens, s, 1, got[s].num_tokens};
      want[s].num_symbols = 0, want[s].num_tokens = 1;
    }
    step.commit(rows, symbols);
  }
}

int main() {
  try {
    auto layer = quire::make<quire_layer>();
    layer.kind = QUIRE_LAYER_FULL, layer.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
    layer.num_kv_heads = KV_HEADS, layer.num_q_heads = HEADS, layer.head_dim_k = layer.head_dim_v = DIM;
    auto room = quire::make<quire_plan_options>();
    room.num_pages = 9;
    const auto runtime = quire::Runtime::create();
    const auto config = quire::Config::create(quire::Model::create({&layer, 1}, uint64_t{kPitch} * 16), room);
    const auto device = quire::Device::open(runtime);
    Engine engine{quire::Cache::create(runtime, config), quire::Memory::create(device, config), quire::Stream::create(device)};
    loop(engine);
    return 0;
  } catch (const quire::Exception& failure) {
    std::printf("%s: %s\n", failure.error().name().data(), failure.what());
    return 1;
  }
}
