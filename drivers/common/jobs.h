// Checked ops, ready for kernels: what an op's arguments mean, worked out once on the host.
#pragma once

#include "drivers/common/address.h"
#include "drivers/common/batch_ops.h"
#include "drivers/common/row_code.h"
#include "drivers/common/tiles.h"

namespace quire::drivers {

struct AttentionJob {
  const AttentionOp* op;
  PlanShape shape;
  quire_paged_side key;
  quire_paged_side value;
  RowCode code;
  Real cache;  // kNone: rows are codes
  Real query;
  Real out;
  uint32_t group;  // query heads of a KV head
  float scale;     // of logits, scale_k included
  float scale_v;
  float* partials;  // workspace
};

struct GatedDeltaJob {
  const GatedDeltaOp* op;
  Real state;
  uint32_t heads_k, heads_v, dim_k, dim_v;
  int64_t stride_head, stride_k, stride_v;  // of the state, bytes
  float scale;
  bool per_channel;  // gate [tokens, heads, dim_k]
};

struct Conv1dJob {
  const Conv1dOp* op;
  uint32_t width;
  uint32_t channels;
};

struct ScanJob {
  const SelectiveScanOp* op;
  Real state;
  uint32_t heads, head_dim, state_dim, groups;
  int64_t stride_head, stride_line, stride_element;  // of the state, bytes
  bool per_element;                                  // a [heads, state_dim]
};

// The states that a row leaves behind, in the order of its tokens. Tokens are counted over all
// rows.
class StateWrites {
 public:
  QUIRE_HD StateWrites(const BatchColumn& op, uint32_t row) : op_(op), next_(static_cast<int32_t>(row)), last_(next_ + 1) {
    end_ = op.query_indptr[row + 1];
    if (op.state_write_indptr != nullptr) {
      next_ = op.state_write_indptr[row];
      last_ = op.state_write_indptr[row + 1];
      end_ -= op.kv_len[row];
    }
    find_due();
  }
  // The token before which the next state is taken; behind all tokens where none is left.
  QUIRE_HD int64_t due() const { return due_; }
  // Whether one more is the state as it is before `token`; *slot is where it goes, negative =
  // nowhere.
  QUIRE_HD bool take(int64_t token, int32_t* slot) {
    if (due_ > token) return false;
    *slot = op_.state_write[next_++];
    find_due();
    return true;
  }

 private:
  // Read once, so that a token without a state to take costs no access to memory.
  QUIRE_HD void find_due() {
    due_ = next_ >= last_ ? INT64_MAX : op_.state_write_indptr == nullptr ? end_ : end_ + op_.state_write_ends[next_];
  }

  const BatchColumn& op_;
  int32_t next_, last_;
  int64_t end_;  // the token behind the row's last, or that of the sequence's begin
  int64_t due_;
};

}  // namespace quire::drivers
