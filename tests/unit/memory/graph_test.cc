// A step in the shapes of a captured graph: kernels of the CPU driver that take all its rows and tokens leave what they leave without.
#include "../c_api/api_rig.h"

namespace quire::test {
namespace {

constexpr uint32_t kMaxRows = 6, kMaxTokens = 40, kPitch = 32;
constexpr uint8_t kDirt = 0xa5;
constexpr int64_t kHeads = 4, kHeadsKv = 2, kDimK = 64, kDimV = 32, kState = 16;

// The arrays of a step, in buffers that are never cleared.
struct Arrays {
  std::vector<int32_t> table = std::vector<int32_t>(size_t{kMaxRows} * kPitch, 0x5a5a5a);
  std::vector<int32_t> kv_len = std::vector<int32_t>(kMaxRows, 0x5a5a5a), indptr = std::vector<int32_t>(kMaxRows + 1, 0x5a5a5a);
  std::vector<int32_t> read = kv_len, write = kv_len, positions = std::vector<int32_t>(kMaxTokens, 0x5a5a5a);
  std::vector<int64_t> slots = std::vector<int64_t>(kMaxTokens, 0x5a5a5a);

  void fill(const Rig& rig, quire_step_id step, uint32_t rows, uint32_t tokens) {
    quire_layer_place attention{}, state{};
    attention.struct_size = state.struct_size = sizeof attention;
    ASSERT_EQ(quire_config_get_place(rig.config.get(), 0, 0, &attention, nullptr), QUIRE_OK);
    ASSERT_EQ(quire_config_get_place(rig.config.get(), 1, 0, &state, nullptr), QUIRE_OK);
    const auto one = [&](quire_fill_kind kind, const quire_layer_place& of, void* to, uint64_t capacity, uint64_t pitch) {
      quire_fill f{};
      f.struct_size = sizeof f;
      f.kind = kind;
      f.group = of.group;
      f.first_column = of.column;
      f.num_columns = 1;
      f.destination = to;
      f.capacity = capacity;
      f.pitch = pitch;
      f.num_rows = rows;
      f.num_tokens = tokens;
      return f;
    };
    const quire_fill fills[] = {
        one(QUIRE_FILL_TABLE, attention, table.data(), table.size(), kPitch),
        one(QUIRE_FILL_SLOTS, attention, slots.data(), slots.size(), 0),
        one(QUIRE_FILL_KV_LEN, attention, kv_len.data(), kv_len.size(), 0),
        one(QUIRE_FILL_QUERY_INDPTR, attention, indptr.data(), indptr.size(), 0),
        one(QUIRE_FILL_POSITIONS, attention, positions.data(), positions.size(), 0),
        one(QUIRE_FILL_STATE_READ, state, read.data(), read.size(), 0),
        one(QUIRE_FILL_STATE_WRITE, state, write.data(), write.size(), 0),
    };
    std::vector<uint64_t> written(std::size(fills));
    EXPECT_WORKS(quire_step_fill(rig.cache.get(), step, fills, sizeof fills[0], std::size(fills), written.data(), err));
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
void attend(const Rig& rig, const Arrays& arrays, uint32_t rows, int64_t all, Result* result) {
  Bytes key(all, {kHeadsKv, kDimK}, 1), value(all, {kHeadsKv, kDimV}, 2), query(all, {kHeads, kDimK}, 3), out(all, {kHeads, kDimV}, 0);
  Bytes lse(all, {kHeads}, 0);
  std::vector<float> cosines(size_t{64} * 8, 0.6F), sines(size_t{64} * 8, 0.8F);
  quire_kv_append append{};
  append.struct_size = sizeof append;
  EXPECT_WORKS(quire_memory_get_paged_kv(rig.memory.get(), 0, 0, &append.kv, err));
  append.key = key.tensor;
  append.value = value.tensor;
  append.slots = arrays.slots.data();
  append.num_tokens = static_cast<uint64_t>(all);
  append.rope_cos = cosines.data();
  append.rope_sin = sines.data();
  append.positions = arrays.positions.data();
  append.rope_dim = 16;
  EXPECT_WORKS(quire_op_kv_append(rig.stream.get(), &append, err));
  quire_attention op{};
  op.struct_size = sizeof op;
  op.flags = QUIRE_ATTENTION_CAUSAL | QUIRE_ATTENTION_BATCH_INVARIANT;
  op.kv = append.kv;
  op.query = query.tensor;
  op.out = out.tensor;
  op.lse = lse.tensor;
  op.table = arrays.table.data();
  op.table_pitch = kPitch;
  op.query_indptr = arrays.indptr.data();
  op.kv_len = arrays.kv_len.data();
  op.num_rows = rows;
  EXPECT_WORKS(quire_op_attention(rig.stream.get(), &op, err));
  result->attention = std::move(out.bytes);
  result->lse = std::move(lse.bytes);
}

void recur(const Rig& rig, const Arrays& arrays, uint32_t rows, int64_t all, Result* result) {
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
  delta.query_indptr = arrays.indptr.data();
  delta.state_read = arrays.read.data();
  delta.state_write = arrays.write.data();
  delta.num_rows = rows;
  EXPECT_WORKS(quire_op_gated_delta(rig.stream.get(), &delta, err));
  EXPECT_WORKS(quire_stream_synchronize(rig.stream.get(), -1, err));
  result->state = std::move(o.bytes);
}

// Two steps of three, then two sequences: append, attention with a plan, gated delta. In the graph's shapes, or in the step's.
Result run(bool graph) {
  Rig rig("", 48, "cpu");
  Result result;
  if (!rig.whole()) return result;
  EXPECT_WORKS(quire_memory_poison(rig.memory.get(), rig.stream.get(), 0x11, err));
  Arrays arrays;
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
    quire_step_id step = 0;
    EXPECT_WORKS(quire_reserve(rig.cache.get(), entries.data(), rows, symbols.data(), symbols.size(), got.data(), &step, err));
    uint32_t tokens = 0;
    for (const quire_reserve_result& r : got) {
      EXPECT_EQ(r.code, QUIRE_OK);
      tokens += r.num_tokens;
    }
    EXPECT_LT(tokens, kMaxTokens);
    arrays.fill(rig, step, graph ? kMaxRows : 0, graph ? kMaxTokens : 0);
    EXPECT_WORKS(quire_memory_prepare_step(rig.memory.get(), rig.cache.get(), step, rig.stream.get(), err));
    const uint32_t all_rows = graph ? kMaxRows : rows;
    const int64_t all = graph ? kMaxTokens : tokens;
    attend(rig, arrays, all_rows, all, &result);
    recur(rig, arrays, all_rows, all, &result);
    std::vector<quire_commit_entry> commits(rows);
    for (uint32_t i = 0; i < rows; ++i) {
      commits[i].sequence = ids[i];
      commits[i].num_accepted = got[i].num_tokens;
    }
    EXPECT_WORKS(quire_commit(rig.cache.get(), step, commits.data(), rows, nullptr, 0, err));
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
