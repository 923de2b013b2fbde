#include "matrix.h"

#include <algorithm>

namespace lm {

Matrix columns(const Matrix& from, int64_t begin, int64_t count) {
  Matrix to(from.rows, count);
  for (int64_t r = 0; r < from.rows; ++r) std::copy_n(from[r] + begin, count, to[r]);
  return to;
}

Matrix gather(const Matrix& from, std::span<const int64_t> rows) {
  Matrix to(static_cast<int64_t>(rows.size()), from.width);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(from[rows[i]], from.width, to[static_cast<int64_t>(i)]);
  }
  return to;
}

void add(Matrix& to, const Matrix& from, float scale) {
  for (size_t i = 0; i < to.data.size(); ++i) to.data[i] += scale * from.data[i];
}

void multiply(Matrix& values, float factor) {
  for (float& x : values.data) x *= factor;
}

void multiply(Matrix& values, const Matrix& other) {
  for (size_t i = 0; i < values.data.size(); ++i) values.data[i] *= other.data[i];
}

}  // namespace lm
