// Memory of a device's driver, with an error that says how much was wanted and free.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/modules/module_search.h"

namespace quire {

// *address and *held say what is to be freed: nothing after an error, but for an address whose alignment is refused.
// kind: QUIRE_MEM_*.
Status allocate_on(const Device& device, uint64_t bytes, uint64_t alignment, uint32_t kind,  //
                   void** address, uint64_t* held);

}  // namespace quire
