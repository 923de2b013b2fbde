// What attention takes over from a layer, by kind.
#include <gtest/gtest.h>

#include "core/model/attention.h"
#include "core/model/model_layers.h"

namespace quire {
namespace {

quire_layer layer_of(quire_layer_kind kind) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = kind;
  layer.head_dim_k = 576;
  layer.softcap = 30;
  return layer;
}

// With something in every field that a layer may set.
quire_attention op_of() {
  quire_attention op{};
  op.flags = QUIRE_ATTENTION_CAUSAL | QUIRE_ATTENTION_BATCH_INVARIANT;
  op.window = op.chunk = op.sink_tokens = op.head_dim_v = 77;
  op.softcap = 7;
  op.scale = 0.5F;
  return op;
}

quire_attention described(const quire_layer& layer) {
  quire_attention op = op_of();
  const Status status = describe_attention(layer, &op);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(op.scale, 0.5F);
  EXPECT_EQ(op.softcap, 30.0F);
  EXPECT_NE(op.flags & QUIRE_ATTENTION_BATCH_INVARIANT, 0U);
  return op;
}

TEST(LayerAttention, FullLayersSeeEverythingBefore) {
  const quire_attention op = described(layer_of(QUIRE_LAYER_FULL));
  EXPECT_NE(op.flags & QUIRE_ATTENTION_CAUSAL, 0U);
  EXPECT_EQ(op.window, 0U);
  EXPECT_EQ(op.chunk, 0U);
  EXPECT_EQ(op.sink_tokens, 0U);
  EXPECT_EQ(op.head_dim_v, 0U);
}

TEST(LayerAttention, WindowsKeepTheirSinks) {
  quire_layer layer = layer_of(QUIRE_LAYER_SLIDING_WINDOW);
  layer.window = 128;
  layer.sink_tokens = 4;
  quire_attention op = described(layer);
  EXPECT_EQ(op.window, 128U);
  EXPECT_EQ(op.sink_tokens, 4U);
  EXPECT_EQ(op.chunk, 0U);
  layer.window = uint64_t{1} << 40;  // longer than any sequence
  op = described(layer);
  EXPECT_EQ(op.window, 0U);
  EXPECT_EQ(op.sink_tokens, 0U);
}

TEST(LayerAttention, ChunksAreNoWindows) {
  quire_layer layer = layer_of(QUIRE_LAYER_CHUNKED);
  layer.window = 8192;
  const quire_attention op = described(layer);
  EXPECT_EQ(op.chunk, 8192U);
  EXPECT_EQ(op.window, 0U);
}

TEST(LayerAttention, LatentRowsHaveTheirValuesBeforeTheRope) {
  quire_layer layer = layer_of(QUIRE_LAYER_MLA);
  EXPECT_EQ(described(layer).head_dim_v, 77U);  // not known: the engine's stays
  layer.rope_dim = 64;
  EXPECT_EQ(described(layer).head_dim_v, 512U);
  layer.window = 128;
  EXPECT_EQ(described(layer).window, 128U);
}

TEST(LayerAttention, CrossAttentionIsNotCausal) {
  EXPECT_EQ(described(layer_of(QUIRE_LAYER_CROSS)).flags, QUIRE_ATTENTION_BATCH_INVARIANT);
}

TEST(LayerAttention, OtherKindsAreRefused) {
  for (const quire_layer_kind kind :
       {QUIRE_LAYER_NONE, QUIRE_LAYER_STATE, QUIRE_LAYER_ENCODER_ONLY, QUIRE_LAYER_INDEXER, QUIRE_LAYER_KIND_FORCE32}) {
    quire_attention op = op_of();
    const Status status = describe_attention(layer_of(kind), &op);
    EXPECT_EQ(status.code(), QUIRE_INVALID_ARGUMENT) << kind;
    EXPECT_EQ(op.window, 77U) << kind;
  }
  quire_layer layer = layer_of(QUIRE_LAYER_MLA);
  layer.rope_dim = 576;
  quire_attention op = op_of();
  EXPECT_NE(describe_attention(layer, &op).message().find("rope_dim: 576"), std::string::npos);
  layer.rope_dim = 0;
  layer.compress_ratio = 4;
  EXPECT_EQ(describe_attention(layer, &op).code(), QUIRE_UNIMPLEMENTED);
}

TEST(LayerAttention, LatentModelsSayTheirRope) {
  const char* json = R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 2,
    "num_attention_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "hidden_size": 1024, "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16"})";
  auto model = read_hf_config(json);
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ(model->caches().size(), 2U);
  EXPECT_EQ(model->caches()[0].desc.head_dim_k, 576U);
  EXPECT_EQ(model->caches()[0].desc.rope_dim, 64U);
}

}  // namespace
}  // namespace quire
