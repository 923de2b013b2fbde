// Reader of a layer file: a table of specs, and layers that name them. The text is untrusted, like a config.
#include <algorithm>
#include <cinttypes>
#include <exception>
#include <map>
#include <new>

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
    const json& options = root_.contains("options") && root_["options"].is_object() ? root_["options"] : kNothing;
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
      while (end < name.size() && name[end] >= '0' && name[end] <= '9' && value < kMaxEntries)
        value = value * 10 + static_cast<uint64_t>(name[end++] - '0');
      if (end != name.size() && name[end] != '.') continue;
      *out = value;
      return value < kMaxEntries;
    }
    return false;
  }

  Status place(const std::string& name, quire_layer* layer) {
    if (name.size() > 256) return invalid("layers: a name has %zu bytes; at most 256", name.size());
    uint64_t index = next_;
    if (!index_in(name, &index)) index = next_;
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
