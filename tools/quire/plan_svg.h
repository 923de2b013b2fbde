// A plan as a picture.
#pragma once

#include <string>

#include "client/client.h"

namespace quire::tools {

// The text of an SVG: the page of shard 0 as each group divides it, to scale.
std::string plan_svg(quire_model* model, quire_config* config);

}  // namespace quire::tools
