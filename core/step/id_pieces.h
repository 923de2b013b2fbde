// Reading ids of a row's blocks from a source of steps (see filling.h), a piece at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace quire {

// Blocks [first, end) of one column of a row's table.
struct TableStretch {
  size_t row;
  uint32_t group, column;
  uint64_t first, end;
};

// take(ids) for the blocks in order.
template <typename Source, typename Take>
void each_piece(const Source& source, const TableStretch& all, const Take& take) {
  std::array<int32_t, 256> piece;  // NOLINT(*-member-init): written before it is read
  for (uint64_t at = all.first; at < all.end; at += piece.size()) {
    const std::span<int32_t> ids(piece.data(), std::min<uint64_t>(piece.size(), all.end - at));
    source.read_ids(all.row, all.group, all.column, at, ids);
    take(std::span<const int32_t>(ids));
  }
}

}  // namespace quire
