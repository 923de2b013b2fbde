// The step loop: reserve, batch, append, attention on the driver that QUIRE_DRIVER names, commit.
// A plain loop checks every number.
#define QUIRE_EXCEPTIONS
#include <array>
#include <cstdio>
#include <numeric>
#include <quire.hpp>

#include "plain.hpp"

constexpr uint32_t kSequences = 2;
constexpr int kSteps = 6;
constexpr uint64_t kMaxTokens = 32;
constexpr uint64_t kMaxLength = 64;

template <size_t kHeads>
using Rows = std::array<std::array<float, kHeads * DIM>, kMaxTokens>;

struct Engine {
  quire::Cache cache;
  quire::Memory memory;
  quire::Stream stream;
  quire::Batch batch;
  quire_layer layer;  // of the only layer
  Rows<HEADS> query{};
  Rows<KV_HEADS> key{};
  Rows<KV_HEADS> value{};
  Rows<HEADS> out{};

  // The arrays of the only group.
  const quire_batch& arrays() const { return batch[0]; }

  // Calls visit(token, sequence, position) for all tokens of the step.
  void each_token(auto visit) {
    for (uint32_t s = 0; s < kSequences; ++s) {
      for (int32_t i = arrays().query_indptr[s]; i < arrays().query_indptr[s + 1]; ++i) {
        visit(static_cast<size_t>(i), static_cast<int>(s), arrays().positions[i]);
      }
    }
  }

  // What the weights of a model would compute.
  void write_inputs() {
    each_token([this](size_t i, int s, int position) {
      for (int x = 0; x < HEADS * DIM; ++x) query[i][x] = element(QUERY, s, position, x);
      for (int x = 0; x < KV_HEADS * DIM; ++x) key[i][x] = element(KEY, s, position, x);
      for (int x = 0; x < KV_HEADS * DIM; ++x) value[i][x] = element(VALUE, s, position, x);
    });
  }

  // One step of a model of one layer.
  void forward(const quire::Step& step) {
    batch.fill(step);
    memory.prepare(step, stream);
    write_inputs();

    const quire_paged_kv kv = memory.paged_kv(0);
    const int64_t tokens = arrays().num_tokens;
    auto append = quire::make<quire_kv_append>();
    append.kv = kv;
    append.batch = &arrays();
    append.key = rows_of(key[0].data(), tokens, KV_HEADS);
    append.value = rows_of(value[0].data(), tokens, KV_HEADS);
    stream.kv_append(append);

    quire_attention attention = quire::attention_of(layer);
    attention.kv = kv;
    attention.batch = &arrays();
    attention.query = rows_of(query[0].data(), tokens, HEADS);
    attention.out = rows_of(out[0].data(), tokens, HEADS);
    stream.attention(attention);
    stream.synchronize();
  }

  void report() {
    double worst = 0;
    double sum = 0;
    each_token([&](size_t i, int s, int position) {
      for (int x = 0; x < HEADS * DIM; ++x) {
        const double computed = out[i][x];
        sum += std::fabs(computed);
        worst = std::fmax(worst, std::fabs(computed - plain(s, position, x)));
      }
    });
    std::printf("%u tokens, lengths %d %d, checksum %.2f, %s\n", arrays().num_tokens,
                arrays().kv_len[0], arrays().kv_len[1], sum,
                worst < 1e-5 ? "equal to plain attention" : "WRONG");
  }
};

static Engine open_engine() {
  auto layer = quire::make<quire_layer>();
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_q_heads = HEADS;
  layer.num_kv_heads = KV_HEADS;
  layer.head_dim_k = DIM;
  layer.head_dim_v = DIM;
  layer.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
  auto room = quire::make<quire_plan_options>();
  room.num_pages = 9;
  const auto runtime = quire::Runtime::create();
  const auto config = quire::Config::create(quire::Model::create({&layer, 1}, kMaxLength), room);
  const auto device = quire::Device::open(runtime);
  return {
      .cache = quire::Cache::create(runtime, config),
      .memory = quire::Memory::create(device, config),
      .stream = quire::Stream::create(device),
      .batch = quire::Batch::create(config),
      .layer = layer,
  };
}

static void loop(Engine& engine) {
  const quire::Sequence first = engine.cache.create_sequence();
  const quire::Sequence second = engine.cache.create_sequence();
  std::array<quire_reserve_entry, kSequences> want{};
  want[0].sequence = first.id();
  want[0].num_symbols = 20;
  want[0].num_tokens = 20;
  want[1].sequence = second.id();
  want[1].symbols_offset = 20;
  want[1].num_symbols = 7;
  want[1].num_tokens = 7;
  std::array<quire_reserve_result, kSequences> got{};
  std::array<quire_commit_entry, kSequences> rows{};
  std::array<quire_symbol, kMaxTokens> symbols{};
  std::iota(symbols.begin(), symbols.end(), 1000);
  for (int round = 0; round < kSteps; ++round) {
    quire::Step step = engine.cache.reserve(want, symbols, got);
    for (const quire_reserve_result& answer : got) {
      if (answer.code != QUIRE_OK) throw quire::Exception({answer.code, "no room for a sequence"});
    }
    engine.forward(step);
    engine.report();
    for (uint32_t s = 0; s < kSequences; ++s) {  // here an engine samples: symbols[s]
      rows[s] = {
          .sequence = got[s].sequence,
          .symbols_position = got[s].position + got[s].num_tokens,
          .symbols_offset = s,
          .num_symbols = 1,
          .num_accepted = got[s].num_tokens,
      };
      want[s].num_symbols = 0;  // the commit gives them
      want[s].num_tokens = 1;
    }
    step.commit(rows, symbols);
  }
}

int main() {
  try {
    Engine engine = open_engine();
    loop(engine);
    return 0;
  } catch (const quire::Exception& failure) {
    std::printf("%s: %s\n", failure.error().name().data(), failure.what());
    return 1;
  }
}
