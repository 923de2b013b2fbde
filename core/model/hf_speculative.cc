// Drafts counted with the model they draft for. A config says so in quire_speculative: an object with the draft's own config, or without
// one where the model's config describes draft layers beside the others; these draft as many tokens as there are, where it does not say.
#include <algorithm>
#include <cinttypes>

#include "core/model/hf_rules.h"

namespace quire {
namespace {

constexpr uint64_t kMaxDraftTokens = 1023;

// architecture=drafts, as vLLM names them where it rewrites a config for its draft.
constexpr const char* kDraftsOf =
    " BailingHybridForCausalLM=BailingMoeV25MTPModel BailingMoeV2_5ForCausalLM=BailingMoeV25MTPModel"
    " BailingMoeV3ForCausalLM=BailingMoeV3MTPModel BailingMoeV3VLForConditionalGeneration=BailingMoeV3MTPModel"
    " DeepseekV32ForCausalLM=DeepseekV32MTPModel DeepseekV3ForCausalLM=DeepSeekMTPModel DeepseekV4ForCausalLM=DeepSeekV4MTPModel"
    " DeepseekV4ForConditionalGeneration=DeepSeekV4MTPModel Dots3NoteForCausalLM=Dots3NoteMTPModel"
    " Dots3NoteForConditionalGeneration=Dots3NoteMTPModel Ernie4_5_MoeForCausalLM=ErnieMTPModel"
    " Exaone4_5_ForConditionalGeneration=Exaone4_5_MTP ExaoneMoEForCausalLM=ExaoneMoeMTP ExaoneMoeForCausalLM=ExaoneMoeMTP"
    " GigaChat35ForCausalLM=GigaChat35ForCausalLMNextN Glm4MoeForCausalLM=Glm4MoeMTPModel Glm4MoeLiteForCausalLM=Glm4MoeLiteMTPModel"
    " GlmMoeDsaForCausalLM=DeepseekV32MTPModel GlmOcrForConditionalGeneration=GlmOcrMTPModel HYV3ForCausalLM=HYV3MTPModel"
    " HYV4ForCausalLM=HYV4MTPModel InklingForConditionalGeneration=InklingMTPModel"
    " InternS2MobiusForConditionalGeneration=InternS2MobiusMTP InternS2PreviewForConditionalGeneration=Qwen3_5MoeMTP"
    " KimiK3ForConditionalGeneration=KimiK3MTPModel LongcatFlashForCausalLM=LongCatFlashMTPModel MiMoForCausalLM=MiMoMTPModel"
    " MiMoV2FlashForCausalLM=MiMoV2MTPModel MiMoV2ForCausalLM=MiMoV2MTPModel MiMoV2OmniForCausalLM=MiMoV2OmniMTPModel"
    " MiniMaxM2ForCausalLM=MiniMaxM2MTP MiniMaxM3ForCausalLM=MiniMaxM3MTP MiniMaxM3SparseForCausalLM=MiniMaxM3MTP "
    "MiniMaxM3SparseForConditionalGeneration=MiniMaxM3MTP"
    " NemotronHForCausalLM=NemotronHMTPModel NemotronH_Omni_Reasoning_V3=NemotronHMTPModel"
    " NemotronH_Super_Omni_Reasoning_V3=NemotronHMTPModel PanguUltraMoEForCausalLM=OpenPanguMTPModel"
    " Qwen3MoeForCausalLM=Qwen3MoeForCausalLMMTP Qwen3NextForCausalLM=Qwen3NextMTP Qwen3_5ForCausalLM=Qwen3_5MTP"
    " Qwen3_5ForConditionalGeneration=Qwen3_5MTP Qwen3_5MoeForCausalLM=Qwen3_5MoeMTP"
    " Qwen3_5MoeForConditionalGeneration=Qwen3_5MoeMTP Step3p5ForCausalLM=Step3p5MTP Step3p7FlashForCausalLM=Step3p5MTP"
    " Step3p7ForConditionalGeneration=Step3p5MTP ";

Status of_draft(Status status) {
  return status.ok() ? std::move(status) : fail(status.code(), "quire_speculative: %s", status.message().c_str());
}

}  // namespace

std::string_view drafts_of(std::string_view architecture) {
  const std::string_view all = kDraftsOf;
  const std::string wanted = " " + std::string(architecture) + "=";
  const size_t at = all.find(wanted);
  if (architecture.empty() || at == std::string_view::npos) return {};
  const size_t from = at + wanted.size();
  return all.substr(from, all.find(' ', from) - from);
}

// Drafts that fill blanks in take one beside them, which is not one of theirs.
bool Reader::fills_in() const {
  const bool dspark = architecture_.find("DSpark") != std::string_view::npos;
  if (!dspark) return rules_.family == &Reader::dflash;
  const Json* anchored = f_.find("sample_from_anchor");
  return anchored != nullptr && anchored->is_boolean() && !anchored->is_true();
}

Status add_drafts(const Json& root, Reader* reader, std::string* note) {
  const Json& asked = root["quire_speculative"];
  if (!asked.is_object()) return invalid("config: quire_speculative = %.64s; must be an object", Fields::shown(asked).c_str());
  for (const Json::Member& member : asked.object()) {
    if (member.key == "config" || member.key == "num_tokens") continue;
    return fail(QUIRE_UNIMPLEMENTED, "config: quire_speculative.%.64s is not known", member.key.c_str());
  }
  Fields said(asked, asked, "config: quire_speculative.");
  uint64_t tokens = said.get("num_tokens", 1, 1, kMaxDraftTokens);
  QUIRE_RETURN_IF_ERROR(std::move(said.status));
  const Json* own = said.find("config");
  if (own != nullptr && !own->is_object()) {
    return invalid("config: quire_speculative.config = %.64s; must be an object", Fields::shown(*own).c_str());
  }
  std::string as;
  if (own == nullptr) {
    auto target = open_config(root, "");
    as = target.ok() ? drafts_of(target->name) : "";
    if (as.empty()) {
      return fail(QUIRE_UNIMPLEMENTED, "config: draft layers of %.128s are not known; give the config of a draft",
                  target.ok() ? target->name.c_str() : "it");
    }
  }
  if (own != nullptr && keeps_nothing(architecture_in(*own))) {
    reader->expect_drafts(static_cast<uint32_t>(tokens));
    return {};
  }
  const Json& config = own != nullptr ? *own : root;
  auto opened = open_config(config, as);
  if (!opened.ok()) return of_draft(opened.take_status());
  Fields fields(config, *opened->text, "config: ", &opened->defaults);
  Reader drafts(fields, *opened->rules, opened->inner, opened->name);
  QUIRE_RETURN_IF_ERROR(of_draft(drafts.collect()));
  if (own == nullptr && !said.has("num_tokens")) tokens = std::min(drafts.modules(), kMaxDraftTokens);
  reader->expect_drafts(static_cast<uint32_t>(tokens));
  reader->follow(drafts, static_cast<uint32_t>(tokens));
  if (own != nullptr) *note = note_of_assumed(*opened, fields);
  if (!note->empty()) *note = "of the draft " + *note;
  return {};
}

}  // namespace quire
