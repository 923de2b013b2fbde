// Reader of a layer file: a table of specs, and layers that name them. The text is untrusted, like a config.
#include <algorithm>
#include <cinttypes>
#include <map>
#include <memory>
#include <string_view>

#include "core/model/hf_fields.h"
#include "core/model/json_text.h"
#include "core/model/layer_options.h"
#include "core/model/layer_spec.h"
#include "core/model/model_layers.h"

namespace quire {
namespace {

constexpr uint64_t kMaxEntries = 65536;

class LayerFile {
 public:
  explicit LayerFile(const Json& root) : root_(root), f_(root, root, "layers: ") {}

  Result<Model> read() {
    QUIRE_RETURN_IF_ERROR(only_known(root_, "layers: ",
                                     {"specs", "layers", "kv_sharing", "options", "workers", "available_memory", "origin", "name", "shape",
                                      "tp", "pp", "kv_cache_dtype", "memory_case", "quirk", "hybrid_block_size", "spec_facts", "expect"}));
    for (const char* field : {"origin", "name"}) {
      const Json* text = f_.find(field);
      if (text != nullptr && !text->is_string()) return invalid("layers: %s = %.64s; must be text", field, Fields::shown(*text).c_str());
    }
    auto options = read_layer_options(root_);
    if (!options.ok()) return options.take_status();
    encoder_tokens_ = options->encoder_tokens;
    draft_tokens_ = options->draft_tokens;
    QUIRE_RETURN_IF_ERROR(read_specs());
    QUIRE_RETURN_IF_ERROR(read_layers());
    QUIRE_RETURN_IF_ERROR(read_sharing());
    number_subs();
    const Json* origin = f_.find("origin");
    const std::string name = origin != nullptr ? origin->string().substr(0, 63) : "layer file";
    std::vector<quire_layer> layers;
    std::vector<LayerFacts> facts;
    for (const Entry& entry : entries_) layers.push_back(entry.layer), facts.push_back({entry.told, true, {}});
    return Model::create(layers, options->max_model_len, name, facts);
  }

 private:
  struct Entry {
    quire_layer layer{};
    std::shared_ptr<const CacheSpec> told;
  };

  static Status refused_list(const char* field, const Json* value, int least, const char* of) {
    const std::string is = value == nullptr    ? "is missing"
                           : value->is_array() ? "has " + std::to_string(value->size()) + " entries"
                                               : "= " + Fields::shown(*value).substr(0, 64);
    return invalid("layers: %s %s; must be a list of %d..%" PRIu64 " %s", field, is.c_str(), least, kMaxEntries, of);
  }

  Status read_specs() {
    const Json* specs = f_.find("specs");
    if (specs == nullptr || !specs->is_array() || specs->empty() || specs->size() > kMaxEntries) {
      return refused_list("specs", specs, 1, "objects");
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
    if (name.empty() || name.size() > 256) return invalid("layers: a name has %zu bytes; must have 1..256", name.size());
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
    const Json* layers = f_.find("layers");
    if (layers == nullptr || !layers->is_array() || layers->empty() || layers->size() > kMaxEntries) {
      return refused_list("layers", layers, 1, "pairs [name, spec]");
    }
    for (size_t i = 0; i < layers->size(); ++i) {
      const Json& pair = (*layers)[i];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) return invalid("layers: layers[%zu] must be [name, spec]", i);
      const uint64_t spec = f_.number(pair[1], ("layers[" + std::to_string(i) + "][1]").c_str(), 0, specs_.size() - 1);
      QUIRE_RETURN_IF_ERROR(std::move(f_.status));
      Entry entry = specs_[spec];
      const std::string name = pair[0].string();
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
    const Json* pairs = f_.find("kv_sharing");
    if (pairs == nullptr) return {};
    if (!pairs->is_array() || pairs->size() > kMaxEntries) return refused_list("kv_sharing", pairs, 0, "pairs [name, target]");
    for (size_t i = 0; i < pairs->size(); ++i) {
      const Json& pair = (*pairs)[i];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
        return invalid("layers: kv_sharing[%zu] must be [name, target]", i);
      }
      const auto target = by_name_.find(pair[1].string());
      if (target == by_name_.end()) return invalid("layers: kv_sharing[%zu]: target \"%.128s\" is no layer", i, pair[1].string().c_str());
      quire_layer layer = entries_[target->second].layer;
      layer.shares_with = layer.layer + 1;
      QUIRE_RETURN_IF_ERROR(place(pair[0].string(), &layer));
      entries_.push_back({layer, nullptr});
      targets_.push_back(target->second);
    }
    return {};
  }

  const Json& root_;
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
  return with_json(text, "layers", [](const Json& root) -> Result<Model> {
    if (!root.is_object()) return invalid("layers: the outermost value must be an object");
    return LayerFile(root).read();
  });
}

}  // namespace quire
