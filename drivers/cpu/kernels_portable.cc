#define QUIRE_CPU_VARIANT portable
#define QUIRE_CPU_LANES 4
#include "drivers/cpu/simd.inc"
// The pieces build on each other.
#include "drivers/cpu/decode_rows.inc"
// after decode_rows.inc
#include "drivers/cpu/keys_ahead.inc"
// after keys_ahead.inc
#include "drivers/cpu/attention.inc"
// after decode_rows.inc
#include "drivers/cpu/encode_rows.inc"
// after encode_rows.inc
#include "drivers/cpu/rows.inc"
#include "drivers/cpu/state.inc"
// after state.inc
#include "drivers/cpu/scan.inc"

namespace quire::cpu {
const Kernels kKernelsPortable = {"portable",       portable::attention,      portable::combine,
                                  portable::append, portable::merge,          portable::gated_delta,
                                  portable::conv1d, portable::selective_scan, portable::copy_runs};
}  // namespace quire::cpu
