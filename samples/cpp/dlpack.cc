// DLPack both ways: the engine's buffer goes in, a layer's cache comes out as a view of the same
// bytes. Nothing is copied.
#define QUIRE_EXCEPTIONS
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <quire.hpp>

static void story(const quire::Runtime& runtime, const quire::Config& config, void* buffer,
                  quire::DlTensor bytes, quire::DlTensor rows) {
  quire::DlTensor keys;
  {
    const auto device = quire::Device::open(runtime);

    // In: one dense tensor per region. From now on the memory owns it.
    const auto memory = quire::Memory::bind(device, config, 0, std::span(&bytes, 1));
    keys = memory.export_dlpack(quire::layer_of(0));
    const auto shape = keys.shape(), stride = keys.strides();
    std::printf("keys: [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", shape[0],
                shape[1], shape[2], shape[3], shape[4]);
    std::printf(" with strides %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                stride[0], stride[1], stride[2], stride[3], stride[4]);

    // Out: a write through the view changes the engine's buffer.
    float* element = static_cast<float*>(keys.data()) + 2 * stride[0] + 5 * stride[2] + stride[3] +
                     7 * stride[4];
    *element = 1.5F;
    const ptrdiff_t at = reinterpret_cast<char*>(element) - static_cast<char*>(buffer);
    std::printf("key of page 2, token 5, head 1, item 7: byte %td of the buffer, %.1f\n", at,
                double{*reinterpret_cast<float*>(static_cast<char*>(buffer) + at)});

    // In, for an op: rows of 16 elements, 20 elements apart, used in place. A read-only tensor must
    // be imported as read-only.
    try {
      (void)quire::Tensor::import(device, rows);
    } catch (const quire::Exception& refused) {
      std::printf("%s: %s\n", refused.error().name().data(),
                  refused.what());  // the tensor is still ours
    }
    const auto query = quire::Tensor::import(device, rows, QUIRE_IMPORT_READ_ONLY);
    std::printf("query: strides %" PRId64 " %" PRId64 " %" PRId64 " bytes\n", query.view.stride[0],
                query.view.stride[1], query.view.stride[2]);
  }
  std::printf("the memory is released, the view is not\n");
}

int main() {
  try {
    const auto runtime = quire::Runtime::create();
    auto layer = quire::make<quire_layer>();
    layer.kind = QUIRE_LAYER_FULL;
    layer.num_kv_heads = layer.num_q_heads = 2;
    layer.head_dim_k = layer.head_dim_v = 8;
    layer.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
    auto room = quire::make<quire_plan_options>();
    room.num_pages = 5;
    const auto config = quire::Config::create(quire::Model::create({&layer, 1}, 64), room);
    const quire_region_info region = config.regions().front();
    std::printf("region: %" PRIu64 " bytes, aligned to %" PRIu64 "\n", region.bytes,
                region.alignment);
    const size_t whole =
        (region.bytes + region.alignment - 1) / region.alignment * region.alignment;
    const std::unique_ptr<void, decltype(&std::free)> buffer(
        std::aligned_alloc(region.alignment, whole), &std::free);
    std::array<float, 60> query{};
    const std::array<int64_t, 1> bytes = {static_cast<int64_t>(region.bytes)};
    const std::array<int64_t, 3> shape = {3, 2, 8}, strides = {20, 8, 1};
    story(runtime, config, buffer.get(),
          quire::DlTensor::over(buffer.get(), {QUIRE_DTYPE_UINT, 8, 1}, bytes, {},
                                [] { std::printf("the buffer is the engine's again\n"); }),
          quire::DlTensor::over(
              query.data(), {QUIRE_DTYPE_FLOAT, 32, 1}, shape, strides,
              [] { std::printf("the query is the engine's again\n"); }, true));
    return 0;
  } catch (const quire::Exception& failure) {
    std::printf("%s: %s\n", failure.error().name().data(), failure.what());
    return 1;
  }
}
