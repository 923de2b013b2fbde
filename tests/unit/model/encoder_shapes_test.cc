// What decoders keep of an encoder, and recurrences that are one of a kind: expected rows were worked out from what upstream's code
// allocates.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shape_cases.h"

namespace quire {
namespace {

using namespace shapes;

// The encoder's longest output is a field of the decoder, of the encoder beside it, or follows from an image.
TEST(EncoderShapes, LengthsOfEncoders) {
  const std::string bart = R"("decoder_layers": 6, "decoder_attention_heads": 8, "d_model": 512, )";
  const std::string seamless = R"("decoder_layers": 6, "decoder_attention_heads": 8, "hidden_size": 512, )";
  const std::string blip = R"("text_config": {"num_hidden_layers": 12, "num_attention_heads": 8, "hidden_size": 768,
      "max_position_embeddings": 512}, )";
  const std::vector<Case> all{
      {"LEDForConditionalGeneration",
       bart + R"("max_decoder_position_embeddings": 1024, "max_encoder_position_embeddings": 16384)",
       {"at most 1024 tokens", " 6 full attention 8 x 64", " 6 cross attention 8 x 64 bf16 16384 of the encoder"}},
      {"LEDForConditionalGeneration",
       bart + R"("max_decoder_position_embeddings": 1024)",
       {"refused: config: max_encoder_position_embeddings is missing"}},
      {"Speech2TextForConditionalGeneration",
       bart + R"("max_target_positions": 1024, "max_source_positions": 6000, "num_conv_layers": 2)",
       {"at most 1024", " 6 cross attention 8 x 64 bf16 1500 of the encoder"}},
      {"SpeechT5ForSpeechToText",
       seamless + R"("max_text_positions": 450, "max_speech_positions": 4000)",
       {"at most 450", " 6 cross attention 8 x 64 bf16 4000 of the encoder"}},
      {"SeamlessM4Tv2ForTextToText", seamless + R"("max_position_embeddings": 4096)", {" 6 cross attention 8 x 64 bf16 4096 of the"}},
      {"SeamlessM4TForSpeechToText",
       seamless + R"("max_position_embeddings": 1024, "max_source_positions": 4096)",
       {" 6 cross attention 8 x 64 bf16 4096 of the encoder"}},
      {"SeamlessM4Tv2ForSpeechToText", seamless + R"("max_position_embeddings": 4096)", {"refused: ", "how long its encoder's output is"}},
      {"ProphetNetForConditionalGeneration",
       R"("num_decoder_layers": 12, "num_decoder_attention_heads": 16, "hidden_size": 1024, "max_position_embeddings": 512)",
       {" 12 full attention 16 x 64", " 12 cross attention 16 x 64 bf16 512 of the encoder"}},
      {"CanaryForConditionalGeneration",
       R"("encoder_config": {"max_position_embeddings": 5000}, "decoder_config": {"num_hidden_layers": 8, "num_attention_heads": 8,
          "num_key_value_heads": 4, "hidden_size": 1024, "head_dim": 128, "max_position_embeddings": 1024})",
       {" 8 full attention 4 x 128", " 8 cross attention 4 x 128 bf16 5000 of the encoder"}},
      {"CohereAsrForConditionalGeneration",
       kHeads + R"("encoder_config": {"max_position_embeddings": 5000}, "num_hidden_layers": 8)",
       {" 8 full attention 2 x 64", " 8 cross attention 2 x 64 bf16 5000 of the encoder"}},
      {"DiaForConditionalGeneration",
       R"("encoder_config": {"max_position_embeddings": 1024}, "decoder_config": {"num_hidden_layers": 18, "num_attention_heads": 16,
          "num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings": 3072, "cross_num_attention_heads": 16,
          "cross_num_key_value_heads": 16, "cross_head_dim": 64})",
       {"at most 3072", " 18 full attention 4 x 128", " 18 cross attention 16 x 64 bf16 1024 of the encoder"}},
      {"T5GemmaForConditionalGeneration",
       R"("encoder": {"max_position_embeddings": 8192}, "decoder": {"num_hidden_layers": 2, "sliding_window": 512,
          "layer_types": ["sliding_attention", "full_attention"], )" +
           kHeads + R"("x": 0})",
       {" 1 sliding window 2 x 64 bf16 512 tokens", " 1 full attention", " 2 cross attention 2 x 64 bf16 8192 of the encoder"}},
      {"T5Gemma2ForConditionalGeneration",
       R"("encoder": {"text_config": {"max_position_embeddings": 131072}}, "decoder": {"num_hidden_layers": 1,
          "layer_types": ["full_attention"], )" +
           kHeads + R"("x": 0})",
       {" 1 cross attention 2 x 64 bf16 131072 of the encoder"}},
      {"BlipForConditionalGeneration",
       blip + R"("vision_config": {"image_size": 384, "patch_size": 16})",
       {" 12 full attention 8 x 96", " 12 cross attention 8 x 96 bf16 577 of the encoder"}},
      {"BlipForConditionalGeneration",
       blip + R"("vision_config": {"image_size": 384, "patch_size": 17})",
       {"refused: config: vision_config.image_size = 384 is no multiple of patch_size = 17"}},
      {"BlipForConditionalGeneration", blip + R"("x": 0)", {"refused: config: vision_config.image_size is missing"}},
      {"PPFormulaNetForConditionalGeneration",
       R"("text_config": {"max_position_embeddings": 2560, )" + bart + R"("x": 0}, "vision_config": {"image_size": 768, "patch_size": 16})",
       {" 6 cross attention 8 x 64 bf16 144 of the encoder"}},
      {"Florence2ForConditionalGeneration",
       R"("text_config": {"max_position_embeddings": 1024, )" + bart + R"("x": 0})",
       {" 6 cross attention 8 x 64 bf16 1024 of the encoder"}},
      {"WhisperForCausalLM",
       bart + R"("max_target_positions": 448, "max_source_positions": 1500)",
       {" 6 full attention 8 x 64", " 6 cross attention 8 x 64 bf16 1500 of the encoder"}},
  };
  for (const Case& one : all) expect(one);
}

// A decoder of any kind beside an encoder of any kind, as long as both say what they are.
TEST(EncoderShapes, TwoModels) {
  const std::string bert = R"("decoder": {"model_type": "bert", "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768,
      "max_position_embeddings": 512, "add_cross_attention": true})";
  const std::string llama = R"("decoder": {"model_type": "llama", "num_hidden_layers": 2, )" + kHeads + R"("x": 0})";
  const std::vector<Case> all{
      {"EncoderDecoderModel",
       bert + R"(, "encoder": {"model_type": "bert", "max_position_embeddings": 256})",
       {"EncoderDecoderModel: 12 layers, 24 caches", " 12 full attention 12 x 64", " 12 cross attention 12 x 64 bf16 256 of the encoder"}},
      {"EncoderDecoderModel", bert + R"(, "encoder": {"model_type": "wav2vec2"})", {"refused: config: encoder.max_position_embeddings is"}},
      {"EncoderDecoderModel",
       llama + R"(, "encoder": {"max_position_embeddings": 256})",
       {"refused: config: decoder is of LlamaForCausalLM"}},
      {"VisionEncoderDecoderModel",
       bert + R"(, "encoder": {"model_type": "deit", "image_size": 384, "patch_size": 16})",
       {" 12 cross attention 12 x 64 bf16 578 of the encoder"}},
      {"VisionEncoderDecoderModel",
       bert + R"(, "encoder": {"model_type": "donut-swin", "image_size": 384, "patch_size": 16})",
       {"refused: config: encoder.model_type = \"donut-swin\" is not known"}},
      {"VisionEncoderDecoderModel", bert, {"refused: config: encoder.model_type = null is not known"}},
  };
  for (const Case& one : all) expect(one);
}

TEST(RecurrentShapes, OneOfAKind) {
  const std::string zaya = R"("num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "hidden_size": 2048, "cca_time0": 2,
      "cca_time1": 2, "max_position_embeddings": 32768, )";
  const std::string xlstm = R"("hidden_size": 4096, "num_hidden_layers": 32, "num_heads": 8, )";
  const std::vector<Case> all{
      {"ZambaForCausalLM",
       R"("num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 16, "attention_head_dim": 464, "hidden_size": 3712,
          "mamba_expand": 2, "max_position_embeddings": 4096, "layers_block_type": ["mamba", "linear_attention", "hybrid"])",
       {"3 layers, 4 caches", " 3 mamba 1 3x7424 bf16 + 7424x16 bf16", " 1 full attention 16 x 464"}},
      {"RecurrentGemmaForCausalLM",
       R"("num_hidden_layers": 5, "num_attention_heads": 10, "num_key_value_heads": 1, "hidden_size": 2560, "conv1d_width": 4,
          "attention_window_size": 2048, "block_types": ["recurrent", "recurrent", "attention"])",
       {" 4 state 3x2560 bf16 + 2560 fp32", " 1 sliding window 1 x 256 bf16 2048 tokens"}},
      {"RecurrentGemmaForCausalLM",
       R"("num_hidden_layers": 5, "num_attention_heads": 10, "hidden_size": 2560, "attention_window_size": 2048, "block_types": ["x"])",
       {"refused: config: block_types[0] = \"x\" is not known"}},
      {"xLSTMForCausalLM", xlstm + R"("qk_dim_factor": 0.5, "v_dim_factor": 1.0)", {" 32 state 8x256x512 bf16 + 8x256 bf16 + 8 bf16"}},
      {"xLSTMForCausalLM", xlstm + R"("qk_dim_factor": 0.51, "v_dim_factor": 1.0)", {" 32 state 8x264x512 bf16 + 8x264 bf16 + 8 bf16"}},
      {"xLSTMForCausalLM", xlstm + R"("v_dim_factor": 1.0)", {"refused: config: qk_dim_factor is missing"}},
      {"RwkvForCausalLM",
       R"("num_hidden_layers": 32, "hidden_size": 4096, "context_length": 1024)",
       {"at most 1024", " 32 state 2x4096 bf16 + 3x4096 fp32"}},
      {"RwkvForCausalLM",
       R"("num_hidden_layers": 32, "hidden_size": 4096, "context_length": 1024, "attention_hidden_size": 2048)",
       {"refused: config: attention_hidden_size is not hidden_size = 4096"}},
      {"ZayaForCausalLM",
       zaya + R"("num_hidden_layers": 2, "layer_types": ["hybrid", "hybrid_sliding"], "sliding_window": 512)",
       {" 1 full attention 2 x 128", " 1 sliding window 2 x 128 bf16 512 tokens", " 2 state 2x1280 bf16 + 2048 bf16"}},
      {"ZayaForCausalLM",
       zaya + R"("num_hidden_layers": 80, "zaya_layers": ["a", 16, "a", 16])",
       {"4 layers, 6 caches", " 2 full attention 2 x 128", " 2 nothing", " 2 state 2x1280 bf16 + 2048 bf16"}},
      {"ZayaForCausalLM", zaya + R"("zaya_layers": ["a"], "swa_layers": [0])", {"refused: config: swa_layers is not known"}},
      {"ZayaForCausalLM", zaya + R"("num_hidden_layers": 2)", {"refused: config: zaya_layers and layer_types are missing"}},
      {"MoshiForCausalLM",
       R"("num_hidden_layers": 32, "num_attention_heads": 32, "head_dim": 128, "sliding_window": 3000, "max_position_embeddings": 3000)",
       {" 32 sliding window 32 x 128 bf16 3000 tokens"}},
      {"ModernBertDecoderForCausalLM",
       R"("num_hidden_layers": 6, "num_attention_heads": 12, "hidden_size": 768, "local_attention": 128, "max_position_embeddings": 8192)",
       {" 2 full attention 12 x 64 bf16 all tokens 3072 0, 3", " 4 sliding window 12 x 64 bf16 64 tokens"}},
      {"Inkling2ForCausalLM",
       R"("num_hidden_layers": 2, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "swa_num_attention_heads": 48,
          "swa_num_key_value_heads": 8, "swa_head_dim": 128, "sliding_window_size": 1024, "hidden_size": 4608, "conv_kernel_size": 4,
          "max_position_embeddings": 1048576, "layer_types": ["hybrid_sliding", "hybrid"])",
       {" 1 sliding window 8 x 128 bf16 1024 tokens", " 1 full attention 8 x 128", " 2 short convolution 3x1024 bf16 + 3x1024 bf16"}},
  };
  for (const Case& one : all) expect(one);
}

}  // namespace
}  // namespace quire
