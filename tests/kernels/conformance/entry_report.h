// The tests of a run by the entry of the driver's table that they call.
#pragma once

#include <string>
#include <vector>

namespace quire::conformance {

// Names of all entries, in the order of quire_driver_api.
const std::vector<std::string>& entry_names();
// One line for each entry: absent, or which of its tests passed and failed. After the tests.
void print_entries();

}  // namespace quire::conformance
