// Families with latent caches: one row per token instead of keys and values, with indexers, compression or linear attention beside it.
#include <algorithm>
#include <cinttypes>

#include "core/model/hf_reader.h"

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

quire_layer& Reader::latent(quire_layer* layer, uint64_t width, uint64_t ratio) const {
  layer->num_kv_heads = 1;
  layer->head_dim_k = narrow(width);
  layer->compress_ratio = narrow(ratio);
  return *layer;
}

// Index keys: fp8 with one scale per row, all keys of a block before all scales.
void Reader::indexer(uint64_t ratio) {
  const uint64_t width = f_.need("index_head_dim", kMaxCount / 2);
  quire_layer& layer = latent(&also(QUIRE_LAYER_INDEXER), width, ratio);
  layer.dtype = kFp8;
  layer.codec = QUIRE_CODEC_BLOCK_SPLIT;
  layer.codec_params.data_bytes[0] = narrow(width);
  layer.codec_params.scale_bytes[0] = narrow(element_bytes(kFloat32));
  layer.codec_params.scale_dtype = kFloat32;
}

void Reader::mla() {
  const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
  const uint64_t rank = f_.need("kv_lora_rank", kMaxCount / 2);
  const uint64_t rope = f_.need("qk_rope_head_dim", kMaxCount / 2);
  const uint64_t width = rank + rope;
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
  const bool indexed = f_.has("index_head_dim") || of_any({"DeepseekV32", "GlmMoeDsa"});
  if (indexed) (void)f_.need("index_head_dim", kMaxCount / 2);
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    quire_layer& layer = latent(&add(QUIRE_LAYER_MLA), width);
    layer.num_q_heads = narrow(q_heads);
    layer.rope_dim = narrow(rope);
    if (!indexed) continue;
    facts_.back().family = {kSparseBlock, 0, 0, kSparseRecord, 0, false};
    indexer(1);
    facts_.back().family = {kSparseBlock, 0, 0, 0, 0, false};
  }
}

// Every layer keeps a window of plain rows; most also keep one row for `ratio` tokens, and the sums that such a row is made from. Where
// ratio is 4, neighbouring rows overlap (sums of twice the tokens and width) and an indexer with sums of its own chooses among them.
void Reader::deepseek_v4() {
  const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
  const uint64_t width = f_.need("head_dim", kMaxCount / 8);
  const uint64_t window = f_.need("sliding_window", kMaxLength);
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
  const uint64_t index_width = f_.need("index_head_dim", kMaxCount / 8);
  const Json* ratios = f_.find("compress_ratios");
  if (ratios == nullptr || !ratios->is_array() || ratios->size() < count || ratios->size() > kMaxLayers) {
    f_.refuse(invalid("config: compress_ratios must be a list of at least num_hidden_layers = %" PRIu64 " entries", count));
    return;
  }
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    const uint64_t ratio = f_.number((*ratios)[i], "compress_ratios[]", 0, 65536);
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

std::vector<bool> Reader::marked(const char* key, const Json* list, uint64_t count, uint64_t first) {
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

// Kimi Delta Attention: latent layers are named (counted from 1), the others keep a convolution over q, k and v, and a matrix per head.
void Reader::kimi() {
  const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
  const uint64_t rank = f_.need("kv_lora_rank", kMaxCount / 2);
  const uint64_t rope = f_.need("qk_rope_head_dim", kMaxCount / 2);
  const uint64_t width = rank + rope;
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
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
    if (full[i]) {
      quire_layer& layer = latent(&add(QUIRE_LAYER_MLA), width);
      layer.num_q_heads = narrow(q_heads);
      layer.rope_dim = narrow(rope);
      continue;
    }
    quire_layer& layer = add(QUIRE_LAYER_STATE);
    layer.state_kind = QUIRE_STATE_KDA;
    layer.num_kv_heads = layer.num_q_heads = narrow(heads);
    layer.num_state_tensors = 2;
    layer.state[0] = {model_dtype_, 2, {kernel - 1, 3 * heads * head_width, 0, 0}};
    layer.state[1] = {kFloat32, 3, {heads, head_width, head_width, 0}};
    layer.state_shard[0] = 2;
    layer.state_shard[1] = 1;
    for (uint32_t part = 0; part < 3; ++part) layer.state_parts[part] = narrow(heads * head_width);
  }
}

}  // namespace quire
