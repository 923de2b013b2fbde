#include "plugins/file/pieces.h"

#include <algorithm>
#include <cstring>

namespace quire::file {
namespace {

constexpr uint64_t kFar = uint64_t{1} << 63;

uint8_t* moved(uint8_t* memory, int64_t stride, uint64_t pieces) {
  return reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(memory) + static_cast<uint64_t>(stride) * pieces);
}

std::string number(uint64_t value) { return std::to_string(value); }

struct Span {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

// Where the pieces lie between their first and last byte; none: not within 63 bits.
std::optional<Span> span_of(uint64_t first, uint64_t piece, uint64_t count, int64_t stride) {
  if (first >= kFar || piece >= kFar || count >= kFar) return std::nullopt;
  const unsigned __int128 step = stride < 0 ? -static_cast<__int128>(stride) : static_cast<__int128>(stride);
  const unsigned __int128 reach = count == 1 ? 0 : step * (count - 1);
  if (reach >= kFar) return std::nullopt;
  const auto moves = static_cast<uint64_t>(reach);
  if (stride < 0 && moves > first) return std::nullopt;
  const Span span = {stride < 0 ? first - moves : first, moves + piece};
  if (span.bytes >= kFar || span.begin + span.bytes > kFar) return std::nullopt;
  return span;
}

std::string check_run(const quire_ticket_run& run) {
  if (run.bytes == 0) return "bytes is 0";
  if (run.count == 0) return "count is 0";
  const auto short_stride = [&](int64_t stride) {
    return run.bytes >= kFar ||
           (stride >= 0 ? static_cast<uint64_t>(stride) < run.bytes : uint64_t{0} - static_cast<uint64_t>(stride) < run.bytes);
  };
  if (run.count > 1 && short_stride(run.stride)) {
    return "stride is " + std::to_string(run.stride) + ", pieces of " + number(run.bytes) + " bytes overlap";
  }
  if (run.count > 1 && short_stride(run.object_stride)) {
    return "object_stride is " + std::to_string(run.object_stride) + ", pieces of " + number(run.bytes) + " bytes overlap";
  }
  if (run.address == 0) return "address is NULL";
  if (!span_of(run.address, run.bytes, run.count, run.stride)) return "its memory reaches beyond 63 bits";
  if (!span_of(run.object_offset, run.bytes, run.count, run.object_stride)) return "its part of the object reaches beyond 63 bits";
  return "";
}

}  // namespace

std::string check_runs(std::span<const quire_ticket_run> runs, uint64_t store_bytes) {
  unsigned __int128 total = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const quire_ticket_run& run = runs[i];
    std::string wrong = check_run(run);
    if (wrong.empty() && store_bytes != 0) {
      const auto span = span_of(run.object_offset, run.bytes, run.count, run.object_stride);
      if (!span || span->begin + span->bytes > store_bytes) wrong = "it reaches beyond object_bytes " + number(store_bytes);
    }
    if (!wrong.empty()) return "run " + number(i) + " of the ticket: " + wrong;
    total += static_cast<unsigned __int128>(run.bytes) * run.count;
    if (total >= kFar) return "the runs have more than 2^63 bytes";
  }
  if (store_bytes != 0 && total != store_bytes) {
    return "the runs have " + number(static_cast<uint64_t>(total)) + " bytes, object_bytes is " + number(store_bytes);
  }
  return "";
}

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

}  // namespace quire::file
