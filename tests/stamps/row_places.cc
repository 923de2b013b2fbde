#include "tests/stamps/row_places.h"

#include <algorithm>

#include "tests/stamps/ledger.h"

namespace quire::stamps {
namespace {

constexpr uint32_t kMostBytes = 8;

RowPlace common_place(const Plan& plan, uint32_t number, const quire_kv_view& view) {
  const quire_layer& layer = plan.layers[number];
  const quire_layer_place& at = plan.places[number];
  demand(view.group == at.group && view.column == at.column, "a view is of the layer's place");
  RowPlace place;
  place.layer = number;
  place.group = view.group;
  place.column = view.column;
  place.kernel_block = plan.groups[view.group].kernel_block_tokens;
  place.ratio = std::max(layer.compress_ratio, 1u);
  place.ranks = std::max(view.context_ranks, 1u);
  place.rank = view.context_rank;
  place.codec = view.codec;
  place.draft = (layer.flags & QUIRE_LAYER_DRAFT) != 0;
  place.cross = layer.kind == QUIRE_LAYER_CROSS;
  place.region_number = view.region;
  place.tag_bytes = plan.coded ? 1 : 4;
  demand(place.kernel_block == view.block_tokens * place.ratio * place.ranks, "rows of a kernel block and its tokens");
  return place;
}

// Of one head, K and V.
uint64_t row_bytes(const quire_layer& layer) {
  const quire_codec_params& p = layer.codec_params;
  if (layer.codec != QUIRE_CODEC_RECORD && layer.codec != QUIRE_CODEC_BLOCK_SPLIT) {
    return (uint64_t{layer.head_dim_k} + layer.head_dim_v) * layer.dtype.bits / 8;
  }
  return uint64_t{p.data_bytes[0]} + p.data_bytes[1] + p.scale_bytes[0] + p.scale_bytes[1] + p.tail_bytes[0] + p.tail_bytes[1];
}

// The items of a field, those that lie side by side as one piece.
void add_pieces(const quire_kv_field& field, uint32_t num_heads, RowPlace place, std::vector<RowPlace>* out) {
  const uint32_t item = field.dtype.bits * uint32_t{field.dtype.lanes} / 8;
  demand(item > 0 && item <= kMostBytes && !place.draft, "a piece of a row");
  place.tile = field.tile_tokens;
  place.stride = field.stride_token;
  place.stride_tile = field.stride_token_tile;
  const uint64_t salt = place.salt;
  const auto offset = [&](uint32_t i) {
    return int64_t{i / field.tile_items} * field.stride_item_tile + int64_t{i % field.tile_items} * field.stride_item;
  };
  for (uint32_t head = 0; head < num_heads; ++head) {
    for (uint32_t i = 0; i < field.num_items;) {
      place.offset = field.offset + head * field.stride_head + offset(i);
      place.bytes = item;
      uint32_t next = i + 1;
      for (; next < field.num_items && offset(next) == offset(i) + place.bytes && place.bytes + item <= kMostBytes; ++next) {
        place.bytes += item;
      }
      place.salt = chained(salt, out->size());
      out->push_back(place);
      i = next;
    }
  }
}

}  // namespace

std::vector<RowPlace> row_places(const Plan& plan, uint32_t shard, uint32_t number) {
  quire_error err = QUIRE_INIT(quire_error);
  const quire_layer& layer = plan.layers[number];
  quire_kv_view view = QUIRE_INIT(quire_kv_view);
  const quire_code code = quire_config_get_kv_view(plan.config.get(), shard, layer.layer, layer.sub, &view, &err);
  if (code == QUIRE_NOT_FOUND) return {};
  must_call(code, err, "view of a cache");
  RowPlace place = common_place(plan, number, view);
  std::vector<RowPlace> out;
  if (!plan.coded) {
    for (uint32_t side = 0; side < view.num_sides; ++side) {
      place.unit = view.unit[side];
      place.stride = view.stride_token[side];
      for (uint32_t head = 0; head < (plan.by_head ? view.num_heads : 1); ++head) {
        place.offset = view.offset[side] + head * view.stride_head[side];
        place.salt = chained(chained(0xa5a5, number), side);
        if (plan.by_head) place.salt = chained(place.salt, view.num_sides == 1 ? 0 : view.first_head + head);
        place.beside = head > 0;
        out.push_back(place);
      }
    }
    return out;
  }
  uint64_t count = 0;
  (void)quire_config_list_fields(plan.config.get(), shard, layer.layer, layer.sub, nullptr, 0, &count, &err);
  std::vector<quire_kv_field> fields(count);
  must_call(quire_config_list_fields(plan.config.get(), shard, layer.layer, layer.sub, fields.data(), count, &count, &err), err, "fields");
  uint64_t bytes = 0;
  for (const quire_kv_field& field : fields) {
    place.unit = view.unit[field.side];
    place.salt = chained(chained(0xa5a5, number), 0xf1e1d);
    add_pieces(field, view.num_heads, place, &out);
    bytes += field.num_items * uint64_t{field.dtype.bits} * field.dtype.lanes / 8 * view.num_heads;
  }
  demand(bytes == row_bytes(layer) * view.num_heads, "the fields of a codec are the whole row");
  return out;
}

}  // namespace quire::stamps
