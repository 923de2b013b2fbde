// A page drawn to scale: one bar per group, every layer of one lane set where it lies, what is left is padding.
#include "quire/plan_svg.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>
#include <vector>

namespace quire::tools {
namespace {

constexpr double kWidth = 1400;
constexpr double kLeft = 20;
constexpr double kBar = 54;
constexpr double kRow = 104;
constexpr double kLetter = 7;  // width of a letter of 12 points, at most
constexpr const char* kStateColours[] = {"#e08e2b", "#c8702a", "#f0b45c", "#a85c1e"};

std::string print(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string print(const char* format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return text;
}

// Text of a model is the model's: markup in it stays text, and what XML cannot hold becomes '?'.
std::string escaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80 ? 1 : byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 0;
    size_t have = 1;
    while (have < length && i + have < text.size() && (static_cast<unsigned char>(text[i + have]) & 0xc0) == 0x80) ++have;
    if (length != have || byte >= 0xf5 || byte < 0x20 || byte == 0x7f) {
      out += '?';
      ++i;
      continue;
    }
    const char* const entity = byte == '<' ? "&lt;" : byte == '>' ? "&gt;" : byte == '&' ? "&amp;" : byte == '"' ? "&quot;" : nullptr;
    out += entity != nullptr ? entity : text.substr(i, length);
    i += length;
  }
  return out;
}

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
    std::string out = print("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\">\n",
                            kWidth + 2 * kLeft, y + 20);
    out +=
        "<defs><pattern id=\"pad\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" fill=\"#eee\"/>"
        "<path d=\"M0 6L6 0\" stroke=\"#999\"/></pattern></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    out += print("<text x=\"%.0f\" y=\"28\" font-size=\"18\">", kLeft) + escaped(facts_.architecture) + ", policy " + escaped(info_.policy);
    out += print(": a page of %.0f bytes, worst padding %.2f %%</text>\n", page_bytes_, 100 * info_.padding_share);
    return out + legend() + bars + "</svg>\n";
  }

 private:
  static std::string legend() {
    const std::pair<const char*, const char*> entries[] = {
        {"#3b6fb6", "K"}, {"#6fb1a0", "V"}, {"#5590ab", "K and V by turns"}, {kStateColours[0], "state tensors"}, {"url(#pad)", "padding"}};
    std::string out;
    double x = kLeft;
    for (const auto& [colour, text] : entries) {
      out +=
          print("<rect x=\"%.0f\" y=\"42\" width=\"16\" height=\"16\" fill=\"%s\"/><text x=\"%.0f\" y=\"55\" font-size=\"13\">%s</text>\n",
                x, colour, x + 22, text);
      x += 160;
    }
    return out;
  }

  std::string group(uint32_t g, double y) {
    auto facts = client::sized<quire_group_info>();
    client::check(quire_config_get_group(config_, g, &facts, &error_), error_);
    std::string out = print("<text x=\"%.0f\" y=\"%.1f\" font-size=\"13\">group %u: %u caches, block of %u tokens, %u part(s) per page",
                            kLeft, y - 6, g, facts.num_caches, facts.block_tokens, facts.parts_per_page);
    out += facts.ids_per_block > 1 ? print("; %u lanes with an id each, the first is drawn</text>\n", facts.ids_per_block)
                                   : print("; one id for %u lanes</text>\n", facts.num_lanes);
    out +=
        print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"url(#pad)\" stroke=\"#444\"/>\n", kLeft, y, kWidth, kBar);
    labels_.clear();
    for (uint32_t i = 0; i < facts_.num_caches; ++i) {
      auto layer = client::sized<quire_layer>();
      client::check(quire_model_get_layer(model_, i, &layer, &error_), error_);
      auto place = client::sized<quire_layer_place>();
      if (layer.shares_with != 0 || quire_config_get_place(config_, layer.layer, layer.sub, &place, &error_) != QUIRE_OK) continue;
      if (place.group != g || place.column != 0) continue;
      out += layer.kind == QUIRE_LAYER_STATE ? states(layer, facts, y) : tokens(layer, y);
    }
    return out;
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

  std::string box(double from, double bytes, double y, const char* colour) const {
    return print("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\"/>\n", kLeft + from * scale(), y, bytes * scale(),
                 kBar, colour);
  }

  // Labels stand only where they fit and where none is yet: layers that lie interleaved span the same bytes.
  std::string outline(uint32_t layer, double from, double to, double y) {
    const double width = (to - from) * scale();
    std::string out = print("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"none\" stroke=\"#222\"/>\n",
                            kLeft + from * scale(), y, width, kBar);
    const std::string text = (width > 60 ? "layer " : "") + std::to_string(layer);
    const double middle = kLeft + (from + to) / 2 * scale();
    const double half = kLetter * static_cast<double>(text.size()) / 2;
    const bool taken = std::any_of(labels_.begin(), labels_.end(),
                                   [&](const auto& other) { return middle - half < other.second && other.first < middle + half; });
    if (2 * half > width || taken) return out;
    labels_.push_back({middle - half, middle + half});
    return out +
           print("<text x=\"%.2f\" y=\"%.1f\" font-size=\"12\" text-anchor=\"middle\">%s</text>\n", middle, y + kBar + 14, text.c_str());
  }

  std::string tokens(const quire_layer& layer, double y) {
    auto view = client::sized<quire_kv_view>();
    if (quire_config_get_kv_view(config_, 0, layer.layer, layer.sub, &view, &error_) != QUIRE_OK) return {};
    std::string out;
    double from = page_bytes_;
    double to = 0;
    for (uint32_t side = 0; side < view.num_sides; ++side) {
      const auto last = [&](int64_t stride, uint32_t extent) { return static_cast<double>(stride) * (extent - 1.0); };
      const double span = last(view.stride_token[side], view.block_tokens) + last(view.stride_head[side], view.num_heads) +
                          last(view.stride_dim[side], view.head_dim[side]) + view.dtype.bits / 8.0;
      const double start = position(view.region, view.offset[side]);
      const double end = start + last(view.stride_block[side], view.blocks_per_page) + span;
      from = std::min(from, start);
      to = std::max(to, end);
      if (span * scale() < 2 && view.blocks_per_page > 1) continue;
      for (uint32_t j = 0; j < view.blocks_per_page; ++j) {
        out += box(start + static_cast<double>(view.stride_block[side]) * j, span, y, side == 0 ? "#3b6fb6" : "#6fb1a0");
      }
    }
    if (out.empty()) out = box(from, to - from, y, "#5590ab");
    return out + outline(layer.layer, from, to, y);
  }

  std::string states(const quire_layer& layer, const quire_group_info& facts, double y) {
    std::string out;
    for (uint32_t part = 0; part < facts.parts_per_page; ++part) {
      double from = page_bytes_;
      double to = 0;
      for (uint32_t t = 0; t < layer.num_state_tensors; ++t) {
        auto view = client::sized<quire_state_view>();
        if (quire_config_get_state_view(config_, 0, layer.layer, layer.sub, t, &view, &error_) != QUIRE_OK) return {};
        double bytes = view.dtype.bits / 8.0;
        for (uint32_t k = 0; k < view.ndim; ++k) bytes *= static_cast<double>(view.shape[k]);
        const double start = position(view.region, view.offset + view.stride_part * part);
        out += box(start, bytes, y, kStateColours[t % 4]);
        from = std::min(from, start);
        to = std::max(to, start + bytes);
      }
      out += outline(layer.layer, from, to, y);
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
};

}  // namespace

std::string plan_svg(quire_model* model, quire_config* config) { return Drawing(model, config).draw(); }

}  // namespace quire::tools
