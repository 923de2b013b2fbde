// What the conformance kit does not ask of a driver: graphs captured once and replayed while lengths grow, plans made on the device, lost
// devices, and that the emulation itself refuses kernels whose threads part at a barrier. Method: example, against the oracle and against
// the eager call.
#include "drivers/gpu/emulation/emulation_runtime.h"
#include "drivers/gpu/emulation/lanes.h"
#include "drivers/gpu/emulation/warpgroup.h"

#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/oracle.h"
#include "tests/kernels/conformance/with_batch.h"
#include "tests/kernels/emulation/emulation_rig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

namespace quire::gpu {
namespace {

using conformance::AttentionCase;
using conformance::Shape;

class Emulation : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Waves, Emulation, testing::Values(1u, 2u));
// Waves of 32 with NVIDIA's matrix instructions, of 64 with CDNA's, of 32 with RDNA's.
class MatrixEmulation : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Machines, MatrixEmulation, testing::Values(3u, 4u, 5u));

Shape growing_shape() {
  Shape s;
  s.rows = {{1, 1300}, {1, 90}, {1, 700}};
  return s;
}

TEST_P(Emulation, ACapturedDecodeStepStaysRightOver64GrowingSteps) {
  Rig rig(GetParam());
  AttentionCase eager(growing_shape(), {});
  AttentionCase captured(growing_shape(), {});
  captured.lengths = {1237, 27, 637};
  emulation::begin_capture(rig.native);
  ASSERT_EQ(kApi.attention(rig.stream, &captured.op, &rig.err), QUIRE_OK) << rig.err.message;
  EXPECT_EQ(kApi.stream_synchronize(rig.stream, -1, &rig.err), QUIRE_INTERNAL) << "waiting is not allowed while a stream records";
  EXPECT_FALSE(emulation::end_capture(rig.native));
  captured.reset();
  emulation::begin_capture(rig.native);
  ASSERT_EQ(kApi.attention(rig.stream, &captured.op, &rig.err), QUIRE_OK) << rig.err.message;
  ASSERT_TRUE(emulation::end_capture(rig.native));
  EXPECT_EQ(emulation::captured_launches(rig.native), 3u);  // plan, attend, combine
  EXPECT_TRUE(captured.outputs_untouched()) << "recording runs nothing";
  for (int step = 0; step < 64; ++step) {
    captured.reset();
    emulation::replay(rig.native);
    eager.lengths = captured.lengths;
    eager.reset();
    ASSERT_EQ(kApi.attention(rig.stream, &eager.op, &rig.err), QUIRE_OK) << rig.err.message;
    ASSERT_TRUE(captured.out() == eager.out() && captured.lse() == eager.lse()) << "step " << step;
    if (step % 21 == 0) {
      const oracle::Attention want = oracle::attention(captured.op);
      EXPECT_LE(conformance::row_errors(captured.out(), want.out, captured.shape.dim_v).worst, 1e-2) << "step " << step;
    }
    for (int32_t& length : captured.lengths) ++length;
  }
}

// The kernel that a call launches, and its results.
Kernel run_captured(Rig* rig, AttentionCase* c) {
  c->reset();
  emulation::begin_capture(rig->native);
  EXPECT_EQ(kApi.attention(rig->stream, &c->op, &rig->err), QUIRE_OK) << rig->err.message;
  EXPECT_TRUE(emulation::end_capture(rig->native));
  emulation::replay(rig->native);
  return emulation::captured_kernel(rig->native, 1);  // behind the plan
}

void expect_right(const AttentionCase& c, const std::string& what) {
  const oracle::Attention want = oracle::attention(c.op);
  const conformance::Errors bound = conformance::bounds(c.shape);
  const conformance::Errors e = conformance::row_errors(c.out(), want.out, c.shape.dim_v);
  EXPECT_LE(e.mean, bound.mean) << what;
  EXPECT_LE(e.worst, bound.worst) << what;
  EXPECT_TRUE(c.padding_untouched()) << what;
  const std::vector<double> lse = c.lse();
  for (size_t i = 0; i < lse.size(); ++i) {
    if (std::isinf(want.lse[i])) {
      EXPECT_EQ(lse[i], want.lse[i]) << what;
    } else {
      EXPECT_NEAR(lse[i], want.lse[i], 2e-5 * std::max(1.0, std::fabs(want.lse[i]))) << what;
    }
  }
}

// Which kernel has which widths, formats and steps, and that it is right with each.
TEST_P(MatrixEmulation, MatrixKernelsHaveTheirWidthsAndFormats) {
  Rig rig(GetParam());
  struct Given {
    uint32_t dim_k, dim_v;
    quire_dtype cache, query, out;
    Kernel pack, tile;
  };
  using conformance::kBf16;
  using conformance::kE4m3;
  using conformance::kF16;
  using conformance::kF32;
  using conformance::kI8;
  const Given all[] = {
      {64, 64, kBf16, kBf16, kBf16, Kernel::pack_bf16_64, Kernel::tile_bf16_64},
      {80, 80, kBf16, kBf16, kBf16, Kernel::pack_bf16_128, Kernel::tile_bf16_128},
      {96, 96, kF16, kF16, kF16, Kernel::pack_fp16_128, Kernel::tile_fp16_128},
      {128, 128, kBf16, kBf16, kBf16, Kernel::pack_bf16_128, Kernel::tile_bf16_128},
      {128, 64, kF16, kF16, kBf16, Kernel::pack_fp16_64, Kernel::tile_fp16_64},
      {192, 192, kBf16, kBf16, kBf16, Kernel::pack_bf16_256, Kernel::tile_bf16_256},
      {192, 128, kBf16, kBf16, kBf16, Kernel::pack_bf16_128, Kernel::tile_bf16_128},
      {256, 256, kF16, kF16, kF16, Kernel::pack_fp16_256, Kernel::tile_fp16_256},
      {72, 33, kBf16, kBf16, kBf16, Kernel::pack_bf16_64, Kernel::tile_bf16_64},
      {64, 64, kE4m3, kBf16, kBf16, Kernel::pack_bf16_64, Kernel::tile_bf16_64},
      {64, 64, kI8, kF16, kF16, Kernel::pack_fp16_64, Kernel::tile_fp16_64},
      // No matrix instructions for these: V too wide, other formats, results finer than the weights.
      {512, 272, kBf16, kBf16, kBf16, Kernel::attend, Kernel::attend},
      {64, 64, kF32, kBf16, kBf16, Kernel::attend, Kernel::attend},
      {64, 64, kBf16, kF16, kF16, Kernel::attend, Kernel::attend},
      {64, 64, kBf16, kF32, kF32, Kernel::attend, Kernel::attend},
      {64, 64, kBf16, kBf16, kF32, Kernel::attend, Kernel::attend},
      {64, 64, kBf16, kBf16, kF16, Kernel::attend, Kernel::attend},
  };
  for (const Given& g : all) {
    Shape s;
    s.q_heads = 8;
    s.dim_k = g.dim_k;
    s.dim_v = g.dim_v;
    s.cache = g.cache;
    s.query = g.query;
    s.out = g.out;
    const std::string what = std::to_string(g.dim_k) + "/" + std::to_string(g.dim_v) + ", cache code " + std::to_string(g.cache.code);
    s.rows = {{1, 700}, {4, 130}, {1, 65}, {0, 9}};  // four heads and four tokens are a tile of 16
    AttentionCase decode(s, {});
    s.rows = {{70, 150}, {1, 77}, {33, 33}};
    AttentionCase prefill(s, {});
    for (AttentionCase* c : {&decode, &prefill}) {
      if (g.cache.bits == 8) c->op.scale_k = 0.025f, c->op.scale_v = 0.031f;
      EXPECT_EQ(run_captured(&rig, c), c == &decode ? g.pack : g.tile) << what;
      expect_right(*c, what);
    }
  }
  Shape s;
  s.rows = {{1, 40}};
  AttentionCase plain(s, {});
  Rig dot(GetParam() == 4 ? 2 : 1);
  EXPECT_EQ(run_captured(&dot, &plain), Kernel::attend);
}

// One token after the other, all of them in one call, a few at a time: the same rows have the same bits, whichever kernel and however many
// waves share a tile, where nothing is split along the keys.
TEST_P(MatrixEmulation, MatrixKernelsGiveARowTheSameBitsInAnyCompany) {
  Rig rig(GetParam());
  for (uint32_t group : {1u, 3u, 8u}) {
    Shape s;
    s.q_heads = 2 * group;
    s.dim_k = 96;
    s.dim_v = 80;
    s.rows = {{90, 200}};
    AttentionCase whole(s, {});
    whole.op.flags |= QUIRE_ATTENTION_BATCH_INVARIANT;
    whole.op.window = 150;
    EXPECT_EQ(run_captured(&rig, &whole), Kernel::tile_bf16_128);
    const std::vector<double> want = whole.out();
    const std::vector<double> want_lse = whole.lse();
    const size_t width = size_t{s.q_heads} * s.dim_v;
    int32_t done = 0;
    for (int32_t tokens : {1, 2, 16, 1, 5, 40, 25}) {
      AttentionCase part(s, {});
      part.op.flags |= QUIRE_ATTENTION_BATCH_INVARIANT;
      part.op.window = 150;
      part.indptr = {0, tokens};
      part.lengths = {110 + done + tokens};
      for (quire_tensor* t : {&part.op.query, &part.op.out, &part.op.lse}) {
        t->data = static_cast<char*>(t->data) + done * t->stride[0];
        t->shape[0] = tokens;
      }
      const bool few = static_cast<uint32_t>(tokens) * group <= 16;
      EXPECT_EQ(run_captured(&rig, &part), few ? Kernel::pack_bf16_128 : Kernel::tile_bf16_128);
      const std::vector<double> got = part.out();
      const std::vector<double> got_lse = part.lse();
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], want[static_cast<size_t>(done) * width + i]) << "group " << group << ", " << tokens << " tokens from " << done;
      }
      for (size_t i = 0; i < got_lse.size(); ++i) {
        ASSERT_EQ(got_lse[i], want_lse[static_cast<size_t>(done) * s.q_heads + i]) << "group " << group << ", from " << done;
      }
      done += tokens;
    }
  }
}

// Kernels of products of warpgroups.
constexpr uint64_t kFlow = 6;

// Q, too, at multiples of 16 bytes: it comes by cp.async then.
void align_queries(AttentionCase* c, conformance::Array<uint8_t>* bytes) {
  c->op.query = conformance::make_tensor(bytes, c->shape.query, {c->op.query.shape[0], c->shape.q_heads, c->shape.dim_k}, 16);
  conformance::fill_normal(c->op.query, c->shape.seed + 7, c->shape.spread);
}

TEST(Flow, KernelsHaveTheirWidthsFormatsAndPages) {
  Rig rig(kFlow);
  struct Given {
    uint32_t dim_k, dim_v, block;
    quire_dtype cache, query, out;
    conformance::Layout layout;
    Kernel kernel;
  };
  using conformance::kBf16;
  using conformance::kE4m3;
  using conformance::kF16;
  using conformance::kF32;
  const Given all[] = {
      {64, 64, 16, kBf16, kBf16, kBf16, {}, Kernel::flow_bf16_64},
      {40, 64, 48, kF16, kF16, kBf16, {}, Kernel::flow_fp16_64},
      {80, 80, 32, kBf16, kBf16, kBf16, {"BKHTD"}, Kernel::flow_bf16_128},
      {128, 128, 528, kBf16, kBf16, kBf16, {"BKTHD", 4096, 32}, Kernel::flow_bf16_128},
      {128, 64, 16, kF16, kF16, kF16, {"HBKTD"}, Kernel::flow_fp16_128},
      {64, 128, 16, kBf16, kBf16, kBf16, {"BTHD", 16, 0, false, 16, "HBTD"}, Kernel::flow_bf16_128},
      {192, 128, 64, kBf16, kBf16, kBf16, {}, Kernel::flow_bf16_192},
      {192, 192, 16, kF16, kF16, kF16, {}, Kernel::flow_fp16_256},
      {256, 256, 1056, kBf16, kBf16, kBf16, {"KBTHD"}, Kernel::flow_bf16_256},
      // What has no such kernel, or lies otherwise: tokens of a page, elements apart, strides, heads downwards, formats, widths.
      {64, 64, 24, kBf16, kBf16, kBf16, {}, Kernel::tile_bf16_64},
      {64, 64, 1, kBf16, kBf16, kBf16, {}, Kernel::tile_bf16_64},
      {64, 64, 16, kBf16, kBf16, kBf16, {"BKTDH"}, Kernel::tile_bf16_64},
      {64, 64, 16, kBf16, kBf16, kBf16, {"BKTHD", 0, 6}, Kernel::tile_bf16_64},
      {64, 64, 16, kBf16, kBf16, kBf16, {"BKTHD", 8}, Kernel::tile_bf16_64},
      {64, 64, 16, kBf16, kBf16, kBf16, {"BKTHD", 0, 0, true}, Kernel::tile_bf16_64},
      {64, 64, 16, kBf16, kBf16, kBf16, {"BKTHD", 0, 0, false, 2}, Kernel::tile_bf16_64},
      {64, 64, 16, kE4m3, kBf16, kBf16, {}, Kernel::tile_bf16_64},
      {64, 64, 16, kF32, kBf16, kBf16, {}, Kernel::attend},
      {64, 64, 16, kBf16, kBf16, kF32, {}, Kernel::attend},
      {264, 128, 16, kBf16, kBf16, kBf16, {}, Kernel::tile_bf16_128},
      {288, 272, 16, kBf16, kBf16, kBf16, {}, Kernel::attend},
  };
  for (const Given& g : all) {
    Shape s;
    s.q_heads = 4;
    s.dim_k = g.dim_k;
    s.dim_v = g.dim_v;
    s.block = g.block;
    s.cache = g.cache;
    s.query = g.query;
    s.out = g.out;
    s.rows = {{50, 110}, {1, 77}, {33, 33}, {0, 9}};
    const std::string what =
        std::to_string(g.dim_k) + "/" + std::to_string(g.dim_v) + ", pages of " + std::to_string(g.block) + ", " + g.layout.order;
    AttentionCase c(s, g.layout);
    if (g.cache.bits == 8) c.op.scale_k = 0.025f, c.op.scale_v = 0.031f;
    EXPECT_EQ(run_captured(&rig, &c), g.kernel) << what;
    expect_right(c, what);
    if (g.kernel < Kernel::flow_bf16_64) continue;
    conformance::Array<uint8_t> aligned;
    align_queries(&c, &aligned);
    EXPECT_EQ(run_captured(&rig, &c), g.kernel) << what;
    expect_right(c, what + ", Q aligned");
  }
  Shape s;
  s.rows = {{70, 150}};
  AttentionCase invariant(s, {});
  invariant.op.flags |= QUIRE_ATTENTION_BATCH_INVARIANT;
  EXPECT_EQ(run_captured(&rig, &invariant), Kernel::tile_bf16_64) << "a row's bits do not depend on its company";
}

// The same numbers are added in the same order as by attend_mma.cu, so here, where both kinds of products are the same sums, every bit is
// the same: whatever is masked, whatever lies in unseen pages, however boxes come.
TEST(Flow, EveryBitIsThatOfTheOtherKernel) {
  Rig flow(kFlow);
  Rig tile(3);
  const std::vector<float> sinks = {0.5f, -1.0f, 3.0f, 0.0f, 1.0f, 2.0f, -2.0f, 0.25f};
  const std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03f, 0.01f, 0.3f, 0.2f};
  struct Feature {
    const char* name;
    void (*set)(WithBatch<quire_attention>*);
  };
  const Feature features[] = {
      {"causal", [](WithBatch<quire_attention>*) {}},
      {"not causal", [](WithBatch<quire_attention>* op) { op->flags = 0; }},
      {"window", [](WithBatch<quire_attention>* op) { op->window = 50; }},
      {"window and sinks", [](WithBatch<quire_attention>* op) { op->window = 33, op->sink_tokens = 70; }},
      {"chunk", [](WithBatch<quire_attention>* op) { op->chunk = 100; }},
      {"softcap", [](WithBatch<quire_attention>* op) { op->softcap = 2.5f; }},
      {"scales", [](WithBatch<quire_attention>* op) { op->scale = 0.4f, op->scale_v = 0.7f; }},
  };
  for (const uint32_t group : {1u, 3u, 8u}) {
    for (const Feature& f : features) {
      for (const bool more : {false, true}) {  // sink logits, slopes and a mask
        Shape s;
        s.kv_heads = group == 1 ? 2 : 1;
        s.q_heads = s.kv_heads * group;
        s.dim_k = 72;
        s.dim_v = 96;
        s.block = 48;
        s.rows = {{60, 300}, {3, 200}, {1, 5}, {70, 71}};
        AttentionCase c(s, {});
        f.set(&c.op);
        std::vector<int64_t> first = {3};
        for (const conformance::Row& r : s.rows) first.push_back(first.back() + int64_t{r.queries} * r.length);
        std::vector<uint8_t> bits(static_cast<size_t>(first.back() / 8 + 1));
        for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint8_t>(conformance::mixed(11, i) | conformance::mixed(12, i));
        if (more) {
          c.op.sink_logits = sinks.data();
          c.op.alibi_slopes = slopes.data();
          c.op.mask_bits = bits.data();
          c.op.mask_indptr = first.data();
        }
        if (c.op.window == 50) c.poison(0, 0, 300 - 60 - 49);
        const std::string what = std::string(f.name) + ", group " + std::to_string(group) + (more ? ", all else" : "");
        EXPECT_EQ(run_captured(&tile, &c), Kernel::tile_bf16_128) << what;
        const std::vector<double> want = c.out();
        const std::vector<double> want_lse = c.lse();
        for (const bool at_once : {false, true}) {
          if (at_once && group != 3) continue;
          emulation::boxes_come_at_once(at_once);
          EXPECT_EQ(run_captured(&flow, &c), Kernel::flow_bf16_128) << what;
          emulation::boxes_come_at_once(false);
          ASSERT_TRUE(c.out() == want && c.lse() == want_lse) << what;
          EXPECT_TRUE(c.padding_untouched()) << what;
        }
      }
    }
  }
}

// The device's planner makes the records of the host's, in another order among those of like cost.
TEST_P(Emulation, PlansMadeOnTheDeviceHaveTheRecordsOfTheHost) {
  Rig rig(GetParam());
  using drivers::PlanRecord;
  for (uint32_t flags : {0u, QUIRE_ATTENTION_CAUSAL, QUIRE_ATTENTION_CAUSAL | QUIRE_ATTENTION_BATCH_INVARIANT}) {
    Shape s = growing_shape();
    s.dim_k = s.dim_v = 8;
    for (int i = 0; i < 300; ++i) {
      const auto length = static_cast<int32_t>(conformance::mixed(7, static_cast<uint64_t>(i)) % 60);
      s.rows.push_back({std::min(length, i % 9), length});
    }
    s.rows.push_back({150, 400});
    AttentionCase c(s, {});
    c.op.flags = flags;
    drivers::AttentionOp op;
    ASSERT_EQ(drivers::read_op(static_cast<const quire_attention*>(&c.op), &op, "attention", &rig.err), QUIRE_OK) << rig.err.message;
    drivers::AttentionJob job = drivers::describe_attention(op, 6);
    job.shape.sweep = false;
    const drivers::PlanBounds b = drivers::plan_bounds(op.num_rows, static_cast<uint64_t>(c.total_queries()), s.q_heads, 6);
    std::vector<uint64_t> host(drivers::plan_size(b.records, b.merges) / 8 + 1);
    std::vector<uint64_t> device(host.size());
    ASSERT_EQ(drivers::make_plan(op, job, host.data(), host.size() * 8, &rig.err), QUIRE_OK) << rig.err.message;
    quire_driver_options options{};
    options.flags = GetParam();
    const Runtime* runtime = nullptr;
    void* native = nullptr;
    ASSERT_EQ(load_runtime(options, &runtime, &rig.err), QUIRE_OK);
    ASSERT_EQ(runtime->device_open(0, options, &native), 0);
    const PlanArgs args{job.shape, device.data(), b.records, b.merges, b.partial_rows, s.dim_v};
    ASSERT_EQ(runtime->launch(native, rig.native, Kernel::plan, 1, kPlanShared, &args, sizeof args), 0);
    runtime->device_close(native);
    drivers::PlanView want{};
    drivers::PlanView got{};
    op.workspace = host.data();
    op.workspace_bytes = uint64_t{1} << 40;
    op.plan = host.data();
    op.plan_bytes = host.size() * 8;
    ASSERT_EQ(drivers::check_plan(op, job, 0, &want, &rig.err), QUIRE_OK) << rig.err.message;
    op.plan = device.data();
    ASSERT_EQ(drivers::check_plan(op, job, 0, &got, &rig.err), QUIRE_OK) << rig.err.message;
    EXPECT_EQ(got.header.fingerprint, want.header.fingerprint);
    EXPECT_EQ(got.header.partial_rows, want.header.partial_rows);
    auto sorted = [](const drivers::PlanView& v) {
      std::vector<PlanRecord> all(v.records, v.records + v.header.num_records);
      std::sort(all.begin(), all.end(), [](const PlanRecord& x, const PlanRecord& y) {
        return std::make_tuple(x.row, x.query, x.head, x.kv_begin) < std::make_tuple(y.row, y.query, y.head, y.kv_begin);
      });
      return all;
    };
    const std::vector<PlanRecord> a = sorted(want);
    const std::vector<PlanRecord> d = sorted(got);
    ASSERT_EQ(a.size(), d.size());
    EXPECT_EQ(memcmp(a.data(), d.data(), a.size() * sizeof(PlanRecord)), 0);
    ASSERT_EQ(got.header.num_merges, want.header.num_merges);
    EXPECT_EQ(memcmp(got.merges, want.merges, got.header.num_merges * sizeof(drivers::PlanMerge)), 0);
    for (uint32_t i = 1; i < got.header.num_records; ++i) {
      ASSERT_LE(got.records[i].cost / 2, got.records[i - 1].cost) << "the costly come first, to a factor of two";
    }
  }
}

// All drivers share the format of plans. One whose records take the heads of all KV heads at once makes merges of more rows.
TEST_P(Emulation, PlansOfAnotherDriverAreFoldedWhole) {
  Rig rig(GetParam());
  Shape s;
  s.q_heads = 32;
  s.kv_heads = 8;
  s.dim_k = s.dim_v = 16;
  s.rows = {{4, 3000}, {1, 40}};
  AttentionCase c(s, {});
  drivers::AttentionOp op;
  ASSERT_EQ(drivers::read_op(static_cast<const quire_attention*>(&c.op), &op, "attention", &rig.err), QUIRE_OK) << rig.err.message;
  const drivers::AttentionJob job = drivers::describe_attention(op, 6);
  ASSERT_TRUE(job.shape.sweep);
  const drivers::PlanBounds b = drivers::plan_bounds(op.num_rows, static_cast<uint64_t>(c.total_queries()), s.q_heads, 6);
  std::vector<uint64_t> plan(drivers::plan_size(b.records, b.merges) / 8 + 1);
  ASSERT_EQ(drivers::make_plan(op, job, plan.data(), plan.size() * 8, &rig.err), QUIRE_OK) << rig.err.message;
  std::vector<float> workspace(b.partial_rows * drivers::partial_width(s.dim_v));
  c.op.plan = plan.data();
  c.op.plan_bytes = plan.size() * 8;
  c.op.workspace = workspace.data();
  c.op.workspace_bytes = workspace.size() * sizeof(float);
  c.reset();
  ASSERT_EQ(kApi.attention(rig.stream, &c.op, &rig.err), QUIRE_OK) << rig.err.message;
  expect_right(c, "four tokens, all heads in a record");
}

TEST_P(Emulation, ALostDeviceStaysLostAndStillFrees) {
  Rig rig(GetParam());
  Shape s;
  s.rows = {{1, 40}};
  AttentionCase c(s, {});
  void* memory = nullptr;
  ASSERT_EQ(kApi.mem_alloc(rig.device, 4096, 0, QUIRE_MEM_DEVICE, &memory, &rig.err), QUIRE_OK);
  emulation::fail_launch(1, emulation::kOutOfMemory);
  EXPECT_EQ(kApi.attention(rig.stream, &c.op, &rig.err), QUIRE_RESOURCE_EXHAUSTED) << rig.err.message;
  EXPECT_EQ(kApi.attention(rig.stream, &c.op, &rig.err), QUIRE_OK) << "a failed launch is not the end";
  emulation::fail_launch(2, emulation::kLost);
  EXPECT_EQ(kApi.attention(rig.stream, &c.op, &rig.err), QUIRE_ABORTED);
  EXPECT_EQ(rig.err.native_code, emulation::kLost);
  quire_driver_stream* stream = nullptr;
  quire_driver_event* event = nullptr;
  void* more = nullptr;
  EXPECT_EQ(kApi.attention(rig.stream, &c.op, &rig.err), QUIRE_ABORTED);
  EXPECT_NE(std::string(rig.err.message).find("lost"), std::string::npos) << rig.err.message;
  EXPECT_EQ(kApi.fill(rig.stream, memory, 0, 16, &rig.err), QUIRE_ABORTED);
  EXPECT_EQ(kApi.stream_synchronize(rig.stream, -1, &rig.err), QUIRE_ABORTED);
  EXPECT_EQ(kApi.stream_create(rig.device, 0, &stream, &rig.err), QUIRE_ABORTED);
  EXPECT_EQ(kApi.event_create(rig.device, &event, &rig.err), QUIRE_ABORTED);
  EXPECT_EQ(kApi.mem_alloc(rig.device, 4096, 0, QUIRE_MEM_DEVICE, &more, &rig.err), QUIRE_ABORTED);
  EXPECT_EQ(rig.err.native_code, emulation::kLost) << "the first cause";
  EXPECT_EQ(more, nullptr);
  kApi.mem_free(rig.device, memory, 4096, QUIRE_MEM_DEVICE);
}

TEST(EmulationDeathTest, ThreadsThatPartAtABarrierOrAnExchangeAreCaught) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto barrier = [](const void*) {
    if (emulation::thread_index() != 77) emulation::sync(false);
  };
  EXPECT_DEATH(emulation::run_grid(barrier, nullptr, 1, 16), "barrier");
  const auto exchange = [](const void*) {
    if (emulation::thread_index() != 40) emulation::exchange(32, 1, 0);
  };
  EXPECT_DEATH(emulation::run_grid(exchange, nullptr, 1, 16), "exchange");
  const auto mixed = [](const void*) {
    if (emulation::thread_index() < 16) emulation::sync(false);
    emulation::exchange(32, 1, 0);
    if (emulation::thread_index() >= 16) emulation::sync(false);
  };
  EXPECT_DEATH(emulation::run_grid(mixed, nullptr, 1, 16), "exchange");
}

TEST(Lanes, BarriersAndExchangesCarryWhatTheyShould) {
  struct Result {
    uint32_t got[kThreads];
    bool any[2];
  } result{};
  const auto kernel = [](const void* p) {
    auto* r = static_cast<Result*>(const_cast<void*>(p));
    const uint32_t t = emulation::thread_index();
    auto* shared = reinterpret_cast<uint32_t*>(emulation::shared());
    shared[t] = t * t;
    const bool some = emulation::sync(t == 99);
    const bool none = emulation::sync(false);
    uint32_t v = shared[(t + 1) % kThreads];
    for (uint32_t i = 0; i < 5; ++i) v += emulation::exchange(64, v, (t + i) % 64);
    r->got[t] = v;
    if (t == 5) r->any[0] = some, r->any[1] = none;
  };
  ASSERT_TRUE(emulation::run_grid(kernel, &result, 3, kThreads * 4));
  EXPECT_TRUE(result.any[0]);
  EXPECT_FALSE(result.any[1]);
  uint32_t want[kThreads];
  for (uint32_t t = 0; t < kThreads; ++t) want[t] = (t + 1) % kThreads * ((t + 1) % kThreads);
  for (uint32_t i = 0; i < 5; ++i) {
    uint32_t next[kThreads];
    for (uint32_t t = 0; t < kThreads; ++t) next[t] = want[t] + want[t / 64 * 64 + (t + i) % 64];
    memcpy(want, next, sizeof want);
  }
  for (uint32_t t = 0; t < kThreads; ++t) EXPECT_EQ(result.got[t], want[t]) << t;
}

}  // namespace
}  // namespace quire::gpu
