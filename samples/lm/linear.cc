#include "linear.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "bf16.h"
#include "few_rows.h"
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
// Pairs of inputs that oneDNN packs together.
constexpr int64_t kPairs = 16;
constexpr int64_t kProbeRows = 5;

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

// Memory in pages of 2 MiB where the kernel grants them: all of it is read for every token.
class HugeBytes {
 public:
  HugeBytes() = default;
  explicit HugeBytes(size_t bytes) {
    constexpr size_t kHuge = size_t{2} << 20;
    constexpr size_t kLine = 64;
    const size_t alignment = bytes >= kHuge ? kHuge : kLine;
    at_.reset(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
    if (at_ == nullptr) throw std::bad_alloc();
    // A wish; what the kernel makes of it changes the speed only.
    if (bytes >= kHuge) ::madvise(at_.get(), bytes / kHuge * kHuge, MADV_HUGEPAGE);
  }
  void* data() const { return at_.get(); }

 private:
  struct Free {
    void operator()(void* at) const { std::free(at); }
  };
  std::unique_ptr<void, Free> at_;
};

// Some of the outputs, which one thread computes at a time.
struct Slice {
  int64_t first = 0;
  int64_t count = 0;
  HugeBytes bytes;
  memory weights;
  std::unordered_map<int64_t, Kernel> kernels;  // by rows
  // Products, dense: oneDNN's fastest kernels write no others.
  std::vector<float> out;
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
  int64_t chunk = 0;  // inputs that are summed together; 0 = oneDNN multiplies few rows, too

  matmul::primitive_desc describe(const Slice& slice, int64_t rows,
                                  const memory::desc& layout) const {
    const memory::desc y = rows_of(rows, slice.count, memory::data_type::f32);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return {matmul::desc(rows_of(rows, inputs, type), layout, y), attributes, cpu()};
  }

  void make_slices() {
    const int64_t threads = inputs * outputs < kSmall ? 1 : num_threads();
    const int64_t wanted = (outputs + threads - 1) / threads;
    const int64_t width = (wanted + kSliceStep - 1) / kSliceStep * kSliceStep;
    for (int64_t first = 0; first < outputs; first += width) {
      Slice& slice = slices.emplace_back();
      slice.first = first;
      slice.count = std::min(width, outputs - first);
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
    const memory::desc layout = describe(slice, kTypicalRows, any).weights_desc();
    slice.bytes = HugeBytes(layout.get_size());
    slice.weights = memory(layout, cpu(), slice.bytes.data());
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

  // True if the weights lie as multiply_panel() reads them.
  bool has_panels() const {
    return type == memory::data_type::bf16 && has_bf16_products() && inputs % (2 * kPairs) == 0 &&
           std::all_of(slices.begin(), slices.end(), [&](const Slice& slice) {
             return slice.weights.get_desc() ==
                    memory::desc({inputs, slice.count}, type, memory::format_tag::BA16a64b2a);
           });
  }

  // A row has to come out the same together with many others, which oneDNN multiplies. The order in
  // which it sums is its own affair: finds the one that gives equal results, if there is one.
  void find_order() {
    if (!has_panels()) return;
    Matrix x(kProbeRows, inputs);
    uint32_t random = 1;
    for (float& value : x.data) {
      random = random * 1664525U + 1013904223U;
      value = static_cast<float>(static_cast<int32_t>(random)) * 0x1p-31F;
    }
    const Matrix wanted = run_slices(x);
    for (const int64_t some : {inputs, int64_t{1024}, int64_t{512}, int64_t{256}, int64_t{128}}) {
      chunk = std::min(some, inputs);
      if (std::memcmp(run_panels(x).data.data(), wanted.data.data(),
                      wanted.data.size() * sizeof(float)) == 0)
        return;
    }
    chunk = 0;
  }

  // A few rows: panels of all slices, each by whichever thread is free.
  Matrix run_panels(const Matrix& x) const {
    const PairedRows rows = pair_rows(x.data, inputs, is_split);
    Matrix y(x.rows, outputs);
    // All slices but the last have the same width, of whole panels.
    const int64_t panels_of_slice = (slices[0].count + Panels::kOutputs - 1) / Panels::kOutputs;
    const int64_t count = (outputs + Panels::kOutputs - 1) / Panels::kOutputs;
    const auto multiply = [&](int64_t panel) {
      const Slice& slice = slices[static_cast<size_t>(panel / panels_of_slice)];
      const int64_t inner = panel % panels_of_slice;
      const int64_t first = panel * Panels::kOutputs;
      multiply_panel({static_cast<const uint16_t*>(slice.bytes.data()), chunk}, inner, rows,
                     y.data.data() + first, outputs, std::min(outputs - first, Panels::kOutputs));
    };
    if (slices.size() == 1) {
      for (int64_t panel = 0; panel < count; ++panel) multiply(panel);
    } else {
      parallel(count, multiply);
    }
    return y;
  }

  // rows: of x as it is multiplied; y: the product's own rows.
  void run(Slice& slice, int64_t rows, void* x, Matrix& y) const {
    auto found = slice.kernels.find(rows);
    if (found == slice.kernels.end()) {
      if (slice.kernels.size() >= kMaxKernels) slice.kernels.clear();
      found = slice.kernels.emplace(rows, make_kernel(slice, rows)).first;
    }
    slice.out.resize(static_cast<size_t>(rows * slice.count));
    Kernel& kernel = found->second;
    kernel.x.set_data_handle(x);
    kernel.y.set_data_handle(slice.out.data());
    const size_t scratch = kernel.scratch.get_size();
    if (scratch != 0) kernel.arguments[DNNL_ARG_SCRATCHPAD].set_data_handle(scratchpad(scratch));
    kernel.product.execute(queue(), kernel.arguments);
    queue().wait();
    const float* from = slice.out.data();
    for (int64_t r = 0; r < y.rows; ++r, from += slice.count) {
      float* to = y[r] + slice.first;
      std::copy_n(from, slice.count, to);
      if (!is_split) continue;
      const float* rest = from + y.rows * slice.count;
      for (int64_t i = 0; i < slice.count; ++i) to[i] += rest[i];
    }
  }

  // Any number of rows: each thread computes slices.
  Matrix run_slices(const Matrix& x) {
    Matrix y(x.rows, outputs);
    std::vector<uint16_t> narrow;
    void* source = const_cast<float*>(x.data.data());
    if (type != memory::data_type::f32) {
      narrow = bf16_rows(x, is_split);
      source = narrow.data();
    }
    const int64_t rows = is_split ? 2 * x.rows : x.rows;
    parallel(static_cast<int64_t>(slices.size()),
             [&](int64_t i) { run(slices[static_cast<size_t>(i)], rows, source, y); });
    return y;
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
  p.find_order();
}

Matrix Linear::operator()(const Matrix& x) const {
  Packed& p = *packed_;
  if (x.width != p.inputs)
    throw Error("a product of " + std::to_string(p.inputs) + " inputs gets " +
                std::to_string(x.width));
  if (x.rows == 0) return {0, p.outputs};
  pack();
  Matrix y = p.chunk != 0 && is_few_rows(x.rows) ? p.run_panels(x) : p.run_slices(x);
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
