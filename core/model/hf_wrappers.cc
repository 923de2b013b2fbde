// Models around a text model, architectures that are refused with a reason, and what model_type stands for.
#include <algorithm>
#include <array>

#include "core/model/hf_rules.h"

namespace quire {
namespace {

constexpr std::array kWrappers{
    // The nested config names its architecture or its type.
    Wrapper{" AriaForConditionalGeneration AudioFlamingo3ForConditionalGeneration AyaVisionForConditionalGeneration"
            " BeeForConditionalGeneration Cohere2VisionForConditionalGeneration CohereCompassForConditionalGeneration"
            " DeepseekVLForConditionalGeneration DeepseekVLHybridForConditionalGeneration Eagle2_5_VLForConditionalGeneration"
            " Exaone4_5_ForConditionalGeneration FastVlmForConditionalGeneration FuyuForCausalLM"
            " Blip2ForConditionalGeneration InstructBlipForConditionalGeneration InstructBlipVideoForConditionalGeneration"
            " FunAudioChatForConditionalGeneration GlmAsrForConditionalGeneration GotOcr2ForConditionalGeneration"
            " Granite4VisionForConditionalGeneration GraniteDoclingForConditionalGeneration GraniteSpeechForConditionalGeneration"
            " GraniteSpeechPlusForConditionalGeneration H2OVLChatModel HCXVisionV2ForCausalLM"
            " HyperCLOVAXVisionV2ForConditionalGeneration Idefics2ForConditionalGeneration Idefics3ForConditionalGeneration"
            " InternS1ForConditionalGeneration InternVLChatModel InternVLForConditionalGeneration JanusForConditionalGeneration"
            " KananaVForConditionalGeneration KimiVLForConditionalGeneration Lfm2VlForConditionalGeneration"
            " Lfm3VlForConditionalGeneration LightOnOCRForConditionalGeneration LightOnOcrForConditionalGeneration"
            " Llama_Nemotron_Nano_VL LlavaForConditionalGeneration LlavaNextForConditionalGeneration"
            " LlavaNextVideoForConditionalGeneration LlavaOnevisionForConditionalGeneration LlavaOnevision2ForConditionalGeneration"
            " MiniCPMV4_6ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration MiniCPMOcrForConditionalGeneration"
            " MistralLarge3ForConditionalGeneration Mistral3ForConditionalGeneration MossAudioModel MultiModalityCausalLM"
            " MossTranscribeDiarizeForConditionalGeneration MusicFlamingoForConditionalGeneration NVILAForConditionalGeneration"
            " NVILALiteForConditionalGeneration NVLM_D Nemotron3_5TranscribeForConditionalGeneration NemotronH_Nano_VL_V2"
            " NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3 NemotronH_Omni_Reasoning_V3"
            " OpenCUAForConditionalGeneration OpenVLAForActionPrediction Ovis Ovis2_5 Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM"
            " Ovis2ForConditionalGeneration PaliGemmaForConditionalGeneration PerceptionLMForConditionalGeneration"
            " PixtralForConditionalGeneration QianfanOCRForConditionalGeneration Qwen2AudioForConditionalGeneration"
            " RForConditionalGeneration SkyworkR1VChatModel SmolVLMForConditionalGeneration StepVLForConditionalGeneration"
            " UltravoxModel VibeVoiceAsrForConditionalGeneration"
            " VideoLlama3ForConditionalGeneration VideoLlavaForConditionalGeneration VipLlavaForConditionalGeneration"
            " VoxtralForConditionalGeneration FunAsrNanoForConditionalGeneration LocateAnythingForConditionalGeneration"
            " Sarashina2VisionForCausalLM POINTSV15ChatModel BailingMMNativeForConditionalGeneration"
            " BailingMM2NativeForConditionalGeneration ",
            ""},
    Wrapper{" DeepseekVLV2ForCausalLM DeepseekVL2ForCausalLM DeepseekOCRForCausalLM ", "DeepseekV2ForCausalLM"},
    Wrapper{" KimiK25ForConditionalGeneration Kimi_K25ForConditionalGeneration DotsVLMForCausalLM ", "DeepseekV3ForCausalLM"},
    Wrapper{" DeepseekOCR2ForCausalLM ", "DeepseekV2ForCausalLM"},
    Wrapper{" DeepseekOcr2ForConditionalGeneration ", "DeepseekForCausalLM"},
    Wrapper{" DeepseekV4ForConditionalGeneration ", "DeepseekV4ForCausalLM"},
    Wrapper{" CanaryForConditionalGeneration DiaForConditionalGeneration T5GemmaForConditionalGeneration"
            " T5Gemma2ForConditionalGeneration PPFormulaNetForConditionalGeneration BlipForConditionalGeneration ",
            "="},
    Wrapper{" EncoderDecoderModel VisionEncoderDecoderModel Cosmos3OmniForConditionalGeneration PI0ForConditionalGeneration ", ""},
    Wrapper{" Florence2ForConditionalGeneration ", "BartForConditionalGeneration"},
    Wrapper{" Kosmos2ForConditionalGeneration Kosmos2_5ForConditionalGeneration ", "Kosmos2TextForCausalLM"},
    Wrapper{" MusicgenMelodyForCausalLM ", "OPTForCausalLM"},
    Wrapper{" Inkling2ForConditionalGeneration ", "Inkling2ForCausalLM"},
    Wrapper{" Dots3NoteForConditionalGeneration ", "Dots3NoteForCausalLM"},
    Wrapper{" MistralLarge4ForConditionalGeneration ", "MistralLarge4ForCausalLM"},
    Wrapper{" DotsOCRForCausalLM BagelForConditionalGeneration MiDashengLMModel MiniCPMO MiniCPMV Qwen2VLForConditionalGeneration"
            " Qwen2_5_VLForConditionalGeneration Qwen2_5OmniModel Qwen2_5OmniForConditionalGeneration"
            " Qwen2_5OmniThinkerForConditionalGeneration MoonshotKimiaForCausalLM JinaVLForRanking"
            " LlavaQwenForCausalLM FireRedASR2ForConditionalGeneration MiMoV2ASRForCausalLM ",
            "Qwen2ForCausalLM"},
    Wrapper{" Qwen3VLForConditionalGeneration Qwen3ASRForConditionalGeneration Qwen3ASRRealtimeGeneration IsaacForConditionalGeneration"
            " KeyeForConditionalGeneration KeyeVL1_5ForConditionalGeneration FunASRForConditionalGeneration"
            " Cosmos3EdgeForConditionalGeneration Cosmos3ForConditionalGeneration"
            " Alpamayo2Super ",
            "Qwen3ForCausalLM"},
    Wrapper{" Qwen3VLMoeForConditionalGeneration Qwen3OmniMoeForConditionalGeneration Qwen3OmniMoeThinkerForConditionalGeneration"
            " InternS1ProForConditionalGeneration ",
            "Qwen3MoeForCausalLM"},
    Wrapper{" InternS2PreviewForConditionalGeneration InternS2MobiusForConditionalGeneration ", "Qwen3_5MoeForCausalLM"},
    Wrapper{" LlavaLlamaForCausalLM YiVLForCausalLM LlavaVidForCausalLM Emu3ForConditionalGeneration Emu3ForCausalLM"
            " ChameleonForConditionalGeneration ",
            "LlamaForCausalLM"},
    Wrapper{" LlavaMistralForCausalLM ", "MistralForCausalLM"},
    Wrapper{" GLM4VForCausalLM ", "ChatGLMModel"},
    Wrapper{" Glm4vForConditionalGeneration GlmOcrForConditionalGeneration Glm46VForConditionalGeneration ", "Glm4MoeForCausalLM"},
    Wrapper{" Glm4vMoeForConditionalGeneration ", "Glm4MoeForCausalLM"},
    Wrapper{" Ernie4_5_VLMoeForConditionalGeneration ", "Ernie4_5_MoeForCausalLM"},
    Wrapper{" PaddleOCRVLForConditionalGeneration ", "Ernie4_5ForCausalLM"},
    Wrapper{" Step3VLForConditionalGeneration ", "Step3TextForCausalLM"},
    Wrapper{" Step3p7ForConditionalGeneration ", "Step3p5ForCausalLM"},
    Wrapper{" BailingMoeV3VLForConditionalGeneration ", "BailingMoeV3ForCausalLM"},
    Wrapper{" InklingForConditionalGeneration ", "InklingForCausalLM"},
    Wrapper{" GlmImageForConditionalGeneration ", "Glm4MoeForCausalLM"},
    Wrapper{" MiniMaxM3SparseForConditionalGeneration ", "MiniMaxM3SparseForCausalLM"},
    Wrapper{" Molmo2ForConditionalGeneration ", "Qwen3ForCausalLM"},
    Wrapper{" HunYuanVLForConditionalGeneration ", "HunYuanDenseV1ForCausalLM"},
    Wrapper{" Phi4ForCausalLMV ", "Phi3ForCausalLM"},
    Wrapper{" OpenPanguVLForConditionalGeneration ", "PanguEmbeddedForCausalLM"},
};

constexpr std::string_view kKeepsNothing = "it keeps no cache of its own";

struct Refusal {
  const char* names;
  const char* why;
};
constexpr std::array kRefusals{
    Refusal{" Glm5NextForCausalLM Glm5NextForConditionalGeneration ", "its indexer keeps pools of tokens beside a ring of the last ones"},
    Refusal{" MiniCPMSALAForCausalLM JetNemotronForCausalLM JetVLMForConditionalGeneration ",
            "the shape of its linear states is not in its config"},
    Refusal{" DeepseekV41ForCausalLM Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration Step5ForCausalLM Step5ForConditionalGeneration ",
            "it keeps summaries of blocks beside its keys, which no kind of layer describes"},
    Refusal{" PanguProMoEV2ForCausalLM ", "its values have another width than its keys, and rows of sinks stand before them"},
    Refusal{" Phi3SmallForCausalLM ", "its keys and values are interleaved in blocks of its own"},
    Refusal{" ReformerModelWithLMHead XLNetLMHeadModel BltForCausalLM VibeVoiceForConditionalGeneration ",
            "what it keeps of a sequence is not keys and values of its layers alone"},
    Refusal{" SeamlessM4Tv2ForSpeechToText MoonshineForConditionalGeneration MoonshineStreamingForConditionalGeneration"
            " SpeechEncoderDecoderModel Pix2StructForConditionalGeneration UdopForConditionalGeneration MusicgenForCausalLM"
            " MllamaForConditionalGeneration MllamaForCausalLM ",
            "how long its encoder's output is, is not in its config"},
    Refusal{" Gemma4AssistantForCausalLM Gemma4UnifiedAssistantForCausalLM Gemma4MTPModel ",
            "it keeps no cache of its own, it reads that of the model it drafts for"},
    Refusal{" ParseAuxMTPModel ", "it keeps no cache of its own, it has no attention"},
    Refusal{" ExtractHiddenStatesModel ", "it keeps hidden states of layers that are named when it runs"},
    Refusal{" DSparkV41DraftModel Glm5NextMTPModel Glm5NextForConditionalGenerationNextN Step5MTP Qwen4ExpMTP Qwen4ExpForCausalLMMTP ",
            "what its draft layers keep is not read"},
    Refusal{" UnlimitedOCRForCausalLM UnlimitedOcrForConditionalGeneration ", "its sliding layers keep more tokens than their windows"},
    Refusal{" NemotronHPuzzleForCausalLM ", "what its layers have of their own is not read"},
    Refusal{" VoxtralRealtimeGeneration VoxtralRealtimeForConditionalGeneration KyutaiSpeechToTextForConditionalGeneration ",
            "its audio encoder streams and keeps keys and values, too, which are not read"},
    Refusal{" MossVLForConditionalGeneration ", "some of its layers attend to images across, which is not read"},
    Refusal{" NemotronParseForConditionalGeneration RadioMBartPrefixForCausalLM Moondream3ForCausalLM HfMoondream ",
            "its cross attention or its nested config is not read"},
};

// model_type=architecture, where a config has no architectures.
constexpr const char* kTypes =
    " afmoe=AfmoeForCausalLM apertus=ApertusForCausalLM arcee=ArceeForCausalLM aria=AriaForConditionalGeneration "
    "aria_text=AriaTextForCausalLM audioflamingo3=AudioFlamingo3ForConditionalGeneration axk1=AXK1ForCausalLM axk2=AXK2ForCausalLM "
    "aya_vision=AyaVisionForConditionalGeneration baichuan=BaichuanForCausalLM bailing_hybrid=BailingHybridForCausalLM "
    "bamba=BambaForCausalLM bart=BartForCausalLM beam=BeamForCausalLM bert=BertLMHeadModel bert-generation=BertGenerationDecoder "
    "big_bird=BigBirdForCausalLM bigbird_pegasus=BigBirdPegasusForCausalLM biogpt=BioGptForCausalLM bitnet=BitNetForCausalLM "
    "blenderbot=BlenderbotForCausalLM blenderbot-small=BlenderbotSmallForCausalLM blip=BlipForConditionalGeneration "
    "blip-2=Blip2ForConditionalGeneration bloom=BloomForCausalLM blt=BltForCausalLM camembert=CamembertForCausalLM "
    "canary=CanaryForConditionalGeneration chameleon=ChameleonForConditionalGeneration chatglm=ChatGLMModel "
    "codegen=CodeGenForCausalLM cohere=CohereForCausalLM cohere2=Cohere2ForCausalLM cohere2_moe=Cohere2MoeForCausalLM "
    "cohere2_vision=Cohere2VisionForConditionalGeneration cohere_asr=CohereAsrForConditionalGeneration "
    "cohere_compass=CohereCompassForConditionalGeneration cohere_compass_text=CohereCompassForCausalLM "
    "cosmos3_edge=Cosmos3EdgeForConditionalGeneration cosmos3_omni=Cosmos3OmniForConditionalGeneration cpmant=CpmAntForCausalLM "
    "ctrl=CTRLLMHeadModel cwm=CwmForCausalLM data2vec-text=Data2VecTextForCausalLM dbrx=DbrxForCausalLM deci=DeciLMForCausalLM "
    "deepseek_ocr2=DeepseekOcr2ForConditionalGeneration deepseek_v2=DeepseekV2ForCausalLM deepseek_v3=DeepseekV3ForCausalLM "
    "deepseek_v32=DeepseekV32ForCausalLM deepseek_v4=DeepseekV4ForCausalLM deepseek_vl=DeepseekVLForConditionalGeneration "
    "deepseek_vl_hybrid=DeepseekVLHybridForConditionalGeneration deepseek_vl_v2=DeepseekVLV2ForCausalLM "
    "dia=DiaForConditionalGeneration diffllama=DiffLlamaForCausalLM diffusion_gemma=DiffusionGemmaForBlockDiffusion "
    "doge=DogeForCausalLM dots1=Dots1ForCausalLM dots3_note=Dots3NoteForCausalLM dots3_note_text=Dots3NoteForCausalLM "
    "electra=ElectraForCausalLM emu3=Emu3ForCausalLM emu3_text_model=LlamaForCausalLM encoder-decoder=EncoderDecoderModel "
    "ernie=ErnieForCausalLM ernie4_5=Ernie4_5ForCausalLM ernie4_5_moe=Ernie4_5_MoeForCausalLM "
    "ernie4_5_vl_moe=Ernie4_5_VLMoeForConditionalGeneration evolla=EvollaForProteinText2Text exaone=ExaoneForCausalLM "
    "exaone4=Exaone4ForCausalLM exaone4_5=Exaone4_5_ForConditionalGeneration exaone_moe=ExaoneMoeForCausalLM "
    "falcon=FalconForCausalLM falcon_h1=FalconH1ForCausalLM falcon_mamba=FalconMambaForCausalLM "
    "fast_vlm=FastVlmForConditionalGeneration flex_olmo=FlexOlmoForCausalLM flint=FlintForCausalLM "
    "florence2=Florence2ForConditionalGeneration fsmt=FSMTForConditionalGeneration fun_asr_nano=FunAsrNanoForConditionalGeneration "
    "fuyu=FuyuForCausalLM gemma=GemmaForCausalLM gemma2=Gemma2ForCausalLM gemma3=Gemma3ForConditionalGeneration "
    "gemma3_text=Gemma3ForCausalLM gemma3n=Gemma3nForConditionalGeneration gemma3n_text=Gemma3nForCausalLM "
    "gemma4=Gemma4ForConditionalGeneration gemma4_text=Gemma4ForCausalLM gemma4_unified=Gemma4UnifiedForConditionalGeneration "
    "gemma4_unified_text=Gemma4UnifiedForCausalLM gigachat3_5=GigaChat35ForCausalLM git=GitForCausalLM glm=GlmForCausalLM "
    "glm4=Glm4ForCausalLM glm46v=Glm46VForConditionalGeneration glm4_moe=Glm4MoeForCausalLM glm4_moe_lite=Glm4MoeLiteForCausalLM "
    "glm4v=Glm4vForConditionalGeneration glm4v_moe=Glm4vMoeForConditionalGeneration glm4v_moe_text=Glm4MoeForCausalLM "
    "glm4v_text=Glm4ForCausalLM glm5_next=Glm5NextForConditionalGeneration glm_moe_dsa=GlmMoeDsaForCausalLM "
    "glm_ocr=GlmOcrForConditionalGeneration glmasr=GlmAsrForConditionalGeneration glmga=Glm46VForConditionalGeneration "
    "got_ocr2=GotOcr2ForConditionalGeneration gpt-sw3=GPT2LMHeadModel gpt2=GPT2LMHeadModel gpt_bigcode=GPTBigCodeForCausalLM "
    "gpt_neo=GPTNeoForCausalLM gpt_neox=GPTNeoXForCausalLM gpt_neox_japanese=GPTNeoXJapaneseForCausalLM gpt_oss=GptOssForCausalLM "
    "gptj=GPTJForCausalLM granite=GraniteForCausalLM granite4_vision=Granite4VisionForConditionalGeneration "
    "granite4_vision_text=GraniteForCausalLM "
    "granite_docling=GraniteDoclingForConditionalGeneration granite_docling_text=GraniteForCausalLM "
    "granite_speech=GraniteSpeechForConditionalGeneration "
    "granite_speech_plus=GraniteSpeechPlusForConditionalGeneration granite_swa=GraniteSWAForCausalLM "
    "granitemoe=GraniteMoeForCausalLM granitemoe_swa=GraniteMoeSWAForCausalLM granitemoehybrid=GraniteMoeHybridForCausalLM "
    "granitemoeshared=GraniteMoeSharedForCausalLM helium=HeliumForCausalLM hrm_text=HrmTextForCausalLM hunyuan=HunYuanForCausalLM "
    "hunyuan_v1_dense=HunYuanDenseV1ForCausalLM hunyuan_v1_moe=HunYuanMoEV1ForCausalLM hunyuan_vl=HunYuanVLForConditionalGeneration "
    "hy_v3=HYV3ForCausalLM hy_v4=HYV4ForCausalLM hyperclovax=HyperCLOVAXForCausalLM "
    "hyperclovax_vision_v2=HyperCLOVAXVisionV2ForConditionalGeneration idefics=IdeficsForVisionText2Text "
    "idefics2=Idefics2ForConditionalGeneration idefics3=Idefics3ForConditionalGeneration idefics3_text=LlamaForCausalLM "
    "inkling2=Inkling2ForConditionalGeneration inkling2_text=Inkling2ForCausalLM inkling_mm_model=InklingForConditionalGeneration "
    "inkling_text=InklingForCausalLM internlm2=InternLM2ForCausalLM internlm3=LlamaForCausalLM "
    "interns2_mobius=InternS2MobiusForConditionalGeneration internvl=InternVLForConditionalGeneration iquest_q1_mtp=IQuestQ1MTP "
    "iquestcoder=LlamaForCausalLM jais2=Jais2ForCausalLM jamba=JambaForCausalLM janus=JanusForConditionalGeneration "
    "jetmoe=JetMoeForCausalLM k3_dspark=K3DSparkModel kimi_k2=DeepseekV3ForCausalLM kimi_k25=Kimi_K25ForConditionalGeneration "
    "kimi_linear=KimiLinearForCausalLM kimi_vl=KimiVLForConditionalGeneration kolibri1=Kolibri1ForCausalLM "
    "kosmos-2=Kosmos2ForConditionalGeneration kosmos-2.5=Kosmos2_5ForConditionalGeneration laguna=LagunaForCausalLM "
    "lara_mini=LaraMiniForCausalLM "
    "led=LEDForConditionalGeneration lfm2=Lfm2ForCausalLM lfm2_moe=Lfm2MoeForCausalLM lfm2_vl=Lfm2VlForConditionalGeneration "
    "lfm3=Lfm3ForCausalLM lfm3_vl=Lfm3VlForConditionalGeneration lighton_ocr=LightOnOcrForConditionalGeneration "
    "llama=LlamaForCausalLM llama4=Llama4ForCausalLM llama4_text=Llama4ForCausalLM llava=LlavaForConditionalGeneration "
    "llava_next=LlavaNextForConditionalGeneration llava_next_video=LlavaNextVideoForConditionalGeneration "
    "llava_onevision=LlavaOnevisionForConditionalGeneration longcat_flash=LongcatFlashForCausalLM "
    "longt5=LongT5ForConditionalGeneration m2m_100=M2M100ForConditionalGeneration mamba=MambaForCausalLM mamba2=Mamba2ForCausalLM "
    "marian=MarianForCausalLM mbart=MBartForCausalLM megatron-bert=MegatronBertForCausalLM mellum=MellumForCausalLM "
    "mimo=MiMoForCausalLM mimo_v2=MiMoV2ForCausalLM mimo_v2_flash=MiMoV2FlashForCausalLM minicpm=MiniCPMForCausalLM "
    "minicpm3=MiniCPM3ForCausalLM minicpm_ocr=MiniCPMOcrForConditionalGeneration minicpmv4_6=MiniCPMV4_6ForConditionalGeneration "
    "minicpmv4_7=MiniCPMV4_7ForConditionalGeneration minimax=MiniMaxForCausalLM minimax_m2=MiniMaxM2ForCausalLM "
    "minimax_m3=MiniMaxM3SparseForConditionalGeneration minimax_m3_text=MiniMaxM3SparseForCausalLM "
    "minimax_m3_vl=MiniMaxM3SparseForConditionalGeneration minimax_m3_vl_text=MiniMaxM3VLForCausalLM ministral=MinistralForCausalLM "
    "ministral3=Ministral3ForCausalLM mistral=MistralForCausalLM mistral3=Mistral3ForConditionalGeneration "
    "mistral4=Mistral4ForCausalLM mistral_large4=MistralLarge4ForConditionalGeneration mistral_large4_text=MistralLarge4ForCausalLM "
    "mixtral=MixtralForCausalLM mllama=MllamaForCausalLM modernbert-decoder=ModernBertDecoderForCausalLM "
    "molmo2=Molmo2ForConditionalGeneration moshi=MoshiForCausalLM "
    "moss_transcribe_diarize=MossTranscribeDiarizeForConditionalGeneration mpt=MptForCausalLM mt5=MT5ForConditionalGeneration "
    "muse_glimmer=MuseGlimmerForConditionalGeneration muse_spark=MuseSparkForConditionalGeneration "
    "musicflamingo=MusicFlamingoForConditionalGeneration musicgen=MusicgenForCausalLM musicgen_melody=MusicgenMelodyForCausalLM "
    "mvp=MvpForCausalLM nanochat=NanoChatForCausalLM nemo_speechlm=Nemotron3_5TranscribeForConditionalGeneration "
    "nemotron=NemotronForCausalLM nemotron-nas=DeciLMForCausalLM nemotron_h=NemotronHForCausalLM "
    "nemotron_h_omni=NemotronH_Omni_Reasoning_V3 nllb-moe=NllbMoeForConditionalGeneration olmo=OlmoForCausalLM "
    "olmo2=Olmo2ForCausalLM olmo3=Olmo3ForCausalLM olmo_hybrid=OlmoHybridForCausalLM olmoe=OlmoeForCausalLM "
    "openai-gpt=OpenAIGPTLMHeadModel opt=OPTForCausalLM ovis2=Ovis2ForConditionalGeneration "
    "paddleocr_vl=PaddleOCRVLForConditionalGeneration paligemma=PaliGemmaForConditionalGeneration pegasus=PegasusForCausalLM "
    "pegasus_x=PegasusXForConditionalGeneration perception_lm=PerceptionLMForConditionalGeneration persimmon=PersimmonForCausalLM "
    "phi=PhiForCausalLM phi3=Phi3ForCausalLM phi3_v=Phi3VForCausalLM phi4_multimodal=Phi4MultimodalForCausalLM "
    "phi4mm=Phi4MMForCausalLM phimoe=PhimoeForCausalLM pi0=PI0ForConditionalGeneration plbart=PLBartForCausalLM "
    "pop2piano=Pop2PianoForConditionalGeneration pp_chart2table=GotOcr2ForConditionalGeneration "
    "pp_formulanet=PPFormulaNetForConditionalGeneration prophetnet=ProphetNetForCausalLM "
    "qianfan_ocr=QianfanOCRForConditionalGeneration qwen=QWenLMHeadModel qwen2=Qwen2ForCausalLM "
    "qwen2_5_omni=Qwen2_5OmniForConditionalGeneration qwen2_5_omni_thinker=Qwen2_5OmniThinkerForConditionalGeneration "
    "qwen2_5_vl=Qwen2_5_VLForConditionalGeneration qwen2_5_vl_text=Qwen2ForCausalLM qwen2_audio=Qwen2AudioForConditionalGeneration "
    "qwen2_moe=Qwen2MoeForCausalLM qwen2_vl=Qwen2VLForConditionalGeneration qwen2_vl_text=Qwen2ForCausalLM qwen3=Qwen3ForCausalLM "
    "qwen3_5=Qwen3_5ForCausalLM qwen3_5_moe=Qwen3_5MoeForCausalLM qwen3_5_moe_text=Qwen3_5MoeForCausalLM "
    "qwen3_5_text=Qwen3_5ForCausalLM qwen3_asr=Qwen3ASRForConditionalGeneration qwen3_moe=Qwen3MoeForCausalLM "
    "qwen3_next=Qwen3NextForCausalLM qwen3_omni_moe=Qwen3OmniMoeForConditionalGeneration "
    "qwen3_omni_moe_thinker=Qwen3OmniMoeThinkerForConditionalGeneration qwen3_vl=Qwen3VLForConditionalGeneration "
    "qwen3_vl_moe=Qwen3VLMoeForConditionalGeneration qwen3_vl_moe_text=Qwen3MoeForCausalLM qwen3_vl_text=Qwen3ForCausalLM "
    "qwen4_exp=Qwen4ExpForCausalLM qwen4_exp_text=Qwen4ExpForCausalLM recurrent_gemma=RecurrentGemmaForCausalLM "
    "reformer=ReformerModelWithLMHead rembert=RemBertForCausalLM roberta=RobertaForCausalLM "
    "roberta-prelayernorm=RobertaPreLayerNormForCausalLM roc_bert=RoCBertForCausalLM roformer=RoFormerForCausalLM "
    "rwkv=RwkvForCausalLM seed_oss=SeedOssForCausalLM shieldgemma2=Gemma3ForConditionalGeneration smollm3=SmolLM3ForCausalLM "
    "smolvlm=SmolVLMForConditionalGeneration solar_open=SolarOpenForCausalLM speech_to_text=Speech2TextForConditionalGeneration "
    "stablelm=StableLmForCausalLM starcoder2=Starcoder2ForCausalLM step3p5=Step3p5ForCausalLM "
    "step3p7=Step3p7ForConditionalGeneration switch_transformers=SwitchTransformersForConditionalGeneration "
    "t5=T5ForConditionalGeneration t5gemma=T5GemmaForConditionalGeneration t5gemma2=T5Gemma2ForConditionalGeneration "
    "trocr=TrOCRForCausalLM umt5=UMT5ForConditionalGeneration vaultgemma=VaultGemmaForCausalLM "
    "vibevoice=VibeVoiceForConditionalGeneration vibevoice_asr=VibeVoiceAsrForConditionalGeneration "
    "video_llama_3=VideoLlama3ForConditionalGeneration video_llava=VideoLlavaForConditionalGeneration "
    "vipllava=VipLlavaForConditionalGeneration vision-encoder-decoder=VisionEncoderDecoderModel "
    "voxtral=VoxtralForConditionalGeneration voxtral_realtime=VoxtralRealtimeForConditionalGeneration "
    "whisper=WhisperForConditionalGeneration xglm=XGLMForCausalLM xlm=XLMWithLMHeadModel xlm-roberta=XLMRobertaForCausalLM "
    "xlm-roberta-xl=XLMRobertaXLForCausalLM xlnet=XLNetLMHeadModel xlstm=xLSTMForCausalLM xmod=XmodForCausalLM "
    "youtu=YoutuForCausalLM zamba=ZambaForCausalLM zamba2=Zamba2ForCausalLM zaya=ZayaForCausalLM ";

}  // namespace

const Wrapper* wrapper_of(std::string_view architecture) {
  const auto* row =
      std::find_if(kWrappers.begin(), kWrappers.end(), [&](const Wrapper& one) { return names_one(one.names, architecture); });
  return row == kWrappers.end() ? nullptr : row;
}

const char* refusal_of(std::string_view architecture) {
  const auto* row =
      std::find_if(kRefusals.begin(), kRefusals.end(), [&](const Refusal& one) { return names_one(one.names, architecture); });
  return row == kRefusals.end() ? nullptr : row->why;
}

bool keeps_nothing(std::string_view architecture) {
  const char* why = refusal_of(architecture);
  return why != nullptr && starts_with(why, kKeepsNothing);
}

std::string_view architecture_of_type(std::string_view model_type) {
  const std::string_view all = kTypes;
  for (size_t at = all.find(model_type); !model_type.empty() && at != std::string_view::npos; at = all.find(model_type, at + 1)) {
    const size_t end = at + model_type.size();
    if (end >= all.size() || all[end] != '=' || all[at - 1] != ' ') continue;
    return all.substr(end + 1, all.find(' ', end) - end - 1);
  }
  return {};
}

}  // namespace quire
