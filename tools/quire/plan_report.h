// A plan as JSON, for people's tables and for other programs. The schema is published:
// share/quire/schemas/plan-1.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quire/fit.h"

namespace quire::tools {

struct Planned {
  client::Model model;
  Fitted fitted;
  std::vector<std::string> notes;  // what of a layer file or of the options has no part in the plan
};

// Throws what fit() throws.
Planned plan_fitted(const PlanArguments& arguments);

nlohmann::ordered_json plan_report(const Planned& planned, uint64_t concurrency);

// The planner's own words: what it considered, what each would have cost, why this one.
nlohmann::ordered_json plan_explanation(quire_config* config);

}  // namespace quire::tools
