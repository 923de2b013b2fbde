#include "weights.h"

#include "lm_error.h"

namespace lm {

Weights::Weights(std::shared_ptr<const Checkpoint> checkpoint, ProductType products)
    : checkpoint_(std::move(checkpoint)), shared_(std::make_shared<Shared>(Shared{products, {}})) {}

Weights Weights::at(std::string_view part) const {
  Weights inner = *this;
  inner.prefix_ += std::string(part) + ".";
  return inner;
}

TensorView Weights::tensor(std::string_view name, std::vector<int64_t> shape) const {
  return checkpoint_->get(prefix_ + std::string(name), shape);
}

std::vector<float> Weights::vector(std::string_view name, int64_t size, float plus) const {
  std::vector<float> values = tensor(name, {size}).floats();
  for (float& x : values) x += plus;
  return values;
}

Linear Weights::linear(std::string_view name, int64_t inputs, int64_t outputs, Bias bias) const {
  const std::string full(name);
  std::vector<float> offsets;
  if (bias == Bias::kYes) offsets = vector(full + ".bias", outputs);
  return linear_of(tensor(full + ".weight", {outputs, inputs}), Order::kOutputsInputs,
                   std::move(offsets));
}

Linear Weights::linear_of(const TensorView& tensor, Order order, std::vector<float> bias) const {
  if (tensor.shape.size() != 2)
    throw Error("tensor " + tensor.name + ": shape " + shape_text(tensor.shape) + " is no matrix");
  Linear product({tensor}, order, std::move(bias), shared_->type);
  shared_->products.push_back(product);
  return product;
}

Linear Weights::linear_of(std::vector<TensorView> parts) const {
  Linear product(std::move(parts), Order::kOutputsInputs, {}, shared_->type);
  shared_->products.push_back(product);
  return product;
}

Linear Weights::joined(std::span<const std::string> names, int64_t inputs,
                       std::span<const int64_t> outputs, Bias bias) const {
  std::vector<TensorView> parts;
  std::vector<float> offsets;
  for (size_t i = 0; i < names.size(); ++i) {
    parts.push_back(tensor(names[i] + ".weight", {outputs[i], inputs}));
    if (bias == Bias::kNo) continue;
    const std::vector<float> part = vector(names[i] + ".bias", outputs[i]);
    offsets.insert(offsets.end(), part.begin(), part.end());
  }
  Linear product(std::move(parts), Order::kOutputsInputs, std::move(offsets), shared_->type);
  shared_->products.push_back(product);
  return product;
}

void Weights::load(const std::function<void(size_t, size_t)>& progress) const {
  const size_t all = shared_->products.size();
  for (size_t i = 0; i < all; ++i) {
    shared_->products[i].pack();
    if (progress) progress(i + 1, all);
  }
}

uint64_t Weights::packed_bytes() const {
  uint64_t sum = 0;
  for (const Linear& product : shared_->products) sum += product.packed_bytes();
  return sum;
}

}  // namespace lm
