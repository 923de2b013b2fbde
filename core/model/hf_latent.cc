// Families with latent caches: one row per token instead of keys and values, with indexers, compression or linear attention beside it.
#include <algorithm>
#include <cinttypes>

#include "core/model/hf_rules.h"

namespace quire {

namespace {

constexpr quire_dtype kFp8{QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
// Blocks of the kernels that read a chosen part of the rows, and bytes of their rows in fp8 with scales and rope inside.
constexpr uint32_t kSparseBlock = 64;
constexpr uint32_t kSparseRecord = 656;
// DeepSeek-V4: tokens of a block of compressed rows, of rows in a window, and of sums that overlap or not; alignment of pages, and rows.
constexpr uint32_t kCompressedBlock = 256;
constexpr uint32_t kWindowBlock = 64;
constexpr uint32_t kOverlappingSums = 4;
constexpr uint32_t kPlainSums = 8;
constexpr uint32_t kAlignment = 512;
constexpr uint32_t kAlignmentFp8 = 576;
constexpr uint32_t kWindowRecord = 584;

}  // namespace

quire_layer& CacheList::latent(quire_layer* layer, uint64_t width, uint64_t ratio) const {
  layer->num_kv_heads = 1;
  layer->head_dim_k = narrow(width);
  layer->compress_ratio = narrow(ratio);
  return *layer;
}

// Index keys: fp8 with one scale per row, all keys of a block before all scales.
void CacheList::indexer(uint64_t ratio) {
  const uint64_t width = f_.need("index_head_dim", kMaxCount / 2);
  quire_layer& layer = latent(&also(QUIRE_LAYER_INDEXER), width, ratio);
  layer.dtype = kFp8;
  layer.codec = QUIRE_CODEC_BLOCK_SPLIT;
  layer.codec_params.data_bytes[0] = narrow(width);
  layer.codec_params.scale_bytes[0] = narrow(element_bytes(kFloat32));
  layer.codec_params.scale_dtype = kFloat32;
}

// Layers that have an indexer; the others read what the one before them chose.
std::vector<bool> DecoderFields::indexed_layers(uint64_t count) {
  std::vector<bool> out(count, true);
  if ((rules_.traits & kDrafts) != 0) return out;
  if (f_.has("layer_types")) {
    const std::string types = layer_types(count, {"indexed_attention", "full_attention"});
    for (size_t i = 0; i < types.size(); ++i) out[i] = types[i] == 'i';
  }
  if (f_.has("indexer_types")) {
    const Json* list = f_.list("indexer_types", count);
    for (size_t i = 0; list != nullptr && i < count; ++i) {
      const Json& type = (*list)[i];
      if (!type.is_text("full") && !type.is_text("shared")) {
        f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: indexer_types[%zu] = %.64s is not known; known are \"full\" and \"shared\"", i,
                       Fields::shown(type).c_str()));
      }
      out[i] = out[i] && type.is_text("full");
    }
  } else if (const Json* pattern = f_.find("index_topk_pattern"); pattern != nullptr) {
    const std::string letters = pattern->is_string() ? pattern->string() : "";
    if (letters.empty()) f_.refuse(invalid("config: index_topk_pattern = %.64s; must be a text", Fields::shown(*pattern).c_str()));
    for (size_t i = 0; i < std::min<size_t>(count, letters.size()); ++i) out[i] = out[i] && letters[i] != 'S';
  } else if (const uint64_t every = f_.get("index_topk_freq", 1, 1, kMaxLayers); every > 1) {
    const uint64_t offset = f_.get("index_skip_topk_offset", 2, 0, kMaxLayers);
    for (uint64_t i = 0; i < count; ++i) out[i] = out[i] && (i + 1 < offset || (i + 1 - offset) % every == 0);
  }
  return out;
}

// Keys and values that are unfolded from a latent row before they are kept: one of each per query head, of equal width.
void Reader::unfolded() {
  const uint64_t count = count_layers();
  f_.ask({"kv_lora_rank"});
  quire_layer geometry{};
  geometry.num_q_heads = geometry.num_kv_heads = narrow(f_.need("num_attention_heads", kMaxCount));
  geometry.head_dim_k = narrow(f_.need("qk_nope_head_dim", kMaxCount / 2) + f_.need("qk_rope_head_dim", kMaxCount / 2));
  geometry.head_dim_v = geometry.head_dim_k;
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) attention(geometry, QUIRE_LAYER_FULL, 0);
}

void Reader::mla() {
  const Json* folded = f_.find("use_mla");
  const bool no_width = f_.has("qk_nope_head_dim") && f_.has("qk_rope_head_dim") && f_.get("qk_nope_head_dim", 1, 0, kMaxCount) == 0 &&
                        f_.get("qk_rope_head_dim", 1, 0, kMaxCount) == 0;
  if (no_width || (folded != nullptr && folded->is_boolean() && !folded->is_true())) return decoder();
  const uint64_t layers = count_layers();
  const uint64_t count = (rules_.traits & kTwice) != 0 ? 2 * layers : layers;
  const uint64_t rank = f_.need("kv_lora_rank", kMaxCount / 2);
  const uint64_t rope = f_.need("qk_rope_head_dim", kMaxCount / 2);
  const uint64_t width = rank + rope;
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
  const bool indexed = f_.has("index_head_dim") || (rules_.traits & kIndexed) != 0;
  if (indexed) (void)f_.need("index_head_dim", kMaxCount / 2);
  const Json* sources = f_.has("kv_source_layers") ? f_.list("kv_source_layers", count) : nullptr;
  const std::vector<bool> own = indexed ? indexed_layers(count) : std::vector<bool>(count);
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    quire_layer& layer = latent(&add(QUIRE_LAYER_MLA), width);
    layer.num_q_heads = narrow(q_heads);
    layer.rope_dim = narrow(rope);
    const uint64_t source = sources == nullptr ? i : f_.number((*sources)[i], "kv_source_layers[]", 0, i);
    if (source != i && f_.status.ok()) layer.shares_with = narrow(source + 1);
    if (!indexed) continue;
    facts_.back().family = {kSparseBlock, 0, 0, kSparseRecord, 0, false};
    if (!own[i]) continue;
    indexer(1);
    facts_.back().family = {kSparseBlock, 0, 0, 0, 0, false};
  }
}

// Tokens per compressed row of each layer, 0 where it has none: as a list, or as transformers writes it, by type of layer.
std::vector<uint64_t> DecoderFields::compressions(uint64_t count) {
  std::vector<uint64_t> out(count);
  if ((rules_.traits & kDrafts) != 0) return out;
  f_.ask({"compress_rates", "layer_types"});
  if (!f_.has("compress_ratios") && f_.has("compress_rates")) {
    const Json* rates = f_.find("compress_rates");
    const Json* types = f_.list("layer_types", count);
    for (uint64_t i = 0; types != nullptr && i < count; ++i) {
      const Json& type = (*types)[i];
      if (type.is_text("sliding_attention")) continue;
      const bool known = type.is_text("compressed_sparse_attention") || type.is_text("heavily_compressed_attention");
      if (!known || !rates->contains(type.string())) {
        f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: layer_types[%" PRIu64 "] = %.64s is not known, or compress_rates has none for it", i,
                       Fields::shown(type).c_str()));
        return out;
      }
      out[i] = f_.number((*rates)[type.string()], "compress_rates", 1, 65536);
    }
    return out;
  }
  const Json* ratios = f_.find("compress_ratios");
  if (ratios == nullptr || !ratios->is_array() || ratios->size() < count || ratios->size() > kMaxLayers) {
    f_.refuse(invalid("config: compress_ratios must be a list of at least num_hidden_layers = %" PRIu64 " entries", count));
    return out;
  }
  const Json* types = f_.has("layer_types") ? f_.list("layer_types", count) : nullptr;
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = f_.number((*ratios)[i], "compress_ratios[]", 0, 65536);
    if (types == nullptr || (*types)[i].is_text("sliding_attention") == (out[i] == 0)) continue;
    f_.refuse(invalid("config: layer_types[%" PRIu64 "] and compress_ratios[%" PRIu64 "] contradict each other", i, i));
  }
  return out;
}

// Every layer keeps a window of plain rows; most also keep one row for `ratio` tokens, and the sums that such a row is made from. Where
// ratio is 4, neighbouring rows overlap (sums of twice the tokens and width) and an indexer with sums of its own chooses among them.
void Reader::deepseek_v4() {
  const uint64_t count = count_layers();
  const uint64_t width = f_.need("head_dim", kMaxCount / 8);
  const uint64_t window = f_.need("sliding_window", kMaxLength);
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
  const uint64_t index_width = f_.need("index_head_dim", kMaxCount / 8);
  const std::vector<uint64_t> ratios = compressions(count);
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    const uint64_t ratio = ratios[i];
    const auto windowed = [this](quire_layer* layer, uint64_t elements, uint64_t tokens) {
      latent(layer, elements).window = tokens;
      return layer;
    };
    const auto pages = [this](uint32_t block, uint32_t record) {
      facts_.back().family = {block, kAlignment, kAlignmentFp8, record, 0, record != 0};
    };
    windowed(&add(QUIRE_LAYER_MLA), width, window)->num_q_heads = narrow(q_heads);
    pages(kWindowBlock, kWindowRecord);
    if (ratio == 0) continue;
    const bool overlaps = ratio == 4;
    latent(&also(QUIRE_LAYER_MLA), width, ratio).num_q_heads = narrow(q_heads);
    pages(kCompressedBlock, kWindowRecord);
    const uint64_t spans = overlaps ? 2 : 1;
    windowed(&also(QUIRE_LAYER_INDEXER), 2 * spans * width, spans * ratio)->dtype = kFloat32;
    pages(overlaps ? kOverlappingSums : kPlainSums, 0);
    if (!overlaps) continue;
    indexer(ratio);
    pages(kCompressedBlock, 0);
    windowed(&also(QUIRE_LAYER_INDEXER), 2 * spans * index_width, spans * ratio)->dtype = kFloat32;
    pages(kOverlappingSums, 0);
  }
}

std::vector<bool> DecoderFields::marked(const char* key, const Json* list, uint64_t count, uint64_t first) {
  std::vector<bool> out(count);
  if (list == nullptr || !list->is_array() || list->size() > count) {
    f_.refuse(invalid("config: %s must be a list of at most %" PRIu64 " layers", key, count));
    return out;
  }
  for (const Json& item : list->array()) {
    const uint64_t layer = f_.number(item, key, first, count - 1 + first);
    if (f_.status.ok()) out[layer - first] = true;
  }
  return out;
}

void CacheList::latent_attention(uint64_t width, uint64_t rope, uint64_t q_heads) {
  quire_layer& layer = latent(&add(QUIRE_LAYER_MLA), width);
  layer.num_q_heads = narrow(q_heads);
  layer.rope_dim = narrow(rope);
}

// A convolution over q, k and v, and a matrix per head.
void CacheList::kimi_delta(uint64_t heads, uint64_t width, uint64_t kernel) {
  quire_layer& layer = add(QUIRE_LAYER_STATE);
  layer.state_kind = QUIRE_STATE_KDA;
  layer.num_kv_heads = layer.num_q_heads = narrow(heads);
  layer.num_state_tensors = 2;
  layer.state[0] = {model_dtype_, 2, {kernel - 1, 3 * heads * width, 0, 0}};
  layer.state[1] = {kFloat32, 3, {heads, width, width, 0}};
  layer.state_shard[0] = 2;
  layer.state_shard[1] = 1;
  for (uint32_t part = 0; part < 3; ++part) layer.state_parts[part] = narrow(heads * width);
}

// Kimi Delta Attention: latent layers are named (counted from 1), the others keep a convolution over q, k and v, and a matrix per head.
void Reader::kimi() {
  const uint64_t count = count_layers();
  const uint64_t rank = f_.need("kv_lora_rank", kMaxCount / 2);
  const uint64_t rope = f_.need("qk_rope_head_dim", kMaxCount / 2);
  const uint64_t width = rank + rope;
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
  f_.ask({"layer_types", "layer_group_size", "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"});
  if (!f_.has("linear_attn_config") && f_.has("layer_types")) {  // as transformers writes it
    const std::string types = layer_types(count, {"full_attention", "linear_attention"});
    const uint64_t heads = f_.need("linear_num_heads", kMaxCount);
    const uint64_t head_width = f_.need("linear_head_dim", kMaxCount);
    const uint64_t kernel = f_.get("linear_conv_kernel_dim", 4, 2, 1024);
    for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
      types[i] == 'f' ? latent_attention(width, rope, q_heads) : kimi_delta(heads, head_width, kernel);
    }
    return;
  }
  if (const bool lightning = of_any({"BailingMoeV2_5"}); lightning || of_any({"BailingMoeV3"})) {
    const uint64_t heads = q_heads;
    const uint64_t head_width = f_.need("head_dim", kMaxCount);
    const uint64_t kernel = lightning ? 0 : f_.need("short_conv_kernel_size", 1024);
    const uint64_t every = f_.need("layer_group_size", kMaxLayers);
    for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
      const bool full = (i + 1) % every == 0 || (!lightning && i >= count / every * every);
      if (full) {
        latent_attention(width, rope, q_heads);
      } else if (lightning) {
        lightning_state(heads, head_width);
      } else {
        kimi_delta(heads, head_width, kernel);
      }
    }
    return;
  }
  const Json* linear = f_.find("linear_attn_config");
  if (linear == nullptr || !linear->is_object()) {
    f_.refuse(invalid("config: linear_attn_config must be an object"));
    return;
  }
  const auto of_linear = [&](const char* key) { return linear->find(key); };
  const auto number = [&](const char* key, uint64_t low) {
    return f_.number((*linear)[key], (std::string("linear_attn_config.") + key).c_str(), low, kMaxCount);
  };
  const std::vector<bool> full = marked("linear_attn_config.full_attn_layers", of_linear("full_attn_layers"), count, 1);
  const std::vector<bool> delta = marked("linear_attn_config.kda_layers", of_linear("kda_layers"), count, 1);
  const uint64_t heads = number("num_heads", 1);
  const uint64_t head_width = number("head_dim", 1);
  const uint64_t kernel = number("short_conv_kernel_size", 2);
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    if (full[i] == delta[i]) {
      f_.refuse(invalid("config: layer %" PRIu64 " must be in one of linear_attn_config.full_attn_layers and kda_layers", i + 1));
    }
    full[i] ? latent_attention(width, rope, q_heads) : kimi_delta(heads, head_width, kernel);
  }
}

// Latent rows in the layers that are named, gated delta nets in the others.
void Reader::gigachat() {
  const uint64_t count = count_layers();
  const uint64_t rope = f_.need("qk_rope_head_dim", kMaxCount / 2);
  const uint64_t width = f_.need("kv_lora_rank", kMaxCount / 2) + rope;
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
  std::string types(count, 'l');
  f_.ask({"full_attention_layers"});
  if (f_.has("layer_types")) {
    types = layer_types(count, {"full_attention", "linear_attention"});
  } else {
    const std::vector<bool> full = marked("full_attention_layers", f_.find("full_attention_layers"), count, 0);
    for (size_t i = 0; i < count; ++i) types[i] = full[i] ? 'f' : 'l';
  }
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) types[i] == 'f' ? latent_attention(width, rope, q_heads) : gated_delta();
}

// Latent rows of two widths: those of layers that slide, and indexed ones. vLLM keeps all of them as wide as the widest (docs/models.md).
// transformers writes what sliding layers have of their own under per_layer_config, publishers as swa_*.
void Reader::dots3() {
  const uint64_t count = count_layers();
  const bool drafts = (rules_.traits & kDrafts) != 0;
  const bool rewritten = f_.has("per_layer_config");
  f_.ask({"sliding_window", "index_head_dim", "swa_kv_lora_rank"});
  const uint64_t visible = f_.need(f_.spelled("sliding_window_size sliding_window").c_str(), kMaxLength);
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
  const uint64_t rope = f_.need("qk_rope_head_dim", kMaxCount / 2);
  const uint64_t width = f_.need("kv_lora_rank", kMaxCount / 2) + rope;
  const Json* own = drafts && f_.has("mtp_layer_types") ? f_.list("mtp_layer_types", count) : nullptr;
  for (size_t i = 0; own != nullptr && i < count; ++i) {
    if (!(*own)[i].is_text("sliding_attention"))
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: mtp_layer_types[%zu] = %.64s is not known", i, Fields::shown((*own)[i]).c_str()));
  }
  if (!drafts && !f_.has("layer_types")) f_.refuse(invalid("config: layer_types is missing; must be a list of %" PRIu64, count));
  if (!f_.status.ok()) return;
  const std::string types =
      drafts ? std::string(count, 's') : layer_types(count, {"full_attention", "indexed_attention", "sliding_attention"});
  std::vector<uint64_t> widths(types.size(), width);
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != 's') continue;
    f_.at_layer(overrides(i));
    const uint64_t rank = f_.need(rewritten ? "kv_lora_rank" : "swa_kv_lora_rank", kMaxCount / 2);
    widths[i] = rank + f_.need(rewritten ? "qk_rope_head_dim" : "swa_qk_rope_head_dim", kMaxCount / 2);
  }
  f_.at_layer(nullptr);
  const uint64_t widest = widths.empty() ? 0 : *std::max_element(widths.begin(), widths.end());
  const bool chosen = !rewritten && f_.has("index_head_dim");  // full layers of publishers choose, where there is an indexer
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    latent(&add(QUIRE_LAYER_MLA), widest).num_q_heads = narrow(q_heads);
    if (types[i] == 's') {
      layers_.back().window = visible;
    } else if (types[i] == 'i' || chosen) {
      facts_.back().family.block_tokens = kSparseBlock;
      indexer(1);
      facts_.back().family.block_tokens = kSparseBlock;
    }
  }
}

}  // namespace quire
