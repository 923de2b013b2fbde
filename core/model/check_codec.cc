#include "core/model/check_codec.h"

#include <quire/config.h>

#include <algorithm>
#include <cinttypes>
#include <string>

#include "core/base/checked.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

constexpr uint64_t kMaxCellBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxTile = 4096;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kTileBytes = 16;
constexpr uint64_t kAmxTile = 16;

bool is_packed(quire_codec codec) { return codec == QUIRE_CODEC_RECORD || codec == QUIRE_CODEC_BLOCK_SPLIT; }

// Types that exist inside codecs beside those that is_known names.
bool is_known_inside(quire_dtype dtype) {
  if (is_known(dtype)) return true;
  if (dtype.lanes > 1) return false;
  if (dtype.code == QUIRE_DTYPE_FLOAT4_E2M1FN) return dtype.bits == 4;
  if (dtype.code == QUIRE_DTYPE_FLOAT8_E8M0FNU) return dtype.bits == 8;
  return (dtype.code == QUIRE_DTYPE_INT || dtype.code == QUIRE_DTYPE_UINT) && dtype.bits >= 1 && dtype.bits < 8;
}

class CodecCheck {
 public:
  explicit CodecCheck(const quire_layer& layer) : layer_(layer), params_(layer.codec_params) {}

  Status run() const {
    if (layer_.codec < QUIRE_CODEC_STRIDED || layer_.codec > QUIRE_CODEC_AMX) {
      return invalid("layer %u sub %u: codec = %d; must be %d..%d", layer_.layer, layer_.sub, layer_.codec, QUIRE_CODEC_STRIDED,
                     QUIRE_CODEC_AMX);
    }
    QUIRE_RETURN_IF_ERROR(between("codec_params.block_alignment", params_.block_alignment, 0, kMaxAlignment));
    if (is_packed(layer_.codec)) return packed();
    for (uint32_t side = 0; side < 2; ++side) {
      const std::string index = "[" + std::to_string(side) + "]";
      QUIRE_RETURN_IF_ERROR(zero("codec_params.data_bytes" + index, params_.data_bytes[side]));
      QUIRE_RETURN_IF_ERROR(zero("codec_params.scale_bytes" + index, params_.scale_bytes[side]));
      QUIRE_RETURN_IF_ERROR(zero("codec_params.tail_bytes" + index, params_.tail_bytes[side]));
    }
    QUIRE_RETURN_IF_ERROR(zero("codec_params.scale_elements", params_.scale_elements));
    if (!is_unset(params_.data_dtype) || !is_unset(params_.scale_dtype) || !is_unset(params_.tail_dtype)) {
      return wrong("codec_params.data_dtype, scale_dtype and tail_dtype must be unset for codec", layer_.codec);
    }
    return tiled();
  }

 private:
  Status between(const std::string& field, uint64_t value, uint64_t low, uint64_t high) const {
    if (value >= low && value <= high) return {};
    return invalid("layer %u sub %u: %s = %" PRIu64 "; must be %" PRIu64 "..%" PRIu64, layer_.layer, layer_.sub, field.c_str(), value, low,
                   high);
  }
  Status zero(const std::string& field, uint64_t value) const {
    if (value == 0) return {};
    return invalid("layer %u sub %u: %s = %" PRIu64 "; must be 0 for codec %u", layer_.layer, layer_.sub, field.c_str(), value,
                   layer_.codec);
  }
  Status wrong(const char* what, uint64_t value) const {
    return invalid("layer %u sub %u: %s %" PRIu64, layer_.layer, layer_.sub, what, value);
  }
  Status dtype(const char* field, quire_dtype value) const {
    if (is_known_inside(value)) return {};
    return invalid("layer %u sub %u: codec_params.%s = {code %u, bits %u, lanes %u}; must be a known type of 1 to 64 bits", layer_.layer,
                   layer_.sub, field, value.code, value.bits, value.lanes);
  }
  // Bytes of a part of a cell must come with a type that they are a multiple of.
  Status part(const char* name, uint32_t side, uint64_t bytes, quire_dtype type) const {
    const std::string field = std::string("codec_params.") + name + "_bytes[" + std::to_string(side) + "]";
    QUIRE_RETURN_IF_ERROR(between(field, bytes, 0, kMaxCellBytes));
    if (bytes == 0) return {};
    QUIRE_RETURN_IF_ERROR(dtype((std::string(name) + "_dtype").c_str(), type));
    if (type.bits % 8 == 0 && bytes % element_bytes(type) == 0) return {};
    return invalid("layer %u sub %u: %s = %" PRIu64 "; must be a multiple of its type's %u bits", layer_.layer, layer_.sub, field.c_str(),
                   bytes, type.bits);
  }

  Status packed() const {
    QUIRE_RETURN_IF_ERROR(zero("codec_params.tile", params_.tile));
    const quire_dtype data = is_unset(params_.data_dtype) ? layer_.dtype : params_.data_dtype;
    QUIRE_RETURN_IF_ERROR(dtype("data_dtype", data));
    for (uint32_t side = 0; side < 2; ++side) {
      const uint64_t width = side == 0 ? layer_.head_dim_k : layer_.head_dim_v;
      if (width == 0) {
        const uint64_t any = uint64_t{params_.data_bytes[1]} + params_.scale_bytes[1] + params_.tail_bytes[1];
        QUIRE_RETURN_IF_ERROR(zero("codec_params.*_bytes[1] of a cache with one side", any));
        continue;
      }
      QUIRE_RETURN_IF_ERROR(part("scale", side, params_.scale_bytes[side], params_.scale_dtype));
      QUIRE_RETURN_IF_ERROR(part("tail", side, params_.tail_bytes[side], params_.tail_dtype));
      QUIRE_RETURN_IF_ERROR(content(side, width, data));
    }
    return {};
  }

  // Encoded elements and tail must be the elements of a head, and the scales must suffice.
  Status content(uint32_t side, uint64_t width, quire_dtype data) const {
    const uint64_t tail = params_.tail_bytes[side] == 0 ? 0 : params_.tail_bytes[side] / element_bytes(params_.tail_dtype);
    const std::string index = "[" + std::to_string(side) + "]";
    if (tail >= width) return wrong(("codec_params.tail_bytes" + index + " leaves no encoded element of the head's").c_str(), width);
    const uint64_t bytes = ceil_div((width - tail) * data.bits, 8);
    if (params_.data_bytes[side] != bytes) {
      return invalid("layer %u sub %u: codec_params.data_bytes%s = %u; %" PRIu64 " elements of %u bits take %" PRIu64, layer_.layer,
                     layer_.sub, index.c_str(), params_.data_bytes[side], width - tail, data.bits, bytes);
    }
    if (params_.scale_bytes[side] == 0) return {};
    const uint64_t scales = params_.scale_elements == 0 ? 1 : ceil_div(width - tail, params_.scale_elements);
    return between("codec_params.scale_bytes" + index, params_.scale_bytes[side], scales * element_bytes(params_.scale_dtype),
                   kMaxCellBytes);
  }

  Status tiled() const {
    if (layer_.codec == QUIRE_CODEC_STRIDED) return zero("codec_params.tile", params_.tile);
    if (layer_.head_dim_v == 0) return wrong("one side only; K and V are needed for codec", layer_.codec);
    const uint64_t element = element_bytes(layer_.dtype);
    if (layer_.codec == QUIRE_CODEC_COLUMN_K || layer_.codec == QUIRE_CODEC_AMX) {
      QUIRE_RETURN_IF_ERROR(zero("codec_params.tile", params_.tile));
      if (layer_.codec == QUIRE_CODEC_COLUMN_K) return {};
      if (element > 2) return wrong("dtype must have 1 or 2 bytes for codec 6, has", element);
      if (layer_.head_dim_k % kAmxTile != 0) return wrong("head_dim_k must be a multiple of 16 for codec 6, is", layer_.head_dim_k);
      if (layer_.head_dim_v % kAmxTile != 0) return wrong("head_dim_v must be a multiple of 16 for codec 6, is", layer_.head_dim_v);
      return {};
    }
    if (element > kTileBytes) return wrong("dtype must have at most 16 bytes, has", element);
    const uint64_t tile = params_.tile == 0 ? kTileBytes / element : params_.tile;
    QUIRE_RETURN_IF_ERROR(between("codec_params.tile", tile, 1, kMaxTile));
    if (layer_.head_dim_k % tile == 0) return {};
    return invalid("layer %u sub %u: head_dim_k = %u; must be a multiple of the tile, %" PRIu64, layer_.layer, layer_.sub,
                   layer_.head_dim_k, tile);
  }

  const quire_layer& layer_;
  const quire_codec_params& params_;
};

}  // namespace

uint64_t cell_bytes(const quire_layer& layer, uint32_t side) {
  const uint64_t width = side == 0 ? layer.head_dim_k : layer.head_dim_v;
  if (!is_packed(layer.codec)) return width * element_bytes(layer.dtype);
  const quire_codec_params& params = layer.codec_params;
  return uint64_t{params.data_bytes[side]} + params.scale_bytes[side] + params.tail_bytes[side];
}

bool cuts_between_rows(quire_codec codec) { return codec == QUIRE_CODEC_STRIDED || codec == QUIRE_CODEC_RECORD; }

bool fp8_record(uint32_t bytes, quire_layer* layer) {
  const bool long_row = layer->head_dim_k == 576 && bytes == 656;
  if (!long_row && (layer->head_dim_k != 512 || bytes != 584)) return false;
  layer->dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
  layer->codec = long_row ? QUIRE_CODEC_RECORD : QUIRE_CODEC_BLOCK_SPLIT;
  layer->codec_params = long_row
                            ? quire_codec_params{{512, 0}, {16, 0}, {128, 0}, {}, kFloat32, kBFloat16, 128, 0, 0}
                            : quire_codec_params{{448, 0}, {8, 0}, {128, 0}, {}, {QUIRE_DTYPE_FLOAT8_E8M0FNU, 8, 1}, kBFloat16, 64, 0, 0};
  return true;
}

Status add_scales(quire_dtype dtype, int32_t kv_scales, quire_layer* layer) {
  const bool sixteen = kv_scales == QUIRE_KV_SCALES_16;
  const uint64_t step = sixteen ? kTileBytes : 8 / std::max<uint64_t>(dtype.bits, 1);
  if (dtype.bits != 4 && (dtype.bits != 8 || sixteen)) {
    return invalid("kv_scales = %d; kv_dtype has %u bits, must be %s", kv_scales, dtype.bits, sixteen ? "4" : "8 or 4");
  }
  if (sixteen && layer->head_dim_v == 0) {
    return invalid("kv_scales = %d; layer %u keeps one row for K and V, whose scales are one per row", kv_scales, layer->layer);
  }
  quire_codec_params& params = layer->codec_params;
  params = {};
  for (uint32_t side = 0; side < 2; ++side) {
    const uint32_t width = side == 0 ? layer->head_dim_k : layer->head_dim_v;
    if (width % step != 0) {
      return invalid("kv_scales = %d; layer %u is %u elements wide, must be a multiple of %" PRIu64, kv_scales, layer->layer, width, step);
    }
    params.data_bytes[side] = width * dtype.bits / 8;
    const uint32_t per_row = layer->head_dim_v == 0 ? 2 : 1;
    params.scale_bytes[side] = width == 0 ? 0 : sixteen ? width / 16 : per_row * static_cast<uint32_t>(element_bytes(kFloat32));
  }
  params.data_dtype = dtype;
  params.scale_dtype = sixteen ? quire_dtype{QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1} : kFloat32;
  params.scale_elements = sixteen ? 16 : 0;
  layer->codec = QUIRE_CODEC_RECORD;
  if (dtype.bits == 8) layer->dtype = dtype;  // else the type that rows decode to stays the layer's
  return {};
}

Status check_codec(const quire_layer& layer) { return CodecCheck(layer).run(); }

}  // namespace quire
