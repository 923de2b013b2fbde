// Which bytes of pages are which bytes of a record's payload, for a family of groups on one shard.
// Made once for each shape of record; equal and unequal blocks, orders and heads go the same way.
#pragma once

#include <quire/config.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/plan/cache_config.h"
#include "core/records/record_shape.h"

namespace quire {

// `count` pieces of `bytes` bytes in one of the shard's regions and in a payload.
struct PayloadRun {
  uint32_t region = 0;
  uint64_t offset = 0;  // from the region's base
  uint64_t bytes = 0;
  uint64_t count = 1;
  int64_t stride = 0;
  uint64_t payload_offset = 0;
  int64_t payload_stride = 0;
};

class RecordRuns {
 public:
  // Errors: those of RecordViews::make; NOT_REPRESENTABLE: its rows or heads cannot be cut as the
  // family's blocks want it. Nothing in common is no error.
  static Result<RecordRuns> make(const Config& config, uint32_t shard,  //
                                 const RecordFamily& family, const RecordShape& shape);

  uint64_t block_bytes() const { return block_bytes_; }    // of a record block
  uint32_t block_tokens() const { return block_tokens_; }  // of a record block; states: 0
  // Whether every byte of a record is also one of the family's.
  bool is_whole() const { return is_whole_; }

  // Tokens [begin, end) of a sequence: ids[column][block] are those of blocks from `first_block` on
  // (of the family, group after group), id 0: nothing is there. The payload begins with record
  // block first_record_block (of the sequence). begin and end: multiples of the blocks of one of
  // both.
  void tokens(uint64_t begin, uint64_t end, std::span<const int32_t> ids, uint32_t first_block, uint64_t first_record_block,
              std::vector<PayloadRun>* out) const;
  // A state: ids[column].
  void state(std::span<const int32_t> ids, std::vector<PayloadRun>* out) const;

 private:
  // The same for every block: offsets from the block's page 0, part 0, and from the record block.
  struct Piece {
    uint32_t region = 0, column = 0, parts_per_page = 1;
    int64_t page_stride = 0, part_stride = 0;
    PayloadRun run;
  };
  // Tokens [begin, end) of the period that one block of each has.
  struct Cell {
    uint64_t begin = 0, end = 0;
    uint32_t first_piece = 0, end_piece = 0;
  };

  Status add_cell(uint64_t begin, uint64_t end, const Config& config, uint32_t shard,  //
                  const RecordFamily& family, const RecordShape& shape, const RecordViews& record);
  void merge(size_t first);
  void emit(const Cell& cell, std::span<const int32_t> ids, size_t stride, size_t block, uint64_t payload,
            std::vector<PayloadRun>* out) const;

  uint64_t block_bytes_ = 0;
  uint32_t block_tokens_ = 0, own_tokens_ = 0;  // of a block
  uint32_t columns_ = 1;
  uint64_t period_ = 0;  // tokens: a multiple of both blocks
  bool is_whole_ = false;
  std::vector<Cell> cells_;
  std::vector<Piece> pieces_;
};

}  // namespace quire
