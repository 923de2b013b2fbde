// What the architectures that are known mean by their configs: a row for all that mean the same. Private to core/model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model/hf_reader.h"

namespace quire {

// How a class spells the fields of a decoder. Several names: the first that a config has; none: the class has no such field.
struct Spelling {
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";
  const char* hidden = "hidden_size";
  const char* width = "head_dim";
  const char* length = "max_position_embeddings";
  const char* encoder = nullptr;  // the longest output of the encoder
};

// How many heads keys and values have.
enum class KvHeads : uint8_t {
  kStated,   // as stated; absence is refused
  kFollow,   // as stated, otherwise as many as queries
  kAll,      // as many as queries: the class has no other
  kOne,      // one
  kFalcon,   // num_kv_heads in the new architecture, else one or all by multi_query
  kGlm,      // multi_query_group_num, or all, by multi_query_attention
  kBigCode,  // one, or all, by multi_query, which is true where it is absent
  kNested,   // attn_config.kv_n_heads
  kGroups,   // as stated under the names of the class, one where it states nothing
};

// What absence of layer_types means.
enum class Pattern : uint8_t {
  kFull,       // full attention everywhere; a window alone is refused, because readers of the class disagree about it
  kWindow,     // windows everywhere where sliding_window is stated
  kEvery,      // every n-th layer is full, the last of each n; n from sliding_window_pattern
  kFirst,      // every n-th layer is full, the first of each n; n from global_attn_every_n_layers
  kAlternate,  // every other layer slides, the first included
  kQwen,       // from max_window_layers on, where use_sliding_window says so
  kMaxWindow,  // from max_window_layers on, where sliding_window is stated
  kGated,      // every full_attention_interval-th is full, the others are gated delta nets
  kCycle,      // by interleaved_sliding_window, one number or a list that repeats
  kPairs,      // by window_sizes, a pair for each layer: the first is the tokens before the current one, 0 for all
  kStated,     // refused: which layers slide is said nowhere else
};

inline constexpr uint32_t kOwnWidth = 1;     // the width of heads does not follow from hidden_size
inline constexpr uint32_t kSinks = 2;        // a sink logit per query head
inline constexpr uint32_t kOneMore = 4;      // a window of w sees w tokens before the current one
inline constexpr uint32_t kNullWindow = 16;  // sliding_window must be stated, if only as null
inline constexpr uint32_t kLongTypes = 32;   // layer_types may name layers that draft, behind the others
inline constexpr uint32_t kGlobal = 64;      // full layers have a shape of their own
inline constexpr uint32_t kIndexed = 128;    // latent rows are chosen by index keys
inline constexpr uint32_t kTwice = 256;      // two attentions in each layer
inline constexpr uint32_t kSomeMlp = 1024;   // layers may be without attention
inline constexpr uint32_t kDelta = 4096;     // layers may be gated delta nets, next to windows
inline constexpr uint32_t kStages = 2048;    // drafts are counted as stages of DSpark
inline constexpr uint32_t kDrafts = 512;     // the layers that draft, of a config that describes them beside the others

struct Rules {
  const char* names;  // architectures, between spaces
  Reader::Family family;
  KvHeads kv = KvHeads::kStated;
  Pattern pattern = Pattern::kFull;
  uint32_t every = 0;
  uint32_t traits = 0;
  Spelling spelling = {};
};

// The architecture of a text model, or nullptr.
const Rules* rules_of(std::string_view architecture);

// A model around a text model. text: its architecture; empty = the nested config says; "=" = the model has a row of its own.
struct Wrapper {
  const char* names;
  const char* text;
};
const Wrapper* wrapper_of(std::string_view architecture);

// Why an architecture that is known is not read, or nullptr. One of the reasons is that there is nothing to read.
const char* refusal_of(std::string_view architecture);
bool keeps_nothing(std::string_view architecture);

// The first of `architectures`, else what model_type stands for; empty where neither is there.
std::string architecture_in(const Json& config);

// The architecture of a model_type; empty = not known.
std::string_view architecture_of_type(std::string_view model_type);

// What transformers assumes for a nested config of that model_type where a field is left out; an
// object, or null.
Json defaults_of(std::string_view model_type);

// How engines call the draft layers that a config of `architecture` describes beside the others; empty = none that is known.
std::string_view drafts_of(std::string_view architecture);

// Where a config is read, and by which row.
struct OpenConfig {
  const Rules* rules = nullptr;
  const Json* text = nullptr;
  std::string inner;  // architecture of the text model
  std::string name;   // of the config
  Json defaults;      // of what a nested config leaves out, or null
  std::string type;   // its model_type, where there are such
};
// as: read like one of that architecture; empty = its own.
Result<OpenConfig> open_config(const Json& root, std::string_view as);

// What was assumed of a config that leaves fields out, in words; empty = nothing.
std::string note_of_assumed(const OpenConfig& opened, const Fields& fields);

// What root.quire_speculative says is drafted with, after the layers of `reader`. note: what was
// assumed of a draft.
Status add_drafts(const Json& root, Reader* reader, std::string* note);

// Whether `name` is one of the words of `names`.
bool names_one(const char* names, std::string_view name);

}  // namespace quire
