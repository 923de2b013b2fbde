// The ops: checked on the host, described once, launched. Grids depend on counts that a capture freezes, never on lengths.
#include "drivers/gpu/gpu_device.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>

namespace quire::gpu {
namespace {

using drivers::check_descriptor;

template <typename Args>
quire_code launch(quire_driver_stream* stream, Kernel kernel, uint64_t work, uint64_t shared, const Args& args, const char* what,
                  quire_error* err) {
  quire_driver_device* device = stream->device;
  if (shared > device->facts.shared_bytes) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "%s: these dimensions need %" PRIu64 " bytes of shared memory, the device has %u", what,
                      shared, device->facts.shared_bytes);
  }
  if (work == 0) return QUIRE_OK;
  const uint64_t most = uint64_t{device->facts.multiprocessors} * 8;
  const int code = device->runtime->launch(device->native, stream->native, kernel, static_cast<uint32_t>(work < most ? work : most),
                                           static_cast<uint32_t>(shared), &args, sizeof args);
  return native(device, code, what, err);
}

drivers::AttentionJob describe(const drivers::AttentionOp& op, const quire_driver_device& device) {
  drivers::AttentionJob job = drivers::describe_attention(op, device.facts.multiprocessors);
  job.shape.sweep = false;  // a record has one KV head: blocks are many
  job.op = nullptr;
  return job;
}

// The kernel of an op and its shared memory.
struct Choice {
  Kernel kernel;
  uint64_t shared;
};

// Dot products, unless the device has matrix instructions for these formats and this width. Weights are rounded to the format of Q, so what
// is written must not be finer.
Choice choose(const drivers::AttentionJob& job, const drivers::AttentionOp& op, const Facts& facts) {
  const uint32_t dim_k = job.key.head_dim;
  const uint32_t dim_v = job.value.head_dim;
  const Choice plain{Kernel::attend, attend_shared(dim_k, dim_v)};
  const bool half = job.query == Real::kFloat16;
  if (!facts.matrix || !(half || job.query == Real::kBfloat16) || dim_v > kMaxMatrixWidth) return plain;
  if (job.cache != job.query && drivers::real_bytes(job.cache) != 1) return plain;
  if (job.out != Real::kBfloat16 && !(half && job.out == Real::kFloat16)) return plain;
  const uint32_t width = dim_v <= 64 ? 0 : dim_v <= 128 ? 1 : 2;
  const uint64_t tile = matrix_shared(dim_k, dim_v, uint64_t{kThreads / facts.wave} * 16);
  const uint64_t pack = matrix_shared(dim_k, dim_v, 16);
  if (pack > facts.shared_bytes) return plain;
  // By counts alone, which a capture freezes: both kernels give the same bits.
  const bool decode = static_cast<uint64_t>(op.query.shape[0]) * job.group <= uint64_t{op.num_rows} * 16;
  const bool packed = decode || tile > facts.shared_bytes;
  const auto first = static_cast<uint32_t>(packed ? Kernel::pack_bf16_64 : Kernel::tile_bf16_64);
  return {static_cast<Kernel>(first + (half ? 3 : 0) + width), packed ? pack : tile};
}

// A side for the copy engine: whole boxes in pages, rows and pages upwards at multiples of 16 bytes. What else the driver asks for it says.
bool describe_boxes(const drivers::AttentionOp& op, const quire_paged_side& side, Real real, BoxShape* out) {
  const int64_t strides[3] = {side.stride_token, op.kv.num_heads > 1 ? side.stride_head : 16, side.unit};
  for (const int64_t stride : strides) {
    if (stride <= 0 || stride % 16 != 0) return false;
  }
  if (side.stride_dim != 2 || op.kv.block_tokens % kBoxTokens != 0) return false;
  *out = {side.base,
          {side.head_dim, op.kv.block_tokens, op.kv.num_heads, op.kv.num_ids != 0 ? op.kv.num_ids : uint64_t{INT32_MAX}},
          {static_cast<uint64_t>(strides[0]), static_cast<uint64_t>(strides[1]), static_cast<uint64_t>(strides[2])},
          {kSwizzleColumns, kBoxTokens, 1, 1},
          real == Real::kFloat16};
  return true;
}

// Products of warpgroups, where the device has them, rows are many, widths and formats have a kernel, and both sides come in boxes. Not
// where a row's result may not depend on its company: their sums may be rounded in another way than those of the other kernels. *refused:
// what the vendor's library answers to the boxes, 0 where it was not asked.
bool choose_flow(const drivers::AttentionJob& job, const drivers::AttentionOp& op, const quire_driver_device& device, FlowArgs* args,
                 Choice* choice, int* refused) {
  const Facts& facts = device.facts;
  if (facts.flow_rows == 0 || device.runtime->make_map == nullptr || (op.flags & QUIRE_ATTENTION_BATCH_INVARIANT) != 0) return false;
  if (choice->kernel == Kernel::attend || job.cache != job.query) return false;
  if (static_cast<uint64_t>(op.query.shape[0]) * job.group < uint64_t{op.num_rows} * facts.flow_rows) return false;
  struct Width {
    uint32_t k, v, stages;
  };
#define QUIRE_GPU_WIDTH(name, real, wide_k, wide_v, stages) {wide_k, wide_v, stages},
  static constexpr Width kWidths[] = {QUIRE_GPU_FLOW_KERNELS(QUIRE_GPU_WIDTH)};  // of bf16, then the same of fp16
#undef QUIRE_GPU_WIDTH
  constexpr uint32_t kEach = std::size(kWidths) / 2;
  uint32_t width = 0;
  while (job.key.head_dim > kWidths[width].k * kSwizzleColumns || job.value.head_dim > kWidths[width].v * kSwizzleColumns) {
    if (++width == kEach) return false;
  }
  const uint64_t shared = flow_shared(kWidths[width].k, kWidths[width].v, kWidths[width].stages);
  if (shared > facts.shared_bytes) return false;
  BoxShape key{};
  BoxShape value{};
  if (!describe_boxes(op, job.key, job.cache, &key) || !describe_boxes(op, job.value, job.cache, &value)) return false;
  *refused = device.runtime->make_map(device.native, key, &args->key);
  if (*refused == 0) *refused = device.runtime->make_map(device.native, value, &args->value);
  if (*refused != 0) return false;
  *choice = {static_cast<Kernel>(static_cast<uint32_t>(Kernel::flow_bf16_64) + (job.query == Real::kFloat16 ? kEach : 0) + width), shared};
  return true;
}

// Whether elements of fp32, bf16 or fp16 lie at multiples of their size, or there are none.
bool lies_even(const quire_tensor& t) {
  const int64_t bytes = drivers::real_bytes(drivers::real_of(t.dtype));
  auto all = static_cast<int64_t>(reinterpret_cast<uintptr_t>(t.data));
  for (int32_t d = 0; t.data != nullptr && d < t.ndim; ++d) all |= t.stride[d];
  return all % bytes == 0;
}

// `side`: bytes from one column to the next, `down`: from an element of a column to the next, `rest`: what else is added up to the address
// of four neighbours. These move at once where one of the two axes is dense and no four of it cross its end.
TileOrder order_of(const quire_paged_state& state, int64_t side, uint32_t columns, int64_t down, uint32_t elements, int64_t rest) {
  const int64_t bytes = drivers::real_bytes(drivers::real_of(state.dtype));
  rest |= state.unit | static_cast<int64_t>(reinterpret_cast<uintptr_t>(state.base));
  if (side == bytes && columns % 4 == 0 && (down | rest) % (4 * bytes) == 0) return TileOrder::kColumns;
  if (down == bytes && elements % 4 == 0 && (side | rest) % (4 * bytes) == 0) return TileOrder::kElements;
  return TileOrder::kNone;
}

TileOrder order_of(const drivers::GatedDeltaOp& op, const drivers::GatedDeltaJob& job) {
  if (job.dim_k > kTileElements || job.dim_v > INT32_MAX) return TileOrder::kNone;
  for (const quire_tensor* t : {&op.query, &op.key, &op.value, &op.gate, &op.beta, &op.out}) {
    if (!lies_even(*t)) return TileOrder::kNone;
  }
  return order_of(op.state, job.stride_v, job.dim_v, job.stride_k, job.dim_k, job.stride_head);
}

// Four neighbouring lines of a group must be as far from each other as any other four; *line is how far.
TileOrder order_of(const drivers::SelectiveScanOp& op, const drivers::ScanJob& job, int64_t* line) {
  const uint64_t lines = uint64_t{job.heads / job.groups} * job.head_dim;
  if (job.state_dim > (job.per_element ? kNarrowElements : kTileElements) || lines * job.groups > INT32_MAX) return TileOrder::kNone;
  for (const quire_tensor* t : {&op.x, &op.dt, &op.a, &op.b, &op.c, &op.skip, &op.dt_bias, &op.z, &op.out}) {
    if (!lies_even(*t)) return TileOrder::kNone;
  }
  *line = job.head_dim == 1 ? job.stride_head : job.stride_line;
  const bool dense = job.head_dim == 1 || job.stride_head == job.head_dim * job.stride_line;
  if (!dense && job.head_dim % 4 != 0) return TileOrder::kNone;
  return order_of(op.state, *line, static_cast<uint32_t>(lines), job.stride_element, job.state_dim, dense ? 0 : job.stride_head);
}

// Where the plan lies, and how much of it there can be.
struct Planned {
  const void* plan;
  float* partials;
  uint64_t records;
  uint64_t merges;
};

// The caller's plan: checked where the host can read it; elsewhere its workspace must be large enough for any plan of this size.
quire_code take_plan(quire_driver_stream* stream, const drivers::AttentionOp& op, const drivers::AttentionJob& job,
                     const drivers::PlanBounds& bounds, Planned* out, quire_error* err) {
  const uint64_t width = drivers::partial_width(job.value.head_dim);
  out->plan = op.plan;
  out->partials = op.workspace != nullptr ? static_cast<float*>(op.workspace) : stream->partials;
  if (drivers::host_reads(op.plan)) {
    drivers::PlanView view{};
    QUIRE_TRY(drivers::check_plan(op, job, kStreamFloats, &view, err));
    out->records = view.header.num_records;
    out->merges = view.header.num_merges;
    return QUIRE_OK;
  }
  const uint64_t given = op.workspace != nullptr ? op.workspace_bytes : kStreamFloats * sizeof(float);
  if (bounds.partial_rows * width * sizeof(float) > given) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "workspace_bytes is %" PRIu64 ", a plan in device memory may need %" PRIu64, given,
                      bounds.partial_rows * width * sizeof(float));
  }
  out->records = bounds.records;
  out->merges = bounds.merges;
  return QUIRE_OK;
}

// Plans on the device into the stream's own memory.
quire_code make_plan_here(quire_driver_stream* stream, const drivers::AttentionOp& op, const drivers::AttentionJob& job,
                          const drivers::PlanBounds& bounds, Planned* out, quire_error* err) {
  if (bounds.records > kStreamRecords || bounds.merges > kStreamMerges) {
    return QUIRE_FAIL(err, QUIRE_RESOURCE_EXHAUSTED,
                      "plan is NULL and the step may need %" PRIu64 " records and %" PRIu64 " merges; a stream has room for %" PRIu64
                      " and %" PRIu64 ": plan it with attention_plan",
                      bounds.records, bounds.merges, kStreamRecords, kStreamMerges);
  }
  const uint64_t width = drivers::partial_width(job.value.head_dim);
  const bool own = op.workspace == nullptr || op.workspace_bytes / sizeof(float) < kStreamFloats;
  const uint64_t floats = own ? kStreamFloats : op.workspace_bytes / sizeof(float);
  PlanArgs args{};
  args.shape = job.shape;
  args.plan = stream->plan;
  args.max_records = kStreamRecords;
  args.max_merges = kStreamMerges;
  args.max_partial_rows = floats / width < bounds.partial_rows ? floats / width : bounds.partial_rows;
  args.head_dim_v = job.value.head_dim;
  *out = {stream->plan, own ? stream->partials : static_cast<float*>(op.workspace), bounds.records, bounds.merges};
  return launch(stream, Kernel::plan, 1, kPlanShared, args, "attention", err);
}

}  // namespace

quire_code attention_workspace(quire_driver_device* device, uint32_t max_rows, uint64_t max_query_tokens, uint64_t max_kv_len,
                               uint32_t num_q_heads, uint32_t head_dim_v, uint64_t* plan_bytes, uint64_t* workspace_bytes,
                               quire_error* err) {
  if (device == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device is NULL");
  return drivers::size_attention(device->facts.multiprocessors, max_rows, max_query_tokens, max_kv_len, num_q_heads, head_dim_v, plan_bytes,
                                 workspace_bytes, err);
}

quire_code attention_plan(quire_driver_device* device, const quire_attention* op, void* plan, uint64_t plan_bytes, quire_error* err) {
  if (device == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device is NULL");
  drivers::AttentionOp own;
  QUIRE_TRY(drivers::read_op(op, &own, "attention", err));
  QUIRE_TRY(drivers::check_attention(own, err));
  if (own.num_rows != 0 && (!drivers::host_reads(own.query_indptr) || !drivers::host_reads(own.kv_len) || !drivers::host_reads(plan))) {
    return QUIRE_FAIL(
        err, QUIRE_INVALID_ARGUMENT,
        "attention_plan: query_indptr, kv_len and plan must be in memory that the host reads; without a plan the device plans");
  }
  return drivers::make_plan(own, describe(own, *device), plan, plan_bytes, err);
}

quire_code attention(quire_driver_stream* stream, const quire_attention* op, quire_error* err) {
  QUIRE_TRY(check_stream(stream, err));
  drivers::AttentionOp own;
  QUIRE_TRY(drivers::read_op(op, &own, "attention", err));
  QUIRE_TRY(drivers::check_attention(own, err));
  quire_driver_device* device = stream->device;
  FlowArgs flow{{own, describe(own, *device), nullptr}, {}, {}};
  AttentionArgs& args = flow.op;
  Choice choice = choose(args.job, own, device->facts);
  int refused = 0;
  const bool flows = choose_flow(args.job, own, *device, &flow, &choice, &refused);
  if (choice.shared > device->facts.shared_bytes)
    return launch(stream, choice.kernel, 1, choice.shared, args, "attention", err);  // says so
  if (own.num_rows == 0) return QUIRE_OK;
  const auto tokens = static_cast<uint64_t>(own.query.shape[0]);
  const drivers::PlanBounds bounds = drivers::plan_bounds(own.num_rows, tokens, args.job.shape.num_q_heads, device->facts.multiprocessors);
  Planned planned{};
  if (own.plan != nullptr) {
    QUIRE_TRY(take_plan(stream, own, args.job, bounds, &planned, err));
  } else {
    QUIRE_TRY(make_plan_here(stream, own, args.job, bounds, &planned, err));
  }
  args.plan = planned.plan;
  args.job.partials = planned.partials;
  if (flows) {
    QUIRE_TRY(launch(stream, choice.kernel, planned.records, choice.shared, flow, "attention", err));
  } else {
    QUIRE_TRY(launch(stream, choice.kernel, planned.records, choice.shared, args, "attention", err));
  }
  stream->attended = choice.kernel;
  stream->refused = refused;
  const bool splits = args.job.shape.workers > 1 && (own.flags & QUIRE_ATTENTION_BATCH_INVARIANT) == 0;
  // Rows of all merges are no more than there are of results.
  const uint64_t most = std::min(planned.merges * rows_of_merge(args.job.group), tokens * args.job.shape.num_q_heads);
  const uint64_t merged = own.plan != nullptr || splits ? most : 0;
  return launch(stream, Kernel::combine, merged, kCombineShared, args, "attention", err);
}

quire_code kv_append(quire_driver_stream* stream, const quire_kv_append* op, quire_error* err) {
  QUIRE_TRY(check_stream(stream, err));
  drivers::AppendOp own;
  QUIRE_TRY(drivers::read_op(op, &own, "kv_append", err));
  QUIRE_TRY(drivers::check_append(own, err));
  AppendArgs args{own, drivers::real_of(op->kv.dtype), drivers::real_of(op->key.dtype), drivers::real_of(op->value.dtype), 1.0f, 1.0f};
  if (op->scale_k != 0.0f) args.inverse_k = 1.0f / op->scale_k;
  if (op->scale_v != 0.0f) args.inverse_v = 1.0f / op->scale_v;
  return launch(stream, Kernel::append, own.num_slots, 0, args, "kv_append", err);
}

quire_code attention_merge(quire_driver_stream* stream, const quire_attention_merge* op, quire_error* err) {
  QUIRE_TRY(check_stream(stream, err));
  QUIRE_TRY(check_descriptor(op, sizeof *op, "attention_merge", err));
  QUIRE_TRY(drivers::check_merge(*op, err));
  if (op->num_parts > kMaxMergeParts) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "num_parts is %u, above %u", op->num_parts, kMaxMergeParts);
  }
  MergeArgs args{};
  args.num_parts = op->num_parts;
  args.out = op->out;
  args.lse = op->lse;
  for (uint32_t p = 0; p < op->num_parts; ++p) {
    const quire_tensor& out = op->partial_out[p];
    const quire_tensor& lse = op->partial_lse[p];
    args.part[p] = {static_cast<const char*>(out.data),
                    static_cast<const char*>(lse.data),
                    {out.stride[0], out.stride[1], out.stride[2]},
                    {lse.stride[0], lse.stride[1]},
                    drivers::real_of(out.dtype)};
  }
  const auto rows = static_cast<uint64_t>(op->out.shape[0]) * static_cast<uint64_t>(op->out.shape[1]);
  return launch(stream, Kernel::merge, rows, 0, args, "attention_merge", err);
}

quire_code gated_delta(quire_driver_stream* stream, const quire_gated_delta* op, quire_error* err) {
  QUIRE_TRY(check_stream(stream, err));
  DeltaArgs args{};
  QUIRE_TRY(drivers::read_op(op, &args.op, "gated_delta", err));
  QUIRE_TRY(drivers::describe_delta(args.op, &args.job, err));
  args.job.op = nullptr;
  args.query = drivers::real_of(args.op.query.dtype);
  args.key = drivers::real_of(args.op.key.dtype);
  args.value = drivers::real_of(args.op.value.dtype);
  args.out = drivers::real_of(args.op.out.dtype);
  args.order = order_of(args.op, args.job);
  const uint32_t tile = args.order != TileOrder::kNone ? kTileColumns : kDeltaTile;
  const uint64_t work = uint64_t{args.op.num_rows} * args.job.heads_v * ((args.job.dim_v + tile - 1) / tile);
  return launch(stream, Kernel::delta, work, delta_shared(args.job.dim_k, args.order), args, "gated_delta", err);
}

quire_code conv1d(quire_driver_stream* stream, const quire_conv1d* op, quire_error* err) {
  QUIRE_TRY(check_stream(stream, err));
  Conv1dArgs args{};
  QUIRE_TRY(drivers::read_op(op, &args.op, "conv1d", err));
  QUIRE_TRY(drivers::describe_conv(args.op, &args.job, err));
  args.job.op = nullptr;
  args.input = drivers::real_of(args.op.input.dtype);
  args.weight = drivers::real_of(args.op.weight.dtype);
  args.bias = drivers::real_of(args.op.bias.dtype);
  args.out = drivers::real_of(args.op.out.dtype);
  args.even = lies_even(args.op.input) && lies_even(args.op.out);
  const uint64_t work = uint64_t{args.op.num_rows} * ((args.job.channels + kThreads - 1) / kThreads);
  return launch(stream, Kernel::conv1d, work, 0, args, "conv1d", err);
}

quire_code selective_scan(quire_driver_stream* stream, const quire_selective_scan* op, quire_error* err) {
  QUIRE_TRY(check_stream(stream, err));
  ScanArgs args{};
  QUIRE_TRY(drivers::read_op(op, &args.op, "selective_scan", err));
  QUIRE_TRY(drivers::describe_scan(args.op, &args.job, err));
  args.job.op = nullptr;
  const uint64_t lines = uint64_t{args.job.heads / args.job.groups} * args.job.head_dim;
  if (lines * args.job.groups > UINT32_MAX - kScanTile) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "state.shape is [%u, %u, %u]: heads * head_dim is above 2^32 - 17", args.job.heads,
                      args.job.head_dim, args.job.state_dim);
  }
  args.x = drivers::real_of(args.op.x.dtype);
  args.dt = drivers::real_of(args.op.dt.dtype);
  args.b = drivers::real_of(args.op.b.dtype);
  args.c = drivers::real_of(args.op.c.dtype);
  args.skip = drivers::real_of(args.op.skip.dtype);
  args.dt_bias = drivers::real_of(args.op.dt_bias.dtype);
  args.z = drivers::real_of(args.op.z.dtype);
  args.out = drivers::real_of(args.op.out.dtype);
  args.order = order_of(args.op, args.job, &args.line);
  const uint32_t tile = args.order == TileOrder::kNone ? kScanTile : args.job.per_element ? kNarrowColumns : kTileColumns;
  const uint64_t work = uint64_t{args.op.num_rows} * args.job.groups * ((lines + tile - 1) / tile);
  return launch(stream, Kernel::scan, work, scan_shared(args.job.state_dim, args.order), args, "selective_scan", err);
}

}  // namespace quire::gpu
