// The GPU drivers' host sides over libraries without a GPU: what is called, in which order, and what becomes of every answer. Kernels are
// the emulation's, so results are right or wrong. Method: example.
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/fake_gpu/fake_gpu_rig.h"

#include <cstring>

namespace quire {
namespace {

TEST(Lifecycle, NothingIsLeftBehind) {
  static_cast<void>(Rig());
  EXPECT_EQ(alive(), 0);
  {
    Rig rig;
    ASSERT_NE(rig.stream, nullptr) << rig.err.message;
    EXPECT_GT(alive(), 0);
    quire_driver_event* event = nullptr;
    ASSERT_EQ(api().event_create(rig.device, &event, &rig.err), QUIRE_OK);
    api().event_destroy(event);
    rig.give(rig.take(1000));
    rig.give(rig.take(1000, QUIRE_MEM_HOST), QUIRE_MEM_HOST);
  }
  EXPECT_EQ(alive(), 0);
}

TEST(Lifecycle, InfoSaysWhatTheLibrarySays) {
  Rig rig;
  quire_device_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(api().device_info(rig.device, &info, &rig.err), QUIRE_OK);
  EXPECT_EQ(info.device_type, given.cuda() ? QUIRE_DEVICE_CUDA : QUIRE_DEVICE_ROCM);
  EXPECT_EQ(info.wave_width, given.cuda() ? 32u : 64u);
  EXPECT_EQ(info.total_bytes, uint64_t{8} << 30);
  EXPECT_LT(info.free_bytes, info.total_bytes);
  EXPECT_EQ(std::string(info.name), given.cuda() ? "Fake 0, sm_90, 6 multiprocessors" : "Fake gfx90a 0, 6 multiprocessors");
}

TEST(Memory, OfTheDeviceIsNotTheHosts) {
  Rig rig;
  char* device = rig.take(4096);
  char* host = rig.take(4096, QUIRE_MEM_HOST);
  memset(host, 7, 4096);
  const quire_copy_run in = {number(host), number(device), 4096};
  ASSERT_EQ(api().copy(rig.stream, &in, 1, &rig.err), QUIRE_OK);
  ASSERT_EQ(rig.wait(), QUIRE_OK);
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(std::printf("%d", *static_cast<volatile char*>(device)), "");
  memset(host, 0, 4096);
  const quire_copy_run out = {number(device), number(host), 4096};
  ASSERT_EQ(api().copy(rig.stream, &out, 1, &rig.err), QUIRE_OK);
  EXPECT_EQ(host[4095], 0) << "queued work waits until somebody does";
  ASSERT_EQ(rig.wait(), QUIRE_OK);
  EXPECT_EQ(host[4095], 7);
  rig.give(device);
  rig.give(host, QUIRE_MEM_HOST);
}

TEST(Memory, WhatIsNotThereIsAnError) {
  Rig rig;
  void* p = nullptr;
  EXPECT_EQ(api().mem_alloc(rig.device, uint64_t{9} << 30, 0, QUIRE_MEM_DEVICE, &p, &rig.err), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(rig.err.native_code, kOutOfMemory);
  EXPECT_EQ(rig.err.native_domain, given.cuda() ? 2 : 4);
  EXPECT_EQ(p, nullptr);
  rig.give(rig.take(64));
}

// The planner of the host reads lengths, and says so where it cannot.
TEST(Memory, TheHostReadsPinnedMemoryOnly) {
  Rig rig;
  conformance::Shape shape;
  shape.rows = {{1, 40}};
  AttentionCase c(shape, {});
  std::vector<uint64_t> plan(1 << 12);
  EXPECT_EQ(api().attention_plan(rig.device, &c.op, plan.data(), plan.size() * 8, &rig.err), QUIRE_OK) << rig.err.message;
  char* device = rig.take(4096);
  c.op.arrays.kv_len = reinterpret_cast<int32_t*>(device);
  EXPECT_EQ(api().attention_plan(rig.device, &c.op, plan.data(), plan.size() * 8, &rig.err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(rig.err.message).find("memory that the host reads"), std::string::npos) << rig.err.message;
  rig.give(device);
}

TEST(Streams, AnImportedOneIsUsedAndLeftAlone) {
  void* native = nullptr;
  {
    Rig first;
    native = QUIRE_FAKE(quire_fake_stream)(0);
  }
  const int64_t before = alive();
  {
    Rig rig(0, 0, number(native));
    char* host = rig.take(64, QUIRE_MEM_HOST);
    memset(host, 1, 64);
    ASSERT_EQ(api().fill(rig.stream, host, 9, 64, &rig.err), QUIRE_OK);
    void* event = QUIRE_FAKE(quire_fake_event)(0);
    ASSERT_EQ(call_op("event.record", {value(rig.stream), value(number(event))}, nullptr, &rig.err), QUIRE_OK) << rig.err.message;
    EXPECT_EQ(QUIRE_FAKE(quire_fake_event_done)(0, event), 0);
    ASSERT_EQ(rig.wait(), QUIRE_OK);
    EXPECT_EQ(QUIRE_FAKE(quire_fake_event_done)(0, event), 1);
    EXPECT_EQ(host[63], 9);
    QUIRE_FAKE(quire_fake_end_event)(0, event);
    rig.give(host, QUIRE_MEM_HOST);
  }
  EXPECT_EQ(alive(), before) << "the stream is its maker's";
  QUIRE_FAKE(quire_fake_end_stream)(0, native);
  EXPECT_EQ(alive(), 0);
}

TEST(Streams, AnEventOfTheEnginesOrdersStreams) {
  Rig rig;
  quire_driver_stream* other = nullptr;
  ASSERT_EQ(api().stream_create(rig.device, 0, &other, &rig.err), QUIRE_OK);
  char* host = rig.take(128, QUIRE_MEM_HOST);
  void* event = QUIRE_FAKE(quire_fake_event)(0);
  memset(host, 0, 128);
  ASSERT_EQ(api().fill(rig.stream, host, 5, 64, &rig.err), QUIRE_OK);
  ASSERT_EQ(call_op("event.record", {value(rig.stream), value(number(event))}, nullptr, &rig.err), QUIRE_OK);
  ASSERT_EQ(call_op("event.wait", {value(other), value(number(event))}, nullptr, &rig.err), QUIRE_OK);
  const quire_copy_run run = {number(host), number(host) + 64, 64};
  ASSERT_EQ(api().copy(other, &run, 1, &rig.err), QUIRE_OK);
  ASSERT_EQ(api().stream_synchronize(other, -1, &rig.err), QUIRE_OK);
  EXPECT_EQ(host[127], 5);
  EXPECT_EQ(call_op("event.wait", {value(other), value(uint64_t{0})}, nullptr, &rig.err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(call_op("event.record", {value(other), value(number(host))}, nullptr, &rig.err), QUIRE_INVALID_ARGUMENT) << "no event";
  QUIRE_FAKE(quire_fake_end_event)(0, event);
  rig.give(host, QUIRE_MEM_HOST);
  api().stream_destroy(other);
}

TEST(Streams, WaitingEndsInTime) {
  Rig rig;
  char* host = rig.take(64, QUIRE_MEM_HOST);
  ASSERT_EQ(api().fill(rig.stream, host, 3, 64, &rig.err), QUIRE_OK);
  quire_driver_event* event = nullptr;
  ASSERT_EQ(api().event_create(rig.device, &event, &rig.err), QUIRE_OK);
  ASSERT_EQ(api().event_record(event, rig.stream, &rig.err), QUIRE_OK);
  QUIRE_FAKE(quire_fake_hold)(1);
  EXPECT_EQ(api().stream_synchronize(rig.stream, 0, &rig.err), QUIRE_NOT_READY);
  EXPECT_EQ(api().stream_synchronize(rig.stream, 2000000, &rig.err), QUIRE_DEADLINE_EXCEEDED);
  EXPECT_EQ(api().event_synchronize(event, 0, &rig.err), QUIRE_NOT_READY);
  EXPECT_EQ(api().event_synchronize(event, 2000000, &rig.err), QUIRE_DEADLINE_EXCEEDED);
  QUIRE_FAKE(quire_fake_hold)(0);
  EXPECT_EQ(api().event_synchronize(event, 1000000000, &rig.err), QUIRE_OK);
  EXPECT_EQ(host[0], 3);
  EXPECT_EQ(api().stream_synchronize(rig.stream, 0, &rig.err), QUIRE_OK);
  api().event_destroy(event);
  rig.give(host, QUIRE_MEM_HOST);
}

// Runs of 4 MiB and more are the copy engine's, 64 to a call where the library takes many at once.
void large_copies(bool batched) {
  Rig rig;
  constexpr uint64_t kRun = uint64_t{4} << 20;
  constexpr uint64_t kRuns = 66;
  char* from = rig.take(kRun + kRuns * 64, QUIRE_MEM_HOST);
  char* to = rig.take(kRun * kRuns);
  char* back = rig.take(kRun * kRuns, QUIRE_MEM_HOST);
  for (uint64_t i = 0; i < kRun + kRuns * 64; ++i) from[i] = static_cast<char>(conformance::mixed(1, i / 8) >> i % 8 * 8);
  std::vector<quire_copy_run> in;
  std::vector<quire_copy_run> out;
  for (uint64_t i = 0; i < kRuns; ++i) {
    in.push_back({number(from) + i * 64, number(to) + i * kRun, kRun});
    out.push_back({number(to) + i * kRun, number(back) + i * kRun, i % 3 == 0 ? 4096 : kRun});
  }
  const std::string one = call_of("cuMemcpyAsync", "hipMemcpyAsync");
  const uint64_t single = calls(one);
  const uint64_t many = calls("cuMemcpyBatchAsync");
  const uint64_t kernels = calls(call_of("cuLaunchKernel", "hipModuleLaunchKernel"));
  ASSERT_EQ(api().copy(rig.stream, in.data(), in.size(), &rig.err), QUIRE_OK) << rig.err.message;
  EXPECT_EQ(calls("cuMemcpyBatchAsync") - many, batched ? 2u : 0u);
  EXPECT_EQ(calls(one) - single, batched ? 0u : kRuns);
  EXPECT_EQ(calls(call_of("cuLaunchKernel", "hipModuleLaunchKernel")), kernels);
  ASSERT_EQ(api().copy(rig.stream, out.data(), out.size(), &rig.err), QUIRE_OK) << rig.err.message;
  EXPECT_EQ(calls(call_of("cuLaunchKernel", "hipModuleLaunchKernel")), kernels + 1) << "the small ones";
  ASSERT_EQ(rig.wait(), QUIRE_OK);
  for (uint64_t i = 0; i < kRuns; ++i) {
    ASSERT_EQ(memcmp(back + i * kRun, from + i * 64, i % 3 == 0 ? 4096 : kRun), 0) << i;
  }
  rig.give(from, QUIRE_MEM_HOST);
  rig.give(to);
  rig.give(back, QUIRE_MEM_HOST);
}

TEST(Copies, ManyLargeOnesAreOneCall) { large_copies(given.batches()); }

TEST(Copies, OneByOneWhereTheLibraryIsOlder) {
  if (!given.cuda()) GTEST_SKIP() << "HIP has no such call that this driver uses";
  EXPECT_EQ(in_process("CopiesOneByOne", {{"QUIRE_FAKE_GPU_VERSION", "12080"}}), 0);
}
TEST(Process, CopiesOneByOne) { large_copies(false); }

TEST(Copies, AStreamThatRecordsTakesThemOneByOne) {
  void* native = nullptr;
  {
    Rig first;
    native = QUIRE_FAKE(quire_fake_stream)(0);
  }
  {
    Rig rig(0, 0, number(native));
    constexpr uint64_t kRun = uint64_t{4} << 20;
    char* host = rig.take(4 * kRun, QUIRE_MEM_HOST);
    memset(host, 1, 2 * kRun);
    memset(host + 2 * kRun, 0, 2 * kRun);
    const quire_copy_run runs[] = {{number(host), number(host) + 2 * kRun, kRun}, {number(host) + kRun, number(host) + 3 * kRun, kRun}};
    QUIRE_FAKE(quire_fake_record)(native);
    ASSERT_EQ(api().copy(rig.stream, runs, 2, &rig.err), QUIRE_OK) << rig.err.message;
    ASSERT_EQ(QUIRE_FAKE(quire_fake_end_record)(native), 1);
    EXPECT_EQ(host[4 * kRun - 1], 0);
    QUIRE_FAKE(quire_fake_replay)(native);
    ASSERT_EQ(rig.wait(), QUIRE_OK);
    EXPECT_EQ(host[4 * kRun - 1], 1);
    rig.give(host, QUIRE_MEM_HOST);
  }
  QUIRE_FAKE(quire_fake_end_stream)(0, native);
}

TEST(Copies, TheDefaultStreamTakesThemOneByOne) {
  if (!given.cuda()) GTEST_SKIP() << "HIP has no such call that this driver uses";
  Rig rig(0, 0, 1);  // CU_STREAM_LEGACY
  constexpr uint64_t kRun = uint64_t{4} << 20;
  char* host = rig.take(4 * kRun, QUIRE_MEM_HOST);
  memset(host, 1, 2 * kRun);
  memset(host + 2 * kRun, 0, 2 * kRun);
  const quire_copy_run runs[] = {{number(host), number(host) + 2 * kRun, kRun}, {number(host) + kRun, number(host) + 3 * kRun, kRun}};
  const uint64_t single = calls("cuMemcpyAsync");
  const uint64_t many = calls("cuMemcpyBatchAsync");
  ASSERT_EQ(api().copy(rig.stream, runs, 2, &rig.err), QUIRE_OK) << rig.err.message;
  EXPECT_EQ(calls("cuMemcpyAsync"), single + 2);
  EXPECT_EQ(calls("cuMemcpyBatchAsync"), many);
  ASSERT_EQ(rig.wait(), QUIRE_OK);
  EXPECT_EQ(memcmp(host, host + 2 * kRun, 2 * kRun), 0);
  rig.give(host, QUIRE_MEM_HOST);
}

TEST(Copies, WhatDoesNotFitItsMemoryIsRefused) {
  Rig rig;
  char* device = rig.take(uint64_t{8} << 20);
  const quire_copy_run run = {number(device), number(device) + (uint64_t{4} << 20), uint64_t{4} << 20};
  EXPECT_EQ(api().copy(rig.stream, &run, 1, &rig.err), QUIRE_OK);
  const quire_copy_run beyond = {number(device), number(device) + (uint64_t{4} << 20) + 4096, uint64_t{4} << 20};
  EXPECT_EQ(api().copy(rig.stream, &beyond, 1, &rig.err), QUIRE_INTERNAL);
  EXPECT_EQ(rig.err.native_code, fake::kInvalid);
  rig.give(device);
}

// Prefill by products of warpgroups where the device has them, rows are many enough and nobody asked for other kernels.
TEST(Kernels, PrefillIsOfWarpgroupsOnHopperUnlessItMayNot) {
  if (!given.cuda()) GTEST_SKIP() << "NVIDIA's";
  const auto launched = [](uint64_t flags, const conformance::Shape& shape, uint32_t more, const char* kernel) {
    Rig rig(0, flags);
    AttentionCase c(shape, {});
    c.op.flags |= more;
    c.reset();
    const uint64_t before = calls(std::string("launch ") + kernel);
    EXPECT_EQ(api().attention(rig.stream, &c.op, &rig.err), QUIRE_OK) << rig.err.message;
    EXPECT_EQ(rig.wait(), QUIRE_OK) << rig.err.message;
    EXPECT_EQ(calls(std::string("launch ") + kernel), before + 1) << kernel;
    const oracle::Attention want = oracle::attention(c.op);
    EXPECT_LE(conformance::row_errors(c.out(), want.out, shape.dim_v).worst, 1e-2) << kernel;
    EXPECT_TRUE(c.padding_untouched());
  };
  conformance::Shape shape;
  shape.rows = {{90, 200}, {70, 70}};
  launched(0, shape, 0, "flow_bf16_64");
  launched(2, shape, 0, "tile_bf16_64");
  launched(1, shape, 0, "attend");
  launched(0, shape, QUIRE_ATTENTION_BATCH_INVARIANT, "tile_bf16_64");
  shape.block = 8;
  launched(0, shape, 0, "tile_bf16_64");
  shape.block = 16;
  shape.rows = {{31, 200}, {31, 90}};  // 62 rows of a KV head
  launched(0, shape, 0, "tile_bf16_64");
}

std::string attended(Rig* rig) {
  char text[256] = {};
  rig->err = fresh_error();
  const quire_code code = call_op("attention.kernel", {value(rig->stream), value(text), value(uint64_t{256})}, nullptr, &rig->err);
  return code == QUIRE_OK ? text : rig->err.message;
}

// Matrix instructions of AMD's are for those who ask for them: nobody has run them yet.
TEST(Kernels, DotProductsAreRocmsDefault) {
  if (given.cuda()) GTEST_SKIP() << "AMD's";
  for (const uint64_t flags : {0, 2}) {
    for (const quire_dtype half : {conformance::kBf16, conformance::kF16}) {
      for (const conformance::Row row : {conformance::Row{1, 90}, conformance::Row{70, 90}}) {
        conformance::Shape shape;
        shape.rows = {row};
        shape.cache = shape.query = shape.out = half;
        Rig rig(0, flags);
        AttentionCase c(shape, {});
        ASSERT_EQ(api().attention(rig.stream, &c.op, &rig.err), QUIRE_OK) << rig.err.message;
        ASSERT_EQ(rig.wait(), QUIRE_OK);
        EXPECT_EQ(attended(&rig) == "attend", flags == 0) << flags << ": " << attended(&rig);
      }
    }
  }
}

TEST(Kernels, AStreamSaysByWhichAttentionWent) {
  Rig rig;
  EXPECT_EQ(attended(&rig), "attention.kernel: no attention was queued");
  conformance::Shape shape;
  shape.rows = {{70, 90}};
  AttentionCase c(shape, {});
  ASSERT_EQ(api().attention(rig.stream, &c.op, &rig.err), QUIRE_OK) << rig.err.message;
  EXPECT_EQ(attended(&rig), given.cuda() ? "flow_bf16_64" : "attend");
  char small[4];
  EXPECT_EQ(call_op("attention.kernel", {value(rig.stream), value(small), value(sizeof small)}, nullptr, &rig.err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(call_op("attention.kernel", {value(rig.stream), value(nullptr), value(uint64_t{256})}, nullptr, &rig.err),
            QUIRE_INVALID_ARGUMENT);
  ASSERT_EQ(rig.wait(), QUIRE_OK);
  if (!given.cuda()) return;
  // Boxes of K, then of V, that the library does not take: the next best kernel, the same result, and the reason.
  const std::vector<double> want = c.out();
  for (const uint32_t nth : {1u, 2u}) {
    c.reset();
    QUIRE_FAKE(quire_fake_fail)("cuTensorMapEncodeTiled", nth, fake::kInvalid);
    ASSERT_EQ(api().attention(rig.stream, &c.op, &rig.err), QUIRE_OK) << rig.err.message;
    EXPECT_EQ(attended(&rig), "tile_bf16_64, boxes refused: invalid argument (1)") << nth;
    ASSERT_EQ(rig.wait(), QUIRE_OK);
    EXPECT_EQ(c.out(), want) << "in the emulation every bit is the same";
  }
  ASSERT_EQ(api().attention(rig.stream, &c.op, &rig.err), QUIRE_OK);
  EXPECT_EQ(attended(&rig), "flow_bf16_64") << "and no reason from before";
  ASSERT_EQ(rig.wait(), QUIRE_OK);
}

TEST(Graphs, ACapturedDecodeStepStaysRightOver64GrowingSteps) {
  void* native = nullptr;
  {
    Rig first;
    native = QUIRE_FAKE(quire_fake_stream)(0);
  }
  {
    Rig rig(0, 0, number(native));
    conformance::Shape shape;
    shape.rows = {{1, 700}, {1, 90}};
    AttentionCase eager(shape, {});
    AttentionCase captured(shape, {});
    captured.lengths = {637, 27};
    captured.reset();
    QUIRE_FAKE(quire_fake_record)(native);
    ASSERT_EQ(api().attention(rig.stream, &captured.op, &rig.err), QUIRE_OK) << rig.err.message;
    EXPECT_NE(rig.wait(), QUIRE_OK);
    EXPECT_EQ(QUIRE_FAKE(quire_fake_end_record)(native), 0) << "waiting is not allowed while a stream records";
    QUIRE_FAKE(quire_fake_record)(native);
    ASSERT_EQ(api().attention(rig.stream, &captured.op, &rig.err), QUIRE_OK) << rig.err.message;
    ASSERT_EQ(QUIRE_FAKE(quire_fake_end_record)(native), 1);
    EXPECT_TRUE(captured.outputs_untouched());
    for (int step = 0; step < 64; ++step) {
      captured.reset();
      QUIRE_FAKE(quire_fake_replay)(native);
      ASSERT_EQ(rig.wait(), QUIRE_OK);
      eager.lengths = captured.lengths;
      eager.reset();
      ASSERT_EQ(api().attention(rig.stream, &eager.op, &rig.err), QUIRE_OK) << rig.err.message;
      ASSERT_EQ(rig.wait(), QUIRE_OK);
      ASSERT_TRUE(captured.out() == eager.out() && captured.lse() == eager.lse()) << "step " << step;
      for (int32_t& length : captured.lengths) ++length;
    }
    const oracle::Attention want = oracle::attention(eager.op);
    EXPECT_LE(conformance::row_errors(eager.out(), want.out, shape.dim_v).worst, 1e-2);
  }
  QUIRE_FAKE(quire_fake_end_stream)(0, native);
}

}  // namespace
}  // namespace quire
