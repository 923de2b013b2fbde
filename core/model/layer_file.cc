// Reader of a layer file: a table of specs, and layers that name them. The text is untrusted, like a config.
#include <algorithm>
#include <cinttypes>
#include <initializer_list>
#include <map>
#include <memory>
#include <string_view>

#include "core/model/hf_fields.h"
#include "core/model/json_text.h"
#include "core/model/layer_spec.h"
#include "core/model/model.h"

namespace quire {
namespace {

constexpr uint64_t kMaxEntries = 65536;
constexpr uint64_t kMaxTokens = (uint64_t{1} << 31) - 1;

class LayerFile {
 public:
  explicit LayerFile(const json& root) : root_(root), f_(root, root) {}

  Result<Model> read() {
    QUIRE_RETURN_IF_ERROR(only(root_, "",
                               {"specs", "layers", "kv_sharing", "options", "workers", "available_memory", "origin", "name", "shape", "tp",
                                "pp", "kv_cache_dtype", "memory_case", "quirk", "hybrid_block_size", "spec_facts", "expect"}));
    const json* given = f_.find("options");
    if (given != nullptr && !given->is_object()) return invalid("layers: options must be an object");
    const json& options = given != nullptr ? *given : kNothing;
    QUIRE_RETURN_IF_ERROR(only(options, "options.",
                               {"max_model_len", "max_encoder_tokens", "max_num_batched_tokens", "concurrent_batches", "block_size",
                                "prefix_caching", "hybrid_manager", "mamba_cache_mode", "num_gpu_blocks_override", "auto_fit", "dcp",
                                "prefix_match_unit", "connector", "spec_decode"}));
    Fields of_options(options, options);
    const uint64_t length = of_options.get("max_model_len", 0, 1, kMaxTokens);
    encoder_tokens_ = of_options.get("max_encoder_tokens", 0, 0, kMaxTokens);
    if (const json* drafts = of_options.find("spec_decode"); drafts != nullptr && drafts->is_object()) {
      draft_tokens_ = Fields(*drafts, *drafts).get("num_tokens", 1, 1, kMaxDrafts);
    }
    QUIRE_RETURN_IF_ERROR(std::move(of_options.status));
    QUIRE_RETURN_IF_ERROR(read_specs());
    QUIRE_RETURN_IF_ERROR(read_layers());
    QUIRE_RETURN_IF_ERROR(read_sharing());
    number_subs();
    const json* origin = f_.find("origin");
    const std::string name = origin != nullptr && origin->is_string() ? origin->get<std::string>().substr(0, 63) : "layer file";
    std::vector<quire_layer> layers;
    std::vector<LayerFacts> facts;
    for (const Entry& entry : entries_) layers.push_back(entry.layer), facts.push_back({entry.told, true, {}});
    return Model::create(layers, length, name, facts);
  }

 private:
  inline static const json kNothing = json::object();
  static constexpr uint64_t kMaxDrafts = 65536;

  struct Entry {
    quire_layer layer{};
    std::shared_ptr<const CacheSpec> told;
  };

  // A field that is not known would change what is cached without a word.
  static Status only(const json& object, const char* where, std::initializer_list<const char*> known) {
    for (const auto& [key, value] : object.items()) {
      const bool found = std::any_of(known.begin(), known.end(), [&key = key](const char* one) { return key == one; });
      if (!found) return invalid("layers: field %s%.64s = %.64s is not known", where, key.c_str(), Fields::shown(value).c_str());
    }
    return {};
  }

  Status read_specs() {
    const json* specs = f_.find("specs");
    if (specs == nullptr || !specs->is_array() || specs->empty() || specs->size() > kMaxEntries) {
      return invalid("layers: specs must be a list of 1..%" PRIu64 " objects", kMaxEntries);
    }
    for (size_t i = 0; i < specs->size(); ++i) {
      if (!(*specs)[i].is_object()) return invalid("layers: specs[%zu] must be an object", i);
      auto read = read_layer_spec((*specs)[i], encoder_tokens_);
      if (!read.ok()) return fail(read.status().code(), "layers: specs[%zu]: %s", i, read.status().message().c_str());
      const bool cuts = read->pages.block_tokens != 0;  // else blocks are the planner's
      specs_.push_back({read->layer, cuts ? std::make_shared<const CacheSpec>(std::move(read->pages)) : nullptr});
    }
    return {};
  }

  // Models keep layers in order. Where the numbers in the names do not rise from line to line, lines are numbered instead.
  void number_subs() {
    uint32_t before = 0;
    bool rises = true;
    for (size_t i = 0; i < num_own_; ++i) {
      rises &= entries_[i].layer.layer >= before;
      before = entries_[i].layer.layer;
    }
    if (!rises) {
      for (size_t i = 0; i < entries_.size(); ++i) {
        quire_layer& layer = entries_[i].layer;
        if (layer.shares_with != 0) layer.shares_with = static_cast<uint32_t>(targets_[i - num_own_]) + 1;
        layer.layer = static_cast<uint32_t>(i);
      }
    }
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.layer.layer < b.layer.layer; });
    for (size_t i = 0; i < entries_.size(); ++i) {
      quire_layer& layer = entries_[i].layer;
      layer.sub = i != 0 && layer.layer == entries_[i - 1].layer.layer ? entries_[i - 1].layer.sub + 1 : 0;
    }
  }

  // The number behind "layers." or between dots; layers without one follow each other.
  static bool index_in(const std::string& name, uint64_t* out) {
    for (size_t i = 0; i < name.size(); ++i) {
      const bool starts = name[i] >= '0' && name[i] <= '9' && (i == 0 || name[i - 1] == '.');
      if (!starts) continue;
      uint64_t value = 0;
      size_t end = i;
      for (; end < name.size() && name[end] >= '0' && name[end] <= '9'; ++end) {
        value = std::min(value * 10 + static_cast<uint64_t>(name[end] - '0'), kMaxEntries);
      }
      if (end != name.size() && name[end] != '.') continue;
      *out = value;
      return true;
    }
    return false;
  }

  Status place(const std::string& name, quire_layer* layer) {
    if (name.size() > 256) return invalid("layers: a name has %zu bytes; at most 256", name.size());
    uint64_t index = next_;
    if (index_in(name, &index) && index >= kMaxEntries) {
      return invalid("layers: \"%.128s\" names a layer beyond %" PRIu64, name.c_str(), kMaxEntries - 1);
    }
    layer->layer = static_cast<uint32_t>(index);
    next_ = std::max(next_, index + 1);
    const auto [it, fresh] = by_name_.emplace(name, entries_.size());
    if (!fresh) return invalid("layers: \"%.128s\" is given twice", name.c_str());
    layer->name = {it->first.data(), it->first.size()};  // nodes of a map stay where they are
    return {};
  }

  Status read_layers() {
    const json* layers = f_.find("layers");
    if (layers == nullptr || !layers->is_array() || layers->empty() || layers->size() > kMaxEntries) {
      return invalid("layers: layers must be a list of 1..%" PRIu64 " pairs [name, spec]", kMaxEntries);
    }
    for (size_t i = 0; i < layers->size(); ++i) {
      const json& pair = (*layers)[i];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) return invalid("layers: layers[%zu] must be [name, spec]", i);
      const uint64_t spec = f_.number(pair[1], "layers[][1]", 0, specs_.size() - 1);
      QUIRE_RETURN_IF_ERROR(std::move(f_.status));
      Entry entry = specs_[spec];
      const std::string name = pair[0].get<std::string>();
      QUIRE_RETURN_IF_ERROR(place(name, &entry.layer));
      if (name.find(".draft.") != std::string::npos && entry.layer.kind != QUIRE_LAYER_STATE) {
        entry.layer.flags |= QUIRE_LAYER_DRAFT;
        if (entry.layer.look_ahead == 0) entry.layer.look_ahead = static_cast<uint32_t>(draft_tokens_);
      }
      entries_.push_back(std::move(entry));
    }
    num_own_ = entries_.size();
    return {};
  }

  Status read_sharing() {
    const json* pairs = f_.find("kv_sharing");
    if (pairs == nullptr) return {};
    if (!pairs->is_array() || pairs->size() > kMaxEntries) return invalid("layers: kv_sharing must be a list of pairs [name, target]");
    for (size_t i = 0; i < pairs->size(); ++i) {
      const json& pair = (*pairs)[i];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
        return invalid("layers: kv_sharing[%zu] must be [name, target]", i);
      }
      const auto target = by_name_.find(pair[1].get<std::string>());
      if (target == by_name_.end())
        return invalid("layers: kv_sharing[%zu]: target \"%.128s\" is no layer", i, pair[1].get<std::string>().c_str());
      quire_layer layer = entries_[target->second].layer;
      layer.shares_with = layer.layer + 1;
      QUIRE_RETURN_IF_ERROR(place(pair[0].get<std::string>(), &layer));
      entries_.push_back({layer, nullptr});
      targets_.push_back(target->second);
    }
    return {};
  }

  const json& root_;
  Fields f_;
  uint64_t encoder_tokens_ = 0;
  uint64_t next_ = 0;
  uint64_t draft_tokens_ = 1;
  std::vector<Entry> specs_;
  std::vector<Entry> entries_;
  std::vector<size_t> targets_;  // of the entries behind num_own_, which share another's cache
  size_t num_own_ = 0;
  std::map<std::string, size_t> by_name_;
};

}  // namespace

Result<Model> read_layer_file(std::string_view text) {
  return with_json(text, "layers", [](const json& root) -> Result<Model> {
    if (!root.is_object()) return invalid("layers: the outermost value must be an object");
    return LayerFile(root).read();
  });
}

}  // namespace quire
