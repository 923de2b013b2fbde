// The scripts that draw the charts of a report, as they lie in third_party/vega.
#pragma once

#include <string>

namespace quire::tools {

// In the order in which a page loads them. None contains "</script".
std::string vega_script();
std::string vega_lite_script();
std::string vega_embed_script();

}  // namespace quire::tools
