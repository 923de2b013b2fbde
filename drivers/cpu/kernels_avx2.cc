// Compiled with -mavx2 -mfma; reached only where the processor has both.
#define QUIRE_CPU_VARIANT avx2
#define QUIRE_CPU_LANES 8
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
const Kernels kKernelsAvx2 = {"avx2",       avx2::attention,      avx2::combine,  avx2::append, avx2::merge, avx2::gated_delta,
                              avx2::conv1d, avx2::selective_scan, avx2::copy_runs};
}  // namespace quire::cpu
