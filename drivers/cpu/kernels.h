// The kernels, compiled once per instruction set; the table is chosen when the driver starts. Arguments are checked before a kernel runs.
#pragma once

#include "drivers/common/address.h"
#include "drivers/common/plan.h"
#include "drivers/common/planner.h"

#include <quire/ops.h>

namespace quire::cpu {

using drivers::PlanMerge;
using drivers::PlanRecord;
using drivers::PlanShape;
using drivers::Real;

inline constexpr uint32_t kMaxHeadDim = 1024;
inline constexpr uint64_t kPastCaches = uint64_t{4} << 20;  // bytes of one call from which stores go around the caches
inline constexpr uint32_t kKeyBlock = drivers::kPlanBlock;
inline constexpr uint32_t kDeltaColumns = 64;   // state columns that one piece of gated delta owns
inline constexpr uint64_t kConvChannels = 512;  // channels that one piece of conv1d owns
inline constexpr uint32_t kMaxConvWidth = 16;

// fp32 elements of scratch of one thread; every kernel fits (see attention.inc, state.inc).
inline constexpr uint64_t kScratchFloats = uint64_t{2} * drivers::kPlanRows * kMaxHeadDim + uint64_t{2} * kKeyBlock * kMaxHeadDim +
                                           uint64_t{drivers::kPlanRows} * (kKeyBlock + 2) + 4096;

struct AttentionJob {
  const quire_attention* op;
  PlanShape shape;
  quire_paged_side key;
  quire_paged_side value;
  Real cache;
  Real query;
  Real out;
  uint32_t group;  // query heads of a KV head
  float scale;     // of logits, scale_k included
  float scale_v;
  float* partials;  // workspace
};

struct AppendJob {
  const quire_kv_append* op;
  Real cache;
  Real source;
  float inverse_k;
  float inverse_v;
  bool past_caches;  // more than the caches hold: stored around them
};

struct MergeJob {
  const quire_attention_merge* op;
};

struct GatedDeltaJob {
  const quire_gated_delta* op;
  Real state;
  uint32_t heads_k, heads_v, dim_k, dim_v;
  int64_t stride_head, stride_k, stride_v;  // of the state, bytes
  uint32_t column_pieces;
  float scale;
  bool per_channel;  // gate [tokens, heads, dim_k]
};

struct Conv1dJob {
  const quire_conv1d* op;
  uint32_t width;
  uint32_t channels;
  uint32_t channel_pieces;
};

struct Kernels {
  const char* name;
  void (*attention)(const AttentionJob& job, const PlanRecord& record, float* scratch);
  void (*combine)(const AttentionJob& job, const PlanMerge& merge, float* scratch);
  void (*append)(const AppendJob& job, uint64_t first, uint64_t last, float* scratch);
  void (*merge)(const MergeJob& job, uint64_t first, uint64_t last, float* scratch);
  void (*gated_delta)(const GatedDeltaJob& job, uint64_t piece, float* scratch);  // row * heads_v * column_pieces + ...
  void (*conv1d)(const Conv1dJob& job, uint64_t piece, float* scratch);           // row * channel_pieces + ...
  void (*copy)(const quire_copy_run* runs, uint64_t first, uint64_t last, bool past_caches);
};

extern const Kernels kKernelsPortable;
#if defined(__x86_64__)
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;  // AVX-512 F, BW, VL, DQ
extern const Kernels kKernelsBf16;    // and VBMI, BF16
#endif

// The kernels of that name (QUIRE_DRIVER_KERNELS_*; 0 = the best), or NULL where the processor or the system does not have them.
const Kernels* find_kernels(uint32_t wanted);

}  // namespace quire::cpu
