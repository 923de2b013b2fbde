// linear.h: products with weights, y = x W^T + bias, by oneDNN.
//
// Weights are packed once into the layout that oneDNN's kernels prefer. Activations are fp32 and
// sums are fp32. Weights are kept as fp32: bf16 and fp16 checkpoints lose nothing. kBf16 keeps them
// as bf16 and rounds activations to bf16 too: half the memory, faster, not exact.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint.h"
#include "matrix.h"

namespace lm {

enum class ProductType { kFp32, kBf16 };
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
