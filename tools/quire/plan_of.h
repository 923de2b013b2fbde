// From the arguments of the command line to a plan.
#pragma once

#include "client/client.h"
#include "quire/commands.h"

namespace quire::tools {

client::Config plan_of(quire_model* model, const PlanArguments& arguments);

}  // namespace quire::tools
