#include "plugins/ucx/ucx_cursor.h"

#include <algorithm>

namespace quire::ucx {
namespace {

// Strides may be negative: sums wrap as the library has checked them.
uint64_t place(uint64_t first, int64_t stride, uint64_t piece) { return first + static_cast<uint64_t>(stride) * piece; }

}  // namespace

Stretch Cursor::next(uint64_t most_bytes, size_t most_ranges, size_t most_places) {
  Stretch out;
  while (run_ < runs_.size() && out.bytes < most_bytes) {
    const quire_ticket_run& run = runs_[run_];
    const uint64_t offset = place(run.object_offset, run.object_stride, piece_) + byte_;
    const uint64_t address = place(run.address, run.stride, piece_) + byte_;
    const uint64_t bytes = std::min(run.bytes - byte_, most_bytes - out.bytes);
    const bool joins_range = !out.ranges.empty() && out.ranges.back().offset + out.ranges.back().bytes == offset;
    const bool joins_place =
        !out.places.empty() && reinterpret_cast<uintptr_t>(out.places.back().buffer) + out.places.back().length == address;
    if ((!joins_range && out.ranges.size() == most_ranges) || (!joins_place && out.places.size() == most_places)) break;
    if (joins_range) {
      out.ranges.back().bytes += bytes;
    } else {
      out.ranges.push_back({offset, bytes});
    }
    if (joins_place) {
      out.places.back().length += bytes;
    } else {
      out.places.push_back({reinterpret_cast<void*>(address), bytes});
    }
    out.bytes += bytes;
    byte_ += bytes;
    if (byte_ < run.bytes) continue;
    byte_ = 0;
    if (++piece_ < run.count) continue;
    piece_ = 0;
    ++run_;
  }
  return out;
}

}  // namespace quire::ucx
