// An op with a batch of one column of its own, for tests that make their arrays by hand.
#pragma once

#include <quire/ops.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace quire {

template <typename Op>
struct WithBatch : Op {
  quire_batch arrays{};

  WithBatch() : Op{} {
    this->struct_size = sizeof(Op);
    arrays.struct_size = sizeof arrays;
    arrays.num_columns = 1;
    // Op{} is all zeros.
    this->batch = &arrays;  // NOLINT(clang-analyzer-optin.cplusplus.UninitializedObject)
  }
  WithBatch(const WithBatch& other) : Op(other), arrays(other.arrays) { follow(other); }
  WithBatch& operator=(const WithBatch& other) {
    Op::operator=(other);
    arrays = other.arrays;
    follow(other);
    return *this;
  }
  ~WithBatch() = default;

  // The cache is of column 1 of a group of two. Column 0 of `two` is filled with `decoy`; column 1
  // is the array of n elements.
  template <typename T, typename Cache, typename Array>
  void take_column_1(Cache* cache, const T** array, uint64_t* pitch, uint64_t n, Array* two, T decoy) {
    cache->group = arrays.group = 5;
    cache->column = 1;
    arrays.num_columns = 2;
    two->assign(2 * n, decoy);
    std::copy_n(*array, n, two->begin() + static_cast<std::ptrdiff_t>(n));
    *array = two->data();
    *pitch = n;
  }

  // So many tokens to append.
  void set_tokens(uint64_t n) {
    arrays.num_slots = n;
    arrays.num_tokens = static_cast<uint32_t>(n);
  }

 private:
  void follow(const WithBatch& other) {
    if (other.batch == &other.arrays) this->batch = &arrays;
  }
};

}  // namespace quire
