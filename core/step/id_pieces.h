// Reading ids of a row's blocks from a source of steps (see filling.h), a piece at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace quire {

// take(ids) for blocks [first, end) of the row, in order.
template <typename Source, typename Take>
void each_piece(const Source& source, size_t row, uint32_t group, uint32_t column, uint64_t first, uint64_t end, const Take& take) {
  std::array<int32_t, 256> piece;  // NOLINT(*-member-init): written before it is read
  while (first < end) {
    const std::span<int32_t> ids(piece.data(), std::min<uint64_t>(piece.size(), end - first));
    source.read_ids(row, group, column, first, ids);
    take(std::span<const int32_t>(ids));
    first += ids.size();
  }
}

}  // namespace quire
