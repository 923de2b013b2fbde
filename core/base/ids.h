// Ids and sizes as distinct types: a page never meets a part, an index never meets a count.
#pragma once

#include <compare>
#include <cstdint>

namespace quire {

template <typename Tag, typename Int>
struct Id {
  using Value = Int;
  Int value{};

  constexpr Id() = default;
  constexpr explicit Id(Int v) : value(v) {}
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 that the comparison ends in for a pointer
  friend constexpr auto operator<=>(Id, Id) = default;
};

using GroupId = Id<struct GroupTag, uint32_t>;
using PageId = Id<struct PageTag, uint32_t>;          // page 0 is the null page
using PartId = Id<struct PartTag, int32_t>;           // what tables carry: page * parts_per_page + part, of one group
using PartIndex = Id<struct PartIndexTag, uint32_t>;  // pool-internal: page * (most parts of any group) + part
using NodeId = Id<struct NodeTag, uint32_t>;          // prefix index
using StepId = Id<struct StepTag, uint64_t>;          // 0 = none
using SequenceId = Id<struct SequenceTag, uint64_t>;  // index | generation << 32; 0 = none

inline constexpr uint32_t kNone = 0xffffffffu;

}  // namespace quire
