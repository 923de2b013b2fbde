// What must hold of attention whatever the arithmetic: layouts, page orders and what lies in unowned bytes change no bit; splits, plans and
// merges agree.
#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/open_driver.h"
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/conformance/with_batch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <thread>

namespace quire::conformance {
namespace {

void run(WithBatch<quire_attention>* op, quire_driver_stream* stream) {
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->attention(stream, op, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(stream, -1, &err), QUIRE_OK) << err.message;
}

void run(AttentionCase* c, bool single = false) {
  c->reset();
  run(&c->op, single ? driver().single_stream : driver().stream);
}

std::vector<Row> rows_of_all_kinds() { return {{1, 0}, {1, 1}, {1, 15}, {1, 16}, {1, 17}, {4, 700}, {40, 77}, {1, 1500}, {9, 9}}; }

Shape base_shape() {
  Shape s;
  s.rows = rows_of_all_kinds();
  return s;
}

const Layout kLayouts[] = {
    {"BKTHD", 0, 0, false, 0}, {"BKHTD", 0, 0, false, 0},         {"KBTHD", 0, 0, false, 0},       {"BTHKD", 0, 0, false, 2},
    {"BHTKD", 0, 0, false, 0}, {"BKTHD", 4098, 6, true, 10},      {"HBKTD", 34, 0, false, 0},      {"BKHTD", 1048576, 2, true, 0},
    {"BKTDH", 0, 0, false, 0}, {"BTHD", 12, 2, false, 4, "HBTD"}, {"BHTD", 0, 0, true, 0, "BTDH"},
};

TEST(Properties, AttentionTakesTheColumnOfItsCache) {
  QUIRE_NEEDS(attention);
  Shape s;
  s.rows = {{1, 20}, {5, 40}, {2, 33}};
  AttentionCase c(s, {});
  c.reset();
  run(&c.op, driver().stream);
  const std::vector<double> right = c.out();
  Array<int32_t> two;
  c.op.take_column_1(&c.op.kv, &c.op.arrays.table, &c.op.arrays.table_column_pitch, c.table.size(), &two, INT32_MAX);
  c.reset();
  run(&c.op, driver().stream);
  EXPECT_EQ(c.out(), right);
}

TEST(Properties, LayoutsGiveTheSameBits) {
  QUIRE_NEEDS(attention);
  for (uint32_t flags : {QUIRE_ATTENTION_CAUSAL, QUIRE_ATTENTION_CAUSAL | QUIRE_ATTENTION_BATCH_INVARIANT}) {
    // A plan depends on lengths and head shape alone when it is given; all layouts use the first one's.
    AttentionCase first(base_shape(), kLayouts[1]);
    first.op.flags = flags;
    uint64_t plan_bytes = 0;
    uint64_t workspace_bytes = 0;
    quire_error err = fresh_error();
    ASSERT_EQ(driver().api->attention_workspace(driver().device, first.op.arrays.num_rows, static_cast<uint64_t>(first.total_queries()),
                                                1500, 4, 64, &plan_bytes, &workspace_bytes, &err),
              QUIRE_OK)
        << err.message;
    Array<uint64_t> plan(plan_bytes / 8 + 1);
    Array<float> workspace(workspace_bytes / 4 + 1, NAN);
    ASSERT_EQ(driver().api->attention_plan(driver().device, &first.op, plan.data(), plan_bytes, &err), QUIRE_OK) << err.message;
    auto with_plan = [&](AttentionCase* c) {
      c->op.flags = flags;
      c->op.plan = plan.data();
      c->op.plan_bytes = plan_bytes;
      c->op.workspace = workspace.data();
      c->op.workspace_bytes = workspace_bytes;
      run(c);
    };
    with_plan(&first);
    for (const Layout& layout : kLayouts) {
      Shape s = base_shape();
      s.id_seed = 99;
      AttentionCase c(s, layout);
      with_plan(&c);
      EXPECT_TRUE(first.out() == c.out()) << layout.order;
      EXPECT_TRUE(first.lse() == c.lse()) << layout.order;
    }
  }
}

TEST(Properties, PageOrderGivesTheSameBits) {
  QUIRE_NEEDS(attention);
  for (const Layout& layout : kLayouts) {
    AttentionCase a(base_shape(), layout);
    run(&a);
    Shape s = base_shape();
    s.id_seed = 4242;
    AttentionCase b(s, layout);
    run(&b);
    EXPECT_TRUE(a.out() == b.out() && a.lse() == b.lse()) << layout.order;
  }
}

// Unowned bytes are NaN in every case already; here owned ones become so where no query can see them.
TEST(Properties, PoisonOutsideTheWindow) {
  QUIRE_NEEDS(attention);
  for (uint32_t sinks : {0u, 5u}) {
    for (const char* order : {"BKTHD", "BKHTD"}) {
      Shape s = base_shape();
      AttentionCase clean(s, {order, 0, 0, false, 0});
      AttentionCase dirty(s, {order, 0, 0, false, 0});
      clean.op.window = dirty.op.window = 30;
      clean.op.sink_tokens = dirty.op.sink_tokens = sinks;
      for (uint32_t r = 0; r < s.rows.size(); ++r) {
        const int32_t first_seen = s.rows[r].length - s.rows[r].queries - 29;
        dirty.poison(r, static_cast<int32_t>(sinks), std::max(static_cast<int32_t>(sinks), first_seen));
      }
      run(&clean);
      run(&dirty);
      EXPECT_TRUE(clean.out() == dirty.out() && clean.lse() == dirty.lse()) << order << " sinks " << sinks;
      for (double v : dirty.out()) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

TEST(Properties, InputsAreNotWritten) {
  QUIRE_NEEDS(attention);
  AttentionCase c(base_shape(), {});
  const Array<uint8_t> pool = c.pool;
  run(&c);
  EXPECT_TRUE(pool == c.pool);
  EXPECT_TRUE(c.padding_untouched());
}

TEST(Properties, SplitsAndThreadsAgree) {
  QUIRE_NEEDS(attention);
  Shape s = base_shape();
  s.rows = {{1, 9000}, {2, 300}, {1, 5000}};
  s.out = kF32;
  AttentionCase c(s, {});
  run(&c);
  const std::vector<double> many = c.out();
  const std::vector<double> many_lse = c.lse();
  run(&c);
  EXPECT_TRUE(many == c.out()) << "two runs differ";
  run(&c, true);
  const Errors e = row_errors(many, c.out(), s.dim_v);
  EXPECT_LE(e.worst, 1e-5);
  for (size_t i = 0; i < many_lse.size(); ++i) EXPECT_NEAR(many_lse[i], c.lse()[i], 1e-5);
  c.op.flags |= QUIRE_ATTENTION_BATCH_INVARIANT;
  run(&c);
  EXPECT_LE(row_errors(many, c.out(), s.dim_v).worst, 1e-5);
}

TEST(Properties, BatchInvariantRowsStandAlone) {
  QUIRE_NEEDS(attention);
  AttentionCase all(base_shape(), {});
  all.op.flags |= QUIRE_ATTENTION_BATCH_INVARIANT;
  run(&all);
  const std::vector<double> together = all.out();
  const size_t width = size_t{all.shape.q_heads} * all.shape.dim_v;
  for (uint32_t r = 0; r < all.op.arrays.num_rows; ++r) {
    AttentionCase one(base_shape(), {});
    one.op.flags |= QUIRE_ATTENTION_BATCH_INVARIANT;
    one.op.arrays.query_indptr = one.indptr.data() + r;
    one.op.arrays.kv_len = one.lengths.data() + r;
    one.op.arrays.table = one.table.data() + r * one.op.arrays.table_pitch;
    one.op.arrays.num_rows = 1;
    run(&one, (r & 1) != 0);
    const std::vector<double> alone = one.out();
    for (size_t i = static_cast<size_t>(one.indptr[r]) * width; i < static_cast<size_t>(one.indptr[r + 1]) * width; ++i) {
      ASSERT_EQ(together[i], alone[i]) << "row " << r;
    }
  }
}

// Attention over a prefix merged with attention over the rest is attention over all.
TEST(Properties, MergeOfPartsIsTheWhole) {
  QUIRE_NEEDS(attention);
  QUIRE_NEEDS(attention_merge);
  Shape s;
  s.rows = {{3, 200}, {1, 48}};
  s.out = kF32;
  AttentionCase whole(s, {});
  whole.op.flags = 0;
  run(&whole);
  AttentionCase head(s, {});
  AttentionCase tail(s, {});
  head.op.flags = tail.op.flags = 0;
  head.lengths = {112, 48};  // the second row has no second part
  tail.lengths = {88, 0};
  head.op.arrays.kv_len = head.lengths.data();
  tail.op.arrays.kv_len = tail.lengths.data();
  tail.op.arrays.table += 112 / s.block;
  run(&head);
  run(&tail);
  Array<uint8_t> bytes;
  Array<uint8_t> lse_bytes;
  quire_attention_merge merge{};
  const quire_tensor outs[] = {head.op.out, tail.op.out};
  const quire_tensor lses[] = {head.op.lse, tail.op.lse};
  merge.struct_size = sizeof merge;
  merge.num_parts = 2;
  merge.partial_out = outs;
  merge.partial_lse = lses;
  merge.out = make_tensor(&bytes, kF32, {whole.total_queries(), s.q_heads, s.dim_v}, 8);
  merge.lse = make_tensor(&lse_bytes, kF32, {whole.total_queries(), s.q_heads}, 0);
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->attention_merge(driver().stream, &merge, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
  std::vector<double> merged;
  for (int64_t t = 0; t < whole.total_queries(); ++t) {
    for (int64_t h = 0; h < s.q_heads; ++h) {
      EXPECT_NEAR(oracle::element(merge.lse, t, h, 0), oracle::element(whole.op.lse, t, h, 0), 1e-5);
      for (int64_t d = 0; d < s.dim_v; ++d) merged.push_back(oracle::element(merge.out, t, h, d));
    }
  }
  EXPECT_LE(row_errors(merged, whole.out(), s.dim_v).worst, 1e-5);
}

TEST(Properties, MergeOfEmptyParts) {
  QUIRE_NEEDS(attention_merge);
  Array<uint8_t> a, b, la, lb, out, lse;
  const quire_tensor outs[] = {make_tensor(&a, kBf16, {2, 2, 24}, 0), make_tensor(&b, kBf16, {2, 2, 24}, 0)};
  const quire_tensor lses[] = {make_tensor(&la, kF32, {2, 2}, 0), make_tensor(&lb, kF32, {2, 2}, 0)};
  fill_normal(outs[1], 3);
  for (int64_t i = 0; i < 4; ++i) {
    oracle::encode(kF32, la.data() + 4 * i, -HUGE_VAL);  // its values are NaN and must not matter
    oracle::encode(kF32, lb.data() + 4 * i, i < 2 ? 0.75 : -HUGE_VAL);
  }
  quire_attention_merge merge{};
  merge.struct_size = sizeof merge;
  merge.num_parts = 2;
  merge.partial_out = outs;
  merge.partial_lse = lses;
  merge.out = make_tensor(&out, kBf16, {2, 2, 24}, 0);
  merge.lse = make_tensor(&lse, kF32, {2, 2}, 0);
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->attention_merge(driver().stream, &merge, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
  for (int64_t h = 0; h < 2; ++h) {
    EXPECT_NEAR(oracle::element(merge.lse, 0, h, 0), 0.75, 1e-6);
    EXPECT_EQ(oracle::element(merge.lse, 1, h, 0), -INFINITY);
    for (int64_t d = 0; d < 24; ++d) {
      EXPECT_EQ(oracle::element(merge.out, 0, h, d), oracle::element(outs[1], 0, h, d));
      EXPECT_EQ(oracle::element(merge.out, 1, h, d), 0.0);
    }
  }
}

// One part that is NaN, and all of them.
TEST(Properties, MergeOfPartsThatAreNaN) {
  QUIRE_NEEDS(attention_merge);
  Array<uint8_t> a, b, la, lb, out, lse;
  const quire_tensor outs[] = {make_tensor(&a, kF32, {2, 2, 24}, 0), make_tensor(&b, kF32, {2, 2, 24}, 0)};
  const quire_tensor lses[] = {make_tensor(&la, kF32, {2, 2}, 0), make_tensor(&lb, kF32, {2, 2}, 0)};
  fill_normal(outs[0], 2);
  fill_normal(outs[1], 3);
  for (int64_t i = 0; i < 4; ++i) {
    oracle::encode(kF32, la.data() + 4 * i, NAN);
    oracle::encode(kF32, lb.data() + 4 * i, i < 2 ? 0.75 : NAN);
  }
  memset(la.data() + 4, 0xff, 4);  // a NaN with other bits
  quire_attention_merge merge{};
  merge.struct_size = sizeof merge;
  merge.num_parts = 2;
  merge.partial_out = outs;
  merge.partial_lse = lses;
  merge.out = make_tensor(&out, kF32, {2, 2, 24}, 0);
  merge.lse = make_tensor(&lse, kF32, {2, 2}, 0);
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->attention_merge(driver().stream, &merge, &err), QUIRE_OK) << err.message;
  ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      EXPECT_TRUE(std::isnan(oracle::element(merge.lse, t, h, 0)));
      for (int64_t d = 0; d < 24; ++d) EXPECT_TRUE(std::isnan(oracle::element(merge.out, t, h, d)));
    }
  }
  merge.lse.stride[1] = 0;
  EXPECT_EQ(driver().api->attention_merge(driver().stream, &merge, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("lse"), std::string::npos) << err.message;
}

TEST(Properties, Identities) {
  QUIRE_NEEDS(attention);
  Shape s = base_shape();
  s.out = kF32;
  AttentionCase plain(s, {});
  run(&plain);
  const std::vector<double> want = plain.out();
  const Array<float> none(4, -INFINITY);
  const Array<float> flat(4, 0.0f);
  struct Identity {
    const char* name;
    void (*set)(WithBatch<quire_attention>*, const float* none, const float* flat);
  };
  const Identity identities[] = {
      {"window as long as the row", [](WithBatch<quire_attention>* op, const float*, const float*) { op->window = 4000; }},
      {"chunk as long as the row", [](WithBatch<quire_attention>* op, const float*, const float*) { op->chunk = 4000; }},
      {"huge softcap", [](WithBatch<quire_attention>* op, const float*, const float*) { op->softcap = 1e5f; }},
      {"sink logit of minus infinity", [](WithBatch<quire_attention>* op, const float* n, const float*) { op->sink_logits = n; }},
      {"flat alibi", [](WithBatch<quire_attention>* op, const float*, const float* f) { op->alibi_slopes = f; }},
  };
  for (const Identity& i : identities) {
    AttentionCase c(s, {});
    i.set(&c.op, none.data(), flat.data());
    run(&c);
    EXPECT_LE(row_errors(c.out(), want, s.dim_v).worst, 2e-4) << i.name;
  }
}

// One KV head shared by four queries is four equal KV heads.
TEST(Properties, GroupsEqualRepeatedHeads) {
  QUIRE_NEEDS(attention);
  Shape s = base_shape();
  s.out = kF32;
  s.q_heads = 4;
  s.kv_heads = 1;
  AttentionCase grouped(s, {});
  run(&grouped);
  AttentionCase repeated(s, {});
  repeated.op.kv.num_heads = 4;
  repeated.op.kv.side[0].stride_head = repeated.op.kv.side[1].stride_head = 0;
  run(&repeated);
  EXPECT_LE(row_errors(grouped.out(), repeated.out(), s.dim_v).worst, 1e-5);
}

// What append writes is what attention sees: token by token equals a cache written elsewhere.
TEST(Properties, AppendThenAttend) {
  QUIRE_NEEDS(attention);
  QUIRE_NEEDS(kv_append);
  Shape s;
  s.rows = {{12, 100}};
  AttentionCase want(s, {});
  run(&want);
  AttentionCase got(s, {});
  Array<uint8_t> key, value;
  const quire_tensor keys = make_tensor(&key, kF32, {100, s.kv_heads, s.dim_k}, 4);
  const quire_tensor values = make_tensor(&value, kF32, {100, s.kv_heads, s.dim_v}, 4);
  Array<int64_t> slots;
  for (int64_t p = 0; p < 100; ++p) {
    const int64_t id = got.table[static_cast<size_t>(p / s.block)];
    slots.push_back(id * s.block + p % s.block);
    for (int64_t h = 0; h < s.kv_heads; ++h) {
      for (int64_t d = 0; d < s.dim_k; ++d) {
        for (uint32_t side = 0; side < 2; ++side) {
          const quire_tensor& t = side == 0 ? keys : values;
          oracle::encode(kF32, static_cast<char*>(t.data) + p * t.stride[0] + h * t.stride[1] + d * t.stride[2],
                         oracle::decode(kBf16, oracle::kv_address(want.op.kv, side, id, p % s.block, h, d)));
        }
      }
    }
  }
  std::fill(got.pool.begin(), got.pool.end(), 0xff);
  WithBatch<quire_kv_append> op{};
  op.kv = got.op.kv;
  op.key = keys;
  op.value = values;
  op.arrays.slots = slots.data();
  quire_error err = fresh_error();
  for (uint64_t done = 0; done < 100;) {
    op.set_tokens(std::min<uint64_t>(done % 7 + 1, 100 - done));
    ASSERT_EQ(driver().api->kv_append(driver().stream, &op, &err), QUIRE_OK) << err.message;
    done += op.arrays.num_slots;
    op.arrays.slots = slots.data() + done;
    op.key.data = static_cast<char*>(keys.data) + static_cast<int64_t>(done) * keys.stride[0];
    op.value.data = static_cast<char*>(values.data) + static_cast<int64_t>(done) * values.stride[0];
  }
  run(&got);
  EXPECT_TRUE(want.pool == got.pool);
  EXPECT_TRUE(want.out() == got.out());
}

// A pool that spans 24 GiB of addresses: ids times unit exceed 2^31 and 2^32, elements exceed 2^32.
TEST(Properties, OffsetsBeyondFourGibibytes) {
  QUIRE_NEEDS(attention);
  QUIRE_NEEDS(kv_append);
  const uint64_t span = uint64_t{24} << 30;
  const bool mapped = shared_type() == QUIRE_DEVICE_CPU;  // nothing but what is touched takes memory then
  void* base = MAP_FAILED;
  quire_error err = fresh_error();
  if (mapped) base = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!mapped && driver().api->mem_alloc(driver().device, span, 256, QUIRE_MEM_DEVICE, &base, &err) != QUIRE_OK) base = MAP_FAILED;
  if (base == MAP_FAILED) GTEST_SKIP() << "this machine refuses 24 GiB of addresses";
  Shape s;
  s.rows = {{1, 100}, {7, 64}};
  AttentionCase want(s, {});
  run(&want);
  AttentionCase got(s, {});
  quire_paged_kv far = want.op.kv;
  far.num_ids = span / (uint64_t{48} << 20);
  for (uint32_t side = 0; side < 2; ++side) {
    far.side[side].unit = int64_t{48} << 20;
    far.side[side].base = static_cast<char*>(base) + (side << 20);
    far.side[side].stride_token = far.side[side].stride_token * 2;
    far.side[side].stride_head = int64_t{20} << 20;
  }
  Array<uint8_t> key, value;
  WithBatch<quire_kv_append> op{};
  op.kv = far;
  for (uint32_t r = 0; r < 2; ++r) {
    const int32_t length = s.rows[r].length;
    op.key = make_tensor(&key, kBf16, {length, s.kv_heads, s.dim_k}, 0);
    op.value = make_tensor(&value, kBf16, {length, s.kv_heads, s.dim_v}, 0);
    Array<int64_t> slots;
    for (int32_t p = 0; p < length; ++p) {
      int32_t& id = got.table[r * got.op.arrays.table_pitch + static_cast<uint64_t>(p) / s.block];
      const int32_t near = want.table[r * want.op.arrays.table_pitch + static_cast<uint64_t>(p) / s.block];
      id = near * 39;  // up to the end of the span
      slots.push_back(int64_t{id} * s.block + p % static_cast<int32_t>(s.block));
      for (int64_t h = 0; h < s.kv_heads; ++h) {
        for (uint32_t side = 0; side < 2; ++side) {
          const quire_tensor& t = side == 0 ? op.key : op.value;
          memcpy(static_cast<char*>(t.data) + p * t.stride[0] + h * t.stride[1],
                 oracle::kv_address(want.op.kv, side, near, p % static_cast<int32_t>(s.block), h, 0), size_t{2} * s.dim_k);
        }
      }
    }
    op.arrays.slots = slots.data();
    op.set_tokens(static_cast<uint64_t>(length));
    ASSERT_EQ(driver().api->kv_append(driver().stream, &op, &err), QUIRE_OK) << err.message;
    ASSERT_EQ(driver().api->stream_synchronize(driver().stream, -1, &err), QUIRE_OK) << err.message;
  }
  got.op.kv = far;
  run(&got);
  EXPECT_TRUE(want.out() == got.out() && want.lse() == got.lse());
  mapped ? (void)munmap(base, span) : driver().api->mem_free(driver().device, base, span, QUIRE_MEM_DEVICE);
}

// Two streams of one device, used from two threads; appends for later tokens beside a reader.
TEST(Properties, StreamsFromTwoThreads) {
  QUIRE_NEEDS(attention);
  AttentionCase a(base_shape(), {});
  AttentionCase b(base_shape(), {"BKHTD", 0, 0, false, 0});
  run(&a);
  run(&b);
  const std::vector<double> want_a = a.out();
  const std::vector<double> want_b = b.out();
  a.reset();
  b.reset();
  quire_driver_stream* other = nullptr;
  quire_error err = fresh_error();
  ASSERT_EQ(driver().api->stream_create(driver().device, 0, &other, &err), QUIRE_OK);
  std::thread second([&] {
    for (int i = 0; i < 5; ++i) run(&b.op, other);
  });
  for (int i = 0; i < 5; ++i) run(&a.op, driver().stream);
  second.join();
  driver().api->stream_destroy(other);
  EXPECT_TRUE(want_a == a.out());
  EXPECT_TRUE(want_b == b.out());
}

}  // namespace
}  // namespace quire::conformance
