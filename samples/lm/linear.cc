#include "linear.h"

#include <algorithm>
#include <bit>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "lm_error.h"
#include "lm_threads.h"

namespace lm {
namespace {

using dnnl::matmul;
using dnnl::memory;

// Layouts are chosen for this many rows; every kernel that follows reads that layout.
constexpr int64_t kTypicalRows = 64;
constexpr size_t kMaxKernels = 256;
// Elements below which a product is not worth a second thread, and outputs that stay together.
constexpr int64_t kSmall = int64_t{1} << 18;
constexpr int64_t kSliceStep = 64;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
dnnl::stream& queue() {
  thread_local dnnl::stream stream(cpu());
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

// A product of so many rows. The arguments are made once; their addresses change.
struct Kernel {
  matmul product;
  memory::desc scratch;
  memory x;
  memory y;
  std::unordered_map<int, memory> arguments;
};

// Memory for what a product needs meanwhile, one per thread.
static void* scratchpad(size_t bytes) {
  constexpr size_t kAlignment = 64;
  thread_local std::vector<std::byte> pad;
  if (pad.size() < bytes + kAlignment) pad.resize(bytes + kAlignment);
  void* at = pad.data();
  size_t room = pad.size();
  return std::align(kAlignment, bytes, at, room);
}

// Some of the outputs, which one thread computes at a time.
struct Slice {
  int64_t first = 0;
  int64_t count = 0;
  memory weights;
  std::unordered_map<int64_t, Kernel> kernels;  // by rows
};

struct Linear::Packed {
  std::vector<TensorView> parts;
  Order order = Order::kOutputsInputs;
  std::vector<float> bias;
  int64_t inputs = 0;
  int64_t outputs = 0;
  memory::data_type type = memory::data_type::f32;
  bool is_split = false;
  std::vector<Slice> slices;  // empty until they are packed

  matmul::primitive_desc describe(const Slice& slice, int64_t rows,
                                  const memory::desc& layout) const {
    const memory::desc y({rows, slice.count}, memory::data_type::f32, memory::dims{outputs, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return {matmul::desc(rows_of(rows, inputs, type), layout, y), attributes, cpu()};
  }

  void make_slices() {
    const int64_t threads = inputs * outputs < kSmall ? 1 : num_threads();
    const int64_t wanted = (outputs + threads - 1) / threads;
    const int64_t width = (wanted + kSliceStep - 1) / kSliceStep * kSliceStep;
    for (int64_t first = 0; first < outputs; first += width) {
      slices.push_back({first, std::min(width, outputs - first), {}, {}});
    }
  }

  // The weights of a slice as fp32: [outputs, inputs] or [inputs, outputs].
  std::vector<float> plain(const Slice& slice) const {
    std::vector<float> values(static_cast<size_t>(inputs * slice.count));
    std::span<float> to(values);
    if (order == Order::kInputsOutputs) {
      for (int64_t i = 0; i < inputs; ++i) {
        parts[0].widen(i * outputs + slice.first, to.subspan(static_cast<size_t>(i * slice.count),
                                                             static_cast<size_t>(slice.count)));
      }
      return values;
    }
    int64_t begin = 0;  // of the part, in outputs
    for (const TensorView& part : parts) {
      const int64_t from = std::max(slice.first, begin);
      const int64_t end = std::min(slice.first + slice.count, begin + part.shape[0]);
      if (from < end) {
        part.widen((from - begin) * inputs,
                   to.subspan(static_cast<size_t>((from - slice.first) * inputs),
                              static_cast<size_t>((end - from) * inputs)));
      }
      begin += part.shape[0];
    }
    return values;
  }

  void pack(Slice& slice) const {
    std::vector<float> values = plain(slice);
    const auto tag =
        order == Order::kOutputsInputs ? memory::format_tag::ba : memory::format_tag::ab;
    memory from({{inputs, slice.count}, memory::data_type::f32, tag}, cpu(), values.data());
    const memory::desc any({inputs, slice.count}, type, memory::format_tag::any);
    slice.weights = memory(describe(slice, kTypicalRows, any).weights_desc(), cpu());
    dnnl::reorder(from, slice.weights).execute(queue(), from, slice.weights);
    queue().wait();
  }

  Kernel make_kernel(const Slice& slice, int64_t rows) const {
    const matmul::primitive_desc made = describe(slice, rows, slice.weights.get_desc());
    Kernel kernel;
    kernel.product = matmul(made);
    kernel.scratch = made.scratchpad_desc();
    kernel.x = memory(made.src_desc(), cpu(), nullptr);
    kernel.y = memory(made.dst_desc(), cpu(), nullptr);
    kernel.arguments = {
        {DNNL_ARG_SRC, kernel.x}, {DNNL_ARG_WEIGHTS, slice.weights}, {DNNL_ARG_DST, kernel.y}};
    if (kernel.scratch.get_size() != 0)
      kernel.arguments[DNNL_ARG_SCRATCHPAD] = memory(kernel.scratch, cpu(), nullptr);
    return kernel;
  }

  void run(Slice& slice, int64_t rows, void* x, float* y) const {
    auto found = slice.kernels.find(rows);
    if (found == slice.kernels.end()) {
      if (slice.kernels.size() >= kMaxKernels) slice.kernels.clear();
      found = slice.kernels.emplace(rows, make_kernel(slice, rows)).first;
    }
    Kernel& kernel = found->second;
    kernel.x.set_data_handle(x);
    kernel.y.set_data_handle(y + slice.first);
    const size_t scratch = kernel.scratch.get_size();
    if (scratch != 0) kernel.arguments[DNNL_ARG_SCRATCHPAD].set_data_handle(scratchpad(scratch));
    kernel.product.execute(queue(), kernel.arguments);
    queue().wait();
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
  if (!p.slices.empty()) return;
  p.make_slices();
  parallel(static_cast<int64_t>(p.slices.size()),
           [&](int64_t i) { p.pack(p.slices[static_cast<size_t>(i)]); });
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
  parallel(static_cast<int64_t>(p.slices.size()), [&](int64_t i) {
    p.run(p.slices[static_cast<size_t>(i)], rows, source, y.data.data());
  });
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
