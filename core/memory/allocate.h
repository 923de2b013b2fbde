// Memory of a device, with an error that says how much was wanted and free.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/modules/module_search.h"

namespace quire {

// *address and *held are written as soon as there is something to free, even where its alignment is refused.
Status allocate_on(const Device& device, uint64_t bytes, uint64_t alignment, void** address, uint64_t* held);

}  // namespace quire
