#include "quire/budget_svg.h"

#include <algorithm>
#include <vector>

#include "quire/fit.h"
#include "quire/svg.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

constexpr double kBudgetBar = 36;
constexpr double kBudgetRow = 66;
constexpr double kLabelLetter = 6.5;  // width of a letter of 12 points
constexpr const char* kGroupColours[] = {"#3b6fb6", "#e08e2b", "#6fb1a0", "#7d6bb0", "#c05a6b", "#8a9a3b", "#4a8fa8", "#a85c1e"};

// What one group keeps of a sequence.
struct Kept {
  quire_group_info facts;
  std::string name;
  uint64_t encoder_tokens = 0;
};

uint64_t up(uint64_t number, uint64_t unit) { return (number + unit - 1) / unit; }

// Blocks of a sequence that decodes at `tokens`: a window may begin within a block.
uint64_t live_blocks(const Kept& kept, uint64_t tokens) {
  const quire_group_info& facts = kept.facts;
  const uint64_t block = std::max<uint64_t>(1, facts.block_tokens);
  if (facts.is_state != 0) return 1;
  if (kept.encoder_tokens != 0) return up(kept.encoder_tokens, block);
  const uint64_t all = up(tokens, block);
  if (facts.chunk != 0) return std::min<uint64_t>(all, up(facts.chunk, block));
  if (facts.window != 0) return std::min<uint64_t>(all, up(facts.sink_tokens, block) + up(facts.window, block) + 1);
  return all;
}

std::vector<Kept> groups_of(quire_model* model, quire_config* config, uint32_t count) {
  client::Error error;
  std::vector<Kept> out(count);
  for (uint32_t g = 0; g < count; ++g) {
    quire_group_info& facts = out[g].facts;
    facts = client::sized<quire_group_info>();
    client::check(quire_config_get_group(config, g, &facts, &error), error);
    out[g].name = facts.is_state != 0 ? "states"
                  : facts.chunk != 0  ? "chunks of " + with_commas(facts.chunk)
                  : facts.window != 0 ? "windows of " + with_commas(facts.window)
                                      : "all tokens";
  }
  auto info = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model, &info, &error), error);
  for (uint32_t i = 0; i < info.num_caches; ++i) {
    auto layer = client::sized<quire_layer>();
    client::check(quire_model_get_layer(model, i, &layer, &error), error);
    auto place = client::sized<quire_layer_place>();
    if (layer.kind != QUIRE_LAYER_CROSS || quire_config_get_place(config, layer.layer, layer.sub, &place, &error) != QUIRE_OK) continue;
    Kept& kept = out[place.group];
    kept.encoder_tokens = std::max<uint64_t>(kept.encoder_tokens, layer.encoder_tokens);
    kept.name = "encoder";
  }
  return out;
}

std::string segment(double x, double width, double y, const char* fill, const std::string& label) {
  std::string out = svg::print("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\"/>\n", x, y, width, kBudgetBar, fill);
  if (kLabelLetter * static_cast<double>(label.size()) + 6 > width) return out;
  return out + svg::print("<text x=\"%.2f\" y=\"%.1f\" font-size=\"12\" text-anchor=\"middle\" fill=\"%s\">%s</text>\n", x + width / 2,
                          y + kBudgetBar / 2 + 4, *fill == '#' ? "white" : "black", label.c_str());
}

}  // namespace

std::string budget_svg(quire_model* model, quire_config* config, const Across& across, double* y) {
  client::Error error;
  auto info = client::sized<quire_config_info>();
  client::check(quire_config_get_info(config, &info, &error), error);
  uint64_t count = 0;
  client::check(quire_config_list_regions(config, 0, nullptr, sizeof(quire_region_info), 0, &count, &error), error);
  std::vector<quire_region_info> regions(count, client::sized<quire_region_info>());
  client::check(quire_config_list_regions(config, 0, regions.data(), sizeof(quire_region_info), count, &count, &error), error);
  double bytes = 0;
  for (const quire_region_info& region : regions) bytes += static_cast<double>(region.bytes);
  const std::vector<Kept> groups = groups_of(model, config, info.num_groups);

  std::string out = svg::print("<text x=\"%.0f\" y=\"%.1f\" font-size=\"18\">The pool: %s in %s pages</text>\n", across.left, *y + 12,
                               client::bytes_text(static_cast<uint64_t>(bytes)).c_str(), with_commas(info.num_pages).c_str());
  double x = across.left;
  for (size_t g = 0; g <= groups.size(); ++g) {
    const bool rest = g == groups.size();
    const std::string words =
        rest ? "spare states, steps in flight, holes, prefixes" : "group " + std::to_string(g) + ": " + groups[g].name;
    out += svg::print("<rect x=\"%.0f\" y=\"%.1f\" width=\"16\" height=\"16\" fill=\"%s\" stroke=\"#999\"/>", x, *y + 26,
                      rest ? "white" : kGroupColours[g % std::size(kGroupColours)]);
    out += svg::print("<text x=\"%.0f\" y=\"%.1f\" font-size=\"13\">%s</text>\n", x + 22, *y + 39, words.c_str());
    x += 50 + 7 * static_cast<double>(words.size());
    if (x <= across.left + across.width - 200 || rest) continue;
    x = across.left;
    *y += 22;
  }
  *y += 72;
  for (uint64_t tokens = info.max_model_len, bar = 0; bar < 3 && tokens > 0; tokens /= 8, ++bar) {
    const uint64_t sequences = capacity_of(model, config, tokens, 1).decoding;
    out += svg::print("<text x=\"%.0f\" y=\"%.1f\" font-size=\"13\">%s of %s tokens decode</text>\n", across.left, *y - 6,
                      counted(sequences, "sequence").c_str(), with_commas(tokens).c_str());
    double at = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      const double of_one = static_cast<double>(live_blocks(groups[g], tokens)) * static_cast<double>(groups[g].facts.page_bytes_per_block);
      const double width = std::min(across.width * of_one * static_cast<double>(sequences) / bytes, across.width - at);
      out += segment(across.left + at, width, *y, kGroupColours[g % std::size(kGroupColours)],
                     client::bytes_text(static_cast<uint64_t>(of_one)) + " each");
      at += width;
    }
    out += segment(across.left + at, across.width - at, *y, "white",
                   client::bytes_text(static_cast<uint64_t>(bytes * (1 - at / across.width))));
    out += svg::print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"none\" stroke=\"#444\"/>\n", across.left, *y,
                      across.width, kBudgetBar);
    *y += kBudgetRow;
  }
  return out;
}

}  // namespace quire::tools
