#include "core/layout/codec.h"

#include <algorithm>
#include <array>
#include <cinttypes>

#include "core/base/checked.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

constexpr uint32_t kTileBytes = 16;
constexpr uint32_t kAmxTile = 16;
constexpr uint32_t kAmxWord = 4;

bool is_packed(quire_codec codec) { return codec == QUIRE_CODEC_RECORD || codec == QUIRE_CODEC_BLOCK_SPLIT; }
bool holds_head(quire_codec codec) { return codec >= QUIRE_CODEC_TILED && codec <= QUIRE_CODEC_AMX; }

uint32_t tile_of(const quire_codec_params& params, quire_dtype dtype) {
  return params.tile != 0 ? params.tile : kTileBytes / static_cast<uint32_t>(element_bytes(dtype));
}

// Rows and elements that belong together on a side, for codecs that hold a head.
struct Tile {
  uint32_t rows;
  uint32_t elements;
};

Tile tile_of(quire_codec codec, const quire_codec_params& params, quire_dtype dtype, uint32_t side) {
  switch (codec) {
    case QUIRE_CODEC_TILED:
      return side == 0 ? Tile{1, tile_of(params, dtype)} : Tile{1, 1};
    case QUIRE_CODEC_SHUFFLED:
      return side == 0 ? Tile{1, tile_of(params, dtype)} : Tile{tile_of(params, dtype), 1};
    case QUIRE_CODEC_AMX: {
      const uint32_t word = kAmxWord / static_cast<uint32_t>(element_bytes(dtype));
      return side == 0 ? Tile{kAmxTile, word} : Tile{word, kAmxTile};
    }
    default:
      return {1, 1};
  }
}

// What is dense inside a head, smallest step first, in elements.
void stride_tiles(quire_codec codec, const quire_kv_view& view, uint32_t side, quire_kv_field* field) {
  const int64_t rows = view.block_tokens;
  const int64_t width = view.head_dim[side];
  const Tile tile = tile_of(codec, view.codec_params, view.dtype, side);
  int64_t row_tile = 0;
  int64_t row = 0;
  int64_t item_tile = 0;
  int64_t item = 0;
  if (codec == QUIRE_CODEC_TILED || codec == QUIRE_CODEC_SHUFFLED) {
    if (side == 0) {  // [D / x][R][x]
      row = tile.elements, item_tile = rows * tile.elements, item = 1;
    } else if (codec == QUIRE_CODEC_TILED) {  // [D][R]
      row = 1, item = rows;
    } else {  // [R / x][D][x]
      row_tile = width * tile.rows, row = 1, item = tile.rows;
    }
  } else if (codec == QUIRE_CODEC_COLUMN_K) {
    row = side == 0 ? 1 : width, item = side == 0 ? rows : 1;
  } else if (side == 0) {  // AMX [R / 16][D / W][16][W]
    row_tile = kAmxTile * width, row = tile.elements, item_tile = int64_t{kAmxTile} * tile.elements, item = 1;
  } else {  // AMX [D / 16][R / W][16][W]
    row_tile = int64_t{kAmxTile} * tile.rows, row = 1, item_tile = rows * kAmxTile, item = tile.rows;
  }
  const auto element = static_cast<int64_t>(element_bytes(view.dtype));
  field->tile_tokens = row_tile == 0 ? view.block_tokens : tile.rows;
  field->tile_items = item_tile == 0 ? view.head_dim[side] : tile.elements;
  field->stride_token_tile = row_tile * element;
  field->stride_token = row * element;
  field->stride_item_tile = item_tile * element;
  field->stride_item = item * element;
}

// The dtype of an item: whole bytes, so that types of less than a byte come several at a time.
quire_dtype item_type(quire_dtype dtype) {
  if (dtype.bits % 8 == 0) return {dtype.code, dtype.bits, 1};
  if (8 % dtype.bits == 0) return {dtype.code, dtype.bits, static_cast<uint16_t>(8 / dtype.bits)};
  return {QUIRE_DTYPE_UINT, 8, 1};
}

uint32_t item_bytes(quire_dtype item) { return item.bits * uint32_t{item.lanes} / 8; }

quire_dtype data_type(const quire_codec_params& params, quire_dtype dtype) {
  return item_type(is_unset(params.data_dtype) ? dtype : params.data_dtype);
}

// A part of a packed cell: what it is, its type, where it starts in the cell and its bytes.
struct CellPart {
  quire_field_role role;
  quire_dtype item;
  uint64_t offset;
  uint64_t bytes;
};

// In cell order. BLOCK_SPLIT: the offset of scales is 0, they form an array of their own.
std::array<CellPart, 3> cell_parts(quire_codec codec, const quire_codec_params& params, quire_dtype dtype, uint32_t side) {
  const bool inside = codec == QUIRE_CODEC_RECORD;
  const uint64_t data = params.data_bytes[side];
  const uint64_t scales = params.scale_bytes[side];
  return {{{QUIRE_FIELD_ELEMENTS, data_type(params, dtype), 0, data},
           {QUIRE_FIELD_SCALES, is_unset(params.scale_dtype) ? quire_dtype{QUIRE_DTYPE_UINT, 8, 1} : item_type(params.scale_dtype),
            inside ? data : 0, scales},
           {QUIRE_FIELD_TAIL, is_unset(params.tail_dtype) ? quire_dtype{QUIRE_DTYPE_UINT, 8, 1} : item_type(params.tail_dtype),
            inside ? data + scales : data, params.tail_bytes[side]}}};
}

// Strides of an array of cells of `bytes`, T and H in either order.
AtomStrides dense_cells(uint64_t bytes, uint64_t rows, uint64_t heads, bool rows_outer) {
  AtomStrides out;
  out.token = static_cast<int64_t>(rows_outer ? heads * bytes : bytes);
  out.head = static_cast<int64_t>(rows_outer ? bytes : rows * bytes);
  return out;
}

uint64_t widest_element(const MemberShape& member) {
  uint64_t widest = 1;
  for (const quire_state_tensor& tensor : member.tensors) widest = std::max(widest, element_bytes(tensor.dtype));
  return widest;
}

}  // namespace

bool cuts_between_heads(quire_codec codec) { return codec != QUIRE_CODEC_BLOCK_SPLIT; }

uint64_t cell_bytes(quire_codec codec, const quire_codec_params& params, quire_dtype dtype, uint32_t width, uint32_t side) {
  if (!is_packed(codec)) return width * element_bytes(dtype);
  return uint64_t{params.data_bytes[side]} + params.scale_bytes[side] + params.tail_bytes[side];
}

Result<Atom> atom_of(const MemberShape& member, uint32_t side) {
  Atom atom;
  if (member.is_state()) {
    atom.item_bytes = state_span_bytes(member.tensors);
    return atom;
  }
  const uint64_t cell = cell_bytes(member.codec, member.codec_params, member.dtype, member.width[side], side);
  if (cuts_between_rows(member.codec)) {
    atom.rows = member.rows;
    atom.heads = member.num_heads;
    atom.item_bytes = member.codec == QUIRE_CODEC_RECORD ? cell : element_bytes(member.dtype);
    atom.items = member.codec == QUIRE_CODEC_RECORD ? 1 : member.width[side];
    return atom;
  }
  const auto bytes = checked_product({member.rows, holds_head(member.codec) ? 1 : member.num_heads, cell});
  if (!bytes) return fail(QUIRE_OUT_OF_RANGE, "layer %u: bytes of a kernel block of %u rows pass 63 bits", member.layer, member.rows);
  atom.item_bytes = *bytes;
  if (holds_head(member.codec)) {
    const Tile tile = tile_of(member.codec, member.codec_params, member.dtype, side);
    if (member.rows % tile.rows != 0 || member.width[side] % tile.elements != 0) {
      return invalid("layer %u: kernel blocks of %u rows of %u elements; codec %u needs multiples of %u rows and %u elements", member.layer,
                     member.rows, member.width[side], member.codec, tile.rows, tile.elements);
    }
    atom.heads = member.num_heads;
    return atom;
  }
  const uint64_t alignment = std::max(member.codec_params.block_alignment, 1u);
  const auto padded = checked_add(*bytes, alignment - 1);
  if (!padded) return fail(QUIRE_OUT_OF_RANGE, "layer %u: bytes of a kernel block pass 63 bits", member.layer);
  atom.padding = round_up(*bytes, alignment) - *bytes;
  return atom;
}

uint64_t block_span_bytes(const MemberShape& member) {
  uint64_t bytes = 0;
  for (uint32_t side = 0; side < member.num_sides; ++side) {
    const auto atom = atom_of(member, side);
    if (!atom.ok()) return payload_bytes(member, 1);  // refused where it is laid out
    const uint64_t rows = atom.value().rows * atom.value().heads * atom.value().items;
    bytes += round_up(rows * atom.value().item_bytes + atom.value().padding, std::max(member.codec_params.block_alignment, 1u));
  }
  return bytes;
}

uint64_t alignment_of(const MemberShape& member) {
  if (member.is_state()) return widest_element(member);
  if (!is_packed(member.codec)) return element_bytes(member.dtype);
  // A record whose parts lie on their types asks for the widest of them; one that is packed more tightly asks for nothing.
  uint64_t widest = 1;
  uint64_t misfit = 0;
  for (uint32_t side = 0; side < member.num_sides; ++side) {
    const bool block = member.codec == QUIRE_CODEC_BLOCK_SPLIT;
    const uint64_t scales_at =
        uint64_t{member.rows} * member.num_heads * (uint64_t{member.codec_params.data_bytes[side]} + member.codec_params.tail_bytes[side]);
    for (const CellPart& part : cell_parts(member.codec, member.codec_params, member.dtype, side)) {
      if (part.bytes == 0) continue;
      const uint64_t item = item_bytes(part.item);
      const bool scales = part.role == QUIRE_FIELD_SCALES;
      const uint64_t step = !block   ? cell_bytes(member.codec, member.codec_params, member.dtype, member.width[side], side)
                            : scales ? part.bytes
                                     : uint64_t{member.codec_params.data_bytes[side]} + member.codec_params.tail_bytes[side];
      misfit |= (block && scales ? scales_at : part.offset) % item | step % item;
      widest = std::max(widest, item);
    }
  }
  return misfit == 0 ? widest : 1;
}

AtomStrides strides_inside(const MemberShape& member, uint32_t side, bool rows_outer) {
  if (member.codec != QUIRE_CODEC_BLOCK_SPLIT) return {};
  const uint64_t bytes = uint64_t{member.codec_params.data_bytes[side]} + member.codec_params.tail_bytes[side];
  return dense_cells(bytes, member.rows, member.num_heads, rows_outer);
}

Grain grain_of(const quire_kv_view& view, uint32_t side) {
  Grain grain;
  const uint64_t cell = cell_bytes(view.codec, view.codec_params, view.dtype, view.head_dim[side], side);
  grain.bytes = cell;
  if (view.codec == QUIRE_CODEC_STRIDED && view.stride_dim[side] != static_cast<int64_t>(element_bytes(view.dtype))) {
    grain.bytes = element_bytes(view.dtype);
    grain.items = view.head_dim[side];
  }
  if (!cuts_between_rows(view.codec)) grain.rows = view.block_tokens;
  if (!cuts_between_heads(view.codec)) grain.heads = view.num_heads;
  grain.bytes *= uint64_t{grain.rows} * grain.heads;
  return grain;
}

std::vector<quire_kv_field> fields_of(const quire_kv_view& view) {
  std::vector<quire_kv_field> fields;
  for (uint32_t side = 0; side < view.num_sides; ++side) {
    quire_kv_field field{};
    field.side = side;
    field.dtype = item_type(view.dtype);
    field.num_items = view.head_dim[side];
    field.tile_tokens = view.block_tokens;
    field.tile_items = view.head_dim[side];
    field.offset = view.offset[side];
    field.stride_head = view.stride_head[side];
    field.stride_token = view.stride_token[side];
    field.stride_item = view.stride_dim[side];
    if (!is_packed(view.codec)) {
      if (holds_head(view.codec)) stride_tiles(view.codec, view, side, &field);
      fields.push_back(field);
      continue;
    }
    const uint64_t data = uint64_t{view.codec_params.data_bytes[side]} + view.codec_params.tail_bytes[side];
    for (const CellPart& part : cell_parts(view.codec, view.codec_params, view.dtype, side)) {
      if (part.bytes == 0) continue;
      quire_kv_field own = field;
      own.role = part.role;
      own.dtype = part.item;
      own.num_items = static_cast<uint32_t>(part.bytes / item_bytes(part.item));
      own.tile_items = own.num_items;
      own.stride_item = item_bytes(part.item);
      own.offset += static_cast<int64_t>(part.offset);
      if (view.codec == QUIRE_CODEC_BLOCK_SPLIT && part.role == QUIRE_FIELD_SCALES) {
        const bool rows_outer = view.stride_token[side] >= view.stride_head[side];
        const AtomStrides strides = dense_cells(part.bytes, view.block_tokens, view.num_heads, rows_outer);
        own.offset += static_cast<int64_t>(uint64_t{view.block_tokens} * view.num_heads * data);
        own.stride_token = strides.token;
        own.stride_head = strides.head;
      }
      fields.push_back(own);
    }
  }
  return fields;
}

}  // namespace quire
