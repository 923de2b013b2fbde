#include "tests/kernels/conformance/paged_states.h"

#include "tests/kernels/conformance/oracle.h"

namespace quire::conformance {

quire_paged_state make_state(Array<uint8_t>* pool, quire_dtype dtype, const std::vector<uint64_t>& shape, bool last_outermost,
                             int64_t gap) {
  quire_paged_state s{};
  s.dtype = dtype;
  s.ndim = static_cast<uint32_t>(shape.size());
  int64_t stride = oracle::bytes_of(dtype);
  for (uint32_t n = 0; n < s.ndim; ++n) {
    const uint32_t d = last_outermost ? n : s.ndim - 1 - n;
    s.shape[d] = shape[d];
    s.stride[d] = stride;
    stride *= static_cast<int64_t>(shape[d]);
  }
  s.unit = stride + gap;
  s.num_ids = kSlots;
  pool->assign(static_cast<size_t>(s.unit * kSlots), 0xff);
  s.base = pool->data();
  const int64_t n2 = s.ndim > 2 ? static_cast<int64_t>(s.shape[2]) : 1;
  for (int64_t id = 0; id < kSlots; ++id) {
    for (int64_t i = 0; i < static_cast<int64_t>(s.shape[0]); ++i) {
      for (int64_t j = 0; j < static_cast<int64_t>(s.shape[1]); ++j) {
        for (int64_t k = 0; k < n2; ++k) {
          oracle::encode(
              dtype, oracle::state_address(s, id, i, j, k),
              0.3 * normal(77, static_cast<uint64_t>(id), static_cast<uint64_t>(i), static_cast<uint64_t>(j), static_cast<uint64_t>(k)));
        }
      }
    }
  }
  return s;
}

StateRows::StateRows(bool on_the_way) : indptr{0, 37, 38, 43, 45, 45, 46}, read{1, 2, -1, 3, 4, 1}, write{5, 2, 6, -1, 7, 0} {
  if (!on_the_way) return;
  kv_len = {137, 10, 5, 22, 64, 1001};
  write_indptr = {0, 4, 5, 10, 10, 11, 13};
  write_ends = {105, 116, 116, 137, 10, 1, 2, 3, 4, 5, 64, 1000, 1001};
  write = {5, 6, -1, 7, 2, 8, 9, 10, 11, 12, 13, 14, 0};
}

}  // namespace quire::conformance
