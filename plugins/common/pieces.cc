#include "plugins/common/pieces.h"

#include <algorithm>
#include <cstring>

namespace quire::plugins {
namespace {

uint8_t* moved(uint8_t* memory, int64_t stride, uint64_t pieces) {
  return reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(memory) + static_cast<uint64_t>(stride) * pieces);
}

}  // namespace

// From the first byte of the object on, and as few pieces as there can be.
Pieces::Run Pieces::ordered(const quire_ticket_run& run) {
  Run out;
  out.piece = run.bytes;
  out.count = run.count;
  out.memory = reinterpret_cast<uint8_t*>(run.address);
  out.begin = run.object_offset;
  int64_t object_stride = run.object_stride;
  out.stride = run.stride;
  if (run.count == 1) {
    out.stride = object_stride = static_cast<int64_t>(run.bytes);
  } else if (object_stride < 0) {
    out.memory = moved(out.memory, out.stride, run.count - 1);
    out.begin -= (uint64_t{0} - static_cast<uint64_t>(object_stride)) * (run.count - 1);
    object_stride = -object_stride;
    out.stride = -out.stride;
  }
  out.object_stride = static_cast<uint64_t>(object_stride);
  out.end = out.begin + out.object_stride * (run.count - 1) + run.bytes;
  if (out.object_stride == run.bytes && out.stride == static_cast<int64_t>(run.bytes)) {
    out.piece = run.bytes * run.count;
    out.count = 1;
    out.object_stride = out.piece;
    out.stride = static_cast<int64_t>(out.piece);
  }
  return out;
}

Pieces::Pieces(std::span<const quire_ticket_run> runs) {
  runs_.reserve(runs.size());
  for (const quire_ticket_run& run : runs) {
    runs_.push_back(ordered(run));
    bytes_ += run.bytes * run.count;
    end_ = std::max(end_, runs_.back().end);
  }
  std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
  uint64_t so_far = 0;
  for (Run& run : runs_) run.end_so_far = so_far = std::max(so_far, run.end);
}

// The first run that may reach behind `begin`.
size_t Pieces::first_run(uint64_t begin) const {
  const auto first = std::partition_point(runs_.begin(), runs_.end(), [&](const Run& run) { return run.end_so_far <= begin; });
  return static_cast<size_t>(first - runs_.begin());
}

// Calls visit(begin, bytes, memory) for what every piece has in [begin, end), run by run. False as soon as visit says so.
template <typename Visit>
bool Pieces::each(uint64_t begin, uint64_t end, Visit visit) const {
  for (size_t i = first_run(begin); i < runs_.size() && runs_[i].begin < end; ++i) {
    const Run& run = runs_[i];
    if (run.end <= begin) continue;
    uint64_t piece = begin < run.begin + run.piece ? 0 : (begin - run.begin - run.piece) / run.object_stride + 1;
    for (; piece < run.count; ++piece) {
      const uint64_t at = run.begin + piece * run.object_stride;
      if (at >= end) break;
      const uint64_t from = std::max(at, begin);
      const uint64_t to = std::min(at + run.piece, end);
      if (!visit(from, to - from, moved(run.memory, run.stride, piece) + (from - at))) return false;
    }
  }
  return true;
}

std::optional<uint64_t> Pieces::next(uint64_t from) const {
  std::optional<uint64_t> nearest;
  for (size_t i = first_run(from); i < runs_.size() && !(nearest && runs_[i].begin >= *nearest); ++i) {
    const Run& run = runs_[i];
    if (run.end <= from) continue;
    const uint64_t piece = from < run.begin + run.piece ? 0 : (from - run.begin - run.piece) / run.object_stride + 1;
    const uint64_t at = std::max(from, run.begin + piece * run.object_stride);
    if (!nearest || at < *nearest) nearest = at;
  }
  return nearest;
}

bool Pieces::collect(uint64_t begin, uint64_t end, size_t most, std::vector<Extent>* out) const {
  const bool all = each(begin, end, [&](uint64_t from, uint64_t bytes, uint8_t* memory) {
    if (out->size() == most) return false;
    out->push_back({from, bytes, memory});
    return true;
  });
  std::sort(out->begin(), out->end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  return all;
}

void Pieces::gather(uint64_t begin, uint64_t end, uint8_t* to) const {
  each(begin, end, [&](uint64_t from, uint64_t bytes, const uint8_t* memory) {
    std::memcpy(to + (from - begin), memory, bytes);
    return true;
  });
}

void Pieces::scatter(uint64_t begin, uint64_t end, const uint8_t* from) const {
  each(begin, end, [&](uint64_t at, uint64_t bytes, uint8_t* memory) {
    std::memcpy(memory, from + (at - begin), bytes);
    return true;
  });
}

}  // namespace quire::plugins
