// An op with a batch of one column of its own, for tests that make their arrays by hand.
#pragma once

#include <quire/ops.h>

#include <cstdint>

namespace quire {

template <typename Op>
struct WithBatch : Op {
  quire_batch arrays{};

  WithBatch() : Op{} {
    this->struct_size = sizeof(Op);
    arrays.struct_size = sizeof arrays;
    arrays.num_columns = 1;
    this->batch = &arrays;
  }
  WithBatch(const WithBatch& other) : Op(other), arrays(other.arrays) { follow(other); }
  WithBatch& operator=(const WithBatch& other) {
    Op::operator=(other);
    arrays = other.arrays;
    follow(other);
    return *this;
  }
  ~WithBatch() = default;

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
