// One row of ids serves every shard: two tensor-parallel ranks with unequal memory in each of two pipeline stages that hold 8 and 7
// attention layers. Sequences with common prefixes run; the tables, slots and state slots of a step are filled for every shard, what it
// computes is written there in every shard, and everything live is read back through the tables. Rows carry the hash of the prefix that
// they are of.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <tuple>

#include "core/model/dtype.h"
#include "core/plan/cache_config.h"
#include "core/step/kv_cache.h"
#include "tests/model/follow.h"

namespace quire {
namespace {

constexpr uint64_t kLength = 160;
constexpr uint32_t kChunk = 40;

std::vector<quire_layer> thirty_layers() {
  std::vector<quire_layer> layers(30);
  for (uint32_t i = 0; i < layers.size(); ++i) {
    quire_layer& layer = layers[i];
    layer.struct_size = sizeof layer;
    layer.layer = i;
    layer.dtype = kBFloat16;
    if (i % 2 == 0) {
      layer.kind = i % 6 == 0 ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL;
      layer.window = i % 6 == 0 ? 24 : 0;
      layer.num_kv_heads = 2;
      layer.head_dim_k = layer.head_dim_v = 8;
    } else {
      layer.kind = QUIRE_LAYER_STATE;
      layer.num_state_tensors = 2;
      layer.state[0] = {kBFloat16, 2, {3, 8, 0, 0}};
      layer.state[1] = {kFloat32, 2, {2, 30, 0, 0}};
      layer.state_shard[0] = 2;
      layer.state_shard[1] = 1;
    }
  }
  return layers;
}

std::shared_ptr<const Config> plan_of(const std::string& policy) {
  const auto layers = thirty_layers();
  auto model = Model::create(layers, kLength);
  EXPECT_TRUE(model.ok()) << model.status().message();
  const uint64_t memory[] = {3000000, 2600000, 2900000, 2500000};
  quire_plan_options options{};
  options.struct_size = sizeof options;
  options.policy = {policy.data(), policy.size()};
  options.tensor_parallel = options.pipeline_parallel = 2;
  options.memory_bytes = memory;
  options.num_memory_bytes = 4;
  options.block_tokens = options.kernel_block_tokens = 4;
  options.max_tokens_in_flight = 2 * kChunk;
  auto made = plan(*model, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  uint64_t fewest = ~uint64_t{0};
  for (size_t s = 0; s < 4; ++s) fewest = std::min(fewest, memory[s] / (*made)->shards[s].page_bytes);
  EXPECT_EQ((*made)->num_pages, fewest);
  uint32_t held[2] = {0, 0};
  for (const CachePlace& place : (*made)->places) held[place.stage] += (*made)->groups[place.group.value].is_state() ? 0 : 1;
  EXPECT_EQ(held[0], 8u);
  EXPECT_EQ(held[1], 7u);
  return *made;
}

struct Sequence {
  SequenceId id;
  std::vector<quire_symbol> text;
  std::vector<uint64_t> prefix;  // [n]: hash of the first n symbols
  uint64_t position = 0;
  bool fresh = true;
};

struct Row {
  Sequence* of;
  uint64_t position;
  uint32_t tokens;
};

class Engine {
 public:
  Engine(const Config& config, Cache* cache, model::Follow* follow, uint64_t seed)
      : config_(config), cache_(*cache), follow_(*follow), random_(static_cast<uint32_t>(seed)) {}

  void run(int steps) {
    for (int n = 0; n < steps && !testing::Test::HasFatalFailure(); ++n) {
      while (running_.size() < 3) open();
      step();
    }
  }

  uint64_t hits() const { return hits_; }
  uint64_t rows_read() const { return rows_read_; }

 private:
  void open() {
    Sequence one;
    one.id = *cache_.sequence_create(nullptr);
    const uint32_t family = random_() % 3;  // texts share prefixes inside a family
    const uint64_t common = 20 + random_() % 100;
    for (uint64_t i = 0, n = common + random_() % 40; i < n; ++i) {
      one.text.push_back(static_cast<quire_symbol>(i < common ? 1000 * (family + 1) + i : random_() % 900));
    }
    one.prefix.push_back(1);
    for (const quire_symbol symbol : one.text)
      one.prefix.push_back((one.prefix.back() ^ static_cast<uint64_t>(symbol)) * 0x9e3779b97f4a7c15u);
    running_.push_back(std::move(one));
  }

  void step() {
    std::vector<quire_reserve_entry> entries;
    std::vector<quire_symbol> symbols;
    for (Sequence& one : running_) {
      quire_reserve_entry entry{};
      entry.sequence = one.id.value;
      entry.symbols_position = one.position;
      entry.symbols_offset = symbols.size();
      entry.num_tokens = static_cast<uint32_t>(std::min<uint64_t>(1 + random_() % (kChunk / 3), one.text.size() - one.position));
      entry.num_symbols = static_cast<uint32_t>(one.text.size() - one.position);
      entry.flags = one.fresh ? QUIRE_ENTRY_MATCH : 0;
      symbols.insert(symbols.end(), one.text.begin() + static_cast<int64_t>(one.position), one.text.end());
      entries.push_back(entry);
    }
    std::vector<quire_reserve_result> results(entries.size());
    StepId step;
    const Status status = cache_.reserve(entries, symbols, results, &step);
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<Row> rows;
    std::vector<quire_commit_entry> commits;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (results[i].code != QUIRE_OK) continue;
      running_[i].fresh = false;
      hits_ += results[i].hit_tokens;
      rows.push_back({&running_[i], results[i].position, results[i].num_tokens});
      quire_commit_entry commit{};
      commit.sequence = running_[i].id.value;
      commit.num_accepted = results[i].num_tokens;
      commits.push_back(commit);
    }
    ASSERT_FALSE(rows.empty());
    ASSERT_EQ(follow_.take(cache_, step), "");
    ASSERT_EQ(follow_.compare(cache_, step), "");
    for (uint32_t g = 0; g < config_.groups.size(); ++g) {
      for (uint32_t s = 0; s < config_.shards.size(); ++s) {
        config_.groups[g].is_state() ? states(step, g, s, rows) : tokens(step, g, s, rows);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
    ASSERT_TRUE(cache_.commit(step, commits, {}).ok());
    for (const Row& row : rows) row.of->position = row.position + row.tokens;
    for (size_t i = running_.size(); i-- > 0;) {
      if (running_[i].position < running_[i].text.size()) continue;
      ASSERT_TRUE(cache_.sequence_finish(running_[i].id).ok());
      running_.erase(running_.begin() + static_cast<int64_t>(i));
    }
  }

  template <typename T>
  std::vector<T> filled(StepId step, quire_fill_kind kind, uint32_t g, uint32_t shard, uint64_t pitch, uint64_t elements) {
    std::vector<T> out(elements, -7);
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = kind;
    fill.group = g;
    fill.shard = shard;
    fill.destination = out.data();
    fill.capacity = out.size();
    fill.pitch = pitch;
    fill.fill_value = -1;
    uint64_t written = 0;
    const Status status = cache_.step_fill(step, fill, &written);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_LE(written, elements);
    return out;
  }

  // What lies at an address of one shard: a hash that says whose it is.
  uint64_t& byte(uint32_t shard, uint32_t region, int64_t address) { return memory_[{shard, region, address}]; }
  static uint64_t of_place(uint64_t hash, uint32_t place, uint32_t side) { return hash * 31 + place * 2 + side; }

  // Every id lowered as this shard lowers it; new tokens written through slots, all live ones read through tables.
  void tokens(StepId step, uint32_t g, uint32_t s, const std::vector<Row>& rows) {
    const GroupPlan& group = config_.groups[g];
    const quire_lowering& low = config_.shards[s].lowering[g];
    const uint64_t kernel_blocks = kLength / group.kernel_block_tokens + group.kernel_blocks_per_part + 1;
    const uint64_t columns = group.ids_per_block;
    uint64_t num_tokens = 0;
    for (const Row& row : rows) num_tokens += row.tokens;
    const auto raw = filled<int32_t>(step, QUIRE_FILL_RAW_TABLE, g, s, kernel_blocks, columns * rows.size() * kernel_blocks);
    const auto table = filled<int32_t>(step, QUIRE_FILL_TABLE, g, s, kernel_blocks, columns * rows.size() * kernel_blocks);
    const auto slots = filled<int64_t>(step, QUIRE_FILL_SLOTS, g, s, num_tokens, columns * num_tokens);
    for (uint64_t c = 0; c < columns; ++c) {
      uint64_t first = 0;
      for (size_t r = 0; r < rows.size(); ++r) {
        const int32_t* const ids = &raw[(c * rows.size() + r) * kernel_blocks];
        const int32_t* const lowered = &table[(c * rows.size() + r) * kernel_blocks];
        const uint64_t end = rows[r].position + rows[r].tokens;
        for (uint64_t t = group.live.tail_begin(end - 1); t < end; ++t) {
          const auto id = static_cast<uint64_t>(ids[t / group.block_tokens]);
          const uint64_t k = t % group.block_tokens / group.kernel_block_tokens;
          ASSERT_EQ(static_cast<uint64_t>(lowered[t / group.kernel_block_tokens]),
                    id / low.parts_per_page * low.page_factor + id % low.parts_per_page * low.part_factor + k * low.block_factor)
              << "group " << g << " column " << c << " token " << t;
        }
        for (uint64_t t = rows[r].position; t < end; ++t) {
          const int64_t slot = slots[c * num_tokens + first + t - rows[r].position];
          if (slot >= 0)
            rows_of(g, s, c, slot / group.kernel_block_tokens, slot % group.kernel_block_tokens, rows[r].of->prefix[t + 1], true);
        }
        for (uint64_t t = group.live.tail_begin(end - 1); t < end; ++t) {
          rows_of(g, s, c, lowered[t / group.kernel_block_tokens], static_cast<int64_t>(t % group.kernel_block_tokens),
                  rows[r].of->prefix[t + 1], false);
          if (testing::Test::HasFatalFailure()) return;
        }
        first += rows[r].tokens;
      }
    }
  }

  // One token of every layer that this shard has in a column.
  void rows_of(uint32_t g, uint32_t s, uint64_t column, int64_t lowered, int64_t t, uint64_t hash, bool write) {
    for (const uint32_t place : config_.groups[g].places) {
      const quire_kv_view& kv = config_.shards[s].views[place].kv;
      if (config_.places[place].column != column || kv.num_sides == 0) continue;
      for (uint32_t side = 0; side < 2; ++side) {
        uint64_t& row = byte(s, kv.region, kv.offset[side] + lowered * kv.unit[side] + t * kv.stride_token[side]);
        if (write) row = of_place(hash, place, side);
        ASSERT_EQ(row, of_place(hash, place, side)) << "shard " << s << " layer " << config_.places[place].layer << " side " << side;
        ++rows_read_;
      }
    }
  }

  void states(StepId step, uint32_t g, uint32_t s, const std::vector<Row>& rows) {
    const uint64_t columns = config_.groups[g].ids_per_block;
    const auto read = filled<int32_t>(step, QUIRE_FILL_STATE_READ, g, s, rows.size(), columns * rows.size());
    const auto write = filled<int32_t>(step, QUIRE_FILL_STATE_WRITE, g, s, rows.size(), columns * rows.size());
    for (const uint32_t place : config_.groups[g].places) {
      for (const quire_state_view& state : config_.shards[s].views[place].states) {
        for (size_t r = 0; r < rows.size(); ++r) {
          const uint64_t at = config_.places[place].column * rows.size() + r;
          const Row& row = rows[r];
          if (row.position != 0) {
            ASSERT_EQ(byte(s, state.region, state.offset + read[at] * state.unit), of_place(row.of->prefix[row.position], place, 0))
                << "state of layer " << config_.places[place].layer << " in shard " << s;
            ++rows_read_;
          }
          byte(s, state.region, state.offset + write[at] * state.unit) = of_place(row.of->prefix[row.position + row.tokens], place, 0);
        }
      }
    }
  }

  const Config& config_;
  Cache& cache_;
  model::Follow& follow_;  // of a plan of its own
  std::mt19937 random_;
  std::vector<Sequence> running_;
  std::map<std::tuple<uint32_t, uint32_t, int64_t>, uint64_t> memory_;
  uint64_t hits_ = 0;
  uint64_t rows_read_ = 0;
};

TEST(Tables, OneRowOfIdsServesEveryShard) {
  const char* given = std::getenv("QUIRE_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const char* policy : {"auto", "vllm"}) {
    SCOPED_TRACE(std::string(policy) + ", QUIRE_SEED=" + std::to_string(seed));
    const auto config = plan_of(policy);
    quire_cache_options options{};
    options.struct_size = sizeof options;
    options.max_sequences = 8;
    options.max_tokens_per_step = kChunk;
    options.hash_seed = 7;
    auto cache = Cache::create(config, options);
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    model::Follow follow(plan_of(policy), options);
    Engine engine(*config, cache.value().get(), &follow, seed);
    engine.run(50);
    const Status verified = cache.value()->verify();
    EXPECT_TRUE(verified.ok()) << verified.message();
    std::printf("%s: %llu rows and states read back, %llu tokens hit\n", policy, static_cast<unsigned long long>(engine.rows_read()),
                static_cast<unsigned long long>(engine.hits()));
    EXPECT_GT(engine.rows_read(), 10000u);
    EXPECT_GT(engine.hits(), 0u);
  }
}

}  // namespace
}  // namespace quire
