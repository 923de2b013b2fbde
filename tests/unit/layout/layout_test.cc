// Orders, worked addresses and refusals.
#include "core/layout/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/layout/segments.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

Order order(const char* text) {
  auto parsed = Order::parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.ok() ? *parsed : Order();
}

MemberShape attention(uint32_t layer, uint32_t heads, uint32_t width, uint32_t rows) {
  MemberShape member;
  member.layer = layer;
  member.num_sides = 2;
  member.num_heads = heads;
  member.width[0] = member.width[1] = width;
  member.rows = rows;
  member.dtype = kBFloat16;
  return member;
}

MemberShape gated_delta_state(uint32_t layer) {
  MemberShape member;
  member.layer = layer;
  member.tensors = {{kBFloat16, 2, {3, 6144, 0, 0}}, {kFloat32, 3, {32, 128, 128, 0}}};
  return member;
}

int64_t address(const quire_kv_view& view, uint32_t side, int64_t page, int64_t block, int64_t token, int64_t head, int64_t dim) {
  return view.offset[side] + page * view.stride_page[side] + block * view.stride_block[side] + token * view.stride_token[side] +
         head * view.stride_head[side] + dim * view.stride_dim[side];
}

PoolLayout laid_out(const PoolShape& pool) {
  auto layout = lay_out(pool);
  EXPECT_TRUE(layout.ok()) << layout.status().message();
  return layout.ok() ? std::move(*layout) : PoolLayout();
}

TEST(Order, RefusesWhatIsNoOrder) {
  for (const char* text : {"", "LPJ", "BB", "BX", "bpj", "TB", "HB", "DB", "JB", "BDT", "BDH", "BTDH"}) {
    const auto parsed = Order::parse(text);
    EXPECT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), QUIRE_INVALID_ARGUMENT) << text;
  }
  for (const char* text : {"LPKBJTHD", "LPBJKTHD", "LPBJKHTD", "LBJPKTHD", "BLPKJTHD", "BJLPKTHD", "BJHLPKTD", "BJKHLPTD", "LPBJTHKD",
                           "LPBJHTKD", "BPJKTHD", "LBPJKTHD", "B"}) {
    const auto parsed = Order::parse(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed.value().text(), text);
  }
}

TEST(Order, Restriding) {
  EXPECT_EQ(order("LPKBJTHD").with_k_inside_page().text(), "LPBJKTHD");
  EXPECT_EQ(order("KBTHD").with_k_inside_page().text(), "BKTHD");
  EXPECT_EQ(order("BJHLPKTD").with_k_inside_page().text(), "BJHLPKTD");
  EXPECT_EQ(order("BJHLPKTD").without("KTHD").text(), "BJLP");
  EXPECT_EQ(order("LPKBJTHD").plane_letters(), "LPK");
}

// H=2, D=4, 16 rows, 3 pages, 2 layers, bf16; the cell (side 1, page 1, token 5, head 1, element 3) of layer 0 and of layer 1.
TEST(Layout, WorkedAddresses) {
  struct Case {
    const char* order;
    uint32_t layers;
    int64_t cell[2];  // elements; layer 0 in a cache of one layer, or layer 1 in one of two
  };
  for (const Case& c : {Case{"KBTHD", 1, {559, 0}}, Case{"KBHTD", 1, {599, 0}}, Case{"BKTHD", 1, {431, 0}}, Case{"BKHTD", 1, {471, 0}},
                        Case{"BLKTHD", 2, {0, 943}}, Case{"BHLKTD", 2, {0, 983}}, Case{"BKHLTD", 2, {0, 983}}}) {
    PoolShape pool;
    pool.num_pages = 3;
    pool.groups.push_back({order(c.order), 1, 1, {}});
    for (uint32_t l = 0; l < c.layers; ++l) {
      pool.groups[0].members.push_back(attention(l, 2, 4, 16));
      pool.groups[0].members.back().lane = l;
    }
    const PoolLayout layout = laid_out(pool);
    const quire_kv_view& view = layout.groups[0].members[c.layers - 1].kv;
    EXPECT_EQ(address(view, 1, 1, 0, 5, 1, 3), 2 * c.cell[c.layers - 1]) << c.order;
    EXPECT_EQ(layout.regions[0].bytes, 3u * 2 * 16 * 2 * 4 * 2 * c.layers) << c.order;
  }
}

// Interleaved packing: 2 layers side by side in each of 2 kernel blocks of a page. Cell (page 1, block 1, layer 1, V, head 1, token 5, 3).
TEST(Layout, InterleavedPacking) {
  PoolShape pool;
  pool.num_pages = 2;
  pool.groups.push_back({order("BJPKTHD"), 2, 1, {attention(0, 2, 4, 16), attention(1, 2, 4, 16)}});
  pool.groups[0].members[1].index = 1;
  const PoolLayout layout = laid_out(pool);
  EXPECT_EQ(address(layout.groups[0].members[1].kv, 1, 1, 1, 5, 1, 3), 2 * 1967);
  EXPECT_EQ(layout.groups[0].lowering.page_factor, 2u);  // the plain rule: kernel id = 2 * page + block
  EXPECT_EQ(layout.groups[0].lowering.block_factor, 1u);
}

// Three attention layers of 704 tokens and a recurrent state of the same pool, layer-major: row 2,162,688.
TEST(Layout, LayerMajorPackBesideStates) {
  PoolShape pool;
  pool.num_pages = 4;
  pool.groups.push_back({order("BPJKTHD"), 44, 1, {}});
  for (uint32_t p = 0; p < 3; ++p) {
    pool.groups[0].members.push_back(attention(p, 1, 256, 16));
    pool.groups[0].members.back().index = p;
  }
  pool.groups.push_back({order("BPJ"), 1, 1, {gated_delta_state(3)}});
  const PoolLayout layout = laid_out(pool);
  EXPECT_EQ(layout.page_bytes, 2162688u);
  const GroupLayout& group = layout.groups[0];
  EXPECT_EQ(group.members[1].kv.offset[0], 720896);
  EXPECT_EQ(address(group.members[1].kv, 1, 2, 3, 5, 0, 0), 5106176);
  EXPECT_EQ(group.members[1].kv.unit[0], 16384);
  EXPECT_EQ(group.lowering.page_factor, 132u);
  EXPECT_EQ(group.lowering.block_factor, 1u);
  const std::vector<quire_state_view>& state = layout.groups[1].members[0].states;
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[0].offset, 0);
  EXPECT_EQ(state[1].offset, 36864);
  EXPECT_EQ(state[1].stride[0], 128 * 128 * 4);

  std::vector<quire_segment> runs;
  for (uint32_t p = 0; p < 3; ++p) append_segments(group.members[p], group.lowering, p, 2, &runs);
  ASSERT_EQ(runs.size(), 3u * 2 * 44);  // K and V of each kernel block touch: they join below
  merge_segments(&runs);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].offset, 2u * 2162688);
  EXPECT_EQ(runs[0].bytes, 2162688u);
  runs.clear();
  append_segments(layout.groups[1].members[0], layout.groups[1].lowering, 3, 1, &runs);
  merge_segments(&runs);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].bytes, 2134016u);  // the 28,672 bytes behind are padding
}

// K contiguous over the whole page: small pages of one side, K and V with their own block stride.
TEST(Layout, SmallPagesPerSide) {
  PoolShape pool;
  pool.num_pages = 2;
  pool.groups.push_back({order("BPKJTHD"), 2, 1, {attention(0, 2, 4, 16), attention(1, 2, 4, 16)}});
  pool.groups[0].members[1].index = 1;
  const PoolLayout layout = laid_out(pool);
  const quire_kv_view& view = layout.groups[0].members[1].kv;
  EXPECT_EQ(view.offset[0], 2 * 512);
  EXPECT_EQ(view.offset[1], 2 * 512 + 512);
  EXPECT_EQ(view.unit[0], 256);
  EXPECT_EQ(layout.groups[0].lowering.page_factor, 8u);
}

TEST(Layout, RegionPerLane) {
  PoolShape pool;
  pool.num_pages = 5;
  pool.region_per_lane = true;
  pool.groups.push_back({order("LKBTHD"), 1, 1, {attention(0, 1, 8, 4), attention(1, 1, 8, 4)}});
  pool.groups[0].members[1].lane = 1;
  const PoolLayout layout = laid_out(pool);
  ASSERT_EQ(layout.regions.size(), 2u);
  EXPECT_EQ(layout.regions[1].num_planes, 2u);
  EXPECT_EQ(layout.regions[1].bytes, 5u * 2 * 4 * 8 * 2);
  EXPECT_EQ(layout.groups[0].members[1].kv.region, 1u);
  EXPECT_EQ(layout.groups[0].members[1].kv.offset[1], 5 * 4 * 8 * 2);
  EXPECT_EQ(layout.page_bytes, 4u * 64);
  pool.groups[0].order = order("KLBTHD");
  EXPECT_EQ(lay_out(pool).status().code(), QUIRE_INVALID_ARGUMENT);
}

TEST(Layout, UnequalWidthsLowerPerSide) {
  MemberShape member = attention(0, 2, 192, 16);
  member.width[1] = 128;
  PoolShape pool;
  pool.num_pages = 3;
  pool.groups.push_back({order("KBTHD"), 1, 1, {member}});
  PoolLayout layout = laid_out(pool);  // planes hold strips of the wider side
  EXPECT_EQ(layout.strip_bytes, 16u * 2 * 192 * 2);
  EXPECT_EQ(layout.groups[0].members[0].kv.stride_token[1], 2 * 128 * 2);
  pool.groups[0] = {order("BKJTHD"), 4, 1, {member}};
  const auto refused = lay_out(pool);  // K blocks and V blocks would need two tables
  EXPECT_EQ(refused.status().code(), QUIRE_NOT_REPRESENTABLE);
  EXPECT_NE(refused.status().message().find("K of layer 0 and V of layer 0"), std::string::npos) << refused.status().message();
  pool.groups[0].order = order("BJKTHD");
  layout = laid_out(pool);
  EXPECT_EQ(layout.groups[0].members[0].kv.unit[0], 16 * 2 * 320 * 2);
}

TEST(Layout, RefusalsNameTheLayers) {
  PoolShape pool;
  pool.groups.push_back({order("BHLKTD"), 1, 1, {attention(3, 2, 8, 4), attention(7, 4, 8, 4)}});
  pool.groups[0].members[1].lane = 1;
  auto refused = lay_out(pool);
  EXPECT_EQ(refused.status().code(), QUIRE_NOT_REPRESENTABLE);
  EXPECT_EQ(refused.status().message(), "layout BHLKTD: H is 2 in layer 3 and 4 in layer 7; it must stand right of L, P and K");

  pool.groups[0] = {order("KBTHD"), 1, 1, {attention(3, 2, 8, 4)}};
  pool.groups.push_back({order("KB"), 1, 1, {gated_delta_state(5)}});
  refused = lay_out(pool);
  EXPECT_EQ(refused.status().code(), QUIRE_NOT_REPRESENTABLE);
  EXPECT_NE(refused.status().message().find("layer 5, which shares the pool, has no K side"), std::string::npos)
      << refused.status().message();

  pool.groups.pop_back();
  pool.groups[0].order = order("BTHD");
  EXPECT_NE(lay_out(pool).status().message().find("letter K is absent, but layer 3 has 2 sides"), std::string::npos);
  pool.groups[0].order = order("BKHD");
  EXPECT_NE(lay_out(pool).status().message().find("letter T is absent"), std::string::npos);
  pool.groups[0].order = order("BKTHD");
  pool.groups[0].members.push_back(attention(4, 2, 8, 4));
  EXPECT_NE(lay_out(pool).status().message().find("layers 3 and 4 both claim"), std::string::npos);
  pool.groups[0].order = order("BPKTHD");
  pool.groups[0].members.push_back(attention(5, 2, 8, 4));
  pool.groups[0].members[1].index = 1;
  EXPECT_NE(lay_out(pool).status().message().find("layers 3 and 5 both claim lane 0 index 0"), std::string::npos);
}

TEST(Layout, HugeProductsAreOutOfRange) {
  PoolShape pool;
  pool.num_pages = uint64_t{1} << 50;
  pool.groups.push_back({order("BKTHD"), 1, 1, {attention(0, 8, 128, 16)}});
  EXPECT_EQ(lay_out(pool).status().code(), QUIRE_OUT_OF_RANGE);
  pool.num_pages = uint64_t{1} << 31;  // bytes fit, ids do not
  EXPECT_EQ(lay_out(pool).status().code(), QUIRE_OUT_OF_RANGE);
  pool.num_pages = (uint64_t{1} << 31) - 1;
  EXPECT_TRUE(lay_out(pool).ok());
  pool.num_pages = 0;
  EXPECT_EQ(lay_out(pool).status().code(), QUIRE_INVALID_ARGUMENT);
}

// Bad input: letters, planes, ids, products. Each says what, where and which limit.
TEST(Layout, BadInputIsNamed) {
  const auto says = [](const PoolShape& pool, quire_code code, const std::string& part) {
    const auto layout = lay_out(pool);
    ASSERT_FALSE(layout.ok());
    EXPECT_EQ(layout.status().code(), code) << layout.status().message();
    EXPECT_NE(layout.status().message().find(part), std::string::npos) << layout.status().message();
  };
  EXPECT_EQ(Order::parse("LPBJKTH").ok(), true);  // D may be absent, if its extent is 1
  EXPECT_NE(Order::parse("LPJKTHD").status().message().find("letter B is missing"), std::string::npos);
  EXPECT_NE(Order::parse("LPBJKTHDK").status().message().find("letter K occurs twice"), std::string::npos);
  EXPECT_NE(Order::parse("HLPBJKTD").status().message().find("H stands left of B; only L, P and K may"), std::string::npos);
  EXPECT_NE(Order::parse("LPBJKDTH").status().message().find("D must stand right of T"), std::string::npos);
  EXPECT_NE(Order::parse("LPBJKTHZ").status().message().find("letter 'Z' is none of LPBJKTHD"), std::string::npos);
  EXPECT_FALSE(Order::parse(std::string(1000, 'L')).ok());

  PoolShape pool;
  pool.groups.push_back({order("BKTH"), 1, 1, {attention(3, 2, 8, 4)}});
  says(pool, QUIRE_INVALID_ARGUMENT, "letter D is absent, but its extent in layer 3 is 8");
  pool.groups[0] = {order("BKTHD"), 2, 1, {attention(3, 2, 8, 4)}};
  says(pool, QUIRE_INVALID_ARGUMENT, "letter J is absent, but its extent in layer 3 is 2");
  // Two groups that cut different planes.
  pool.groups[0] = {order("KBTHD"), 1, 1, {attention(3, 2, 8, 4)}};
  pool.groups.push_back({order("BKTHD"), 1, 1, {attention(9, 2, 8, 4)}});
  says(pool, QUIRE_NOT_REPRESENTABLE, "layers 3 and 9 share pages but their layouts KBTHD and BKTHD");
  // Rows of different width left of the letter that selects them.
  pool.groups = {{order("BTLKHD"), 1, 1, {attention(3, 2, 8, 4), attention(9, 2, 8, 6)}}};
  pool.groups[0].members[1].lane = 1;
  says(pool, QUIRE_NOT_REPRESENTABLE, "T is 4 in layer 3 and 6 in layer 9");
  // One table cannot serve blocks of two sizes.
  pool.groups = {{order("BLJKTHD"), 3, 1, {attention(3, 2, 8, 4), attention(9, 2, 24, 4)}}};
  pool.groups[0].members[1].lane = 1;
  says(pool, QUIRE_NOT_REPRESENTABLE, "one table cannot serve layers 3 and 9");
  // Ids beyond 31 bits, products beyond 63.
  pool.groups = {{order("BJKTHD"), 1, 64, {attention(3, 1, 8, 1)}}};
  pool.num_pages = uint64_t{1} << 26;
  says(pool, QUIRE_OUT_OF_RANGE, "lowered ids each for layer 3; at most 2147483647 lowered ids");
  pool.groups.push_back({order("BJKTHD"), 1, 64, {}});  // as in a pipeline stage that has none of its layers
  std::swap(pool.groups[0], pool.groups[1]);
  pool.num_pages = uint64_t{1} << 31;
  pool.groups[1].kernel_blocks_per_part = pool.groups[1].parts_per_page = 1;
  says(pool, QUIRE_OUT_OF_RANGE, "lowered ids each for a group without layers here; at most 2147483647 lowered ids");
  pool.groups = {{order("BJKTHD"), 1u << 20, 1u << 20, {attention(3, 1u << 20, 1u << 20, 1u << 20)}}};
  says(pool, QUIRE_OUT_OF_RANGE, "layer 3: bytes of one page pass 63 bits at letter");
  pool.groups = {{order("BKTHD"), 1, 1, {attention(3, 8, 128, 16)}}};
  pool.num_pages = uint64_t{1} << 50;
  says(pool, QUIRE_OUT_OF_RANGE, "with 1 planes of 65536 bytes each; at most 9223372036854775807 bytes");
}

// Loose: a machine under load, with checks and sanitizers, takes far less than this; hidden work per pair of layers would not.
TEST(Layout, HundredLayersAreQuick) {
  PoolShape pool;
  pool.num_pages = 100000;
  pool.groups.push_back({order("BPJKTHD"), 1, 26, {}});
  pool.groups.push_back({order("BPJ"), 1, 1, {}});
  for (uint32_t l = 0; l < 100; ++l) {
    GroupShape& group = pool.groups[l % 4 == 3 ? 0 : 1];
    MemberShape member = l % 4 == 3 ? attention(l, 2, 256, 16) : gated_delta_state(l);
    member.index = static_cast<uint32_t>(group.members.size());
    group.members.push_back(member);
  }
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto layout = lay_out(pool);
    best = std::min(best, std::chrono::nanoseconds(std::chrono::steady_clock::now() - start));
    ASSERT_TRUE(layout.ok()) << layout.status().message();
  }
  RecordProperty("microseconds", static_cast<int>(best.count() / 1000));
  EXPECT_LT(best, std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace quire
