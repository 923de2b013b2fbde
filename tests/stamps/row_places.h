// Where the rows of token caches lie. A place is a piece of at most eight bytes of every row of one
// cache: the first eight bytes of a plain cache, or one of the pieces that make up a whole row of a
// codec. Each piece has a stamp of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/stamps/kinds.h"

namespace quire::stamps {

constexpr size_t kNumCodecs = QUIRE_CODEC_AMX + 1;

struct RowPlace {
  uint32_t layer = 0;  // index among the plan's layers
  uint32_t group = 0;
  uint32_t column = 0;
  uint32_t kernel_block = 0;  // tokens that one lowered id covers
  uint32_t ratio = 1;         // tokens of a row
  uint32_t ranks = 1;         // context parallelism: rows r with r % ranks == rank are here
  uint32_t rank = 0;
  quire_codec codec = QUIRE_CODEC_STRIDED;
  bool draft = false;  // a row also depends on the symbol after it
  bool cross = false;
  bool beside = false;  // of a head that is not the first one: stamped where heads are told apart
  uint32_t region_number = 0;
  int64_t offset = 0;  // of the first row from the region's base
  int64_t unit = 0;    // bytes from lowered id to lowered id
  int64_t stride = 0;  // bytes from row to row
  // Codecs: so many rows lie `stride` apart, the next ones begin stride_tile bytes behind them.
  uint32_t tile = 0;  // 0 = all rows of a block
  int64_t stride_tile = 0;
  uint32_t bytes = 8;
  uint64_t salt = 0;
  std::byte* base = nullptr;  // of the first row
  const std::byte* region = nullptr;
  // Who wrote: one for each tag_bytes of the region; 0 = nobody since it was zeroed.
  uint32_t* tags = nullptr;
  uint32_t tag_bytes = 4;

  uint32_t tag(const std::byte* at) const { return tags[(at - region) / tag_bytes]; }
  void mark(const std::byte* at, uint32_t value) const {
    uint32_t* first = tags + (at - region) / tag_bytes;
    if (tag_bytes == 1) {
      std::fill_n(first, bytes, value);
    } else {
      *first = value;
    }
  }
  bool plain() const { return ratio == 1 && ranks == 1 && tile == 0 && bytes == 8; }
  int64_t row_offset(uint64_t row) const {
    if (tile == 0) return static_cast<int64_t>(row) * stride;
    return static_cast<int64_t>(row / tile) * stride_tile + static_cast<int64_t>(row % tile) * stride;
  }
  // What of a stamp fits in the piece. Never 0.
  uint64_t narrowed(uint64_t value) const { return bytes == 8 ? value : value >> (64 - 8 * bytes) | 1; }
  uint64_t load(const std::byte* at) const {
    uint64_t value = 0;
    std::memcpy(&value, at, bytes);
    return value;
  }
  void store(std::byte* at, uint64_t value) const { std::memcpy(at, &value, bytes); }
};

// Those of a layer on a shard, without the addresses of memory: none if another stage has the
// layer.
std::vector<RowPlace> row_places(const Plan& plan, uint32_t shard, uint32_t layer);

}  // namespace quire::stamps
