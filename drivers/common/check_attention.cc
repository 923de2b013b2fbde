// Checks of attention, and of plans and their making.
#include "drivers/common/check.h"

#include <cinttypes>
#include <cmath>
#include <cstring>

namespace quire::drivers {
namespace {

// Every id that a live position of a row uses must name memory.
quire_code check_table(const AttentionOp& op, uint32_t row, quire_error* err) {
  const uint64_t columns = (static_cast<uint64_t>(op.kv_len[row]) + op.kv.block_tokens - 1) / op.kv.block_tokens;
  if (columns > op.table_pitch) {
    return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "kv_len[%u] %d needs %" PRIu64 " table columns, table_pitch is %" PRIu64, row,
                      op.kv_len[row], columns, op.table_pitch);
  }
  if (!host_reads(op.table)) return QUIRE_OK;
  const int32_t* ids = op.table + row * op.table_pitch;
  for (uint64_t c = 0; c < columns; ++c) {
    if (ids[c] < 0 || static_cast<uint64_t>(ids[c]) >= op.kv.num_ids) {
      return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "table[%u][%" PRIu64 "] is %d, the cache has %" PRIu64 " ids", row, c, ids[c],
                        op.kv.num_ids);
    }
  }
  return QUIRE_OK;
}

quire_code check_rows(const AttentionOp& op, quire_error* err) {
  QUIRE_TRY(check_indptr(op.query_indptr, op.num_rows, op.query.shape[0], err));
  if (op.num_rows != 0 && (op.kv_len == nullptr || op.table == nullptr)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kv_len or table is NULL with num_rows %u", op.num_rows);
  }
  if (op.num_rows == 0 || !host_reads(op.query_indptr) || !host_reads(op.kv_len)) return QUIRE_OK;
  const bool masked = op.mask_bits != nullptr && host_reads(op.mask_indptr);
  for (uint32_t r = 0; r < op.num_rows; ++r) {
    if (op.kv_len[r] < 0) return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "kv_len[%u] is %d, below 0", r, op.kv_len[r]);
    const int32_t tokens = op.query_indptr[r + 1] - op.query_indptr[r];
    if ((op.flags & QUIRE_ATTENTION_CAUSAL) != 0 && op.kv_len[r] != 0 && op.kv_len[r] < tokens) {
      return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "kv_len[%u] is %d, below the row's %d query tokens", r, op.kv_len[r], tokens);
    }
    if (masked) {
      const int64_t bits = static_cast<int64_t>(tokens) * op.kv_len[r];
      if (op.mask_indptr[r] < 0 || op.mask_indptr[r + 1] - op.mask_indptr[r] < bits) {
        return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "mask_indptr[%u] %" PRId64 " to %" PRId64 ": the row needs %" PRId64 " bits", r,
                          op.mask_indptr[r], op.mask_indptr[r + 1], bits);
      }
    }
    QUIRE_TRY(check_table(op, r, err));
  }
  return QUIRE_OK;
}

// Options and head shape: what a plan needs too.
quire_code check_options(const AttentionOp& op, quire_error* err) {
  if ((op.flags & ~(QUIRE_ATTENTION_CAUSAL | QUIRE_ATTENTION_BATCH_INVARIANT)) != 0) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "attention.flags 0x%x", op.flags);
  }
  if ((op.flags & QUIRE_ATTENTION_CAUSAL) == 0 && (op.window != 0 || op.chunk != 0)) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "window %u or chunk %u without QUIRE_ATTENTION_CAUSAL", op.window, op.chunk);
  }
  QUIRE_TRY(check_paged_kv(op.kv, err));
  const uint32_t dim_v = value_side(op.kv, op.head_dim_v).head_dim;
  if (op.kv.num_sides == 1 && dim_v > op.kv.side[0].head_dim) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "head_dim_v is %u, K's row has %u", dim_v, op.kv.side[0].head_dim);
  }
  if (op.kv.num_sides == 2 && op.head_dim_v != 0 && op.head_dim_v != dim_v) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "head_dim_v is %u, kv.side[1].head_dim is %u", op.head_dim_v, dim_v);
  }
  for (float v : {op.scale_k, op.scale_v, op.softcap}) {
    if (!(v >= 0.0f) || std::isinf(v)) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "softcap, scale_k or scale_v is %g, not finite and 0 or above",
                        static_cast<double>(v));
    }
  }
  if (!std::isfinite(op.scale)) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "scale is %g", static_cast<double>(op.scale));
  if (op.mask_bits != nullptr && op.mask_indptr == nullptr && op.num_rows != 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "mask_indptr is NULL with mask_bits");
  }
  return QUIRE_OK;
}

quire_code check_tensors(const AttentionOp& op, quire_error* err) {
  const int64_t dim_v = value_side(op.kv, op.head_dim_v).head_dim;
  QUIRE_TRY(check_tensor(op.query, {"query", 3, {-1, -1, op.kv.side[0].head_dim}, kPlainFormats}, err));
  const int64_t heads = op.query.shape[1];
  if (heads <= 0 || heads > kMaxHeads || heads % op.kv.num_heads != 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "query.shape[1] is %" PRId64 ", not a multiple of kv.num_heads %u up to %u", heads,
                      op.kv.num_heads, kMaxHeads);
  }
  QUIRE_TRY(check_tensor(op.out, {"out", 3, {op.query.shape[0], heads, dim_v}, kPlainFormats, true}, err));
  if (op.lse.data != nullptr) QUIRE_TRY(check_tensor(op.lse, {"lse", 2, {op.query.shape[0], heads}, kFloat32Only, true}, err));
  return QUIRE_OK;
}

quire_code check_record(const AttentionOp& op, const PlanRecord& r, const PlanHeader& h, uint64_t i, quire_error* err) {
  const uint64_t rows = uint64_t{r.queries} * r.heads;
  const bool fits = r.row < op.num_rows && r.heads != 0 && uint32_t{r.head} + r.heads <= h.num_q_heads && rows <= kPlanRows &&
                    uint64_t{r.query} + r.queries <= static_cast<uint64_t>(op.query_indptr[r.row + 1] - op.query_indptr[r.row]) &&
                    r.kv_begin <= r.kv_end && r.kv_end <= static_cast<uint32_t>(op.kv_len[r.row]) &&
                    (r.partial < 0 || static_cast<uint64_t>(r.partial) + rows <= h.partial_rows);
  const uint32_t group = h.num_q_heads / h.num_kv_heads;
  const bool whole =
      fits && (r.heads <= group ? r.head / group == (r.head + r.heads - 1u) / group : r.head % group == 0 && r.heads % group == 0);
  if (!whole) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "plan: record %" PRIu64 " of row %u does not fit this step", i, r.row);
  return QUIRE_OK;
}

}  // namespace

quire_code check_attention(const AttentionOp& op, quire_error* err) {
  QUIRE_TRY(check_options(op, err));
  QUIRE_TRY(check_tensors(op, err));
  return check_rows(op, err);
}

AttentionJob describe_attention(const AttentionOp& op, uint32_t workers) {
  AttentionJob job{};
  job.op = &op;
  job.shape = plan_shape_of(op, workers);
  job.key = op.kv.side[0];
  job.value = value_side(op.kv, op.head_dim_v);
  job.code = row_code_of(op.kv);
  job.cache = job.code.data == Code::kNone ? real_of(op.kv.dtype) : Real::kNone;
  job.query = real_of(op.query.dtype);
  job.out = real_of(op.out.dtype);
  job.group = job.shape.num_q_heads / job.shape.num_kv_heads;
  job.scale = op.scale != 0.0f ? op.scale : 1.0f / std::sqrt(static_cast<float>(job.key.head_dim));
  const float scale_k = op.scale_k != 0.0f ? op.scale_k : 1.0f;
  const float scale_v = op.scale_v != 0.0f ? op.scale_v : 1.0f;
  // A one-sided cache holds one stored value for both uses.
  job.scale *= scale_k;
  job.scale_v = op.kv.num_sides == 1 ? scale_k : scale_v;
  return job;
}

quire_code check_plan(const AttentionOp& op, const AttentionJob& job, uint64_t internal_floats, PlanView* view, quire_error* err) {
  PlanHeader& h = view->header;
  if (op.plan_bytes < sizeof h)
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "plan_bytes is %" PRIu64 ", below %zu", op.plan_bytes, sizeof h);
  memcpy(&h, op.plan, sizeof h);
  if (h.magic != kPlanMagic || h.version != kPlanVersion || reinterpret_cast<uintptr_t>(op.plan) % 8 != 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "plan: magic 0x%x, version %u, or not aligned to 8 bytes", h.magic, h.version);
  }
  if (h.fingerprint != plan_fingerprint(job.shape) || h.head_dim_v != job.value.head_dim || h.num_q_heads != job.shape.num_q_heads ||
      h.num_kv_heads != job.shape.num_kv_heads) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT,
                      "plan was made for other lengths, options or heads (%u q heads, %u kv heads, head_dim_v %u)", h.num_q_heads,
                      h.num_kv_heads, h.head_dim_v);
  }
  if (h.bytes > op.plan_bytes || h.bytes != plan_size(h.num_records, h.num_merges)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "plan says %" PRIu64 " bytes, plan_bytes is %" PRIu64, h.bytes, op.plan_bytes);
  }
  const uint64_t needed = h.partial_rows * partial_width(h.head_dim_v) * 4;
  if (needed != 0 && (op.workspace == nullptr ? needed > internal_floats * 4 : needed > op.workspace_bytes)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "workspace_bytes is %" PRIu64 ", the plan needs %" PRIu64, op.workspace_bytes, needed);
  }
  const char* bytes = static_cast<const char*>(op.plan);
  view->records = reinterpret_cast<const PlanRecord*>(bytes + sizeof h);
  view->merges = reinterpret_cast<const PlanMerge*>(bytes + sizeof h + uint64_t{h.num_records} * sizeof(PlanRecord));
  for (uint64_t i = 0; i < h.num_records; ++i) QUIRE_TRY(check_record(op, view->records[i], h, i, err));
  for (uint64_t i = 0; i < h.num_merges; ++i) {
    const PlanMerge& m = view->merges[i];
    const PlanRecord as_record{m.row, m.head, m.heads, m.query, m.queries, 0, 0, static_cast<int32_t>(m.partial & 0x7fffffffu), 0};
    QUIRE_TRY(check_record(op, as_record, h, i, err));
    if (uint64_t{m.partial} + uint64_t{m.queries} * m.heads * m.parts > h.partial_rows) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "plan: merge %" PRIu64 " has %u parts, beyond %u partial rows", i, m.parts,
                        h.partial_rows);
    }
  }
  return QUIRE_OK;
}

quire_code size_attention(uint32_t workers, uint32_t max_rows, uint64_t max_query_tokens, uint64_t max_kv_len, uint32_t num_q_heads,
                          uint32_t head_dim_v, uint64_t* plan_bytes, uint64_t* workspace_bytes, quire_error* err) {
  if (plan_bytes == nullptr || workspace_bytes == nullptr) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "plan_bytes or workspace_bytes is NULL");
  }
  if (max_rows > INT32_MAX || max_query_tokens > INT32_MAX || max_kv_len > INT32_MAX) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "max_rows %u, max_query_tokens %" PRIu64 " or max_kv_len %" PRIu64 " is above 2^31 - 1",
                      max_rows, max_query_tokens, max_kv_len);
  }
  if (num_q_heads == 0 || num_q_heads > kMaxHeads) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "num_q_heads is %u, not 1 to %u", num_q_heads, kMaxHeads);
  }
  if (head_dim_v == 0 || head_dim_v > kMaxHeadDim) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "head_dim_v is %u, not 1 to %u", head_dim_v, kMaxHeadDim);
  }
  const PlanBounds b = plan_bounds(max_rows, max_query_tokens, num_q_heads, workers);
  *plan_bytes = plan_size(b.records, b.merges);
  *workspace_bytes = b.partial_rows * partial_width(head_dim_v) * 4;
  return QUIRE_OK;
}

quire_code make_plan(const AttentionOp& op, const AttentionJob& job, void* plan, uint64_t plan_bytes, quire_error* err) {
  if (plan == nullptr || reinterpret_cast<uintptr_t>(plan) % 8 != 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "plan is %p, not an address aligned to 8 bytes", plan);
  }
  const int64_t tokens = op.num_rows == 0 ? 0 : op.query_indptr[op.num_rows] - op.query_indptr[0];
  const PlanBounds b = plan_bounds(op.num_rows, static_cast<uint64_t>(tokens), job.shape.num_q_heads, job.shape.workers);
  const uint64_t needed = plan_size(b.records, b.merges);
  if (plan_bytes < needed)
    return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "plan_bytes is %" PRIu64 ", this step needs %" PRIu64, plan_bytes, needed);
  PlanHeader h{};
  char* bytes = static_cast<char*>(plan);
  auto* records = reinterpret_cast<PlanRecord*>(bytes + sizeof h);
  auto* merges = reinterpret_cast<PlanMerge*>(bytes + sizeof h + b.records * sizeof(PlanRecord));
  Planner planner(job.shape, b.partial_rows);
  const Planner::Batch n = planner.next(records, b.records, merges, b.merges);
  if (!planner.done())
    return QUIRE_FAIL(err, QUIRE_INTERNAL, "plan: %" PRIu64 " records or %" PRIu64 " merges were not enough", b.records, b.merges);
  memmove(bytes + sizeof h + n.records * sizeof(PlanRecord), merges, n.merges * sizeof(PlanMerge));
  h.magic = kPlanMagic;
  h.version = kPlanVersion;
  h.bytes = plan_size(n.records, n.merges);
  h.fingerprint = plan_fingerprint(job.shape);
  h.num_records = n.records;
  h.num_merges = n.merges;
  h.partial_rows = n.partial_rows;
  h.num_rows = op.num_rows;
  h.num_q_heads = job.shape.num_q_heads;
  h.num_kv_heads = job.shape.num_kv_heads;
  h.head_dim_v = job.value.head_dim;
  memcpy(bytes, &h, sizeof h);
  return QUIRE_OK;
}

}  // namespace quire::drivers
