// Runs for peers and head shards against bytes that know where they belong.
#include "core/layout/runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/layout/codec.h"
#include "core/layout/layout.h"
#include "core/layout/segments.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

constexpr quire_dtype kByte{QUIRE_DTYPE_UINT, 8, 1};
constexpr int64_t kTokens = 64;

// One rank of one engine: a cache of one layer among others, and the table of one sequence.
struct Engine {
  PoolLayout layout;
  quire_kv_view view{};
  std::vector<int32_t> ids;
  std::vector<std::vector<uint64_t>> bytes;  // by region; 0 = untouched

  uint64_t& byte(uint32_t side, int64_t row, int64_t head, const quire_kv_field& field, int64_t item, uint64_t k) {
    const int64_t rows = int64_t{view.block_tokens} * view.kernel_blocks_per_part;
    const int64_t parts = view.blocks_per_page / view.kernel_blocks_per_part;
    const int64_t id = ids[static_cast<size_t>(row / rows)];
    const int64_t block = id % parts * view.kernel_blocks_per_part + row % rows / view.block_tokens;
    const int64_t t = row % view.block_tokens;
    const int64_t at = field.offset + id / parts * view.stride_page[side] + block * view.stride_block[side] + head * field.stride_head +
                       t / field.tile_tokens * field.stride_token_tile + t % field.tile_tokens * field.stride_token +
                       item / field.tile_items * field.stride_item_tile + item % field.tile_items * field.stride_item;
    return bytes[view.region][static_cast<uint64_t>(at) + k];
  }

  // Calls visit(tag, byte) for every byte of every row; the tag says what the byte is, whoever holds it.
  template <typename Visit>
  void each(Visit visit) {
    for (const quire_kv_field& field : fields_of(view)) {
      const uint64_t item_bytes = uint64_t{field.dtype.bits} * field.dtype.lanes / 8;
      for (int64_t row = 0; row < kTokens; ++row) {
        for (int64_t head = 0; head < view.num_heads; ++head) {
          for (int64_t item = 0; item < field.num_items; ++item) {
            for (uint64_t k = 0; k < item_bytes; ++k) {
              uint64_t tag = 1 + field.side + 2 * field.role;
              tag = tag * 100 + static_cast<uint64_t>(row);
              tag = tag * 100 + view.first_head + static_cast<uint64_t>(head);
              tag = (tag * 1000 + static_cast<uint64_t>(item)) * 10 + k;
              visit(tag, row, view.first_head + static_cast<uint32_t>(head), byte(field.side, row, head, field, item, k));
            }
          }
        }
      }
    }
  }
};

class Rows : public testing::Test {
 protected:
  Rows() : seed_(std::random_device{}()), random_(seed_) {}

  uint32_t pick(uint32_t low, uint32_t high) { return low + random_() % (high - low + 1); }
  template <typename T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[pick(0, static_cast<uint32_t>(list.size()) - 1)];
  }

  MemberShape rows(uint32_t codec) {
    MemberShape member;
    member.num_sides = 2;
    member.num_heads = 4;
    member.width[0] = 16;
    member.width[1] = one_of({16u, 32u});
    member.dtype = kBFloat16;
    member.codec = codec;
    if (codec == QUIRE_CODEC_RECORD || codec == QUIRE_CODEC_BLOCK_SPLIT) {
      for (uint32_t side = 0; side < 2; ++side) {
        member.codec_params.data_bytes[side] = member.width[side] - 2;
        member.codec_params.scale_bytes[side] = 4;
        member.codec_params.tail_bytes[side] = 4;
      }
      member.codec_params.data_dtype = kByte;
      member.codec_params.scale_dtype = kFloat32;
      member.codec_params.tail_dtype = kBFloat16;
    }
    return member;
  }

  // heads [first, first + num) of 4, in an order and blocks of their own; a neighbour layer lies in the same pages.
  Engine engine(MemberShape member, uint32_t first, uint32_t num, uint32_t block_rows) {
    member.num_heads = num;
    member.rows = block_rows;
    const bool strided = member.codec == QUIRE_CODEC_STRIDED;
    std::string order = strided ? one_of({"BPJKTHD", member.width[0] == member.width[1] ? "KBPJHTD" : "BJPHKTD", "BJPKHTD", "BPJTHKD",
                                          "PBJKTHD", "BJHPTKD", "BJTPKHD"})
                                : one_of({"BPJKTHD", "BPJKHTD", "BJPKTHD", "PBJKTHD"});
    PoolShape pool;
    GroupShape group{*Order::parse(order), one_of({1u, 2u, 4u}), pick(1, 3), {}};
    if (group.kernel_blocks_per_part * block_rows > kTokens) group.kernel_blocks_per_part = 1;
    member.index = pick(0, 1);
    group.members.push_back(member);
    MemberShape other = member;
    other.index = 1 - member.index;
    group.members.push_back(other);
    const uint32_t needed = static_cast<uint32_t>(kTokens) / (block_rows * group.kernel_blocks_per_part);
    pool.num_pages = 2 + needed;
    pool.min_page_bytes = pick(0, 1) * 40000;
    pool.groups.push_back(group);
    Engine out;
    auto layout = lay_out(pool);
    EXPECT_TRUE(layout.ok()) << order << ": " << layout.status().message();
    out.layout = std::move(*layout);
    out.view = out.layout.groups[0].members[0].kv;
    out.view.struct_size = sizeof out.view;
    out.view.first_head = first;
    out.view.model_heads = 4;
    std::vector<int32_t> all(static_cast<size_t>((pool.num_pages - 1) * group.parts_per_page));
    std::iota(all.begin(), all.end(), static_cast<int32_t>(group.parts_per_page));
    std::shuffle(all.begin(), all.end(), random_);
    if (pick(0, 1) == 0) std::sort(all.begin(), all.end());
    out.ids.assign(all.begin(), all.begin() + needed);
    for (const quire_region_info& region : out.layout.regions) out.bytes.emplace_back(region.bytes, 0);
    return out;
  }

  static void copy(const std::vector<quire_run>& runs, const Engine& from, Engine* to, uint64_t* moved) {
    for (const quire_run& run : runs) {
      for (uint64_t n = 0; n < run.count; ++n) {
        const uint64_t a = run.from_offset + n * static_cast<uint64_t>(run.from_stride);
        const uint64_t b = run.to_offset + n * static_cast<uint64_t>(run.to_stride);
        for (uint64_t i = 0; i < run.bytes; ++i) {
          ASSERT_LT(a + i, from.bytes[run.from_region].size());
          ASSERT_LT(b + i, to->bytes[run.to_region].size());
          ASSERT_NE(from.bytes[run.from_region][a + i], 0u) << "padding or another layer is read";
          ASSERT_EQ(to->bytes[run.to_region][b + i], 0u) << "written twice";
          to->bytes[run.to_region][b + i] = from.bytes[run.from_region][a + i];
          ++*moved;
        }
      }
    }
  }

  uint32_t seed_;
  std::mt19937 random_;
};

TEST_F(Rows, ReachPeersOfAnyShape) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int round = 0; round < 40; ++round) {
    const uint32_t codec = pick(0, 2) == 0 ? pick(QUIRE_CODEC_STRIDED, QUIRE_CODEC_AMX) : pick(QUIRE_CODEC_STRIDED, QUIRE_CODEC_RECORD);
    const MemberShape member = rows(codec);
    const uint32_t block = one_of({16u, 32u});
    const bool any_block = cuts_between_rows(codec);
    const bool any_head = cuts_between_heads(codec);
    const uint32_t first = any_head ? one_of({0u, 2u}) : 0;
    Engine from = engine(member, first, any_head ? one_of({1u, 2u}) : 4, any_block ? one_of({4u, 8u, 16u, 64u}) : block);
    Engine to =
        engine(member, any_head ? one_of({0u, 1u, 2u}) : 0, any_head ? one_of({1u, 2u}) : 4, any_block ? one_of({2u, 16u, 32u}) : block);
    from.each([](uint64_t tag, int64_t, uint32_t, uint64_t& byte) { byte = tag; });
    uint64_t begin = any_block ? pick(0, 40) : block * pick(0, 1);
    uint64_t end = begin + pick(0, static_cast<uint32_t>(kTokens - begin));
    SCOPED_TRACE("round " + std::to_string(round) + " codec " + std::to_string(codec) + " tokens " + std::to_string(begin) + ".." +
                 std::to_string(end));
    std::vector<quire_run> runs;
    const Status status = append_runs({&from.view, from.ids, "from"}, {&to.view, to.ids, "to"}, begin, end, &runs);
    const auto rows_outer = [](const quire_kv_view& view) { return view.stride_token[0] > view.stride_head[0]; };
    if (codec == QUIRE_CODEC_BLOCK_SPLIT && rows_outer(from.view) != rows_outer(to.view)) {  // part of the encoding
      ASSERT_NE(status.message().find("order of T and H inside a block"), std::string::npos) << status.message();
      continue;
    }
    ASSERT_TRUE(status.ok()) << status.message();
    uint64_t moved = 0;
    copy(runs, from, &to, &moved);
    if (HasFatalFailure()) return;
    if (!any_block) end = (end + block - 1) / block * block;
    uint64_t expected = 0;
    to.each([&](uint64_t tag, int64_t row, uint32_t head, uint64_t& byte) {
      const bool shared = head >= from.view.first_head && head < from.view.first_head + from.view.num_heads;
      const bool wanted = shared && row >= static_cast<int64_t>(begin) && row < static_cast<int64_t>(end);
      ASSERT_EQ(byte, wanted ? tag : 0u) << "row " << row << " head " << head;
      expected += wanted ? 1 : 0;
    });
    ASSERT_EQ(moved, expected);
  }
}

// What is not resident on either side is left out: the null page, and entries without an id.
TEST_F(Rows, AreClippedToWhatIsThere) {
  MemberShape member = rows(QUIRE_CODEC_STRIDED);
  member.width[1] = 32;
  Engine from = engine(member, 0, 4, 16);
  Engine to = engine(member, 0, 4, 16);
  from.each([](uint64_t tag, int64_t, uint32_t, uint64_t& byte) { byte = tag; });
  const int64_t from_rows = int64_t{from.view.block_tokens} * from.view.kernel_blocks_per_part;
  from.ids[0] = 0;
  to.ids.back() = -1;
  const int64_t to_rows = int64_t{to.view.block_tokens} * to.view.kernel_blocks_per_part;
  std::vector<quire_run> runs;
  ASSERT_TRUE(append_runs({&from.view, from.ids, "from"}, {&to.view, to.ids, "to"}, 0, kTokens, &runs).ok());
  uint64_t bytes = 0;
  for (const quire_run& run : runs) bytes += run.bytes * run.count;
  const int64_t left = std::max<int64_t>(0, kTokens - from_rows - to_rows);
  EXPECT_EQ(bytes, static_cast<uint64_t>(left) * 4 * (16 + 32) * 2);
}

// Blocks that lie one behind the other on both sides are one run.
TEST_F(Rows, Merge) {
  PoolShape pool;
  pool.num_pages = 5;
  MemberShape member = rows(QUIRE_CODEC_STRIDED);
  member.width[1] = 32;
  member.rows = 16;
  pool.groups.push_back({*Order::parse("BJKTHD"), 1, 1, {member}});
  const PoolLayout layout = *lay_out(pool);
  const quire_kv_view& view = layout.groups[0].members[0].kv;
  const std::vector<int32_t> ids{1, 2, 4};
  std::vector<quire_run> runs;
  ASSERT_TRUE(append_runs({&view, ids, "from"}, {&view, ids, "to"}, 0, 48, &runs).ok());
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].bytes, 2 * layout.page_bytes);
  EXPECT_EQ(runs[1].from_offset, 4 * layout.page_bytes);
  // One of four heads: a piece per row.
  quire_kv_view peer = view;
  peer.num_heads = 1;
  peer.first_head = 2;
  runs.clear();
  ASSERT_TRUE(append_runs({&view, ids, "from"}, {&peer, ids, "to"}, 0, 16, &runs).ok());
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].count, 16u);
  EXPECT_EQ(runs[0].bytes, 32u);
  EXPECT_EQ(runs[1].bytes, 64u);
}

TEST_F(Rows, Refusals) {
  MemberShape plain = rows(QUIRE_CODEC_STRIDED);
  plain.width[1] = 32;
  Engine from = engine(plain, 0, 4, 16);
  Engine to = engine(plain, 0, 4, 16);
  const auto says = [&](quire_code code, const std::string& part, uint64_t begin, uint64_t end) {
    std::vector<quire_run> runs;
    const Status status = append_runs({&from.view, from.ids, "from"}, {&to.view, to.ids, "to"}, begin, end, &runs);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    EXPECT_TRUE(runs.empty());
  };
  const quire_kv_view good = to.view;
  to.view.head_dim[1] = 31;
  says(QUIRE_INVALID_ARGUMENT, "head_dim is 32 and 31", 0, 1);
  to.view = good;
  to.view.dtype = kFloat16;
  says(QUIRE_INVALID_ARGUMENT, "dtype is {code 4, bits 16} and {code 2, bits 16}", 0, 1);
  to.view = good;
  to.view.codec = QUIRE_CODEC_AMX;
  says(QUIRE_INVALID_ARGUMENT, "codec is 0 and 6", 0, 1);
  to.view.codec = 7;
  says(QUIRE_INVALID_ARGUMENT, "to.codec = 7; must be 0..6", 0, 1);
  to.view = good;
  to.view.num_sides = 3;
  says(QUIRE_INVALID_ARGUMENT, "to.num_sides = 3", 0, 1);
  to.view = good;
  to.view.blocks_per_page = 0;
  says(QUIRE_INVALID_ARGUMENT, "to.blocks_per_page = 0", 0, 1);
  to.view = good;
  to.view.stride_page[1] = INT64_MAX;
  says(QUIRE_OUT_OF_RANGE, "beyond 63 bits", 0, 1);
  to.view = good;
  to.view.stride_token[0] = -2;
  says(QUIRE_INVALID_ARGUMENT, "to.strides = -2", 0, 1);
  to.view = good;
  to.view.first_head = 3;
  says(QUIRE_INVALID_ARGUMENT, "to.first_head + num_heads = 7", 0, 1);
  to.view = good;
  says(QUIRE_INVALID_ARGUMENT, "begin = 9", 9, 8);
  says(QUIRE_OUT_OF_RANGE, "_ids: ", 0, kTokens + 1);
  to.ids[0] = INT32_MAX;
  says(QUIRE_OUT_OF_RANGE, "to_ids[0] = 2147483647", 0, 1);
  const MemberShape split = rows(QUIRE_CODEC_BLOCK_SPLIT);
  const MemberShape tiled = rows(QUIRE_CODEC_AMX);
  from = engine(split, 0, 2, 16);
  to = engine(split, 0, 4, 16);
  for (quire_kv_view* view : {&from.view, &to.view}) {  // rows outside heads, on both
    view->stride_head[0] = 18;
    view->stride_token[0] = 18 * view->num_heads;
  }
  says(QUIRE_NOT_REPRESENTABLE, "codec 2 cannot be cut by heads: from has heads 0..1", 0, 1);
  from = engine(tiled, 0, 4, 32);
  to = engine(tiled, 0, 4, 16);
  says(QUIRE_NOT_REPRESENTABLE, "kernel blocks have 32 rows in from and 16 in to", 0, 32);
  to = engine(tiled, 0, 4, 32);
  says(QUIRE_NOT_REPRESENTABLE, "token 16 lies inside a kernel block of 32 rows", 16, 32);
  from = engine(plain, 0, 4, 16);
  to = engine(plain, 0, 4, 16);
  from.view.tokens_per_row = to.view.tokens_per_row = 4;
  says(QUIRE_INVALID_ARGUMENT, "tokens [2, 8) cut rows of 4 tokens", 2, 8);
}

// A peer's numbers cannot ask for any amount of work.
TEST_F(Rows, AreLimitedInNumber) {
  Engine from = engine(rows(QUIRE_CODEC_STRIDED), 0, 4, 16);
  Engine to = from;
  to.view.block_tokens = 1;
  to.view.kernel_blocks_per_part = to.view.blocks_per_page = 1 << 24;
  to.view.stride_block[0] = to.view.stride_block[1] = 0;
  from.view.block_tokens = from.view.kernel_blocks_per_part = from.view.blocks_per_page = 1 << 24;
  for (uint32_t side = 0; side < 2; ++side) from.view.stride_block[side] = from.view.stride_token[side] = 0;
  from.ids = to.ids = {1};  // the view now has one id per page
  std::vector<quire_run> runs;
  const Status status = append_runs({&from.view, from.ids, "from"}, {&to.view, to.ids, "to"}, 0, 1 << 23, &runs);
  EXPECT_EQ(status.code(), QUIRE_OUT_OF_RANGE);
  EXPECT_NE(status.message().find("more than 4194304 runs"), std::string::npos) << status.message();
}

// Head shards of a page: every byte of the payload in exactly one of them.
TEST_F(Rows, HeadShardsTileThePage) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int round = 0; round < 30; ++round) {
    const uint32_t codec = one_of({uint32_t{QUIRE_CODEC_STRIDED}, uint32_t{QUIRE_CODEC_RECORD}, uint32_t{QUIRE_CODEC_TILED},
                                   uint32_t{QUIRE_CODEC_SHUFFLED}, uint32_t{QUIRE_CODEC_AMX}});
    const Engine own = engine(rows(codec), 0, 4, 16);
    const GroupLayout& group = own.layout.groups[0];
    for (const uint32_t count : {1u, 2u, 4u}) {
      std::vector<quire_segment> whole;
      std::vector<quire_segment> shards;
      append_segments(group.members[0], group.lowering, 3, own.ids[0], &whole);
      uint64_t payload = 0;
      for (const quire_segment& run : whole) payload += run.bytes;
      for (uint32_t shard = 0; shard < count; ++shard) {
        std::vector<quire_segment> runs;
        ASSERT_TRUE(append_head_segments(group.members[0], group.lowering, 3, own.ids[0], {shard, count}, &runs).ok());
        uint64_t bytes = 0;
        for (const quire_segment& run : runs) bytes += run.bytes;
        ASSERT_EQ(bytes * count, payload);
        shards.insert(shards.end(), runs.begin(), runs.end());
      }
      merge_segments(&whole);
      merge_segments(&shards);  // joins what touches and keeps overlaps apart
      ASSERT_EQ(whole.size(), shards.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        ASSERT_EQ(whole[i].offset, shards[i].offset);
        ASSERT_EQ(whole[i].bytes, shards[i].bytes);
      }
    }
  }
  const Engine split = engine(rows(QUIRE_CODEC_BLOCK_SPLIT), 0, 4, 16);
  std::vector<quire_segment> runs;
  const GroupLayout& group = split.layout.groups[0];
  EXPECT_NE(append_head_segments(group.members[0], group.lowering, 3, split.ids[0], {0, 2}, &runs).message().find("layer 3: codec 2"),
            std::string::npos);
  EXPECT_NE(append_head_segments(group.members[0], group.lowering, 3, split.ids[0], {0, 3}, &runs).message().find("layer 3 has 4 heads"),
            std::string::npos);
}

// States -----------------------------------------------------------------------------------------------------------------------------

struct Rank {
  quire_state_view view{};
  std::vector<uint32_t> bytes;
};

// A convolution state of 3 rows of q | k | v channels, or a recurrent state of heads, as one of `ranks` ranks holds it.
Rank state(bool conv, uint32_t ranks, uint32_t rank) {
  MemberShape member;
  const uint64_t split = conv ? 16 : 8;
  member.tensors = {{kBFloat16, 2, {conv ? 3 : split / ranks, conv ? split / ranks : 5, 0, 0}}};
  PoolShape pool;
  pool.num_pages = 2 + ranks;
  pool.min_page_bytes = 1000;
  pool.groups.push_back({*Order::parse("BJ"), 1, 2, {member}});
  const auto layout = lay_out(pool);
  Rank out;
  out.view = layout.value().groups[0].members[0].states[0];
  out.view.shard_dim = conv ? 2 : 1;
  out.view.num_ranks = ranks;
  out.view.rank = rank;
  if (conv) std::copy_n(std::array<uint32_t, 4>{4, 4, 8, 0}.begin(), 4, out.view.shard_parts);
  out.bytes.assign(layout.value().regions[0].bytes, 0);
  return out;
}

// Calls visit(byte of the tensor in part `id`, what it is in the whole model).
template <typename Visit>
void each_element(Rank* rank, int32_t id, Visit visit) {
  const quire_state_view& view = rank->view;
  const uint64_t base = static_cast<uint64_t>(view.offset + id / 2 * view.stride_page + id % 2 * view.stride_part);
  const bool conv = view.shard_dim == 2;
  for (uint64_t a = 0; a < view.shape[0]; ++a) {
    for (uint64_t b = 0; b < view.shape[1]; ++b) {
      uint64_t at = conv ? b : a;  // along the sharded dimension, in this rank
      uint64_t whole = 0;
      if (conv) {
        for (const uint32_t part : {4u, 4u, 8u}) {
          const uint64_t own = part / view.num_ranks;
          if (at < own) {
            whole += own * view.rank + at;
            break;
          }
          at -= own;
          whole += part;
        }
      } else {
        whole = view.shape[0] * view.rank + at;
      }
      const uint64_t tag = 1 + (conv ? a : b) * 100 + whole;
      for (uint64_t k = 0; k < 2; ++k) {
        visit(&rank->bytes[base + a * static_cast<uint64_t>(view.stride[0]) + b * static_cast<uint64_t>(view.stride[1]) + k],
              static_cast<uint32_t>(tag * 2 + k));
      }
    }
  }
}

TEST(StateRuns, FollowRanksAndProjections) {
  for (const bool conv : {false, true}) {
    for (const uint32_t from_ranks : {1u, 2u, 4u}) {
      for (const uint32_t to_ranks : {1u, 2u, 4u}) {
        for (uint32_t to_rank = 0; to_rank < to_ranks; ++to_rank) {
          Rank to = state(conv, to_ranks, to_rank);
          for (uint32_t from_rank = 0; from_rank < from_ranks; ++from_rank) {
            Rank from = state(conv, from_ranks, from_rank);
            each_element(&from, 3, [](uint32_t* byte, uint32_t tag) { *byte = tag; });
            std::vector<quire_run> runs;
            const Status status = append_state_runs(from.view, 3, to.view, 2, &runs);
            ASSERT_TRUE(status.ok()) << status.message();
            for (const quire_run& run : runs) {
              for (uint64_t n = 0; n < run.count; ++n) {
                for (uint64_t i = 0; i < run.bytes; ++i) {
                  uint32_t& byte = to.bytes[run.to_offset + n * static_cast<uint64_t>(run.to_stride) + i];
                  ASSERT_EQ(byte, 0u);
                  byte = from.bytes[run.from_offset + n * static_cast<uint64_t>(run.from_stride) + i];
                }
              }
            }
          }
          uint64_t written = 0;
          each_element(&to, 2, [&written](const uint32_t* byte, uint32_t tag) {
            ASSERT_EQ(*byte, tag);
            ++written;
          });
          ASSERT_EQ(to.bytes.size() - static_cast<size_t>(std::count(to.bytes.begin(), to.bytes.end(), 0u)), written);
        }
      }
    }
  }
}

TEST(StateRuns, Refusals) {
  const Rank a = state(true, 2, 0);
  Rank b = state(true, 2, 1);
  std::vector<quire_run> runs;
  const auto says = [&](const char* part) {
    const Status status = append_state_runs(a.view, 2, b.view, 2, &runs);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  const quire_state_view good = b.view;
  EXPECT_EQ(append_state_runs(a.view, 8, b.view, 2, &runs).message(), "from_id = 8; the view has 8 ids");
  b.view.num_ranks = 4;
  says("to.shard_parts sum to 4");
  b.view = good;
  b.view.shape[0] = 4;
  says("shape[0] is 3 and 4");
  b.view = good;
  b.view.stride[0] = 2;
  says("to.stride[0] = 2; a state is dense, so 16");
  b.view = good;
  b.view.shard_parts[0] = 3;
  says("to.shard_parts has 3");
  b.view = good;
  b.view.ndim = 5;
  says("to.ndim = 5");
  b.view = good;
  b.view.dtype = kFloat16;
  says("dtype differs");
}

}  // namespace
}  // namespace quire
