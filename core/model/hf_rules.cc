// The architectures that are known. A row is what upstream's code does with a config, not what its fields are called.
#include "core/model/hf_rules.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

constexpr Spelling kGpt{"n_layer num_hidden_layers",
                        "n_head num_attention_heads",
                        nullptr,
                        "n_embd hidden_size",
                        nullptr,
                        "n_positions n_ctx max_position_embeddings"};
constexpr Spelling kBloom{"n_layer num_hidden_layers", "n_head num_attention_heads", nullptr, "hidden_size n_embed", nullptr, "seq_length"};
constexpr Spelling kMpt{"n_layers num_hidden_layers",         "n_heads num_attention_heads", nullptr, "d_model hidden_size", nullptr,
                        "max_seq_len max_position_embeddings"};
constexpr Spelling kFalconNames{"num_hidden_layers n_layer", "num_attention_heads n_head", "num_kv_heads n_head_kv", "hidden_size", nullptr,
                                "max_position_embeddings"};
constexpr Spelling kChatGlm{"num_layers num_hidden_layers",
                            "num_attention_heads",
                            "multi_query_group_num",
                            "hidden_size",
                            nullptr,
                            "seq_length max_sequence_length max_position_embeddings"};
constexpr Spelling kQwen1{
    "num_hidden_layers", "num_attention_heads", nullptr, "hidden_size", nullptr, "max_position_embeddings seq_length"};
constexpr Spelling kTele{"num_hidden_layers n_layer",         "num_attention_heads n_head", "num_key_value_heads", "hidden_size", nullptr,
                         "max_position_embeddings seq_length"};
constexpr Spelling kNeo{"num_layers num_hidden_layers", "num_heads num_attention_heads", nullptr, "hidden_size", nullptr,
                        "max_position_embeddings"};
constexpr Spelling kXglm{"num_layers num_hidden_layers", "attention_heads num_attention_heads", nullptr, "d_model hidden_size", nullptr,
                         "max_position_embeddings"};
constexpr Spelling kXlm{"n_layers num_hidden_layers", "n_heads num_attention_heads", nullptr, "emb_dim hidden_size", nullptr,
                        "max_position_embeddings"};
constexpr Spelling kDecoderHalf{"decoder_layers", "decoder_attention_heads", nullptr, "d_model", nullptr, "max_position_embeddings"};
constexpr Spelling kCpmAnt{"num_hidden_layers", "num_attention_heads", nullptr, "hidden_size", "dim_head", "max_position_embeddings"};
constexpr Spelling kChannels{"num_hidden_layers", "num_attention_heads",  "num_key_value_heads",
                             "hidden_size",       "kv_channels head_dim", "max_position_embeddings"};
constexpr Spelling kStep{"num_hidden_layers",
                         "num_attention_heads",
                         "num_attention_groups num_key_value_heads",
                         "hidden_size",
                         "head_dim",
                         "max_position_embeddings max_position_embedding"};
constexpr Spelling kWide{"num_hidden_layers", "num_attention_heads",         "num_key_value_heads",
                         "hidden_size",       "head_dim attention_head_dim", "max_position_embeddings"};
constexpr Spelling kZamba2{"num_hidden_layers", "num_attention_heads",         "num_key_value_heads",
                           "hidden_size",       "attention_head_dim head_dim", "max_position_embeddings"};
constexpr Spelling kKimi{"num_hidden_layers",
                         "num_attention_heads",
                         "num_key_value_heads",
                         "hidden_size",
                         "head_dim",
                         "max_position_embeddings model_max_length"};
constexpr Spelling kLongcat{"num_layers num_hidden_layers", "num_attention_heads", nullptr, "hidden_size", nullptr,
                            "max_position_embeddings"};
constexpr Spelling kExaone{"num_layers num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim",
                           "max_position_embeddings"};

constexpr Spelling kKosmos{"layers num_hidden_layers", "attention_heads num_attention_heads", nullptr, "embed_dim hidden_size", nullptr,
                           "max_position_embeddings"};
constexpr Spelling kBaichuan{
    "num_hidden_layers", "num_attention_heads", nullptr, "hidden_size", nullptr, "max_position_embeddings model_max_length"};
constexpr Spelling kRwkv{"num_hidden_layers", "num_attention_heads", nullptr, "hidden_size", nullptr, "context_length"};
// Decoders that attend to an encoder; the last is how long its output is at most, an image where it is nothing.
constexpr Spelling kAudio{"num_hidden_layers",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "hidden_size",
                          "head_dim",
                          "max_position_embeddings",
                          "encoder_config.max_position_embeddings"};
constexpr Spelling kNestedEncoder{"num_hidden_layers",
                                  "num_attention_heads",
                                  "num_key_value_heads",
                                  "hidden_size",
                                  "head_dim",
                                  "max_position_embeddings",
                                  "encoder.max_position_embeddings encoder.text_config.max_position_embeddings"};
constexpr Spelling kLed{"decoder_layers",
                        "decoder_attention_heads",
                        nullptr,
                        "d_model",
                        nullptr,
                        "max_decoder_position_embeddings",
                        "max_encoder_position_embeddings"};
constexpr Spelling kProphet{"num_decoder_layers",      "num_decoder_attention_heads", nullptr, "hidden_size", nullptr,
                            "max_position_embeddings", "max_position_embeddings"};
constexpr Spelling kSeamlessText{"decoder_layers",          "decoder_attention_heads", nullptr, "hidden_size", nullptr,
                                 "max_position_embeddings", "max_position_embeddings"};
constexpr Spelling kSeamlessSpeech{"decoder_layers",          "decoder_attention_heads", nullptr, "hidden_size", nullptr,
                                   "max_position_embeddings", "max_source_positions"};
constexpr Spelling kSpeech2Text{"decoder_layers",       "decoder_attention_heads", nullptr, "d_model", nullptr,
                                "max_target_positions", "max_source_positions"};
constexpr Spelling kSpeechT5{"decoder_layers",     "decoder_attention_heads", nullptr, "hidden_size", nullptr,
                             "max_text_positions", "max_speech_positions"};

using K = KvHeads;
using P = Pattern;
constexpr auto kPlain = &Reader::decoder;

constexpr std::array kRows{
    // Every layer attends to everything.
    Rules{" LlamaForCausalLM LLaMAForCausalLM ArceeForCausalLM ApertusForCausalLM GraniteForCausalLM"
          " GraniteMoeForCausalLM GraniteMoeSharedForCausalLM CohereForCausalLM OlmoForCausalLM Olmo2ForCausalLM FlexOlmoForCausalLM"
          " StableLmForCausalLM PhiForCausalLM NemotronForCausalLM InternLM2ForCausalLM InternLM3ForCausalLM"
          " SolarForCausalLM TeleChat3ForCausalLM TeleFLMForCausalLM DiffLlamaForCausalLM IQuestCoderForCausalLM AriaTextForCausalLM"
          " MolmoForCausalLM XllmForCausalLM TorchNativeLlamaForCausalLM NanoChatForCausalLM AquilaForCausalLM YiForCausalLM ",
          kPlain, K::kFollow},
    Rules{" BitNetForCausalLM Ernie4_5_MoeForCausalLM Qwen2MoeForCausalLM Qwen3MoeForCausalLM SmolLM3ForCausalLM ", kPlain},
    Rules{" OlmoeForCausalLM MiniCPMForCausalLM OrionForCausalLM BailingMoeForCausalLM BailingMoEForCausalLM BailingMoeV2ForCausalLM"
          " DeepseekForCausalLM Glm4MoeForCausalLM Param2MoEForCausalLM SarvamMoEForCausalLM Grok1ForCausalLM Grok1ModelForCausalLM"
          " LLaDA2MoeModelLM XverseMoeForCausalLM K2HorizonForCausalLM EvollaForProteinText2Text ",
          kPlain},
    Rules{" GemmaForCausalLM GlmForCausalLM Glm4ForCausalLM HeliumForCausalLM Ernie4_5ForCausalLM Ernie4_5_ForCausalLM SeedOssForCausalLM"
          " SolarOpenForCausalLM HYV3ForCausalLM Jais2ForCausalLM HyperCLOVAXForCausalLM SDARForCausalLM SDARMoeForCausalLM ",
          kPlain, K::kStated, P::kFull, 0, kOwnWidth},
    Rules{" ExaoneForCausalLM ", kPlain, K::kFollow, P::kFull, 0, 0, kExaone},
    Rules{" GPTNeoXForCausalLM GPTNeoXJapaneseForCausalLM OPTForCausalLM PersimmonForCausalLM BioGptForCausalLM XverseForCausalLM "
          "BertLMHeadModel BertGenerationDecoder BigBirdForCausalLM CamembertForCausalLM"
          " Data2VecTextForCausalLM ElectraForCausalLM ErnieForCausalLM MegatronBertForCausalLM RemBertForCausalLM RobertaForCausalLM"
          " RobertaPreLayerNormForCausalLM RoCBertForCausalLM RoFormerForCausalLM XLMRobertaForCausalLM XLMRobertaXLForCausalLM"
          " XmodForCausalLM GitForCausalLM IdeficsForVisionText2Text ",
          kPlain, K::kAll},
    Rules{" BaichuanForCausalLM BaiChuanForCausalLM ", kPlain, K::kAll, P::kFull, 0, 0, kBaichuan},
    Rules{" Kosmos2TextForCausalLM ", kPlain, K::kAll, P::kFull, 0, 0, kKosmos},
    Rules{" GPT2LMHeadModel GPTJForCausalLM CodeGenForCausalLM OpenAIGPTLMHeadModel CTRLLMHeadModel ", kPlain, K::kAll, P::kFull, 0, 0,
          kGpt},
    Rules{" GPTBigCodeForCausalLM ", kPlain, K::kBigCode, P::kFull, 0, 0, kGpt},
    Rules{" BloomForCausalLM ", kPlain, K::kAll, P::kFull, 0, 0, kBloom},
    Rules{" MptForCausalLM MPTForCausalLM ", kPlain, K::kAll, P::kFull, 0, 0, kMpt},
    Rules{" DbrxForCausalLM ", kPlain, K::kNested, P::kFull, 0, 0, kMpt},
    Rules{" FalconForCausalLM ", kPlain, K::kFalcon, P::kFull, 0, 0, kFalconNames},
    Rules{" ChatGLMModel ChatGLMForConditionalGeneration ", kPlain, K::kGlm, P::kFull, 0, 0, kChatGlm},
    Rules{" QWenLMHeadModel ", kPlain, K::kAll, P::kFull, 0, 0, kQwen1},
    Rules{" TeleChat2ForCausalLM TeleChatForCausalLM ", kPlain, K::kFollow, P::kFull, 0, 0, kTele},
    Rules{" GPTNeoForCausalLM ", kPlain, K::kAll, P::kFull, 0, 0, kNeo},
    Rules{" XGLMForCausalLM ", kPlain, K::kAll, P::kFull, 0, 0, kXglm},
    Rules{" XLMWithLMHeadModel ", kPlain, K::kAll, P::kFull, 0, 0, kXlm},
    Rules{" CpmAntForCausalLM ", kPlain, K::kAll, P::kFull, 0, kOwnWidth, kCpmAnt},
    Rules{" JetMoeForCausalLM ", kPlain, K::kStated, P::kFull, 0, kOwnWidth, kChannels},
    Rules{" Step1ForCausalLM ", kPlain, K::kGroups, P::kFull, 0, 0, kStep},
    Rules{" Step3TextForCausalLM ", kPlain, K::kOne, P::kFull, 0, kOwnWidth, kStep},
    // Halves of encoder-decoders that are used alone.
    Rules{" BartForCausalLM BigBirdPegasusForCausalLM BlenderbotForCausalLM BlenderbotSmallForCausalLM MarianForCausalLM MBartForCausalLM"
          " MvpForCausalLM PegasusForCausalLM PLBartForCausalLM TrOCRForCausalLM ",
          kPlain, K::kAll, P::kFull, 0, 0, kDecoderHalf},
    // Windows in all layers, or in those that a pattern or layer_types names.
    Rules{" MistralForCausalLM MinistralForCausalLM ", kPlain, K::kStated, P::kWindow, 0, kNullWindow},
    Rules{" MixtralForCausalLM QuantMixtralForCausalLM Phi3ForCausalLM PhiMoEForCausalLM PhimoeForCausalLM Starcoder2ForCausalLM"
          " DogeForCausalLM TorchNativePhi3ForCausalLM Phi3VForCausalLM Phi4MMForCausalLM Phi4MultimodalForCausalLM ",
          kPlain, K::kStated, P::kWindow},
    Rules{" Ministral3ForCausalLM MiniMaxM2ForCausalLM ", kPlain, K::kStated, P::kWindow, 0, kOwnWidth},
    Rules{" MoshiForCausalLM ", kPlain, K::kFollow, P::kWindow},
    Rules{" ModernBertDecoderForCausalLM ", kPlain, K::kAll, P::kFirst, 3},
    Rules{" Qwen2ForCausalLM MiMoForCausalLM ", kPlain, K::kStated, P::kQwen},
    Rules{" Dots1ForCausalLM ", kPlain, K::kStated, P::kMaxWindow},
    Rules{" Qwen3ForCausalLM ", kPlain, K::kStated, P::kQwen, 0, kOwnWidth},
    Rules{" Qwen3NextForCausalLM Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM"
          " Qwen3_5MoeForConditionalGeneration ",
          kPlain, K::kStated, P::kGated, 0, kOwnWidth},
    Rules{" AliceAIForCausalLM ", kPlain, K::kStated, P::kGated, 0, kOwnWidth},
    Rules{" LaraMiniForCausalLM ", kPlain, K::kStated, P::kStated, 0, kOwnWidth | kDelta},
    Rules{" HrmTextForCausalLM ", kPlain, K::kAll, P::kFull, 0, kOwnWidth},
    Rules{" OlmoHybridForCausalLM ", kPlain, K::kFollow, P::kGated},
    Rules{" GptOssForCausalLM ", kPlain, K::kStated, P::kAlternate, 0, kOwnWidth | kSinks},
    Rules{" Gemma2ForCausalLM VaultGemmaForCausalLM ", kPlain, K::kStated, P::kAlternate, 0, kOwnWidth},
    Rules{" Gemma3ForCausalLM Gemma3ForConditionalGeneration ", kPlain, K::kStated, P::kEvery, 6, kOwnWidth},
    Rules{" Cohere2ForCausalLM ", kPlain, K::kFollow, P::kEvery, 4, kOneMore},
    Rules{" CohereCompassForCausalLM ", kPlain, K::kFollow, P::kEvery, 4},
    Rules{" GraniteSWAForCausalLM ", kPlain, K::kStated, P::kStated},
    Rules{" Cohere2MoeForCausalLM ", kPlain, K::kFollow, P::kStated, 0, kOneMore | kOwnWidth},
    Rules{" Olmo3ForCausalLM ", kPlain, K::kFollow, P::kEvery, 4},
    Rules{" Exaone4ForCausalLM ExaoneMoeForCausalLM ExaoneMoEForCausalLM GraniteMoeSWAForCausalLM ", kPlain, K::kFollow, P::kStated},
    Rules{" AfmoeForCausalLM FlintForCausalLM BeamForCausalLM Kolibri1ForCausalLM LagunaForCausalLM MellumForCausalLM Rnj1ForCausalLM"
          " CwmForCausalLM Spark2_5ForCausalLM IQuestQ1ForCausalLM MuseSparkForConditionalGeneration"
          " MuseGlimmerForCausalLM "
          "MuseGlimmerForConditionalGeneration "
          "Plamo3ForCausalLM ",
          kPlain, K::kStated, P::kStated, 0, kOwnWidth},
    Rules{" Step3p5ForCausalLM Step3p7FlashForCausalLM ", kPlain, K::kGroups, P::kStated, 0, kLongTypes | kOwnWidth, kStep},
    Rules{" DoryForCausalLM ", kPlain, K::kStated, P::kStated, 0, kOwnWidth | kSomeMlp},
    Rules{" PanguEmbeddedForCausalLM ", kPlain, K::kStated, P::kCycle},
    Rules{" DomynEdgeForCausalLM ", kPlain, K::kStated, P::kPairs, 0, kOneMore | kOwnWidth},
    Rules{" IQuestLoopCoderForCausalLM NanbeigeForCausalLM ", &Reader::looped, K::kStated},
    Rules{" Gemma3nForCausalLM Gemma3nForConditionalGeneration ", &Reader::gemma4, K::kStated, P::kEvery, 5, kOwnWidth},
    Rules{" Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForCausalLM Gemma4UnifiedForConditionalGeneration"
          " DiffusionGemmaForBlockDiffusion ",
          &Reader::gemma4, K::kStated, P::kStated, 0, kOwnWidth | kGlobal},
    Rules{" MiMoV2FlashForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM ", &Reader::mimo, K::kStated, P::kFull, 0, kOwnWidth},
    Rules{" Llama4ForCausalLM Llama4ForConditionalGeneration ", &Reader::llama4},
    Rules{" DeciLMForCausalLM ", &Reader::deci},
    Rules{" HunYuanForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM ", &Reader::hunyuan, K::kFollow, P::kFull, 0, 0, kWide},
    Rules{" MiniMaxM3ForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3VLForCausalLM ", &Reader::minimax_m3, K::kStated, P::kFull, 0,
          kOwnWidth},
    // Latent rows.
    Rules{" DeepseekV2ForCausalLM DeepseekV3ForCausalLM AXK1ForCausalLM Glm4MoeLiteForCausalLM PanguUltraMoEForCausalLM"
          " MistralLarge3ForCausalLM SarvamMLAForCausalLM YoutuForCausalLM Mistral4ForCausalLM ",
          &Reader::mla},
    Rules{" DeepseekV32ForCausalLM GlmMoeDsaForCausalLM AXK2ForCausalLM HYV4ForCausalLM MistralLarge4ForCausalLM ", &Reader::mla,
          K::kStated, P::kFull, 0, kIndexed},
    Rules{" LongcatFlashForCausalLM LongcatFlashNgramForCausalLM ", &Reader::mla, K::kAll, P::kFull, 0, kTwice, kLongcat},
    Rules{" MiniCPM3ForCausalLM ", &Reader::unfolded},
    Rules{" DeepseekV4ForCausalLM ", &Reader::deepseek_v4},
    Rules{" KimiLinearForCausalLM KimiK3LinearForCausalLM KimiK3ForConditionalGeneration BailingHybridForCausalLM"
          " BailingMoeV3ForCausalLM BailingMoeV2_5ForCausalLM ",
          &Reader::kimi, K::kStated, P::kFull, 0, 0, kKimi},
    Rules{" GigaChat35ForCausalLM ", &Reader::gigachat},
    Rules{" Dots3NoteForCausalLM ", &Reader::dots3, K::kAll, P::kStated},
    // Recurrent states.
    Rules{" NemotronHForCausalLM ", &Reader::nemotron_h, K::kStated, P::kFull, 0, kOwnWidth, kWide},
    Rules{" BambaForCausalLM ", &Reader::bamba},
    Rules{" GraniteMoeHybridForCausalLM ", &Reader::granite, K::kFollow},
    Rules{" FalconH1ForCausalLM ", &Reader::falcon_h1},
    Rules{" Zamba2ForCausalLM ", &Reader::zamba2, K::kFollow, P::kFull, 0, kOwnWidth, kZamba2},
    Rules{" ZambaForCausalLM ", &Reader::zamba, K::kFollow, P::kFull, 0, kOwnWidth, kZamba2},
    Rules{" RecurrentGemmaForCausalLM ", &Reader::recurrent_gemma, K::kFollow, P::kStated},
    Rules{" xLSTMForCausalLM ", &Reader::xlstm, K::kAll},
    Rules{" RwkvForCausalLM ", &Reader::rwkv, K::kAll, P::kFull, 0, 0, kRwkv},
    Rules{" ZayaForCausalLM ", &Reader::zaya, K::kStated, P::kStated, 0, kOwnWidth},
    Rules{" JambaForCausalLM ", &Reader::jamba},
    Rules{" MambaForCausalLM FalconMambaForCausalLM ", &Reader::mamba, K::kStated},
    Rules{" Mamba2ForCausalLM ", &Reader::mamba2_only, K::kStated},
    Rules{" Lfm2ForCausalLM Lfm2MoeForCausalLM ", &Reader::lfm2},
    Rules{" Lfm3ForCausalLM ", &Reader::lfm2, K::kStated, P::kStated, 0, kOwnWidth},
    Rules{" MiniMaxText01ForCausalLM MiniMaxM1ForCausalLM MiniMaxForCausalLM ", &Reader::minimax_text},
    Rules{" InklingForCausalLM Inkling2ForCausalLM ", &Reader::inkling, K::kStated, P::kStated, 0, kOwnWidth},
    Rules{" Phi4FlashForCausalLM ", &Reader::samba_y},
    // Draft models with layers of their own.
    Rules{" EagleLlamaForCausalLM Eagle3LlamaForCausalLM LlamaForCausalLMEagle LlamaForCausalLMEagle3 PEagleDraftModel"
          " PeagleLlamaForCausalLM Eagle3MiniMaxM2ForCausalLM Eagle3Qwen2_5vlForCausalLM Eagle3Qwen3vlForCausalLM"
          " EagleMistralForCausalLM MistralForCausalLMEagle EagleCohereForCausalLM EagleMiniCPMForCausalLM ",
          kPlain, K::kFollow},
    Rules{" Qwen2ForCausalLMEagle ", kPlain, K::kStated, P::kQwen},
    Rules{" Eagle3Qwen3ForCausalLM PeagleQwen3ForCausalLM ", kPlain, K::kStated, P::kQwen, 0, kOwnWidth},
    Rules{" DFlashDraftModel MuseGlimmerAssistantModel DFlashMuseGlimmerAssistantModel Qwen3DSparkModel Qwen3OmniDSparkModel"
          " Qwen3XPressModel DFlashQwen3XPressModel LiLiCorrDraftModel DFlash2DraftModel DFlash2BeamDraftModel MiniMaxDFlash2DraftModel"
          " DFlashLagunaForCausalLM DSparkDraftModel LingDSparkModel Lfm2DSparkDraftModel DSparkMiniMaxDraftModel ",
          &Reader::dflash, K::kStated, P::kStated, 0, kOwnWidth},
    Rules{" MuseSparkDSparkModel ", kPlain, K::kStated, P::kFull, 0, kOwnWidth},
    Rules{" Gemma4DSparkModel ", &Reader::gemma4, K::kStated, P::kStated, 0, kOwnWidth | kGlobal},
    Rules{" IQuestQ1MTP ", &Reader::iquest_draft, K::kStated, P::kFull, 0, kOwnWidth},
    Rules{" EagleLlama4ForCausalLM ", &Reader::llama4},
    Rules{" EagleMistralLarge3ForCausalLM MistralLarge3ForCausalLMEagle Eagle3DeepseekV2ForCausalLM Eagle3DeepseekV3ForCausalLM"
          " EagleDeepSeekMTPModel K3DSparkModel ",
          &Reader::mla},
    // Draft layers that a config describes beside the others.
    Rules{" MiMoMTPModel MiMoMTP Glm4MoeMTPModel Glm4MoeForCausalLMNextN GlmOcrMTPModel GlmOcrForConditionalGenerationNextN ErnieMTPModel"
          " Ernie4_5_MoeForCausalLMMTP HYV3MTPModel HYV3ForCausalLMNextN ",
          kPlain, K::kStated, P::kFull, 0, kDrafts},
    Rules{" Qwen3NextMTP Qwen3NextForCausalLMMTP Qwen3_5MTP Qwen3_5MoeMTP Qwen3_5ForCausalLMMTP Qwen3MoeForCausalLMMTP"
          " InternS2MobiusMTP MiniMaxM2MTP ",
          kPlain, K::kStated, P::kFull, 0, kDrafts | kOwnWidth},
    Rules{" Step3p5MTP ", kPlain, K::kGroups, P::kStated, 0, kDrafts | kLongTypes | kOwnWidth, kStep},
    Rules{" DeepSeekMTPModel DeepseekV3ForCausalLMNextN Glm4MoeLiteMTPModel Glm4MoeLiteForCausalLMNextN OpenPanguMTPModel"
          " KimiK3MTPModel LongCatFlashMTPModel LongcatFlashForCausalLMNextN BailingMoeV25MTPModel BailingMoeV3MTPModel"
          " GigaChat35ForCausalLMNextN ",
          &Reader::mla, K::kStated, P::kFull, 0, kDrafts},
    Rules{" DeepseekV32MTPModel GlmMoeDsaForCausalLMNextN HYV4MTPModel HYV4ForCausalLMNextN ", &Reader::mla, K::kStated, P::kFull, 0,
          kDrafts | kIndexed},
    Rules{" DeepSeekV4MTPModel DeepseekV4ForCausalLMNextN ", &Reader::deepseek_v4, K::kStated, P::kFull, 0, kDrafts},
    Rules{" DeepseekV4ForCausalLMDSpark ", &Reader::deepseek_v4, K::kStated, P::kFull, 0, kDrafts | kStages},
    Rules{" BailingMoeForCausalLMNextN ", &Reader::bailing_draft, K::kStated, P::kFull, 0, kDrafts | kOwnWidth},
    Rules{" ExaoneMoeMTP Exaone4_5_MTP ExaoneMoEForCausalLMMTP ", &Reader::exaone_draft, K::kFollow, P::kStated, 0, kDrafts},
    Rules{" InklingMTPModel InklingForConditionalGenerationMTP ", &Reader::inkling, K::kStated, P::kStated, 0, kDrafts | kOwnWidth},
    Rules{" Dots3NoteMTPModel Dots3NoteForCausalLMNextN ", &Reader::dots3, K::kAll, P::kStated, 0, kDrafts},
    Rules{" MiniMaxM3MTP ", &Reader::minimax_m3, K::kStated, P::kFull, 0, kDrafts | kOwnWidth},
    Rules{" NemotronHMTPModel NemotronHForCausalLMMTP ", &Reader::nemotron_h, K::kStated, P::kFull, 0, kDrafts | kOwnWidth, kWide},
    Rules{" MiMoV2MTPModel MiMoV2OmniMTPModel MiMoV2MTP ", &Reader::mimo, K::kStated, P::kFull, 0, kDrafts | kOwnWidth},
    // With an encoder, or nothing but one.
    Rules{" WhisperForConditionalGeneration WhisperForCausalLM ", &Reader::whisper},
    Rules{" CanaryForConditionalGeneration CohereAsrForConditionalGeneration ", &Reader::cross, K::kStated, P::kFull, 0, 0, kAudio},
    Rules{" DiaForConditionalGeneration ", &Reader::cross, K::kStated, P::kFull, 0, kOwnWidth, kAudio},
    Rules{" T5GemmaForConditionalGeneration T5Gemma2ForConditionalGeneration ", &Reader::cross, K::kStated, P::kStated, 0, kOwnWidth,
          kNestedEncoder},
    Rules{" LEDForConditionalGeneration ", &Reader::cross, K::kAll, P::kFull, 0, 0, kLed},
    Rules{" ProphetNetForConditionalGeneration ProphetNetForCausalLM ", &Reader::cross, K::kAll, P::kFull, 0, 0, kProphet},
    Rules{" SeamlessM4TForTextToText SeamlessM4Tv2ForTextToText ", &Reader::cross, K::kAll, P::kFull, 0, 0, kSeamlessText},
    Rules{" SeamlessM4TForSpeechToText ", &Reader::cross, K::kAll, P::kFull, 0, 0, kSeamlessSpeech},
    Rules{" Speech2TextForConditionalGeneration ", &Reader::cross, K::kAll, P::kFull, 0, 0, kSpeech2Text},
    Rules{" SpeechT5ForSpeechToText ", &Reader::cross, K::kAll, P::kFull, 0, 0, kSpeechT5},
    Rules{" PPFormulaNetForConditionalGeneration ", &Reader::cross, K::kAll, P::kFull, 0, 0, kDecoderHalf},
    Rules{" BlipForConditionalGeneration ", &Reader::cross, K::kAll},
    Rules{" T5ForConditionalGeneration MT5ForConditionalGeneration UMT5ForConditionalGeneration LongT5ForConditionalGeneration"
          " SwitchTransformersForConditionalGeneration Pop2PianoForConditionalGeneration ",
          &Reader::t5},
    Rules{" BartForConditionalGeneration BigBirdPegasusForConditionalGeneration BlenderbotForConditionalGeneration"
          " BlenderbotSmallForConditionalGeneration M2M100ForConditionalGeneration MarianMTModel MBartForConditionalGeneration"
          " MvpForConditionalGeneration NllbMoeForConditionalGeneration PegasusForConditionalGeneration PegasusXForConditionalGeneration"
          " PLBartForConditionalGeneration FSMTForConditionalGeneration ",
          &Reader::bart},
    Rules{" BertModel ", &Reader::bert},
};

}  // namespace

bool names_one(const char* names, std::string_view name) {
  const std::string_view all = names;
  for (size_t at = all.find(name); !name.empty() && at != std::string_view::npos; at = all.find(name, at + 1)) {
    const bool begins = at == 0 || all[at - 1] == ' ';
    const size_t end = at + name.size();
    if (begins && (end == all.size() || all[end] == ' ') && name.find(' ') == std::string_view::npos) return true;
  }
  return false;
}

const Rules* rules_of(std::string_view architecture) {
  const auto* row = std::find_if(kRows.begin(), kRows.end(), [&](const Rules& rules) { return names_one(rules.names, architecture); });
  return row == kRows.end() ? nullptr : row;
}

}  // namespace quire
