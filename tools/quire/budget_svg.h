// Where the memory goes: the whole pool to scale while as many sequences as fit decode.
#pragma once

#include <string>

#include "client/client.h"

namespace quire::tools {

struct Across {
  double left;
  double width;
};

// A bar per length: the longest, an eighth and a 64th of it. Bytes of shard 0. *y: where the
// drawing begins; moved to its end.
std::string budget_svg(quire_model* model, quire_config* config, const Across& across, double* y);

}  // namespace quire::tools
