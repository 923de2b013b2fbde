// A sweep as a picture: sequences that decode and that are guaranteed, over memory, length or
// ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::tools {

struct SweepLine {
  std::string name;
  std::vector<uint64_t> guaranteed;  // per x; 0 = does not fit
  std::vector<uint64_t> decoding;
};

struct SweepPlot {
  std::string title;
  std::string x_name;
  std::vector<double> x;
  std::vector<std::string> x_texts;
  std::vector<SweepLine> lines;
};

// The text of an SVG.
std::string sweep_svg(const SweepPlot& plot);

}  // namespace quire::tools
