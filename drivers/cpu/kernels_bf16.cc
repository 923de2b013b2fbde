// Compiled for AVX-512 with VBMI and BF16; reached only where the processor has them.
#define QUIRE_CPU_VARIANT bf16
#define QUIRE_CPU_LANES 16
#define QUIRE_CPU_TRANSPOSE_ROWS 32
#define QUIRE_CPU_WIDE_GATHER 1
#define QUIRE_CPU_TILES 0
#include "drivers/cpu/simd.inc"

#include <immintrin.h>
// The pieces build on each other.
#include "drivers/cpu/decode_rows.inc"
// after decode_rows.inc
#include "drivers/cpu/keys_ahead.inc"
// after keys_ahead.inc
#include "drivers/cpu/attention.inc"
#include "drivers/cpu/widen.inc"
// after widen.inc
#include "drivers/cpu/decode_bf16.inc"
// after decode_bf16.inc
#include "drivers/cpu/products_bf16.inc"
// after products_bf16.inc
#include "drivers/cpu/attention_bf16.inc"
// after decode_rows.inc
#include "drivers/cpu/encode_rows.inc"
// after encode_rows.inc
#include "drivers/cpu/rows.inc"
#include "drivers/cpu/state.inc"
// after state.inc
#include "drivers/cpu/scan.inc"

namespace quire::cpu {
const Kernels kKernelsBf16 = {"avx512_bf16",     bf16::attention_bf16, bf16::combine,        bf16::append,   bf16::merge,
                              bf16::gated_delta, bf16::conv1d,         bf16::selective_scan, bf16::copy_runs};
}  // namespace quire::cpu
