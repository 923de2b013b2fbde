// The scripts that draw the charts of a report, as they lie in third_party/vega.
#pragma once

#include <string_view>

namespace quire::tools {

// In the order in which a page loads them. None contains "</script".
std::string_view vega_script();
std::string_view vega_lite_script();
std::string_view vega_embed_script();

}  // namespace quire::tools
