// layouts.json, families whose content is encoded: addresses of items by the fields that a view lists.
#include <map>

#include "core/layout/codec.h"
#include "core/layout/layout.h"
#include "tests/golden/golden.h"

namespace quire::golden {
namespace {

quire_dtype bytes_type() { return {QUIRE_DTYPE_UINT, 8, 1}; }

struct Coded {
  PoolShape pool;
  uint32_t side = 0;  // where the cells have no side axis
};

MemberShape packed(uint32_t codec, const std::string& family, const json& params) {
  MemberShape member;
  member.codec = codec;
  member.dtype = bytes_type();
  member.num_heads = params.value("H", 1u);
  quire_codec_params& own = member.codec_params;
  if (family == "mla_record_656") {
    member.num_sides = 1;
    member.width[0] = 576;
    member.rows = params.at("kbs");
    own.data_bytes[0] = 512;
    own.scale_bytes[0] = 16;
    own.tail_bytes[0] = 128;
    own.scale_dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
    own.tail_dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
    own.scale_elements = 128;
    return member;
  }
  if (params.contains("states_per_block")) {
    member.num_sides = 1;
    member.rows = params.at("states_per_block");
    member.width[0] = own.data_bytes[0] = params.at("data_bytes");
    own.scale_bytes[0] = params.at("scale_bytes");
    own.block_alignment = params.at("page_bytes");
    return member;
  }
  const uint32_t width = params.at("D");
  const bool fp4 = family == "codec_nvfp4_side_scaled";
  member.num_sides = 2;
  member.rows = params.at("BS");
  for (uint32_t side = 0; side < 2; ++side) {
    member.width[side] = width;
    own.data_bytes[side] = fp4 ? width / 2 : width * params.at("e").get<uint32_t>();
    own.scale_bytes[side] = fp4 ? width / 16 : 4;
  }
  if (fp4) own.data_dtype = {QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1};
  return member;
}

// The group's order and member; empty order: no such family.
std::string codec_of(const std::string& family, const json& test, Coded* out, MemberShape* member) {
  const json& params = test.at("params");
  const std::string rows = test.at("layout") == "HND" ? "HT" : "TH";
  if (family == "mla_record_656") {
    *member = packed(QUIRE_CODEC_RECORD, family, params);
    return "BJT";
  }
  if (params.contains("states_per_block")) {
    *member = packed(QUIRE_CODEC_BLOCK_SPLIT, family, params);
    return "BL";
  }
  if (family == "codec_nvfp4_side_scaled" || family == "codec_inline_scale") {
    *member = packed(family == "codec_inline_scale" ? QUIRE_CODEC_RECORD : QUIRE_CODEC_BLOCK_SPLIT, family, params);
    return "BK" + rows;
  }
  static const std::map<std::string, uint32_t> head_codecs{{"codec_xpack", QUIRE_CODEC_TILED},
                                                           {"codec_shuffle", QUIRE_CODEC_SHUFFLED},
                                                           {"codec_cpu_col", QUIRE_CODEC_COLUMN_K},
                                                           {"codec_cpu_row", QUIRE_CODEC_COLUMN_K},
                                                           {"codec_amx", QUIRE_CODEC_AMX}};
  const auto it = head_codecs.find(family.substr(0, family.size() - 2));
  if (it == head_codecs.end()) return {};
  member->codec = it->second;
  member->num_sides = 2;
  member->num_heads = params.at("H");
  member->rows = params.at("BS");
  member->width[0] = member->width[1] = params.at("D");
  member->dtype = {QUIRE_DTYPE_UINT, static_cast<uint8_t>(8 * params.at("e").get<uint32_t>()), 1};
  if (it->second <= QUIRE_CODEC_SHUFFLED) member->codec_params.tile = params.value("x", 0u);
  out->side = family.back() == 'v' ? 1 : 0;
  return "KBH";
}

// Item c of a row counts through the fields of its side.
int64_t item_address(const quire_kv_view& view, uint32_t side, int64_t m, int64_t j, int64_t t, int64_t h, int64_t c) {
  for (const quire_kv_field& field : fields_of(view)) {
    if (field.side != side) continue;
    if (c >= field.num_items) {
      c -= field.num_items;
      continue;
    }
    return field.offset + m * view.stride_page[side] + j * view.stride_block[side] + h * field.stride_head +
           t / field.tile_tokens * field.stride_token_tile + t % field.tile_tokens * field.stride_token +
           c / field.tile_items * field.stride_item_tile + c % field.tile_items * field.stride_item;
  }
  return -1;
}

}  // namespace

Outcome check_codec(const json& test) {
  const std::string family = test.at("family");
  const json& params = test.at("params");
  Coded coded;
  MemberShape member;
  const std::string text = codec_of(family, test, &coded, &member);
  if (text.empty()) return {{}, "family " + family + " is unknown"};
  GroupShape group{*Order::parse(text), params.value("r", 1u), 1, {}};
  if (const uint64_t before = params.value("offset_in_row", uint64_t{0}); before != 0) {
    MemberShape plain;
    plain.tensors = {{bytes_type(), 1, {before, 0, 0, 0}}};
    group.members.push_back(plain);
    member.lane = 1;
  }
  group.members.push_back(member);
  coded.pool.num_pages = params.at("NB");
  coded.pool.min_page_bytes = params.value("row_bytes", uint64_t{0});
  coded.pool.groups.push_back(std::move(group));
  auto layout = lay_out(coded.pool);
  if (!layout.ok()) return {layout.status().message(), {}};
  std::string difference = differs("allocation_bytes", test.at("allocation_bytes"), layout->page_bytes * coded.pool.num_pages);
  const json& axes = test.at("axes");
  const quire_kv_view& view = layout->groups[0].members.back().kv;
  for (size_t i = 0; i < test.at("cells").size() && difference.empty(); ++i) {
    const json& coordinates = test.at("cells")[i];
    std::map<std::string, int64_t> at;
    for (size_t a = 0; a < axes.size(); ++a) at[axes[a]] = coordinates[a];
    const auto side = at.count("kv") != 0 ? static_cast<uint32_t>(at["kv"]) : coded.side;
    const int64_t item = at.count("d") != 0 ? at["d"] : at["c"];
    const int64_t is = item_address(view, side, at["m"], at["j"], at["t"], at["h"], item);
    difference = differs("cell " + coordinates.dump(), test.at("offsets")[i], static_cast<uint64_t>(is));
  }
  return {difference, {}};
}

}  // namespace quire::golden
