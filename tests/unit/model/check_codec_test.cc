// Codecs: the records that real kernels use are accepted with their sizes, everything else is refused by name.
#include "core/model/check_codec.h"

#include <gtest/gtest.h>

#include "core/model/dtype.h"
#include "core/model/model_layers.h"

namespace quire {
namespace {

constexpr quire_dtype kFp8{QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
constexpr quire_dtype kFp4{QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1};
constexpr quire_dtype kE8{QUIRE_DTYPE_FLOAT8_E8M0FNU, 8, 1};

quire_layer base(quire_layer_kind kind, uint32_t width, quire_dtype dtype) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = kind;
  layer.num_kv_heads = 1;
  layer.head_dim_k = width;
  layer.head_dim_v = kind == QUIRE_LAYER_FULL ? width : 0;
  layer.dtype = dtype;
  return layer;
}

// 512 latent elements in fp8, four scales, 64 rope elements in bf16.
quire_layer mla_656() {
  quire_layer layer = base(QUIRE_LAYER_MLA, 576, kFp8);
  layer.codec = QUIRE_CODEC_RECORD;
  layer.codec_params = {{512, 0}, {16, 0}, {128, 0}, {}, kFloat32, kBFloat16, 128, 0, 0};
  return layer;
}

std::string refusal(const quire_layer& layer) {
  const auto made = Model::create({&layer, 1}, 64);
  return made.ok() ? "" : made.status().message();
}

TEST(Codec, RecordsOfRealKernels) {
  EXPECT_EQ(refusal(mla_656()), "");
  EXPECT_EQ(cell_bytes(mla_656(), 0), 656u);
  quire_layer compressed = base(QUIRE_LAYER_MLA, 512, kFp8);
  compressed.codec = QUIRE_CODEC_BLOCK_SPLIT;
  compressed.codec_params = {{448, 0}, {8, 0}, {128, 0}, {}, kE8, kBFloat16, 64, 0, 576};
  EXPECT_EQ(refusal(compressed), "");
  EXPECT_EQ(cell_bytes(compressed, 0), 584u);
  quire_layer indexer = base(QUIRE_LAYER_INDEXER, 128, kFp8);
  indexer.codec = QUIRE_CODEC_BLOCK_SPLIT;
  indexer.codec_params = {{128, 0}, {4, 0}, {0, 0}, {}, kFloat32, {}, 0, 0, 0};
  EXPECT_EQ(refusal(indexer), "");
  EXPECT_EQ(cell_bytes(indexer, 0), 132u);
  quire_layer fp4 = base(QUIRE_LAYER_FULL, 128, kBFloat16);
  fp4.num_kv_heads = 8;
  fp4.codec = QUIRE_CODEC_BLOCK_SPLIT;
  fp4.codec_params = {{64, 64}, {8, 8}, {0, 0}, kFp4, kFp8, {}, 16, 0, 0};
  EXPECT_EQ(refusal(fp4), "");
  EXPECT_EQ(cell_bytes(fp4, 0) + cell_bytes(fp4, 1), 144u);  // x 8 heads x 16 rows = 18,432 bytes
  quire_layer per_head = base(QUIRE_LAYER_FULL, 128, kFp8);
  per_head.codec = QUIRE_CODEC_RECORD;
  per_head.codec_params = {{128, 128}, {4, 4}, {0, 0}, {}, kFloat32, {}, 0, 0, 0};
  EXPECT_EQ(refusal(per_head), "");
  EXPECT_EQ(cell_bytes(per_head, 1), 132u);
  quire_layer tiled = base(QUIRE_LAYER_FULL, 64, kBFloat16);
  for (const uint32_t codec : {QUIRE_CODEC_TILED, QUIRE_CODEC_SHUFFLED, QUIRE_CODEC_COLUMN_K, QUIRE_CODEC_AMX}) {
    tiled.codec = codec;
    EXPECT_EQ(refusal(tiled), "") << codec;
    EXPECT_EQ(cell_bytes(tiled, 1), 128u);
    EXPECT_FALSE(cuts_between_rows(codec));
  }
  EXPECT_TRUE(cuts_between_rows(QUIRE_CODEC_RECORD));
}

TEST(Codec, NamesFieldValueAndLimit) {
  quire_layer layer = mla_656();
  layer.codec_params.data_bytes[0] = 576;
  EXPECT_NE(refusal(layer).find("codec_params.data_bytes[0] = 576; 512 elements of 8 bits take 512"), std::string::npos) << refusal(layer);
  layer = mla_656();
  layer.codec_params.scale_bytes[0] = 12;
  EXPECT_NE(refusal(layer).find("codec_params.scale_bytes[0] = 12; must be 16.."), std::string::npos) << refusal(layer);
  layer = mla_656();
  layer.codec_params.scale_dtype = {};
  EXPECT_NE(refusal(layer).find("codec_params.scale_dtype = {code 0"), std::string::npos) << refusal(layer);
  layer = mla_656();
  layer.codec_params.tail_bytes[0] = 127;
  EXPECT_NE(refusal(layer).find("codec_params.tail_bytes[0] = 127; must be a multiple"), std::string::npos) << refusal(layer);
  layer = mla_656();
  layer.codec_params.data_bytes[1] = 1;
  EXPECT_NE(refusal(layer).find("one side = 1; must be 0 for codec 1"), std::string::npos) << refusal(layer);
  layer = mla_656();
  layer.codec = 7;
  EXPECT_NE(refusal(layer).find("codec = 7; must be 0..6"), std::string::npos) << refusal(layer);
  layer = mla_656();
  layer.codec = QUIRE_CODEC_STRIDED;
  EXPECT_NE(refusal(layer).find("codec_params.data_bytes[0] = 512; must be 0 for codec 0"), std::string::npos) << refusal(layer);
  layer = base(QUIRE_LAYER_MLA, 64, kBFloat16);
  layer.codec = QUIRE_CODEC_TILED;
  EXPECT_NE(refusal(layer).find("one side only"), std::string::npos) << refusal(layer);
  layer = base(QUIRE_LAYER_FULL, 60, kBFloat16);
  layer.codec = QUIRE_CODEC_TILED;
  EXPECT_NE(refusal(layer).find("head_dim_k = 60; must be a multiple of the tile, 8"), std::string::npos) << refusal(layer);
  layer.codec = QUIRE_CODEC_AMX;
  EXPECT_NE(refusal(layer).find("multiple of 16"), std::string::npos) << refusal(layer);
}

TEST(Codec, OtherNewFields) {
  quire_layer layer = base(QUIRE_LAYER_MLA, 64, kBFloat16);
  layer.window = 128;
  layer.sink_tokens = 4;
  const auto made = Model::create({&layer, 1}, 64);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made.value().caches()[0].live, (LiveRange{.sink = 4, .window = 128}));
  layer.look_ahead = 2;
  EXPECT_NE(refusal(layer).find("look_ahead = 2; must be 0..0"), std::string::npos);
  layer.flags = QUIRE_LAYER_DRAFT;
  EXPECT_EQ(refusal(layer), "");
  layer = base(QUIRE_LAYER_STATE, 0, kBFloat16);
  layer.num_state_tensors = 1;
  layer.state[0] = {kBFloat16, 2, {3, 96, 0, 0}};
  layer.state_shard[0] = 2;
  layer.state_parts[0] = 64;
  layer.state_parts[1] = 16;
  EXPECT_NE(refusal(layer).find("sum of state_parts = 80; must be 96..96"), std::string::npos) << refusal(layer);
  layer.state_parts[2] = 16;
  EXPECT_EQ(refusal(layer), "");
}

}  // namespace
}  // namespace quire
