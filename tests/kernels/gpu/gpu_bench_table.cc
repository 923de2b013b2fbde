// The parts of gpu_bench.h.
#include "tests/kernels/gpu/gpu_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace quire::conformance {
namespace {

uint64_t next_random(uint64_t* state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return *state >> 33;
}

// Bits of a number of the type whose magnitude is in [0.5, 2), in fp32 times factor.
uint32_t random_bits(quire_dtype dtype, float factor, uint64_t* seed) {
  const auto r = static_cast<uint32_t>(next_random(seed));
  if (dtype.bits == 8) return (r & 0x80u) | 0x30u | (r & 0xfu);  // e4m3
  if (dtype.bits == 16) return (r & 0x8000u) | 0x3f00u | (r & 0xffu);
  const uint32_t bits = 0x3f000000u + (r & 0xffffffu);
  float x = 0;
  memcpy(&x, &bits, sizeof x);
  x *= factor;
  uint32_t out = 0;
  memcpy(&out, &x, sizeof out);
  return out;
}

struct Table {
  Scale scale{};
  std::string wanted;  // of a row's name
  double rate = 0;     // GB/s, read plus written
  bool first = true;
  bool file = false;  // whose end is written after every row, and written over by the next
};
Table table;

constexpr char kEnd[] = "\n  ]\n}\n";

}  // namespace

void require(quire_code code, const char* what, const quire_error& err) {
  if (code == QUIRE_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, err.message);
  std::exit(1);
}

uint64_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

void finish() {
  quire_error err = fresh_error();
  require(api().stream_synchronize(driver().stream, -1, &err), "synchronize", err);
}

Block::Block(uint64_t bytes) : bytes_(std::max<uint64_t>(bytes, 1)) {
  quire_error err = fresh_error();
  require(api().mem_alloc(driver().device, bytes_, 256, QUIRE_MEM_DEVICE, &data_, &err), "mem_alloc", err);
}

Block::~Block() { api().mem_free(driver().device, data_, bytes_, QUIRE_MEM_DEVICE); }

void copy(const std::vector<quire_copy_run>& runs) {
  quire_error err = fresh_error();
  require(api().copy(driver().stream, runs.data(), runs.size(), &err), "copy", err);
}

std::unique_ptr<Block> put(const void* from, uint64_t bytes) {
  auto block = std::make_unique<Block>(bytes);
  Array<uint8_t> staged(bytes);
  memcpy(staged.data(), from, bytes);
  copy({{address(staged.data()), address(block->data()), bytes}});
  finish();
  return block;
}

void randomise(const Block& block, quire_dtype dtype, float factor) {
  const size_t each = dtype.bits / 8;
  Array<uint8_t> some(std::min<uint64_t>(block.bytes(), (1 << 20) - 64));
  uint64_t seed = block.bytes();
  for (size_t i = 0; i + each <= some.size(); i += each) {
    const uint32_t bits = random_bits(dtype, factor, &seed);
    memcpy(some.data() + i, &bits, each);
  }
  std::vector<quire_copy_run> runs;
  for (uint64_t at = 0; at < block.bytes(); at += some.size()) {
    runs.push_back({address(some.data()), address(block.data()) + at, std::min<uint64_t>(some.size(), block.bytes() - at)});
  }
  copy(runs);
  finish();
}

quire_tensor dense(const Block& block, quire_dtype dtype, const std::vector<int64_t>& shape) {
  quire_device_info info{};
  info.struct_size = sizeof info;
  quire_error err = fresh_error();
  require(api().device_info(driver().device, &info, &err), "device_info", err);
  quire_tensor t{};
  t.data = block.data();
  t.device_type = info.device_type;
  t.dtype = dtype;
  t.ndim = static_cast<int32_t>(shape.size());
  int64_t stride = dtype.bits / 8;
  for (size_t d = shape.size(); d-- > 0;) {
    t.shape[d] = shape[d];
    t.stride[d] = stride;
    stride *= shape[d];
  }
  return t;
}

std::vector<int32_t> shuffled(uint64_t n) {
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  uint64_t seed = n;
  for (uint64_t i = n; i > 1; --i) std::swap(order[i - 1], order[next_random(&seed) % i]);
  return order;
}

Seconds measure(const std::function<void()>& call, int rounds) {
  const bool small = table.scale.small;
  const auto timed = [&](int calls) {
    finish();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
  };
  timed(small ? 1 : 2);
  const int calls = small ? 1 : static_cast<int>(std::clamp(0.02 / timed(2), 1.0, 2000.0));
  std::vector<double> times;
  times.reserve(static_cast<size_t>(rounds));
  for (int i = 0; i < rounds; ++i) times.push_back(timed(calls));
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

const Scale& scale() { return table.scale; }

void begin_table(bool small, const std::string& wanted) {
  table.scale = small ? Scale{true, 1 << 20, 3} : Scale{false, uint64_t{1} << 30, 21};
  table.wanted = wanted;
  table.file = std::fseek(stdout, 0, SEEK_CUR) == 0;
  const uint64_t bytes = table.scale.set;
  Block from(bytes), to(bytes);
  randomise(from);
  const Seconds s = measure([&] { copy({{address(from.data()), address(to.data()), bytes}}); }, table.scale.rounds);
  table.rate = 2.0 * static_cast<double>(bytes) / s.best / 1e9;
  std::printf("  \"copy_GBps\": %.1f,\n  \"rows\": [", table.rate);
}

void end_table() { std::fputs(kEnd, stdout); }

bool want(const std::string& name) { return name.find(table.wanted) != std::string::npos; }

void print(const std::string& row) {
  std::printf("%s\n    {%s}", table.first ? "" : ",", row.c_str());
  table.first = false;
  if (table.file) std::fputs(kEnd, stdout);
  std::fflush(stdout);
  if (table.file) std::fseek(stdout, 1 - static_cast<long>(sizeof kEnd), SEEK_CUR);
}

void print(const std::string& name, const Seconds& s, double bytes, double operations, const std::string& kernel) {
  std::string row = "\"name\": \"" + name + "\"";
  const auto add = [&row](const char* what, int digits, double x) {
    char text[64];
    std::snprintf(text, sizeof text, ", \"%s\": %.*f", what, digits, x);
    row += text;
  };
  add("best_us", 3, s.best * 1e6);
  add("median_us", 3, s.median * 1e6);
  if (bytes > 0) add("GBps", 1, bytes / s.median / 1e9);
  if (bytes > 0) add("of_copy", 4, bytes / s.median / 1e9 / table.rate);
  if (operations > 0) add("TFLOPs", 2, operations / s.median / 1e12);
  if (!kernel.empty()) row += ", \"kernel\": \"" + kernel + "\"";
  print(row);
}

}  // namespace quire::conformance
