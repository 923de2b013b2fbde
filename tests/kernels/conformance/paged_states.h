// Paged states for the tests of the recurrent ops, and the rows that read and write them.
#pragma once

#include "tests/kernels/conformance/cases.h"

namespace quire::conformance {

inline constexpr int64_t kSlots = 24;

// A pool of kSlots states with NaN between them, `gap` bytes each time: a multiple of 16, or states
// are not aligned.
inline constexpr int64_t kGap = 48;
quire_paged_state make_state(Array<uint8_t>* pool, quire_dtype dtype, const std::vector<uint64_t>& shape, bool last_outermost,
                             int64_t gap = kGap);

// Rows: a prefill, a decode step in place, a new sequence, a result that is not kept, no tokens (the state moves), read and write apart.
// On the way: states behind some, all, none or the first of a row's tokens as well, and before the first.
struct StateRows {
  explicit StateRows(bool on_the_way);
  Array<int32_t> indptr, read, write, write_indptr, write_ends, kv_len;

  int64_t tokens() const { return indptr.back(); }
  template <typename Op>
  void give(Op* op) const {
    op->arrays.query_indptr = indptr.data();
    op->arrays.state_read = read.data();
    op->arrays.state_write = write.data();
    op->arrays.num_rows = static_cast<uint32_t>(read.size());
    if (write_indptr.empty()) return;
    op->arrays.state_write_indptr = write_indptr.data();
    op->arrays.state_write_ends = write_ends.data();
    op->arrays.kv_len = kv_len.data();
  }
};

}  // namespace quire::conformance
