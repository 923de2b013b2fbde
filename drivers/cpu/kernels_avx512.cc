// Compiled with -mavx512f -mavx512bw -mavx512vl -mavx512dq; reached only where the processor has them.
#define QUIRE_CPU_VARIANT avx512
#define QUIRE_CPU_LANES 16
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
const Kernels kKernelsAvx512 = {"avx512",       avx512::attention,      avx512::combine,
                                avx512::append, avx512::merge,          avx512::gated_delta,
                                avx512::conv1d, avx512::selective_scan, avx512::copy_runs};
}  // namespace quire::cpu
