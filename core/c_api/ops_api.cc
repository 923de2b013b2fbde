// quire/ops.h. Ops go straight to the driver's table: on success nothing is allocated here and the driver's words reach the caller as they
// are.
#include <cinttypes>

#include "core/c_api/handles.h"
#include "core/model/attention.h"
#include "core/model/model_layers.h"

namespace c_api = quire::c_api;
using quire::CountedOp;
using quire::Status;

namespace {

// Modules write whole structs only, and into an empty one.
quire_error* usable(quire_error* err) {
  if (err == nullptr || err->struct_size < sizeof(quire_error)) return nullptr;
  err->message[0] = '\0';
  err->native_code = 0;
  err->native_domain = 0;
  return err;
}

// Checks the arguments, then calls the driver.
template <bool kSerialized = true, typename Check, typename Call>
quire_code ask(quire_stream* stream, quire_error* err, Check&& check, Call&& call) noexcept {
  return c_api::guard_code(err, [&]() -> quire_code {
    Status status = c_api::check_handle(stream, "stream");
    if (status.ok()) status = check();
    if (!status.ok()) return status.write_to(err, c_api::kSource);
    const c_api::Alone entered(kSerialized ? stream : nullptr);
    status = entered.check("stream");
    if (!status.ok()) return status.write_to(err, c_api::kSource);
    quire_error* theirs = usable(err);
    return quire::finish_module_call(call(*stream->object, theirs), theirs, *stream->object);
  });
}

// The same for ops that are queued, which are counted.
template <typename Check, typename Call>
quire_code run(quire::CountedOp op, quire_stream* stream, quire_error* err, Check&& check, Call&& call) noexcept {
  return ask(stream, err, check, [&](const quire::Stream& s, quire_error* e) {
    const quire_code code = call(s, e);
    s.device().op_counts().add(op, code == QUIRE_OK);
    return code;
  });
}

// The op with its batch in structs of our own: the caller's are read once.
template <typename Op>
struct Owned {
  Op op;
  quire_batch batch;
};

// The cache that an op works on, by the name that messages give it.
struct CacheGroup {
  const char* name;
  uint32_t group;
};
CacheGroup cache_of(const quire_kv_append& op) { return {"op.kv.group", op.kv.group}; }
CacheGroup cache_of(const quire_attention& op) { return {"op.kv.group", op.kv.group}; }
template <typename Op>
CacheGroup cache_of(const Op& op) {
  return {"op.state.group", op.state.group};
}

// Before the arrays: those that a batch of another group has are not the ones that the op needs.
template <typename Op>
Status read_op(const Op* from, Owned<Op>* own) {
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(from, &own->op, "op"));
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(own->op.batch, &own->batch, "op.batch"));
  own->op.batch = &own->batch;
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->batch.flags, 0, "op.batch.flags"));
  const CacheGroup cache = cache_of(own->op);
  if (own->batch.group == cache.group) return {};
  return quire::invalid("op.batch.group is %u, %s is %u; an op takes the batch of its cache's group", own->batch.group, cache.name,
                        cache.group);
}

Status check_kv_append(const quire_kv_append* from, Owned<quire_kv_append>* into) {
  QUIRE_RETURN_IF_ERROR(read_op(from, into));
  const quire_kv_append* own = &into->op;
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->flags, 0, "op.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->key, "op.key"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->value, "op.value"));
  return c_api::check_array(into->batch.slots, into->batch.num_slots, "op.batch.slots");
}

Status check_attention(const quire_attention* from, Owned<quire_attention>* into) {
  QUIRE_RETURN_IF_ERROR(read_op(from, into));
  const quire_attention* own = &into->op;
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->flags, QUIRE_ATTENTION_CAUSAL | QUIRE_ATTENTION_BATCH_INVARIANT, "op.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->query, "op.query"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->out, "op.out"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->lse, "op.lse"));
  const quire_batch& batch = into->batch;
  QUIRE_RETURN_IF_ERROR(c_api::check_array(batch.table, batch.num_rows, "op.batch.table"));
  QUIRE_RETURN_IF_ERROR(c_api::check_array(batch.query_indptr, batch.num_rows, "op.batch.query_indptr"));
  QUIRE_RETURN_IF_ERROR(c_api::check_array(batch.kv_len, batch.num_rows, "op.batch.kv_len"));
  QUIRE_RETURN_IF_ERROR(c_api::check_array(own->plan, own->plan_bytes, "op.plan"));
  return c_api::check_array(own->workspace, own->workspace_bytes, "op.workspace");
}

Status check_merge(const quire_attention_merge* from, quire_attention_merge* own) {
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(from, own, "op"));
  QUIRE_RETURN_IF_ERROR(c_api::check_array(own->partial_out, own->num_parts, "op.partial_out"));
  QUIRE_RETURN_IF_ERROR(c_api::check_array(own->partial_lse, own->num_parts, "op.partial_lse"));
  for (uint32_t i = 0; i < own->num_parts; ++i) {
    QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->partial_out[i], "op.partial_out[]"));
    QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->partial_lse[i], "op.partial_lse[]"));
  }
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->out, "op.out"));
  return c_api::check_tensor(own->lse, "op.lse");
}

// Rows of the recurrences.
Status check_rows(const quire_batch& batch) {
  QUIRE_RETURN_IF_ERROR(c_api::check_array(batch.query_indptr, batch.num_rows, "op.batch.query_indptr"));
  QUIRE_RETURN_IF_ERROR(c_api::check_array(batch.state_read, batch.num_rows, "op.batch.state_read"));
  if (batch.state_write_indptr == nullptr) return c_api::check_array(batch.state_write, batch.num_rows, "op.batch.state_write");
  QUIRE_RETURN_IF_ERROR(c_api::check_array(batch.state_write_ends, batch.num_rows, "op.batch.state_write_ends"));
  return c_api::check_array(batch.kv_len, batch.num_rows, "op.batch.kv_len");
}

Status check_gated_delta(const quire_gated_delta* from, Owned<quire_gated_delta>* into) {
  QUIRE_RETURN_IF_ERROR(read_op(from, into));
  const quire_gated_delta* own = &into->op;
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->flags, QUIRE_GATED_DELTA_V_MAJOR | QUIRE_GATED_DELTA_L2NORM, "op.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_zero(own->reserved0, "op.reserved0"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->query, "op.query"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->key, "op.key"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->value, "op.value"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->gate, "op.gate"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->beta, "op.beta"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->out, "op.out"));
  return check_rows(into->batch);
}

Status check_conv1d(const quire_conv1d* from, Owned<quire_conv1d>* into) {
  QUIRE_RETURN_IF_ERROR(read_op(from, into));
  const quire_conv1d* own = &into->op;
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->flags, QUIRE_CONV1D_SILU, "op.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->input, "op.input"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->weight, "op.weight"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->bias, "op.bias"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->out, "op.out"));
  return check_rows(into->batch);
}

Status check_selective_scan(const quire_selective_scan* from, Owned<quire_selective_scan>* into) {
  QUIRE_RETURN_IF_ERROR(read_op(from, into));
  const quire_selective_scan* own = &into->op;
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->flags, QUIRE_SELECTIVE_SCAN_SOFTPLUS, "op.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->x, "op.x"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->dt, "op.dt"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->a, "op.a"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->b, "op.b"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->c, "op.c"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->skip, "op.skip"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->dt_bias, "op.dt_bias"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->z, "op.z"));
  QUIRE_RETURN_IF_ERROR(c_api::check_tensor(own->out, "op.out"));
  return check_rows(into->batch);
}

Status check_runs(const quire_copy_run* runs, uint64_t n) {
  QUIRE_RETURN_IF_ERROR(c_api::check_array(runs, n, "runs"));
  for (uint64_t i = 0; i < n; ++i) {
    if (runs[i].bytes != 0 && (runs[i].source == 0 || runs[i].destination == 0)) {
      return quire::invalid("runs[%" PRIu64 "]: %s is 0 with %" PRIu64 " bytes", i, runs[i].source == 0 ? "source" : "destination",
                            runs[i].bytes);
    }
  }
  return {};
}

}  // namespace

quire_code quire_memory_get_paged_kv(quire_memory* memory, uint32_t layer, uint32_t sub, quire_paged_kv* out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(memory, "memory"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    return memory->object->paged_kv(layer, sub, out);
  });
}

quire_code quire_memory_get_paged_state(quire_memory* memory, uint32_t layer, uint32_t sub, uint32_t tensor, quire_paged_state* out,
                                        quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(memory, "memory"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    return memory->object->paged_state(layer, sub, tensor, out);
  });
}

quire_code quire_attention_from_layer(const quire_layer* layer, quire_attention* op, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    quire_layer from{};
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(layer, &from, "layer"));
    QUIRE_RETURN_IF_ERROR(c_api::check_flags(from.flags, quire::kLayerFlags, "layer.flags"));
    QUIRE_RETURN_IF_ERROR(c_api::check_zero(from.reserved0, "layer.reserved0"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(op, "op"));
    return quire::describe_attention(from, op);
  });
}

quire_code quire_op_kv_append(quire_stream* stream, const quire_kv_append* op, quire_error* err) {
  Owned<quire_kv_append> own;
  return run(
      CountedOp::kKvAppend, stream, err, [&] { return check_kv_append(op, &own); },
      [&](const quire::Stream& s, quire_error* e) { return s.api().kv_append(s.get(), &own.op, e); });
}

quire_code quire_op_attention_workspace(quire_stream* stream, uint32_t max_rows, uint64_t max_query_tokens, uint64_t max_kv_len,
                                        uint32_t num_q_heads, uint32_t head_dim_v, uint64_t* plan_bytes, uint64_t* workspace_bytes,
                                        quire_error* err) {
  return ask<false>(
      stream, err,
      [&]() -> Status {
        QUIRE_RETURN_IF_ERROR(c_api::check_pointer(plan_bytes, "plan_bytes"));
        return c_api::check_pointer(workspace_bytes, "workspace_bytes");
      },
      [&](const quire::Stream& s, quire_error* e) {
        return s.api().attention_workspace(s.device().get(), max_rows, max_query_tokens, max_kv_len, num_q_heads, head_dim_v, plan_bytes,
                                           workspace_bytes, e);
      });
}

quire_code quire_op_attention_plan(quire_stream* stream, const quire_attention* op, void* plan, uint64_t plan_bytes, quire_error* err) {
  Owned<quire_attention> own;
  return ask<false>(
      stream, err,
      [&]() -> Status {
        QUIRE_RETURN_IF_ERROR(check_attention(op, &own));
        return c_api::check_array(plan, plan_bytes, "plan");
      },
      [&](const quire::Stream& s, quire_error* e) { return s.api().attention_plan(s.device().get(), &own.op, plan, plan_bytes, e); });
}

quire_code quire_op_attention(quire_stream* stream, const quire_attention* op, quire_error* err) {
  Owned<quire_attention> own;
  return run(
      CountedOp::kAttention, stream, err, [&] { return check_attention(op, &own); },
      [&](const quire::Stream& s, quire_error* e) { return s.api().attention(s.get(), &own.op, e); });
}

quire_code quire_op_attention_merge(quire_stream* stream, const quire_attention_merge* op, quire_error* err) {
  quire_attention_merge own;
  return run(
      CountedOp::kAttentionMerge, stream, err, [&] { return check_merge(op, &own); },
      [&](const quire::Stream& s, quire_error* e) { return s.api().attention_merge(s.get(), &own, e); });
}

quire_code quire_op_gated_delta(quire_stream* stream, const quire_gated_delta* op, quire_error* err) {
  Owned<quire_gated_delta> own;
  return run(
      CountedOp::kGatedDelta, stream, err, [&] { return check_gated_delta(op, &own); },
      [&](const quire::Stream& s, quire_error* e) { return s.api().gated_delta(s.get(), &own.op, e); });
}

quire_code quire_op_conv1d(quire_stream* stream, const quire_conv1d* op, quire_error* err) {
  Owned<quire_conv1d> own;
  return run(
      CountedOp::kConv1d, stream, err, [&] { return check_conv1d(op, &own); },
      [&](const quire::Stream& s, quire_error* e) { return s.api().conv1d(s.get(), &own.op, e); });
}

quire_code quire_op_selective_scan(quire_stream* stream, const quire_selective_scan* op, quire_error* err) {
  Owned<quire_selective_scan> own;
  return run(
      CountedOp::kSelectiveScan, stream, err, [&] { return check_selective_scan(op, &own); },
      [&](const quire::Stream& s, quire_error* e) { return s.api().selective_scan(s.get(), &own.op, e); });
}

quire_code quire_op_copy(quire_stream* stream, const quire_copy_run* runs, uint64_t n, quire_error* err) {
  return run(
      CountedOp::kCopy, stream, err, [&] { return check_runs(runs, n); },
      [&](const quire::Stream& s, quire_error* e) { return s.api().copy(s.get(), runs, n, e); });
}

quire_code quire_op_fill(quire_stream* stream, void* destination, uint8_t value, uint64_t bytes, quire_error* err) {
  return run(
      CountedOp::kFill, stream, err, [&] { return c_api::check_array(destination, bytes, "destination"); },
      [&](const quire::Stream& s, quire_error* e) { return s.api().fill(s.get(), destination, value, bytes, e); });
}
