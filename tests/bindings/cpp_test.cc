// quire.hpp with errors as values: what it refuses and how, who owns what, and that handles may go in any order, from any thread, after the
// runtime. Method: examples over the shared library; orders are random permutations, the seed is printed and taken from QUIRE_SEED.
#include <gtest/gtest.h>

#include <algorithm>
#include <any>
#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/bindings/cpp_rig.h"

namespace {

using quire::Cache;
using quire::Config;
using quire::Device;
using quire::DlTensor;
using quire::Memory;
using quire::Model;
using quire::Runtime;
using quire::Stream;

Config plan(uint64_t pages = 9) {
  const quire_layer layer = rig_layer();
  return Config::create(*Model::create({&layer, 1}, 64), rig_room(pages)).value();
}

Device open(const char* driver = "null") { return Device::open(*Runtime::create(rig_options(driver))).value(); }

TEST(Cpp, AnErrorIsAValueWithCodeMessageAndSource) {
  const auto model = Model::from_json("{\"architectures\": [");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(model.error().name(), "INVALID_ARGUMENT");
  EXPECT_GT(std::string(model.error().message()).size(), 10U);
  EXPECT_STREQ(model.error().source(), "library");
  EXPECT_FALSE(*model) << "there is no handle beside an error";
  EXPECT_THROW((void)Model::from_json("{").value(), quire::Exception) << "value() throws what is not looked at";
  quire::Error copy;
  copy = model.error();
  EXPECT_STREQ(copy.message(), model.error().message());
}

TEST(Cpp, DriversAndOpsThatAreNotThereAreValues) {
  const auto runtime = Runtime::create(rig_options("nosuch"));
  ASSERT_TRUE(runtime);
  const auto device = Device::open(*runtime);
  EXPECT_EQ(device.code(), QUIRE_NOT_FOUND);
  EXPECT_NE(std::string(device.error().message()).find("nosuch"), std::string::npos);
  const auto stream = Stream::create(open());
  const auto op = stream->attention_merge(quire::make<quire_attention_merge>());
  EXPECT_EQ(op.code(), QUIRE_UNIMPLEMENTED) << op.error().message();
  EXPECT_NE(std::string(op.error().message()).find("attention_merge"), std::string::npos);
}

TEST(Cpp, AHandleThatWasMovedFromIsEmptyAndRefused) {
  Config config = plan();
  Config other = std::move(config);
  ASSERT_TRUE(other);
  EXPECT_FALSE(config);             // NOLINT(bugprone-use-after-move): what this test is about
  const auto info = config.info();  // NOLINT(clang-analyzer-cplusplus.Move)
  EXPECT_EQ(info.code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(info.error().message()).find("config"), std::string::npos) << info.error().message();
  EXPECT_EQ(Cache::create(Runtime{}, config).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(Memory::create(Device{}, other).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire::Sequence{}.info().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire::Step{}.commit({}).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(Stream{}.synchronize().code(), QUIRE_INVALID_ARGUMENT);
  Config& same = other;
  other = std::move(same);
  EXPECT_TRUE(other.info()) << "moving onto itself keeps the handle";
  config = std::move(other);
  EXPECT_EQ(config.info()->num_pages, 9U);
}

TEST(Cpp, SharedHandlesNameTheSameObject) {
  Cache cache = *Cache::create(Runtime{}, plan());
  const auto sequence = cache.create_sequence();
  const Cache same = cache.share();
  EXPECT_EQ(same.get(), cache.get());
  cache.reset();
  EXPECT_FALSE(cache);
  EXPECT_EQ(same.stats()->num_sequences, 1U);
}

TEST(Cpp, ListsHaveWhatTheyCount) {
  const Config config = plan();
  const auto regions = config.regions();
  ASSERT_TRUE(regions);
  ASSERT_EQ(regions->size(), 1U);
  EXPECT_EQ(regions->front().bytes, 9U * regions->front().page_stride);
  EXPECT_EQ(config.regions(7).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_NE(config.describe_json()->find("\"groups\""), std::string::npos);
  const quire_layer layer = rig_layer();
  EXPECT_NE(Model::create({&layer, 1}, 64)->describe()->find("full"), std::string::npos);
  const auto probes = Runtime::create(rig_options(""))->probe();
  ASSERT_TRUE(probes);
  EXPECT_GE(probes->size(), 2U) << "cpu and null";
  for (const auto& probe : *probes) EXPECT_NE(probe.name[0], '\0');
}

// A DLPack tensor over `bytes`, which counts how often its deleter ran.
DlTensor counted(std::vector<float>& bytes, int& ended, bool read_only = false) {
  const std::array<int64_t, 3> shape = {static_cast<int64_t>(bytes.size()) / 16, 2, 8};
  const std::array<int64_t, 3> strides = {16, 8, 1};
  return *DlTensor::over(
      bytes.data(), {QUIRE_DTYPE_FLOAT, 32, 1}, shape, strides, [&ended] { ++ended; }, read_only);
}

TEST(Cpp, ATensorIsTakenOnSuccessAndKeptOnAnError) {
  const Device device = open();
  std::vector<float> data(48, 1.0F);
  int ended = 0;
  DlTensor rows = counted(data, ended, true);
  EXPECT_EQ(quire::Tensor::import(device, rows).code(), QUIRE_PERMISSION_DENIED);
  EXPECT_TRUE(rows);
  EXPECT_EQ(ended, 0);
  auto imported = quire::Tensor::import(device, rows, QUIRE_IMPORT_READ_ONLY);
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_FALSE(rows);
  EXPECT_EQ(imported->view.data, data.data());
  EXPECT_EQ(imported->view.stride[0], 64);
  imported->buffer.reset();
  EXPECT_EQ(ended, 1);
  { const DlTensor unused = counted(data, ended); }
  EXPECT_EQ(ended, 2);
}

TEST(Cpp, ATensorOverBytesHasAllItsAxesOrIsRefused) {
  std::vector<float> data(720, 1.0F);
  const quire_dtype fp32 = {QUIRE_DTYPE_FLOAT, 32, 1};
  int ended = 0;
  const auto end = [&ended] { ++ended; };
  const std::array<int64_t, 6> six = {1, 2, 3, 4, 5, 6};
  const std::array<int64_t, 3> three = {6, 10, 12};
  {
    const auto dense = DlTensor::over(data.data(), fp32, six, {}, end);
    ASSERT_TRUE(dense);
    EXPECT_EQ(dense->shape().size(), 6U);
    EXPECT_TRUE(std::ranges::equal(dense->strides(), std::array<int64_t, 6>{720, 360, 120, 30, 6, 1})) << "none given: dense";
    EXPECT_EQ(quire::Tensor::import(open(), *const_cast<DlTensor*>(&*dense)).code(), QUIRE_OUT_OF_RANGE) << "quire takes five";
  }
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(DlTensor::over(data.data(), fp32, six, three, end).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(DlTensor::over(data.data(), fp32, three, six, end).code(), QUIRE_INVALID_ARGUMENT);
  const std::array<int64_t, 3> huge = {2, INT64_MAX, INT64_MAX};
  EXPECT_EQ(DlTensor::over(data.data(), fp32, huge, {}, end).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(DlTensor::over(data.data(), fp32, std::vector<int64_t>(65, 1), {}, end).code(), QUIRE_OUT_OF_RANGE);
  using Two = std::array<int64_t, 2>;
  for (const Two& none : {Two{INT64_MAX, INT64_MAX}, Two{-1, 2}, Two{2, -1}, Two{INT64_MIN, 0}, Two{INT64_MAX, 2}}) {
    for (const std::vector<int64_t>& steps : {std::vector<int64_t>{}, std::vector<int64_t>{1, 1}}) {
      EXPECT_EQ(DlTensor::over(data.data(), fp32, none, steps, end).code(), QUIRE_OUT_OF_RANGE) << none[0] << " " << none[1];
    }
  }
  EXPECT_TRUE(DlTensor::over(nullptr, fp32, Two{INT64_MAX, 1}, {}, nullptr));
  EXPECT_TRUE(DlTensor::over(nullptr, fp32, Two{INT64_MAX, 0}, {}, nullptr));
  EXPECT_EQ(quire::LegacyDlTensor::over(data.data(), fp32, three, {}, end, true).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(ended, 1) << "what is refused stays the caller's";
  auto imported = DlTensor::over(data.data(), fp32, three, {}, end);
  EXPECT_EQ(quire::Tensor::import(open(), *imported)->view.stride[0], 480);
  EXPECT_EQ(ended, 2);
  const DlTensor nothing;
  EXPECT_TRUE(nothing.shape().empty() && nothing.strides().empty() && nothing.data() == nullptr && !nothing.read_only());
}

TEST(Cpp, ATensorWithoutStridesSaysSo) {
  std::array<int64_t, 2> shape = {2, 3};
  std::array<float, 6> data{};
  quire::dlpack::Managed foreign{1, 0, nullptr, nullptr, 0, {data.data(), 1, 0, 2, {2, 32, 1}, shape.data(), nullptr, 0}};
  const DlTensor tensor(reinterpret_cast<DLManagedTensorVersioned*>(&foreign));
  EXPECT_EQ(tensor.shape().size(), 2U);
  EXPECT_TRUE(tensor.strides().empty()) << "NULL is dense: there are none to read";
}

TEST(Cpp, TensorsOfDLPack0AreExchanged) {
  const Config config = plan();
  const quire_region_info region = config.regions()->front();
  const size_t whole = (region.bytes + region.alignment - 1) / region.alignment * region.alignment;
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(region.alignment, whole), &std::free);
  const std::array<int64_t, 1> bytes = {static_cast<int64_t>(region.bytes)};
  int ended = 0;
  std::array tensors = {*quire::LegacyDlTensor::over(buffer.get(), {QUIRE_DTYPE_UINT, 8, 1}, bytes, {}, [&ended] {
    ++ended;
    throw ended;  // stays where it is
  })};
  const auto memory = Memory::bind(open(), config, 0, tensors);
  ASSERT_TRUE(memory) << memory.error().message();
  EXPECT_FALSE(tensors[0]);
  auto keys = memory->export_legacy(quire::layer_of(0));
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->shape()[0], 9);
  auto wish = quire::make<quire_export>();
  wish.kind = QUIRE_EXPORT_PAGE;
  EXPECT_EQ(memory->export_legacy(wish)->shape().size(), 2U);
  wish.flags = QUIRE_EXPORT_READ_ONLY;
  EXPECT_EQ(memory->export_legacy(wish).code(), QUIRE_FAILED_PRECONDITION);
  const void* at = keys->data();
  auto imported = quire::Tensor::import(open(), *keys);
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_EQ(imported->view.data, at);
  EXPECT_FALSE(*keys);
  EXPECT_EQ(quire::Tensor::import(open(), *keys).code(), QUIRE_INVALID_ARGUMENT) << "an empty one";
}

TEST(Cpp, BytesOfTheEngineAreBoundAndSeenThroughAView) {
  const Config config = plan();
  const quire_region_info region = config.regions()->front();
  const size_t whole = (region.bytes + region.alignment - 1) / region.alignment * region.alignment;
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(region.alignment, whole), &std::free);
  const std::array<int64_t, 1> bytes = {static_cast<int64_t>(region.bytes)}, one = {1}, few = {16};
  int ended = 0;
  std::array tensors = {*DlTensor::over(buffer.get(), {QUIRE_DTYPE_UINT, 8, 1}, few, one, [&ended] { ++ended; })};
  const auto refused = Memory::bind(open(), config, 0, tensors);
  EXPECT_EQ(refused.code(), QUIRE_INVALID_ARGUMENT) << "too small";
  EXPECT_TRUE(tensors[0]);
  tensors[0] = *DlTensor::over(buffer.get(), {QUIRE_DTYPE_UINT, 8, 1}, bytes, one, [&ended] { ++ended; });
  EXPECT_EQ(ended, 1);
  auto memory = Memory::bind(open(), config, 0, tensors);
  ASSERT_TRUE(memory) << memory.error().message();
  EXPECT_FALSE(tensors[0]);
  EXPECT_EQ(memory->region(0)->data(), buffer.get());
  EXPECT_EQ(memory->region(0)->size(), region.bytes);
  auto keys = memory->export_dlpack(quire::layer_of(0));
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->shape()[0], 9);
  *memory = Memory();
  EXPECT_EQ(ended, 1) << "the view keeps the bytes";
  keys->reset();
  EXPECT_EQ(ended, 2);
}

// Everything at once, each in a box of its own.
std::vector<std::any> one_of_each(const std::vector<float>& data, const std::shared_ptr<int>& ended) {
  std::vector<std::any> all;
  const auto box = [&all](auto handle) { all.emplace_back(std::make_shared<decltype(handle)>(std::move(handle))); };
  Runtime runtime = *Runtime::create(rig_options("null"));
  const quire_layer layer = rig_layer();
  Model model = *Model::create({&layer, 1}, 64);
  Config config = *Config::create(model, rig_room(9));
  Cache cache = *Cache::create(runtime, config);
  Device device = *Device::open(runtime);
  Stream stream = *Stream::create(device);
  Memory memory = *Memory::create(device, config);
  quire::Sequence sequence = *cache.create_sequence();
  quire_reserve_entry want{};
  want.sequence = sequence.id();
  want.num_tokens = 5;
  quire_reserve_result got{};
  quire::Step step = *cache.reserve({&want, 1}, {}, {&got, 1});
  EXPECT_TRUE(step);
  const std::array<int64_t, 1> shape = {static_cast<int64_t>(data.size())}, strides = {1};
  DlTensor rows = *DlTensor::over(const_cast<float*>(data.data()), {QUIRE_DTYPE_FLOAT, 32, 1}, shape, strides, [ended] { ++*ended; });
  box(*quire::Tensor::import(device, rows));
  box(*memory.export_dlpack(quire::layer_of(0, 0, 1)));
  box(*quire::Op::find(runtime, "", "echo.i32"));
  box(std::move(step)), box(std::move(sequence)), box(std::move(memory)), box(std::move(stream)), box(std::move(device));
  box(std::move(cache)), box(std::move(config)), box(std::move(model)), box(std::move(runtime));
  return all;
}

TEST(Cpp, TicketsOfAConnectorEndOnce) {
  auto options = rig_options("none");
  options.connector_path = quire::text(QUIRE_MODULES);
  const quire::Connector connector = quire::Connector::open(*Runtime::create(options), "null").value();
  EXPECT_EQ(connector.health()->state, QUIRE_CONNECTOR_UP);
  std::array<std::byte, 256> bytes{};
  const uint64_t region = *connector.register_region(bytes);
  std::array<uint64_t, 2> sizes = {9, 9};
  const std::array<uint8_t, 4> keys = {1, 2, 3, 4};
  const std::array<quire_ticket, 2> tickets = {
      quire_ticket{1, QUIRE_TICKET_STORE, 0, 0, 1, 1, 0, 4, 32, nullptr, 0, -1},
      quire_ticket{2, QUIRE_TICKET_LOOKUP, 0, 0, 0, 2, 0, 2, 0, sizes.data(), 0, -1},
  };
  std::array<quire_ticket_run, 1> runs = {quire::run_of(bytes.data(), 8)};
  runs[0].region = region;
  runs[0].count = 4, runs[0].stride = 16, runs[0].object_stride = 8;
  uint64_t accepted = 9;
  EXPECT_EQ(connector.submit(tickets, {}, keys, accepted).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(accepted, 0U);
  ASSERT_TRUE(connector.submit(tickets, runs, keys, accepted));
  EXPECT_EQ(accepted, 2U);
  EXPECT_EQ(connector.unregister_region(region).code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_GE(*connector.fd(), 0);
  EXPECT_TRUE(connector.cancel(1));
  std::array<quire_completion, 4> ends{};
  ASSERT_EQ(*connector.poll(-1, ends), 2U);
  EXPECT_EQ(ends[0].code, QUIRE_CANCELLED);
  EXPECT_EQ(ends[1].num_found, 0U);
  EXPECT_EQ(sizes[1], 0U);
  EXPECT_TRUE(connector.unregister_region(region));
  uint64_t cursor = 0;
  std::array<quire_object_entry, 1> objects{};
  std::array<uint8_t, 8> room{};
  EXPECT_EQ(*connector.list(cursor, objects, room), 0U);
  EXPECT_EQ(cursor, 0U);
  EXPECT_EQ(connector.share().stats()->num_submitted, 2U);
}

TEST(Cpp, HandlesMayGoInAnyOrderFromAnyThread) {
  const char* given = std::getenv("QUIRE_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  SCOPED_TRACE("QUIRE_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<float> data(7, 1.0F);
  const auto ended = std::make_shared<int>(0);
  for (int run = 0; run < 60; ++run) {
    auto all = one_of_each(data, ended);
    ASSERT_EQ(all.size(), 12U);
    std::shuffle(all.begin(), all.end(), random);
    for (auto& one : all) {
      if (run % 2 == 0) {
        one.reset();
      } else {
        std::thread([&one] { one.reset(); }).join();
      }
    }
    EXPECT_EQ(*ended, run + 1) << "the engine's tensor came back, once";
  }
}

}  // namespace
