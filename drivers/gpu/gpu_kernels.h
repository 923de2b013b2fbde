// The kernels by name, what each is given, and the shared memory it needs. Arguments are copied at the launch; pointers within them are
// the device's. A launch has 128 threads a block; kernels walk their work with the grid as stride, so that any grid is right and a
// captured one stays right when lengths grow.
#pragma once

#include "drivers/common/jobs.h"
#include "drivers/gpu/boxes.h"
#include "drivers/gpu/simt.h"

namespace quire::gpu {

using drivers::PlanHeader;
using drivers::PlanMerge;
using drivers::PlanRecord;
using drivers::PlanShape;
using drivers::Real;

inline constexpr uint32_t kRowTile = 8;          // query rows that one pass over the keys serves
inline constexpr uint32_t kKeyTile = 64;         // keys of a pass, = kPlanBlock
inline constexpr uint32_t kDimTile = 32;         // elements of K staged at a time
inline constexpr uint32_t kDeltaTile = 16;       // state columns of a block of gated delta
inline constexpr uint32_t kScanTile = 16;        // state lines of a block of the selective scan
inline constexpr uint32_t kTileElements = 128;   // of a column of a tile of states in registers
inline constexpr uint32_t kTileColumns = 32;     // of a block
inline constexpr uint32_t kNarrowElements = 16;  // where each has its own decay
inline constexpr uint32_t kNarrowColumns = 128;
inline constexpr uint32_t kTileStage = 4;  // tokens whose vectors are in shared memory, twice
inline constexpr uint32_t kMaxConvTaps = 16;
inline constexpr uint32_t kRunsPerLaunch = 128;       // of 4 KiB, which every device takes
inline constexpr uint32_t kManyRunsPerLaunch = 1152;  // of 32 KiB less 4 bytes
inline constexpr uint32_t kCopyPiece = 4096;          // bytes that a wave copies at a time
inline constexpr uint32_t kMaxMergeParts = 48;
inline constexpr uint32_t kCostBuckets = 32;
static_assert(kKeyTile == drivers::kPlanBlock);

// Plans a step on the device: the records that drivers/common/planner.h makes, ordered by cost to a factor of two. One block.
struct PlanArgs {
  PlanShape shape;
  void* plan;
  uint64_t max_records;
  uint64_t max_merges;
  uint64_t max_partial_rows;
  uint32_t head_dim_v;
};

struct AttentionArgs {
  drivers::AttentionOp op;
  drivers::AttentionJob job;  // its op is not for the device
  const void* plan;
};

struct FlowArgs {
  AttentionArgs op;
  TensorMap key, value;
};

struct AppendArgs {
  drivers::AppendOp op;
  Real cache, key, value;
  float inverse_k, inverse_v;
};

struct MergePart {
  const char* out;
  const char* lse;
  int64_t out_stride[3];
  int64_t lse_stride[2];
  Real real;
};

struct MergeArgs {
  MergePart part[kMaxMergeParts];
  uint32_t num_parts;
  quire_tensor out;
  quire_tensor lse;
};

// first[r]: pieces of the runs before run r; first[num_runs] is the number of all.
template <uint32_t kMost>
struct CopyRuns {
  quire_copy_run run[kMost];
  uint32_t first[kMost + 1];
  uint32_t num_runs;
};
using CopyArgs = CopyRuns<kRunsPerLaunch>;
using CopyManyArgs = CopyRuns<kManyRunsPerLaunch>;

// How tiles of states in registers lie in memory (state_tile.h): not at all, elements of a column
// side by side, columns side by side. Which it is follows from strides and addresses, never from
// lengths, so the bits of a result don't depend on how a prompt is cut.
enum class TileOrder : uint8_t { kNone, kElements, kColumns };

struct DeltaArgs {
  drivers::GatedDeltaOp op;
  drivers::GatedDeltaJob job;
  Real query, key, value, out;
  TileOrder order;
};

struct Conv1dArgs {
  drivers::Conv1dOp op;
  drivers::Conv1dJob job;
  Real input, weight, bias, out;
  bool even;  // elements lie at multiples of their size
};

struct ScanArgs {
  drivers::SelectiveScanOp op;
  drivers::ScanJob job;
  Real x, dt, b, c, skip, dt_bias, z, out;
  TileOrder order;
  int64_t line;  // bytes from a line of a tile to the next
};

static_assert(sizeof(ScanArgs) <= 4096 && sizeof(DeltaArgs) <= 4096, "parameters of a launch");
static_assert(sizeof(FlowArgs) <= 4096 && sizeof(AttentionArgs) <= 4096 && sizeof(MergeArgs) <= 4096 && sizeof(CopyArgs) <= 4096,
              "parameters of a launch");
inline constexpr uint32_t kManyArgumentBytes = 32764;  // where a launch takes more than 4096
static_assert(sizeof(CopyManyArgs) <= kManyArgumentBytes, "parameters of a launch");

// Attention by matrix instructions (attend_mma.cu): X(name, format, widest V in tiles of 16, mixed, blocks of a multiprocessor). Those
// called tile_ take 16 rows a wave where a record has more than 16 rows; those called pack_ always share 16 rows among the waves of a
// block.
#define QUIRE_GPU_MATRIX_KERNELS(X)         \
  X(tile_bf16_64, kBfloat16, 4, true, 3)    \
  X(tile_bf16_128, kBfloat16, 8, true, 2)   \
  X(tile_bf16_256, kBfloat16, 16, true, 2)  \
  X(tile_fp16_64, kFloat16, 4, true, 3)     \
  X(tile_fp16_128, kFloat16, 8, true, 2)    \
  X(tile_fp16_256, kFloat16, 16, true, 2)   \
  X(pack_bf16_64, kBfloat16, 4, false, 4)   \
  X(pack_bf16_128, kBfloat16, 8, false, 4)  \
  X(pack_bf16_256, kBfloat16, 16, false, 2) \
  X(pack_fp16_64, kFloat16, 4, false, 4)    \
  X(pack_fp16_128, kFloat16, 8, false, 4)   \
  X(pack_fp16_256, kFloat16, 16, false, 2)

// Attention by products of warpgroups (attend_flow.cu): X(name, format, widest K and V in tiles of 64, stages). Blocks of kFlowThreads
// threads, one to a multiprocessor.
#define QUIRE_GPU_FLOW_KERNELS(X)      \
  X(flow_bf16_64, kBfloat16, 1, 1, 4)  \
  X(flow_bf16_128, kBfloat16, 2, 2, 4) \
  X(flow_bf16_192, kBfloat16, 3, 2, 4) \
  X(flow_bf16_256, kBfloat16, 4, 4, 2) \
  X(flow_fp16_64, kFloat16, 1, 1, 4)   \
  X(flow_fp16_128, kFloat16, 2, 2, 4)  \
  X(flow_fp16_192, kFloat16, 3, 2, 4)  \
  X(flow_fp16_256, kFloat16, 4, 4, 2)

#define QUIRE_GPU_KERNELS(X)      \
  X(plan, PlanArgs)               \
  X(attend, AttentionArgs)        \
  X(tile_bf16_64, AttentionArgs)  \
  X(tile_bf16_128, AttentionArgs) \
  X(tile_bf16_256, AttentionArgs) \
  X(tile_fp16_64, AttentionArgs)  \
  X(tile_fp16_128, AttentionArgs) \
  X(tile_fp16_256, AttentionArgs) \
  X(pack_bf16_64, AttentionArgs)  \
  X(pack_bf16_128, AttentionArgs) \
  X(pack_bf16_256, AttentionArgs) \
  X(pack_fp16_64, AttentionArgs)  \
  X(pack_fp16_128, AttentionArgs) \
  X(pack_fp16_256, AttentionArgs) \
  X(flow_bf16_64, FlowArgs)       \
  X(flow_bf16_128, FlowArgs)      \
  X(flow_bf16_192, FlowArgs)      \
  X(flow_bf16_256, FlowArgs)      \
  X(flow_fp16_64, FlowArgs)       \
  X(flow_fp16_128, FlowArgs)      \
  X(flow_fp16_192, FlowArgs)      \
  X(flow_fp16_256, FlowArgs)      \
  X(combine, AttentionArgs)       \
  X(append, AppendArgs)           \
  X(merge, MergeArgs)             \
  X(copy, CopyArgs)               \
  X(copy_many, CopyManyArgs)      \
  X(delta, DeltaArgs)             \
  X(conv1d, Conv1dArgs)           \
  X(scan, ScanArgs)

enum class Kernel : uint32_t {
#define QUIRE_GPU_ENUMERATE(name, Args) name,
  QUIRE_GPU_KERNELS(QUIRE_GPU_ENUMERATE)
#undef QUIRE_GPU_ENUMERATE
      kCount
};
inline constexpr uint32_t kKernelCount = static_cast<uint32_t>(Kernel::kCount);

// Threads of a block. Of flow kernels: two warpgroups that compute, one that brings.
inline constexpr uint32_t kFlowThreads = 3 * 128;
constexpr uint32_t threads_of(Kernel kernel) {
  return kernel >= Kernel::flow_bf16_64 && kernel <= Kernel::flow_fp16_256 ? kFlowThreads : kThreads;
}

// Bytes of shared memory of a launch.
inline constexpr uint32_t kPlanShared = (kCostBuckets + 4) * kThreads * 8;
inline uint64_t attend_shared(uint64_t dim_k, uint64_t dim_v) {
  const uint64_t floats = kRowTile * (dim_k + dim_v) + uint64_t{kKeyTile} * (kDimTile + 1) + uint64_t{kRowTile} * (kKeyTile + 4);
  return floats * 4 + uint64_t{kKeyTile} * (2 * 8 + 4);
}
// Rows of a merge as these drivers plan. Shared memory of a block that folds one.
QUIRE_HD constexpr uint32_t rows_of_merge(uint32_t group) {
  const uint32_t rows = drivers::kPlanSplitQueries * group;
  return rows < drivers::kPlanRows ? rows : drivers::kPlanRows;
}
inline constexpr uint32_t kCombineShared = (kThreads + kThreads / 32) * 4;
// Of matrix instructions, for tiles of `rows` query rows: places of keys, what waves tell each other, Q, K and V.
inline constexpr uint32_t kPadding = 8;           // elements behind a row in shared memory, so that neighbours lie in other banks
inline constexpr uint32_t kMaxMatrixWidth = 256;  // of V
inline constexpr uint32_t kMatrixShared = 4 * kKeyTile * 8 + 1024 + 256 + 16 * (kKeyTile + kPadding) * 2;
inline uint64_t matrix_shared(uint64_t dim_k, uint64_t dim_v, uint64_t rows) {
  const uint64_t k = (dim_k + 15) / 16 * 16 + kPadding;
  const uint64_t v = (dim_v + 15) / 16 * 16 + kPadding;
  return kMatrixShared + (rows * k + kKeyTile * (k + v)) * 2;
}
// Of products of warpgroups: 128 rows of Q, and stages of 64 keys of K and V with barriers and what is said of them. Tiles are 64 rows of
// 64 elements, from a multiple of 1024 bytes on.
inline constexpr uint32_t kFlowTile = 64 * 64 * 2;
constexpr uint64_t flow_shared(uint64_t wide_k, uint64_t wide_v, uint64_t stages) {
  return 2048 + (2 * wide_k + stages * (wide_k + wide_v)) * kFlowTile;
}
// Of tiles: what the tokens of two stages bring.
inline constexpr uint32_t kDeltaStageFloats = 3 * kTileElements + kTileColumns + 4;
inline constexpr uint32_t kScanStageFloats = 2 * kTileElements + 2 * kTileColumns;
static_assert(2 * kNarrowElements + 2 * kNarrowColumns <= kScanStageFloats);
inline uint64_t scan_shared(uint64_t state_dim, TileOrder order) {
  const uint64_t staged = uint64_t{2} * kTileStage * kScanStageFloats;
  return (order != TileOrder::kNone ? staged : state_dim * (kScanTile + 2) + kThreads) * 4;
}
inline uint64_t delta_shared(uint64_t dim_k, TileOrder order) {
  const uint64_t staged = uint64_t{2} * kTileStage * kDeltaStageFloats;
  return (order != TileOrder::kNone ? staged : dim_k * (kDeltaTile + 3) + kThreads + 8) * 4;
}

}  // namespace quire::gpu
