// Cross attention from a plan to numbers: encoders' keys and values go in by the first row's slots, decoders read them by tables and
// lengths of every step. Method: against sums in fp64 over what was given, on the CPU driver, with blocks of others before and after.
#include <cmath>
#include <vector>

#include "../c_api/api_rig.h"

namespace quire::test {
namespace {

constexpr uint32_t kHeads = 2, kDim = 16, kMost = 40;

quire_layer layer_of(uint32_t index, quire_layer_kind kind) {
  quire_layer layer = attention_layer(index);
  layer.kind = kind;
  layer.sub = kind == QUIRE_LAYER_CROSS ? 1 : 0;
  layer.num_kv_heads = layer.num_q_heads = kHeads;
  layer.head_dim_k = layer.head_dim_v = kDim;
  layer.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
  layer.encoder_tokens = kind == QUIRE_LAYER_CROSS ? kMost : 0;
  return layer;
}

quire_tensor dense(std::vector<float>* of, size_t tokens) {
  quire_tensor t{};
  t.data = of->data();
  t.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
  t.device_type = QUIRE_DEVICE_CPU;
  t.ndim = 3;
  t.shape[0] = static_cast<int64_t>(tokens);
  t.shape[1] = kHeads;
  t.shape[2] = kDim;
  t.stride[2] = sizeof(float);
  t.stride[1] = kDim * sizeof(float);
  t.stride[0] = kHeads * kDim * sizeof(float);
  return t;
}

std::vector<float> values(uint32_t seed, size_t tokens) {
  std::vector<float> out(tokens * kHeads * kDim);
  for (float& v : out) v = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 16) / 32768.0f - 1.0f;
  return out;
}

struct Speaker {
  quire_sequence_id id = 0;
  std::vector<float> keys, values;
  size_t tokens = 0;  // of the encoder
};

struct Decoder : Rig {
  quire_paged_kv kv{};

  explicit Decoder(const char* policy)
      : Rig("", 64, "cpu", policy,
            {layer_of(0, QUIRE_LAYER_FULL), layer_of(0, QUIRE_LAYER_CROSS), layer_of(1, QUIRE_LAYER_FULL),
             layer_of(1, QUIRE_LAYER_CROSS)}) {
    EXPECT_WORKS(quire_memory_get_paged_kv(memory.get(), 1, 1, &kv, err));
  }

  Speaker begin(uint32_t seed, size_t tokens) const {
    Speaker s;
    EXPECT_WORKS(quire_sequence_create(cache.get(), nullptr, &s.id, err));
    s.tokens = tokens;
    s.keys = values(seed, tokens);
    s.values = values(seed + 1, tokens);
    return s;
  }
  // The batch of the layer's group; its arrays lie in `arrays`.
  quire_batch batch(quire_step step, std::vector<std::max_align_t>* arrays) const {
    quire_batch_options options{};
    options.struct_size = sizeof options;
    uint64_t bytes = 0;
    EXPECT_WORKS(quire_step_get_batch(step, &options, nullptr, 0, 0, &bytes, err));
    arrays->resize(bytes / sizeof(std::max_align_t) + 1);
    options.memory = arrays->data();
    options.bytes = bytes;
    quire_config_info plan{};
    plan.struct_size = sizeof plan;
    EXPECT_WORKS(quire_config_get_info(config.get(), &plan, err));
    std::vector<quire_batch> all(plan.num_groups);
    EXPECT_WORKS(quire_step_get_batch(step, &options, all.data(), sizeof all[0], all.size(), &bytes, err));
    return all[kv.group];
  }

  // One decoder token of each; those that begin bring what their encoders made. Returns what attention made of `query`.
  std::vector<float> step(std::vector<Speaker*> rows, bool first, std::vector<float>* query) const {
    std::vector<quire_reserve_entry> wants(rows.size());
    std::vector<quire_reserve_result> results(rows.size());
    std::vector<quire_commit_entry> done(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      wants[i].sequence = done[i].sequence = rows[i]->id;
      wants[i].num_tokens = done[i].num_accepted = 1;
      wants[i].encoder_tokens = first ? rows[i]->tokens : 0;
    }
    quire_step id{};
    EXPECT_WORKS(quire_reserve(cache.get(), wants.data(), wants.size(), nullptr, 0, results.data(), &id, err));
    for (const quire_reserve_result& r : results) EXPECT_EQ(r.code, QUIRE_OK);
    EXPECT_WORKS(quire_memory_prepare_step(memory.get(), id, stream.get(), err));
    std::vector<std::max_align_t> arrays;
    const quire_batch batch_of_group = batch(id, &arrays);
    std::vector<float> keys, made;
    for (const Speaker* s : rows) {
      if (!first) break;
      keys.insert(keys.end(), s->keys.begin(), s->keys.end());
      made.insert(made.end(), s->values.begin(), s->values.end());
    }
    EXPECT_EQ(batch_of_group.num_slots * kHeads * kDim, keys.size());
    if (batch_of_group.num_slots != 0) {
      quire_kv_append append{};
      append.struct_size = sizeof append;
      append.kv = kv;
      append.batch = &batch_of_group;
      append.key = dense(&keys, batch_of_group.num_slots);
      append.value = dense(&made, batch_of_group.num_slots);
      EXPECT_WORKS(quire_op_kv_append(stream.get(), &append, err));
    }
    std::vector<float> out(query->size());
    quire_attention op{};
    op.struct_size = sizeof op;
    op.batch = &batch_of_group;
    op.kv = kv;
    op.query = dense(query, rows.size());
    op.out = dense(&out, rows.size());
    EXPECT_WORKS(quire_op_attention(stream.get(), &op, err));
    EXPECT_WORKS(quire_stream_synchronize(stream.get(), -1, err));
    EXPECT_WORKS(quire_commit(id, done.data(), done.size(), nullptr, 0, err));
    return out;
  }
};

// Head by head: the mean of the values, weighted by exp(q k / sqrt(dim)).
std::vector<double> wanted(const Speaker& s, const float* query) {
  std::vector<double> out(kHeads * kDim, 0.0);
  for (uint32_t h = 0; h < kHeads; ++h) {
    double sum = 0;
    for (size_t t = 0; t < s.tokens; ++t) {
      double logit = 0;
      const size_t at = (t * kHeads + h) * kDim;
      for (uint32_t d = 0; d < kDim; ++d) logit += double{query[h * kDim + d]} * double{s.keys[at + d]};
      const double weight = std::exp(logit / std::sqrt(double{kDim}));
      sum += weight;
      for (uint32_t d = 0; d < kDim; ++d) out[h * kDim + d] += weight * double{s.values[at + d]};
    }
    for (uint32_t d = 0; d < kDim; ++d) out[h * kDim + d] /= s.tokens == 0 ? 1 : sum;
  }
  return out;
}

void expect_right(const std::vector<float>& out, const std::vector<Speaker*>& rows, const std::vector<float>& query) {
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::vector<double> right = wanted(*rows[r], &query[r * kHeads * kDim]);
    for (size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(out[r * kHeads * kDim + i], right[i], 1e-5) << "row " << r << " value " << i;
  }
}

TEST(CrossBytes, DecodersSeeWhatTheirOwnEncodersMadeInEveryStep) {
  for (const char* policy : {"vllm", "auto"}) {
    SCOPED_TRACE(policy);
    Decoder d(policy);
    Speaker a = d.begin(1, 33), silent = d.begin(2, 0), b = d.begin(3, kMost), c = d.begin(4, 1);
    const std::vector<Speaker*> all = {&a, &silent, &b, &c};
    std::vector<float> query = values(77, all.size());
    expect_right(d.step(all, true, &query), all, query);
    for (uint32_t i = 0; i < 20; ++i) {  // the decoders' own blocks grow meanwhile
      query = values(100 + i, all.size());
      expect_right(d.step(all, false, &query), all, query);
    }
    // One leaves, another comes into its blocks, and a child sees what its parent's encoder made.
    EXPECT_WORKS(quire_sequence_finish(d.cache.get(), b.id, err));
    Speaker later = d.begin(9, 37), child = a;
    EXPECT_WORKS(quire_sequence_fork(d.cache.get(), a.id, &child.id, err));
    query = values(200, 1);
    expect_right(d.step({&later}, true, &query), {&later}, query);
    EXPECT_WORKS(quire_sequence_finish(d.cache.get(), a.id, err));
    query = values(201, 3);
    const std::vector<Speaker*> rest = {&child, &later, &c};
    expect_right(d.step(rest, false, &query), rest, query);
    EXPECT_WORKS(quire_cache_verify(d.cache.get(), err));
  }
}

}  // namespace
}  // namespace quire::test
