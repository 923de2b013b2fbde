// layouts.json: byte offsets of cells and lowering of ids, family by family as an order of letters.
#include <algorithm>
#include <map>
#include <optional>

#include "core/layout/layout.h"
#include "core/model/dtype.h"
#include "tests/golden/golden.h"

namespace quire::golden {
namespace {

quire_dtype unsigned_of(uint64_t bytes) { return {QUIRE_DTYPE_UINT, static_cast<uint8_t>(8 * bytes), 1}; }

// Heads outside of pages: a head of a layer is a lane of its own.
bool heads_are_lanes(const std::string& layout) { return layout == "LHBNC"; }

// The order of a family; empty when a named codec is needed.
std::string order_of(const std::string& family, const std::string& layout) {
  const bool hnd = layout == "HND";
  const std::string rows = hnd ? "HTD" : "THD";
  const std::string packed = hnd ? "HTKD" : "THKD";
  static const std::map<std::string, std::string> outer{{"fa_kv_first", "KBJ"},        {"kv_in_block", "BJK"},
                                                        {"fa_hybrid_restride", "BJK"}, {"pack_interleaved", "BJPK"},
                                                        {"pack_small_pages", "BPKJ"},  {"pack_layer_major", "BPJK"}};
  if (const auto it = outer.find(family); it != outer.end()) return it->second + rows;
  if (family == "diffkv" || family == "packed_content") return "BJ" + packed;
  if (family == "packed_content_nvfp4") return hnd ? "BJKHTD" : "BJTKHD";
  if (family == "cross_layer_fa") return hnd ? "BJHLKTD" : "BJLKTHD";
  if (family == "cross_layer_fi") return hnd ? "BJKHLTD" : "BJLKTHD";
  if (family == "mla_dense") return "BJTD";
  if (family == "declared") {
    if (heads_are_lanes(layout)) return "LBTKD";
    std::string order;
    for (const char c : layout) order += c == 'N' ? "T" : c == 'C' ? "KD" : std::string(1, c);
    return order;
  }
  return {};
}

struct Attention {
  PoolShape pool;
  PoolLayout layout;
  uint64_t width_k = 0;
  bool one_axis = false;        // K and V share the last axis of the cells
  uint32_t heads_per_lane = 0;  // heads that are lanes, of each layer; 0 = they are not
};

Outcome build_attention(const json& test, Attention* out) {
  const std::string family = test.at("family");
  const auto order = Order::parse(order_of(family, test.at("layout")));
  if (!order.ok()) return {{}, "refused by design: " + order.status().message()};
  const json& params = test.at("params");
  MemberShape member;
  member.num_sides = family == "mla_dense" ? 1 : 2;
  member.num_heads = params.value("H", 1u);
  member.width[0] = params.contains("C") ? params.at("C").get<uint32_t>() : params.at("D").get<uint32_t>();
  member.width[1] = member.num_sides == 1 ? 0 : params.value("Dv", member.width[0]);
  if (family == "packed_content_nvfp4")
    member.width[0] = member.width[1] = params.at("D").get<uint32_t>() / 2 + params.at("D").get<uint32_t>() / 16;
  member.rows = params.at("kbs");
  member.dtype = unsigned_of(params.at("e"));
  out->width_k = member.width[0];
  const json& axes = test.at("axes");
  out->one_axis = member.num_sides == 2 && std::find(axes.begin(), axes.end(), "kv") == axes.end();
  GroupShape group{order.value(), params.value("r", 1u), 1, {}};
  uint32_t layers = params.value("N", params.value("L", 1u));
  if (family == "declared" && heads_are_lanes(test.at("layout"))) {
    layers *= member.num_heads;
    out->heads_per_lane = member.num_heads;
    member.num_heads = 1;
  }
  for (uint32_t l = 0; l < layers; ++l) {
    member.layer = l;
    (group.order.has(Letter::L) ? member.lane : member.index) = l;
    group.members.push_back(member);
  }
  out->pool.num_pages = params.at("NB");
  out->pool.min_page_bytes = params.value("row_bytes", params.value("page_bytes", uint64_t{0}));
  out->pool.groups.push_back(std::move(group));
  auto layout = lay_out(out->pool);
  if (!layout.ok()) return {layout.status().message(), {}};
  out->layout = std::move(*layout);
  return {};
}

struct Cell {
  std::map<std::string, int64_t> at;
  int64_t operator[](const char* axis) const {
    const auto it = at.find(axis);
    return it == at.end() ? 0 : it->second;
  }
};

int64_t cell_address(const Attention& built, const Cell& cell) {
  int64_t side = cell["kv"];
  int64_t d = cell.at.count("d") != 0 ? cell["d"] : cell["c"];
  if (built.one_axis && d >= static_cast<int64_t>(built.width_k)) {
    side = 1;
    d -= static_cast<int64_t>(built.width_k);
  }
  auto layer = static_cast<size_t>(cell.at.count("p") != 0 ? cell["p"] : cell["l"]);
  if (built.heads_per_lane != 0) layer = layer * built.heads_per_lane + static_cast<size_t>(cell["h"]);
  const quire_kv_view& view = built.layout.groups[0].members[layer].kv;
  return view.offset[side] + cell["m"] * view.stride_page[side] + cell["j"] * view.stride_block[side] +
         cell["t"] * view.stride_token[side] + (built.heads_per_lane != 0 ? 0 : cell["h"]) * view.stride_head[side] +
         d * view.stride_dim[side];
}

// One single-stride rule of the file: the same address as ours for every sampled id, and the same unit where pages are split.
std::string check_lowering(const Attention& built, const json& rule, uint64_t layer, uint64_t side) {
  const quire_kv_view& view = built.layout.groups[0].members[layer].kv;
  const quire_lowering& ours = built.layout.groups[0].lowering;
  if (!rule.value("representable", true)) {
    return view.stride_page[side] % view.stride_block[side] == 0 ? "lowering: expected a row that is no multiple of the unit" : "";
  }
  for (const json& id : rule.value("ids", json::array())) {
    const int64_t expected = rule.at("base_bytes").get<int64_t>() + rule.at("unit_bytes").get<int64_t>() * id[2].get<int64_t>();
    const uint64_t lowered = id[0].get<uint64_t>() * ours.page_factor + id[1].get<uint64_t>() * ours.block_factor;
    const int64_t is = view.offset[side] + static_cast<int64_t>(lowered) * view.unit[side];
    if (expected != is) return differs("address of lowered id " + id.dump(), static_cast<uint64_t>(expected), static_cast<uint64_t>(is));
  }
  if (view.blocks_per_page > 1) {
    std::string difference = differs("unit", rule.at("unit_bytes"), static_cast<uint64_t>(view.unit[side]));
    if (difference.empty()) difference = differs("multiplier_m", rule.at("multiplier_m"), ours.page_factor);
    if (difference.empty()) difference = differs("multiplier_j", rule.at("multiplier_j"), ours.block_factor);
    if (!difference.empty()) return difference;
  }
  if (!rule.contains("inner_strides_bytes")) return differs("unit", rule.at("unit_bytes"), static_cast<uint64_t>(view.unit[side]));
  const json& inner = rule.at("inner_strides_bytes");
  std::string difference = differs("token stride", inner[0], static_cast<uint64_t>(view.stride_token[side]));
  if (difference.empty() && inner.size() == 3) difference = differs("head stride", inner[1], static_cast<uint64_t>(view.stride_head[side]));
  if (difference.empty()) difference = differs("element stride", inner.back(), static_cast<uint64_t>(view.stride_dim[side]));
  return difference;
}

std::string check_all_lowerings(const Attention& built, const json& lowering) {
  if (lowering.is_array()) {
    for (const json& rule : lowering) {
      const std::string difference =
          check_lowering(built, rule, rule.value("p", rule.value("l", uint64_t{0})), rule.value("kv", uint64_t{0}));
      if (!difference.empty()) return difference;
    }
    return {};
  }
  if (!lowering.contains("k")) return check_lowering(built, lowering, 0, 0);
  const std::string difference = check_lowering(built, lowering.at("k"), 0, 0);
  return difference.empty() ? check_lowering(built, lowering.at("v"), 0, 1) : difference;
}

Outcome check_attention(const json& test) {
  Attention built;
  const Outcome outcome = build_attention(test, &built);
  if (!outcome.difference.empty() || !outcome.skip.empty()) return outcome;
  std::string difference = differs("allocation_bytes", test.at("allocation_bytes"), built.layout.page_bytes * built.pool.num_pages);
  const json& axes = test.at("axes");
  for (size_t i = 0; i < test.at("cells").size() && difference.empty(); ++i) {
    const json& coordinates = test.at("cells")[i];
    Cell cell;
    for (size_t a = 0; a < axes.size(); ++a) cell.at[axes[a]] = coordinates[a];
    difference = differs("cell " + coordinates.dump(), test.at("offsets")[i], static_cast<uint64_t>(cell_address(built, cell)));
  }
  if (difference.empty() && test.contains("lowering")) difference = check_all_lowerings(built, test.at("lowering"));
  return {difference, {}};
}

MemberShape bytes_member(uint64_t bytes, uint32_t lane) {
  MemberShape member;
  member.lane = lane;
  member.tensors = {{unsigned_of(1), 1, {bytes, 0, 0, 0}}};
  return member;
}

// The tensors of one state behind the row's earlier pages, which a member of plain bytes stands for.
Outcome check_state(const json& test) {
  const json& params = test.at("params");
  PoolShape pool;
  pool.num_pages = params.at("NB");
  pool.min_page_bytes = params.at("row_bytes");
  MemberShape member;
  for (const json& state : test.at("states")) {
    quire_state_tensor tensor{unsigned_of(state.at("item_bytes")), static_cast<uint32_t>(state.at("shape").size()), {0, 0, 0, 0}};
    for (size_t k = 0; k < state.at("shape").size(); ++k) tensor.shape[k] = state.at("shape")[k];
    member.tensors.push_back(tensor);
  }
  GroupShape group{*Order::parse("BL"), 1, 1, {}};
  if (const uint64_t before = params.at("offset_in_row"); before != 0) {
    group.members.push_back(bytes_member(before, 0));
    member.lane = 1;
  }
  group.members.push_back(member);
  pool.groups.push_back(std::move(group));
  auto layout = lay_out(pool);
  if (!layout.ok()) return {layout.status().message(), {}};
  std::string difference = differs("allocation_bytes", test.at("allocation_bytes"), layout->page_bytes * pool.num_pages);
  const std::vector<quire_state_view>& views = layout->groups[0].members.back().states;
  for (size_t s = 0; s < views.size() && difference.empty(); ++s) {
    const json& state = test.at("states")[s];
    for (size_t i = 0; i < state.at("cells").size() && difference.empty(); ++i) {
      const json& cell = state.at("cells")[i];
      int64_t address = views[s].offset + cell[0].get<int64_t>() * views[s].stride_page;
      for (size_t k = 1; k < cell.size(); ++k) address += cell[k].get<int64_t>() * views[s].stride[k - 1];
      difference = differs("state " + std::to_string(s) + " cell " + cell.dump(), state.at("offsets")[i], static_cast<uint64_t>(address));
    }
  }
  return {difference, {}};
}

Outcome check_overlay(const json& test) {
  PoolShape pool;
  pool.num_pages = test.at("params").at("NB");
  for (const json& pages : test.at("params").at("group_pages")) {
    GroupShape group{*Order::parse("BL"), 1, 1, {}};
    for (uint32_t l = 0; l < pages.size(); ++l) group.members.push_back(bytes_member(pages[l], l));
    pool.groups.push_back(std::move(group));
  }
  auto layout = lay_out(pool);
  if (!layout.ok()) return {layout.status().message(), {}};
  std::string difference = differs("row_bytes", test.at("row_bytes"), layout->page_bytes);
  for (const json& layer : test.at("layers")) {
    const quire_state_view& view = layout->groups[layer.at("group")].members[layer.at("layer")].states[0];
    for (size_t i = 0; i < layer.at("cells").size() && difference.empty(); ++i) {
      const json& cell = layer.at("cells")[i];
      const int64_t address = view.offset + cell[0].get<int64_t>() * view.stride_page + cell[1].get<int64_t>() * view.stride[0];
      difference = differs("cell " + cell.dump(), layer.at("offsets")[i], static_cast<uint64_t>(address));
    }
  }
  return {difference, {}};
}

}  // namespace

Outcome check_layout(const json& test) {
  const std::string family = test.at("family");
  if (family.rfind("state_", 0) == 0) return check_state(test);
  if (family == "overlay_rows") return check_overlay(test);
  if (order_of(family, test.at("layout")).empty()) return check_codec(test);
  return check_attention(test);
}

}  // namespace quire::golden
