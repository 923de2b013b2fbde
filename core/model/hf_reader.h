// Reader of a Hugging Face config, one member function per family of architectures. Private to core/model.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/hf_fields.h"
#include "core/model/model_layers.h"

namespace quire {

struct Rules;

// What a config says of a decoder's layers, by the rules of its architecture.
class DecoderFields {
 public:
  static constexpr uint64_t kMaxLayers = 4096;
  static constexpr uint64_t kMaxCount = 65536;
  static constexpr uint64_t kMaxLength = (uint64_t{1} << 31) - 1;

  // architecture: of the text model; shown: of the config.
  DecoderFields(Fields& fields, const Rules& rules, std::string_view architecture, std::string_view shown)
      : f_(fields), rules_(rules), architecture_(architecture), shown_(shown) {}

 protected:
  // Layers, and what each of them states for itself.
  uint64_t count_layers();
  uint64_t count_drafts();
  void layer_overrides(uint64_t count);
  const Json* overrides(uint64_t layer) const { return layer < overrides_.size() ? overrides_[layer] : nullptr; }
  bool skips_attention(uint64_t layer);
  // Heads and widths of ordinary attention.
  quire_layer attention_geometry();
  uint64_t kv_heads(uint64_t q_heads);
  // Tokens of a window, 0 where none is stated; tokens that sliding layers see.
  uint64_t stated_window();
  uint64_t window(uint64_t layer = 0);
  std::vector<uint64_t> listed_windows(uint64_t count);
  // One letter per layer: f full, s sliding, c chunked, i full and indexed, v a convolution, l what else the family knows.
  std::string layer_types(uint64_t count, std::initializer_list<const char*> known);
  std::string default_types(uint64_t count);
  std::string nemotron_pattern();
  // Layers named by index in a list.
  std::vector<bool> marked(const char* key, const Json* list, uint64_t count, uint64_t first);
  // Latent rows: layers with an indexer, tokens per compressed row.
  std::vector<bool> indexed_layers(uint64_t count);
  std::vector<uint64_t> compressions(uint64_t count);
  // Tokens of encoders.
  uint64_t image_side(const std::string& of);
  uint64_t encoder_tokens();
  uint64_t encoder_beside();
  void refuse_foreign();
  // What is stated, says something, and was not asked for; nullptr otherwise. Refuses a field that
  // no reader of the class knows.
  const Json* unread(const char* key) const;
  void not_known(const std::string& field, const Json& value);
  void refuse_types();
  // Of families whose readers disagree about windows.
  void refuse_window();
  bool of_any(std::initializer_list<std::string_view> prefixes) const;
  // A number that must be there and may be 0.
  uint64_t from_zero(const char* key, uint64_t limit);
  uint32_t narrow(uint64_t value) const { return static_cast<uint32_t>(value); }

  Fields& f_;
  const Rules& rules_;
  std::string_view architecture_;
  std::string_view shown_;
  std::vector<const Json*> overrides_;
  std::vector<uint64_t> windows_;  // of layers, where a list says; 0 = none
};

// The caches that are read so far, and what families add to them.
class CacheList : public DecoderFields {
 public:
  using DecoderFields::DecoderFields;

 protected:
  // Shape of a Mamba-2 state.
  struct Mamba2 {
    uint64_t heads = 0;
    uint64_t width = 0;
    uint64_t groups = 0;
    uint64_t states = 0;
    uint64_t kernel = 0;
  };

  // The first cache of the next layer; another cache of the last one.
  quire_layer& add(quire_layer_kind kind);
  quire_layer& also(quire_layer_kind kind);
  void attend(const quire_layer& geometry, quire_layer* layer) const;
  void attention(const quire_layer& geometry, quire_layer_kind kind, uint64_t window);
  // One latent row per token (or per `ratio` tokens).
  quire_layer& latent(quire_layer* layer, uint64_t width, uint64_t ratio = 1) const;
  void latent_attention(uint64_t width, uint64_t rope, uint64_t q_heads);
  void gated_delta();
  void lightning_state(uint64_t heads, uint64_t width);
  void kimi_delta(uint64_t heads, uint64_t width, uint64_t kernel);
  void indexer(uint64_t ratio);
  void mamba1(uint64_t channels, uint64_t states, uint64_t kernel, quire_layer* layer);
  void mamba2(const Mamba2& shape, quire_layer* layer);
  quire_dtype state_dtype() { return f_.dtype({"mamba_ssm_dtype", "mamba_ssm_cache_dtype"}, state_dtype_); }
  void cross_attention(const quire_layer& geometry, uint64_t encoder_tokens);
  void encoder_decoder(uint64_t count, const quire_layer& geometry, uint64_t encoder_tokens);
  // Fields that change what is kept and that the reader did not ask for.
  void refuse_unread();

  quire_dtype model_dtype_ = kBFloat16;
  quire_dtype state_dtype_ = kBFloat16;  // of recurrent matrices, where the config does not say
  float softcap_ = 0;
  uint64_t length_ = 0;  // 0 = not stated
  std::vector<quire_layer> layers_;
  std::vector<LayerFacts> facts_;  // as layers_
};

// Families with recurrent states.
class StateFamilies : public CacheList {
 public:
  using CacheList::CacheList;

  void nemotron_h();
  void bamba();
  void granite();
  void falcon_h1();
  void zamba2();
  void jamba();
  void mamba();
  void mamba2_only();
  void lfm2();
  void minimax_text();
  void samba_y();
  void inkling();
  void zamba();
  void recurrent_gemma();
  void xlstm();
  void rwkv();
  void zaya();
};

class Reader : public StateFamilies {
 public:
  // Tokens that the kernels of states work at, where the config does not say; those of Nemotron-H at the second.
  static constexpr uint64_t kStateChunk = 256;
  static constexpr uint64_t kShortStateChunk = 128;

  using StateFamilies::StateFamilies;

  // Where a family deviates from a plain decoder.
  void decoder();
  void gemma4();
  void mimo();
  void llama4();
  void deci();
  void mla();
  void unfolded();
  void minimax_m3();
  void deepseek_v4();
  void kimi();
  void hunyuan();
  void looped();
  void whisper();
  void t5();
  void bart();
  void bert();
  void cross();
  void dflash();
  void exaone_draft();
  void iquest_draft();
  void bailing_draft();
  void gigachat();
  void dots3();

  using Family = void (Reader::*)();
  // The layers; what is behind them of drafts, which write `tokens` ahead; the model of all.
  Status collect();
  uint64_t modules() { return count_drafts(); }  // of drafts that a config describes beside the others
  void expect_drafts(uint32_t tokens);
  void follow(const Reader& drafts, uint32_t tokens);
  Result<Model> finish();

 private:
  // fp8 content where the config says that keys and values are stored so.
  void kv_cache_scheme();
  void keep_fp8();
  void keep_fp4();
  // Whether drafts write a token more than they draft.
  bool fills_in() const;
};

// OK where the first is a multiple of the second.
inline Status indivisible(const char* field, uint64_t value, const char* by, uint64_t divisor) {
  if (divisor != 0 && value % divisor == 0) return {};
  return invalid("config: %s = %" PRIu64 " is no multiple of %s = %" PRIu64, field, value, by, divisor);
}

inline bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

inline bool DecoderFields::of_any(std::initializer_list<std::string_view> prefixes) const {
  return std::any_of(prefixes.begin(), prefixes.end(), [this](std::string_view prefix) { return starts_with(architecture_, prefix); });
}

inline uint64_t DecoderFields::from_zero(const char* key, uint64_t limit) {
  if (!f_.has(key)) f_.refuse(invalid("config: %s is missing; must be 0..%" PRIu64, key, limit));
  return f_.get(key, 0, 0, limit);
}

}  // namespace quire
