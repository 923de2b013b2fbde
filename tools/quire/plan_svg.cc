// A page drawn to scale: one bar per group, every layer of one lane set where it lies, what is left is padding.
#include "quire/plan_svg.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "quire/budget_svg.h"
#include "quire/svg.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

using svg::escaped;
using svg::print;

constexpr double kWidth = 1400;
constexpr double kLeft = 20;
constexpr double kBar = 54;
constexpr double kRow = 104;
constexpr double kLetter = 7;  // width of a letter of 12 points, at most
constexpr double kThin = 2.5;  // pixels; narrower boxes are not drawn one by one
constexpr double kGap = 3;     // pixels between labels

// What a colour says; the legend lists those that are used.
enum Kind { kKey, kValue, kRows, kFine, kState, kPadding = kState + 4, kKinds };
struct Look {
  const char* colour;
  const char* words;
};
constexpr Look kLooks[kKinds] = {{"#3b6fb6", "K"},
                                 {"#6fb1a0", "V"},
                                 {"#7d6bb0", "rows of one side"},
                                 {"#9aa9c4", "kernel blocks too thin to tell apart"},
                                 {"#f0b45c", "state tensor 0"},
                                 {"#c8702a", "state tensor 1"},
                                 {"#e08e2b", "state tensor 2"},
                                 {"#a85c1e", "state tensor 3"},
                                 {"url(#pad)", "padding"}};

// 1234567 as 1,234,567.
std::string grouped(double number) { return with_commas(static_cast<uint64_t>(number)); }

class Drawing {
 public:
  Drawing(quire_model* model, quire_config* config) : model_(model), config_(config) {
    client::check(quire_config_get_info(config, &info_, &error_), error_);
    client::check(quire_model_get_info(model, &facts_, &error_), error_);
    uint64_t count = 0;
    client::check(quire_config_list_regions(config, 0, nullptr, sizeof(quire_region_info), 0, &count, &error_), error_);
    regions_.assign(count, client::sized<quire_region_info>());
    client::check(quire_config_list_regions(config, 0, regions_.data(), sizeof(quire_region_info), count, &count, &error_), error_);
    for (const quire_region_info& region : regions_) {
      first_byte_.push_back(page_bytes_);
      page_bytes_ += static_cast<double>(region.page_stride * region.num_planes);
    }
  }

  std::string draw() {
    std::string bars;
    double y = 92;
    for (uint32_t g = 0; g < info_.num_groups; ++g, y += kRow) bars += group(g, y);
    bars += budget_svg(model_, config_, {kLeft, kWidth}, &y);
    std::string out = print("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\">\n",
                            kWidth + 2 * kLeft, y);
    out +=
        "<defs><pattern id=\"pad\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" fill=\"#eee\"/>"
        "<path d=\"M0 6L6 0\" stroke=\"#999\"/></pattern></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    out += print("<text x=\"%.0f\" y=\"28\" font-size=\"18\">", kLeft) + escaped(facts_.architecture) + ", policy " + escaped(info_.policy);
    out += ": a page of " + grouped(page_bytes_) + " bytes" + (info_.num_shards > 1 ? print(", shard 0 of %u", info_.num_shards) : "");
    out += print("; worst padding %.2f %%</text>\n", 100 * info_.padding_share);
    return out + legend() + bars + "</svg>\n";
  }

 private:
  // A box of one layer on the page.
  struct Box {
    double from = 0;
    double bytes = 0;
    Kind kind = kKey;
  };
  struct Layer {
    uint32_t number = 0;
    std::vector<Box> boxes;
    double from = 0;  // of all boxes
    double to = 0;
    double first_to = 0;  // end of the first kernel block or state
    bool shared = false;  // another layer's bytes lie between its own
  };

  std::string legend() const {
    std::string out;
    double x = kLeft;
    for (uint32_t kind = 0; kind < kKinds; ++kind) {
      if (!used_[kind] && kind != kPadding) continue;
      const Look& look = kLooks[kind];
      out +=
          print("<rect x=\"%.0f\" y=\"42\" width=\"16\" height=\"16\" fill=\"%s\"/><text x=\"%.0f\" y=\"55\" font-size=\"13\">%s</text>\n",
                x, look.colour, x + 22, look.words);
      x += 60 + kLetter * static_cast<double>(std::char_traits<char>::length(look.words));
    }
    return out;
  }

  std::string heading(uint32_t g, const quire_group_info& facts, double y) const {
    std::string out =
        print("<text x=\"%.0f\" y=\"%.1f\" font-size=\"13\">group %u: %u caches, blocks of ", kLeft, y - 6, g, facts.num_caches);
    out += grouped(facts.block_tokens) + print(" tokens, %u part%s per page", facts.parts_per_page, facts.parts_per_page == 1 ? "" : "s");
    const double payload = static_cast<double>(facts.payload_bytes_per_block);
    if (facts.page_bytes_per_block != 0) {
      out += print(", %.2f %% padding", 100 * (1 - payload / static_cast<double>(facts.page_bytes_per_block)));
    }
    return out + (facts.ids_per_block > 1 ? print("; %u lanes with an id each, the first is drawn</text>\n", facts.ids_per_block)
                                          : print("; one id for %u lane%s</text>\n", facts.num_lanes, facts.num_lanes == 1 ? "" : "s"));
  }

  std::string group(uint32_t g, double y) {
    auto facts = client::sized<quire_group_info>();
    client::check(quire_config_get_group(config_, g, &facts, &error_), error_);
    std::string out = heading(g, facts, y);
    out += print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"url(#pad)\"/>\n", kLeft, y, kWidth, kBar);
    std::vector<Layer> layers;
    for (uint32_t i = 0; i < facts_.num_caches; ++i) {
      auto layer = client::sized<quire_layer>();
      client::check(quire_model_get_layer(model_, i, &layer, &error_), error_);
      auto place = client::sized<quire_layer_place>();
      if (layer.shares_with != 0 || quire_config_get_place(config_, layer.layer, layer.sub, &place, &error_) != QUIRE_OK) continue;
      if (place.group != g || place.column != 0) continue;
      Layer drawn = layer.kind == QUIRE_LAYER_STATE ? states(layer, facts) : tokens(layer);
      if (!drawn.boxes.empty()) layers.push_back(std::move(drawn));
    }
    for (Layer& one : layers) {
      one.shared = std::any_of(layers.begin(), layers.end(),
                               [&](const Layer& other) { return &one != &other && other.from < one.to && one.from < other.to; });
    }
    labels_.clear();
    for (const Layer& layer : layers) out += blend(layer, y);
    for (const Layer& layer : layers) out += boxes(layer, y);
    for (const Layer& layer : layers) out += label(layer, y);
    const bool repeats = std::any_of(layers.begin(), layers.end(), [](const Layer& layer) { return layer.shared; });
    if (labels_.size() < layers.size()) {
      out += listed(layers, y);
    } else if (repeats) {
      out += under(y, "the first kernel block has labels; the others repeat its layers");
    }
    return out +
           print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"none\" stroke=\"#444\"/>\n", kLeft, y, kWidth, kBar);
  }

  double scale() const { return kWidth / page_bytes_; }

  // Where an offset of page 0 lies when all strips of the page stand side by side.
  double position(uint32_t region, int64_t offset) const {
    const quire_region_info& where = regions_[region];
    const uint64_t plane_bytes = where.bytes / where.num_planes;
    const auto at = static_cast<uint64_t>(offset);
    const uint64_t plane = at / plane_bytes;
    return first_byte_[region] + static_cast<double>(plane * where.page_stride + at % plane_bytes);
  }

  std::string rect(double from, double bytes, double y, const char* fill, const char* stroke) const {
    return print("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" stroke=\"%s\"/>\n", kLeft + from * scale(), y,
                 bytes * scale(), kBar, fill, stroke);
  }

  bool thin(const Box& box) const { return box.bytes * scale() < kThin; }
  bool all_thin(const Layer& layer) const {
    return std::all_of(layer.boxes.begin(), layer.boxes.end(), [this](const Box& box) { return thin(box); });
  }

  // A layer of which no box can be told apart is one colour from its first byte to its last.
  std::string blend(const Layer& layer, double y) {
    if (!all_thin(layer)) return {};
    used_[kFine] = true;
    return rect(layer.from, layer.to - layer.from, y, kLooks[kFine].colour, "none");
  }

  std::string boxes(const Layer& layer, double y) {
    std::string out;
    std::string over;  // thin boxes beside wide ones are at least a pixel, above those
    for (const Box& box : layer.boxes) {
      if (all_thin(layer)) break;
      used_[box.kind] = true;
      const double bytes = std::max(box.bytes, 1 / scale());
      (thin(box) ? over : out) +=
          rect(box.from, bytes, y, kLooks[box.kind].colour, layer.shared && box.bytes * scale() > 4 ? "#222" : "none");
    }
    out += over;
    return layer.shared ? out : out + rect(layer.from, layer.to - layer.from, y, "none", "#222");
  }

  // Labels stand only where they fit and where none is yet: under the whole layer, or its first kernel block where others lie between.
  std::string label(const Layer& layer, double y) {
    const double to = layer.shared ? layer.first_to : layer.to;
    const double width = (to - layer.from) * scale();
    const std::string text = (width > 60 ? "layer " : "") + std::to_string(layer.number);
    const double middle = kLeft + (layer.from + to) / 2 * scale();
    const double half = kLetter * static_cast<double>(text.size()) / 2;
    const bool taken = std::any_of(labels_.begin(), labels_.end(), [&](const auto& other) {
      return middle - half < other.second + kGap && other.first < middle + half + kGap;
    });
    if (2 * half > width || taken) return {};
    labels_.push_back({middle - half, middle + half});
    return print("<text x=\"%.2f\" y=\"%.1f\" font-size=\"12\" text-anchor=\"middle\">%s</text>\n", middle, y + kBar + 14, text.c_str());
  }

  // Where not every layer has a label: all of them, from left to right.
  static std::string listed(std::vector<Layer> layers, double y) {
    std::stable_sort(layers.begin(), layers.end(), [](const Layer& a, const Layer& b) { return a.from < b.from; });
    std::string text;
    for (size_t i = 0; i < layers.size();) {
      size_t last = i;
      while (last + 1 < layers.size() && layers[last + 1].number - layers[last].number <= 1) ++last;  // a layer may have several caches
      if (static_cast<double>(text.size()) * kLetter > kWidth - 200) {
        text += ", ..";
        break;
      }
      text += (i != 0 ? ", " : "") + std::to_string(layers[i].number);
      if (layers[last].number > layers[i].number) text += "-" + std::to_string(layers[last].number);
      i = last + 1;
    }
    return under(y, "layers from left to right: " + text);
  }

  static std::string under(double y, const std::string& text) {
    return print("<text x=\"%.0f\" y=\"%.1f\" font-size=\"12\">", kLeft, y + kBar + 29) + text + "</text>\n";
  }

  static void add(const Box& box, bool of_first_block, Layer* out) {
    const double to = box.from + box.bytes;
    out->from = out->boxes.empty() ? box.from : std::min(out->from, box.from);
    out->to = std::max(out->to, to);
    if (of_first_block) out->first_to = std::max(out->first_to, to);
    out->boxes.push_back(box);
  }

  Layer tokens(const quire_layer& layer) {
    Layer out;
    out.number = layer.layer;
    auto view = client::sized<quire_kv_view>();
    if (quire_config_get_kv_view(config_, 0, layer.layer, layer.sub, &view, &error_) != QUIRE_OK) return out;
    quire_kv_field fields[8];  // at most elements, scales and tail of two sides
    uint64_t count = 0;
    client::check(quire_config_list_fields(config_, 0, layer.layer, layer.sub, fields, 8, &count, &error_), error_);
    for (uint32_t side = 0; side < view.num_sides; ++side) {
      double from = 0;
      double to = 0;
      for (uint64_t f = 0; f < count; ++f) {
        if (fields[f].side != side) continue;
        const double end = static_cast<double>(fields[f].offset) + reach(fields[f], view);
        from = to == 0 ? static_cast<double>(fields[f].offset) : std::min(from, static_cast<double>(fields[f].offset));
        to = std::max(to, end);
      }
      const double start = position(view.region, static_cast<int64_t>(from));
      const Kind kind = view.num_sides == 1 ? kRows : side == 0 ? kKey : kValue;
      for (uint32_t j = 0; j < view.blocks_per_page; ++j) {
        add({start + static_cast<double>(view.stride_block[side]) * j, to - from, kind}, j == 0, &out);
      }
    }
    return out;
  }

  // Bytes from the first item of a kernel block's field to the end of its last.
  static double reach(const quire_kv_field& field, const quire_kv_view& view) {
    const auto last = [](int64_t stride, uint32_t extent) { return static_cast<double>(stride) * (extent - 1.0); };
    const auto tiles = [&](uint32_t extent, uint32_t tile, int64_t outer, int64_t inner) {
      const uint32_t whole = std::max(tile, 1u);
      return last(outer, (extent + whole - 1) / whole) + last(inner, std::min(extent, whole));
    };
    return last(field.stride_head, view.num_heads) +
           tiles(view.block_tokens, field.tile_tokens, field.stride_token_tile, field.stride_token) +
           tiles(field.num_items, field.tile_items, field.stride_item_tile, field.stride_item) +
           std::max(1.0, field.dtype.bits * std::max<double>(field.dtype.lanes, 1) / 8.0);
  }

  Layer states(const quire_layer& layer, const quire_group_info& facts) {
    Layer out;
    out.number = layer.layer;
    for (uint32_t part = 0; part < facts.parts_per_page; ++part) {
      for (uint32_t t = 0; t < layer.num_state_tensors; ++t) {
        auto view = client::sized<quire_state_view>();
        if (quire_config_get_state_view(config_, 0, layer.layer, layer.sub, t, &view, &error_) != QUIRE_OK) return {};
        double bytes = view.dtype.bits / 8.0;
        for (uint32_t k = 0; k < view.ndim; ++k) bytes *= static_cast<double>(view.shape[k]);
        const auto kind = static_cast<Kind>(kState + t % 4);
        add({position(view.region, view.offset + view.stride_part * part), bytes, kind}, part == 0, &out);
      }
    }
    return out;
  }

  quire_model* model_;
  quire_config* config_;
  client::Error error_;
  quire_config_info info_ = client::sized<quire_config_info>();
  quire_model_info facts_ = client::sized<quire_model_info>();
  std::vector<quire_region_info> regions_;
  std::vector<double> first_byte_;
  double page_bytes_ = 0;
  std::vector<std::pair<double, double>> labels_;  // of the group being drawn: from, to
  bool used_[kKinds] = {};
};

}  // namespace

std::string plan_svg(quire_model* model, quire_config* config) { return Drawing(model, config).draw(); }

}  // namespace quire::tools
