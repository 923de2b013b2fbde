#include "tests/stamps/taken_step.h"

#include <algorithm>
#include <cstring>

#include "tests/stamps/ledger.h"

namespace quire::stamps {
namespace {

void take_batches(const Plan& plan, uint32_t shard, const quire_step& step, ShardArrays* out) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_batch_options options = QUIRE_INIT(quire_batch_options);
  options.shard = shard;
  out->batches.assign(plan.groups.size(), QUIRE_INIT(quire_batch));
  must_call(quire_step_get_batch(step, &options, out->batches.data(), sizeof(quire_batch), out->batches.size(), &out->bytes, &err), err,
            "size of a batch");
  out->memory.assign((out->bytes + 15) / 16, {});
  options.memory = out->memory.data();
  options.bytes = out->bytes;
  must_call(quire_step_get_batch(step, &options, out->batches.data(), sizeof(quire_batch), out->batches.size(), &out->bytes, &err), err,
            "batch");
}

// Elements (column, i) of two arrays with column pitches.
template <typename T>
void same(const T* batch, uint64_t batch_pitch, const std::vector<T>& fill, uint64_t fill_pitch, uint64_t columns, uint64_t n) {
  for (uint64_t c = 0; c < columns; ++c) {
    for (uint64_t i = 0; i < n; ++i) {
      demand(batch[c * batch_pitch + i] == fill[c * fill_pitch + i], "a batch and a fill of one step differ");
    }
  }
}

template <typename T>
std::vector<T> filled(const quire_step& step, quire_fill_kind kind, uint32_t group, uint32_t shard, uint64_t pitch) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_fill fill = QUIRE_INIT(quire_fill);
  fill.kind = kind;
  fill.group = group;
  fill.shard = shard;
  fill.pitch = pitch;
  uint64_t needed = 0;
  std::vector<T> out(1);
  fill.destination = out.data();
  const quire_code code = quire_step_fill(step, &fill, sizeof fill, 1, &needed, &err);
  if (code != QUIRE_OUT_OF_RANGE && needed > 0) must_call(code, err, "size of a fill");
  out.assign(std::max<uint64_t>(needed, 1), T{});
  fill.destination = out.data();
  fill.capacity = needed;
  must_call(quire_step_fill(step, &fill, sizeof fill, 1, &needed, &err), err, "fill");
  return out;
}

void compare_tokens(const quire_step& step, const quire_batch& batch, uint32_t group, uint32_t shard) {
  const uint64_t rows = batch.num_rows;
  const auto table = filled<int32_t>(step, QUIRE_FILL_TABLE, group, shard, batch.table_pitch);
  same(batch.table, batch.table_column_pitch, table, rows * batch.table_pitch, batch.num_columns, rows * batch.table_pitch);
  const auto slots = filled<int64_t>(step, QUIRE_FILL_SLOTS, group, shard, batch.num_slots);
  same(batch.slots, batch.slots_column_pitch, slots, batch.num_slots, batch.num_columns, batch.num_slots);
  const auto lengths = filled<int32_t>(step, QUIRE_FILL_KV_LEN, group, shard, 0);
  same(batch.kv_len, 0, lengths, 0, 1, rows);
}

void compare_states(const quire_step& step, const quire_batch& batch, uint32_t group, uint32_t shard) {
  const uint64_t rows = batch.num_rows;
  const auto read = filled<int32_t>(step, QUIRE_FILL_STATE_READ, group, shard, rows);
  same(batch.state_read, batch.state_read_column_pitch, read, rows, batch.num_columns, rows);
  const auto indptr = filled<int32_t>(step, QUIRE_FILL_STATE_WRITE_INDPTR, group, shard, 0);
  const auto n = static_cast<uint64_t>(indptr[rows]);
  const auto writes = filled<int32_t>(step, QUIRE_FILL_STATE_WRITES, group, shard, n);
  demand(batch.state_write_indptr != nullptr || n == rows, "a batch lists one state for each row, the step has others");
  same(batch.state_write, batch.state_write_column_pitch, writes, n, batch.num_columns, n);
  if (batch.state_write_indptr == nullptr) return;
  same(batch.state_write_indptr, 0, indptr, 0, 1, rows + 1);
  const auto ends = filled<int32_t>(step, QUIRE_FILL_STATE_WRITE_ENDS, group, shard, 0);
  same(batch.state_write_ends, 0, ends, 0, 1, n);
}

}  // namespace

void take_arrays(const Plan& plan, TakenStep* taken) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_step_info info = QUIRE_INIT(quire_step_info);
  must_call(quire_step_get_info(taken->step, &info, &err), err, "info of a step");
  taken->shards.resize(plan.info.num_shards);
  for (uint32_t s = 0; s < plan.info.num_shards; ++s) take_batches(plan, s, taken->step, &taken->shards[s]);
  taken->copies.resize(info.num_copies);
  taken->zeroes.resize(info.num_zeroes);
  uint64_t count = 0;
  must_call(quire_step_list_copies(taken->step, taken->copies.data(), taken->copies.size(), &count, &err), err, "copies");
  demand(count == info.num_copies, "the number of copies");
  must_call(quire_step_list_zeroes(taken->step, taken->zeroes.data(), taken->zeroes.size(), &count, &err), err, "zeroes");
  demand(count == info.num_zeroes, "the number of zeroes");
}

void compare_fills(const Plan& plan, const TakenStep& taken, Dice& dice) {
  const auto group = static_cast<uint32_t>(dice.below(plan.groups.size()));
  const auto shard = static_cast<uint32_t>(dice.below(plan.info.num_shards));
  const quire_batch& batch = taken.shards[shard].batches[group];
  plan.groups[group].is_state != 0 ? compare_states(taken.step, batch, group, shard) : compare_tokens(taken.step, batch, group, shard);
}

void compare_takings(const TakenStep& one, const TakenStep& other) {
  demand(one.shards.size() == other.shards.size(), "followers: shards");
  for (size_t s = 0; s < one.shards.size(); ++s) {
    const ShardArrays &a = one.shards[s], &b = other.shards[s];
    demand(a.bytes == b.bytes && std::memcmp(a.memory.data(), b.memory.data(), a.bytes) == 0, "a follower's arrays are not the leader's");
  }
  const auto equal = [](const auto& a, const auto& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
  };
  demand(equal(one.copies, other.copies), "a follower's copies are not the leader's");
  demand(equal(one.zeroes, other.zeroes), "a follower's zeroes are not the leader's");
}

}  // namespace quire::stamps
