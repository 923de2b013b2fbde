// The kernels, compiled once per instruction set; the table is chosen when the driver starts. Arguments are checked before a kernel runs.
#pragma once

#include "drivers/common/check.h"

#include <quire/ops.h>

namespace quire::cpu {

using drivers::AttentionJob;
using drivers::kMaxConvWidth;
using drivers::kMaxHeadDim;
using drivers::PlanMerge;
using drivers::PlanRecord;
using drivers::PlanShape;
using drivers::Real;

inline constexpr uint64_t kPastCaches = uint64_t{4} << 20;  // bytes of one call from which stores go around the caches
inline constexpr uint32_t kKeyBlock = drivers::kPlanBlock;
inline constexpr uint32_t kDeltaColumns = 64;   // state columns that one piece of gated delta owns
inline constexpr uint64_t kConvChannels = 512;  // channels that one piece of conv1d owns
inline constexpr uint32_t kScanLines = 64;      // state lines that one piece of the selective scan owns

// fp32 elements of scratch of one thread; every kernel fits (see attention.inc, attention_bf16.inc: tiles of 16 query rows may be a
// quarter full, and keys and values of a pass are four blocks, state.inc, scan.inc).
inline constexpr uint64_t kPassFloats = uint64_t{350} << 8;
inline constexpr uint64_t kScratchFloats = uint64_t{7} * drivers::kPlanRows * kMaxHeadDim / 2 + uint64_t{2} * kKeyBlock * kMaxHeadDim +
                                           uint64_t{drivers::kPlanRows} * (kKeyBlock + 34) + 8192 + kPassFloats;

struct AppendJob {
  const drivers::AppendOp* op;
  drivers::RowCode code;
  Real cache;  // kNone: rows are codes
  Real source;
  float inverse_k;
  float inverse_v;
  bool past_caches;  // more than the caches hold: stored around them
};

struct MergeJob {
  const quire_attention_merge* op;
};

struct GatedDeltaJob : drivers::GatedDeltaJob {
  uint32_t column_pieces;
};

struct Conv1dJob : drivers::Conv1dJob {
  uint32_t channel_pieces;
};

struct ScanJob : drivers::ScanJob {
  uint32_t line_pieces;
};

struct Kernels {
  const char* name;
  void (*attention)(const AttentionJob& job, const PlanRecord& record, float* scratch);
  void (*combine)(const AttentionJob& job, const PlanMerge& merge, float* scratch);
  void (*append)(const AppendJob& job, uint64_t first, uint64_t last, float* scratch);
  void (*merge)(const MergeJob& job, uint64_t first, uint64_t last, float* scratch);
  // Pieces [first, last) of: row * heads_v * column_pieces + ..., row * channel_pieces + ..., row * line_pieces + ...
  void (*gated_delta)(const GatedDeltaJob& job, uint64_t first, uint64_t last, float* scratch);
  void (*conv1d)(const Conv1dJob& job, uint64_t first, uint64_t last, float* scratch);
  void (*selective_scan)(const ScanJob& job, uint64_t first, uint64_t last, float* scratch);
  void (*copy)(const quire_copy_run* runs, uint64_t first, uint64_t last, bool past_caches);
};

extern const Kernels kKernelsPortable;
#if defined(__x86_64__)
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;  // AVX-512 F, BW, VL, DQ
extern const Kernels kKernelsBf16;    // and VBMI, BF16
extern const Kernels kKernelsAmx;     // and AMX-TILE, AMX-BF16
#endif

// Whether the processor has tiles for bf16 and the system lets this process use them, for which it is asked.
bool tiles_permitted();

// The kernels of that name (QUIRE_DRIVER_KERNELS_*; 0 = the best), or NULL where the processor or the system does not have them.
const Kernels* find_kernels(uint32_t wanted);

}  // namespace quire::cpu
