#include "plugins/file/file_parts.h"

#include <algorithm>

namespace quire::file {
namespace {

constexpr size_t kMostExtents = 1024;    // of a window; more are staged
constexpr size_t kMostVectors = 256;     // of one read or write
constexpr size_t kMostParts = 8;         // of a stretch without large gaps; more are staged as one
constexpr uint64_t kShortExtent = 1024;  // buffered: shorter ones are copied at once rather than handed over one by one

using Extents = std::vector<Extent>;

bool is_aligned(const Extent& extent) {
  return extent.begin % kPage == 0 && extent.bytes % kPage == 0 && reinterpret_cast<uintptr_t>(extent.memory) % kPage == 0;
}

// What follows in object and memory becomes one; then whole pages are parted from the rest behind them.
Extents joined(const Extents& extents, bool direct) {
  Extents out;
  for (const Extent& extent : extents) {
    if (!out.empty() && out.back().begin + out.back().bytes == extent.begin && out.back().memory + out.back().bytes == extent.memory) {
      out.back().bytes += extent.bytes;
    } else {
      out.push_back(extent);
    }
  }
  if (!direct) return out;
  Extents parted;
  for (const Extent& extent : out) {
    const Extent pages = {extent.begin, page_floor(extent.bytes), extent.memory};
    if (pages.bytes == 0 || pages.bytes == extent.bytes || !is_aligned(pages)) {
      parted.push_back(extent);
    } else {
      parted.push_back(pages);
      parted.push_back({extent.begin + pages.bytes, extent.bytes - pages.bytes, extent.memory + pages.bytes});
    }
  }
  return parted;
}

Part staged(uint64_t begin, uint64_t end, bool direct) {
  return direct ? Part{page_floor(begin), page_ceiling(end), end, {}} : Part{begin, end, end, {}};
}

// Extents without large gaps between them.
void plan_stretch(const Extent* first, const Extent* last, bool direct, std::vector<Part>* out) {
  const size_t before = out->size();
  const uint64_t end = (last - 1)->begin + (last - 1)->bytes;
  uint64_t bytes = 0;
  for (const Extent* extent = first; extent != last; ++extent) bytes += extent->bytes;
  const bool many_short = !direct && bytes / static_cast<uint64_t>(last - first) < kShortExtent;
  for (const Extent* extent = first; extent != last && !many_short; ++extent) {
    const bool goes_directly = !direct || is_aligned(*extent);
    Part* const part = out->size() > before ? &out->back() : nullptr;  // the one that this extent may continue
    const bool follows = part != nullptr && part->end == extent->begin;
    if (goes_directly && follows && !part->memory.empty() && part->memory.size() < kMostVectors) {
      part->memory.push_back({extent->memory, extent->bytes});
      part->end = part->needed_end = extent->begin + extent->bytes;
    } else if (goes_directly) {
      out->push_back({extent->begin, extent->begin + extent->bytes, extent->begin + extent->bytes, {{extent->memory, extent->bytes}}});
    } else if (part != nullptr && part->memory.empty()) {
      *part = staged(part->begin, extent->begin + extent->bytes, direct);
    } else {
      out->push_back(staged(extent->begin, extent->begin + extent->bytes, direct));
    }
  }
  if (!many_short && out->size() - before <= kMostParts) return;
  out->resize(before);
  out->push_back(staged(first->begin, end, direct));
}

}  // namespace

void plan_parts(const Pieces& pieces, uint64_t begin, uint64_t end, bool direct, std::vector<Part>* out) {
  Extents extents;
  if (!pieces.collect(begin, end, kMostExtents, &extents)) {
    const auto first = pieces.next(begin);
    out->push_back(staged(first ? *first : begin, end, direct));
    return;
  }
  extents = joined(extents, direct);
  for (size_t first = 0; first < extents.size();) {
    size_t last = first + 1;
    while (last < extents.size() && extents[last].begin - (extents[last - 1].begin + extents[last - 1].bytes) <= kNearBytes) ++last;
    plan_stretch(&extents[first], &extents[0] + last, direct, out);
    first = last;
  }
}

}  // namespace quire::file
