#include "pass.h"

#include <algorithm>
#include <cmath>

#include "bf16.h"
#include "linear.h"
#include "lm_error.h"

namespace lm {
namespace {

constexpr quire_dtype kFp32{QUIRE_DTYPE_FLOAT, 32, 1};
constexpr quire_dtype kBf16{QUIRE_DTYPE_BFLOAT, 16, 1};

// A dense tensor over memory of this engine. Ops write only what they call out.
quire_tensor dense(const void* data, quire_dtype dtype, std::initializer_list<int64_t> shape) {
  quire_tensor t{};
  t.data = const_cast<void*>(data);
  t.dtype = dtype;
  t.device_type = QUIRE_DEVICE_CPU;
  t.ndim = static_cast<int32_t>(shape.size());
  size_t i = 0;
  for (const int64_t extent : shape) t.shape[i++] = extent;
  int64_t stride = dtype.bits / 8;
  while (i-- > 0) {
    t.stride[i] = stride;
    stride *= t.shape[i];
  }
  return t;
}

quire_tensor dense(const float* data, std::initializer_list<int64_t> shape) {
  return dense(data, kFp32, shape);
}

quire_tensor heads_of(const Matrix& m, int64_t width) {
  return dense(m.data.data(), {m.rows, m.width / width, width});
}
quire_tensor rows_of(const Matrix& m) { return dense(m.data.data(), {m.rows, m.width}); }
quire_tensor vector_of(std::span<const float> v) {
  if (v.empty()) return {};
  return dense(v.data(), {static_cast<int64_t>(v.size())});
}

bool is_bf16(const quire_paged_kv& kv) {
  return kv.dtype.code == kBf16.code && kv.dtype.bits == kBf16.bits;
}

}  // namespace

Pass::Pass(Kv& kv, const quire::StepView& step, std::span<const int32_t> ids,
           std::span<const Matrix* const> encoder_inputs)
    : kv_(kv), ids_(ids), encoder_inputs_(encoder_inputs) {
  kv.batch().fill(step);
  const auto groups = kv.batch().groups();
  batches_.assign(groups.begin(), groups.end());
  if (kv.tables_are_wrong()) make_wrong();
  kv.memory().prepare(step, kv.stream());
}

std::span<const int32_t> Pass::positions() const {
  return {batches_[0].positions, batches_[0].num_tokens};
}
std::span<const int32_t> Pass::indptr() const {
  return {batches_[0].query_indptr, batches_[0].num_rows + size_t{1}};
}

void Pass::make_wrong() {
  wrong_ids_.resize(batches_.size());
  for (size_t g = 0; g < batches_.size(); ++g) {
    quire_batch& b = batches_[g];
    std::vector<int32_t>& ids = wrong_ids_[g];
    if (b.table != nullptr) {
      ids.assign(b.table, b.table + b.num_columns * b.table_column_pitch);
      for (size_t row = 0; row + b.table_pitch <= ids.size() && b.table_pitch > 1;
           row += b.table_pitch) {
        for (size_t i = 0; i + 1 < b.table_pitch; ++i) ids[row + i] = ids[row + i + 1];
      }
      b.table = ids.data();
    } else if (b.state_read != nullptr) {
      ids.assign(b.num_columns * b.state_read_column_pitch, -1);
      b.state_read = ids.data();
    }
  }
}

Matrix Pass::attend(int64_t layer, const Matrix& query, const Matrix& key, const Matrix& value,
                    const Attend& how) const {
  return attend_in(kv_.attention_of(layer), query, key, &value, how);
}

Matrix Pass::attend_latent(int64_t layer, const Matrix& query, const Matrix& row,
                           const Attend& how) const {
  return attend_in(kv_.attention_of(layer), query, row, nullptr, how);
}

Matrix Pass::attend_cross(int64_t layer, const Matrix& query, const Matrix& key,
                          const Matrix& value, const Attend& how) const {
  return attend_in(kv_.cross_of(layer), query, key, &value, how);
}

int64_t Pass::encoder_rows(int64_t layer) const {
  const quire_layer& cache = kv_.cross_of(layer);
  const quire_layer_place place = kv_.config().place(cache.layer, cache.sub);
  return static_cast<int64_t>(batch_of(place.group).num_slots);
}

Matrix Pass::attend_in(const quire_layer& layer, const Matrix& query, const Matrix& key,
                       const Matrix* value, const Attend& how) const {
  const quire_paged_kv kv = kv_.memory().paged_kv(layer.layer, layer.sub);
  const quire_batch& batch = batch_of(kv.group);
  const int64_t width_k = kv.side[0].head_dim;
  quire_attention op = quire::attention_of(layer);
  const int64_t width_v = value != nullptr ? kv.side[1].head_dim : op.head_dim_v;
  if (query.width % width_k != 0 || key.width != int64_t{kv.num_heads} * width_k) {
    throw Error("layer " + std::to_string(layer.layer) + ": rows of " +
                std::to_string(query.width) + " and " + std::to_string(key.width) +
                " elements, the plan has " + std::to_string(kv.num_heads) + " heads of " +
                std::to_string(width_k));
  }
  if (batch.num_slots != 0 && layer.shares_with == 0) {
    auto append = quire::make<quire_kv_append>();
    append.kv = kv;
    append.batch = &batch;
    append.key = heads_of(key, width_k);
    if (value != nullptr) append.value = heads_of(*value, width_v);
    kv_.stream().kv_append(append);
  }
  Matrix out(query.rows, query.width / width_k * width_v);
  op.kv = kv;
  op.batch = &batch;
  op.scale = how.scale;
  op.sink_logits = how.sinks;
  if (has_bf16_products() && is_bf16(kv)) {
    attend_bf16(op, query, width_k, out, width_v);
    return out;
  }
  op.query = heads_of(query, width_k);
  op.out = heads_of(out, width_v);
  kv_.stream().attention(op);
  kv_.stream().synchronize();
  return out;
}

// Keys and values of bf16 on processors that multiply bf16: queries of bf16 make products of it,
// which are several times as fast.
void Pass::attend_bf16(quire_attention op, const Matrix& query, int64_t width_k, Matrix& out,
                       int64_t width_v) const {
  std::vector<uint16_t> narrow(query.data.size());
  std::vector<uint16_t> result(out.data.size());
  std::transform(query.data.begin(), query.data.end(), narrow.begin(), rounded);
  op.query = dense(narrow.data(), kBf16, {query.rows, query.width / width_k, width_k});
  op.out = dense(result.data(), kBf16, {out.rows, out.width / width_v, width_v});
  kv_.stream().attention(op);
  kv_.stream().synchronize();
  std::transform(result.begin(), result.end(), out.data.begin(), widened);
}

quire_paged_state Pass::state(const quire_layer& layer, uint32_t tensor) const {
  return kv_.memory().paged_state(layer.layer, layer.sub, tensor);
}

Matrix Pass::convolve(int64_t layer, const Matrix& input, const Convolve& how) const {
  auto op = quire::make<quire_conv1d>();
  op.state = state(kv_.state_of(layer), 0);
  op.batch = &batch_of(op.state.group);
  if (how.silu) op.flags |= QUIRE_CONV1D_SILU;
  Matrix out(input.rows, input.width);
  op.input = rows_of(input);
  op.weight = dense(how.weight.data(),
                    {input.width, static_cast<int64_t>(how.weight.size()) / input.width});
  op.bias = vector_of(how.bias);
  op.out = rows_of(out);
  kv_.stream().conv1d(op);
  kv_.stream().synchronize();
  return out;
}

Matrix Pass::delta(int64_t layer, const Delta& in) const {
  auto op = quire::make<quire_gated_delta>();
  op.state = state(kv_.state_of(layer), 1);  // [value heads, value width, key width]
  op.batch = &batch_of(op.state.group);
  op.flags = QUIRE_GATED_DELTA_V_MAJOR | (in.normalise ? QUIRE_GATED_DELTA_L2NORM : 0);
  const auto width_v = static_cast<int64_t>(op.state.shape[1]);
  const auto width_k = static_cast<int64_t>(op.state.shape[2]);
  Matrix out(in.value.rows, in.value.width);
  op.query = heads_of(in.query, width_k);
  op.key = heads_of(in.key, width_k);
  op.value = heads_of(in.value, width_v);
  op.gate = rows_of(in.gate);
  op.beta = rows_of(in.beta);
  op.out = heads_of(out, width_v);
  op.scale = in.scale;
  kv_.stream().gated_delta(op);
  kv_.stream().synchronize();
  return out;
}

Matrix Pass::scan(int64_t layer, const Scan& in) const {
  auto op = quire::make<quire_selective_scan>();
  op.state = state(kv_.state_of(layer), 1);
  op.batch = &batch_of(op.state.group);
  if (in.softplus) op.flags |= QUIRE_SELECTIVE_SCAN_SOFTPLUS;
  const int64_t heads = in.dt.width;
  const auto state_width = static_cast<int64_t>(op.state.shape[op.state.ndim - 1]);
  Matrix out(in.x.rows, in.x.width);
  op.x = heads_of(in.x, in.x.width / heads);
  op.dt = rows_of(in.dt);
  const auto a_size = static_cast<int64_t>(in.a.size());
  op.a = a_size == heads ? vector_of(in.a) : dense(in.a.data(), {heads, a_size / heads});
  op.b = heads_of(in.b, state_width);
  op.c = heads_of(in.c, state_width);
  op.skip = vector_of(in.skip);
  op.dt_bias = vector_of(in.dt_bias);
  op.out = heads_of(out, in.x.width / heads);
  op.dt_min = in.dt_min;
  op.dt_max = in.dt_max;
  kv_.stream().selective_scan(op);
  kv_.stream().synchronize();
  return out;
}

}  // namespace lm
