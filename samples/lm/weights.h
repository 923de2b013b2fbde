// weights.h: the tensors of one part of a model, by the names that its checkpoint uses.
//
// A family reads its weights in its constructor:
//
//   Weights layer = weights.at("layers").at("3");
//   q_ = layer.linear("self_attn.q_proj", hidden, heads * head_dim, Bias::kNo);
//   norm_ = layer.vector("input_layernorm.weight", hidden);
//
// Names, dtypes and shapes are checked there. Products are packed later, by load(), so that
// everything that can be wrong with a checkpoint is found before memory is taken.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint.h"
#include "linear.h"

namespace lm {

enum class Bias { kNo, kYes };

class Weights {
 public:
  // products: the type in which weights of products are kept.
  Weights(std::shared_ptr<const Checkpoint> checkpoint, ProductType products);

  // The same with "<part>." before every name.
  Weights at(std::string_view part) const;
  Weights at(int64_t index) const { return at(std::to_string(index)); }
  bool has(std::string_view name) const { return checkpoint_->has(prefix_ + std::string(name)); }
  bool has_prefix(std::string_view part) const {
    return checkpoint_->has_prefix(prefix_ + std::string(part));
  }

  // A tensor of this shape, as it lies in the file.
  TensorView tensor(std::string_view name, std::vector<int64_t> shape) const;
  // A tensor with one dimension, as fp32. plus: added to every element (1 for Gemma's norms).
  std::vector<float> vector(std::string_view name, int64_t size, float plus = 0) const;
  // <name>.weight [outputs, inputs] and, with a bias, <name>.bias [outputs].
  Linear linear(std::string_view name, int64_t inputs, int64_t outputs,
                Bias bias = Bias::kNo) const;
  // The product with a tensor [outputs, inputs], or [inputs, outputs] if it is transposed.
  Linear linear_of(const TensorView& tensor, Order order = Order::kOutputsInputs,
                   std::vector<float> bias = {}) const;
  // The same of matrices [outputs, inputs] whose outputs follow one another.
  Linear linear_of(std::vector<TensorView> parts) const;
  // Several products of the same inputs as one, their outputs in a row.
  Linear joined(std::span<const std::string> names, int64_t inputs,
                std::span<const int64_t> outputs, Bias bias = Bias::kNo) const;

  // Packs all products that were made. progress(done, all) after each.
  void load(const std::function<void(size_t, size_t)>& progress = {}) const;
  // Bytes that load() takes.
  uint64_t packed_bytes() const;

 private:
  struct Shared {
    ProductType type;
    std::vector<Linear> products;
  };
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::shared_ptr<Shared> shared_;
  std::string prefix_;
};

}  // namespace lm
