// Caches planned with each scheme whose rows carry scales, from the plan to numbers: prompts in chunks, tokens one by one, a prefix that is
// found again. Method: against sums in fp64 over what was appended, on the CPU driver, within what the scheme's format may lose.
#include <cmath>
#include <vector>

#include "../c_api/api_rig.h"

namespace quire::test {
namespace {

constexpr quire_dtype kFloat{QUIRE_DTYPE_FLOAT, 32, 1}, kBrain{QUIRE_DTYPE_BFLOAT, 16, 1}, kE4m3{QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
constexpr quire_dtype kE8m0{QUIRE_DTYPE_FLOAT8_E8M0FNU, 8, 1};
constexpr uint32_t kWindow = 24;

struct Scheme {
  const char* name;
  quire_dtype dtype;
  quire_kv_scales scales;
  uint64_t cell_bytes;  // of a row of K of one head, of a layer with heads of 64
  double tolerance;     // relative error of a result of all heads
};

constexpr Scheme kSchemes[] = {{"int8_per_token_head", {QUIRE_DTYPE_INT, 8, 1}, QUIRE_KV_SCALES_ROW, 68, 0.02},
                               {"int4_per_token_head", {QUIRE_DTYPE_INT, 4, 1}, QUIRE_KV_SCALES_ROW, 36, 0.3},
                               {"fp8_per_token_head", kE4m3, QUIRE_KV_SCALES_ROW, 68, 0.08},
                               {"fp4", {QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1}, QUIRE_KV_SCALES_16, 36, 0.25}};

struct Sequence {
  quire_sequence_id id = 0;
  uint32_t seed = 0;
  uint32_t length = 0;
  uint32_t hit = 0;
};

// What the model makes of a position: a number in [-1, 1).
float value_of(uint32_t seed, uint32_t layer, uint32_t side, uint32_t position, uint32_t head, uint32_t d) {
  uint64_t x = (((uint64_t{seed} * 31 + layer) * 31 + side) * 8191 + position) * 131 + head;
  x = (x * 257 + d) * 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return static_cast<float>(x >> 40) / 8388608.0f - 1.0f;
}

quire_tensor dense(std::vector<float>* of, int64_t tokens, int64_t heads, int64_t dim) {
  quire_tensor t{};
  of->assign(static_cast<size_t>(tokens * heads * dim), 0.0f);
  t.data = of->data();
  t.dtype = kFloat;
  t.device_type = QUIRE_DEVICE_CPU;
  t.ndim = 3;
  t.shape[0] = tokens, t.shape[1] = heads, t.shape[2] = dim;
  t.stride[2] = sizeof(float), t.stride[1] = dim * t.stride[2], t.stride[0] = heads * t.stride[1];
  return t;
}

class Engine {
 public:
  Engine(const char* policy, std::vector<quire_layer> layers, quire_dtype dtype, quire_kv_scales scales)
      : layers_(std::move(layers)), rig("", 64, "cpu", policy, layers_, 0, dtype, scales) {}

  Sequence begin(uint32_t seed) const {
    Sequence s;
    s.seed = seed;
    EXPECT_WORKS(quire_sequence_create(rig.cache.get(), nullptr, &s.id, err));
    return s;
  }

  // The next tokens of a sequence through all layers; the largest relative error of a result is kept in `worst`.
  void step(Sequence* s, uint32_t tokens, double* worst) const {
    std::vector<quire_symbol> symbols;
    for (uint32_t i = 0; i < tokens; ++i) symbols.push_back(s->seed * 1000 + s->length + i);
    quire_reserve_entry entry{};
    entry.sequence = s->id;
    entry.symbols_position = s->length;
    entry.num_symbols = entry.num_tokens = tokens;
    if (s->length == 0) entry.flags = QUIRE_ENTRY_MATCH;
    quire_reserve_result result{};
    quire_step step{};
    EXPECT_WORKS(quire_reserve(rig.cache.get(), &entry, 1, symbols.data(), symbols.size(), &result, &step, err));
    ASSERT_EQ(result.code, QUIRE_OK);
    EXPECT_WORKS(quire_memory_prepare_step(rig.memory.get(), step, rig.stream.get(), err));
    if (s->length == 0) s->hit = result.hit_tokens;
    const uint32_t computed = result.num_tokens;
    const auto first = static_cast<uint32_t>(result.position);
    for (const quire_layer& layer : layers_) run(layer, step, *s, first, computed, worst);
    EXPECT_WORKS(quire_stream_synchronize(rig.stream.get(), -1, err));
    quire_commit_entry done{};
    done.sequence = s->id;
    done.num_accepted = computed;
    EXPECT_WORKS(quire_commit(step, &done, 1, nullptr, 0, err));
    s->length = first + computed;
  }

 private:
  quire_batch batch_of(quire_step step, uint32_t group, std::vector<std::max_align_t>* arrays) const {
    quire_batch_options options{};
    options.struct_size = sizeof options;
    uint64_t bytes = 0;
    EXPECT_WORKS(quire_step_get_batch(step, &options, nullptr, 0, 0, &bytes, err));
    arrays->resize(bytes / sizeof(std::max_align_t) + 1);
    options.memory = arrays->data();
    options.bytes = bytes;
    quire_config_info plan{};
    plan.struct_size = sizeof plan;
    EXPECT_WORKS(quire_config_get_info(rig.config.get(), &plan, err));
    std::vector<quire_batch> all(plan.num_groups);
    EXPECT_WORKS(quire_step_get_batch(step, &options, all.data(), sizeof all[0], all.size(), &bytes, err));
    return all[group];
  }

  void run(const quire_layer& layer, quire_step step, const Sequence& s, uint32_t first, uint32_t tokens, double* worst) const {
    quire_kv_append append{};
    append.struct_size = sizeof append;
    EXPECT_WORKS(quire_memory_get_paged_kv(rig.memory.get(), layer.layer, 0, &append.kv, err));
    std::vector<std::max_align_t> arrays;
    const quire_batch batch = batch_of(step, append.kv.group, &arrays);
    append.batch = &batch;
    std::vector<float> made[2], queries, results;
    const int64_t heads = layer.num_kv_heads;
    for (uint32_t side = 0; side < append.kv.num_sides; ++side) {
      const uint32_t dim = append.kv.side[side].head_dim;
      (side == 0 ? append.key : append.value) = dense(&made[side], tokens, heads, dim);
      for (size_t i = 0; i < made[side].size(); ++i) {
        const size_t row = i / dim;
        made[side][i] = value_of(s.seed, layer.layer, side, first + static_cast<uint32_t>(row / static_cast<size_t>(heads)),
                                 static_cast<uint32_t>(row % static_cast<size_t>(heads)), static_cast<uint32_t>(i % dim));
      }
    }
    EXPECT_WORKS(quire_op_kv_append(rig.stream.get(), &append, err));
    quire_attention op{};
    op.struct_size = sizeof op;
    EXPECT_WORKS(quire_attention_from_layer(&layer, &op, err));
    op.kv = append.kv;
    op.batch = &batch;
    const uint32_t dim_v = append.kv.num_sides == 2 ? append.kv.side[1].head_dim : op.head_dim_v;
    op.query = dense(&queries, tokens, layer.num_q_heads, layer.head_dim_k);
    for (size_t i = 0; i < queries.size(); ++i) queries[i] = 2 * value_of(7, layer.layer, 2, first, 0, static_cast<uint32_t>(i));
    op.out = dense(&results, tokens, layer.num_q_heads, dim_v);
    EXPECT_WORKS(quire_op_attention(rig.stream.get(), &op, err));
    for (uint32_t t = 0; t < tokens; ++t) {
      for (uint32_t head = 0; head < layer.num_q_heads; ++head) {
        const size_t row = size_t{t} * layer.num_q_heads + head;
        const std::vector<double> want =
            wanted(layer, s, first + t, head / (layer.num_q_heads / layer.num_kv_heads), &queries[row * layer.head_dim_k], dim_v);
        double wrong = 0, size = 0;
        for (uint32_t d = 0; d < dim_v; ++d) {
          const double off = double{results[row * dim_v + d]} - want[d];
          wrong += off * off;
          size += want[d] * want[d];
        }
        *worst = std::max(*worst, wrong >= 0 ? std::sqrt(wrong / size) : INFINITY);
      }
    }
  }

  static std::vector<double> wanted(const quire_layer& layer, const Sequence& s, uint32_t position, uint32_t kv_head, const float* query,
                                    uint32_t dim_v) {
    const bool latent = layer.head_dim_v == 0;
    std::vector<double> out(dim_v, 0.0);
    double sum = 0;
    const uint32_t begin = layer.window != 0 && position + 1 > layer.window ? position + 1 - static_cast<uint32_t>(layer.window) : 0;
    for (uint32_t p = begin; p <= position; ++p) {
      double logit = 0;
      for (uint32_t d = 0; d < layer.head_dim_k; ++d) logit += double{query[d]} * double{value_of(s.seed, layer.layer, 0, p, kv_head, d)};
      const double weight = std::exp(logit / std::sqrt(static_cast<double>(layer.head_dim_k)));
      sum += weight;
      for (uint32_t d = 0; d < dim_v; ++d) out[d] += weight * double{value_of(s.seed, layer.layer, latent ? 0 : 1, p, kv_head, d)};
    }
    for (double& v : out) v /= sum;
    return out;
  }

  std::vector<quire_layer> layers_;

 public:
  Rig rig;
};

// Two sequences with one prompt, one after the other, and one of its own beside them.
double worst_of(const Engine& engine) {
  double worst = 0;
  Sequence a = engine.begin(1), other = engine.begin(2);
  engine.step(&a, 21, &worst);
  engine.step(&other, 9, &worst);
  engine.step(&a, 19, &worst);
  for (uint32_t i = 0; i < 20; ++i) {
    engine.step(&a, 1, &worst);
    engine.step(&other, 1, &worst);
  }
  Sequence again = engine.begin(1);
  engine.step(&again, 41, &worst);
  EXPECT_GE(again.hit, 16u) << "attention reads blocks that another sequence wrote";
  for (uint32_t i = 0; i < 5; ++i) engine.step(&again, 1, &worst);
  EXPECT_EQ(a.length, 60u);
  EXPECT_WORKS(quire_cache_verify(engine.rig.cache.get(), err));
  return worst;
}

TEST(CodedLayers, EverySchemeOfAPlanRuns) {
  quire_layer full = attention_layer(0), window = attention_layer(1), odd = attention_layer(2);
  window.kind = QUIRE_LAYER_SLIDING_WINDOW;
  window.window = kWindow;
  odd.num_kv_heads = 3, odd.num_q_heads = 9, odd.head_dim_v = 64;
  for (const char* policy : {"vllm", "auto"}) {
    for (const Scheme& scheme : kSchemes) {
      SCOPED_TRACE(std::string(policy) + ", " + scheme.name);
      // Policy vllm has no plan for layers of different widths beside windows.
      const std::vector<quire_layer> layers =
          policy[0] == 'v' ? std::vector<quire_layer>{full, window} : std::vector<quire_layer>{full, window, odd};
      const Engine engine(policy, layers, scheme.dtype, scheme.scales);
      ASSERT_TRUE(engine.rig.whole());
      quire_paged_kv kv{};
      EXPECT_WORKS(quire_memory_get_paged_kv(engine.rig.memory.get(), 0, 0, &kv, err));
      EXPECT_EQ(kv.codec, QUIRE_CODEC_RECORD);
      EXPECT_EQ(kv.data_dtype.bits, scheme.dtype.bits);
      EXPECT_EQ(kv.side[0].scales_offset, 64 * scheme.dtype.bits / 8);
      EXPECT_EQ(std::min(kv.side[0].stride_token, kv.side[0].stride_head), static_cast<int64_t>(scheme.cell_bytes));
      const double worst = worst_of(engine);
      EXPECT_LE(worst, scheme.tolerance);
      EXPECT_GT(worst, scheme.tolerance / 20) << "nothing was quantised";
    }
  }
}

std::string explained(const Rig& rig) {
  uint64_t count = 0;
  EXPECT_WORKS(quire_config_describe_json(rig.config.get(), nullptr, 0, &count, err));
  std::string all(count, ' ');
  EXPECT_WORKS(quire_config_describe_json(rig.config.get(), all.data(), all.size(), &count, err));
  return all;
}

// A plan says whose ops know its rows; here it is asked of the driver.
TEST(CodedLayers, ThePlanSaysWhetherOpsKnowTheRows) {
  const auto encoded = [](quire_codec codec, quire_codec_params params) {
    quire_layer layer = attention_layer(0);
    layer.head_dim_v = 64;
    layer.codec = codec;
    layer.codec_params = params;
    return layer;
  };
  const auto record = [&](quire_dtype data, quire_dtype scale, uint32_t run, uint32_t scale_bytes, uint32_t other_side) {
    const auto bytes = static_cast<uint32_t>(64 * data.bits / 8);
    return encoded(QUIRE_CODEC_RECORD, {{bytes, bytes}, {scale_bytes, other_side}, {0, 0}, data, scale, {}, run, 0, 0});
  };
  constexpr quire_dtype kInt8{QUIRE_DTYPE_INT, 8, 1}, kInt4{QUIRE_DTYPE_INT, 4, 1}, kFp4{QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1};
  quire_layer doubles = attention_layer(0), wide = attention_layer(0);
  doubles.dtype = {QUIRE_DTYPE_FLOAT, 64, 1};
  wide.head_dim_k = 1040;
  quire_layer tailed = encoded(QUIRE_CODEC_RECORD, {{56, 56}, {4, 4}, {16, 16}, kInt8, kFloat, kBrain, 0, 0, 0});
  quire_layer odd_tail = encoded(QUIRE_CODEC_RECORD, {{56, 56}, {4, 4}, {8, 8}, kInt8, kFloat, kInt8, 0, 0, 0});
  quire_layer odd_row = encoded(QUIRE_CODEC_RECORD, {{32, 32}, {4, 4}, {2, 2}, kInt4, kFloat, kBrain, 0, 0, 0});
  const quire_layer layers[] = {attention_layer(0),
                                doubles,
                                wide,
                                encoded(QUIRE_CODEC_TILED, {}),
                                encoded(QUIRE_CODEC_SHUFFLED, {}),
                                encoded(QUIRE_CODEC_COLUMN_K, {}),
                                encoded(QUIRE_CODEC_AMX, {}),
                                record(kInt8, kFloat, 0, 4, 4),
                                record(kInt8, kFloat, 24, 12, 12),
                                record(kInt8, {}, 0, 0, 0),
                                record(kInt8, kFloat, 0, 4, 0),
                                record(kInt8, kE4m3, 16, 4, 4),
                                record(kInt8, kE8m0, 16, 4, 4),
                                record(kInt8, kBrain, 16, 8, 8),
                                record(kInt4, kFloat, 32, 8, 8),
                                record(kFp4, kE4m3, 16, 4, 4),
                                record(kFp4, kE8m0, 32, 2, 2),
                                record(kE4m3, kE8m0, 32, 2, 2),
                                record({QUIRE_DTYPE_UINT, 8, 1}, kFloat, 0, 4, 4),
                                record({QUIRE_DTYPE_UINT, 3, 1}, kFloat, 0, 4, 4),
                                tailed,
                                odd_tail,
                                odd_row};
  uint32_t known = 0;
  for (size_t i = 0; i < std::size(layers); ++i) {
    SCOPED_TRACE(i);
    const Rig rig("", 8, "cpu", "auto", {layers[i]});
    ASSERT_TRUE(rig.whole());
    quire_batch batch{};
    batch.struct_size = sizeof batch;
    batch.num_columns = 8;
    quire_kv_append op{};
    op.struct_size = sizeof op;
    op.batch = &batch;
    EXPECT_WORKS(quire_memory_get_paged_kv(rig.memory.get(), 0, 0, &op.kv, err));
    batch.group = op.kv.group;
    Error e;
    const quire_code code = quire_op_kv_append(rig.stream.get(), &op, &e);
    const std::string plan = explained(rig);
    const bool no_driver = plan.find("no driver of quire has ops") != std::string::npos;
    EXPECT_EQ(code, no_driver ? QUIRE_UNIMPLEMENTED : QUIRE_OK) << e.message;
    EXPECT_EQ(plan.find("only the CPU driver has ops") != std::string::npos, !no_driver && layers[i].codec != QUIRE_CODEC_STRIDED);
    known += no_driver ? 0 : 1;
  }
  EXPECT_EQ(known, 7u);
}

TEST(CodedLayers, LatentRecordsRun) {
  quire_layer record = attention_layer(0);
  record.kind = QUIRE_LAYER_MLA;
  record.num_kv_heads = 1, record.num_q_heads = 3, record.head_dim_k = 576, record.head_dim_v = 0, record.rope_dim = 64;
  record.dtype = kE4m3;
  record.codec = QUIRE_CODEC_RECORD;
  record.codec_params = {{512, 0}, {16, 0}, {128, 0}, {}, kFloat, kBrain, 128, 0, 0};
  quire_layer split = record;
  split.head_dim_k = 512;
  split.codec = QUIRE_CODEC_BLOCK_SPLIT;
  split.codec_params = {{448, 0}, {8, 0}, {128, 0}, {}, kE8m0, kBrain, 64, 0, 0};
  for (const quire_layer& layer : {record, split}) {
    SCOPED_TRACE(layer.head_dim_k);
    const Engine engine("auto", {layer}, {}, QUIRE_KV_SCALES_OUTSIDE);
    ASSERT_TRUE(engine.rig.whole());
    quire_paged_kv kv{};
    EXPECT_WORKS(quire_memory_get_paged_kv(engine.rig.memory.get(), 0, 0, &kv, err));
    EXPECT_EQ(kv.side[0].tail_dim, 64u);
    EXPECT_EQ(kv.side[0].tail_offset, layer.head_dim_k == 576 ? 528 : 448);
    EXPECT_EQ(kv.side[0].scales_offset, layer.head_dim_k == 576 ? 512 : int64_t{kv.block_tokens} * 576);
    EXPECT_EQ(kv.side[0].scales_stride_token, layer.head_dim_k == 576 ? 656 : 8);
    EXPECT_EQ(kv.scale_elements, layer.head_dim_k == 576 ? 128u : 64u);
    const double worst = worst_of(engine);
    EXPECT_LE(worst, 0.06);
    EXPECT_GT(worst, 0.003) << "nothing was quantised";
  }
}

}  // namespace
}  // namespace quire::test
