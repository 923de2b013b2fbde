// Codecs: worked addresses, what may be cut, and fields that tile the bytes of a block.
#include "core/layout/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/layout/layout.h"
#include "core/layout/segments.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

constexpr quire_dtype kByte{QUIRE_DTYPE_UINT, 8, 1};
constexpr quire_dtype kFloat8{QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
constexpr quire_dtype kFloat4{QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1};

MemberShape sides(uint32_t codec, uint32_t rows, uint32_t heads, uint32_t width, quire_dtype dtype) {
  MemberShape member;
  member.layer = 7;
  member.num_sides = 2;
  member.num_heads = heads;
  member.width[0] = member.width[1] = width;
  member.rows = rows;
  member.dtype = dtype;
  member.codec = codec;
  return member;
}

MemberShape latent(uint32_t codec, uint32_t rows, uint32_t data, uint32_t scales, uint32_t tail, uint32_t alignment) {
  MemberShape member = sides(codec, rows, 1, data, kFloat8);
  member.num_sides = 1;
  member.width[0] = data + tail / 2;
  member.width[1] = 0;
  member.codec_params.data_bytes[0] = data;
  member.codec_params.scale_bytes[0] = scales;
  member.codec_params.tail_bytes[0] = tail;
  member.codec_params.scale_dtype = scales % 4 == 0 && scales != 8 ? kFloat32 : quire_dtype{QUIRE_DTYPE_FLOAT8_E8M0FNU, 8, 1};
  member.codec_params.tail_dtype = kBFloat16;
  member.codec_params.block_alignment = alignment;
  return member;
}

PoolLayout laid_out(const char* order, const MemberShape& member, uint64_t pages, uint32_t blocks = 1) {
  PoolShape pool;
  pool.num_pages = pages;
  pool.groups.push_back({*Order::parse(order), blocks, 1, {member}});
  auto layout = lay_out(pool);
  EXPECT_TRUE(layout.ok()) << layout.status().message();
  return layout.ok() ? std::move(*layout) : PoolLayout();
}

int64_t item_offset(const quire_kv_field& field, int64_t t, int64_t h, int64_t i) {
  return field.offset + h * field.stride_head + t / field.tile_tokens * field.stride_token_tile +
         t % field.tile_tokens * field.stride_token + i / field.tile_items * field.stride_item_tile +
         i % field.tile_items * field.stride_item;
}

struct View {
  explicit View(const PoolLayout& layout) : kv(layout.groups[0].members[0].kv), fields(fields_of(kv)) {}
  // Field `n` of a side, in the order of the list.
  const quire_kv_field& field(uint32_t side, uint32_t n = 0) const {
    for (const quire_kv_field& candidate : fields) {
      if (candidate.side == side && n-- == 0) return candidate;
    }
    ADD_FAILURE() << "no field " << n << " on side " << side;
    return fields[0];
  }
  // Offset behind the kernel block of page b.
  int64_t inside(uint32_t side, uint32_t n, int64_t t, int64_t h, int64_t i) const {
    return item_offset(field(side, n), t, h, i) - kv.offset[side];
  }
  quire_kv_view kv;
  std::vector<quire_kv_field> fields;
};

// x = 16 bytes of elements: K is [H, D/x, R, x], V is [H, D, R].
TEST(Codec, TilesOfSixteenBytes) {
  for (const quire_dtype dtype : {kBFloat16, kByte}) {
    const int64_t e = static_cast<int64_t>(element_bytes(dtype));
    const int64_t x = 16 / e;
    const int64_t rows = 32;
    const int64_t width = 64;
    const View view(laid_out("KBJHTD", sides(QUIRE_CODEC_TILED, rows, 2, width, dtype), 3));
    EXPECT_EQ(view.kv.stride_head[0], rows * width * e);
    for (const auto& [t, h, d] : {std::array<int64_t, 3>{0, 0, 0}, {5, 1, 3}, {31, 1, 63}, {17, 0, x}, {1, 1, 2 * x + 1}}) {
      EXPECT_EQ(view.inside(0, 0, t, h, d), e * (h * width * rows + d / x * rows * x + t * x + d % x));
      EXPECT_EQ(view.inside(1, 0, t, h, d), e * (h * width * rows + d * rows + t));
    }
    const View shuffled(laid_out("BKJHTD", sides(QUIRE_CODEC_SHUFFLED, rows, 2, width, dtype), 3));
    for (const auto& [t, h, d] : {std::array<int64_t, 3>{0, 0, 0}, {5, 1, 3}, {31, 1, 63}, {x, 0, 1}}) {
      EXPECT_EQ(shuffled.inside(0, 0, t, h, d), e * (h * width * rows + d / x * rows * x + t * x + d % x));
      EXPECT_EQ(shuffled.inside(1, 0, t, h, d), e * (h * width * rows + t / x * width * x + d * x + t % x));
    }
  }
}

TEST(Codec, HostKernels) {
  const int64_t rows = 32;
  const int64_t width = 48;
  const View column(laid_out("BJKHTD", sides(QUIRE_CODEC_COLUMN_K, rows, 3, width, kFloat32), 2));
  EXPECT_EQ(column.inside(0, 0, 5, 2, 3), 4 * (2 * rows * width + 3 * rows + 5));
  EXPECT_EQ(column.inside(1, 0, 5, 2, 3), 4 * (2 * rows * width + 5 * width + 3));
  const View amx(laid_out("BJKHTD", sides(QUIRE_CODEC_AMX, rows, 3, width, kBFloat16), 2));
  for (const auto& [t, d] : {std::array<int64_t, 2>{0, 0}, {5, 3}, {17, 40}, {31, 47}}) {
    EXPECT_EQ(amx.inside(0, 0, t, 1, d), 2 * (rows * width + t / 16 * 16 * width + d / 2 * 32 + t % 16 * 2 + d % 2));
    EXPECT_EQ(amx.inside(1, 0, t, 1, d), 2 * (rows * width + d / 16 * 16 * rows + t / 2 * 32 + d % 16 * 2 + t % 2));
  }
}

// 512 fp8, 4 fp32 scales, 64 bf16: 656 bytes, one behind the other.
TEST(Codec, LatentRecords) {
  const PoolLayout layout = laid_out("BJT", latent(QUIRE_CODEC_RECORD, 64, 512, 16, 128, 0), 3, 2);
  const View view(layout);
  ASSERT_EQ(view.fields.size(), 3u);
  EXPECT_EQ(layout.page_bytes, 2u * 64 * 656);  // 41,984 a block
  EXPECT_EQ(view.kv.stride_token[0], 656);
  EXPECT_EQ(view.field(0, 1).role, static_cast<uint32_t>(QUIRE_FIELD_SCALES));
  EXPECT_EQ(view.field(0, 1).num_items, 4u);
  EXPECT_EQ(view.inside(0, 0, 3, 0, 511), 3 * 656 + 511);
  EXPECT_EQ(view.inside(0, 1, 3, 0, 2), 3 * 656 + 512 + 2 * 4);
  EXPECT_EQ(view.inside(0, 2, 3, 0, 63), 3 * 656 + 528 + 63 * 2);
}

// All data of a block, then all scales, then padding to 576 bytes.
TEST(Codec, BlocksWithScalesBehind) {
  const PoolLayout states = laid_out("BJ", latent(QUIRE_CODEC_BLOCK_SPLIT, 64, 448, 8, 128, 576), 2);
  EXPECT_EQ(states.page_bytes, 37440u);  // 37,376 of payload
  const View view(states);
  EXPECT_EQ(view.inside(0, 0, 9, 0, 447), 9 * 576 + 447);
  EXPECT_EQ(view.inside(0, 1, 9, 0, 7), 64 * 576 + 9 * 8 + 7);
  EXPECT_EQ(view.inside(0, 2, 9, 0, 1), 9 * 576 + 448 + 2);
  std::vector<quire_segment> runs;
  append_segments(states.groups[0].members[0], states.groups[0].lowering, 7, 1, &runs);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].bytes, 37376u);
  EXPECT_EQ(runs[0].offset, 37440u);

  const PoolLayout keys = laid_out("BJ", latent(QUIRE_CODEC_BLOCK_SPLIT, 64, 128, 4, 0, 0), 2);
  EXPECT_EQ(keys.page_bytes, 8448u);
  EXPECT_EQ(View(keys).inside(0, 0, 5, 0, 17), 5 * 128 + 17);
  EXPECT_EQ(View(keys).inside(0, 1, 5, 0, 0), 64 * 128 + 4 * 5);
  EXPECT_EQ(laid_out("BJ", latent(QUIRE_CODEC_BLOCK_SPLIT, 64, 128, 4, 0, 576), 2).page_bytes, 8640u);
}

// Four-bit elements with a byte of scale for 16 of them, behind the data of each side, in either order of heads and rows.
TEST(Codec, FourBitSides) {
  MemberShape member = sides(QUIRE_CODEC_BLOCK_SPLIT, 16, 8, 128, kBFloat16);
  for (uint32_t side = 0; side < 2; ++side) {
    member.codec_params.data_bytes[side] = 64;
    member.codec_params.scale_bytes[side] = 8;
  }
  member.codec_params.data_dtype = kFloat4;
  member.codec_params.scale_dtype = kFloat8;
  const PoolLayout rows_outer = laid_out("BJKTHD", member, 2);
  EXPECT_EQ(rows_outer.page_bytes, 18432u);
  const View view(rows_outer);
  EXPECT_EQ(view.field(0).dtype.lanes, 2);
  EXPECT_EQ(view.field(0).num_items, 64u);
  EXPECT_EQ(view.kv.offset[1], 9216);
  EXPECT_EQ(view.inside(1, 0, 5, 3, 9), 5 * 8 * 64 + 3 * 64 + 9);
  EXPECT_EQ(view.inside(1, 1, 5, 3, 7), 16 * 8 * 64 + 5 * 8 * 8 + 3 * 8 + 7);
  const View heads_outer(laid_out("BJKHTD", member, 2));
  EXPECT_EQ(heads_outer.inside(0, 0, 5, 3, 9), 3 * 16 * 64 + 5 * 64 + 9);
  EXPECT_EQ(heads_outer.inside(0, 1, 5, 3, 7), 16 * 8 * 64 + 3 * 16 * 8 + 5 * 8 + 7);
}

// Data and a scale of its own for every row and head: 2 * 16 * 2 * (128 + 4) bytes.
TEST(Codec, InlineScales) {
  MemberShape member = sides(QUIRE_CODEC_RECORD, 16, 2, 128, kBFloat16);
  for (uint32_t side = 0; side < 2; ++side) {
    member.codec_params.data_bytes[side] = 128;
    member.codec_params.scale_bytes[side] = 4;
  }
  member.codec_params.data_dtype = kFloat8;
  member.codec_params.scale_dtype = kFloat32;
  const PoolLayout layout = laid_out("BJKTHD", member, 2);
  EXPECT_EQ(layout.page_bytes, 8448u);
  EXPECT_EQ(View(layout).inside(1, 1, 5, 1, 0), (5 * 2 + 1) * 132 + 128);
  EXPECT_EQ(alignment_of(member), 4u);
  EXPECT_EQ(payload_bytes(member, 3), 3u * 8448);
}

TEST(Codec, RefusalsNameTheLayer) {
  PoolShape pool;
  pool.groups.push_back({*Order::parse("BKHTD"), 1, 1, {sides(QUIRE_CODEC_AMX, 24, 2, 64, kBFloat16)}});
  auto refused = lay_out(pool);
  EXPECT_EQ(refused.status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(refused.status().message().find("layer 7: kernel blocks of 24 rows"), std::string::npos) << refused.status().message();
  MemberShape padded = latent(QUIRE_CODEC_RECORD, 16, 512, 16, 128, 1024);
  pool.groups[0] = {*Order::parse("BTP"), 1, 1, {padded}};
  refused = lay_out(pool);
  EXPECT_EQ(refused.status().code(), QUIRE_NOT_REPRESENTABLE);
  EXPECT_NE(refused.status().message().find("blocks of layer 7 are aligned to 1024 bytes, so T"), std::string::npos)
      << refused.status().message();
  pool.groups[0].order = *Order::parse("BPT");
  EXPECT_EQ(lay_out(pool).value().page_bytes, 11264u);  // 16 * 656 = 10,496
}

// Whatever codec, order and shape: the items of all rows, heads and fields lie side by side, inside the payload, each byte once.
TEST(Codec, FieldsTileTheSegments) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&random](uint32_t low, uint32_t high) { return low + random() % (high - low + 1); };
  for (int round = 0; round < 60; ++round) {
    const uint32_t codec = pick(QUIRE_CODEC_STRIDED, QUIRE_CODEC_AMX);
    MemberShape member = sides(codec, 16 * pick(1, 2), pick(1, 3), 16 * pick(1, 3), pick(0, 1) == 0 ? kBFloat16 : kByte);
    member.width[1] = 16 * pick(1, 3);
    if (codec == QUIRE_CODEC_RECORD || codec == QUIRE_CODEC_BLOCK_SPLIT) {
      for (uint32_t side = 0; side < 2; ++side) {
        member.codec_params.data_bytes[side] = member.width[side] / 2;
        member.codec_params.scale_bytes[side] = 4 * pick(0, 2);
        member.codec_params.tail_bytes[side] = 2 * pick(0, 3);
      }
      member.codec_params.data_dtype = kFloat4;
      member.codec_params.scale_dtype = kFloat32;
      member.codec_params.tail_dtype = kBFloat16;
    }
    if (codec == QUIRE_CODEC_BLOCK_SPLIT) member.codec_params.block_alignment = 64 * pick(0, 2);
    const char* orders[] = {"BJKTHD", "BJKHTD", "BKJTHD", "BJTHKD", "BHJKTD", "BJHKTD"};
    const char* order = orders[pick(0, 5)];
    PoolShape pool;
    pool.num_pages = 2;
    pool.groups.push_back({*Order::parse(order), 2, 1, {member}});
    const auto layout = lay_out(pool);
    if (!layout.ok()) {
      ASSERT_EQ(layout.status().code(), QUIRE_NOT_REPRESENTABLE) << layout.status().message();
      continue;
    }
    SCOPED_TRACE(std::string(order) + " codec " + std::to_string(codec) + " round " + std::to_string(round));
    const GroupLayout& group = layout.value().groups[0];
    std::vector<quire_segment> runs;
    append_segments(group.members[0], group.lowering, 7, 1, &runs);
    std::vector<uint8_t> bytes(layout.value().regions[0].bytes, 0);
    uint64_t payload = 0;
    for (const quire_segment& run : runs) {
      payload += run.bytes;
      for (uint64_t i = run.offset; i < run.offset + run.bytes; ++i) ASSERT_EQ(bytes[i]++, 0);
    }
    ASSERT_EQ(payload, payload_bytes(member, 2));
    const quire_kv_view& kv = group.members[0].kv;
    for (const quire_kv_field& field : fields_of(kv)) {
      const uint64_t item = uint64_t{field.dtype.bits} * field.dtype.lanes / 8;
      for (int64_t j = 0; j < 2; ++j) {
        for (int64_t t = 0; t < kv.block_tokens; ++t) {
          for (int64_t h = 0; h < kv.num_heads; ++h) {
            for (int64_t i = 0; i < field.num_items; ++i) {
              const int64_t at = item_offset(field, t, h, i) + kv.stride_page[field.side] + j * kv.stride_block[field.side];
              for (uint64_t k = 0; k < item; ++k) ASSERT_EQ(bytes[static_cast<uint64_t>(at) + k]++, 1) << at;
            }
          }
        }
      }
    }
    ASSERT_EQ(std::count(bytes.begin(), bytes.end(), 1), 0);  // no payload byte without an item
  }
}

}  // namespace
}  // namespace quire
