// Attention against the oracle: every feature, every format, every awkward length.
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/open_driver.h"
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/conformance/with_batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace quire::conformance {
namespace {

void run(AttentionCase* c, bool single = false) {
  c->reset();
  quire_error err = fresh_error();
  quire_driver_stream* stream = single ? driver().single_stream : driver().stream;
  ASSERT_EQ(driver().api->attention(stream, &c->op, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(stream, -1, &err), QUIRE_OK) << err.message;
}

void expect_close(const AttentionCase& c, const char* what) {
  const oracle::Attention want = oracle::attention(c.op);
  const Errors bound = bounds(c.shape);
  const Errors e = row_errors(c.out(), want.out, c.shape.dim_v);
  note_errors(c.shape, e, std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ", " + what);
  EXPECT_LE(e.mean, bound.mean) << what;
  EXPECT_LE(e.worst, bound.worst) << what;
  const std::vector<double> lse = c.lse();
  for (size_t i = 0; i < lse.size(); ++i) {
    if (std::isinf(want.lse[i])) {
      EXPECT_EQ(lse[i], want.lse[i]) << what << ", row " << i;
    } else {
      EXPECT_NEAR(lse[i], want.lse[i], 2e-5 * std::max(1.0, std::fabs(want.lse[i]))) << what << ", row " << i;
    }
  }
  EXPECT_TRUE(c.padding_untouched()) << what;
}

Shape mixed_batch(uint32_t block) {
  Shape s;
  s.block = block;
  const auto b = static_cast<int32_t>(block);
  // An empty row, one token, around a page, a chunk of a prefill, a whole prefill, no queries, rows behind a step's in a captured graph.
  s.rows = {{1, 0}, {1, 1}, {1, b - 1 > 0 ? b - 1 : 1}, {1, b}, {1, b + 1}, {5, 37}, {23, 23}, {0, 19}, {70, 200}, {3, 301},
            {0, 0}, {0, 0}};
  return s;
}

TEST(Attention, MixedLengthsEveryPageSize) {
  QUIRE_NEEDS(attention);
  for (uint32_t block : {1u, 2u, 3u, 5u, 16u, 17u, 32u, 48u, 64u, 128u, 528u, 544u}) {
    AttentionCase c(mixed_batch(block), {});
    run(&c);
    expect_close(c, ("block " + std::to_string(block)).c_str());
  }
}

TEST(Attention, FormatsOfCacheQueryAndOutput) {
  QUIRE_NEEDS(attention);
  for (quire_dtype cache : {kF32, kF16, kBf16, kE4m3, kE5m2, kI8}) {
    for (quire_dtype query : {kF32, kF16, kBf16}) {
      Shape s = mixed_batch(16);
      s.cache = cache;
      s.query = query;
      s.out = query;
      AttentionCase c(s, {});
      if (cache.bits == 8) c.op.scale_k = 0.025f, c.op.scale_v = 0.031f;
      run(&c);
      expect_close(c, ("cache code " + std::to_string(cache.code) + " bits " + std::to_string(cache.bits)).c_str());
    }
  }
}

TEST(Attention, HeadShapes) {
  QUIRE_NEEDS(attention);
  const uint32_t shapes[][4] = {{4, 4, 64, 64},    {8, 2, 128, 128}, {5, 1, 80, 80},   {6, 2, 40, 72},   {8, 1, 192, 128}, {32, 4, 32, 32},
                                {16, 2, 256, 256}, {7, 1, 33, 17},   {150, 1, 24, 24}, {40, 20, 64, 64}, {1, 1, 8, 512}};
  for (const auto& h : shapes) {
    Shape s = mixed_batch(16);
    s.q_heads = h[0];
    s.kv_heads = h[1];
    s.dim_k = h[2];
    s.dim_v = h[3];
    AttentionCase c(s, {"BTHD", 0, 0, false, 0, "BHTD"});
    run(&c);
    expect_close(
        c, ("heads " + std::to_string(h[0]) + "/" + std::to_string(h[1]) + " dims " + std::to_string(h[2]) + "/" + std::to_string(h[3]))
               .c_str());
  }
}

TEST(Attention, OneSidedLatent) {
  QUIRE_NEEDS(attention);
  Shape s = mixed_batch(16);
  s.q_heads = 16;
  s.kv_heads = 1;
  s.dim_k = 576;
  s.dim_v = 512;
  s.sides = 1;
  AttentionCase c(s, {});
  c.op.scale = 0.07f;
  run(&c);
  expect_close(c, "one side, 576/512");
}

// What a decode step has: one query, many heads to a KV head, whole and broken tiles of them.
TEST(Attention, ManyHeadsOfOneQuery) {
  QUIRE_NEEDS(attention);
  for (const uint32_t heads : {8u, 24u, 64u, 128u}) {
    Shape s;
    s.rows = {{1, 70}, {1, 33}, {2, 129}};
    s.q_heads = heads;
    s.kv_heads = heads == 128 ? 1 : 2;
    s.dim_k = heads == 128 ? 576 : 96;
    s.dim_v = heads == 128 ? 512 : 96;
    s.sides = heads == 128 ? 1 : 2;
    Array<float> slopes(heads), sinks(heads);
    for (uint32_t h = 0; h < heads; ++h) slopes[h] = 0.5f / static_cast<float>(h + 1), sinks[h] = 0.1f * static_cast<float>(h % 7);
    AttentionCase c(s, {"BTHKD", 0, 0, false, 0});
    c.op.scale = 0.07f;
    run(&c);
    expect_close(c, (std::to_string(heads) + " heads").c_str());
    c.op.window = 40, c.op.sink_tokens = 2, c.op.softcap = 6.0f, c.op.alibi_slopes = slopes.data(), c.op.sink_logits = sinks.data();
    run(&c);
    expect_close(c, (std::to_string(heads) + " heads, features together").c_str());
  }
}

// Heads of few values in a cache of 8 bits: rows of one key are shorter than what kernels widen at a time.
TEST(Attention, NarrowHeadsOfNarrowCaches) {
  QUIRE_NEEDS(attention);
  for (const quire_dtype cache : {kE4m3, kE5m2, kI8}) {
    for (const uint32_t values : {8u, 16u, 17u, 32u, 33u, 64u, 80u}) {
      for (const uint32_t heads : {1u, 4u, 8u, 16u, 17u}) {
        Shape s;
        s.rows = {{1, 43}, {1, 44}, {1, 64}, {1, 200}, {2, 129}, {9, 70}};
        s.q_heads = heads;
        s.kv_heads = 1;
        s.dim_k = 32;
        s.dim_v = values;
        s.cache = cache;
        s.query = s.out = kBf16;
        AttentionCase c(s, {});
        c.op.scale_k = 0.025f, c.op.scale_v = 0.031f;
        run(&c);
        expect_close(
            c, (std::to_string(heads) + " heads of " + std::to_string(values) + " values, code " + std::to_string(cache.code)).c_str());
      }
    }
  }
}

// One feature at a time and all together.
TEST(Attention, Features) {
  QUIRE_NEEDS(attention);
  const Array<float> sinks = {0.5f, -1.0f, 3.0f, 0.0f};
  const Array<float> slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
  struct Feature {
    const char* name;
    std::function<void(WithBatch<quire_attention>*)> set;
  };
  const Feature features[] = {
      {"window 1", [](WithBatch<quire_attention>* op) { op->window = 1; }},
      {"window 20", [](WithBatch<quire_attention>* op) { op->window = 20; }},
      {"window 64 with 4 sink tokens", [](WithBatch<quire_attention>* op) { op->window = 64, op->sink_tokens = 4; }},
      {"window 33 with 100 sink tokens", [](WithBatch<quire_attention>* op) { op->window = 33, op->sink_tokens = 100; }},
      {"chunk 16", [](WithBatch<quire_attention>* op) { op->chunk = 16; }},
      {"chunk 100", [](WithBatch<quire_attention>* op) { op->chunk = 100; }},
      {"softcap", [](WithBatch<quire_attention>* op) { op->softcap = 2.5f; }},
      {"sink logits", [&](WithBatch<quire_attention>* op) { op->sink_logits = sinks.data(); }},
      {"alibi", [&](WithBatch<quire_attention>* op) { op->alibi_slopes = slopes.data(); }},
      {"not causal", [](WithBatch<quire_attention>* op) { op->flags = 0; }},
      {"scale", [](WithBatch<quire_attention>* op) { op->scale = 0.4f; }},
      {"batch invariant", [](WithBatch<quire_attention>* op) { op->flags |= QUIRE_ATTENTION_BATCH_INVARIANT; }},
      {"together",
       [&](WithBatch<quire_attention>* op) {
         op->window = 50, op->sink_tokens = 3, op->softcap = 8.0f, op->sink_logits = sinks.data(), op->alibi_slopes = slopes.data();
       }},
  };
  for (const char* order : {"BKTHD", "BKHTD"}) {
    for (const Feature& f : features) {
      AttentionCase c(mixed_batch(16), {order, 0, 0, false, 0});
      f.set(&c.op);
      run(&c);
      expect_close(c, f.name);
    }
  }
}

TEST(Attention, TreeMask) {
  QUIRE_NEEDS(attention);
  Shape s;
  s.rows = {{6, 90}, {1, 5}, {17, 140}};
  AttentionCase c(s, {});
  Array<int64_t> first = {3};  // bits before the first row are nobody's
  for (const Row& r : s.rows) first.push_back(first.back() + int64_t{r.queries} * r.length);
  Array<uint8_t> bits(static_cast<size_t>(first.back() / 8 + 1), 0);
  for (int64_t b = first.front(); b < first.back(); ++b) {
    if (mixed(11, static_cast<uint64_t>(b)) % 3 != 0) bits[static_cast<size_t>(b / 8)] |= static_cast<uint8_t>(1 << (b % 8));
  }
  c.op.mask_bits = bits.data();
  c.op.mask_indptr = first.data();
  run(&c);
  expect_close(c, "random mask and causal");
  c.op.flags = 0;
  run(&c);
  expect_close(c, "random mask alone");
}

TEST(Attention, LargeLogits) {
  QUIRE_NEEDS(attention);
  Shape s = mixed_batch(16);
  s.spread = 60.0;
  s.out = kF32;
  AttentionCase c(s, {});
  run(&c);
  const oracle::Attention want = oracle::attention(c.op);
  const Errors e = row_errors(c.out(), want.out, s.dim_v);
  EXPECT_LE(e.worst, 2e-3);  // logits of +-200 carry fp32 errors of 2e-5 into the exponent, and near ties amplify them
}

std::string named(const Shape& s, const char* order) {
  return std::string(s.cache.bits == 8 ? "fp8" : "bf16") + " cache, " + std::to_string(s.q_heads) + "/" + std::to_string(s.kv_heads) +
         " heads of " + std::to_string(s.dim_k) + "/" + std::to_string(s.dim_v) + ", " + std::to_string(s.rows[0].queries) +
         " queries of the first row, " + order + ", pages of " + std::to_string(s.block) + ", seed " + std::to_string(s.seed);
}

// Logits of up to +-90, whose maxima are outgrown block after block, or stand in the first one with all weights behind far below.
TEST(Attention, MaximaThatRiseAndFall) {
  QUIRE_NEEDS(attention);
  const Array<float> slopes(66, 0.05f);
  for (const quire_dtype cache : {kBf16, kE4m3}) {
    for (const uint32_t group : {1u, 7u, 8u, 33u}) {
      Shape s;
      s.rows = {{1, 449}, {2, 330}, {37, 257}};
      if (group == 33) s.rows = {{1, 449}, {3, 257}};
      s.q_heads = 2 * group;
      s.dim_k = s.dim_v = 40;
      s.cache = cache;
      s.seed = 20 + group;
      s.climb = 25.0;
      AttentionCase c(s, {});
      const std::string name = named(s, "BKTHD");
      run(&c);
      expect_close(c, name.c_str());
      c.op.scale = -0.17f;
      run(&c);
      expect_close(c, (name + ", negative scale").c_str());
      c.op.window = 100;
      run(&c);
      expect_close(c, (name + ", negative scale and window").c_str());
      c.op.softcap = 50.0f, c.op.alibi_slopes = slopes.data();
      run(&c);
      expect_close(c, (name + ", negative scale, window, softcap and alibi").c_str());
    }
  }
}

// Logits in the thousands: whoever overlooks the one key that counts, wherever it lies in its block, gets infinite weights.
TEST(Attention, OneKeyFarAboveTheOthers) {
  QUIRE_NEEDS(attention);
  for (const quire_dtype cache : {kBf16, kE4m3}) {
    for (const uint32_t group : {1u, 7u, 8u, 33u}) {
      Shape s;
      s.rows = {{1, 64}, {1, 200}, {3, 131}};
      s.q_heads = 2 * group;
      s.dim_k = s.dim_v = 40;
      s.cache = cache;
      s.seed = 40 + group;
      s.spread = 600.0;
      AttentionCase c(s, {});
      run(&c);
      expect_close(c, named(s, "BKTHD").c_str());
      c.op.window = 60;
      run(&c);
      expect_close(c, (named(s, "BKTHD") + ", window").c_str());
    }
  }
}

// Every way to cut query rows into runs of 8, 4, 2 and 1, or tiles of 16, with keys that end anywhere in a block and heads in a vector.
TEST(Attention, EveryCountOfRowsPerHead) {
  QUIRE_NEEDS(attention);
  const int32_t lengths[] = {1, 15, 16, 17, 63, 64, 65, 129};
  const uint32_t dims[] = {80, 72, 100};
  const uint32_t pages[] = {1, 3, 16, 528};
  const Layout layouts[] = {{"BKTHD"}, {"BKHTD"}, {"BTHD", 0, 0, false, 0, "BHTD"}, {"BTHKD", 0, 6, true, 2}};
  for (uint32_t count = 1; count <= 33; ++count) {
    for (const bool heads : {true, false}) {  // else of queries
      const uint32_t turn = 2 * count + (heads ? 0 : 1);
      Shape s;
      for (uint32_t i = 0; i < 4; ++i) {
        const int32_t length = lengths[(turn * 3 + i * 3) % 8];
        s.rows.push_back({heads ? 1 : static_cast<int32_t>(count), heads ? length : length + static_cast<int32_t>(count) - 1});
      }
      s.q_heads = heads ? 2 * count : 2;
      s.dim_k = dims[turn % 3];
      s.dim_v = dims[turn / 3 % 3];
      s.block = pages[turn / 4 % 4];
      s.cache = count / 2 % 3 == 1 ? kE4m3 : kBf16;
      s.seed = 100 + turn;
      const Layout& layout = layouts[(turn + turn / 16) % 4];
      AttentionCase c(s, layout);
      if (count % 2 == 0) c.op.scale = -0.2f;
      run(&c);
      expect_close(c, named(s, layout.order.c_str()).c_str());
    }
  }
}

// Pages in front of a window are gone, those of its first keys hold what nobody may read.
TEST(Attention, HolesBeforeAWindow) {
  QUIRE_NEEDS(attention);
  uint32_t turn = 0;
  for (const uint32_t page : {1u, 3u, 16u, 528u}) {
    for (const char* order : {"BKHTD", "BKTHD"}) {
      Shape s;
      s.rows = {{1, 129}, {1, 583}, {9, 130}};
      s.q_heads = 2 * (turn % 4 == 0 ? 1 : turn % 4 == 1 ? 7 : turn % 4 == 2 ? 17 : 32);
      s.dim_k = 36;
      s.dim_v = 72;
      s.block = page;
      s.cache = turn % 3 == 1 ? kE4m3 : kBf16;
      s.seed = 200 + turn++;
      s.climb = 25.0;
      AttentionCase c(s, {order});
      c.op.window = 40;
      c.op.sink_tokens = turn % 2 == 0 ? 0 : 5;
      for (uint32_t r = 0; r < s.rows.size(); ++r) {
        c.poison(r, static_cast<int32_t>(c.op.sink_tokens), s.rows[r].length - s.rows[r].queries - 39);
      }
      run(&c);
      expect_close(c, named(s, order).c_str());
    }
  }
}

void make_key_nan(AttentionCase* c, uint32_t row, int32_t position) {
  const quire_paged_side& side = c->op.kv.side[0];
  const auto block = static_cast<int32_t>(c->op.kv.block_tokens);
  const int64_t id = c->op.arrays.table[row * c->op.arrays.table_pitch + static_cast<uint64_t>(position / block)];
  char* p = static_cast<char*>(side.base) + id * side.unit + position % block * side.stride_token;
  for (uint32_t h = 0; h < c->shape.kv_heads; ++h) {
    for (uint32_t d = 0; d < c->shape.dim_k; ++d) oracle::encode(c->shape.cache, p + h * side.stride_head + d * side.stride_dim, NAN);
  }
}

// A key that is NaN is no key that counts nothing: whoever sees it gets NaN, in the result and in the LSE, whole and in parts, and nobody
// else. So it is with a query, of which every part is NaN.
TEST(Attention, NaNThatIsSeenReachesTheResult) {
  QUIRE_NEEDS(attention);
  for (const quire_dtype cache : {kBf16, kE4m3, kF32, kF16}) {
    for (const uint32_t group : {1u, 8u, 33u}) {
      for (const int32_t position : {0, 3, 1000, 2048, -1}) {  // -1: the query
        Shape s;
        s.rows = {{1, 2100}, {1, 70}, {5, 300}};
        s.q_heads = 2 * group;
        s.cache = cache;
        AttentionCase c(s, {});
        if (position >= 0) make_key_nan(&c, 0, position);
        for (int64_t h = 0; h < int64_t{s.q_heads} && position < 0; ++h) {
          for (int64_t d = 0; d < int64_t{s.dim_k}; ++d) {
            oracle::encode(s.query, static_cast<char*>(c.op.query.data) + h * c.op.query.stride[1] + d * c.op.query.stride[2], NAN);
          }
        }
        run(&c);
        const std::vector<double> out = c.out();
        const std::vector<double> lse = c.lse();
        for (uint64_t r = 0; r < lse.size(); ++r) {
          const std::string what = named(s, "BKTHD") + ", NaN at " + std::to_string(position) + ", row " + std::to_string(r);
          EXPECT_EQ(std::isnan(lse[r]), r < s.q_heads) << what;
          for (uint64_t d = 0; d < s.dim_v; ++d) ASSERT_EQ(std::isnan(out[r * s.dim_v + d]), r < s.q_heads) << what;
        }
      }
    }
  }
}

void plan_and_run(AttentionCase* c, quire_driver_device* device, bool single) {
  uint64_t plan_bytes = 0;
  uint64_t workspace_bytes = 0;
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->attention_workspace(device, c->op.arrays.num_rows, static_cast<uint64_t>(c->total_queries()), 2048,
                                              c->shape.q_heads, c->shape.dim_v, &plan_bytes, &workspace_bytes, &err),
            QUIRE_OK)
      << err.message;
  Array<uint64_t> plan(plan_bytes / 8 + 1);
  Array<float> workspace(workspace_bytes / 4 + 1, NAN);
  ASSERT_EQ(driver().api->attention_plan(device, &c->op, plan.data(), plan_bytes, &err), QUIRE_OK) << err.message;
  c->op.plan = plan.data();
  c->op.plan_bytes = plan_bytes;
  c->op.workspace = workspace.data();
  c->op.workspace_bytes = workspace_bytes;
  run(c, single);
  expect_close(*c, named(c->shape, "BKTHD").c_str());
}

// A device of few threads has few shares, and steps have more KV heads than that: whether a tile is split is what counts.
TEST(Attention, PlansOnFewThreads) {
  QUIRE_NEEDS(attention_plan);
  const std::vector<std::vector<Row>> steps = {{{32, 32}}, {{1, 512}}, {{65, 128}, {1, 2048}}, {{9, 900}, {1, 700}, {1, 1}, {0, 5}}};
  for (const std::vector<Row>& rows : steps) {
    for (const bool single : {true, false}) {
      Shape s;
      s.rows = rows;
      s.kv_heads = 40;
      s.q_heads = 80;
      s.dim_k = s.dim_v = 16;
      AttentionCase c(s, {});
      plan_and_run(&c, single ? driver().single_device : driver().device, single);
    }
  }
}

// Pieces begin at multiples of 64 keys, so that equal rows with a little less than a share each may all be split.
TEST(Attention, PlansOfEqualRowsWithAWindow) {
  QUIRE_NEEDS(attention_plan);
  for (const uint32_t rows : {9u, 17u, 65u}) {
    Shape s;
    s.rows.assign(rows, {1, 321});
    s.dim_k = s.dim_v = 16;
    AttentionCase c(s, {});
    c.op.window = 258;
    plan_and_run(&c, driver().device, false);
  }
}

}  // namespace
}  // namespace quire::conformance
