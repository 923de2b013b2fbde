// Compiled for AMX-TILE and AMX-BF16 beside what kernels_bf16.cc asks for; reached only where the processor and the system have them. Tiles
// serve attention; whatever has no products of matrices is kernels_bf16.cc's.
#define QUIRE_CPU_VARIANT amx
#define QUIRE_CPU_LANES 16
// From here on tiles, however empty, are done before AVX-512 BF16, whose products these processors begin every other cycle.
#define QUIRE_CPU_TRANSPOSE_ROWS 4
#define QUIRE_CPU_WIDE_GATHER 1
#define QUIRE_CPU_TILES 1
#include "drivers/cpu/simd.inc"

#include <immintrin.h>
// Tests put a unit of their own in the place of the processor's.
#ifndef QUIRE_TILE_KERNELS
#define QUIRE_TILE_KERNELS "amx"
#define QUIRE_TILE_CONFIGURE(shapes) _tile_loadconfig(shapes)
#define QUIRE_TILE_RELEASE() _tile_release()
#define QUIRE_TILE_ZERO(tile) _tile_zero(tile)
#define QUIRE_TILE_LOAD(tile, from, stride) _tile_loadd(tile, from, stride)
#define QUIRE_TILE_STORE(tile, to, stride) _tile_stored(tile, to, stride)
#define QUIRE_TILE_PRODUCT(sum, a, b) _tile_dpbf16ps(sum, a, b)
#endif
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
#include "drivers/cpu/products_amx.inc"
// after products_amx.inc
#include "drivers/cpu/weights_amx.inc"
// after weights_amx.inc
#include "drivers/cpu/few_rows_amx.inc"
// after weights_amx.inc
#include "drivers/cpu/passes_amx.inc"
// after few_rows_amx.inc and passes_amx.inc
#include "drivers/cpu/attention_bf16.inc"

namespace quire::cpu {
const Kernels kKernelsAmx = {
    QUIRE_TILE_KERNELS,
    amx::attention_bf16,
    amx::combine,
    [](const auto& job, auto... rest) { kKernelsBf16.append(job, rest...); },
    [](const auto& job, auto... rest) { kKernelsBf16.merge(job, rest...); },
    [](const auto& job, auto... rest) { kKernelsBf16.gated_delta(job, rest...); },
    [](const auto& job, auto... rest) { kKernelsBf16.conv1d(job, rest...); },
    [](const auto& job, auto... rest) { kKernelsBf16.selective_scan(job, rest...); },
    [](auto... arguments) { kKernelsBf16.copy(arguments...); },
};
}  // namespace quire::cpu
