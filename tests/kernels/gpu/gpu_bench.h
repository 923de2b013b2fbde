// What the rows of quire_gpu_bench share: memory of the device, random contents, timing, the line
// of a row.
#pragma once

#include "tests/kernels/conformance/open_driver.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace quire::conformance {

inline constexpr quire_dtype kBf16 = {QUIRE_DTYPE_BFLOAT, 16, 1};
inline constexpr quire_dtype kFloat = {QUIRE_DTYPE_FLOAT, 32, 1};
inline constexpr quire_dtype kFp8 = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};

// Ends the program where a call failed.
void require(quire_code code, const char* what, const quire_error& err);
inline const quire_driver_api& api() { return *driver().api; }
void finish();

// Memory of the device.
class Block {
 public:
  explicit Block(uint64_t bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  uint64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  uint64_t bytes_;
};

void copy(const std::vector<quire_copy_run>& runs);
// The host's bytes in memory of the device.
std::unique_ptr<Block> put(const void* from, uint64_t bytes);
uint64_t address(const void* p);
// Of a type's numbers in +-(0.5, 2); in fp32 of positive ones times `factor`: a megabyte of random
// ones, then copies of it.
void randomise(const Block& block, quire_dtype dtype = kBf16, float factor = 1.0f);
// A dense tensor of the device.
quire_tensor dense(const Block& block, quire_dtype dtype, const std::vector<int64_t>& shape);
std::vector<int32_t> shuffled(uint64_t n);

struct Seconds {
  double best = 0, median = 0;
};
// Rounds of calls, each round about 20 ms, or of one call where the numbers say nothing, from an
// idle stream to an idle stream.
Seconds measure(const std::function<void()>& call, int rounds);

// How large the rows are.
struct Scale {
  bool small;
  uint64_t set;  // bytes of a working set that no cache holds
  int rounds;
  int32_t tokens(uint64_t n) const { return static_cast<int32_t>(small ? n / 128 : n); }
};
const Scale& scale();
// The table and what the device copies; its rows are those whose name has the text. A file is whole
// JSON after every row.
void begin_table(bool small, const std::string& wanted);
void end_table();
bool want(const std::string& name);
void print(const std::string& row);
// A row: bytes moved and operations, 0 where they say nothing; a kernel's name.
void print(const std::string& name, const Seconds& s, double bytes, double operations, const std::string& kernel = {});

void state_rows();  // gpu_bench_states.cc

}  // namespace quire::conformance
