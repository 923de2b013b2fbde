// The leaves of one group: every side of every member, walked letter by letter from the right until a page is full. Private to core/layout.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/layout/layout.h"

namespace quire {

// One side of one member: the smallest thing that has its own extents. K, P and L select leaves; the other letters walk inside them.
struct Leaf {
  uint32_t member = 0;
  uint32_t side = 0;
  std::array<uint64_t, kNumLetters> extent{};
  std::array<uint64_t, kNumLetters> stride{};  // bytes; 0 where the letter is absent
  std::array<int64_t, 3> key{};                // lane, index, side; kAny once that letter was passed
  uint64_t size = 0;                           // bytes of everything right of the letter reached, for all leaves with this key
  uint64_t offset = 0;                         // from the start of the strip, later of the region
  uint64_t plane = 0;
};

// Which leaves a letter left of B tells apart: lane, index or side.
uint64_t selector(const Leaf& leaf, Letter letter, const std::vector<MemberShape>& members);

class GroupLeaves {
 public:
  explicit GroupLeaves(const GroupShape& shape) : shape_(shape) {}

  // Strides and offsets inside a page, and what a strip must hold. All steps up to the letter B, from the right.
  Status build();

  uint64_t strip_need() const;
  uint64_t extent(Letter letter) const;
  std::vector<Leaf>& leaves() { return leaves_; }
  const GroupShape& shape() const { return shape_; }
  uint64_t blocks_per_page() const { return uint64_t{shape_.parts_per_page} * shape_.kernel_blocks_per_part; }
  // Least common multiple of the block strides: a strip of this multiple lowers to few ids. 0 when it is not representable in 63 bits.
  uint64_t block_stride_multiple() const;

 private:
  uint32_t layer(const Leaf& leaf) const { return shape_.members[leaf.member].layer; }
  Status make_leaves();
  Status check_absent(const Leaf& leaf, const MemberShape& member) const;
  Status align_blocks(uint32_t rest);
  Status align_parts();
  Status walk(Letter letter);
  Status merge(Letter letter);
  Status check_overlap() const;

  const GroupShape& shape_;
  std::vector<Leaf> leaves_;
};

}  // namespace quire
