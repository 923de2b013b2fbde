// Random pools against a naive calculator: it lists every cell of a page, sorts the cells by their coordinates in the order of the letters,
// and adds up bytes. It knows no strides.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/layout/layout.h"
#include "core/layout/segments.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

constexpr char kLetters[] = "LPBJKTHD";

struct Cell {
  std::array<uint64_t, kNumLetters> at{};
  uint32_t member = 0;
  uint64_t bytes = 0;
  uint64_t address = 0;  // from the base of its region
  uint32_t region = 0;
};

struct Naive {
  uint64_t strip = 0;
  uint64_t planes = 1;
  std::vector<std::vector<Cell>> cells;  // by group: all cells of all pages
};

uint64_t extent_of(const PoolShape& pool, char letter) {
  uint64_t most = 1;
  for (const GroupShape& group : pool.groups) {
    for (const MemberShape& member : group.members) {
      const uint64_t extent = letter == 'L' ? member.lane + 1 : letter == 'P' ? member.index + 1 : std::max(member.num_sides, 1u);
      most = std::max(most, extent);
    }
  }
  return most;
}

void list_cells(const GroupShape& group, std::vector<Cell>* cells) {
  const uint64_t blocks = uint64_t{group.parts_per_page} * group.kernel_blocks_per_part;
  for (uint32_t m = 0; m < group.members.size(); ++m) {
    const MemberShape& member = group.members[m];
    for (uint64_t j = 0; j < blocks; ++j) {
      if (member.is_state()) {
        cells->push_back({{member.lane, member.index, 0, j, 0, 0, 0, 0}, m, state_span_bytes(member.tensors), 0, 0});
        continue;
      }
      for (uint32_t k = 0; k < member.num_sides; ++k) {
        for (uint64_t t = 0; t < member.rows; ++t) {
          for (uint64_t h = 0; h < member.num_heads; ++h) {
            for (uint64_t d = 0; d < member.width[k]; ++d) {
              cells->push_back({{member.lane, member.index, 0, j, k, t, h, d}, m, element_bytes(member.dtype), 0, 0});
            }
          }
        }
      }
    }
  }
}

Naive naive_layout(const PoolShape& pool) {
  Naive out;
  std::string planes;
  for (const GroupShape& group : pool.groups) planes = group.order.plane_letters();
  for (const char letter : planes) out.planes *= extent_of(pool, letter);
  const uint64_t regions = pool.region_per_lane ? extent_of(pool, 'L') : 1;
  uint64_t widest = 1;
  std::vector<std::vector<Cell>> first_pages;
  for (const GroupShape& group : pool.groups) {
    std::vector<Cell> cells;
    list_cells(group, &cells);
    const std::string order = group.order.text();
    const bool lanes_overlap = order.find('L') == std::string::npos;
    const auto key = [&order](const Cell& cell) {
      std::vector<uint64_t> coordinates;
      for (const char letter : order) coordinates.push_back(cell.at[std::string(kLetters).find(letter)]);
      return coordinates;
    };
    std::stable_sort(cells.begin(), cells.end(), [&key](const Cell& a, const Cell& b) { return key(a) < key(b); });
    std::map<std::array<uint64_t, 2>, uint64_t> fill;  // (plane, lane where lanes have pages of their own) -> bytes so far
    for (Cell& cell : cells) {
      uint64_t plane = 0;
      for (const char letter : planes) plane = plane * extent_of(pool, letter) + cell.at[std::string(kLetters).find(letter)];
      uint64_t& used = fill[{plane, lanes_overlap ? cell.at[0] : 0}];
      cell.address = used;
      used += cell.bytes;
      cell.region = static_cast<uint32_t>(plane);  // plane for now
      out.strip = std::max(out.strip, used);
      const MemberShape& member = group.members[cell.member];
      if (!member.is_state()) widest = std::max(widest, element_bytes(member.dtype));
      for (const quire_state_tensor& tensor : member.tensors) widest = std::max(widest, element_bytes(tensor.dtype));
    }
    first_pages.push_back(cells);
  }
  out.strip = std::max(out.strip, (pool.min_page_bytes + out.planes - 1) / out.planes);
  out.strip = (out.strip + widest - 1) / widest * widest;
  const uint64_t per_region = out.planes / regions;
  for (const std::vector<Cell>& first : first_pages) {
    std::vector<Cell> all;
    for (uint64_t b = 0; b < pool.num_pages; ++b) {
      for (Cell cell : first) {
        cell.at[2] = b;
        cell.address += (cell.region % per_region * pool.num_pages + b) * out.strip;
        cell.region = static_cast<uint32_t>(cell.region / per_region);
        all.push_back(cell);
      }
    }
    out.cells.push_back(std::move(all));
  }
  return out;
}

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  uint32_t pick(uint32_t low, uint32_t high) { return low + random_() % (high - low + 1); }

  // A random valid order with all letters; `k_may_lead` allows K left of B.
  std::string order(bool k_may_lead) {
    while (true) {
      std::string text = kLetters;
      std::shuffle(text.begin(), text.end(), random_);
      if (pick(0, 2) != 0) std::stable_partition(text.begin(), text.end(), [](char c) { return c != 'D'; });
      if (!Order::parse(text).ok()) continue;
      if (!k_may_lead && text.find('K') < text.find('B')) continue;
      return text;
    }
  }

  PoolShape pool() {
    PoolShape pool;
    pool.num_pages = pick(1, 4);
    const uint32_t num_groups = pick(1, 3);
    const bool states = pick(0, 1) == 1;
    const std::string text = order(!states);
    // Without L every lane has its own id; the region then has no planes by lane.
    const bool own_ids = text.find('L') > text.find('B') && pick(0, 3) == 0;
    for (uint32_t g = 0; g < num_groups; ++g) {
      const bool is_state = states && g != 0;
      std::string letters = text;
      if (own_ids) letters.erase(letters.find('L'), 1);
      const Order full = *Order::parse(letters);
      pool.groups.push_back({is_state ? full.without("KTHD") : full, is_state ? 1 : pick(1, 3), pick(1, 3), {}});
      if (pick(0, 3) == 0) pool.groups.back().block_step = uint64_t{1} << pick(1, 7);
      members(is_state, own_ids, &pool.groups.back());
    }
    pool.region_per_lane = text[0] == 'L' && pick(0, 1) == 1;
    if (pick(0, 2) == 0) pool.min_page_bytes = pick(1, 4000);
    return pool;
  }

 private:
  void members(bool is_state, bool own_ids, GroupShape* group) {
    const uint32_t lanes = pick(1, 3);
    const uint32_t layers = pick(1, 2);
    MemberShape common;
    common.num_sides = is_state ? 0 : 2;
    common.num_heads = pick(1, 3);
    common.width[0] = pick(1, 5);
    common.width[1] = pick(0, 1) == 0 ? common.width[0] : pick(1, 5);
    common.rows = pick(1, 4);
    common.dtype = pick(0, 1) == 0 ? kBFloat16 : kFloat32;
    if (is_state) common.tensors = {{kBFloat16, 2, {pick(1, 3), pick(1, 9), 0, 0}}, {kFloat32, 1, {pick(1, 30), 0, 0, 0}}};
    const bool mixed = pick(0, 4) == 0;
    const bool shorter = own_ids && lanes > 1 && layers > 1 && pick(0, 2) == 0;  // the last lane has a layer less
    for (uint32_t l = 0; l < lanes; ++l) {
      for (uint32_t p = 0; p < layers - (shorter && l + 1 == lanes ? 1 : 0); ++p) {
        MemberShape member = common;
        member.layer = l * layers + p;
        member.lane = l;
        member.index = p;
        member.column = own_ids ? l : 0;
        if (mixed && !is_state) member.num_heads = pick(1, 3);
        group->members.push_back(member);
      }
    }
  }

  std::mt19937 random_;
};

uint64_t kv_address(const quire_kv_view& view, const Cell& cell, const quire_lowering* lowering, const GroupShape& group) {
  const uint64_t side = cell.at[4];
  int64_t address = view.offset[side] + static_cast<int64_t>(cell.at[5]) * view.stride_token[side] +
                    static_cast<int64_t>(cell.at[6]) * view.stride_head[side] + static_cast<int64_t>(cell.at[7]) * view.stride_dim[side];
  if (lowering == nullptr) {
    address += static_cast<int64_t>(cell.at[2]) * view.stride_page[side] + static_cast<int64_t>(cell.at[3]) * view.stride_block[side];
  } else {
    const uint64_t part = cell.at[3] / group.kernel_blocks_per_part;
    const uint64_t id = cell.at[2] * lowering->parts_per_page + part;
    const uint64_t lowered = id / lowering->parts_per_page * lowering->page_factor + id % lowering->parts_per_page * lowering->part_factor +
                             cell.at[3] % group.kernel_blocks_per_part * lowering->block_factor;
    EXPECT_LT(lowered, lowering->num_lowered_ids);
    address += static_cast<int64_t>(lowered) * view.unit[side];
  }
  return static_cast<uint64_t>(address);
}

uint64_t state_address(const quire_state_view& view, const Cell& cell, const quire_lowering* lowering) {
  if (lowering == nullptr) {
    return static_cast<uint64_t>(view.offset + static_cast<int64_t>(cell.at[2]) * view.stride_page +
                                 static_cast<int64_t>(cell.at[3]) * view.stride_part);
  }
  const uint64_t lowered = cell.at[2] * lowering->page_factor + cell.at[3] * lowering->part_factor;
  return static_cast<uint64_t>(view.offset + static_cast<int64_t>(lowered) * view.unit);
}

// Every cell of every group: strided address == lowered address == naive address, inside its region.
void expect_addresses(const PoolShape& pool, const PoolLayout& layout, const Naive& naive) {
  for (size_t g = 0; g < pool.groups.size(); ++g) {
    for (const Cell& cell : naive.cells[g]) {
      const PlaceViews& views = layout.groups[g].members[cell.member];
      const bool state = pool.groups[g].members[cell.member].is_state();
      for (const quire_lowering* lowering : {static_cast<const quire_lowering*>(nullptr), &layout.groups[g].lowering}) {
        const uint64_t address =
            state ? state_address(views.states[0], cell, lowering) : kv_address(views.kv, cell, lowering, pool.groups[g]);
        ASSERT_EQ(address, cell.address) << "group " << g << " member " << cell.member << (lowering != nullptr ? " lowered" : " strided");
      }
      const uint32_t region = state ? views.states[0].region : views.kv.region;
      ASSERT_EQ(region, cell.region);
      ASSERT_LE(cell.address + cell.bytes, layout.regions[region].bytes);
    }
  }
}

// Pages (and parts of lanes with own ids) given to random owners: nobody's bytes meet anybody else's, and segments cover the payload.
void expect_disjoint(const PoolShape& pool, const PoolLayout& layout, std::mt19937& random) {
  std::vector<std::vector<uint8_t>> owner;
  for (const quire_region_info& region : layout.regions) owner.emplace_back(region.bytes, 0);
  for (uint64_t b = 0; b < pool.num_pages; ++b) {
    const size_t g = random() % pool.groups.size();
    const GroupShape& group = pool.groups[g];
    const GroupLayout& views = layout.groups[g];
    const uint32_t columns = group.members.back().column + 1;
    for (uint32_t q = 0; q < group.parts_per_page; ++q) {
      const uint32_t column = random() % columns;
      std::vector<quire_segment> runs;
      uint64_t payload = 0;
      for (size_t m = 0; m < group.members.size(); ++m) {
        if (group.members[m].column != column) continue;
        append_segments(views.members[m], views.lowering, group.members[m].layer, static_cast<int32_t>(b * group.parts_per_page + q),
                        &runs);
        payload += payload_bytes(group.members[m], group.kernel_blocks_per_part);
      }
      merge_segments(&runs);
      uint64_t bytes = 0;
      for (const quire_segment& run : runs) {
        bytes += run.bytes;
        ASSERT_LE(run.offset + run.bytes, owner[run.region].size());
        for (uint64_t i = run.offset; i < run.offset + run.bytes; ++i)
          ASSERT_EQ(owner[run.region][i]++, 0) << "byte " << i << " owned twice";
        const uint64_t in_plane = run.offset % (layout.strip_bytes * pool.num_pages);
        ASSERT_EQ(in_plane / layout.strip_bytes, b);  // inside a strip of its page
      }
      ASSERT_EQ(bytes, payload);
    }
  }
}

// Kernel blocks that are padded, to a step or to the largest lane where lanes have ids of their own: the calculator knows neither.
bool padded_parts(const PoolShape& pool) {
  return std::any_of(pool.groups.begin(), pool.groups.end(), [](const GroupShape& group) {
    if (group.block_step > 1 && group.parts_per_page * group.kernel_blocks_per_part > 1) return true;
    if (group.order.has(Letter::L) || group.parts_per_page * group.kernel_blocks_per_part == 1) return false;
    std::map<uint32_t, std::vector<uint64_t>> lanes;
    for (const MemberShape& member : group.members) lanes[member.lane].push_back(payload_bytes(member, 1));
    return std::any_of(lanes.begin(), lanes.end(), [&](const auto& lane) { return lane.second != lanes.begin()->second; });
  });
}

TEST(LayoutProperty, RandomPoolsAgreeWithTheNaiveCalculator) {
  const uint32_t seed = std::random_device{}();
  int expressed = 0;
  int refused = 0;
  int padded = 0;
  for (uint32_t i = 0; i < 400; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    Generator generator(seed + i);
    const PoolShape pool = generator.pool();
    SCOPED_TRACE(pool.groups[0].order.text());
    const auto layout = lay_out(pool);
    if (!layout.ok()) {  // mixed extents left of a selector, or ratios that no single table serves
      ASSERT_EQ(layout.status().code(), QUIRE_NOT_REPRESENTABLE) << layout.status().message();
      ++refused;
      continue;
    }
    ++expressed;
    if (padded_parts(pool)) {
      ++padded;
    } else {
      const Naive naive = naive_layout(pool);
      ASSERT_EQ(layout.value().strip_bytes, naive.strip);
      ASSERT_EQ(layout.value().num_planes, naive.planes);
      expect_addresses(pool, layout.value(), naive);
    }
    std::mt19937 random(seed + i);
    expect_disjoint(pool, layout.value(), random);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(expressed, 150);
  EXPECT_GT(padded, 2);
  EXPECT_GT(refused, 5);
}

// Refusals come from mixed extents only: where all members of a group are alike, every valid order is expressed.
TEST(LayoutProperty, UniformMembersAreAlwaysExpressible) {
  const uint32_t seed = std::random_device{}();
  for (uint32_t i = 0; i < 120; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    Generator generator(seed + i);
    PoolShape pool = generator.pool();
    pool.groups.resize(1);
    GroupShape& group = pool.groups[0];
    for (MemberShape& member : group.members) {
      member.num_heads = group.members[0].num_heads;
      member.width[0] = member.width[1] = group.members[0].width[0];
    }
    if (padded_parts(pool)) continue;
    const auto layout = lay_out(pool);
    ASSERT_TRUE(layout.ok()) << group.order.text() << ": " << layout.status().message();
    expect_addresses(pool, layout.value(), naive_layout(pool));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace quire
