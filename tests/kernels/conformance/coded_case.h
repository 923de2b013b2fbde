// A cache of rows of codes with scales (codec RECORD and BLOCK_SPLIT) that grows by appends, and attention over it.
#pragma once

#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/with_batch.h"

#include <quire/ops.h>

#include <cstdint>
#include <vector>

namespace quire::conformance {

inline constexpr quire_dtype kI4 = {QUIRE_DTYPE_INT, 4, 1};
inline constexpr quire_dtype kE2m1 = {QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1};
inline constexpr quire_dtype kE8m0 = {QUIRE_DTYPE_FLOAT8_E8M0FNU, 8, 1};
inline constexpr quire_dtype kNoType = {};

struct Scheme {
  const char* name;
  quire_dtype data, scale, tail;
  uint32_t scale_elements;
  uint32_t tail_dim;
  uint32_t more_scales;  // bytes behind the scales that are needed
  bool split;            // the scales of a block lie behind its rows
};

struct Heads {
  uint32_t query, kv, dim_k, dim_v;
};

// Row r of a step is sequence r. What no row owns holds a pattern.
class CodedCase {
 public:
  CodedCase(const Scheme& scheme, const Heads& heads, uint32_t sides, uint32_t block, std::vector<int32_t> lengths,
            quire_dtype query = kF32);
  CodedCase(const CodedCase&) = delete;
  CodedCase& operator=(const CodedCase&) = delete;

  quire_paged_kv kv{};
  Array<uint8_t> pool, mirror;
  float scale_k = 0, scale_v = 0;  // of appends

  // What position p of sequence r has: near N(0, 1), every fourth row small, some elements large, every ninth row zero.
  double source(uint32_t side, size_t r, int32_t p, uint32_t head, uint32_t d) const;

  // Appends positions [from of sequence r, to of it) of all of them through the driver and, on the mirror, the oracle.
  quire_code append(const std::vector<int32_t>& from, const std::vector<int32_t>& to, quire_error* err);

  struct Step {
    WithBatch<quire_attention> op{};
    Array<uint8_t> query, out, lse;
    Array<int32_t> indptr{0};
    Array<int32_t> kv_len;
  };
  // Attention of the last `queries` tokens of each sequence of these lengths.
  void prepare(const std::vector<int32_t>& kv_len, const std::vector<int32_t>& queries, Step* step) const;

  // A cache of plain elements that holds the decoded rows, or what was appended.
  quire_paged_kv plain(quire_dtype type, bool decoded, const std::vector<int32_t>& lengths, Array<uint8_t>* bytes) const;

  // The decoded element, a code times its scale in fp32, and by how much it may differ from what was appended.
  double value_of(uint32_t side, size_t r, int32_t p, uint32_t head, uint32_t d) const;
  double step_of(uint32_t side, size_t r, int32_t p, uint32_t head, uint32_t d) const;

  template <typename F>
  void each(const std::vector<int32_t>& lengths, F&& f) const {
    for (uint32_t side = 0; side < kv.num_sides; ++side) {
      for (size_t r = 0; r < lengths.size(); ++r) {
        for (int32_t p = 0; p < lengths[r]; ++p) {
          for (uint32_t head = 0; head < kv.num_heads; ++head) {
            for (uint32_t d = 0; d < kv.side[side].head_dim; ++d) f(side, r, p, head, d);
          }
        }
      }
    }
  }

 private:
  int32_t id_of(size_t r, int32_t p) const;
  quire_paged_kv mirrored();
  void write_row(const quire_tensor& t, int64_t i, uint32_t side, size_t r, int32_t p) const;
  void place(uint32_t sides, uint32_t block, uint64_t ids);

  Scheme scheme_;
  Heads heads_;
  std::vector<int32_t> lengths_;
  quire_dtype query_type_;
  uint64_t pitch_ = 1;
  Array<int32_t> table_;
};

}  // namespace quire::conformance
