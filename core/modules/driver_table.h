// The host's own copy of a module's table: full size, every hole filled with a stub that answers UNIMPLEMENTED and names the entry.
#pragma once

#include <quire/connector.h>
#include <quire/driver.h>

#include "core/base/status.h"

namespace quire {

// Copies what struct_size says is there. Errors: INCOMPATIBLE_ABI naming the required entry that is missing.
Result<quire_driver_api> copy_driver_table(const void* api);
Result<quire_connector_api> copy_connector_table(const void* api);

}  // namespace quire
