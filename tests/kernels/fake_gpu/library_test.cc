// Other processes, other libraries and other machines: memory that is shared, calls that are not there, devices without matrix
// instructions. Method: example, in processes of their own.
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/fake_gpu/fake_gpu_rig.h"

namespace quire {
namespace {

struct Exported {
  unsigned char bytes[96];
};

TEST(Ipc, AnotherProcessReachesTheMemory) {
  if (given.library == "hip5") GTEST_SKIP() << "this library has no IPC: Ipc.WhereThereIsNone";
  Rig rig;
  char* memory = rig.take(1 << 20);
  char* host = rig.take(4096, QUIRE_MEM_HOST);
  ASSERT_EQ(api().fill(rig.stream, memory, 0x41, 1 << 20, &rig.err), QUIRE_OK);
  ASSERT_EQ(rig.wait(), QUIRE_OK);
  Exported handle{};
  uint64_t reach = 0;
  ASSERT_EQ(
      call_op("ipc.export", {value(rig.stream), value(number(memory) + 65536), value(&handle), value(sizeof handle)}, &reach, &rig.err),
      QUIRE_OK)
      << rig.err.message;
  EXPECT_EQ(reach, (1u << 20) - 65536);
  std::string text;
  for (const unsigned char b : handle.bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", b);
    text += two;
  }
  EXPECT_EQ(in_process("Imports", {{"QUIRE_TEST_HANDLE", text}}), 0);
  const quire_copy_run run = {number(memory) + 65536, number(host), 4096};
  ASSERT_EQ(api().copy(rig.stream, &run, 1, &rig.err), QUIRE_OK);
  ASSERT_EQ(rig.wait(), QUIRE_OK);
  EXPECT_EQ(host[0], 0x42) << "written by the other process";
  EXPECT_EQ(host[100], 0x41);
  rig.give(memory);
  rig.give(host, QUIRE_MEM_HOST);
}

TEST(Process, Imports) {
  const char* variable = getenv("QUIRE_TEST_HANDLE");  // NOLINT(concurrency-mt-unsafe): one thread
  ASSERT_NE(variable, nullptr);
  const std::string text = variable;
  Exported handle{};
  for (size_t i = 0; i < sizeof handle; ++i) handle.bytes[i] = static_cast<unsigned char>(std::stoul(text.substr(i * 2, 2), nullptr, 16));
  {
    Rig rig;
    uint64_t address = 0;
    uint64_t again = 0;
    ASSERT_EQ(call_op("ipc.import", {value(rig.stream), value(&handle)}, &address, &rig.err), QUIRE_OK) << rig.err.message;
    ASSERT_EQ(call_op("ipc.import", {value(rig.stream), value(&handle)}, &again, &rig.err), QUIRE_OK);
    EXPECT_EQ(again, address);
    char* host = rig.take(64, QUIRE_MEM_HOST);
    const quire_copy_run run = {address, number(host), 64};
    ASSERT_EQ(api().copy(rig.stream, &run, 1, &rig.err), QUIRE_OK);
    ASSERT_EQ(api().fill(rig.stream, reinterpret_cast<void*>(address), 0x42, 64, &rig.err), QUIRE_OK);
    ASSERT_EQ(rig.wait(), QUIRE_OK);
    EXPECT_EQ(host[63], 0x41);
    rig.give(host, QUIRE_MEM_HOST);
    EXPECT_EQ(call_op("ipc.close", {value(rig.stream), value(address), value(&handle)}, nullptr, &rig.err), QUIRE_OK);
    EXPECT_EQ(call_op("ipc.close", {value(rig.stream), value(address), value(&handle)}, nullptr, &rig.err), QUIRE_OK);
    EXPECT_EQ(call_op("ipc.close", {value(rig.stream), value(address), value(&handle)}, nullptr, &rig.err), QUIRE_INVALID_ARGUMENT)
        << "twice is as often as it was imported";
  }
  EXPECT_EQ(alive(), 0);
}

TEST(Ipc, WhatCannotBeSharedIsRefused) {
  if (given.library == "hip5") GTEST_SKIP() << "this library has no IPC: Ipc.WhereThereIsNone";
  Rig rig;
  char* memory = rig.take(4096);
  char* host = rig.take(4096, QUIRE_MEM_HOST);
  Exported handle{};
  uint64_t result = 0;
  const auto refused = [&](const char* op, std::vector<quire_value> args, const char* words) {
    rig.err = fresh_error();
    EXPECT_EQ(call_op(op, std::move(args), &result, &rig.err), QUIRE_INVALID_ARGUMENT) << words;
    EXPECT_NE(std::string(rig.err.message).find(words), std::string::npos) << rig.err.message;
  };
  refused("ipc.export", {value(rig.stream), value(number(host)), value(&handle), value(96)}, "is not in device memory");
  refused("ipc.export", {value(rig.stream), value(number(&handle)), value(&handle), value(96)}, "is not in device memory");
  refused("ipc.export", {value(rig.stream), value(uint64_t{0}), value(&handle), value(96)}, "is not in device memory");
  refused("ipc.export", {value(rig.stream), value(number(memory)), value(&handle), value(95)}, "95 bytes, 96 are needed");
  refused("ipc.export", {value(rig.stream), value(number(memory)), value(nullptr), value(96)}, "NULL");
  refused("ipc.export", {value(nullptr), value(number(memory)), value(&handle), value(96)}, "stream is NULL");
  refused("ipc.import", {value(rig.stream), value(&handle)}, "not one of ipc.export");
  refused("ipc.import", {value(rig.stream), value(nullptr)}, "NULL");
  ASSERT_EQ(call_op("ipc.export", {value(rig.stream), value(number(memory)), value(&handle), value(96)}, &result, &rig.err), QUIRE_OK);
  EXPECT_EQ(result, 4096u);
  refused("ipc.import", {value(rig.stream), value(&handle)}, "ipc.import: handle");  // of this very process
  refused("ipc.close", {value(rig.stream), value(number(memory)), value(&handle)}, "ipc.close: address");
  refused("ipc.close", {value(rig.stream), value(uint64_t{0}), value(&handle)}, "ipc.close: address");
  handle.bytes[8] ^= 1;  // device type
  refused("ipc.import", {value(rig.stream), value(&handle)}, "device type");
  rig.give(memory);
  rig.give(host, QUIRE_MEM_HOST);
}

void no_ipc() {
  Rig rig;
  char* memory = rig.take(4096);
  Exported handle{};
  uint64_t result = 0;
  EXPECT_EQ(call_op("ipc.export", {value(rig.stream), value(number(memory)), value(&handle), value(96)}, &result, &rig.err),
            QUIRE_UNIMPLEMENTED)
      << rig.err.message;
  EXPECT_EQ(rig.err.native_code, 801);
  rig.give(memory);
}

TEST(Ipc, WhereThereIsNone) {
  if (given.library == "hip5") no_ipc();
  if (!given.cuda()) return;
  EXPECT_EQ(in_process("NoIpc", {{"QUIRE_FAKE_GPU_WITHOUT", "cuIpcGetMemHandle"}}), 0);
}
TEST(Process, NoIpc) { no_ipc(); }

TEST(Libraries, WhatIsMissingIsSaid) {
  // A file of the library's name that is none hides the machine's own.
  const std::string absent = std::string(QUIRE_FAKE_FOLDER) + "/unloadable";
  const std::string says = call_of("no NVIDIA driver", "no AMD driver");
  EXPECT_EQ(in_process("Unavailable", {{"LD_LIBRARY_PATH", absent}, {"QUIRE_TEST_SAYS", says}}), 0);
  EXPECT_EQ(in_process("Unavailable", {{"QUIRE_FAKE_GPUS", "0"}, {"QUIRE_TEST_SAYS", call_of("no CUDA device", "no HIP device")}}), 0);
  if (!given.cuda()) return;
  EXPECT_EQ(in_process("Unavailable", {{"QUIRE_FAKE_GPU_WITHOUT", "cuMemAlloc"}, {"QUIRE_TEST_SAYS", "has no cuMemAlloc of CUDA 12.0"}}),
            0);
  EXPECT_EQ(in_process("Unavailable", {{"QUIRE_FAKE_GPU_VERSION", "11080"}, {"QUIRE_TEST_SAYS", "its driver is older"}}), 0);
#if QUIRE_FAKE_CUDA_VERSION >= 12010
  EXPECT_EQ(in_process("Unavailable", {{"QUIRE_FAKE_GPU_VERSION", "12000"}, {"QUIRE_TEST_SAYS", "its driver is older, of CUDA 12.0"}}), 0);
#endif
}
TEST(Process, Unavailable) {
  Rig rig;
  EXPECT_EQ(rig.instance, nullptr);
  EXPECT_EQ(rig.err.code, QUIRE_UNAVAILABLE);
  EXPECT_NE(std::string(rig.err.message).find(getenv("QUIRE_TEST_SAYS")), std::string::npos)
      << rig.err.message;  // NOLINT(concurrency-mt-unsafe)
}

TEST(Libraries, ASecondDeviceHasItsOwnHandles) { EXPECT_EQ(in_process("TwoDevices", {{"QUIRE_FAKE_GPUS", "2"}}), 0); }
TEST(Process, TwoDevices) {
  {
    Rig first(0);
    Rig second(1);
    ASSERT_NE(second.stream, nullptr) << second.err.message;
    for (Rig* rig : {&first, &second, &first}) {
      char* host = rig->take(64, QUIRE_MEM_HOST);
      char* device = rig->take(64);
      const quire_copy_run runs[] = {{number(device), number(host), 64}};
      ASSERT_EQ(api().fill(rig->stream, device, 6, 64, &rig->err), QUIRE_OK);
      ASSERT_EQ(api().copy(rig->stream, runs, 1, &rig->err), QUIRE_OK) << rig->err.message;
      ASSERT_EQ(rig->wait(), QUIRE_OK);
      EXPECT_EQ(host[0], 6);
      rig->give(host, QUIRE_MEM_HOST);
      rig->give(device);
    }
    Rig third(2);
    EXPECT_EQ(third.err.code, QUIRE_OUT_OF_RANGE);
  }
  EXPECT_EQ(alive(), 0);
}

// Kernels of matrix instructions are chosen where the code that the device took has them.
TEST(Matrix, IsUsedWhereTheCodeHasIt) {
  Rig rig(0, 2);
  ASSERT_NE(rig.stream, nullptr) << rig.err.message;
  EXPECT_EQ(rig.said, "");
  conformance::Shape shape;
  shape.rows = {{20, 40}};
  AttentionCase c(shape, {});
  const uint64_t before = calls("launch tile_bf16_64");
  ASSERT_EQ(api().attention(rig.stream, &c.op, &rig.err), QUIRE_OK) << rig.err.message;
  ASSERT_EQ(rig.wait(), QUIRE_OK);
  EXPECT_EQ(calls("launch tile_bf16_64"), before + 1);
  const oracle::Attention want = oracle::attention(c.op);
  EXPECT_LE(conformance::row_errors(c.out(), want.out, shape.dim_v).worst, 1e-2);
  Rig more(0, 3);
  EXPECT_EQ(more.instance, nullptr);
  EXPECT_EQ(more.err.code, QUIRE_UNIMPLEMENTED);
}

TEST(Matrix, FallsBackToDotProductsWithAWarning) {
  if (given.cuda()) GTEST_SKIP() << "all code of the CUDA driver has matrix instructions";
  for (const char* name : {"gfx906", "gfx908", "gfx1030"}) EXPECT_EQ(in_process("NoMatrix", {{"QUIRE_FAKE_GPU_ARCH", name}}), 0) << name;
  EXPECT_EQ(in_process("NoCode", {{"QUIRE_FAKE_GPU_ARCH", "gfx803"}}), 0);
}
TEST(Process, NoMatrix) {
  Rig rig(0, 2);
  ASSERT_NE(rig.stream, nullptr) << rig.err.message;
  EXPECT_NE(rig.said.find("no matrix instructions that this driver uses: attention multiplies by dot products"), std::string::npos)
      << rig.said;
  EXPECT_NE(rig.said.find("Fake gfx"), std::string::npos);
  conformance::Shape shape;
  shape.rows = {{20, 40}};
  AttentionCase c(shape, {});
  ASSERT_EQ(api().attention(rig.stream, &c.op, &rig.err), QUIRE_OK) << rig.err.message;
  ASSERT_EQ(rig.wait(), QUIRE_OK);
  EXPECT_EQ(calls("launch attend"), 1u);
  const oracle::Attention want = oracle::attention(c.op);
  EXPECT_LE(conformance::row_errors(c.out(), want.out, shape.dim_v).worst, 1e-2);
}
TEST(Process, NoCode) {
  Rig rig(0, 2);
  EXPECT_EQ(rig.device, nullptr);
  EXPECT_EQ(rig.err.native_code, fake::kNoBinary);
  EXPECT_NE(std::string(rig.err.message).find("hipErrorNoBinaryForGpu"), std::string::npos) << rig.err.message;
}

}  // namespace
}  // namespace quire
