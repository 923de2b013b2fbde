#include "core/model/layer_spec.h"

#include <algorithm>
#include <cinttypes>
#include <functional>
#include <iterator>
#include <string_view>
#include <vector>

#include "core/model/check_codec.h"
#include "core/model/layer_options.h"

namespace quire {
namespace {

constexpr uint64_t kMaxTokens = (uint64_t{1} << 31) - 1;
constexpr uint64_t kMaxBlock = uint64_t{1} << 24;
constexpr uint64_t kMaxPage = uint64_t{1} << 40;
constexpr uint64_t kMaxHeads = 65536;
constexpr uint64_t kMaxCell = uint64_t{1} << 20;
constexpr uint64_t kMaxQuantMode = 9;
constexpr uint64_t kFp8PerTensor = 1;
constexpr uint64_t kInt8PerTokenHead = 2;
constexpr uint64_t kFp8PerTokenHead = 3;
constexpr uint64_t kInt4PerTokenHead = 4;
constexpr uint64_t kNvfp4 = 5;
constexpr uint64_t kTurboK8V4 = 6;
constexpr uint64_t kTurbo4 = 7;
constexpr uint64_t kTurbo3 = 9;
constexpr quire_dtype kFp8{QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
constexpr quire_dtype kFp8Wide{QUIRE_DTYPE_FLOAT8_E5M2, 8, 1};
constexpr quire_dtype kBytes{QUIRE_DTYPE_UINT, 8, 1};

struct Kind {
  std::string_view name;
  quire_layer_kind layer;
  CacheFamily family;
};
constexpr Kind kKinds[] = {{"full", QUIRE_LAYER_FULL, CacheFamily::kFull},
                           {"mla", QUIRE_LAYER_MLA, CacheFamily::kLatent},
                           {"hidden_state", QUIRE_LAYER_INDEXER, CacheFamily::kHidden},
                           {"rswa", QUIRE_LAYER_FULL, CacheFamily::kTrailing},
                           {"sink_full", QUIRE_LAYER_FULL, CacheFamily::kSink},
                           {"chunked", QUIRE_LAYER_CHUNKED, CacheFamily::kChunk},
                           {"sliding_window", QUIRE_LAYER_SLIDING_WINDOW, CacheFamily::kWindow},
                           {"sliding_window_mla", QUIRE_LAYER_MLA, CacheFamily::kLatentWindow},
                           {"mamba", QUIRE_LAYER_STATE, CacheFamily::kState},
                           {"cross", QUIRE_LAYER_CROSS, CacheFamily::kCross},
                           {"encoder_only", QUIRE_LAYER_ENCODER_ONLY, CacheFamily::kEncoder}};

struct ElementName {
  std::string_view name;
  quire_dtype dtype;
};
constexpr ElementName kElements[] = {{"bf16", kBFloat16}, {"fp16", kFloat16},    {"fp32", kFloat32},
                                     {"u8", kBytes},      {"fp8", kFp8},         {"i8", {QUIRE_DTYPE_INT, 8, 1}},
                                     {"fp8_e4m3", kFp8},  {"fp8_e5m2", kFp8Wide}};

// The entry that has the text's name, or nullptr.
template <typename Entry, size_t kCount>
const Entry* named(const Entry (&table)[kCount], const Json& text) {
  const auto* found = std::find_if(std::begin(table), std::end(table), [&](const Entry& e) { return text.is_text(e.name); });
  return found != std::end(table) ? found : nullptr;
}

Status dtype_of(const Json& value, const char* field, quire_dtype* out) {
  const ElementName* found = named(kElements, value);
  if (found == nullptr) {
    return invalid("%s = %.64s; known are bf16, fp16, fp32, u8, i8, fp8, fp8_e4m3, fp8_e5m2", field, Fields::shown(value).c_str());
  }
  *out = found->dtype;
  return {};
}

class SpecReader {
 public:
  SpecReader(const Json& spec, const Kind& kind) : spec_(spec), kind_(kind), f_(spec, spec, "") {}

  Result<LayerSpec> read(uint64_t encoder_tokens) {
    out_.layer.struct_size = sizeof out_.layer;
    out_.layer.kind = kind_.layer;
    out_.pages.family = kind_.family;
    QUIRE_RETURN_IF_ERROR(check_names());
    QUIRE_RETURN_IF_ERROR(check_words());
    const bool state = kind_.layer == QUIRE_LAYER_STATE;
    out_.pages.block_tokens = f_.get("block_size", 0, 1, state ? kMaxTokens : kMaxBlock);
    out_.pages.padded_page = f_.get("page_size_padded", 0, 1, kMaxPage);
    for (const char* field : {"draft", "non_causal", "non_causal_multi_token_decode", "block_stride"}) (void)f_.flag(field);
    QUIRE_RETURN_IF_ERROR(std::move(f_.status));
    if (!state && out_.pages.block_tokens != 0) QUIRE_RETURN_IF_ERROR(check_granule("", "block_size", out_.pages.block_tokens));
    if (kind_.layer == QUIRE_LAYER_ENCODER_ONLY) return read_encoder();
    if (kind_.layer == QUIRE_LAYER_STATE) {
      QUIRE_RETURN_IF_ERROR(read_state());
    } else {
      if (kind_.layer == QUIRE_LAYER_CROSS) out_.layer.encoder_tokens = encoder_tokens;
      QUIRE_RETURN_IF_ERROR(read_tokens());
    }
    const CacheSpec& pages = out_.pages;
    if (pages.block_tokens == 0 && (pages.padded_page | pages.alignment | pages.extra_blocks | pages.sink_tokens) != 0) {
      return invalid("block_size is missing; page_size_padded, alignment, spec_blocks and sink_len belong to blocks that are told");
    }
    if (out_.pages.padded_page != 0 && out_.pages.padded_page < out_.pages.unpadded_page()) {
      return invalid("page_size_padded = %" PRIu64 "; a block has %" PRIu64 " bytes", out_.pages.padded_page, out_.pages.unpadded_page());
    }
    return out_;
  }

 private:
  bool one_side() const { return kind_.layer == QUIRE_LAYER_MLA || kind_.layer == QUIRE_LAYER_INDEXER; }

  // A field that is not known would change what is cached without a word.
  Status check_names() const {
    std::vector<std::string_view> known{"kind", "block_size", "page_size_padded"};
    const auto add = [&known](std::initializer_list<const char*> names) { known.insert(known.end(), names.begin(), names.end()); };
    if (kind_.layer == QUIRE_LAYER_STATE) {
      add({"shapes", "dtypes", "mode", "spec_blocks"});
    } else {
      add({"num_kv_heads", "head_size", "head_size_v", "dtype", "quant_mode", "num_head_slots", "state_content_bytes", "block_stride",
           "non_causal"});
      if (kind_.layer != QUIRE_LAYER_ENCODER_ONLY) add({"draft", "look_ahead"});
    }
    if (one_side()) add({"compress_ratio", "cache_dtype_str", "model_version", "alignment", "non_causal_multi_token_decode"});
    switch (kind_.family) {
      case CacheFamily::kFull:
      case CacheFamily::kSink:
      case CacheFamily::kTrailing:
        add({"window", "chunk"});
        if (kind_.family == CacheFamily::kSink) add({"sink_len"});
        if (kind_.family == CacheFamily::kTrailing) add({"rswa_window"});
        break;
      case CacheFamily::kWindow:
      case CacheFamily::kLatentWindow:
        add({"window", "extra_retained"});
        break;
      case CacheFamily::kChunk:
        add({"chunk"});
        break;
      default:
        break;
    }
    for (const auto& [key, value] : spec_.object()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      return invalid("field %.64s = %.64s is not known for kind %s", key.c_str(), Fields::shown(value).c_str(),
                     spec_["kind"].string().c_str());
    }
    return {};
  }

  Status check_words() const {
    QUIRE_RETURN_IF_ERROR(check_word("mode", {"none", "align", "all"}));
    QUIRE_RETURN_IF_ERROR(check_word("cache_dtype_str", {"auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla"}));
    return check_word("model_version", {"deepseek_v4"});
  }
  Status check_word(const char* field, std::initializer_list<std::string_view> known) const {
    const Json& value = spec_[field];
    if (value.is_null() || std::any_of(known.begin(), known.end(), [&](std::string_view word) { return value.is_text(word); })) return {};
    return fail(QUIRE_UNIMPLEMENTED, "%s = %.64s is not known", field, Fields::shown(value).c_str());
  }

  // Fields as they stand in the file: equal text is an equal spec.
  void append(std::initializer_list<const char*> fields, std::vector<uint64_t>* out) const {
    for (const char* field : fields) {
      const Json* it = spec_.find(field);
      const std::string text = it != nullptr ? it->text() : "";
      out->push_back(text.size());
      out->insert(out->end(), text.begin(), text.end());
    }
  }

  Status read_state() {
    quire_layer& layer = out_.layer;
    const Json& shapes = spec_["shapes"];
    const Json& dtypes = spec_["dtypes"];
    if (!shapes.is_array() || shapes.empty() || shapes.size() > 4 || !dtypes.is_array() || dtypes.size() != shapes.size()) {
      return invalid("shapes and dtypes must be lists of equal length 1..4");
    }
    layer.num_state_tensors = static_cast<uint32_t>(shapes.size());
    uint64_t bytes = 0;
    for (size_t i = 0; i < shapes.size(); ++i) {
      quire_state_tensor& tensor = layer.state[i];
      if (!shapes[i].is_array() || shapes[i].empty() || shapes[i].size() > 4) {
        return invalid("shapes[%zu] must be a list of 1..4 extents", i);
      }
      QUIRE_RETURN_IF_ERROR(dtype_of(dtypes[i], "dtypes[]", &tensor.dtype));
      tensor.ndim = static_cast<uint32_t>(shapes[i].size());
      uint64_t product = element_bytes(tensor.dtype);
      for (size_t k = 0; k < shapes[i].size(); ++k) {
        tensor.shape[k] = f_.number(shapes[i][k], "shapes[]", 1, kMaxPage);
        product = checked_mul(product, tensor.shape[k]).value_or(kMaxSize);
      }
      bytes = checked_add(bytes, product).value_or(kMaxSize);
    }
    layer.dtype = layer.state[0].dtype;
    CacheSpec& pages = out_.pages;
    pages.state_bytes = bytes;
    pages.extra_blocks = f_.get("spec_blocks", 0, 0, kMaxBlock);
    const Json& mode = spec_["mode"];
    pages.state_mode = mode.is_text("align") ? StateMode::kAlign : mode.is_text("all") ? StateMode::kAll : StateMode::kOff;
    append({"shapes", "dtypes"}, &pages.identity);
    return std::move(f_.status);
  }

  // It attends but keeps nothing: its fields are checked, and size a page that no pool has.
  Result<LayerSpec> read_encoder() {
    if (spec_.contains("num_kv_heads")) QUIRE_RETURN_IF_ERROR(read_tokens());
    out_.layer = {};
    out_.layer.struct_size = sizeof out_.layer;
    out_.layer.kind = kind_.layer;
    return out_;
  }

  Status read_tokens() {
    quire_layer& layer = out_.layer;
    const uint64_t heads = f_.need("num_kv_heads", kMaxHeads);
    const uint64_t width = f_.need("head_size", kMaxHeads);
    const uint64_t value = f_.get("head_size_v", one_side() ? 0 : width, 0, kMaxHeads);
    const uint64_t slots = f_.get("num_head_slots", heads, 1, 2 * kMaxHeads);
    const uint64_t cell = f_.get("state_content_bytes", 0, 1, kMaxCell);
    const uint64_t ratio = f_.get("compress_ratio", 1, 1, kMaxHeads);
    quant_mode_ = f_.get("quant_mode", 0, 0, kMaxQuantMode);
    QUIRE_RETURN_IF_ERROR(read_range());
    QUIRE_RETURN_IF_ERROR(read_dtype());
    if (one_side() != (value == 0)) {
      return invalid("head_size_v = %" PRIu64 "; must be %s for kind %s", value, one_side() ? "0" : "at least 1",
                     spec_["kind"].string().c_str());
    }
    layer.compress_ratio = static_cast<uint32_t>(ratio);
    layer.num_kv_heads = static_cast<uint32_t>(one_side() ? 1 : slots);
    layer.head_dim_k = static_cast<uint32_t>(one_side() ? slots * width : width);
    layer.head_dim_v = static_cast<uint32_t>(value);
    CacheSpec& pages = out_.pages;
    if (pages.block_tokens % ratio != 0) {
      return invalid("block_size = %" PRIu64 "; must be a multiple of compress_ratio = %" PRIu64, pages.block_tokens, ratio);
    }
    QUIRE_RETURN_IF_ERROR(std::move(f_.status));
    QUIRE_RETURN_IF_ERROR(check_cell(cell, heads, slots, width, value));
    pages.row_bytes = slots * (cell != 0 ? cell : (width + value) * element_bytes(layer.dtype));
    pages.tokens_per_row = ratio;
    pages.alignment = f_.get("alignment", 0, 1, kMaxCell);
    if (pages.alignment != 0) pages.padded_page = 0;  // what was padded before is overwritten
    pages.strided_blocks = f_.flag("block_stride");
    for (const char* field : {"non_causal", "non_causal_multi_token_decode"}) pages.non_causal |= f_.flag(field);
    pages.drafts_in_last = spec_["model_version"].is_text("deepseek_v4");
    append({"num_kv_heads", "head_size", "head_size_v", "dtype", "quant_mode", "num_head_slots", "state_content_bytes"}, &pages.identity);
    append({"cache_dtype_str", "model_version"}, &pages.format);
    pages.precision = std::hash<std::string>{}(spec_["dtype"].string() + "/" + std::to_string(quant_mode_)) | 1;
    if (f_.flag("draft")) layer.flags = QUIRE_LAYER_DRAFT;
    layer.look_ahead = static_cast<uint32_t>(f_.get("look_ahead", 0, 1, kMaxHeads));
    QUIRE_RETURN_IF_ERROR(std::move(f_.status));
    if (cell != 0) encode(cell, heads, slots, width, value);
    return {};
  }

  Status read_range() {
    CacheSpec& pages = out_.pages;
    switch (kind_.family) {
      case CacheFamily::kWindow:
      case CacheFamily::kLatentWindow:
        pages.range = out_.layer.window = f_.need("window", kMaxTokens);
        pages.extra_retained = f_.get("extra_retained", 0, 0, kMaxTokens);
        break;
      case CacheFamily::kChunk:
        pages.range = out_.layer.window = f_.need("chunk", kMaxTokens);
        break;
      case CacheFamily::kTrailing:
        pages.range = f_.need("rswa_window", kMaxTokens);
        [[fallthrough]];
      default:
        pages.told_window = f_.get("window", 0, 1, kMaxTokens);
        pages.told_chunk = f_.get("chunk", 0, 1, kMaxTokens);
        if (kind_.family == CacheFamily::kSink) pages.sink_tokens = f_.need("sink_len", kMaxTokens);
    }
    QUIRE_RETURN_IF_ERROR(std::move(f_.status));
    if (pages.told_window == 0 || pages.told_chunk == 0) return {};
    return invalid("window = %" PRIu64 " and chunk = %" PRIu64 "; a layer attends in one of them", pages.told_window, pages.told_chunk);
  }

  Status read_dtype() {
    quire_layer& layer = out_.layer;
    QUIRE_RETURN_IF_ERROR(dtype_of(spec_["dtype"], "dtype", &layer.dtype));
    const Json& stored = spec_["cache_dtype_str"];
    const bool fp8 = quant_mode_ == kFp8PerTensor || (stored.is_string() && stored.string().substr(0, 3) == "fp8");
    const bool wide = stored.is_text("bfloat16") && !same_dtype(layer.dtype, kBFloat16);
    // Which elements a quantisation has: bytes in all, floats in those of fp8, integers in those of int8.
    const bool whole = layer.dtype.code == QUIRE_DTYPE_INT || layer.dtype.code == QUIRE_DTYPE_UINT;
    const bool floats = quant_mode_ == kFp8PerTensor || quant_mode_ == kFp8PerTokenHead;
    const bool wrong = (floats && layer.dtype.code == QUIRE_DTYPE_INT) || (quant_mode_ == kInt8PerTokenHead && !whole);
    if (wide || wrong || ((fp8 || quant_mode_ != 0) && element_bytes(layer.dtype) != 1)) {
      return invalid("quant_mode = %" PRIu64 ", cache_dtype_str = %.64s: contradicts dtype = %.64s", quant_mode_,
                     Fields::shown(stored).c_str(), Fields::shown(spec_["dtype"]).c_str());
    }
    if (quant_mode_ == kFp8PerTensor && layer.dtype.code == QUIRE_DTYPE_UINT) layer.dtype = stored.is_text("fp8_e5m2") ? kFp8Wide : kFp8;
    return {};
  }

  // Bytes that the elements of one row of a head take with their scales, K and V.
  uint64_t quantised_bytes(uint64_t width, uint64_t value) const {
    const auto bits = [](uint64_t elements, uint64_t each) { return ceil_div(elements * each, 8); };
    const uint64_t scales = 2 * element_bytes(kFloat32);
    switch (quant_mode_) {
      case kFp8PerTensor:
        return width + value;
      case kInt8PerTokenHead:
      case kFp8PerTokenHead:
        return width + value + scales;
      case kInt4PerTokenHead:
        return bits(width, 4) + bits(value, 4) + scales;
      case kNvfp4:
        return bits(width, 4) + bits(value, 4) + ceil_div(width, 16) + ceil_div(value, 16);
      case kTurboK8V4:
        return width + (value == 0 ? 0 : bits(value, 4) + 4);
      default: {
        const uint64_t of_keys = quant_mode_ == kTurbo4 ? 4 : 3;
        const uint64_t of_values = quant_mode_ == kTurbo3 ? 3 : 4;
        return bits(width, of_keys) + 2 + (value == 0 ? 0 : bits(value, of_values) + 4);
      }
    }
  }

  // What is quantised row by row carries its scales, and only the cell says where. Cells may be longer than what they hold, never shorter.
  Status check_cell(uint64_t cell, uint64_t heads, uint64_t slots, uint64_t width, uint64_t value) const {
    const Json& stored = spec_["cache_dtype_str"];
    if (cell == 0 && (quant_mode_ > kFp8PerTensor || stored.is_text("fp8_ds_mla"))) {
      return invalid("state_content_bytes is missing; quant_mode = %" PRIu64
                     ", cache_dtype_str = %.64s keep scales in the cell, 1..%" PRIu64 " bytes",
                     quant_mode_, Fields::shown(stored).c_str(), kMaxCell);
    }
    if (stored.is_text("fp8_ds_mla")) {
      quire_layer record = out_.layer;
      record.head_dim_k = static_cast<uint32_t>(width);
      if (slots == 1 && fp8_record(static_cast<uint32_t>(cell), &record)) return {};
      return fail(QUIRE_UNIMPLEMENTED,
                  "state_content_bytes = %" PRIu64 ", head_size = %" PRIu64
                  "; fp8_ds_mla has records of 656 bytes for 576 elements and of 584 for 512",
                  cell, width);
    }
    if (quant_mode_ == 0 || cell == 0) return {};
    const uint64_t least = heads * quantised_bytes(width, value);
    if (slots * cell >= least) return {};
    return invalid("state_content_bytes = %" PRIu64 " in %" PRIu64 " head slots; quant_mode = %" PRIu64 " takes at least %" PRIu64
                   " bytes per token",
                   cell, slots, quant_mode_, least);
  }

  // Cells that the file gives in bytes: records that are known, else bytes that only the engine's kernels understand.
  void encode(uint64_t cell, uint64_t heads, uint64_t slots, uint64_t width, uint64_t value) {
    quire_layer& layer = out_.layer;
    if (one_side() && slots == 1 && fp8_record(static_cast<uint32_t>(cell), &layer)) return;
    const bool packed = element_bytes(layer.dtype) == 1;
    if (packed && !one_side() && slots == 2 * heads && width == value && quant_mode_ == kNvfp4 && width % 16 == 0 &&
        cell == width / 2 + width / 16) {
      layer.num_kv_heads = static_cast<uint32_t>(heads);  // a slot for K and one for V
      return record({QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1}, width / 2, value / 2, width / 16, kFp8, 16);
    }
    const bool int4 = quant_mode_ == kInt4PerTokenHead;
    const uint64_t share = int4 ? 2 : 1;
    const quire_dtype data = int4 ? quire_dtype{QUIRE_DTYPE_INT, 4, 1} : layer.dtype;
    const bool even = (width % 2 == 0 && value % 2 == 0) || !int4;
    if (packed && even && slots == heads && cell == (width + value) / share + 8 && (!one_side() || slots == 1)) {
      return record(data, width / share, value / share, one_side() ? 8 : 4, kFloat32, 0);
    }
    layer.dtype = kBytes;
    if (one_side()) {
      layer.head_dim_k = static_cast<uint32_t>(slots * cell);
    } else if (cell == 1) {
      layer.num_kv_heads = 1, layer.head_dim_k = static_cast<uint32_t>((slots + 1) / 2),
      layer.head_dim_v = static_cast<uint32_t>(slots / 2);
    } else {
      layer.head_dim_k = static_cast<uint32_t>(cell - cell / 2), layer.head_dim_v = static_cast<uint32_t>(cell / 2);
    }
  }

  void record(quire_dtype data, uint64_t k_bytes, uint64_t v_bytes, uint64_t scale_bytes, quire_dtype scale, uint32_t per_scale) {
    quire_codec_params& params = out_.layer.codec_params;
    out_.layer.codec = QUIRE_CODEC_RECORD;
    params.data_dtype = data;
    params.scale_dtype = scale;
    params.scale_elements = per_scale;
    params.data_bytes[0] = static_cast<uint32_t>(k_bytes), params.data_bytes[1] = static_cast<uint32_t>(v_bytes);
    params.scale_bytes[0] = static_cast<uint32_t>(scale_bytes), params.scale_bytes[1] = v_bytes != 0 ? params.scale_bytes[0] : 0;
  }

  const Json& spec_;
  const Kind& kind_;
  Fields f_;
  uint64_t quant_mode_ = 0;
  LayerSpec out_;
};

}  // namespace

Result<LayerSpec> read_layer_spec(const Json& spec, uint64_t encoder_tokens) {
  const Kind* kind = named(kKinds, spec["kind"]);
  if (kind == nullptr) {
    return fail(QUIRE_UNIMPLEMENTED, "kind = %.64s is not known", Fields::shown(spec["kind"]).c_str());
  }
  return SpecReader(spec, *kind).read(encoder_tokens);
}

}  // namespace quire
