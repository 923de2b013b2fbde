// What a pool keeps of every page and every block: where it stands in a list, whose it is, and who
// refers to it. Where a page is one part, all of that is half a cache line.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/huge_pages.h"
#include "core/base/ids.h"

namespace quire {

class PageRecords {
 public:
  static constexpr uint8_t kNoGroup = 0xff;
  enum class Where : uint8_t { kFree, kEvictable, kInUse };
  // Where a page enters the order of eviction. kCopied: after the copied pages at its front.
  enum class Place : uint8_t { kFront, kCopied, kBack };
  struct Link {  // of the free list (next only), or the order of eviction
    uint32_t prev = kNone, next = kNone;
  };
  struct Tag {
    uint64_t root = 0;  // for whom the bytes were last taken; 0 = nobody, or several
    Where where = Where::kFree;
    uint8_t group = kNoGroup;
    Place place : 6 = Place::kFront;  // kBack: a block was released warm since its group took it
    bool spared : 1 = false;          // as Spares has it, beside what is read with it
    // A request hit a block of it since its group took it. Evictable: it is protected, see Pool.
    bool hit : 1 = false;
    uint8_t last_group = kNoGroup;
    uint32_t later = 0;  // about Lookahead::kPlaces after it in the order; only a hint
  };
  struct Block {       // by head; in other parts nobody looks
    int32_t refs = 0;  // with Pool::kColdRef: a cold one was taken since there were none
    uint32_t node = kNone;
  };
  struct alignas(32) Record {
    Link link;
    Block block;  // of the page's part, where it is one
    Tag tag;
  };

  PageRecords() = default;
  PageRecords(PageRecords&&) = default;
  PageRecords& operator=(PageRecords&&) = default;
  PageRecords(const PageRecords&) = delete;
  PageRecords& operator=(const PageRecords&) = delete;
  ~PageRecords() = default;

  void resize(uint64_t pages, uint64_t parts) {
    records_.resize(pages);
    num_parts_ = parts;
    if (parts != pages) blocks_.resize(parts);
    Block* const first = parts == pages ? &records_[0].block : blocks_.data();
    first_block_ = reinterpret_cast<std::byte*>(first);
    block_shift_ = parts == pages ? kRecordShift : kBlockShift;
  }
  uint64_t size() const { return records_.size(); }
  uint64_t num_parts() const { return num_parts_; }
  Record* data() { return records_.data(); }

  Link& operator[](uint32_t page) { return records_[page].link; }
  const Link& operator[](uint32_t page) const { return records_[page].link; }
  Tag& tag(uint32_t page) { return records_[page].tag; }
  const Tag& tag(uint32_t page) const { return records_[page].tag; }
  // All blocks, for loops that write others of these meanwhile.
  class Blocks {
   public:
    Blocks(std::byte* first, uint32_t shift) : first_(first), shift_(shift) {}
    Block& operator[](size_t part) const {  //
      return *reinterpret_cast<Block*>(first_ + (part << shift_));
    }

   private:
    std::byte* first_;
    uint32_t shift_;
  };
  Blocks blocks() { return {first_block_, block_shift_}; }
  Block& block(size_t part) { return Blocks(first_block_, block_shift_)[part]; }
  const Block& block(size_t part) const { return Blocks(first_block_, block_shift_)[part]; }

  uint64_t host_bytes() const {  //
    return records_.capacity() * sizeof(Record) + blocks_.capacity() * sizeof(Block);
  }

 private:
  static constexpr uint32_t kRecordShift = 5, kBlockShift = 3;
  static_assert(sizeof(Record) == 1u << kRecordShift && sizeof(Block) == 1u << kBlockShift);

  HugeVector<Record> records_;  // [page]
  HugeVector<Block> blocks_;    // [part]; empty where a page is a part
  uint64_t num_parts_ = 0;
  std::byte* first_block_ = nullptr;  // in one of these
  uint32_t block_shift_ = kBlockShift;
};

}  // namespace quire
