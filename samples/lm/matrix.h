// matrix.h: activations: rows of fp32, one row per token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lm {

struct Matrix {
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<float> data;  // dense, row after row

  Matrix() = default;
  Matrix(int64_t num_rows, int64_t num_columns)
      : rows(num_rows), width(num_columns), data(static_cast<size_t>(num_rows * num_columns)) {}

  float* operator[](int64_t row) { return data.data() + row * width; }
  const float* operator[](int64_t row) const { return data.data() + row * width; }
  std::span<float> row(int64_t index) { return {(*this)[index], static_cast<size_t>(width)}; }
  std::span<const float> row(int64_t index) const {
    return {(*this)[index], static_cast<size_t>(width)};
  }
};

// Columns [begin, begin + count) of every row, as a matrix of its own.
Matrix columns(const Matrix& from, int64_t begin, int64_t count);
// These rows, in this order.
Matrix gather(const Matrix& from, std::span<const int64_t> rows);

// to += scale * from; the shapes are equal.
void add(Matrix& to, const Matrix& from, float scale = 1);
void multiply(Matrix& values, float factor);
// values *= other, element by element.
void multiply(Matrix& values, const Matrix& other);

}  // namespace lm
