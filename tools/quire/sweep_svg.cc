#include "quire/sweep_svg.h"

#include <algorithm>
#include <cmath>

#include "quire/svg.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

constexpr double kPlotLeft = 90;
constexpr double kPlotTop = 60;
constexpr double kPlotWidth = 720;
constexpr double kPlotHeight = 400;
constexpr double kMargin = 60;
constexpr double kLeastGap = 60;  // pixels between marks of the x axis
constexpr const char* kLineColours[] = {"#3b6fb6", "#e08e2b", "#6fb1a0", "#7d6bb0", "#c05a6b", "#8a9a3b", "#4a8fa8", "#a85c1e"};

// 1, 2 or 5 times a power of ten: about five steps up to `most`.
double step_of(double most) {
  const double raw = std::max(most, 1.0) / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / power;
  return std::max(1.0, power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10));
}

class Plot {
 public:
  explicit Plot(const SweepPlot& plot) : plot_(plot), low_(plot.x.front()), high_(plot.x.back()) {
    for (const double x : plot.x) {
      low_ = std::min(low_, x);
      high_ = std::max(high_, x);
    }
    uint64_t most = 1;
    for (const SweepLine& line : plot.lines) most = std::max(most, *std::max_element(line.decoding.begin(), line.decoding.end()));
    step_ = step_of(static_cast<double>(most));
    top_ = step_ * std::ceil(static_cast<double>(most) / step_);
  }

  std::string draw() const {
    const double height = kPlotTop + kPlotHeight + kMargin + 20 * static_cast<double>(plot_.lines.size() + 1);
    std::string out = svg::print("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\">\n",
                                 kPlotLeft + kPlotWidth + kMargin, height);
    out += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    out += svg::print("<text x=\"%.0f\" y=\"28\" font-size=\"18\">", 20.0) + svg::escaped(plot_.title) + "</text>\n";
    out += "<text x=\"20\" y=\"48\" font-size=\"13\">sequences: solid = decoding, dashed = guaranteed</text>\n";
    return out + axes() + lines() + "</svg>\n";
  }

 private:
  double at_x(double x) const { return kPlotLeft + (high_ == low_ ? 0.5 : (x - low_) / (high_ - low_)) * kPlotWidth; }
  double at_y(double y) const { return kPlotTop + kPlotHeight * (1 - y / top_); }

  std::string axes() const {
    std::string out;
    for (int i = 0; i * step_ <= top_; ++i) {
      const double y = i * step_;
      out += svg::print("<path d=\"M%.1f %.1fh%.1f\" stroke=\"#ddd\"/>", kPlotLeft, at_y(y), kPlotWidth);
      out += svg::print("<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\" text-anchor=\"end\">%s</text>\n", kPlotLeft - 8, at_y(y) + 4,
                        with_commas(static_cast<uint64_t>(y)).c_str());
    }
    double last = -kLeastGap;
    for (size_t i = 0; i < plot_.x.size(); ++i) {
      const double x = at_x(plot_.x[i]);
      out += svg::print("<path d=\"M%.1f %.1fv5\" stroke=\"#444\"/>", x, kPlotTop + kPlotHeight);
      if (x - last < kLeastGap) continue;
      last = x;
      out += svg::print("<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\" text-anchor=\"middle\">%s</text>\n", x, kPlotTop + kPlotHeight + 20,
                        plot_.x_texts[i].c_str());
    }
    out += svg::print("<path d=\"M%.1f %.1fv%.1fh%.1f\" stroke=\"#444\" fill=\"none\"/>\n", kPlotLeft, kPlotTop, kPlotHeight, kPlotWidth);
    return out + svg::print("<text x=\"%.1f\" y=\"%.1f\" font-size=\"13\" text-anchor=\"middle\">%s</text>\n", kPlotLeft + kPlotWidth / 2,
                            kPlotTop + kPlotHeight + 42, plot_.x_name.c_str());
  }

  std::string curve(const std::vector<uint64_t>& values, const char* colour, const char* dashes) const {
    std::string path;
    std::string dots;
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = at_x(plot_.x[i]);
      const double y = at_y(static_cast<double>(values[i]));
      path += svg::print("%s%.1f %.1f", i == 0 ? "M" : "L", x, y);
      dots += svg::print("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>", x, y, colour);
    }
    return "<path d=\"" + path + svg::print("\" stroke=\"%s\" fill=\"none\" stroke-width=\"2\"%s/>", colour, dashes) + dots + "\n";
  }

  std::string lines() const {
    std::string out;
    double y = kPlotTop + kPlotHeight + kMargin + 10;
    for (size_t i = 0; i < plot_.lines.size(); ++i, y += 20) {
      const char* const colour = kLineColours[i % std::size(kLineColours)];
      out += curve(plot_.lines[i].guaranteed, colour, " stroke-dasharray=\"5 4\"");
      out += curve(plot_.lines[i].decoding, colour, "");
      out += svg::print("<path d=\"M%.1f %.1fh24\" stroke=\"%s\" stroke-width=\"3\"/>", kPlotLeft, y - 4, colour);
      out += svg::print("<text x=\"%.1f\" y=\"%.1f\" font-size=\"13\">%s</text>\n", kPlotLeft + 32, y,
                        svg::escaped(plot_.lines[i].name).c_str());
    }
    return out;
  }

  const SweepPlot& plot_;
  double low_;
  double high_;
  double step_ = 1;
  double top_ = 1;
};

}  // namespace

std::string sweep_svg(const SweepPlot& plot) { return Plot(plot).draw(); }

}  // namespace quire::tools
