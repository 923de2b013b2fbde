// Every address that a kernel touches is computed here, in 64-bit bytes. Tables carry lowered ids, so nothing divides per row: only slots
// do, once per token and side.
#pragma once

#include "drivers/common/real.h"

#include <quire/ops.h>

namespace quire::drivers {

// Whether strides and an address are multiples of a power of two.
QUIRE_HD bool multiples_of(uint64_t power, int64_t a, int64_t b, int64_t c, const void* at) {
  const uint64_t all = static_cast<uint64_t>(a | b | c) | reinterpret_cast<uintptr_t>(at);
  return (all & (power - 1)) == 0;
}

// Row of (lowered id, token in the block, head); element d lies stride_dim * d further.
QUIRE_HD char* paged_row(const quire_paged_side& side, int64_t id, int64_t token, int64_t head) {
  return static_cast<char*>(side.base) + id * side.unit + token * side.stride_token + head * side.stride_head;
}

struct SlotPlace {
  int64_t id;
  int64_t token;
};

// A slot is lowered id * block_tokens + token.
QUIRE_HD SlotPlace place_of_slot(int64_t slot, uint32_t block_tokens) {
  const int64_t id = static_cast<int64_t>(static_cast<uint64_t>(slot) / block_tokens);
  return {id, slot - id * static_cast<int64_t>(block_tokens)};
}

QUIRE_HD char* state_tensor(const quire_paged_state& state, int64_t id) { return static_cast<char*>(state.base) + id * state.unit; }

QUIRE_HD char* element3(const quire_tensor& t, int64_t i, int64_t j, int64_t k) {
  return static_cast<char*>(t.data) + i * t.stride[0] + j * t.stride[1] + k * t.stride[2];
}

QUIRE_HD char* element2(const quire_tensor& t, int64_t i, int64_t j) {
  return static_cast<char*>(t.data) + i * t.stride[0] + j * t.stride[1];
}

// The side that values are read from: a one-sided cache keeps them at the start of K's row.
QUIRE_HD quire_paged_side value_side(const quire_paged_kv& kv, uint32_t head_dim_v) {
  quire_paged_side side = kv.num_sides == 1 ? kv.side[0] : kv.side[1];
  if (kv.num_sides == 1 && head_dim_v != 0) {
    const uint32_t data = side.head_dim - side.tail_dim;
    side.head_dim = head_dim_v;
    side.tail_dim = head_dim_v > data ? head_dim_v - data : 0;
  }
  return side;
}

}  // namespace quire::drivers
