// Orders of letters: what parses is an order, and lays out or is refused with a sentence.
#include <string>
#include <string_view>

#include "core/layout/layout.h"
#include "core/layout/segments.h"
#include "core/model/dtype.h"
#include "tests/fuzz/fuzz.h"

namespace quire::fuzz {
namespace {

MemberShape member_of(Input* in, uint32_t lane, uint32_t index) {
  MemberShape member;
  member.lane = lane;
  member.index = index;
  if (in->below(4) == 0) {
    member.tensors = {{kBFloat16, 1, {1 + uint64_t{in->take<uint8_t>()}, 0, 0, 0}}, {kFloat32, 1, {1 + uint64_t{in->below(9)}, 0, 0, 0}}};
    return member;
  }
  member.num_sides = 1 + in->below(2);
  member.num_heads = 1 + in->below(3);
  member.width[0] = 1 + in->below(5);
  member.width[1] = member.num_sides == 1 ? 0 : 1 + in->below(5);
  member.rows = 1 + in->below(4);
  member.dtype = in->below(2) == 0 ? kBFloat16 : kFloat32;
  return member;
}

void check(const PoolShape& pool, const PoolLayout& layout) {
  for (size_t g = 0; g < pool.groups.size(); ++g) {
    for (size_t m = 0; m < pool.groups[g].members.size(); ++m) {
      const int32_t last = static_cast<int32_t>(pool.num_pages * pool.groups[g].parts_per_page - 1);
      std::vector<quire_segment> runs;
      append_segments(layout.groups[g].members[m], layout.groups[g].lowering, 0, last, &runs);
      merge_segments(&runs);
      uint64_t bytes = 0;
      for (const quire_segment& run : runs) {
        bytes += run.bytes;
        require(run.offset + run.bytes <= layout.regions[run.region].bytes, "segments lie inside their region");
      }
      require(bytes == payload_bytes(pool.groups[g].members[m], pool.groups[g].kernel_blocks_per_part), "segments are the payload");
    }
  }
}

}  // namespace
}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::Input in(data, size);
  const size_t length = in.below(12);
  if (length > in.size()) return 0;
  const std::string_view text(reinterpret_cast<const char*>(in.data()), length);
  const auto order = Order::parse(text);
  if (!order.ok()) {
    fuzz::require(order.status().code() == QUIRE_INVALID_ARGUMENT && !order.status().message().empty(), "a refusal has a sentence");
    return 0;
  }
  fuzz::require(order.value().text() == text, "an order is its text");
  fuzz::require(Order::parse(order.value().with_k_inside_page().text()).ok(), "re-striding gives an order");
  fuzz::Input rest(in.data() + length, in.size() - length);
  PoolShape pool;
  pool.num_pages = 1 + rest.below(3);
  pool.min_page_bytes = rest.take<uint8_t>();
  pool.region_per_lane = rest.below(4) == 0;
  for (uint32_t g = 0, groups = 1 + rest.below(2); g < groups; ++g) {
    GroupShape group{order.value(), 1 + rest.below(3), 1 + rest.below(3), {}};
    const uint32_t lanes = rest.below(3);
    const uint32_t layers = 1 + rest.below(2);
    for (uint32_t l = 0; l < lanes; ++l) {
      for (uint32_t p = 0; p < layers; ++p) group.members.push_back(fuzz::member_of(&rest, l, p));
    }
    pool.groups.push_back(std::move(group));
  }
  const auto layout = lay_out(pool);
  if (layout.ok()) {
    fuzz::check(pool, layout.value());
  } else {
    fuzz::require(!layout.status().message().empty(), "a refusal has a sentence");
  }
  return 0;
}
