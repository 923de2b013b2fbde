// The page that `quire replay --report` writes: charts of a run, with everything that draws them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "quire/replay_run.h"

namespace quire::tools {

inline constexpr uint32_t kReportSamples = 200;  // of the series, where nobody says

// replay: what replay_json() returned for the arguments.
std::string report_html(const nlohmann::ordered_json& replay, const ReplayArguments& arguments);

}  // namespace quire::tools
