// The plan of one attention step: what all drivers share. A plan is a block of bytes: header, records (longest first), merges. It holds no
// pointers, may be copied, and serves every layer whose step has the same lengths and head shape.
//
// A record is one piece of work: query heads [head, head + heads) of query tokens [query, query + queries) of a row against keys [kv_begin,
// kv_end). Where partial < 0 the record writes the result; otherwise it writes queries * heads fp32 rows (value, then lse) of the
// workspace, numbered from `partial`: row (query i, head h) is partial + i * heads + h. A merge folds parts of equal shape into the result:
// part p begins at partial + p * queries * heads.
#pragma once

#include "drivers/common/real.h"

namespace quire::drivers {

inline constexpr uint32_t kPlanMagic = 0x4e4c5051u;  // "QPLN"
inline constexpr uint32_t kPlanVersion = 1;
inline constexpr uint32_t kPlanRows = 128;         // queries * heads of a record stay at or below
inline constexpr uint32_t kPlanSplitQueries = 8;   // rows with more query tokens are never split along the keys
inline constexpr uint32_t kPlanSplitTokens = 256;  // shortest piece of keys; pieces begin at multiples of kPlanBlock
inline constexpr uint32_t kPlanBlock = 64;

struct PlanHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t bytes;        // header, records and merges
  uint64_t fingerprint;  // of the lengths and options planned for
  uint32_t num_records;
  uint32_t num_merges;
  uint32_t partial_rows;  // workspace rows in use
  uint32_t num_rows;
  uint32_t num_q_heads;
  uint32_t num_kv_heads;
  uint32_t head_dim_v;
  uint32_t reserved0;
};
static_assert(sizeof(PlanHeader) == 56);

struct PlanRecord {
  uint32_t row;
  uint16_t head;
  uint16_t heads;
  uint32_t query;
  uint32_t queries;
  uint32_t kv_begin;
  uint32_t kv_end;
  int32_t partial;
  uint32_t cost;  // only its order means something
};
static_assert(sizeof(PlanRecord) == 32);

struct PlanMerge {
  uint32_t row;
  uint16_t head;
  uint16_t heads;
  uint32_t query;
  uint32_t queries;
  uint32_t partial;
  uint32_t parts;
};
static_assert(sizeof(PlanMerge) == 24);

// The maximum that parts are weighed against; one that is NaN makes the whole NaN.
QUIRE_HD float top_of_parts(float lse, float top) { return lse > top || lse != lse ? lse : top; }

// fp32 elements of one workspace row: the value and its lse.
QUIRE_HD uint64_t partial_width(uint32_t head_dim_v) { return static_cast<uint64_t>(head_dim_v) + 1; }

}  // namespace quire::drivers
