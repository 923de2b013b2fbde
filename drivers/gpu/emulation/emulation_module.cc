// The emulation as a driver module, so that the conformance kit takes it like any other. It is built for tests and never installed.
#include "drivers/common/note.h"
#include "drivers/gpu/gpu_runtime.h"

QUIRE_DRIVER_NOTE("emulation");

namespace {

constexpr quire_manifest kManifest = {
    QUIRE_MODULE_MAGIC,      sizeof(quire_manifest), QUIRE_MODULE_DRIVER, QUIRE_DRIVER_ABI_VERSION, "emulation", "0.2.0",
    QUIRE_MODULE_SANITIZERS, &quire::gpu::kApi,      &quire::gpu::kOps,
};

}  // namespace

extern "C" quire_code quire_driver_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  if (query == nullptr || out == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "query or out is NULL");
  if (query->abi_min > QUIRE_DRIVER_ABI_VERSION || query->abi_max < QUIRE_DRIVER_ABI_VERSION) {
    return QUIRE_FAIL(err, QUIRE_INCOMPATIBLE_ABI, "this driver speaks ABI 0x%x, the host 0x%x to 0x%x", QUIRE_DRIVER_ABI_VERSION,
                      query->abi_min, query->abi_max);
  }
  *out = &kManifest;
  return QUIRE_OK;
}
