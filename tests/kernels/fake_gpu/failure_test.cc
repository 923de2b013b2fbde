// Every call of the library failed in turn, and lost devices. Method: failures injected at every place.
#include "tests/kernels/fake_gpu/fake_gpu_rig.h"

#include <chrono>
#include <functional>

namespace quire {
namespace {

// Everything that a caller may ask for, once; the first code that is not OK.
quire_code whole_life(quire_error* err) {
  Rig rig;
  *err = rig.err;
  if (rig.stream == nullptr) return rig.err.code;
  quire_driver_event* event = nullptr;
  void* device = nullptr;
  void* host = nullptr;
  const auto body = [&]() -> quire_code {
    constexpr uint64_t kLarge = uint64_t{4} << 20;
    const auto attempt = [](quire_code code) { return code; };
    quire_device_info info{};
    info.struct_size = sizeof info;
    quire_code code = attempt(api().device_info(rig.device, &info, err));
    if (code == QUIRE_OK) code = api().event_create(rig.device, &event, err);
    if (code == QUIRE_OK) code = api().mem_alloc(rig.device, 3 * kLarge, 0, QUIRE_MEM_DEVICE, &device, err);
    if (code == QUIRE_OK) code = api().mem_alloc(rig.device, 64, 0, QUIRE_MEM_HOST, &host, err);
    if (code == QUIRE_OK) code = api().fill(rig.stream, device, 3, 64, err);
    const uint64_t at = number(device);
    const quire_copy_run small = {at, at + 64, 64};
    const quire_copy_run large[] = {{at, at + kLarge, kLarge}, {at, at + 2 * kLarge, kLarge}};
    if (code == QUIRE_OK) code = api().copy(rig.stream, &small, 1, err);
    if (code == QUIRE_OK) code = api().copy(rig.stream, large, 2, err);
    if (code == QUIRE_OK) code = api().event_record(event, rig.stream, err);
    if (code == QUIRE_OK) code = api().event_wait(event, rig.stream, err);
    if (code == QUIRE_OK) code = api().event_synchronize(event, 1000000000, err);
    if (code == QUIRE_OK) code = api().event_synchronize(event, -1, err);
    if (code == QUIRE_OK) code = api().stream_synchronize(rig.stream, 1000000000, err);
    if (code == QUIRE_OK) code = api().stream_synchronize(rig.stream, -1, err);
    return code;
  };
  const quire_code code = body();
  api().event_destroy(event);
  rig.give(device);
  rig.give(host, QUIRE_MEM_HOST);
  return code;
}

struct Sweep {
  const char* cuda;
  const char* hip;
  bool answers;  // whether a failure of it must reach the caller
};
const Sweep kSweep[] = {
    {"cuDeviceGetCount", "hipGetDeviceCount", true},
    {"cuDeviceGet", nullptr, true},
    {"cuDevicePrimaryCtxRetain", nullptr, true},
    {"cuCtxPushCurrent", "hipSetDevice", true},
    {"cuDeviceGetAttribute", "hipDeviceGetAttribute", true},
    {"cuDeviceGetName", "hipDeviceGetName", true},
    {"cuModuleLoadData", "hipModuleLoadData", true},
    {"cuModuleGetFunction", "hipModuleGetFunction", true},
    {"cuFuncSetAttribute", nullptr, true},
    {"cuMemGetInfo", "hipMemGetInfo", true},
    {"cuStreamCreate", "hipStreamCreateWithFlags", true},
    {"cuMemAlloc", "hipMalloc", true},
    {"cuMemHostAlloc", "hipHostMalloc", true},
    {"cuEventCreate", "hipEventCreateWithFlags", true},
    {"cuMemsetD8Async", "hipMemsetAsync", true},
    {"cuLaunchKernel", "hipModuleLaunchKernel", true},
#if QUIRE_FAKE_CUDA_VERSION >= 13000
    {"cuMemcpyBatchAsync", "hipMemcpyAsync", true},
    {"cuStreamIsCapturing", nullptr, false},
#else
    {"cuMemcpyAsync", "hipMemcpyAsync", true},
#endif
    {"cuEventRecord", "hipEventRecord", true},
    {"cuStreamWaitEvent", "hipStreamWaitEvent", true},
    {"cuEventQuery", "hipEventQuery", true},
    {"cuEventSynchronize", "hipEventSynchronize", true},
    {"cuStreamQuery", "hipStreamQuery", true},
};

// Each call of the library fails once, in every place where it is made: the caller hears of it, nothing is left behind, and the next life
// is whole.
TEST(Failures, EveryCallInTurn) {
  quire_error err = fresh_error();
  ASSERT_EQ(whole_life(&err), QUIRE_OK) << err.message;
  ASSERT_EQ(alive(), 0);
  uint32_t places = 0;
  for (const Sweep& s : kSweep) {
    const char* name = given.cuda() ? s.cuda : s.hip;
    if (name == nullptr) continue;
    const uint64_t before = calls(name);
    ASSERT_EQ(whole_life(&err), QUIRE_OK);
    const uint64_t count = calls(name) - before;
    ASSERT_GT(count, 0u) << name;
    for (uint64_t nth = 1; nth <= count; nth += count > 40 ? 7 : 1) {
      QUIRE_FAKE(quire_fake_fail)(name, static_cast<uint32_t>(nth), kOutOfMemory);
      err = fresh_error();
      const quire_code code = whole_life(&err);
      const bool closing = (std::string(name) == "cuCtxPushCurrent" || std::string(name) == "hipSetDevice") && code == QUIRE_OK;
      if (s.answers && !closing) {
        EXPECT_TRUE(code == QUIRE_RESOURCE_EXHAUSTED || code == QUIRE_UNAVAILABLE) << name << ", time " << nth << ": " << code;
        EXPECT_NE(err.message[0], '\0') << name;
        EXPECT_EQ(alive(), 0) << name << ", time " << nth;
      }
      if (closing) not_ours += alive();  // what cannot be reached cannot be given back
      QUIRE_FAKE(quire_fake_revive)();
      ++places;
    }
    ASSERT_EQ(whole_life(&err), QUIRE_OK) << "after " << name << ": " << err.message;
  }
  EXPECT_GE(places, 40u);
}

// What the engine may still ask of a lost device, and what every answer says.
void expect_lost(Rig* rig, int cause, const AttentionCase& c) {
  quire_driver_stream* stream = nullptr;
  quire_driver_event* event = nullptr;
  void* p = nullptr;
  uint64_t result = 0;
  const quire_copy_run run = {number(c.op.query.data), number(c.op.out.data), 8};
  quire_device_info info{};
  info.struct_size = sizeof info;
  char handle[96];
  const std::vector<std::pair<const char*, std::function<quire_code()>>> all = {
      {"attention", [&] { return api().attention(rig->stream, &c.op, &rig->err); }},
      {"copy", [&] { return api().copy(rig->stream, &run, 1, &rig->err); }},
      {"fill", [&] { return api().fill(rig->stream, c.op.out.data, 0, 8, &rig->err); }},
      {"mem_alloc", [&] { return api().mem_alloc(rig->device, 64, 0, QUIRE_MEM_DEVICE, &p, &rig->err); }},
      {"stream_create", [&] { return api().stream_create(rig->device, 0, &stream, &rig->err); }},
      {"event_create", [&] { return api().event_create(rig->device, &event, &rig->err); }},
      {"stream_synchronize", [&] { return rig->wait(); }},
      {"stream_synchronize, a while", [&] { return api().stream_synchronize(rig->stream, 1000000000, &rig->err); }},
      {"device_info", [&] { return api().device_info(rig->device, &info, &rig->err); }},
      {"ipc.export",
       [&] {
         return call_op("ipc.export", {value(rig->stream), value(1), value(handle), value(96)}, &result, &rig->err);
       }},
      {"event.wait",
       [&] {
         return call_op("event.wait", {value(rig->stream), value(1)}, nullptr, &rig->err);
       }},
  };
  for (const auto& [name, call] : all) {
    rig->err = fresh_error();
    EXPECT_EQ(call(), QUIRE_ABORTED) << name;
    EXPECT_EQ(rig->err.native_code, cause) << name << ": the first cause";
    EXPECT_NE(std::string(rig->err.message).find("lost"), std::string::npos) << name << ": " << rig->err.message;
  }
  EXPECT_TRUE(stream == nullptr && event == nullptr && p == nullptr);
}

TEST(Lost, ADeviceStaysLostAndCloses) {
  conformance::Shape shape;
  shape.rows = {{1, 40}};
  // By work that fails behind the caller's back, and by a call that says so at once.
  for (const auto& [what, cause] :
       {std::pair(std::string("work"), kIllegalAddress), std::pair(call_of("cuLaunchKernel", "hipModuleLaunchKernel"), fake::kLaunchFailed),
        std::pair(call_of("cuStreamSynchronize", "hipStreamSynchronize"), kIllegalAddress)}) {
    AttentionCase c(shape, {});
    const auto start = std::chrono::steady_clock::now();
    {
      Rig rig;
      quire_driver_event* event = nullptr;
      ASSERT_EQ(api().event_create(rig.device, &event, &rig.err), QUIRE_OK);
      char* memory = rig.take(4096);
      ASSERT_EQ(api().fill(rig.stream, memory, 1, 4096, &rig.err), QUIRE_OK);
      ASSERT_EQ(rig.wait(), QUIRE_OK);
      QUIRE_FAKE(quire_fake_fail)(what.c_str(), 1, cause);
      const quire_code asked = api().attention(rig.stream, &c.op, &rig.err);
      const quire_code waited = rig.wait();
      EXPECT_EQ(asked, what.find("Launch") != std::string::npos ? QUIRE_ABORTED : QUIRE_OK) << what;
      EXPECT_EQ(waited, QUIRE_ABORTED) << what;
      EXPECT_EQ(rig.err.native_code, cause);
      expect_lost(&rig, cause, c);
      EXPECT_EQ(api().event_record(event, rig.stream, &rig.err), QUIRE_ABORTED);
      EXPECT_EQ(api().event_wait(event, rig.stream, &rig.err), QUIRE_ABORTED);
      EXPECT_EQ(api().event_synchronize(event, -1, &rig.err), QUIRE_ABORTED);
      rig.give(memory);
      api().event_destroy(event);
    }
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 20) << "nothing waits for what never comes";
    QUIRE_FAKE(quire_fake_revive)();
  }
  not_ours += alive();  // memory of a lost device is gone with its process
}

// All after which the vendors say that the process has to end: cuda.h's "must be terminated and relaunched", and what HIP has of them.
TEST(Lost, ByEveryErrorThatIsForGood) {
  const std::vector<int> cuda = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911};
  const std::vector<int> hip = {214, 700, 702, 709, 710, 719};
  for (const int code : given.cuda() ? cuda : hip) {
    {
      Rig rig;
      QUIRE_FAKE(quire_fake_fail)(call_of("cuStreamSynchronize", "hipStreamSynchronize").c_str(), 1, code);
      EXPECT_EQ(rig.wait(), QUIRE_ABORTED) << code;
      QUIRE_FAKE(quire_fake_revive)();
      EXPECT_EQ(rig.wait(), QUIRE_ABORTED) << code;
      EXPECT_EQ(rig.err.native_code, code);
    }
    QUIRE_FAKE(quire_fake_revive)();
  }
  not_ours += alive();
}

// What has no code to answer with is remembered by the device.
TEST(Lost, IsLearntFromCallsThatAnswerNothing) {
  for (const bool freeing : {true, false}) {
    {
      Rig rig;
      char* memory = rig.take(4096);
      quire_driver_stream* other = nullptr;
      ASSERT_EQ(api().stream_create(rig.device, 0, &other, &rig.err), QUIRE_OK);
      const std::string call = freeing ? call_of("cuMemFree", "hipFree") : call_of("cuStreamSynchronize", "hipStreamSynchronize");
      QUIRE_FAKE(quire_fake_fail)(call.c_str(), 1, kIllegalAddress);
      if (freeing) {
        rig.give(memory);
      } else {
        api().stream_destroy(other);
      }
      QUIRE_FAKE(quire_fake_revive)();  // the library forgets, the driver does not
      rig.err = fresh_error();
      void* p = nullptr;
      EXPECT_EQ(api().mem_alloc(rig.device, 64, 0, QUIRE_MEM_DEVICE, &p, &rig.err), QUIRE_ABORTED) << call;
      EXPECT_EQ(rig.err.native_code, kIllegalAddress) << call;
      if (freeing) {
        api().stream_destroy(other);
      } else {
        rig.give(memory);
      }
    }
    QUIRE_FAKE(quire_fake_revive)();
  }
  not_ours += alive();
}

// A lost device does not say whose an address is: then nothing is read there.
TEST(Lost, ItsMemoryIsNotTakenForTheHosts) {
  {
    Rig rig;
    conformance::Shape shape;
    shape.rows = {{1, 40}};
    AttentionCase c(shape, {});
    c.op.arrays.kv_len = reinterpret_cast<int32_t*>(rig.take(4096));
    c.op.arrays.query_indptr = c.op.arrays.kv_len;
    std::vector<uint64_t> plan(1 << 12);
    const std::string call = call_of("cuPointerGetAttribute", "hipPointerGetAttribute");
    for (uint32_t nth = 1; nth <= 2; ++nth) {
      QUIRE_FAKE(quire_fake_fail)(call.c_str(), nth, kIllegalAddress);
      EXPECT_NE(api().attention_plan(rig.device, &c.op, plan.data(), plan.size() * 8, &rig.err), QUIRE_OK);
      QUIRE_FAKE(quire_fake_fail)(call.c_str(), nth, kIllegalAddress);
      EXPECT_NE(api().attention(rig.stream, &c.op, &rig.err), QUIRE_OK);
      QUIRE_FAKE(quire_fake_revive)();
    }
  }
  QUIRE_FAKE(quire_fake_revive)();
  not_ours += alive();
}

TEST(Lost, AFailedCallIsNotTheEnd) {
  Rig rig;
  conformance::Shape shape;
  shape.rows = {{1, 40}};
  AttentionCase c(shape, {});
  QUIRE_FAKE(quire_fake_fail)(call_of("cuLaunchKernel", "hipModuleLaunchKernel").c_str(), 1, kOutOfMemory);
  EXPECT_EQ(api().attention(rig.stream, &c.op, &rig.err), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(api().attention(rig.stream, &c.op, &rig.err), QUIRE_OK) << rig.err.message;
  EXPECT_EQ(rig.wait(), QUIRE_OK);
}

}  // namespace
}  // namespace quire
