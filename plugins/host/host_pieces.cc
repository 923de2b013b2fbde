#include "plugins/host/host_pieces.h"

#include <algorithm>
#include <bit>

#include "plugins/common/stream_copy.h"

namespace quire::host {
namespace {

using Wide = __int128;

constexpr uint64_t kTurnBytes = uint64_t{1} << 20;  // copied between two looks at `stop`

class Copier {
 public:
  Copier(const Store& store, const Copy& copy, const std::atomic<bool>& stop)
      : store_(store),
        chunks_(copy.chunks),
        shift_(static_cast<unsigned>(std::countr_zero(store.chunk_bytes()))),
        direction_(copy.direction),
        stop_(stop) {}

  bool run(const quire_ticket_run& run) {
    const auto address = reinterpret_cast<char*>(run.address);
    const auto bytes = static_cast<int64_t>(run.bytes);
    if (run.stride == bytes && run.object_stride == bytes) return piece(address, run.object_offset, run.bytes * run.count);
    for (uint64_t i = 0; i < run.count; ++i) {
      const auto at = static_cast<int64_t>(i);
      if (!piece(address + at * run.stride, run.object_offset + static_cast<uint64_t>(at * run.object_stride), run.bytes)) return false;
    }
    return true;
  }

 private:
  bool piece(char* memory, uint64_t offset, uint64_t bytes) {
    while (bytes != 0) {
      if (turn_ >= kTurnBytes) {
        turn_ = 0;
        if (stop_.load(std::memory_order_relaxed)) return false;
      }
      const uint64_t at = offset & (store_.chunk_bytes() - 1);
      const uint64_t part = dense(offset >> shift_, at, std::min(bytes, kTurnBytes));
      char* const object = store_.chunk(chunks_[offset >> shift_]) + at;
      if (direction_ == Direction::kIntoObject) {
        plugins::stream_copy(object, memory, part);
      } else {
        plugins::stream_copy(memory, object, part);
      }
      memory += part;
      offset += part;
      bytes -= part;
      turn_ += part;
    }
    return true;
  }

  // How many of `bytes` from byte `at` of a chunk on lie in chunks one behind the other.
  uint64_t dense(uint64_t chunk, uint64_t at, uint64_t bytes) const {
    uint64_t part = store_.chunk_bytes() - at;
    for (; part < bytes && chunks_[chunk + 1] == chunks_[chunk] + 1; ++chunk) part += store_.chunk_bytes();
    return std::min(part, bytes);
  }

  const Store& store_;
  const std::vector<uint32_t>& chunks_;
  const unsigned shift_;
  const Direction direction_;
  const std::atomic<bool>& stop_;
  uint64_t turn_ = 0;
};

}  // namespace

bool runs_fit(RunSpan runs, uint64_t object_bytes) {
  for (const quire_ticket_run& run : runs) {
    const Wide first = run.object_offset;
    const Wide last = first + Wide{run.object_stride} * (Wide{run.count} - 1);
    if (std::min(first, last) < 0 || std::max(first, last) + run.bytes > object_bytes) return false;
  }
  return true;
}

uint64_t bytes_of(RunSpan runs) {
  uint64_t bytes = 0;
  for (const quire_ticket_run& run : runs) bytes += run.bytes * run.count;
  return bytes;
}

bool copy_runs(const Store& store, const Copy& copy, const std::atomic<bool>& stop) {
  Copier copier(store, copy, stop);
  bool all = true;
  for (size_t i = 0; all && i < copy.runs.size(); ++i) all = copier.run(copy.runs[i]);
  plugins::end_of_stream_copies();
  return all;
}

}  // namespace quire::host
