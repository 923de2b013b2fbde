// An index of one group of full attention, whose blocks are units.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "core/prefix/index.h"

namespace quire::test {

inline PrefixIndex small_index(uint32_t unit_tokens, uint64_t max_nodes) {
  IndexShape shape;
  shape.unit_tokens = shape.hit_alignment_tokens = unit_tokens;
  shape.max_nodes = max_nodes;
  shape.max_roots = 2;
  shape.groups = {{LiveRange{}, unit_tokens, 0}};
  auto index = PrefixIndex::create(shape);
  EXPECT_TRUE(index.ok()) << index.status().message();
  return std::move(index.value());
}

}  // namespace quire::test
