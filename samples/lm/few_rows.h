// few_rows.h: products of a few rows with weights of bf16, as a decode step has them. What they
// cost is to read the weights: once, by all threads, a panel of outputs at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lm {

// Weights as oneDNN packs them for processors that multiply bf16 (BA16a64b2a): panels of 64
// outputs, each with pairs of inputs one after another: [pair of inputs][64 outputs][2].
struct Panels {
  static constexpr int64_t kOutputs = 64;
  const uint16_t* weights = nullptr;
  // So many inputs are summed one after another, then added to the sum of those before them.
  int64_t chunk = 0;
};

// Rows of bf16, two inputs in 32 bits. A row of an activation may be two rows, whose products add
// up.
struct PairedRows {
  std::vector<uint32_t> pairs;
  int64_t rows = 0;
  int64_t width = 0;  // pairs of a row
  int64_t parts = 1;  // rows of an activation
};
// x: rows of `inputs` floats, which must be even. is_split: each as the sum of two numbers of bf16.
PairedRows pair_rows(std::span<const float> x, int64_t inputs, bool is_split);

// True if products of this many activations are computed here.
bool is_few_rows(int64_t rows);
// y[row * pitch + i], i < outputs: the products of a panel with every row. Needs
// has_bf16_products().
void multiply_panel(const Panels& panels, int64_t panel, const PairedRows& x, float* y,
                    int64_t pitch, int64_t outputs);

}  // namespace lm
