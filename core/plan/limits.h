// What the rooms behind the plan can take: a plan beyond it is refused when it is made.
#pragma once

#include <cstdint>

namespace quire {

inline constexpr uint32_t kMaxGroups = 64;  // a cache keeps the longest hit of every group side by side

}  // namespace quire
