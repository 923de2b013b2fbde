// table.h: what the runs did, a column for each.
#pragma once

#include <string>
#include <vector>

#include "fleet.h"

namespace fleet {

std::string table(const std::vector<Result>& runs);
// Throws Failure if the file cannot be written.
void write_json(const std::string& file, const std::vector<Result>& runs);

}  // namespace fleet
