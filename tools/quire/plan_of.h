// From the arguments of the command line to a plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/client.h"
#include "quire/commands.h"

namespace quire::tools {

inline constexpr uint64_t kDefaultMemory = uint64_t{80} << 30;

client::Model model_of(const PlanArguments& arguments);

// Whether the plan has the element types of the model; --kv-dtype and policy vllm may take others.
bool keeps_types(quire_model* model, const PlanArguments& arguments);
// Throws std::invalid_argument for options that contradict each other or the file, client::Failure
// for what the library refuses. notes: may be null; what of a layer file has no part in the plan is
// added.
client::Config plan_of(quire_model* model, const PlanArguments& arguments, std::vector<std::string>* notes = nullptr);

quire_config_info info_of(quire_config* config);

}  // namespace quire::tools
