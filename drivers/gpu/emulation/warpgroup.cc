#include "drivers/gpu/emulation/warpgroup.h"

#include "drivers/gpu/emulation/lanes.h"
#include "drivers/gpu/hopper.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

namespace quire::gpu::emulation {
namespace {

constexpr uint32_t kWarpgroups = kMaxThreads / kWarpgroup;

struct Barrier {
  uint32_t mark : 11;
  uint32_t phase : 1;
  uint32_t arrivals : 10;
  uint32_t missing : 10;
  int32_t bytes;
};
static_assert(sizeof(Barrier) == sizeof(uint64_t));
constexpr uint32_t kMark = 0x2a5;  // shared memory is full of ones at first

// What cuTensorMapEncodeTiled would have made.
struct Map {
  const char* base;
  uint64_t size[4];
  uint64_t stride[3];
  uint32_t box[4];
};
static_assert(sizeof(Map) <= sizeof(TensorMap));

struct Box {
  uint32_t to;
  Map map;
  uint64_t* barrier;
  uint32_t from[4];
};

struct Pending {
  std::array<Product, kWarpgroup> by;
  std::array<uint32_t, kWarpgroup> group;
  uint32_t joined = 0;
};

struct Block {
  std::vector<Box> boxes;
  std::vector<Pending> products[kWarpgroups];
  uint64_t done[kWarpgroups];    // products
  uint64_t issued[kMaxThreads];  // likewise
  uint32_t committed[kMaxThreads];
  bool begun[kMaxThreads];
};

Block& block() {
  thread_local Block b;
  return b;
}

std::atomic<bool> at_once{false};

char* at_shared(uint32_t address, uint32_t bytes) {
  if (address < kSharedBase || address - kSharedBase + bytes > shared_size()) fault("an address that is not in shared memory");
  return shared() + (address - kSharedBase);
}

Barrier load(const uint64_t* b) {
  Barrier s{};
  memcpy(&s, b, sizeof s);
  if (s.mark != kMark) fault("a barrier that nobody made");
  return s;
}

// Ends the phase where all have arrived and all bytes are there.
void store(uint64_t* b, Barrier s) {
  if (s.missing == 0 && s.bytes == 0) {
    s.phase ^= 1;
    s.missing = s.arrivals;
  }
  memcpy(b, &s, sizeof s);
}

void bring(const Box& x) {
  const Map& m = x.map;
  const uint32_t pitch = m.box[0] * 2;
  uint32_t bytes = 0;
  for (uint32_t page = 0; page < m.box[3]; ++page) {
    for (uint32_t head = 0; head < m.box[2]; ++head) {
      for (uint32_t token = 0; token < m.box[1]; ++token) {
        for (uint32_t d = 0; d < m.box[0]; ++d, bytes += 2) {
          const uint64_t at[4] = {uint64_t{x.from[0]} + d, uint64_t{x.from[1]} + token, uint64_t{x.from[2]} + head,
                                  uint64_t{x.from[3]} + page};
          char* to = at_shared(swizzled(x.to + bytes / pitch * pitch + d * 2), 2);
          if (at[0] >= m.size[0] || at[1] >= m.size[1] || at[2] >= m.size[2] || at[3] >= m.size[3]) {
            memset(to, 0, 2);
          } else {
            memcpy(to, m.base + at[0] * 2 + at[1] * m.stride[0] + at[2] * m.stride[1] + at[3] * m.stride[2], 2);
          }
        }
      }
    }
  }
  Barrier s = load(x.barrier);
  s.bytes -= static_cast<int32_t>(bytes);
  store(x.barrier, s);
}

// An operand in shared memory, as its descriptor says.
struct Operand {
  uint32_t begin, leading, stride;
};

Operand decode(uint64_t descriptor) {
  if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0) fault("a matrix that is not swizzled by 128 bytes from a multiple of 1024");
  const auto field = [descriptor](uint32_t from) { return static_cast<uint32_t>(descriptor >> from & 0x3fff) << 4; };
  return {field(0), field(16), field(32)};
}

uint16_t element(const Operand& o, bool along_k, uint32_t row, uint32_t k) {
  const uint32_t at = along_k ? o.begin + row / 8 * o.stride + row % 8 * 128 + k * 2
                              : o.begin + row / 64 * o.leading + row % 64 * 2 + k / 8 * o.stride + k % 8 * 128;
  uint16_t value = 0;
  memcpy(&value, at_shared(swizzled(at), 2), 2);
  return value;
}

void multiply(const Pending& p) {
  const Product& first = p.by[0];
  if (p.joined != kWarpgroup) fault("a product that not all threads of the warpgroup have asked for");
  for (const Product& other : p.by) {
    const bool same = other.left == first.left && other.right == first.right && other.n == first.n && other.half == first.half &&
                      other.columns == first.columns && other.add == first.add && (other.a == nullptr) == (first.a == nullptr);
    if (!same) fault("threads of a warpgroup do not ask for the same product");
  }
  const auto wide = [&first](uint16_t x) { return first.half ? drivers::float_of_fp16(x) : drivers::float_of_bf16(x); };
  float a[kGroupRows][kMatrix];
  if (first.a == nullptr) {
    const Operand left = decode(first.left);
    for (uint32_t r = 0; r < kGroupRows; ++r) {
      for (uint32_t k = 0; k < kMatrix; ++k) a[r][k] = wide(element(left, true, r, k));
    }
  } else {
    for (uint32_t t = 0; t < kWarpgroup; ++t) {
      for (uint32_t i = 0; i < Sm80::kA; ++i) {
        const Place at = Sm90::a(t, i);
        a[at.row][at.column] = wide(static_cast<uint16_t>(p.by[t].a[i / 2] >> (i % 2 * 16)));
      }
    }
  }
  float b[kMatrix][256];
  const Operand right = decode(first.right);
  for (uint32_t n = 0; n < first.n; ++n) {
    for (uint32_t k = 0; k < kMatrix; ++k) b[k][n] = wide(element(right, !first.columns, n, k));
  }
  float d[kGroupRows][256] = {};
  for (uint32_t t = 0; first.add && t < kWarpgroup; ++t) {
    for (uint32_t i = 0; i < first.n / 2; ++i) d[Sm90::d(t, i).row][Sm90::d(t, i).column] = p.by[t].d[i];
  }
  for (uint32_t r = 0; r < kGroupRows; ++r) {
    for (uint32_t k = 0; k < kMatrix; ++k) {
      for (uint32_t n = 0; n < first.n; ++n) d[r][n] += a[r][k] * b[k][n];
    }
  }
  for (uint32_t t = 0; t < kWarpgroup; ++t) {
    for (uint32_t i = 0; i < first.n / 2; ++i) p.by[t].d[i] = d[Sm90::d(t, i).row][Sm90::d(t, i).column];
  }
}

uint32_t my_group() {
  const uint32_t group = thread_index() / kWarpgroup;
  if (group >= kWarpgroups) fault("a thread that is in no warpgroup");
  return group;
}

}  // namespace

uint32_t shared_address(const void* p) { return kSharedBase + static_cast<uint32_t>(static_cast<const char*>(p) - shared()); }

void warpgroup_sync() { meet_group(kWarpgroup); }

void barrier_init(uint64_t* b, uint32_t arrivals) {
  if (shared_address(b) % 8 != 0) fault("a barrier that is not at a multiple of 8 bytes");
  const Barrier s{kMark, 0, arrivals, arrivals, 0};
  memcpy(b, &s, sizeof s);
}

void barrier_arrive(uint64_t* b, uint32_t bytes) {
  Barrier s = load(b);
  if (s.missing == 0) fault("more threads arrive at a barrier than it is for");
  --s.missing;
  s.bytes += static_cast<int32_t>(bytes);
  store(b, s);
}

void barrier_wait(uint64_t* b, uint32_t parity) {
  load(b);
  await_phase(b, parity);
}

bool make_map(const BoxShape& shape, TensorMap* map) {
  bool good = reinterpret_cast<uintptr_t>(shape.base) % 16 == 0 && shape.box[0] * 2 <= 128 && shape.box[0] % 8 == 0;
  for (const uint64_t size : shape.size) good = good && size != 0 && size <= uint64_t{1} << 32;
  for (const uint64_t stride : shape.stride) good = good && stride % 16 == 0 && stride < uint64_t{1} << 40;
  for (const uint32_t box : shape.box) good = good && box != 0 && box <= 256;
  if (!good) return false;
  Map made{static_cast<const char*>(shape.base), {}, {}, {}};
  memcpy(made.size, shape.size, sizeof made.size);
  memcpy(made.stride, shape.stride, sizeof made.stride);
  memcpy(made.box, shape.box, sizeof made.box);
  *map = {};
  memcpy(map, &made, sizeof made);
  return true;
}

void load_box(void* to, const TensorMap* map, uint64_t* barrier, const uint32_t* from) {
  Box x{shared_address(to), {}, barrier, {from[0], from[1], from[2], from[3]}};
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0) fault("a tensor map that is not at a multiple of 64 bytes");
  if (x.to % kSwizzleBytes != 0) fault("a box that does not begin with a pattern of its swizzle");
  memcpy(&x.map, map, sizeof x.map);
  if (at_once.load(std::memory_order_relaxed)) {
    bring(x);
  } else {
    block().boxes.push_back(x);
  }
}

void boxes_come_at_once(bool now) { at_once = now; }

void products_begin() { block().begun[thread_index()] = true; }
void products_commit() { ++block().committed[thread_index()]; }

void multiply_group(const Product& product) {
  Block& b = block();
  const uint32_t t = thread_index();
  const uint32_t group = my_group();
  if (!b.begun[t]) fault("a product without a fence since registers could be written");
  const uint64_t place = b.issued[t]++ - b.done[group];
  std::vector<Pending>& all = b.products[group];
  if (place >= all.size()) all.resize(place + 1);
  Pending& p = all[place];
  p.by[t % kWarpgroup] = product;
  p.group[t % kWarpgroup] = b.committed[t];
  ++p.joined;
}

void products_await(uint32_t open) {
  Block& b = block();
  const uint32_t t = thread_index();
  const uint32_t group = my_group();
  if (meet_group(kWarpgroup)) {  // all are here, and this one goes on first
    std::vector<Pending>& all = b.products[group];
    uint32_t done = 0;
    while (done < all.size() && all[done].group[t % kWarpgroup] + open < b.committed[t]) multiply(all[done++]);
    all.erase(all.begin(), all.begin() + done);
    b.done[group] += done;
  }
  b.begun[t] = false;
}

void begin_block() {
  Block& b = block();
  std::fill(std::begin(b.done), std::end(b.done), 0);
  std::fill(std::begin(b.issued), std::end(b.issued), 0);
  std::fill(std::begin(b.committed), std::end(b.committed), 0);
  std::fill(std::begin(b.begun), std::end(b.begun), false);
}

void end_block() {
  if (!block().boxes.empty()) fault("boxes that nobody waited for");
  for (const std::vector<Pending>& all : block().products) {
    if (!all.empty()) fault("products that nobody waited for");
  }
}

bool phase_ended(uint64_t* b, uint32_t parity) {
  if (load(b).phase != parity) return true;
  std::vector<Box>& boxes = block().boxes;
  for (size_t i = 0; i < boxes.size();) {
    if (boxes[i].barrier == b) {
      bring(boxes[i]);
      boxes.erase(boxes.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return load(b).phase != parity;
}

}  // namespace quire::gpu::emulation
