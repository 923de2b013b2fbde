#include "linear.h"

#include <bit>
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

uint16_t rounded(float x) {  // to the nearest bf16, ties to even
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
float widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Rows of x as bf16; with is_split as many rows again, with what rounding took from them.
std::vector<uint16_t> bf16_rows(const Matrix& x, bool is_split) {
  const size_t count = x.data.size();
  std::vector<uint16_t> rows(is_split ? 2 * count : count);
  for (size_t i = 0; i < count; ++i) rows[i] = rounded(x.data[i]);
  for (size_t i = 0; is_split && i < count; ++i)
    rows[count + i] = rounded(x.data[i] - widened(rows[i]));
  return rows;
}

}  // namespace

bool has_bf16_products() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & kNeeded) == kNeeded;
}

struct Linear::Packed {
  std::vector<TensorView> parts;
  Order order = Order::kOutputsInputs;
  std::vector<float> bias;
  int64_t inputs = 0;
  int64_t outputs = 0;
  memory::data_type type = memory::data_type::f32;
  bool is_split = false;
  memory weights;
  std::unordered_map<int64_t, matmul> kernels;  // by rows

  matmul::primitive_desc describe(int64_t rows, const memory::desc& layout) const {
    const auto x = rows_of(rows, inputs, type);
    const auto y = rows_of(rows, outputs, memory::data_type::f32);
    return {matmul::desc(x, layout, y), cpu()};
  }

  const matmul& kernel(int64_t rows) {
    const auto found = kernels.find(rows);
    if (found != kernels.end()) return found->second;
    if (kernels.size() >= kMaxKernels) kernels.clear();
    return kernels.emplace(rows, matmul(describe(rows, weights.get_desc()))).first->second;
  }

  // All parts, widened, as one matrix [outputs, inputs] or [inputs, outputs].
  std::vector<float> all_parts() const {
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
  packed_->is_split = type == ProductType::kSplit;
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
  std::vector<float> plain = p.all_parts();
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
  const int64_t rows = p.is_split ? 2 * x.rows : x.rows;
  Matrix y(rows, p.outputs);
  if (x.rows == 0) return y;
  pack();
  std::vector<uint16_t> narrow;
  void* source = const_cast<float*>(x.data.data());
  if (p.type != memory::data_type::f32) {
    narrow = bf16_rows(x, p.is_split);
    source = narrow.data();
  }
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, memory(rows_of(rows, p.inputs, p.type), cpu(), source)},
      {DNNL_ARG_WEIGHTS, p.weights},
      {DNNL_ARG_DST,
       memory(rows_of(rows, p.outputs, memory::data_type::f32), cpu(), y.data.data())}};
  p.kernel(rows).execute(queue(), arguments);
  queue().wait();
  if (p.is_split) {
    const size_t half = y.data.size() / 2;
    for (size_t i = 0; i < half; ++i) y.data[i] += y.data[half + i];
    y.data.resize(half);
    y.rows = x.rows;
  }
  if (p.bias.empty()) return y;
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t i = 0; i < y.width; ++i) y[r][i] += p.bias[static_cast<size_t>(i)];
  }
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
