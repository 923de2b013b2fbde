#include "core/model/model_layers.h"

#include <cinttypes>
#include <cmath>
#include <cstring>
#include <string>

#include "core/base/checked.h"
#include "core/model/check_codec.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

// Limits that keep every later product far from overflow and every index in 32 bits; real models stay orders of magnitude below.
constexpr uint64_t kMaxLayers = 1 << 16;
constexpr uint64_t kMaxSubs = 16;
constexpr uint64_t kMaxHeads = 1 << 16;
constexpr uint64_t kMaxHeadDim = 1 << 16;
constexpr uint64_t kMaxTokens = (uint64_t{1} << 31) - 1;  // positions are int32
constexpr uint64_t kMaxBlock = 1 << 24;
constexpr uint64_t kMaxRatio = 1 << 16;
constexpr uint64_t kMaxStateBytes = uint64_t{1} << 40;
constexpr uint64_t kMaxName = 256;
constexpr uint64_t kMaxLookAhead = 1024;

bool is_latent(quire_layer_kind kind) { return kind == QUIRE_LAYER_MLA || kind == QUIRE_LAYER_INDEXER; }

bool has_tokens(quire_layer_kind kind) {
  return kind == QUIRE_LAYER_FULL || kind == QUIRE_LAYER_SLIDING_WINDOW || kind == QUIRE_LAYER_CHUNKED || kind == QUIRE_LAYER_MLA ||
         kind == QUIRE_LAYER_CROSS || kind == QUIRE_LAYER_INDEXER;
}

// Checks fields of one layer and words the failures: "layer 3 sub 0: head_dim_k = 0; must be 1..65536".
class FieldCheck {
 public:
  explicit FieldCheck(const quire_layer& layer) : layer_(layer) {}

  Status between(const char* field, uint64_t value, uint64_t low, uint64_t high) const {
    if (value >= low && value <= high) return {};
    return invalid("layer %u sub %u: %s = %" PRIu64 "; must be %" PRIu64 "..%" PRIu64, layer_.layer, layer_.sub, field, value, low, high);
  }
  Status zero(const char* field, uint64_t value) const {
    if (value == 0) return {};
    return invalid("layer %u sub %u: %s = %" PRIu64 "; must be 0 for layer kind %d", layer_.layer, layer_.sub, field, value, layer_.kind);
  }
  Status dtype(const char* field, quire_dtype value) const {
    if (is_known(value)) return {};
    return invalid("layer %u sub %u: %s = {code %u, bits %u, lanes %u}; must be an int, uint, float, bfloat or float8 type of whole bytes",
                   layer_.layer, layer_.sub, field, value.code, value.bits, value.lanes);
  }

 private:
  const quire_layer& layer_;
};

// Parts lie one behind the other along the sharded dimension of the first tensor, with nothing between them.
Status check_state_parts(const quire_layer& layer, const FieldCheck& check) {
  uint64_t sum = 0;
  for (const uint32_t part : layer.state_parts) sum += part;
  if (sum == 0) return {};
  const uint64_t extent = layer.state_shard[0] == 0 ? 0 : layer.state[0].shape[layer.state_shard[0] - 1];
  return check.between("sum of state_parts", sum, extent, extent);
}

Status check_state(const quire_layer& layer, const FieldCheck& check) {
  if (layer.state_kind < QUIRE_STATE_GENERIC || layer.state_kind > QUIRE_STATE_SHORT_CONV) {
    return invalid("layer %u sub %u: state_kind = %d; must be %d..%d", layer.layer, layer.sub, layer.state_kind, QUIRE_STATE_GENERIC,
                   QUIRE_STATE_SHORT_CONV);
  }
  QUIRE_RETURN_IF_ERROR(check.between("num_state_tensors", layer.num_state_tensors, 1, 4));
  uint64_t total = 0;
  for (uint32_t i = 0; i < layer.num_state_tensors; ++i) {
    const std::string field = "state[" + std::to_string(i) + "]";
    const quire_state_tensor& tensor = layer.state[i];
    QUIRE_RETURN_IF_ERROR(check.dtype((field + ".dtype").c_str(), tensor.dtype));
    QUIRE_RETURN_IF_ERROR(check.between((field + ".ndim").c_str(), tensor.ndim, 1, 4));
    uint64_t bytes = element_bytes(tensor.dtype);
    for (uint32_t k = 0; k < tensor.ndim; ++k) {
      QUIRE_RETURN_IF_ERROR(check.between((field + ".shape[" + std::to_string(k) + "]").c_str(), tensor.shape[k], 1, kMaxStateBytes));
      const auto product = checked_mul(bytes, tensor.shape[k]);
      bytes = product ? *product : kMaxSize;
      QUIRE_RETURN_IF_ERROR(check.between((field + " bytes").c_str(), bytes, 1, kMaxStateBytes));
    }
    total += bytes;
    const uint8_t shard = layer.state_shard[i];
    QUIRE_RETURN_IF_ERROR(check.between(("state_shard[" + std::to_string(i) + "]").c_str(), shard, 0, tensor.ndim));
  }
  QUIRE_RETURN_IF_ERROR(check.between("bytes of all state tensors", total, 1, kMaxStateBytes));
  QUIRE_RETURN_IF_ERROR(check_state_parts(layer, check));
  // States use the head counts only to say how far tensor parallelism can split them.
  QUIRE_RETURN_IF_ERROR(check.between("num_kv_heads", layer.num_kv_heads, 0, kMaxHeads));
  QUIRE_RETURN_IF_ERROR(check.between("num_q_heads", layer.num_q_heads, 0, kMaxHeads));
  const bool grouped = layer.state_kind == QUIRE_STATE_GDN || layer.state_kind == QUIRE_STATE_MAMBA2;
  if (!grouped || layer.num_kv_heads == 0 || layer.num_q_heads % layer.num_kv_heads == 0) return {};
  return invalid("layer %u sub %u: num_q_heads = %u; must be a multiple of num_kv_heads = %u, the key heads (groups) that they share",
                 layer.layer, layer.sub, layer.num_q_heads, layer.num_kv_heads);
}

Status check_tokens(const quire_layer& layer, const FieldCheck& check) {
  const bool one_side = is_latent(layer.kind);
  QUIRE_RETURN_IF_ERROR(check.between("num_kv_heads", layer.num_kv_heads, 1, one_side ? 1 : kMaxHeads));
  QUIRE_RETURN_IF_ERROR(check.between("num_q_heads", layer.num_q_heads, 0, kMaxHeads));
  if (layer.num_q_heads % layer.num_kv_heads != 0) {
    return invalid("layer %u sub %u: num_q_heads = %u; must be a multiple of num_kv_heads = %u", layer.layer, layer.sub, layer.num_q_heads,
                   layer.num_kv_heads);
  }
  QUIRE_RETURN_IF_ERROR(check.between("head_dim_k", layer.head_dim_k, 1, kMaxHeadDim));
  if (one_side) {
    QUIRE_RETURN_IF_ERROR(check.zero("head_dim_v", layer.head_dim_v));
  } else {
    QUIRE_RETURN_IF_ERROR(check.between("head_dim_v", layer.head_dim_v, 1, kMaxHeadDim));
  }
  QUIRE_RETURN_IF_ERROR(check.dtype("dtype", layer.dtype));
  QUIRE_RETURN_IF_ERROR(check.between("compress_ratio", layer.compress_ratio, 0, kMaxRatio));
  QUIRE_RETURN_IF_ERROR(check.zero("num_state_tensors", layer.num_state_tensors));
  QUIRE_RETURN_IF_ERROR(check_codec(layer));
  if (layer.kind == QUIRE_LAYER_CROSS) return check.between("encoder_tokens", layer.encoder_tokens, 1, kMaxTokens);
  return check.zero("encoder_tokens", layer.encoder_tokens);
}

// Windows, chunks and sinks belong together with kinds that can lose tokens.
Status check_range(const quire_layer& layer, const FieldCheck& check) {
  if (layer.kind == QUIRE_LAYER_SLIDING_WINDOW || layer.kind == QUIRE_LAYER_CHUNKED) {
    QUIRE_RETURN_IF_ERROR(check.between("window", layer.window, 1, kMaxTokens));
  } else if (is_latent(layer.kind)) {
    QUIRE_RETURN_IF_ERROR(check.between("window", layer.window, 0, kMaxTokens));
  } else {
    QUIRE_RETURN_IF_ERROR(check.zero("window", layer.window));
  }
  if (layer.window == 0 || layer.kind == QUIRE_LAYER_CHUNKED) return check.zero("sink_tokens", layer.sink_tokens);
  return check.between("sink_tokens", layer.sink_tokens, 0, kMaxTokens);
}

Status check_layer(const quire_layer& layer) {
  const FieldCheck check(layer);
  if (layer.kind < QUIRE_LAYER_NONE || layer.kind > QUIRE_LAYER_INDEXER) {
    return invalid("layer %u sub %u: kind = %d; must be %d..%d", layer.layer, layer.sub, layer.kind, QUIRE_LAYER_NONE, QUIRE_LAYER_INDEXER);
  }
  QUIRE_RETURN_IF_ERROR(check.between("layer", layer.layer, 0, kMaxLayers - 1));
  QUIRE_RETURN_IF_ERROR(check.between("sub", layer.sub, 0, kMaxSubs - 1));
  QUIRE_RETURN_IF_ERROR(check.between("name.len", layer.name.len, 0, kMaxName));
  if (layer.name.len != 0 && layer.name.data == nullptr) {
    return invalid("layer %u sub %u: name.data = NULL with name.len = %" PRIu64, layer.layer, layer.sub, layer.name.len);
  }
  if ((layer.flags & ~kLayerFlags) != 0) {
    return invalid("layer %u sub %u: flags = 0x%x; known flags are 0x%x", layer.layer, layer.sub, layer.flags, kLayerFlags);
  }
  if (!std::isfinite(layer.softcap) || layer.softcap < 0) {
    return invalid("layer %u sub %u: softcap = %g; must be 0 or a positive finite number", layer.layer, layer.sub,
                   static_cast<double>(layer.softcap));
  }
  QUIRE_RETURN_IF_ERROR(check.between("block_tokens", layer.block_tokens, 0, kMaxBlock));
  const uint64_t most_ahead = (layer.flags & QUIRE_LAYER_DRAFT) != 0 ? kMaxLookAhead : 0;
  QUIRE_RETURN_IF_ERROR(check.between("look_ahead", layer.look_ahead, 0, most_ahead));
  QUIRE_RETURN_IF_ERROR(check_range(layer, check));
  QUIRE_RETURN_IF_ERROR(
      check.between("rope_dim", layer.rope_dim, 0, layer.kind == QUIRE_LAYER_MLA && layer.head_dim_k != 0 ? layer.head_dim_k - 1 : 0));
  QUIRE_RETURN_IF_ERROR(check.zero("reserved0", layer.reserved0));
  if (layer.kind == QUIRE_LAYER_STATE) return check_state(layer, check);
  if (has_tokens(layer.kind)) return check_tokens(layer, check);
  QUIRE_RETURN_IF_ERROR(check.zero("codec", layer.codec));
  return check.zero("shares_with", layer.shares_with);
}

LiveRange live_range(const quire_layer& layer) {
  LiveRange live;
  switch (layer.kind) {
    case QUIRE_LAYER_SLIDING_WINDOW:
    case QUIRE_LAYER_MLA:
    case QUIRE_LAYER_INDEXER:
      live.window = layer.window;
      live.sink = layer.sink_tokens;
      break;
    case QUIRE_LAYER_CHUNKED:
      live.chunk = layer.window;
      break;
    case QUIRE_LAYER_STATE:
      live.state = true;
      break;
    case QUIRE_LAYER_CROSS:
      live.fixed = true;
      break;
    default:
      break;
  }
  return live;
}

Status check_shared(const LayerCache& reader, const LayerCache* target) {
  const quire_layer& a = reader.desc;
  if (a.shares_with > a.layer || target == nullptr) {
    return invalid("layer %u sub %u: shares_with = %u; must be 1 + index of an earlier layer that has a cache with the same sub", a.layer,
                   a.sub, a.shares_with);
  }
  const quire_layer& b = target->desc;
  if (a.kind != b.kind || a.num_kv_heads != b.num_kv_heads || a.head_dim_k != b.head_dim_k || a.head_dim_v != b.head_dim_v ||
      !same_dtype(a.dtype, b.dtype) || a.codec != b.codec || std::memcmp(&a.codec_params, &b.codec_params, sizeof a.codec_params) != 0 ||
      reader.live != target->live || a.compress_ratio != b.compress_ratio || a.encoder_tokens != b.encoder_tokens || reader.is_state()) {
    return invalid(
        "layer %u sub %u: shares_with = %u, but kind, heads, widths, dtype, codec, window or encoder_tokens differ from layer %u", a.layer,
        a.sub, a.shares_with, b.layer);
  }
  return {};
}

}  // namespace

bool LayerCache::has_memory() const {
  return desc.kind != QUIRE_LAYER_NONE && desc.kind != QUIRE_LAYER_ENCODER_ONLY && desc.shares_with == 0;
}

Result<Model> Model::create(std::span<const quire_layer> layers, uint64_t max_model_len, std::string architecture,
                            std::span<const LayerFacts> facts) {
  if (layers.empty()) return invalid("layers: 0 given; a model has at least 1");
  if (layers.size() > kMaxLayers) return invalid("layers: %zu given; at most %" PRIu64, layers.size(), kMaxLayers);
  if (max_model_len > kMaxTokens) return invalid("max_model_len = %" PRIu64 "; must be 0..%" PRIu64, max_model_len, kMaxTokens);
  Model model;
  model.max_model_len_ = max_model_len;
  model.architecture_ = std::move(architecture);
  model.caches_.reserve(layers.size());
  for (const quire_layer& layer : layers) {
    QUIRE_RETURN_IF_ERROR(check_layer(layer));
    if (!model.caches_.empty()) {
      const quire_layer& last = model.caches_.back().desc;
      if (layer.layer < last.layer || (layer.layer == last.layer && layer.sub <= last.sub)) {
        return invalid("layer %u sub %u follows layer %u sub %u; must be ordered by (layer, sub) without repeats", layer.layer, layer.sub,
                       last.layer, last.sub);
      }
    }
    LayerCache cache;
    cache.desc = layer;
    cache.live = live_range(layer);
    if (!facts.empty()) cache.facts = facts[model.caches_.size()];
    if (layer.name.len != 0) {
      cache.name.assign(layer.name.data, layer.name.len);
    } else {
      cache.name = "layers." + std::to_string(layer.layer) + (layer.sub != 0 ? "." + std::to_string(layer.sub) : "");
    }
    cache.point();
    if (layer.shares_with != 0) QUIRE_RETURN_IF_ERROR(check_shared(cache, model.find(layer.shares_with - 1, layer.sub)));
    model.caches_.push_back(cache);
  }
  model.num_layers_ = model.caches_.back().desc.layer + 1;
  return model;
}

const LayerCache* Model::find(uint32_t layer, uint32_t sub) const {
  uint32_t wanted = layer;
  while (true) {
    const auto it = std::lower_bound(caches_.begin(), caches_.end(), wanted, [sub](const LayerCache& cache, uint32_t index) {
      return cache.desc.layer != index ? cache.desc.layer < index : cache.desc.sub < sub;
    });
    if (it == caches_.end() || it->desc.layer != wanted || it->desc.sub != sub) return nullptr;
    if (it->desc.shares_with == 0) return it->has_memory() ? &*it : nullptr;
    wanted = it->desc.shares_with - 1;  // earlier by construction, so the walk ends
  }
}

}  // namespace quire
