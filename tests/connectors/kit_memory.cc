// Seeds, contents, random runs, and memory with a shadow.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kit.h"

namespace quire::kit {
namespace {

constexpr uint64_t kGuardBytes = 256;
constexpr uint8_t kGuard = 0xa5;

// Up to seven bytes more than that. Nobody else knows the memory yet.
__attribute__((no_sanitize("thread"))) void write_words(uint64_t first, uint64_t bytes, uint8_t* to) {
  for (uint64_t at = 0; at < bytes; at += 8) {
    uint64_t x = first + at;
    x ^= x >> 31;
    x *= 0x7fb5d329728ea185;
    x ^= x >> 27;
    x *= 0x81dadef4bc2dd44d;
    x ^= x >> 33;
    std::memcpy(to + at, &x, sizeof x);
  }
}

// Adds a run to a layout: memory of its own, with random gaps.
class Planner {
 public:
  Planner(Rng* rng, Layout* layout) : rng_(rng), layout_(*layout) {}

  // object_offset: of the lowest piece.
  void add(uint64_t object_offset, uint64_t bytes, uint64_t count, uint64_t object_stride) {
    quire_ticket_run run{};
    run.bytes = bytes;
    run.count = count;
    const uint64_t stride = bytes + (below(rng_, 2) == 0 ? 0 : below(rng_, 40));
    const uint64_t span = (count - 1) * stride + bytes;
    const uint64_t first = layout_.memory_bytes + below(rng_, 30);
    const bool down = below(rng_, 4) == 0;
    run.address = down ? first + (count - 1) * stride : first;
    run.stride = down ? -static_cast<int64_t>(stride) : static_cast<int64_t>(stride);
    const bool object_down = below(rng_, 4) == 0;
    run.object_offset = object_down ? object_offset + (count - 1) * object_stride : object_offset;
    run.object_stride = object_down ? -static_cast<int64_t>(object_stride) : static_cast<int64_t>(object_stride);
    if (count == 1 && below(rng_, 2) == 0) run.stride = run.object_stride = 0;  // any, for one piece
    layout_.runs.push_back(run);
    layout_.memory_bytes = first + span;
  }

 private:
  Rng* rng_;
  Layout& layout_;
};

template <typename Visit>  // visit(address, object offset, bytes)
void each_piece(const Runs& runs, Visit visit) {
  for (const quire_ticket_run& run : runs) {
    for (uint64_t i = 0; i < run.count; ++i) {
      const auto at = static_cast<int64_t>(i);
      visit(run.address + static_cast<uint64_t>(at * run.stride), run.object_offset + static_cast<uint64_t>(at * run.object_stride),
            run.bytes);
    }
  }
}

}  // namespace

uint64_t seed() {
  static const uint64_t kSeed = [] {
    const char* given = std::getenv("QUIRE_SEED");  // NOLINT(concurrency-mt-unsafe)
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 10) : static_cast<uint64_t>(now) / 1000 % 1'000'000'000;
    std::printf("QUIRE_SEED=%llu\n", static_cast<unsigned long long>(value));
    return value;
  }();
  return kSeed;
}

uint64_t below(Rng* rng, uint64_t limit) { return std::uniform_int_distribution<uint64_t>(0, limit - 1)(*rng); }

Bytes content(uint64_t seed, uint64_t bytes) {
  Bytes out(bytes + 8);
  write_words(seed * 0x9e3779b97f4a7c15, bytes, out.data());
  out.resize(bytes);
  return out;
}

Key key(uint64_t number, uint64_t bytes) {
  const Bytes made = content(number ^ 0x6b6579, bytes);
  return {made.begin(), made.end()};
}

Layout dense(uint64_t object_offset, uint64_t bytes) {
  Layout layout;
  quire_ticket_run run{};
  run.bytes = bytes;
  run.count = 1;
  run.object_offset = object_offset;
  layout.runs.push_back(run);
  layout.memory_bytes = bytes;
  return layout;
}

// Cuts the object into stretches; in a stretch, several runs take turns.
Layout covering(Rng* rng, uint64_t object_bytes) {
  Layout layout;
  Planner planner(rng, &layout);
  for (uint64_t at = 0; at < object_bytes;) {
    const uint64_t left = object_bytes - at;
    const uint64_t bytes = 1 + below(rng, std::min<uint64_t>(left, below(rng, 2) == 0 ? 64 : 20000));
    const uint64_t turns = 1 + below(rng, 4);
    const uint64_t count = std::min<uint64_t>(left / (bytes * turns), 1 + below(rng, 40));
    if (count == 0) {
      planner.add(at, bytes, 1, bytes);
      at += bytes;
      continue;
    }
    for (uint64_t i = 0; i < turns; ++i) planner.add(at + i * bytes, bytes, count, turns * bytes);
    at += turns * count * bytes;
  }
  std::shuffle(layout.runs.begin(), layout.runs.end(), *rng);
  return layout;
}

Layout reading(Rng* rng, uint64_t object_bytes) {
  Layout layout;
  Planner planner(rng, &layout);
  for (uint64_t n = 1 + below(rng, 12); n != 0; --n) {
    const uint64_t bytes = 1 + below(rng, std::min<uint64_t>(object_bytes, below(rng, 3) == 0 ? object_bytes : 100));
    const uint64_t stride = bytes + below(rng, 100);
    const uint64_t count = 1 + below(rng, std::min<uint64_t>((object_bytes - bytes) / stride + 1, 50));
    const uint64_t span = (count - 1) * stride + bytes;
    planner.add(below(rng, object_bytes - span + 1), bytes, count, stride);
  }
  return layout;
}

Memory::Memory(Layout* layout, uint64_t misalignment) : bytes_(layout->memory_bytes + 2 * kGuardBytes + 128, kGuard), shadow_(bytes_) {
  const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
  begin_ = kGuardBytes + (64 - address % 64) % 64 + misalignment % 64;
  for (quire_ticket_run& run : layout->runs) run.address += address + begin_;
}

void Memory::write(const Runs& runs, const Bytes& object, uint8_t* to) {
  const auto first = reinterpret_cast<uintptr_t>(bytes_.data());
  each_piece(
      runs, [&](uint64_t address, uint64_t offset, uint64_t bytes) { std::memcpy(to + (address - first), object.data() + offset, bytes); });
}

void Memory::fill(const Runs& runs, const Bytes& object) {
  write(runs, object, bytes_.data());
  write(runs, object, shadow_.data());
}

void Memory::expect(const Runs& runs, const Bytes& object) { write(runs, object, shadow_.data()); }

void Memory::forget(const Runs& runs) {
  const auto first = reinterpret_cast<uintptr_t>(bytes_.data());
  each_piece(runs, [&](uint64_t address, uint64_t, uint64_t bytes) {
    std::memcpy(shadow_.data() + (address - first), bytes_.data() + (address - first), bytes);
  });
}

testing::AssertionResult Memory::intact() const {
  if (std::memcmp(bytes_.data(), shadow_.data(), bytes_.size()) == 0) return testing::AssertionSuccess();  // fast with sanitizers, too
  const auto wrong = std::mismatch(bytes_.begin(), bytes_.end(), shadow_.begin());
  const auto at = wrong.first - bytes_.begin();
  const auto end = static_cast<ptrdiff_t>(begin_);
  return testing::AssertionFailure() << "byte " << at - end << " of the memory (" << bytes_.size() << " with guards of " << end << ") is "
                                     << int{*wrong.first} << ", must be " << int{*wrong.second};
}

}  // namespace quire::kit
