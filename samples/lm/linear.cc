#include "linear.h"

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "lm_error.h"

namespace lm {
namespace {

using dnnl::matmul;
using dnnl::memory;

// Layouts are chosen for this many rows; every kernel that follows reads that layout.
constexpr int64_t kTypicalRows = 64;
constexpr size_t kMaxKernels = 256;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
dnnl::stream& queue() {
  static dnnl::stream stream(cpu());
  return stream;
}

memory::desc rows_of(int64_t rows, int64_t width, memory::data_type type) {
  return {{rows, width}, type, memory::format_tag::ab};
}

}  // namespace

struct Linear::Packed {
  std::vector<TensorView> parts;
  Order order = Order::kOutputsInputs;
  std::vector<float> bias;
  int64_t inputs = 0;
  int64_t outputs = 0;
  memory::data_type type = memory::data_type::f32;
  memory weights;
  std::unordered_map<int64_t, matmul> kernels;  // by rows

  matmul::primitive_desc describe(int64_t rows, const memory::desc& layout) const {
    const auto x = rows_of(rows, inputs, type);
    const auto y = rows_of(rows, outputs, memory::data_type::f32);
    if (bias.empty()) return {matmul::desc(x, layout, y), cpu()};
    return {matmul::desc(x, layout, rows_of(1, outputs, memory::data_type::f32), y), cpu()};
  }

  const matmul& kernel(int64_t rows) {
    const auto found = kernels.find(rows);
    if (found != kernels.end()) return found->second;
    if (kernels.size() >= kMaxKernels) kernels.clear();
    return kernels.emplace(rows, matmul(describe(rows, weights.get_desc()))).first->second;
  }

  // All parts, widened, as one matrix [outputs, inputs] or [inputs, outputs].
  std::vector<float> widened() const {
    std::vector<float> all(static_cast<size_t>(inputs * outputs));
    int64_t done = 0;
    for (const TensorView& part : parts) {
      part.widen(0, std::span(all).subspan(static_cast<size_t>(done),
                                           static_cast<size_t>(part.elements())));
      done += part.elements();
    }
    return all;
  }
};

Linear::Linear(std::vector<TensorView> parts, Order order, std::vector<float> bias,
               ProductType type)
    : packed_(std::make_shared<Packed>()) {
  if (order == Order::kInputsOutputs && parts.size() != 1)
    throw Error("only one matrix [inputs, outputs] can be packed");
  const size_t out = order == Order::kOutputsInputs ? 0 : 1;
  packed_->inputs = parts[0].shape[1 - out];
  for (const TensorView& part : parts) packed_->outputs += part.shape[out];
  packed_->parts = std::move(parts);
  packed_->order = order;
  packed_->bias = std::move(bias);
  packed_->type = type == ProductType::kFp32 ? memory::data_type::f32 : memory::data_type::bf16;
}

int64_t Linear::inputs() const { return packed_->inputs; }
int64_t Linear::outputs() const { return packed_->outputs; }

uint64_t Linear::packed_bytes() const {
  const uint64_t element = packed_->type == memory::data_type::f32 ? 4 : 2;
  return static_cast<uint64_t>(packed_->inputs * packed_->outputs) * element;
}

void Linear::pack() const {
  Packed& p = *packed_;
  if (p.weights.get(true) != nullptr) return;
  std::vector<float> plain = p.widened();
  const auto tag =
      p.order == Order::kOutputsInputs ? memory::format_tag::ba : memory::format_tag::ab;
  const memory from({{p.inputs, p.outputs}, memory::data_type::f32, tag}, cpu(), plain.data());
  const memory::desc any({p.inputs, p.outputs}, p.type, memory::format_tag::any);
  memory to(p.describe(kTypicalRows, any).weights_desc(), cpu());
  dnnl::reorder(from, to).execute(queue(), const_cast<memory&>(from), to);
  queue().wait();
  p.weights = std::move(to);
}

Matrix Linear::operator()(const Matrix& x) const {
  Packed& p = *packed_;
  if (x.width != p.inputs)
    throw Error("a product of " + std::to_string(p.inputs) + " inputs gets " +
                std::to_string(x.width));
  Matrix y(x.rows, p.outputs);
  if (x.rows == 0) return y;
  pack();
  memory source(rows_of(x.rows, p.inputs, memory::data_type::f32), cpu(),
                const_cast<float*>(x.data.data()));
  if (p.type != memory::data_type::f32) {
    memory rounded(rows_of(x.rows, p.inputs, p.type), cpu());
    dnnl::reorder(source, rounded).execute(queue(), source, rounded);
    source = std::move(rounded);
  }
  const memory result(rows_of(y.rows, p.outputs, memory::data_type::f32), cpu(), y.data.data());
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, p.weights}, {DNNL_ARG_DST, result}};
  if (!p.bias.empty())
    arguments[DNNL_ARG_BIAS] =
        memory(rows_of(1, p.outputs, memory::data_type::f32), cpu(), p.bias.data());
  p.kernel(x.rows).execute(queue(), arguments);
  queue().wait();
  return y;
}

Matrix Embedding::operator()(std::span<const int32_t> ids) const {
  const int64_t width = table_.shape[1];
  Matrix rows(static_cast<int64_t>(ids.size()), width);
  for (int64_t i = 0; i < rows.rows; ++i) {
    const int64_t id = ids[static_cast<size_t>(i)];
    if (id < 0 || id >= table_.shape[0])
      throw Error("token " + std::to_string(id) + " is outside of the vocabulary of " +
                  std::to_string(table_.shape[0]));
    table_.widen(id * width, rows.row(i));
  }
  return rows;
}

}  // namespace lm
