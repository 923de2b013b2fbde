// Entries: attention_workspace, attention_plan, attention.
#include "drivers/cpu/cpu_device.h"

namespace quire::cpu {
namespace {

using drivers::Planner;

constexpr Turns kOneByOne{1, 1};  // the planner made them large, the longest come first

struct Batch {
  const AttentionJob* job;
  const PlanRecord* records;
  const PlanMerge* merges;
  quire_driver_device* device;
};

void run_batch(Batch* batch, uint64_t records, uint64_t merges) {
  batch->device->threads.run(
      records, kOneByOne,
      [](void* p, uint64_t first, uint64_t, uint32_t thread) {
        const Batch& b = *static_cast<Batch*>(p);
        b.device->kernels->attention(*b.job, b.records[first], b.device->scratch + thread * kScratchFloats);
      },
      batch);
  batch->device->threads.run(
      merges, kOneByOne,
      [](void* p, uint64_t first, uint64_t, uint32_t thread) {
        const Batch& b = *static_cast<Batch*>(p);
        b.device->kernels->combine(*b.job, b.merges[first], b.device->scratch + thread * kScratchFloats);
      },
      batch);
}

// Plans and runs batch by batch in the device's own memory.
void run_planned_here(AttentionJob* job, quire_driver_device* device) {
  const std::lock_guard<std::mutex> guard(device->planning);
  const drivers::AttentionOp& op = *job->op;
  uint64_t floats = device->partial_floats;
  job->partials = device->partials;
  if (op.workspace != nullptr && op.workspace_bytes / 4 > floats) {
    floats = op.workspace_bytes / 4;
    job->partials = static_cast<float*>(op.workspace);
  }
  Planner planner(job->shape, floats / drivers::partial_width(job->value.head_dim));
  while (!planner.done()) {
    const Planner::Batch n = planner.next(device->records, kMaxRecords, device->merges, kMaxMerges);
    Batch batch{job, device->records, device->merges, device};
    run_batch(&batch, n.records, n.merges);
  }
}

}  // namespace

quire_code attention_workspace(quire_driver_device* device, uint32_t max_rows, uint64_t max_query_tokens, uint64_t max_kv_len,
                               uint32_t num_q_heads, uint32_t head_dim_v, uint64_t* plan_bytes, uint64_t* workspace_bytes,
                               quire_error* err) {
  if (device == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device is NULL");
  return drivers::size_attention(device->threads.count(), max_rows, max_query_tokens, max_kv_len, num_q_heads, head_dim_v, plan_bytes,
                                 workspace_bytes, err);
}

quire_code attention_plan(quire_driver_device* device, const quire_attention* op, void* plan, uint64_t plan_bytes, quire_error* err) {
  if (device == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device is NULL");
  drivers::AttentionOp own;
  QUIRE_TRY(drivers::read_op(op, &own, "attention", err));
  QUIRE_TRY(drivers::check_attention(own, err));
  return drivers::make_plan(own, drivers::describe_attention(own, device->threads.count()), plan, plan_bytes, err);
}

quire_code attention(quire_driver_stream* stream, const quire_attention* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  drivers::AttentionOp own;
  QUIRE_TRY(drivers::read_op(op, &own, "attention", err));
  QUIRE_TRY(drivers::check_attention(own, err));
  quire_driver_device* device = stream->device;
  AttentionJob job = drivers::describe_attention(own, device->threads.count());
  if (own.plan == nullptr) {
    run_planned_here(&job, device);
    return QUIRE_OK;
  }
  drivers::PlanView plan{};
  QUIRE_TRY(drivers::check_plan(own, job, kInternalPartialFloats, &plan, err));
  Batch batch{&job, plan.records, plan.merges, device};
  job.partials = static_cast<float*>(own.workspace);
  if (own.workspace != nullptr) {
    run_batch(&batch, plan.header.num_records, plan.header.num_merges);
    return QUIRE_OK;
  }
  const std::lock_guard<std::mutex> guard(device->planning);
  job.partials = device->partials;
  run_batch(&batch, plan.header.num_records, plan.header.num_merges);
  return QUIRE_OK;
}

}  // namespace quire::cpu
