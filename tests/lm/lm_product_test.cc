// Products with weights (samples/lm/linear.h). Method: property, and a sum in double as the reference.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "bf16.h"
#include "linear.h"
#include "lm_threads.h"

namespace {

struct Shape {
  int64_t inputs;
  int64_t outputs;
};
// One chunk of inputs and several, whole panels and not, one slice and several, inputs that no panel has.
constexpr Shape kShapes[] = {{32, 128}, {96, 100}, {160, 1536}, {1024, 1000}, {1056, 320}, {2048, 1024}, {3072, 640}, {100, 4096}};

struct Weights {
  explicit Weights(Shape shape) : bits(static_cast<size_t>(shape.inputs * shape.outputs)) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (uint16_t& value : bits) value = lm::rounded(normal(random));
    view.name = "weight";
    view.dtype = lm::Dtype::kBf16;
    view.shape = {shape.outputs, shape.inputs};
    view.data = reinterpret_cast<const std::byte*>(bits.data());
  }
  std::vector<uint16_t> bits;
  lm::TensorView view;
};

lm::Matrix random_rows(int64_t rows, int64_t width) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  lm::Matrix x(rows, width);
  for (float& value : x.data) value = normal(random);
  return x;
}

lm::Matrix some_rows(const lm::Matrix& x, int64_t first, int64_t count) {
  lm::Matrix some(count, x.width);
  std::memcpy(some.data.data(), x[first], some.data.size() * sizeof(float));
  return some;
}

std::vector<lm::ProductType> types() {
  if (!lm::has_bf16_products()) return {lm::ProductType::kFp32};
  return {lm::ProductType::kFp32, lm::ProductType::kSplit, lm::ProductType::kBf16};
}

class Product : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override { lm::set_threads(GetParam()); }
  void TearDown() override { lm::set_threads(0); }
};

TEST_P(Product, OfARowIsTheSameBesideAnyNumberOfRows) {
  if (!lm::has_bf16_products()) GTEST_SKIP() << "this processor has no products of bf16";
  for (const Shape shape : kShapes) {
    const Weights weights(shape);
    for (const lm::ProductType type : types()) {
      if (type == lm::ProductType::kFp32) continue;  // decode steps of fp32 are oneDNN's own
      const lm::Linear product({weights.view}, lm::Order::kOutputsInputs, {}, type);
      const lm::Matrix x = random_rows(64, shape.inputs);
      const lm::Matrix all = product(x);
      for (const int64_t count : {1, 2, 3, 4, 5, 8}) {
        const lm::Matrix y = product(some_rows(x, 11, count));
        EXPECT_EQ(std::memcmp(y.data.data(), all[11], y.data.size() * sizeof(float)), 0)
            << shape.inputs << " inputs, " << shape.outputs << " outputs, " << count << " rows, type " << static_cast<int>(type);
      }
    }
  }
}

TEST_P(Product, IsASumOverTheInputsPlusTheBias) {
  for (const Shape shape : kShapes) {
    const Weights weights(shape);
    std::vector<float> bias(static_cast<size_t>(shape.outputs));
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 7) - 3;
    for (const lm::ProductType type : types()) {
      const lm::Linear product({weights.view}, lm::Order::kOutputsInputs, bias, type);
      const lm::Matrix x = random_rows(2, shape.inputs);
      const lm::Matrix y = product(x);
      double difference = 0;
      double reference = 0;
      for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t o = 0; o < shape.outputs; ++o) {
          double sum = double{bias[static_cast<size_t>(o)]};
          for (int64_t i = 0; i < shape.inputs; ++i)
            sum += double{lm::widened(weights.bits[static_cast<size_t>(o * shape.inputs + i)])} * double{x[r][i]};
          difference += (sum - double{y[r][o]}) * (sum - double{y[r][o]});
          reference += sum * sum;
        }
      }
      const double bar = type == lm::ProductType::kFp32 ? 1e-6 : type == lm::ProductType::kSplit ? 1e-5 : 4e-3;
      EXPECT_LE(std::sqrt(difference / reference), bar)
          << shape.inputs << " inputs, " << shape.outputs << " outputs, type " << static_cast<int>(type);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Product, testing::Values(1U, 2U, 3U));

TEST(Threads, TakeEveryPartOnceAndHandOnTheFirstException) {
  lm::set_threads(3);
  std::vector<std::atomic<int>> taken(1000);
  for (int round = 0; round < 200; ++round) lm::parallel(1000, [&](int64_t part) { ++taken[static_cast<size_t>(part)]; });
  for (const auto& count : taken) EXPECT_EQ(count, 200);
  const auto fail = [](int64_t part) {
    if (part == 7) throw std::runtime_error("seven");
  };
  EXPECT_THROW(lm::parallel(100, fail), std::runtime_error);
  EXPECT_NO_THROW(lm::parallel(5, fail));
  lm::set_threads(0);
}

}  // namespace
