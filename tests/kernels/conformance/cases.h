// Caches, queries and tables for the tests. The same logical content can be laid out in any way; everything that no row owns holds NaN
// patterns.
#pragma once

#include "tests/kernels/conformance/open_driver.h"
#include "tests/kernels/conformance/with_batch.h"

#include <quire/ops.h>

#include <cstdint>
#include <string>
#include <vector>

namespace quire::conformance {

inline constexpr quire_dtype kF32 = {QUIRE_DTYPE_FLOAT, 32, 1};
inline constexpr quire_dtype kF16 = {QUIRE_DTYPE_FLOAT, 16, 1};
inline constexpr quire_dtype kBf16 = {QUIRE_DTYPE_BFLOAT, 16, 1};
inline constexpr quire_dtype kE4m3 = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
inline constexpr quire_dtype kE5m2 = {QUIRE_DTYPE_FLOAT8_E5M2, 8, 1};
inline constexpr quire_dtype kI8 = {QUIRE_DTYPE_INT, 8, 1};

// A number near N(0, 1), a function of its five coordinates.
double normal(uint64_t seed, uint64_t a, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0);
uint64_t mixed(uint64_t seed, uint64_t a, uint64_t b = 0);

// How a cache lies in memory: an order of letters B (id), K (side), T (token), H (head), D (element), outermost first, and oddities.
struct Layout {
  std::string order = "BKTHD";
  int64_t gap = 0;        // extra bytes after every id: other layers, states
  int64_t pad_token = 0;  // extra bytes after every token
  bool reversed_heads = false;
  int64_t lead = 0;              // bytes before the first row
  std::string value_order = {};  // V lies apart from K in an order of its own; K must then not occur in either
};

struct Row {
  int32_t queries;
  int32_t length;
};

struct Shape {
  uint32_t q_heads = 4;
  uint32_t kv_heads = 2;
  uint32_t dim_k = 64;
  uint32_t dim_v = 64;
  uint32_t block = 16;
  uint32_t sides = 2;
  quire_dtype cache = kBf16;
  quire_dtype query = kBf16;
  quire_dtype out = kBf16;
  uint64_t seed = 1;
  uint64_t id_seed = 1;  // order of the ids
  double spread = 1.0;   // of queries: large logits
  double climb = 0;      // the logits of some heads rise by so much with every 64 keys, those of others fall, around 0
  std::vector<Row> rows;
};

// One attention call with everything it points to.
class AttentionCase {
 public:
  AttentionCase(const Shape& shape, const Layout& layout);
  AttentionCase(const AttentionCase&) = delete;
  AttentionCase& operator=(const AttentionCase&) = delete;

  WithBatch<quire_attention> op{};
  Array<uint8_t> pool;
  Array<int32_t> table, indptr, lengths;
  Shape shape;

  // Writes NaN over positions [first, last) of a row and points their whole blocks at id 0.
  void poison(uint32_t row, int32_t first, int32_t last);
  // Forgets the outputs: fills them with a NaN pattern.
  void reset();
  std::vector<double> out() const;
  std::vector<double> lse() const;
  // Bytes outside the elements of out and lse are as reset left them.
  bool padding_untouched() const;
  // No byte of out and lse has changed since reset.
  bool outputs_untouched() const;
  int64_t total_queries() const { return indptr.back(); }

 private:
  Array<uint8_t> query_, out_, lse_;
};

// Strided memory for a tensor: `pad` extra bytes after every row of the last dimension.
quire_tensor make_tensor(Array<uint8_t>* bytes, quire_dtype dtype, std::vector<int64_t> shape, int64_t pad);
void fill_normal(const quire_tensor& tensor, uint64_t seed, double spread = 1.0);
quire_paged_kv make_kv(Array<uint8_t>* pool, const Shape& shape, const Layout& layout, uint64_t ids);

// Relative L2 error of rows of `width` against the oracle: mean and worst. Rows the oracle calls zero must be zero.
struct Errors {
  double mean = 0;
  double worst = 0;
};
Errors row_errors(const std::vector<double>& got, const std::vector<double>& want, uint64_t width);
// Bounds by format of cache, query and output.
Errors bounds(const Shape& shape);
// The largest errors of attention's results in bf16, of the tests that compare it with the oracle, for release notes.
void note_errors(const Shape& shape, const Errors& errors, const std::string& what);
void print_noted_errors();

}  // namespace quire::conformance
