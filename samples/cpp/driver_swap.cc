// One program, any driver: QUIRE_DRIVER=cpu, null, ... names it; nothing here is compiled for one.
#define QUIRE_EXCEPTIONS
#include <array>
#include <cstdio>
#include <numeric>
#include <quire.hpp>

static quire_tensor fp32(float* data, int32_t ndim) {  // [1 token, 1 head(, 4)]
  return {data, {QUIRE_DTYPE_FLOAT, 32, 1}, QUIRE_DEVICE_CPU, 0, ndim, {1, 1, 4}, {16, 16, 4}, 0};
}

// Bytes of the device: any driver has these.
static void bytes_story(const quire::Device& device, const quire::Stream& stream) {
  quire_tensor wish{};
  wish.dtype = {QUIRE_DTYPE_UINT, 8, 1};
  wish.ndim = 2;
  wish.shape[0] = 3, wish.shape[1] = 5;
  const auto tensor = quire::Tensor::create(device, wish);
  std::array<unsigned char, 15> all{};
  const quire_copy_run run = {reinterpret_cast<uint64_t>(tensor.view.data),
                              reinterpret_cast<uint64_t>(all.data()), all.size()};
  stream.fill({static_cast<std::byte*>(tensor.view.data), all.size()}, 7);
  stream.copy({&run, 1});
  stream.synchronize();
  std::printf("tensor [3, 5] filled with 7 and copied: sum %u\n",
              std::accumulate(all.begin(), all.end(), 0U));
}

// A kernel: two partial results of attention become one. The null driver has none.
static void kernel_story(const quire::Stream& stream) {
  float part[2][4] = {{1, 2, 3, 4}, {3, 4, 5, 6}};
  float lse[2] = {0.5F, 0.5F};
  std::array<float, 4> out{};
  const std::array parts = {fp32(part[0], 3), fp32(part[1], 3)};
  const std::array weights = {fp32(&lse[0], 2), fp32(&lse[1], 2)};
  auto merge = quire::make<quire_attention_merge>();
  merge.num_parts = 2;
  merge.partial_out = parts.data();
  merge.partial_lse = weights.data();
  merge.out = fp32(out.data(), 3);
  stream.attention_merge(merge);
  stream.synchronize();
  std::printf("merged with equal weights: %.1f %.1f %.1f %.1f\n", double{out[0]}, double{out[1]},
              double{out[2]}, double{out[3]});
}

int main() {
  try {
    const auto device = quire::Device::open(
        quire::Runtime::create());  // reads QUIRE_DRIVER; an option `driver` would win over it
    std::printf("driver %s\n", device.info().driver);
    const auto stream = quire::Stream::create(device);
    bytes_story(device, stream);
    kernel_story(stream);
    return 0;
  } catch (const quire::Exception& failure) {
    std::printf("%s: %s\n", failure.error().name().data(), failure.what());
    return 1;
  }
}
