#include "core/memory/allocate.h"

#include <algorithm>
#include <cinttypes>

namespace quire {

Status allocate_on(const Device& device, uint64_t bytes, uint64_t alignment, uint32_t kind, void** address, uint64_t* held) {
  quire_error error{};
  error.struct_size = sizeof error;
  const quire_code code = device.api().mem_alloc(device.get(), bytes, std::max(alignment, device.info().alignment), kind, address, &error);
  if (code != QUIRE_OK) *address = nullptr;  // whatever a driver wrote there is not ours
  if (code == QUIRE_RESOURCE_EXHAUSTED) {
    quire_device_info now{};
    const uint64_t free_bytes = device.read_info(&now).ok() ? now.free_bytes : 0;
    return fail(code, "device %s: %" PRIu64 " bytes wanted, %" PRIu64 " of %" PRIu64 " free (0 = unknown): %s", device.info().name, bytes,
                free_bytes, device.info().total_bytes, error.message)
        .with_native(error.native_domain, error.native_code);
  }
  if (code != QUIRE_OK) return device.driver().status(code, error);
  if (*address == nullptr && bytes != 0)
    return fail(QUIRE_UNKNOWN, "driver %s: mem_alloc answered OK and NULL", device.driver().name().c_str());
  *held = bytes;
  const uint64_t wanted = std::max(alignment, device.info().alignment);
  if (reinterpret_cast<uintptr_t>(*address) % wanted != 0) {
    return fail(QUIRE_UNKNOWN, "driver %s: mem_alloc answered an address that is not aligned to %" PRIu64, device.driver().name().c_str(),
                wanted);
  }
  return {};
}

}  // namespace quire
