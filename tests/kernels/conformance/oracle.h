// What the ops mean, in fp64, one element at a time. Shares no code with any driver: numbers are decoded with ldexp, addresses are summed
// here again.
#pragma once

#include <quire/ops.h>

#include <cstdint>
#include <vector>

namespace quire::oracle {

int64_t bytes_of(quire_dtype dtype);
double decode(quire_dtype dtype, const void* address);
// To the nearest number of the format, ties to even; fp8 and int8 saturate.
void encode(quire_dtype dtype, void* address, double value);

double element(const quire_tensor& tensor, int64_t i, int64_t j, int64_t k);
char* kv_address(const quire_paged_kv& kv, uint32_t side, int64_t id, int64_t token, int64_t head, int64_t dim);
char* state_address(const quire_paged_state& state, int64_t id, int64_t i, int64_t j, int64_t k);

struct Attention {
  std::vector<double> out;  // [tokens, q heads, head_dim_v]
  std::vector<double> lse;  // [tokens, q heads]
};
Attention attention(const quire_attention& op);

// Writes to the cache that op.kv names.
void append(const quire_kv_append& op);

// States of the recurrences: what the call leaves in entry i of state_write ([rows] of them, or state_write_indptr[rows]).
struct GatedDelta {
  std::vector<double> out;    // [tokens, heads_v, dim_v]
  std::vector<double> state;  // [entries, heads_v, dim_k, dim_v]
};
GatedDelta gated_delta(const quire_gated_delta& op);

struct Conv1d {
  std::vector<double> out;    // [tokens, channels]
  std::vector<double> state;  // [entries, width - 1, channels]
};
Conv1d conv1d(const quire_conv1d& op);

struct SelectiveScan {
  std::vector<double> out;    // [tokens, heads, head_dim]
  std::vector<double> state;  // [entries, heads, head_dim, state_dim]
};
SelectiveScan selective_scan(const quire_selective_scan& op);

}  // namespace quire::oracle
