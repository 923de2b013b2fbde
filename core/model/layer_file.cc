// Reader of a layer file: a table of specs, and layers that name them. The text is untrusted, like a config.
#include <algorithm>
#include <cinttypes>
#include <exception>
#include <initializer_list>
#include <map>
#include <new>
#include <string_view>

#include "core/model/hf_fields.h"
#include "core/model/json_text.h"
#include "core/model/model.h"

namespace quire {
namespace {

constexpr uint64_t kMaxEntries = 65536;
constexpr uint64_t kMaxTokens = (uint64_t{1} << 31) - 1;
constexpr quire_dtype kFp8{QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};

class LayerFile {
 public:
  explicit LayerFile(const json& root) : root_(root), f_(root, root) {}

  Result<Model> read() {
    QUIRE_RETURN_IF_ERROR(only(root_, "", {"origin", "specs", "layers", "kv_sharing", "options"}));
    const json* given = f_.find("options");
    if (given != nullptr && !given->is_object()) return invalid("layers: options must be an object");
    const json& options = given != nullptr ? *given : kNothing;
    QUIRE_RETURN_IF_ERROR(only(options, "options.", {"max_model_len", "max_encoder_tokens"}));
    Fields of_options(options, options);
    const uint64_t length = of_options.get("max_model_len", 0, 1, kMaxTokens);
    encoder_tokens_ = of_options.get("max_encoder_tokens", 0, 0, kMaxTokens);
    QUIRE_RETURN_IF_ERROR(std::move(of_options.status));
    QUIRE_RETURN_IF_ERROR(read_specs());
    QUIRE_RETURN_IF_ERROR(read_layers());
    QUIRE_RETURN_IF_ERROR(read_sharing());
    std::stable_sort(layers_.begin(), layers_.end(), [](const quire_layer& a, const quire_layer& b) { return a.layer < b.layer; });
    for (size_t i = 0; i < layers_.size(); ++i) {
      layers_[i].sub = i != 0 && layers_[i].layer == layers_[i - 1].layer ? layers_[i - 1].sub + 1 : 0;
    }
    const json* origin = f_.find("origin");
    const std::string name = origin != nullptr && origin->is_string() ? origin->get<std::string>().substr(0, 63) : "layer file";
    return Model::create(layers_, length, name);
  }

 private:
  inline static const json kNothing = json::object();

  // A field that is not known would change what is cached without a word.
  static Status only(const json& object, const char* where, std::initializer_list<const char*> known) {
    for (const auto& [key, value] : object.items()) {
      const bool found = std::any_of(known.begin(), known.end(), [&key = key](const char* one) { return key == one; });
      if (!found) return invalid("layers: field %s%.64s = %.64s is not known", where, key.c_str(), Fields::shown(value).c_str());
    }
    return {};
  }

  // Fields of every kind: those of the plan are checked and not taken, those that would change the cache are refused.
  static Status check_fields(const json& spec, const char* kind) {
    const bool states = spec.contains("shapes");
    if (const auto block = spec.find("block_size"); block != spec.end() && !block->is_null()) {
      const bool whole = block->is_number_unsigned() && block->get<uint64_t>() != 0 && block->get<uint64_t>() <= kMaxTokens;
      if (!whole || (!states && block->get<uint64_t>() % 16 != 0)) {
        return invalid("block_size = %.64s; must be a positive multiple of 16", Fields::shown(*block).c_str());
      }
    }
    for (const char* field : {"sink_len", "rswa_window", "spec_blocks", "alignment", "page_size_padded", "block_stride"}) {
      const auto it = spec.find(field);
      if (it == spec.end() || it->is_null() || *it == 0 || *it == false) continue;
      return fail(QUIRE_UNIMPLEMENTED, "%s = %.64s is not supported", field, Fields::shown(*it).c_str());
    }
    static const std::map<std::string, std::vector<std::string>> words{
        {"mode", {"none", "align", "all"}}, {"cache_dtype_str", {"auto", "fp8", "fp8_ds_mla"}}, {"model_version", {"deepseek_v4"}}};
    for (const auto& [field, known] : words) {
      const auto it = spec.find(field);
      if (it == spec.end() || it->is_null()) continue;
      if (!it->is_string() || std::find(known.begin(), known.end(), it->get<std::string>()) == known.end()) {
        return fail(QUIRE_UNIMPLEMENTED, "%s = %.64s is not known", field.c_str(), Fields::shown(*it).c_str());
      }
    }
    std::vector<std::string> own{"kind",        "block_size", "sink_len",     "rswa_window",
                                 "spec_blocks", "alignment",  "block_stride", "page_size_padded"};
    const auto add = [&own](std::initializer_list<const char*> names) { own.insert(own.end(), names.begin(), names.end()); };
    if (std::string_view(kind) == "mamba") {
      add({"shapes", "dtypes", "mode"});
    } else {
      add({"num_kv_heads", "head_size", "head_size_v", "dtype", "compress_ratio", "quant_mode", "state_content_bytes", "cache_dtype_str",
           "model_version"});
      add({std::string_view(kind) == "chunked" ? "chunk" : "kind", starts_with(kind, "sliding") ? "window" : "kind"});
    }
    for (const auto& [key, value] : spec.items()) {
      if (std::find(own.begin(), own.end(), key) != own.end()) continue;
      return invalid("field %.64s = %.64s is not known for kind %s", key.c_str(), Fields::shown(value).c_str(), kind);
    }
    return {};
  }

  static bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

  Status read_specs() {
    const json* specs = f_.find("specs");
    if (specs == nullptr || !specs->is_array() || specs->empty() || specs->size() > kMaxEntries) {
      return invalid("layers: specs must be a list of 1..%" PRIu64 " objects", kMaxEntries);
    }
    for (size_t i = 0; i < specs->size(); ++i) {
      if (!(*specs)[i].is_object()) return invalid("layers: specs[%zu] must be an object", i);
      quire_layer layer{};
      layer.struct_size = sizeof layer;
      if (Status read = read_spec((*specs)[i], &layer); !read.ok()) {
        return fail(read.code(), "layers: specs[%zu]: %s", i, read.message().c_str());
      }
      specs_.push_back(layer);
    }
    return {};
  }

  static Status dtype_of(const json& value, const char* field, quire_dtype* out) {
    static const std::map<std::string, quire_dtype> names{
        {"bf16", kBFloat16}, {"fp16", kFloat16}, {"fp32", kFloat32}, {"u8", {QUIRE_DTYPE_UINT, 8, 1}}, {"i8", {QUIRE_DTYPE_INT, 8, 1}},
        {"fp8", kFp8}};
    const auto it = names.find(value.is_string() ? value.get<std::string>() : "");
    if (it == names.end()) return invalid("%s = %.64s; known are bf16, fp16, fp32, u8, i8, fp8", field, Fields::shown(value).c_str());
    *out = it->second;
    return {};
  }

  Status read_spec(const json& spec, quire_layer* layer) const {
    static const std::map<std::string, quire_layer_kind> kinds{{"full", QUIRE_LAYER_FULL},
                                                               {"mla", QUIRE_LAYER_MLA},
                                                               {"hidden_state", QUIRE_LAYER_INDEXER},
                                                               {"rswa", QUIRE_LAYER_FULL},
                                                               {"sink_full", QUIRE_LAYER_FULL},
                                                               {"chunked", QUIRE_LAYER_CHUNKED},
                                                               {"sliding_window", QUIRE_LAYER_SLIDING_WINDOW},
                                                               {"sliding_window_mla", QUIRE_LAYER_MLA},
                                                               {"mamba", QUIRE_LAYER_STATE},
                                                               {"cross", QUIRE_LAYER_CROSS},
                                                               {"encoder_only", QUIRE_LAYER_ENCODER_ONLY}};
    const auto kind = spec.find("kind");
    const auto it = kind != spec.end() && kind->is_string() ? kinds.find(kind->get<std::string>()) : kinds.end();
    if (it == kinds.end()) {
      return fail(QUIRE_UNIMPLEMENTED, "kind = %.64s is not known", Fields::shown(kind != spec.end() ? *kind : json()).c_str());
    }
    layer->kind = it->second;
    QUIRE_RETURN_IF_ERROR(check_fields(spec, it->first.c_str()));
    if (layer->kind == QUIRE_LAYER_ENCODER_ONLY) return {};
    if (layer->kind == QUIRE_LAYER_STATE) return read_state(spec, layer);
    Fields fields(spec, spec);
    const bool one_side = layer->kind == QUIRE_LAYER_MLA || layer->kind == QUIRE_LAYER_INDEXER;
    const uint64_t heads = fields.need("num_kv_heads", 65536);
    const uint64_t width = fields.need("head_size", 65536);
    layer->num_kv_heads = static_cast<uint32_t>(one_side ? 1 : heads);
    layer->head_dim_k = static_cast<uint32_t>(one_side ? std::min<uint64_t>(heads * width, UINT32_MAX) : width);
    layer->head_dim_v = static_cast<uint32_t>(one_side ? 0 : fields.get("head_size_v", width, 1, 65536));
    layer->compress_ratio = static_cast<uint32_t>(fields.get("compress_ratio", 1, 1, 65536));
    const char* const range = layer->kind == QUIRE_LAYER_CHUNKED ? "chunk" : "window";
    const bool ranged = layer->kind == QUIRE_LAYER_CHUNKED || layer->kind == QUIRE_LAYER_SLIDING_WINDOW || *kind == "sliding_window_mla";
    if (ranged) layer->window = fields.need(range, kMaxTokens);
    if (layer->kind == QUIRE_LAYER_CROSS) layer->encoder_tokens = encoder_tokens_;
    const uint64_t quantised = fields.get("quant_mode", 0, 0, 9);
    const uint64_t cell = fields.get("state_content_bytes", 0, 1, 1 << 20);
    QUIRE_RETURN_IF_ERROR(std::move(fields.status));
    QUIRE_RETURN_IF_ERROR(dtype_of(spec.value("dtype", json()), "dtype", &layer->dtype));
    const json type = spec.value("cache_dtype_str", json());
    const bool bytes = element_bytes(layer->dtype) == 1;
    if (quantised > 1) return fail(QUIRE_UNIMPLEMENTED, "quant_mode = %" PRIu64 " is not known", quantised);
    if (!bytes && (quantised == 1 || (type.is_string() && type != "auto"))) {
      return invalid("quant_mode = %" PRIu64 ", cache_dtype_str = %.64s: contradicts dtype = %.64s", quantised, Fields::shown(type).c_str(),
                     Fields::shown(spec["dtype"]).c_str());
    }
    if (quantised == 1) layer->dtype = kFp8;
    return cell != 0 ? read_cell(cell, layer) : Status();
  }

  // Cells that the file gives in bytes: the latent records, or elements of one byte with one scale per row and side.
  static Status read_cell(uint64_t cell, quire_layer* layer) {
    quire_codec_params& params = layer->codec_params;
    const bool latent = layer->head_dim_v == 0;
    if (latent && layer->head_dim_k == 576 && cell == 656) {
      layer->dtype = kFp8;
      layer->codec = QUIRE_CODEC_RECORD;
      params = {{512, 0}, {16, 0}, {128, 0}, {}, kFloat32, kBFloat16, 128, 0, 0};
      return {};
    }
    if (latent && layer->head_dim_k == 512 && cell == 584) {
      layer->dtype = kFp8;
      layer->codec = QUIRE_CODEC_BLOCK_SPLIT;
      params = {{448, 0}, {8, 0}, {128, 0}, {}, {QUIRE_DTYPE_FLOAT8_E8M0FNU, 8, 1}, kBFloat16, 64, 0, 0};
      return {};
    }
    const uint64_t sides = latent ? 1 : 2;
    if (cell != uint64_t{layer->head_dim_k} + layer->head_dim_v + (latent ? 8 : 4 * sides) || element_bytes(layer->dtype) != 1) {
      return fail(QUIRE_UNIMPLEMENTED, "state_content_bytes = %" PRIu64 " of head_size %u is no known record", cell, layer->head_dim_k);
    }
    layer->codec = QUIRE_CODEC_RECORD;
    params.scale_dtype = kFloat32;
    for (uint64_t side = 0; side < sides; ++side) {
      params.data_bytes[side] = side == 0 ? layer->head_dim_k : layer->head_dim_v;
      params.scale_bytes[side] = latent ? 8 : 4;
    }
    return {};
  }

  static Status read_state(const json& spec, quire_layer* layer) {
    const json shapes = spec.value("shapes", json());
    const json dtypes = spec.value("dtypes", json());
    if (!shapes.is_array() || shapes.empty() || shapes.size() > 4 || !dtypes.is_array() || dtypes.size() != shapes.size()) {
      return invalid("shapes and dtypes must be lists of equal length 1..4");
    }
    Fields fields(spec, spec);
    layer->num_state_tensors = static_cast<uint32_t>(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      quire_state_tensor& tensor = layer->state[i];
      if (!shapes[i].is_array() || shapes[i].empty() || shapes[i].size() > 4)
        return invalid("shapes[%zu] must be a list of 1..4 extents", i);
      QUIRE_RETURN_IF_ERROR(dtype_of(dtypes[i], "dtypes[]", &tensor.dtype));
      tensor.ndim = static_cast<uint32_t>(shapes[i].size());
      for (size_t k = 0; k < shapes[i].size(); ++k) tensor.shape[k] = fields.number(shapes[i][k], "shapes[]", 1, uint64_t{1} << 40);
    }
    layer->dtype = layer->state[0].dtype;
    return std::move(fields.status);
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
    const auto [it, fresh] = by_name_.emplace(name, layers_.size());
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
      quire_layer layer = specs_[spec];
      QUIRE_RETURN_IF_ERROR(place(pair[0].get<std::string>(), &layer));
      layers_.push_back(layer);
    }
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
      quire_layer layer = layers_[target->second];
      layer.shares_with = layer.layer + 1;
      QUIRE_RETURN_IF_ERROR(place(pair[0].get<std::string>(), &layer));
      layers_.push_back(layer);
    }
    return {};
  }

  const json& root_;
  Fields f_;
  uint64_t encoder_tokens_ = 0;
  uint64_t next_ = 0;
  std::vector<quire_layer> specs_;
  std::vector<quire_layer> layers_;
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
