// How the bytes of a transfer become reads and writes. Each is one stretch of the object within a
// window. It goes directly between the file and the memory of the ticket where addresses, sizes and
// offsets allow it, and through a staging buffer elsewhere.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "plugins/common/pieces.h"

namespace quire::file {

using plugins::Extent;
using plugins::Pieces;

// Of the object; the size of a staging buffer.
inline constexpr uint64_t kWindow = uint64_t{1} << 20;
// What O_DIRECT wants multiples of, on every device of today.
inline constexpr uint64_t kPage = 4096;
// A load reads over gaps of at most so many bytes: moving them costs less than another read.
inline constexpr uint64_t kNearBytes = uint64_t{32} * 1024;

inline uint64_t page_floor(uint64_t value) { return value & ~(kPage - 1); }
inline uint64_t page_ceiling(uint64_t value) { return page_floor(value + kPage - 1); }

struct Part {
  uint64_t begin = 0;  // of the object; for staging with direct I/O, a multiple of kPage, as `end`
  uint64_t end = 0;
  // A read that ends there is complete, even if `end` is beyond the object.
  uint64_t needed_end = 0;
  std::vector<iovec> memory;  // of the ticket; empty: through staging
};

// The parts of a load or store that lie in [begin, end) of the object, of one window. direct: the
// file is open with O_DIRECT; for a store, begin and end are multiples of kPage then.
void plan_parts(const Pieces&, uint64_t begin, uint64_t end, bool direct, std::vector<Part>* out);

}  // namespace quire::file
