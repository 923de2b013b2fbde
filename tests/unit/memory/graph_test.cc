// A step in the shapes of a captured graph: kernels of the CPU driver that take all its rows and tokens leave what they leave without.
#include "../c_api/api_rig.h"

namespace quire::test {
namespace {

constexpr uint32_t kMaxRows = 6, kMaxTokens = 40;
constexpr uint8_t kDirt = 0xa5;
constexpr int64_t kHeads = 4, kHeadsKv = 2, kDimK = 64, kDimV = 32, kState = 16;

// The batches of a step, in memory that is never cleared.
struct Arrays {
  struct alignas(16) Line {
    uint32_t words[4] = {0x5a5a5a, 0x5a5a5a, 0x5a5a5a, 0x5a5a5a};
  };
  std::vector<Line> memory = std::vector<Line>(1024);
  std::vector<quire_batch> batches;
  uint64_t bytes = 0;

  void fill(const Rig& rig, quire_step step, uint32_t rows, uint32_t tokens) {
    quire_config_info plan{};
    plan.struct_size = sizeof plan;
    ASSERT_EQ(quire_config_get_info(rig.config.get(), &plan, nullptr), QUIRE_OK);
    batches.resize(plan.num_groups);
    quire_batch_options options{};
    options.struct_size = sizeof options;
    options.flags = QUIRE_BATCH_MAX_PITCH;
    options.num_rows = rows;
    options.num_tokens = tokens;
    options.memory = memory.data();
    options.bytes = memory.size() * sizeof(Line);
    EXPECT_WORKS(quire_step_get_batch(step, &options, batches.data(), sizeof batches[0], batches.size(), &bytes, err));
  }
};

struct Bytes {
  std::vector<uint8_t> bytes;
  quire_tensor tensor{};

  // A dense tensor of floats, each a number of its place; room for kMaxTokens, of which it says `tokens`.
  Bytes(int64_t tokens, std::vector<int64_t> row, uint32_t seed) {
    int64_t width = 1;
    for (const int64_t n : row) width *= n;
    bytes.assign(static_cast<size_t>(kMaxTokens * width) * 4, kDirt);
    for (size_t i = 0; seed != 0 && i < bytes.size() / 4; ++i) {
      const float x = static_cast<float>((i * 2654435761U + seed * 40503U) % 2001) / 1000.0F - 1.0F;
      std::memcpy(&bytes[i * 4], &x, 4);
    }
    tensor.data = bytes.data();
    tensor.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
    tensor.ndim = static_cast<decltype(tensor.ndim)>(row.size() + 1);
    tensor.shape[0] = tokens;
    for (size_t d = 0; d < row.size(); ++d) tensor.shape[d + 1] = row[d];
    int64_t stride = 4;
    for (size_t d = row.size() + 1; d-- > 0;) {
      tensor.stride[d] = stride;
      stride *= tensor.shape[d];
    }
  }
};

struct Result {
  std::vector<uint8_t> attention, lse, state;  // kMaxTokens rows each
  std::vector<std::vector<uint8_t>> memory;
  uint32_t tokens = 0;
};

// New rows into their slots, then attention over all that is there.
void attend(const Rig& rig, const Arrays& arrays, int64_t all, Result* result) {
  Bytes key(all, {kHeadsKv, kDimK}, 1), value(all, {kHeadsKv, kDimV}, 2), query(all, {kHeads, kDimK}, 3), out(all, {kHeads, kDimV}, 0);
  Bytes lse(all, {kHeads}, 0);
  std::vector<float> cosines(size_t{64} * 8, 0.6F), sines(size_t{64} * 8, 0.8F);
  quire_kv_append append{};
  append.struct_size = sizeof append;
  EXPECT_WORKS(quire_memory_get_paged_kv(rig.memory.get(), 0, 0, &append.kv, err));
  append.key = key.tensor;
  append.value = value.tensor;
  append.batch = &arrays.batches[append.kv.group];
  append.rope_cos = cosines.data();
  append.rope_sin = sines.data();
  append.rope_dim = 16;
  EXPECT_WORKS(quire_op_kv_append(rig.stream.get(), &append, err));
  quire_attention op{};
  op.struct_size = sizeof op;
  op.flags = QUIRE_ATTENTION_CAUSAL | QUIRE_ATTENTION_BATCH_INVARIANT;
  op.kv = append.kv;
  op.query = query.tensor;
  op.out = out.tensor;
  op.lse = lse.tensor;
  op.batch = append.batch;
  EXPECT_WORKS(quire_op_attention(rig.stream.get(), &op, err));
  result->attention = std::move(out.bytes);
  result->lse = std::move(lse.bytes);
}

void recur(const Rig& rig, const Arrays& arrays, int64_t all, Result* result) {
  Bytes q(all, {2, kState}, 4), k(all, {2, kState}, 5), v(all, {2, kState}, 6), gate(all, {2}, 7), beta(all, {2}, 8),
      o(all, {2, kState}, 0);
  quire_gated_delta delta{};
  delta.struct_size = sizeof delta;
  EXPECT_WORKS(quire_memory_get_paged_state(rig.memory.get(), 1, 0, 0, &delta.state, err));
  delta.query = q.tensor;
  delta.key = k.tensor;
  delta.value = v.tensor;
  delta.gate = gate.tensor;
  delta.beta = beta.tensor;
  delta.out = o.tensor;
  delta.batch = &arrays.batches[delta.state.group];
  EXPECT_WORKS(quire_op_gated_delta(rig.stream.get(), &delta, err));
  EXPECT_WORKS(quire_stream_synchronize(rig.stream.get(), -1, err));
  result->state = std::move(o.bytes);
}

// What a captured graph relies on. The copy of the first step's batches still names the arrays' memory.
void expect_same_places(const Arrays& first, const Arrays& arrays) {
  EXPECT_EQ(arrays.bytes, first.bytes);
  ASSERT_EQ(arrays.batches.size(), first.batches.size());
  const size_t bytes = arrays.batches.size() * sizeof arrays.batches[0];
  EXPECT_EQ(std::memcmp(arrays.batches.data(), first.batches.data(), bytes), 0);
}

// Two steps of three, then two sequences: append, attention with a plan, gated delta. In the graph's shapes, or in the step's.
Result run(bool graph) {
  Rig rig("", 48, "cpu");
  Result result;
  if (!rig.whole()) return result;
  EXPECT_WORKS(quire_memory_poison(rig.memory.get(), rig.stream.get(), 0x11, err));
  Arrays arrays, first;
  std::vector<quire_sequence_id> ids(3);
  for (quire_sequence_id& id : ids) EXPECT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &id, nullptr), QUIRE_OK);
  const std::vector<quire_symbol> symbols(64, 7);
  for (uint32_t round = 0; round < 2; ++round) {
    const uint32_t rows = 3 - round;
    std::vector<quire_reserve_entry> entries(rows);
    std::vector<quire_reserve_result> got(rows);
    for (uint32_t i = 0; i < rows; ++i) {
      entries[i].sequence = ids[i];
      entries[i].symbols_position = round == 0 ? 0 : 3 + 7 * i;
      entries[i].num_symbols = entries[i].num_tokens = round == 0 ? 3 + 7 * i : 1 + i;
      entries[i].flags = QUIRE_ENTRY_NO_STOP;
    }
    quire_step step{};
    EXPECT_WORKS(quire_reserve(rig.cache.get(), entries.data(), rows, symbols.data(), symbols.size(), got.data(), &step, err));
    uint32_t tokens = 0;
    for (const quire_reserve_result& r : got) {
      EXPECT_EQ(r.code, QUIRE_OK);
      tokens += r.num_tokens;
    }
    EXPECT_LT(tokens, kMaxTokens);
    arrays.fill(rig, step, graph ? kMaxRows : 0, graph ? kMaxTokens : 0);
    EXPECT_WORKS(quire_memory_prepare_step(rig.memory.get(), step, rig.stream.get(), err));
    if (round == 0) first = arrays;
    if (graph) expect_same_places(first, arrays);
    const int64_t all = graph ? kMaxTokens : tokens;
    attend(rig, arrays, all, &result);
    recur(rig, arrays, all, &result);
    std::vector<quire_commit_entry> commits(rows);
    for (uint32_t i = 0; i < rows; ++i) {
      commits[i].sequence = ids[i];
      commits[i].num_accepted = got[i].num_tokens;
    }
    EXPECT_WORKS(quire_commit(step, commits.data(), rows, nullptr, 0, err));
    result.tokens = tokens;
  }
  uint64_t regions = 0;
  EXPECT_EQ(quire_config_list_regions(rig.config.get(), 0, nullptr, 0, 0, &regions, nullptr), QUIRE_OK);
  for (uint32_t i = 0; i < regions; ++i) {
    void* address = nullptr;
    uint64_t bytes = 0;
    EXPECT_EQ(quire_memory_get_region(rig.memory.get(), i, &address, &bytes, nullptr), QUIRE_OK);
    const auto* from = static_cast<const uint8_t*>(address);
    result.memory.emplace_back(from, from + bytes);
  }
  return result;
}

TEST(Graph, PaddedRowsAndTokensChangeNoByte) {
  const Result plain = run(false), graph = run(true);
  ASSERT_GT(plain.tokens, 0U);
  ASSERT_FALSE(plain.memory.empty());
  EXPECT_TRUE(graph.memory == plain.memory);
  // Outputs of the step's tokens bit by bit; behind them nothing was written.
  EXPECT_TRUE(graph.attention == plain.attention);
  EXPECT_TRUE(graph.lse == plain.lse);
  EXPECT_TRUE(graph.state == plain.state);
  const size_t row = kHeads * kDimV * 4;
  for (size_t i = plain.tokens * row; i < graph.attention.size(); ++i) ASSERT_EQ(graph.attention[i], kDirt) << i;
  EXPECT_NE(std::vector<uint8_t>(row, kDirt), std::vector<uint8_t>(graph.attention.begin(), graph.attention.begin() + row));
}

}  // namespace
}  // namespace quire::test
