// The layers of a model as quire sees them: what each caches. Built from API descriptors or read from a Hugging Face config.json.
#pragma once

#include <quire/model.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/model/cache_spec.h"
#include "core/model/live_range.h"

namespace quire {

inline constexpr uint32_t kLayerFlags = QUIRE_LAYER_DRAFT | QUIRE_LAYER_SINK_LOGITS;  // all known ones

// What a family of models fixes for policy vllm; zeros where it fixes nothing.
struct FamilyPages {
  uint32_t block_tokens = 0;
  uint32_t alignment = 0;      // bytes that pages of a layer are rounded up to
  uint32_t alignment_fp8 = 0;  // the same where token rows are fp8 records
  uint32_t fp8_record = 0;     // bytes of a row where the cache is asked to be fp8; 0 = plain elements
  uint32_t state_chunk = 0;    // tokens that the kernels of states work at; 0 = no state is kept at every block
  bool drafts_in_last = false;
  uint32_t draft_states = 0;  // states of draft tokens, beside a sequence's own
};

// What a reader knows of a cache beside its descriptor.
struct LayerFacts {
  std::shared_ptr<const CacheSpec> told;  // how a layer file cuts and pads its pages; null elsewhere
  bool of_one_rank = false;               // heads and states are those of one tensor-parallel rank: ranks are alike, nothing is cut
  FamilyPages family;
};

// One cache of one layer; validated: every field is within its limits and consistent with its kind.
struct LayerCache {
  quire_layer desc{};  // strings in it point into `name`
  std::string name;
  LiveRange live;
  LayerFacts facts;

  LayerCache() = default;
  LayerCache(const LayerCache& other) : desc(other.desc), name(other.name), live(other.live), facts(other.facts) { point(); }
  LayerCache& operator=(const LayerCache& other) {
    desc = other.desc;
    name = other.name;
    live = other.live;
    facts = other.facts;
    point();
    return *this;
  }
  ~LayerCache() = default;

  void point() { desc.name = quire_str{name.data(), name.size()}; }
  bool is_state() const { return desc.kind == QUIRE_LAYER_STATE; }
  bool has_memory() const;  // false for NONE, ENCODER_ONLY and layers that share another's cache
};

class Model {
 public:
  // Layers are ordered by (layer, sub); layers between two given ones cache nothing. max_model_len 0 = unknown.
  // Errors name layer, field, value and limit.
  // facts: by layer, or empty.
  static Result<Model> create(std::span<const quire_layer> layers, uint64_t max_model_len, std::string architecture = {},
                              std::span<const LayerFacts> facts = {});

  std::span<const LayerCache> caches() const { return caches_; }
  uint32_t num_layers() const { return num_layers_; }
  uint64_t max_model_len() const { return max_model_len_; }
  const std::string& architecture() const { return architecture_; }
  // What a reader assumed, in words.
  const std::vector<std::string>& notes() const { return notes_; }
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  // The cache that (layer, sub) reads, following shares_with; null when there is none.
  const LayerCache* find(uint32_t layer, uint32_t sub) const;

 private:
  std::vector<LayerCache> caches_;
  uint32_t num_layers_ = 0;
  uint64_t max_model_len_ = 0;
  std::string architecture_;
  std::vector<std::string> notes_;
};

// Reads the text of a config.json; text is untrusted (size, depth and every number are checked before use). A dtype that the file does
// not state is bfloat16. An architecture or layer type that is not known is UNIMPLEMENTED, never guessed.
Result<Model> read_hf_config(std::string_view text);

// Reads a layer file: {"specs": [...], "layers": [[name, spec], ...], "kv_sharing": [[name, target], ...], "options": {...}}. Heads and
// states are those of one rank. Untrusted like a config. A kind that is not known is UNIMPLEMENTED.
Result<Model> read_layer_file(std::string_view text);

// The model as a table, for people.
std::string describe(const Model& model);

}  // namespace quire
