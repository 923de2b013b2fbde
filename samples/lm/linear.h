// linear.h: products with weights, y = x W^T + bias, by oneDNN.
//
// Weights are packed once into the layout that oneDNN's kernels prefer. A few rows, as decode steps
// have, are multiplied by few_rows.h in that layout. Activations and sums are fp32. Three ways of
// keeping the weights:
// - kFp32: widened. Nothing is lost.
// - kSplit: as bf16, for bf16 checkpoints on processors with products of bf16. An activation is the
//   sum of two bf16 numbers, each multiplied: 16 bits of it count. Half the memory, and as fast as
//   kFp32 in prefill; to decode takes half the time, for the weights are what has to be read.
// - kBf16: as bf16, and activations are rounded to bf16, too. The fastest, not exact.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint.h"
#include "matrix.h"

namespace lm {

enum class ProductType { kFp32, kSplit, kBf16 };
// True if the processor multiplies bf16 by itself.
bool has_bf16_products();

// How a tensor of weights lies in the checkpoint.
enum class Order { kOutputsInputs, kInputsOutputs };

// A copy shares the weights.
class Linear {
 public:
  Linear() = default;
  // parts: matrices of the same inputs; their outputs follow one another.
  Linear(std::vector<TensorView> parts, Order order, std::vector<float> bias, ProductType type);

  explicit operator bool() const { return packed_ != nullptr; }
  int64_t inputs() const;
  int64_t outputs() const;
  // One row of outputs per row of x. Rows do not depend on each other, and a row's result does not
  // depend on how many there are.
  Matrix operator()(const Matrix& x) const;

  void pack() const;
  uint64_t packed_bytes() const;

 private:
  struct Packed;
  std::shared_ptr<Packed> packed_;
};

// Rows of a table by token id.
class Embedding {
 public:
  Embedding() = default;
  // table: [tokens, width].
  explicit Embedding(TensorView table) : table_(std::move(table)) {}
  const TensorView& table() const { return table_; }
  Matrix operator()(std::span<const int32_t> ids) const;

 private:
  TensorView table_;
};

}  // namespace lm
